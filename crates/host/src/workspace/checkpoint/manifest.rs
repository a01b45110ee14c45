//! Manifests: the paths of a project with their times and the hash of their contents; ignored ones within limits.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, AtomicUsize};
use std::time::Duration;

use ignore::{WalkBuilder, WalkState};
use parking_lot::Mutex;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

use super::git_state::{GitDirs, IndexEntry, read_index};
use super::ignored::{self, IgnoredFiles, VisitedDirectory};
use super::pack::ContentPack;
use super::{CheckpointLimits, Hash, is_directory, now};
use crate::workspace::walk::has_unusable_ignores;
use crate::workspace::{FileStat, ThreadResults};
use agent_protocol::disk::{self, ResolvedPath};

/// A file that was modified this shortly before it was read may change again without a new time.
const RACY: Duration = Duration::from_millis(100);
/// A modification time may be this much earlier than the change.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Resolution on file systems without fractions of a second.
const RACY_COARSE: Duration = Duration::from_secs(2);
/// So many changed files are read by one thread.
const FEW_FILES: usize = 8;

/// Limit of the paths in a search for a path without checkpoint; beyond it, a path without checkpoint is assumed.
const MAX_SEARCHED: usize = 100_000;

const MAX_READS: usize = 4;

const NO_ROOM: &str = "the checkpoints are full (checkpoints.max_bytes)";
/// The error follows.
const NOT_STORED: &str = "it could not be stored: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathStat {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
    pub(super) inode: u64,
}

impl PathStat {
    pub(super) fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::RegularFile
    }

    /// A rename changes only the change time of the inode.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        Self { ctime_ns: other.ctime_ns, ..*self } == *other
    }
}

/// The part of a path's state that an undo can restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PathState {
    File {
        mode: u32,
        #[serde(with = "hex")]
        hash: Hash,
    },
    Link {
        target: PathName,
    },
    Directory {
        mode: u32,
    },
    /// A file that is too large, not readable or without space, or a FIFO, a socket or a device.
    NotCovered {
        why: String,
        stat: PathStat,
    },
}

/// A hash as hexadecimal text.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Hash;

    pub(super) fn serialize<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        hash.to_hex().as_str().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash::from_hex(text).map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PathName {
    Text(String),
    Bytes(Vec<u8>),
}

impl PathName {
    pub(super) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    pub(super) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.as_bytes()))
    }
}

/// Compares bytes, like the order of manifests.
impl Ord for PathName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for PathName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    /// Relative to the root; absolute for paths outside it and files of git.
    pub(super) path: PathName,
    pub(super) stat: PathStat,
    pub(super) state: PathState,
    /// True if the times are too recent to be trusted.
    is_racy: bool,
    /// True if an ignore rule matches the path, and git does not track it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_ignored: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) files: Vec<Arc<ManifestEntry>>,
    /// HEAD, index and refs, with absolute paths.
    pub(super) git: Vec<Arc<ManifestEntry>>,
    /// Directories with ignored files beyond the limits, which `files` lacks. A `/` at the end means everything below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) excluded: Vec<PathName>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PathChange {
    pub(super) path: PathName,
    pub(super) before: Option<PathState>,
    pub(super) after: Option<PathState>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_ignored: bool,
    /// True if the file existed before the operation in a place that no checkpoint covers, and was moved here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_moved_here: bool,
}

impl PathChange {
    pub(super) fn new(path: PathName, before: Option<PathState>, after: Option<PathState>) -> Self {
        Self { path, before, after, is_ignored: false, is_moved_here: false }
    }

    pub(super) fn is_directory(&self) -> bool {
        is_directory(self.before.as_ref(), self.after.as_ref())
    }
}

/// There are too many files, or the scan was abandoned.
#[derive(Debug)]
pub(super) struct IncompleteScan;

