//! Session rules: added by the answer "always", by a sentence that protects a path, or by `/permissions add`.

use std::sync::Arc;

use super::{Entry, Origin, PathFacts, Policy, Rule, Verb, reason};
use agent_protocol::control::Reason;
use agent_protocol::event::{Body, SessionRule};

impl Policy {
    /// Applies an event of the session: a rule is added or removed, or the mode changes.
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

    /// The text is a rule that can be added: `deny Edit(src/)`.
    pub fn is_session_rule(text: &str) -> bool {
        parse(text).is_some()
    }

    fn add_session_rule(&mut self, added: &SessionRule, facts: &dyn PathFacts) {
        // Redaction may have made the text of a rule unreadable.
        let Some((verb, rule)) = parse(&added.rule) else { return };
        let rule = match verb {
            Verb::Deny | Verb::Ask => rule.through_links(facts),
            Verb::Allow if added.is_written => rule,
            // An answer allows exactly the words that were shown.
            Verb::Allow => rule.whole(),
        };
        let origin = Origin::Session(added.id);
        Arc::make_mut(&mut self.entries).push(Entry {
            verb,
            origin,
            rule,
            directories: added.directories.clone(),
        });
        self.session_rules.push(added.clone());
    }

    /// The source of a rule, and how to remove it if it was added in this session.
    pub(super) fn source_of(&self, entry: &Entry) -> String {
        let Origin::Session(id) = entry.origin else {
            return format!("the rule {}", entry.shown());
        };
        let words = self.words_of(id);
        let rule = match words {
            "" => format!("the rule {}", entry.rule.text()),
            words => format!("the user's words “{words}”"),
        };
        format!("{rule}, which only the user can lift: /permissions remove {id}")
    }

    fn words_of(&self, id: u32) -> &str {
        let rule = self.session_rules.iter().find(|rule| rule.id == id);
        rule.map_or("", |rule| rule.words.as_str())
    }

    /// The reason for a decision by this rule: the user's sentence, if the rule was made from one.
    pub(super) fn reason_of(&self, entry: &Entry, otherwise: impl Into<String>) -> Reason {
        let Origin::Session(id) = entry.origin else { return reason(entry.shown(), otherwise) };
        let words = self.words_of(id);
        if words.is_empty() {
            return reason(entry.shown(), otherwise);
        }
        let text = format!(
            "the user said: “{words}”; do the task without this, or say in the final answer what you need it for"
        );
        Reason { by_instruction: true, ..reason(entry.shown(), text) }
    }
}

fn parse(text: &str) -> Option<(Verb, Rule)> {
    let (verb, rule) = text.split_once(' ')?;
    let verb = match verb {
        "deny" => Verb::Deny,
        "ask" => Verb::Ask,
        "allow" => Verb::Allow,
        _ => return None,
    };
    Some((verb, Rule::parse(rule).ok()?))
}
