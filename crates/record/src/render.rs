//! Renders a session for users: a timeline of events, and a transcript.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{interrupted_answer, live_events};
use agent_protocol::control::{ControlDecision, RetryStrategy};
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Caller, Compaction, Event, EventBody, McpServerState, ModelResponded, SessionSummary,
    TurnFinished, UserMessage, describe_mode_change,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::message::append_image_lines;
use agent_protocol::model::Purpose;
use agent_protocol::question::UserAnswer;
use agent_protocol::recall::{MemoryRecalled, MemoryWritten, RecalledLesson};
use agent_protocol::reflection::Reflection;
use agent_protocol::spending::Spending;
use agent_protocol::terminal_escape::escape_for_file;
use agent_protocol::view::call_line;
use agent_protocol::{pluralize, shorten, strip_reminder_tags};

/// The timeline: calls with their status, decisions, tokens. Ends with a line break.
pub fn timeline(events: &[Event]) -> String {
    let mut out = String::new();
    let start = events.first().map(|event| event.header.ts.clone()).unwrap_or_default();
    let mut agents: BTreeMap<&str, String> = BTreeMap::new();
    for event in events {
        let Some(line) = timeline_line(&event.body) else { continue };
        if let EventBody::AgentStarted { role, .. } = &event.body {
            let n = agents.len() + 1;
            agents.insert(event.header.agent.as_str(), format!("{role} {n}"));
        }
        let agent = agents.get(event.header.agent.as_str());
        let agent = agent.map_or_else(String::new, |agent| format!("    [{agent}] "));
        let place = event.header.place;
        let time = seconds_since(&start, &event.header.ts);
        let place = format!("{}.{}", place.turn, place.round);
        _ = writeln!(out, "{time:>8.2}s {place:>6}  {agent}{line}");
    }
    if let Some(EventBody::ModelResponded(answer)) = interrupted_answer(live_events(events)) {
        _ = writeln!(
            out,
            "← model, the part that was recorded so far:\n{}",
            answer.text.trim_end()
        );
    }
    out
}

fn resumed_line(events: u64, uncertain: &[String], torn: bool) -> String {
    let torn = if torn { ", a torn last line was dropped" } else { "" };
    let uncertain = match uncertain {
        [] => String::new(),
        uncertain => format!(", outcome unknown: {}", uncertain.join(", ")),
    };
    format!("session resumed: {events} events{torn}{uncertain}")
}

