//! Requests the model's next answer and assembles it.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use super::answer_guard::AnswerGuard;
use super::compaction::NEARLY_FULL_PERCENT;
use super::request::PendingRequest;
use super::turn::Turn;
use super::{Kernel, millis};
use crate::context::{self, ContextBudget};
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::event::{CompactionCause, Event, EventBody};
use agent_protocol::format_thousands;
use agent_protocol::model::{
    Delta, ModelError, ModelErrorKind, Purpose, Reply, Request, StopReason, Usage,
};
use agent_protocol::plan::Plan;
use agent_protocol::prompt::{Prompt, Prompts};

/// Repeated requests for one answer.
const MAX_OVERFLOWS: u32 = 3;
/// Retries of a summary end after this time: the program can write one.
const SUMMARY_RETRY_TIME: Duration = Duration::from_secs(5);

const CALLS_PER_RECAP: usize = 10;

/// The mode and the plan as the model last saw them.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelView {
    /// Mode that L1 names.
    mode_at_start: PermissionMode,
    mode: PermissionMode,
    /// `None`: the plan has to be shown again.
    pub(super) plan: Option<Plan>,
    pub(super) calls_since_recap: usize,
}

impl ModelView {
    /// In a new session the model knows the mode from the system prompt.
    pub(super) fn new(mode: PermissionMode) -> Self {
        Self { mode_at_start: mode, mode, ..Self::default() }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::SessionStarted(started) => *self = Self::new(started.permission_mode),
            EventBody::Reminder { mode, .. } => self.mode = *mode,
            _ => {}
        }
    }

    pub(super) fn record_plan_shown(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
        self.calls_since_recap = 0;
    }

    fn recap_is_due(&self, plan: &Plan) -> bool {
        let is_known = self.plan.as_ref().is_some_and(|shown| shown.todos == plan.todos);
        !is_known || self.calls_since_recap >= CALLS_PER_RECAP
    }
}

const PLAN_MODE: Prompt = Prompt::named("plan/mode.md");

fn mode_line(prompts: &Prompts, mode: PermissionMode) -> String {
    let line = format!("The permission mode is {} from now on.", mode.as_str());
    match mode {
        PermissionMode::Plan => format!("{line} {}", prompts.text(PLAN_MODE).trim_end()),
        _ => line,
    }
}

impl Kernel {
    /// Another model answers if the main one is not available.
    pub(super) async fn think(&mut self, turn: &mut Turn) -> Result<Reply, Ending> {
        loop {
            match self.think_with_model(turn).await? {
                Ok(reply) => {
                    turn.n_replies += 1;
                    self.confirm_window().await;
                    return Ok(reply);
                }
                Err(error) if self.use_fallback_model(&error) => {}
                Err(error) => return Err(self.ending_without_reply(turn, error)),
            }
        }
    }

    /// First adds what the model has not received yet.
    async fn think_with_model(
        &mut self,
        turn: &mut Turn,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let pending: usize = turn.pending_messages.reminders.iter().map(String::len).sum();
        if self.needs_compaction(pending) {
            let cause = CompactionCause::Threshold;
            self.make_room(&mut turn.spent, cause, None, pending, 0).await?;
        }
        self.add_reminder(turn);
        let mut overflows = 0;
        loop {
            match self.request_reply_without_refused_images(turn).await? {
                Err(mut error) if self.is_overflow(&error, overflows) => {
                    overflows += 1;
                    let estimated_tokens = self.budget.request_tokens(self.request_bytes(0));
                    let window = error.window;
                    self.budget.record_overflow(estimated_tokens, window);
                    let overflowed = EventBody::ContextOverflowed { estimated_tokens, window };
                    self.parts.events.emit(overflowed);
                    // The request alone fits: the limit of its answer was too high, and is lower now.
                    let tokens = self.budget.request_tokens(self.request_bytes(0));
                    if overflows == 1 && window.is_some() && tokens <= self.budget.threshold() {
                        continue;
                    }
                    let cause = CompactionCause::Overflow;
                    let made_room = overflows <= MAX_OVERFLOWS
                        && self.make_room(&mut turn.spent, cause, None, 0, overflows).await?;
                    if !made_room {
                        if error.kind == ModelErrorKind::Overflow {
                            self.explain_overflow(&mut error);
                        }
                        return Ok(Err(error));
                    }
                    // The recap was archived too.
                    self.add_reminder(turn);
                }
                answer => return Ok(answer),
            }
        }
    }

