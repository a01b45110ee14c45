//! Opens resolved paths: a symlink in one was created since then, and would lead elsewhere.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::{Errno, Result};

/// Opens a path. A link gives `LOOP`, unless it is the last component and the flags contain `NOFOLLOW`: then
/// the link itself is opened.
pub fn open(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    open_with_mode(path, flags, Mode::empty())
}

/// Opens a path below an open folder; fails if the system lacks `openat2`.
pub fn open_below(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// The mode is that of a file that is created; the flags must contain `NOFOLLOW` then.
pub(super) fn open_with_mode(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // Old kernels and some containers do not have it.
        Err(Errno::NOSYS | Errno::PERM) => open_by_components(path, flags, mode),
        opened => opened,
    }
}

/// Each folder is held open while the next is opened.
fn open_by_components(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let names: Vec<&OsStr> = path.components().map(Component::as_os_str).collect();
    let (last, folders) = names.split_last().ok_or(Errno::NOENT)?;
    let mut folder = None;
    for name in folders {
        folder =
            Some(open_component(folder.as_ref().map_or(CWD, OwnedFd::as_fd), name, on_the_way)?);
    }
    let folder = folder.as_ref().map_or(CWD, OwnedFd::as_fd);
    if flags.contains(OFlags::NOFOLLOW) {
        return openat(folder, *last, flags, mode);
    }
    open_component(folder, last, flags)
}

fn open_component(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
    let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    match openat(folder, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
        // The system reports this for a link in place of a folder.
        Err(Errno::NOTDIR)
            if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link) =>
        {
            Err(Errno::LOOP)
        }
        // (`PATH` opens the link itself.)
        Ok(opened) if is_link(fstat(&opened)?) => Err(Errno::LOOP),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn symlinks_are_not_followed_with_or_without_openat2() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("a/b")).expect("made");
        fs::write(root.join("a/b/file"), "x").expect("made");
        for (to, link) in
            [("a", "link"), ("b", "a/link"), ("file", "a/b/link"), ("gone", "nowhere")]
        {
            symlink(to, root.join(link)).expect("made");
        }
        let folder = OFlags::PATH | OFlags::DIRECTORY;
        let itself = OFlags::PATH | OFlags::NOFOLLOW;
        for (path, flags, expected) in [
            ("a/b/file", OFlags::RDONLY, Ok(FileType::RegularFile)),
            ("a/./b//file", OFlags::RDONLY, Ok(FileType::RegularFile)),
            ("a/b/../b", folder, Ok(FileType::Directory)),
            ("a/b/", folder, Ok(FileType::Directory)),
            ("", folder, Ok(FileType::Directory)),
            ("a/b/file", folder, Err(Errno::NOTDIR)),
            ("a/b/file/x", itself, Err(Errno::NOTDIR)),
            ("a/c", folder, Err(Errno::NOENT)),
            ("a/c/d", itself, Err(Errno::NOENT)),
            // As the last component …
            ("a/b/link", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/b/link", OFlags::PATH, Err(Errno::LOOP)),
            ("a/link", folder, Err(Errno::LOOP)),
            ("a/link", OFlags::RDONLY | OFlags::DIRECTORY, Err(Errno::LOOP)),
            ("a/link/", folder, Err(Errno::LOOP)),
            ("nowhere", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/link", itself, Ok(FileType::Symlink)),
            ("nowhere", itself, Ok(FileType::Symlink)),
            // … and as an inner one.
            ("link/b", folder, Err(Errno::LOOP)),
            ("link/b/file", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/link/file", itself, Err(Errno::LOOP)),
            ("a/link/../b", itself, Err(Errno::LOOP)),
            ("nowhere/x", itself, Err(Errno::LOOP)),
        ] {
            let kind = |opened: Result<OwnedFd>| {
                opened.and_then(fstat).map(|stat| FileType::from_raw_mode(stat.st_mode))
            };
            let full = root.join(path);
            assert_eq!(kind(open(&full, flags)), expected, "{path} {flags:?}");
            let flags = flags | OFlags::CLOEXEC;
            assert_eq!(
                kind(open_by_components(&full, flags, Mode::empty())),
                expected,
                "step by step: {path} {flags:?}"
            );
        }
        assert_eq!(
            open_by_components(Path::new(""), folder, Mode::empty()).expect_err("no path"),
            Errno::NOENT
        );
        assert!(
            open_by_components(Path::new("src"), folder, Mode::empty()).is_ok(),
            "a relative path"
        );
        assert!(open_by_components(Path::new("/"), folder, Mode::empty()).is_ok());
    }
}
