//! Session rules: added by the answer "always", by a sentence that protects a path, or by
//! `/permissions add`.

use std::sync::Arc;

use super::{PathFacts, Policy, PolicyEntry, Rule, RuleAction, RuleOrigin, new_reason};
use agent_protocol::control::Reason;
use agent_protocol::event::{EventBody, SessionRule};

impl Policy {
    /// Applies an added or removed rule; other events have no effect.
    pub fn apply_event(&mut self, body: &EventBody, facts: &dyn PathFacts) {
        match body {
            EventBody::RuleAdded { rule } => self.add_session_rule(rule, facts),
            EventBody::RuleRemoved { rule } => {
                Arc::make_mut(&mut self.entries)
                    .retain(|entry| entry.origin != RuleOrigin::Session(rule.id));
                self.session_rules.retain(|known| known.id != rule.id);
            }
            _ => {}
        }
    }

    /// The rules that the user has added in this session, oldest first.
    pub fn session_rules(&self) -> &[SessionRule] {
        &self.session_rules
    }

    /// Whether the text is a rule that can be added: `deny Edit(src/)`.
    pub fn is_session_rule(text: &str) -> bool {
        parse_session_rule(text).is_some()
    }

    fn add_session_rule(&mut self, added: &SessionRule, facts: &dyn PathFacts) {
        // Redaction may have made the text of a rule unreadable.
        let Some((verb, rule)) = parse_session_rule(&added.rule) else { return };
        let rule = match verb {
            RuleAction::Deny | RuleAction::Ask => rule.with_link_targets(facts),
            RuleAction::Allow if added.is_written => rule,
            // An answer allows exactly the words that were shown.
            RuleAction::Allow => rule.without_further_words(),
        };
        let origin = RuleOrigin::Session(added.id);
        Arc::make_mut(&mut self.entries).push(PolicyEntry {
            verb,
            origin,
            rule,
            directories: added.directories.clone(),
        });
        self.session_rules.push(added.clone());
    }

    /// The text also says how to remove a rule that was added in this session.
    pub(super) fn source_of(&self, entry: &PolicyEntry) -> String {
        let RuleOrigin::Session(id) = entry.origin else {
            return format!("the rule {}", entry.describe());
        };
        let words = self.sentence_of_rule(id);
        let rule = match words {
            "" => format!("the rule {}", entry.rule.text()),
            words => format!("the user's words “{words}”"),
        };
        format!("{rule}, which only the user can lift: /permissions remove {id}")
    }

    fn sentence_of_rule(&self, id: u32) -> &str {
        let rule = self.session_rules.iter().find(|rule| rule.id == id);
        rule.map_or("", |rule| rule.words.as_str())
    }

    /// The reason is the user's sentence, if the rule was created from one.
    pub(super) fn reason_of(&self, entry: &PolicyEntry, otherwise: impl Into<String>) -> Reason {
        let words = match entry.origin {
            RuleOrigin::Session(id) => self.sentence_of_rule(id),
            _ => "",
        };
        if words.is_empty() {
            return new_reason(entry.describe(), otherwise);
        }
        let text = format!(
            "the user said: “{words}”; do the task without this, or say in the final answer what you need it for"
        );
        Reason { by_instruction: true, ..new_reason(entry.describe(), text) }
    }
}

fn parse_session_rule(text: &str) -> Option<(RuleAction, Rule)> {
    let (verb, rule) = text.split_once(' ')?;
    let verb = match verb {
        "deny" => RuleAction::Deny,
        "ask" => RuleAction::Ask,
        "allow" => RuleAction::Allow,
        _ => return None,
    };
    Some((verb, Rule::parse(rule).ok()?))
}
