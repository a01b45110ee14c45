//! Lists and shows recorded sessions.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{ProjectArgs, storage};
use crate::app::{OpenError, Storage};
use agent_protocol::event::{Body, Event};
use agent_protocol::shorten;
use agent_protocol::view::call_line;
use agent_record::{Overview, Turn};

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    project_args: ProjectArgs,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ListFormat {
    /// One line each: id, start, how the last turn ended, turns, cost, name and task
    Text,
    /// One JSON array
    Json,
}

pub(super) fn list(args: &ListArgs) -> Result<agent_ui::Answer, OpenError> {
    let storage = storage(&args.project_args, None)?;
    report_unreadable(&storage);
    match args.format {
        ListFormat::Text => {
            let list = list_of_sessions(&storage);
            if list.is_empty() {
                agent_ui::tell("no session of this project is recorded yet");
            }
            Ok(list.into())
        }
        ListFormat::Json => {
            let list: Vec<Value> =
                readable(&storage).map(|(id, overview)| as_json(&id, &overview)).collect();
            let list = serde_json::to_string_pretty(&list).unwrap_or_default();
            Ok(agent_ui::Answer::Data(format!("{list}\n")))
        }
    }
}

/// One line per session, the latest first.
pub(in crate::cli) fn list_of_sessions(storage: &Storage) -> String {
    let short = storage.short_ids();
    readable(storage).map(|(id, overview)| line(&short.of(&id), &overview)).collect()
}

/// The sessions of a project to choose from: short id and description. Sessions without a message of the user
/// (recorded tool calls) are left out.
pub(in crate::cli) fn sessions_in_brief(storage: &Storage) -> Vec<(String, String)> {
    let with_turns = readable(storage).filter(|(_, overview)| overview.turns > 0);
    let short = storage.short_ids();
    with_turns.map(|(id, overview)| (short.of(&id), describe(&overview))).collect()
}

/// These sessions, one per line.
pub(super) fn in_brief(storage: &Storage, ids: &[String]) -> Vec<String> {
    let short = storage.short_ids();
    let line = |id: &String| {
        let overview = agent_record::overview(&storage.log_path(id));
        format!("{}  {}", short.of(id), overview.map_or_else(|_| String::new(), |it| describe(&it)))
    };
    ids.iter().map(line).collect()
}

fn describe(overview: &Overview) -> String {
    let started = overview.started.get(..16).unwrap_or(&overview.started).replace('T', " ");
    format!("{}  ({started}, {})", shorten(&one_line(&title(overview)), 60), ending(overview))
}

/// The sessions of a project, the latest first.
fn overviews(
    storage: &Storage,
) -> impl Iterator<Item = (String, Result<Overview, agent_record::LogError>)> {
    let ids = storage.sessions().into_iter().rev();
    ids.map(|id| {
        let overview = agent_record::overview(&storage.log_path(&id));
        (id, overview)
    })
}

fn readable(storage: &Storage) -> impl Iterator<Item = (String, Overview)> {
    overviews(storage).filter_map(|(id, overview)| Some((id, overview.ok()?)))
}

/// Says which sessions the list leaves out, and why.
fn report_unreadable(storage: &Storage) {
    let mut errors = overviews(storage).filter_map(|(_, overview)| overview.err());
    if let Some(first) = errors.next() {
        let others = match errors.count() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        agent_ui::tell(&format!("left out: {first}{others}"));
    }
}

fn line(id: &str, overview: &Overview) -> String {
    let started = &overview.started;
    let started = started.get(..16).unwrap_or(started).replace('T', " ");
    let ending = ending(overview);
    let turns = if overview.turns == 1 { "turn" } else { "turns" };
    let cost = overview.spending.cost_in_brief();
    let task = shorten(&title(overview), 60);
    // (Names of folders and forged records may contain line breaks.)
    let line = format!(
        "{id}  {started}  {ending:<20}  {:>3} {turns:<5}  {cost:>9}  {task}",
        overview.turns
    );
    one_line(&line) + "\n"
}

/// The name, if the session has one, and the task.
fn title(overview: &Overview) -> String {
    let task = &overview.task;
    overview.name.as_ref().map_or_else(|| task.clone(), |name| format!("{name}: {task}"))
}

fn ending(overview: &Overview) -> &str {
    let otherwise = if overview.turns == 0 { "no turn" } else { "unfinished" };
    overview.ending.as_deref().unwrap_or(otherwise)
}

fn as_json(id: &str, overview: &Overview) -> Value {
    let mut value = json!({"id": id});
    if let (Value::Object(value), Ok(Value::Object(overview))) =
        (&mut value, serde_json::to_value(overview))
    {
        value.extend(overview);
    }
    value
}

pub(super) fn show(storage: &Storage, id: &str, loaded: &agent_record::Loaded) -> String {
    let events = &loaded.events;
    let mut page = Page::default();
    let first = events.first();
    let short = storage.short_ids();
    page.line("session", &short.of(id));
    page.line("file", &storage.log_path(id).display().to_string());
    if let Some(Event { header, body: Body::SessionStarted(started) }) = first {
        page.line("started", &header.ts);
        page.line("model", &started.model);
        page.line("folder", &started.cwd);
        page.line("mode", started.permission_mode.as_str());
    }
    if let Some(name) = agent_record::summary(events).name {
        page.line("name", &name);
    }
    if let Some((from, up_to)) = agent_record::forked_from(events) {
        page.line("forked", &format!("from {}, up to the end of turn {up_to}", short.of(from)));
    }
    for turn in agent_record::turns(events) {
        page.turn(&turn);
    }
    let live = agent_record::live(events);
    for open in agent_record::unanswered(live).iter().filter(|open| open.uncertain) {
        let input = serde_json::from_str(&open.call.arguments).unwrap_or_default();
        let call = call_line(&open.call.name, &input);
        page.line("unknown", &format!("what {call} changed: the program ended while it ran"));
    }
    let sum = agent_record::summary(events);
    page.line("in all", &sum.spending.in_words());
    page.line("events", &events.len().to_string());
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:<9} {}\n", one_line(value)));
    }

    fn turn(&mut self, turn: &Turn) {
        let gone = if turn.is_live { "" } else { " (removed by a rewind)" };
        let task = shorten(&turn.input, 200);
        self.line(&format!("turn {}", turn.number), &format!("{task}{gone}"));
        let ending = turn.finished.as_ref().map_or("unfinished", |done| done.ending.as_str());
        let answers = if turn.rounds == 1 { "answer" } else { "answers" };
        let cost = turn.spending.in_words();
        self.line("ended", &format!("{ending} · {} {answers} · {cost}", turn.rounds));
        let Some(finished) = &turn.finished else { return };
        if !finished.files_changed.is_empty() {
            self.line("changed", &finished.files_changed.join(", "));
        }
        let Some(report) = &finished.report else {
            self.line("answer", &shorten(&finished.result, 400));
            return;
        };
        // The advice of the report is for the moment of the failure.
        self.line("failed", &shorten(&report.reason, 400));
        for tried in &report.attempts {
            let times = match tried.times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let failure = shorten(&tried.failure, 160);
            self.line("tried", &format!("{}, {times}: {failure}", tried.what));
        }
        for (path, how) in &report.files_undone {
            self.line("undone", &format!("{path}: {how}"));
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