    /// Sends a request that the server refused again without the images that no answer followed yet, then without any. If
    /// that helps, images were the cause.
    async fn request_reply_without_refused_images(
        &mut self,
        turn: &mut Turn,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let model = self.model().to_owned();
        let mut withheld = Vec::new();
        let mut answer = self.request_reply(turn).await?;
        for only_new in [true, false] {
            let Err(error) = &answer else { break };
            let images = self.history.sent_images(&model, only_new);
            if !self.parts.main.takes_images || images.is_empty() || !may_be_about_images(error) {
                continue;
            }
            withheld.extend_from_slice(&images);
            let (model, reason) = (model.clone(), Some(error.message.clone()));
            self.record(EventBody::ImagesWithheld { model, images, reason });
            answer = self.request_reply(turn).await?;
        }
        if answer.is_err() && !withheld.is_empty() {
            self.record(EventBody::ImagesWithheld { model, images: withheld, reason: None });
        }
        Ok(answer)
    }

    /// The server says so, or rejects the request without a known reason while it is about as long as is allowed. The
    /// latter is assumed once: after a compaction the reason is something else.
    fn is_overflow(&self, error: &ModelError, overflows: u32) -> bool {
        let is_nearly_full = || {
            let tokens = self.budget.request_tokens(self.request_bytes(0));
            tokens >= self.budget.threshold() / 100 * NEARLY_FULL_PERCENT
        };
        match (error.kind, error.status) {
            (ModelErrorKind::Overflow, _) => true,
            (ModelErrorKind::Refused, Some(413)) => overflows == 0,
            (ModelErrorKind::Refused, Some(400 | 422)) => overflows == 0 && is_nearly_full(),
            _ => false,
        }
    }

    /// One message, if needed: a new mode, reminders, a patch, the recap.
    fn add_reminder(&mut self, turn: &mut Turn) {
        let prompts = self.parts.prompts.clone();
        let mode = self.parts.registry.update_mode();
        let mut lines = Vec::new();
        if mode != self.model_view.mode {
            lines.push(mode_line(&prompts, mode));
        }
        lines.append(&mut turn.pending_messages.reminders);
        lines.extend(turn.pending_messages.mentions.take_reminder(&prompts));
        lines.extend(turn.pending_messages.patch.take().map(|patch| format!("Patch: {patch}")));
        let recap = self.model_view.recap_is_due(&self.plan).then(|| self.plan.recap()).flatten();
        let has_recap = recap.is_some();
        lines.extend(recap);
        if lines.is_empty() {
            return;
        }
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        let text = format!("<system-reminder>\n{}\n</system-reminder>", lines.join("\n"));
        let event = self.parts.events.emit(EventBody::Reminder { text, mode, recap: has_recap });
        self.history.apply(&event);
        self.model_view.mode = mode;
        if has_recap {
            self.model_view.record_plan_shown(&self.plan);
        }
    }

    /// Part of L2 after a compaction if the mode differs from the start of the session. A mode that the model has not
    /// received yet is added as a reminder, so that a replay of the events gives the same L2.
    pub(super) fn mode_line(&self) -> String {
        let ModelView { mode, mode_at_start, .. } = self.model_view;
        if mode == mode_at_start { String::new() } else { mode_line(&self.parts.prompts, mode) }
    }

