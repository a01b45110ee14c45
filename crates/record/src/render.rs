//! Renders a session for users: a timeline of events, and a transcript.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use agent_protocol::control::ControlDecision;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Body, Caller, Compacted, Event, McpState, ModelResponded, Pin, Summary, TurnFinished,
    mode_changed,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::message::{Image, with_images};
use agent_protocol::model::Purpose;
use agent_protocol::question::UserAnswer;
use agent_protocol::recall::{MemoryRecalled, MemoryWritten, Recalled};
use agent_protocol::reflection::Reflection;
use agent_protocol::spending::Spending;
use agent_protocol::view::call_line;
use agent_protocol::visible::in_file;
use agent_protocol::{counted, shorten, without_reminder_tags};

/// The timeline: calls with their status, decisions, tokens. Ends with a line break.
pub fn timeline(events: &[Event]) -> String {
    let mut out = String::new();
    let start = events.first().map(|event| event.header.ts.clone()).unwrap_or_default();
    let mut agents: BTreeMap<&str, String> = BTreeMap::new();
    for event in events {
        let Some(line) = timeline_line(&event.body) else { continue };
        if let Body::AgentStarted { role, .. } = &event.body {
            let n = agents.len() + 1;
            agents.insert(event.header.agent.as_str(), format!("{role} {n}"));
        }
        let agent = agents.get(event.header.agent.as_str());
        let line = agent.map_or_else(|| line.clone(), |agent| format!("    [{agent}] {line}"));
        let place = event.header.place;
        let time = seconds_since(&start, &event.header.ts);
        let place = format!("{}.{}", place.turn, place.round);
        _ = writeln!(out, "{time:>8.2}s {place:>6}  {line}");
    }
    out
}

