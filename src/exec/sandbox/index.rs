//! Git's index, read as git reads it (`read-cache.c`; the format is `gitformat-index` of its manual): what names are in it.
//! It is as large as who wrote it likes: of its names only the last one is kept.

/// An index has none that leads out of the work tree or into `.git`; git, which makes none, follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It has such a name.
    Name(Vec<u8>),
    /// It is none that git writes, or not to its end.
    Unreadable,
}

/// The first one, where the names of objects have so many bytes.
pub(super) fn flaw(bytes: &[u8], hash: usize) -> Option<Flaw> {
    let mut odd = None;
    let mut has_nameless = false;
    let is_split = read(bytes, hash, |entry| {
        has_nameless |= entry.name.is_empty();
        if odd.is_none() && !entry.name.is_empty() && entry.is_odd() {
            odd = Some(entry.name.to_owned());
        }
    });
    match is_split {
        None => Some(Flaw::Unreadable),
        // (A nameless one takes the place of one in the shared index, and has its name.)
        Some(false) if odd.is_none() && has_nameless => Some(Flaw::Name(Vec::new())),
        Some(_) => odd.map(Flaw::Name),
    }
}

/// A path with a part that a path in a work tree does not have.
pub(super) fn leads_elsewhere(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| {
        part.is_empty() || part == b"." || part == b".." || part.eq_ignore_ascii_case(b".git")
    })
}

struct Entry<'a> {
    name: &'a [u8],
    /// So many bytes of it are those of the name before.
    n_shared: usize,
    /// In a sparse index a folder stands for what is in it.
    is_folder: bool,
}

impl Entry<'_> {
    /// Where the name before was none. (What both begin with is not judged again: it can be long.)
    fn is_odd(&self) -> bool {
        let name = match self.name.strip_suffix(b"/") {
            Some(folder) if self.is_folder => folder,
            _ => self.name,
        };
        let shared = name.get(..self.n_shared).unwrap_or(name);
        // (No part that is odd is longer.)
        let near = shared.len().saturating_sub(LONGEST_ODD + 1);
        let slash = memchr::memrchr(b'/', &shared[near..]);
        let begin = slash.map_or(near, |slash| near + slash + 1);
        name.get(begin..).is_some_and(leads_elsewhere)
    }
}

/// Where an entry begins, which tables name.
struct Begin {
    at: u32,
    /// Its name is written without that of the one before.
    is_whole: bool,
}

/// Before the name of an object: times, device, inode, mode, owners, size.
const FACTS: usize = 40;
const MODE: std::ops::Range<usize> = 24..28;
const FOLDER: u32 = 0o040_000;
/// In the flags of an entry: there are more, and how long its name is (this long: up to its NUL).
const EXTENDED: u16 = 0x4000;
const LENGTH: u16 = 0x0fff;

/// `.git`
const LONGEST_ODD: usize = 4;

/// No path that a system takes is longer.
const LONGEST: usize = 4096;

