//! The main loop: think → validate and act → evaluate → reflect → decide.
//!
//! The registry validates and runs calls, [`evaluate`](evaluate()) writes the evidence into the [`State`],
//! `reflect` derives a control decision from it, and the kernel carries the decision out. Facts are emitted
//! as events where they happen. This module does not know HTTP, terminals or files.

mod agent;
mod answer;
mod background_request;
mod checks;
mod classify;
mod compact;
mod completion;
mod consult;
mod directives;
mod ending;
mod evaluate;
mod fallback;
mod hooks;
mod loop_detector;
mod message;
mod nested_rules;
mod recall;
mod recover;
mod reflect;
mod request;
mod spend;
mod state;
mod think;
mod turn;
mod user_operations;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use agent::{CallIds, Speakers, SubAgent};
pub use answer::AnswerSchema;
pub use background_request::{BackgroundRequest, SpendLimit, Unanswered};
pub use checks::Checks;
use evaluate::{Round, evaluate};
use fallback::Replaced;
pub use message::{Attachment, Expand, Expanded};
pub use recall::Memory;
use spend::Spent;
pub use spend::{Price, Speaker};
pub use state::State;
use think::ModelView;
use turn::{PastCall, Turn};
pub use verify::Verifier;

use crate::context::{
    Budget, History, Layers, Memories, Mentions, NestedRules, Pins, Project, Sent,
};
use crate::registry::{Answer, Registry};
use agent_protocol::control::{Control, Ending, Interrupt, Recovery};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Body, Event, Events, Place, TurnFinished};
use agent_protocol::message::{Image, ToolCall};
use agent_protocol::model::{Purpose, Reply, StopReason};
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::prompt::Prompts;
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, view};
use agent_protocol::{both_ends, shorten};

/// Part of the window for all results of one round: an eighth.
const RESULTS: u64 = 8;
/// Size limit of one piece of evidence for a reflection.
const EVIDENCE_BYTES: usize = 4000;
/// Limits of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Model calls in the main loop.
    pub max_turns: u32,
    /// US dollars; needs a [`Price`].
    pub max_budget_usd: Option<f64>,
}

/// The components of a kernel.
pub struct Parts {
    /// The main model.
    pub main: Speaker,
    /// The model that writes summaries.
    pub light: Speaker,
    /// In this order they replace the main model for the rest of a turn if it is not available.
    pub fallback: Vec<Speaker>,
    /// The tools, with validation and permissions.
    pub registry: Registry,
    /// Fetches what messages name of MCP servers; `None`: they name nothing.
    pub expand: Option<Expand>,
    /// L1 and L2.
    pub layers: Layers,
    /// The project's files: for mentions and nested rules files.
    pub project: Arc<dyn Project>,
    /// Size limit of one rules file in bytes.
    pub max_rules_bytes: usize,
    /// The checks that decide whether the task is done.
    pub checks: Checks,
    /// The verifier, which runs after the checks.
    pub verifier: Option<Box<Verifier>>,
    /// The schema of the final answer.
    pub answer_schema: Option<AnswerSchema>,
    /// The event stream.
    pub events: Events,
    /// The user's controls.
    pub control: Control,
    /// Limits of a turn.
    pub limits: Limits,
    /// The part of the model's window that may be used.
    pub budget: Budget,
    /// Number of the latest rounds that a compaction keeps unchanged.
    pub keep_rounds: usize,
    /// The recovery settings.
    pub recovery: Recovery,
    /// The lessons of earlier sessions; `None`: not used.
    pub memory: Option<Memory>,
    /// The prompts.
    pub prompts: Arc<Prompts>,
    /// The cost of background requests.
    pub spend_limit: SpendLimit,
    /// The ids of the session's calls.
    pub call_ids: CallIds,
    /// The kernel is that of a sub-agent.
    pub sub_agent: Option<SubAgent>,
    /// The models that sub-agents may use.
    pub speakers: Speakers,
}

/// The loop and its state.
pub struct Kernel {
    parts: Parts,
    history: History,
    pins: Pins,
    nested_rules: NestedRules,
    memories: Memories,
    plan: Plan,
    turn: u32,
    calls_made: BTreeMap<String, u32>,
    sent: Sent,
    model_view: ModelView,
    budget: Budget,
    /// The main model, while another one replaces it.
    replaced: Option<Replaced>,
    /// The number of rounds after a compaction that freed little.
    last_compaction_insufficient: Option<usize>,
    /// The `SessionStart` hooks were asked.
    has_asked_start_hooks: bool,
}

