//! Summaries of the older part of a conversation: a model's text under four headings, and facts that the
//! program adds.
//!
//! User messages are never summarised: they are kept verbatim. The program adds the state of the files, and
//! anything that the model omitted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::call_outcome::CallAction;
use super::compaction::{ArchivedRange, cut_middle};
use super::history::{History, MessageKind, first_text};
use agent_protocol::event::WorkPosition;
use agent_protocol::message::{Part, Role};
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::{pluralize, shorten, strip_reminder_tags};

const SYSTEM: Prompt = Prompt::named("summary/system.md");
const TASK: Prompt = Prompt::named("summary/task.md");
const ARCHIVED: Prompt = Prompt::named("summary/archived.md");

/// Headings for the model, each with a keyword to recognise it.
const HEADINGS: [(&str, &str); 4] = [
    ("### Objectives & Status", "objective"),
    ("### Technical Context (Static)", "technical"),
    ("### Completed Milestones", "milestone"),
    ("### Key Insights & Decisions", "insight"),
];
const FILES: &str = "### File System State";
/// With less room a summary only says where the archived messages are.
const MIN_SUMMARY_BYTES: usize = 400;

/// Further files are only counted.
const MAX_FILES: usize = 40;
/// Limits of each text for the model; the first with which the archived range fits is used.
const TEXT_BYTE_LIMITS: [usize; 5] = [8000, 3000, 1000, 300, 100];

/// The model's text under each of the four headings; `None` for a missing one.
pub type SummarySections = [Option<String>; 4];

/// The system prompt and the message that request a summary.
pub fn summary_request<'a>(
    history: &'a History,
    range: &ArchivedRange,
    focus: Option<&str>,
    room: usize,
) -> (&'a str, String) {
    let mut texts = TEXT_BYTE_LIMITS.iter().map(|cap| transcript(history, range, *cap));
    let text = texts.find(|text| text.len() <= room).unwrap_or_else(|| {
        let least = transcript(history, range, TEXT_BYTE_LIMITS[TEXT_BYTE_LIMITS.len() - 1]);
        cut_middle(&least, room, "(…)")
    });
    let focus = focus.map_or_else(String::new, |focus| format!("Say most about: {focus}"));
    let values = [("focus", focus.as_str()), ("stretch", &text)];
    (history.prompts.text(SYSTEM), fill(history.prompts.text(TASK), &values))
}

/// The sections of a model's answer. `None`: no heading has text below it.
pub fn parse_sections(answer: &str) -> Option<SummarySections> {
    let mut sections = SummarySections::default();
    let mut current = None;
    for line in answer.lines() {
        if line.starts_with('#') {
            let line = line.to_lowercase();
            current = HEADINGS.iter().position(|(_, word)| line.contains(word));
        } else if let Some(at) = current {
            let section = sections[at].get_or_insert_default();
            section.push_str(strip_reminder_tags(line).trim_end());
            section.push('\n');
        }
    }
    for section in &mut sections {
        *section =
            section.take().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    }
    sections.iter().any(Option::is_some).then_some(sections)
}

/// The parts of a summary.
pub struct SummaryParts<'a> {
    pub range: ArchivedRange,
    pub sections: Option<SummarySections>,
    pub plan: &'a Plan,
    /// The path of the complete archived text; `None` if it could not be stored.
    pub record: Option<&'a str>,
    /// Size limit in bytes.
    pub room: usize,
}

/// The summary, as the model receives it.
pub fn compose_summary(history: &History, parts: &SummaryParts<'_>) -> String {
    let place = |place: WorkPosition| format!("turn {} round {}", place.turn, place.round);
    let mut out = format!(
        "## Archived Session Summary (Contains context from {} to {})\n",
        place(parts.range.from),
        place(parts.range.to)
    );
    if parts.room >= MIN_SUMMARY_BYTES {
        write_sections(&mut out, history, parts);
    }
    let record = parts.record.unwrap_or("nothing: no record of this session is kept");
    out.push_str(history.prompts.text(ARCHIVED).replace("{{record}}", record).trim_end());
    out
}

fn write_sections(out: &mut String, history: &History, parts: &SummaryParts<'_>) {
    let facts = SummaryFacts::from_history(history, &parts.range);
    let section_room = parts.room / 6;
    let written = parts.sections.as_ref();
    for (at, (heading, _)) in HEADINGS.iter().enumerate() {
        _ = writeln!(out, "{heading}");
        let text = written.and_then(|sections| sections[at].clone());
        let text = text.unwrap_or_else(|| match at {
            0 => parts
                .plan
                .recap()
                .unwrap_or_else(|| format!("{} calls were made in this stretch", facts.calls)),
            1 => facts.technical(),
            2 => facts.milestones(parts.plan),
            _ => facts.insights(),
        });
        _ = writeln!(out, "{}", cut_middle(text.trim(), section_room, "…"));
    }
    // A quarter is for the files; the rest for the four headings.
    _ = writeln!(out, "{FILES}\n{}", facts.list_files(parts.room / 4));
}

