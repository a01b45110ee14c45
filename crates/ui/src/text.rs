//! The format `text`: the final answer on standard output, progress on standard error.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::write_text;
use agent_protocol::control::FailureSignal;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Caller, Event, EventBody, McpServerState, ModelRequested, NOTICE_SOURCES, Sink, StampedEvent,
    TurnFinished, describe_mode_change, describe_resume_point,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::model::Purpose;
use agent_protocol::recall::{RecallMoment, RecalledLesson};
use agent_protocol::spending::Spending;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use agent_protocol::view::call_line;
use agent_protocol::{pluralize, shorten};

/// A longer command is announced before its result.
const LONG_COMMAND: Duration = Duration::from_secs(2);

/// The amount of output on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only the reason why a task failed.
    Quiet,
    /// A line for each call, decision and check.
    Progress,
    /// Also requests, answers and tokens.
    Verbose,
}

/// The interface of `agent run` for users.
pub(super) struct TextOutput {
    out: Box<dyn Write + Send>,
    /// On a terminal control characters of the answer are escaped.
    is_terminal: bool,
    progress_out: Box<dyn Write + Send>,
    verbosity: Verbosity,
    last_signal: Option<FailureSignal>,
    /// Checks ran in this turn.
    has_checks: bool,
    /// The program ended during the last turn of the resumed session.
    is_cut_off: bool,
    /// The keys are ids; the values contain role and number.
    agents: HashMap<String, String>,
    /// The keys are calls. An announcement is printed once.
    running: HashMap<String, (Instant, String)>,
}

impl TextOutput {
    pub(super) fn new(
        out: Box<dyn Write + Send>,
        is_terminal: bool,
        progress_out: Box<dyn Write + Send>,
        verbosity: Verbosity,
    ) -> Self {
        Self {
            out,
            is_terminal,
            progress_out,
            verbosity,
            last_signal: None,
            has_checks: false,
            is_cut_off: false,
            agents: HashMap::new(),
            running: HashMap::new(),
        }
    }

    fn print_lessons(&mut self, how: &str, items: &[RecalledLesson]) {
        for item in items {
            self.print_progress(&format!("  ✦ {how}: {} [{}]", item.text, item.id));
        }
    }

    /// Escapes control characters, whether or not the output is a terminal.
    fn print_line(&mut self, line: &str) {
        write_text(self.progress_out.as_mut(), format!("{}\n", escape_prose(line)));
    }

    fn print_progress(&mut self, line: &str) {
        if self.verbosity >= Verbosity::Progress {
            self.print_line(line);
        }
    }

    fn print_verbose(&mut self, line: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.print_line(line);
        }
    }

    /// Checks, calls, and changed files.
    fn describe_work(&mut self, finished: &TurnFinished) -> String {
        let TurnFinished { calls, files_changed, ignored_files_changed: n_ignored, .. } = finished;
        let mut facts = Vec::new();
        if std::mem::take(&mut self.has_checks) && finished.verified == Some(true) {
            facts.push("checks passed".to_owned());
        }
        facts.push(match *calls {
            0 => "no tool was called".to_owned(),
            n => pluralize(n, "tool call"),
        });
        let n_files = files_changed.len() as u64;
        for (n, what) in [(n_files, "file"), (*n_ignored, "ignored file")] {
            facts.extend((n > 0).then(|| format!("{} changed", pluralize(n, what))));
        }
        // What a call changed outside the project is not known.
        if *calls + n_files + n_ignored == 0 {
            facts.push("no file changed".to_owned());
        }
        facts.join(", ")
    }

    fn print_turn_end(&mut self, finished: &TurnFinished) {
        let work = self.describe_work(finished);
        let spending = finished.spending();
        let tilde = spending.estimate_mark();
        let cost = spending.formatted_cost().filter(|_| spending.cost_usd > Some(0.0));
        let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
        self.print_progress(&format!(
            "{} {} · {work} · {}, {tilde}{} tokens in, {tilde}{} out{cost} · {:.1} s",
            if finished.ending.is_success() { "✓" } else { "✗" },
            finished.ending.as_str().replace('_', " "),
            pluralize(finished.rounds.into(), "model answer"),
            spending.usage.input_tokens,
            spending.usage.output_tokens,
            Duration::from_millis(finished.time_ms).as_secs_f64(),
        ));
        if !finished.open_todos.is_empty() {
            self.print_progress(&format!("open todos: {}", finished.open_todos.join("; ")));
        }
        if finished.ending.has_answer() {
            // The model's text unchanged; on a terminal its control characters are visible.
            let answer = finished.result.as_str();
            let answer = if self.is_terminal { escape_prose(answer) } else { answer.into() };
            let end = if answer.ends_with('\n') { "" } else { "\n" };
            write_text(self.out.as_mut(), format!("{answer}{end}"));
            for error in &finished.errors {
                self.print_line(&format!("agent: {error}"));
            }
        } else {
            // One line; with progress output the whole report is printed.
            let report = finished.result.trim_end();
            let first = report.lines().next().unwrap_or_default();
            let shown = if self.verbosity >= Verbosity::Progress { report } else { first };
            self.print_line(&format!("agent: {shown}"));
        }
    }
}

