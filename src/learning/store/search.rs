//! How well an item fits a query: one score of words, tags, recency and wins; pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

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
/// What a word is worth that only means what the query says.
const SYNONYM: f64 = 0.6;

/// Word → the others of its groups.
static SYNONYMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut synonyms: HashMap<String, Vec<String>> = HashMap::new();
    let text = include_str!("../../../data/synonyms.txt");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let group: BTreeSet<String> =
            line.split(' ').filter_map(|word| words::of(word).pop()).collect();
        for word in &group {
            let others = synonyms.entry(word.clone()).or_default();
            others.extend(group.iter().filter(|other| *other != word).cloned());
        }
    }
    synonyms
});

fn synonyms(word: &str) -> impl Iterator<Item = &'static str> {
    SYNONYMS.get(word).into_iter().flatten().map(String::as_str)
}

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

/// What a query asks for: each of its words, with those that mean the same.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Word → the idea that it stands for, and what it is worth.
    words: HashMap<String, (usize, f64)>,
    ideas: Vec<Idea>,
    total: f64,
    average_length: f64,
}

/// A word of a query and its synonyms.
#[derive(Clone, Debug)]
pub struct Idea {
    /// Those of them that some item has.
    pub words: Vec<String>,
    /// In so many items they stand at most.
    pub n_items: u64,
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
    /// The words of a query that are asked of the index: [`Terms::new`] wants the number of items in which each stands.
    pub fn asked(text: &str) -> BTreeSet<String> {
        let words: BTreeSet<String> = words::of(text).into_iter().collect();
        let others = words.iter().flat_map(|word| synonyms(word)).map(|other| other.to_owned());
        let others: Vec<String> = others.collect();
        words.into_iter().chain(others).collect()
    }

    /// The words of a query, with the number of items in which each stands.
    pub fn new(text: &str, collection: Collection, frequency: &HashMap<String, u64>) -> Self {
        let count = |word: &str| frequency.get(word).copied().unwrap_or(0);
        let average_length = float(collection.n_words) / float(collection.n_items.max(1));
        let mut terms = Self {
            words: HashMap::new(),
            ideas: Vec::new(),
            total: 0.0,
            average_length: average_length.max(1.0),
        };
        let own: BTreeSet<String> = words::of(text).into_iter().collect();
        for word in &own {
            // Of two words of the query that mean the same the first stands for both.
            if terms.words.contains_key(word) {
                continue;
            }
            let idea = terms.ideas.len();
            let mut known = Vec::new();
            let mut worth = weight(word, count(word), collection.n_items);
            let mut best_other: f64 = 0.0;
            for other in synonyms(word) {
                let n = count(other);
                if n > 0 && !terms.words.contains_key(other) {
                    // Said in the query itself it is worth as much as the word.
                    let share = if own.contains(other) { 1.0 } else { SYNONYM };
                    let worth = share * weight(other, n, collection.n_items);
                    terms.words.insert(other.to_owned(), (idea, worth));
                    best_other = best_other.max(worth);
                    known.push(other.to_owned());
                }
            }
            if count(word) > 0 {
                known.push(word.clone());
            } else if best_other > 0.0 {
                worth = best_other;
            }
            terms.words.insert(word.clone(), (idea, worth));
            terms.total += worth.max(best_other);
            let n_items = known.iter().map(|word| count(word)).sum();
            terms.ideas.push(Idea { words: known, n_items });
        }
        terms
    }

    /// What is asked for that some item has, the rarest first.
    pub fn known(&self) -> Vec<&Idea> {
        let mut known: Vec<&Idea> = self.ideas.iter().filter(|idea| idea.n_items > 0).collect();
        known.sort_by(|one, other| (one.n_items, &one.words).cmp(&(other.n_items, &other.words)));
        known
    }

    /// Score and relevance of an item with these words, as `Found` has them.
    pub fn score<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
        standing: Standing,
        now_ms: i64,
    ) -> (f64, f64) {
        // Idea, the worth of the best of its words that are here, how often they are.
        let mut counts: Vec<(usize, f64, f64)> = Vec::new();
        let mut length = 0.0;
        for word in words {
            length += 1.0;
            let Some((idea, worth)) = self.words.get(word) else { continue };
            match counts.iter_mut().find(|(counted, _, _)| counted == idea) {
                Some((_, best, n)) => {
                    *best = best.max(*worth);
                    *n += 1.0;
                }
                None => counts.push((*idea, *worth, 1.0)),
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
