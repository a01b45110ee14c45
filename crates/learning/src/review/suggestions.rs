//! Suggestions for the user. The program itself carries out none of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::lesson::{Lesson, Origin, Scope};
use super::{Review, count_sessions};

/// Sessions in which a lesson was learnt, or uses that helped, from which it becomes a rule.
const MIN_SUCCESSES: usize = 2;
const MIN_CONFIDENCE: f64 = 0.7;
const MAX_SUGGESTIONS: usize = 8;
const MAX_RULES: usize = 8;
const MAX_RULES_PER_PROJECT: usize = 3;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Suggestion {
    /// A line for `CODE_LAW.md`, so that it applies for everybody and without the memory.
    AddRule {
        project: String,
        line: String,
        /// The id of the lesson.
        item: String,
        reason: String,
    },
    /// A problem of the machine or project to be fixed, so that the lesson is not needed.
    FixProblem { text: String, reason: String },
    /// A lesson that was wrong at least twice, and at least as often as right: to be rewritten or forgotten.
    ReviewLesson {
        /// The id of the lesson.
        item: String,
        text: String,
        reason: String,
    },
    /// A recurring failure without a lesson.
    AddLesson { text: String, reason: String },
}

pub(super) fn build_suggestions(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut all = suggest_rules(review, items);
    all.extend(suggest_fixes(review).take(MAX_SUGGESTIONS));
    all.extend(suggest_missing_lessons(review).take(MAX_SUGGESTIONS));
    all.extend(suggest_lesson_reviews(items).take(MAX_SUGGESTIONS));
    all
}

/// By project, the project with the most lessons first.
fn suggest_rules(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut projects: BTreeMap<&str, Vec<&Lesson>> = BTreeMap::new();
    for item in items.iter().filter(|item| is_proven(item)) {
        if let Scope::Project(project) = &item.scope {
            projects.entry(project).or_default().push(item);
        }
    }
    let most = if review.period.project.is_some() { MAX_RULES } else { MAX_RULES_PER_PROJECT };
    let mut projects: Vec<(&str, Vec<&Lesson>)> = projects.into_iter().collect();
    projects.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let rules = |(project, mut items): (&str, Vec<&Lesson>)| -> Vec<Suggestion> {
        items.sort_by_key(|item| std::cmp::Reverse((item.helped, item.frequency)));
        let rule = |item: &&Lesson| Suggestion::AddRule {
            project: project.to_owned(),
            line: format!("- {}", item.text),
            item: item.id.clone(),
            reason: usage_summary(item),
        };
        items.iter().take(most).map(rule).collect()
    };
    projects.into_iter().flat_map(rules).collect()
}

fn is_proven(item: &Lesson) -> bool {
    let often = count_sessions(item) >= MIN_SUCCESSES || item.helped as usize >= MIN_SUCCESSES;
    let is_rule = item.origin != Origin::User && item.subjects().is_empty();
    item.is_in_use() && is_rule && often && item.confidence() >= MIN_CONFIDENCE
}

fn usage_summary(item: &Lesson) -> String {
    let times = |n: u32| match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    let lost = match item.hurt {
        0 => String::new(),
        n => format!(", did not {}", times(n)),
    };
    let sessions = match count_sessions(item) {
        0 | 1 => String::new(),
        n => format!(", learnt in {n} sessions"),
    };
    format!("helped {}{lost}{sessions}", times(item.helped))
}

fn suggest_fixes(review: &Review) -> impl Iterator<Item = Suggestion> {
    let faults = review
        .failures
        .iter()
        .filter(|failure| failure.known.is_none() && failure.is_machine_fault && failure.n > 1);
    faults.map(|failure| Suggestion::FixProblem {
        text: format!(
            "Check the machine (`agent doctor` may help): `{}`.",
            failure.message.replace('`', "'")
        ),
        reason: format!("{} times in {} sessions", failure.n, failure.sessions),
    })
}

fn suggest_missing_lessons(review: &Review) -> impl Iterator<Item = Suggestion> {
    let unknown = review.failures.iter().filter(|failure| {
        failure.known.is_none()
            && !failure.is_machine_fault
            && failure.n >= 3
            && failure.resolved < failure.traces
    });
    unknown.map(|failure| Suggestion::AddLesson {
        text: failure.message.clone(),
        reason: format!(
            "{} times in {} sessions, resolved in {} of {} cases",
            failure.n, failure.sessions, failure.resolved, failure.traces
        ),
    })
}

fn suggest_lesson_reviews(items: &[Lesson]) -> impl Iterator<Item = Suggestion> {
    let doubtful =
        items.iter().filter(|item| item.is_in_use() && item.hurt > 1 && item.confidence() <= 0.5);
    doubtful.map(|item| Suggestion::ReviewLesson {
        item: item.id.clone(),
        text: item.text.clone(),
        reason: usage_summary(item),
    })
}
