//! The common part of Write, Edit and MultiEdit: the change is drafted, shown as a diff if the user is asked about it,
//! and made.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::ChangeTag;

use super::current_text::with_current_text;
use super::{
    CallTarget, Tool, ToolCx, cancelled_failure, fill_defaults, json_object, nearest_passage,
    parse_input, run_blocking,
};
use agent_host::workspace::{
    Author, CheckedPath, Diff, DiffSize, ProjectPath, Snapshot, Text, WriteResult, plain,
};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::line_diff::LineDiff;
use agent_protocol::mask::{MASK, find_masks};
use agent_protocol::tool::{Effect, ToolSpec};

#[derive(Deserialize, Serialize)]
struct ChangeInput<A> {
    path: String,
    #[serde(default)]
    dry_run: bool,
    #[serde(flatten)]
    args: A,
}

/// The arguments in which Write, Edit and MultiEdit differ.
pub(super) trait ChangeArgs: DeserializeOwned + Serialize + Send + 'static {
    /// The passages to be replaced; none if the whole file is.
    fn passages(&self) -> Vec<&str>;

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure>;

    /// The draft; a failure of the lock contains the current text.
    fn draft_or_current_text(&self, cx: &ToolCx) -> Result<ChangeDraft, Failure> {
        let path = cx.checked_path()?;
        self.draft(cx, path)
            .map_err(|failure| with_current_text(failure, cx, path, &self.passages()))
    }
}

pub(super) struct ChangeTool<A> {
    spec: ToolSpec,
    input: PhantomData<fn(A)>,
}

impl<A> ChangeTool<A> {
    pub(super) fn new(spec: ToolSpec) -> Self {
        Self { spec, input: PhantomData }
    }
}

impl<A: ChangeArgs> Tool for ChangeTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let ChangeInput::<A> { path, .. } = parse_input(input)?;
        let checked_path = cx.workspace.locate(&path)?;
        cx.workspace.check_writable(checked_path.path())?;
        let effect = Effect::Write { path: checked_path.path().relative().to_owned() };
        Ok(CallTarget { effect, checked_path: Some(checked_path) })
    }

    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<ChangeInput<A>>(input)
    }

    fn draft<'a>(
        &'a self,
        input: &'a Object,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<Option<ChangeDraft>, Failure>> {
        Box::pin(async move {
            let ChangeInput::<A> { args, .. } = parse_input(input)?;
            let cx = cx.clone();
            run_blocking(move || args.draft_or_current_text(&cx)).await.map(Some)
        })
    }

    /// A change is not interrupted halfway: the work checks the token itself, up to the last moment.
    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let ChangeInput::<A> { dry_run, args, .. } = parse_input(&input)?;
            let cx = cx.clone();
            run_blocking(move || {
                let draft = match &cx.draft {
                    // The approved draft is used only if it will be written: `apply` then compares it with the file.
                    Some(draft) if !dry_run && !draft.is_unchanged() => Arc::clone(draft),
                    _ => Arc::new(args.draft_or_current_text(&cx)?),
                };
                if dry_run {
                    return Ok(draft.report(None, &cx));
                }
                let path = cx.checked_path()?;
                let passages = args.passages();
                draft.apply(&cx).map_err(|failure| with_current_text(failure, &cx, path, &passages))
            })
            .await
        })
    }
}

pub(super) struct ExistingFile {
    pub(super) path: ProjectPath,
    /// Taken now.
    pub(super) snapshot: Snapshot,
    pub(super) text: Text,
    /// The authors of what changed since the model read the file.
    changed_by: Vec<Author>,
}

impl ExistingFile {
    /// Reads the file and checks the lock. It holds although operations of the session changed the file, if each of
    /// these passages occurs exactly once.
    pub(super) fn open(cx: &ToolCx, path: ProjectPath, passages: &[&str]) -> Result<Self, Failure> {
        let is_unique = |text: &Text, passage: &str| {
            !passage.is_empty() && occurrences(text.plain(), &plain(passage)).len() == 1
        };
        let are_unique = |text: Text| passages.iter().all(|passage| is_unique(&text, passage));
        let seen = cx.expected_snapshot.as_ref();
        let content = cx.workspace.read_unchanged(&path, seen, |bytes| {
            !passages.is_empty() && Text::decode(bytes.to_vec(), "").is_ok_and(are_unique)
        })?;
        let text = Text::decode(content.bytes, path.relative())?;
        Ok(Self { path, snapshot: content.snapshot, text, changed_by: content.changed_by })
    }
}

/// A change of one file that could be made. It is made as drafted, or not at all if the file changed.
pub struct ChangeDraft {
    path: ProjectPath,
    /// The file to be replaced; `None` if the file is new.
    old_snapshot: Option<Snapshot>,
    content: DraftContent,
    /// The first line of each replaced passage in the new text, from 1.
    changed_lines: Vec<usize>,
    /// `Edited`, `Created`, `Updated`.
    verb: &'static str,
    /// The field of the result that only this tool has.
    field: (&'static str, Value),
    /// The authors of what changed since the model read the file.
    changed_by: Vec<Author>,
}

enum DraftContent {
    Unchanged,
    New(String),
    Changed { old: Box<Text>, new: Box<Text>, bytes: Vec<u8> },
}

impl DraftContent {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Unchanged => &[],
            Self::New(text) => text.as_bytes(),
            Self::Changed { bytes, .. } => bytes,
        }
    }
}

