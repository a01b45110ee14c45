//! Adapts `stream-json` for a program that drives the session: the names of tools, arguments and
//! modes, a start line for each turn, and the cost of the whole session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{StreamJson, init_line};
use agent_protocol::event::{
    CompactionCause, Event, EventBody, McpServerState, McpServerStatus, SessionStarted,
};
use agent_protocol::hook::claude_names::{claude_tool_input, claude_tool_name};
use agent_protocol::hook::json::claude_mode_name;
use agent_protocol::spending::Spending;

/// Programs check this version.
const PROTOCOL_VERSION: &str = "2.0.0";

pub(super) struct ProgramAdapter {
    /// Tools that were added after the session was opened.
    tools: Arc<OnceLock<Vec<String>>>,
    /// The mode in it is the current one.
    started: Option<SessionStarted>,
    servers: BTreeMap<String, String>,
    spending: Spending,
}

impl ProgramAdapter {
    pub(super) fn new(tools: Arc<OnceLock<Vec<String>>>) -> Self {
        Self { tools, started: None, servers: BTreeMap::new(), spending: Spending::default() }
    }

    /// Each turn begins with the state of the session.
    pub(super) fn line_before(&mut self, event: &Event) -> Option<Value> {
        match &event.body {
            EventBody::SessionStarted(started) | EventBody::SessionResumed { now: started, .. } => {
                self.started = Some(started.clone());
                for McpServerStatus { name, status } in &started.mcp_servers {
                    self.servers.entry(name.clone()).or_insert_with(|| status.clone());
                }
            }
            EventBody::ModelResponded(answer) => self.spending.add_response(answer),
            EventBody::ModeChanged { mode, .. } => {
                if let Some(started) = &mut self.started {
                    started.permission_mode = *mode;
                }
            }
            EventBody::ModelRequested(request) if request.purpose.is_conversation() => {
                if let (Some(started), true) = (&mut self.started, event.header.is_main()) {
                    started.model.clone_from(&request.model);
                }
            }
            EventBody::McpServer { server, state, .. } => {
                let state = match state {
                    McpServerState::Connected | McpServerState::Changed => "connected",
                    McpServerState::Lost => "pending",
                    McpServerState::Failed => "failed",
                };
                self.servers.insert(server.clone(), state.to_owned());
            }
            EventBody::ContextCompacted(compacted) if event.header.is_main() => {
                let trigger = match compacted.cause {
                    CompactionCause::Manual => "manual",
                    CompactionCause::Threshold | CompactionCause::Overflow => "auto",
                };
                let metadata = json!({"trigger": trigger, "pre_tokens": compacted.tokens_before});
                return Some(json!({
                    "type": "system",
                    "subtype": "compact_boundary",
                    "compact_metadata": metadata,
                    "session_id": event.header.session,
                    "uuid": StreamJson::event_id(event),
                }));
            }
            EventBody::TurnStarted { .. } => {
                return self.started.as_ref().map(|started| self.turn_init_line(event, started));
            }
            _ => {}
        }
        None
    }

    fn turn_init_line(&self, event: &Event, started: &SessionStarted) -> Value {
        let mut line = init_line(started);
        let further = self.tools.get().into_iter().flatten();
        let further = further.filter(|tool| !started.tools.contains(tool));
        let tools = started.tools.iter().chain(further);
        line["tools"] = tools.map(|tool| claude_tool_name(tool)).collect();
        let servers = self.servers.iter();
        line["mcp_servers"] =
            servers.map(|(name, status)| json!({"name": name, "status": status})).collect();
        line["permissionMode"] = claude_mode_name(started.permission_mode).into();
        line["claude_code_version"] = PROTOCOL_VERSION.into();
        line["apiKeySource"] = "none".into();
        line["output_style"] = "default".into();
        line["agents"] = json!([]);
        line["skills"] = json!([]);
        line["plugins"] = json!([]);
        line["session_id"] = event.header.session.as_str().into();
        line["uuid"] = StreamJson::event_id(event).into();
        line
    }

    pub(super) fn adapt_line(&mut self, event: &Event, mut line: Value) -> Option<Value> {
        match &event.body {
            // The line is repeated with each turn.
            EventBody::SessionStarted(_) | EventBody::SessionResumed { .. } => return None,
            EventBody::ModelResponded(_) => {
                let blocks = line["message"]["content"].as_array_mut();
                let blocks = blocks.into_iter().flatten();
                for call in blocks.filter(|block| block["type"] == "tool_use") {
                    self.rename_call(call, "name", "input");
                }
            }
            EventBody::ToolFinished { envelope, .. } => {
                line["tool_use_result"] = Value::Object(envelope.data.clone());
            }
            EventBody::TurnFinished(_) => {
                line["total_cost_usd"] = self.spending.cost_usd.unwrap_or_default().into();
                for denial in line["permission_denials"].as_array_mut().into_iter().flatten() {
                    self.rename_call(denial, "tool_name", "tool_input");
                }
            }
            _ => {}
        }
        Some(line)
    }

    /// A partial call consists of one part.
    pub(super) fn rename_partial_calls(&self, parts: &mut [Value]) {
        let mut tool = None;
        for part in parts {
            let block = part.pointer_mut("/event/content_block");
            if let Some(block) = block.filter(|block| block["type"] == "tool_use") {
                tool = block["name"].as_str().map(str::to_owned);
                self.rename_call(block, "name", "input");
            }
            let json = part.pointer_mut("/event/delta/partial_json");
            if let (Some(tool), Some(json)) = (&tool, json)
                && let Ok(input) = serde_json::from_str::<Value>(json.as_str().unwrap_or_default())
            {
                let mut call = json!({"name": tool, "input": input});
                self.rename_call(&mut call, "name", "input");
                *json = call["input"].to_string().into();
            }
        }
    }

    fn rename_call(&self, call: &mut Value, name: &str, input: &str) {
        let tool = call[name].as_str().unwrap_or_default().to_owned();
        if let (Value::Object(arguments), Some(started)) = (&call[input], &self.started) {
            call[input] = claude_tool_input(&tool, arguments, Path::new(&started.cwd)).into();
        }
        call[name] = claude_tool_name(&tool).into();
    }
}
