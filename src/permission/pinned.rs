//! Rules of pins.

use std::sync::Arc;

use super::{Entry, Origin, PathFacts, Policy, Rule, Verb, reason};
use crate::protocol::control::Reason;
use crate::protocol::event::{Body, Pin};

impl Policy {
    /// Adds the rules of a pin, or removes them.
    pub fn apply(&mut self, body: &Body, facts: &dyn PathFacts) {
        match body {
            Body::PinAdded { pin } => self.pin(pin, facts),
            Body::PinRemoved { id, .. } => {
                Arc::make_mut(&mut self.entries).retain(|entry| entry.origin != Origin::Pin(*id));
                self.pins.remove(id);
            }
            _ => {}
        }
    }

    fn pin(&mut self, pin: &Pin, facts: &dyn PathFacts) {
        let rules = pin.rules.iter().filter_map(|text| {
            let (verb, rule) = text.split_once(' ')?;
            let verb = match verb {
                "deny" => Verb::Deny,
                "ask" => Verb::Ask,
                _ => return None,
            };
            // Redaction may have made the text of a rule unreadable.
            let rule = Rule::parse(rule).ok()?.through_links(facts);
            Some(Entry { verb, origin: Origin::Pin(pin.id), rule })
        });
        let rules: Vec<Entry> = rules.collect();
        if !rules.is_empty() {
            Arc::make_mut(&mut self.entries).extend(rules);
            self.pins.insert(pin.id, pin.text.clone());
        }
    }

    /// The reason for a ruling by this rule: the text of the pin, if it has one.
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
