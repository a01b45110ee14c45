//! Lists and shows lessons.

use clap::Args;
use serde_json::{Value, json};

use super::{MemoryProjectArgs, ProjectMemory, ScopeArgs, format_day, kind_name};
use crate::app::OpenError;
use crate::cli::json_answer;
use agent_learning::lesson::{FailurePattern, Lesson, MIN_APPLY_CONFIDENCE, Origin, Scope};
use agent_learning::review::short_project_name;
use agent_learning::store::{LessonState, Store as _, TeamLesson, index_terms};
use agent_protocol::shorten;
use agent_ui::CommandOutput;

const NO_LESSONS: &str = "no lessons yet; sessions with failures and `agent memory add` add them";

#[derive(Debug, Args)]
pub(in crate::cli) struct LessonListArgs {
    /// Also retired ones
    #[arg(long)]
    retired: bool,
    /// Those in the team's database for this project, with the number of machines that learnt and used them
    #[arg(long, conflicts_with_all = ["all", "project", "user"])]
    team: bool,
    /// As one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    range: ScopeArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The lesson, by id or prefix
    id: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SearchArgs {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Maximum number of results
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// In all projects
    #[arg(long)]
    all: bool,
    /// As one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

pub(super) fn list(args: &LessonListArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(&args.range.project_args)?;
    if args.team {
        return list_team(&memory, args);
    }
    let mut items = memory.store.lessons(&memory.scopes(&args.range))?;
    items.retain(|item| args.retired || item.is_in_use());
    if args.json {
        return Ok(json_answer(&items.iter().map(to_json).collect::<Vec<_>>()));
    }
    if items.is_empty() {
        agent_ui::print_notice(NO_LESSONS);
    }
    let width = scope_width(items.iter(), args.range.all);
    Ok(items.iter().map(|item| lesson_line(item, width)).collect::<String>().into())
}

/// Those of this project and of the user that are in use.
pub(super) fn list_in_use(memory: &ProjectMemory) -> Result<String, OpenError> {
    let items = memory.store.lessons(&[memory.here(), vec![Scope::User]].concat())?;
    let lines: String =
        items.iter().filter(|item| item.is_in_use()).map(|item| lesson_line(item, None)).collect();
    Ok(if lines.is_empty() { NO_LESSONS.to_owned() } else { lines })
}

/// Numbers of machines, not their names.
fn list_team(memory: &ProjectMemory, args: &LessonListArgs) -> Result<CommandOutput, OpenError> {
    let team = memory.team()?;
    let mut items = team.connect()?.team_lessons(&team.scope)?;
    items.retain(|item| args.retired || item.state != LessonState::Retired);
    if args.json {
        let value = |TeamLesson { lesson, state, reason }: &TeamLesson| {
            let Lesson { frequency, helped, hurt, .. } = lesson;
            json!({"id": lesson.id, "state": state, "text": lesson.text, "learned": frequency,
                "helped": helped, "hurt": hurt, "reason": reason})
        };
        return Ok(json_answer(&items.iter().map(value).collect::<Vec<_>>()));
    }
    let lines = items.iter().map(|TeamLesson { lesson, state, reason }| {
        let Lesson { id, frequency, helped, hurt, .. } = lesson;
        let state = json!(state);
        let (state, why) =
            (state.as_str().unwrap_or_default(), reason.as_deref().unwrap_or_default());
        let why = if why.is_empty() { String::new() } else { format!("({why}) ") };
        let text = shorten(&lesson.text, 160);
        format!(
            "{id}  {state:<9}  learnt by {frequency}, helped {helped}, hurt {hurt}  {why}{text}\n"
        )
    });
    Ok(lines.collect::<String>().into())
}

pub(super) fn show(args: &ShowArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let lesson = memory.find_lesson(&args.id)?;
    if args.json {
        return Ok(json_answer(&to_json(&lesson)));
    }
    Ok(describe(&memory, &lesson).into())
}

pub(super) fn describe(memory: &ProjectMemory, lesson: &Lesson) -> String {
    let mut page = LessonPage::default();
    page.add_line("lesson", &lesson.id);
    page.add_line("kind", kind_name(lesson.kind));
    page.add_line("says", &lesson.text);
    let scope = match &lesson.scope {
        Scope::User => "in all projects".to_owned(),
        Scope::Project(own) if *own == memory.project => format!("in this project, {own}"),
        Scope::Project(project) => format!("in the project {project}"),
        Scope::Team(_) => "in this project, learnt by others".to_owned(),
    };
    page.add_line("applies", &scope);
    if let Some(failure) = &lesson.failure {
        page.add_failure(failure);
    }
    if let Some(quote) = &lesson.quote {
        page.add_line("quote", quote);
    }
    let origin = match lesson.origin {
        Origin::User => "you: no review changes or removes it",
        Origin::Pair => "a failure and the success that followed",
        Origin::Reflection => "a reflection whose failure was resolved",
        Origin::Distilled => "a model that was asked about a turn",
    };
    page.add_line("from", origin);
    let Lesson { frequency, recalled, helped, hurt, .. } = lesson;
    page.add_line("learnt", &format!("{frequency}×"));
    page.add_line("recalled", &format!("{recalled}×: helped {helped}, hurt {hurt}"));
    page.add_line("sure", &format!("{} %", confidence_percent(lesson)));
    page.add_line("used", describe_use(lesson));
    page.add_line("first", &format_day(lesson.created_at_ms));
    page.add_line("last", &format_day(lesson.last_occurred_ms));
    for source in &lesson.sources {
        let (from, to) = source.events;
        let what = describe_session(memory, &source.session);
        page.add_line("session", &format!("{what}, events {from} to {to}"));
    }
    page.0
}

pub(super) fn search(args: &SearchArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let scopes = if args.all { Vec::new() } else { [memory.here(), vec![Scope::User]].concat() };
    let terms = index_terms(&args.words.join(" "));
    let found = memory.store.matching_lessons(&scopes, &terms, args.limit)?;
    if args.json {
        let found = found.iter();
        let found = found.map(|(score, lesson)| json!({"score": score, "lesson": to_json(lesson)}));
        return Ok(json_answer(&found.collect::<Vec<_>>()));
    }
    if found.is_empty() {
        agent_ui::print_notice("no lesson contains any of these words");
    }
    let width = scope_width(found.iter().map(|(_, lesson)| lesson), args.all);
    let lines =
        found.iter().map(|(score, lesson)| format!("{score:>5.1}  {}", lesson_line(lesson, width)));
    Ok(lines.collect::<String>().into())
}

/// `None`: projects are not shown.
fn scope_width<'a>(items: impl Iterator<Item = &'a Lesson>, is_of_all: bool) -> Option<usize> {
    let width = |item: &Lesson| scope_name(item, is_of_all).chars().count();
    is_of_all.then(|| items.map(width).max().unwrap_or_default())
}

fn scope_name(item: &Lesson, with_project: bool) -> &str {
    match &item.scope {
        Scope::User => "user",
        Scope::Project(project) if with_project => short_project_name(project),
        Scope::Project(_) => "project",
        Scope::Team(_) => "team",
    }
}

fn lesson_line(item: &Lesson, width: Option<usize>) -> String {
    let scope = scope_name(item, width.is_some());
    let width = width.unwrap_or("project".len());
    let retired = if item.is_in_use() { "" } else { "(retired) " };
    format!(
        "{}  {:<7}  {scope:<width$}  {:>3} %  {:>3}×  {}  {retired}{}\n",
        item.id,
        kind_name(item.kind),
        confidence_percent(item),
        item.frequency,
        format_day(item.last_occurred_ms),
        shorten(&item.text, 160),
    )
}

fn confidence_percent(item: &Lesson) -> String {
    format!("{:.0}", item.confidence() * 100.0)
}

fn is_applied_by_kernel(item: &Lesson) -> bool {
    item.confidence() >= MIN_APPLY_CONFIDENCE
        && item.failure.as_ref().is_some_and(|failure| failure.fix.is_some())
}

fn describe_use(item: &Lesson) -> &'static str {
    let is_about_code = item.failure.as_ref().is_some_and(|failure| !failure.subjects.is_empty());
    match (item.is_in_use(), item.failure.is_some()) {
        (false, _) => "not any more: it did not help often enough",
        _ if !item.is_recallable() => {
            "not yet: one word relates its calls; it counts once it occurred twice"
        }
        _ if is_about_code => {
            "shown for a task that names its file or program, and when its call fails like this again"
        }
        (true, false) => "shown at the start of a task that it fits",
        (true, true) if is_applied_by_kernel(item) => {
            "the program makes the fix itself, as a retry, when exactly this call fails like this"
        }
        (true, true) => {
            "shown at the start of a task that it fits, and after a call that failed like this"
        }
    }
}

fn describe_session(memory: &ProjectMemory, session: &str) -> String {
    match agent_record::read_overview(&memory.storage.log_path(session)) {
        Ok(overview) => {
            let started = overview.started.get(..10).unwrap_or(&overview.started);
            let short = memory.storage.short_id(session);
            format!("{short}  {started}  {}", shorten(&overview.task.replace('\n', " "), 80))
        }
        Err(_) => format!("{session}  (not recorded in this folder)"),
    }
}

fn to_json(item: &Lesson) -> Value {
    let mut value = serde_json::to_value(item).unwrap_or_default();
    if let Value::Object(value) = &mut value {
        value.insert("confidence".to_owned(), json!(item.confidence()));
        value.insert("in_use".to_owned(), json!(item.is_in_use()));
    }
    value
}

#[derive(Default)]
struct LessonPage(String);

impl LessonPage {
    fn add_line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:<9} {value}\n"));
    }

    fn add_failure(&mut self, failure: &FailurePattern) {
        self.add_line("skill", &failure.skill);
        self.add_line("fails", &format!("{} ({})", failure.condition, failure.error_type));
        if let Some(fix) = &failure.fix {
            self.add_line("fix", &Value::Object(fix.clone()).to_string());
        }
    }
}
