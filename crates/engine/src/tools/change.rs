//! Write, Edit and MultiEdit: the change of a file is drafted, shown as a diff if the user is asked about it, and made.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::ChangeTag;

use super::current_text::show_current_text;
use super::{
    CallTarget, Tool, ToolCx, cancelled_failure, embedded_spec, fill_defaults, json_object,
    nearest_passage, parse_input, run_blocking,
};
use agent_host::workspace::{Author, Diff, DiffSize, ProjectPath, Snapshot, Text, plain};
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::line_diff::LineDiff;
use agent_protocol::mask::{MASK, find_masks};
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::{Object, embedded};

/// Creates or replaces a whole file.
pub(super) fn write_tool() -> impl Tool {
    ChangeTool(embedded_spec("Write", embedded::WRITE))
}

/// Replaces one exact text in a file.
pub(super) fn edit_tool() -> impl Tool {
    ChangeTool(embedded_spec("Edit", embedded::EDIT))
}

/// Makes several replacements in one file, all or none.
pub(super) fn multi_edit_tool() -> impl Tool {
    ChangeTool(embedded_spec("MultiEdit", embedded::MULTI_EDIT))
}

struct ChangeTool(ToolSpec);

#[derive(Deserialize, Serialize)]
struct ChangeInput {
    path: String,
    #[serde(default)]
    dry_run: bool,
    #[serde(flatten)]
    change: Change,
}

/// The arguments in which the tools differ; the schema of each admits its own.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Change {
    Write { content: String },
    Edit(Replacement),
    MultiEdit { edits: Vec<Replacement> },
}

impl Tool for ChangeTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let ChangeInput { path, .. } = parse_input(input)?;
        let path = cx.workspace.resolve(&path)?;
        cx.workspace.check_writable(&path)?;
        let effect = Effect::Write { path: path.relative().to_owned() };
        Ok(CallTarget { effect, resolved_path: Some(path) })
    }

    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<ChangeInput>(input)
    }

    fn draft<'a>(
        &'a self,
        input: &'a Object,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<Option<ChangeDraft>, Failure>> {
        Box::pin(async move {
            let ChangeInput { change, .. } = parse_input(input)?;
            let cx = cx.clone();
            run_blocking(move || change.draft_change(&cx)).await.map(Some)
        })
    }

    /// A change is not interrupted halfway: the work checks the token itself, up to the last moment.
    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let ChangeInput { dry_run, change, .. } = parse_input(&input)?;
            let cx = cx.clone();
            run_blocking(move || {
                let draft = match &cx.draft {
                    // The approved draft is used only if it will be written: `apply` then compares it with the file.
                    Some(draft) if !dry_run && draft.new.is_some() => Arc::clone(draft),
                    _ => Arc::new(change.draft_change(&cx)?),
                };
                if dry_run {
                    return Ok(draft.report(&cx, false, false));
                }
                let (path, passages) = (cx.resolved_path()?, change.passages());
                draft.apply(&cx).map_err(|failure| show_current_text(failure, &cx, path, &passages))
            })
            .await
        })
    }
}

impl Change {
    /// The passages to be replaced; none if the whole file is.
    fn passages(&self) -> Vec<&str> {
        match self {
            Self::Write { .. } => Vec::new(),
            Self::Edit(edit) => vec![&edit.old_string],
            Self::MultiEdit { edits } => {
                edits.iter().map(|edit| edit.old_string.as_str()).collect()
            }
        }
    }

    /// The draft; a failure of the lock contains the current text.
    fn draft_change(&self, cx: &ToolCx) -> Result<ChangeDraft, Failure> {
        let path = cx.resolved_path()?;
        let draft = match self {
            Self::Write { content } => draft_content(content, cx, path),
            Self::Edit(edit) => self.draft_edit(edit, cx, path),
            Self::MultiEdit { edits } => self.draft_edits(edits, cx, path),
        };
        draft.map_err(|failure| show_current_text(failure, cx, path, &self.passages()))
    }

    fn draft_edit(
        &self,
        edit: &Replacement,
        cx: &ToolCx,
        path: &ProjectPath,
    ) -> Result<ChangeDraft, Failure> {
        let is_new = || !cx.workspace.exists(path) || cx.workspace.file_size(path) == Some(0);
        if edit.old_string.is_empty() && is_new() {
            return draft_content(&edit.new_string, cx, path);
        }
        cx.workspace.check_file(path)?;
        let old = ExistingFile::open(cx, path, &self.passages())?;
        let ranges = edit.find_ranges(old.text.plain(), path.relative())?;
        let edits: Vec<_> =
            ranges.into_iter().map(|range| (range, edit.new_string.as_str())).collect();
        ChangeDraft::from_edits(path, old, &edits)
    }

