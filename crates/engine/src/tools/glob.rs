//! Glob: finds files by name.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use globset::GlobMatcher;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_tool::FileTool;
use super::files::{
    AbortReason, HINT_TIME_LIMIT, MAX_SEARCHED_AGAIN, SearchLimits, display_path, hint_entry_limit,
    order_newest_first, skipped_matches_hint,
};
use super::{Tool, ToolCx, cancelled_failure, embedded_spec, glob_pattern, json_object};
use agent_host::workspace::{
    FileKind, ProjectPath, ThreadResults, Walk, WalkBase, WalkRules, WalkedPath, Workspace,
};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::pluralize;

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    pattern: String,
    #[serde(default = "super::project_root")]
    path: String,
    #[serde(default = "default_limit")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    include_ignored: bool,
}

fn default_limit() -> usize {
    50
}

pub(super) fn tool() -> impl Tool {
    with_limits(Duration::from_secs(2), 200_000)
}

fn with_limits(time: Duration, max_entries: u64) -> impl Tool {
    let spec = embedded_spec("Glob", embedded::GLOB);
    FileTool::new(
        spec,
        |args: &Args| &args.path,
        move |args, cx, base| {
            cx.workspace.check_directory(base)?;
            let limits = SearchLimits::with_time_limit(time, cx.cancel.clone());
            find_files(args, cx, base, limits.with_max_entries(max_entries))
        },
    )
}

fn find_files(
    args: &Args,
    cx: &ToolCx,
    base: &ProjectPath,
    limits: SearchLimits,
) -> Result<Report, Failure> {
    let workspace = &*cx.workspace;
    // Distinguishes an unreadable folder from an empty one.
    workspace.list_matching_entries(base, 1, &|_, _| false)?;
    // A pattern may contain an absolute path.
    let prefix = format!("{}/", base.absolute().display());
    let glob = args.pattern.strip_prefix(&prefix).map_or_else(
        || args.pattern.clone(),
        |inside| if inside.contains('/') { inside.to_owned() } else { format!("./{inside}") },
    );
    let rules = WalkRules {
        include_hidden: args.include_hidden,
        include_ignored: args.include_ignored,
        include_tracked: true,
        skip_caches: false,
    };
    let search = GlobSearch {
        workspace,
        base,
        exact_pattern: glob_pattern::compile_glob(&glob, true)?,
        near_pattern: glob_pattern::compile_glob(&in_any_folder(&glob), false)?,
        limits,
    };
    let mut found = search.run_walk(rules)?;
    let matched = found.paths.len();
    let aborted = search.limits.reason();
    if aborted == Some(AbortReason::Cancelled) {
        return Err(cancelled_failure());
    }
    let (at, shown) = (base.relative(), display_path(base.relative()));
    if let (Some(aborted), 0) = (aborted, matched) {
        let message = format!(
            "no file matching {:?} was found among the first {} entries in {shown}, then the {} was reached",
            args.pattern,
            search.limits.visited(),
            limit_word(aborted)
        );
        return Err(Failure::new(ErrorCode::Timeout, message)
            .with_hint("name a smaller folder in `path`")
            .with_path(at));
    }
    let truncated = matched > args.limit;
    let (newest, is_ordered_by_time) = found.newest_paths(args.limit);
    let existing = newest.filter(|path| workspace.still_exists(path));
    let paths: Vec<String> = existing.map(|path| path.relative().to_owned()).collect();

    let mut text = if matched == 0 {
        let mut text = format!("No files matching {:?} in {shown}.", args.pattern);
        text.extend(search.location_hint(&glob, rules, &found, cx.cancel.clone()));
        text
    } else {
        let order = if is_ordered_by_time { ", newest first" } else { "" };
        let mut text = format!("{} matching{order}.", pluralize(matched as u64, "file"));
        if aborted.is_none() && search.limits.visited() <= MAX_SEARCHED_AGAIN {
            let known = (!truncated).then(|| paths.iter().map(String::as_str).collect());
            text.extend(search.skipped_hint(rules, (matched, known), cx.cancel.clone()));
        }
        text
    };
    if truncated {
        text.push_str(&format!(" The first {} are shown; narrow the pattern.", args.limit));
    }
    let mut data = json_object(json!({ "paths": paths }));
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
    let mut stats = json_object(json!({ "matched": matched, "visited": search.limits.visited() }));
    if found.unreadable > 0 {
        stats.insert("unreadable".to_owned(), found.unreadable.into());
    }
    Ok(Report {
        partial: truncated || aborted.is_some(),
        data,
        text,
        stats,
        path: Some(at.to_owned()),
    })
}