impl Sink for TextOutput {
    fn receive_recorded(&mut self, events: &[&Event], _spending: Spending) {
        let last = events.iter().rev().map(|event| &event.body).find(|body| {
            matches!(body, EventBody::TurnStarted { .. } | EventBody::TurnFinished(_))
        });
        self.is_cut_off = matches!(last, Some(EventBody::TurnStarted { .. }));
    }

    /// Calls are indented; the Task call reports the beginning and the end.
    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        let event = &stamped.event;
        if let EventBody::AgentStarted { role, .. } = &event.body {
            let n = self.agents.len() + 1;
            self.agents.insert(event.header.agent.clone(), format!("{role} {n}"));
        }
        let agent = self.agents.get(&event.header.agent).cloned().unwrap_or_default();
        let line = match &event.body {
            EventBody::AgentStarted { description, prompt, .. } => {
                let task = if description.is_empty() { prompt } else { description };
                shorten(&task.replace('\n', " "), 120)
            }
            EventBody::ToolFinished { tool, envelope, by, .. } => {
                call_and_outcome(tool, envelope, *by, 0).trim().to_owned()
            }
            EventBody::Error { message, retry_in_ms: Some(delay), attempt, .. } => {
                let attempt = attempt.unwrap_or_default();
                format!("! try {attempt}: {message}; again in {delay} ms")
            }
            _ => return,
        };
        self.print_progress(&format!("    [{agent}] {line}"));
    }

    fn receive(&mut self, stamped: &StampedEvent) {
        if let EventBody::ToolFinished { call, .. } = &stamped.event.body {
            self.running.remove(call);
        }
        self.has_checks |= matches!(stamped.event.body, EventBody::CheckFinished { .. });
        let line = match &stamped.event.body {
            EventBody::SessionStarted(started) => {
                return self.print_verbose(&format!(
                    "{} · {} · sandbox {}",
                    started.model,
                    started.permission_mode.as_str(),
                    started.sandbox.backend
                ));
            }
            EventBody::SessionResumed { .. } => {
                let after = describe_resume_point(stamped.event.header.place.turn, self.is_cut_off);
                return self.print_progress(&format!("↺ resumed {after}"));
            }
            EventBody::ModelRequested(ModelRequested { messages, bytes, .. }) => {
                return self.print_verbose(&format!("→ {messages} messages, {bytes} bytes"));
            }
            EventBody::ModelResponded(answer) => {
                let is_shown = answer.purpose == Purpose::Main && !answer.calls.is_empty();
                if is_shown && !answer.text.trim().is_empty() {
                    self.print_progress(answer.text.trim());
                }
                let tokens = answer.usage.map_or_else(String::new, |usage| {
                    format!(", {} in, {} out", usage.input_tokens, usage.output_tokens)
                });
                let (n_calls, time_ms) = (answer.calls.len(), answer.time_ms);
                return self.print_verbose(&format!("← {n_calls} calls in {time_ms} ms{tokens}"));
            }
            EventBody::ToolStarted { call, tool, input, .. } => {
                let line = format!("{} · running", call_line(tool, input));
                self.running.insert(call.clone(), (Instant::now(), line));
                return;
            }
            EventBody::ToolOutput { call, .. }
                if self.running.get(call).is_some_and(|(at, _)| at.elapsed() >= LONG_COMMAND) =>
            {
                let Some((_, line)) = self.running.remove(call) else { return };
                line
            }
            // Changes of the plan are printed with the plan.
            EventBody::ToolFinished { tool, envelope, .. }
                if tool == "TodoWrite" && envelope.error().is_none() =>
            {
                return;
            }
            EventBody::ToolFinished { tool, envelope, synthetic: true, .. } => {
                let call = call_line(tool, &envelope.context.params_input);
                let message = envelope.error().map_or("", |error| &error.message);
                format!("! {call}: {message}")
            }
            EventBody::ToolFinished { tool, envelope, by, .. } => {
                let step = stamped.event.header.place.step;
                self.print_progress(call_and_outcome(tool, envelope, *by, step).trim_end());
                for note in envelope.notes() {
                    self.print_progress(&format!("    ! {}", note.replace('\n', " ")));
                }
                return;
            }
            EventBody::Evaluation { failure, .. } => {
                self.last_signal = failure.as_ref().map(|failure| failure.signal);
                return;
            }
            EventBody::ControlDecided { decision, reason, after, .. } => {
                match after.describe_decision(*decision, reason, self.last_signal) {
                    Some(text) => format!("↻ {text}"),
                    None => return,
                }
            }
            EventBody::MemoryRecalled(recalled)
                if recalled.moment == RecallMoment::Task && self.verbosity < Verbosity::Verbose =>
            {
                let lessons = pluralize(recalled.items.len() as u64, "lesson");
                format!("✦ remembers {lessons} of earlier sessions: `agent memory list` lists them")
            }
            EventBody::MemoryRecalled(recalled) => {
                let how = if recalled.applied { "known, tries" } else { "remembers" };
                return self.print_lessons(how, &recalled.items);
            }
            EventBody::MemoryWritten(written) => return self.print_lessons("learnt", &written.new),
            EventBody::Error { message, retry_in_ms: Some(delay), attempt, .. } => {
                let attempt = attempt.unwrap_or_default();
                format!("! try {attempt}: {message}; again in {delay} ms")
            }
            EventBody::ModelFallback { to, reason, .. } => {
                let line = format!("agent: {reason}; {to} answers for the rest of the turn");
                return self.print_line(&line);
            }
            EventBody::Error { source, message, .. }
                if NOTICE_SOURCES.contains(&source.as_str()) || source == "telemetry" =>
            {
                return self.print_line(&format!("agent: {message}"));
            }
            EventBody::McpServer { server, state: McpServerState::Failed, detail, .. } => {
                return self.print_line(&format!("agent: MCP server {server}: {detail}"));
            }
            EventBody::McpServer { server, state, .. } => {
                return self.print_verbose(&format!("  mcp {server}: {}", state.as_str()));
            }
            EventBody::HookFinished(HookFinished { message: Some(message), .. }) => {
                return self.print_line(&format!("agent: hook: {message}"));
            }
            EventBody::TurnFinished(finished) => return self.print_turn_end(finished),
            body => match describe_event(body) {
                Some(text) => text,
                None => return,
            },
        };
        self.print_progress(&format!("  {line}"));
    }
}