impl Kernel {
    /// A kernel at the start of a session.
    pub fn new(parts: Parts) -> Self {
        let (budget, history) = (parts.budget.clone(), History::new(parts.prompts.clone()));
        let model_view = ModelView::new(parts.registry.mode());
        parts.registry.set_takes_images(parts.main.takes_images);
        // A sub-agent begins its only turn under the number of the session's.
        let turn = parts.sub_agent.as_ref().map_or(0, |agent| agent.turn.saturating_sub(1));
        Self {
            parts,
            budget,
            history,
            replaced: None,
            pins: Pins::default(),
            nested_rules: NestedRules::default(),
            memories: Memories::default(),
            plan: Plan::default(),
            turn,
            calls_made: BTreeMap::new(),
            sent: Sent::default(),
            model_view,
            last_compaction_insufficient: None,
            has_asked_start_hooks: false,
        }
    }

    /// Applies an event of the recorded session that is resumed.
    pub fn apply(&mut self, event: &Event) {
        self.history.apply(event);
        self.budget.apply(event);
        self.sent.apply(event);
        self.model_view.apply(event);
        self.note(event);
        match &event.body {
            // Turn numbers are not reused after a rewind.
            Body::TurnStarted { .. } | Body::SessionRewound { .. } => {
                self.turn = event.header.place.turn;
            }
            Body::PlanUpdated { plan, .. } => self.plan.clone_from(plan),
            Body::ContextCompacted(compacted) => {
                self.join_l2();
                self.note_compaction_size(compacted);
            }
            Body::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                self.parts.call_ids.know(&answer.calls);
            }
            _ => {}
        }
    }

    /// Works on the user's message until it is done or cannot continue. Always ends with `turn.finished`.
    pub async fn run(&mut self, input: &UserInput) -> TurnFinished {
        self.ask_start_hooks().await;
        let texts = match self.admit(input.text.as_str()).await {
            Ok(texts) => texts,
            Err((ending, why)) => return self.turn_down(input, &why, ending),
        };
        let mut expanded = self.expanded(input).await;
        if let Some(why) = &expanded.refused {
            let interrupt = self.parts.control.interrupted();
            let ending = interrupt.map_or(Ending::Failed, Interrupt::ending);
            return self.turn_down(&expanded.input, why, ending);
        }
        let mut turn = self.begin(&mut expanded);
        self.tell_of_hooks(&texts);
        let ending = loop {
            self.settle(&mut turn);
            if let Some(ending) = self.limit_reached(&turn) {
                turn.errors.extend(self.limit_in_words(&turn));
                break ending;
            }
            turn.round += 1;
            self.take_place(turn.round);
            let reply = match self.think(&mut turn).await {
                Ok(reply) => reply,
                Err(ending) => break ending,
            };
            let accepted = if reply.calls.is_empty() || !is_whole(&reply) {
                match self.answer(&mut turn, &reply).await {
                    Some(ending) => self.may_end(&mut turn, ending).await,
                    None => None,
                }
            } else {
                self.act(&mut turn, &reply).await;
                None
            };
            if let Some(interrupt) = self.parts.control.interrupted() {
                break interrupt.ending();
            }
            if self.parts.control.is_steered() && accepted.is_some() {
                // The user added a message: the turn continues.
                turn.draft.text.clear();
                self.listen(&mut turn).await;
                continue;
            }
            if let Some(ending) = accepted {
                break ending;
            }
            if let Some(ending) = Self::stopped_by_hook(&mut turn) {
                break ending;
            }
            let ending = self.recover(&mut turn).await;
            if let Some(ending) = ending.or_else(|| Self::stopped_by_hook(&mut turn)) {
                break ending;
            }
            self.show_nested_rules(&mut turn);
            if let Some(feedback) = turn.feedback.take() {
                self.say(&feedback);
            }
            self.listen(&mut turn).await;
        };
        let finished = self.finish(turn, ending);
        self.report_failure(&finished).await;
        finished
    }

    fn begin(&mut self, expanded: &mut Expanded) -> Turn {
        let shown = self.shown_instead(expanded);
        let message = &expanded.input;
        let input = message.text.as_str();
        self.turn += 1;
        if self.parts.registry.fix_tools() {
            self.parts.layers.set_tools(self.parts.registry.specs());
        }
        self.take_place(0);
        self.parts.registry.begin_turn(self.turn);
        let mut mentions = Mentions::default();
        let (images, unread) = self.mention(&mut mentions, message);
        self.history.task(shown.as_deref().unwrap_or(input), &images);
        let started = self.parts.events.emit(self.started(message, shown, images));
        self.nested_rules.apply(&started);
        self.apply_directives(message);
        self.recall_for_task(message.for_model());
        self.tell_unread(&expanded.unread);
        self.tell_unread(&unread);
        let limits = self.parts.recovery;
        let started = self.parts.events.clock().now();
        Turn::new(started, State::new(limits), message.for_model(), mentions)
    }

    /// Counts the cost of background requests and sub-agents, and sets their remaining budget.
    fn settle(&self, turn: &mut Turn) {
        if let Some(agent) = &self.parts.sub_agent {
            return agent.settle(turn);
        }
        let Parts { spend_limit, limits, .. } = &self.parts;
        spend_limit.settle(&mut turn.spent);
        let spent = turn.spent.cost_usd;
        spend_limit.may_spend(limits.max_budget_usd.map(|max| max - spent.unwrap_or(max)));
    }

    fn limit_reached(&self, turn: &Turn) -> Option<Ending> {
        if let Some(interrupt) = self.parts.control.interrupted() {
            return Some(interrupt.ending());
        }
        if turn.round >= self.parts.limits.max_turns {
            return Some(Ending::MaxTurns);
        }
        if let Some((ending, _)) = self.limit_of_agent(turn) {
            return Some(ending);
        }
        match (turn.spent.cost_usd, self.parts.limits.max_budget_usd) {
            (Some(spent), Some(budget)) if spent >= budget => Some(Ending::MaxBudget),
            _ => None,
        }
    }

    fn limit_of_agent(&self, turn: &Turn) -> Option<(Ending, Option<String>)> {
        self.parts.sub_agent.as_ref()?.limit_reached(&turn.spent)
    }

    /// The limit that was reached, if the ending does not say it.
    fn limit_in_words(&self, turn: &Turn) -> Option<String> {
        self.limit_of_agent(turn)?.1
    }

    /// Runs the calls of an answer and evaluates the results.
    async fn act(&mut self, turn: &mut Turn, reply: &Reply) {
        let room = self.room_of_results();
        let calls = reply.calls.as_slice();
        // Sub-agents may spend what this answer has left.
        self.settle(turn);
        self.parts.speakers.are(&self.parts.main, &self.parts.light);
        let answers = self.parts.registry.carry_out(calls, room).await;
        self.model_view.called(calls.len());
        self.count_calls(calls);
        let envelopes: Vec<&Envelope> = answers.iter().map(|answer| &*answer.envelope).collect();
        self.history.exchange(&reply.text, calls, &reply.carried, &envelopes);
        turn.draft.text.clear();
        self.evaluate(turn, &Round::Calls { calls, answers: &answers });
        if let (Some(failure), None) = (&turn.state.last_failure, &turn.state.failed_call) {
            turn.case.evidence.clone_from(&failure.message);
        }
        self.take_note(turn, calls, &answers);
    }

    /// The byte limit of all results of one round.
    fn room_of_results(&self) -> usize {
        self.budget.bytes(self.budget.window() / RESULTS)
    }

    /// The part of it that this round has left.
    fn room_left(&self) -> usize {
        self.room_of_results().saturating_sub(self.history.last_results_bytes())
    }

    /// Updates the turn from results: attempts, completion, the plan.
    fn take_note(&mut self, turn: &mut Turn, calls: &[ToolCall], answers: &[Answer]) {
        for (call, answer) in calls.iter().zip(answers) {
            let envelope = &answer.envelope;
            let input = &envelope.context.params_input;
            let outcome = envelope.error().map_or_else(
                || envelope.status().to_owned(),
                |error| format!("{} {}", error.code.as_str(), shorten(&error.message, 200)),
            );
            turn.case.tried(PastCall { call: call_line(&call.name, input), outcome });
            if turn.state.failed_call.as_ref().is_some_and(|failed| failed.call.id == call.id) {
                turn.case.evidence = as_evidence(&view(envelope));
            }
            turn.completion.saw(answer);
            turn.stop = turn.stop.take().or_else(|| answer.stop.clone());
            if answer.effect == Some(Effect::Plan) && envelope.error().is_none() {
                self.take_plan(turn, envelope);
            }
        }
        turn.note_paths(answers);
    }

    /// Delivers messages that the user sent while the turn ran. After an interrupt the rest is undelivered.
    async fn listen(&mut self, turn: &mut Turn) {
        let n_drops = self.parts.control.n_drops();
        let mut messages = VecDeque::from(self.parts.control.take_messages());
        while let Some(message) = messages.pop_front() {
            let texts = match self.admit(message.text.as_str()).await {
                Ok(texts) => texts,
                Err(_) if self.parts.control.interrupted().is_some() => {
                    messages.push_front(message);
                    return self.parts.control.put_back(messages, n_drops);
                }
                Err((_, why)) => {
                    self.turn_away(message.text, "hook", why);
                    continue;
                }
            };
            let mut expanded = self.expanded(&message).await;
            if let Some(why) = expanded.refused {
                if self.parts.control.interrupted().is_some() {
                    messages.push_front(message);
                    return self.parts.control.put_back(messages, n_drops);
                }
                self.turn_away(message.text, "mention", why);
                continue;
            }
            let shown = self.shown_instead(&mut expanded);
            let message = &expanded.input;
            self.parts.registry.forget_repetition();
            let input = message.text.as_str();
            let (images, unread) = self.mention(&mut turn.pending.mentions, message);
            self.history.task(shown.as_deref().unwrap_or(input), &images);
            self.parts.events.emit(Body::TurnSteered {
                input: input.to_owned(),
                shown,
                command: message.prompt.is_some(),
                mentions: message.mentions.clone(),
                images,
                blocked: false,
            });
            self.apply_directives(message);
            self.tell_unread(&expanded.unread);
            self.tell_unread(&unread);
            self.tell_of_hooks(&texts);
            turn.case.goal.push_str(&format!("\nThen the user said: {}", message.for_model()));
        }
    }

    /// A message to the running turn that no model receives.
    fn turn_away(&self, input: String, source: &str, why: String) {
        let events = &self.parts.events;
        events.emit(Body::TurnSteered {
            input,
            shown: None,
            command: false,
            mentions: Vec::new(),
            images: Vec::new(),
            blocked: true,
        });
        events.emit(Body::error(source, why));
    }

    /// Adds the mentions of a message. Returns its images, and a sentence about each file that the model cannot
    /// read.
    fn mention(&self, mentions: &mut Mentions, message: &UserInput) -> (Vec<Image>, Vec<String>) {
        let project = &self.parts.project;
        mentions.add(message, |path| project.find(path).or_else(|| project.outside(path)));
        let (mut images, mut unread) = mentions.look(|path| self.parts.registry.mentioned(path));
        for content in &message.images {
            match self.parts.registry.sent(content) {
                Ok(image) if images.contains(&image) => {}
                Ok(image) => images.push(image),
                Err(reason) => {
                    unread.push(format!("an image of the message is not read: {reason}"));
                }
            }
        }
        (images, unread)
    }

    /// Tells the user which files the model cannot read, and why.
    fn tell_unread(&self, sentences: &[String]) {
        for sentence in sentences {
            self.parts.events.emit(Body::error("mention", sentence.clone()));
        }
    }

    /// Adds a message to the conversation.
    fn say(&mut self, text: &str) {
        let text = text.trim_end().to_owned();
        self.parts.events.emit(Body::Feedback { text: text.clone(), files: Vec::new() });
        self.history.user(&text);
    }

    fn evaluate(&mut self, turn: &mut Turn, round: &Round<'_>) {
        turn.state.step = self.step();
        evaluate(&mut turn.state, round);
        let known = self.known_after(turn, round);
        let event = self.parts.events.emit(Body::Evaluation {
            step_success: turn.state.step_success,
            failure: turn.state.last_failure.clone(),
        });
        turn.case.seq = event.header.seq;
        self.offer(turn, known);
    }

    fn take_plan(&mut self, turn: &mut Turn, envelope: &Envelope) {
        let Some(plan) = Plan::written(envelope) else { return };
        // A methodology belongs to one plan, not to the next.
        let methodology = self.plan.methodology.clone().filter(|_| self.plan.recap().is_some());
        let plan = Plan { methodology, ..plan };
        if let Some((_, old)) = self.plan.current()
            && plan
                .todos
                .iter()
                .any(|todo| todo.content == old.content && todo.status == TodoStatus::Completed)
        {
            turn.state.step_completed();
        }
        self.plan = plan;
        let (plan, reason) = (self.plan.clone(), "the model wrote it".to_owned());
        self.model_view.saw_plan(&plan);
        self.parts.events.emit(Body::PlanUpdated { plan, reason });
    }

    /// The place of the todo in progress, from 1; 0 if there is none.
    fn step(&self) -> u32 {
        self.plan.current().map_or(0, |(at, _)| u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn take_place(&mut self, round: u32) {
        let place = Place { turn: self.turn, round, step: self.step() };
        self.parts.events.at(place);
        self.history.at(place);
    }
}

/// The model marked the answer as complete.
fn is_whole(reply: &Reply) -> bool {
    match reply.stop {
        Some(StopReason::End | StopReason::ToolCalls) => true,
        Some(
            StopReason::Length
            | StopReason::Refused
            | StopReason::Interrupted
            | StopReason::Other(_),
        )
        | None => false,
    }
}

/// The part of a text that a reflection receives: mostly its end, which holds the result.
fn as_evidence(text: &str) -> String {
    both_ends(text, (EVIDENCE_BYTES / 4, EVIDENCE_BYTES - EVIDENCE_BYTES / 4), "…")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
