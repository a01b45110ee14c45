//! Asks hooks before and after calls, and continues calls whose arguments a hook or the user changed.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::{self, SNAPSHOT_FIELDS};
use super::call::{CallInProgress, MissingPermission, Preparation};
use super::prepare::PreparedCall;
use super::{RegisteredTool, Registry};
use agent_protocol::Object;
use agent_protocol::control::{ChangedInput, Interrupt, Reason, Ruling};
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::event::ChangeAuthor;
use agent_protocol::hook::{
    HookCall, HookEvent, HookOutcome, HookPayload, HookRequest, HookRuling, Hooks,
};
use agent_protocol::message::ToolCall;
use agent_protocol::tool::{Effect, mcp_tool_name, operation_name};
use agent_protocol::view::large_field_text;

/// How long hooks may delay the end of a turn that the user interrupts, or of the program.
const END_TIME_LIMIT: Duration = Duration::from_secs(10);
/// The same when the program ends by a signal: everything is over within a second.
const SIGNAL_TIME_LIMIT: Duration = Duration::from_millis(600);

impl Registry {
    /// The hooks of the session, if there are any for this event.
    pub fn hooks_for(&self, event: HookEvent) -> Option<&dyn Hooks> {
        self.shared.hooks.as_deref().filter(|hooks| hooks.has_hook(event))
    }

    /// Asks hooks. The answer is empty if there are none, or after an interrupt.
    pub async fn ask_hooks(&self, payload: HookPayload<'_>) -> HookOutcome {
        let cancel = self.control.cancellation_token();
        cancel.run_until_cancelled(self.ask_hooks_within(payload, None)).await.unwrap_or_default()
    }

    /// Asks hooks although the turn or the session is over: they cannot delay its end for long.
    pub async fn ask_hooks_at_end(&self, payload: HookPayload<'_>) -> HookOutcome {
        let is_signalled = match self.control.interrupt_cause() {
            // In the chat an interrupt ends the turn only.
            Some(Interrupt::User) => !self.control.can_ask_approval(),
            cause => cause == Some(Interrupt::Terminate),
        };
        let limit = if is_signalled { SIGNAL_TIME_LIMIT } else { END_TIME_LIMIT };
        self.ask_hooks_within(payload, Some(limit)).await
    }

    async fn ask_hooks_within(
        &self,
        payload: HookPayload<'_>,
        limit: Option<Duration>,
    ) -> HookOutcome {
        let Some(hooks) = self.hooks_for(payload.event()) else { return HookOutcome::default() };
        let (mode, root, events) = (self.update_mode(), self.root(), &self.events);
        hooks.run_matching(HookRequest { payload, mode, root, events, limit }).await
    }

    /// Asks hooks before a call. Returns the call to be prepared again, if there are hooks: one may have replaced its
    /// arguments, which are validated and judged like the model's, or changed what they name.
    pub(super) async fn ask_pre_tool_hooks(
        &self,
        call: &ToolCall,
        prepared: &Preparation<'_>,
        record: &mut CallInProgress,
    ) -> Result<Option<ToolCall>, Failure> {
        let is_over = self.control.interrupt_cause().is_some() || record.cancel.is_cancelled();
        if is_over || self.hooks_for(HookEvent::PreToolUse).is_none() {
            return Ok(None);
        }
        let (input, effect) = match prepared {
            Ok(prepared) => (&prepared.input, Some(&prepared.target.effect)),
            Err(invalid) if invalid.is_validated => (&invalid.input, None),
            // An invalid call is not made, whatever hooks say.
            Err(_) => return Ok(None),
        };
        let seen = self.hook_view(call, effect, input);
        let asking = self.ask_hooks(HookPayload::PreToolUse(seen.to_hooked_call(call)));
        let outcome = record.cancel.run_until_cancelled(asking).await.unwrap_or_default();
        record.hook_texts = outcome.context;
        let refusal = match (outcome.stop, &outcome.ruling) {
            (Some(why), _) => {
                record.stop_reason = Some(why.clone());
                let text = format!("not run: a hook ended the turn: {why}");
                Some(Failure::new(ErrorCode::Cancelled, text))
            }
            (None, Some((HookRuling::Deny, why))) => {
                let is_command = matches!(effect, Some(Effect::Command { .. }));
                let code =
                    if is_command { ErrorCode::CommandBlocked } else { ErrorCode::AccessDenied };
                record.missing = MissingPermission::of(effect);
                let text = with_reason("a hook denied this call", why);
                let reason = plain_reason("hook", text.clone());
                self.record_ruling(call, "refuse", reason, record);
                let hint = "find another way, or say what you would need it for";
                Some(Failure::new(code, text).with_hint(hint))
            }
            (None, _) => None,
        };
        if let Some(failure) = refusal {
            (record.effect, record.input) = (effect.cloned(), input.clone());
            return Err(failure);
        }
        record.hook_ruling = outcome.ruling;
        // (Some hooks return the input as it is.)
        let Some(changed) = outcome.updated_input.filter(|changed| *changed != *seen.input) else {
            // The hooks may have changed what the path leads to.
            return Ok(Some(call.clone()));
        };
        record.changed_by = Some(ChangeAuthor::Hook);
        if !matches!(effect, Some(Effect::Mcp { .. })) || seen.tool == call.name {
            return Ok(Some(with_input(call, changed)));
        }
        let mut outer = input.clone();
        outer.insert(ARGUMENTS.to_owned(), changed.into());
        Ok(Some(with_input(call, outer)))
    }

