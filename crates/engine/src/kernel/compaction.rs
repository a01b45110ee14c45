//! Compaction: replaces the older part of the conversation by a summary.
//!
//! Compaction never ends a session: if no model gives a usable answer, the program writes the summary from
//! the record.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::Kernel;
use super::spend::ModelCost;
use crate::context::{
    self, ArchivedRange, ContextBudget, LongUserMessages, SummaryParts, summary_tokens,
};
use agent_protocol::control::Ending;
use agent_protocol::event::{Compaction, CompactionCause, EventBody, ShortenedText, SummaryAuthor};
use agent_protocol::hook::HookPayload;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{ModelErrorKind, Purpose, Reply, Request, StopReason, WindowSource};

/// Percent of the window, or of the compaction threshold.
pub(super) const NEARLY_FULL_PERCENT: u64 = 90;
const MAX_TRIES: u32 = 2;
/// Limit of a model's summary with its reasoning.
const MAX_ANSWER_TOKENS: u64 = 4000;

/// Why room is made.
#[derive(Clone, Copy)]
pub(super) enum RoomRequest<'a> {
    /// The user asks for it, and may say what matters.
    Manual { focus: Option<&'a str> },
    /// The next request, to which these bytes are added, exceeds the threshold.
    Threshold { pending_bytes: usize },
    /// The provider refused the request as too long; again, after room was made.
    Overflow { is_repeated: bool },
}

impl RoomRequest<'_> {
    fn cause(self) -> CompactionCause {
        match self {
            Self::Manual { .. } => CompactionCause::Manual,
            Self::Threshold { .. } => CompactionCause::Threshold,
            Self::Overflow { .. } => CompactionCause::Overflow,
        }
    }

    fn pending_bytes(self) -> usize {
        match self {
            Self::Threshold { pending_bytes } => pending_bytes,
            Self::Manual { .. } | Self::Overflow { .. } => 0,
        }
    }
}

impl Kernel {
    /// Compacts on request of the user, optionally with a focus for the summary. `false`: there is nothing to
    /// compact.
    pub async fn compact(&mut self, focus: Option<&str>) -> Result<bool, Ending> {
        let mut spent = ModelCost::default();
        self.make_room(&mut spent, RoomRequest::Manual { focus }).await
    }

    /// Makes room for the next request: offers fewer tools in a small window, compacts, and if that is not enough
    /// replaces all rounds by a short summary of the program.
    pub(super) async fn make_room(
        &mut self,
        spent: &mut ModelCost,
        request: RoomRequest<'_>,
    ) -> Result<bool, Ending> {
        let has_fewer_tools = self.reduce_tools();
        let is_compacted = self.compact_for(spent, request, self.parts.keep_rounds).await?;
        let has_room = has_fewer_tools || is_compacted;
        let window = self.budget.context_window();
        let bytes = self.request_bytes(request.pending_bytes());
        let is_too_long = self.budget.request_tokens(bytes) >= window.tokens
            && self.budget.tokens(self.parts.layers.bytes()) < window.tokens;
        let archives_all = match request {
            RoomRequest::Overflow { is_repeated } => is_repeated || is_too_long || !has_room,
            // What is too long for an assumed window may be accepted.
            _ => is_too_long && window.source != WindowSource::Assumed,
        };
        Ok((archives_all && self.compact_for(spent, request, 0).await?) || has_room)
    }

    /// The next request would exceed the compaction threshold, and a compaction could help.
    pub(super) fn needs_compaction(&self, pending: usize) -> bool {
        let tokens = self.budget.request_tokens(self.request_bytes(pending));
        let is_hopeless = self.recompaction_is_pointless()
            && tokens < self.budget.window() / 100 * NEARLY_FULL_PERCENT;
        tokens > self.budget.threshold() && !is_hopeless
    }

    /// The last compaction freed little, and few rounds were added since: another one would free as little,
    /// and a model's summary of so few rounds is not worth its cost.
    fn recompaction_is_pointless(&self) -> bool {
        let added = |after: usize| self.history.n_rounds().saturating_sub(after);
        self.last_compaction_insufficient.is_some_and(|after| added(after) < self.parts.keep_rounds)
    }

