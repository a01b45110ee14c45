//! The search: selects files, searches them in parallel, and keeps the matches to show.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::Output;
use super::matcher::LineMatcher;
use super::sink::{Collect, Hit};
use crate::tools::files::Stop;
use agent_host::workspace::{Base, Kind, Part, ProjectPath, Rules, Walk, Workspace};
use agent_permission::{Why, Withheld, is_secret};
use agent_protocol::envelope::Failure;

/// Size limit of a line (or, with multiline, of a file) that is searched.
const MAX_HEAP: usize = 64 * 1024 * 1024;
/// Size of the beginning in which a NUL makes a file binary, as in Read.
const BINARY_WITHIN: usize = 8 * 1024;
/// Size up to which a file is read and searched as a whole.
const SMALL: usize = 128 * 1024;

#[derive(Clone)]
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) matcher: LineMatcher,
    pub(super) file_pattern: Option<GlobMatcher>,
    pub(super) multiline: bool,
    pub(super) context: usize,
    pub(super) output: Output,
    pub(super) limit: usize,
    pub(super) withheld: &'a Withheld,
    pub(super) stop: Stop,
}

/// The matches in one file.
pub(super) struct FileHits {
    pub(super) path: String,
    pub(super) hits: Vec<Hit>,
    pub(super) matched_lines: u64,
}

/// The matches, newest file first.
#[derive(Default)]
pub(super) struct Found {
    pub(super) files: Vec<FileHits>,
    pub(super) n_hits: u64,
    pub(super) matched_lines: u64,
    pub(super) matched_files: u64,
    pub(super) searched: u64,
    /// Number of files, including those that `file_pattern` excluded.
    pub(super) met: u64,
    pub(super) binary_skipped: u64,
    /// Files that look like secrets.
    pub(super) secret_skipped: u64,
    /// Files that a rule denies to read.
    pub(super) withheld: u64,
    pub(super) unreadable: u64,
    pub(super) too_long: u64,
    /// Number of lines that are shown in part.
    pub(super) lines_cut: u64,
    /// Git's own directories.
    pub(super) git_skipped: u64,
}

/// The results of one thread: only the newest files that can be shown are kept.
#[derive(Default)]
struct Gathered {
    counts: Found,
    newest: BTreeMap<(Reverse<SystemTime>, String), FileHits>,
    n_kept: usize,
}

/// The tools of one thread.
struct Tools {
    /// (A copy for each thread avoids waiting for its cache.)
    matcher: LineMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl Search<'_> {
    pub(super) fn file(&self, path: &ProjectPath) -> Found {
        let mut gathered = Gathered::default();
        match self.workspace.open_file(path) {
            Ok((file, _)) => self.search(&mut self.tools(), &file, &|| path.clone(), &mut gathered),
            Err(_) => gathered.counts.unreadable += 1,
        }
        gathered.found()
    }