/// The archived range as text: each message with its author, at most `cap` bytes each.
pub fn transcript(history: &History, range: &ArchivedRange, cap: usize) -> String {
    let (messages, notes) = history.body();
    let mut out = String::new();
    for (message, note) in messages.iter().zip(notes).take(range.n_messages) {
        let WorkPosition { turn, round, .. } = note.place;
        let who = match message.role {
            Role::User if note.kind == MessageKind::UserMessage => "user",
            Role::User | Role::System => "program",
            Role::Assistant => "agent",
            Role::Tool => "result",
        };
        for part in &message.parts {
            let (head, text) = match part {
                Part::Text { text } => (String::new(), text.as_str()),
                Part::Image(_) | Part::Carried(_) => continue,
                Part::Call(call) => (format!(" calls {}", call.name), call.arguments.as_str()),
                Part::Result(result) => (String::new(), result.text.as_str()),
            };
            _ = writeln!(out, "[{turn}.{round} {who}{head}]\n{}", cut_middle(text, cap, "…"));
        }
    }
    out
}

#[derive(Default)]
struct SummaryFacts {
    files: BTreeMap<String, FileFacts>,
    /// Each command with its last exit code.
    commands: Vec<(String, Option<i64>)>,
    failures: BTreeMap<String, u32>,
    calls: u32,
    last_answer: Option<String>,
}

#[derive(Default)]
struct FileFacts {
    read: Option<String>,
    changes: u32,
    /// Commands and sub-agents that changed the file.
    changing_calls: u32,
    added: u64,
    removed: u64,
}

impl SummaryFacts {
    fn from_history(history: &History, range: &ArchivedRange) -> Self {
        let (messages, notes) = history.body();
        let mut facts = Self::default();
        for (message, note) in messages.iter().zip(notes).take(range.n_messages) {
            match &note.kind {
                MessageKind::Answer => {
                    let text = Some(first_text(message)).filter(|text| !text.is_empty());
                    facts.last_answer = text.map(str::to_owned).or(facts.last_answer);
                }
                // The calls that the kernel made are included.
                MessageKind::Results(outcomes) => {
                    for outcome in outcomes {
                        facts.calls += 1;
                        if let Some(code) = outcome.error {
                            let failure = format!("{} {}", outcome.tool, code.as_str());
                            *facts.failures.entry(failure).or_default() += 1;
                        }
                        facts.add_action(&outcome.action);
                        for path in &outcome.changed_files {
                            facts.files.entry(path.clone()).or_default().changing_calls += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        facts
    }

    fn add_action(&mut self, action: &CallAction) {
        match action {
            CallAction::ReadLines { path, lines, total } => {
                let file = self.files.entry(path.clone()).or_default();
                let (first, last) = (lines.start(), lines.end());
                file.read = Some(match total {
                    Some(total) if *lines == (1..=*total) => format!("whole, {total} lines"),
                    Some(total) => format!("lines {first}-{last} of {total}"),
                    None => format!("lines {first}-{last}"),
                });
            }
            CallAction::ChangeFile { path, added, removed } => {
                let file = self.files.entry(path.clone()).or_default();
                file.changes += 1;
                file.added += added;
                file.removed += removed;
            }
            CallAction::RunCommand { command, exit_code } => {
                self.commands.retain(|(other, _)| other != command);
                self.commands.push((command.clone(), *exit_code));
            }
            CallAction::Other { .. } => {}
        }
    }

    /// Changed files come first.
    fn list_files(&self, room: usize) -> String {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, file)| !file.is_changed());
        let mut out = String::new();
        for (at, (path, file)) in files.iter().enumerate() {
            let line = format!("- {path}: {}\n", file.in_words());
            if at == MAX_FILES || out.len() + line.len() > room {
                _ = writeln!(out, "- and {} more files", files.len() - at);
                break;
            }
            out.push_str(&line);
        }
        if out.is_empty() { "no file was read or changed\n".to_owned() } else { out }
    }

    fn technical(&self) -> String {
        if self.commands.is_empty() {
            return "no command was run".to_owned();
        }
        let latest = self.commands.iter().rev().take(8);
        let commands = latest.map(|(command, exit_code)| match exit_code {
            Some(code) => format!("`{command}` (exit {code})"),
            None => format!("`{command}`"),
        });
        format!("commands that were run: {}", commands.collect::<Vec<_>>().join(", "))
    }

    fn milestones(&self, plan: &Plan) -> String {
        let done = plan.todos.iter().filter(|todo| todo.status == TodoStatus::Completed);
        let done: Vec<String> = done.map(|todo| format!("- {}", todo.content)).collect();
        let changed = self.files.values().filter(|file| file.is_changed()).count();
        match (done.is_empty(), changed) {
            (false, _) => done.join("\n"),
            (true, 0) => "no file was changed".to_owned(),
            (true, n) => format!("{n} files were changed (see below)"),
        }
    }

    fn insights(&self) -> String {
        let mut out = String::new();
        if !self.failures.is_empty() {
            let failures = self.failures.iter().map(|(failure, n)| format!("{failure} {n} times"));
            _ = writeln!(out, "failures: {}", failures.collect::<Vec<_>>().join(", "));
        }
        if let Some(words) = &self.last_answer {
            _ = writeln!(out, "the agent's last words there: {}", shorten(words.trim(), 600));
        }
        if out.is_empty() { "none is recorded".to_owned() } else { out }
    }
}

impl FileFacts {
    fn is_changed(&self) -> bool {
        self.changes + self.changing_calls > 0
    }

    fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.changes > 0 {
            words
                .push(format!("changed {} times, +{} -{}", self.changes, self.added, self.removed));
        }
        if self.changing_calls > 0 {
            words.push(format!("changed in {}", pluralize(self.changing_calls.into(), "call")));
        }
        if let Some(read) = &self.read {
            words.push(format!("read {read}"));
        }
        words.join("; ")
    }
}
