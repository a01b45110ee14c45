//! Folds the events of a session to spans and measurements. A turn is a span; its parts are requests to models, calls of
//! tools, checks, compactions, the verification, and waiting for an approval.

use std::time::Duration;

use super::content::{MessageContent, arguments_text, result_text};
use super::metrics::{Measurement, Metric};
use super::span::{ParentSpan, Span, SpanEvent, SpanId, TelemetryRecord, TraceId};
use super::{LogRecord, log_record, provider_and_model};
use agent_protocol::control::{ControlDecision, Ending};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::{
    Caller, Compaction, Event, EventBody, ModelRequested, ModelResponded, TurnFinished,
};
use agent_protocol::model::{Purpose, StopReason};
use serde_json::Value as Json;

const AGENT: &str = "agent";
/// The value of `error.type` for an error without a code.
const OTHER_ERROR: &str = "_OTHER";

#[derive(Clone, Debug, PartialEq)]
enum TurnPart {
    Chat(Purpose),
    Tool(String),
    Approval(String),
    Compaction,
    Verification,
}

/// Folds the events of a session to telemetry records.
pub struct TelemetryFold {
    session: String,
    parent: Option<ParentSpan>,
    content: Option<MessageContent>,
    turn: Option<Span>,
    last_turn: Option<(TraceId, SpanId)>,
    /// Parts that have not ended, oldest first. A part with `end` waits only for the kind of its error.
    open: Vec<(TurnPart, Span)>,
    /// The model of the last request: `provider/model`.
    model: String,
    records: Vec<TelemetryRecord>,
}

impl TelemetryFold {
    /// The state before the first event of this session.
    pub fn new(session: &str, parent: Option<ParentSpan>, has_content: bool) -> Self {
        Self {
            session: session.to_owned(),
            parent,
            content: has_content.then(MessageContent::default),
            turn: None,
            last_turn: None,
            open: Vec::new(),
            model: String::new(),
            records: Vec::new(),
        }
    }

    /// Takes the records that ended since the last call.
    pub fn take_records(&mut self) -> Vec<TelemetryRecord> {
        std::mem::take(&mut self.records)
    }

    /// Applies the events of a resumed session. A turn during which the program was killed ends with the last of them.
    pub fn resume(&mut self, events: &[&Event]) {
        for event in events {
            self.apply(event);
        }
        self.records.clear();
        // A copied turn belongs to the other session.
        let is_copy =
            events.iter().any(|event| matches!(event.body, EventBody::SessionForked { .. }));
        if let (Some(last), Some(_), false) = (events.last(), &self.turn, is_copy) {
            self.end_all(parse_nanoseconds(&last.header.ts), "killed");
        }
        self.open.clear();
        self.turn = None;
    }

