//! Tool calls as the client shows them: kind, places and changes.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    Content, ContentBlock, Diff, TextContent, ToolCallContent, ToolCallLocation, ToolKind,
};
use serde_json::Value;

use agent_protocol::Object;
use agent_protocol::envelope::Envelope;
use agent_protocol::tool::Effect;
use agent_protocol::view::render_for_model;

pub(super) fn tool_kind(tool: &str, effect: &Effect) -> ToolKind {
    match effect {
        Effect::Read { .. } if tool == "Read" => ToolKind::Read,
        Effect::Read { .. } | Effect::Lookup => ToolKind::Search,
        Effect::Write { .. } => ToolKind::Edit,
        Effect::Command { .. } | Effect::Job { .. } => ToolKind::Execute,
        Effect::Skill { .. } => ToolKind::Read,
        Effect::Plan | Effect::Agent { .. } => ToolKind::Think,
        Effect::Fetch { .. } | Effect::WebSearch { .. } => ToolKind::Fetch,
        Effect::Ask | Effect::Mcp { .. } => ToolKind::Other,
    }
}

pub(super) fn locations(effect: &Effect, input: &Object, root: &Path) -> Vec<ToolCallLocation> {
    match effect {
        Effect::Read { path } => {
            let line = input.get("start_line").and_then(Value::as_u64);
            let line = line.and_then(|line| u32::try_from(line).ok());
            vec![ToolCallLocation::new(root.join(path)).line(line)]
        }
        Effect::Write { path } => vec![ToolCallLocation::new(root.join(path))],
        _ => Vec::new(),
    }
}

/// The diff of a change, else the text that the model receives.
pub(super) fn result_content(
    envelope: &Envelope,
    effect: Option<&Effect>,
    root: &Path,
) -> Vec<ToolCallContent> {
    if let Some(Effect::Write { path }) = effect
        && envelope.error().is_none()
        && let Some(diff) = envelope.data.get("diff_preview").and_then(Value::as_str)
    {
        let mut shown = diff_contents(diff, &root.join(path));
        if envelope.data.contains_key("diff_truncated") {
            shown.push(text_content(&envelope.text));
        }
        return shown;
    }
    let shown = render_for_model(envelope);
    vec![match effect {
        Some(Effect::Command { .. } | Effect::Job { .. } | Effect::Read { .. }) => {
            fenced_content(&shown)
        }
        _ => text_content(&shown),
    }]
}

pub(super) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// For text that is no Markdown.
pub(super) fn fenced_content(text: &str) -> ToolCallContent {
    text_content(&wrap_in_code_fence(text))
}

fn wrap_in_code_fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

/// One content per hunk, with its old and new lines.
pub(super) fn diff_contents(unified: &str, path: &Path) -> Vec<ToolCallContent> {
    let mut hunks: Vec<Hunk> = Vec::new();
    // The first lines name the files.
    for line in unified.split_inclusive('\n').skip(2) {
        let (sign, rest) = (line.as_bytes()[0], line.get(1..).unwrap_or_default());
        let Some(hunk) = hunks.last_mut().filter(|_| sign != b'@') else {
            let is_new = rest.contains(" -0,0 ");
            hunks.push(Hunk { is_new, ..Hunk::default() });
            continue;
        };
        match sign {
            b'-' => hunk.old.push_str(rest),
            b'+' => hunk.new.push_str(rest),
            b' ' => {
                hunk.old.push_str(rest);
                hunk.new.push_str(rest);
            }
            // The line before has no line end.
            _ => {
                if hunk.last != b'+' {
                    hunk.old.pop();
                }
                if hunk.last != b'-' {
                    hunk.new.pop();
                }
            }
        }
        hunk.last = sign;
    }
    let diffs = hunks.into_iter().map(|hunk| {
        let old = (!hunk.is_new).then_some(hunk.old);
        ToolCallContent::Diff(Diff::new(path, hunk.new).old_text(old))
    });
    diffs.collect()
}

#[derive(Default)]
struct Hunk {
    old: String,
    new: String,
    /// The sign of the last line.
    last: u8,
    /// The file did not exist, or was empty.
    is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(diff: &str, expected: &[(Option<&str>, &str)]) {
        let diffs = diff_contents(diff, Path::new("/p/a"));
        let shown = diffs.iter().map(|diff| match diff {
            ToolCallContent::Diff(diff) => (diff.old_text.as_deref(), diff.new_text.as_str()),
            other => panic!("{other:?}"),
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_hunk_of_a_diff_has_its_old_and_new_lines() {
        check(
            "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9,1 +9,2 @@\n--- x\n+++ y\n+z\n",
            &[(Some("one\ntwo\n"), "one\n2\n"), (Some("-- x\n"), "++ y\nz\n")],
        );
        check("--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+new\n", &[(None, "new\n")]);
        let end = "\\ No newline at end of file\n";
        check(&format!("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n{end}+b\n{end}"), &[(Some("a"), "b")]);
        check(&format!("--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n-a\n b\n{end}"), &[(Some("a\nb"), "b")]);
    }

    #[test]
    fn fence_is_longer_than_those_in_the_text() {
        assert_eq!(wrap_in_code_fence("a"), "```\na\n```");
        assert_eq!(wrap_in_code_fence("````\na\n"), "`````\n````\na\n`````");
    }
}