pub(super) fn timeline_line(body: &Body) -> Option<String> {
    Some(match body {
        Body::SessionStarted(started) => format!(
            "session started: {} in {}, mode {}, sandbox {}",
            started.model,
            started.cwd,
            started.permission_mode.as_str(),
            started.sandbox.backend
        ),
        Body::SessionResumed { events, uncertain, torn, .. } => {
            let torn = if *torn { ", a torn last line was dropped" } else { "" };
            let uncertain = if uncertain.is_empty() {
                String::new()
            } else {
                format!(", outcome unknown: {}", uncertain.join(", "))
            };
            format!("session resumed: {events} events{torn}{uncertain}")
        }
        Body::SessionForked { from, up_to } => {
            format!("session forked from {from}, up to the end of turn {up_to}")
        }
        Body::SessionRewound { from_turn } => {
            format!("rewound: turn {from_turn} and what follows is no longer part of the session")
        }
        Body::ModelFallback { from, to, reason } => {
            format!("  {to} answers instead of {from}: {reason}")
        }
        Body::SessionRenamed { name } => format!("session named {name}"),
        Body::DirectoryAdded { path } => format!("directory added: {path}"),
        Body::TurnStarted { input, images, .. } => said("user", input, images),
        Body::AgentStarted { role, description, model, .. } => {
            format!("sub-agent started: {role}, {}, {model}", one_line(description, 100))
        }
        Body::AgentFinished(finished) => ending_line("sub-agent finished", finished),
        Body::ModelRequested(request) => format!(
            "→ model{}: {} messages, {} bytes, ~{} tokens",
            aside(request.purpose),
            request.messages,
            request.bytes,
            request.estimated_tokens
        ),
        Body::ModelResponded(answer) => answer_line(answer),
        Body::ToolStarted { tool, input, by, .. } => {
            let by = if *by == Caller::Kernel { "the kernel tries " } else { "" };
            format!("  ▸ {by}{}", call_line(tool, input))
        }
        Body::ToolFinished { tool, envelope, synthetic, .. } => {
            result_line(tool, envelope, *synthetic)
        }
        Body::RuleAdded { rule } => format!("  rule {} added: {}", rule.id, rule.rule),
        Body::RuleRemoved { rule } => format!("  rule {} removed: {}", rule.id, rule.rule),
        Body::TurnSteered { input, images, .. } => said("  user, meanwhile", input, images),
        Body::UserCommand { command, exit_code, .. } => {
            let how = exit_code.map_or_else(|| "ended".to_owned(), |code| format!("exit {code}"));
            format!("user: ! {} ({how})", one_line(command, 100))
        }
        Body::ModeChanged { mode, from, words } => {
            format!("  {}", mode_changed(*mode, *from, words.as_deref()))
        }
        Body::PermissionRequested { .. }
        | Body::PermissionDecided { .. }
        | Body::QuestionAsked { .. }
        | Body::QuestionAnswered { .. } => return dialog_line(body),
        Body::Evaluation { failure: Some(failure), .. } => {
            format!("  evidence: {}", one_line(&failure.signature, 120))
        }
        Body::Verified(verification) => {
            format!("  verifier {}: {}", verification.model, verification.in_words())
        }
        Body::Reflected { reflection, refused, .. } => {
            reflection_line(reflection.as_deref(), refused)
        }
        Body::ControlDecided { decision: ControlDecision::Continue, reason, .. }
            if reason == "nothing failed" =>
        {
            return None;
        }
        Body::ControlDecided { decision, reason, after, .. } => format!(
            "  ↻ {} · {reason} (retries {}/{}, repairs {}/{}, replans {}/{})",
            decision.words(),
            after.retry_count.n,
            after.retry_count.max,
            after.single_step_repair_count.n,
            after.single_step_repair_count.max,
            after.task_replan_count.n,
            after.task_replan_count.max,
        ),
        Body::PlanUpdated { plan, reason } => {
            let recap = plan.recap().unwrap_or_else(|| format!("{} todos", plan.todos.len()));
            format!("  plan ({reason}): {recap}")
        }
        Body::Feedback { text, .. } | Body::Reminder { text, .. } => {
            format!("  to the model: {}", one_line(without_reminder_tags(text).trim(), 120))
        }
        Body::CheckFinished { command, passed, exit_code, time_ms, .. } => {
            format!("  check {command}: {} ({time_ms} ms)", how_it_ended(*passed, *exit_code))
        }
        Body::ContextCompacted(compacted) => compacted_line(compacted),
        Body::ContextOverflowed { estimated_tokens: n, .. } => format!("  too long: ~{n} tokens"),
        Body::PinAdded { pin } => pin_line(pin, ""),
        Body::PinRemoved { pin } => pin_line(pin, " removed"),
        Body::RulesFound { path, .. } => format!("  rules found: {path}"),
        Body::MemoryRecalled(recalled) => recalled_line(recalled),
        Body::MemoryWritten(written) => learnt_line(written),
        Body::McpServer { server, state, tools, detail } => of_mcp(server, *state, *tools, detail),
        Body::HookFinished(finished) => hook_line(finished),
        Body::Error { source, message, retry_in_ms, .. } => {
            let retry = retry_in_ms.map_or_else(String::new, |ms| format!("; again in {ms} ms"));
            format!("  error ({source}): {message}{retry}")
        }
        Body::TurnFinished(finished) => ending_line("turn finished", finished),
        Body::TurnUndone { undone, files, is_complete, is_redo } => {
            let files: Vec<String> =
                files.iter().map(|(path, how)| format!("{path}: {how}")).collect();
            let part = if *is_complete { "" } else { " in part" };
            let what = if *is_redo { "redone" } else { "undone" };
            format!("turn {undone} {what}{part}: {}", files.join(", "))
        }
        Body::SessionSummary(summary) => summary_line(summary),
        Body::ModelDelta { .. }
        | Body::ModelProgress { .. }
        | Body::ModelPartial { .. }
        | Body::ToolOutput { .. }
        | Body::Evaluation { failure: None, .. } => return None,
    })
}

