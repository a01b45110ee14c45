//! The JSON format of requests to hooks and of their answers: that of Claude Code.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{HookCall, HookEvent, HookOutcome, HookPayload, HookRequest, HookRuling, claude_names};
use crate::Object;
use crate::control::PermissionMode;
use crate::event::MAIN_AGENT;

/// `notification_type` of a question about a permission.
pub(super) const PERMISSION_PROMPT: &str = "permission_prompt";
const NO_REASON: &str = "the hook gave no reason";

/// An answer of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    pub outcome: HookOutcome,
    pub message: Option<String>,
}

/// Encodes a request to hooks; `log` is the path of the session's record.
pub fn encode_request(request: &HookRequest<'_>, log: Option<&Path>) -> Value {
    let HookRequest { payload, mode, root, events, limit: _ } = request;
    let mut question = json!({
        "session_id": events.session_id(),
        "transcript_path": log.map(Path::to_string_lossy).unwrap_or_default(),
        "cwd": root.to_string_lossy(),
        "permission_mode": claude_mode_name(*mode),
        "hook_event_name": payload.event().as_str(),
    });
    if events.agent_id() != MAIN_AGENT {
        question["agent_id"] = events.agent_id().into();
    }
    let about = |question: &mut Value, call: &HookCall<'_>| {
        question["tool_name"] = claude_names::claude_tool_name(call.tool).into();
        question["tool_input"] =
            claude_names::claude_tool_input(call.tool, call.input, root).into();
        question["tool_use_id"] = call.id.into();
    };
    let ended = |question: &mut Value, is_active: bool, answer: &str| {
        question["stop_hook_active"] = is_active.into();
        question["last_assistant_message"] = answer.into();
    };
    match payload {
        HookPayload::SessionStart { source, model } => {
            question["source"] = (*source).into();
            question["model"] = (*model).into();
        }
        HookPayload::SessionEnd { reason } => question["reason"] = (*reason).into(),
        HookPayload::UserPromptSubmit { prompt } => question["prompt"] = (*prompt).into(),
        HookPayload::PreToolUse(call) => about(&mut question, call),
        HookPayload::PostToolUse { call, response } => {
            about(&mut question, call);
            question["tool_response"] = (*response).clone();
        }
        HookPayload::PostToolUseFailure { call, error, is_interrupt } => {
            about(&mut question, call);
            question["error"] = (*error).into();
            question["is_interrupt"] = (*is_interrupt).into();
        }
        HookPayload::Stop { is_active, answer } => ended(&mut question, *is_active, answer),
        HookPayload::StopFailure { error, details } => {
            question["error"] = (*error).into();
            question["error_details"] = (*details).into();
        }
        HookPayload::SubagentStop { is_active, answer, role } => {
            ended(&mut question, *is_active, answer);
            question["agent_type"] = (*role).into();
        }
        HookPayload::PreCompact { is_manual, focus } => {
            question["trigger"] = compaction_trigger(*is_manual).into();
            question["custom_instructions"] = (*focus).into();
        }
        HookPayload::Notification { message } => {
            question["message"] = (*message).into();
            question["notification_type"] = PERMISSION_PROMPT.into();
        }
    }
    question
}

/// The answer of a command that exited by itself; the error is why it counts as failed. Status 0: its output is the
/// answer. 2: it blocks, and its error output is the reason.
pub fn parse_command_answer(
    event: HookEvent,
    exit_code: i32,
    stdout: &str,
    stderr: &str,
) -> Result<HookAnswer, String> {
    let stdout = stdout.trim();
    match exit_code {
        0 if stdout.starts_with('{') => {
            let value: Value = serde_json::from_str(stdout)
                .map_err(|error| format!("its output is not valid JSON: {error}"))?;
            parse_answer(event, &value)
        }
        0 => {
            let is_context = matches!(event, HookEvent::SessionStart | HookEvent::UserPromptSubmit);
            let context = is_context && !stdout.is_empty();
            let context = context.then(|| stdout.to_owned()).into_iter().collect();
            Ok(HookAnswer {
                outcome: HookOutcome { context, ..HookOutcome::default() },
                message: None,
            })
        }
        2 => {
            let reason = Some(stderr.trim()).filter(|reason| !reason.is_empty());
            Ok(block_answer(event, reason.unwrap_or(NO_REASON).to_owned()))
        }
        code => {
            let words = if stderr.trim().is_empty() { stdout } else { stderr.trim() };
            Err(format!("it exited with {code}: {words}").trim_end_matches([' ', ':']).to_owned())
        }
    }
}

