//! What happened, as attempts: derived from the events of a session, never written by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::CHECK;
use super::chain::main_command;
use super::command::head;
use super::evidence::telling_line;
use super::pattern::{kind_of, plain_path};
use crate::protocol::command::{WITH_TASK, is_assignment, is_script, name_of, simple_commands};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::topics;
use crate::protocol::{Object, shorten};

/// Everything that was tried to do one thing: one failure made good, one that was not, or one success.
///
/// The fields are those of the design of learning from failure (`docs/LEARNING.md`), and `session`, `project`,
/// `turn`, `step`, `methodology` and `needs_human` besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionTrace {
    /// `SESSION/TURN/N`: the same events give the same id.
    pub id: String,
    /// The method in use: `Bash test`, `Edit`, or the name of a skill that was loaded.
    pub skill_id: String,
    /// `SESSION/TURN`.
    pub task_id: String,
    /// The session.
    pub session: String,
    /// The project's identity.
    pub project: String,
    /// Which of the user's messages.
    pub turn: u32,
    /// The todo in progress, from 1; 0 where there is none.
    pub step: u32,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// The last attempt did it.
    pub final_success: bool,
    /// It ended badly: a person should look at it.
    pub needs_human: bool,
    /// The named way of working, where one was chosen.
    pub methodology: Option<String>,
    /// When the first attempt began, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// From the first attempt's beginning to the last one's end.
    pub duration_ms: u64,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub index: u32,
    /// When it began, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// `tool`, `input`, `call` (its id), and what is known of the circumstances: `mode`, `platform`, `cwd`,
    /// `exit_code`, in `between` what had succeeded since the attempt before, and in `changed` the files that the turn
    /// had changed until the first one.
    pub context: Object,
    /// What it used: a skill's script, a command of the project, a check.
    pub activated_artifacts: Vec<String>,
    /// What it came to, in one line.
    pub result: String,
    /// It did what it was to do.
    pub success: bool,
    /// What it said where it failed.
    pub error: Option<String>,
    /// The envelope's code where it failed.
    pub code: Option<ErrorCode>,
    /// The failure with numbers, times, paths, addresses and hashes masked.
    pub signature: Option<String>,
    /// What was done differently, where it is a retry.
    pub fix_applied: Option<String>,
    /// Whose idea that was.
    pub fix_source: Option<FixSource>,
}

/// Whose idea a fix was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixSource {
    /// The model's, a retry of the kernel's, a patch, a recalled rule.
    SelfCorrection,
    /// A steering message, the words of an approval, an answer to a question.
    UserHint,
    /// A failure pattern that fitted.
    FailurePattern,
}

/// One use of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionRecord {
    /// In milliseconds since 1970.
    pub timestamp_ms: i64,
    /// It did what it was to do.
    pub success: bool,
    /// What it said where it failed.
    pub error: Option<String>,
    /// Hash of the circumstances: tool or command head, file kinds, tags, platform.
    pub context_hash: String,
    /// Those circumstances in words.
    pub context: String,
}

/// The method of a call: the tool, of a command with its purpose (`Bash test`), else with its program.
pub fn skill_of(tool: &str, command: Option<&str>) -> String {
    let Some(command) = command else { return tool.to_owned() };
    if let Some(topic) = topics::of_command(command) {
        return format!("{tool} {topic}");
    }
    let commands = simple_commands(command);
    let program = main_command(&commands).and_then(|simple| simple.program().first().copied());
    match program {
        Some(program) if is_script(program) => format!("{tool} script"),
        Some(program) if program.len() <= 20 => format!("{tool} {}", name_of(program)),
        Some(_) | None => tool.to_owned(),
    }
}

/// What a call used: `script tools/gen.sh`, `task make fmt`, `check cargo test -q`.
pub fn artifacts_of(tool: &str, input: &Object) -> Vec<String> {
    let Some(command) = input.get("command").and_then(Value::as_str) else { return Vec::new() };
    if tool == CHECK {
        return vec![format!("check {}", shorten(command, 120))];
    }
    let commands = simple_commands(command);
    commands.iter().filter_map(|simple| artifact_of(simple.program())).collect()
}

fn artifact_of(program: &[&str]) -> Option<String> {
    let (first, rest) = program.split_first()?;
    let script = |path: &str| format!("script {}", plain_path(path));
    if is_script(first) {
        return Some(script(first));
    }
    match head(program) {
        [_, path] if is_script(path) => Some(script(path)),
        words if WITH_TASK.contains(&name_of(first)) && words.len() > 1 => {
            // What git and installers do is no command of the project's.
            let is_own = !["git", "pip", "pip3", "docker", "kubectl"].contains(first);
            (is_own && !rest.is_empty()).then(|| format!("task {}", words.join(" ")))
        }
        _ => None,
    }
}

/// Each artifact of these traces with its uses, the oldest first.
pub fn execution_history(traces: &[ExecutionTrace]) -> BTreeMap<String, Vec<ExecutionRecord>> {
    let mut history: BTreeMap<String, Vec<ExecutionRecord>> = BTreeMap::new();
    for attempt in traces.iter().flat_map(|trace| &trace.attempts) {
        let context = context_of(attempt);
        let hash = blake3::hash(context.as_bytes()).to_hex();
        for artifact in &attempt.activated_artifacts {
            history.entry(artifact.clone()).or_default().push(ExecutionRecord {
                timestamp_ms: attempt.timestamp_ms,
                success: attempt.success,
                error: attempt.error.as_deref().map(|error| telling(error).to_owned()),
                context_hash: hash[..12].to_owned(),
                context: context.clone(),
            });
        }
    }
    for records in history.values_mut() {
        records.sort_by_key(|record| record.timestamp_ms);
    }
    history
}

/// The circumstances of an attempt in words: tool or the command's words without its targets, kinds of the
/// files it names, what it is for, mode, platform.
pub fn context_of(attempt: &Attempt) -> String {
    let text = |name: &str| attempt.context.get(name).and_then(Value::as_str).unwrap_or_default();
    let empty = Object::new();
    let input = attempt.context.get("input").and_then(Value::as_object).unwrap_or(&empty);
    let command = input.get("command").and_then(Value::as_str);
    let mut parts = vec![text("tool").to_owned()];
    let mut kinds = BTreeSet::new();
    kinds.extend(input.get("path").and_then(Value::as_str).and_then(kind_of));
    if let Some(command) = command {
        let commands = simple_commands(command);
        for simple in &commands {
            let program = simple.program();
            let head = head(program);
            let assigned = simple.words.iter().filter(|word| is_assignment(word));
            let assigned = assigned.map(|word| word.split('=').next().unwrap_or(word));
            let flags = program[head.len()..].iter().copied().filter(|word| word.starts_with('-'));
            let words: Vec<&str> = assigned.chain(head.iter().copied()).chain(flags).collect();
            parts.push(words.join(" "));
            kinds.extend(program[head.len()..].iter().filter_map(|word| kind_of(word)));
        }
        parts.extend(topics::of_command(command).map(|topic| format!("for {topic}")));
        let directory = input.get("directory").and_then(Value::as_str).filter(|at| *at != ".");
        parts.extend(directory.map(|directory| format!("in {directory}")));
    }
    parts.extend(kinds.into_iter().map(|kind| format!("*.{kind}")));
    parts.push(text("mode").to_owned());
    parts.push(text("platform").to_owned());
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The line of an error that says most.
pub fn telling(error: &str) -> &str {
    telling_line(error).unwrap_or(error)
}
