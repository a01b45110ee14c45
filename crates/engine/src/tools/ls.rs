//! LS: lists one directory.

use std::cmp::Ordering;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::file_tool::FileTool;
use super::{Tool, embedded_spec, glob_pattern, json_object};
use agent_host::workspace::{FileKind, ProjectPath, Walk, WalkEntry, WalkRules, Workspace};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::pluralize;

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    #[serde(default = "super::project_root")]
    path: String,
    #[serde(default)]
    offset: usize,
    #[serde(default = "default_limit")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    ignore: Vec<String>,
}

fn default_limit() -> usize {
    100
}

pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("LS", embedded::LS);
    FileTool::new(
        spec,
        |args: &Args| &args.path,
        |args, cx, checked_path| {
            list_directory(&cx.workspace, args, &cx.workspace.existing_directory(checked_path)?)
        },
    )
}

fn list_directory(
    workspace: &Workspace,
    args: &Args,
    folder: &ProjectPath,
) -> Result<Report, Failure> {
    let unwanted = args.ignore.iter().map(|glob| glob_pattern::compile_glob(glob, true));
    let unwanted = unwanted.collect::<Result<Vec<_>, _>>()?;
    let (mut entries, n_everything) = if args.include_hidden {
        let everything = workspace.list_matching_entries(folder, usize::MAX, &|_, _| true)?;
        let n = everything.len();
        (everything, n)
    } else {
        // Two reads of the folder, in parallel.
        std::thread::scope(|scope| {
            let count = std::thread::Builder::new()
                .spawn_scoped(scope, || workspace.count_entries(folder))
                .ok();
            let visible = visible_entries(workspace, folder);
            let counted = match count.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(counted)) => counted,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => workspace.count_entries(folder),
            };
            Ok::<_, Failure>((visible, counted?))
        })?
    };
    let n_visible = entries.len();
    if !unwanted.is_empty() {
        entries.retain(|entry| {
            let name = entry.path.absolute().strip_prefix(folder.absolute());
            !name.is_ok_and(|name| unwanted.iter().any(|glob| glob.is_match(name)))
        });
    }
    let total = entries.len();
    let hidden = n_everything.saturating_sub(n_visible);
    let n_unwanted = n_visible - total;
    if args.offset > 0 && args.offset >= total {
        let message = format!(
            "offset {} is past the end: {} has {}",
            args.offset,
            folder.relative(),
            pluralize(total as u64, "entry")
        );
        return Err(Failure::new(ErrorCode::InvalidParam, message)
            .with_hint("offset starts at 0")
            .with_path(folder.relative()));
    }
    let of_kind = |kind: FileKind| entries.iter().filter(|entry| entry.kind == kind).count();
    let (dirs, links) = (of_kind(FileKind::Directory), of_kind(FileKind::Link));
    let files = total - dirs - links;
    let end = args.offset.saturating_add(args.limit).min(total);
    let truncated = end < total;
    if truncated {
        // Only the entries that are shown are sorted.
        entries.select_nth_unstable_by(end, compare_entries);
    }
    entries[..end].sort_unstable_by(compare_entries);
    let shown = &entries[args.offset..end];

    let at = folder.relative();
    let mut text = if total == 0 {
        format!("{at} is empty.")
    } else {
        let kinds = [(dirs, "directory"), (files, "file"), (links, "link")];
        let kinds =
            kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| pluralize(*n as u64, kind));
        format!("{at} has {}.", kinds.collect::<Vec<_>>().join(", "))
    };
    if n_unwanted > 0 {
        text.push_str(&format!(" {n_unwanted} left out as `ignore` wants."));
    }
    if hidden > 0 {
        text.push_str(&format!(
            " {hidden} left out (include_hidden shows hidden and ignored ones)."
        ));
    }
    if truncated {
        text.push_str(&format!(
            " Entries {}-{end} of {total} are shown; continue with offset {end}.",
            args.offset + 1
        ));
    }
    let existing = shown.iter().filter(|entry| workspace.still_exists(&entry.path));
    let rows: Vec<_> = existing.map(|entry| entry_row(workspace, entry)).collect();
    let n_rows = rows.len();
    let mut data = json_object(json!({ "entries": rows }));
    if truncated {
        data.insert("truncated".to_owned(), true.into());
    }
    Ok(Report {
        partial: truncated,
        data,
        text,
        stats: json_object(json!({
            "total_entries": total,
            "dirs": dirs,
            "files": files,
            "links": links,
            "returned": n_rows,
            "hidden": hidden + n_unwanted,
        })),
        path: Some(at.to_owned()),
    })
}

fn visible_entries(workspace: &Workspace, folder: &ProjectPath) -> Vec<WalkEntry> {
    let visible = Mutex::new(Vec::new());
    let walk = Walk { base: folder.clone(), rules: WalkRules::default(), depth: Some(1) };
    workspace.walk(&walk, || {
        Box::new(|entry| {
            visible.lock().push(WalkEntry { path: entry.to_project_path(), kind: entry.kind() });
            true
        })
    });
    visible.into_inner()
}

/// Directories first, then by name without regard to case.
fn compare_entries(a: &WalkEntry, b: &WalkEntry) -> Ordering {
    let (one, other) = (a.path.relative(), b.path.relative());
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
    let by_name = if one.is_ascii() && other.is_ascii() {
        let (one, other) = (one.bytes(), other.bytes());
        one.map(|b| b.to_ascii_lowercase()).cmp(other.map(|b| b.to_ascii_lowercase()))
    } else {
        lower(one).cmp(&lower(other))
    };
    let is_file = |entry: &WalkEntry| entry.kind != FileKind::Directory;
    is_file(a).cmp(&is_file(b)).then(by_name).then_with(|| one.cmp(other))
}

fn entry_row(workspace: &Workspace, entry: &WalkEntry) -> serde_json::Value {
    let path = entry.path.relative();
    match entry.kind {
        FileKind::Directory => json!({ "path": path, "type": "dir" }),
        FileKind::File => match workspace.metadata(&entry.path) {
            Ok(data) => json!({ "path": path, "type": "file", "size": data.len() }),
            Err(_) => json!({ "path": path, "type": "file" }),
        },
        // FIFOs, sockets and devices: the schema has no type for them, and they have no size.
        FileKind::Other => json!({ "path": path, "type": "file" }),
        FileKind::Link => match workspace.link_target(entry.path.absolute()) {
            Some(target) => json!({ "path": path, "type": "link", "target": target.relative() }),
            None => json!({ "path": path, "type": "link" }),
        },
    }
}

#[cfg(test)]
mod tests;
