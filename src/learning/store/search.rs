//! How well an item fits a query: one score of words, tags, recency and wins; pure.

use std::collections::HashMap;

use super::super::item::Item;
use super::words;

/// How soon further uses of one word stop to count, and how much a long text is held against an item.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.5;
/// What was last seen so long ago has lost half of what recency gives.
pub const HALF_LIFE_DAYS: f64 = 90.0;
/// The most that age can take from a score.
const RECENCY_SHARE: f64 = 0.25;
const DAY_MS: f64 = 86_400_000.0;

/// The words by which an item is found: its text, its tags (which count twice), the failure and the fix.
pub fn words_of(item: &Item) -> Vec<String> {
    let mut found = words::of(&item.text);
    let tags = [Some(item.tags.topic.as_str()), item.tags.pattern.as_deref()];
    for tag in tags.into_iter().flatten() {
        found.extend(words::of(tag));
        found.extend(words::of(tag));
    }
    let mut more = vec![item.because.as_deref()];
    if let Some(failure) = &item.failure {
        more.extend([
            Some(failure.condition.as_str()),
            Some(failure.error_type.as_str()),
            failure.suggested_fix.as_deref(),
            failure.when.signature.as_deref(),
            failure.when.command_head.as_deref(),
            failure.when.argument.as_deref(),
            failure.when.path.as_deref(),
        ]);
    }
    for text in more.into_iter().flatten() {
        found.extend(words::of(text));
    }
    found
}

/// What is counted of all items, for the weight of a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collection {
    /// How many there are.
    pub n_items: u64,
    /// How many words they have in all.
    pub n_words: u64,
}

/// A query's words and what each is worth.
#[derive(Clone, Debug)]
pub struct Terms {
    weights: HashMap<String, f64>,
    total: f64,
    average_length: f64,
}

/// What is known of an item besides its words.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// [`Item::confidence`].
    pub confidence: f64,
    /// When it was last seen or used, in milliseconds since 1970.
    pub last_occurred_ms: i64,
}

impl Standing {
    /// An item's.
    pub fn of(item: &Item) -> Self {
        Self { confidence: item.confidence(), last_occurred_ms: item.last_occurred_ms }
    }
}

impl Terms {
    /// The words of a query, with the number of items in which each stands.
    pub fn new(text: &str, collection: Collection, frequency: &HashMap<String, u64>) -> Self {
        let mut weights = HashMap::new();
        for word in words::of(text) {
            let n = frequency.get(&word).copied().unwrap_or(0);
            weights.entry(word).or_insert_with_key(|word| weight(word, n, collection.n_items));
        }
        // Summed in one order: a score must not depend on how a map was filled.
        let mut sorted: Vec<f64> = weights.values().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let total = sorted.iter().sum();
        let average_length = float(collection.n_words) / float(collection.n_items.max(1));
        Self { weights, total, average_length: average_length.max(1.0) }
    }

    /// Score and relevance of an item with these words, as `Found` has them.
    pub fn score<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
        standing: Standing,
        now_ms: i64,
    ) -> (f64, f64) {
        let mut counts: Vec<(&str, f64, f64)> = Vec::new();
        let mut length = 0.0;
        for word in words {
            length += 1.0;
            let Some((word, weight)) = self.weights.get_key_value(word) else { continue };
            match counts.iter_mut().find(|(counted, _, _)| counted == word) {
                Some((_, _, n)) => *n += 1.0,
                None => counts.push((word, *weight, 1.0)),
            }
        }
        if counts.is_empty() || self.total <= 0.0 {
            return (0.0, 0.0);
        }
        let damping = SATURATION * (1.0 - LENGTH + LENGTH * length / self.average_length);
        let text: f64 = counts
            .iter()
            .map(|(_, weight, n)| weight * n * (SATURATION + 1.0) / (n + damping))
            .sum();
        let covered: f64 = counts.iter().map(|(_, weight, _)| weight).sum();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of some years")]
        let age_days = (now_ms - standing.last_occurred_ms).max(0) as f64 / DAY_MS;
        let recency = 1.0 - RECENCY_SHARE * (1.0 - 0.5_f64.powf(age_days / HALF_LIFE_DAYS));
        // What nothing is known of has 0.5: it is neither better nor worse for that.
        let trust = 0.5 + standing.confidence;
        (text * recency * trust, (covered / self.total).min(1.0))
    }
}

/// What a word is worth that stands in `n` of all items (BM25's inverse document frequency, never below 0).
///
/// Of the words that stand in none a compound is worth nothing, since its parts are words as well, and a pair of
/// signs half, since half of the pairs in a sentence are no words.
fn weight(word: &str, n: u64, n_items: u64) -> f64 {
    let (n, all) = (float(n), float(n_items));
    let weight = (1.0 + (all - n).max(0.0).mul_add(1.0, 0.5) / (n + 0.5)).ln();
    match word {
        _ if n > 0.0 => weight,
        _ if words::is_compound(word) => 0.0,
        _ if words::is_pair(word) => weight / 2.0,
        _ => weight,
    }
}

fn float(n: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of items and words")]
    let n = n as f64;
    n
}
