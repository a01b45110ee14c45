//! The formats `json` and `stream-json`: compatible with scripts written for `claude -p`, with
//! additional fields.

mod partial_messages;
mod program_adapter;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::write_text;
use agent_protocol::control::Ending;
use agent_protocol::event::{
    Event, EventBody, ModelRequested, SessionStarted, Sink, StampedEvent, TurnFinished,
};
use agent_protocol::hook::{HookFinished, HookStatus};
use agent_protocol::model::{StopReason, Usage};
use agent_protocol::view::render_for_model;
use partial_messages::PartialMessages;
use program_adapter::ProgramAdapter;

/// `json`: one `result` object at the end.
pub(super) struct ResultObject {
    out: Box<dyn Write + Send>,
    builder: ResultBuilder,
}

impl ResultObject {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, builder: ResultBuilder::default() }
    }
}

impl Sink for ResultObject {
    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.builder.record(&stamped.event);
    }

    fn receive(&mut self, stamped: &StampedEvent) {
        let event = &stamped.event;
        self.builder.record(event);
        if let EventBody::TurnFinished(finished) = &event.body {
            let result = self.builder.build(event, finished);
            write_text(self.out.as_mut(), format!("{result}\n"));
        }
    }
}

/// `stream-json`: a line for the start, each answer, each round of results, and the end.
pub struct StreamJson {
    out: Box<dyn Write + Send>,
    builder: ResultBuilder,
    model: String,
    /// The keys are ids of sub-agents.
    models: HashMap<String, String>,
    has_turn: bool,
    program: Option<ProgramAdapter>,
    partial: Option<PartialMessages>,
    shows_hooks: bool,
}

/// The optional lines of `stream-json`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamJsonOptions {
    pub partial_messages: bool,
    pub hook_events: bool,
}

impl StreamJson {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out,
            builder: ResultBuilder::default(),
            model: String::new(),
            models: HashMap::new(),
            has_turn: false,
            program: None,
            partial: None,
            shows_hooks: false,
        }
    }

    /// Adds further lines.
    #[must_use]
    pub fn with_options(self, options: StreamJsonOptions) -> Self {
        let StreamJsonOptions { partial_messages, hook_events: shows_hooks } = options;
        Self { partial: partial_messages.then(PartialMessages::default), shows_hooks, ..self }
    }

    /// Creates a sink for a program that drives the session. `tools`: further tools, set later.
    pub fn for_program(out: Box<dyn Write + Send>, tools: Arc<OnceLock<Vec<String>>>) -> Self {
        Self { program: Some(ProgramAdapter::new(tools)), ..Self::new(out) }
    }

    /// The UUID of an event in its line: stable.
    pub fn event_id(event: &Event) -> String {
        let name = format!("{} {}", event.header.session, event.header.seq);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }

    fn model_for(&self, event: &Event) -> &str {
        self.models.get(&event.header.agent).unwrap_or(&self.model)
    }

    fn optional_lines(&mut self, event: &Event) -> Vec<Value> {
        if let (EventBody::HookFinished(finished), true) = (&event.body, self.shows_hooks) {
            return hook_lines(event, finished);
        }
        let model = self.model_for(event).to_owned();
        let Some(partial) = self.partial.as_mut().filter(|_| self.has_turn) else {
            return Vec::new();
        };
        let line = |part: Value| {
            json!({
                "type": "stream_event",
                "event": part,
                "parent_tool_use_id": parent_call(event),
                "session_id": event.header.session,
                "uuid": uuid::Uuid::now_v7().to_string(),
            })
        };
        partial.stream_events(event, &model).into_iter().map(line).collect()
    }

    fn event_line(&mut self, event: &Event) -> Option<Value> {
        let mut line = match &event.body {
            EventBody::SessionStarted(started) | EventBody::SessionResumed { now: started, .. } => {
                self.model.clone_from(&started.model);
                init_line(started)
            }
            EventBody::TurnStarted { .. } => {
                self.has_turn = true;
                return None;
            }
            // The task of a sub-agent is the first message that it receives.
            EventBody::AgentStarted { prompt, model, .. } => {
                self.models.insert(event.header.agent.clone(), model.clone());
                json!({
                    "type": "user",
                    "message": {"role": "user", "content": [{"type": "text", "text": prompt}]},
                    "parent_tool_use_id": event.header.agent,
                })
            }
            // An answer before the turn was cut off in an earlier stream.
            EventBody::ModelResponded(answer)
                if answer.purpose.is_conversation() && self.has_turn =>
            {
                let mut content = Vec::new();
                if !answer.reasoning.is_empty() {
                    let text = &answer.reasoning;
                    content.push(json!({"type": "thinking", "thinking": text, "signature": ""}));
                }
                if !answer.text.is_empty() {
                    content.push(json!({"type": "text", "text": answer.text}));
                }
                if !answer.discarded {
                    content.extend(answer.calls.iter().map(|call| {
                        // Arguments that do not parse are shown as text.
                        let input = serde_json::from_str(&call.arguments)
                            .unwrap_or_else(|_| Value::from(call.arguments.as_str()));
                        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
                    }));
                }
                let partial = self.partial.as_ref();
                let arrived = partial.and_then(|partial| partial.message_id(&event.header.agent));
                let id = arrived.map_or_else(|| format!("msg_{}", event.header.seq), str::to_owned);
                json!({
                    "type": "assistant",
                    "message": {
                        "id": id,
                        "type": "message",
                        "role": "assistant",
                        "model": self.model_for(event),
                        "content": content,
                        "stop_reason": stop_reason(&answer.stop),
                        "usage": usage_json(answer.usage.unwrap_or_default()),
                    },
                    "parent_tool_use_id": parent_call(event),
                })
            }
            // A synthetic result belongs to a call of an earlier stream. Scripts know only the
            // calls of the model.
            EventBody::ToolFinished {
                call, envelope, synthetic: false, parent_call: None, ..
            } => json!({
                "type": "user",
                "message": {
                    "role": "user",
                    "content": [{
                        "type": "tool_result",
                        "tool_use_id": call,
                        "content": render_for_model(envelope),
                        "is_error": envelope.error().is_some(),
                    }],
                },
                "parent_tool_use_id": parent_call(event),
            }),
            EventBody::Error { message, retry_in_ms: Some(delay), attempt, .. } => json!({
                "type": "system",
                "subtype": "api_retry",
                "attempt": attempt,
                "retry_delay_ms": delay,
                "error": message,
            }),
            EventBody::TurnFinished(finished) => return Some(self.builder.build(event, finished)),
            _ => return None,
        };
        line["session_id"] = event.header.session.as_str().into();
        line["uuid"] = StreamJson::event_id(event).into();
        Some(line)
    }
}

