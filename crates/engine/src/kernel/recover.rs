//! Carries out recovery decisions: calls made by the kernel, new plans, feedback to the model; and asks for a
//! reflection before the decision.

use schemars::JsonSchema;
use serde::Deserialize;

use super::consult::ConsultPrompt;
use super::decision::choose_decision;
use super::evaluate::RoundOutcome;
use super::recall::{is_same_call, list_lessons};
use super::turn::Turn;
use super::{Kernel, has_completed, shorten_evidence};
use crate::registry::{MissingPermission, ToolCallResult};
use agent_protocol::control::{ControlDecision, Ending, FailureSignal, ReplanScope, RetryStrategy};
use agent_protocol::event::EventBody;
use agent_protocol::message::ToolCall;
use agent_protocol::model::Purpose;
use agent_protocol::plan::{Plan, Todo, TodoStatus};
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::reflection::{
    Reflection, SuggestedAction, extract_proposals, find_widening_word,
};
use agent_protocol::shorten;
use agent_protocol::variant_names::variant_names;
use agent_protocol::view::{call_line, render_for_model};

const REFLECTION_TOKENS: u64 = 400;
const PLAN_TOKENS: u64 = 800;
/// Low, so that the answer follows from the evidence.
const REFLECTION_TEMPERATURE: f32 = 0.2;
/// About 120 tokens.
const PATCH_BYTES: usize = 480;

#[derive(Deserialize, JsonSchema)]
struct PlannerReply {
    todos: Vec<PlannedTodo>,
    #[serde(default)]
    methodology: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct PlannedTodo {
    content: String,
    #[serde(default)]
    status: Option<TodoStatus>,
}

impl Kernel {
    /// Returns an ending if no decision is left. Calls of the kernel are evaluated like any other.
    pub(super) async fn recover(&mut self, turn: &mut Turn) -> Result<(), Ending> {
        loop {
            if turn.state.wants_reflection() {
                self.check_limits(turn)?;
                self.reflect_on_failure(turn).await?;
            }
            // A message of the user is delivered before anything else.
            if self.parts.control.has_queued_messages() {
                return Ok(());
            }
            let decision = self.decide(turn)?;
            match decision {
                ControlDecision::Continue => return Ok(()),
                ControlDecision::Retry(RetryStrategy::Feedback) => {
                    self.report_loop(turn);
                    return Ok(());
                }
                ControlDecision::Retry(
                    RetryStrategy::Same | RetryStrategy::Adjusted | RetryStrategy::Alternative,
                ) => {
                    self.check_limits(turn)?;
                    match turn.state.remedy().cloned() {
                        Some(remedy) => self.apply_remedy(turn, remedy).await,
                        None => self.retry_failed_call(turn, decision).await,
                    }
                    if let Some(interrupt) = self.parts.control.interrupt_cause() {
                        return Err(interrupt.ending());
                    }
                }
                ControlDecision::Replan(replan) => {
                    self.check_limits(turn)?;
                    return self.replan(turn, replan).await;
                }
            }
        }
    }

    fn decide(&mut self, turn: &mut Turn) -> Result<ControlDecision, Ending> {
        let (decision, reason) = choose_decision(&turn.state);
        let Some(decision) = decision else {
            turn.errors.push(reason);
            return Err(turn.completion.failure_ending(&turn.state));
        };
        let before = turn.state.counters();
        turn.state.apply_decision(decision);
        let after = turn.state.counters();
        let evidence = turn.reflection_input.seq;
        let decided = EventBody::ControlDecided { decision, reason, before, after, evidence };
        self.parts.events.emit(decided);
        Ok(decision)
    }

    /// The calls of a loop succeed, so that no error tells the model about it.
    fn report_loop(&self, turn: &mut Turn) {
        const CIRCLE: Prompt = Prompt::named("feedback/circle.md");
        let Some(failure) = &turn.state.last_failure else { return };
        if failure.signal == FailureSignal::Loop && failure.code.is_none() {
            let text = self.parts.prompts.text(CIRCLE);
            turn.pending_messages.reminders.push(text.replace("{{what}}", &failure.message));
        }
    }

