//! Suggestions for the user: lines for `CODE_LAW.md`, problems to fix, lessons to check. The program itself
//! carries out none of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::lesson::{Lesson, Origin, Scope};
use super::{Review, n_sessions};

/// Number of sessions in which a lesson was learnt, or of uses that helped, from which it is suggested for
/// the project's rules.
const OFTEN: usize = 2;
/// Confidence from which it is suggested.
const SURE: f64 = 0.7;
/// Limit: suggestions of each kind.
const MAX: usize = 8;
/// Limit: lines for one project's rules.
const RULES: usize = 8;
const RULES_EACH: usize = 3;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Suggestion {
    /// A line for `CODE_LAW.md`, so that it applies for everybody and without the memory.
    AddRule {
        /// The project.
        project: String,
        /// The line.
        line: String,
        /// The id of the lesson.
        item: String,
        /// The reason.
        reason: String,
    },
    /// A problem of the machine or project to be fixed, so that the lesson is not needed.
    FixProblem {
        /// What to do.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A lesson that was wrong at least twice, and at least as often as right: to be rewritten or forgotten.
    ReviewLesson {
        /// The id of the lesson.
        item: String,
        /// Its text.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A recurring failure without a lesson.
    AddLesson {
        /// The failure.
        text: String,
        /// The reason.
        reason: String,
    },
}

pub(super) fn all(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut all = rules(review, items);
    all.extend(problems(review).into_iter().take(MAX));
    all.extend(missing_lessons(review).take(MAX));
    all.extend(doubtful_lessons(items).take(MAX));
    all
}

/// By project, the project with the most lessons first.
fn rules(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut projects: BTreeMap<&str, Vec<&Lesson>> = BTreeMap::new();
    for item in items.iter().filter(|item| is_proven(item)) {
        if let Scope::Project(project) = &item.scope {
            projects.entry(project).or_default().push(item);
        }
    }
    let most = if review.period.project.is_some() { RULES } else { RULES_EACH };
    let mut projects: Vec<(&str, Vec<&Lesson>)> = projects.into_iter().collect();
    projects.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let of = |(project, mut items): (&str, Vec<&Lesson>)| -> Vec<Suggestion> {
        items.sort_by_key(|item| std::cmp::Reverse((item.helped, item.frequency)));
        let rule = |item: &&Lesson| Suggestion::AddRule {
            project: project.to_owned(),
            line: format!("- {}", item.text),
            item: item.id.clone(),
            reason: reason(item),
        };
        items.iter().take(most).map(rule).collect()
    };
    projects.into_iter().flat_map(of).collect()
}

fn is_proven(item: &Lesson) -> bool {
    let often = n_sessions(item) >= OFTEN || item.helped as usize >= OFTEN;
    item.is_in_use() && item.origin != Origin::User && often && item.confidence() >= SURE
}

fn reason(item: &Lesson) -> String {
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
    let sessions = match n_sessions(item) {
        0 | 1 => String::new(),
        n => format!(", learnt in {n} sessions"),
    };
    format!("helped {}{lost}{sessions}", times(item.helped))
}

fn problems(review: &Review) -> Vec<Suggestion> {
    let broken = review
        .failures
        .iter()
        .filter(|failure| failure.known.is_none() && failure.is_machine_fault && failure.n > 1);
    let mut problems: Vec<Suggestion> = broken
        .map(|failure| Suggestion::FixProblem {
            text: format!(
                "Check the machine (`agent doctor` may help): {}.",
                quoted(&failure.message)
            ),
            reason: format!("{} times in {} sessions", failure.n, failure.sessions),
        })
        .collect();
    let contexts = review.always.iter().filter(|always| always.other_successes > 0);
    problems.extend(contexts.take(MAX / 4).map(|always| Suggestion::FixProblem {
        text: format!(
            "Find out why {} never works with {}.",
            quoted(&always.subject),
            named(&always.distinct_condition)
        ),
        reason: format!(
            "failed {} of {} times with it, and worked {} of {} times without",
            always.n, always.n, always.other_successes, always.other_uses
        ),
    }));
    problems
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

fn named(condition: &str) -> String {
    if condition.is_empty() { "these words".to_owned() } else { quoted(condition) }
}

fn missing_lessons(review: &Review) -> impl Iterator<Item = Suggestion> {
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

fn doubtful_lessons(items: &[Lesson]) -> impl Iterator<Item = Suggestion> {
    let doubtful =
        items.iter().filter(|item| item.is_in_use() && item.hurt > 1 && item.confidence() <= 0.5);
    doubtful.map(|item| Suggestion::ReviewLesson {
        item: item.id.clone(),
        text: item.text.clone(),
        reason: reason(item),
    })
}
