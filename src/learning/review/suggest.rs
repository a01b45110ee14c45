//! What a person could do about it: lines for `CODE_LAW.md`, fixes worth a rule, items to look at. Nobody but a person
//! does any of it.

use serde::Serialize;

use super::super::item::{Fix, Item, Origin, Scope};
use super::{Review, n_sessions};

/// A lesson is worth a line of the project's rules when it was seen in so many sessions, or helped again after
/// the success that it was learnt from.
const OFTEN: usize = 2;
/// And when it is this sure.
const SURE: f64 = 0.7;
/// So many of each kind are made.
const MAX: usize = 8;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Suggestion {
    /// A line that could stand in `CODE_LAW.md`: then it is in force for everybody, and needs no memory.
    Law {
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
    /// An item that is wrong as often as right: a person could say it better, or forget it.
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

pub(super) fn all(review: &Review, items: &[Item]) -> Vec<Suggestion> {
    let mut all = Vec::new();
    all.extend(laws(items).take(MAX));
    all.extend(mends(review, items).into_iter().take(MAX));
    all.extend(teaches(review).take(MAX));
    all.extend(look_at(items).take(MAX));
    all
}

fn laws(items: &[Item]) -> impl Iterator<Item = Suggestion> {
    let mut worth: Vec<&Item> = items
        .iter()
        .filter(|item| {
            let often = n_sessions(item) >= OFTEN || item.wins as usize >= OFTEN;
            matches!(item.scope, Scope::Project(_))
                && item.origin != Origin::User
                && often
                && item.confidence() >= SURE
        })
        .collect();
    worth.sort_by_key(|item| std::cmp::Reverse((item.wins, item.frequency)));
    worth.into_iter().map(|item| Suggestion::Law {
        line: format!("- {}", item.text),
        item: item.id.clone(),
        because: format!(
            "won {}, lost {}, learnt in {}",
            item.wins,
            item.losses,
            match n_sessions(item) {
                1 => "one session".to_owned(),
                n => format!("{n} sessions"),
            }
        ),
    })
}

fn mends(review: &Review, items: &[Item]) -> Vec<Suggestion> {
    let mut mends = Vec::new();
    for item in items.iter().filter(|item| item.is_in_use() && item.frequency.max(item.wins) > 1) {
        let Some(failure) = &item.failure else { continue };
        let text = match &failure.fix {
            Some(Fix::ReplaceWords { from, .. }) if failure.when.platform.is_some() => {
                format!("Install `{from}`, or say in CODE_LAW.md what is run instead.")
            }
            Some(Fix::RunFirst { command }) => {
                let head = failure.when.command_head.as_deref().unwrap_or("the command");
                format!("Let `{head}` run `{command}` itself.")
            }
            Some(Fix::ReplacePath { from, to }) => {
                format!("Look for what still names `{from}`: it lies at `{to}`.")
            }
            Some(
                Fix::ReplaceWords { .. }
                | Fix::Prefix { .. }
                | Fix::RenameArgument { .. }
                | Fix::SetArguments { .. }
                | Fix::OtherTool { .. },
            )
            | None => continue,
        };
        let because = format!("met {} times, `{}`", item.frequency.max(item.wins), item.id);
        mends.push(Suggestion::Mend { text, because });
    }
    let contexts = review.always.iter().filter(|always| always.elsewhere_well > 0);
    mends.extend(contexts.map(|always| Suggestion::Mend {
        text: format!(
            "Find out why {} never works with {}.",
            always.subject,
            named(&always.only_here)
        ),
        because: format!(
            "failed {} of {} times so, and worked {} of {} times otherwise",
            always.n, always.n, always.elsewhere_well, always.elsewhere
        ),
    }));
    mends
}

fn named(condition: &str) -> String {
    if condition.is_empty() { "these words".to_owned() } else { format!("`{condition}`") }
}

fn teaches(review: &Review) -> impl Iterator<Item = Suggestion> {
    let unknown = review.failures.iter().filter(|failure| {
        failure.known.is_none() && failure.n >= 3 && failure.made_good < failure.traces
    });
    unknown.map(|failure| Suggestion::Teach {
        text: failure.says.clone(),
        because: format!(
            "{} times in {} sessions, made good in {} of {} cases, and nothing is remembered of it",
            failure.n, failure.sessions, failure.made_good, failure.traces
        ),
    })
}

fn look_at(items: &[Item]) -> impl Iterator<Item = Suggestion> {
    let doubtful =
        items.iter().filter(|item| item.is_in_use() && item.losses > 0 && item.confidence() <= 0.5);
    doubtful.map(|item| Suggestion::LookAt {
        item: item.id.clone(),
        text: item.text.clone(),
        because: format!("{} won, {} lost", item.wins, item.losses),
    })
}
