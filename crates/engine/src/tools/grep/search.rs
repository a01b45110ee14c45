//! The search: selects files, searches them in parallel, and keeps the matches to show.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::time::SystemTime;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use parking_lot::Mutex;

use super::OutputMode;
use super::hit_collector::{Hit, HitCollector};
use crate::tools::files::{SearchLimits, order_newest_first};
use agent_host::workspace::{
    FileKind, ProjectPath, ThreadResults, Walk, WalkBase, WalkRules, Workspace,
};
use agent_permission::{HiddenFiles, HiddenReason, is_secret_file};
use agent_protocol::envelope::Failure;

/// Size limit of a line (or, with multiline, of a file) that is searched.
const MAX_HEAP_BYTES: usize = 64 * 1024 * 1024;
/// Size of the beginning in which a NUL makes a file binary, as in Read.
const BINARY_CHECK_BYTES: usize = 8 * 1024;
/// Size up to which a file is read and searched as a whole.
const MAX_BUFFERED_BYTES: usize = 128 * 1024;

#[derive(Clone)]
pub(super) struct GrepSearch<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) matcher: RegexMatcher,
    pub(super) file_pattern: Option<GlobMatcher>,
    pub(super) multiline: bool,
    pub(super) context: usize,
    pub(super) output: OutputMode,
    pub(super) limit: usize,
    pub(super) hidden_files: &'a HiddenFiles,
    pub(super) limits: SearchLimits,
}

pub(super) struct FileHits {
    pub(super) path: String,
    pub(super) hits: Vec<Hit>,
    pub(super) matched_lines: u64,
}

/// The matches, ordered by time or by path.
#[derive(Default)]
pub(super) struct GrepMatches {
    pub(super) files: Vec<FileHits>,
    /// The newest file is first; otherwise all were written in one go.
    pub(super) is_ordered_by_time: bool,
    pub(super) n_hits: u64,
    pub(super) matched_lines: u64,
    pub(super) matched_files: u64,
    pub(super) searched_files: u64,
    /// Number of files, including those that `file_pattern` excluded.
    pub(super) candidate_files: u64,
    pub(super) binary_skipped: u64,
    pub(super) secret_skipped: u64,
    /// Files that a rule denies to read.
    pub(super) withheld: u64,
    pub(super) unreadable: u64,
    pub(super) too_long: u64,
}

impl GrepMatches {
    /// The number of rows that show everything found.
    pub(super) fn n_rows(&self, output: OutputMode) -> u64 {
        if output == OutputMode::Matches { self.n_hits } else { self.matched_files }
    }
}

/// The results of one thread: only the newest files that can be shown are kept.
#[derive(Default)]
struct ThreadMatches {
    counts: GrepMatches,
    newest: BTreeMap<(Reverse<SystemTime>, String), FileHits>,
    n_kept: usize,
}

struct ThreadResources {
    /// (A copy for each thread avoids waiting for its cache.)
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl GrepSearch<'_> {
    pub(super) fn search_file(&self, path: &ProjectPath) -> GrepMatches {
        let mut gathered = ThreadMatches::default();
        match self.workspace.open_file(path) {
            Ok((file, _)) => self.search_open_file(
                &mut self.thread_resources(),
                &file,
                &|| path.clone(),
                &mut gathered,
            ),
            Err(_) => gathered.counts.unreadable += 1,
        }
        gathered.into_matches()
    }

    pub(super) fn search_folder(
        &self,
        base: &ProjectPath,
        rules: WalkRules,
    ) -> Result<GrepMatches, Failure> {
        let opened = WalkBase::open(base)?;
        let parts = Mutex::default();
        let has_rules = self.hidden_files.has_rules("Grep");
        let walk = Walk { base: base.clone(), rules, depth: None };
        let n_unreadable = self.workspace.walk(&walk, || {
            let mut part = ThreadResults::<ThreadMatches>::of(&parts);
            let mut tools = self.thread_resources();
            let file_pattern = self.file_pattern.clone();
            let opened = &opened;
            Box::new(move |entry| {
                if self.limits.count_entry() {
                    return false;
                }
                if entry.kind() != FileKind::File {
                    return true;
                }
                // If such a file is named, permission is asked before; if a search finds it, it is skipped.
                let why = if has_rules || is_secret_file(&entry.name()) {
                    self.hidden_files.hidden_reason("Grep", entry.to_project_path().relative())
                } else {
                    None
                };
                let gathered = &mut part.own;
                gathered.counts.candidate_files += u64::from(why.is_none());
                let inside = entry.relative_to(base.absolute());
                let is_selected = file_pattern.as_ref().is_none_or(|glob| glob.is_match(inside));
                match why {
                    _ if !is_selected => {}
                    None => match opened.open_file(&entry) {
                        Ok(file) => self.search_open_file(
                            &mut tools,
                            &file,
                            &|| entry.to_project_path(),
                            gathered,
                        ),
                        Err(_) => gathered.counts.unreadable += 1,
                    },
                    Some(HiddenReason::Secret) => gathered.counts.secret_skipped += 1,
                    Some(HiddenReason::Rule) => gathered.counts.withheld += 1,
                }
                self.limits.reason().is_none()
            })
        });
        let mut gathered = ThreadMatches::default();
        for part in parts.into_inner() {
            gathered.merge(part, self);
        }
        let mut found = gathered.into_matches();
        found.unreadable += n_unreadable as u64;
        Ok(found)
    }