impl ChangeDraft {
    pub(super) fn from_edits(
        existing: ExistingFile,
        edits: &[(Range<usize>, &str)],
    ) -> Result<Self, Failure> {
        let changed_lines = new_line_numbers(existing.text.plain(), edits);
        let new = existing.text.splice(edits);
        let field = ("replacements", edits.len().into());
        let draft = Self::from_text(existing, new, "Edited", field)?;
        Ok(Self { changed_lines, ..draft })
    }

    /// Replaces an existing file. A redaction mark never replaces the text it stands for.
    pub(super) fn from_text(
        existing: ExistingFile,
        new: Text,
        verb: &'static str,
        field: (&'static str, Value),
    ) -> Result<Self, Failure> {
        let ExistingFile { path, snapshot, text: old, changed_by } = existing;
        refuse_masks(old.plain(), new.plain(), &path)?;
        let bytes = new.to_bytes(path.relative())?;
        let content = DraftContent::Changed { old: old.into(), new: new.into(), bytes };
        let old_snapshot = Some(snapshot);
        let changed_lines = Vec::new();
        Ok(Self { path, old_snapshot, content, changed_lines, verb, field, changed_by })
    }

    pub(super) fn new_file(path: ProjectPath, text: String, field: (&'static str, Value)) -> Self {
        let (content, verb, changed_lines) = (DraftContent::New(text), "Created", Vec::new());
        let changed_by = Vec::new();
        Self { path, old_snapshot: None, content, changed_lines, verb, field, changed_by }
    }

    pub(super) fn unchanged(existing: ExistingFile, field: (&'static str, Value)) -> Self {
        let draft = Self::new_file(existing.path, String::new(), field);
        let (content, old_snapshot) = (DraftContent::Unchanged, Some(existing.snapshot));
        Self { old_snapshot, content, ..draft }
    }

    /// The change as a diff.
    pub fn diff(&self, size: DiffSize) -> Diff {
        let at = self.path.relative();
        match &self.content {
            DraftContent::Unchanged => Diff::default(),
            DraftContent::New(text) => {
                let names = ("/dev/null", &*format!("b/{at}"));
                Diff::after_lines(0, "", &plain(text), names, size)
            }
            DraftContent::Changed { old, new, .. } => {
                let names = (&*format!("a/{at}"), &*format!("b/{at}"));
                Diff::after_lines(0, old.plain(), new.plain(), names, size)
            }
        }
    }

    fn is_unchanged(&self) -> bool {
        matches!(self.content, DraftContent::Unchanged)
    }

    pub(super) fn apply(&self, cx: &ToolCx) -> Result<Report, Failure> {
        if cx.cancel.is_cancelled() {
            return Err(cancelled_failure());
        }
        if self.is_unchanged() {
            return Ok(self.report(None, cx));
        }
        let path = cx.workspace.check_writable(&self.path)?;
        let result = match &self.old_snapshot {
            Some(old) => cx.workspace.replace(&path, old, self.content.bytes())?,
            None => cx.workspace.create(&path, self.content.bytes())?,
        };
        if !self.changed_by.is_empty() {
            // The other changes were not shown.
            cx.workspace.mark_unshown(&self.path, None);
        }
        Ok(self.report(Some(&result), cx))
    }

    /// `None`: a dry run, or the text is unchanged.
    fn report(&self, result: Option<&WriteResult>, cx: &ToolCx) -> Report {
        let at = self.path.relative();
        let diff = self.diff(DiffSize::Preview);
        let mut data =
            json_object(json!({ "applied": result.is_some(), "diff_preview": diff.text }));
        let is_unchanged = self.is_unchanged();
        let places = match &self.changed_lines[..] {
            [] => String::new(),
            lines => line_list_text(lines, 8),
        };
        let lines = format!("+{} -{} lines{places}", diff.added, diff.removed);
        let mut text = match result {
            _ if is_unchanged => format!("{at} has this content already: unchanged."),
            Some(_) => format!("{} {at}: {lines}.", self.verb),
            None => format!("Not applied to {at} (dry run): {lines}. Call again without dry_run."),
        };
        if result.is_some_and(|result| result.split_hard_link) {
            text.push_str(" It had other names (hard links): they still lead to the old content.");
        }
        let authors = cx.workspace.unnamed_authors(&self.changed_by);
        if !authors.is_empty() {
            let authors = authors.join(", ");
            text.push_str(&format!(" The file had changed since it was read (by {authors})."));
        }
        if diff.truncated {
            data.insert("diff_truncated".to_owned(), true.into());
            if result.is_none() {
                text.push_str(" The diff is cut.");
            }
        }
        data.insert(self.field.0.to_owned(), self.field.1.clone());
        Report {
            partial: result.is_none() && !is_unchanged,
            data,
            text,
            stats: json_object(json!({
                "bytes_written": if result.is_some() { self.content.bytes().len() } else { 0 },
                "lines_added": diff.added,
                "lines_removed": diff.removed,
            })),
            path: Some(at.to_owned()),
        }
    }
}

/// The input of Edit, and a part of that of MultiEdit.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Replacement {
    pub(super) old_string: String,
    pub(super) new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl Replacement {
    /// The ranges of `old_string` in a text with `\n` line ends, sorted and disjoint.
    pub(super) fn find_ranges(&self, text: &str, path: &str) -> Result<Vec<Range<usize>>, Failure> {
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

fn refuse_masks(old: &str, new: &str, path: &ProjectPath) -> Result<(), Failure> {
    let Some(mask) = find_replaced_mask(old, new) else { return Ok(()) };
    let message = format!("{mask} in the new text would replace what it stands for");
    Err(Failure::new(ErrorCode::InvalidParam, message)
        .with_hint("a mask is what you were shown instead of a secret; leave that line as it is")
        .with_path(path.relative()))
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
