//! Bash: runs commands, for everything without a tool of its own.

mod background;
mod stages;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use stages::Pipelines;

use super::{CallTarget, Tool, ToolCx, embedded_spec, fill_defaults, json_object, parse_input};
use agent_host::exec::{
    self, CapturedOutput, Command, CommandOutcome, EndReason, OutputFileOpener, OutputListener,
    RemainingProcess,
};
use agent_permission::CommandLine;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::{BASH_KILL, Effect, ToolSpec, background_operation};
use agent_protocol::{Object, shorten};

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// Limit of a command's text in a message.
const MAX_COMMAND_BYTES: usize = 80;

struct Bash {
    spec: ToolSpec,
}

#[derive(Deserialize, Serialize)]
struct Args {
    #[serde(default)]
    command: String,
    #[serde(default = "super::project_root")]
    directory: String,
    timeout_ms: Option<u64>,
    /// True, or the id of a background command.
    #[serde(default = "not_in_background")]
    background: Value,
    kill: Option<String>,
}

fn not_in_background() -> Value {
    false.into()
}

fn is_true(background: &Value) -> bool {
    *background == true || *background == "true"
}

pub(super) fn tool() -> impl Tool {
    Bash { spec: embedded_spec("Bash", embedded::BASH) }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let args: Args = parse_input(input)?;
        let (is_empty, operation) = (args.command.trim().is_empty(), background_operation(input));
        match operation {
            Some((name, id)) if is_empty => {
                return Ok(Effect::Job { id: id.to_owned(), kills: name == BASH_KILL }.into());
            }
            None if !is_empty => {}
            _ => {
                let message = "send either a command or the id of a background command";
                return Err(Failure::new(ErrorCode::InvalidParam, message));
            }
        }
        let resolved_path = cx.workspace.resolve(&args.directory)?;
        let directory = resolved_path.relative().to_owned();
        let line = CommandLine::parse(&args.command);
        let background = is_true(&args.background);
        let reads_only = !background && line.is_read_only();
        let effect = Effect::Command {
            directory,
            reads_only,
            programs: line.programs(),
            unproven: line.unproven_programs(),
            command: args.command,
            background,
        };
        Ok(CallTarget { effect, resolved_path: Some(resolved_path) })
    }

    /// The description has no effect on the call.
    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<Args>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(run_bash(input, cx))
    }
}

async fn run_bash(input: Object, cx: &ToolCx) -> Result<Report, Failure> {
    let args: Args = parse_input(&input)?;
    let timeout = args.timeout_ms.map(Duration::from_millis);
    if let Some((name, id)) = background_operation(&input) {
        let wait = timeout.unwrap_or_default();
        return background::read_or_kill(id, name == BASH_KILL, wait, cx).await;
    }
    let directory = cx.resolved_path()?;
    let line = CommandLine::parse(&args.command);
    let spill = Arc::clone(&cx.spill);
    let redactor = cx.secrets.redactor(&cx.workspace);
    let for_file = Arc::clone(&redactor);
    let whole_output: OutputFileOpener<'static> = Box::new(move || {
        let (file, name) = spill.create("Bash", for_file)?;
        Ok((Box::new(file) as Box<dyn Write + Send>, name))
    });
    let command = Command {
        whole_output: Some(whole_output),
        rights: cx.rights,
        reports_each_status: line.needs_all_statuses(),
        watcher: cx.output_watcher.clone().map(|watcher| -> OutputListener<'static> {
            let redactor = Arc::clone(&redactor);
            Box::new(move |text| watcher(&redactor.redact(text)))
        }),
        ..Command::new(
            args.command.clone(),
            directory.absolute().to_path_buf(),
            timeout.unwrap_or(DEFAULT_TIMEOUT),
        )
    };
    let failed = |error: exec::Error| start_failure(&error, &args.directory);
    if is_true(&args.background) {
        let id = cx.exec.start_background(command, timeout, &cx.cancel).await;
        let id = id.map_err(failed)?;
        return Ok(background::started_report(&id, &args.command));
    }
    let changed_before = cx.workspace.files_changed_since_read(false);
    let outcome = cx.exec.run(command, &cx.cancel).await;
    let mut outcome = outcome.map_err(failed)?;
    // (The command may have changed the files.)
    for redactor in [redactor, cx.secrets.redactor(&cx.workspace)] {
        redactor.redact_in(&mut outcome.stdout.text);
        redactor.redact_in(&mut outcome.stderr.text);
    }
    let mut stale = cx.workspace.files_changed_since_read(false);
    stale.retain(|path| !changed_before.contains(path));
    let pipelines = Pipelines::from_statuses(&line, &outcome.statuses);
    let is_answer = outcome.exit_code == Some(1) && outcome.stderr.text.trim().is_empty();
    let answer = line.answer(&outcome.statuses).filter(|_| is_answer);
    report_outcome(&args.command, outcome, (&pipelines, answer), &stale)
        .map_err(|failure| failure.with_path(directory.relative()))
}

