//! Where on this disk git sends to: how it reads the name of a remote that is a path.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::disk::{SMALL, read_small};

/// The path that this address of a repository is; none where it lies in a network. (`connect.c`, `url.c`)
pub(super) fn on_disk(address: &[u8]) -> Option<PathBuf> {
    const FILE: &[u8] = b"file://";
    let path = match address.get(..FILE.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(FILE) => {
            // Whatever host stands before it.
            let rest = &address[FILE.len()..];
            let begin = rest.iter().position(|byte| *byte == b'/')?;
            decoded(&rest[begin..])
        }
        _ if is_remote(address) => return None,
        _ => address.to_owned(),
    };
    let path = PathBuf::from(OsString::from_vec(path));
    match path.strip_prefix("~") {
        Ok(below) => Some(std::env::home_dir()?.join(below)),
        Err(_) => Some(path),
    }
}

/// `host:path`, or `scheme://host/path`.
fn is_remote(address: &[u8]) -> bool {
    address.iter().find(|byte| matches!(byte, b':' | b'/')) == Some(&b':')
}

/// With what `%2e` and its kin stand for.
fn decoded(url: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(url.len());
    let mut rest = url;
    while let [first, behind @ ..] = rest {
        let byte = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        path.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    path
}

/// Where git looks for a repository that was named so (`enter_repo` in `path.c`).
pub(super) fn repositories(path: &Path) -> [PathBuf; 4] {
    ["/.git", "", ".git/.git", ".git"].map(|ending| {
        let mut path = path.as_os_str().to_owned();
        path.push(ending);
        path.into()
    })
}

/// It is seen from the home of somebody by his name (`~name/x`).
pub(super) fn is_of_a_user(address: &[u8]) -> bool {
    address.starts_with(b"~") && address.get(1).is_some_and(|next| *next != b'/')
}

/// What a repository says of others that it knows.
#[derive(Default)]
pub(super) struct Remotes {
    pub(super) names: BTreeSet<Vec<u8>>,
    /// What may be the address of one.
    pub(super) addresses: BTreeSet<Vec<u8>>,
}

impl Remotes {
    /// In the files by which git knew its remotes before it had settings.
    pub(super) fn of_old(&mut self, repository: &Path) {
        for folder in ["remotes", "branches"].map(|name| repository.join(name)) {
            for file in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(text) = read_small(&file.path(), SMALL) else { continue };
                self.names.insert(file.file_name().into_vec());
                self.addresses.extend(text.split(|byte| *byte == b'\n').map(|line| {
                    let line = line.strip_prefix(b"URL:").unwrap_or(line).trim_ascii();
                    // `address#branch`
                    line.split(|byte| *byte == b'#').next().unwrap_or_default().to_owned()
                }));
            }
        }
        self.addresses.remove(&b""[..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_this_disk_is_a_path() {
        for (address, path) in [
            ("evil", "evil"),
            ("../x/evil.git", "../x/evil.git"),
            ("./a:b", "./a:b"),
            ("/a b", "/a b"),
            ("file:///a/%2e%2E/b%20c", "/a/../b c"),
            ("FILE://localhost/x", "/x"),
            ("file:///a%zz%2", "/a%zz%2"),
        ] {
            assert_eq!(on_disk(address.as_bytes()), Some(path.into()), "{address}");
        }
        for address in ["https://x/y", "git@host:x/y", "host:x", "ext::sh -c x", "file://x"] {
            assert_eq!(on_disk(address.as_bytes()), None, "{address}");
        }
        let home = std::env::home_dir().unwrap_or_default();
        assert_eq!(on_disk(b"~/x"), Some(home.join("x")));
        assert_eq!(on_disk(b"~somebody/x"), Some("~somebody/x".into()));
    }
}