/// Where nothing can be blocked any more, the user sees the reason.
fn block_answer(event: HookEvent, reason: String) -> HookAnswer {
    let mut answer = HookAnswer::default();
    match event {
        HookEvent::PreToolUse => answer.outcome.ruling = Some((HookRuling::Deny, reason)),
        HookEvent::UserPromptSubmit
        | HookEvent::PostToolUse
        | HookEvent::PostToolUseFailure
        | HookEvent::Stop
        | HookEvent::SubagentStop => answer.outcome.block = Some(reason),
        _ => answer.message = Some(reason),
    }
    answer
}

/// The answer of a hook in JSON; the error is what is wrong with it.
pub fn parse_answer(event: HookEvent, value: &Value) -> Result<HookAnswer, String> {
    let written = AnswerJson::deserialize(value).map_err(|error| format!("its answer: {error}"))?;
    let AnswerJson { goes_on, stop_reason, system_message, decision, reason, specific } = written;
    let HookSpecificOutput {
        permission_decision,
        permission_decision_reason,
        updated_input,
        context,
    } = specific.unwrap_or_default();
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let mut answer = match decision {
        Some(Decision::Block) => {
            block_answer(event, reason.clone().unwrap_or_else(|| NO_REASON.to_owned()))
        }
        Some(Decision::Approve) if event == HookEvent::PreToolUse => {
            let ruling = Some((HookRuling::Allow, reason.clone().unwrap_or_default()));
            HookAnswer { outcome: HookOutcome { ruling, ..HookOutcome::default() }, message: None }
        }
        Some(Decision::Approve) | None => HookAnswer::default(),
    };
    let outcome = &mut answer.outcome;
    let ruling = match permission_decision {
        Some(PermissionDecision::Allow) => Some(HookRuling::Allow),
        Some(PermissionDecision::Ask) => Some(HookRuling::Ask),
        Some(PermissionDecision::Deny) => Some(HookRuling::Deny),
        Some(PermissionDecision::Defer) | None => None,
    };
    if let Some(ruling) = ruling {
        let reason = permission_decision_reason.or(reason).unwrap_or_default();
        outcome.merge(HookOutcome { ruling: Some((ruling, reason)), ..HookOutcome::default() });
    }
    outcome.updated_input = updated_input;
    outcome.context.extend(context.filter(|context| !context.trim().is_empty()));
    if goes_on == Some(false) {
        outcome.stop = Some(stop_reason.unwrap_or_else(|| NO_REASON.to_owned()));
    }
    answer.message = answer.message.or(system_message);
    Ok(answer)
}

/// Unknown fields are for other programs, and ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnswerJson {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<Decision>,
    reason: Option<String>,
    #[serde(rename = "hookSpecificOutput")]
    specific: Option<HookSpecificOutput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HookSpecificOutput {
    permission_decision: Option<PermissionDecision>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Object>,
    #[serde(rename = "additionalContext")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Block,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PermissionDecision {
    Allow,
    Ask,
    Deny,
    /// No opinion.
    Defer,
}

pub(super) fn compaction_trigger(is_manual: bool) -> &'static str {
    if is_manual { "manual" } else { "auto" }
}