/// A question to the user, or what became of it.
fn dialog_line(body: &Body) -> Option<String> {
    let in_a_row = |texts: Vec<String>| -> String {
        let texts: Vec<_> = texts.iter().map(|text| one_line(text, 100)).collect();
        texts.join(" | ")
    };
    Some(match body {
        Body::PermissionRequested { tool, input, rule, .. } => {
            format!("  asked ({rule}): {}", call_line(tool, input))
        }
        Body::PermissionDecided { tool, ruling, rule, .. } => {
            format!("  permission: {tool} {ruling} by {rule}")
        }
        Body::QuestionAsked { questions, .. } => {
            let questions = questions.iter().map(|it| it.question.clone()).collect();
            format!("  the model asks: {}", in_a_row(questions))
        }
        Body::QuestionAnswered { answers, .. } => {
            let answers = answers.iter().map(UserAnswer::in_words).collect();
            format!("  the user answers: {}", in_a_row(answers))
        }
        _ => return None,
    })
}

fn how_it_ended(passed: bool, exit_code: Option<i32>) -> String {
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
    let spending = finished.spending();
    format!(
        "{what}: {} (exit {}), {}, {}",
        finished.ending.as_str(),
        finished.ending.exit_code(),
        counted(finished.rounds.into(), "model answer"),
        spending.in_words(),
    )
}

/// The label of requests outside the conversation.
fn aside(purpose: Purpose) -> &'static str {
    if purpose == Purpose::Learn { " (to learn)" } else { "" }
}

fn said(who: &str, input: &str, images: &[Image]) -> String {
    let images = images.iter().map(|image| format!(" [{}]", image.in_words()));
    format!("{who}: {}{}", one_line(input, 100), images.collect::<String>())
}

fn answer_line(answer: &ModelResponded) -> String {
    let mut spending = Spending::default();
    spending.add(answer);
    let tokens = match spending.usage.total() {
        0 => String::new(),
        _ => format!(", {}", spending.in_words()),
    };
    let text = one_line(&answer.text, 100);
    let discarded = if answer.discarded { " (not used)" } else { "" };
    let calls = match answer.calls.len() {
        0 => String::new(),
        1 => " [1 call]".to_owned(),
        n => format!(" [{n} calls]"),
    };
    let aside = aside(answer.purpose);
    format!("← model{aside}{calls}{discarded}: {text} ({} ms{tokens})", answer.time_ms)
}

fn recalled_line(recalled: &MemoryRecalled) -> String {
    let how = if recalled.applied { "the kernel tries what it knows" } else { "recalled" };
    format!("  ✦ {how}: {}", in_short(&recalled.items))
}

fn learnt_line(written: &MemoryWritten) -> String {
    let lists = [("learnt", &written.new), ("confirmed", &written.confirmed)];
    let lists = lists.iter().filter(|(_, items)| !items.is_empty());
    let lists: Vec<String> =
        lists.map(|(how, items)| format!("{how}: {}", in_short(items))).collect();
    format!("  ✦ {}", lists.join("; "))
}

/// Lessons in short: id and text.
fn in_short(items: &[Recalled]) -> String {
    let items: Vec<String> =
        items.iter().map(|item| format!("[{}] {}", item.id, one_line(&item.text, 100))).collect();
    items.join("; ")
}

fn summary_line(summary: &Summary) -> String {
    let list = |counts: &BTreeMap<String, u32>| {
        let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
        counts.join(", ")
    };
    let failures = if summary.failures.is_empty() {
        String::new()
    } else {
        format!("; failures: {}", list(&summary.failures))
    };
    let (turns, calls) = (summary.turns, list(&summary.calls));
    let cost = summary.spending.in_words();
    let s = if turns == 1 { "" } else { "s" };
    format!("session: {turns} turn{s}, calls: {calls}{failures}; {cost}")
}

fn pin_line(pin: &Pin, how: &str) -> String {
    format!("  pin {}{how}: {}", pin.id, one_line(&pin.text, 120))
}

