//! Notes about decisions, rules, checks and compactions.

use std::collections::BTreeMap;

use super::requests::FailedTries;
use super::{Call, Cell, Conversation, Tone};
use crate::tui::cells::{CheckRun, error_parts, format_count, format_millis};
use agent_protocol::control::{
    ControlDecision, Counters, FailureSignal, ReplanScope, RetryStrategy,
};
use agent_protocol::event::{
    ChangedFile, EventBody, McpServerState, SummaryAuthor, describe_mode_change,
};
use agent_protocol::hook::{HookEvent, HookFinished, HookStatus};
use agent_protocol::recall::{RecallMoment, RecalledLesson};
use agent_protocol::terminal_escape::escape_literal_line;
use agent_protocol::view::describe_undone_files;
use agent_protocol::{format_thousands, pluralize, strip_reminder_tags};

/// In the order of the request; the conversation follows.
const FIXED_LAYERS: [(&str, &str); 3] = [
    ("tools", "descriptions of the tools"),
    ("l1", "system prompt: how the agent works"),
    ("l2", "system prompt: this project and its rules"),
];

impl Conversation {
    pub(in crate::tui) fn context_in_words(&self) -> String {
        if self.layers.is_empty() {
            return "nothing was asked yet\n".to_owned();
        }
        let mut text = String::new();
        let mut fixed = 0;
        for (name, words) in FIXED_LAYERS {
            let tokens = self.layers.get(name).map_or(0, |layer| layer.tokens);
            fixed += tokens;
            text.push_str(&format!("{:>9}  {words}\n", format_count(tokens)));
        }
        // It has changed since the request: an answer, results, a compaction.
        let conversation = format_count(self.context_tokens.saturating_sub(fixed));
        let all = format_count(self.context_tokens.max(fixed));
        let share = self.window.map_or_else(String::new, |window| {
            let percent = self.context_tokens.saturating_mul(100) / window.max(1);
            let source = self.window_source.map(|source| format!(" ({})", source.in_words()));
            let (window, source) = (format_thousands(window), source.unwrap_or_default());
            format!(" of {window} tokens{source}, {percent} %")
        });
        let (shared, bytes) = self.shared_bytes;
        let shared = shared.saturating_mul(100) / bytes.max(1);
        format!(
            "{text}{conversation:>9}  the conversation\n{all:>9}  in all{share}\n\
             the last request began with {shared} % of the one before\n"
        )
    }