fn describe_event(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::Reflected { reflection: Some(reflection), .. } => {
            let text = shorten(&reflection.root_cause.text.replace('\n', " "), 160);
            format!("⟲ reflection: {text}")
        }
        EventBody::Verified(verification) => {
            let words = shorten(&verification.in_words().replace('\n', " "), 200);
            format!("⊙ verifier: {words}")
        }
        EventBody::PlanUpdated { plan, .. } => format!("☰ {}", plan.recap()?),
        EventBody::CheckFinished { command, passed, exit_code, .. } => {
            let how = match (passed, exit_code) {
                (true, _) => "passed".to_owned(),
                (false, Some(code)) => format!("failed (exit {code})"),
                (false, None) => "failed (did not exit by itself)".to_owned(),
            };
            format!("check {}: {how}", escape_literal_line(command))
        }
        EventBody::ModeChanged { mode, from, words } => {
            describe_mode_change(*mode, *from, words.as_deref())
        }
        EventBody::RuleAdded { rule } => {
            format!("rule {}: {}", rule.id, escape_literal_line(&rule.rule))
        }
        EventBody::RuleRemoved { rule } => {
            format!("rule {} removed: {}", rule.id, escape_literal_line(&rule.rule))
        }
        EventBody::RulesFound { path, .. } => format!("§ rules found: {path}"),
        _ => return None,
    })
}

fn call_and_outcome(tool: &str, envelope: &Envelope, by: Caller, step: u32) -> String {
    let call = call_line(tool, &envelope.context.params_input);
    let call = match by {
        Caller::Model => call,
        Caller::Kernel => format!("(the kernel) {call}"),
    };
    match envelope.error() {
        Some(error) => {
            let step = if step > 0 { format!("[Step {step}] ") } else { String::new() };
            let message = shorten(&error.message.replace('\n', " "), 160);
            format!("  ✗ {step}{call} failed: {} ({message})", error.code.as_str())
        }
        None => format!("  {call} {}", outcome_summary(tool, envelope)),
    }
}

fn outcome_summary(tool: &str, envelope: &Envelope) -> String {
    let data = |name: &str| envelope.data.get(name);
    let stat = |name: &str| envelope.stats.get(name).and_then(Value::as_u64);
    let partial = if envelope.status() == "partial" { " (partial)" } else { "" };
    let words = match tool {
        "Read" => match (data("start_line"), data("end_line")) {
            (Some(first), Some(last)) => format!("{first}–{last}"),
            _ => String::new(),
        },
        "Write" | "Edit" | "MultiEdit" => match (stat("lines_added"), stat("lines_removed")) {
            (Some(added), Some(removed)) => format!("+{added} −{removed}"),
            _ => String::new(),
        },
        "Grep" => stat("matched_lines").map_or_else(String::new, |n| format!("· {n} lines")),
        "Glob" => stat("matched").map_or_else(String::new, |n| format!("· {n} files")),
        "Task" => stat("tokens").map_or_else(String::new, |n| format!("· {n} tokens")),
        "Bash" => data("exit_code").map_or_else(String::new, |code| format!("· exit {code}")),
        _ => String::new(),
    };
    format!("{words}{partial}")
}
