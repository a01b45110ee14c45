//! The format `text`: the final answer on standard output, progress on standard error.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::put;
use agent_protocol::control::{Category, ControlDecision};
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Body, Caller, Event, McpState, Sink, Stamped, TurnFinished, mode_changed, resumed_after,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::model::Purpose;
use agent_protocol::recall::{MemoryRecalled, Moment, Recalled};
use agent_protocol::view::call_line;
use agent_protocol::visible::{literal_line, prose};
use agent_protocol::{counted, shorten};

/// A command that runs this long is announced before its result.
const LONG: Duration = Duration::from_secs(2);
/// Sources of errors that the report at the end of the turn does not contain.
const TOLD: [&str; 8] =
    ["workspace", "memory", "sandbox", "checks", "mention", "images", "telemetry", "hook"];

/// The amount of output on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only why a task failed.
    Quiet,
    /// A line for each call, decision and check.
    Progress,
    /// Also requests, answers and tokens.
    Verbose,
}

/// The interface of `agent run` for users.
pub struct Text {
    out: Box<dyn Write + Send>,
    /// The answer is printed to a terminal; otherwise it is written unchanged.
    is_terminal: bool,
    err: Box<dyn Write + Send>,
    verbosity: Verbosity,
    /// Category of the last failure.
    category: Option<Category>,
    /// The program ended during the last turn of the resumed session.
    is_cut_off: bool,
    /// The sub-agents by id: role and number.
    agents: HashMap<String, String>,
    /// The calls that run: since when, and the line about it, which is printed once.
    running: HashMap<String, (Instant, String)>,
}

impl Text {
    /// Writes the answer to `out`, everything else to `err`.
    pub fn new(
        out: Box<dyn Write + Send>,
        is_terminal: bool,
        err: Box<dyn Write + Send>,
        verbosity: Verbosity,
    ) -> Self {
        Self {
            out,
            is_terminal,
            err,
            verbosity,
            category: None,
            is_cut_off: false,
            agents: HashMap::new(),
            running: HashMap::new(),
        }
    }

    /// Lessons for a whole task are counted, unless the output is verbose.
    fn recalled(&mut self, recalled: &MemoryRecalled) {
        if recalled.moment == Moment::Task && self.verbosity < Verbosity::Verbose {
            let lessons = counted(recalled.items.len() as u64, "lesson");
            self.progress(&format!(
                "  ✦ remembers {lessons} of earlier sessions: `agent memory list` lists them"
            ));
            return;
        }
        let how = if recalled.applied { "known, tries" } else { "remembers" };
        self.remembered(how, &recalled.items);
    }

    fn remembered(&mut self, how: &str, items: &[Recalled]) {
        for item in items {
            self.progress(&format!("  ✦ {how}: {} [{}]", item.text, item.id));
        }
    }

    /// For users, whether or not it is a terminal.
    fn tell(&mut self, line: &str) {
        put(self.err.as_mut(), &format!("{}\n", prose(line)));
    }

    /// A server that failed is reported, whatever else is printed.
    fn server(&mut self, server: &str, state: McpState, detail: &str) {
        match state {
            McpState::Failed => self.tell(&format!("agent: MCP server {server}: {detail}")),
            McpState::Connected | McpState::Changed | McpState::Lost => {
                self.verbose(&format!("  mcp {server}: {}", state.as_str()));
            }
        }
    }

    fn progress(&mut self, line: &str) {
        if self.verbosity >= Verbosity::Progress {
            self.tell(line);
        }
    }

