//! Glob: find files by name.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_tool::FileTool;
use super::files::{
    Aborted, HINT_TIME, Stop, cancelled, count, elsewhere, matching, object, place,
};
use super::{Tool, ToolCx, pattern, spec};
use crate::protocol::envelope::{ErrorCode, Failure, Report};
use crate::workspace::{Entry, Kind, ProjectPath, Rules, Walk, Workspace};

/// How far one search goes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    time: Duration,
    visited: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(default = "fifty")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    include_ignored: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn fifty() -> usize {
    50
}

/// The tool, with its usual limits.
pub(super) fn tool() -> impl Tool {
    with_limits(Duration::from_secs(2), 200_000)
}

/// The tool with these limits of time and of entries looked at.
fn with_limits(time: Duration, visited: u64) -> impl Tool {
    let spec = spec(
        "Glob",
        include_str!("../../prompts/tools/glob.md"),
        include_str!("../../prompts/tools/glob.json"),
    );
    let limits = Limits { time, visited };
    FileTool::looking(
        spec,
        |args: &Args| &args.path,
        move |args, cx, place| find(args, cx, &cx.workspace.directory(place)?, limits),
    )
}

fn find(args: &Args, cx: &ToolCx, base: &ProjectPath, limits: Limits) -> Result<Report, Failure> {
    let workspace = &*cx.workspace;
    // Told from an empty one: it cannot be read.
    workspace.entries(base)?;
    // A pattern may be written as an absolute path.
    let prefix = format!("{}/", base.absolute().display());
    let glob = args.pattern.strip_prefix(&prefix).map_or_else(
        || args.pattern.clone(),
        |inside| if inside.contains('/') { inside.to_owned() } else { format!("./{inside}") },
    );
    let rules =
        Rules { include_hidden: args.include_hidden, include_ignored: args.include_ignored };
    let stop = Stop::after(limits.time, cx.cancel.clone());
    let search = Search {
        workspace,
        base,
        exact: pattern::compile(&glob, true)?,
        near: pattern::compile(&anywhere(&glob), false)?,
        stop,
        max_visited: limits.visited,
    };
    let mut found = search.run(rules);
    let matched = found.paths.len();
    let aborted = search.stop.reason();
    if aborted == Some(Aborted::Cancelled) {
        return Err(cancelled());
    }
    let (at, shown) = (base.relative(), place(base.relative()));
    if let (Some(aborted), 0) = (aborted, matched) {
        let message = format!(
            "no file matching {:?} was found among the first {} entries in {shown}, then the {} was reached",
            args.pattern,
            found.visited,
            limit_word(aborted)
        );
        return Err(Failure::new(ErrorCode::Timeout, message)
            .hint("name a smaller folder in `path`")
            .at(at));
    }
    found.sort();
    let truncated = matched > args.limit;
    let newest = found.paths.iter().map(|(_, path)| path).take(args.limit);
    let paths: Vec<&str> =
        newest.filter(|path| workspace.is_still_there(path)).map(ProjectPath::relative).collect();

    let mut text = if matched == 0 {
        let mut text = format!("No files matching {:?} in {shown}.", args.pattern);
        if let Some(hint) = search.elsewhere(&glob, rules, &found, cx.cancel.clone()) {
            text.push(' ');
            text.push_str(&hint);
        }
        text
    } else {
        format!("{} matching {:?}, newest first.", count(matched as u64, "file"), args.pattern)
    };
    if truncated {
        text.push_str(&format!(
            " The first {} are shown; narrow the pattern or raise limit.",
            args.limit
        ));
    }
    let mut data = object(json!({ "paths": paths }));
    if let Some(aborted) = aborted {
        data.insert("aborted_reason".to_owned(), aborted.as_str().into());
        text.push_str(&format!(
            " There may be more: the {} was reached; name a smaller folder in `path`.",
            limit_word(aborted)
        ));
    }
    if truncated || aborted.is_some() {
        data.insert("truncated".to_owned(), true.into());
    }
    let mut stats = object(json!({ "matched": matched, "visited": found.visited }));
    for (name, n) in [("links", found.links), ("unreadable", found.unreadable)] {
        if n > 0 {
            stats.insert(name.to_owned(), n.into());
        }
    }
    Ok(Report {
        partial: truncated || aborted.is_some(),
        data,
        text,
        stats,
        path: Some(at.to_owned()),
    })
}

fn limit_word(aborted: Aborted) -> &'static str {
    match aborted {
        Aborted::Cancelled | Aborted::TimeLimit => "time limit",
        Aborted::CountLimit => "limit of entries",
    }
}

struct Search<'a> {
    workspace: &'a Workspace,
    base: &'a ProjectPath,
    exact: GlobMatcher,
    /// Matches whatever `exact` does, and what was perhaps meant: in any case, below any folder.
    near: GlobMatcher,
    stop: Stop,
    max_visited: u64,
}

/// The same pattern below any folder.
fn anywhere(glob: &str) -> String {
    match glob.trim_start_matches("./").trim_start_matches('/') {
        glob if glob.starts_with("**") => glob.to_owned(),
        glob => format!("**/{glob}"),
    }
}