#[derive(Debug)]
pub(super) struct ManifestScanner {
    root: PathBuf,
    closed: Vec<PathBuf>,
    pub(super) git: Option<GitDirs>,
    limits: CheckpointLimits,
    tracked: Mutex<Option<TrackedFiles>>,
    is_abandoned: AtomicBool,
}

/// The index with this metadata.
#[derive(Debug)]
struct TrackedFiles {
    index: PathStat,
    /// Sorted.
    names: Vec<Vec<u8>>,
}

pub(super) struct ScannedPath {
    pub(super) name: Vec<u8>,
    pub(super) stat: PathStat,
    pub(super) is_ignored: bool,
}

type ScanResult = (Vec<ScannedPath>, Vec<VisitedDirectory>);

/// Compares the repositories; whether it changed something.
pub(super) type RepositoryCheck<'a> = dyn Fn(Option<&BTreeSet<PathBuf>>) -> bool + 'a;

/// The paths that a manifest covers.
pub(super) struct CoveredPaths {
    /// Sorted.
    files: Vec<ScannedPath>,
    /// Directories of ignored files that the limits exclude.
    excluded: Vec<PathName>,
    pub(super) repositories: BTreeSet<PathBuf>,
}

impl ManifestScanner {
    pub(super) fn new(root: &Path, closed: Vec<PathBuf>, limits: CheckpointLimits) -> Self {
        let (root, git, tracked) = (root.to_owned(), GitDirs::around(root), Mutex::default());
        let is_abandoned = AtomicBool::new(false);
        Self { root, closed, git, limits, tracked, is_abandoned }
    }

