//! What git makes nowhere in its own folders, and follows where somebody else did: links, names in its index that lead
//! out of the work tree, lines of a rebase that run something, worktrees that are none.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::git;
use super::index::{self, Flaw};
use super::{settings, watch};
use crate::disk::{self, SMALL, read_small, repository};

/// So many entries of each repository are looked at, with its modules and worktrees.
const MAX_ENTRIES: usize = 20_000;
/// Of an index that is larger nothing is read.
const LARGEST_INDEX: u64 = 256 << 20;
/// These may be many.
const LAST: &[&str] = &["refs", "logs", "lfs"];
/// What git-annex keeps there are contents, and many.
const NOT_LOOKED_INTO: &str = "annex";
/// What is told of a text.
const MOST_TOLD: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trap {
    /// A link, and where it leads.
    Link(PathBuf),
    /// An index with a name that leads out of the work tree, or into `.git`.
    Name(Vec<u8>),
    /// Something that git reads there is none that it writes, or too large.
    Unreadable,
    /// What a rebase that goes on will run.
    Runs(Vec<Vec<u8>>),
    /// Here a worktree is said to lie, and none does: `git worktree repair` makes it one.
    Worktree(PathBuf),
    /// There are more files than are looked at.
    TooMany,
}

impl Trap {
    /// In words, where it was not there before.
    pub(super) fn since(&self, before: Option<&Self>) -> Option<String> {
        if Some(self) == before {
            return None;
        }
        Some(match self {
            Self::Link(to) => format!("a link to {}", shown(to.as_os_str().as_bytes())),
            Self::Name(name) => format!("has the name {}", shown(name)),
            Self::Unreadable => "not as git writes it".to_owned(),
            Self::Runs(lines) => {
                let ran = match before {
                    Some(Self::Runs(ran)) => &ran[..],
                    _ => &[],
                };
                let new = lines.iter().find(|line| !ran.contains(line))?;
                format!("a rebase that goes on runs: {}", shown(new))
            }
            Self::Worktree(path) => {
                format!("names {}, which is no worktree of it", shown(path.as_os_str().as_bytes()))
            }
            Self::TooMany => {
                format!("has more than {MAX_ENTRIES} entries, of which the rest is not looked at")
            }
        })
    }
}

impl From<Flaw> for Trap {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Name(name) => Self::Name(name),
            Flaw::Unreadable => Self::Unreadable,
        }
    }
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().take(MOST_TOLD).flat_map(char::escape_debug).collect()
}

/// Indexes as they were read last. Of a large project one is large; it is read again when it was changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes(Arc<Mutex<BTreeMap<PathBuf, ReadIndex>>>);

#[derive(Clone, Debug)]
struct ReadIndex {
    seen: watch::Seen,
    /// How long the names of objects are.
    hash: usize,
    flaw: Option<Flaw>,
}

impl Indexes {
    fn flaw(&self, path: &Path, hash: usize) -> Option<Flaw> {
        let seen = watch::seen(&fs::symlink_metadata(path).ok()?);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = all.get(path).filter(|last| last.seen == seen && last.hash == hash) {
            return last.flaw.clone();
        }
        let flaw = match read_small(path, LARGEST_INDEX) {
            Ok(bytes) => index::flaw(&bytes, hash),
            Err(error) if disk::is_not_there(&error) => return None,
            Err(_) => Some(Flaw::Unreadable),
        };
        all.insert(path.to_owned(), ReadIndex { seen, hash, flaw: flaw.clone() });
        flaw
    }
}

/// What there is in a folder of git's own, with its modules and worktrees.
pub(super) fn find(own: &Path, indexes: &Indexes) -> BTreeMap<PathBuf, Trap> {
    let mut search =
        Search { own, indexes, next: VecDeque::from([own.to_owned()]), traps: BTreeMap::new() };
    let mut n_entries = 0;
    while let Some(folder) = search.next.pop_front() {
        n_entries += search.look_into(&folder, MAX_ENTRIES.saturating_sub(n_entries)).unwrap_or(0);
        if n_entries > MAX_ENTRIES {
            search.traps.insert(own.to_owned(), Trap::TooMany);
            break;
        }
    }
    search.traps
}

struct Search<'a> {
    own: &'a Path,
    indexes: &'a Indexes,
    next: VecDeque<PathBuf>,
    traps: BTreeMap<PathBuf, Trap>,
}

