//! Rules that are made of the user's own words, for as long as the words hold.

use super::{Entry, Origin, Policy, Question, Rule, Verb, reason};
use crate::protocol::control::{Reason, Ruling};
use crate::protocol::event::{Body, Pin};

impl Policy {
    /// A pin brings its rules and takes them with it.
    pub fn apply(&mut self, body: &Body) {
        match body {
            Body::PinAdded { pin } => self.pin(pin),
            Body::PinRemoved { id, .. } => {
                self.entries.retain(|entry| entry.origin != Origin::Pin(*id));
                self.pins.remove(id);
            }
            _ => {}
        }
    }

    fn pin(&mut self, pin: &Pin) {
        let rules = pin.rules.iter().filter_map(|text| {
            let (verb, rule) = text.split_once(' ')?;
            let verb = match verb {
                "deny" => Verb::Deny,
                "ask" => Verb::Ask,
                _ => return None,
            };
            // What a mask has made unreadable in the record is a rule no more.
            let rule = Rule::parse(rule).ok()?;
            Some(Entry { verb, origin: Origin::Pin(pin.id), rule })
        });
        let before = self.entries.len();
        self.entries.extend(rules);
        if self.entries.len() > before {
            self.pins.insert(pin.id, pin.text.clone());
        }
    }

    /// A command that changes a file which a pin protects from the file tools.
    pub(super) fn change_denied(&self, question: &Question<'_>) -> Option<Ruling> {
        Some(self.refusal(question, self.protecting(question, Verb::Deny)?))
    }

    /// The same where the user wants to be asked.
    pub(super) fn change_asked(&self, question: &Question<'_>) -> Option<Ruling> {
        let entry = self.protecting(question, Verb::Ask)?;
        Some(Ruling::Ask(self.reason_of(entry, "")))
    }

    fn protecting(&self, question: &Question<'_>, verb: Verb) -> Option<&Entry> {
        self.find("Write", |entry| {
            matches!(entry.origin, Origin::Pin(_))
                && entry.verb == verb
                && question.changes.iter().any(|path| entry.rule.fits_path(path))
        })
    }

    /// Why this rule says what it says: in the user's words where they are its source.
    pub(super) fn reason_of(&self, entry: &Entry, otherwise: &str) -> Reason {
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
