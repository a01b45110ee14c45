//! What a person could do about it: lines for `CODE_LAW.md`, fixes worth a rule, items to look at. Nobody but a person
//! does any of it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::lesson::{Lesson, Origin, Scope};
use super::tally::Frequent;
use super::{Review, n_sessions};

/// A lesson is worth a line of the project's rules when it was seen in so many sessions, or helped again after
/// the success that it was learnt from.
const OFTEN: usize = 2;
/// And when it is this sure.
const SURE: f64 = 0.7;
/// So many of each kind are made.
const MAX: usize = 8;
/// So many lines are proposed for one project's rules; of several, for each.
const LAWS: usize = 8;
const LAWS_EACH: usize = 3;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Suggestion {
    /// A line that could stand in `CODE_LAW.md`: then it is in force for everybody, and needs no memory.
    Law {
        /// Whose rules it is for.
        project: String,
        /// The line.
        line: String,
        /// The item it comes from.
        item: String,
        /// Why, in words.
        because: String,
    },
    /// Something on the machine or in the project that could be mended, so that the lesson is not needed.
    Mend {
        /// What to do.
        text: String,
        /// Why, in words.
        because: String,
    },
    /// An item that was wrong twice, and as often as right: a person could say it better, or forget it.
    LookAt {
        /// The item.
        item: String,
        /// What it says.
        text: String,
        /// Why, in words.
        because: String,
    },
    /// A failure that comes back and of which nothing is known.
    Teach {
        /// The failure.
        text: String,
        /// Why, in words.
        because: String,
    },
}

pub(super) fn all(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut all = laws(review, items);
    all.extend(mends(review).into_iter().take(MAX));
    all.extend(teaches(review).take(MAX));
    all.extend(look_at(items).take(MAX));
    all
}

/// By project, the project with the most lessons first.
fn laws(review: &Review, items: &[Lesson]) -> Vec<Suggestion> {
    let mut projects: BTreeMap<&str, Vec<&Lesson>> = BTreeMap::new();
    for item in items.iter().filter(|item| is_proven(item)) {
        if let Scope::Project(project) = &item.scope {
            projects.entry(project).or_default().push(item);
        }
    }
    let most = if review.period.project.is_some() { LAWS } else { LAWS_EACH };
    let mut projects: Vec<(&str, Vec<&Lesson>)> = projects.into_iter().collect();
    projects.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let of = |(project, mut items): (&str, Vec<&Lesson>)| -> Vec<Suggestion> {
        items.sort_by_key(|item| std::cmp::Reverse((item.helped, item.frequency)));
        let law = |item: &&Lesson| Suggestion::Law {
            project: project.to_owned(),
            line: format!("- {}", item.text),
            item: item.id.clone(),
            because: because(item),
        };
        items.iter().take(most).map(law).collect()
    };
    projects.into_iter().flat_map(of).collect()
}

fn is_proven(item: &Lesson) -> bool {
    let often = n_sessions(item) >= OFTEN || item.helped as usize >= OFTEN;
    item.is_in_use() && item.origin != Origin::User && often && item.confidence() >= SURE
}

fn because(item: &Lesson) -> String {
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

fn mends(review: &Review) -> Vec<Suggestion> {
    let broken = review.failures.iter().filter(|failure| is_machines(failure) && failure.n > 1);
    let mut mends: Vec<Suggestion> = broken
        .map(|failure| Suggestion::Mend {
            text: format!(
                "Look at the machine (`agent doctor` may know): {}.",
                quoted(&failure.says)
            ),
            because: format!("{} times in {} sessions", failure.n, failure.sessions),
        })
        .collect();
    let contexts = review.always.iter().filter(|always| always.elsewhere_well > 0);
    mends.extend(contexts.take(MAX / 4).map(|always| Suggestion::Mend {
        text: format!(
            "Find out why {} never works with {}.",
            quoted(&always.subject),
            named(&always.only_here)
        ),
        because: format!(
            "failed {} of {} times so, and worked {} of {} times otherwise",
            always.n, always.n, always.elsewhere_well, always.elsewhere
        ),
    }));
    mends
}

/// No way of calling would have helped.
fn is_machines(failure: &Frequent) -> bool {
    failure.known.is_none() && failure.says.starts_with("the command could not be run")
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

fn named(condition: &str) -> String {
    if condition.is_empty() { "these words".to_owned() } else { quoted(condition) }
}

fn teaches(review: &Review) -> impl Iterator<Item = Suggestion> {
    let unknown = review.failures.iter().filter(|failure| {
        failure.known.is_none()
            && !is_machines(failure)
            && failure.n >= 3
            && failure.made_good < failure.traces
    });
    unknown.map(|failure| Suggestion::Teach {
        text: failure.says.clone(),
        because: format!(
            "{} times in {} sessions, made good in {} of {} cases",
            failure.n, failure.sessions, failure.made_good, failure.traces
        ),
    })
}

fn look_at(items: &[Lesson]) -> impl Iterator<Item = Suggestion> {
    let doubtful =
        items.iter().filter(|item| item.is_in_use() && item.hurt > 1 && item.confidence() <= 0.5);
    doubtful.map(|item| Suggestion::LookAt {
        item: item.id.clone(),
        text: item.text.clone(),
        because: because(item),
    })
}
