//! Measures how much of the model's window is used: estimates, corrected by the provider's counts.

use agent_protocol::event::{Event, EventBody};
use agent_protocol::model::{ContextWindow, MIN_WINDOW, Purpose, WindowSource};

/// Estimate before the provider has counted anything, for code and prose with o200k.
const BYTES_PER_TOKEN: f64 = 3.6;
/// Counts outside are ignored.
const PLAUSIBLE_BYTES_PER_TOKEN: std::ops::RangeInclusive<f64> = 1.0..=8.0;

/// Window of an unknown model, in tokens.
pub const DEFAULT_WINDOW: u64 = 128_000;

/// The model's window and the calibration of estimates.
#[derive(Clone, Debug)]
pub struct ContextBudget {
    /// `provider/model`: an overflow of another model is ignored.
    model: String,
    window: ContextWindow,
    /// The share of the window at which compaction starts.
    compact_at: f64,
    bytes_per_token: f64,
    /// Bytes and tokens of the last request that the provider counted.
    last_count: Option<(usize, u64)>,
    /// Limit of the answer in the last request: some servers add it to the request.
    answer_limit: u64,
    /// While events are replayed: the bytes of a request without an answer yet.
    pending_request_bytes: Option<usize>,
    /// While events are replayed: they are about this model.
    is_same_model: bool,
}

impl ContextBudget {
    /// A window of this size, of which this share may be used.
    pub fn new(model: &str, window: ContextWindow, compact_at: f64) -> Self {
        Self {
            model: model.to_owned(),
            window: window.at_least(MIN_WINDOW),
            compact_at,
            bytes_per_token: BYTES_PER_TOKEN,
            last_count: None,
            answer_limit: 0,
            pending_request_bytes: None,
            is_same_model: false,
        }
    }

    /// A budget with the same share of another model's window.
    #[must_use]
    pub fn for_model(&self, model: &str, window: ContextWindow) -> Self {
        Self::new(model, window, self.compact_at)
    }

    /// Replaces the window of the same model.
    pub fn set_window(&mut self, window: ContextWindow) {
        self.window = window.at_least(MIN_WINDOW);
    }

    /// The window, with the source of the number.
    pub fn context_window(&self) -> ContextWindow {
        self.window
    }

    /// The budget for what a request has room for besides this many bytes.
    #[must_use]
    pub fn remaining_after(&self, bytes: usize) -> Self {
        let tokens = self.window().saturating_sub(self.tokens(bytes));
        Self { window: ContextWindow { tokens, ..self.window }, ..self.clone() }
    }

    /// The window, in tokens.
    pub fn window(&self) -> u64 {
        self.window.tokens
    }

    /// Number of tokens at which compaction starts.
    pub fn threshold(&self) -> u64 {
        fraction_of(self.window(), self.compact_at)
    }

    /// Estimated tokens of a text of this size.
    pub fn tokens(&self, bytes: usize) -> u64 {
        round_up(to_float(bytes as u64) / self.bytes_per_token)
    }

    /// Estimated size of a text of this many tokens.
    pub fn bytes(&self, tokens: u64) -> usize {
        usize::try_from(round_up(to_float(tokens) * self.bytes_per_token)).unwrap_or(usize::MAX)
    }

    /// Estimated tokens of the next request of the conversation. The provider's count of the last one is
    /// used, and only the difference is estimated.
    pub fn request_tokens(&self, bytes: usize) -> u64 {
        match self.last_count {
            Some((counted, tokens)) if bytes >= counted => tokens + self.tokens(bytes - counted),
            Some(_) | None => self.tokens(bytes),
        }
    }

    /// Records the provider's count for a request of this size.
    pub fn record_count(&mut self, bytes: usize, tokens: u64) {
        let bytes_per_token = to_float(bytes as u64) / to_float(tokens.max(1));
        if PLAUSIBLE_BYTES_PER_TOKEN.contains(&bytes_per_token) {
            self.bytes_per_token = bytes_per_token;
            self.last_count = Some((bytes, tokens));
        }
    }

    /// Records the limit of the answer in the next request.
    pub fn record_answer_limit(&mut self, tokens: Option<u64>) {
        self.answer_limit = tokens.unwrap_or(0);
    }

    /// The limit of the answer in the last request.
    pub fn answer_limit(&self) -> u64 {
        self.answer_limit
    }

