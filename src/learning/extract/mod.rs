//! What a trace teaches: by rules, where the difference between the call that failed and the one that worked is small
//! and known.
//!
//! Precise before complete: nothing is learnt where the calls differ in more than that, or where the success does
//! not show that the failure was made good.

mod calls;
mod commands;
mod conventions;
pub(super) mod guard;
mod installed;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::call::is_cut;
use super::evidence::{as_condition, from_fault, phrase, printed, telling_line};
use super::item::{Condition, FailurePattern, Fix, Item, Origin, Scope};
use super::leads::led_by;
use super::pattern::kind_of;
use super::refuse;
use super::trace::{Attempt, ExecutionTrace};
use crate::protocol::command::{simple_commands, unquoted};
use crate::protocol::envelope::{ErrorClass, ErrorCode};
use crate::protocol::recall::ItemKind;
use crate::protocol::reflection::Tags;
use crate::protocol::topics;
use crate::protocol::{Object, shorten};

/// So many failures of one trace are looked at.
const MAX_FAILURES: usize = 3;
/// The longest piece of a signature that is a condition, in bytes, and the shortest, in characters.
const MAX_SIGNATURE: usize = 100;
const MIN_SIGNATURE: usize = 6;

/// What a trace teaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extracted {
    /// What is to be remembered.
    pub items: Vec<Item>,
    /// What was not, and why: text and reason.
    pub refused: Vec<(String, String)>,
}

/// An attempt, read again.
struct Try<'a> {
    tool: &'a str,
    input: &'a Object,
    code: Option<ErrorCode>,
    /// The message, of a command what it printed.
    error: &'a str,
    /// The line of all that which says most.
    telling: Option<&'a str>,
    exit_code: Option<i64>,
}

/// Something that succeeded between the failure and the success.
struct Between<'a> {
    tool: &'a str,
    input: &'a Object,
    acts: bool,
    /// It made a file that was not there.
    created: bool,
}

/// What a rule makes of a failure and its success.
struct Lesson {
    text: String,
    /// When it fails, in words.
    condition: String,
    when: Condition,
    fix: Option<Fix>,
    topic: String,
    /// It holds wherever the user works.
    general: bool,
}

/// What a trace that ended well, not at once, teaches. `task`: what the user had asked for.
pub fn extract(trace: &ExecutionTrace, task: &str) -> Extracted {
    let mut extracted = Extracted::default();
    let Some((success, failures)) = trace.attempts.split_last() else { return extracted };
    if !trace.final_success || failures.is_empty() {
        return extracted;
    }
    let Some(good) = Try::of(success) else { return extracted };
    let mut seen = Vec::new();
    for (at, failure) in failures.iter().enumerate() {
        let Some(bad) = Try::of(failure) else { continue };
        let key = (failure.code, failure.signature.clone(), bad.command().map(str::to_owned));
        if failure.success || seen.contains(&key) || seen.len() >= MAX_FAILURES {
            continue;
        }
        seen.push(key);
        let between: Vec<Between<'_>> =
            trace.attempts[at + 1..].iter().flat_map(Between::of).collect();
        let lessons = match bad.code {
            Some(ErrorCode::CommandFailed | ErrorCode::CommandBlocked | ErrorCode::Timeout)
                if bad.command().is_some() =>
            {
                let is_other = |next: &Attempt| next.signature != failure.signature;
                let next = (at + 1..failures.len()).find(|next| is_other(&failures[*next]));
                let next = next.and_then(|next| {
                    let between = trace.attempts[at + 1..=next].iter().flat_map(Between::of);
                    Some((Try::of(&failures[next])?, between.collect::<Vec<_>>()))
                });
                let next = next.as_ref().map(|(next, between)| (next, between.as_slice()));
                let before = changed_until(&trace.attempts[..=at]);
                let lesson = conventions::of_changes(&bad, &good, &before, &between, task);
                let lesson = lesson.or_else(|| commands::lesson(&bad, next, &good, &between));
                let lesson = lesson
                    .or_else(|| conventions::of_one_line(&bad, &good, &before, &between, task));
                lesson.into_iter().collect()
            }
            Some(_) | None => calls::lessons(&bad, &good, &between),
        };
        for lesson in lessons {
            let lesson = installed::of_installed(guarded(lesson, &bad), &bad);
            let item = item(trace, failure, lesson);
            // What a machine said is no advice; but a secret is one wherever it stands, in the fix too.
            let all = serde_json::to_string(&item).unwrap_or_default();
            let secret = || refuse::holds_secret(&all).then(|| refuse::SECRET.to_owned());
            let refused = refuse::why(&item.text, task).or_else(secret);
            match refused {
                Some(why) => extracted.refused.push((item.text, why)),
                None if extracted.items.iter().all(|known| known.text != item.text) => {
                    extracted.items.push(item);
                }
                None => {}
            }
        }
    }
    extracted
}

