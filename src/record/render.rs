//! A session for people: a timeline of what happened, and a transcript of what was said.

use std::fmt::Write as _;

use serde_json::Value;

use crate::protocol::control::ControlDecision;
use crate::protocol::event::{Body, Event, FreezeCause};
use crate::protocol::shorten;
use crate::protocol::view::call_line;

/// Step by step what happened: calls with their status, decisions, tokens. Ends with a line break.
pub fn timeline(events: &[Event]) -> String {
    let mut out = String::new();
    let start = events.first().map(|event| event.header.ts.clone()).unwrap_or_default();
    for event in events {
        let Some(line) = timeline_line(&event.body) else { continue };
        let place = event.header.place;
        let time = seconds_since(&start, &event.header.ts);
        let place = format!("{}.{}", place.turn, place.round);
        _ = writeln!(out, "{time:>8.2}s {place:>6}  {line}");
    }
    out
}

fn timeline_line(body: &Body) -> Option<String> {
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
        Body::TurnStarted { input } => format!("user: {}", one_line(input, 100)),
        Body::ModelRequested(request) => format!(
            "→ model: {} messages, {} bytes, ~{} tokens",
            request.messages, request.bytes, request.estimated_tokens
        ),
        Body::ModelResponded(answer) => {
            let tokens = answer.usage.map_or_else(String::new, |usage| {
                format!(", {} in / {} out", usage.input_tokens, usage.output_tokens)
            });
            let text = one_line(&answer.text, 100);
            let discarded = if answer.discarded { " (not used)" } else { "" };
            let calls = match answer.calls.len() {
                0 => String::new(),
                1 => " [1 call]".to_owned(),
                n => format!(" [{n} calls]"),
            };
            format!("← model{calls}{discarded}: {text} ({} ms{tokens})", answer.time_ms)
        }
        Body::ToolStarted { tool, input, .. } => format!("  ▸ {}", call_line(tool, input)),
        Body::ToolFinished { tool, envelope, synthetic, .. } => {
            let how = match envelope.error() {
                Some(error) => {
                    format!("{} · {}", error.code.as_str(), one_line(&error.message, 120))
                }
                None => format!("{} · {}", envelope.status(), one_line(&envelope.text, 120)),
            };
            let ms = envelope.stats.get("time_ms").and_then(Value::as_u64).unwrap_or_default();
            let synthetic = if *synthetic { " (synthetic)" } else { "" };
            format!("  ◂ {tool}{synthetic}: {how} ({ms} ms)")
        }
        Body::Frozen { by: FreezeCause::User, words } => {
            format!("  frozen: {}", one_line(words, 120))
        }
        Body::Frozen { by: FreezeCause::Interrupt, .. } => {
            "  frozen until the next message".to_owned()
        }
        Body::Thawed { words } => format!("  no longer frozen: {}", one_line(words, 120)),
        Body::PermissionDecided { tool, ruling, rule, .. } => {
            format!("  permission: {tool} {ruling} by {rule}")
        }
        Body::Evaluation { failure: Some(failure), .. } => {
            format!("  evidence: {}", one_line(&failure.signature, 120))
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
        Body::Feedback { text } => format!("  to the model: {}", one_line(text, 120)),
        Body::CheckFinished { command, passed, exit_code, time_ms, .. } => {
            let how = match (passed, exit_code) {
                (true, _) => "passed".to_owned(),
                (false, Some(code)) => format!("failed, exit {code}"),
                (false, None) => "failed, did not end by itself".to_owned(),
            };
            format!("  check {command}: {how} ({time_ms} ms)")
        }
        Body::Error { source, message, retry_in_ms, .. } => {
            let retry = retry_in_ms.map_or_else(String::new, |ms| format!("; again in {ms} ms"));
            format!("  error ({source}): {message}{retry}")
        }
        Body::TurnFinished(finished) => {
            let cost = finished.cost_usd.map_or_else(String::new, |usd| format!(", ${usd:.4}"));
            format!(
                "turn finished: {} (exit {}), {} model answers, {} in / {} out tokens{cost}",
                finished.ending.as_str(),
                finished.ending.exit_code(),
                finished.rounds,
                finished.usage.input_tokens,
                finished.usage.output_tokens,
            )
        }
        Body::TurnUndone { undone, files } => {
            let files: Vec<String> =
                files.iter().map(|(path, how)| format!("{path}: {how}")).collect();
            format!("turn {undone} undone: {}", files.join(", "))
        }
        Body::SessionSummary(summary) => {
            let calls: Vec<String> =
                summary.calls.iter().map(|(tool, n)| format!("{tool} {n}")).collect();
            let failures: Vec<String> =
                summary.failures.iter().map(|(code, n)| format!("{code} {n}")).collect();
            let failures = if failures.is_empty() {
                String::new()
            } else {
                format!("; failures: {}", failures.join(", "))
            };
            format!("session: {} turns, calls: {}{failures}", summary.turns, calls.join(", "))
        }
        Body::ModelDelta { .. }
        | Body::ToolOutput { .. }
        | Body::Evaluation { failure: None, .. } => return None,
    })
}

/// What was said and done, as Markdown.
pub fn markdown(events: &[Event]) -> String {
    let mut out = String::new();
    for event in events {
        match &event.body {
            Body::SessionStarted(started) => {
                _ = writeln!(out, "# Session {}\n", event.header.session);
                _ = writeln!(out, "{} · {} · {}\n", event.header.ts, started.model, started.cwd);
            }
            Body::TurnStarted { input } => _ = writeln!(out, "## User\n\n{input}\n"),
            Body::Feedback { text } => _ = writeln!(out, "> {}\n", text.replace('\n', "\n> ")),
            Body::ModelResponded(answer) if !answer.discarded && !answer.text.is_empty() => {
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
    out
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