fn start_failure(error: &exec::Error, directory: &str) -> Failure {
    match error {
        exec::Error::NoDirectory(_) => {
            Failure::new(ErrorCode::NotFound, format!("the directory {directory} does not exist"))
                .with_hint("create it, or name one that exists")
        }
        exec::Error::NotADirectory(_) => {
            Failure::new(ErrorCode::NotADirectory, format!("{directory} is a file"))
                .with_hint("name the directory to run in")
        }
        exec::Error::Link(_) => Failure::new(ErrorCode::AccessDenied, error.to_string())
            .with_hint("it changed meanwhile: list the directory with LS"),
        exec::Error::Cancelled => Failure::new(ErrorCode::Cancelled, error.to_string()),
        exec::Error::NulByte | exec::Error::TooLong(_) => {
            Failure::new(ErrorCode::InvalidParam, error.to_string())
                .with_hint("put the text into a file with Write, and name the file in the command")
        }
        exec::Error::TooMany(_) => Failure::new(ErrorCode::ExecutionError, error.to_string())
            .with_hint("kill: ID ends one"),
        exec::Error::NoBash | exec::Error::Io(_) => {
            Failure::new(ErrorCode::ExecutionError, error.to_string())
                .with_hint("continue with the file tools, and report that commands cannot be run")
        }
    }
}

fn report_outcome(
    command: &str,
    outcome: CommandOutcome,
    (pipelines, answer): (&Pipelines, Option<&str>),
    stale: &[String],
) -> Result<Report, Failure> {
    let shown = shorten_command(command);
    let notes = format_notes(&outcome, stale);
    let failures = pipelines.failures();
    let how = outcome.describe_end();
    let (ended, exit_code) = (outcome.end_reason, outcome.exit_code);
    let missing = missing_program(&outcome);
    let is_silent = outcome.stdout.total_bytes + outcome.stderr.total_bytes == 0;
    let stats = output_stats(&outcome.stdout, &outcome.stderr);
    let unreverted = outcome.unreverted.join("; ");
    let mut data = outcome_data(outcome, pipelines);
    if !stale.is_empty() {
        data.insert("read_again".to_owned(), stale.into());
    }
    let (code, message, hint) = match (ended, exit_code) {
        _ if !unreverted.is_empty() => {
            (ErrorCode::ExecutionError, format!("`{shown}` {how}, but {unreverted}"), None)
        }
        (EndReason::Exited, Some(code)) if code == 0 || answer.is_some() => {
            let answer = answer.map_or(String::new(), |states| format!(": {states}"));
            let end = match &failures {
                Some(stages) => format!(", but {stages}."),
                None if is_silent && code == 0 => ", without output.".to_owned(),
                None => ".".to_owned(),
            };
            let (text, partial) = (format!("Exited {code}{answer}{end}{notes}"), failures.is_some());
            return Ok(Report { partial, data, text, stats, path: None });
        }
        (EndReason::Exited, _) => {
            let hint = match (exit_code, missing) {
                (Some(127), Some(program)) => Some(format!(
                    "{program} is not in PATH: use another program, or report that it is missing"
                )),
                (Some(127), None) => {
                    Some("a program was not found: check its name and PATH".to_owned())
                }
                (Some(126), _) => Some(
                    "a file is not executable: run chmod +x, or name its interpreter".to_owned(),
                ),
                (Some(_) | None, _) => None,
            };
            let failures = failures.map(|failures| format!(": {failures}")).unwrap_or_default();
            (ErrorCode::CommandFailed, format!("`{shown}` {how}{failures}"), hint)
        }
        (EndReason::TimedOut, _) => (
            ErrorCode::Timeout,
            format!("`{shown}` {how}; all of its processes were ended"),
            Some(
                "for a server use background: true; otherwise run less, raise timeout_ms (at most 600000), or avoid \
                 the prompt for input"
                    .to_owned(),
            ),
        ),
        (EndReason::Cancelled, _) => (ErrorCode::Cancelled, format!("`{shown}` {how}"), None),
    };
    let mut failure = Failure { data, stats, ..Failure::new(code, message) };
    failure.hint = hint;
    if !notes.is_empty() {
        failure.append_note(&notes);
    }
    Err(failure)
}

