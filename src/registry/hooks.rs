//! Calls and hooks: what hooks are asked before and after a call, and calls that go on with other arguments.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Registry;
use super::approval::Refused;
use super::arguments::{self, LOCK_FIELDS};
use super::call::{Known, Wanted};
use crate::protocol::Object;
use crate::protocol::control::{ChangedInput, Reason, Ruling};
use crate::protocol::envelope::{ErrorCode, Failure, Report};
use crate::protocol::hook::{Asked, HookEvent, HookRuling, HookedCall, Hooks, Occasion, Outcome};
use crate::protocol::message::ToolCall;
use crate::protocol::tool::{Effect, mcp_name};

/// Who changed the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangedBy {
    Hook,
    User,
}

impl Registry {
    /// The hooks of the session, if there are any for this event.
    pub fn hooks(&self, event: HookEvent) -> Option<&dyn Hooks> {
        self.session.hooks.as_deref().filter(|hooks| hooks.has(event))
    }

    /// Asks hooks; nothing is wanted if there are none, or after an interrupt.
    pub async fn ask_hooks(&self, occasion: Occasion<'_>) -> Outcome {
        let Some(hooks) = self.hooks(occasion.event()) else { return Outcome::default() };
        let asked = Asked { occasion, mode: self.mode(), root: self.root(), events: &self.events };
        let cancel = self.control.cancel();
        cancel.run_until_cancelled(hooks.ask(asked)).await.unwrap_or_default()
    }

    /// Asks hooks before a call. Returns the call as it goes on: the arguments that a hook replaced are validated and
    /// judged like the model's.
    pub(super) async fn before_call<'a>(
        &self,
        call: &'a ToolCall,
        known: &mut Known,
    ) -> Result<Cow<'a, ToolCall>, Failure> {
        let is_over = self.control.interrupted().is_some() || known.cancel.is_cancelled();
        if is_over || self.hooks(HookEvent::PreToolUse).is_none() {
            return Ok(Cow::Borrowed(call));
        }
        // An invalid call is not made, whatever hooks say.
        let Ok((entry, input, _)) = self.understood(call) else { return Ok(Cow::Borrowed(call)) };
        let effect = entry.tool.target(&input, &self.cx).ok().map(|target| target.effect);
        let (tool, shown) = as_hooks_see_it(call, effect.as_ref(), &input);
        let hooked = HookedCall { id: &call.id, tool: &tool, input: &shown };
        let asking = self.ask_hooks(Occasion::PreToolUse(hooked));
        let outcome = known.cancel.run_until_cancelled(asking).await.unwrap_or_default();
        let is_wrapped = tool != call.name;
        let Outcome { ruling, updated_input, block: _, context, stop } = outcome;
        known.hook_texts = context;
        if let Some(why) = stop {
            (known.effect, known.input) = (effect, input);
            known.stop = Some(why.clone());
            let text = format!("not run: a hook ended the turn: {why}");
            return Err(Failure::new(ErrorCode::Cancelled, text));
        }
        if let Some((HookRuling::Deny, why)) = &ruling {
            let is_command = matches!(effect, Some(Effect::Command { .. }));
            let code = if is_command { ErrorCode::CommandBlocked } else { ErrorCode::AccessDenied };
            known.denied = !matches!(effect, Some(Effect::Read { .. }));
            (known.effect, known.input) = (effect, input);
            let text = with_reason("a hook denied this call", why);
            self.decided(call, "refuse", by_hook(text.clone()), known.denied);
            let hint = "find another way, or say what you would need it for";
            return Err(Failure::new(code, text).hint(hint));
        }
        known.hook_ruling = ruling;
        Ok(match updated_input {
            Some(changed) => {
                known.changed_by = Some(ChangedBy::Hook);
                let changed = if is_wrapped {
                    let mut outer = input;
                    outer.insert(ARGUMENTS.to_owned(), changed.into());
                    outer
                } else {
                    changed
                };
                Cow::Owned(with_input(call, changed))
            }
            None => Cow::Borrowed(call),
        })
    }

    /// Asks hooks after a call that was made, and adds what they say to its result.
    pub(super) async fn after_call(
        &self,
        call: &ToolCall,
        known: &mut Known,
        outcome: &mut Result<Report, Failure>,
    ) {
        let event = match outcome {
            Ok(_) => HookEvent::PostToolUse,
            Err(_) => HookEvent::PostToolUseFailure,
        };
        let is_over = self.control.interrupted().is_some() || known.cancel.is_cancelled();
        if is_over || !known.has_run || self.hooks(event).is_none() {
            return;
        }
        let mut input = known.input.clone();
        input.retain(|name, _| !LOCK_FIELDS.contains(&name.as_str()));
        let (tool, shown) = as_hooks_see_it(call, known.effect.as_ref(), &input);
        let hooked = HookedCall { id: &call.id, tool: &tool, input: &shown };
        let answer = match outcome {
            Ok(report) => {
                let response = self.response(&call.name, &shown, report);
                self.ask_hooks(Occasion::PostToolUse { call: hooked, response: &response }).await
            }
            Err(failure) => {
                let error = match failure.text.as_str() {
                    "" => failure.message.clone(),
                    text => format!("{}\n{text}", failure.message),
                };
                let is_interrupt = failure.code == ErrorCode::Cancelled;
                let error = error.as_str();
                self.ask_hooks(Occasion::PostToolUseFailure { call: hooked, error, is_interrupt })
                    .await
            }
        };
        known.hook_texts.extend(answer.told());
        known.stop = known.stop.take().or(answer.stop);
    }

    /// The result of a call as hooks receive it.
    fn response(&self, tool: &str, input: &Object, report: &Report) -> Value {
        let mut response = match tool {
            "Bash" => json!({
                "stdout": report.text, "stderr": "", "interrupted": false, "isImage": false,
            }),
            _ => json!({"success": true, "content": report.text}),
        };
        if let Some(path) = input.get("path").and_then(Value::as_str) {
            response["filePath"] = self.root().join(path).to_string_lossy().into();
        }
        for (name, value) in &report.data {
            if response.get(name).is_none() {
                response[name] = value.clone();
            }
        }
        response
    }

    /// The user allows a call with other arguments. They are validated like the model's, and the policy decides anew: it
    /// may refuse them. What it asks about is answered by the change.
    pub(super) async fn change<'a>(
        &'a self,
        call: &ToolCall,
        wanted: &mut Wanted<'a>,
        input: ChangedInput,
        known: &mut Known,
    ) -> Result<(), Refused> {
        let ChangedInput { kept, others: mut arguments } = input;
        let own = &wanted.arguments;
        arguments.extend(
            kept.into_iter().filter_map(|name| Some((name.clone(), own.get(&name)?.clone()))),
        );
        let changed = with_input(call, arguments);
        known.changed_by = Some(ChangedBy::User);
        let prepared = self.prepare(&changed, known).await;
        *wanted = prepared.map_err(|why| Refused::new(why, false))?;
        self.check_coverage(&wanted.target.effect).await;
        match self.rule_on(call, &wanted.target.effect) {
            Ruling::Allow(_) | Ruling::Ask(_) => Ok(()),
            Ruling::Refuse(code, reason) => {
                Err(self.refuse(call, &wanted.target.effect, code, reason))
            }
        }
    }
}