fn of_mcp(server: &str, state: McpState, tools: usize, detail: &str) -> String {
    let state = state.as_str();
    match detail {
        "" => format!("  mcp {server}: {state}, {}", counted(tools as u64, "tool")),
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

fn compacted_line(compacted: &Compacted) -> String {
    let (before, after) = (compacted.tokens_before, compacted.tokens_after);
    let n_messages = compacted.archived;
    format!("  compacted: {n_messages} messages gave way to a summary, ~{before} → ~{after} tokens")
}

fn reflection_line(reflection: Option<&Reflection>, refused: &[String]) -> String {
    let mut line = String::from("  reflection: ");
    match reflection {
        None => line.push_str("no answer that can be used"),
        Some(reflection) => {
            let cause = &reflection.root_cause;
            let text = one_line(&cause.text, 160);
            line.push_str(&format!("{text} (confidence {:.1})", cause.confidence));
            if !reflection.patch_prompt.is_empty() {
                line.push_str(&format!("; patch: {}", one_line(&reflection.patch_prompt, 160)));
            }
        }
    }
    for why in refused {
        line.push_str(&format!("; not followed: {why}"));
    }
    line
}

/// The transcript as Markdown.
pub fn markdown(events: &[Event]) -> String {
    let mut out = String::new();
    // (The result of the Task call tells what a sub-agent did.)
    for event in events.iter().filter(|event| event.header.is_main()) {
        match &event.body {
            Body::SessionStarted(started) => {
                _ = writeln!(out, "# Session {}\n", event.header.session);
                _ = writeln!(out, "{} · {} · {}\n", event.header.ts, started.model, started.cwd);
            }
            Body::TurnStarted { input, images, .. } => {
                _ = writeln!(out, "## User\n\n{}\n", with_images(input, images));
            }
            Body::UserCommand { command, output, .. } => {
                _ = writeln!(out, "```\n$ {command}\n{}\n```\n", output.trim_end());
            }
            Body::TurnSteered { input, images, .. } => {
                _ = writeln!(out, "## User, meanwhile\n\n{}\n", with_images(input, images));
            }
            Body::Feedback { text, .. } => {
                let text = without_reminder_tags(text);
                _ = writeln!(out, "> {}\n", text.trim().replace('\n', "\n> "));
            }
            // Learning requests are not part of the conversation.
            Body::ModelResponded(answer)
                if !answer.discarded
                    && !answer.text.is_empty()
                    && answer.purpose != Purpose::Learn =>
            {
                _ = writeln!(out, "{}\n", answer.text);
            }
            Body::ToolFinished { tool, envelope, .. } => {
                let call = call_line(tool, &envelope.context.params_input);
                let how = envelope.error().map_or(envelope.status(), |error| error.code.as_str());
                _ = writeln!(
                    out,
                    "- `{}` — {how}: {}\n",
                    call.replace('`', "'"),
                    one_line(&envelope.text, 200)
                );
                if let Some(diff) = envelope.data.get("diff_preview").and_then(Value::as_str)
                    && !diff.is_empty()
                {
                    _ = writeln!(
                        out,
                        "  ```diff\n  {}\n  ```\n",
                        diff.trim_end().replace('\n', "\n  ")
                    );
                }
            }
            Body::ContextCompacted(compacted) if !compacted.summary.is_empty() => {
                let summary = compacted.summary.trim_end().replace('\n', "\n> ");
                _ = writeln!(out, "> {summary}\n");
            }
            Body::SessionForked { .. }
            | Body::SessionRewound { .. }
            | Body::DirectoryAdded { .. }
            | Body::TurnUndone { .. }
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. } => {
                if let Some(line) = timeline_line(&event.body) {
                    _ = writeln!(out, "*{}*\n", line.trim());
                }
            }
            Body::CheckFinished { command, passed, .. } => {
                _ = writeln!(
                    out,
                    "- check `{command}`: {}\n",
                    if *passed { "passed" } else { "failed" }
                );
            }
            Body::TurnFinished(finished) => {
                _ = writeln!(out, "*{}*\n", finished.ending.as_str());
                if !finished.ending.is_success() {
                    _ = writeln!(out, "{}\n", finished.result);
                }
            }
            _ => {}
        }
    }
    // It may be displayed in a terminal later.
    in_file(&out).into_owned()
}

fn one_line(text: &str, max: usize) -> String {
    shorten(&text.trim().replace('\n', " ⏎ "), max)
}

fn seconds_since(start: &str, now: &str) -> f64 {
    let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
    match (at(start), at(now)) {
        (Some(start), Some(now)) => now.duration_since(start).as_secs_f64(),
        _ => 0.0,
    }
}