    async fn request_reply(
        &mut self,
        turn: &mut Turn,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let (purpose, prefix) = match &self.parts.sub_agent {
            Some(_) => (Purpose::Agent, format!("agent_{}", self.parts.events.agent_id())),
            None => (Purpose::Main, format!("call_{}", self.turn)),
        };
        let Self { parts, history, sent_requests: sent, budget, reduced_tools, .. } = self;
        let parts = &*parts;
        let tools = reduced_tools.as_deref().unwrap_or_else(|| parts.registry.specs());
        let mut request = parts.layers.request(tools, history);
        request.purpose = purpose;
        request.temperature = parts.main.temperature;
        request.effort = parts.main.effort;
        request.images = Some(&*parts.registry.cx().images);
        let withheld = history.withheld_images(parts.main.model.id());
        let withheld = withheld.filter(|_| parts.main.takes_images);
        let without_images = (withheld.is_some()
            || !parts.main.takes_images && history.n_images() > 0)
            .then(|| context::without_images(&parts.prompts, request.messages, withheld));
        if let Some(messages) = &without_images {
            request.messages = messages;
        }
        let promised = sent.expected_shared_bytes();
        let mut described =
            parts.layers.describe_request(sent, parts.main.model.id(), &request, history, budget);
        debug_assert!(
            promised.is_none_or(|bytes| described.shared_bytes == bytes),
            "between compactions each request begins with the one before it"
        );
        let (bytes, tools) = (described.bytes, described.tool_bytes());
        parts.main.limit_answer(&mut request, &mut described);
        budget.record_answer_limit(request.max_output_tokens);
        let pending = PendingRequest::new(&parts.events, &parts.main, described);
        let partial = &mut turn.partial_answer;
        let answer = stream_reply(&pending, budget, &request, &parts.control, partial).await;
        let mut reply = match answer {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Ok(Err(error)),
            Err(InterruptedReply { ending, reply, arrival }) => {
                turn.arrival = Some(arrival);
                if reply != Reply::default() {
                    // The user has seen it, and may refer to it.
                    if !reply.text.trim().is_empty() {
                        history.add_interrupted_answer(&reply.text);
                    }
                    turn.spent.add(pending.record_interrupted_reply(budget, reply));
                    turn.n_replies += 1;
                }
                return Err(ending);
            }
        };
        turn.partial_answer.clear();
        if let Some(Usage { input_tokens, .. }) = reply.usage
            && let Some(estimated) = budget.record_count(bytes, tools, input_tokens)
        {
            let notice = cut_request_notice(parts.main.model.id(), estimated, input_tokens);
            parts.events.emit(EventBody::error("context", notice));
        }
        parts.call_ids.assign_ids(&format!("{prefix}_{}", turn.round), &mut reply);
        let is_cut_off = reply.stop == Some(StopReason::Length) && !reply.calls.is_empty();
        let is_empty = reply.calls.is_empty() && reply.text.trim().is_empty();
        let is_unusable = matches!(reply.stop, Some(StopReason::Refused | StopReason::Repetition));
        let discarded = is_cut_off || is_empty || is_unusable;
        turn.spent.add(pending.record_reply(budget, &reply, discarded));
        for (source, sentence) in &reply.notices {
            parts.events.emit(EventBody::error(source, sentence));
        }
        Ok(Ok(reply))
    }

    /// Asks the server, which has loaded the model by now, for a window that is not certain.
    async fn confirm_window(&mut self) {
        if self.budget.window_source().is_uncertain()
            && let Some(window) = self.parts.main.model.ask_window().await
        {
            self.budget.set_window(window);
            let main = &mut self.parts.main;
            (main.context_window, main.window_source) = (window.tokens, window.source);
        }
    }

    fn ending_without_reply(&mut self, turn: &mut Turn, error: ModelError) -> Ending {
        self.parts.events.emit(EventBody::error("model", error.message.clone()));
        turn.errors.push(error.message);
        match error.kind {
            ModelErrorKind::Unavailable => Ending::ModelUnavailable,
            ModelErrorKind::Script => Ending::Failed,
            _ => Ending::ModelRefused,
        }
    }
}

fn cut_request_notice(model: &str, estimated: u64, counted: u64) -> String {
    let [estimated, counted] = [estimated, counted].map(format_thousands);
    format!(
        "the server of {model} counted {counted} tokens in a request of about {estimated}: it seems to have cut off \
         the request without saying so, and the model may not know the beginning; give the server a larger context, \
         or set models.\"{model}\".context_window to the one that it has"
    )
}

/// A refusal for another reason than the key. (Some servers report an image that they cannot read as their own failure.)
fn may_be_about_images(error: &ModelError) -> bool {
    match (error.kind, error.status) {
        (ModelErrorKind::Refused, status) => !matches!(status, Some(401 | 403)),
        (ModelErrorKind::Unavailable, Some(500)) => error.message.contains("image"),
        _ => false,
    }
}

