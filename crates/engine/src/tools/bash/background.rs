//! `BashOutput` and `BashKill`: background commands.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::super::{CallTarget, Tool, ToolCx, embedded_spec, parse_input};
use super::{full_output_note, insert_notes, output_stats, shorten_command};
use agent_host::exec::seconds;
use agent_host::exec::{BackgroundOutput, CommandEnd, EndReason};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

/// The result of a command that was started in the background.
pub(super) fn started_report(id: &str, command: &str) -> Report {
    let mut data = Object::new();
    data.insert("background_id".to_owned(), id.into());
    let text = format!(
        "`{}` runs in the background as {id}, until it ends or the session does. Read its output with \
         BashOutput {{\"id\": \"{id}\"}}, end it with BashKill.",
        shorten_command(command)
    );
    Report { data, text, ..Report::default() }
}

/// What to do with a background command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobAction {
    Read,
    Kill,
}

/// `BashOutput`, or `BashKill`.
#[derive(Debug)]
pub(in crate::tools) struct JobTool {
    spec: ToolSpec,
    action: JobAction,
}

#[derive(Deserialize)]
struct Args {
    id: String,
    #[serde(default)]
    wait_ms: u64,
}

impl JobTool {
    /// `BashOutput`.
    pub(in crate::tools) fn bash_output() -> Self {
        let spec = embedded_spec("BashOutput", embedded::BASH_OUTPUT);
        Self { spec, action: JobAction::Read }
    }

    /// `BashKill`.
    pub(in crate::tools) fn bash_kill() -> Self {
        let spec = embedded_spec("BashKill", embedded::BASH_KILL);
        Self { spec, action: JobAction::Kill }
    }
}

impl Tool for JobTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        let args: Args = parse_input(input)?;
        Ok(Effect::Job { id: args.id }.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let Args { id, wait_ms } = parse_input(&input)?;
            let asked = async {
                match self.action {
                    JobAction::Read => {
                        cx.exec.read_output(&id, Duration::from_millis(wait_ms)).await
                    }
                    JobAction::Kill => cx.exec.kill_background(&id).await,
                }
            };
            match cx.cancel.run_until_cancelled(asked).await {
                Some(Some(BackgroundOutput {
                    end: Some(CommandEnd { error: Some(why), .. }),
                    ..
                })) => {
                    let message = format!("{id} could not be run: {why}");
                    Err(Failure::new(ErrorCode::ExecutionError, message)
                        .with_hint("start it again with Bash, or report that it cannot be run"))
                }
                Some(Some(mut piece)) => {
                    let redactor = cx.secrets.redactor(&cx.workspace);
                    redactor.redact_in(&mut piece.stdout.text);
                    redactor.redact_in(&mut piece.stderr.text);
                    Ok(output_report(&id, piece))
                }
                Some(None) => Err(unknown_job(&id, &cx.exec.background_ids())),
                None => Err(Failure::new(ErrorCode::Cancelled, "interrupted before it was done")),
            }
        })
    }
}

fn unknown_job(id: &str, known: &[String]) -> Failure {
    let hint = if known.is_empty() {
        "start one with Bash and background: true; those of an earlier process are gone".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Failure::new(ErrorCode::NotFound, format!("there is no background command {id:?}"))
        .with_hint(hint)
}

fn output_report(id: &str, piece: BackgroundOutput) -> Report {
    let BackgroundOutput {
        stdout,
        stderr,
        full_output,
        full_output_error,
        refusal: refused,
        end,
        time,
    } = piece;
    let is_silent = stdout.total_bytes + stderr.total_bytes == 0;
    let news = if is_silent { "No new output." } else { "New output." };
    let state = match &end {
        None => format!("{id} runs since {}.", seconds(time)),
        Some(end) => {
            let how = match (end.reason, end.exit_code, &end.signal) {
                (EndReason::TimedOut, ..) => "was ended: its time was up".to_owned(),
                (EndReason::Cancelled, ..) => "was ended, with all of its processes".to_owned(),
                (EndReason::Exited, Some(code), None) => format!("exited {code}"),
                (EndReason::Exited, Some(code), Some(signal)) => {
                    format!("exited {code} ({signal})")
                }
                (EndReason::Exited, None, Some(signal)) => format!("was ended by {signal}"),
                (EndReason::Exited, None, None) => "was ended by a signal".to_owned(),
            };
            format!("{id} {how} after {}.", seconds(time))
        }
    };
    let mut text = format!("{state} {news}");
    let truncated = stdout.truncated || stderr.truncated;
    let rest = full_output_note(full_output.as_ref(), full_output_error.as_ref());
    if let Some(rest) = rest.filter(|_| truncated) {
        text.push_str(&format!(" Too large, cut{rest}."));
    }
    let left: Vec<(i32, String)> = end
        .iter()
        .flat_map(|end| &end.left_running)
        .map(|left| (left.pid, left.name.clone()))
        .collect();
    if !left.is_empty() {
        let names: Vec<String> =
            left.iter().map(|(pid, name)| format!("{pid} (`{name}`)")).collect();
        let names = names.join(", ");
        text.push_str(&format!(" Still running, until BashKill or the session's end: {names}."));
    }
    let sizes = output_stats(&stdout, &stderr);
    let mut data = Object::new();
    let notes = || refused.iter().chain(end.iter().flat_map(|end| &end.notices));
    for note in notes() {
        text.push_str(&format!(" Note: {note}."));
    }
    insert_notes(&mut data, notes());
    data.insert("running".to_owned(), end.is_none().into());
    data.insert("stdout".to_owned(), stdout.text.into());
    data.insert("stderr".to_owned(), stderr.text.into());
    if let Some(end) = end {
        data.insert("exit_code".to_owned(), end.exit_code.into());
        data.insert("signal".to_owned(), end.signal.into());
    }
    if !left.is_empty() {
        let left: Vec<_> =
            left.into_iter().map(|(pid, name)| json!({"pid": pid, "name": name})).collect();
        data.insert("left_running".to_owned(), left.into());
    }
    if truncated {
        data.insert("truncated".to_owned(), true.into());
    }
    if let Some(name) = full_output {
        data.insert("full_output".to_owned(), name.into());
    }
    Report { data, text, stats: sizes, partial: truncated, ..Report::default() }
}