    async fn reflect_on_failure(&mut self, turn: &mut Turn) -> Result<(), Ending> {
        const REFLECT: Prompt = Prompt::named("recovery/reflect.md");
        turn.state.reflections += 1;
        self.record_lessons_for_reflection(turn);
        let question = ConsultPrompt {
            purpose: Purpose::Reflect,
            system: self.parts.prompts.text(REFLECT).trim_end().to_owned(),
            text: self.format_evidence(turn),
            max_output_tokens: REFLECTION_TOKENS,
            temperature: Some(REFLECTION_TEMPERATURE),
        };
        let configured = self.parts.light.clone();
        let answer = self.consult_for_json(&mut turn.spent, &configured, &question).await?;
        let mut refused = Vec::new();
        let reflection = answer
            .map(|reflection| Box::new(self.sanitize_reflection(turn, reflection, &mut refused)));
        self.parts.events.emit(EventBody::Reflected {
            evidence: turn.reflection_input.seq,
            reflection: reflection.clone(),
            refused,
        });
        let confident = reflection.as_deref().filter(|reflection| reflection.is_confident());
        if let Some(reflection) = confident.filter(|reflection| !reflection.patch_prompt.is_empty())
        {
            turn.pending_messages.patch = Some(reflection.patch_prompt.clone());
        }
        if let Some(failure) = &mut turn.state.last_failure {
            failure.reflection = reflection;
        }
        Ok(())
    }

    fn sanitize_reflection(
        &self,
        turn: &Turn,
        mut reflection: Reflection,
        refused: &mut Vec<String>,
    ) -> Reflection {
        reflection.patch_prompt = shorten(&reflection.patch_prompt, PATCH_BYTES);
        // Rules that would widen a permission are not used.
        let patch = reflection.patch_prompt.to_lowercase();
        if let Some(word) = extract_proposals(&patch).into_iter().find_map(find_widening_word) {
            refused.push(format!("patch: It mentions {word:?}; only the user widens permissions."));
            reflection.patch_prompt = String::new();
        }
        if let Some(action) = &reflection.suggested_action
            && let Err(why) = self.proposed_call(turn, action)
        {
            refused.push(format!("suggested action: {why}"));
            reflection.suggested_action = None;
        }
        reflection.fix_strategy.truncate(3);
        reflection.root_cause.confidence = reflection.root_cause.confidence.clamp(0.0, 1.0);
        reflection
    }

    fn proposed_call(&self, turn: &Turn, action: &SuggestedAction) -> Result<ToolCall, String> {
        let failed = turn.state.failed_call.as_ref().ok_or("no call has failed")?;
        let call = self.call_with_action(turn, &failed.call, action);
        let is_same = |other: &ToolCall| is_same_call(other, &call);
        if is_same(&failed.call) || is_same(&failed.parent) {
            return Err("it is the call that failed".to_owned());
        }
        if turn.kernel_calls.proposals.iter().any(is_same) {
            return Err("it was proposed before".to_owned());
        }
        self.parts.registry.check_call(&call).map_err(|failure| failure.message)?;
        Ok(call)
    }

    async fn retry_failed_call(&mut self, turn: &mut Turn, decision: ControlDecision) {
        let Some(failed) = turn.state.failed_call.clone() else { return };
        let action =
            turn.state.reflection().and_then(|reflection| reflection.suggested_action.clone());
        let call = match (decision, action) {
            (ControlDecision::Retry(RetryStrategy::Same), _) | (_, None) => {
                ToolCall { id: self.next_kernel_call_id(turn), ..failed.call.clone() }
            }
            (_, Some(action)) => match self.proposed_call(turn, &action) {
                Ok(call) => {
                    turn.kernel_calls.proposals.push(call.clone());
                    call
                }
                Err(_) => return,
            },
        };
        let result = self.run_kernel_call(turn, &call, &failed.parent.id).await;
        turn.reflection_input.evidence = shorten_evidence(&render_for_model(&result.envelope));
        self.evaluate(turn, &RoundOutcome::KernelCall { call: &call, result: &result });
        self.record_results(turn, &[call], &[result]);
    }

