//! Hooks in a replay: none is run; what they forbade in the record is forbidden again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::script::Script;
use crate::app::HookSet;
use crate::config::Matcher;
use agent_protocol::event::Body;
use agent_protocol::hook::{HookEnd, HookEvent, HookFinished};

/// They only look something up.
const TIME: Duration = Duration::from_mins(1);

/// What hooks forbade, with the reasons.
#[derive(Clone, Debug, Default)]
pub(super) struct Forbidden {
    messages: Vec<String>,
    /// By the call's id.
    calls: Vec<(String, String)>,
}

impl Forbidden {
    /// Adds what an event says.
    pub(super) fn apply(&mut self, body: &Body) {
        match body {
            Body::TurnStarted { input, blocked: true, .. }
            | Body::TurnSteered { input, blocked: true, .. } => self.messages.push(input.clone()),
            Body::HookFinished(HookFinished {
                call: Some(call),
                outcome: HookEnd::Denied,
                text,
                ..
            }) => self.calls.push((call.clone(), text.clone())),
            _ => {}
        }
    }
}

impl Script {
    /// Hooks that forbid it; `None` if there is nothing.
    pub(super) fn hooks(&self) -> Option<Arc<HookSet>> {
        let Forbidden { messages, calls } = self.forbidden.clone();
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
            hooks.add(event, Matcher::All, TIME, ("the record".to_owned(), Box::new(ask)));
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
