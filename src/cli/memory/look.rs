//! Looking at what is remembered.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::{Kind, Memory, Place, Range, day, kind_in_words, now_ms};
use crate::app::OpenError;
use crate::learning::item::{APPLY_AT, FailurePattern, Item, Origin, Scope};
use crate::learning::review::short;
use crate::learning::store::{Found, Query, Store as _};
use crate::protocol::{shorten, thousands};
use crate::record;
use crate::ui::{self, Answer};

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only items of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Also those that stopped helping and are not used any more
    #[arg(long)]
    retired: bool,
    /// As one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    range: Range,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The item, or the beginning of its id
    id: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SearchArgs {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Only items of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// In all projects
    #[arg(long)]
    all: bool,
    /// As one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatsArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn list(args: &ListArgs) -> Result<Answer, OpenError> {
    let memory = Memory::open(&args.range.place)?;
    let mut items = memory.store.every_item(&memory.scopes(&args.range))?;
    items.retain(|item| {
        (args.retired || item.is_in_use()) && args.kind.is_none_or(|kind| item.kind == kind.into())
    });
    if args.json {
        return Ok(pretty(&items.iter().map(as_json).collect()));
    }
    if items.is_empty() {
        ui::tell(
            "nothing is remembered here yet; `agent memory add` and sessions with failures change that",
        );
    }
    let width = place_width(items.iter(), args.range.all);
    Ok(items.iter().map(|item| line(item, width)).collect::<String>().into())
}

pub(super) fn show(args: &ShowArgs) -> Result<Answer, OpenError> {
    let memory = Memory::open(&args.place)?;
    let item = memory.item(&args.id)?;
    if args.json {
        return Ok(pretty(&as_json(&item)));
    }
    let mut page = Page::default();
    page.line("item", &item.id);
    page.line("kind", kind_in_words(item.kind));
    page.line("says", &item.text);
    let scope = match &item.scope {
        Scope::User => "in all projects".to_owned(),
        Scope::Project(project) if *project == memory.project => {
            format!("in this project, {project}")
        }
        Scope::Project(project) => format!("in the project {project}"),
    };
    page.line("holds", &scope);
    let tags = [Some(item.tags.topic.as_str()), item.tags.pattern.as_deref()];
    let tags: Vec<&str> = tags.into_iter().flatten().filter(|tag| !tag.is_empty()).collect();
    if !tags.is_empty() {
        page.line("tags", &tags.join(", "));
    }
    if let Some(failure) = &item.failure {
        page.failure(failure);
    }
    if let Some(because) = &item.because {
        page.line("because", because);
    }
    page.line(
        "from",
        match item.origin {
            Origin::User => "a person: no review changes or drops it",
            Origin::Trace => "a failure and the success after it",
            Origin::Reflection => "a reflection whose patch helped",
            Origin::Model => {
                "a model's word, asked what a failure and its success teach: told, never applied"
            }
        },
    );
    let percent = percent(&item);
    let (seen, wins, losses) = (item.frequency, item.wins, item.losses);
    page.line("sure", &format!("{percent} % (seen {seen}×, helped {wins}×, did not {losses}×)"));
    page.line("used", how_it_is_used(&item));
    page.line("first", &day(item.created_at_ms));
    page.line("last", &day(item.last_occurred_ms));
    for session in &item.evidence {
        page.line("session", &in_words(&memory, session));
    }
    Ok(page.0.into())
}

pub(super) fn search(args: &SearchArgs) -> Result<Answer, OpenError> {
    let memory = Memory::open(&args.place)?;
    let query = Query {
        text: args.words.join(" "),
        project: (!args.all).then(|| memory.project.clone()),
        kinds: args.kind.map(Into::into).into_iter().collect(),
        limit: args.limit,
        now_ms: now_ms(),
    };
    let found = memory.store.search(&query)?;
    if args.json {
        return Ok(pretty(&found.iter().map(found_as_json).collect()));
    }
    if found.is_empty() {
        ui::tell("nothing that is remembered holds one of these words");
    }
    let width = place_width(found.iter().map(|found| &found.item), args.all);
    let lines =
        found.iter().map(|found| format!("{:>5.1}  {}", found.score, line(&found.item, width)));
    Ok(lines.collect::<String>().into())
}

