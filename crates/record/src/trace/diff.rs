//! Compares two recorded runs round by round, except for paths of roots, times and ids (`normalise.rs`).

mod rounds;
mod text;

use serde::Serialize;

use self::rounds::{Round, RoundItem, rounds};
use super::normalise::{RunRoot, normalise};
use super::stats::{Stats, last_ending, session_start};
use crate::RecordGaps;
use agent_protocol::event::{Event, EventBody};

pub use text::render_text;

/// A recorded run.
pub struct RecordedRun<'a> {
    pub id: &'a str,
    pub short: &'a str,
    pub directory: &'a str,
    pub events: &'a [Event],
    pub gaps: &'a RecordGaps,
}

/// The comparison of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunComparison {
    /// True if input, decisions and results are equal. Time, tokens and cost may differ.
    pub equal: bool,
    pub equal_rounds: usize,
    /// The first of each kind, in order. After a different decision of the model the runs are not compared.
    pub differences: Vec<Difference>,
    pub a: ComparedRun,
    pub b: ComparedRun,
}

/// The excerpts of both runs at a difference.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub kind: DifferenceKind,
    pub what: String,
    /// `None` if the run lacks the item.
    pub a: Option<RunExcerpt>,
    pub b: Option<RunExcerpt>,
}

/// The part of a round that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The model's input, apart from results.
    Input,
    /// An action of the model or the kernel.
    Decision,
    Result,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunExcerpt {
    pub turn: u32,
    pub round: u32,
    pub seq: u64,
    /// The text, with placeholders for normalised parts.
    pub text: String,
}

/// The origin, ending and statistics of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRun {
    pub id: String,
    #[serde(skip)]
    pub short: String,
    pub started: String,
    pub model: String,
    /// The ending of the last turn, or `unfinished`; `None` without a turn.
    pub ending: Option<String>,
    /// Parts of the record that are not understood and not compared.
    #[serde(skip_serializing_if = "RecordGaps::is_empty")]
    pub not_understood: RecordGaps,
    pub stats: Stats,
}

/// Compares two runs.
pub fn compare(a: &RecordedRun<'_>, b: &RecordedRun<'_>) -> RunComparison {
    let mut finder = DifferenceFinder { a: run_roots(a), b: run_roots(b), differences: Vec::new() };
    let (rounds_a, rounds_b) = (rounds(a.events), rounds(b.events));
    let mut equal_rounds = 0;
    for n in 0..rounds_a.len().max(rounds_b.len()) {
        if !finder.compare_round(rounds_a.get(n), rounds_b.get(n)) {
            break;
        }
        equal_rounds += usize::from(finder.differences.is_empty());
    }
    let differences = finder.differences;
    let (a, b) = (ComparedRun::new(a), ComparedRun::new(b));
    RunComparison { equal: differences.is_empty(), equal_rounds, differences, a, b }
}

impl ComparedRun {
    fn new(run: &RecordedRun<'_>) -> Self {
        let mut stats = Stats::default();
        stats.add_session(run.events);
        let (started, model) = session_start(run.events);
        Self {
            id: run.id.to_owned(),
            short: run.short.to_owned(),
            started,
            model,
            ending: last_ending(run.events),
            not_understood: run.gaps.clone(),
            stats,
        }
    }
}

/// Directories that have other paths in another run.
fn run_roots(run: &RecordedRun<'_>) -> Vec<RunRoot> {
    let cwds = run.events.iter().filter_map(|event| match &event.body {
        EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => Some(&now.cwd),
        _ => None,
    });
    let mut roots: Vec<RunRoot> = cwds.map(RunRoot::project).collect();
    roots.dedup();
    roots.push(RunRoot::session(run.directory));
    roots
}

struct DifferenceFinder {
    a: Vec<RunRoot>,
    b: Vec<RunRoot>,
    differences: Vec<Difference>,
}

impl DifferenceFinder {
    /// False if the runs have nothing in common after this round.
    fn compare_round(&mut self, a: Option<&Round>, b: Option<&Round>) -> bool {
        let (Some(a), Some(b)) = (a, b) else {
            let a = a.and_then(|round| round.items().next());
            let b = b.and_then(|round| round.items().next());
            self.add_difference(a.or(b).map(|_| (a, b)));
            return false;
        };
        let inputs = self.first_difference(&a.inputs, &b.inputs);
        self.add_difference(inputs);
        let decision = match (&a.decision, &b.decision) {
            (Some(a), Some(b)) if self.is_same_text(a, b) => None,
            (None, None) => None,
            (a, b) => Some((a.as_ref(), b.as_ref())),
        };
        let is_parting = decision.is_some();
        self.add_difference(decision);
        if is_parting {
            return false;
        }
        let results = self.first_difference(&a.results, &b.results);
        let is_decision = |item: &RoundItem| item.kind == DifferenceKind::Decision;
        let is_parting = results.is_some_and(|(a, b)| a.into_iter().chain(b).any(is_decision));
        self.add_difference(results);
        !is_parting
    }

    fn first_difference<'a>(&self, a: &'a [RoundItem], b: &'a [RoundItem]) -> Option<ItemPair<'a>> {
        let n = a
            .iter()
            .zip(b)
            .take_while(|(a, b)| a.what == b.what && self.is_same_text(a, b))
            .count();
        match (a.get(n), b.get(n)) {
            (None, None) => None,
            // One run has an item that the other has not.
            (Some(one), Some(other)) if one.what != other.what => {
                if b[n..].iter().any(|item| item.what == one.what) {
                    Some((None, Some(other)))
                } else {
                    Some((Some(one), None))
                }
            }
            pair => Some(pair),
        }
    }

    fn is_same_text(&self, a: &RoundItem, b: &RoundItem) -> bool {
        // No placeholder extends over a line, and most lines need none.
        a.text.split('\n').count() == b.text.split('\n').count()
            && a.text.split('\n').zip(b.text.split('\n')).all(|(one, other)| {
                one == other || normalise(one, &self.a) == normalise(other, &self.b)
            })
    }

    /// Only the first difference of each kind counts.
    fn add_difference(&mut self, pair: Option<ItemPair<'_>>) {
        let Some((a, b)) = pair else { return };
        let Some(kind) = a.or(b).map(|item| item.kind) else { return };
        if self.differences.iter().any(|difference| difference.kind == kind) {
            return;
        }
        let part = |item: &RoundItem, roots: &[RunRoot]| RunExcerpt {
            turn: item.place.turn,
            round: item.place.round,
            seq: item.seq,
            text: normalise(&item.text, roots),
        };
        let what = match (a.map(|item| &item.what), b.map(|item| &item.what)) {
            (Some(a), Some(b)) if a != b => format!("{a} / {b}"),
            (a, b) => a.or(b).cloned().unwrap_or_default(),
        };
        self.differences.push(Difference {
            kind,
            what,
            a: a.map(|item| part(item, &self.a)),
            b: b.map(|item| part(item, &self.b)),
        });
    }
}

type ItemPair<'a> = (Option<&'a RoundItem>, Option<&'a RoundItem>);
