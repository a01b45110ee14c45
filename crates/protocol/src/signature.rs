//! Signatures of failures: two failures are the same if their messages agree except for incidental details.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::envelope::{Envelope, ErrorClass, ErrorCode};
use super::shorten;

const TAIL_LINES: usize = 20;

/// Tool, code and message of an error; for a command that failed, the end of its output.
pub fn failure_signature(tool: &str, envelope: &Envelope) -> Option<String> {
    let error = envelope.error()?;
    let ran = matches!(error.code, ErrorCode::CommandFailed | ErrorCode::Timeout)
        && error.code.class(tool) == ErrorClass::State;
    Some(if ran {
        format!("{} {}", error.code.as_str(), mask_message(&output_tail(envelope)))
    } else {
        format!("{tool} {}: {}", error.code.as_str(), mask_message(&error.message))
    })
}

/// The end of a command's output. Test runners print the reason on stdout, and little on stderr.
pub fn output_tail(envelope: &Envelope) -> String {
    let tail = |name: &str| {
        let text = envelope.data.get(name).and_then(Value::as_str).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    };
    format!("{}\n{}", tail("stdout"), tail("stderr"))
}

/// Whether the command needs something that is not installed; `output` is the end of its output.
pub fn is_missing_dependency(envelope: &Envelope, output: &str) -> bool {
    let exit_code = envelope.data.get("exit_code").and_then(Value::as_i64);
    exit_code == Some(127)
        || ["No module named", "Cannot find module"].iter().any(|words| output.contains(words))
}

/// The message with numbers, times, paths, addresses and hashes masked.
pub fn mask_message(message: &str) -> String {
    message.split_whitespace().map(mask_word).collect::<Vec<_>>().join(" ")
}

/// Shortens a text but keeps it distinguishable: the part that is cut off is replaced by a hash.
pub fn shorten_with_hash(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{}{:08x}", shorten(text, max.saturating_sub(8)), hasher.finish() & 0xffff_ffff)
}

fn mask_word(word: &str) -> String {
    let core = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '~'));
    let is_path = |text: &str| text.contains(['/', '\\']);
    // `tests/test_a.py::test_x` names the test.
    if let Some((path, _)) = core.split_once("::").filter(|(path, _)| is_path(path)) {
        return word.replacen(path, "<path>", 1);
    }
    if is_path(core) {
        return word.replace(core, "<path>");
    }
    let hex = core.strip_prefix("0x").unwrap_or(core);
    let is_hash = hex.len() >= 7
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && hex.bytes().any(|b| b.is_ascii_digit());
    if is_hash || core.starts_with("0x") {
        return word.replace(core, "<hash>");
    }
    let mut masked = String::with_capacity(word.len());
    for c in word.chars() {
        if !c.is_ascii_digit() {
            masked.push(c);
        } else if !masked.ends_with('#') {
            masked.push('#');
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_masks_numbers_paths_and_hashes() {
        let one = "thread 4711 panicked at src/a.rs:12:5: left 3 at 0x7ffe12, took 1.25s (commit 3fa9c21b)";
        let other =
            "thread 9 panicked at src/b/c.rs:99:1: left 44 at 0x11, took 12.5s (commit 00ab12cd)";
        assert_eq!(mask_message(one), mask_message(other));
    }

    #[test]
    fn signature_distinguishes_different_errors() {
        assert_ne!(mask_message("expected `;`"), mask_message("expected `,`"));
        assert_ne!(mask_message("no method named foo"), mask_message("no method named bar"));
        let pytest =
            |test: &str| mask_message(&format!("FAILED tests/test_a.py::{test} - assert 1 == 2"));
        assert_eq!(pytest("test_x"), "FAILED <path>::test_x - assert # == #");
        assert_ne!(pytest("test_1"), pytest("test_2"));
    }
}