    /// Runs a call on behalf of one of the model's calls, to whose result the result is appended.
    pub(super) async fn run_kernel_call(
        &mut self,
        turn: &mut Turn,
        call: &ToolCall,
        parent: &str,
    ) -> ToolCallResult {
        turn.kernel_calls.n += 1;
        let room = self.results_byte_limit().saturating_sub(self.history.last_results_bytes());
        let mut result = self.parts.registry.run_kernel_call(call, parent, room).await;
        if result.missing == MissingPermission::Effect {
            // Nothing was run.
            result.effect = None;
        }
        // The task did not need it.
        result.missing = MissingPermission::None;
        let line = call_line(&call.name, &result.envelope.context.params_input);
        self.history.append_kernel_result(parent, &line, &result.envelope);
        result
    }

    pub(super) fn next_kernel_call_id(&self, turn: &Turn) -> String {
        format!("kernel_{}_{}_{}", self.turn, turn.round, turn.kernel_calls.n + 1)
    }

    /// The model is informed in any case.
    async fn replan(&mut self, turn: &mut Turn, replan: ReplanScope) -> Result<(), Ending> {
        const STEP: Prompt = Prompt::named("feedback/replan_step.md");
        const STEP_ALONE: Prompt = Prompt::named("feedback/replan_step_alone.md");
        const TASK: Prompt = Prompt::named("feedback/replan_task.md");
        const TASK_ALONE: Prompt = Prompt::named("feedback/replan_task_alone.md");
        const PLAN_STEP: Prompt = Prompt::named("recovery/plan_step.md");
        const PLAN_TASK: Prompt = Prompt::named("recovery/plan_task.md");

        let prompts = self.parts.prompts.clone();
        let failure =
            turn.state.last_failure.as_ref().map_or_else(String::new, |f| f.signature.clone());
        let times = turn.state.retry_count().n + 1;
        let (system, replanned, alone) = match replan {
            ReplanScope::Step => (PLAN_STEP, STEP, STEP_ALONE),
            ReplanScope::Task => (PLAN_TASK, TASK, TASK_ALONE),
        };
        let question = ConsultPrompt {
            purpose: Purpose::Plan,
            system: prompts
                .text(system)
                .trim_end()
                .replace("{{methodologies}}", &self.list_methodologies()),
            text: self.format_evidence(turn) + &self.describe_plan(turn),
            max_output_tokens: PLAN_TOKENS,
            temperature: None,
        };
        let configured = self.parts.main.clone();
        let planned: Option<PlannerReply> =
            self.consult_for_json(&mut turn.spent, &configured, &question).await?;
        let (todos, methodology) = planned.map_or_else(Default::default, |planned| {
            let named = planned.methodology;
            let methodology =
                Prompt::methodologies().find(|(name, _)| Some(*name) == named.as_deref());
            (planned.todos, methodology.filter(|_| replan == ReplanScope::Task))
        });
        let was_planned = todos.iter().any(|todo| !todo.content.trim().is_empty());
        let mut plan = match replan {
            ReplanScope::Step => self.rewrite_step(todos),
            ReplanScope::Task => self.new_plan(todos),
        };
        if let Some((name, _)) = methodology {
            plan.methodology = Some(name.to_owned());
        }
        let files = turn.completion.list_changed_files();
        // Without an answer of the planner the model has to rewrite the plan itself.
        let reminder = prompts.text(if was_planned { replanned } else { alone });
        let values = [("times", &*times.to_string()), ("files", &files), ("failure", &failure)];
        turn.pending_messages.reminders.push(fill(reminder.trim_end(), &values));
        let prompt = methodology.map(|(_, prompt)| prompts.text(prompt).trim_end().to_owned());
        turn.pending_messages.reminders.extend(prompt);
        if plan != self.plan {
            self.plan = plan;
            let body = EventBody::PlanUpdated { plan: self.plan.clone(), reason: failure };
            self.parts.events.emit(body);
        }
        turn.pending_messages.patch = None;
        Ok(())
    }