impl Search<'_> {
    /// How many entries count.
    fn look_into(&mut self, folder: &Path, most: usize) -> io::Result<usize> {
        let entries: Vec<DirEntry> = fs::read_dir(folder)?.flatten().take(most + 257).collect();
        let is_repository = entries.iter().any(|entry| entry.file_name() == "HEAD");
        let is_of_objects = folder.ends_with("objects")
            && folder.parent().is_some_and(|above| {
                above == self.own.join("lfs") || fs::symlink_metadata(above.join("HEAD")).is_ok()
            });
        let mut n_entries = 0;
        for entry in entries {
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && is_of_objects && is_fan_out(&name) && !path.join("HEAD").exists() {
                continue;
            }
            n_entries += 1;
            if n_entries > most {
                break;
            }
            let trap = if kind.is_symlink() {
                fs::read_link(&path).ok().map(Trap::Link)
            } else if kind.is_dir() {
                self.walk(folder, &name, path.clone());
                None
            } else {
                self.file(folder, &name, &path, is_repository)
            };
            if let Some(trap) = trap {
                self.traps.insert(path, trap);
            }
        }
        Ok(n_entries)
    }

    /// A repository may lie around worktrees: beside what is git's own lies what is the user's.
    fn walk(&mut self, folder: &Path, name: &OsStr, path: PathBuf) {
        let is = |names: &[&str]| names.iter().any(|other| name == *other);
        let is_gits = repository::is_one_of(&name.to_string_lossy(), &repository::ALL_FOLDERS);
        if folder == self.own && (!is_gits || name == NOT_LOOKED_INTO) {
            return;
        }
        if is(LAST) {
            self.next.push_back(path);
        } else {
            self.next.push_front(path);
        }
    }

    fn file(&self, folder: &Path, name: &OsStr, path: &Path, is_repository: bool) -> Option<Trap> {
        let is_index = name == "index" || name.as_bytes().starts_with(b"sharedindex.");
        if is_repository && is_index {
            return self.indexes.flaw(path, length_of_hash(folder)).map(Trap::from);
        }
        if name == "git-rebase-todo" {
            return match read_small(path, SMALL) {
                Ok(list) => Some(Trap::Runs(run_by(&list))),
                Err(error) if disk::is_not_there(&error) => None,
                Err(_) => Some(Trap::Unreadable),
            };
        }
        let is_of_worktree = folder.parent().is_some_and(|above| above.ends_with("worktrees"));
        if name == "gitdir" && is_repository && is_of_worktree {
            let named = git::name_in(path, b"")?;
            let is_one = git::name_in(&named, b"gitdir: ")
                .is_some_and(|own| own.canonicalize().ok() == folder.canonicalize().ok());
            let is_there = named.parent().is_some_and(Path::is_dir);
            return (is_there && !is_one).then_some(Trap::Worktree(named));
        }
        None
    }
}

/// Folders of objects by the first byte of their names: these can not be changed without being found.
fn is_fan_out(name: &OsStr) -> bool {
    name.len() == 2 && name.as_bytes().iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// As git looks for it: in the repository that this one shares its settings with.
fn length_of_hash(repository: &Path) -> usize {
    let common = git::name_in(&repository.join(settings::ELSEWHERE), b"");
    let config = common.unwrap_or_else(|| repository.to_owned()).join("config");
    let format = settings::path(&config, "extensions.objectformat");
    if format.is_some_and(|format| format.as_os_str() == "sha256") { 32 } else { 20 }
}

/// Lines of a rebase's list that run something (`exec`, `x`).
fn run_by(list: &[u8]) -> Vec<Vec<u8>> {
    let lines = list.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let runs = |line: &&[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next();
        word == Some(b"exec") || word == Some(b"x")
    };
    lines.filter(runs).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn what_is_none_of_gits_is_not_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        write(&own.join("HEAD"), b"");
        for (link, is_told) in [
            // Objects by their names, what programs around git keep, and worktrees of the user's.
            ("objects/ab/link", false),
            ("lfs/objects/0f/link", false),
            ("annex/objects/link", false),
            ("tree/link", false),
            ("objects/ab0/link", true),
            ("objects/pack/link", true),
            ("link", true),
            // Modules that are called like objects.
            ("modules/objects/ab/link", true),
            ("modules/x/objects/cd/modules/link", true),
        ] {
            let path = own.join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink("x", &path).unwrap();
            let is_found = find(own, &Indexes::default()).contains_key(&path);
            assert_eq!(is_found, is_told, "{link}");
        }
        // (In a repository they are objects, unless they are one themselves.)
        write(&own.join("modules/x/HEAD"), b"");
        let hidden = own.join("modules/x/objects/cd/modules/link");
        assert!(!find(own, &Indexes::default()).contains_key(&hidden));
        write(&own.join("modules/x/objects/cd/HEAD"), b"");
        assert!(find(own, &Indexes::default()).contains_key(&hidden));
        // A branch of this name is no index.
        write(&own.join("refs/heads/index"), b"0123\n");
        assert!(!find(own, &Indexes::default()).contains_key(&own.join("refs/heads/index")));
    }

    #[test]
    fn an_index_is_read_again_when_it_was_changed_or_other_hashes_count() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        let (indexes, path) = (Indexes::default(), own.join("index"));
        let found = || find(own, &indexes).remove(&path);
        write(&own.join("HEAD"), b"");
        let empty = |hash: usize| [&b"DIRC\0\0\0\x02\0\0\0\0"[..], &vec![0; hash]].concat();
        write(&path, &empty(20));
        assert_eq!(found(), None);
        write(&path, &empty(32));
        assert_eq!(found(), Some(Trap::Unreadable));
        write(&own.join("config"), b"[extensions]\nobjectFormat = sha256\n");
        assert_eq!(found(), None);
        write(&path, b"x");
        assert_eq!(found(), Some(Trap::Unreadable));
        fs::remove_file(&path).unwrap();
        assert_eq!(found(), None);
    }

    #[test]
    fn more_than_are_looked_at_hide_nothing_untold() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        write(&own.join("HEAD"), b"");
        fs::create_dir_all(own.join("refs/tags")).unwrap();
        for n in 0..MAX_ENTRIES {
            fs::write(own.join(format!("refs/tags/{n}")), "").unwrap();
        }
        symlink("x", own.join("FETCH_HEAD")).unwrap();
        let found = find(own, &Indexes::default());
        assert_eq!(found.get(own), Some(&Trap::TooMany));
        assert_eq!(found.get(&own.join("FETCH_HEAD")), Some(&Trap::Link("x".into())));
    }
}