/// The parameter of the tool that calls any tool of MCP servers.
const ARGUMENTS: &str = "arguments";

/// The tool and arguments of a call as hooks see them: whichever way a tool of an MCP server is called, it has one name.
fn as_hooks_see_it<'a>(
    call: &'a ToolCall,
    effect: Option<&Effect>,
    input: &'a Object,
) -> (Cow<'a, str>, Cow<'a, Object>) {
    match effect {
        Some(Effect::Mcp { server, tool, .. }) if !call.name.starts_with("mcp__") => {
            let inner = input.get(ARGUMENTS).and_then(Value::as_object).cloned();
            let name = mcp_name(server, tool);
            (Cow::Owned(name), Cow::Owned(inner.unwrap_or_default()))
        }
        _ => (Cow::Borrowed(&*call.name), Cow::Borrowed(input)),
    }
}

/// The call with other arguments.
fn with_input(call: &ToolCall, input: Object) -> ToolCall {
    ToolCall { arguments: Value::Object(input).to_string(), ..call.clone() }
}

/// A ruling of a hook.
pub(super) fn by_hook(text: String) -> Reason {
    Reason { rule: "hook".to_owned(), text, hint: None, by_instruction: false, only_person: false }
}

/// A sentence with the reason of a hook, if it gave one.
pub(super) fn with_reason(text: &str, why: &str) -> String {
    if why.is_empty() { text.to_owned() } else { format!("{text}: {why}") }
}

/// What the model should know about arguments that are not its own.
pub(super) fn changed_in_words(by: ChangedBy, input: &Object) -> String {
    const SHOWN: usize = 400;
    let by = match by {
        ChangedBy::Hook => "A hook",
        ChangedBy::User => "The user",
    };
    let mut input = input.clone();
    input.retain(|name, _| !arguments::LOCK_FIELDS.contains(&name.as_str()));
    let shown = crate::protocol::shorten(&Value::Object(input).to_string(), SHOWN);
    format!("{by} changed the arguments of this call to {shown}.")
}