    fn verbose(&mut self, line: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.tell(line);
        }
    }

    fn finished(&mut self, finished: &TurnFinished) {
        let files = match finished.files_changed.len() as u64 {
            0 => String::new(),
            n => format!(", {} changed", counted(n, "file")),
        };
        let ignored = match finished.ignored_files_changed {
            0 => String::new(),
            n => format!(", {} changed", counted(n, "ignored file")),
        };
        let spending = finished.spending();
        let about = spending.about();
        let cost = spending.dollars().filter(|_| spending.cost_usd > Some(0.0));
        let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
        self.progress(&format!(
            "{} {} · {}, {about}{} tokens in, {about}{} out{cost}{files}{ignored} · {:.1} s",
            if finished.ending.is_success() { "✓" } else { "✗" },
            finished.ending.as_str().replace('_', " "),
            counted(finished.rounds.into(), "model answer"),
            spending.usage.input_tokens,
            spending.usage.output_tokens,
            Duration::from_millis(finished.time_ms).as_secs_f64(),
        ));
        if !finished.open_todos.is_empty() {
            self.progress(&format!("open todos: {}", finished.open_todos.join("; ")));
        }
        if finished.ending.has_answer() {
            // The model's text unchanged; on a terminal its control characters are visible.
            let answer = finished.result.as_str();
            let answer = if self.is_terminal { prose(answer) } else { answer.into() };
            let end = if answer.ends_with('\n') { "" } else { "\n" };
            put(self.out.as_mut(), &format!("{answer}{end}"));
            for error in &finished.errors {
                self.tell(&format!("agent: {error}"));
            }
        } else {
            // One line; with progress output the whole report is printed.
            let report = finished.result.trim_end();
            let first = report.lines().next().unwrap_or_default();
            let told = if self.verbosity >= Verbosity::Progress { report } else { first };
            self.tell(&format!("agent: {told}"));
        }
    }
}

impl Sink for Text {
    fn recorded(&mut self, events: &[&Event]) {
        let of_turn = events.iter().rev().find_map(|event| match &event.body {
            Body::TurnStarted { .. } => Some(true),
            Body::TurnFinished(_) => Some(false),
            _ => None,
        });
        self.is_cut_off = of_turn.unwrap_or(false);
    }

    /// Its calls are indented; its beginning and end are those of the Task call.
    fn take_from_agent(&mut self, stamped: &Stamped) {
        let Stamped { event, .. } = stamped;
        if let Body::AgentStarted { role, .. } = &event.body {
            let n = self.agents.len() + 1;
            self.agents.insert(event.header.agent.clone(), format!("{role} {n}"));
        }
        let agent = self.agents.get(&event.header.agent).cloned().unwrap_or_default();
        match &event.body {
            Body::AgentStarted { description, prompt, .. } => {
                let what = if description.is_empty() { prompt } else { description };
                let what = shorten(&what.replace('\n', " "), 120);
                self.progress(&format!("    [{agent}] {what}"));
            }
            Body::ToolFinished { tool, envelope, by, .. } => {
                let line = call_and_outcome(tool, envelope, *by, 0);
                self.progress(&format!("    [{agent}] {}", line.trim()));
            }
            Body::Error { message, retry_in_ms: Some(delay), attempt, .. } => {
                let attempt = attempt.unwrap_or_default();
                self.progress(&format!(
                    "    [{agent}] ! try {attempt}: {message}; again in {delay} ms"
                ));
            }
            _ => {}
        }
    }

