//! LS: list one directory.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;

use super::file_tool::FileTool;
use super::files::{count, object};
use super::{Tool, pattern, spec};
use crate::protocol::envelope::{ErrorCode, Failure, Report};
use crate::workspace::{Entry, Kind, ProjectPath, Rules, Walk, Workspace};

#[derive(Debug, Deserialize)]
struct Args {
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    offset: usize,
    #[serde(default = "hundred")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    ignore: Vec<String>,
}

fn here() -> String {
    ".".to_owned()
}

fn hundred() -> usize {
    100
}

/// The tool.
pub(super) fn tool() -> impl Tool {
    let spec = spec(
        "LS",
        include_str!("../../prompts/tools/ls.md"),
        include_str!("../../prompts/tools/ls.json"),
    );
    FileTool::looking(spec, |args: &Args| &args.path, |args, cx| list(&cx.workspace, args))
}

fn list(workspace: &Workspace, args: &Args) -> Result<Report, Failure> {
    let folder = workspace.directory(&args.path)?;
    let unwanted = args.ignore.iter().map(|glob| pattern::compile(glob, true));
    let unwanted = unwanted.collect::<Result<Vec<_>, _>>()?;
    let everything = workspace.entries(&folder)?;
    let visible = (!args.include_hidden).then(|| visible(workspace, &folder));
    let n_everything = everything.len();
    let mut entries: Vec<Entry> = everything
        .into_iter()
        .filter(|entry| {
            let name = entry.path.absolute().strip_prefix(folder.absolute());
            visible.as_ref().is_none_or(|visible| visible.contains(entry.path.absolute()))
                && !name.is_ok_and(|name| unwanted.iter().any(|glob| glob.is_match(name)))
        })
        .collect();
    let hidden = n_everything - entries.len();
    // Directories first, then by name without regard to case.
    entries.sort_by_cached_key(|entry| {
        let shown = entry.path.relative();
        (entry.kind != Kind::Directory, shown.to_lowercase(), shown.to_owned())
    });

    let total = entries.len();
    if args.offset > 0 && args.offset >= total {
        let message = format!(
            "offset {} is past the end: {} has {}",
            args.offset,
            folder.relative(),
            count(total as u64, "entry")
        );
        return Err(Failure::new(ErrorCode::InvalidParam, message)
            .hint("offset starts at 0")
            .at(folder.relative()));
    }
    let of_kind = |kind: Kind| entries.iter().filter(|entry| entry.kind == kind).count();
    let (dirs, links) = (of_kind(Kind::Directory), of_kind(Kind::Link));
    let files = total - dirs - links;
    let shown: Vec<_> = entries.iter().skip(args.offset).take(args.limit).collect();
    let end = args.offset + shown.len();
    let truncated = end < total;

    let at = folder.relative();
    let mut text = if total == 0 {
        format!("{at} is empty.")
    } else {
        let kinds = [(dirs, "directory"), (files, "file"), (links, "link")];
        let kinds = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n as u64, what));
        format!("{at} has {}.", kinds.collect::<Vec<_>>().join(", "))
    };
    if hidden > 0 {
        text.push_str(&format!(" {hidden} left out"));
        text.push_str(if args.include_hidden {
            "."
        } else {
            " (include_hidden shows hidden and ignored ones)."
        });
    }
    if truncated {
        text.push_str(&format!(
            " Entries {}-{end} of {total} are shown; continue with offset {end}.",
            args.offset + 1
        ));
    }
    let rows: Vec<_> = shown.iter().map(|entry| row(workspace, entry)).collect();
    let mut data = object(json!({ "entries": rows }));
    if truncated {
        data.insert("truncated".to_owned(), true.into());
    }
    Ok(Report {
        partial: truncated,
        data,
        text,
        stats: object(json!({
            "total_entries": total,
            "dirs": dirs,
            "files": files,
            "links": links,
            "returned": shown.len(),
            "hidden": hidden,
        })),
        path: Some(at.to_owned()),
    })
}

fn visible(workspace: &Workspace, folder: &ProjectPath) -> HashSet<PathBuf> {
    let visible = Mutex::new(HashSet::new());
    let walk = Walk { base: folder.clone(), rules: Rules::default(), depth: Some(1) };
    workspace.walk(&walk, || {
        Box::new(|entry| {
            let mut visible = visible.lock().unwrap_or_else(PoisonError::into_inner);
            visible.insert(entry.path.absolute().to_owned())
        })
    });
    visible.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn row(workspace: &Workspace, entry: &Entry) -> serde_json::Value {
    let path = entry.path.relative();
    match entry.kind {
        Kind::Directory => json!({ "path": path, "type": "dir" }),
        Kind::File => match workspace.metadata(&entry.path) {
            Ok(data) => json!({ "path": path, "type": "file", "size": data.len() }),
            Err(_) => json!({ "path": path, "type": "file" }),
        },
        // FIFOs, sockets and devices: there is no other word, and no size.
        Kind::Other => json!({ "path": path, "type": "file" }),
        Kind::Link => match workspace.link_target(entry.path.absolute()) {
            Some(target) => json!({ "path": path, "type": "link", "target": target.relative() }),
            None => json!({ "path": path, "type": "link" }),
        },
    }
}

#[cfg(test)]
mod tests;