pub(super) fn timeline_line(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::SessionStarted(started) => format!(
            "session started: {} in {}, mode {}, sandbox {}",
            started.model,
            started.cwd,
            started.permission_mode.as_str(),
            started.sandbox.backend
        ),
        EventBody::SessionResumed { events, uncertain, torn, .. } => {
            resumed_line(*events, uncertain, *torn)
        }
        EventBody::SessionForked { from, up_to } => {
            format!("session forked from {from}, up to the end of turn {up_to}")
        }
        EventBody::SessionRewound { from_turn } => {
            format!("rewound: turn {from_turn} and what follows is no longer part of the session")
        }
        EventBody::ModelFallback { from, to, reason } => {
            format!("  {to} answers instead of {from}: {reason}")
        }
        EventBody::SessionRenamed { name } => format!("session named {name}"),
        EventBody::DirectoryAdded { path } => format!("directory added: {path}"),
        EventBody::TurnStarted(message) => user_line("user", message),
        EventBody::AgentStarted { role, description, model, .. } => {
            format!("sub-agent started: {role}, {}, {model}", one_line(description, 100))
        }
        EventBody::AgentFinished(finished) => ending_line("sub-agent finished", finished),
        EventBody::ModelRequested(request) => format!(
            "→ model{}: {} messages, {} bytes, ~{} tokens",
            purpose_label(request.purpose),
            request.messages,
            request.bytes,
            request.estimated_tokens
        ),
        EventBody::ModelResponded(answer) => answer_line(answer),
        EventBody::ToolStarted { tool, input, by, .. } => {
            let by = if *by == Caller::Kernel { "the kernel tries " } else { "" };
            format!("  ▸ {by}{}", call_line(tool, input))
        }
        EventBody::ToolFinished { tool, envelope, synthetic, .. } => {
            result_line(tool, envelope, *synthetic)
        }
        EventBody::RuleAdded { rule } => format!("  rule {} added: {}", rule.id, rule.rule),
        EventBody::RuleRemoved { rule } => format!("  rule {} removed: {}", rule.id, rule.rule),
        EventBody::TurnSteered(message) => user_line("  user, meanwhile", message),
        EventBody::UserCommand { command, exit_code, .. } => {
            let how = exit_code.map_or_else(|| "ended".to_owned(), |code| format!("exit {code}"));
            format!("user: ! {} ({how})", one_line(command, 100))
        }
        EventBody::ModeChanged { mode, from, words } => {
            format!("  {}", describe_mode_change(*mode, *from, words.as_deref()))
        }
        EventBody::PermissionRequested { .. }
        | EventBody::PermissionDecided { .. }
        | EventBody::QuestionAsked { .. }
        | EventBody::QuestionAnswered { .. } => return dialog_line(body),
        EventBody::Evaluation { failure: Some(failure), .. } => {
            format!("  evidence: {}", one_line(&failure.signature, 120))
        }
        EventBody::Verified(verification) => {
            format!("  verifier {}: {}", verification.model, verification.in_words())
        }
        EventBody::Reflected { reflection, refused, .. } => {
            reflection_line(reflection.as_deref(), refused)
        }
        EventBody::ControlDecided { decision: ControlDecision::Continue, reason, .. }
            if reason == "nothing failed" =>
        {
            return None;
        }
        EventBody::ControlDecided {
            decision: ControlDecision::Retry(RetryStrategy::Feedback),
            reason,
            ..
        } => format!("  ↻ {reason}"),
        EventBody::ControlDecided { decision, reason, after, .. } => {
            let count = after.count_of(*decision);
            format!("  ↻ {} {}/{} · {reason}", decision.label(), count.n, count.max)
        }
        EventBody::PlanUpdated { plan, reason } => {
            let recap = plan.recap().unwrap_or_else(|| format!("{} todos", plan.todos.len()));
            format!("  plan ({reason}): {recap}")
        }
        EventBody::Feedback { text, .. } | EventBody::Reminder { text, .. } => {
            format!("  to the model: {}", one_line(strip_reminder_tags(text).trim(), 120))
        }
        EventBody::CheckFinished { command, passed, exit_code, time_ms, .. } => {
            format!("  check {command}: {} ({time_ms} ms)", check_outcome(*passed, *exit_code))
        }
        EventBody::ContextCompacted(compacted) => compacted_line(compacted),
        EventBody::ContextOverflowed { estimated_tokens: n, .. } => {
            format!("  too long: ~{n} tokens")
        }
        EventBody::RulesFound { path, .. } => format!("  rules found: {path}"),
        EventBody::MemoryRecalled(recalled) => recalled_line(recalled),
        EventBody::MemoryWritten(written) => learnt_line(written),
        EventBody::McpServer { server, state, tools, detail } => {
            mcp_line(server, *state, *tools, detail)
        }
        EventBody::HookFinished(finished) => hook_line(finished),
        EventBody::Error { source, message, retry_in_ms, .. } => {
            let retry = retry_in_ms.map_or_else(String::new, |ms| format!("; again in {ms} ms"));
            format!("  error ({source}): {message}{retry}")
        }
        EventBody::TurnFinished(finished) => ending_line("turn finished", finished),
        EventBody::TurnUndone { undone, files, is_complete, is_redo } => {
            let files: Vec<String> =
                files.iter().map(|(path, how)| format!("{path}: {how}")).collect();
            let part = if *is_complete { "" } else { " in part" };
            let what = if *is_redo { "redone" } else { "undone" };
            format!("turn {undone} {what}{part}: {}", files.join(", "))
        }
        EventBody::SessionSummary(summary) => summary_line(summary),
        EventBody::ModelDelta { .. }
        | EventBody::ModelProgress { .. }
        | EventBody::ModelPartial { .. }
        | EventBody::ToolOutput { .. }
        | EventBody::ImagesWithheld { .. }
        | EventBody::Evaluation { failure: None, .. } => return None,
    })
}

fn dialog_line(body: &EventBody) -> Option<String> {
    let in_a_row = |texts: Vec<String>| -> String {
        let texts: Vec<_> = texts.iter().map(|text| one_line(text, 100)).collect();
        texts.join(" | ")
    };
    Some(match body {
        EventBody::PermissionRequested { tool, input, rule, .. } => {
            format!("  asked ({rule}): {}", call_line(tool, input))
        }
        EventBody::PermissionDecided { tool, ruling, rule, .. } => {
            format!("  permission: {tool} {ruling} by {rule}")
        }
        EventBody::QuestionAsked { questions, .. } => {
            let questions = questions.iter().map(|asked| asked.question.clone()).collect();
            format!("  the model asks: {}", in_a_row(questions))
        }
        EventBody::QuestionAnswered { answers, .. } => {
            let answers = answers.iter().map(UserAnswer::in_words).collect();
            format!("  the user answers: {}", in_a_row(answers))
        }
        _ => return None,
    })
}