fn limit_word(aborted: AbortReason) -> &'static str {
    match aborted {
        AbortReason::Cancelled | AbortReason::TimeLimit => "time limit",
        AbortReason::CountLimit => "limit of entries",
    }
}

struct GlobSearch<'a> {
    workspace: &'a Workspace,
    base: &'a ProjectPath,
    exact_pattern: GlobMatcher,
    /// A more tolerant pattern for suggestions: case-insensitive, below any folder.
    near_pattern: GlobMatcher,
    limits: SearchLimits,
}

fn in_any_folder(glob: &str) -> String {
    match glob.trim_start_matches("./").trim_start_matches('/') {
        glob if glob.starts_with("**") => glob.to_owned(),
        glob => format!("**/{glob}"),
    }
}

/// Keeps a few, of which one will be shown.
fn keep_example(some: &mut Vec<ProjectPath>, path: ProjectPath) {
    if some.len() < 1000 {
        some.push(path);
    }
}

#[derive(Default)]
struct GlobMatches<'a> {
    /// Unsorted.
    paths: Vec<(ModificationOrder, WalkedPath<'a>)>,
    /// Files that match only the tolerant pattern; collected until one matches exactly.
    near_matches: Vec<ProjectPath>,
    matching_folders: Vec<ProjectPath>,
    unreadable: u64,
}

/// Modification time; the newest are sorted first.
type ModificationOrder = Reverse<(i64, i64)>;

impl GlobMatches<'_> {
    /// Also returns whether the newest is first; otherwise all were written in one go.
    fn newest_paths(&mut self, limit: usize) -> (impl Iterator<Item = ProjectPath>, bool) {
        let time = |(Reverse((seconds, nanoseconds)), _): &(ModificationOrder, _)| {
            let seconds = u64::try_from(*seconds).unwrap_or(0);
            Duration::new(seconds, u32::try_from(*nanoseconds).unwrap_or(0))
        };
        let by_path = |(_, entry): &(_, WalkedPath<'_>), (_, other): &(_, WalkedPath<'_>)| {
            entry.absolute().as_os_str().cmp(other.absolute().as_os_str())
        };
        let is_ordered_by_time = order_newest_first(&mut self.paths, limit, time, by_path);
        let newest = self.paths.iter().take(limit);
        (newest.map(|(_, entry)| entry.to_project_path()), is_ordered_by_time)
    }
}