pub(super) struct InterruptedReply {
    pub(super) ending: Ending,
    reply: Reply,
    /// Whether data was arriving.
    arrival: String,
}

/// Deltas are emitted only for the purpose `main`, whose answers the user sees. `partial_text` becomes that of the last
/// attempt in which a text arrived.
pub(super) async fn stream_reply(
    pending: &PendingRequest<'_>,
    budget: &ContextBudget,
    request: &Request<'_>,
    control: &SessionControl,
    partial_text: &mut String,
) -> Result<Result<Reply, ModelError>, InterruptedReply> {
    partial_text.clear();
    let is_shown = request.purpose == Purpose::Main;
    let events = pending.events;
    let mut stream = pending.configured_model.model.stream(request);
    let mut retries = (request.purpose == Purpose::Summary).then(RetryLimit::default);
    let mut reply = Reply::default();
    let mut progress = pending.track_progress(budget);
    let mut guard = AnswerGuard::new(request.max_output_tokens);
    let answer = async {
        loop {
            let next = stream.next();
            let next = match &mut retries {
                Some(limit) => limit.limit_wait(next).await,
                None => next.await,
            };
            let Some(mut delta) = next.transpose()? else { break };
            let is_stopped = guard.add_delta(&mut delta, &mut reply);
            match &delta {
                Delta::Text(text) | Delta::Reasoning(text) if is_shown => {
                    let reasoning = matches!(delta, Delta::Reasoning(_));
                    events.emit(EventBody::ModelDelta { text: text.clone(), reasoning });
                }
                Delta::Retry(retry) => {
                    events.emit(EventBody::Error {
                        source: "model".to_owned(),
                        message: retry.error.clone(),
                        reason: retry.reason.clone(),
                        retry_in_ms: Some(millis(retry.delay)),
                        attempt: Some(retry.attempt),
                    });
                    keep_text(partial_text, &reply);
                }
                _ => {}
            }
            progress.count_delta(&delta);
            if is_shown {
                progress.record_partial_text(&reply.text);
            }
            if is_stopped {
                break;
            }
            control.wait_for_reader().await;
        }
        if reply.stop.is_none() {
            return Err(ModelError::new(
                ModelErrorKind::Unavailable,
                "the model's answer broke off before its end; try again",
            ));
        }
        Ok(())
    };
    let answer = control.cancellation_token().run_until_cancelled(answer).await;
    keep_text(partial_text, &reply);
    match answer {
        Some(answer) => Ok(answer.map(|()| reply)),
        None => {
            let (ending, arrival) = (interrupt_ending(control), progress.describe_arrival());
            Err(InterruptedReply { ending, reply, arrival })
        }
    }
}

fn keep_text(kept: &mut String, reply: &Reply) {
    if !reply.text.trim().is_empty() {
        kept.clone_from(&reply.text);
    }
}

/// The limit for all retries of a request whose answer the program can replace.
#[derive(Default)]
struct RetryLimit {
    end: Option<Instant>,
    /// The failure whose retry has brought nothing yet.
    failure: Option<ModelError>,
}

impl RetryLimit {
    /// The next item; an error if it is late, or a retry that would be. An answer that has begun is awaited.
    async fn limit_wait(
        &mut self,
        next: impl Future<Output = Option<Result<Delta, ModelError>>>,
    ) -> Option<Result<Delta, ModelError>> {
        let delta = match (self.end, self.failure.take()) {
            (Some(end), Some(failure)) => timeout_at(end, next).await.unwrap_or(Some(Err(failure))),
            _ => next.await,
        };
        if let Some(Ok(Delta::Retry(retry))) = &delta {
            let failure = ModelError::new(ModelErrorKind::Unavailable, retry.error.clone());
            let end = *self.end.get_or_insert_with(|| Instant::now() + SUMMARY_RETRY_TIME);
            if Instant::now() + retry.delay > end {
                return Some(Err(failure));
            }
            self.failure = Some(failure);
        }
        delta
    }
}

pub(super) fn interrupt_ending(control: &SessionControl) -> Ending {
    control.interrupt_cause().map_or(Ending::Interrupted, Interrupt::ending)
}
