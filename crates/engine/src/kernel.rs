//! The main loop: think → act → evaluate → (ask for a reflection) → decide → carry the decision out.
//!
//! The registry validates and runs calls, [`evaluate`](evaluate()) writes the evidence into the [`RecoveryState`],
//! `choose_decision` derives a control decision from it, and the kernel carries the decision out. Facts are emitted
//! as events where they happen; HTTP, terminals and files are unknown here.

mod answer_guard;
mod answer_schema;
mod background_request;
mod call_draft;
mod checks;
mod classify;
mod compaction;
mod completion;
mod consult;
mod decision;
mod directives;
mod ending;
mod evaluate;
mod hooks;
mod loop_detector;
mod message;
mod nested_rules;
mod recall;
mod recover;
mod request;
mod small_window;
mod spend;
mod state;
mod sub_agent;
mod think;
mod turn;
mod user_operations;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use answer_schema::AnswerSchema;
pub use background_request::{BackgroundRequestError, BackgroundRequester, SpendLimit};
pub use checks::Checks;
use evaluate::{RoundOutcome, evaluate};
pub use message::{Attachment, ExpandedMessage, MessageExpander};
pub use recall::LessonMemory;
use spend::ModelCost;
pub use spend::{ConfiguredModel, Price};
use state::RecoveryState;
pub use sub_agent::{CallIds, SessionModels, SubAgent};
use think::ModelView;
use turn::Turn;
use user_operations::ReplacedModel;
pub use verify::Verifier;

use crate::context::{
    ContextBudget, History, Layers, Mentions, NestedRules, Project, ReceivedLessons, SentRequests,
};
use crate::registry::{Registry, ToolCallResult};
use agent_protocol::control::{Ending, Interrupt, Recovery, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Event, EventBody, EventStream, TurnFinished, UserMessage, WorkPosition,
};
use agent_protocol::message::{Image, ToolCall};
use agent_protocol::model::{Reply, StopReason};
use agent_protocol::plan::{Plan, Todo, TodoStatus};
use agent_protocol::prompt::Prompts;
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::view::{call_line, render_for_model};
use agent_protocol::{shorten, truncate_middle};

/// An eighth of the window, for all results of one round; twice as much while less than half of it is used.
const RESULTS_WINDOW_DIVISOR: u64 = 8;
/// Size of one piece of evidence for a reflection.
const EVIDENCE_BYTES: usize = 4000;

/// Limits of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnLimits {
    /// Model calls in the main loop.
    pub max_turns: u32,
    /// US dollars; needs a [`Price`].
    pub max_budget_usd: Option<f64>,
}

/// The components of a kernel.
pub struct KernelParts {
    pub main: ConfiguredModel,
    /// Writes summaries.
    pub light: ConfiguredModel,
    /// Models for the rest of a turn, in this order, if the main model is not available.
    pub fallback: Vec<ConfiguredModel>,
    pub registry: Registry,
    /// `None`: messages name nothing of MCP servers.
    pub message_expander: Option<MessageExpander>,
    pub layers: Layers,
    pub project: Arc<dyn Project>,
    /// Size limit of each rules file.
    pub max_rules_bytes: usize,
    pub checks: Checks,
    /// Runs after the checks.
    pub verifier: Option<Box<Verifier>>,
    pub answer_schema: Option<AnswerSchema>,
    pub events: EventStream,
    pub control: SessionControl,
    pub limits: TurnLimits,
    pub budget: ContextBudget,
    /// The latest rounds that a compaction keeps unchanged.
    pub keep_rounds: usize,
    pub recovery: Recovery,
    pub memory: Option<LessonMemory>,
    pub prompts: Arc<Prompts>,
    /// Cost of background requests and sub-agents.
    pub spend_limit: SpendLimit,
    pub call_ids: CallIds,
    /// `None`: the main agent.
    pub sub_agent: Option<SubAgent>,
    pub session_models: SessionModels,
}

