//! Rules that are made of the user's own words, for as long as the words hold.

use std::sync::Arc;

use super::{Entry, Ground, Origin, Policy, Rule, Verb, reason};
use crate::protocol::control::Reason;
use crate::protocol::event::{Body, Pin};

impl Policy {
    /// A pin brings its rules and takes them with it.
    pub fn apply(&mut self, body: &Body, ground: &dyn Ground) {
        match body {
            Body::PinAdded { pin } => self.pin(pin, ground),
            Body::PinRemoved { id, .. } => {
                Arc::make_mut(&mut self.entries).retain(|entry| entry.origin != Origin::Pin(*id));
                self.pins.remove(id);
            }
            _ => {}
        }
    }

    fn pin(&mut self, pin: &Pin, ground: &dyn Ground) {
        let rules = pin.rules.iter().filter_map(|text| {
            let (verb, rule) = text.split_once(' ')?;
            let verb = match verb {
                "deny" => Verb::Deny,
                "ask" => Verb::Ask,
                _ => return None,
            };
            // What a mask has made unreadable in the record is a rule no more.
            let rule = Rule::parse(rule).ok()?.through_links(ground);
            Some(Entry { verb, origin: Origin::Pin(pin.id), rule })
        });
        let rules: Vec<Entry> = rules.collect();
        if !rules.is_empty() {
            Arc::make_mut(&mut self.entries).extend(rules);
            self.pins.insert(pin.id, pin.text.clone());
        }
    }

    /// Why this rule says what it says: in the user's words where they are its source.
    pub(super) fn reason_of(&self, entry: &Entry, otherwise: impl Into<String>) -> Reason {
        let Origin::Pin(id) = entry.origin else { return reason(entry.shown(), otherwise) };
        let words = self.pins.get(&id).map_or("", String::as_str);
        let text = match entry.verb {
            Verb::Ask => format!("the user wants to be asked before this: “{words}”"),
            Verb::Allow | Verb::Deny => format!(
                "the user said: “{words}”; do the task without this, or say in the final answer what \
                 you would need it for"
            ),
        };
        Reason { pin: Some(id), ..reason(entry.shown(), text) }
    }
}