    /// Asks hooks after a call that was made, and adds what they say to its result. They are also asked after an interrupt:
    /// the call may have changed something.
    pub(super) async fn ask_post_tool_hooks(
        &self,
        call: &ToolCall,
        record: &mut CallInProgress,
        outcome: &mut Result<Report, Failure>,
    ) {
        let event = match outcome {
            Ok(_) => HookEvent::PostToolUse,
            Err(_) => HookEvent::PostToolUseFailure,
        };
        if self.hooks_for(event).is_none() {
            return;
        }
        let mut input = record.input.clone();
        input.retain(|name, _| !SNAPSHOT_FIELDS.contains(&name.as_str()));
        let seen = self.hook_view(call, record.effect.as_ref(), &input);
        let (response, error);
        let payload = match outcome {
            Ok(report) => {
                response = self.hook_response(&call.name, &seen.input, report);
                HookPayload::PostToolUse { call: seen.to_hooked_call(call), response: &response }
            }
            Err(failure) => {
                error = match failure.text.as_str() {
                    "" => failure.message.clone(),
                    text => format!("{}\n{text}", failure.message),
                };
                let is_interrupt = failure.code == ErrorCode::Cancelled;
                let call = seen.to_hooked_call(call);
                HookPayload::PostToolUseFailure { call, error: &error, is_interrupt }
            }
        };
        // What a hook changes after a change (a formatter) is undone with it.
        let may_write = match &record.effect {
            Some(Effect::Command { reads_only, .. } | Effect::Mcp { reads_only, .. }) => {
                !reads_only
            }
            effect => matches!(effect, Some(Effect::Write { .. })),
        };
        let asking = async {
            let is_over = self.control.interrupt_cause().is_some() || record.cancel.is_cancelled();
            if is_over {
                self.ask_hooks_at_end(payload).await
            } else {
                self.ask_hooks(payload).await
            }
        };
        let (answer, changed) =
            self.run_user_programs(&call.id, may_write, &record.cancel, asking).await;
        record.changed_files.merge(changed);
        record.hook_texts.extend(answer.model_text());
        record.stop_reason = record.stop_reason.take().or(answer.stop);
    }

