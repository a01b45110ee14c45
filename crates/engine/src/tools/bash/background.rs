//! `BashOutput` and `BashKill`: background commands.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    full_output_note, insert_left_running, insert_notes, output_stats, process_names,
    shorten_command,
};
use crate::tools::{
    CallTarget, Tool, ToolCx, cancelled_failure, embedded_spec, json_object, parse_input,
};
use agent_host::exec::{BackgroundOutput, CommandEnd, EndReason, seconds};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

pub(super) fn started_report(id: &str, command: &str) -> Report {
    let data = json_object(json!({ "background_id": id }));
    let text = format!(
        "`{}` runs in the background as {id}, until it ends or the session does. Read its output with \
         BashOutput {{\"id\": \"{id}\"}}, end it with BashKill.",
        shorten_command(command)
    );
    Report { data, text, ..Report::default() }
}

/// `BashOutput`, or `BashKill`.
pub(in crate::tools) struct JobTool {
    spec: ToolSpec,
    kills: bool,
}

#[derive(Deserialize)]
struct Args {
    id: String,
    #[serde(default)]
    wait_ms: u64,
}

impl JobTool {
    pub(in crate::tools) fn bash_output() -> Self {
        Self { spec: embedded_spec("BashOutput", embedded::BASH_OUTPUT), kills: false }
    }

    pub(in crate::tools) fn bash_kill() -> Self {
        Self { spec: embedded_spec("BashKill", embedded::BASH_KILL), kills: true }
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
            let output = async {
                if self.kills {
                    cx.exec.kill_background(&id).await
                } else {
                    cx.exec.read_output(&id, Duration::from_millis(wait_ms)).await
                }
            };
            match cx.cancel.run_until_cancelled(output).await {
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
                None => Err(cancelled_failure()),
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
    let BackgroundOutput { stdout, stderr, full_output, full_output_error, refusal, end, time } =
        piece;
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
    let left = end.as_ref().map_or(&[][..], |end| &end.left_running);
    if !left.is_empty() {
        let names = process_names(left);
        text.push_str(&format!(" Still running, until BashKill or the session's end: {names}."));
    }
    let sizes = output_stats(&stdout, &stderr);
    let mut data = Object::new();
    let notes = || refusal.iter().chain(end.iter().flat_map(|end| &end.notices));
    for note in notes() {
        text.push_str(&format!(" Note: {note}."));
    }
    insert_notes(&mut data, notes());
    data.insert("running".to_owned(), end.is_none().into());
    data.insert("stdout".to_owned(), stdout.text.into());
    data.insert("stderr".to_owned(), stderr.text.into());
    if let Some(end) = &end {
        data.insert("exit_code".to_owned(), end.exit_code.into());
        data.insert("signal".to_owned(), end.signal.clone().into());
    }
    insert_left_running(&mut data, left);
    if truncated {
        data.insert("truncated".to_owned(), true.into());
    }
    if let Some(name) = full_output {
        data.insert("full_output".to_owned(), name.into());
    }
    Report { data, text, stats: sizes, partial: truncated, ..Report::default() }
}
