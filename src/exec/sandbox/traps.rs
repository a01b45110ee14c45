//! What git makes nowhere in its own folders, and follows where somebody else did: links, names in its index that lead
//! out of the work tree, what a rebase that goes on runs, worktrees that are none, a repository that is none any more.

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
/// In a repository: what may be many. That they are too many is not told: of git's own there are.
const LAST: &[&str] = &["refs", "logs", "lfs"];
/// What git-annex keeps there are contents, and many.
const NOT_LOOKED_INTO: &str = "annex";
/// Ways to merge that are git's own. For another one it runs `git-merge-NAME`.
const STRATEGIES: &[&[u8]] = &[b"octopus", b"ort", b"ours", b"recursive", b"resolve", b"subtree"];
/// What these know as options (`-X`). One of them, a script, hands on any to `git read-tree`, which writes files.
const OF_STRATEGIES: &[&[u8]] = &[
    b"diff-algorithm=",
    b"find-renames",
    b"histogram",
    b"ignore-",
    b"no-renames",
    b"no-renormalize",
    b"ours",
    b"patience",
    b"rename-threshold=",
    b"renormalize",
    b"subtree",
    b"theirs",
];
/// What `git am` hands on to `git apply`. That one has an option to write a file, too.
const HANDED_ON: &[&[u8]] = &[
    b"--directory",
    b"--exclude",
    b"--ignore-space-change",
    b"--ignore-whitespace",
    b"--include",
    b"--no-",
    b"--reject",
    b"--whitespace",
    b"-C",
    b"-p",
];
/// What is told of a text.
const MOST_TOLD: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trap {
    /// A link, and where it leads.
    Link(PathBuf),
    /// A name (in an index, in what `rerere` writes, in a list of tables of refs) that leads out of the work tree, or into `.git`.
    Name(Vec<u8>),
    /// Something that git reads there is none that it writes, or too large.
    Unreadable,
    /// What a rebase, a merge or the like will run, or write elsewhere, when it goes on.
    GoesOn(Vec<Vec<u8>>),
    /// Here a worktree is said to lie, and none does: `git worktree repair` makes it one.
    Worktree(PathBuf),
    /// Without it git finds no repository here, and perhaps one that lies around it.
    NoRepository,
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
            Self::GoesOn(with) => {
                let known = match before {
                    Some(Self::GoesOn(known)) => &known[..],
                    _ => &[],
                };
                let new = with.iter().find(|one| !known.contains(one))?;
                format!("git goes on with: {}", shown(new))
            }
            Self::Worktree(path) => {
                format!("names {}, which is no worktree of it", shown(path.as_os_str().as_bytes()))
            }
            Self::NoRepository => "here git finds no repository now".to_owned(),
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
    let first = Folder { path: own.to_owned(), is_last: false };
    let mut search = Search { own, indexes, next: VecDeque::from([first]), traps: BTreeMap::new() };
    search.traps.extend(lacks(own).map(|path| (path, Trap::NoRepository)));
    let mut n_entries = 0;
    while let Some(folder) = search.next.pop_front() {
        n_entries += search.look_into(&folder, MAX_ENTRIES.saturating_sub(n_entries)).unwrap_or(0);
        if n_entries > MAX_ENTRIES {
            if !folder.is_last {
                search.traps.insert(own.to_owned(), Trap::TooMany);
            }
            break;
        }
    }
    search.traps
}

struct Folder {
    path: PathBuf,
    /// It is one of those that may be many, or lies in one.
    is_last: bool,
}

struct Search<'a> {
    own: &'a Path,
    indexes: &'a Indexes,
    /// Those that may be many come behind all others.
    next: VecDeque<Folder>,
    traps: BTreeMap<PathBuf, Trap>,
}