    fn draft_edits(
        &self,
        edits: &[Replacement],
        cx: &ToolCx,
        path: &ProjectPath,
    ) -> Result<ChangeDraft, Failure> {
        cx.workspace.check_file(path)?;
        let old = ExistingFile::open(cx, path, &self.passages())?;
        let at = path.relative();
        let mut places = Vec::new();
        for (index, edit) in edits.iter().enumerate() {
            let found = edit.find_ranges(old.text.plain(), at).map_err(|failure| {
                let message = format!("edits[{index}]: {}; nothing was changed", failure.message);
                Failure { message, ..failure }.with_data("failed_index", index)
            })?;
            places.extend(found.into_iter().map(|place| (place, index)));
        }
        places.sort_by_key(|(place, index)| (place.start, *index));
        for pair in places.windows(2) {
            let [(first, i), (second, j)] = pair else { continue };
            if second.start < first.end {
                let (i, j) = (i.min(j), i.max(j));
                let message = format!("edits[{i}] and edits[{j}] overlap; nothing was changed");
                return Err(Failure::new(ErrorCode::InvalidParam, message)
                    .with_hint("make one edit of the two")
                    .with_data("overlapping", json!([i, j]))
                    .with_data("failed_index", *j)
                    .with_path(at));
            }
        }
        let edits: Vec<_> = places
            .into_iter()
            .map(|(place, index)| (place, edits[index].new_string.as_str()))
            .collect();
        ChangeDraft::from_edits(path, old, &edits)
    }
}

fn draft_content(content: &str, cx: &ToolCx, path: &ProjectPath) -> Result<ChangeDraft, Failure> {
    let workspace = &cx.workspace;
    if !workspace.exists(path) {
        if let Some(seen) = &cx.expected_snapshot {
            return Err(workspace.conflict_and_new_snapshot(path, seen, None));
        }
        let new = Some((plain(content).into_owned(), content.as_bytes().to_vec()));
        let (path, changed_lines) = (path.clone(), Vec::new());
        let field = ("operation", "create".into());
        return Ok(ChangeDraft { path, old: None, new, changed_lines, verb: "Created", field });
    }
    let old = ExistingFile::open(cx, path, &[])?;
    let field = ("operation", "update".into());
    let new = old.text.rewrite(content);
    if new.is_same_as(&old.text) || plain(content) == old.text.plain() {
        let (path, old, changed_lines) = (path.clone(), Some(old), Vec::new());
        return Ok(ChangeDraft { path, old, new: None, changed_lines, verb: "Updated", field });
    }
    if cx.expected_snapshot.is_some() && !workspace.is_fully_shown(path) {
        let at = path.relative();
        let first = workspace.first_unshown_line(path);
        let message = format!("line {first} of {at} was not shown: Write needs all lines");
        return Err(Failure::new(ErrorCode::NotRead, message).with_path(at));
    }
    ChangeDraft::from_text(path, old, new, "Updated", field)
}

struct ExistingFile {
    /// Taken now.
    snapshot: Snapshot,
    text: Text,
    /// The authors of what changed since the model read the file.
    changed_by: Vec<Author>,
}

impl ExistingFile {
    /// Reads the file and checks the lock. It holds although operations of the session changed the file, if each of
    /// these passages occurs exactly once.
    fn open(cx: &ToolCx, path: &ProjectPath, passages: &[&str]) -> Result<Self, Failure> {
        let is_unique = |text: &Text, passage: &str| {
            !passage.is_empty() && occurrences(text.plain(), &plain(passage)).len() == 1
        };
        let are_unique = |text: Text| passages.iter().all(|passage| is_unique(&text, passage));
        let seen = cx.expected_snapshot.as_ref();
        let content = cx.workspace.read_unchanged(path, seen, |bytes| {
            !passages.is_empty() && Text::decode(bytes.to_vec(), "").is_ok_and(are_unique)
        })?;
        let text = Text::decode(content.bytes, path.relative())?;
        Ok(Self { snapshot: content.snapshot, text, changed_by: content.changed_by })
    }
}

