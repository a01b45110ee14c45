//! Glob: finds files by name.

use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_tool::FileTool;
use super::files::{
    Aborted, HINT_TIME, Stop, cancelled, elsewhere, hint_entries, matching, object, place,
};
use super::{Tool, ToolCx, pattern, spec};
use agent_host::workspace::{Base, Kind, Met, Part, ProjectPath, Rules, Walk, Workspace};
use agent_protocol::counted;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};

/// Limits of a search.
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

/// The tool with the default limits.
pub(super) fn tool() -> impl Tool {
    with_limits(Duration::from_secs(2), 200_000)
}

/// The tool with these limits of time and entries.
fn with_limits(time: Duration, visited: u64) -> impl Tool {
    let spec = spec("Glob", embedded::GLOB);
    let limits = Limits { time, visited };
    FileTool::looking(
        spec,
        |args: &Args| &args.path,
        move |args, cx, checked_path| {
            find(args, cx, &cx.workspace.directory(checked_path)?, limits)
        },
    )
}

fn find(args: &Args, cx: &ToolCx, base: &ProjectPath, limits: Limits) -> Result<Report, Failure> {
    let workspace = &*cx.workspace;
    // Distinguishes an unreadable folder from an empty one.
    workspace.entries_like(base, 1, &|_, _| false)?;
    // A pattern may contain an absolute path.
    let prefix = format!("{}/", base.absolute().display());
    let glob = args.pattern.strip_prefix(&prefix).map_or_else(
        || args.pattern.clone(),
        |inside| if inside.contains('/') { inside.to_owned() } else { format!("./{inside}") },
    );
    let rules =
        Rules { include_hidden: args.include_hidden, include_ignored: args.include_ignored };
    let stop = Stop::after(limits.time, cx.cancel.clone()).with_max_entries(limits.visited);
    let search = Search {
        workspace,
        base,
        exact: pattern::compile(&glob, true)?,
        near: pattern::compile(&anywhere(&glob), false)?,
        stop,
    };
    let mut found = search.run(rules)?;
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
            search.stop.visited(),
            limit_word(aborted)
        );
        return Err(Failure::new(ErrorCode::Timeout, message)
            .hint("name a smaller folder in `path`")
            .at(at));
    }
    let truncated = matched > args.limit;
    let there = found.newest(args.limit).filter(|path| workspace.is_still_there(path));
    let paths: Vec<String> = there.map(|path| path.relative().to_owned()).collect();

    let mut text = if matched == 0 {
        let mut text = format!("No files matching {:?} in {shown}.", args.pattern);
        if let Some(hint) = search.elsewhere(&glob, rules, &found, cx.cancel.clone()) {
            text.push(' ');
            text.push_str(&hint);
        }
        text
    } else {
        format!("{} matching {:?}, newest first.", counted(matched as u64, "file"), args.pattern)
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
    let mut stats = object(json!({ "matched": matched, "visited": search.stop.visited() }));
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
    /// A more tolerant pattern for suggestions: case-insensitive, below any folder.
    near: GlobMatcher,
    stop: Stop,
}

/// The same pattern below any folder.
fn anywhere(glob: &str) -> String {
    match glob.trim_start_matches("./").trim_start_matches('/') {
        glob if glob.starts_with("**") => glob.to_owned(),
        glob => format!("**/{glob}"),
    }
}

/// Keeps a few, of which one will be shown.
fn keep(some: &mut Vec<ProjectPath>, path: ProjectPath) {
    if some.len() < 1000 {
        some.push(path);
    }
}

#[derive(Default)]
struct Found<'a> {
    /// Unsorted.
    paths: Vec<(Changed, Met<'a>)>,
    /// Files that match only the tolerant pattern; collected until one matches exactly.
    near: Vec<ProjectPath>,
    /// Folders that match.
    folders: Vec<ProjectPath>,
    /// Number of symlinks among `paths`.
    links: u64,
    unreadable: u64,
}

