//! LS: lists one directory.

use std::cmp::Ordering;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::file_tool::FileTool;
use super::files::display_path;
use super::{Tool, ToolCx, embedded_spec, json_object};
use agent_host::workspace::{FileKind, ProjectPath, Walk, WalkEntry, WalkRules, Workspace};
use agent_protocol::embedded;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::pluralize;

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    #[serde(default = "super::project_root")]
    path: String,
    #[serde(default = "default_limit")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
}

fn default_limit() -> usize {
    100
}

pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("LS", embedded::LS);
    FileTool::new(
        spec,
        |args: &Args| &args.path,
        |args, cx, folder| list_directory(&cx.workspace, args, folder),
    )
}

/// The answer to Read of a directory.
pub(super) fn list_whole(cx: &ToolCx, folder: &ProjectPath) -> Result<Report, Failure> {
    let args = Args { path: String::new(), limit: default_limit(), include_hidden: false };
    list_directory(&cx.workspace, &args, folder)
}

fn list_directory(
    workspace: &Workspace,
    args: &Args,
    folder: &ProjectPath,
) -> Result<Report, Failure> {
    workspace.check_directory(folder)?;
    let (mut entries, n_everything) = if args.include_hidden {
        let everything = workspace.list_matching_entries(folder, usize::MAX, &|_, _| true)?;
        let n = everything.len();
        (everything, n)
    } else {
        (visible_entries(workspace, folder), workspace.count_entries(folder)?)
    };
    let total = entries.len();
    let hidden = n_everything.saturating_sub(total);
    let of_kind = |kind: FileKind| entries.iter().filter(|entry| entry.kind == kind).count();
    let (dirs, links) = (of_kind(FileKind::Directory), of_kind(FileKind::Link));
    let files = total - dirs - links;
    let end = args.limit.min(total);
    let truncated = end < total;
    if truncated {
        // Only the entries that are shown are sorted.
        entries.select_nth_unstable_by(end, compare_entries);
    }
    entries[..end].sort_unstable_by(compare_entries);
    let shown = &entries[..end];

    let at = folder.relative();
    let shown_path = display_path(at);
    let mut text = if total == 0 {
        format!("{shown_path} is empty.")
    } else {
        let kinds = [(dirs, "directory"), (files, "file"), (links, "link")];
        let kinds =
            kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| pluralize(*n as u64, kind));
        format!("{shown_path} has {}.", kinds.collect::<Vec<_>>().join(", "))
    };
    if hidden > 0 {
        text.push_str(&format!(" {hidden} hidden or ignored left out."));
    }
    if truncated {
        text.push_str(&format!(" The first {end} are shown; `ls` in Bash shows all."));
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
            "hidden": hidden,
        })),
        path: Some(at.to_owned()),
    })
}

fn visible_entries(workspace: &Workspace, folder: &ProjectPath) -> Vec<WalkEntry> {
    let visible = Mutex::new(Vec::new());
    let rules = WalkRules { include_tracked: true, ..WalkRules::default() };
    let walk = Walk { base: folder.clone(), rules, depth: Some(1) };
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
    let is_file = |entry: &WalkEntry| entry.kind != FileKind::Directory;
    is_file(a)
        .cmp(&is_file(b))
        .then_with(|| one.to_lowercase().cmp(&other.to_lowercase()))
        .then_with(|| one.cmp(other))
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