fn check_outcome(passed: bool, exit_code: Option<i32>) -> String {
    match (passed, exit_code) {
        (true, _) => "passed".to_owned(),
        (false, Some(code)) => format!("failed, exit {code}"),
        (false, None) => "failed, did not exit by itself".to_owned(),
    }
}

fn result_line(tool: &str, envelope: &Envelope, synthetic: bool) -> String {
    let how = match envelope.error() {
        Some(error) => format!("{} · {}", error.code.as_str(), one_line(&error.message, 120)),
        None => format!("{} · {}", envelope.status(), one_line(&envelope.text, 120)),
    };
    let ms = envelope.stats.get("time_ms").and_then(Value::as_u64).unwrap_or_default();
    let synthetic = if synthetic { " (synthetic)" } else { "" };
    format!("  ◂ {tool}{synthetic}: {how} ({ms} ms)")
}

fn ending_line(what: &str, finished: &TurnFinished) -> String {
    format!(
        "{what}: {} (exit {}), {}, {}",
        finished.ending.as_str(),
        finished.ending.exit_code(),
        pluralize(finished.rounds.into(), "model answer"),
        finished.spending().in_words(),
    )
}

fn purpose_label(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Learn => " (to learn)",
        Purpose::Search => " (to search)",
        _ => "",
    }
}

fn user_line(who: &str, message: &UserMessage) -> String {
    let images = message.images.iter().map(|image| format!(" [{}]", image.in_words()));
    format!("{who}: {}{}", one_line(&message.input, 100), images.collect::<String>())
}

fn answer_line(answer: &ModelResponded) -> String {
    let mut spending = Spending::default();
    spending.add_response(answer);
    let tokens = match spending.usage.total() {
        0 => String::new(),
        _ => format!(", {}", spending.in_words()),
    };
    let text = one_line(&answer.text, 100);
    let discarded = if answer.discarded { " (not used)" } else { "" };
    let calls = match answer.calls.len() {
        0 => String::new(),
        n => format!(" [{}]", pluralize(n as u64, "call")),
    };
    let purpose = purpose_label(answer.purpose);
    format!("← model{purpose}{calls}{discarded}: {text} ({} ms{tokens})", answer.time_ms)
}

fn recalled_line(recalled: &MemoryRecalled) -> String {
    let how = if recalled.applied { "the kernel tries what it knows" } else { "recalled" };
    format!("  ✦ {how}: {}", list_lessons(&recalled.items))
}

fn learnt_line(written: &MemoryWritten) -> String {
    let lists = [("learnt", &written.new), ("confirmed", &written.confirmed)];
    let lists = lists.iter().filter(|(_, items)| !items.is_empty());
    let lists: Vec<String> =
        lists.map(|(how, items)| format!("{how}: {}", list_lessons(items))).collect();
    format!("  ✦ {}", lists.join("; "))
}

fn list_lessons(items: &[RecalledLesson]) -> String {
    let items: Vec<String> =
        items.iter().map(|item| format!("[{}] {}", item.id, one_line(&item.text, 100))).collect();
    items.join("; ")
}

fn summary_line(summary: &SessionSummary) -> String {
    let list = |counts: &BTreeMap<String, u32>| {
        let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
        counts.join(", ")
    };
    let failures = if summary.failures.is_empty() {
        String::new()
    } else {
        format!("; failures: {}", list(&summary.failures))
    };
    let (turns, calls) = (pluralize(summary.turns.into(), "turn"), list(&summary.calls));
    format!("session: {turns}, calls: {calls}{failures}; {}", summary.spending.in_words())
}

fn mcp_line(server: &str, state: McpServerState, tools: usize, detail: &str) -> String {
    let state = state.as_str();
    match detail {
        "" => format!("  mcp {server}: {state}, {}", pluralize(tools as u64, "tool")),
        detail => format!("  mcp {server}: {state}: {}", one_line(detail, 200)),
    }
}

fn hook_line(finished: &HookFinished) -> String {
    let HookFinished { event, hook, outcome, text, message, time_ms, .. } = finished;
    let texts = [text.as_str(), message.as_deref().unwrap_or_default()];
    let texts = texts.into_iter().filter(|text| !text.is_empty()).map(|text| one_line(text, 120));
    let said: String = texts.map(|text| format!(": {text}")).collect();
    let (event, outcome, hook) = (event.as_str(), outcome.as_str(), one_line(hook, 80));
    format!("  hook {event} {hook}: {outcome} ({time_ms} ms){said}")
}