impl Sink for StreamJson {
    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }

    fn receive(&mut self, stamped: &StampedEvent) {
        let event = &stamped.event;
        self.builder.record(event);
        let before = self.program.as_mut().and_then(|program| program.line_before(event));
        let mut further = self.optional_lines(event);
        let mut line = self.event_line(event);
        if let Some(program) = &mut self.program {
            program.rename_partial_calls(&mut further);
            line = line.and_then(|line| program.adapt_line(event, line));
        }
        if let (Some(partial), EventBody::ModelResponded(_)) = (&mut self.partial, &event.body) {
            partial.finish_message(&event.header.agent);
        }
        for line in before.into_iter().chain(further).chain(line) {
            write_text(self.out.as_mut(), format!("{line}\n"));
        }
    }
}

fn hook_lines(event: &Event, finished: &HookFinished) -> Vec<Value> {
    let line = |subtype: &str| {
        json!({
            "type": "system",
            "subtype": subtype,
            "hook_id": StreamJson::event_id(event),
            "hook_name": finished.hook,
            "hook_event": finished.event.as_str(),
            "session_id": event.header.session,
            "uuid": uuid::Uuid::now_v7().to_string(),
        })
    };
    let mut response = line("hook_response");
    let is_failure = finished.outcome == HookStatus::Failed;
    response["output"] = finished.text.as_str().into();
    response["stdout"] = finished.message.as_deref().unwrap_or_default().into();
    response["stderr"] = if is_failure { finished.text.as_str() } else { "" }.into();
    response["exit_code"] = finished.exit_code.into();
    response["outcome"] = if is_failure { "error" } else { "success" }.into();
    vec![line("hook_started"), response]
}

/// The Task call that started the sub-agent.
fn parent_call(event: &Event) -> Option<&str> {
    (!event.header.is_main()).then_some(event.header.agent.as_str())
}

fn init_line(started: &SessionStarted) -> Value {
    json!({
        "type": "system",
        "subtype": "init",
        "cwd": started.cwd,
        "tools": started.tools,
        "mcp_servers": started.mcp_servers,
        "model": started.model,
        "permissionMode": started.permission_mode,
        "slash_commands": [],
        "sandbox": started.sandbox,
        "agent_version": started.program,
    })
}

#[derive(Default)]
struct ResultBuilder {
    denials: Vec<Value>,
    checks: Vec<Value>,
    calls: Vec<(String, Value)>,
    model_usage: ModelUsage,
}

/// Counts for the whole session.
#[derive(Default)]
struct ModelUsage {
    /// The keys are agents; a model comes with its context window in tokens.
    last_requests: HashMap<String, (String, Option<u64>)>,
    models: BTreeMap<String, (Usage, f64, u64)>,
}

