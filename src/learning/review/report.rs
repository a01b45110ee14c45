//! The sections of a review's report, the most important first. They contain no text of a model.

use super::super::lesson::Lesson;
use super::suggest::Suggestion;
use super::tally::{Attention, Totals};
use super::{Review, by_project};
use crate::protocol::{shorten, thousands};

/// Limit: rows of a table that are shown.
const SHOWN: usize = 10;

/// A block of the report. Texts may contain code in backticks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// The page's title.
    Title(String),
    /// The title of a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A secondary remark.
    Note(String),
    /// A table: its header, its rows, and the columns with numbers.
    Table { head: Vec<&'static str>, rows: Vec<Vec<String>>, numbers: Vec<usize> },
    /// A list.
    List(Vec<String>),
    /// Verbatim lines: a diff.
    Lines(Vec<String>),
}

pub(super) fn blocks(review: &Review) -> Vec<Block> {
    let mut page = vec![Block::Title(title(review)), Block::Text(in_short(review))];
    page.extend(attention(review));
    page.extend(suggestions(review));
    page.extend(failures(review));
    page.extend(methods(review));
    page.extend(always(review));
    page.extend(ways(review));
    page.extend(memory(review));
    page.push(Block::Heading("How this was counted".to_owned()));
    page.push(Block::Note(
        "A piece of work is one success, or a failure with every further try at the same thing. The weight of a method is \
         `(s + 1) / (n + 2)`: each of its `n` pieces adds to `s` 1 where it went well at once, `1 / (1 + k)` after `k` failed \
         attempts, 0 where it ended badly; what all projects did counts in it. How sure an item is: `(wins + 1) / (wins + losses + 2)`. Nothing here was written \
         by a model, and nothing but weights and retired items was changed. `agent memory show ID` shows what an item rests \
         on, `agent trace show SESSION` what happened."
            .to_owned(),
    ));
    page
}

fn title(review: &Review) -> String {
    let (from, to) = (day(review.period.from_ms), day(review.period.to_ms));
    let of = review.period.project.as_deref().map_or("all projects", short);
    format!("Review of {of}, {from} to {to}")
}

/// The end of a project's identity, as a short name.
pub fn short(project: &str) -> &str {
    let parts = project.trim_end_matches('/').rmatch_indices('/').nth(1);
    parts.map_or(project, |(at, _)| &project[at + 1..])
}

fn in_short(review: &Review) -> String {
    let now = &review.totals;
    if now.pieces == 0 {
        return "No task was recorded in this period: sessions with `--no-memory` and those of other projects are \
                not among them."
            .to_owned();
    }
    let mut text = format!(
        "{} in {}. Of {} traces, {} succeeded at the first attempt ({}), {} after a retry, {} failed.",
        many(now.tasks, "task", "tasks"),
        many(now.sessions, "session", "sessions"),
        thousands(now.pieces as u64),
        thousands(now.at_once as u64),
        percent(now.at_once_rate()),
        now.made_good,
        now.failed,
    );
    text.push_str(&compared(now, review.before.as_ref()));
    let by_pattern = now.sources.get("failure_pattern").copied().unwrap_or(0);
    if by_pattern > 0 {
        let of = many(by_pattern, "failure", "failures");
        text.push_str(&format!(" Lessons resolved {of}."));
    }
    match review.needs_human.len() {
        0 => text.push_str(" Nothing needs your attention."),
        1 => text.push_str(" One failure needs your attention."),
        n => text.push_str(&format!(" {n} failures need your attention.")),
    }
    text
}

fn compared(now: &Totals, before: Option<&Totals>) -> String {
    let Some(before) = before else {
        return " Nothing was recorded in the previous period.".to_owned();
    };
    format!(
        " In the previous period, {} of {} succeeded at the first attempt ({}).",
        percent(before.at_once_rate()),
        thousands(before.pieces as u64),
        points(now.at_once_rate() - before.at_once_rate()),
    )
}

fn attention(review: &Review) -> Vec<Block> {
    if review.needs_human.is_empty() {
        return Vec::new();
    }
    let is_of_all = review.period.project.is_none();
    let row = |attention: &Attention| {
        let tried: Vec<String> = attention.tried.iter().map(|tried| shorten(tried, 80)).collect();
        let last = attention.sessions.first().map_or("", String::as_str);
        let others = match attention.sessions.len() {
            0 | 1 => String::new(),
            n => format!(", and {}", many(n - 1, "more session", "more sessions")),
        };
        let skills = attention.skills.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut row = vec![code(&attention.error), skills];
        row.extend(is_of_all.then(|| {
            let projects: Vec<&str> = attention.projects.iter().map(|it| short(it)).collect();
            projects.join(", ")
        }));
        row.push(attention.attempts.to_string());
        row.push(if tried.is_empty() { "–".to_owned() } else { shorten(&tried.join("; "), 160) });
        row.push(format!("{}: `{last}`, turn {}{others}", day(attention.at_ms), attention.turn));
        row
    };
    let mut head = vec!["it said", "kind of call"];
    head.extend(is_of_all.then_some("project"));
    head.extend(["attempts", "fixes tried", "last seen"]);
    let mut blocks = vec![Block::Heading("Needs your attention".to_owned())];
    blocks.push(Block::Table {
        numbers: vec![head.len() - 3],
        head,
        rows: review.needs_human.iter().take(SHOWN).map(row).collect(),
    });
    blocks.extend(more(review.needs_human.len()));
    blocks
}

