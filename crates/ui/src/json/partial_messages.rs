//! `--include-partial-messages`: the parts of answers as they arrive, as the events of Anthropic's
//! streams.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{stop_reason, usage_json};
use agent_protocol::event::{Event, EventBody, ModelResponded};
use agent_protocol::model::Usage;

/// The keys are agents.
#[derive(Default)]
pub(super) struct PartialMessages(HashMap<String, PartialMessage>);

struct PartialMessage {
    id: String,
    n_blocks: usize,
    open_block: Option<BlockKind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

impl PartialMessages {
    pub(super) fn message_id(&self, agent: &str) -> Option<&str> {
        self.0.get(agent).map(|answer| answer.id.as_str())
    }

    pub(super) fn finish_message(&mut self, agent: &str) {
        self.0.remove(agent);
    }

    pub(super) fn stream_events(&mut self, event: &Event, model: &str) -> Vec<Value> {
        let agent = event.header.agent.as_str();
        let mut events = Vec::new();
        match &event.body {
            EventBody::ModelDelta { text, reasoning } => {
                let kind = if *reasoning { BlockKind::Thinking } else { BlockKind::Text };
                self.message_mut(agent, model, &mut events).push_text(kind, text, &mut events);
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                self.message_mut(agent, model, &mut events).finish(answer, &mut events);
            }
            // The received part is discarded: the answer begins again, or was interrupted.
            EventBody::Error { retry_in_ms: Some(_), .. } | EventBody::ModelRequested(_) => {
                if let Some(mut answer) = self.0.remove(agent) {
                    answer.close_block(&mut events);
                    events.push(json!({"type": "message_stop"}));
                }
            }
            _ => {}
        }
        events
    }

    fn message_mut(
        &mut self,
        agent: &str,
        model: &str,
        events: &mut Vec<Value>,
    ) -> &mut PartialMessage {
        self.0.entry(agent.to_owned()).or_insert_with(|| {
            let id = format!("msg_{}", uuid::Uuid::now_v7().simple());
            events.push(json!({
                "type": "message_start",
                "message": {
                    "id": id,
                    "type": "message",
                    "role": "assistant",
                    "model": model,
                    "content": [],
                    "stop_reason": null,
                    "stop_sequence": null,
                    "usage": usage_json(Usage::default()),
                },
            }));
            PartialMessage { id, n_blocks: 0, open_block: None }
        })
    }
}

impl PartialMessage {
    fn push_text(&mut self, kind: BlockKind, text: &str, events: &mut Vec<Value>) {
        if self.open_block != Some(kind) {
            self.close_block(events);
            let block = match kind {
                BlockKind::Text => json!({"type": "text", "text": ""}),
                BlockKind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
            };
            events.push(self.start_block(&block));
            self.open_block = Some(kind);
        }
        events.push(self.block_delta(&match kind {
            BlockKind::Text => json!({"type": "text_delta", "text": text}),
            BlockKind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
        }));
    }

    /// Calls arrive as a whole. (The text of sub-agents, too.)
    fn finish(&mut self, answer: &ModelResponded, events: &mut Vec<Value>) {
        if self.n_blocks == 0 {
            let whole = [(BlockKind::Thinking, &answer.reasoning), (BlockKind::Text, &answer.text)];
            for (kind, text) in whole.into_iter().filter(|(_, text)| !text.is_empty()) {
                self.push_text(kind, text, events);
            }
        }
        self.close_block(events);
        for call in answer.calls.iter().filter(|_| !answer.discarded) {
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            events.push(self.start_block(&block));
            let arguments = json!({"type": "input_json_delta", "partial_json": call.arguments});
            events.push(self.block_delta(&arguments));
            events.push(self.block_stop());
        }
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(&answer.stop), "stop_sequence": null},
            "usage": usage_json(answer.usage.unwrap_or_default()),
        }));
        events.push(json!({"type": "message_stop"}));
    }

    fn start_block(&mut self, block: &Value) -> Value {
        self.n_blocks += 1;
        json!({"type": "content_block_start", "index": self.n_blocks - 1, "content_block": block})
    }

    fn block_delta(&self, delta: &Value) -> Value {
        json!({"type": "content_block_delta", "index": self.n_blocks - 1, "delta": delta})
    }

    fn block_stop(&self) -> Value {
        json!({"type": "content_block_stop", "index": self.n_blocks - 1})
    }

    fn close_block(&mut self, events: &mut Vec<Value>) {
        if self.open_block.take().is_some() {
            events.push(self.block_stop());
        }
    }
}