    /// A call as hooks see it. Whichever way a tool of an MCP server is called, it has one name, and matchers may also use
    /// the name that is not shortened. A matcher for Edit also fits `MultiEdit`: Claude Code has no `MultiEdit`, and a
    /// hook for Edit is meant for every edit.
    fn hook_view<'a>(
        &'a self,
        call: &'a ToolCall,
        effect: Option<&Effect>,
        input: &'a Object,
    ) -> HookView<'a> {
        let name = operation_name(&call.name, input);
        let direct_call =
            |alias| HookView { tool: name.into(), alias, input: Cow::Borrowed(input) };
        let Some(Effect::Mcp { server, tool, .. }) = effect else {
            return direct_call(if name == "MultiEdit" { "Edit" } else { name }.into());
        };
        let alias = mcp_tool_name(server, tool);
        if self.find_tool(name).is_ok_and(|entry| entry.tool.spec().is_foreign) {
            return direct_call(alias.into());
        }
        let inner = input.get(ARGUMENTS).and_then(Value::as_object).cloned();
        let calls_same_tool = |entry: &&RegisteredTool| {
            let target = entry.tool.target(&Object::new(), &self.cx);
            matches!(
                target.map(|target| target.effect),
                Ok(Effect::Mcp { server: of, tool: named, .. }) if of == *server && named == *tool
            )
        };
        let mut foreign = self.entries.iter().filter(|entry| entry.tool.spec().is_foreign);
        let direct = foreign.find(calls_same_tool).map(|entry| &*entry.tool.spec().name);
        HookView {
            tool: direct.map_or_else(|| alias.clone().into(), Cow::Borrowed),
            alias: alias.into(),
            input: Cow::Owned(inner.unwrap_or_default()),
        }
    }

    /// The result of a call: the fields that hooks written for Claude Code expect, and our data.
    fn hook_response(&self, tool: &str, input: &Object, report: &Report) -> Value {
        let data = &report.data;
        let path = input.get("path").and_then(Value::as_str);
        let path = path.map(|path| self.root().join(path).to_string_lossy().into_owned());
        let mut response = match (tool, data.get("content").and_then(Value::as_str)) {
            // Without `stdout` in the data a file tool has answered, or the command runs in the background.
            ("Bash", lines) => {
                let fields = data.iter().filter_map(|(name, value)| large_field_text(name, value));
                let stdout = lines.map_or_else(|| fields.collect(), without_line_numbers);
                json!({"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false})
            }
            ("Read", Some(lines)) => json!({"success": true, "type": "text", "file": {
                "filePath": path, "content": without_line_numbers(lines), "numLines": lines.lines().count(),
                "startLine": data.get("start_line"), "totalLines": data.get("total_lines"),
            }}),
            _ => json!({"success": true, "content": report.text}),
        };
        if let Some(path) = path {
            response["filePath"] = path.into();
        }
        for (name, value) in data {
            response[name] = value.clone();
        }
        response
    }

    /// The user allows a call with other arguments. They are validated like the model's, and the policy decides again: it
    /// may refuse them. The user's change is also the answer to what the policy asks.
    pub(super) async fn apply_changed_input<'a>(
        &'a self,
        call: &ToolCall,
        prepared: &mut PreparedCall<'a>,
        input: ChangedInput,
        record: &mut CallInProgress,
    ) -> Result<(), Failure> {
        let input = input.into_arguments(&prepared.input).map_err(|name| {
            let why = format!(
                "{name} was changed, but still contains the mark of a masked secret; the call was not made; leave the masked text unchanged, or replace all of it"
            );
            Failure::new(ErrorCode::InvalidParam, why)
        })?;
        record.changed_by = Some(ChangeAuthor::User);
        *prepared = record.add_preparation(self.prepare(&with_input(call, input)))?;
        self.load_expected_snapshot(prepared).await;
        let effect = &prepared.target.effect;
        self.update_checkpoint_coverage(effect).await;
        self.update_mode();
        if let Ruling::Refuse(code, reason) = self.ruling(&call.name, effect) {
            return Err(self.refuse_call(call, effect, code, reason, record));
        }
        Ok(())
    }
}

/// The parameter of the tool that calls any tool of MCP servers.
const ARGUMENTS: &str = "arguments";

struct HookView<'a> {
    tool: Cow<'a, str>,
    alias: Cow<'a, str>,
    input: Cow<'a, Object>,
}

impl HookView<'_> {
    fn to_hooked_call<'a>(&'a self, call: &'a ToolCall) -> HookCall<'a> {
        HookCall { id: &call.id, tool: &self.tool, alias: &self.alias, input: &self.input }
    }
}

/// Lines as Read shows them, each after `NUMBER | `, as they are in the file.
fn without_line_numbers(lines: &str) -> String {
    let text = |line: &str| line.split_once(" | ").map_or("", |(_, text)| text).to_owned() + "\n";
    lines.lines().map(text).collect()
}

fn with_input(call: &ToolCall, input: Object) -> ToolCall {
    ToolCall { arguments: Value::Object(input).to_string(), ..call.clone() }
}

pub(super) fn plain_reason(by: &str, text: String) -> Reason {
    let (rule, hint) = (by.to_owned(), None);
    Reason { rule, text, hint, by_instruction: false, requires_user: false }
}

pub(super) fn with_reason(text: &str, why: &str) -> String {
    if why.is_empty() { text.to_owned() } else { format!("{text}: {why}") }
}

/// What the model should know about arguments that are not its own.
pub(super) fn describe_changed_arguments(by: ChangeAuthor, input: &Object) -> String {
    const SHOWN: usize = 400;
    let by = match by {
        ChangeAuthor::Hook => "A hook",
        ChangeAuthor::User => "The user",
    };
    let mut input = input.clone();
    input.retain(|name, _| !arguments::SNAPSHOT_FIELDS.contains(&name.as_str()));
    let shown = agent_protocol::shorten(&Value::Object(input).to_string(), SHOWN);
    format!("{by} changed the arguments of this call to {shown}.")
}