    /// Whether a request of this many tokens exceeds a window only together with the limit of its answer.
    pub fn answer_exceeds(&self, window: u64, tokens: u64) -> bool {
        tokens <= fraction_of(window, self.compact_at) && tokens + self.answer_limit > window
    }

    /// Records an overflow: the estimate of the rejected request, and the window if the provider named it.
    pub fn record_overflow(&mut self, estimated: u64, reported: Option<u64>) {
        let window = reported.unwrap_or_else(|| fraction_of(estimated, 0.9));
        if window < self.window() {
            self.set_window(ContextWindow { tokens: window, source: WindowSource::Error });
        }
        // The rejected request is longer than estimated, also without its answer.
        let room = reported.map(|reported| reported.saturating_sub(self.answer_limit));
        if let Some(room) = room.filter(|room| estimated < *room) {
            let bytes_per_token = self.bytes_per_token * to_float(estimated) / to_float(room);
            self.bytes_per_token = bytes_per_token.max(*PLAUSIBLE_BYTES_PER_TOKEN.start());
            self.last_count = None;
        }
    }

    /// Drops the last count: the conversation was replaced.
    pub fn reset_count(&mut self) {
        self.last_count = None;
    }

    /// Applies an event of a recorded session.
    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::ModelRequested(request) if request.purpose == Purpose::Main => {
                self.is_same_model = request.model == self.model;
                self.pending_request_bytes = Some(request.bytes).filter(|_| self.is_same_model);
                self.record_answer_limit(request.max_output_tokens);
            }
            EventBody::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                if let (Some(bytes), Some(usage)) =
                    (self.pending_request_bytes.take(), answer.usage)
                {
                    self.record_count(bytes, usage.input_tokens);
                }
            }
            // A server that was started again may have another window, and says so.
            EventBody::ContextOverflowed { estimated_tokens, window }
                if self.is_same_model && self.window.source != WindowSource::Server =>
            {
                self.record_overflow(*estimated_tokens, *window);
            }
            EventBody::ContextCompacted(_) => self.reset_count(),
            _ => {}
        }
    }
}

pub(super) fn fraction_of(tokens: u64, share: f64) -> u64 {
    round_up(to_float(tokens) * share)
}

fn to_float(number: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "2^53 bytes or tokens are out of reach")]
    let float = number as f64;
    float
}

fn round_up(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are not negative, and `as` saturates"
    )]
    let whole = number.ceil() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use agent_protocol::model::WindowSource;

    use super::*;

    fn budget(tokens: u64) -> ContextBudget {
        ContextBudget::new("m", ContextWindow { tokens, source: WindowSource::Known }, 0.8)
    }

    #[test]
    fn provider_token_counts_calibrate_the_estimate() {
        let mut budget = budget(10_000);
        assert_eq!((budget.window(), budget.threshold()), (10_000, 8000));
        assert_eq!(budget.request_tokens(3600), 1000);
        budget.record_count(4000, 2000);
        assert_eq!(budget.request_tokens(4000), 2000);
        assert_eq!(budget.request_tokens(4200), 2100);
        budget.reset_count();
        assert_eq!(budget.request_tokens(1000), 500);
    }

    #[test]
    fn implausible_token_counts_are_ignored() {
        let mut budget = budget(10_000);
        budget.record_count(4000, 1);
        budget.record_count(4000, 400_000);
        assert_eq!(budget.request_tokens(3600), 1000);
    }

    #[test]
    fn overflow_adjusts_the_window() {
        let mut budget = budget(128_000);
        budget.record_overflow(20_000, Some(16_384));
        assert_eq!(budget.window(), 16_384);
        budget.record_overflow(10_000, None);
        assert_eq!(budget.window(), 9000);
        budget.record_overflow(100_000, Some(200_000));
        assert_eq!(budget.window(), 9000, "a window never grows by an overflow");
        assert_eq!(budget.tokens(1800), 1000, "what was refused had more tokens than estimated");
        budget.record_overflow(10, None);
        assert_eq!(budget.window(), MIN_WINDOW);
    }

    #[test]
    fn overflow_by_the_limit_of_the_answer_changes_no_estimate() {
        let mut budget = budget(128_000);
        budget.record_answer_limit(Some(32_000));
        budget.record_overflow(2000, Some(32_768));
        assert_eq!((budget.window(), budget.tokens(3600)), (32_768, 1000));
        budget.record_answer_limit(Some(8192));
        budget.record_overflow(12_288, Some(32_768));
        assert_eq!(budget.tokens(3600), 2000);
    }
}