/// What had been done to files when the last of these was made.
fn changed_until(attempts: &[Attempt]) -> Vec<Between<'_>> {
    let first = attempts.first().map(|first| Between::read(first, "changed"));
    let later = attempts.iter().flat_map(Between::of).filter(Between::is_edit);
    first.into_iter().flatten().chain(later).collect()
}

fn item(trace: &ExecutionTrace, failure: &Attempt, lesson: Lesson) -> Item {
    let scope = if lesson.general { Scope::User } else { Scope::Project(trace.project.clone()) };
    let kind = ItemKind::FailurePattern;
    let error = failure.error.as_deref().unwrap_or_default();
    // The folders of one project say nothing in another.
    let led_by = if lesson.general { Vec::new() } else { led_by(failure) };
    Item {
        id: Item::id_of(&scope, kind, &lesson.text),
        scope,
        kind,
        tags: Tags { topic: lesson.topic, pattern: None },
        failure: Some(FailurePattern {
            skill: trace.skill_id.clone(),
            condition: lesson.condition,
            error_type: error_type(failure).to_owned(),
            suggested_fix: Some(lesson.text.clone()),
            when: lesson.when,
            fix: lesson.fix,
            led_by,
        }),
        text: lesson.text,
        because: telling_line(error).map(|line| shorten(line, 120)),
        evidence: vec![trace.session.clone()],
        origin: Origin::Trace,
        frequency: 1,
        wins: 1,
        losses: 0,
        created_at_ms: failure.timestamp_ms,
        last_occurred_ms: failure.timestamp_ms,
    }
}

/// The category of a failure, in the kernel's words.
pub(super) fn error_type(failure: &Attempt) -> &'static str {
    let Some(code) = failure.code else { return "unknown" };
    let tool = failure.context.get("tool").and_then(Value::as_str).unwrap_or_default();
    let exit_code = failure.context.get("exit_code").and_then(Value::as_i64);
    let error = failure.error.as_deref().unwrap_or_default();
    let missing = ["No module named", "Cannot find module", "command not found"];
    match code.class(tool) {
        _ if exit_code == Some(127) || missing.iter().any(|words| error.contains(words)) => {
            "dependency_error"
        }
        ErrorClass::Policy => "permission_error",
        ErrorClass::Tool => "tool_error",
        ErrorClass::Caller => "parameter_error",
        ErrorClass::State => match code {
            ErrorCode::NotRead | ErrorCode::Conflict => "parameter_error",
            _ => "environment_error",
        },
    }
}

impl<'a> Try<'a> {
    fn of(attempt: &'a Attempt) -> Option<Self> {
        let error = attempt.error.as_deref().unwrap_or_default();
        Some(Self {
            tool: attempt.context.get("tool")?.as_str()?,
            input: attempt.context.get("input")?.as_object()?,
            code: attempt.code,
            error: printed(error),
            telling: telling_line(error),
            exit_code: attempt.context.get("exit_code").and_then(Value::as_i64),
        })
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.input.get(name).and_then(Value::as_str)
    }

