//! What a program that drives the session reads differently: the names of tools, arguments and modes, a start line for
//! each turn, and the cost of the whole session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::init;
use agent_protocol::event::{Body, CompactionCause, Event, McpAtStart, McpState, SessionStarted};
use agent_protocol::hook::json::foreign_mode;
use agent_protocol::hook::names::{foreign_input, foreign_tool};
use agent_protocol::spending::Spending;

/// The version of the protocol that is spoken, as programs check it.
const PROTOCOL: &str = "2.0.0";

pub(super) struct ForProgram {
    /// Tools that became known after the session was opened.
    tools: Arc<OnceLock<Vec<String>>>,
    /// The session, with its mode as it is now.
    started: Option<SessionStarted>,
    /// The states of MCP servers.
    servers: BTreeMap<String, String>,
    spending: Spending,
}

impl ForProgram {
    pub(super) fn new(tools: Arc<OnceLock<Vec<String>>>) -> Self {
        Self { tools, started: None, servers: BTreeMap::new(), spending: Spending::default() }
    }

    /// The line before that of the event: each turn begins with the state of the session.
    pub(super) fn before(&mut self, event: &Event) -> Option<Value> {
        match &event.body {
            Body::SessionStarted(started) | Body::SessionResumed { now: started, .. } => {
                self.started = Some(started.clone());
                for McpAtStart { name, status } in &started.mcp_servers {
                    self.servers.entry(name.clone()).or_insert_with(|| status.clone());
                }
            }
            Body::ModelResponded(answer) => self.spending.add(answer),
            Body::ModeChanged { mode, .. } => {
                if let Some(started) = &mut self.started {
                    started.permission_mode = *mode;
                }
            }
            Body::ModelRequested(request) if request.purpose.is_conversation() => {
                if let (Some(started), true) = (&mut self.started, event.header.is_main()) {
                    started.model.clone_from(&request.model);
                }
            }
            Body::McpServer { server, state, .. } => {
                let state = match state {
                    McpState::Connected | McpState::Changed => "connected",
                    McpState::Lost => "pending",
                    McpState::Failed => "failed",
                };
                self.servers.insert(server.clone(), state.to_owned());
            }
            Body::ContextCompacted(compacted) if event.header.is_main() => {
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
                    "uuid": super::uuid(event),
                }));
            }
            Body::TurnStarted { .. } => {
                return self.started.as_ref().map(|it| self.init(event, it));
            }
            _ => {}
        }
        None
    }

    fn init(&self, event: &Event, started: &SessionStarted) -> Value {
        let mut line = init(started);
        let further = self.tools.get().into_iter().flatten();
        let further = further.filter(|tool| !started.tools.contains(tool));
        let tools = started.tools.iter().chain(further).map(|tool| foreign_tool(tool));
        line["tools"] = tools.collect::<Vec<_>>().into();
        let servers = self.servers.iter();
        line["mcp_servers"] =
            servers.map(|(name, status)| json!({"name": name, "status": status})).collect();
        line["permissionMode"] = foreign_mode(started.permission_mode).into();
        line["claude_code_version"] = PROTOCOL.into();
        line["apiKeySource"] = "none".into();
        line["output_style"] = "default".into();
        line["agents"] = json!([]);
        line["skills"] = json!([]);
        line["plugins"] = json!([]);
        line["session_id"] = event.header.session.as_str().into();
        line["uuid"] = super::uuid(event).into();
        line
    }

    /// The line of an event as the program reads it.
    pub(super) fn adapted(&mut self, event: &Event, mut line: Value) -> Option<Value> {
        match &event.body {
            // It is repeated with each turn.
            Body::SessionStarted(_) | Body::SessionResumed { .. } => return None,
            Body::ModelResponded(_) => {
                let blocks = line["message"]["content"].as_array_mut();
                for call in blocks.into_iter().flatten().filter(|it| it["type"] == "tool_use") {
                    self.rename(call, "name", "input");
                }
            }
            Body::ToolFinished { envelope, .. } => {
                line["tool_use_result"] = Value::Object(envelope.data.clone());
            }
            Body::TurnFinished(_) => {
                line["total_cost_usd"] = self.spending.cost_usd.unwrap_or_default().into();
                for denial in line["permission_denials"].as_array_mut().into_iter().flatten() {
                    self.rename(denial, "tool_name", "tool_input");
                }
            }
            _ => {}
        }
        Some(line)
    }

    /// Gives the calls in parts of answers the other names. They consist of one part each.
    pub(super) fn rename_parts(&self, parts: &mut [Value]) {
        let mut tool = None;
        for part in parts {
            let block = part.pointer_mut("/event/content_block");
            if let Some(block) = block.filter(|block| block["type"] == "tool_use") {
                tool = block["name"].as_str().map(str::to_owned);
                self.rename(block, "name", "input");
            }
            let json = part.pointer_mut("/event/delta/partial_json");
            if let (Some(tool), Some(json)) = (&tool, json)
                && let Ok(input) = serde_json::from_str::<Value>(json.as_str().unwrap_or_default())
            {
                let mut call = json!({"name": tool, "input": input});
                self.rename(&mut call, "name", "input");
                *json = call["input"].to_string().into();
            }
        }
    }

    /// Gives a call the other names.
    fn rename(&self, call: &mut Value, name: &str, input: &str) {
        let tool = call[name].as_str().unwrap_or_default().to_owned();
        if let (Value::Object(arguments), Some(started)) = (&call[input], &self.started) {
            call[input] = foreign_input(&tool, arguments, Path::new(&started.cwd)).into();
        }
        call[name] = foreign_tool(&tool).into();
    }
}
