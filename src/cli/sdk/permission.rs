//! Questions about calls: asks the program, and understands its answer.

use std::path::Path;

use serde_json::{Value, json};

use super::face::{SharedKnown, locked};
use crate::app;
use agent_permission::{ForeignRule, Verb};
use agent_protocol::Object;
use agent_protocol::control::{Approval, ChangedInput, Control, Grant, PermissionMode};
use agent_protocol::event::{Body, Event};
use agent_protocol::hook::json::foreign_mode;
use agent_protocol::hook::names::{foreign_input, foreign_tool};
use agent_protocol::tool::Effect;
use agent_protocol::visible::literal;

/// The request that asks about a call in the project at `root`.
pub(super) fn request(event: &Event, root: &Path) -> Value {
    let Body::PermissionRequested { call, tool, input, effect, reason, grants, .. } = &event.body
    else {
        return Value::Null;
    };
    let mut request = json!({
        "subtype": "can_use_tool",
        "tool_name": foreign_tool(tool),
        "input": foreign_input(tool, input, root),
        "permission_suggestions": grants.iter().flat_map(suggestions).collect::<Vec<_>>(),
        "decision_reason": literal(reason),
        "tool_use_id": call,
    });
    if let Effect::Write { path } = effect {
        request["blocked_path"] = path.as_str().into();
    }
    if !event.header.is_main() {
        request["agent_id"] = event.header.agent.as_str().into();
    }
    request
}

/// What an answer can grant for the session.
fn suggestions(grant: &Grant) -> Vec<Value> {
    match grant {
        Grant::Rules(rules) => vec![json!({
            "type": "addRules",
            "rules": rules.iter().map(|rule| rule_as_json(rule)).collect::<Vec<_>>(),
            "behavior": "allow",
            "destination": "session",
        })],
        Grant::Mode(mode) => {
            vec![json!({"type": "setMode", "mode": foreign_mode(*mode), "destination": "session"})]
        }
    }
}

/// `Bash(cargo test *)`: the tool and the content.
fn rule_as_json(rule: &str) -> Value {
    match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
        // (A path from the root of the file system begins with `//` in Claude Code.)
        Some((tool, content)) if content.starts_with('/') => {
            json!({"toolName": tool, "ruleContent": format!("/{content}")})
        }
        Some((tool, content)) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": rule}),
    }
}

/// A call that the program was asked about.
pub(super) struct Shown {
    call: String,
    /// Each argument that it was shown: our name, its name, and the value, in which secrets are masked.
    input: Vec<(String, String, Value)>,
}

impl Shown {
    pub(super) fn of(event: &Event, root: &Path) -> Self {
        let Body::PermissionRequested { call, tool, input, .. } = &event.body else {
            return Self { call: String::new(), input: Vec::new() };
        };
        let shown = input.iter().flat_map(|(name, value)| {
            let alone = Object::from_iter([(name.clone(), value.clone())]);
            let shown = foreign_input(tool, &alone, root).into_iter();
            shown.map(|(its_name, value)| (name.clone(), its_name, value))
        });
        Self { call: call.clone(), input: shown.collect() }
    }

    /// What the program changed; `None`: nothing.
    fn changed(&self, mut updated: Object) -> Option<ChangedInput> {
        let mut changed = ChangedInput::default();
        for (name, its_name, shown) in &self.input {
            match updated.get(its_name) {
                Some(value) if value == shown => changed.kept.push(name.clone()),
                Some(value) if ChangedInput::is_masked(shown) => {
                    changed.edited.push((name.clone(), shown.clone(), value.clone()));
                }
                _ => continue,
            }
            updated.remove(its_name);
        }
        let is_same = updated.is_empty() && changed.kept.len() == self.input.len();
        changed.others = updated;
        (!is_same).then_some(changed)
    }

    /// Passes the program's answer on.
    pub(super) fn answered(
        &self,
        control: &Control,
        known: &SharedKnown,
        answer: Result<Value, String>,
    ) {
        let call = &self.call;
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return control.answer(call, Approval::No(Some(why))),
        };
        let message = answer["message"].as_str().unwrap_or_default().to_owned();
        match answer["behavior"].as_str() {
            Some("allow") => {}
            Some("deny") if answer["interrupt"] == true => {
                return control.answer(call, Approval::Stop(message));
            }
            Some("deny") => return control.answer(call, Approval::No(Some(message))),
            _ => {
                let why = "the program's answer is neither allow nor deny";
                return control.answer(call, Approval::No(Some(why.to_owned())));
            }
        }
        let (rules, mode) = granted(&answer["updatedPermissions"], known);
        let changed =
            answer["updatedInput"].as_object().and_then(|input| self.changed(input.clone()));
        let approval = match changed {
            Some(changed) => {
                if !rules.is_empty() {
                    agent_ui::tell("a call that is allowed with other arguments grants no rules");
                }
                Approval::Changed(changed)
            }
            _ if !rules.is_empty() => Approval::Always(Grant::Rules(rules)),
            _ => Approval::Once,
        };
        if let (Approval::Once, Some(mode)) = (&approval, mode) {
            return control.answer(call, Approval::Always(Grant::Mode(mode)));
        }
        control.answer(call, approval);
        if let Some(mode) = mode {
            control.want_mode(mode);
        }
    }
}

/// The rules and the mode that the program grants. What a session cannot grant is named once on standard error.
fn granted(updates: &Value, known: &SharedKnown) -> (Vec<String>, Option<PermissionMode>) {
    let (mut rules, mut mode) = (Vec::new(), None);
    for update in updates.as_array().into_iter().flatten() {
        match update["type"].as_str() {
            Some("addRules") if update["behavior"] == "allow" => {
                for given in update["rules"].as_array().into_iter().flatten() {
                    match rules_of(given) {
                        Ok(texts) => rules.extend(texts),
                        Err(why) => {
                            agent_ui::tell(&format!("a permission update is ignored: {why}"))
                        }
                    }
                }
            }
            Some("setMode") => {
                let name = update["mode"].as_str().unwrap_or_default();
                match locked(known).mode(name) {
                    Ok(granted) => mode = Some(granted),
                    Err(why) => agent_ui::tell(&format!("a permission update is ignored: {why}")),
                }
            }
            other => {
                let kind = other.unwrap_or("(none)");
                agent_ui::tell(&format!(
                    "a permission update of type {kind} is ignored: only addRules with behavior allow, and setMode, are supported"
                ));
            }
        }
    }
    (rules, mode)
}

/// A rule in the syntax of Claude Code as rules of ours.
fn rules_of(rule: &Value) -> Result<Vec<String>, String> {
    let tool = rule["toolName"].as_str().ok_or("a rule without toolName")?;
    let text = match rule["ruleContent"].as_str() {
        Some(content) => format!("{tool}({content})"),
        None => tool.to_owned(),
    };
    let mut texts = Vec::new();
    for rule in ForeignRule::parse_all(&text)? {
        texts.extend(rule.texts(Verb::Allow)?);
    }
    for text in &texts {
        app::permission_rules(text)?;
    }
    Ok(texts)
}
