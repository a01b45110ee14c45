//! Pins: texts that the user keeps for the whole session (`/pin`).
//!
//! A new pin is a message in the conversation. It moves into L2 at the next compaction, so that the prefix of
//! requests does not change before.

use agent_protocol::event::{Event, EventBody, Pin};
use agent_protocol::prompt::{Prompt, Prompts};

const PIN_NOTE: Prompt = Prompt::named("pins/hold.md");
const UNPIN_NOTE: Prompt = Prompt::named("pins/withdrawn.md");

/// The pins of a session.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    current: Vec<Pin>,
    last_id: u32,
}

impl Pins {
    /// The event that adds a pin; `None` if the text is empty or pinned already.
    pub fn add(&self, text: &str) -> Option<EventBody> {
        let text = text.trim();
        let is_new = !text.is_empty() && self.current.iter().all(|pin| pin.text != text);
        let pin = Pin { id: self.last_id + 1, text: text.to_owned() };
        is_new.then_some(EventBody::PinAdded { pin })
    }

    /// The event that removes a pin; `None` if there is no pin of this number.
    pub fn remove(&self, id: u32) -> Option<EventBody> {
        let pin = self.current.iter().find(|pin| pin.id == id)?;
        Some(EventBody::PinRemoved { pin: pin.clone() })
    }

    /// Applies an event of the session.
    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::PinAdded { pin } => {
                self.last_id = self.last_id.max(pin.id);
                self.current.push(pin.clone());
            }
            EventBody::PinRemoved { pin } => self.current.retain(|other| other.id != pin.id),
            _ => {}
        }
    }

    /// The current pins, oldest first.
    pub fn current(&self) -> &[Pin] {
        &self.current
    }

    /// The pins as part of L2.
    pub fn layer(&self, prompts: &Prompts) -> String {
        if self.current.is_empty() {
            String::new()
        } else {
            fill_template(prompts, PIN_NOTE, &self.current)
        }
    }
}

pub(super) fn pin_message(prompts: &Prompts, pin: &Pin, is_added: bool) -> String {
    let template = if is_added { PIN_NOTE } else { UNPIN_NOTE };
    fill_template(prompts, template, std::slice::from_ref(pin))
}

fn fill_template(prompts: &Prompts, template: Prompt, pins: &[Pin]) -> String {
    let lines: Vec<String> =
        pins.iter().map(|pin| format!("- {}", pin.text.replace('\n', "\n  "))).collect();
    prompts.text(template).trim_end().replace("{{pins}}", &lines.join("\n"))
}