    /// Ends the scans that run, also in other threads.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, atomic::Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(atomic::Ordering::Relaxed)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn covered_paths(&self) -> Result<HashMap<PathBuf, bool>, IncompleteScan> {
        let paths = self.find_paths()?.files.into_iter().map(|met| {
            let is_folder = FileType::from_raw_mode(met.stat.mode) == FileType::Directory;
            (self.root.join(OsStr::from_bytes(&met.name)), is_folder)
        });
        Ok(paths.collect())
    }

    pub(super) fn find_paths(&self) -> Result<CoveredPaths, IncompleteScan> {
        let repositories = Mutex::new(BTreeSet::new());
        let (mut files, entered) = self.walk(&repositories)?;
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.add_tracked(&mut files);
        let is_spare = |path: &Path| {
            (self.limits.is_build_output)(path) || self.closed.contains(&self.root.join(path))
        };
        let IgnoredFiles { paths: met, excluded, found } =
            ignored::find_ignored(&self.root, &files, entered, is_spare);
        if !met.is_empty() {
            files.extend(met);
            files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        let mut repositories = std::mem::take(&mut *repositories.lock());
        repositories.extend(found.repositories);
        let links = files
            .iter()
            .filter(|file| FileType::from_raw_mode(file.stat.mode) == FileType::Symlink);
        let links: BTreeSet<&Vec<u8>> = links.map(|link| &link.name).chain(&found.links).collect();
        let links = links.into_iter().map(|name| self.root.join(OsStr::from_bytes(name)));
        // What the scan visits it finds without the link.
        let is_visited = |inner: &Path| {
            let name = inner.as_os_str().as_bytes();
            let has_git = inner.iter().any(|part| part == ".git");
            name.is_empty()
                || files.binary_search_by(|file| file.name.as_slice().cmp(name)).is_ok()
                || !has_git && found.searched.iter().any(|it| self.root.join(inner).starts_with(it))
        };
        repositories.extend(links.filter(|link| {
            let target = ResolvedPath::resolve(link, &[]);
            let is_visited = target.path.strip_prefix(&self.root).is_ok_and(is_visited);
            target.depends_on_process() || !is_visited && target.path.is_dir()
        }));
        Ok(CoveredPaths { files, excluded, repositories })
    }

    /// Stores contents that are new since the `last` manifest. `guard` receives the repositories first, if they are known: storing
    /// may take long, and a signal may end it. If it changed something, the paths are searched again.
    pub(super) fn take_manifest(
        &self,
        last: &Manifest,
        pack: &Mutex<ContentPack>,
        guard: &RepositoryCheck<'_>,
    ) -> Result<Manifest, IncompleteScan> {
        let mut covered = self.find_paths();
        // An abandoned scan has only a part of them.
        let known = covered.as_ref().ok().filter(|_| !self.is_abandoned());
        if guard(known.map(|covered| &covered.repositories)) {
            covered = self.find_paths();
        }
        let CoveredPaths { files, excluded, .. } = covered?;
        let scan =
            |path: PathBuf| Some(ScannedPath::new(path.as_os_str().as_bytes(), stat(&path).ok()?));
        let mut git: Vec<ScannedPath> =
            self.git.iter().flat_map(GitDirs::files).filter_map(scan).collect();
        git.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let index = self.git.as_ref().map(GitDirs::index);
        let max = self.limits.max_file_bytes;
        let n_losses = pack.lock().losses.0;
        let mut manifest = Manifest {
            files: self.read_entries(files, &last.files, pack, index.as_deref(), max),
            git: self.read_entries(git, &last.git, pack, None, max),
            excluded,
        };
        let mut pack = pack.lock();
        // The pack records errors as losses.
        _ = pack.flush();
        if pack.losses.0 != n_losses {
            manifest.mark_unstored(&pack);
        }
        Ok(manifest)
    }

    /// The path may be ignored or outside the root. The content is stored, unless it is larger than `max_bytes`.
    pub(super) fn read_entry(
        &self,
        name: &Path,
        pack: &Mutex<ContentPack>,
        max_bytes: u64,
    ) -> Option<Arc<ManifestEntry>> {
        let path = self.root.join(name);
        // A symlink in place of a parent directory leads to another file.
        disk::metadata_without_links(&path).ok()?;
        let met = ScannedPath::new(name.as_os_str().as_bytes(), stat(&path).ok()?);
        let (index, taken) = (&HashMap::new(), now());
        let reader = EntryReader { scanner: self, pack, index, max_bytes, taken };
        reader.read_entry(met).map(Arc::new)
    }

    pub(super) fn has_unsaved(&self, now: &Manifest, paths: &[PathBuf], is_tracked: bool) -> bool {
        let inside: Vec<&Path> =
            paths.iter().filter_map(|path| path.strip_prefix(&self.root).ok()).collect();
        let is_open = |entry: &&Arc<ManifestEntry>| {
            matches!(entry.state, PathState::NotCovered { .. })
                && entry.stat.is_file()
                && !entry.is_ignored
                && inside.iter().any(|path| entry.path.as_path().starts_with(path))
        };
        let mut open = now.files.iter().filter(is_open).peekable();
        if open.peek().is_none() {
            return false;
        }
        let index = self.git.as_ref().map(|git| read_index(&git.index())).unwrap_or_default();
        open.any(|entry| match self.index_entry(&index, entry.path.as_bytes()) {
            Some(listed) => is_tracked && !listed.describes(&entry.stat),
            None => !is_tracked,
        })
    }

    fn index_entry<'a>(
        &self,
        index: &'a HashMap<Vec<u8>, IndexEntry>,
        name: &[u8],
    ) -> Option<&'a IndexEntry> {
        if index.is_empty() {
            return None;
        }
        let below = self.root.strip_prefix(&self.git.as_ref()?.top).ok()?;
        if below.as_os_str().is_empty() {
            return index.get(name);
        }
        index.get(&[below.as_os_str().as_bytes(), b"/", name].concat())
    }

    /// Adds files that git tracks although they match an ignore rule.
    fn add_tracked(&self, files: &mut Vec<ScannedPath>) {
        let Some(git) = &self.git else { return };
        // Git follows a link in its place.
        let Ok(file) = git.index().canonicalize() else { return };
        let Ok(index) = stat(&file) else { return };
        let mut tracked = self.tracked.lock();
        if tracked.as_ref().is_none_or(|tracked| tracked.index != index) {
            let below = self.root.strip_prefix(&git.top).unwrap_or(Path::new(""));
            let mut names = Vec::new();
            for name in read_index(&file).into_keys() {
                if let Ok(path) = Path::new(OsStr::from_bytes(&name)).strip_prefix(below) {
                    names.push(path.as_os_str().as_bytes().to_vec());
                }
            }
            names.sort_unstable();
            *tracked = Some(TrackedFiles { index, names });
        }
        let n_met = files.len();
        let mut at = 0;
        // The result of the walk depends on ignore files too, so it is compared each time.
        for name in tracked.iter().flat_map(|tracked| &tracked.names) {
            while at < n_met && files[at].name < *name {
                at += 1;
            }
            if at < n_met && files[at].name == *name {
                continue;
            }
            let path = self.root.join(OsStr::from_bytes(name));
            // A symlink in place of a parent directory leads to another file. (A directory in place of a file is ignored.)
            if let (Ok(stat), Ok(_)) = (stat(&path), disk::metadata_without_links(&path))
                && FileType::from_raw_mode(stat.mode) != FileType::Directory
            {
                files.push(ScannedPath::new(name, stat));
            }
        }
        if files.len() > n_met {
            files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
    }

    /// Adds the directories that contain `.git` or look like a git directory.
    pub(super) fn walk(
        &self,
        repositories: &Mutex<BTreeSet<PathBuf>>,
    ) -> Result<ScanResult, IncompleteScan> {
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(4));
        let follows = !self.root.ancestors().any(has_unusable_ignores);
        let mut builder = WalkBuilder::new(&self.root);
        builder
            .standard_filters(false)
            .git_ignore(follows)
            .git_exclude(follows)
            .git_global(follows)
            .require_git(false)
            .parents(true)
            .follow_links(false)
            .threads(threads);
        let closed = self.closed.clone();
        builder.filter_entry(move |entry| {
            if entry.file_name() == ".git" {
                return false;
            }
            let is_folder = entry.depth() > 0 && entry.file_type().is_some_and(|it| it.is_dir());
            // Such a folder counts as ignored.
            let is_unusable = follows && is_folder && has_unusable_ignores(entry.path());
            !is_unusable && !closed.iter().any(|closed| entry.path() == closed)
        });
        let all = Mutex::default();
        let n_met = AtomicUsize::new(0);
        let prefix = self.root.as_os_str().len() + 1;
        let is_directory =
            |entry: &ignore::DirEntry| entry.file_type().is_some_and(|it| it.is_dir());
        builder.build_parallel().run(|| {
            let mut part = ThreadResults::<ScanResult>::of(&all);
            let n_met = &n_met;
            Box::new(move |entry| {
                let Ok(entry) = entry else { return WalkState::Continue };
                let name = entry.path().as_os_str().as_bytes().get(prefix..);
                if is_directory(&entry) {
                    let name = name.unwrap_or_default().to_vec();
                    let (count, has_git) = ignored::count_entries(entry.path());
                    if has_git {
                        repositories.lock().insert(entry.path().to_owned());
                    }
                    part.own.1.push(VisitedDirectory { name, count });
                }
                // The root comes first.
                let Some(name) = name else { return WalkState::Continue };
                let Ok(stat) = stat(entry.path()) else { return WalkState::Continue };
                part.own.0.push(ScannedPath::new(name, stat));
                let n = n_met.fetch_add(1, atomic::Ordering::Relaxed);
                let is_over = n >= self.limits.max_files || self.is_abandoned();
                if is_over { WalkState::Quit } else { WalkState::Continue }
            })
        });
        if n_met.into_inner() > self.limits.max_files {
            return Err(IncompleteScan);
        }
        let (paths, directories): (Vec<_>, Vec<_>) = all.into_inner().into_iter().unzip();
        Ok((paths.into_iter().flatten().collect(), directories.into_iter().flatten().collect()))
    }

    /// Unchanged metadata keep the state of the last manifest; other paths are read again.
    fn read_entries(
        &self,
        met: Vec<ScannedPath>,
        last: &[Arc<ManifestEntry>],
        pack: &Mutex<ContentPack>,
        index: Option<&Path>,
        max_bytes: u64,
    ) -> Vec<Arc<ManifestEntry>> {
        let taken = now();
        let mut entries: Vec<Option<Arc<ManifestEntry>>> = Vec::with_capacity(met.len());
        let mut new: Vec<(usize, ScannedPath)> = Vec::new();
        let mut last = last.iter().peekable();
        {
            let pack = pack.lock();
            for met in met {
                while last.next_if(|entry| entry.path.as_bytes() < met.name.as_slice()).is_some() {}
                let known = last.next_if(|entry| entry.path.as_bytes() == met.name.as_slice());
                let is_stored = |entry: &ManifestEntry| match &entry.state {
                    PathState::File { hash, .. } => pack.has_fresh(hash),
                    PathState::Link { .. } | PathState::Directory { .. } => true,
                    PathState::NotCovered { .. } => false,
                };
                let is_known = |it: &&Arc<ManifestEntry>| {
                    it.stat == met.stat
                        && it.is_ignored == met.is_ignored
                        && !it.is_racy
                        && is_stored(it)
                };
                let kept = known.filter(is_known).cloned();
                if kept.is_none() {
                    new.push((entries.len(), met));
                }
                entries.push(kept);
            }
        }
        let index = index.filter(|_| new.len() > FEW_FILES).map(read_index).unwrap_or_default();
        let work = EntryReader { scanner: self, pack, index: &index, max_bytes, taken };
        for (at, entry) in work.read_entries(new) {
            entries[at] = entry.map(Arc::new);
        }
        entries.into_iter().flatten().collect()
    }
}