/// The name of a mode in Claude Code.
pub fn claude_mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "plan",
        PermissionMode::ReadOnly => "dontAsk",
        PermissionMode::Ask => "default",
        PermissionMode::AutoEdit => "acceptEdits",
        PermissionMode::Full => "bypassPermissions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        event: HookEvent,
        code: i32,
        stdout: &str,
        stderr: &str,
        expected: Result<HookAnswer, &str>,
    ) {
        let found = parse_command_answer(event, code, stdout, stderr);
        let found = found.as_ref().map_err(String::as_str);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{stdout}{stderr}"),
            (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
            (found, expected) => panic!("{stdout}{stderr}: {found:?}, expected {expected:?}"),
        }
    }

    fn wants(outcome: HookOutcome) -> HookAnswer {
        HookAnswer { outcome, message: None }
    }

    fn rules(ruling: HookRuling, reason: &str) -> HookOutcome {
        HookOutcome { ruling: Some((ruling, reason.to_owned())), ..HookOutcome::default() }
    }

    #[test]
    fn exit_status_decides() {
        let event = HookEvent::PreToolUse;
        check(event, 0, "all is well\n", "", Ok(wants(HookOutcome::default())));
        check(event, 2, "", "not here\n", Ok(wants(rules(HookRuling::Deny, "not here"))));
        check(event, 2, "{}", "", Ok(wants(rules(HookRuling::Deny, "the hook gave no reason"))));
        check(event, 1, "", "oh\n", Err("it exited with 1: oh"));
        check(event, 127, "", "", Err("it exited with 127"));
        let context = vec!["branch: main".to_owned()];
        let context = HookOutcome { context, ..HookOutcome::default() };
        check(HookEvent::SessionStart, 0, "branch: main\n", "", Ok(wants(context)));
        let block = HookOutcome { block: Some("no".to_owned()), ..HookOutcome::default() };
        check(HookEvent::Stop, 2, "", "no", Ok(wants(block)));
        let answer = HookAnswer { message: Some("no".to_owned()), ..HookAnswer::default() };
        check(HookEvent::PreCompact, 2, "", "no", Ok(answer));
    }

    #[test]
    fn answer_in_json_decides() {
        let event = HookEvent::PreToolUse;
        let specific = |text: &str| format!("{{\"hookSpecificOutput\":{{{text}}}}}");
        let decision = "\"permissionDecision\":\"ask\",\"permissionDecisionReason\":\"r\"";
        check(event, 0, &specific(decision), "", Ok(wants(rules(HookRuling::Ask, "r"))));
        let approve = "{\"decision\":\"approve\",\"reason\":\"r\"}";
        check(event, 0, approve, "", Ok(wants(rules(HookRuling::Allow, "r"))));
        let block = "{\"decision\":\"block\",\"reason\":\"r\"}";
        check(event, 0, block, "", Ok(wants(rules(HookRuling::Deny, "r"))));
        let blocked = HookOutcome { block: Some("r".to_owned()), ..HookOutcome::default() };
        check(HookEvent::PostToolUse, 0, block, "", Ok(wants(blocked)));
        let stop = HookOutcome { stop: Some("s".to_owned()), ..HookOutcome::default() };
        check(event, 0, "{\"continue\":false,\"stopReason\":\"s\"}", "", Ok(wants(stop)));
        let answer = HookAnswer { message: Some("m".to_owned()), ..HookAnswer::default() };
        check(event, 0, "{\"systemMessage\":\"m\",\"suppressOutput\":true}", "", Ok(answer));
        check(event, 0, "{\"decision\":", "", Err("its output is not valid JSON"));
        check(event, 0, "{\"decision\":\"maybe\"}", "", Err("its answer: unknown variant `maybe`"));
        check(event, 0, "{\"continue\":\"no\"}", "", Err("its answer: invalid type"));
    }

    #[test]
    fn strictest_ruling_counts() {
        let mut outcome = rules(HookRuling::Allow, "a");
        outcome.merge(rules(HookRuling::Deny, "d"));
        outcome.merge(rules(HookRuling::Ask, "q"));
        assert_eq!(outcome, rules(HookRuling::Deny, "d"));
    }
}
