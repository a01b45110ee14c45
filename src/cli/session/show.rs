//! Lists and shows recorded sessions.

use clap::Args;
use serde_json::{Value, json};

use super::{ProjectArgs, session_storage};
use crate::app::{OpenError, Storage};
use crate::cli::{ReportFormat, json_answer, report_left_out};
use agent_protocol::control::Ending;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::shorten;
use agent_protocol::view::call_line;
use agent_record::{SessionOverview, Turn};

#[derive(Debug, Args)]
pub(in crate::cli) struct SessionListArgs {
    #[command(flatten)]
    project_args: ProjectArgs,
    /// As what: one line each, or one JSON array
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
}

pub(super) fn list(args: &SessionListArgs) -> Result<agent_ui::CommandOutput, OpenError> {
    let storage = session_storage(&args.project_args, None)?;
    report_left_out(overviews(&storage).filter_map(|(_, overview)| overview.err()));
    match args.format {
        ReportFormat::Text => {
            let list = format_session_list(&storage);
            if list.is_empty() {
                agent_ui::print_notice("no session of this project is recorded yet");
            }
            Ok(list.into())
        }
        ReportFormat::Json => {
            let list = readable_sessions(&storage).map(|(id, overview)| to_json(&id, &overview));
            Ok(json_answer(&list.collect::<Vec<_>>()))
        }
    }
}

pub(in crate::cli) fn format_session_list(storage: &Storage) -> String {
    let short = storage.short_ids();
    readable_sessions(storage)
        .map(|(id, overview)| session_line(&short.shorten(&id), &overview))
        .collect()
}

/// Short id and description. Sessions without a message of the user (recorded tool calls) are left
/// out.
pub(in crate::cli) fn session_descriptions(storage: &Storage) -> Vec<(String, String)> {
    let with_turns = readable_sessions(storage).filter(|(_, overview)| overview.turns > 0);
    let short = storage.short_ids();
    with_turns.map(|(id, overview)| (short.shorten(&id), describe(&overview))).collect()
}

pub(super) fn session_lines(storage: &Storage, ids: &[String]) -> Vec<String> {
    let short = storage.short_ids();
    let line = |id: &String| {
        let overview = agent_record::read_overview(&storage.log_path(id));
        let about = overview.as_ref().map(describe).unwrap_or_default();
        format!("{}  {about}", short.shorten(id))
    };
    ids.iter().map(line).collect()
}

fn describe(overview: &SessionOverview) -> String {
    let started = overview.started.get(..16).unwrap_or(&overview.started).replace('T', " ");
    let title = shorten(&one_line(&session_title(overview)), 60);
    let ending = match overview.ending.map(Ending::in_words) {
        Some("") | None => ending_text(overview),
        Some(words) => words,
    };
    format!("{title}  ({started}, {ending})")
}

/// The latest first.
fn overviews(
    storage: &Storage,
) -> impl Iterator<Item = (String, Result<SessionOverview, agent_record::LogError>)> {
    let ids = storage.session_ids().into_iter().rev();
    ids.map(|id| {
        let overview = agent_record::read_overview(&storage.log_path(&id));
        (id, overview)
    })
}

fn readable_sessions(storage: &Storage) -> impl Iterator<Item = (String, SessionOverview)> {
    overviews(storage).filter_map(|(id, overview)| Some((id, overview.ok()?)))
}

fn session_line(id: &str, overview: &SessionOverview) -> String {
    let started = &overview.started;
    let started = started.get(..16).unwrap_or(started).replace('T', " ");
    let ending = ending_text(overview);
    let turns = if overview.turns == 1 { "turn" } else { "turns" };
    let cost = overview.spending.cost_cell();
    let task = shorten(&session_title(overview), 60);
    // Names of folders and forged records may contain line breaks.
    let line = format!(
        "{id}  {started}  {ending:<20}  {:>3} {turns:<5}  {cost:>9}  {task}",
        overview.turns
    );
    one_line(&line) + "\n"
}

fn session_title(overview: &SessionOverview) -> String {
    let task = &overview.task;
    overview.name.as_ref().map_or_else(|| task.clone(), |name| format!("{name}: {task}"))
}

fn ending_text(overview: &SessionOverview) -> &'static str {
    let otherwise = if overview.turns == 0 { "no turn" } else { "unfinished" };
    overview.ending.map_or(otherwise, Ending::as_str)
}

fn to_json(id: &str, overview: &SessionOverview) -> Value {
    let mut value = json!({"id": id});
    if let (Value::Object(value), Ok(Value::Object(overview))) =
        (&mut value, serde_json::to_value(overview))
    {
        value.extend(overview);
    }
    value
}

pub(super) fn show(storage: &Storage, id: &str, loaded: &agent_record::LoadedSession) -> String {
    let events = &loaded.events;
    let mut page = SessionPage::default();
    let short = storage.short_ids();
    page.add_line("session", &short.shorten(id));
    page.add_line("file", &storage.log_path(id).display().to_string());
    if let Some(Event { header, body: EventBody::SessionStarted(started) }) = events.first() {
        page.add_line("started", &header.ts);
        page.add_line("model", &started.model);
        page.add_line("folder", &started.cwd);
        page.add_line("mode", started.permission_mode.as_str());
    }
    let sum = agent_record::summary(events);
    if let Some(name) = &sum.name {
        page.add_line("name", name);
    }
    if let Some((from, up_to)) = agent_record::forked_from(events) {
        let from = short.shorten(from);
        page.add_line("forked", &format!("from {from}, up to the end of turn {up_to}"));
    }
    for turn in agent_record::turns(events) {
        page.add_turn(&turn);
    }
    let live = agent_record::live_events(events);
    for open in agent_record::unanswered_calls(live).iter().filter(|open| open.uncertain) {
        let input = serde_json::from_str(&open.call.arguments).unwrap_or_default();
        let call = call_line(&open.call.name, &input);
        page.add_line("unknown", &format!("what {call} changed: the program ended while it ran"));
    }
    page.add_line("in all", &sum.spending.in_words());
    page.add_line("events", &events.len().to_string());
    page.0
}

#[derive(Default)]
struct SessionPage(String);

impl SessionPage {
    fn add_line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:<9} {}\n", one_line(value)));
    }

    fn add_turn(&mut self, turn: &Turn) {
        let gone = if turn.is_live { "" } else { " (removed by a rewind)" };
        let task = shorten(&turn.input, 200);
        self.add_line(&format!("turn {}", turn.number), &format!("{task}{gone}"));
        let ending = turn.finished.as_ref().map_or("unfinished", |done| done.ending.as_str());
        let answers = if turn.rounds == 1 { "answer" } else { "answers" };
        let cost = turn.spending.in_words();
        self.add_line("ended", &format!("{ending} · {} {answers} · {cost}", turn.rounds));
        let Some(finished) = &turn.finished else { return };
        if !finished.files_changed.is_empty() {
            self.add_line("changed", &finished.files_changed.join(", "));
        }
        let Some(report) = &finished.report else {
            self.add_line("answer", &shorten(&finished.result, 400));
            return;
        };
        // The advice of the report is for the moment of the failure.
        self.add_line("failed", &shorten(&report.reason, 400));
        for attempt in &report.attempts {
            let times = match attempt.times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let failure = shorten(&attempt.failure, 160);
            self.add_line("tried", &format!("{}, {times}: {failure}", attempt.what));
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