impl Search<'_> {
    /// How many entries count.
    fn look_into(&mut self, looked: &Folder, most: usize) -> io::Result<usize> {
        let folder = &looked.path;
        let entries: Vec<DirEntry> = fs::read_dir(folder)?.flatten().take(most + 257).collect();
        let is_repository =
            folder == self.own || entries.iter().any(|entry| entry.file_name() == "HEAD");
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
                let is_last = looked.is_last || is_repository && is(&name, LAST);
                self.walk(folder, &name, Folder { path: path.clone(), is_last });
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
    fn walk(&mut self, above: &Path, name: &OsStr, folder: Folder) {
        let is_gits = repository::is_one_of(&name.to_string_lossy(), &repository::ALL_FOLDERS);
        if above == self.own && (!is_gits || name == NOT_LOOKED_INTO) {
            return;
        }
        if folder.is_last {
            self.next.push_back(folder);
        } else {
            self.next.push_front(folder);
        }
    }

    fn file(&self, folder: &Path, name: &OsStr, path: &Path, is_repository: bool) -> Option<Trap> {
        let is_index = name == "index" || name.as_bytes().starts_with(b"sharedindex.");
        if is_repository && is_index {
            return self.indexes.flaw(path, length_of_hash(folder)).map(Trap::from);
        }
        if is_repository && name == "MERGE_RR" {
            return read(path, |list| written_by_rerere(list).map(Trap::Name));
        }
        if name == "tables.list" && folder.ends_with("reftable") {
            return read(path, |list| table_elsewhere(list).map(Trap::Name));
        }
        let is_of_worktree = folder.parent().is_some_and(|above| above.ends_with("worktrees"));
        if name == "gitdir" && is_repository && is_of_worktree {
            let named = git::name_in(path, b"")?;
            let is_one = git::name_in(&named, b"gitdir: ")
                .is_some_and(|own| own.canonicalize().ok() == folder.canonicalize().ok());
            let is_there = named.parent().is_some_and(Path::is_dir);
            return (is_there && !is_one).then_some(Trap::Worktree(named));
        }
        let with = match (folder.file_name()?.to_str()?, name.to_str()?) {
            ("rebase-merge", "git-rebase-todo") => run_by,
            ("rebase-merge" | "rebase-apply", "strategy") => strategy,
            ("rebase-apply", "apply-opt") => handed_on,
            ("rebase-merge" | "rebase-apply", "strategy_opts") => of_strategy,
            ("sequencer", "opts") => picks_with,
            _ => return None,
        };
        read(path, |text| Some(with(text)).filter(|with| !with.is_empty()).map(Trap::GoesOn))
    }
}

fn is(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|other| name == *other)
}

/// What git needs to take a folder for a repository, where that is not in it.
fn lacks(own: &Path) -> impl Iterator<Item = PathBuf> {
    let is_there = own.is_dir();
    // Of a worktree all goes, and of a repository with the folder that it is in.
    let is_gone = !is_there
        && own.ends_with(".git")
        && own.parent().is_some_and(Path::is_dir)
        && fs::symlink_metadata(own).is_err_and(|error| disk::is_not_there(&error));
    let has_its_own = !own.join(settings::ELSEWHERE).exists();
    let folders = ["objects", "refs"].map(|name| own.join(name));
    let folders = folders.into_iter().filter(move |path| has_its_own && !path.is_dir());
    let head = Some(own.join("HEAD")).filter(|_| !repository::has_head(own));
    let inner = head.into_iter().chain(folders).filter(move |_| is_there);
    is_gone.then(|| own.to_owned()).into_iter().chain(inner)
}

