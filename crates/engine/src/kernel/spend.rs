//! The cost of a turn: every request counts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agent_protocol::event::ModelRequested;
use agent_protocol::format_thousands;
use agent_protocol::model::{ContextWindow, Model, Request, Usage};
use agent_protocol::provider::Effort;

/// Limit of an answer of a model of which none is known.
const MAX_ANSWER_TOKENS: u64 = 32_000;
/// Less is of no use: the server says that the request does not fit.
const MIN_ANSWER_TOKENS: u64 = 256;
/// The size of a request is an estimate: it may be larger by this fraction.
const ESTIMATE_MARGIN: u64 = 16;

/// Price of tokens in US dollars per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Tokens of the request that came from the provider's cache.
    pub cached: f64,
    /// Tokens of the request that were written to the provider's cache.
    pub cache_write: f64,
    /// A thousand searches in the web by the provider.
    pub searches: f64,
}

impl Price {
    fn cost_of(self, usage: Usage) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "2^53 tokens are out of reach")]
        let millions = |tokens: u64| tokens as f64 / 1e6;
        let Usage { input_tokens, cached_tokens, cache_write_tokens, .. } = usage;
        let fresh = input_tokens.saturating_sub(cached_tokens).saturating_sub(cache_write_tokens);
        millions(fresh) * self.input
            + millions(cache_write_tokens) * self.cache_write
            + millions(usage.cached_tokens) * self.cached
            + millions(usage.output_tokens) * self.output
            + millions(usage.searches) * 1e3 * self.searches
    }
}

/// A model with its price and limits.
#[derive(Clone)]
pub struct ConfiguredModel {
    pub model: Arc<dyn Model>,
    pub price: Option<Price>,
    pub window: ContextWindow,
    /// Configured, or known of the model.
    pub max_output_tokens: Option<u64>,
    pub temperature: Option<f32>,
    pub effort: Option<Effort>,
    pub takes_images: bool,
    /// Its provider searches the web for it.
    pub searches: bool,
    /// A local server runs it, which often answers one request at a time.
    pub is_local: bool,
    /// How that is started with a larger window.
    pub larger_window: Option<String>,
    /// A summary failed, and no request of the model has succeeded since. Clones share it.
    pub has_failed_summary: Arc<AtomicBool>,
}

impl ConfiguredModel {
    pub(super) fn cost(&self, usage: Usage) -> Option<f64> {
        self.price.map(|price| price.cost_of(usage))
    }

    pub(super) fn model_cost(&self, usage: Usage) -> ModelCost {
        let (known_usd, is_unpriced) = (self.cost(usage).unwrap_or_default(), self.price.is_none());
        ModelCost { usage, known_usd, is_unpriced, ..ModelCost::default() }
    }

    /// Limits the answer, in the request and its record: to what is configured or known of the model, else to a part of
    /// the window; to less if the request asks for less; and to what the request leaves of the window.
    pub(super) fn limit_answer(&self, request: &mut Request<'_>, requested: &mut ModelRequested) {
        let window = requested.window.unwrap_or(self.window.tokens);
        let most = self.max_output_tokens.unwrap_or_else(|| MAX_ANSWER_TOKENS.min(window / 4));
        let wanted = request.max_output_tokens.map_or(most, |wanted| wanted.min(most));
        let sent = requested.estimated_tokens;
        let left = window.saturating_sub(sent + sent / ESTIMATE_MARGIN).max(MIN_ANSWER_TOKENS);
        request.max_output_tokens = Some(wanted.min(left).max(1));
        requested.max_output_tokens = request.max_output_tokens;
    }

    /// A limit that was sent, with its origin.
    pub(super) fn describe_limit(&self, tokens: u64) -> String {
        let origin = if self.max_output_tokens == Some(tokens) {
            "max_output_tokens of the model"
        } else if tokens == MAX_ANSWER_TOKENS {
            "without max_output_tokens of the model"
        } else if tokens == self.window.tokens / 4 {
            "a quarter of the window"
        } else {
            "what the request left of the window"
        };
        format!("{} tokens ({origin})", format_thousands(tokens))
    }

    /// Cost of a request whose answer nothing waited for.
    pub(super) fn estimated_cost(&self, usage: Usage) -> ModelCost {
        ModelCost { estimated_tokens: usage.total(), ..self.model_cost(usage) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModelCost {
    pub(super) usage: Usage,
    /// The part that the provider did not count.
    pub(super) estimated_tokens: u64,
    /// US dollars of the requests whose price is known.
    pub(super) known_usd: f64,
    /// The price of a request is not known.
    pub(super) is_unpriced: bool,
    pub(super) model_time: Duration,
}

impl ModelCost {
    /// US dollars; `None` from the first request without a known price.
    pub(super) fn cost_usd(&self) -> Option<f64> {
        (!self.is_unpriced).then_some(self.known_usd)
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            usage: self.usage.since(before.usage),
            estimated_tokens: self.estimated_tokens.saturating_sub(before.estimated_tokens),
            known_usd: self.known_usd - before.known_usd,
            // An unknown price was reported when it became unknown.
            is_unpriced: self.is_unpriced && !before.is_unpriced,
            model_time: self.model_time.saturating_sub(before.model_time),
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.usage += more.usage;
        self.estimated_tokens = self.estimated_tokens.saturating_add(more.estimated_tokens);
        self.known_usd += more.known_usd;
        self.is_unpriced |= more.is_unpriced;
        self.model_time += more.model_time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_cache_and_searches_have_their_own_price() {
        let price =
            Price { input: 4.0, output: 20.0, cached: 0.4, cache_write: 5.0, searches: 10.0 };
        let usage = Usage {
            input_tokens: 1_600_000,
            output_tokens: 100_000,
            cached_tokens: 1_000_000,
            cache_write_tokens: 500_000,
            searches: 3,
        };
        assert!((price.cost_of(usage) - (0.4 + 0.4 + 2.5 + 2.0 + 0.03)).abs() < 1e-9);
    }
}