    fn describe_undo(
        &mut self,
        undone: u32,
        outcomes: &BTreeMap<String, String>,
        is_complete: bool,
        is_redo: bool,
    ) -> String {
        let files = describe_undone_files(outcomes, |path, how| match how {
            "restored" if is_redo => format!("{path} written again"),
            "removed" if is_redo => format!("{path} removed again"),
            how => format!("{path} {how}"),
        });
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.number == undone) {
            turn.files = outcomes.keys().filter(|_| is_redo).cloned().collect();
        }
        let done = if is_redo { "redone" } else { "undone" };
        let is_done = |how: &String| matches!(how.as_str(), "restored" | "removed");
        let (negation, part) = match (is_complete, outcomes.values().any(is_done)) {
            (true, _) => ("", ""),
            (false, true) => ("", " in part"),
            (false, false) => ("not ", ""),
        };
        let earlier = self.turns.iter().rev().find(|turn| {
            turn.number < undone && !turn.files.is_empty() && !is_complete && !is_redo
        });
        let then = earlier
            .map_or_else(String::new, |turn| format!(" (the turn before: /undo {})", turn.number));
        let files = if files.is_empty() { "no file differed" } else { &files };
        format!("turn {undone} {negation}{done}{part}: {files}{then}")
    }

    pub(super) fn add_event_note(&mut self, body: &EventBody) {
        let text = match body {
            EventBody::ModeChanged { mode, from, words } => {
                self.mode = Some(*mode);
                describe_mode_change(*mode, *from, words.as_deref())
            }
            EventBody::RuleAdded { rule } => {
                let words = escape_literal_line(&rule.rule);
                format!("rule {}: {words} (/permissions removes it)", rule.id)
            }
            EventBody::RuleRemoved { rule } => {
                format!("rule {} removed: {}", rule.id, escape_literal_line(&rule.rule))
            }
            EventBody::Reflected { reflection: Some(reflection), .. } => {
                let details = format!("reflection: {}", reflection.root_cause.text);
                return self.add_kernel_note("", String::new(), details);
            }
            EventBody::Evaluation { failure, .. } => {
                // A failed call or check has its own line.
                let is_unshown =
                    |signal| matches!(signal, FailureSignal::Loop | FailureSignal::BadAnswer);
                let unshown =
                    failure.iter().filter(|it| it.code.is_none() && is_unshown(it.signal));
                self.unshown_failure = unshown.map(|failure| failure.message.as_str()).collect();
                return;
            }
            EventBody::Verified(verification) => format!("verifier: {}", verification.in_words()),
            EventBody::ControlDecided { decision, reason, after, .. } => {
                return self.add_decision_note(*decision, reason, after);
            }
            EventBody::Feedback { text, files } => return self.add_feedback_note(text, files),
            EventBody::CheckFinished { command, exit_code, passed, tail, time_ms } => {
                let mut outcome = match (passed, exit_code) {
                    (true, _) => "passed".to_owned(),
                    (false, Some(code)) => format!("exit {code}"),
                    (false, None) => "did not exit by itself".to_owned(),
                };
                if *time_ms >= 1000 {
                    outcome.push_str(&format!("  {}", format_millis(*time_ms)));
                }
                let (command, passed, tail) = (command.clone(), *passed, tail.clone());
                let check = CheckRun { command, passed, outcome, tail };
                return self.cells.push(Cell::Check(Box::new(check)));
            }
            EventBody::ContextCompacted(compacted) => {
                // As the status line showed and shows it; before a request, it did not show results of calls.
                let is_shown = self.context_tokens > compacted.tokens_after;
                let before = if is_shown { self.context_tokens } else { compacted.tokens_before };
                self.context_tokens = compacted.tokens_after;
                self.tokens_are_estimated = true;
                let [before, after] = [before, compacted.tokens_after].map(format_count);
                match compacted.archived {
                    0 if compacted.tokens_before == compacted.tokens_after => {
                        "nothing to compact: the latest messages stay as they are".to_owned()
                    }
                    0 => format!("compacted: {before} → ~{after} tokens, results were shortened"),
                    n => {
                        let by = match compacted.by {
                            SummaryAuthor::Model => "",
                            SummaryAuthor::Program => " from the record: no model wrote one",
                        };
                        let tokens = format!("{before} → ~{after} tokens");
                        format!("compacted: {tokens}, {n} messages became a summary{by}")
                    }
                }
            }
            EventBody::ModelFallback { to, reason, .. } => {
                self.finish_stream();
                self.set_last_data(None);
                self.failed_tries = FailedTries::default();
                let why = error_parts(reason).swap_remove(0);
                let summary = format!("{to} answers for the rest of this turn: {why}");
                return self.add_kernel_note("! ", summary, reason.clone());
            }
            EventBody::SessionRenamed { name } => format!("this session is named {name}"),
            EventBody::DirectoryAdded { path } => format!(
                "directory added: {path}; /undo covers what Write, Edit and MultiEdit change there, not what \
                 commands change"
            ),
            EventBody::RulesFound { path, .. } => format!("rules loaded: {path}"),
            EventBody::MemoryRecalled(recalled) if recalled.moment == RecallMoment::Task => {
                let lessons = pluralize(recalled.items.len() as u64, "lesson");
                format!("remembers {lessons} of earlier sessions: /memory lists them")
            }
            EventBody::MemoryRecalled(recalled) => {
                let how = if recalled.applied { "known, tries" } else { "remembers" };
                return self.add_lesson_notes(how, &recalled.items);
            }
            EventBody::MemoryWritten(written) => {
                return self.add_lesson_notes("learnt", &written.new);
            }
            EventBody::McpServer { server, state: McpServerState::Failed, detail, .. } => {
                return self.add_note(Tone::Bad, &format!("MCP server {server}: {detail}"));
            }
            EventBody::HookFinished(HookFinished { event, outcome, text, message, .. }) => {
                // (What other hooks block is shown with the call or the turn.)
                if matches!(event, HookEvent::PostToolUse | HookEvent::PostToolUseFailure)
                    && *outcome == HookStatus::Blocked
                {
                    let text = text.trim().replace('\n', " ");
                    self.add_note(Tone::Quiet, &format!("hook, to the model: {text}"));
                }
                let Some(message) = message else { return };
                format!("hook: {message}")
            }
            EventBody::TurnUndone { undone, files, is_complete, is_redo } => {
                self.describe_undo(*undone, files, *is_complete, *is_redo)
            }
            _ => return,
        };
        self.add_note(Tone::Quiet, &text);
    }

    fn add_decision_note(&mut self, decision: ControlDecision, reason: &str, after: &Counters) {
        let next = match decision {
            ControlDecision::Continue => return,
            ControlDecision::Retry(RetryStrategy::Feedback) => "sent back to the model",
            ControlDecision::Retry(RetryStrategy::Same) => "the same call again",
            ControlDecision::Retry(RetryStrategy::Adjusted) => "the call again, corrected",
            ControlDecision::Retry(RetryStrategy::Alternative) => "another call instead",
            ControlDecision::Replan(ReplanScope::Step) => "this step is planned again",
            ControlDecision::Replan(ReplanScope::Task) => "the task is planned again",
        };
        let count = after.count_of(decision);
        let mut summary = format!("{next} ({} of {})", count.n, count.max);
        // It continues the line of the failure, if there is one.
        let mut mark = "  ";
        let failure = std::mem::take(&mut self.unshown_failure);
        if !failure.is_empty() {
            summary.push_str(&format!(": {failure}"));
            mark = "↻ ";
        } else if let Some(call) = self.last_failed_call() {
            // Other calls of the answer stand between.
            summary.push_str(&format!(": {} {}", call.tool, escape_literal_line(&call.subject)));
            mark = "↻ ";
        }
        self.add_kernel_note(mark, summary, reason.to_owned());
    }

    /// `None` if its line is the last one.
    fn last_failed_call(&self) -> Option<&Call> {
        let calls = || self.cells.iter().rev().map_while(Cell::as_call);
        let is_last = calls().next().is_none_or(Call::has_failed);
        calls().find(|call| !is_last && call.has_failed())
    }

    /// The user sees which files changed; the text is for the model.
    fn add_feedback_note(&mut self, text: &str, files: &[ChangedFile]) {
        let details = format!("the model received: {}", strip_reminder_tags(text).trim());
        if let (Some(Cell::Kernel(note)), []) = (self.cells.last_mut(), files) {
            return note.details.push_str(&format!("\n{details}"));
        }
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let summary = match names.join(", ") {
            names if names.is_empty() => names,
            names => format!("changed since the model saw them: {names}"),
        };
        self.add_kernel_note("· ", summary, details);
    }

    fn add_lesson_notes(&mut self, how: &str, lessons: &[RecalledLesson]) {
        for lesson in lessons {
            self.add_note(Tone::Quiet, &format!("{how}: {} [{}]", lesson.text, lesson.id));
        }
    }
}