impl ScannedPath {
    fn new(name: &[u8], stat: PathStat) -> Self {
        Self { name: name.to_vec(), stat, is_ignored: false }
    }
}

struct EntryReader<'a> {
    scanner: &'a ManifestScanner,
    pack: &'a Mutex<ContentPack>,
    index: &'a HashMap<Vec<u8>, IndexEntry>,
    max_bytes: u64,
    taken: Duration,
}

impl EntryReader<'_> {
    fn read_entries(&self, new: Vec<(usize, ScannedPath)>) -> Vec<(usize, Option<ManifestEntry>)> {
        let one = |(at, met): (usize, ScannedPath)| (at, self.read_entry(met));
        if new.len() <= FEW_FILES {
            return new.into_iter().map(one).collect();
        }
        let n_threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(4));
        let next = AtomicUsize::new(0);
        let new: Vec<Mutex<Option<(usize, ScannedPath)>>> =
            new.into_iter().map(|it| Mutex::new(Some(it))).collect();
        let work = || {
            let mut done = Vec::new();
            while let Some(slot) = new.get(next.fetch_add(1, atomic::Ordering::Relaxed)) {
                done.extend(slot.lock().take().map(one));
            }
            done
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..n_threads).filter_map(spawn).collect();
            let mut done = work();
            for other in others {
                done.extend(other.join().unwrap_or_default());
            }
            done
        })
    }

    fn read_entry(&self, met: ScannedPath) -> Option<ManifestEntry> {
        if self.scanner.is_abandoned() {
            return None;
        }
        let ScannedPath { name, stat, is_ignored } = met;
        let path = self.scanner.root.join(OsStr::from_bytes(&name));
        let mode = stat.mode & 0o7777;
        let not_covered = |why: &str| PathState::NotCovered { why: why.to_owned(), stat };
        let state = match FileType::from_raw_mode(stat.mode) {
            FileType::Directory => PathState::Directory { mode },
            FileType::Symlink => {
                let target = fs::read_link(&path).ok()?;
                PathState::Link { target: PathName::new(target.as_os_str().as_bytes()) }
            }
            FileType::RegularFile if stat.size > self.max_bytes => {
                not_covered("it is larger than checkpoints.max_file_bytes")
            }
            FileType::RegularFile if is_ignored && stat.size > ignored::MAX_FILE_BYTES => {
                not_covered("it is ignored and larger than 1 MiB")
            }
            FileType::RegularFile => match read_stable(&path, self.max_bytes) {
                Ok(bytes) => {
                    let hash = blake3::hash(&bytes);
                    match self.store_content(&name, hash, &bytes) {
                        Ok(true) => PathState::File { mode, hash },
                        Ok(false) => not_covered(NO_ROOM),
                        Err(error) => not_covered(&format!("{NOT_STORED}{error}")),
                    }
                }
                Err(error) if disk::is_missing(&error) => return None,
                Err(error) => not_covered(&format!("it could not be read: {error}")),
            },
            _ => not_covered("it is a FIFO, a socket or a device"),
        };
        let newest =
            Duration::from_nanos(u64::try_from(stat.ctime_ns.max(stat.mtime_ns)).unwrap_or(0));
        let tick = if stat.ctime_ns % 1_000_000_000 == 0 { RACY_COARSE } else { RACY };
        let is_racy = newest + tick > self.taken;
        Some(ManifestEntry { path: PathName::new(&name), stat, state, is_racy, is_ignored })
    }

    fn store_content(&self, name: &[u8], hash: Hash, bytes: &[u8]) -> std::io::Result<bool> {
        if self.pack.lock().has_fresh(&hash) {
            return Ok(true);
        }
        if let Some(IndexEntry { id, size, .. }) = self.scanner.index_entry(self.index, name)
            && *size as usize == bytes.len()
            && id[..]
                == Sha1::new()
                    .chain_update(format!("blob {}\0", bytes.len()))
                    .chain_update(bytes)
                    .finalize()[..]
        {
            self.pack.lock().add_git(hash, *id)?;
            return Ok(true);
        }
        self.pack.lock().add(hash, bytes)
    }
}