    pub(super) fn folder(&self, base: &ProjectPath, rules: Rules) -> Result<Found, Failure> {
        let opened = Base::open(base)?;
        let parts = Mutex::default();
        let has_rules = self.withheld.has_rules("Grep");
        let walk = Walk { base: base.clone(), rules, depth: None };
        let skipped = self.workspace.walk(&walk, || {
            let mut part = Part::<Gathered>::of(&parts);
            let mut tools = self.tools();
            let file_pattern = self.file_pattern.clone();
            let opened = &opened;
            Box::new(move |met| {
                if self.stop.visit() {
                    return false;
                }
                if met.kind() != Kind::File {
                    return true;
                }
                // If such a file is named, permission is asked before; if a search finds it, it is skipped.
                let why = if has_rules || is_secret(&met.name()) {
                    self.withheld.why("Grep", met.path().relative())
                } else {
                    None
                };
                let gathered = &mut part.own;
                gathered.counts.met += u64::from(why.is_none());
                let inside = met.below(base.absolute());
                let is_wanted = file_pattern.as_ref().is_none_or(|glob| glob.is_match(inside));
                match why {
                    _ if !is_wanted => {}
                    None => match opened.file(&met) {
                        Ok(file) => self.search(&mut tools, &file, &|| met.path(), gathered),
                        Err(_) => gathered.counts.unreadable += 1,
                    },
                    Some(Why::Secret) => gathered.counts.secret_skipped += 1,
                    Some(Why::Rule) => gathered.counts.withheld += 1,
                }
                self.stop.reason().is_none()
            })
        });
        let mut gathered = Gathered::default();
        for part in parts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            gathered.add(part, self);
        }
        let mut found = gathered.found();
        found.unreadable += skipped.unreadable as u64;
        found.git_skipped = skipped.git as u64;
        Ok(found)
    }

    fn tools(&self) -> Tools {
        Tools { matcher: self.matcher.clone(), searcher: self.searcher(), buffer: vec![0; SMALL] }
    }

    fn searcher(&self) -> Searcher {
        let end = if self.multiline { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() };
        SearcherBuilder::new()
            .line_terminator(end)
            .line_number(true)
            .multi_line(self.multiline)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_HEAP))
            .binary_detection(BinaryDetection::none())
            .build()
    }

    fn search(
        &self,
        tools: &mut Tools,
        file: &File,
        path: &dyn Fn() -> ProjectPath,
        gathered: &mut Gathered,
    ) {
        let mut collect = self.collect();
        let result = self.look(tools, file, &mut collect);
        let counts = &mut gathered.counts;
        if collect.binary_at.is_some() {
            counts.binary_skipped += 1;
            return;
        }
        let has_match = collect.matched_lines > 0;
        // The walk determined the type; for a file that is shown it is checked again.
        let data = has_match.then(|| file.metadata().ok().filter(Metadata::is_file)).flatten();
        counts.searched += 1;
        match result {
            Ok(()) => {}
            Err(_) if self.stop.reason().is_some() => {}
            Err(error) if error.to_string().contains("allocation limit") => counts.too_long += 1,
            Err(_) => counts.unreadable += 1,
        }
        let Some(data) = data else { return };
        counts.matched_files += 1;
        counts.matched_lines += collect.matched_lines;
        counts.n_hits += collect.n_hits;
        counts.lines_cut += collect.lines_cut;
        let time = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = path().relative().to_owned();
        let hits = FileHits {
            path: path.clone(),
            hits: collect.hits,
            matched_lines: collect.matched_lines,
        };
        gathered.keep((Reverse(time), path), hits, self);
    }

    /// Searches the whole file, if it is text.
    fn look<'a>(
        &'a self,
        tools: &mut Tools,
        file: &'a File,
        collect: &mut Collect<'a>,
    ) -> io::Result<()> {
        let Tools { matcher, searcher, buffer } = tools;
        let mut watched = Watched { file, stop: &self.stop };
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
                memchr::memchr(0, &begin[..length.min(BINARY_WITHIN)]).map(|at| at as u64);
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
        if collect.binary_at.is_some_and(|at| at >= BINARY_WITHIN as u64)
            && watched.file.rewind().is_ok()
        {
            // Text that contains a NUL: searched again.
            *collect = self.collect();
            result = searcher.search_reader(&*matcher, watched, collect);
        }
        result
    }

    fn collect(&self) -> Collect<'_> {
        let limit = if self.output == Output::Matches { self.limit } else { 0 };
        Collect::new(&self.matcher, limit, self.output == Output::Files)
    }
}

impl Gathered {
    fn found(self) -> Found {
        Found { files: self.newest.into_values().collect(), ..self.counts }
    }

    /// Merges the results of another thread.
    fn add(&mut self, part: Self, search: &Search<'_>) {
        let (sum, other) = (&mut self.counts, &part.counts);
        for (sum, n) in [
            (&mut sum.n_hits, other.n_hits),
            (&mut sum.matched_lines, other.matched_lines),
            (&mut sum.matched_files, other.matched_files),
            (&mut sum.searched, other.searched),
            (&mut sum.met, other.met),
            (&mut sum.binary_skipped, other.binary_skipped),
            (&mut sum.secret_skipped, other.secret_skipped),
            (&mut sum.withheld, other.withheld),
            (&mut sum.unreadable, other.unreadable),
            (&mut sum.too_long, other.too_long),
            (&mut sum.lines_cut, other.lines_cut),
        ] {
            *sum += n;
        }
        for (key, hits) in part.newest {
            self.keep(key, hits, search);
        }
    }

    fn keep(&mut self, key: (Reverse<SystemTime>, String), hits: FileHits, search: &Search<'_>) {
        let weight = |hits: &FileHits| match search.output {
            Output::Matches => hits.hits.len(),
            Output::Files | Output::Count => 1,
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
struct Watched<'a> {
    file: &'a File,
    stop: &'a Stop,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.now() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}