impl ModelUsage {
    fn record(&mut self, event: &Event) {
        let agent = &event.header.agent;
        match &event.body {
            EventBody::ModelRequested(ModelRequested { model, window, .. }) => {
                self.last_requests.insert(agent.clone(), (model.clone(), *window));
            }
            EventBody::ModelResponded(answer) => {
                let Some((model, window)) = self.last_requests.get(agent) else { return };
                let (usage, cost_usd, context_window) =
                    self.models.entry(model.clone()).or_default();
                *usage += answer.usage_or_estimate();
                *cost_usd += answer.cost_usd.unwrap_or_default();
                *context_window = window.unwrap_or_default();
            }
            _ => {}
        }
    }

    fn to_json(&self) -> Value {
        let models = self.models.iter().map(|(model, (used, cost_usd, window))| {
            let (n_searches, used) = (used.searches, usage_json(*used));
            let counts = json!({
                "inputTokens": used["input_tokens"],
                "outputTokens": used["output_tokens"],
                "cacheReadInputTokens": used["cache_read_input_tokens"],
                "cacheCreationInputTokens": used["cache_creation_input_tokens"],
                "webSearchRequests": n_searches,
                "costUSD": cost_usd,
                "contextWindow": window,
            });
            (model.clone(), counts)
        });
        Value::Object(models.collect())
    }
}

impl ResultBuilder {
    fn record(&mut self, event: &Event) {
        self.model_usage.record(event);
        match &event.body {
            // A telemetry error is no part of the result.
            EventBody::Error { source, message, .. } if source == "telemetry" => {
                super::print_notice(message);
            }
            EventBody::TurnStarted { .. } => {
                *self =
                    Self { model_usage: std::mem::take(&mut self.model_usage), ..Self::default() };
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                self.calls.extend(answer.calls.iter().map(|call| {
                    let input = serde_json::from_str(&call.arguments).unwrap_or_default();
                    (call.id.clone(), input)
                }));
            }
            EventBody::PermissionDecided { call, tool, ruling, rule, .. } if ruling != "allow" => {
                let input = self.calls.iter().find(|(id, _)| id == call).map(|(_, input)| input);
                self.denials.push(json!({
                    "tool_name": tool,
                    "tool_use_id": call,
                    "tool_input": input,
                    "rule": rule,
                }));
            }
            EventBody::CheckFinished { command, exit_code, passed, .. } => {
                // Only the last run of each check counts.
                self.checks.retain(|check| check["command"] != command.as_str());
                self.checks
                    .push(json!({"command": command, "exit_code": exit_code, "passed": passed}));
            }
            _ => {}
        }
    }

    fn build(&self, event: &Event, finished: &TurnFinished) -> Value {
        let mut result = json!({
            "type": "result",
            "subtype": result_subtype(finished.ending),
            "is_error": !finished.ending.is_success(),
            "duration_ms": finished.time_ms,
            "duration_api_ms": finished.model_ms,
            "num_turns": finished.rounds,
            "result": finished.result,
            "errors": finished.errors,
            "stop_reason": match finished.ending {
                Ending::IncompleteAnswer => Some("max_tokens"),
                ending => ending.has_answer().then_some("end_turn"),
            },
            "session_id": event.header.session,
            "total_cost_usd": finished.cost_usd,
            "usage": usage_json(finished.usage),
            "modelUsage": self.model_usage.to_json(),
            "permission_denials": self.denials,
            "terminal_reason": finished.ending.as_str(),
            "calls": finished.calls,
            "files_changed": finished.files_changed,
            "open_todos": finished.open_todos,
            "checks": self.checks,
            "verified": finished.verified,
            "uuid": StreamJson::event_id(event),
        });
        if finished.ignored_files_changed > 0 {
            result["ignored_files_changed"] = finished.ignored_files_changed.into();
        }
        if let Some(value) = &finished.structured_output {
            result["structured_output"] = value.clone();
        }
        result
    }
}

/// The `result` object of a run that did not start.
pub fn failed_result(message: &str, code: u8) -> Value {
    json!({
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": true,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "session_id": "",
        "total_cost_usd": 0,
        "result": message,
        "errors": [message],
        "terminal_reason": if code == 75 { "session_in_use" } else { "interrupted" },
    })
}

fn result_subtype(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "success",
        Ending::MaxTurns => "error_max_turns",
        Ending::MaxBudget => "error_max_budget_usd",
        Ending::Timeout => "error_timeout",
        _ => "error_during_execution",
    }
}

fn stop_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Refused => "refusal",
        StopReason::Repetition => "repetition",
        StopReason::Interrupted => "interrupted",
        StopReason::Other(word) => word,
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens
            .saturating_sub(usage.cached_tokens)
            .saturating_sub(usage.cache_write_tokens),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    })
}