impl Manifest {
    pub(super) fn lacks_room(&self) -> bool {
        self.files.iter().chain(&self.git).any(
            |entry| matches!(&entry.state, PathState::NotCovered { why, .. } if why == NO_ROOM),
        )
    }

    /// Why a content is not stored. Ignored files do not count: a command that deletes one needs an approval anyway.
    pub(super) fn coverage_gap(&self) -> Option<&str> {
        let files = self.files.iter().filter(|entry| !entry.is_ignored);
        files.chain(&self.git).find_map(|entry| match &entry.state {
            PathState::NotCovered { why, .. } if why == NO_ROOM || why.starts_with(NOT_STORED) => {
                Some(why.as_str())
            }
            _ => None,
        })
    }

    fn mark_unstored(&mut self, pack: &ContentPack) {
        for entry in self.files.iter_mut().chain(&mut self.git) {
            if let PathState::File { hash, .. } = &entry.state
                && !pack.has(hash)
            {
                let why = format!("{NOT_STORED}{}", pack.losses.1);
                let state = PathState::NotCovered { why, stat: entry.stat };
                *entry = Arc::new(ManifestEntry { state, ..(**entry).clone() });
            }
        }
    }

    pub(super) fn find(&self, path: &PathName) -> Option<&Arc<ManifestEntry>> {
        let found = self.files.binary_search_by(|entry| entry.path.cmp(path));
        found.ok().map(|at| &self.files[at])
    }

