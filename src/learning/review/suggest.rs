//! What a person could do about it: lines for `CODE_LAW.md`, fixes worth a rule, items to look at. Nobody but a person
//! does any of it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::item::{Fix, Item, Origin, Scope};
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
        /// Where; `None`: on this machine, or in more than one project.
        project: Option<String>,
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

pub(super) fn all(review: &Review, items: &[Item]) -> Vec<Suggestion> {
    let mut all = laws(review, items);
    all.extend(mends(review, items).into_iter().take(MAX));
    all.extend(teaches(review).take(MAX));
    all.extend(look_at(items).take(MAX));
    all
}

/// By project, the project with the most lessons first.
fn laws(review: &Review, items: &[Item]) -> Vec<Suggestion> {
    let mut projects: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in items.iter().filter(|item| is_proven(item)) {
        if let Scope::Project(project) = &item.scope {
            projects.entry(project).or_default().push(item);
        }
    }
    let most = if review.period.project.is_some() { LAWS } else { LAWS_EACH };
    let mut projects: Vec<(&str, Vec<&Item>)> = projects.into_iter().collect();
    projects.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let of = |(project, mut items): (&str, Vec<&Item>)| -> Vec<Suggestion> {
        items.sort_by_key(|item| std::cmp::Reverse((item.wins, item.frequency)));
        let law = |item: &&Item| Suggestion::Law {
            project: project.to_owned(),
            line: format!("- {}", as_rule(item)),
            item: item.id.clone(),
            because: because(item),
        };
        items.iter().take(most).map(law).collect()
    };
    projects.into_iter().flat_map(of).collect()
}

fn is_proven(item: &Item) -> bool {
    let often = n_sessions(item) >= OFTEN || item.wins as usize >= OFTEN;
    item.is_in_use() && item.origin != Origin::User && often && item.confidence() >= SURE
}

/// As a person would write it: what is to be done, without what the failure said.
fn as_rule(item: &Item) -> String {
    if let Some(Fix::ReplacePath { from, to }) =
        item.failure.as_ref().and_then(|failure| failure.fix.as_ref())
    {
        return format!("`{from}` lies at `{to}` now.");
    }
    let parts = item
        .text
        .split_once(" (it says: ")
        .and_then(|(head, rest)| rest.rsplit_once(')').map(|(_, tail)| (head, tail)));
    parts.map_or_else(|| item.text.clone(), |(head, tail)| format!("{head}{tail}"))
}

fn because(item: &Item) -> String {
    let times = |n: u32| match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    let lost = match item.losses {
        0 => String::new(),
        n => format!(", did not {}", times(n)),
    };
    let sessions = match n_sessions(item) {
        0 | 1 => String::new(),
        n => format!(", learnt in {n} sessions"),
    };
    format!("helped {}{lost}{sessions}", times(item.wins))
}

/// What is in the way of all comes first, then what would save most lessons.
fn mends(review: &Review, items: &[Item]) -> Vec<Suggestion> {
    let broken = review.failures.iter().filter(|failure| is_machines(failure) && failure.n > 1);
    let mut mends: Vec<Suggestion> = broken
        .map(|failure| Suggestion::Mend {
            project: None,
            text: format!(
                "Look at the machine (`agent doctor` may know): {}.",
                quoted(&failure.says)
            ),
            because: format!("{} times in {} sessions", failure.n, failure.sessions),
        })
        .collect();
    let contexts = review.always.iter().filter(|always| always.elsewhere_well > 0);
    mends.extend(contexts.take(MAX / 4).map(|always| Suggestion::Mend {
        project: None,
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
    let mut often: Vec<&Item> =
        items.iter().filter(|item| item.is_in_use() && item.frequency.max(item.wins) > 1).collect();
    often.sort_by_key(|item| std::cmp::Reverse((item.wins, item.frequency)));
    mends.extend(often.into_iter().filter_map(|item| {
        Some(Suggestion::Mend {
            project: match &item.scope {
                Scope::Project(project) => Some(project.clone()),
                Scope::User => None,
            },
            text: mended(item)?,
            because: format!("the lesson {}, `{}`", because(item), item.id),
        })
    }));
    mends
}

/// What would make a lesson needless.
fn mended(item: &Item) -> Option<String> {
    let failure = item.failure.as_ref()?;
    match failure.fix.as_ref()? {
        // Only a program can be installed, not its option.
        Fix::ReplaceWords { from, to }
            if failure.when.platform.is_some()
                && failure.error_type == "dependency_error"
                && !from.starts_with('-') =>
        {
            Some(format!("Install `{from}`, or say in CODE_LAW.md that `{to}` is used instead."))
        }
        Fix::RunFirst { command } => {
            let head = failure.when.command_head.as_deref().unwrap_or("the command");
            let is_bought = head.contains("node_modules/") || !head.contains('/');
            Some(if is_bought {
                format!("Make `{command}` part of the project's setup: `{head}` needs it.")
            } else {
                format!("Let `{head}` run `{command}` itself.")
            })
        }
        Fix::ReplacePath { from, to } => {
            Some(format!("Correct what still names `{from}`: it lies at `{to}`."))
        }
        Fix::ReplaceWords { .. }
        | Fix::Prefix { .. }
        | Fix::RenameArgument { .. }
        | Fix::SetArguments { .. }
        | Fix::OtherTool { .. } => None,
    }
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

fn look_at(items: &[Item]) -> impl Iterator<Item = Suggestion> {
    let doubtful =
        items.iter().filter(|item| item.is_in_use() && item.losses > 1 && item.confidence() <= 0.5);
    doubtful.map(|item| Suggestion::LookAt {
        item: item.id.clone(),
        text: item.text.clone(),
        because: because(item),
    })
}
