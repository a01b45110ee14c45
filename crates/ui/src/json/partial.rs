//! `--include-partial-messages`: the parts of answers as they arrive, as the events of Anthropic's streams.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{stop_reason, usage};
use agent_protocol::event::{Body, Event, ModelResponded};
use agent_protocol::model::Usage;

/// The answers that are arriving, by agent.
#[derive(Default)]
pub(super) struct Partial(HashMap<String, Answer>);

/// An answer that is arriving.
struct Answer {
    id: String,
    model: String,
    /// The number of blocks so far.
    n_blocks: usize,
    open: Option<Kind>,
}

/// The kind of the block that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

impl Partial {
    /// The id of the message that is arriving from an agent.
    pub(super) fn id(&self, agent: &str) -> Option<&str> {
        self.0.get(agent).map(|answer| answer.id.as_str())
    }

    /// The whole message was written.
    pub(super) fn end(&mut self, agent: &str) {
        self.0.remove(agent);
    }

    /// The events of streams for an event. `model`: that of the agent.
    pub(super) fn events(&mut self, event: &Event, model: &str) -> Vec<Value> {
        let agent = event.header.agent.as_str();
        let mut events = Vec::new();
        match &event.body {
            Body::ModelDelta { text, reasoning } => {
                let kind = if *reasoning { Kind::Thinking } else { Kind::Text };
                self.answer(agent, model, &mut events).add(kind, text, &mut events);
            }
            Body::ModelResponded(answer) if answer.purpose.is_conversation() => {
                self.answer(agent, model, &mut events).end(answer, &mut events);
            }
            // What arrived is worth nothing: the answer begins again, or was interrupted.
            Body::Error { retry_in_ms: Some(_), .. } | Body::ModelRequested(_) => {
                if let Some(mut answer) = self.0.remove(agent) {
                    answer.close(&mut events);
                    events.push(json!({"type": "message_stop"}));
                }
            }
            _ => {}
        }
        events
    }

    fn answer(&mut self, agent: &str, model: &str, events: &mut Vec<Value>) -> &mut Answer {
        self.0.entry(agent.to_owned()).or_insert_with(|| {
            let id = format!("msg_{}", uuid::Uuid::now_v7().simple());
            let answer = Answer { id, model: model.to_owned(), n_blocks: 0, open: None };
            events.push(answer.start());
            answer
        })
    }
}

impl Answer {
    fn start(&self) -> Value {
        json!({
            "type": "message_start",
            "message": {
                "id": self.id,
                "type": "message",
                "role": "assistant",
                "model": self.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": usage(Usage::default()),
            },
        })
    }

    fn add(&mut self, kind: Kind, text: &str, events: &mut Vec<Value>) {
        if self.open != Some(kind) {
            self.close(events);
            let block = match kind {
                Kind::Text => json!({"type": "text", "text": ""}),
                Kind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
            };
            events.push(self.begin(&block));
            self.open = Some(kind);
        }
        events.push(self.delta(&match kind {
            Kind::Text => json!({"type": "text_delta", "text": text}),
            Kind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
        }));
    }

    /// The calls, which are known as a whole, and the end. (Of sub-agents the text is, too.)
    fn end(&mut self, answer: &ModelResponded, events: &mut Vec<Value>) {
        if self.n_blocks == 0 {
            let whole = [(Kind::Thinking, &answer.reasoning), (Kind::Text, &answer.text)];
            for (kind, text) in whole.into_iter().filter(|(_, text)| !text.is_empty()) {
                self.add(kind, text, events);
            }
        }
        self.close(events);
        let calls = answer.calls.iter().filter(|_| !answer.discarded);
        for call in calls {
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            events.push(self.begin(&block));
            let arguments = json!({"type": "input_json_delta", "partial_json": call.arguments});
            events.push(self.delta(&arguments));
            events.push(self.stop());
        }
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(&answer.stop), "stop_sequence": null},
            "usage": usage(answer.usage.unwrap_or_default()),
        }));
        events.push(json!({"type": "message_stop"}));
    }

    fn begin(&mut self, block: &Value) -> Value {
        self.n_blocks += 1;
        json!({"type": "content_block_start", "index": self.n_blocks - 1, "content_block": block})
    }

    fn delta(&self, delta: &Value) -> Value {
        json!({"type": "content_block_delta", "index": self.n_blocks - 1, "delta": delta})
    }

    fn stop(&self) -> Value {
        json!({"type": "content_block_stop", "index": self.n_blocks - 1})
    }

    fn close(&mut self, events: &mut Vec<Value>) {
        if self.open.take().is_some() {
            events.push(self.stop());
        }
    }
}