pub(super) fn stats(args: &StatsArgs) -> Result<Answer, OpenError> {
    let memory = Memory::open(&args.place)?;
    let items = memory.store.every_item(&[])?;
    let traces = memory.store.traces(i64::MIN, None)?;
    let count =
        |is_meant: &dyn Fn(&Item) -> bool| items.iter().filter(|item| is_meant(item)).count();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for item in &items {
        *kinds.entry(kind_in_words(item.kind)).or_default() += 1;
    }
    let sum = |of: &dyn Fn(&Item) -> u32| items.iter().map(|item| u64::from(of(item))).sum::<u64>();
    let n_retired = count(&|item| !item.is_in_use());
    let here = memory.scope();
    let n_here = count(&|item| item.scope == here);
    let n_user = count(&|item| item.scope == Scope::User);
    let n_applied = count(&is_applied);
    let (wins, losses) = (sum(&|item| item.wins), sum(&|item| item.losses));
    let bytes = std::fs::metadata(memory.store.path()).map_or(0, |metadata| metadata.len());
    let n_mended =
        traces.iter().filter(|trace| trace.final_success && trace.attempts.len() > 1).count();
    let questions = memory.store.questions(None)?;
    let n_asked_here = questions.iter().filter(|it| it.project == memory.project).count();
    let n_human = traces.iter().filter(|trace| trace.needs_human).count();
    if args.json {
        return Ok(pretty(&json!({
            "file": memory.store.path(), "bytes": bytes, "enabled": memory.config.learning.enabled,
            "items": items.len(), "kinds": kinds, "this_project": n_here, "user": n_user,
            "other_projects": items.len() - n_here - n_user, "retired": n_retired, "applied": n_applied,
            "wins": wins, "losses": losses, "traces": traces.len(), "traces_mended": n_mended,
            "traces_needing_a_person": n_human, "questions": questions.len(),
            "questions_this_project": n_asked_here,
        })));
    }
    let mut page = Page::default();
    page.line("file", &format!("{} ({} bytes)", memory.store.path().display(), thousands(bytes)));
    if !memory.config.learning.enabled {
        page.line("learning", "off: nothing is learnt and nothing is used ([learning] enabled)");
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    let of = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    page.line("items", &format!("{}{of}", items.len()));
    let n_others = items.len() - n_here - n_user;
    page.line("hold", &format!("{n_here} in this project, {n_user} in all, {n_others} in others"));
    page.line("fixes", &format!("{n_applied} made by the program itself, where a call fails so"));
    page.line("retired", &format!("{n_retired} that stopped helping; the next review drops them"));
    page.line("used", &format!("{}× helped, {}× did not", thousands(wins), thousands(losses)));
    let (n_traces, from) = (traces.len(), traces.first().map(|trace| day(trace.created_at_ms)));
    let since = from.map_or_else(String::new, |day| format!(" since {day}"));
    page.line("traces", &format!("{n_traces}{since}: {n_mended} mended, {n_human} need a person"));
    let n_questions = questions.len();
    page.line("questions", &format!("{n_questions} for a model, {n_asked_here} in this project"));
    let mut best: Vec<&Item> =
        items.iter().filter(|item| item.wins > 1 && item.is_in_use()).collect();
    best.sort_by_key(|item| std::cmp::Reverse((item.wins, item.last_occurred_ms)));
    for item in best.into_iter().take(5) {
        page.line("best", &format!("{}  {}× {}", item.id, item.wins, shorten(&item.text, 100)));
    }
    Ok(page.0.into())
}

/// How wide the place of items is; `None`: projects are not named.
fn place_width<'a>(items: impl Iterator<Item = &'a Item>, is_of_all: bool) -> Option<usize> {
    let width = |item: &Item| place(item, is_of_all).chars().count();
    is_of_all.then(|| items.map(width).max().unwrap_or_default())
}

fn place(item: &Item, with_project: bool) -> &str {
    match &item.scope {
        Scope::User => "user",
        Scope::Project(project) if with_project => short(project),
        Scope::Project(_) => "project",
    }
}

/// One line of a list, its place as wide as this.
fn line(item: &Item, width: Option<usize>) -> String {
    let scope = place(item, width.is_some());
    let width = width.unwrap_or("project".len());
    let retired = if item.is_in_use() { "" } else { "(not used any more) " };
    format!(
        "{}  {:<7}  {scope:<width$}  {:>3} %  {:>3}×  {}  {retired}{}\n",
        item.id,
        kind_in_words(item.kind),
        percent(item),
        item.frequency,
        day(item.last_occurred_ms),
        shorten(&item.text, 160),
    )
}

fn percent(item: &Item) -> String {
    format!("{:.0}", item.confidence() * 100.0)
}

/// The program makes the fix itself.
fn is_applied(item: &Item) -> bool {
    item.confidence() >= APPLY_AT
        && item.failure.as_ref().is_some_and(|failure| failure.fix.is_some())
}

fn how_it_is_used(item: &Item) -> &'static str {
    match (item.is_in_use(), item.failure.is_some()) {
        (false, _) => "not any more: it did not help often enough",
        (true, false) => "shown at the start of a task that it fits",
        (true, true) if is_applied(item) => {
            "the fix is made by the program, as a retry, when a call fails like this"
        }
        (true, true) => "told to the model when a call fails like this, or is about to",
    }
}

/// A session, with what it was about where it is recorded in this project.
fn in_words(memory: &Memory, session: &str) -> String {
    match record::glance(&memory.storage.log_path(session)) {
        Ok(glance) => {
            let started = glance.started.get(..10).unwrap_or(&glance.started);
            format!("{session}  {started}  {}", shorten(&glance.task.replace('\n', " "), 80))
        }
        Err(_) => format!("{session}  (not recorded in this folder)"),
    }
}

fn as_json(item: &Item) -> Value {
    let mut value = serde_json::to_value(item).unwrap_or_default();
    if let Value::Object(value) = &mut value {
        value.insert("confidence".to_owned(), json!(item.confidence()));
        value.insert("in_use".to_owned(), json!(item.is_in_use()));
    }
    value
}

fn found_as_json(found: &Found) -> Value {
    json!({"score": found.score, "relevance": found.relevance, "item": as_json(&found.item)})
}

fn pretty(value: &Value) -> Answer {
    Answer::Data(format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()))
}

/// Lines of a name and a value.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:<9} {value}\n"));
    }

    fn failure(&mut self, failure: &FailurePattern) {
        self.line("skill", &failure.skill);
        self.line("fails", &format!("{} ({})", failure.condition, failure.error_type));
        if let Some(signature) = &failure.when.signature {
            self.line("saying", &shorten(&signature.replace('\n', " "), 200));
        }
        if let Some(fix) = &failure.suggested_fix {
            self.line("helped", fix);
        }
        if let Some(fix) = failure.fix.as_ref().and_then(|fix| serde_json::to_string(fix).ok()) {
            self.line("fix", &fix);
        }
    }
}
