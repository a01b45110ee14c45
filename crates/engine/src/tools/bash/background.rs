//! Background commands: their output and their end.

use std::time::Duration;

use serde_json::json;

use super::{
    full_output_note, insert_left_running, insert_notes, output_stats, process_names,
    shorten_command,
};
use crate::tools::{ToolCx, cancelled_failure, json_object};
use agent_host::exec::{BackgroundOutput, CommandEnd, EndReason, seconds};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure, Report};

pub(super) fn started_report(id: &str, command: &str) -> Report {
    let data = json_object(json!({ "background_id": id }));
    let text = format!(
        "`{}` runs in the background as {id}, until it ends or the session does. Read its output with Bash \
         {{\"background\": \"{id}\"}} (with timeout_ms it waits for some), end it with {{\"kill\": \"{id}\"}}.",
        shorten_command(command)
    );
    Report { data, text, ..Report::default() }
}

/// The output since the last call, after up to `wait`; or the end of the command.
pub(super) async fn read_or_kill(
    id: &str,
    kills: bool,
    wait: Duration,
    cx: &ToolCx,
) -> Result<Report, Failure> {
    let output = async {
        if kills { cx.exec.kill_background(id).await } else { cx.exec.read_output(id, wait).await }
    };
    match cx.cancel.run_until_cancelled(output).await {
        Some(Some(BackgroundOutput { end: Some(CommandEnd { error: Some(why), .. }), .. })) => {
            let message = format!("{id} could not be run: {why}");
            Err(Failure::new(ErrorCode::ExecutionError, message)
                .with_hint("start it again with Bash, or report that it cannot be run"))
        }
        Some(Some(mut piece)) => {
            let redactor = cx.secrets.redactor(&cx.workspace);
            redactor.redact_in(&mut piece.stdout.text);
            redactor.redact_in(&mut piece.stderr.text);
            Ok(output_report(id, piece))
        }
        Some(None) => Err(unknown_job(id, &cx.exec.background_ids())),
        None => Err(cancelled_failure()),
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
        text.push_str(&format!(" Still running, until `kill` or the session's end: {names}."));
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
