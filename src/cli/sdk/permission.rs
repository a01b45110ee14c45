//! Permission for calls: requests to the program, and its answers.

use std::path::Path;

use serde_json::{Value, json};

use super::program_sink::parse_mode;
use crate::app;
use agent_permission::{ClaudeRule, RuleAction};
use agent_protocol::Object;
use agent_protocol::control::{
    ApprovalDecision, ChangedInput, Grant, PermissionMode, SessionControl,
};
use agent_protocol::event::{Event, EventBody};
use agent_protocol::hook::claude_names::{claude_tool_input, claude_tool_name};
use agent_protocol::hook::json::claude_mode_name;
use agent_protocol::terminal_escape::escape_literal;
use agent_protocol::tool::{Effect, operation_name};

pub(super) fn permission_request(event: &Event, root: &Path) -> Value {
    let EventBody::PermissionRequested { call, tool, input, effect, reason, grants, .. } =
        &event.body
    else {
        return Value::Null;
    };
    let tool = operation_name(tool, input);
    let mut request = json!({
        "subtype": "can_use_tool",
        "tool_name": claude_tool_name(tool),
        "input": claude_tool_input(tool, input, root),
        "permission_suggestions": grants.iter().flat_map(suggestions).collect::<Vec<_>>(),
        "decision_reason": escape_literal(reason),
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

fn suggestions(grant: &Grant) -> Vec<Value> {
    match grant {
        Grant::Rules(rules) => vec![json!({
            "type": "addRules",
            "rules": rules.iter().map(|rule| rule_as_json(rule)).collect::<Vec<_>>(),
            "behavior": "allow",
            "destination": "session",
        })],
        Grant::Mode(mode) => {
            let mode = claude_mode_name(*mode);
            vec![json!({"type": "setMode", "mode": mode, "destination": "session"})]
        }
    }
}

/// The answer that means this decision: what [`ShownCall::handle_answer`] reads.
pub(in crate::cli) fn decision_json(decision: &ApprovalDecision) -> Value {
    match decision {
        ApprovalDecision::AllowOnce => json!({"behavior": "allow"}),
        ApprovalDecision::AllowChanged(_) => {
            json!({"behavior": "deny", "message": "an attached chat changes no arguments"})
        }
        ApprovalDecision::AllowAlways(grant) => {
            json!({"behavior": "allow", "updatedPermissions": suggestions(grant)})
        }
        ApprovalDecision::Reject(None) => json!({"behavior": "deny"}),
        ApprovalDecision::Reject(Some(why)) => json!({"behavior": "deny", "message": why}),
        ApprovalDecision::RejectAndStop(why) => {
            json!({"behavior": "deny", "message": why, "interrupt": true})
        }
    }
}

/// `Bash(cargo test *)`: tool and content.
fn rule_as_json(rule: &str) -> Value {
    match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
        // A path from the root of the file system begins with `//` in Claude Code.
        Some((tool, content)) if content.starts_with('/') => {
            json!({"toolName": tool, "ruleContent": format!("/{content}")})
        }
        Some((tool, content)) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": rule}),
    }
}

pub(super) struct ShownCall {
    call: String,
    /// Each argument of the request: our name, its name, and the value, in which secrets are
    /// masked.
    input: Vec<(String, String, Value)>,
}

impl ShownCall {
    pub(super) fn from_event(event: &Event, root: &Path) -> Self {
        let EventBody::PermissionRequested { call, tool, input, .. } = &event.body else {
            return Self { call: String::new(), input: Vec::new() };
        };
        let tool = operation_name(tool, input);
        let shown = input.iter().flat_map(|(name, value)| {
            let alone = Object::from_iter([(name.clone(), value.clone())]);
            let shown = claude_tool_input(tool, &alone, root).into_iter();
            shown.map(|(sent_name, value)| (name.clone(), sent_name, value))
        });
        Self { call: call.clone(), input: shown.collect() }
    }

    fn changed_input(&self, mut updated: Object) -> Option<ChangedInput> {
        let mut changed = ChangedInput::default();
        for (name, sent_name, shown) in &self.input {
            match updated.get(sent_name) {
                Some(value) if value == shown => changed.unchanged.push(name.clone()),
                Some(value) if ChangedInput::is_masked(shown) => {
                    changed.edited.push((name.clone(), shown.clone(), value.clone()));
                }
                _ => continue,
            }
            updated.remove(sent_name);
        }
        let is_same = updated.is_empty() && changed.unchanged.len() == self.input.len();
        changed.others = updated;
        (!is_same).then_some(changed)
    }

    pub(super) fn handle_answer(&self, control: &SessionControl, answer: Result<Value, String>) {
        let call = &self.call;
        let reject = |why| control.answer_approval(call, ApprovalDecision::Reject(Some(why)));
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return reject(why),
        };
        let message = answer["message"].as_str().unwrap_or_default().to_owned();
        match answer["behavior"].as_str() {
            Some("allow") => {}
            Some("deny") if answer["interrupt"] == true => {
                return control.answer_approval(call, ApprovalDecision::RejectAndStop(message));
            }
            Some("deny") if answer["message"].is_null() => {
                return control.answer_approval(call, ApprovalDecision::Reject(None));
            }
            Some("deny") => return reject(message),
            _ => return reject("the program's answer is neither allow nor deny".to_owned()),
        }
        let (rules, mode) = parse_grants(&answer["updatedPermissions"], control);
        let changed =
            answer["updatedInput"].as_object().and_then(|input| self.changed_input(input.clone()));
        let approval = match changed {
            Some(changed) => {
                if !rules.is_empty() {
                    agent_ui::print_notice(
                        "a call that is allowed with other arguments grants no rules",
                    );
                }
                ApprovalDecision::AllowChanged(changed)
            }
            _ if !rules.is_empty() => ApprovalDecision::AllowAlways(Grant::Rules(rules)),
            _ => ApprovalDecision::AllowOnce,
        };
        if let (ApprovalDecision::AllowOnce, Some(mode)) = (&approval, mode) {
            return control.answer_approval(call, ApprovalDecision::AllowAlways(Grant::Mode(mode)));
        }
        control.answer_approval(call, approval);
        if let Some(mode) = mode {
            control.request_mode(mode);
        }
    }
}

/// A rule or mode that a session cannot grant is named once on standard error.
fn parse_grants(
    updates: &Value,
    control: &SessionControl,
) -> (Vec<String>, Option<PermissionMode>) {
    let report_ignored = |why: &str| {
        agent_ui::print_notice(&format!("a permission update is ignored: {why}"));
    };
    let (mut rules, mut mode) = (Vec::new(), None);
    for update in updates.as_array().into_iter().flatten() {
        match update["type"].as_str() {
            Some("addRules") if update["behavior"] == "allow" => {
                for given in update["rules"].as_array().into_iter().flatten() {
                    match translate_rule(given) {
                        Ok(texts) => rules.extend(texts),
                        Err(why) => report_ignored(&why),
                    }
                }
            }
            Some("setMode") => {
                let name = update["mode"].as_str().unwrap_or_default();
                match parse_mode(control, name) {
                    Ok(granted) => mode = Some(granted),
                    Err(why) => report_ignored(&why),
                }
            }
            other => {
                let kind = other.unwrap_or("(none)");
                agent_ui::print_notice(&format!(
                    "a permission update of type {kind} is ignored: only addRules with behavior allow, and setMode, are supported"
                ));
            }
        }
    }
    (rules, mode)
}

fn translate_rule(rule: &Value) -> Result<Vec<String>, String> {
    let tool = rule["toolName"].as_str().ok_or("a rule without toolName")?;
    let text = match rule["ruleContent"].as_str() {
        Some(content) => format!("{tool}({content})"),
        None => tool.to_owned(),
    };
    let mut texts = Vec::new();
    for rule in ClaudeRule::parse_all(&text)? {
        texts.extend(rule.to_native_rules(RuleAction::Allow)?);
    }
    for text in &texts {
        app::parse_permission_rules(text)?;
    }
    Ok(texts)
}
