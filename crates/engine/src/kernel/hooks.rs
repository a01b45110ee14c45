//! Runs the hooks of a session and of its turns; the registry runs those about calls.

use super::{Kernel, Turn};
use agent_protocol::control::Ending;
use agent_protocol::event::{EventBody, TurnFinished};
use agent_protocol::hook::{HookEvent, HookOutcome, HookPayload};
use agent_protocol::prompt::{Prompt, fill};

/// Answers of one turn that hooks may send back.
const MAX_SENT_BACK: u32 = 8;

impl Kernel {
    /// Called before the first message in this process.
    pub(super) async fn ask_start_hooks_once(&mut self) {
        if self.parts.sub_agent.is_some() || self.has_asked_start_hooks {
            return;
        }
        self.ask_session_start_hooks(if self.has_begun() { "resume" } else { "startup" }).await;
        // After an interrupt the hooks run again.
        self.has_asked_start_hooks = self.parts.control.interrupt_cause().is_none();
    }

    pub(super) async fn ask_session_start_hooks(&mut self, source: &str) {
        let payload = HookPayload::SessionStart { source, model: self.model() };
        let outcome = self.parts.registry.ask_hooks(payload).await;
        self.add_hook_texts(&outcome.context);
    }

    /// Runs the `SessionEnd` hooks, if the session had a message. They cannot delay the end for long.
    pub async fn end_session(&self) {
        if !self.has_asked_start_hooks {
            return;
        }
        let is_attended = self.parts.control.can_ask_approval();
        let reason = if is_attended { "prompt_input_exit" } else { "other" };
        _ = self.parts.registry.ask_hooks_at_end(HookPayload::SessionEnd { reason }).await;
    }

    /// Returns texts for the model, or how the turn ends and why.
    pub(super) async fn ask_prompt_hooks(
        &self,
        message: &str,
    ) -> Result<Vec<String>, (Ending, String)> {
        let registry = &self.parts.registry;
        let is_users = self.parts.sub_agent.is_none();
        if !is_users || registry.hooks_for(HookEvent::UserPromptSubmit).is_none() {
            return Ok(Vec::new());
        }
        let outcome = registry.ask_hooks(HookPayload::UserPromptSubmit { prompt: message }).await;
        // A message that the hooks have not checked is not delivered.
        if let Some(interrupt) = self.parts.control.interrupt_cause() {
            let why = "interrupted before the hooks had checked the message".to_owned();
            return Err((interrupt.ending(), why));
        }
        let HookOutcome { block, stop, context, .. } = outcome;
        match block.or(stop) {
            Some(why) => {
                Err((Ending::PermissionDenied, format!("a hook blocked the message: {why}")))
            }
            None => Ok(context),
        }
    }

    /// `None`: the model continues with the reason of the hooks.
    pub(super) async fn ask_stop_hooks(
        &mut self,
        turn: &mut Turn,
        ending: Ending,
    ) -> Option<Ending> {
        const SENT_BACK: Prompt = Prompt::named("feedback/hook.md");
        if !ending.has_answer() {
            return Some(ending);
        }
        let is_active = turn.hook_rejections > 0;
        let answer = match turn.draft.text.as_str() {
            "" => turn.completion.candidate.as_str(),
            answer => answer,
        };
        let payload = match &self.parts.sub_agent {
            Some(agent) => HookPayload::SubagentStop { is_active, answer, role: &agent.role },
            None => HookPayload::Stop { is_active, answer },
        };
        let (event, registry) = (payload.event(), &self.parts.registry);
        if registry.hooks_for(event).is_none() {
            return Some(ending);
        }
        // Changes of the hooks to the files of the turn (a formatter) are undone with it.
        let may_write = !turn.completion.files_changed.is_empty();
        let cancel = self.parts.control.cancellation_token();
        let asking = registry.ask_hooks(payload);
        let (outcome, changed) = registry.run_user_programs("", may_write, &cancel, asking).await;
        turn.completion.add_changes(&changed.files, &changed.ignored);
        let HookOutcome { block, stop, .. } = outcome;
        let Some(why) = block.filter(|_| stop.is_none()) else { return Some(ending) };
        if turn.hook_rejections >= MAX_SENT_BACK {
            let text = format!(
                "{} hooks sent the answer back {MAX_SENT_BACK} times; the turn ends: {why}",
                event.as_str()
            );
            self.parts.events.emit(EventBody::error("hook", text));
            return Some(ending);
        }
        turn.hook_rejections += 1;
        if !turn.draft.text.is_empty() {
            turn.completion.candidate = std::mem::take(&mut turn.draft.text);
        }
        turn.errors.clear();
        turn.state.step_success = true;
        turn.feedback = Some(fill(self.parts.prompts.text(SENT_BACK), &[("why", why.as_str())]));
        None
    }

    pub(super) fn take_hook_stop(turn: &mut Turn) -> Option<Ending> {
        let why = turn.hook_stop_reason.take()?;
        turn.errors.push(format!("a hook ended the turn: {why}"));
        Some(Ending::PermissionDenied)
    }

    pub(super) async fn ask_failure_hooks(&self, finished: &TurnFinished) {
        let is_failed = !finished.ending.has_answer() && self.parts.sub_agent.is_none();
        if is_failed {
            let (error, details) = (finished.ending.as_str(), finished.errors.join("\n"));
            let payload = HookPayload::StopFailure { error, details: &details };
            _ = self.parts.registry.ask_hooks(payload).await;
        }
    }

    pub(super) fn add_hook_texts(&mut self, texts: &[String]) {
        for text in texts {
            self.add_feedback(text);
        }
    }
}