/// A change of one file that could be made. It is made as drafted, or not at all if the file changed.
pub struct ChangeDraft {
    path: ProjectPath,
    /// The file to be replaced; `None` if the file is new.
    old: Option<ExistingFile>,
    /// The new text with `\n` line ends, and the bytes of the file; `None` if it has this content already.
    new: Option<(String, Vec<u8>)>,
    /// The first line of each replaced passage in the new text, from 1.
    changed_lines: Vec<usize>,
    /// `Edited`, `Created`, `Updated`.
    verb: &'static str,
    /// The field of the result that only this tool has.
    field: (&'static str, Value),
}

impl ChangeDraft {
    fn from_edits(
        path: &ProjectPath,
        old: ExistingFile,
        edits: &[(Range<usize>, &str)],
    ) -> Result<Self, Failure> {
        let changed_lines = new_line_numbers(old.text.plain(), edits);
        let new = old.text.splice(edits);
        let field = ("replacements", edits.len().into());
        Ok(Self { changed_lines, ..Self::from_text(path, old, new, "Edited", field)? })
    }

    /// Replaces an existing file. A redaction mark never replaces the text it stands for.
    fn from_text(
        path: &ProjectPath,
        old: ExistingFile,
        new: Text,
        verb: &'static str,
        field: (&'static str, Value),
    ) -> Result<Self, Failure> {
        if let Some(mask) = find_replaced_mask(old.text.plain(), new.plain()) {
            let message = format!("{mask} in the new text would replace what it stands for");
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .with_hint(
                    "a mask is what you were shown instead of a secret; leave that line as it is",
                )
                .with_path(path.relative()));
        }
        let bytes = new.to_bytes(path.relative())?;
        let (path, new, changed_lines) =
            (path.clone(), Some((new.into_plain(), bytes)), Vec::new());
        Ok(Self { path, old: Some(old), new, changed_lines, verb, field })
    }

    /// The change as a diff.
    pub fn diff(&self, size: DiffSize) -> Diff {
        let Some((new, _)) = &self.new else { return Diff::default() };
        let at = self.path.relative();
        let (old, name) = match &self.old {
            Some(old) => (old.text.plain(), format!("a/{at}")),
            None => ("", "/dev/null".to_owned()),
        };
        Diff::after_lines(0, old, new, (&name, &format!("b/{at}")), size)
    }

    fn apply(&self, cx: &ToolCx) -> Result<Report, Failure> {
        if cx.cancel.is_cancelled() {
            return Err(cancelled_failure());
        }
        let Some((_, bytes)) = &self.new else { return Ok(self.report(cx, false, false)) };
        let mut split_hard_link = false;
        match &self.old {
            Some(old) => {
                split_hard_link = cx.workspace.replace(&self.path, &old.snapshot, bytes)?;
                if !old.changed_by.is_empty() {
                    // The other changes were not shown.
                    cx.workspace.mark_unshown(&self.path, None);
                }
            }
            None => cx.workspace.create(&self.path, bytes)?,
        }
        Ok(self.report(cx, true, split_hard_link))
    }