/// Keeps some, of which one will be told.
fn keep(some: &mut Vec<ProjectPath>, path: ProjectPath) {
    if some.len() < 1000 {
        some.push(path);
    }
}

#[derive(Default)]
struct Found {
    /// Sorted, the newest stand first.
    paths: Vec<(Reverse<SystemTime>, ProjectPath)>,
    /// Files that are only near.
    near: Vec<ProjectPath>,
    /// Folders that match, which are no files.
    folders: Vec<ProjectPath>,
    visited: u64,
    /// Symlinks among `paths`.
    links: u64,
    unreadable: u64,
}

impl Found {
    fn sort(&mut self) {
        self.paths.sort_unstable_by(|(time, path), (other_time, other)| {
            time.cmp(other_time).then_with(|| path.relative().cmp(other.relative()))
        });
        for paths in [&mut self.near, &mut self.folders] {
            paths.sort_unstable_by(|path, other| path.relative().cmp(other.relative()));
        }
    }
}

impl Search<'_> {
    fn run(&self, rules: Rules) -> Found {
        let found = Mutex::new(Found::default());
        let visited = AtomicU64::new(0);
        let walk = Walk { base: self.base.clone(), rules, depth: None };
        let skipped = self.workspace.walk(&walk, || {
            Box::new(|entry: Entry| {
                if visited.fetch_add(1, Ordering::Relaxed) >= self.max_visited {
                    self.stop.set(Aborted::CountLimit);
                }
                if self.stop.now() {
                    return false;
                }
                let path = entry.path.absolute();
                let inside = path.strip_prefix(self.base.absolute()).unwrap_or(path);
                if !self.near.is_match(inside) {
                    return true;
                }
                let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
                match (self.exact.is_match(inside), entry.kind) {
                    (true, Kind::Directory) => keep(&mut lock().folders, entry.path),
                    (true, Kind::File | Kind::Link | Kind::Other) => {
                        if let Some(time) = self.time_of(&entry) {
                            lock().links += u64::from(entry.kind == Kind::Link);
                            lock().paths.push((Reverse(time), entry.path));
                        }
                    }
                    (false, Kind::File) => keep(&mut lock().near, entry.path),
                    (false, Kind::Directory | Kind::Link | Kind::Other) => {}
                }
                true
            })
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.visited = visited.into_inner().min(self.max_visited);
        found.unreadable = skipped.unreadable as u64;
        found
    }

    /// When a file was changed; nothing for what is no file, or leads out of the project.
    fn time_of(&self, entry: &Entry) -> Option<SystemTime> {
        let data = match entry.kind {
            Kind::File => self.workspace.metadata(&entry.path).ok()?,
            Kind::Link => {
                let target = self.workspace.link_target(entry.path.absolute())?;
                self.workspace.metadata(&target).ok().filter(std::fs::Metadata::is_file)?
            }
            Kind::Directory | Kind::Other => return None,
        };
        data.modified().ok()
    }

    /// Where the file probably is, when nothing was found.
    fn elsewhere(
        &self,
        glob: &str,
        rules: Rules,
        found: &Found,
        cancel: CancellationToken,
    ) -> Option<String> {
        let is_there = |path: &&ProjectPath| self.workspace.is_still_there(path);
        // (All that is in a folder is asked for: then it is empty.)
        let is_name = !glob.ends_with('*');
        if let Some(folder) = found.folders.iter().find(|path| is_name && is_there(path)) {
            let folder = folder.relative();
            return Some(format!(
                "Glob finds files, and {folder} is a directory: list it with LS, or search for {glob}/**."
            ));
        }
        let is_caseless = pattern::compile(glob, false).ok()?;
        let only_in_case = |path: &&ProjectPath| {
            path.absolute()
                .strip_prefix(self.base.absolute())
                .is_ok_and(|inside| is_caseless.is_match(inside))
        };
        let mut near = found.near.iter().filter(is_there);
        if let Some(example) = near.clone().find(only_in_case) {
            let example = example.relative();
            return Some(format!("Patterns are case-sensitive: {example} would match without."));
        }
        if let Some(example) = near.next() {
            return Some(format!(
                "A pattern with `/` begins at `path`: {} would match {}.",
                anywhere(glob),
                example.relative()
            ));
        }
        if rules.include_hidden && rules.include_ignored {
            return None;
        }
        let everything = Rules { include_hidden: true, include_ignored: true };
        let again = Search {
            workspace: self.workspace,
            base: self.base,
            exact: self.exact.clone(),
            near: self.exact.clone(),
            stop: Stop::after(HINT_TIME, cancel),
            max_visited: self.max_visited,
        };
        let mut found = again.run(everything);
        found.sort();
        let example = found.paths.iter().map(|(_, path)| path).find(is_there)?;
        let files = matching(found.paths.len() as u64);
        Some(elsewhere(&files, example.relative(), rules.include_hidden))
    }
}

#[cfg(test)]
mod tests;
