//! The model's view of an envelope: one line with the small fields (for a success its text, otherwise JSON),
//! then large fields as plain text. The log keeps the whole envelope.

use std::collections::BTreeMap;

use serde_json::Value;

use super::command_output::plain_output;
use super::envelope::Envelope;
use super::terminal_escape::{escape_literal, escape_literal_line};
use super::tool::background_operation;
use super::{Object, pluralize, shorten};

/// A text of more bytes, or of several lines, is shown below the line of JSON.
const MAX_INLINE_BYTES: usize = 120;

/// Ends the text of a result that repeats an earlier one.
pub const SAME_ANSWER_NOTE: &str = " Note: this is the same call with the same answer as before.";
/// Changed files that are named.
const MAX_CHANGED_FILES: usize = 10;
/// Directories of other changed files.
const MAX_DIRECTORIES: usize = 3;

/// The model's view. The same envelope always gives the same view.
pub fn render_for_model(envelope: &Envelope) -> String {
    let mut head = Object::new();
    head.insert("status".into(), envelope.status().into());
    if let Some(error) = envelope.error() {
        head.insert("code".into(), error.code.as_str().into());
        head.insert("message".into(), error.message.clone().into());
        if let Some(hint) = &error.hint {
            head.insert("hint".into(), hint.clone().into());
        }
        // Fields that the error repeats are left out.
        let words = error.in_words();
        let more = envelope.text.strip_prefix(words.as_str()).unwrap_or(&envelope.text).trim();
        if !more.is_empty() {
            head.insert("text".into(), more.into());
        }
    } else if !envelope.text.is_empty() {
        head.insert("text".into(), envelope.text.clone().into());
    }
    let read_again = envelope.data.get("read_again").and_then(Value::as_array);
    let is_named = |file: &&Value| read_again.is_some_and(|files| files.contains(file));
    let mut bulk = Vec::new();
    for (name, value) in envelope.data.iter().filter(|(name, _)| !is_redundant(envelope, name)) {
        let value = match (name.as_str(), value) {
            ("files_changed", Value::Array(files)) => {
                let files = files.iter().filter(|file| !is_named(file)).filter_map(Value::as_str);
                &list_changed_files(&files.collect::<Vec<_>>())
            }
            ("stdout" | "stderr", Value::String(text)) => &plain_output(text).into(),
            _ => value,
        };
        match large_field_text(name, value) {
            Some(text) => bulk.push((name.as_str(), text)),
            None if is_informative(name, value) => {
                head.insert(name.clone(), value.clone());
            }
            None => {}
        }
    }
    let mut view = first_line(envelope, head);
    let several = bulk.len() > 1;
    for (name, text) in bulk {
        view.push('\n');
        if several {
            view.push_str(&format!("{name}:\n"));
        }
        view.push_str(text.strip_suffix('\n').unwrap_or(&text));
    }
    view
}

/// The first names; of the others the number and the directories.
fn list_changed_files(files: &[&str]) -> Value {
    let (named, others) = files.split_at(files.len().min(MAX_CHANGED_FILES));
    let mut directories: Vec<&str> =
        others.iter().map(|file| file.rsplit_once('/').map_or(".", |(path, _)| path)).collect();
    directories.sort_unstable();
    directories.dedup();
    let more = match directories.split_at(directories.len().min(MAX_DIRECTORIES)) {
        ([], _) => None,
        (named, []) => Some(named.join(", ")),
        (named, _) => Some(named.join(", ") + ", …"),
    };
    let more = more.map(|places| format!("and {} more in {places}", others.len()));
    named.iter().map(|file| (*file).to_owned()).chain(more).collect()
}

fn first_line(envelope: &Envelope, mut head: Object) -> String {
    if envelope.status() != "success" || envelope.text.is_empty() {
        return Value::Object(head).to_string();
    }
    head.retain(|name, _| name != "status" && name != "text");
    if head.is_empty() {
        envelope.text.clone()
    } else {
        format!("{} {}", envelope.text, Value::Object(head))
    }
}

/// Fields that the text repeats or that follow it: it names failed stages, the plan, what is missing and where it is.
const IN_TEXT: &str = "stages pipelines exit_code signal left_running running full_output truncated \
    aborted_reason total_lines encoding_guessed read_again todos answers nearest lines kind \
    already_applied failed_index overlapping redirected_to agent ending images notes";
/// The model has sent the new text; the text says how many lines changed and where.
const OF_APPLIED_CHANGE: &str = "diff_preview diff_truncated applied replacements operation";

/// The model sent this field itself, or the text contains it.
fn is_redundant(envelope: &Envelope, field: &str) -> bool {
    let is_in = |names: &str| names.split(' ').any(|name| name == field);
    let is_applied = envelope.data.get("applied") == Some(&Value::Bool(true));
    // The image follows the text.
    envelope.image().is_some() || is_in(IN_TEXT) || is_applied && is_in(OF_APPLIED_CHANGE)
}

