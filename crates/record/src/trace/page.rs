//! Writes a session as one self-contained HTML page: the lines of its log, without a second copy, and a script that
//! displays them. It displays an event that this version does not understand unchanged.

mod embed;

use std::fmt::Write as _;

use serde::{Deserialize as _, Serialize};

use self::embed::embed;
use crate::log::process_in_parts;
use agent_protocol::Object;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Event, FORMAT_VERSION};
use agent_protocol::pluralize;

/// A page with notices about its gaps.
#[derive(Clone, Debug)]
pub struct Page {
    pub html: String,
    /// Missing or unreadable parts, one sentence each.
    pub notices: Vec<String>,
}

/// The beginning of every page: a file with this beginning may be replaced by a newer page.
pub const BEGINNING: &str = "<!DOCTYPE html>\n<!-- A page of `agent trace html`. -->\n";

const MAX_UNREADABLE: usize = 2_000;

const STYLE: &str = include_str!("page/page.css");

/// The files share one scope; each uses only those before it, except in functions.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("page/dom.js"),
    include_str!("page/fold.js"),
    include_str!("page/charts.js"),
    include_str!("page/detail.js"),
    include_str!("page/panels.js"),
    include_str!("page/timeline.js"),
    include_str!("page/page.js"),
);

/// Data for the page's script besides the lines of the log.
#[derive(Debug, Default, Serialize)]
struct PageData {
    session: String,
    notices: Vec<String>,
}

/// Creates the page of a session from the bytes of its log.
pub fn render_html(log: &[u8]) -> Page {
    let whole = memchr::memrchr(b'\n', log).map_or(0, |last| last + 1);
    let lines = read_lines(&log[..whole]);
    let notices = lines.notices(whole < log.len());
    let facts = PageData { session: lines.session, notices: notices.clone() };
    // No text of the log can contain the hash of the log: only the page's own script has this nonce.
    let nonce = blake3::hash(log).to_hex();
    let mut page = String::with_capacity(lines.text.len() + SCRIPT.len() + STYLE.len() + 2_000);
    let policy = format!(
        "style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    );
    page.push_str(BEGINNING);
    _ = write!(
        page,
        "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>agent trace</title>\n\
         <style nonce=\"{nonce}\">\n{STYLE}</style>\n</head>\n<body>\n"
    );
    page.push_str(
        "<noscript>This page needs JavaScript; it loads nothing from anywhere. Without it: \
         agent trace show</noscript>\n<script type=\"application/json\" id=\"facts\">",
    );
    embed(&serde_json::to_string(&facts).unwrap_or_default(), &mut page);
    page.push_str("</script>\n<script type=\"application/json\" id=\"log\">\n");
    page.push_str(&lines.text);
    _ = write!(
        page,
        "</script>\n<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    Page { html: page, notices }
}

fn read_lines(log: &[u8]) -> PageLines {
    let session = log.split(|byte| *byte == b'\n').find_map(parse_session_id).unwrap_or_default();
    let empty = || PageLines { session: session.clone(), ..PageLines::default() };
    let mut all = empty();
    for part in process_in_parts(log, |part| {
        let mut lines = empty();
        let texts = part.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        texts.for_each(|line| lines.add_line(line));
        lines
    }) {
        all.append(&part);
    }
    all
}

fn parse_session_id(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct SessionField {
        session: String,
    }
    serde_json::from_slice::<SessionField>(line).ok().map(|event| event.session)
}

#[derive(Debug, Default)]
struct PageLines {
    text: String,
    session: String,
    n_unreadable: usize,
    n_unknown: usize,
    newest_format: u64,
}

impl PageLines {
    fn add_line(&mut self, line: &[u8]) {
        match serde_json::from_slice::<Object>(line) {
            Ok(fields) => self.add_event(line, fields),
            Err(error) => {
                self.n_unreadable += 1;
                let start = &line[..line.len().min(MAX_UNREADABLE)];
                let text = String::from_utf8_lossy(start).into_owned();
                let fields = Object::from_iter([
                    ("type".to_owned(), "unreadable".into()),
                    ("reason".to_owned(), error.to_string().into()),
                    ("bytes".to_owned(), line.len().into()),
                    ("text".to_owned(), text.into()),
                ]);
                self.write_line(&fields);
            }
        }
    }

    fn add_event(&mut self, line: &[u8], mut fields: Object) {
        let format = fields.get("v").and_then(serde_json::Value::as_u64).unwrap_or_default();
        self.newest_format = self.newest_format.max(format);
        // The page contains values that are equal in every event once.
        let same = [("v", FORMAT_VERSION.into()), ("session", self.session.as_str().into())];
        for (name, value) in same.into_iter().chain([("agent", "main".into())]) {
            if fields.get(name) == Some(&value) {
                fields.shift_remove(name);
            }
        }
        let is_known = if fields.get("type").is_some_and(|kind| kind == "tool.finished") {
            // Results are most of a log: only the necessary parts are parsed again.
            let envelope = fields.get("envelope").and_then(|it| Envelope::deserialize(it).ok());
            if let Some(view) = envelope.as_ref().and_then(embed::view_by_reference) {
                fields.insert("view".to_owned(), view);
            }
            envelope.is_some()
        } else {
            serde_json::from_slice::<Event>(line).is_ok()
        };
        self.n_unknown += usize::from(!is_known);
        // Provider data is encrypted, or only of use to the provider; it is never exported.
        if fields.get("type").is_some_and(|kind| kind == "model.responded") {
            fields.shift_remove("carried");
        }
        self.write_line(&fields);
    }

    fn write_line(&mut self, fields: &Object) {
        // Strings and numbers always serialise.
        embed(&serde_json::to_string(fields).unwrap_or_default(), &mut self.text);
        self.text.push('\n');
    }

    fn append(&mut self, next: &Self) {
        self.text.push_str(&next.text);
        self.n_unreadable += next.n_unreadable;
        self.n_unknown += next.n_unknown;
        self.newest_format = self.newest_format.max(next.newest_format);
    }

    fn notices(&self, is_torn: bool) -> Vec<String> {
        let newer = format!(
            "the session was recorded by a newer version (event format {}, this version knows \
             {FORMAT_VERSION}): a newer version may show more",
            self.newest_format
        );
        let events = pluralize(self.n_unknown as u64, "event");
        let lines = pluralize(self.n_unreadable as u64, "line");
        let are = if self.n_unreadable == 1 { "is" } else { "are" };
        let notices = [
            (self.newest_format > u64::from(FORMAT_VERSION), newer),
            (self.n_unknown > 0, format!("{events} not understood and shown as recorded")),
            (self.n_unreadable > 0, format!("{lines} {are} not readable as JSON")),
            (is_torn, "the last line is incomplete and left out".to_owned()),
        ];
        notices.into_iter().filter(|(applies, _)| *applies).map(|(_, notice)| notice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_and_style_contain_no_end_tag() {
        for text in [SCRIPT, STYLE] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
