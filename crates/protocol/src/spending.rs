//! Adds up what answers of models used and cost: every total of tokens and money is this sum.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::ModelResponded;
use super::format_thousands;
use super::model::{Usage, is_zero};

/// Tokens and cost of answers, of whichever agent and purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spending {
    /// Tokens: as the provider counted them, otherwise an estimate.
    pub usage: Usage,
    /// The part of them that is an estimate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated_tokens: u64,
    /// US dollars of the answers whose price is known; `None`: there are none.
    pub cost_usd: Option<f64>,
    /// Tokens of the answers whose price is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_tokens: u64,
}

impl Spending {
    /// Adds an answer.
    pub fn add_response(&mut self, answer: &ModelResponded) {
        let usage = answer.usage_or_estimate();
        let tokens_unless = |is_known: bool| if is_known { 0 } else { usage.total() };
        self.add_spending(&Self {
            usage,
            estimated_tokens: tokens_unless(answer.usage.is_some()),
            cost_usd: answer.cost_usd,
            unpriced_tokens: tokens_unless(answer.cost_usd.is_some()),
        });
    }

    /// Adds other answers.
    pub fn add_spending(&mut self, more: &Self) {
        self.usage += more.usage;
        self.estimated_tokens = self.estimated_tokens.saturating_add(more.estimated_tokens);
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(more.unpriced_tokens);
        if let Some(cost) = more.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    /// The mark of numbers of which a part is an estimate.
    pub fn estimate_mark(&self) -> &'static str {
        if self.estimated_tokens > 0 { "~" } else { "" }
    }

    /// The cost in a table: `$0.0123`, with `+` if it leaves out models whose price is not known; `-` without any.
    pub fn cost_cell(&self) -> String {
        let more = if self.unpriced_tokens > 0 { "+" } else { "" };
        self.formatted_cost().map_or_else(|| "-".to_owned(), |cost| cost + more)
    }

    /// The cost for display, with four decimals: `$0.0123`; `None` if no price is known.
    pub fn formatted_cost(&self) -> Option<String> {
        self.cost_usd.map(|usd| format!("{}{}", self.estimate_mark(), format_dollars(usd)))
    }

    /// The cost and what it leaves out: `$0.0123, without 1,234 tokens of models whose price is not known`.
    pub fn cost_in_words(&self) -> Option<String> {
        let cost = self.formatted_cost()?;
        Some(match self.unpriced_tokens {
            0 => cost,
            n => format!(
                "{cost}, without {} tokens of models whose price is not known",
                format_thousands(n)
            ),
        })
    }

    /// The tokens for display: `1,234 in (1,000 cached), 56 out`.
    pub fn tokens_in_words(&self) -> String {
        let Usage { input_tokens, output_tokens, cached_tokens, .. } = self.usage;
        let about = self.estimate_mark();
        let cached = match cached_tokens {
            0 => String::new(),
            n => format!(" ({} cached)", format_thousands(n)),
        };
        let (input, output) = (format_thousands(input_tokens), format_thousands(output_tokens));
        format!("{about}{input} in{cached}, {about}{output} out")
    }

    /// Tokens and cost for display.
    pub fn in_words(&self) -> String {
        let cost = self.cost_in_words().map_or_else(String::new, |cost| format!(" · {cost}"));
        format!("{}{cost}", self.tokens_in_words())
    }
}

/// An amount for display, with four decimals.
pub fn format_dollars(usd: f64) -> String {
    format!("${usd:.4}")
}
