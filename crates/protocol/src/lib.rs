//! The shared vocabulary: the types that the crates exchange, the interfaces that they implement for each other, and
//! what several of them need: masking, files, words for the user.
//!
//! Reading order: [`message`] and [`tool`] (conversation and calls), [`model`] (the interface to models),
//! [`envelope`] (tool results), [`control`] (decisions and endings), [`event`] (the event stream and the
//! interface for its consumers), [`plan`], [`mask`], [`view`], [`directives`] (sentences of the user that the
//! program acts on), [`terminal_escape`] (text that is shown whole and cannot act on a terminal),
//! [`command_output`] (output as a terminal displays it), [`disk`] (files that are opened without following
//! links), [`web`] (addresses of pages), [`embedded`] (the files of `prompts/` and `data/`).

pub mod command_output;
pub mod control;
pub mod custom_command;
pub mod directives;
pub mod disk;
pub mod dropped_path;
pub mod embedded;
pub mod envelope;
pub mod event;
pub mod hook;
pub mod json_repair;
pub mod line_diff;
pub mod mask;
pub mod message;
pub mod model;
pub mod plan;
pub mod prompt;
pub mod provider;
pub mod question;
pub mod recall;
pub mod redactor;
pub mod reflection;
pub mod schema;
pub mod settings;
pub mod signature;
pub mod spending;
pub mod subagent;
pub mod terminal_escape;
pub mod tool;
pub mod variant_names;
pub mod view;
pub mod web;

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use unicode_normalization::UnicodeNormalization as _;

/// A JSON object that keeps the order of its keys.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// A number of things: `1 line`, `2 lines`, `2 entries`.
pub fn pluralize(n: u64, noun: &str) -> String {
    match (n, noun.strip_suffix("ch").or_else(|| noun.strip_suffix('y'))) {
        (1, _) => format!("1 {noun}"),
        (_, Some(_)) if noun.ends_with("ch") => format!("{n} {noun}es"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {noun}s"),
    }
}

/// The beginning of `text`: at most `max` bytes, cut at a character, with `…` at the end if it was cut.
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

/// `text` in one line, with single spaces between its words.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A number with separators: `1,234,567`.
pub fn format_thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes: `4.1 kB`.
pub fn format_size(bytes: u64) -> String {
    let thousands = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match thousands.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

/// The beginning and the end of a text, at most `head` and `tail` bytes, with a note between them; the whole
/// text if it fits. Cut at lines if they are short, and never within a character.
pub fn truncate_middle(text: &str, (head, tail): (usize, usize), note: &str) -> String {
    if text.len() <= head.saturating_add(tail) {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(head);
    let start = text.ceil_char_boundary(text.len() - tail);
    let end = text[..end].rfind('\n').filter(|at| *at > end / 2).unwrap_or(end);
    let start =
        text[start..].find('\n').filter(|at| *at < tail / 2).map_or(start, |at| start + at + 1);
    format!("{}\n{note}\n{}", &text[..end], &text[start..])
}

/// Whether a glob has so many braces that a recursive parser could exhaust its stack.
pub fn has_too_many_braces(glob: &str) -> bool {
    const MOST: usize = 100;
    glob.bytes().filter(|byte| *byte == b'{').nth(MOST).is_some()
}

/// The raw path of a text with `\xNN` escapes; `None` without escapes.
pub fn unescape_path(text: &str) -> Option<OsString> {
    if !text.contains("\\x") {
        return None;
    }
    let mut raw = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        raw.extend_from_slice(&rest.as_bytes()[..at]);
        let digits = rest.get(at + 2..at + 4);
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte != 0 => {
                raw.push(byte);
                rest = &rest[at + 4..];
            }
            Some(_) | None => {
                raw.extend_from_slice(b"\\x");
                rest = &rest[at + 2..];
            }
        }
    }
    raw.extend_from_slice(rest.as_bytes());
    Some(OsString::from_vec(raw))
}

/// A file name as a keyboard types it: with composed letters and plain blanks.
pub fn typed_name(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return name.into();
    }
    let plain = |char: char| if char.is_whitespace() && !char.is_control() { ' ' } else { char };
    name.nfc().map(plain).collect::<String>().into()
}

/// The most similar of these names, if one is similar enough: for "did you mean".
pub fn most_similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let similarity = |other: &str| {
        let other = other.to_lowercase();
        let is_part = name.len() > 2 && (other.contains(&name) || name.contains(&other));
        // A letter too many, missing or out of place.
        let is_slip = name.len() > 2 && strsim::damerau_levenshtein(&name, &other) <= 2;
        let similarity = strsim::jaro_winkler(&name, &other);
        if is_part || is_slip { similarity.max(0.8) } else { similarity }
    };
    names
        .into_iter()
        .map(|other| (similarity(other), other))
        .filter(|(similarity, _)| *similarity >= 0.78)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

/// Removes the tags of the program's messages: a model may not write them, users are not shown them.
pub fn strip_reminder_tags(text: &str) -> String {
    ["<system-reminder>", "</system-reminder>"]
        .iter()
        .fold(text.to_owned(), |text, tag| text.replace(tag, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_suggested_only_if_similar() {
        let names = ["run", "demo", "tool", "session", "doctor"];
        for (typed, meant) in [
            ("rnu", Some("run")),
            ("sesions", Some("session")),
            ("Doctor", Some("doctor")),
            ("explain", None),
            ("x", None),
        ] {
            assert_eq!(most_similar(typed, names), meant, "{typed}");
        }
    }

    #[test]
    fn both_ends_keeps_whole_short_lines() {
        assert_eq!(truncate_middle("1\n2\n3\n", (4, 4), "…"), "1\n2\n3\n");
        assert_eq!(truncate_middle("11\n22\n33\n44\n55", (7, 6), "…"), "11\n22\n…\n44\n55");
        assert_eq!(truncate_middle("äöüäöüäöü", (3, 3), "…"), "ä\n…\nü");
        assert_eq!(truncate_middle("all of it", (usize::MAX, usize::MAX), "…"), "all of it");
    }

    #[test]
    fn nesting_of_braces_is_limited() {
        assert!(!has_too_many_braces("src/{a,b{c,d}}/*.{rs,toml}"));
        assert!(!has_too_many_braces(&"{a}".repeat(100)));
        assert!(
            has_too_many_braces(&"{\\}".repeat(101)) && has_too_many_braces(&"{[}]".repeat(101))
        );
        assert!(has_too_many_braces(&"{".repeat(101)));
    }

    #[test]
    fn shorten_cuts_at_a_character_boundary() {
        assert_eq!(shorten("äöü", 6), "äöü");
        assert_eq!(shorten("äöü", 5), "ä…");
    }
}