    /// The command line, where all of it is known.
    fn command(&self) -> Option<&'a str> {
        self.text("command").filter(|line| !is_cut(line))
    }

    /// A program was not there, or could not be started.
    fn is_missing(&self) -> bool {
        [Some(126), Some(127)].contains(&self.exit_code)
    }

    /// The piece of its masked signature that tells this failure from others.
    fn signature(&self) -> Option<String> {
        Self::piece_of(self.telling?)
    }

    fn piece_of(line: &str) -> Option<String> {
        let piece = as_condition(from_fault(line));
        let end = piece.floor_char_boundary(MAX_SIGNATURE);
        Some(piece[..end].trim_end().to_owned()).filter(|piece| piece.len() >= 4)
    }

    /// The longest piece of it that names nothing which only this call was given: words of the command that are
    /// neither what it runs (`head`) nor what has to be another (`replaced`).
    fn signature_of_kind(&self, head: &str, replaced: &str) -> Option<String> {
        self.signature_of_line(self.telling?, head, replaced)
    }

    /// The same, of this line.
    fn signature_of_line(&self, line: &str, head: &str, replaced: &str) -> Option<String> {
        let signature = Self::piece_of(line)?;
        let stays = |word: &str| {
            head.split_whitespace().chain(replaced.split_whitespace()).any(|kept| kept == word)
        };
        let line = self.command().unwrap_or_default();
        let commands = simple_commands(line);
        let words = commands.iter().flat_map(|simple| simple.program().iter().skip(1));
        let mut pieces = vec![signature.as_str()];
        for word in words.filter(|word| !stays(word)) {
            let word = as_condition(&unquoted(word));
            if word.chars().count() > 1 && !word.starts_with('-') {
                pieces = pieces.into_iter().flat_map(|piece| piece.split(word.as_str())).collect();
            }
        }
        let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ':' | ',' | '(');
        let longest = pieces.into_iter().map(|piece| piece.trim_matches(is_end));
        let longest = longest.max_by_key(|piece| piece.chars().count())?;
        (longest.chars().count() >= MIN_SIGNATURE).then(|| longest.to_owned())
    }
}

impl<'a> Between<'a> {
    fn of(attempt: &'a Attempt) -> Vec<Self> {
        Self::read(attempt, "between")
    }

    fn read(attempt: &'a Attempt, name: &str) -> Vec<Self> {
        let calls = attempt.context.get(name).and_then(Value::as_array);
        let read = |call: &'a Value| {
            Some(Self {
                tool: call.get("tool")?.as_str()?,
                input: call.get("input")?.as_object()?,
                acts: call.get("acts")?.as_bool()?,
                created: call.get("created").is_some_and(|created| *created == true),
            })
        };
        calls.into_iter().flatten().filter_map(read).collect()
    }

    fn command(&self) -> Option<&'a str> {
        self.input.get("command").and_then(Value::as_str)
    }

    /// A file tool that changed something.
    fn is_edit(&self) -> bool {
        self.acts && self.command().is_none()
    }
}

/// The reason behind an advice, in words of our own table: what a program prints is no advice.
fn reason(piece: Option<&str>) -> String {
    piece.and_then(phrase).map(|phrase| format!(" (it says: {phrase})")).unwrap_or_default()
}

/// What got past a guard once is for a person to say again.
fn guarded(lesson: Lesson, bad: &Try<'_>) -> Lesson {
    let said = if bad.is_missing() { "" } else { bad.error };
    let head = lesson.when.command_head.as_deref().unwrap_or_default();
    match &lesson.fix {
        Some(fix) if guard::gets_past(fix, head, said) => {
            Lesson { text: guard::with_care(&lesson.text), fix: None, ..lesson }
        }
        Some(_) | None => lesson,
    }
}

/// What a command is about, in a word; else the kind of file, else the tool.
fn topic_of(tool: &str, input: &Object) -> String {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let of_command = text("command").map(|line| {
        let program = || {
            let commands = simple_commands(line);
            let first = commands.last().and_then(|simple| simple.program().first().copied());
            first.map_or_else(
                || "command".to_owned(),
                |first| crate::protocol::command::name_of(first).to_owned(),
            )
        };
        topics::of_command(line).map_or_else(program, str::to_owned)
    });
    of_command
        .or_else(|| text("path").and_then(kind_of).map(str::to_owned))
        .unwrap_or_else(|| tool.to_lowercase())
}
