//! Requests the model's next answer and assembles it.

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::answer_guard::AnswerGuard;
use super::compaction::{NEARLY_FULL_PERCENT, RoomRequest};
use super::request::PendingRequest;
use super::turn::Turn;
use super::{Kernel, KernelParts, millis};
use crate::context::{self, ContextBudget};
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::event::{Event, EventBody};
use agent_protocol::model::{
    ContextWindow, Delta, ModelError, ModelErrorKind, Purpose, Reply, Request, StopReason, Usage,
};
use agent_protocol::plan::Plan;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::{format_thousands, one_line, pluralize, shorten};

/// Repeated requests for one answer.
const MAX_OVERFLOWS: u32 = 3;
/// Of a text that was dropped.
const MAX_QUOTE_BYTES: usize = 400;

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
            let request = RoomRequest::Threshold { pending_bytes: pending };
            self.make_room(&mut turn.spent, request).await?;
        }
        self.add_reminder(turn);
        let (mut overflows, mut has_made_room) = (0, false);
        loop {
            match self.request_reply_without_refused_images(turn).await? {
                Err(mut error) if self.is_overflow(&error, overflows) => {
                    overflows += 1;
                    let estimated_tokens = self.budget.request_tokens(self.request_bytes(0));
                    let window = error.window;
                    // The limit of its answer was too high, and is lower with this window.
                    let fits_alone = window
                        .is_some_and(|window| self.budget.answer_exceeds(window, estimated_tokens));
                    self.budget.record_overflow(estimated_tokens, window);
                    self.set_window(self.budget.context_window());
                    let overflowed = EventBody::ContextOverflowed { estimated_tokens, window };
                    self.parts.events.emit(overflowed);
                    if overflows == 1 && fits_alone {
                        continue;
                    }
                    let request = RoomRequest::Overflow { is_repeated: has_made_room };
                    has_made_room = overflows <= MAX_OVERFLOWS
                        && self.make_room(&mut turn.spent, request).await?;
                    if !has_made_room {
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

    /// Sends a request that the server refused because of an image again without the images that no answer followed yet.
    async fn request_reply_without_refused_images(
        &mut self,
        turn: &mut Turn,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let answer = self.request_reply(turn).await?;
        let Err(error) = &answer else { return Ok(answer) };
        let model = self.model().to_owned();
        let images = self.history.unanswered_images(&model);
        if !self.parts.main.takes_images || images.is_empty() || !is_about_image(error, &model) {
            return Ok(answer);
        }
        let (reason, n) = (error.message.clone(), pluralize(images.len() as u64, "image"));
        let notice = format!("{reason}; this and later requests are sent without {n}");
        self.parts.events.emit(EventBody::error("images", notice));
        self.record(EventBody::ImagesWithheld { model, images, reason });
        self.request_reply(turn).await
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
        let Self { parts, history, sent_requests: sent, budget, .. } = self;
        let (reduced_tools, has_truncated_request) =
            (&self.reduced_tools, &mut self.has_truncated_request);
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
        let described =
            parts.layers.describe_request(sent, parts.main.model.id(), &request, history, budget);
        debug_assert!(
            promised.is_none_or(|bytes| described.shared_bytes == bytes),
            "between compactions each request begins with the one before it"
        );
        let bytes = described.bytes;
        let tools = described.layers.get("tools").map_or(0, |layer| layer.bytes);
        let pending = PendingRequest::new(&parts.events, &parts.main, &mut request, described);
        budget.record_answer_limit(request.max_output_tokens);
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
        if let Some(Usage { input_tokens, .. }) = reply.usage {
            if was_truncated_by_server(bytes - tools, input_tokens)
                && !std::mem::replace(has_truncated_request, true)
            {
                let estimated = budget.request_tokens(bytes);
                let notice =
                    truncated_request_notice(parts.main.model.id(), estimated, input_tokens);
                parts.events.emit(EventBody::error("context", notice));
            }
            budget.record_count(bytes, input_tokens);
        }
        parts.call_ids.assign_ids(&format!("{prefix}_{}", turn.round), &mut reply);
        let is_cut_off = reply.stop == Some(StopReason::Length) && !reply.calls.is_empty();
        let is_empty = reply.calls.is_empty() && reply.text.trim().is_empty();
        let is_unusable = matches!(reply.stop, Some(StopReason::Refused | StopReason::Repetition));
        let discarded = is_cut_off || is_empty || is_unusable;
        turn.spent.add(pending.record_reply(budget, &reply, discarded));
        Ok(Ok(reply))
    }

    /// Asks the server, which has loaded the model by now, for a window that is not certain.
    async fn confirm_window(&mut self) {
        if self.budget.context_window().source.is_uncertain()
            && let Some(window) = self.parts.main.model.ask_window().await
        {
            self.set_window(window);
            self.reduce_tools();
        }
    }

    /// Sets the window of the main model wherever it is used.
    pub(super) fn set_window(&mut self, window: ContextWindow) {
        self.budget.set_window(window);
        let KernelParts { main, light, .. } = &mut self.parts;
        if Arc::ptr_eq(&main.model, &light.model) {
            light.window = window;
        }
        main.window = window;
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

/// Far fewer tokens were counted than were sent, without the descriptions of the tools, which a server may leave out. A
/// small count says nothing.
fn was_truncated_by_server(bytes: usize, tokens: u64) -> bool {
    const MAX_BYTES_PER_TOKEN: u64 = 8;
    const MIN_COUNT: u64 = 1024;
    tokens >= MIN_COUNT && tokens < bytes as u64 / MAX_BYTES_PER_TOKEN
}

fn truncated_request_notice(model: &str, estimated: u64, counted: u64) -> String {
    let [estimated, counted] = [estimated, counted].map(format_thousands);
    format!(
        "the server of {model} counted {counted} tokens in a request of about {estimated}: it seems to have cut off \
         the request without saying so, and the model may not know the beginning; give the server a larger context, \
         or set models.\"{model}\".context_window to the one that it has"
    )
}

/// The server says so. (Some report an image that they cannot read as their own failure.)
fn is_about_image(error: &ModelError, model: &str) -> bool {
    // The name of a model, also in the address, may contain the word; a refused key says nothing of an image.
    let name = model.split_once('/').map_or(model, |(_, name)| name);
    let message = if name.contains("image") {
        error.message.replace(name, "").to_lowercase()
    } else {
        error.message.to_lowercase()
    };
    let is_refusal = match error.kind {
        ModelErrorKind::Refused => !matches!(error.status, Some(401 | 403)),
        _ => error.status == Some(500),
    };
    is_refusal && ["image", "media type", "media_type"].iter().any(|word| message.contains(word))
}

pub(super) struct InterruptedReply {
    pub(super) ending: Ending,
    reply: Reply,
    /// Whether data was arriving.
    arrival: String,
}

/// Deltas are emitted only for the purpose `main`, whose answers the user sees. `partial_text` receives the text of the
/// last attempt that had one.
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
    let mut reply = Reply::default();
    let mut progress = pending.track_progress(budget);
    let mut guard = AnswerGuard::new(request.max_output_tokens);
    let answer = async {
        while let Some(delta) = stream.next().await {
            let mut delta = delta?;
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
        if !reply.dropped.is_empty() {
            let (bytes, quote) = (reply.dropped.len(), one_line(&reply.dropped));
            let what =
                "the model wrote the result of a tool itself; this was dropped with what followed";
            let notice = format!("{what} ({bytes} bytes): {}", shorten(&quote, MAX_QUOTE_BYTES));
            events.emit(EventBody::error("reply", notice));
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

pub(super) fn interrupt_ending(control: &SessionControl) -> Ending {
    control.interrupt_cause().map_or(Ending::Interrupted, Interrupt::ending)
}