fn compacted_line(compacted: &Compaction) -> String {
    let (before, after) = (compacted.tokens_before, compacted.tokens_after);
    let n_messages = compacted.archived;
    format!("  compacted: {n_messages} messages gave way to a summary, ~{before} → ~{after} tokens")
}

fn reflection_line(reflection: Option<&Reflection>, refused: &[String]) -> String {
    let mut line = String::from("  reflection: ");
    if let Some(Reflection { root_cause: cause, patch_prompt, .. }) = reflection {
        let text = one_line(&cause.text, 160);
        line.push_str(&format!("{text} (confidence {:.1})", cause.confidence));
        if !patch_prompt.is_empty() {
            line.push_str(&format!("; patch: {}", one_line(patch_prompt, 160)));
        }
    } else {
        line.push_str("no answer that can be used");
    }
    for why in refused {
        line.push_str(&format!("; not followed: {why}"));
    }
    line
}

/// The transcript as Markdown.
pub fn markdown(events: &[Event]) -> String {
    let mut out = String::new();
    // The result of the Task call contains the work of a sub-agent.
    for event in events.iter().filter(|event| event.header.is_main()) {
        match &event.body {
            EventBody::SessionStarted(started) => {
                _ = writeln!(out, "# Session {}\n", event.header.session);
                _ = writeln!(out, "{} · {} · {}\n", event.header.ts, started.model, started.cwd);
            }
            EventBody::TurnStarted(UserMessage { input, images, .. }) => {
                _ = writeln!(out, "## User\n\n{}\n", append_image_lines(input, images));
            }
            EventBody::UserCommand { command, output, .. } => {
                _ = writeln!(out, "```\n$ {command}\n{}\n```\n", output.trim_end());
            }
            EventBody::TurnSteered(UserMessage { input, images, .. }) => {
                _ = writeln!(out, "## User, meanwhile\n\n{}\n", append_image_lines(input, images));
            }
            EventBody::Feedback { text, .. } => {
                let text = strip_reminder_tags(text);
                _ = writeln!(out, "> {}\n", text.trim().replace('\n', "\n> "));
            }
            // Other requests are not part of the conversation.
            EventBody::ModelResponded(answer)
                if !answer.discarded && !answer.text.is_empty() && answer.purpose.is_of_loop() =>
            {
                _ = writeln!(out, "{}\n", answer.text);
            }
            EventBody::ToolFinished { tool, envelope, .. } => {
                let call = call_line(tool, &envelope.context.params_input).replace('`', "'");
                let how = envelope.error().map_or(envelope.status(), |error| error.code.as_str());
                _ = writeln!(out, "- `{call}` — {how}: {}\n", one_line(&envelope.text, 200));
                if let Some(diff) = envelope.data.get("diff_preview").and_then(Value::as_str)
                    && !diff.is_empty()
                {
                    let diff = diff.trim_end().replace('\n', "\n  ");
                    _ = writeln!(out, "  ```diff\n  {diff}\n  ```\n");
                }
            }
            EventBody::ContextCompacted(compacted) if !compacted.summary.is_empty() => {
                let summary = compacted.summary.trim_end().replace('\n', "\n> ");
                _ = writeln!(out, "> {summary}\n");
            }
            EventBody::SessionForked { .. }
            | EventBody::SessionRewound { .. }
            | EventBody::DirectoryAdded { .. }
            | EventBody::TurnUndone { .. } => {
                if let Some(line) = timeline_line(&event.body) {
                    _ = writeln!(out, "*{}*\n", line.trim());
                }
            }
            EventBody::CheckFinished { command, passed, .. } => {
                let how = if *passed { "passed" } else { "failed" };
                _ = writeln!(out, "- check `{command}`: {how}\n");
            }
            EventBody::TurnFinished(finished) => {
                _ = writeln!(out, "*{}*\n", finished.ending.as_str());
                if !finished.ending.is_success() {
                    _ = writeln!(out, "{}\n", finished.result);
                }
            }
            _ => {}
        }
    }
    // The text may be displayed in a terminal later.
    escape_for_file(&out).into_owned()
}

fn one_line(text: &str, max: usize) -> String {
    shorten(&text.trim().replace('\n', " ⏎ "), max)
}

fn seconds_since(start: &str, now: &str) -> f64 {
    let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
    at(start).zip(at(now)).map_or(0.0, |(start, now)| now.duration_since(start).as_secs_f64())
}