/// Modification time; the newest are sorted first.
type Changed = Reverse<(i64, i64)>;

impl Found<'_> {
    fn add(&mut self, part: Self) {
        self.paths.extend(part.paths);
        self.near.extend(part.near);
        self.folders.extend(part.folders);
        self.links += part.links;
    }

    /// The newest files, in order, up to the limit.
    fn newest(&mut self, limit: usize) -> impl Iterator<Item = ProjectPath> {
        let in_order = |(time, met): &(Changed, Met<'_>),
                        (other_time, other): &(Changed, Met<'_>)| {
            let by_name = || met.absolute().as_os_str().cmp(other.absolute().as_os_str());
            time.cmp(other_time).then_with(by_name)
        };
        let limit = limit.min(self.paths.len());
        if limit < self.paths.len() {
            self.paths.select_nth_unstable_by(limit, in_order);
        }
        let newest = &mut self.paths[..limit];
        newest.sort_unstable_by(in_order);
        newest.iter().map(|(_, met)| met.path())
    }
}

impl Search<'_> {
    fn run(&self, rules: Rules) -> Result<Found<'_>, Failure> {
        let opened = Base::open(self.base)?;
        let parts = Mutex::default();
        let walk = Walk { base: self.base.clone(), rules, depth: None };
        let skipped = self.workspace.walk(&walk, || {
            let mut part = Part::<Found<'_>>::of(&parts);
            // (A copy for each thread avoids waiting for their caches.)
            let (exact, near) = (self.exact.clone(), self.near.clone());
            let opened = &opened;
            Box::new(move |met| {
                if self.stop.visit() {
                    return false;
                }
                let inside = met.below(self.base.absolute());
                let found = &mut part.own;
                if exact.is_match(inside) {
                    if met.kind() == Kind::Directory {
                        keep(&mut found.folders, met.path());
                    } else if let Some(time) = self.time_of(opened, &met) {
                        found.links += u64::from(met.kind() == Kind::Link);
                        found.paths.push((Reverse(time), met));
                    }
                } else if found.paths.is_empty()
                    && met.kind() == Kind::File
                    && near.is_match(inside)
                {
                    keep(&mut found.near, met.path());
                }
                true
            })
        });
        let mut found = Found::default();
        for part in parts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            found.add(part);
        }
        for paths in [&mut found.near, &mut found.folders] {
            paths.sort_unstable_by(|path, other| path.relative().cmp(other.relative()));
        }
        found.unreadable = skipped.unreadable as u64;
        Ok(found)
    }

    /// Modification time; `None` if it is not a file, or is outside the project.
    fn time_of(&self, opened: &Base<'_>, met: &Met<'_>) -> Option<(i64, i64)> {
        match met.kind() {
            Kind::File => opened.modified(met).ok(),
            Kind::Link => {
                let target = self.workspace.link_target(met.absolute())?;
                let data = self.workspace.metadata(&target).ok()?;
                data.is_file().then(|| (data.mtime(), data.mtime_nsec()))
            }
            Kind::Directory | Kind::Other => None,
        }
    }

    /// Where the file probably is, if nothing was found.
    fn elsewhere(
        &self,
        glob: &str,
        rules: Rules,
        found: &Found<'_>,
        cancel: CancellationToken,
    ) -> Option<String> {
        let is_there = |path: &&ProjectPath| self.workspace.is_still_there(path);
        // (For a pattern that ends in `*` the hint would be useless: no file matched, so the folder has none.)
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
            stop: Stop::after(HINT_TIME, cancel)
                .with_max_entries(hint_entries(self.stop.visited())),
        };
        let mut found = again.run(everything).ok()?;
        let n_files = found.paths.len();
        let example = found.newest(n_files).find(|path| is_there(&path))?;
        let files = format!("{}{}", again.stop.at_least(), matching(n_files as u64));
        Some(elsewhere(&files, example.relative(), rules.include_hidden))
    }
}

#[cfg(test)]
mod tests;