    pub(super) fn note_compaction_size(&mut self, compacted: &Compaction) {
        let is_little =
            compacted.tokens_after > self.budget.threshold() / 100 * NEARLY_FULL_PERCENT;
        self.last_compaction_insufficient = is_little.then(|| self.history.n_rounds());
    }

    pub(super) fn request_bytes(&self, pending: usize) -> usize {
        self.parts.layers.bytes() + self.history.bytes() + pending
    }

    /// Adds the cost to `spent`. `false`: nothing could be replaced.
    async fn compact_for(
        &mut self,
        spent: &mut ModelCost,
        request: RoomRequest<'_>,
        keep_rounds: usize,
    ) -> Result<bool, Ending> {
        let (cause, pending) = (request.cause(), request.pending_bytes());
        let focus = match request {
            RoomRequest::Manual { focus } => focus,
            RoomRequest::Threshold { .. } | RoomRequest::Overflow { .. } => None,
        };
        let tokens_before = self.budget.request_tokens(self.request_bytes(pending));
        // What moves into L2 takes room as well.
        let fixed = self.parts.layers.bytes_with(&self.l2_additions()) + pending;
        let archives_all = keep_rounds == 0;
        // Of a window that the fixed part nearly fills, the conversation has a share of the rest.
        let budget =
            if archives_all { self.budget.remaining_after(fixed) } else { self.budget.clone() };
        let range = context::select_archived_range(&self.history, &budget, fixed, keep_rounds);
        let (summary, by) = if range.n_messages == 0 {
            (String::new(), SummaryAuthor::Program)
        } else {
            let is_manual = cause == CompactionCause::Manual;
            let payload = HookPayload::PreCompact { is_manual, focus: focus.unwrap_or_default() };
            _ = self.parts.registry.ask_hooks(payload).await;
            let may_ask = !archives_all
                && !self.parts.light.has_failed_summary.load(Ordering::Relaxed)
                && (cause != CompactionCause::Threshold || !self.recompaction_is_pointless());
            let room =
                if archives_all { budget.window() / 4 } else { summary_tokens(budget.window()) };
            self.write_summary(spent, &range, focus, may_ask, budget.bytes(room)).await?
        };
        let forgotten = context::count_forgotten_summaries(&self.history, &budget, summary.len());
        let front = context::front_bytes(&self.history, &budget, summary.len());
        let cut = self.result_replacements(&range, fixed + front);
        let user_messages = self.shortened_user_messages(&budget);
        let shortened = match cause {
            CompactionCause::Overflow => self.shortened_texts(&range),
            CompactionCause::Threshold | CompactionCause::Manual => Vec::new(),
        };
        let has_shorter_texts =
            !(cut.is_empty() && shortened.is_empty() && user_messages.is_empty());
        let forgets = forgotten > self.history.n_forgotten_summaries();
        if summary.is_empty() && !has_shorter_texts && !forgets {
            return Ok(false);
        }
        let mut compacted = Compaction {
            cause,
            focus: focus.map(str::to_owned),
            archived: range.n_messages,
            from: range.from,
            to: range.to,
            summary,
            by,
            forgotten,
            cut,
            shortened,
            user_messages,
            tokens_before,
            tokens_after: 0,
            window: self.budget.window(),
        };
        self.history.compact(&compacted);
        self.update_l2();
        self.sent_requests.is_compacted = true;
        self.model_view.plan = None;
        self.parts.registry.reset_repetitions();
        self.budget.reset_count();
        compacted.tokens_after = self.budget.request_tokens(self.request_bytes(pending));
        self.note_compaction_size(&compacted);
        self.parts.events.emit(EventBody::ContextCompacted(compacted));
        if self.parts.sub_agent.is_none() {
            self.ask_session_start_hooks("compact").await;
        }
        Ok(true)
    }

    /// The summary and its author: the program, if no model may be used.
    async fn write_summary(
        &mut self,
        spent: &mut ModelCost,
        range: &ArchivedRange,
        focus: Option<&str>,
        may_ask: bool,
        room: usize,
    ) -> Result<(String, SummaryAuthor), Ending> {
        let spill = &self.parts.registry.cx().spill;
        let record = spill.write("history", &context::transcript(&self.history, range, usize::MAX));
        if let Err(error) = &record {
            self.parts.events.emit(EventBody::error(
                "record",
                format!("the archived messages could not be saved: {error}"),
            ));
        }
        let sections =
            if may_ask { self.request_summary_sections(spent, range, focus).await? } else { None };
        let by = if sections.is_some() { SummaryAuthor::Model } else { SummaryAuthor::Program };
        let parts = SummaryParts {
            range: *range,
            sections,
            plan: &self.plan,
            record: record.as_deref().ok(),
            room,
        };
        Ok((context::compose_summary(&self.history, &parts), by))
    }

