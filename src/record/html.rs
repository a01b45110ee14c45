//! Renders a session as a self-contained HTML page without scripts.

use std::fmt::Write as _;

use serde_json::Value;

use super::render::timeline_line;
use super::summary::{Turn, cost_line, summary, turns};
use crate::protocol::envelope::Envelope;
use crate::protocol::event::{Body, Event};
use crate::protocol::message::with_images;
use crate::protocol::model::Purpose;
use crate::protocol::view::{call_line, view};
use crate::protocol::{Object, without_reminder_tags};

const STYLE: &str = include_str!("html.css");

/// The page.
pub fn html(events: &[Event]) -> String {
    let mut page = Page::default();
    let id = events.first().map_or("", |event| event.header.session.as_str());
    page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" ");
    page.raw("content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width\">\n");
    page.element("title", "", &format!("session {id}"));
    page.raw(&format!("<style>\n{STYLE}</style>\n</head>\n<body>\n"));
    page.element("h1", "", &format!("Session {id}"));
    let sum = summary(events);
    page.element("p", "note", &cost_line(sum.usage, sum.cost_usd));
    let turns = turns(events);
    let mut is_open = false;
    for event in events {
        if let Body::TurnStarted { input, images, .. } = &event.body {
            page.raw(if is_open { "</section>\n" } else { "" });
            is_open = true;
            let turn = turns.iter().find(|turn| turn.number == event.header.place.turn);
            page.turn(event, &with_images(input, images), turn);
        } else {
            page.event(event);
        }
    }
    page.raw(if is_open { "</section>\n" } else { "" });
    page.raw("</body>\n</html>\n");
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn turn(&mut self, event: &Event, input: &str, turn: Option<&Turn>) {
        let is_live = turn.is_none_or(|turn| turn.is_live);
        self.raw(if is_live { "<section>\n" } else { "<section class=\"gone\">\n" });
        let rewound = if is_live { "" } else { " (removed by a rewind)" };
        self.element("h2", "", &format!("Turn {}{rewound}", event.header.place.turn));
        let cost = turn.map_or_else(String::new, |turn| cost_line(turn.usage, turn.cost_usd));
        self.element("p", "note", &format!("{} · {cost}", event.header.ts));
        self.element("div", "user", input);
    }

    fn event(&mut self, event: &Event) {
        match &event.body {
            Body::SessionStarted(started) => {
                let mode = started.permission_mode.as_str();
                let (ts, model) = (&event.header.ts, &started.model);
                let line = format!("{ts} · {model} · {} · mode {mode}", started.cwd);
                self.element("p", "note", &line);
            }
            Body::ModelResponded(answer)
                if !answer.text.is_empty() && answer.purpose != Purpose::Learn =>
            {
                if !answer.reasoning.is_empty() {
                    self.folded("note", "reasoning", &answer.reasoning);
                }
                let class = if answer.discarded { "model gone" } else { "model" };
                self.element("div", class, &answer.text);
            }
            Body::Feedback { text, .. } => {
                self.folded("note", "to the model", without_reminder_tags(text).trim());
            }
            Body::ToolFinished { tool, envelope, .. } => self.call(tool, envelope),
            Body::ContextCompacted(compacted) => {
                let line = timeline_line(&event.body).unwrap_or_default();
                self.folded("decision", line.trim(), &compacted.summary);
            }
            Body::CheckFinished { tail, .. } => {
                let line = timeline_line(&event.body).unwrap_or_default();
                self.folded("decision", line.trim(), tail);
            }
            Body::TurnFinished(finished) => {
                let line = timeline_line(&event.body).unwrap_or_default();
                self.element("p", "ending", &line);
                if !finished.ending.is_success() {
                    self.element("div", "error", &finished.result);
                }
            }
            Body::TurnSteered { input, images, .. } => {
                self.element("div", "user", &with_images(input, images));
            }
            Body::UserCommand { command, output, .. } => {
                self.folded("note", &format!("! {command}"), output);
            }
            Body::ControlDecided { .. }
            | Body::Reflected { .. }
            | Body::PermissionDecided { .. }
            | Body::ModeChanged { .. }
            | Body::PlanUpdated { .. }
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. }
            | Body::RulesFound { .. }
            | Body::MemoryRecalled(_)
            | Body::MemoryWritten(_)
            | Body::RuleAdded { .. }
            | Body::RuleRemoved { .. }
            | Body::Reminder { .. }
            | Body::Error { .. }
            | Body::ContextOverflowed { .. }
            | Body::TurnUndone { .. }
            | Body::SessionResumed { .. }
            | Body::SessionForked { .. }
            | Body::SessionRewound { .. }
            | Body::SessionRenamed { .. }
            | Body::ModelFallback { .. }
            | Body::DirectoryAdded { .. } => {
                if let Some(line) = timeline_line(&event.body) {
                    self.element("p", "decision", line.trim());
                }
            }
            Body::TurnStarted { .. }
            | Body::ModelRequested(_)
            | Body::ModelDelta { .. }
            | Body::ModelProgress { .. }
            | Body::ModelPartial { .. }
            | Body::ModelResponded(_)
            | Body::ToolStarted { .. }
            | Body::ToolOutput { .. }
            | Body::PermissionRequested { .. }
            | Body::Evaluation { .. }
            | Body::Verified(_)
            | Body::SessionSummary(_) => {}
        }
    }

    fn call(&mut self, tool: &str, envelope: &Envelope) {
        let how = envelope.error().map_or(envelope.status(), |error| error.code.as_str());
        let class = if envelope.error().is_some() { "call error" } else { "call" };
        let input = &envelope.context.params_input;
        self.raw(&format!("<details class=\"{class}\">"));
        self.element("summary", "", &format!("{} · {how}", call_line(tool, input)));
        self.element("pre", "", &pretty(input));
        self.element("pre", "", &view(envelope));
        self.raw("</details>\n");
        let diff = envelope.data.get("diff_preview").and_then(Value::as_str).unwrap_or_default();
        if !diff.is_empty() {
            self.diff(diff);
        }
    }

    fn diff(&mut self, diff: &str) {
        self.raw("<pre class=\"diff\">");
        for line in diff.lines() {
            let class = match line.as_bytes().first() {
                Some(b'+') => "added",
                Some(b'-') => "removed",
                Some(b'@') => "note",
                _ => "",
            };
            self.element("span", class, line);
        }
        self.raw("</pre>\n");
    }

    fn folded(&mut self, class: &str, title: &str, text: &str) {
        self.raw(&format!("<details class=\"{class}\">"));
        self.element("summary", "", title);
        self.element("pre", "", text);
        self.raw("</details>\n");
    }

    fn element(&mut self, name: &str, class: &str, text: &str) {
        self.raw(&match class {
            "" => format!("<{name}>"),
            class => format!("<{name} class=\"{class}\">"),
        });
        self.text(text);
        self.raw(&format!("</{name}>\n"));
    }

    fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Foreign text: its characters are never markup, terminal control or text direction marks.
    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                c if c.is_control() || turns_direction(c) => {
                    _ = write!(self.0, "\\u{{{:x}}}", u32::from(c));
                }
                c => self.0.push(c),
            }
        }
    }
}

/// Such characters would reorder or hide what is displayed.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn pretty(input: &Object) -> String {
    serde_json::to_string_pretty(input).unwrap_or_default()
}
