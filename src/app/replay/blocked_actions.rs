//! Hooks in a replay: none runs; actions that hooks blocked in the record are blocked again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::script::Script;
use crate::app::HookSet;
use crate::config::Matcher;
use agent_protocol::event::EventBody;
use agent_protocol::hook::{HookEvent, HookFinished, HookStatus};

/// The hooks only look something up.
const TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(super) struct BlockedActions {
    messages: Vec<String>,
    /// Call id and reason.
    calls: Vec<(String, String)>,
}

impl BlockedActions {
    pub(super) fn apply(&mut self, body: &EventBody) {
        match body {
            EventBody::TurnStarted { input, blocked: true, .. }
            | EventBody::TurnSteered { input, blocked: true, .. } => {
                self.messages.push(input.clone());
            }
            EventBody::HookFinished(HookFinished {
                call: Some(call),
                outcome: HookStatus::Denied,
                text,
                ..
            }) => self.calls.push((call.clone(), text.clone())),
            _ => {}
        }
    }
}

impl Script {
    pub(super) fn blocking_hooks(&self) -> Option<Arc<HookSet>> {
        let BlockedActions { messages, calls } = self.blocked.clone();
        if messages.is_empty() && calls.is_empty() {
            return None;
        }
        let hooks = HookSet::default();
        let add = |event, ask: Box<dyn Fn(Value) -> Option<String> + Send + Sync>| {
            let ask = move |question| {
                let answer = ask(question).map_or_else(
                    || json!({}),
                    |reason| json!({"decision": "block", "reason": reason}),
                );
                async { Ok(answer) }.boxed()
            };
            hooks.add(event, Matcher::All, TIMEOUT, ("the record".to_owned(), Box::new(ask)));
        };
        add(
            HookEvent::UserPromptSubmit,
            Box::new(move |question| {
                let is_it = messages.iter().any(|message| question["prompt"] == message.as_str());
                is_it.then(|| "blocked in the record".to_owned())
            }),
        );
        add(
            HookEvent::PreToolUse,
            Box::new(move |question| {
                let found = calls.iter().find(|(call, _)| question["tool_use_id"] == call.as_str());
                found.map(|(_, reason)| reason.clone())
            }),
        );
        Some(Arc::new(hooks))
    }
}