/// The loop and its state.
pub struct Kernel {
    parts: KernelParts,
    history: History,
    nested_rules: NestedRules,
    received_lessons: ReceivedLessons,
    plan: Plan,
    turn: u32,
    calls_made: BTreeMap<String, u32>,
    sent_requests: SentRequests,
    model_view: ModelView,
    budget: ContextBudget,
    replaced_model: Option<ReplacedModel>,
    /// Rounds after a compaction that freed little.
    last_compaction_insufficient: Option<usize>,
    has_asked_start_hooks: bool,
    /// The tools that a small window has room for; `None`: all.
    reduced_tools: Option<Vec<ToolSpec>>,
    /// A notice said that the server truncates requests.
    has_truncated_request: bool,
}

impl Kernel {
    /// A kernel at the start of a session.
    pub fn new(parts: KernelParts) -> Self {
        let (budget, history) = (parts.budget.clone(), History::new(parts.prompts.clone()));
        let model_view = ModelView::new(parts.registry.update_mode());
        parts.registry.set_takes_images(parts.main.takes_images);
        // A sub-agent begins its only turn under the number of the session's.
        let turn = parts.sub_agent.as_ref().map_or(0, |agent| agent.turn.saturating_sub(1));
        Self {
            parts,
            budget,
            history,
            replaced_model: None,
            nested_rules: NestedRules::default(),
            received_lessons: ReceivedLessons::default(),
            plan: Plan::default(),
            turn,
            calls_made: BTreeMap::new(),
            sent_requests: SentRequests::default(),
            model_view,
            last_compaction_insufficient: None,
            has_asked_start_hooks: false,
            reduced_tools: None,
            has_truncated_request: false,
        }
    }

    /// Applies an event of the recorded session that is resumed. [`Kernel::register_calls`] precedes it.
    pub fn apply(&mut self, event: &Event) {
        self.history.apply(event);
        self.budget.apply(event);
        self.sent_requests.apply(event);
        self.model_view.apply(event);
        self.apply_session_event(event);
        match &event.body {
            // Turn numbers are not reused after a rewind.
            EventBody::TurnStarted { .. } | EventBody::SessionRewound { .. } => {
                self.turn = event.header.place.turn;
            }
            EventBody::ContextOverflowed { .. } => self.set_window(self.budget.context_window()),
            EventBody::PlanUpdated { plan, .. } => self.plan.clone_from(plan),
            EventBody::ContextCompacted(compacted) => {
                self.update_l2();
                self.note_compaction_size(compacted);
            }
            _ => {}
        }
    }

