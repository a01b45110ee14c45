//! What a turn costs: every request counts, whatever it is for.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::model::{Model, Usage};

/// What tokens cost, in US dollars a million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Of the request.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of the part of the request that came from the provider's cache.
    pub cached: f64,
}

impl Price {
    fn of(self, usage: Usage) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "2^53 tokens are out of reach")]
        let millions = |tokens: u64| tokens as f64 / 1e6;
        let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens);
        millions(fresh) * self.input
            + millions(usage.cached_tokens) * self.cached
            + millions(usage.output_tokens) * self.output
    }
}

/// A model, and what is known of it.
#[derive(Clone)]
pub struct Speaker {
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What its tokens cost, where that is known.
    pub price: Option<Price>,
    /// The most tokens that a request and its answer may have together.
    pub context_window: u64,
    /// The most tokens of an answer that are asked for.
    pub max_output_tokens: Option<u64>,
}

impl Speaker {
    /// What so many tokens of it cost.
    pub(super) fn cost(&self, usage: Usage) -> Option<f64> {
        self.price.map(|price| price.of(usage))
    }

    /// An answer of so many tokens, or of as many as are asked of it at the most.
    pub(super) fn at_most(&self, tokens: u64) -> u64 {
        self.max_output_tokens.map_or(tokens, |max| max.min(tokens))
    }

    /// What is paid for so many tokens of it that nobody waited for.
    pub(super) fn paid(&self, usage: Usage) -> Spent {
        Spent { usage, cost_usd: self.cost(usage), model_time: Duration::ZERO }
    }
}

/// What was spent so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    /// US dollars; `None` from the first request on whose price is not known.
    pub(super) cost_usd: Option<f64>,
    /// How long models were waited for.
    pub(super) model_time: Duration,
}

impl Spent {
    pub(super) fn nothing() -> Self {
        Self { usage: Usage::default(), cost_usd: Some(0.0), model_time: Duration::ZERO }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.usage += more.usage;
        self.cost_usd = self.cost_usd.zip(more.cost_usd).map(|(sum, cost)| sum + cost);
        self.model_time += more.model_time;
    }
}
