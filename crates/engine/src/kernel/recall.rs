//! Uses lessons of earlier sessions: at the start of a task, after a failed call, and in the evidence of a
//! reflection.
//!
//! Without lessons no token and no event is added. The kernel applies a lesson's fix only if `choose_decision` decides
//! so and the registry permits it; otherwise the model receives the lesson.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Kernel;
use super::evaluate::{RoundOutcome, attach_remedy};
use super::turn::Turn;
use crate::context::memory_reminder;
use crate::registry::ToolCallResult;
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorClass, ErrorCode, SealedEnvelope};
use agent_protocol::event::EventBody;
use agent_protocol::message::ToolCall;
use agent_protocol::prompt::Prompt;
use agent_protocol::recall::{
    FailedCall, LessonSource, MemoryRecalled, RecallMoment, RecalledLesson, Remedy,
};
use agent_protocol::reflection::SuggestedAction;
use agent_protocol::tool::Effect;

/// The memory of earlier sessions.
#[derive(Clone)]
pub struct LessonMemory {
    pub recall: Arc<dyn LessonSource>,
    /// Limit of the lessons at the start of a task.
    pub max_tokens: u64,
}

#[derive(Debug, Default)]
pub(super) struct TurnLessons {
    /// Ids of lessons whose fix was applied and did not help.
    failed_remedies: BTreeSet<String>,
    /// Texts shown to the model after a failure: each once in a turn.
    shown_texts: BTreeSet<String>,
    last_failed_call: Option<LastFailedCall>,
}

#[derive(Debug)]
struct LastFailedCall {
    call: ToolCall,
    effect: Option<Effect>,
    envelope: SealedEnvelope,
}

/// A lesson about a call of this id.
pub(super) type CallLesson = (String, RecalledLesson);

impl Kernel {
    /// Lessons become part of L2 if nothing was sent yet, otherwise of the conversation. A lesson that was shown is not
    /// repeated.
    pub(super) fn recall_for_task(&mut self, input: &str) {
        let Some(memory) = &self.parts.memory else { return };
        let mut about = vec![input];
        about.extend(self.plan.open_todos().map(|todo| todo.content.as_str()));
        let (about, checks) = (about.join("\n"), &self.parts.checks.commands);
        let mut items = memory.recall.lessons_for_task(&about, checks, memory.max_tokens);
        items.retain(|item| !self.received_lessons.has_received(&item.id, &item.text));
        if items.is_empty() {
            return;
        }
        let text = memory_reminder(&self.parts.prompts, &items);
        let in_rules = !self.sent_requests.has_requests();
        let (moment, call, applied) = (RecallMoment::Task, None, false);
        let recalled = MemoryRecalled { moment, items, call, applied, text, in_rules };
        self.record(EventBody::MemoryRecalled(recalled));
    }

    /// A lesson that the kernel may apply becomes part of the evidence; the others are returned.
    pub(super) fn recall_after_round(
        &self,
        turn: &mut Turn,
        round: &RoundOutcome<'_>,
    ) -> Vec<CallLesson> {
        let Some(memory) = &self.parts.memory else { return Vec::new() };
        // The kernel makes its calls on behalf of the failed one.
        if matches!(round, RoundOutcome::KernelCall { .. }) {
            return Vec::new();
        }
        turn.lessons.last_failed_call = None;
        let RoundOutcome::Calls { calls, results } = round else { return Vec::new() };
        let mut lessons = Vec::new();
        for (call, result) in calls.iter().zip(*results) {
            let Some(error) = result.envelope.error() else { continue };
            if matches!(error.code, ErrorCode::Cancelled | ErrorCode::ApprovalRejected) {
                continue;
            }
            let (effect, envelope) = (result.effect.as_ref(), &*result.envelope);
            let failed = FailedCall { call, effect, envelope };
            turn.lessons.last_failed_call = Some(LastFailedCall {
                call: call.clone(),
                effect: result.effect.clone(),
                envelope: result.envelope.clone(),
            });
            let Some(remedy) = memory.recall.find_remedy(&failed) else { continue };
            let may_apply = self.may_apply_remedy(turn, call, result, &remedy);
            if !(may_apply && attach_remedy(&mut turn.state, call, result, &remedy)) {
                lessons.push((call.id.clone(), remedy.item));
            }
        }
        lessons
    }

    pub(super) fn show_lessons(&mut self, turn: &mut Turn, lessons: Vec<CallLesson>) {
        const OFFERED: Prompt = Prompt::named("memory/offered.md");
        for (call, lesson) in lessons {
            if turn.lessons.shown_texts.insert(lesson.text.clone()) {
                self.append_lesson(&call, lesson, OFFERED, false);
            }
        }
    }

    pub(super) fn similar_lessons(&self, turn: &Turn) -> Vec<RecalledLesson> {
        let (Some(memory), Some(failed)) = (&self.parts.memory, &turn.lessons.last_failed_call)
        else {
            return Vec::new();
        };
        let LastFailedCall { call, effect, envelope } = failed;
        memory.recall.similar_lessons(&FailedCall { call, effect: effect.as_ref(), envelope })
    }