    /// Works on the user's message until it is done or cannot continue. Always ends with `turn.finished`.
    pub async fn run(&mut self, input: &UserInput) -> TurnFinished {
        self.ask_start_hooks_once().await;
        let texts = match self.ask_prompt_hooks(input.text.as_str()).await {
            Ok(texts) => texts,
            Err((ending, why)) => return self.refuse_message(input, &why, ending),
        };
        let mut expanded = self.expand_message(input).await;
        if let Some(why) = &expanded.refusal {
            let interrupt = self.parts.control.interrupt_cause();
            let ending = interrupt.map_or(Ending::Failed, Interrupt::ending);
            return self.refuse_message(&expanded.input, why, ending);
        }
        let mut turn = self.begin_turn(&mut expanded);
        self.add_hook_texts(&texts);
        let ending = loop {
            self.update_spend_limit(&mut turn);
            if let Err(ending) = self.check_limits(&turn) {
                // The token limit of a sub-agent has no ending of its own.
                let agent = self.parts.sub_agent.as_ref();
                turn.errors.extend(agent.and_then(|agent| agent.token_limit_error(&turn.spent)));
                break ending;
            }
            turn.round += 1;
            self.set_place(turn.round);
            let reply = match self.think(&mut turn).await {
                Ok(reply) => reply,
                Err(ending) => break ending,
            };
            let accepted = if reply.calls.is_empty() || !is_complete_reply(&reply) {
                match self.handle_final_text(&mut turn, &reply).await {
                    Some(ending) => self.ask_stop_hooks(&mut turn, ending).await,
                    None => None,
                }
            } else {
                self.act(&mut turn, &reply).await;
                None
            };
            if let Some(interrupt) = self.parts.control.interrupt_cause() {
                break interrupt.ending();
            }
            if self.parts.control.has_queued_messages() && accepted.is_some() {
                // The user added a message: the turn continues.
                turn.draft.text.clear();
                turn.errors.clear();
                self.deliver_user_messages(&mut turn).await;
                continue;
            }
            if let Some(ending) = accepted.or_else(|| Self::take_hook_stop(&mut turn)) {
                break ending;
            }
            let ending = self.recover(&mut turn).await.err();
            if let Some(ending) = ending.or_else(|| Self::take_hook_stop(&mut turn)) {
                break ending;
            }
            for path in std::mem::take(&mut turn.touched_paths) {
                self.add_nested_rules(&path);
            }
            if let Some(feedback) = turn.feedback.take() {
                self.add_feedback(&feedback);
            }
            self.deliver_user_messages(&mut turn).await;
        };
        let finished = self.finish_turn(turn, ending);
        self.ask_failure_hooks(&finished).await;
        finished
    }

    fn begin_turn(&mut self, expanded: &mut ExpandedMessage) -> Turn {
        let shown = self.model_text(expanded);
        let message = &expanded.input;
        let input = message.text.as_str();
        self.turn += 1;
        if self.parts.registry.load_deferred_tools() {
            self.reduced_tools = None;
            self.parts.layers.set_tools(self.parts.registry.specs());
        }
        self.set_place(0);
        self.parts.registry.begin_turn(self.turn);
        let mut mentions = Mentions::default();
        let images = self.add_mentions(&mut mentions, message, &mut expanded.unread);
        self.history.add_user_message(shown.as_deref().unwrap_or(input), &images);
        let started = self.parts.events.emit(self.started_event(message, shown, images));
        self.nested_rules.apply(&started);
        self.apply_directives(message);
        self.recall_for_task(message.model_text());
        self.report_unread(&expanded.unread);
        self.reduce_tools();
        self.new_turn(message.model_text(), mentions)
    }

    fn new_turn(&self, goal: &str, mentions: Mentions) -> Turn {
        let started = self.parts.events.clock().now();
        Turn::new(started, RecoveryState::new(self.parts.recovery), goal.to_owned(), mentions)
    }

    fn update_spend_limit(&self, turn: &mut Turn) {
        if let Some(agent) = &self.parts.sub_agent {
            return agent.charge_payer(turn);
        }
        let KernelParts { spend_limit, limits, .. } = &self.parts;
        spend_limit.settle(&mut turn.spent, limits.max_budget_usd);
    }

    fn check_limits(&self, turn: &Turn) -> Result<(), Ending> {
        let KernelParts { control, limits, sub_agent, .. } = &self.parts;
        if let Some(interrupt) = control.interrupt_cause() {
            return Err(interrupt.ending());
        }
        if turn.round >= limits.max_turns {
            return Err(Ending::MaxTurns);
        }
        if sub_agent.as_ref().is_some_and(|agent| agent.has_used_up_budget(&turn.spent)) {
            return Err(Ending::MaxBudget);
        }
        match limits.max_budget_usd {
            Some(budget) if turn.spent.known_usd >= budget => Err(Ending::MaxBudget),
            _ => Ok(()),
        }
    }

