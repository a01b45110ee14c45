//! The result of a call: its output within the limits, in an envelope.

use super::call::{CallAttempt, CallContext};
use super::{OutputLimits, Registry, arguments, output_limits};
use agent_host::workspace::ChangedFiles;
use agent_protocol::Object;
use agent_protocol::envelope::{
    Envelope, ErrorCode, Failure, Report, ResultContext, SealedEnvelope, ToolError, Verdict,
};
use agent_protocol::event::{Caller, EventBody};
use agent_protocol::message::ToolCall;
use agent_protocol::tool::Effect;

/// The result of a call.
#[derive(Debug)]
pub struct ToolCallResult {
    /// The result of the tool, or a refusal.
    pub envelope: SealedEnvelope,
    /// The effect of the call, if it was determined.
    pub effect: Option<Effect>,
    /// A rule or the mode refused a write or a command.
    pub is_denied: bool,
    /// A rule made from the user's words refused it.
    pub violates_instruction: bool,
    /// What it changed, as far as checkpoints cover it.
    pub changed: ChangedFiles,
    /// A hook ends the turn: why.
    pub stop_reason: Option<String>,
}

impl Registry {
    /// Creates the envelope of a call, of which up to `share` bytes are shown.
    pub(super) fn finish_call(
        &self,
        call: &ToolCall,
        attempt: CallAttempt,
        share: usize,
    ) -> ToolCallResult {
        let CallAttempt { outcome, context, time_ms } = attempt;
        let limits = self.shared.limits;
        let limits = OutputLimits { max_bytes: limits.max_bytes.min(share), ..limits };
        let (outcome, cut) =
            output_limits::limit_output(outcome, &call.name, &limits, &self.cx.spill);
        if cut.iter().any(|field| field == "content") {
            self.mark_lines_unshown(&outcome);
        }
        let is_of_mcp = matches!(context.effect, Some(Effect::Mcp { .. }));
        let envelope =
            self.seal_envelope(&call.name, outcome, context.input.clone(), time_ms, is_of_mcp);
        self.events.emit(EventBody::ToolFinished {
            call: call.id.clone(),
            tool: call.name.clone(),
            envelope: envelope.clone(),
            synthetic: false,
            by: context.caller(),
            parent_call: context.parent,
        });
        let CallContext { effect, denied, violates_instruction, changed, stop, .. } = context;
        ToolCallResult {
            envelope,
            effect,
            is_denied: denied,
            violates_instruction,
            changed,
            stop_reason: stop,
        }
    }

    /// The result of a call that is not run because a hook ended the turn, or the user sent a message, before it
    /// started.
    pub(super) fn cancel_unstarted_call(
        &self,
        call: &ToolCall,
        is_stopped: bool,
    ) -> ToolCallResult {
        let failure = if is_stopped {
            Failure::new(ErrorCode::Cancelled, "not run: a hook ended the turn")
        } else {
            Failure::new(ErrorCode::Cancelled, "cancelled: the user sent a message first")
                .with_hint("read it, and repeat the call only if it is still right")
        };
        let envelope =
            self.seal_envelope(&call.name, Err(failure), arguments::envelope_input(call), 0, false);
        self.events.emit(EventBody::ToolFinished {
            call: call.id.clone(),
            tool: call.name.clone(),
            envelope: envelope.clone(),
            synthetic: false,
            by: Caller::Model,
            parent_call: None,
        });
        ToolCallResult {
            envelope,
            effect: None,
            is_denied: false,
            violates_instruction: false,
            changed: ChangedFiles::default(),
            stop_reason: None,
        }
    }

    /// The lines of the file that this result contains were not shown completely.
    pub(super) fn mark_lines_unshown(&self, outcome: &Result<Report, Failure>) {
        let (path, data) = match outcome {
            Ok(report) => (&report.path, &report.data),
            Err(failure) => (&failure.path, &failure.data),
        };
        let number = |name: &str| data.get(name).and_then(serde_json::Value::as_u64);
        let lines = number("start_line").zip(number("end_line")).map(|(a, b)| a..b + 1);
        if let Some(path) = path.as_ref().and_then(|path| self.cx.workspace.resolve(path).ok()) {
            self.cx.workspace.mark_unshown(&path, lines);
        }
    }

    /// The envelope of a result. Secrets in what commands print are masked here, once, for the model and the log. File tools
    /// show the model the real text, so that it can be edited; the log masks it.
    fn seal_envelope(
        &self,
        tool: &str,
        outcome: Result<Report, Failure>,
        input: Object,
        time_ms: u64,
        is_of_mcp: bool,
    ) -> SealedEnvelope {
        let mut envelope = build_envelope(outcome, input, time_ms);
        // (A server runs with the user's environment, like a command.)
        if tool.starts_with("Bash") || is_of_mcp {
            self.events.masker().mask_envelope(&mut envelope);
        }
        envelope.into()
    }
}

fn build_envelope(
    outcome: Result<Report, Failure>,
    params_input: Object,
    time_ms: u64,
) -> Envelope {
    let (verdict, data, text, mut stats, path_resolved) = match outcome {
        Ok(Report { partial, data, text, stats, path }) => {
            let verdict = if partial { Verdict::Partial } else { Verdict::Success };
            (verdict, data, text, stats, path)
        }
        Err(Failure { code, message, hint, data, text, stats, path }) => {
            let error = ToolError { code, message, hint };
            let text = if text.is_empty() { error.in_words() } else { text };
            (Verdict::Error { error }, data, text, stats, path)
        }
    };
    stats.insert("time_ms".to_owned(), time_ms.into());
    let context = ResultContext { cwd: ".".to_owned(), params_input, path_resolved };
    Envelope { verdict, data, text, stats, context }
}