    fn thread_resources(&self) -> ThreadResources {
        let end = if self.multiline { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() };
        let searcher = SearcherBuilder::new()
            .line_terminator(end)
            .line_number(true)
            .multi_line(self.multiline)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_HEAP_BYTES))
            .binary_detection(BinaryDetection::none())
            .build();
        let matcher = self.matcher.clone();
        ThreadResources { matcher, searcher, buffer: vec![0; MAX_BUFFERED_BYTES] }
    }

    fn search_open_file(
        &self,
        tools: &mut ThreadResources,
        file: &File,
        path: &dyn Fn() -> ProjectPath,
        gathered: &mut ThreadMatches,
    ) {
        let mut collect = self.new_collector();
        let result = self.scan_file(tools, file, &mut collect);
        let counts = &mut gathered.counts;
        if collect.binary_at.is_some() {
            counts.binary_skipped += 1;
            return;
        }
        let has_match = collect.matched_lines > 0;
        // The walk determined the type; for a file that is shown it is checked again.
        let data = has_match.then(|| file.metadata().ok().filter(Metadata::is_file)).flatten();
        counts.searched_files += 1;
        match result {
            Ok(()) => {}
            Err(_) if self.limits.reason().is_some() => {}
            Err(error) if error.to_string().contains("allocation limit") => counts.too_long += 1,
            Err(_) => counts.unreadable += 1,
        }
        let Some(data) = data else { return };
        counts.matched_files += 1;
        counts.matched_lines += collect.matched_lines;
        counts.n_hits += collect.n_hits;
        let time = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = path().relative().to_owned();
        let hits = FileHits {
            path: path.clone(),
            hits: collect.hits,
            matched_lines: collect.matched_lines,
        };
        gathered.insert_file((Reverse(time), path), hits, self);
    }

    /// Searches the whole file, if it is text.
    fn scan_file<'a>(
        &'a self,
        tools: &mut ThreadResources,
        file: &'a File,
        collect: &mut HitCollector<'a>,
    ) -> io::Result<()> {
        let ThreadResources { matcher, searcher, buffer } = tools;
        let mut watched = LimitedReader { file, limits: &self.limits };
        let mut length = 0;
        let mut is_whole = false;
        while length < buffer.len() && !is_whole {
            match watched.file.read(&mut buffer[length..]) {
                Ok(n) => {
                    length += n;
                    is_whole = n == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let begin = &buffer[..length];
        let is_marked = [&b"\xef\xbb\xbf"[..], b"\xff\xfe", b"\xfe\xff"]
            .iter()
            .any(|mark| begin.starts_with(mark));
        if is_whole && !is_marked {
            collect.binary_at =
                memchr::memchr(0, &begin[..length.min(BINARY_CHECK_BYTES)]).map(|at| at as u64);
            if collect.binary_at.is_some() {
                return Ok(());
            }
            return searcher.search_slice(&*matcher, begin, collect);
        }
        // Too large for memory, or in another encoding.
        searcher.set_binary_detection(BinaryDetection::quit(0));
        let mut result =
            searcher.search_reader(&*matcher, begin.chain(&mut watched), &mut *collect);
        searcher.set_binary_detection(BinaryDetection::none());
        if collect.binary_at.is_some_and(|at| at >= BINARY_CHECK_BYTES as u64)
            && watched.file.rewind().is_ok()
        {
            // Text that contains a NUL: searched again.
            *collect = self.new_collector();
            result = searcher.search_reader(&*matcher, watched, collect);
        }
        result
    }

    fn new_collector(&self) -> HitCollector<'_> {
        let limit = if self.output == OutputMode::Matches { self.limit } else { 0 };
        HitCollector::new(&self.matcher, limit, self.output == OutputMode::Files)
    }
}

impl ThreadMatches {
    fn into_matches(self) -> GrepMatches {
        let mut files: Vec<_> = self.newest.into_iter().collect();
        let is_ordered_by_time = order_newest_first(
            &mut files,
            usize::MAX,
            |((Reverse(time), _), _)| {
                time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
            },
            |((_, path), _), ((_, other), _)| path.cmp(other),
        );
        let files = files.into_iter().map(|(_, hits)| hits).collect();
        GrepMatches { files, is_ordered_by_time, ..self.counts }
    }

    fn merge(&mut self, part: Self, search: &GrepSearch<'_>) {
        let (sum, other) = (&mut self.counts, &part.counts);
        for (sum, n) in [
            (&mut sum.n_hits, other.n_hits),
            (&mut sum.matched_lines, other.matched_lines),
            (&mut sum.matched_files, other.matched_files),
            (&mut sum.searched_files, other.searched_files),
            (&mut sum.candidate_files, other.candidate_files),
            (&mut sum.binary_skipped, other.binary_skipped),
            (&mut sum.secret_skipped, other.secret_skipped),
            (&mut sum.withheld, other.withheld),
            (&mut sum.unreadable, other.unreadable),
            (&mut sum.too_long, other.too_long),
        ] {
            *sum += n;
        }
        for (key, hits) in part.newest {
            self.insert_file(key, hits, search);
        }
    }

    fn insert_file(
        &mut self,
        key: (Reverse<SystemTime>, String),
        hits: FileHits,
        search: &GrepSearch<'_>,
    ) {
        let weight = |hits: &FileHits| match search.output {
            OutputMode::Matches => hits.hits.len(),
            OutputMode::Files | OutputMode::Count => 1,
        };
        self.n_kept += weight(&hits);
        self.newest.insert(key, hits);
        // Drops the oldest file if the others fill the result already.
        while let Some(oldest) = self.newest.last_entry()
            && self.n_kept - weight(oldest.get()) >= search.limit
        {
            self.n_kept -= weight(oldest.get());
            oldest.remove();
        }
    }
}

/// A reader that ends early when the search has to end.
struct LimitedReader<'a> {
    file: &'a File,
    limits: &'a SearchLimits,
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.limits.is_stopped_now() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}