    async fn act(&mut self, turn: &mut Turn, reply: &Reply) {
        let room = self.results_byte_limit();
        let calls = &self.parts.registry.correct_names(&reply.calls)[..];
        // Sub-agents may spend what this answer has left.
        self.update_spend_limit(turn);
        *self.parts.session_models.0.lock() =
            Some((self.parts.main.clone(), self.parts.light.clone()));
        let results = self.parts.registry.run_calls(calls, &reply.calls, room).await;
        self.model_view.calls_since_recap += calls.len();
        for call in calls {
            *self.calls_made.entry(call.name.clone()).or_default() += 1;
        }
        let envelopes: Vec<&Envelope> = results.iter().map(|result| &*result.envelope).collect();
        self.history.add_exchange(&reply.text, calls, &reply.opaque_items, &envelopes);
        turn.draft.text.clear();
        self.evaluate(turn, &RoundOutcome::Calls { calls, results: &results });
        if let (Some(failure), None) = (&turn.state.last_failure, &turn.state.failed_call) {
            turn.reflection_input.evidence.clone_from(&failure.message);
        }
        self.record_results(turn, calls, &results);
    }

    fn results_byte_limit(&self) -> usize {
        let window = self.budget.window();
        let is_half_used = self.budget.request_tokens(self.request_bytes(0)) >= window / 2;
        let share = if is_half_used { 1 } else { 2 };
        self.budget.bytes(share * window / RESULTS_WINDOW_DIVISOR)
    }

    fn record_results(&mut self, turn: &mut Turn, calls: &[ToolCall], results: &[ToolCallResult]) {
        for (call, result) in calls.iter().zip(results) {
            let envelope = &result.envelope;
            let input = &envelope.context.params_input;
            let outcome = match envelope.error() {
                Some(error) => format!("{} {}", error.code.as_str(), shorten(&error.message, 200)),
                None => envelope.status().to_owned(),
            };
            turn.reflection_input.add_attempt(&call_line(&call.name, input), &outcome);
            if turn.state.failed_call.as_ref().is_some_and(|failed| failed.call.id == call.id) {
                turn.reflection_input.evidence = shorten_evidence(&render_for_model(envelope));
            }
            turn.completion.record_result(result);
            turn.hook_stop_reason =
                turn.hook_stop_reason.take().or_else(|| result.stop_reason.clone());
            match &result.effect {
                _ if envelope.error().is_some() => {}
                Some(Effect::Plan) => self.update_plan(turn, envelope),
                Some(Effect::Read { path } | Effect::Write { path }) => {
                    turn.touched_paths.push(path.clone());
                }
                _ => {}
            }
        }
    }

    /// Messages stay undelivered after an interrupt.
    async fn deliver_user_messages(&mut self, turn: &mut Turn) {
        let n_withdrawals = self.parts.control.n_withdrawals();
        let mut messages = VecDeque::from(self.parts.control.drain_user_messages());
        while let Some(message) = messages.pop_front() {
            let texts = match self.ask_prompt_hooks(message.text.as_str()).await {
                Ok(texts) => texts,
                Err(_) if self.parts.control.interrupt_cause().is_some() => {
                    messages.push_front(message);
                    return self.parts.control.requeue_messages(messages, n_withdrawals);
                }
                Err((_, why)) => {
                    self.reject_steering_message(message.text, "hook", why);
                    continue;
                }
            };
            let mut expanded = self.expand_message(&message).await;
            if let Some(why) = expanded.refusal {
                if self.parts.control.interrupt_cause().is_some() {
                    messages.push_front(message);
                    return self.parts.control.requeue_messages(messages, n_withdrawals);
                }
                self.reject_steering_message(message.text, "mention", why);
                continue;
            }
            let shown = self.model_text(&mut expanded);
            let message = &expanded.input;
            self.parts.registry.reset_repetitions();
            let mentions = &mut turn.pending_messages.mentions;
            let images = self.add_mentions(mentions, message, &mut expanded.unread);
            let steered = UserMessage::new(message, shown, images);
            self.history.add_user_message(steered.model_text(), &steered.images);
            self.parts.events.emit(EventBody::TurnSteered(steered));
            self.apply_directives(message);
            self.report_unread(&expanded.unread);
            self.add_hook_texts(&texts);
            turn.reflection_input
                .goal
                .push_str(&format!("\nThen the user said: {}", message.model_text()));
        }
    }