fn suggestions(review: &Review) -> Vec<Block> {
    if review.suggestions.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Heading("Suggestions".to_owned())];
    let is_of_all = review.period.project.is_none();
    let mut laws: Vec<String> = Vec::new();
    let mut law_of = "";
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    let (mut mends, mut teaches, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
    for suggestion in &review.suggestions {
        match suggestion {
            Suggestion::Law { project, line, item, because } => {
                if is_of_all && law_of != project {
                    law_of = project;
                    laws.push(format!("# {}", short(project)));
                }
                laws.push(format!("+{line}"));
                match sources.iter_mut().find(|(said, _)| said == because) {
                    Some((_, items)) => items.push(format!("`{item}`")),
                    None => sources.push((because, vec![format!("`{item}`")])),
                }
            }
            Suggestion::Mend { text, because } => {
                mends.push(format!("{text} {}.", sentence(because)));
            }
            Suggestion::Teach { text, because } => {
                teaches.push(format!("{}: {because}.", code(text)));
            }
            Suggestion::LookAt { item, text, because } => {
                doubts.push(format!("`{item}` {because}: \u{201c}{text}\u{201d}"));
            }
        }
    }
    if !laws.is_empty() {
        blocks.push(Block::Text(
            "Successful lessons. As lines of CODE_LAW.md they apply to everybody and to every task:"
                .to_owned(),
        ));
        let head = ["--- a/CODE_LAW.md", "+++ b/CODE_LAW.md"].map(str::to_owned);
        blocks.push(Block::Lines(head.into_iter().chain(laws).collect()));
        let sources = sources
            .iter()
            .map(|(because, items)| format!("{}: {}", sentence(because), items.join(", ")));
        blocks.push(Block::Note(format!("{}.", sources.collect::<Vec<_>>().join(". "))));
    }
    let lists = [
        ("Problems to fix, so that no lesson is needed:", mends),
        ("Failures without a lesson; `agent memory add` adds one:", teaches),
        (
            "Lessons that helped in at most half of the cases; edit them (`agent memory edit ID`), or forget them:",
            doubts,
        ),
    ];
    for (title, items) in lists {
        if !items.is_empty() {
            blocks.extend([Block::Text(title.to_owned()), Block::List(items)]);
        }
    }
    blocks
}

fn failures(review: &Review) -> Vec<Block> {
    if review.failures.is_empty() {
        return Vec::new();
    }
    let rows = review.failures.iter().take(SHOWN).map(|failure| {
        vec![
            failure.n.to_string(),
            failure.sessions.to_string(),
            failure.skills.iter().cloned().collect::<Vec<_>>().join(", "),
            code(&failure.says),
            format!("{} of {}", failure.made_good, failure.traces),
            match &failure.known {
                Some((id, text)) => match failure.known_others {
                    0 => format!("{text} (`{id}`)"),
                    n => format!("{text} (`{id}`), and {n} more of the kind"),
                },
                None => "–".to_owned(),
            },
        ]
    });
    let mut blocks = vec![
        Block::Heading("Most frequent failures".to_owned()),
        Block::Table {
            head: vec!["times", "sessions", "kind of call", "it says", "resolved", "lesson"],
            rows: rows.collect(),
            numbers: vec![0, 1],
        },
    ];
    blocks.extend(more(review.failures.len()));
    blocks
}

fn methods(review: &Review) -> Vec<Block> {
    if review.methods.is_empty() {
        return Vec::new();
    }
    // Without a previous period there is no change to report.
    let has_before = review.before.is_some();
    let rows = review.methods.iter().take(SHOWN).map(|method| {
        let change = method
            .rate_before
            .map_or_else(|| "–".to_owned(), |before| points(method.rate - before));
        let mut row = vec![
            method.skill.clone(),
            method.n.to_string(),
            method.at_once.to_string(),
            method.made_good.to_string(),
            method.failed.to_string(),
            percent(method.rate),
        ];
        row.extend(has_before.then_some(change));
        row.push(moved(method.weight_before, method.weight));
        row
    });
    let mut head =
        vec!["kind of call", "traces", "first attempt", "resolved", "failed", "succeeded"];
    head.extend(has_before.then_some("change"));
    head.push("weight");
    let mut blocks = vec![
        Block::Heading("Kinds of calls".to_owned()),
        Block::Text(
            "By cost, highest first. The weight is near 1 if the first attempt succeeds, near 0 if all fail; \
             it starts at 0.50."
                .to_owned(),
        ),
        Block::Table {
            numbers: (1..head.len()).collect(),
            head,
            rows: rows.collect(),
        },
    ];
    let rest = review.methods.len().saturating_sub(SHOWN);
    if rest > 0 {
        let well: usize = review.methods[SHOWN..].iter().map(|method| method.at_once).sum();
        let all: usize = review.methods[SHOWN..].iter().map(|method| method.n).sum();
        blocks.push(Block::Note(format!(
            "And {rest} more, of which {well} of {all} traces succeeded at the first attempt."
        )));
    }
    blocks
}

