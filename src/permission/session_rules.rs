//! Rules that the user adds during a session: by the answer "always", or by a sentence that protects a path.

use std::sync::Arc;

use super::{Entry, Origin, PathFacts, Policy, Rule, Verb, reason};
use crate::protocol::control::Reason;
use crate::protocol::event::{Body, SessionRule};

impl Policy {
    /// Takes one more event of the session: a rule is added or removed, or the mode changes.
    pub fn apply(&mut self, body: &Body, facts: &dyn PathFacts) {
        match body {
            Body::RuleAdded { rule } => self.add_session_rule(rule, facts),
            Body::RuleRemoved { rule } => {
                Arc::make_mut(&mut self.entries)
                    .retain(|entry| entry.origin != Origin::Session(rule.id));
                self.session_rules.retain(|known| known.id != rule.id);
            }
            _ => {}
        }
    }

    /// The rules that the user has added in this session, oldest first.
    pub fn session_rules(&self) -> &[SessionRule] {
        &self.session_rules
    }

    fn add_session_rule(&mut self, added: &SessionRule, facts: &dyn PathFacts) {
        // Redaction may have made the text of a rule unreadable.
        let Some((verb, rule)) = added.rule.split_once(' ') else { return };
        let Ok(rule) = Rule::parse(rule) else { return };
        let (verb, rule) = match verb {
            "deny" => (Verb::Deny, rule.through_links(facts)),
            // An answer allows no more words than were shown.
            "allow" => (Verb::Allow, rule.whole()),
            _ => return,
        };
        let origin = Origin::Session(added.id);
        Arc::make_mut(&mut self.entries).push(Entry { verb, origin, rule });
        self.session_rules.push(added.clone());
    }

    /// The reason for a decision by this rule: the user's sentence, if the rule was made from one.
    pub(super) fn reason_of(&self, entry: &Entry, otherwise: impl Into<String>) -> Reason {
        let Origin::Session(id) = entry.origin else { return reason(entry.shown(), otherwise) };
        let rule = self.session_rules.iter().find(|rule| rule.id == id);
        let words = rule.map_or("", |rule| rule.words.as_str());
        if words.is_empty() {
            return reason(entry.shown(), otherwise);
        }
        let text = format!(
            "the user said: “{words}”; do the task without this, or say in the final answer what you need it for"
        );
        Reason { by_instruction: true, ..reason(entry.shown(), text) }
    }
}