fn read(path: &Path, trap: impl FnOnce(&[u8]) -> Option<Trap>) -> Option<Trap> {
    match read_small(path, SMALL) {
        Ok(text) => trap(&text),
        Err(error) if disk::is_not_there(&error) => None,
        Err(_) => Some(Trap::Unreadable),
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

/// A strategy that is a program.
fn strategy(text: &[u8]) -> Vec<Vec<u8>> {
    let name = text.strip_suffix(b"\n").unwrap_or(text);
    let name = name.strip_suffix(b"\r").unwrap_or(name);
    if STRATEGIES.contains(&name) { Vec::new() } else { vec![[b"git merge-", name].concat()] }
}

/// Options for a strategy that none of git's own knows, however they are quoted.
fn of_strategy(text: &[u8]) -> Vec<Vec<u8>> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let others = words.filter(|word| {
        let begin = word.iter().position(|byte| !matches!(byte, b'-' | b'\'' | b'"'));
        let name = begin.and_then(|at| word.get(at..)).unwrap_or_default();
        !OF_STRATEGIES.iter().any(|own| name.starts_with(own))
    });
    others.map(<[u8]>::to_vec).collect()
}

/// What a cherry-pick or a revert of several commits was told.
fn picks_with(opts: &[u8]) -> Vec<Vec<u8>> {
    let strategy = settings::values(opts, "options.strategy").pop().map(|name| strategy(&name));
    let options = settings::values(opts, "options.strategy-option");
    strategy.into_iter().chain(options.iter().map(|it| of_strategy(it))).flatten().collect()
}

/// Options, each in quotes, of which none but its own are `git am`'s. (Where one begins, git reads no other way.)
fn handed_on(text: &[u8]) -> Vec<Vec<u8>> {
    let begins = memchr::memmem::find_iter(text, b"'-").map(|at| text.split_at(at + 1).1);
    let others = begins.filter(|option| !HANDED_ON.iter().any(|own| option.starts_with(own)));
    others.filter_map(|it| it.split(|byte| *byte == b'\'').next()).map(<[u8]>::to_vec).collect()
}

/// The first table of refs that is said to lie elsewhere: git takes away those that it has put together.
fn table_elsewhere(list: &[u8]) -> Option<Vec<u8>> {
    list.split(|byte| *byte == b'\n').find(|name| name.contains(&b'/')).map(<[u8]>::to_vec)
}

/// The first path that leads elsewhere in `MERGE_RR`: git writes there how a conflict was resolved before.
fn written_by_rerere(list: &[u8]) -> Option<Vec<u8>> {
    let mut paths = list.split(|byte| *byte == 0).filter_map(|line| {
        let tab = memchr::memchr(b'\t', line)?;
        line.get(tab + 1..)
    });
    paths.find(|path| index::leads_elsewhere(path)).map(<[u8]>::to_vec)
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

    /// A repository as git makes it, with many refs.
    fn repository(own: &Path, n_refs: usize) {
        write(&own.join("HEAD"), b"ref: refs/heads/main\n");
        fs::create_dir_all(own.join("objects")).unwrap();
        fs::create_dir_all(own.join("refs/tags")).unwrap();
        for n in 0..n_refs {
            fs::write(own.join(format!("refs/tags/{n}")), "").unwrap();
        }
    }

    #[test]
    fn more_than_are_looked_at_hide_nothing_untold() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        repository(own, 0);
        for n in 0..MAX_ENTRIES {
            fs::create_dir_all(own.join("worktrees/refs")).unwrap();
            fs::write(own.join(format!("worktrees/refs/{n}")), "").unwrap();
        }
        symlink("x", own.join("FETCH_HEAD")).unwrap();
        let found = find(own, &Indexes::default());
        assert_eq!(found.get(own), Some(&Trap::TooMany));
        assert_eq!(found.get(&own.join("FETCH_HEAD")), Some(&Trap::Link("x".into())));
    }

    #[test]
    fn refs_may_be_many_and_hide_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        repository(own, MAX_ENTRIES);
        assert_eq!(find(own, &Indexes::default()), BTreeMap::new());
        for link in ["FETCH_HEAD", "logs/HEAD", "worktrees/refs/logs", "modules/a/refs/x"] {
            let path = own.join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink("x", &path).unwrap();
            let found = find(own, &Indexes::default());
            assert_eq!(found, BTreeMap::from([(path.clone(), Trap::Link("x".into()))]), "{link}");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_git_takes_for_no_repository_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(".git");
        let found = || find(&own, &Indexes::default()).into_keys().collect::<Vec<_>>();
        assert_eq!(found(), vec![own.clone()]);
        repository(&own, 0);
        let head = own.join("HEAD");
        let hash = "0123456789abcdefABCDEF0123456789abcdef01";
        let far = format!("ref:{}refs/heads/main", " ".repeat(250));
        for (text, is_one) in [
            ("ref: refs/heads/main\n", true),
            ("ref:refs/heads/.invalid", true),
            ("ref: \t\nrefs/x", true),
            (hash, true),
            ("", false),
            ("ref: heads/main\n", false),
            ("Ref: refs/heads/main\n", false),
            ("0123456789abcdef\n", false),
            (&far, false),
        ] {
            fs::write(&head, text).unwrap();
            assert_eq!(found(), Vec::from_iter((!is_one).then(|| head.clone())), "{text:?}");
        }
        fs::remove_file(&head).unwrap();
        assert_eq!(found(), vec![head.clone()]);
        fs::write(&head, hash).unwrap();
        for name in ["objects", "refs"] {
            fs::rename(own.join(name), own.join("x")).unwrap();
            assert_eq!(found(), [own.join(name)]);
            // A worktree has them elsewhere.
            fs::write(own.join("commondir"), "../..\n").unwrap();
            assert_eq!(found(), Vec::<PathBuf>::new());
            fs::remove_file(own.join("commondir")).unwrap();
            fs::rename(own.join("x"), own.join(name)).unwrap();
        }
    }

    #[test]
    fn what_git_goes_on_with_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        repository(own, 0);
        let merge = |name: &str| Some(Trap::GoesOn(vec![format!("git merge-{name}").into()]));
        let with = |text: &str| Some(Trap::GoesOn(vec![text.into()]));
        let name = |name: &str| Some(Trap::Name(name.into()));
        let hash = "0123456789abcdef0123456789abcdef01234567";
        for (file, text, expected) in [
            ("rebase-merge/git-rebase-todo", "pick 1 x\n exec a\n", with("exec a")),
            ("rebase-merge/git-rebase-todo", "pick 1 exec a\nexecute\n", None),
            ("rebase-merge/strategy", "evil\n", merge("evil")),
            ("rebase-merge/strategy", "ort\n\n", merge("ort\n")),
            ("rebase-apply/strategy", "../x", merge("../x")),
            ("rebase-apply/strategy", "recursive\n", None),
            ("rebase-merge/strategy", "ort\r\n", None),
            ("sequencer/opts", "[options]\n\tStrategy = one-file\n", merge("one-file")),
            ("sequencer/opts", "[options]\nstrategy = x\nstrategy = ours\n", None),
            (
                "sequencer/opts",
                "[options]\nstrategy-option = index-output=x\n",
                with("index-output=x"),
            ),
            (
                "sequencer/opts",
                "[options]\nstrategy-option = ours\nstrategy-option = subtree=a\n",
                None,
            ),
            (
                "rebase-merge/strategy_opts",
                " '--ours' '--index-output=../x'",
                with("'--index-output=../x'"),
            ),
            ("rebase-apply/strategy_opts", "\"--subtree=a --i=x\"", with("--i=x\"")),
            ("rebase-merge/strategy_opts", " \"--find-renames=30%\" \"--theirs\"\n", None),
            ("rebase-merge/strategy_opts", "--no-renames --ignore-all-space", None),
            (
                "rebase-apply/apply-opt",
                " '--build-fake-ancestor=x'",
                with("--build-fake-ancestor=x"),
            ),
            ("rebase-apply/apply-opt", "'--directory=a'\t'--b' '../x'", with("--b")),
            ("rebase-apply/apply-opt", "'--index-info' '-C3'", with("--index-info")),
            (
                "rebase-apply/apply-opt",
                " '--whitespace=fix' '-C3' '-p1' '--directory=a'\\''s'\n",
                None,
            ),
            ("rebase-apply/apply-opt", "\n", None),
            ("MERGE_RR", &format!("{hash}\tsrc/a\0{hash}.1\t../x\0"), name("../x")),
            ("MERGE_RR", &format!("{hash}\t/x"), name("/x")),
            ("MERGE_RR", &format!("{hash}\ta/.GIT/config\0"), name("a/.GIT/config")),
            ("MERGE_RR", &format!("{hash}\tsrc/a\0{hash}.1\tb..\0"), None),
            // Branches of these names.
            ("refs/heads/MERGE_RR", &format!("{hash}\t/x"), None),
        ] {
            let path = own.join(file);
            write(&path, text.as_bytes());
            assert_eq!(find(own, &Indexes::default()).remove(&path), expected, "{file} {text:?}");
            fs::remove_file(&path).unwrap();
        }
        let list = own.join("sequencer/opts");
        write(&list, &vec![b'\n'; usize::try_from(SMALL).unwrap() + 1]);
        assert_eq!(find(own, &Indexes::default()).remove(&list), Some(Trap::Unreadable));
    }
}