impl GlobSearch<'_> {
    fn run_walk(&self, rules: WalkRules) -> Result<GlobMatches<'_>, Failure> {
        let opened = WalkBase::open(self.base)?;
        let parts = Mutex::default();
        let walk = Walk { base: self.base.clone(), rules, depth: None };
        let n_unreadable = self.workspace.walk(&walk, || {
            let mut part = ThreadResults::<GlobMatches<'_>>::of(&parts);
            // (A copy for each thread avoids waiting for their caches.)
            let (exact, near) = (self.exact_pattern.clone(), self.near_pattern.clone());
            let opened = &opened;
            Box::new(move |entry| {
                if self.limits.count_entry() {
                    return false;
                }
                let inside = entry.relative_to(self.base.absolute());
                let found = &mut part.own;
                if exact.is_match(inside) {
                    if entry.kind() == FileKind::Directory {
                        keep_example(&mut found.matching_folders, entry.to_project_path());
                    } else if let Some(time) = self.time_of(opened, &entry) {
                        found.paths.push((Reverse(time), entry));
                    }
                } else if found.paths.is_empty()
                    && entry.kind() == FileKind::File
                    && near.is_match(inside)
                {
                    keep_example(&mut found.near_matches, entry.to_project_path());
                }
                true
            })
        });
        let mut found = GlobMatches::default();
        for part in parts.into_inner() {
            found.paths.extend(part.paths);
            found.near_matches.extend(part.near_matches);
            found.matching_folders.extend(part.matching_folders);
        }
        for paths in [&mut found.near_matches, &mut found.matching_folders] {
            paths.sort_unstable_by(|path, other| path.relative().cmp(other.relative()));
        }
        found.unreadable = n_unreadable as u64;
        Ok(found)
    }

    /// Modification time; `None` if it is not a file, or is outside the project.
    fn time_of(&self, opened: &WalkBase<'_>, entry: &WalkedPath<'_>) -> Option<(i64, i64)> {
        match entry.kind() {
            FileKind::File => opened.modification_time(entry).ok(),
            FileKind::Link => {
                let target = self.workspace.link_target(entry.absolute())?;
                let data = self.workspace.metadata(&target).ok()?;
                data.is_file().then(|| (data.mtime(), data.mtime_nsec()))
            }
            FileKind::Directory | FileKind::Other => None,
        }
    }

    /// Where the file probably is, if nothing was found.
    fn location_hint(
        &self,
        glob: &str,
        rules: WalkRules,
        found: &GlobMatches<'_>,
        cancel: CancellationToken,
    ) -> Option<String> {
        let is_there = |path: &&ProjectPath| self.workspace.still_exists(path);
        // (For a pattern that ends in `*` the hint would be useless: no file matched, so the folder has none.)
        let is_name = !glob.ends_with('*');
        if let Some(folder) = found.matching_folders.iter().find(|path| is_name && is_there(path)) {
            let folder = folder.relative();
            return Some(format!(
                " Glob finds files, and {folder} is a directory: list it with LS, or search for {glob}/**."
            ));
        }
        let is_caseless = glob_pattern::compile_glob(glob, false).ok()?;
        let only_in_case = |path: &&ProjectPath| {
            path.absolute()
                .strip_prefix(self.base.absolute())
                .is_ok_and(|inside| is_caseless.is_match(inside))
        };
        let mut near = found.near_matches.iter().filter(is_there);
        if let Some(example) = near.clone().find(only_in_case) {
            let example = example.relative();
            return Some(format!(" Patterns are case-sensitive: {example} would match without."));
        }
        if let Some(example) = near.next() {
            return Some(format!(
                " A pattern with `/` begins at `path`: {} would match {}.",
                in_any_folder(glob),
                example.relative()
            ));
        }
        self.skipped_hint(rules, (0, Some(HashSet::new())), cancel)
    }

    /// How many files in hidden or ignored places match besides those that were found, which may be `known` by path.
    fn skipped_hint(
        &self,
        rules: WalkRules,
        (n_found, known): (usize, Option<HashSet<&str>>),
        cancel: CancellationToken,
    ) -> Option<String> {
        if rules.include_hidden && rules.include_ignored {
            return None;
        }
        let again = GlobSearch {
            workspace: self.workspace,
            base: self.base,
            exact_pattern: self.exact_pattern.clone(),
            near_pattern: self.exact_pattern.clone(),
            limits: SearchLimits::with_time_limit(HINT_TIME_LIMIT, cancel)
                .with_max_entries(hint_entry_limit(self.limits.visited())),
        };
        let mut found = again.run_walk(WalkRules::WITH_SKIPPED).ok()?;
        let n_files = found.paths.len();
        let hint = |n_files: usize, example: Option<&str>| {
            skipped_matches_hint(n_files as u64, &again.limits, example, n_found > 0)
        };
        let Some(known) = known else {
            let n_more = n_files.checked_sub(n_found).filter(|n_more| *n_more > 0)?;
            return Some(hint(n_more, None));
        };
        let is_there = |path: &ProjectPath| self.workspace.still_exists(path);
        let is_new = |path: &ProjectPath| !known.contains(path.relative()) && is_there(path);
        let (newest, _) = found.newest_paths(n_files);
        let skipped: Vec<ProjectPath> = newest.filter(is_new).collect();
        Some(hint(skipped.len(), Some(skipped.first()?.relative())))
    }
}

#[cfg(test)]
mod tests;