    /// Without `is_applied`: a dry run, or the text is unchanged.
    fn report(&self, cx: &ToolCx, is_applied: bool, split_hard_link: bool) -> Report {
        let at = self.path.relative();
        let diff = self.diff(DiffSize::Preview);
        let mut data = json_object(json!({ "applied": is_applied, "diff_preview": diff.text }));
        let places = match &self.changed_lines[..] {
            [] => String::new(),
            lines => line_list_text(lines, 8),
        };
        let lines = format!("+{} -{} lines{places}", diff.added, diff.removed);
        let mut text = if self.new.is_none() {
            format!("{at} has this content already: unchanged.")
        } else if is_applied {
            format!("{} {at}: {lines}.", self.verb)
        } else {
            format!("Not applied to {at} (dry run): {lines}. Call again without dry_run.")
        };
        if split_hard_link {
            text.push_str(" It had other names (hard links): they still lead to the old content.");
        }
        let changed_by = self.old.as_ref().map_or(&[][..], |old| &old.changed_by);
        let authors = cx.workspace.unnamed_authors(changed_by);
        if !authors.is_empty() {
            let authors = authors.join(", ");
            text.push_str(&format!(" The file had changed since it was read (by {authors})."));
        }
        if diff.truncated {
            data.insert("diff_truncated".to_owned(), true.into());
            if !is_applied {
                text.push_str(" The diff is cut.");
            }
        }
        data.insert(self.field.0.to_owned(), self.field.1.clone());
        let n_written =
            self.new.as_ref().filter(|_| is_applied).map_or(0, |(_, bytes)| bytes.len());
        Report {
            partial: !is_applied && self.new.is_some(),
            data,
            text,
            stats: json_object(json!({
                "bytes_written": n_written,
                "lines_added": diff.added,
                "lines_removed": diff.removed,
            })),
            path: Some(at.to_owned()),
        }
    }
}

/// The input of Edit, and a part of that of MultiEdit.
#[derive(Debug, Deserialize, Serialize)]
struct Replacement {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl Replacement {
    /// The ranges of `old_string` in a text with `\n` line ends, sorted and disjoint.
    fn find_ranges(&self, text: &str, path: &str) -> Result<Vec<Range<usize>>, Failure> {
        if self.old_string.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidParam, "old_string is empty")
                .with_hint("give the passage to replace; to create a file, use Write")
                .with_path(path));
        }
        let (old, new) = (plain(&self.old_string), plain(&self.new_string));
        if old == new {
            let message = "old_string and new_string are the same";
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .with_hint("if the file already has the text you want, continue; otherwise change new_string")
                .with_path(path));
        }
        let found = occurrences(text, &old);
        match found.len() {
            0 => Err(nearest_passage::no_match_failure(text, &old, &new, path)),
            n if n == 1 || self.replace_all => {
                Ok(text.match_indices(&*old).map(|(at, _)| at..at + old.len()).collect())
            }
            n => {
                let lines = line_numbers(text, &found);
                let at = line_list_text(&lines, 20);
                let message = format!("old_string occurs {n} times in {path},{at}");
                Err(Failure::new(ErrorCode::MultipleMatches, message)
                    .with_hint("add lines around it until it is unique, or set replace_all: true")
                    .with_data("lines", lines.into_iter().take(100).collect::<Vec<_>>())
                    .with_path(path))
            }
        }
    }
}

/// Every occurrence of `passage`, including overlapping ones: `aa` occurs twice in `aaa`.
fn occurrences(text: &str, passage: &str) -> Vec<usize> {
    let step = passage.chars().next().map_or(1, char::len_utf8);
    // A match of the bytes is a match of the characters: no character begins within another.
    let finder = memchr::memmem::Finder::new(passage);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&text.as_bytes()[from..]) {
        found.push(from + at);
        from += at + step;
    }
    found
}

fn line_numbers(text: &str, found: &[usize]) -> Vec<usize> {
    let mut lines = Vec::with_capacity(found.len());
    let (mut line, mut from) = (1, 0);
    for &at in found {
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[from..at]).count();
        from = at;
        lines.push(line);
    }
    lines.dedup();
    lines
}

/// A redaction mark (`[redacted:KIND]`) in a new line, if the old line has other text in its place.
fn find_replaced_mask(old: &str, new: &str) -> Option<String> {
    memchr::memmem::find(new.as_bytes(), MASK.as_bytes())?;
    let diff = LineDiff::from_texts(old, new);
    let of_kind = |kind: ChangeTag| {
        diff.changes().filter(move |change| change.tag() == kind).map(|change| change.value())
    };
    let removed: Vec<&str> = of_kind(ChangeTag::Delete).collect();
    of_kind(ChangeTag::Insert).find_map(|line| {
        let mask = find_masks(line).next()?;
        let begin = &line[..mask.start];
        let end = &line[find_masks(line).last()?.end..];
        let is_replaced = removed.iter().any(|old| {
            old.len() > begin.len() + end.len()
                && old.starts_with(begin)
                && old.ends_with(end)
                && !old.contains(&line[mask.clone()])
        });
        is_replaced.then(|| line[mask].to_owned())
    })
}

fn new_line_numbers(old: &str, edits: &[(Range<usize>, &str)]) -> Vec<usize> {
    let newlines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let (mut line, mut at) = (1, 0);
    let mut lines = Vec::with_capacity(edits.len());
    for (passage, new) in edits {
        line += newlines(&old[at..passage.start]);
        lines.push(line);
        line += newlines(new);
        at = passage.end;
    }
    lines
}

/// ` at line 3`, ` at lines 3, 17`.
fn line_list_text(lines: &[usize], max_shown: usize) -> String {
    let shown: Vec<String> = lines.iter().take(max_shown).map(ToString::to_string).collect();
    let more = if lines.len() > max_shown { ", …" } else { "" };
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!(" at {word} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod multi_edit_tests;
#[cfg(test)]
mod write_tests;
