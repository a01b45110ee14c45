//! `BashOutput` and `BashKill`: background commands.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::super::{Target, Tool, ToolCx, parse, spec};
use super::{insert_notes, shown, stats, whole};
use agent_host::exec::seconds;
use agent_host::exec::{End, Ended, Piece};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

/// The result of a command that was started in the background.
pub(super) fn started(id: &str, command: &str) -> Report {
    let mut data = Object::new();
    data.insert("background_id".to_owned(), id.into());
    let text = format!(
        "`{}` runs in the background as {id}, until it ends or the session does. Read its output with \
         BashOutput {{\"id\": \"{id}\"}}, end it with BashKill.",
        shown(command)
    );
    Report { data, text, ..Report::default() }
}

/// What to do with a background command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Read,
    Kill,
}

/// `BashOutput`, or `BashKill`.
#[derive(Debug)]
pub(in crate::tools) struct Job {
    spec: ToolSpec,
    action: Action,
}

#[derive(Deserialize)]
struct Args {
    id: String,
    #[serde(default)]
    wait_ms: u64,
}

impl Job {
    /// `BashOutput`.
    pub(in crate::tools) fn output() -> Self {
        let spec = spec("BashOutput", embedded::BASH_OUTPUT);
        Self { spec, action: Action::Read }
    }

    /// `BashKill`.
    pub(in crate::tools) fn kill() -> Self {
        let spec = spec("BashKill", embedded::BASH_KILL);
        Self { spec, action: Action::Kill }
    }
}

impl Tool for Job {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<Target, Failure> {
        let args: Args = parse(input)?;
        Ok(Effect::Job { id: args.id }.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let Args { id, wait_ms } = parse(&input)?;
            let asked = async {
                match self.action {
                    Action::Read => cx.exec.output(&id, Duration::from_millis(wait_ms)).await,
                    Action::Kill => cx.exec.kill(&id).await,
                }
            };
            match cx.cancel.run_until_cancelled(asked).await {
                Some(Some(Piece { end: Some(End { error: Some(why), .. }), .. })) => {
                    let message = format!("{id} could not be run: {why}");
                    Err(Failure::new(ErrorCode::ExecutionError, message)
                        .hint("start it again with Bash, or report that it cannot be run"))
                }
                Some(Some(mut piece)) => {
                    let redactor = cx.secrets.redactor(&cx.workspace);
                    redactor.redact_in(&mut piece.stdout.text);
                    redactor.redact_in(&mut piece.stderr.text);
                    Ok(report(&id, piece))
                }
                Some(None) => Err(unknown(&id, &cx.exec.background_ids())),
                None => Err(Failure::new(ErrorCode::Cancelled, "interrupted before it was done")),
            }
        })
    }
}

fn unknown(id: &str, known: &[String]) -> Failure {
    let hint = if known.is_empty() {
        "start one with Bash and background: true; those of an earlier process are gone".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Failure::new(ErrorCode::NotFound, format!("there is no background command {id:?}")).hint(hint)
}

fn report(id: &str, piece: Piece) -> Report {
    let Piece { stdout, stderr, full_output, full_output_error, refused, end, time } = piece;
    let is_silent = stdout.total_bytes + stderr.total_bytes == 0;
    let news = if is_silent { "No new output." } else { "New output." };
    let state = match &end {
        None => format!("{id} runs since {}.", seconds(time)),
        Some(end) => {
            let how = match (end.ended, end.exit_code, &end.signal) {
                (Ended::TimedOut, ..) => "was ended: its time was up".to_owned(),
                (Ended::Cancelled, ..) => "was ended, with all of its processes".to_owned(),
                (Ended::Exited, Some(code), None) => format!("exited {code}"),
                (Ended::Exited, Some(code), Some(signal)) => format!("exited {code} ({signal})"),
                (Ended::Exited, None, Some(signal)) => format!("was ended by {signal}"),
                (Ended::Exited, None, None) => "was ended by a signal".to_owned(),
            };
            format!("{id} {how} after {}.", seconds(time))
        }
    };
    let mut text = format!("{state} {news}");
    let truncated = stdout.truncated || stderr.truncated;
    let rest = whole(full_output.as_ref(), full_output_error.as_ref());
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
    let sizes = stats(&stdout, &stderr);
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