    /// No model receives the message.
    fn reject_steering_message(&self, input: String, source: &str, why: String) {
        let events = &self.parts.events;
        events.emit(EventBody::TurnSteered(UserMessage::blocked(input)));
        events.emit(EventBody::error(source, why));
    }

    /// Returns the images, and adds a sentence about each file that the model cannot read to `unread`.
    fn add_mentions(
        &self,
        mentions: &mut Mentions,
        message: &UserInput,
        unread: &mut Vec<String>,
    ) -> Vec<Image> {
        let project = &self.parts.project;
        mentions.add(message, |path| {
            project.find_path(path).or_else(|| project.find_unreadable_path(path))
        });
        let (mut images, refused) =
            mentions.take_images(|path| self.parts.registry.load_mentioned_image(path));
        unread.extend(refused);
        for content in &message.images {
            match self.parts.registry.store_sent_image(content) {
                Ok(image) if images.contains(&image) => {}
                Ok(image) => images.push(image),
                Err(reason) => {
                    unread.push(format!("an image of the message is not read: {reason}"));
                }
            }
        }
        images
    }

    fn report_unread(&self, sentences: &[String]) {
        for sentence in sentences {
            self.parts.events.emit(EventBody::error("mention", sentence.clone()));
        }
    }

    fn add_feedback(&mut self, text: &str) {
        let text = text.trim_end().to_owned();
        self.parts.events.emit(EventBody::Feedback { text: text.clone(), files: Vec::new() });
        self.history.add_program_message(&text);
    }

    fn evaluate(&mut self, turn: &mut Turn, round: &RoundOutcome<'_>) {
        turn.state.current_step = self.current_step();
        evaluate(&mut turn.state, round);
        let lessons = self.recall_after_round(turn, round);
        let event = self.parts.events.emit(EventBody::Evaluation {
            step_success: turn.state.step_success,
            failure: turn.state.last_failure.clone(),
        });
        turn.reflection_input.seq = event.header.seq;
        self.show_lessons(turn, lessons);
    }

    fn update_plan(&mut self, turn: &mut Turn, envelope: &Envelope) {
        let Some(plan) = Plan::from_envelope(envelope) else { return };
        // A methodology belongs to one plan, not to the next.
        let methodology = self.plan.methodology.clone().filter(|_| self.plan.recap().is_some());
        let plan = Plan { methodology, ..plan };
        if self.plan.current_todo().is_some_and(|(_, old)| has_completed(&plan, &old.content)) {
            turn.state.complete_step();
        }
        self.plan = plan;
        let (plan, reason) = (self.plan.clone(), "the model wrote it".to_owned());
        self.model_view.record_plan_shown(&plan);
        self.parts.events.emit(EventBody::PlanUpdated { plan, reason });
    }

    /// Number of the todo in progress, from 1; 0 if there is none.
    fn current_step(&self) -> u32 {
        self.plan.current_todo().map_or(0, |(at, _)| u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn set_place(&mut self, round: u32) {
        let place = WorkPosition { turn: self.turn, round, step: self.current_step() };
        self.parts.events.set_position(place);
        self.history.place = place;
    }
}

fn is_complete_reply(reply: &Reply) -> bool {
    matches!(reply.stop, Some(StopReason::End | StopReason::ToolCalls))
}

fn has_completed(plan: &Plan, content: &str) -> bool {
    let is_done = |todo: &Todo| todo.content == content && todo.status == TodoStatus::Completed;
    plan.todos.iter().any(is_done)
}

/// Mostly the end of the text, which holds the result.
fn shorten_evidence(text: &str) -> String {
    truncate_middle(text, (EVIDENCE_BYTES / 4, EVIDENCE_BYTES - EVIDENCE_BYTES / 4), "…")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