    pub(super) fn record_lessons_for_reflection(&self, turn: &Turn) {
        let items = self.similar_lessons(turn);
        if !items.is_empty() {
            let text = list_lessons(&items);
            let (moment, call, applied, in_rules) = (RecallMoment::Reflection, None, false, false);
            let recalled = MemoryRecalled { moment, items, call, applied, text, in_rules };
            self.parts.events.emit(EventBody::MemoryRecalled(recalled));
        }
    }

    /// Calls what helped before on behalf of the call that failed.
    pub(super) async fn apply_remedy(&mut self, turn: &mut Turn, remedy: Remedy) {
        const APPLIED: Prompt = Prompt::named("memory/applied.md");
        let Some(failed) = turn.state.failed_call.clone() else { return };
        let Some(action) = &remedy.action else { return };
        self.append_lesson(&failed.parent.id, remedy.item.clone(), APPLIED, true);
        let call = self.call_with_action(turn, &failed.call, action);
        let result = self.run_kernel_call(turn, &call, &failed.parent.id).await;
        if result.envelope.error().is_some() {
            turn.lessons.failed_remedies.insert(remedy.item.id.clone());
        }
        self.evaluate(turn, &RoundOutcome::KernelCall { call: &call, result: &result });
        self.record_results(turn, &[call], &[result]);
    }

    /// The fix is a different call of the same tool, its effect is no stronger, and no rule or earlier attempt
    /// rules it out.
    fn may_apply_remedy(
        &self,
        turn: &Turn,
        call: &ToolCall,
        result: &ToolCallResult,
        remedy: &Remedy,
    ) -> bool {
        let (Some(action), Some(error)) = (&remedy.action, result.envelope.error()) else {
            return false;
        };
        let fix = self.call_with_action(turn, call, action);
        error.code.class(&call.name) != ErrorClass::Policy
            && error.code != ErrorCode::RepeatedCall
            && !result.violates_instruction
            && !turn.lessons.failed_remedies.contains(&remedy.item.id)
            && fix.name == call.name
            && !is_same_call(&fix, call)
            && self.has_no_stronger_effect(&fix, result.effect.as_ref())
    }

    fn has_no_stronger_effect(&self, fix: &ToolCall, before: Option<&Effect>) -> bool {
        let registry = &self.parts.registry;
        let Ok(effect) = registry.effect_of(fix) else { return false };
        match (&effect, before) {
            (Effect::Read { .. }, _) => true,
            (Effect::Write { path }, Some(Effect::Write { path: before })) => path == before,
            // What other programs do is unknown: `db.py --reset` may follow a failed `db.py --check`.
            (
                Effect::Command { background: false, reads_only: true, .. },
                Some(before @ Effect::Command { background: false, .. }),
            ) => registry.is_harmless(before) && registry.is_harmless(&effect),
            _ => false,
        }
    }

    pub(super) fn call_with_action(
        &self,
        turn: &Turn,
        failed: &ToolCall,
        action: &SuggestedAction,
    ) -> ToolCall {
        let (name, input) = match action {
            SuggestedAction::Adjust { input } => {
                let sent = serde_json::from_str(&failed.arguments);
                let mut arguments: Object = sent.unwrap_or_default();
                // Correct names replace wrong ones.
                let mut specs = self.parts.registry.specs().iter();
                let spec = specs.find(|spec| spec.name == failed.name);
                arguments.retain(|name, _| {
                    spec.is_some_and(|spec| spec.schema["properties"].get(name).is_some())
                });
                arguments.extend(input.clone());
                (failed.name.clone(), arguments)
            }
            SuggestedAction::Alternative { tool, input } => (tool.clone(), input.clone()),
        };
        let (id, arguments) = (self.next_kernel_call_id(turn), Value::Object(input).to_string());
        ToolCall { id, name, arguments }
    }

    fn append_lesson(&mut self, call: &str, item: RecalledLesson, words: Prompt, applied: bool) {
        let text = self.parts.prompts.text(words).trim_end().replace("{{text}}", &item.text);
        let (call, in_rules) = (Some(call.to_owned()), false);
        let (moment, items) = (RecallMoment::Failure, vec![item]);
        let recalled = MemoryRecalled { moment, items, call, applied, text, in_rules };
        self.record(EventBody::MemoryRecalled(recalled));
    }
}

/// A line for each lesson.
pub(super) fn list_lessons(lessons: &[RecalledLesson]) -> String {
    let lines: String = lessons.iter().map(|item| format!("\n- {}", item.text)).collect();
    if lines.is_empty() { "none".to_owned() } else { lines }
}

pub(super) fn is_same_call(one: &ToolCall, other: &ToolCall) -> bool {
    let read = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).ok();
    one.name == other.name && read(one) == read(other)
}