/// Hands on its entries, and says whether what it lacks is in a shared one.
fn read(bytes: &[u8], hash: usize, mut each: impl FnMut(&Entry<'_>)) -> Option<bool> {
    let end = bytes.len().checked_sub(hash)?;
    let mut reader = Reader { bytes: bytes.get(..end)?, at: 0 };
    let is_one = reader.take(4)? == b"DIRC";
    let version = reader.number()?;
    if !is_one || !(2..=4).contains(&version) {
        return None;
    }
    let n_entries = reader.number()?;
    let (mut name, mut begins) = (Vec::new(), Vec::new());
    for _ in 0..n_entries {
        let at = u32::try_from(reader.at).ok()?;
        let (n_shared, is_folder) = reader.entry(version, hash, &mut name)?;
        begins.push(Begin { at, is_whole: n_shared == 0 });
        each(&Entry { name: &name, n_shared, is_folder });
    }
    reader.extensions(&begins, hash)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n_bytes)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4).and_then(number)
    }

    fn flags(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Of the name before makes its own, and says how much of it is the same, and whether it is a folder.
    fn entry(&mut self, version: u32, hash: usize, name: &mut Vec<u8>) -> Option<(usize, bool)> {
        let at = self.at;
        let mode = number(self.take(FACTS)?.get(MODE)?)?;
        self.take(hash)?;
        let flags = self.flags()?;
        if flags & EXTENDED != 0 {
            self.flags()?;
        }
        let n_shared = match version {
            4 => name.len().checked_sub(self.offset()?)?,
            _ => 0,
        };
        let rest = self.bytes.get(self.at..)?;
        let n_own = match flags & LENGTH {
            LENGTH => memchr::memchr(0, rest)?,
            length => usize::from(length).checked_sub(n_shared)?,
        };
        let own = self.take(n_own)?;
        // Its length, and the NUL behind it, by which git reads it at times, say the same.
        if n_shared + n_own > LONGEST || own.contains(&0) || self.take(1)? != [0] {
            return None;
        }
        if version < 4 {
            // (One to eight of them, so that the next one begins at a multiple of eight.)
            self.take((8 - (self.at - at) % 8) % 8)?;
        }
        name.truncate(n_shared);
        name.extend_from_slice(own);
        Some((n_shared, mode == FOLDER))
    }

    /// A number of any length, as packs have it.
    fn offset(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        loop {
            let byte = usize::from(*self.take(1)?.first()?);
            value = value.checked_mul(128)?.checked_add(byte & 127)?;
            if byte & 128 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }

    /// Whether one says that the index is split. By two of them git finds entries without reading those before, and has
    /// to find the same ones.
    fn extensions(&mut self, entries: &[Begin], hash: usize) -> Option<bool> {
        let begin = self.at;
        // Without reading the others git takes what stands here for one.
        let place_of_end = self.bytes.len().saturating_sub(8 + 4 + hash);
        let git_takes_end = self.bytes.get(place_of_end..)?.starts_with(b"EOIE");
        let (mut is_split, mut is_end_an_extension) = (false, false);
        while self.at < self.bytes.len() {
            let at = self.at;
            let name = self.take(4)?;
            let n_bytes = usize::try_from(self.number()?).ok()?;
            let data = self.take(n_bytes)?;
            match name {
                b"link" => is_split = true,
                b"EOIE" if usize::try_from(number(data)?).ok()? == begin => {
                    is_end_an_extension |= at == place_of_end;
                }
                b"IEOT" if is_table_of(entries, data)? => {}
                b"EOIE" | b"IEOT" => return None,
                _ => {}
            }
        }
        (is_end_an_extension || !git_takes_end).then_some(is_split)
    }
}

/// Of blocks of entries: where each begins, and how many it has.
fn is_table_of(entries: &[Begin], data: &[u8]) -> Option<bool> {
    let mut n_before = 0_usize;
    for block in data.get(4..)?.chunks(8) {
        let (at, n_entries) = (number(block)?, number(block.get(4..)?)?);
        let first = entries.get(n_before)?;
        if first.at != at || !first.is_whole {
            return Some(false);
        }
        n_before = n_before.checked_add(usize::try_from(n_entries).ok()?)?;
    }
    Some(n_before == entries.len())
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]
    #![expect(clippy::disallowed_methods, reason = "git itself is asked")]

    use std::fs;
    use std::io::Write as _;
    use std::path::Path;
    use std::process::Command;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    /// An index of version 2 with these names.
    fn index(names: &[&[u8]]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        for name in names {
            let begin = bytes.len();
            bytes.extend([0; FACTS + 20]);
            bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            bytes.extend(*name);
            bytes.push(0);
            while !(bytes.len() - begin).is_multiple_of(8) {
                bytes.push(0);
            }
        }
        bytes.extend([0; 20]);
        bytes
    }

    fn check(name: &str, is_odd: bool) {
        let bytes = index(&[b"before", name.as_bytes(), b"z"]);
        let expected = is_odd.then(|| Flaw::Name(name.as_bytes().to_vec()));
        assert_eq!(flaw(&bytes, 20), expected, "{name:?}");
    }

    #[test]
    fn names_that_lead_elsewhere_are_found() {
        for name in [
            "../.bashrc",
            "a/../../b",
            "/etc/x",
            ".git/config",
            "sub/.GIT/hooks/x",
            "a//b",
            "a/",
            "",
            "./a",
        ] {
            check(name, true);
        }
        for name in ["a", ".gitignore", "..a/b..", "a/...", "a b/\u{e9}\n", ".gitmodules", "x.git"]
        {
            check(name, false);
        }
        assert_eq!(flaw(&index(&[]), 20), None);
    }

    #[test]
    fn what_git_could_read_otherwise_is_none_of_its() {
        let good = index(&[b"a", b"bb"]);
        assert_eq!(flaw(&good, 20), None);
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            flaw(&bytes, 20)
        };
        let with = |extension: &[u8]| {
            let mut bytes = good.clone();
            let end = bytes.len() - 20;
            bytes.splice(end..end, extension.iter().copied());
            flaw(&bytes, 20)
        };
        let end = u8::try_from(good.len() - 20).unwrap();
        // Other versions, more entries than there are, a name that goes on behind its length.
        assert_eq!(changed(&|bytes| bytes[7] = 5), Some(Flaw::Unreadable));
        assert_eq!(changed(&|bytes| bytes[11] = 3), Some(Flaw::Unreadable));
        assert_eq!(changed(&|bytes| bytes[12 + 60 + 2 + 1] = b'b'), Some(Flaw::Unreadable));
        assert_eq!(changed(&|bytes| bytes.truncate(30)), Some(Flaw::Unreadable));
        // Where the entries end, and where blocks of them begin.
        let ends =
            |at: u8, rest: &[u8]| [b"EOIE\0\0\0\x18\0\0\0", &[at][..], &[0; 20], rest].concat();
        assert_eq!(with(&ends(end, &[])), None);
        assert_eq!(with(&ends(end - 8, &[])), Some(Flaw::Unreadable));
        assert_eq!(with(&[b"ZZZZ\0\0\0\x20", &ends(12, &[])[..]].concat()), Some(Flaw::Unreadable));
        let table = |at: u8| [b"IEOT\0\0\0\x0c\0\0\0\x01\0\0\0", &[at][..], b"\0\0\0\x02"].concat();
        assert_eq!(with(&table(12)), None);
        assert_eq!(with(&table(20)), Some(Flaw::Unreadable));
        assert_eq!(with(b"ZZZZ\0\0\x10\0"), Some(Flaw::Unreadable));
    }

    /// An index of version 4: what each name takes of the one before, and adds.
    fn short_index(first: &[u8], rest: &[u8], n_entries: u32) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x04".to_vec();
        bytes.extend(n_entries.to_be_bytes());
        for n in 0..n_entries {
            bytes.extend([0; FACTS + 20]);
            bytes.extend(LENGTH.to_be_bytes());
            bytes.push(0);
            bytes.extend(if n == 0 { first } else { rest });
            bytes.push(0);
        }
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn names_that_stand_for_much_take_no_memory() {
        // Each has all of the one before: whole they are 4 GB.
        let (mut n_names, bytes) = (0, short_index(&vec![b'a'; 500_000], b"", 8_000));
        assert_eq!(read(&bytes, 20, |_| n_names += 1), None);
        assert_eq!((n_names, flaw(&bytes, 20)), (0, Some(Flaw::Unreadable)));
        // What is as long as it may be is read, and grows no further.
        let bytes = short_index(&[b'a'; LONGEST], b"", 8_000);
        let mut names = std::collections::BTreeSet::new();
        assert_eq!(read(&bytes, 20, |entry| _ = names.insert(entry.name.to_owned())), Some(false));
        assert_eq!((names.len(), flaw(&bytes, 20)), (1, None));
        let growing = short_index(&[b'a'; LONGEST], b"a", 2);
        assert_eq!(flaw(&growing, 20), Some(Flaw::Unreadable));
    }

    #[test]
    fn what_a_name_has_of_the_one_before_counts_with_it() {
        for (first, rest, odd) in [
            ("a", "//x", Some("a//x")),
            ("a/b", "/", Some("a/b/")),
            (".gi", "t/config", Some(".git/config")),
            ("a/b", "/.GIT", Some("a/b/.GIT")),
            ("a/b", "c/d", None),
            ("a/b", "", None),
        ] {
            let bytes = short_index(first.as_bytes(), rest.as_bytes(), 2);
            let expected = odd.map(|name| Flaw::Name(name.as_bytes().to_vec()));
            assert_eq!(flaw(&bytes, 20), expected, "{first} {rest}");
        }
    }

    static HAS_GIT: LazyLock<bool> = LazyLock::new(|| {
        let has = Command::new("git").arg("--version").output().is_ok();
        if !has {
            // Not `eprintln`, which the test runner swallows.
            _ = std::io::stderr().write_all(b"SKIPPED: git's index: there is no git here\n");
        }
        has
    });

    fn git(folder: &Path, line: &str) -> Vec<u8> {
        let line = format!(
            "set -e; git() {{ command git -c core.fsync=none -c maintenance.auto=false \"$@\"; }}; {line}"
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &line])
            .current_dir(folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", folder);
        let done = bash.output().unwrap();
        assert!(done.status.success(), "{line} {done:?}");
        done.stdout
    }

    /// Its names, and whether it is split.
    fn collect(bytes: &[u8], hash: usize, names: &mut Vec<Vec<u8>>) -> bool {
        read(bytes, hash, |entry| names.push(entry.name.to_owned())).unwrap()
    }

    fn path() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            5 => "[a-d]{1,2}",
            1 => "[a-z\u{e9}\n ]{1,9}x",
            1 => "[ab]{100,200}",
        ];
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #[test]
        fn whatever_it_is_nothing_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            version in 2_u8..5,
            n_entries in 0_u8..4,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
        ) {
            flaw(&bytes, 20);
            flaw(&[b"DIRC\0\0\0", &[version, 0, 0, 0, n_entries][..], &bytes].concat(), 20);
            let mut near = index(&[b"a/b", b"a/c", b"dd"]);
            near[7] = version;
            for (at, byte) in changes {
                let at = at.index(near.len());
                near[at] = byte;
            }
            flaw(&near, 20);
            flaw(&near, 32);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn names_are_read_as_git_reads_them(
            paths in prop::collection::btree_set(path(), 0..12),
            version in 2_u8..5,
            format in prop::sample::select(&["sha1", "sha256"][..]),
            more in prop::sample::select(&[
                "true",
                "echo > new; git add -N new",
                "git config index.threads 2; git config index.version 4; git add -A",
                "git update-index --split-index; echo > zz; git add zz",
                "git commit -qm one; git update-index --untracked-cache; git status >&2",
                "git commit -qm one; git sparse-checkout init --cone --sparse-index; git sparse-checkout set --skip-checks a >&2",
            ][..]),
        ) {
            if !*HAS_GIT {
                return Ok(());
            }
            let folder = tempfile::tempdir().unwrap();
            git(folder.path(), &format!(
                "git init -q --object-format={format}; git config user.email a@b; git config user.name a; echo > 0; \
                 git config core.excludesFile /dev/null"
            ));
            for path in paths {
                let path = folder.path().join(path);
                _ = fs::create_dir_all(path.parent().unwrap());
                _ = fs::write(path, "");
            }
            git(folder.path(), &format!("git add -A; git update-index --index-version {version}; {more}"));
            let listed = git(folder.path(), "git ls-files -z --sparse");
            let listed: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
            let hash = if format == "sha1" { 20 } else { 32 };
            let bytes = fs::read(folder.path().join(".git/index")).unwrap();
            prop_assert_eq!(flaw(&bytes, hash), None);
            let mut names = Vec::new();
            if collect(&bytes, hash, &mut names) {
                // (Older ones stay for a while. Nothing was taken away since.)
                for entry in fs::read_dir(folder.path().join(".git")).unwrap().flatten() {
                    if entry.file_name().to_string_lossy().starts_with("sharedindex.") {
                        let shared = fs::read(entry.path()).unwrap();
                        prop_assert_eq!(flaw(&shared, hash), None);
                        collect(&shared, hash, &mut names);
                    }
                }
                names.retain(|name| !name.is_empty());
            }
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names, listed);
        }
    }
}
