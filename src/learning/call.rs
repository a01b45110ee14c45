//! A call as it was made and as it went: what the events say of it, in a size that can be kept.

use serde_json::Value;

use super::pattern::plain_path;
use crate::protocol::command::simple_commands;
use crate::protocol::envelope::{Envelope, ErrorCode};
use crate::protocol::event::Caller;
use crate::protocol::message::ToolCall;
use crate::protocol::{Object, shorten, signature};

/// The tool's name under which the checks of a task stand.
pub const CHECK: &str = "check";
/// How much of one argument is kept, in bytes.
const VALUE_BYTES: usize = 400;
/// How much of an output is kept: its end, where the reason stands.
const EVIDENCE_BYTES: usize = 1500;

/// A call that was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Number of the event that says how it went.
    pub seq: u64,
    /// The call's id; of a check its command.
    pub id: String,
    /// Which answer of the model, in its turn.
    pub round: u32,
    /// The todo in progress.
    pub step: u32,
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    /// When it had ended.
    pub ended_ms: i64,
    /// The tool, or [`CHECK`].
    pub tool: String,
    /// Its arguments; long ones are cut.
    pub input: Object,
    /// Who made it.
    pub by: Caller,
    /// On whose behalf.
    pub parent: Option<String>,
    /// How it failed, if it did.
    pub failed: Option<Failed>,
    /// What it came to, in one line.
    pub result: String,
    /// It changed files, or may have: no call that only looks.
    pub acts: bool,
    /// It made a file that was not there.
    pub created: bool,
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The envelope's code.
    pub code: ErrorCode,
    /// Masked, as the kernel sees it.
    pub signature: String,
    /// The message, and the end of what a command printed.
    pub evidence: String,
    /// What to do next, as the tool said.
    pub hint: Option<String>,
    /// The exit status, where it was a command.
    pub exit_code: Option<i64>,
}

impl Made {
    /// The call as a model would make it.
    pub fn call(&self) -> ToolCall {
        ToolCall {
            id: self.id.clone(),
            name: self.tool.clone(),
            arguments: Value::Object(self.input.clone()).to_string(),
        }
    }

    /// The command line, where it is one.
    pub fn command(&self) -> Option<&str> {
        self.input.get("command").and_then(Value::as_str)
    }

    /// The command line, however it was spaced; nothing where not all of it is known.
    pub(super) fn line(&self) -> Option<String> {
        let line = self.command().filter(|line| !is_cut(line))?;
        Some(words(line).join(" "))
    }

    /// The path it names.
    pub fn path(&self) -> Option<&str> {
        self.input.get("path").and_then(Value::as_str).map(plain_path)
    }

    /// Tool and target in a few words.
    pub fn in_words(&self) -> String {
        match (self.command(), self.path().or(self.input.get("pattern").and_then(Value::as_str))) {
            (Some(command), _) => format!("`{}`", shorten(command, 80)),
            (None, Some(path)) => format!("{} {path}", self.tool),
            (None, None) => self.tool.clone(),
        }
    }
}

/// The arguments without what the registry put in, and with long texts cut.
pub(super) fn kept(input: &Object) -> Object {
    let is_ours = |name: &str| matches!(name, "file_mtime_ms" | "file_size_bytes");
    let kept = input.iter().filter(|(name, _)| !is_ours(name)).map(|(name, value)| {
        let value = match value {
            Value::String(text) => Value::String(shorten(text, VALUE_BYTES)),
            Value::Array(items) => Value::Array(items.iter().take(3).map(shortened).collect()),
            other => shortened(other),
        };
        (name.clone(), value)
    });
    kept.collect()
}

/// The end of this command line was not kept: nobody knows what it is the same as.
pub(super) fn is_cut(line: &str) -> bool {
    // (At a character's boundary: up to three bytes less.)
    line.len() > VALUE_BYTES - 4 && line.ends_with('…')
}

fn shortened(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES { value.clone() } else { shorten(&text, VALUE_BYTES).into() }
}

/// How a call went.
pub(super) enum Went {
    Well,
    Badly(Failed),
    /// It was interrupted, or never run.
    Unknown,
}

/// How an envelope says that it went. A pipeline of which a program was not there has failed, whatever its
/// last stage says.
pub(super) fn went(tool: &str, envelope: &Envelope) -> Went {
    let output = signature::output_tail(envelope);
    let exit_code = envelope.data.get("exit_code").and_then(Value::as_i64);
    let Some(error) = envelope.error() else {
        let stages = envelope.data.get("stages").and_then(Value::as_array);
        let statuses = stages.into_iter().flatten().filter_map(|stage| stage["exit_code"].as_i64());
        return match statuses.into_iter().find(|status| [126, 127].contains(status)) {
            Some(missing) => Went::Badly(Failed {
                code: ErrorCode::CommandFailed,
                signature: format!("COMMAND_FAILED {}", signature::signature(&output)),
                evidence: end_of(&output),
                hint: None,
                exit_code: Some(missing),
            }),
            None => Went::Well,
        };
    };
    if error.code == ErrorCode::Cancelled {
        return Went::Unknown;
    }
    Went::Badly(Failed {
        code: error.code,
        signature: signature::of(tool, envelope).unwrap_or_default(),
        evidence: end_of(&format!("{}\n{}", error.message, output.trim())),
        hint: error.hint.clone(),
        exit_code,
    })
}

/// The end of a text, from a line's beginning.
pub(super) fn end_of(text: &str) -> String {
    let text = text.trim();
    if text.len() <= EVIDENCE_BYTES {
        return text.to_owned();
    }
    let from = text.ceil_char_boundary(text.len() - EVIDENCE_BYTES);
    let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
    format!("…\n{}", &text[from..])
}

/// The same command line.
pub(super) fn is_again(one: &Made, other: &Made) -> bool {
    one.tool == other.tool && one.line().is_some_and(|line| other.line() == Some(line))
}

/// Words of a command line, each command's with its operator, for comparing two lines: the line itself
/// where it can not be read so simply.
pub(super) fn words(line: &str) -> Vec<&str> {
    let commands = simple_commands(line);
    if commands.is_empty() {
        return line.split_whitespace().collect();
    }
    commands
        .into_iter()
        .flat_map(|simple| simple.words.into_iter().chain(simple.operator))
        .collect()
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A command that was run; `said`: it failed, and printed this.
    pub(in super::super) fn made(seq: u64, line: &str, said: Option<&str>) -> Made {
        let input = Object::from_iter([("command".to_owned(), line.into())]);
        Made {
            seq,
            id: format!("c{seq}"),
            round: 1,
            step: 0,
            began_ms: 0,
            ended_ms: 0,
            tool: "Bash".to_owned(),
            input: kept(&input),
            by: Caller::Model,
            parent: None,
            failed: said.map(|said| Failed {
                code: ErrorCode::CommandFailed,
                signature: signature::signature(said),
                evidence: format!("`{}` exited 1\n{said}", shorten(line, 200)),
                hint: None,
                exit_code: Some(1),
            }),
            result: String::new(),
            acts: true,
            created: false,
        }
    }
}