    /// Lists the methodologies with their first sentences.
    fn list_methodologies(&self) -> String {
        let line = |(name, prompt)| {
            let text = self.parts.prompts.text(prompt);
            format!("- {name}: {}", text.lines().next().unwrap_or_default())
        };
        Prompt::methodologies().map(line).collect::<Vec<_>>().join("\n")
    }

    fn rewrite_step(&self, todos: Vec<PlannedTodo>) -> Plan {
        let mut plan = self.plan.clone();
        let at = plan.current_todo().map_or(plan.todos.len(), |(at, _)| at - 1);
        let mut todos: Vec<Todo> = todos
            .into_iter()
            .take(3)
            .filter(|todo| !todo.content.trim().is_empty())
            .map(|todo| Todo { content: todo.content, status: TodoStatus::Pending })
            .collect();
        let Some(first) = todos.first_mut() else { return plan };
        first.status = TodoStatus::InProgress;
        let end = (at + 1).min(plan.todos.len());
        plan.todos.splice(at..end, todos);
        plan
    }

    /// Todos stated to be completed count only if the old plan had them completed.
    fn new_plan(&self, todos: Vec<PlannedTodo>) -> Plan {
        let mut plan = Plan { summary: self.plan.summary.clone(), ..Plan::default() };
        for PlannedTodo { content, status } in todos.into_iter().take(8) {
            let content = content.trim().to_owned();
            let done = status == Some(TodoStatus::Completed) && has_completed(&self.plan, &content);
            let status = if done { TodoStatus::Completed } else { TodoStatus::Pending };
            if !content.is_empty() {
                plan.todos.push(Todo { content, status });
            }
        }
        let next = plan.todos.iter_mut().find(|todo| todo.status == TodoStatus::Pending);
        if let Some(next) = next {
            next.status = TodoStatus::InProgress;
        }
        plan
    }

    fn format_evidence(&self, turn: &Turn) -> String {
        const EVIDENCE: Prompt = Prompt::named("recovery/evidence.md");
        let failed = turn.state.failed_call.as_ref();
        let decision = failed.map_or_else(
            || "a final answer".to_owned(),
            |failed| format!("{} {}", failed.call.name, shorten(&failed.call.arguments, 1500)),
        );
        let tools: Vec<&str> = self.offered_tools().iter().map(|spec| &*spec.name).collect();
        let step =
            self.plan.current_todo().map_or("the whole task", |(_, todo)| todo.content.as_str());
        let values = [
            ("goal", &*shorten(&turn.reflection_input.goal, 2000)),
            ("step", step),
            ("decision", &decision),
            ("evidence", &turn.reflection_input.evidence),
            ("attempts", &turn.reflection_input.attempts.join("\n")),
            ("tools", &tools.join(", ")),
            ("lessons", &list_lessons(&self.similar_lessons(turn))),
        ];
        fill(self.parts.prompts.text(EVIDENCE), &values)
    }

    fn describe_plan(&self, turn: &Turn) -> String {
        let mut text = String::from("Plan:\n");
        for todo in &self.plan.todos {
            let status = variant_names::<TodoStatus>()[todo.status as usize];
            text.push_str(&format!("- [{status}] {}\n", todo.content));
        }
        if self.plan.todos.is_empty() {
            text.push_str("none\n");
        }
        let files = turn.completion.list_changed_files();
        text.push_str(&format!("Files changed so far: {files}\n"));
        if let Some(reflection) = turn.state.reflection() {
            let cause = &reflection.root_cause.text;
            text.push_str(&format!("Cause, as a reflection sees it: {cause}\n"));
        }
        text
    }
}