fn always(review: &Review) -> Vec<Block> {
    if review.always.is_empty() {
        return Vec::new();
    }
    let rows = review.always.iter().take(SHOWN).map(|always| {
        let (condition, elsewhere) = match (always.elsewhere, always.only_here.as_str()) {
            (0, _) => ("in every case".to_owned(), "–".to_owned()),
            (n, "") => (code(&always.context), format!("{} of {n}", always.elsewhere_well)),
            (n, only) => (code(only), format!("{} of {n}", always.elsewhere_well)),
        };
        vec![code(&always.subject), condition, always.n.to_string(), code(&always.error), elsewhere]
    });
    vec![
        Block::Heading("Always failing".to_owned()),
        Block::Table {
            head: vec!["what", "condition", "failed", "it says", "worked elsewhere"],
            rows: rows.collect(),
            numbers: vec![2],
        },
    ]
}

fn ways(review: &Review) -> Vec<Block> {
    if review.ways.is_empty() {
        return Vec::new();
    }
    let rows = review.ways.iter().map(|way| {
        vec![
            way.name
                .as_deref()
                .map_or_else(|| "none chosen".to_owned(), |name| name.replace('_', " ")),
            way.tasks.to_string(),
            format!("{} of {}", way.well, way.tasks),
            format!("{:.1}", way.failed_attempts),
            moved(way.weight_before, way.weight),
        ]
    });
    vec![
        Block::Heading("Methodologies".to_owned()),
        Block::Table {
            head: vec![
                "methodology",
                "tasks",
                "without unresolved failures",
                "failed attempts per task",
                "weight",
            ],
            rows: rows.collect(),
            numbers: vec![1, 2, 3, 4],
        },
    ]
}

fn memory(review: &Review) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Memory".to_owned())];
    let row = |item: &Lesson| {
        vec![
            format!("`{}`", item.id),
            item.text.clone(),
            item.failure
                .as_ref()
                .map_or_else(|| "–".to_owned(), |failure| code(&shorten(&failure.condition, 80))),
            item.helped.to_string(),
            item.hurt.to_string(),
            percent(item.confidence()),
        ]
    };
    let head = || vec!["lesson", "text", "about", "helped", "did not help", "confidence"];
    let mut table = |title: &str, items: &[Lesson]| {
        if items.is_empty() {
            return;
        }
        blocks.push(Block::Text(title.to_owned()));
        blocks.push(Block::Table {
            head: head(),
            rows: items.iter().take(SHOWN).map(row).collect(),
            numbers: vec![3, 4, 5],
        });
        blocks.extend(more(items.len()));
    };
    table("Learnt in this period, the most helpful first:", &review.learnt);
    let known_before: Vec<Lesson> = review
        .helping
        .iter()
        .filter(|item| review.learnt.iter().all(|learnt| learnt.id != item.id))
        .cloned()
        .collect();
    table("Helping, learnt before:", &known_before);
    table("Retired, because they stopped helping:", &review.retired);
    if review.learnt.is_empty() && review.helping.is_empty() && review.retired.is_empty() {
        blocks.push(Block::Text(
            "Nothing was learnt in this period, and no lesson has helped yet.".to_owned(),
        ));
    }
    if review.period.project.is_none() && by_project(&review.learnt).len() > 1 {
        let projects = by_project(&review.learnt).into_iter();
        let projects = projects.map(|(project, n)| format!("{} {n}", short(project)));
        blocks
            .push(Block::Note(format!("By project: {}.", projects.collect::<Vec<_>>().join(", "))));
    }
    blocks
}

/// The note about rows that are not shown.
fn more(n: usize) -> Option<Block> {
    (n > SHOWN)
        .then(|| Block::Note(format!("And {} more: `--format json` has them all.", n - SHOWN)))
}

fn many(n: usize, one: &str, more: &str) -> String {
    format!("{} {}", thousands(n as u64), if n == 1 { one } else { more })
}

/// A text as code, in one line.
fn code(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if text.is_empty() { "–".to_owned() } else { format!("`{text}`") }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A change of a share, in percentage points.
fn points(change: f64) -> String {
    let points = (change * 100.0).round();
    if points == 0.0 { "±0".to_owned() } else { format!("{points:+.0}") }
}

fn moved(before: f64, now: f64) -> String {
    let is_new = (before - 0.5).abs() < 1e-9;
    if is_new || (before - now).abs() < 0.005 {
        format!("{now:.2}")
    } else {
        format!("{before:.2} → {now:.2}")
    }
}

/// A date for display.
fn day(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    time.map_or_else(|_| "–".to_owned(), |time| time.chars().take(10).collect())
}