    /// Ends all open parts, because the program ends.
    pub fn end_all(&mut self, now: u64, error: &str) {
        for (_, span) in std::mem::take(&mut self.open).into_iter().rev() {
            self.finish_span(span, now, Some(error));
        }
        if let Some(turn) = self.turn.take() {
            self.end_turn(turn, now, Some(error));
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &Event) {
        let (now, seq) = (|| parse_nanoseconds(&event.header.ts), event.header.seq);
        if let Some(content) = &mut self.content {
            content.add_event(&event.body);
        }
        match &event.body {
            EventBody::TurnStarted { .. } => self.begin_turn(now(), seq, event.header.place.turn),
            EventBody::ModelRequested(requested) => self.begin_request(requested, now(), seq),
            EventBody::ModelResponded(answer) => self.finish_request(answer, now()),
            EventBody::Error { source, retry_in_ms, reason, attempt, .. } if source == "model" => {
                self.fail_request(now(), *retry_in_ms, reason.as_deref(), *attempt);
            }
            EventBody::ContextOverflowed { .. } => {
                self.end_part(&TurnPart::Chat(Purpose::Main), now(), Some("context_overflow"));
            }
            EventBody::ImagesWithheld { .. } => {
                self.end_part(&TurnPart::Chat(Purpose::Main), now(), Some("images_refused"));
            }
            EventBody::ModelFallback { .. } => {
                self.end_part(&TurnPart::Chat(Purpose::Main), now(), Some("model_unavailable"));
            }
            EventBody::PermissionRequested { call, tool, .. } => {
                let mut span = self.new_span("approval", tool, now(), seq, None);
                span.set("gen_ai.tool.name", tool.as_str());
                span.set("gen_ai.tool.call.id", call.as_str());
                self.open.push((TurnPart::Approval(call.clone()), span));
            }
            EventBody::PermissionDecided { call, ruling, .. } => {
                let part = TurnPart::Approval(call.clone());
                self.update_part(&part, |span| span.set("code_agent.ruling", ruling.as_str()));
                self.end_part(&part, now(), None);
            }
            EventBody::ToolStarted { call, tool, by, .. } => {
                self.end_part(&TurnPart::Approval(call.clone()), now(), None);
                let span = self.new_tool_span(call, tool, *by, now(), seq);
                self.open.push((TurnPart::Tool(call.clone()), span));
            }
            EventBody::ToolFinished { call, tool, envelope, synthetic: false, by, .. } => {
                self.end_part(&TurnPart::Approval(call.clone()), now(), None);
                let part = TurnPart::Tool(call.clone());
                // A refused call did not start.
                if !self.is_open(&part) {
                    let span = self.new_tool_span(call, tool, *by, now(), seq);
                    self.open.push((part.clone(), span));
                }
                let has_content = self.content.is_some();
                self.update_part(&part, |span| {
                    span.set("code_agent.status", envelope.status());
                    if has_content {
                        span.set("gen_ai.tool.call.arguments", arguments_text(envelope));
                        span.set("gen_ai.tool.call.result", result_text(envelope));
                    }
                });
                self.end_part(&part, now(), envelope.error().map(|error| error.code.as_str()));
            }
            EventBody::CheckFinished { command, exit_code, passed, time_ms, .. } => {
                let start = now().saturating_sub(time_ms.saturating_mul(1_000_000));
                let mut span = self.new_span("check", "", start, seq, None);
                span.set("code_agent.check.passed", *passed);
                let code = exit_code.and_then(|code| u64::try_from(code).ok());
                span.set_some("process.exit.code", code);
                let command = self.content.as_ref().map(|_| command.as_str());
                span.set_some("process.command_line", command);
                self.finish_span(span, now(), (!passed).then_some("check_failed"));
            }
            EventBody::Verified(verification) => {
                self.update_part(&TurnPart::Verification, |span| {
                    span.set_some("code_agent.verification.confirmed", verification.confirmed);
                });
                self.end_part(&TurnPart::Verification, now(), None);
            }
            EventBody::ContextCompacted(compacted) => self.finish_compaction(compacted, now(), seq),
            EventBody::ControlDecided { decision, .. }
                if *decision != ControlDecision::Continue =>
            {
                if let Some(turn) = &mut self.turn {
                    let name = "code_agent.decision";
                    let attributes = vec![(name, decision.label().into())];
                    turn.events.push(SpanEvent { time: now(), name, attributes });
                }
            }
            EventBody::TurnFinished(finished) => self.finish_turn(finished, now()),
            _ => {}
        }
        if let Some((name, mut attributes, is_failure)) = log_record::describe(event) {
            attributes.push(("gen_ai.conversation.id", self.session.as_str().into()));
            let is_of_turn = event.header.place.turn > 0 && name != log_record::SESSION_STARTED;
            let (time, turn) = (now(), self.last_turn.filter(|_| is_of_turn));
            let record = LogRecord { time, name, attributes, is_failure, turn };
            self.records.push(TelemetryRecord::Log(record));
        }
    }

    fn begin_turn(&mut self, now: u64, seq: u64, number: u32) {
        if let Some(turn) = self.turn.take() {
            self.end_parts_of_turn(now, OTHER_ERROR);
            self.end_turn(turn, now, Some(OTHER_ERROR));
        }
        self.last_turn = None;
        let mut turn = self.new_span("invoke_agent", AGENT, now, seq, None);
        turn.set("gen_ai.operation.name", "invoke_agent");
        turn.set("gen_ai.agent.name", AGENT);
        turn.set("gen_ai.agent.version", env!("CARGO_PKG_VERSION"));
        turn.set("code_agent.turn", u64::from(number));
        self.last_turn = Some((turn.trace, turn.id));
        self.turn = Some(turn);
    }

    fn finish_turn(&mut self, finished: &TurnFinished, now: u64) {
        let error = (finished.ending != Ending::Completed).then(|| finished.ending.as_str());
        self.end_parts_of_turn(now, error.unwrap_or(OTHER_ERROR));
        let Some(mut turn) = self.turn.take() else { return };
        turn.set("code_agent.ending", finished.ending.as_str());
        turn.set("code_agent.model_calls", u64::from(finished.rounds));
        turn.set("code_agent.files_changed", finished.files_changed.len() as u64);
        turn.set_some("code_agent.verified", finished.verified);
        turn.set_some("code_agent.cost_usd", finished.cost_usd);
        let usage = finished.usage;
        turn.set("gen_ai.usage.input_tokens", usage.input_tokens);
        turn.set("gen_ai.usage.output_tokens", usage.output_tokens);
        turn.set("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
        if let Some(content) = &mut self.content {
            let (input, output) = content.turn_messages(&finished.result);
            turn.set("gen_ai.input.messages", input);
            turn.set("gen_ai.output.messages", output);
        }
        self.end_turn(turn, now, error);
    }

    fn end_turn(&mut self, mut turn: Span, now: u64, error: Option<&str>) {
        if !self.model.is_empty() {
            let (provider, model) = provider_and_model(&self.model);
            turn.set("gen_ai.provider.name", provider);
            turn.set("gen_ai.request.model", model);
        }
        self.finish_span(turn, now, error);
    }

    fn begin_request(&mut self, requested: &ModelRequested, now: u64, seq: u64) {
        let purpose = requested.purpose;
        // The previous request got no answer.
        self.end_part(&TurnPart::Chat(purpose), now, Some(OTHER_ERROR));
        let group = match purpose {
            Purpose::Summary => Some((TurnPart::Compaction, "compaction")),
            Purpose::Task => Some((TurnPart::Verification, "verification")),
            Purpose::Main => {
                // The request gave no summary.
                self.end_part(&TurnPart::Compaction, now, Some(OTHER_ERROR));
                None
            }
            Purpose::Reflect
            | Purpose::Plan
            | Purpose::Learn
            | Purpose::Search
            | Purpose::Agent => None,
        };
        if let Some((part, name)) = &group
            && !self.is_open(part)
        {
            let span = self.new_span(name, "", now, seq, None);
            self.open.push((part.clone(), span));
        }
        let within = group.and_then(|(part, _)| self.open.iter().find(|(open, _)| *open == part));
        let within = within.map(|(_, span)| span.id);
        let (provider, model) = provider_and_model(&requested.model);
        let mut span = self.new_span("chat", model, now, seq, within);
        span.is_client = true;
        span.set("gen_ai.operation.name", "chat");
        span.set("gen_ai.provider.name", provider);
        span.set("gen_ai.request.model", model);
        span.set("code_agent.purpose", purpose.as_str());
        if let Some(content) = &mut self.content {
            span.set_some("gen_ai.input.messages", content.request_input(requested));
        }
        if purpose == Purpose::Main {
            self.model.clone_from(&requested.model);
        }
        self.open.push((TurnPart::Chat(purpose), span));
    }

    fn finish_request(&mut self, answer: &ModelResponded, now: u64) {
        let content = self.content.is_some();
        let mut measured = Vec::new();
        let part = TurnPart::Chat(answer.purpose);
        self.update_part(&part, |span| {
            let reason = match &answer.stop {
                StopReason::End => "stop",
                StopReason::ToolCalls => "tool_calls",
                StopReason::Length => "length",
                StopReason::Refused => "content_filter",
                StopReason::Repetition => "repetition",
                StopReason::Interrupted => "interrupted",
                StopReason::Other(reason) => reason,
            };
            span.set("gen_ai.response.finish_reasons", vec![reason]);
            if answer.discarded {
                span.set("code_agent.discarded", true);
            }
            span.set_some("code_agent.cost_usd", answer.cost_usd);
            if content {
                span.set("gen_ai.output.messages", MessageContent::request_output(answer));
            }
            let Some(usage) = answer.usage else { return };
            span.set("gen_ai.usage.input_tokens", usage.input_tokens);
            span.set("gen_ai.usage.output_tokens", usage.output_tokens);
            span.set("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
            if usage.cache_write_tokens > 0 {
                span.set("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens);
            }
            for (kind, n) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                let mut attributes = labels_of(span, &CHAT_LABELS);
                attributes.push(("gen_ai.token.type", kind.to_owned()));
                #[expect(clippy::cast_precision_loss, reason = "a sum of doubles")]
                measured.push(Measurement { metric: Metric::Tokens, value: n as f64, attributes });
            }
        });
        self.records.extend(measured.into_iter().map(TelemetryRecord::Measurement));
        let interrupted = (answer.stop == StopReason::Interrupted).then_some("interrupted");
        self.end_part(&part, now, interrupted);
    }

    /// Called before another attempt, and at the final failure.
    fn fail_request(
        &mut self,
        now: u64,
        retry: Option<u64>,
        reason: Option<&str>,
        attempt: Option<u32>,
    ) {
        let is_chat = |(part, _): &&mut (TurnPart, Span)| matches!(part, TurnPart::Chat(_));
        let Some((part, span)) = self.open.iter_mut().rev().find(is_chat) else { return };
        let Some(delay) = retry else {
            if *part == TurnPart::Chat(Purpose::Main) {
                // The ending of the turn contains the kind of the error.
                span.end = now;
            } else {
                let part = part.clone();
                self.end_part(&part, now, Some(OTHER_ERROR));
            }
            return;
        };
        let mut attributes = vec![
            ("error.type", Json::from(reason.unwrap_or(OTHER_ERROR))),
            ("code_agent.retry.delay_ms", delay.into()),
        ];
        attributes.extend(attempt.map(|attempt| ("code_agent.retry.attempt", attempt.into())));
        span.events.push(SpanEvent { time: now, name: "code_agent.retry", attributes });
    }

    fn new_tool_span(&self, call: &str, tool: &str, by: Caller, now: u64, seq: u64) -> Span {
        let mut span = self.new_span("execute_tool", tool, now, seq, None);
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", tool);
        span.set("gen_ai.tool.call.id", call);
        span.set("gen_ai.tool.type", "function");
        if by == Caller::Kernel {
            span.set("code_agent.by", "kernel");
        }
        span
    }

    fn finish_compaction(&mut self, compacted: &Compaction, now: u64, seq: u64) {
        // Without a request to a model it takes no time.
        if !self.is_open(&TurnPart::Compaction) {
            let span = self.new_span("compaction", "", now, seq, None);
            self.open.push((TurnPart::Compaction, span));
        }
        self.update_part(&TurnPart::Compaction, |span| {
            span.set("code_agent.compaction.tokens_before", compacted.tokens_before);
            span.set("code_agent.compaction.tokens_after", compacted.tokens_after);
            span.set("code_agent.compaction.messages", compacted.archived as u64);
        });
        self.end_part(&TurnPart::Compaction, now, None);
    }

    fn new_span(
        &self,
        operation: &str,
        subject: &str,
        start: u64,
        seq: u64,
        within: Option<SpanId>,
    ) -> Span {
        let id = |kind: &str| {
            let unique = format!("{kind} {operation} {} {seq}", self.session);
            *blake3::hash(unique.as_bytes()).as_bytes()
        };
        let turn = self.turn.as_ref().map(|turn| (turn.trace, turn.id)).or(self.last_turn);
        let caller = self.parent.map(|parent| (parent.trace, parent.span));
        let (trace, parent) = match turn.or(caller) {
            Some((trace, parent)) => (trace, Some(within.unwrap_or(parent))),
            None => (first_bytes(&id("trace")), within),
        };
        Span {
            trace,
            id: first_bytes(&id("span")),
            parent,
            name: format!("{operation} {subject}").trim_end().to_owned(),
            is_client: false,
            start,
            end: 0,
            attributes: vec![("gen_ai.conversation.id", self.session.as_str().into())],
            events: Vec::new(),
            is_error: false,
        }
    }

    fn is_open(&self, part: &TurnPart) -> bool {
        self.open.iter().any(|(open, _)| open == part)
    }

    fn update_part(&mut self, part: &TurnPart, change: impl FnOnce(&mut Span)) {
        if let Some((_, span)) = self.open.iter_mut().find(|(open, _)| open == part) {
            change(span);
        }
    }

    /// Ends the remaining parts: after an interrupt, parts have no end of their own. Learning continues after the turn.
    fn end_parts_of_turn(&mut self, now: u64, error: &str) {
        let (kept, ended) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(part, _)| *part == TurnPart::Chat(Purpose::Learn));
        self.open = kept;
        for (_, span) in ended.into_iter().rev() {
            self.finish_span(span, now, Some(error));
        }
    }

    fn end_part(&mut self, part: &TurnPart, now: u64, error: Option<&str>) {
        if let Some(at) = self.open.iter().position(|(open, _)| open == part) {
            let (_, span) = self.open.remove(at);
            self.finish_span(span, now, error);
        }
    }

    fn finish_span(&mut self, mut span: Span, now: u64, error: Option<&str>) {
        // The clock of the machine may have been set back.
        span.end = if span.end == 0 { now } else { span.end }.max(span.start);
        if let Some(error) = error {
            span.is_error = true;
            span.set("error.type", error);
        }
        if let Some((metric, labels)) = duration_metric(&span) {
            let attributes = labels_of(&span, labels);
            let value = Duration::from_nanos(span.end.saturating_sub(span.start)).as_secs_f64();
            let measured = Measurement { metric, value, attributes };
            self.records.push(TelemetryRecord::Measurement(measured));
        }
        self.records.push(TelemetryRecord::Span(Box::new(span)));
    }
}

const CHAT_LABELS: [&str; 4] =
    ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"];

/// The metric of a span's duration, and the names of the common attributes.
fn duration_metric(span: &Span) -> Option<(Metric, &'static [&'static str])> {
    match span.text_attribute("gen_ai.operation.name")? {
        "chat" => Some((Metric::Chat, &CHAT_LABELS)),
        "invoke_agent" => {
            Some((Metric::Turn, &["gen_ai.operation.name", "gen_ai.agent.name", "error.type"]))
        }
        // The name of a missing tool can be anything.
        _ if span.text_attribute("error.type") == Some(ErrorCode::UnknownTool.as_str()) => {
            Some((Metric::Tool, &["gen_ai.operation.name", "error.type"]))
        }
        _ => Some((Metric::Tool, &["gen_ai.operation.name", "gen_ai.tool.name", "error.type"])),
    }
}

fn labels_of(span: &Span, names: &[&'static str]) -> Vec<(&'static str, String)> {
    let label = |name: &&'static str| Some((*name, span.text_attribute(name)?.to_owned()));
    names.iter().filter_map(label).collect()
}

fn first_bytes<const N: usize>(hash: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| hash[at])
}

fn parse_nanoseconds(time: &str) -> u64 {
    let time = time.parse::<jiff::Timestamp>().unwrap_or_default();
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}
