//! The search itself: which files, in what order, and how much of it is kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::Output;
use super::sink::{Collect, Hit};
use crate::permission::{Why, Withheld};
use crate::tools::files::Stop;
use crate::workspace::{Entry, Kind, ProjectPath, Rules, Walk, Workspace};

/// A line (or, with multiline, a file) that is larger is not searched.
const MAX_HEAP: usize = 64 * 1024 * 1024;
/// A NUL within this much of the beginning makes a file binary, as for Read.
const BINARY_WITHIN: u64 = 8 * 1024;

#[derive(Clone)]
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) matcher: RegexMatcher,
    pub(super) file_pattern: Option<GlobMatcher>,
    pub(super) multiline: bool,
    pub(super) context: usize,
    pub(super) output: Output,
    pub(super) limit: usize,
    pub(super) withheld: &'a Withheld,
    pub(super) stop: Stop,
}

/// What matched in one file.
pub(super) struct FileHits {
    pub(super) path: String,
    pub(super) hits: Vec<Hit>,
    pub(super) matched_lines: u64,
}

/// What was found, newest file first.
#[derive(Default)]
pub(super) struct Found {
    pub(super) files: Vec<FileHits>,
    pub(super) n_hits: u64,
    pub(super) matched_lines: u64,
    pub(super) matched_files: u64,
    pub(super) searched: u64,
    /// Files that were met, also those that `file_pattern` excluded.
    pub(super) met: u64,
    pub(super) binary_skipped: u64,
    /// Files that look like secrets.
    pub(super) secret_skipped: u64,
    /// Files that a rule keeps from being read.
    pub(super) withheld: u64,
    pub(super) unreadable: u64,
    pub(super) too_long: u64,
    /// Lines that are shown in part.
    pub(super) lines_cut: u64,
    /// Git's own directories.
    pub(super) git_skipped: u64,
}

/// What the threads add to. Of the files only the newest are kept, as many as can be shown.
#[derive(Default)]
struct Gathered {
    counts: Found,
    newest: BTreeMap<(Reverse<SystemTime>, String), FileHits>,
    n_kept: usize,
}

impl Search<'_> {
    pub(super) fn file(&self, path: &ProjectPath) -> Found {
        let gathered = Mutex::new(Gathered::default());
        self.search(&mut self.searcher(), path, &gathered);
        Self::finish(gathered)
    }

    pub(super) fn folder(&self, base: &ProjectPath, rules: Rules) -> Found {
        let gathered = Mutex::new(Gathered::default());
        let walk = Walk { base: base.clone(), rules, depth: None };
        let skipped = self.workspace.walk(&walk, || {
            let mut searcher = self.searcher();
            let gathered = &gathered;
            Box::new(move |entry: Entry| {
                if self.stop.now() {
                    return false;
                }
                if entry.kind != Kind::File {
                    return true;
                }
                // Named itself such a file is a question for the gate; met on the way it is passed by.
                let why = self.withheld.why("Grep", entry.path.relative());
                if why.is_none() {
                    lock(gathered).counts.met += 1;
                }
                let path = entry.path.absolute();
                let inside = path.strip_prefix(base.absolute()).unwrap_or(path);
                if self.file_pattern.as_ref().is_some_and(|glob| !glob.is_match(inside)) {
                    return self.stop.reason().is_none();
                }
                match why {
                    None => self.search(&mut searcher, &entry.path, gathered),
                    Some(Why::Secret) => lock(gathered).counts.secret_skipped += 1,
                    Some(Why::Rule) => lock(gathered).counts.withheld += 1,
                }
                self.stop.reason().is_none()
            })
        });
        let mut found = Self::finish(gathered);
        found.unreadable += skipped.unreadable as u64;
        found.git_skipped = skipped.git as u64;
        found
    }

    fn finish(gathered: Mutex<Gathered>) -> Found {
        let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
        Found { files: gathered.newest.into_values().collect(), ..gathered.counts }
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
            .binary_detection(BinaryDetection::quit(0))
            .build()
    }

    fn search(&self, searcher: &mut Searcher, path: &ProjectPath, gathered: &Mutex<Gathered>) {
        let Ok((mut file, data)) = self.workspace.open_file(path) else {
            lock(gathered).counts.unreadable += 1;
            return;
        };
        let mut collect = self.collect();
        let mut result = searcher.search_reader(&self.matcher, self.watched(&file), &mut collect);
        if collect.binary_at.is_some_and(|at| at >= BINARY_WITHIN) && file.rewind().is_ok() {
            // Text that holds a NUL somewhere: searched on.
            collect = self.collect();
            searcher.set_binary_detection(BinaryDetection::none());
            result = searcher.search_reader(&self.matcher, self.watched(&file), &mut collect);
            searcher.set_binary_detection(BinaryDetection::quit(0));
        }
        let mut gathered = lock(gathered);
        let counts = &mut gathered.counts;
        if collect.binary_at.is_some() {
            counts.binary_skipped += 1;
            return;
        }
        counts.searched += 1;
        match result {
            Ok(()) => {}
            Err(_) if self.stop.reason().is_some() => {}
            Err(error) if error.to_string().contains("allocation limit") => counts.too_long += 1,
            Err(_) => counts.unreadable += 1,
        }
        if collect.matched_lines == 0 {
            return;
        }
        counts.matched_files += 1;
        counts.matched_lines += collect.matched_lines;
        counts.n_hits += collect.n_hits;
        counts.lines_cut += collect.lines_cut;
        let time = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = path.relative().to_owned();
        let hits = FileHits {
            path: path.clone(),
            hits: collect.hits,
            matched_lines: collect.matched_lines,
        };
        gathered.keep((Reverse(time), path), hits, self);
    }

    fn collect(&self) -> Collect<'_> {
        let limit = if self.output == Output::Matches { self.limit } else { 0 };
        Collect::new(&self.matcher, limit, self.output == Output::Files)
    }

    fn watched<'a>(&'a self, file: &'a File) -> Watched<'a> {
        Watched { file, stop: &self.stop }
    }
}

impl Gathered {
    fn keep(&mut self, key: (Reverse<SystemTime>, String), hits: FileHits, search: &Search<'_>) {
        let weight = |hits: &FileHits| match search.output {
            Output::Matches => hits.hits.len(),
            Output::Files | Output::Count => 1,
        };
        self.n_kept += weight(&hits);
        self.newest.insert(key, hits);
        // The oldest file goes if those before it fill the answer already.
        while let Some(oldest) = self.newest.last_entry()
            && self.n_kept - weight(oldest.get()) >= search.limit
        {
            self.n_kept -= weight(oldest.get());
            oldest.remove();
        }
    }
}

/// A file that ends early when the search has to.
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

fn lock(gathered: &Mutex<Gathered>) -> std::sync::MutexGuard<'_, Gathered> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}