fn outcome_data(outcome: CommandOutcome, pipelines: &Pipelines) -> Object {
    let mut data = Object::new();
    let truncated = outcome.stdout.truncated || outcome.stderr.truncated;
    data.insert("stdout".to_owned(), outcome.stdout.text.into());
    data.insert("stderr".to_owned(), outcome.stderr.text.into());
    data.insert("exit_code".to_owned(), outcome.exit_code.into());
    data.insert("signal".to_owned(), outcome.signal.into());
    data.insert("stages".to_owned(), pipelines.last_stages());
    if let Some(pipelines) = pipelines.all_stages() {
        data.insert("pipelines".to_owned(), pipelines);
    }
    data.insert("truncated".to_owned(), truncated.into());
    insert_left_running(&mut data, &outcome.left_running);
    if let Some(name) = outcome.full_output {
        data.insert("full_output".to_owned(), name.into());
    }
    insert_notes(&mut data, outcome.refusal.iter().chain(&outcome.notices));
    data
}

fn insert_left_running(data: &mut Object, left: &[RemainingProcess]) {
    if !left.is_empty() {
        let left = left.iter().map(|left| json!({"pid": left.pid, "name": left.name}));
        data.insert("left_running".to_owned(), left.collect());
    }
}

fn process_names(left: &[RemainingProcess]) -> String {
    let names = left.iter().map(|left| format!("{} (`{}`)", left.pid, left.name));
    names.collect::<Vec<_>>().join(", ")
}

/// What the sandbox refused or changed, for the user: the model reads it in the text.
fn insert_notes<'a>(data: &mut Object, notes: impl Iterator<Item = &'a String>) {
    let notes: Vec<Value> = notes.map(|note| note.as_str().into()).collect();
    if !notes.is_empty() {
        data.insert("notes".to_owned(), notes.into());
    }
}

/// The size of all output, also of what `data` does not contain.
fn output_stats(stdout: &CapturedOutput, stderr: &CapturedOutput) -> Object {
    json_object(json!({
        "stdout_bytes": stdout.total_bytes,
        "stderr_bytes": stderr.total_bytes,
        "stdout_lines": stdout.total_lines,
        "stderr_lines": stderr.total_lines,
    }))
}

/// Further notes for the reader, each as ` Note: ….`
fn format_notes(outcome: &CommandOutcome, stale: &[String]) -> String {
    let mut notes = Vec::new();
    if let Some(rest) =
        full_output_note(outcome.full_output.as_ref(), outcome.full_output_error.as_ref())
    {
        notes.push(format!("Output too large, cut{rest}"));
    }
    if !outcome.left_running.is_empty() {
        let names = process_names(&outcome.left_running);
        notes.push(format!("left running until the session ends: {names}"));
    }
    notes.extend(outcome.refusal.iter().chain(&outcome.notices).cloned());
    if !stale.is_empty() {
        let files = stale.join(", ");
        notes.push(format!("files you read changed: {files}"));
    }
    notes.iter().fold(String::new(), |text, note| format!("{text} Note: {note}."))
}

fn full_output_note(name: Option<&String>, error: Option<&String>) -> Option<String> {
    match (name, error) {
        (Some(name), None) => Some(format!(": all of it is in {name}")),
        (Some(name), Some(error)) => Some(format!(": its beginning is in {name} ({error})")),
        (None, Some(error)) => Some(format!(", and it could not be kept whole: {error}")),
        (None, None) => None,
    }
}

/// The program that bash did not find, according to stderr.
fn missing_program(outcome: &CommandOutcome) -> Option<String> {
    let stderr = outcome.stderr.text.lines();
    let before = stderr.rev().find_map(|line| line.strip_suffix(": command not found"))?;
    Some(before.rsplit(": ").next().unwrap_or(before).to_owned())
}

pub(crate) fn shorten_command(command: &str) -> String {
    match command.trim().split_once('\n') {
        Some((first, _)) => shorten(&format!("{first} …"), MAX_COMMAND_BYTES),
        None => shorten(command.trim(), MAX_COMMAND_BYTES),
    }
}