fn is_informative(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        // Numbers that the model sent, or that are visible in the lines below.
        Value::Number(_) => !matches!(name, "start_line" | "end_line"),
        Value::Bool(true) => true,
    }
}

/// A field of a result as lines of text; `None` for a small field.
pub fn large_field_text(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text)
            if text.contains('\n')
                || text.len() > MAX_INLINE_BYTES
                || matches!(name, "content" | "report" | "stdout" | "stderr") =>
        {
            (!text.is_empty()).then(|| text.clone())
        }
        Value::Array(items) if !items.is_empty() => match name {
            "matches" => Some(format_matches(items)),
            "entries" => Some(items.iter().map(format_entry).collect()),
            "counts" => {
                let line = |item: &Value| {
                    format!("{}: {}\n", item["file"].as_str().unwrap_or_default(), item["count"])
                };
                Some(items.iter().map(line).collect())
            }
            "paths" | "files" => {
                let paths = items.iter().filter_map(Value::as_str);
                Some(paths.map(|path| format!("{path}\n")).collect())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Each file with its matches as `line: text`, and context lines as `line- text`.
fn format_matches(items: &[Value]) -> String {
    let mut text = String::new();
    let mut last_file = None;
    for item in items {
        let file = item["file"].as_str().unwrap_or_default();
        if last_file.replace(file) != Some(file) {
            text.push_str(&format!("{file}\n"));
        }
        let number = item["line"].as_u64().unwrap_or_default();
        let around = |field: &str| -> Vec<&str> {
            item[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let before = around("before");
        let first = number.saturating_sub(before.len() as u64);
        for (n, line) in (first..).zip(&before) {
            text.push_str(&format!("{n}- {line}\n"));
        }
        text.push_str(&format!("{number}: {}\n", item["text"].as_str().unwrap_or_default()));
        for (n, line) in (number + 1..).zip(around("after")) {
            text.push_str(&format!("{n}- {line}\n"));
        }
    }
    text
}

fn format_entry(item: &Value) -> String {
    let path = item["path"].as_str().unwrap_or_default();
    match item["type"].as_str() {
        Some("dir") => format!("{path}/\n"),
        Some("link") => match item["target"].as_str() {
            Some(target) => format!("{path} -> {target}\n"),
            None => format!("{path} (link)\n"),
        },
        _ => match item["size"].as_u64() {
            Some(size) => format!("{path} ({size} B)\n"),
            None => format!("{path}\n"),
        },
    }
}

const SUBJECT_FIELDS: [&str; 9] =
    ["command", "pattern", "path", "url", "query", "summary", "name", "description", "prompt"];

/// The subject of an MCP call: `git.log {"n":3}` for `McpTool`, else the arguments; `None` for our own tools.
pub fn mcp_subject(tool: &str, input: &Object) -> Option<String> {
    if tool != "McpTool" {
        return tool.starts_with("mcp__").then(|| Value::Object(input.clone()).to_string());
    }
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let arguments = input.get("arguments").map(Value::to_string).unwrap_or_default();
    Some(match (text("tool"), text("search")) {
        (Some(tool), _) => format!("{tool} {arguments}").trim_end().to_owned(),
        (None, search) => format!("search {:?}", search.unwrap_or_default()),
    })
}

/// A call in one line: `Read src/a.rs`, `Bash (in web) npm test`.
pub fn call_line(tool: &str, input: &Object) -> String {
    let subject = escape_literal_line(&call_subject(tool, input)).into_owned();
    let place = command_place(tool, input).map(|place| shorten(&escape_literal_line(&place), 40));
    let line =
        format!("{} {}", tool_with_place(&escape_literal_line(tool), place), shorten(&subject, 90));
    line.trim_end().to_owned()
}

/// A call with its whole command, path or other subject.
pub fn full_call(tool: &str, input: &Object) -> String {
    let tool_and_place = tool_with_place(tool, command_place(tool, input));
    escape_literal(&format!("{tool_and_place} {}", call_subject(tool, input))).trim_end().to_owned()
}

fn tool_with_place(tool: &str, place: Option<String>) -> String {
    place.map_or_else(|| tool.to_owned(), |place| format!("{tool} ({place})"))
}

/// Where and how a command runs, if not in the foreground in the root: `in web, in the background`.
pub fn command_place(tool: &str, input: &Object) -> Option<String> {
    if tool != "Bash" {
        return None;
    }
    let directory = input.get("directory").and_then(Value::as_str);
    let directory = directory.filter(|name| !matches!(name.trim_end_matches('/'), "" | "."));
    let directory = directory.map(|directory| format!("in {directory}"));
    let is_background = input.get("background").is_some_and(|value| *value == true);
    let background = is_background.then(|| "in the background".to_owned());
    let parts: Vec<String> = directory.into_iter().chain(background).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The files of an undo in words, at most 40: first those that were left as they are.
pub fn describe_undone_files(
    files: &BTreeMap<String, String>,
    in_words: impl Fn(&str, &str) -> String,
) -> String {
    const MOST: usize = 40;
    let mut all: Vec<_> = files.iter().collect();
    all.sort_by_key(|(_, how)| !how.starts_with("left as it is"));
    let mut shown: Vec<String> =
        all.iter().take(MOST).map(|(path, how)| in_words(path, how)).collect();
    if let more @ 1.. = all.len().saturating_sub(MOST) {
        shown.push(format!("and {}", pluralize(more as u64, "more file")));
    }
    shown.join(", ")
}

/// The path, command or other subject of a call; empty if it has none.
pub fn call_subject(tool: &str, input: &Object) -> String {
    mcp_subject(tool, input).unwrap_or_else(|| {
        let texts = SUBJECT_FIELDS.iter().find_map(|name| input.get(*name).and_then(Value::as_str));
        texts.or_else(|| Some(background_operation(input)?.1)).unwrap_or_default().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(envelope: &Value, expected: &str) {
        let mut envelope = envelope.clone();
        envelope["stats"] = json!({"time_ms": 1});
        envelope["context"] = json!({"cwd": ".", "params_input": {}});
        let envelope: Envelope = serde_json::from_value(envelope).expect("an envelope");
        assert_eq!(render_for_model(&envelope), expected);
    }

    #[test]
    fn long_text_follows_the_first_line() {
        check(
            &json!({
                "status": "partial",
                "data": {"content": "1 | a\n2 | \"b\"\n", "start_line": 1, "end_line": 2,
                         "total_lines": 9, "truncated": true},
                "text": "Lines 1–2 of 9. Next: start_line 3."
            }),
            "{\"status\":\"partial\",\"text\":\"Lines 1–2 of 9. Next: start_line 3.\"}\n1 | a\n2 | \"b\"",
        );
    }

    #[test]
    fn matches_are_grouped_by_file() {
        check(
            &json!({
                "status": "success",
                "data": {"matches": [
                    {"file": "a.rs", "line": 2, "text": "x", "before": ["w"], "after": ["y", "z"]},
                    {"file": "b.rs", "line": 7, "text": "x"}
                ]},
                "text": "2 matches."
            }),
            "2 matches.\na.rs\n1- w\n2: x\n3- y\n4- z\nb.rs\n7: x",
        );
    }

    #[test]
    fn error_view_has_code_message_and_hint_once() {
        check(
            &json!({
                "status": "error",
                "error": {"code": "NOT_FOUND", "message": "no x", "hint": "try y"},
                "data": {}, "text": "no x. Next: try y."
            }),
            "{\"status\":\"error\",\"code\":\"NOT_FOUND\",\"message\":\"no x\",\"hint\":\"try y\"}",
        );
    }

    #[test]
    fn view_omits_what_the_model_already_knows() {
        check(
            &json!({
                "status": "success",
                "data": {"applied": true, "diff_preview": "+++ b/a\n+x\n", "operation": "create"},
                "text": "Created a: +1 -0 lines."
            }),
            "Created a: +1 -0 lines.",
        );
        check(
            &json!({
                "status": "error",
                "error": {"code": "NOT_FOUND", "message": "no x", "hint": "the nearest existing names: y"},
                "data": {"nearest": ["y"]}, "text": "no x. Next: the nearest existing names: y."
            }),
            "{\"status\":\"error\",\"code\":\"NOT_FOUND\",\"message\":\"no x\",\"hint\":\"the nearest existing names: y\"}",
        );
    }

    #[test]
    fn nothing_of_a_command_is_shown_twice() {
        check(
            &json!({
                "status": "success",
                "data": {"stdout": "no line end", "stderr": "", "exit_code": 0, "files_changed": ["a", "b"],
                         "read_again": ["a"]},
                "text": "Exited 0. Note: files you read changed: a."
            }),
            "Exited 0. Note: files you read changed: a. {\"files_changed\":[\"b\"]}\nno line end",
        );
    }

    #[test]
    fn success_view_is_its_text() {
        check(
            &json!({
                "status": "success",
                "data": {"stdout": "a\nb\n", "exit_code": 0, "stages": [{"exit_code": 0}], "files_changed": ["x"]},
                "text": "Exited 0."
            }),
            "Exited 0. {\"files_changed\":[\"x\"]}\na\nb",
        );
    }

    #[test]
    fn output_of_commands_has_no_escape_sequences() {
        check(
            &json!({
                "status": "success",
                "data": {"stdout": "\u{1b}[32mok\u{1b}[0m\n10%\r100%\n", "stderr": "", "exit_code": 0},
                "text": "Exited 0."
            }),
            "Exited 0.\nok\n100%",
        );
    }

    #[test]
    fn several_long_fields_are_labelled() {
        check(
            &json!({
                "status": "error",
                "error": {"code": "COMMAND_FAILED", "message": "exit 1"},
                "data": {"stdout": "a\nb\n", "stderr": "c\nd\n", "exit_code": 1, "truncated": false},
                "text": "exit 1."
            }),
            "{\"status\":\"error\",\"code\":\"COMMAND_FAILED\",\"message\":\"exit 1\"}\nstdout:\na\nb\nstderr:\nc\nd",
        );
    }
}