    async fn request_summary_sections(
        &mut self,
        spent: &mut ModelCost,
        range: &ArchivedRange,
        focus: Option<&str>,
    ) -> Result<Option<context::SummarySections>, Ending> {
        let configured = self.parts.light.clone();
        // After an overflow the request has to be shorter.
        let mut room = self.budget.bytes(configured.window.tokens.min(self.budget.window()) / 2);
        // Until a request succeeds, compactions do not wait for this model.
        let has_failed = configured.has_failed_summary.clone();
        for _ in 0..MAX_TRIES {
            let (system, text) = context::summary_request(&self.history, range, focus, room);
            let messages = [Message::text(Role::User, text)];
            let limit = MAX_ANSWER_TOKENS.min(configured.window.tokens / 4);
            let request = Request {
                max_output_tokens: Some(limit),
                temperature: configured.temperature,
                effort: configured.effort,
                ..Request::new(Purpose::Summary, system, &messages)
            };
            let read = |reply: &Reply| {
                let is_usable = reply.stop != Some(StopReason::Repetition);
                context::parse_sections(&reply.text).filter(|_| is_usable)
            };
            let answer =
                self.consult(spent, &configured, &request, |reply| read(reply).is_some()).await?;
            match answer {
                Ok(reply) => {
                    if let Some(sections) = read(&reply) {
                        return Ok(Some(sections));
                    }
                }
                Err(error) if error.kind == ModelErrorKind::Overflow => room /= 2,
                // The transport already retried, or a retry does not help.
                Err(_) => break,
            }
        }
        has_failed.store(true, Ordering::Relaxed);
        Ok(None)
    }

    /// Shortens texts that fitted their part of the window as it was assumed to be.
    fn shortened_texts(&self, range: &ArchivedRange) -> Vec<ShortenedText> {
        let texts = context::long_texts(&self.history, range, self.results_byte_limit());
        let shortened = texts.into_iter().filter_map(|(message, large)| {
            Some(ShortenedText { message, text: self.shorten_large_text(&large)? })
        });
        shortened.collect()
    }

    /// Shortens user messages that together are too long.
    fn shortened_user_messages(&self, budget: &ContextBudget) -> Vec<ShortenedText> {
        let LongUserMessages { cut, left_out } = context::long_user_messages(&self.history, budget);
        let mut all = Vec::new();
        for (message, text, room) in cut {
            let large = context::LargeText { call: "", tool: "user-message", text: &text, room };
            // A text that cannot be stored elsewhere is not cut.
            let text = self.shorten_large_text(&large);
            all.extend(text.map(|text| ShortenedText { message, text }));
        }
        let texts: Vec<&str> = left_out.iter().map(|(_, text)| text.as_str()).collect();
        if let Some(((last, _), before)) = left_out.split_last()
            && let Ok(path) =
                self.parts.registry.cx().spill.write("user-messages", &texts.join("\n\n"))
        {
            let n = texts.len();
            let nothing = |(at, _): &(usize, String)| (*at, String::new());
            let note = (*last, format!("({n} older messages of the user are in {path}.)"));
            let left_out = before.iter().map(nothing).chain([note]);
            all.extend(left_out.map(|(message, text)| ShortenedText { message, text }));
        }
        all
    }

    /// Replaces results that stay in the conversation and are obsolete or too large.
    fn result_replacements(
        &self,
        range: &ArchivedRange,
        other_bytes: usize,
    ) -> BTreeMap<String, String> {
        let mut cut = context::stale_results(&self.history, range);
        let large = context::large_results(&self.history, range, &self.budget, other_bytes, &cut);
        // A result that could not be stored is not cut: the provider may accept it.
        let shortened = large
            .into_iter()
            .filter_map(|large| Some((large.call.to_owned(), self.shorten_large_text(&large)?)));
        cut.extend(shortened);
        cut
    }
}