    /// True if the path may have existed although there is no entry for it.
    pub(super) fn may_have_missed(&self, change: &PathChange) -> bool {
        change.is_ignored && change.before.is_none() && {
            let path = change.path.as_path();
            let is_in = |folder: &PathName| match folder.as_bytes() {
                [.., b'/'] => path.starts_with(folder.as_path()),
                _ => path.parent() == Some(folder.as_path()),
            };
            self.excluded.iter().any(is_in)
        }
    }

    pub(super) fn has_uncovered(
        &self,
        root: &Path,
        path: &Path,
        is_spare: &dyn Fn(&Path) -> bool,
        is_selected: &dyn Fn(&Path, bool) -> bool,
    ) -> bool {
        let mut todo = vec![(path.to_owned(), false)];
        let mut n_seen = 0;
        while let Some((path, is_inside)) = todo.pop() {
            if is_spare(&path) {
                continue;
            }
            let Ok(name) = path.strip_prefix(root) else { return true };
            let Ok(now) = stat(&path) else { continue };
            n_seen += 1;
            if n_seen > MAX_SEARCHED {
                return true;
            }
            let is_root = name.as_os_str().is_empty();
            let is_directory = FileType::from_raw_mode(now.mode).is_dir();
            let is_lost = is_inside || !is_root && is_selected(&path, is_directory);
            let entry = self.find(&PathName::new(name.as_os_str().as_bytes()));
            let is_covered = match entry.map(|entry| (&entry.state, entry.stat)) {
                Some((PathState::Directory { .. }, _)) => is_directory,
                Some((PathState::File { .. } | PathState::Link { .. }, stat)) => stat == now,
                Some((PathState::NotCovered { .. }, _)) => false,
                None => is_root,
            };
            if is_lost && !is_covered {
                return true;
            }
            if is_directory {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                todo.extend(entries.map(|entry| (entry.path(), is_lost)));
            }
        }
        false
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same = |a: &[Arc<ManifestEntry>], b: &[Arc<ManifestEntry>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        is_same(&self.files, &other.files) && is_same(&self.git, &other.git)
    }

    pub(super) fn hashes(&self) -> HashSet<Hash> {
        let hash = |entry: &Arc<ManifestEntry>| match &entry.state {
            PathState::File { hash, .. } => Some(*hash),
            _ => None,
        };
        self.files.iter().chain(&self.git).filter_map(hash).collect()
    }
}

/// Both lists are sorted by path.
pub(super) fn changes_between(
    before: &[Arc<ManifestEntry>],
    after: &[Arc<ManifestEntry>],
) -> Vec<PathChange> {
    let mut changes = Vec::new();
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(old), Some(new)) => old.path.cmp(&new.path),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        let Some(entry) = old.or(new) else { return changes };
        let is_not_covered =
            |entry: &Arc<ManifestEntry>| matches!(entry.state, PathState::NotCovered { .. });
        if let (Some(old), Some(new)) = (old, new)
            && (Arc::ptr_eq(old, new)
                // Only the storage of the content changed, not the file.
                || old.stat == new.stat && (is_not_covered(old) || is_not_covered(new)))
        {
            continue;
        }
        let [before, after] = [old, new].map(|entry| entry.map(|entry| &entry.state));
        if before != after {
            let [before, after] = [before, after].map(|state| state.cloned());
            let change = PathChange::new(entry.path.clone(), before, after);
            changes.push(PathChange { is_ignored: entry.is_ignored, ..change });
        }
    }
}

pub(super) fn stat(path: &Path) -> std::io::Result<PathStat> {
    let data = fs::symlink_metadata(path)?;
    let FileStat { size, mtime_ns, ctime_ns, inode, .. } = FileStat::of(&data);
    Ok(PathStat { mode: data.mode(), size, mtime_ns, ctime_ns, inode })
}

/// Reads up to the limit; repeats the read if the file changes.
fn read_stable(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let times = |data: &fs::Metadata| {
        (data.len(), data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec())
    };
    for _ in 0..MAX_READS {
        let file = disk::open_file(path)?;
        let before = file.metadata()?;
        let capacity = usize::try_from(before.len().min(limit)).unwrap_or(0) + 1;
        let mut bytes = Vec::with_capacity(capacity);
        (&file).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(std::io::Error::other("it grew while it was read"));
        }
        if times(&before) == times(&file.metadata()?) && before.len() == bytes.len() as u64 {
            return Ok(bytes);
        }
    }
    Err(std::io::Error::other("it was changing while it was read"))
}