    fn take(&mut self, stamped: &Stamped) {
        if let Body::ToolFinished { call, .. } = &stamped.event.body {
            self.running.remove(call);
        }
        match &stamped.event.body {
            Body::SessionStarted(started) => {
                self.verbose(&format!(
                    "{} · {} · sandbox {}",
                    started.model,
                    started.permission_mode.as_str(),
                    started.sandbox.backend
                ));
            }
            Body::SessionResumed { .. } => {
                let after = resumed_after(stamped.event.header.place.turn, self.is_cut_off);
                self.progress(&format!("↺ resumed {after}"));
            }
            Body::ModelRequested(request) => {
                self.verbose(&format!("→ {} messages, {} bytes", request.messages, request.bytes));
            }
            Body::ModelResponded(answer) => {
                let is_shown = answer.purpose == Purpose::Main && !answer.calls.is_empty();
                if is_shown && !answer.text.trim().is_empty() {
                    self.progress(answer.text.trim());
                }
                let tokens = answer.usage.map_or_else(String::new, |usage| {
                    format!(", {} in, {} out", usage.input_tokens, usage.output_tokens)
                });
                self.verbose(&format!(
                    "← {} calls in {} ms{tokens}",
                    answer.calls.len(),
                    answer.time_ms
                ));
            }
            Body::ToolStarted { call, tool, input, .. } => {
                let line = format!("  {} · running", call_line(tool, input));
                self.running.insert(call.clone(), (Instant::now(), line));
            }
            Body::ToolOutput { call, .. }
                if self.running.get(call).is_some_and(|(at, _)| at.elapsed() >= LONG) =>
            {
                if let Some((_, line)) = self.running.remove(call) {
                    self.progress(&line);
                }
            }
            // Changes of the plan are printed with the plan.
            Body::ToolFinished { tool, envelope, .. }
                if tool == "TodoWrite" && envelope.error().is_none() => {}
            Body::ToolFinished { tool, envelope, synthetic: true, .. } => {
                let call = call_line(tool, &envelope.context.params_input);
                let message = envelope.error().map_or("", |error| &error.message);
                self.progress(&format!("  ! {call}: {message}"));
            }
            Body::ToolFinished { tool, envelope, by, .. } => {
                let step = stamped.event.header.place.step;
                self.progress(call_and_outcome(tool, envelope, *by, step).trim_end());
                for note in envelope.notes() {
                    self.progress(&format!("    ! {}", note.replace('\n', " ")));
                }
            }
            Body::Evaluation { failure, .. } => {
                self.category = failure.as_ref().map(|failure| failure.category);
            }
            Body::Reflected { reflection: Some(said), .. } => {
                let text = shorten(&said.root_cause.text.replace('\n', " "), 160);
                self.progress(&format!("  ⟲ reflection: {text}"));
            }
            Body::Verified(verification) => {
                let words = shorten(&verification.in_words().replace('\n', " "), 200);
                self.progress(&format!("  ⊙ verifier: {words}"));
            }
            Body::ControlDecided { decision, reason, after, .. }
                if *decision != ControlDecision::Continue =>
            {
                let count = after.count_of(*decision);
                let category = self.category.map_or("", Category::as_str);
                let words = decision.words();
                self.progress(&format!(
                    "  ↻ {words} {}/{} · {category} · {reason}",
                    count.n, count.max
                ));
            }
            Body::ModeChanged { mode, from, words } => {
                self.progress(&format!("  {}", mode_changed(*mode, *from, words.as_deref())));
            }
            Body::RuleAdded { rule } => {
                self.progress(&format!("  rule {}: {}", rule.id, literal_line(&rule.rule)));
            }
            Body::RuleRemoved { rule } => {
                self.progress(&format!("  rule {} removed: {}", rule.id, literal_line(&rule.rule)));
            }
            Body::PinAdded { pin } => {
                let words = shorten(&pin.text.replace('\n', " "), 120);
                self.progress(&format!("  ⚲ pin {}: “{words}”", pin.id));
            }
            Body::PinRemoved { pin } => {
                self.progress(&format!("  ⚲ pin {} removed", pin.id));
            }
            Body::RulesFound { path, .. } => self.progress(&format!("  § rules found: {path}")),
            Body::MemoryRecalled(recalled) => self.recalled(recalled),
            Body::MemoryWritten(written) => self.remembered("learnt", &written.new),
            Body::PlanUpdated { plan, .. } => {
                if let Some(recap) = plan.recap() {
                    self.progress(&format!("  ☰ {recap}"));
                }
            }
            Body::CheckFinished { command, passed, exit_code, .. } => {
                let how = match (passed, exit_code) {
                    (true, _) => "passed".to_owned(),
                    (false, Some(code)) => format!("failed (exit {code})"),
                    (false, None) => "failed (did not exit by itself)".to_owned(),
                };
                self.progress(&format!("  check {}: {how}", literal_line(command)));
            }
            Body::Error { message, retry_in_ms: Some(delay), attempt, .. } => {
                let attempt = attempt.unwrap_or_default();
                self.progress(&format!("  ! try {attempt}: {message}; again in {delay} ms"));
            }
            Body::ModelFallback { to, reason, .. } => {
                self.tell(&format!("agent: {reason}; {to} answers for the rest of the turn"));
            }
            Body::Error { source, message, .. } if TOLD.contains(&source.as_str()) => {
                self.tell(&format!("agent: {message}"));
            }
            Body::McpServer { server, state, detail, .. } => self.server(server, *state, detail),
            Body::HookFinished(HookFinished { message: Some(message), .. }) => {
                self.tell(&format!("agent: hook: {message}"));
            }
            Body::TurnFinished(finished) => self.finished(finished),
            _ => {}
        }
    }
}

/// A call and its result, in one line.
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
        None => format!("  {call} {}", outcome(tool, envelope)),
    }
}

/// The result of a call, in short.
fn outcome(tool: &str, envelope: &Envelope) -> String {
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
