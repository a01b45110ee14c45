//! When are two failures the same failure? When their messages agree but for what changes by chance.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::protocol::shorten;

/// The message with numbers, times, paths, addresses and hashes masked.
pub(crate) fn signature(message: &str) -> String {
    message.split_whitespace().map(mask).collect::<Vec<_>>().join(" ")
}

/// A text that has to be short and still tell itself from others: of what is cut off a hash stays.
pub(crate) fn brief(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{}{:08x}", shorten(text, max.saturating_sub(8)), hasher.finish() & 0xffff_ffff)
}

fn mask(word: &str) -> String {
    let core = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '~'));
    let is_path = |text: &str| text.contains(['/', '\\']);
    // `tests/test_a.py::test_x` says which test it was.
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
    fn what_changes_by_chance_is_masked() {
        let one = "thread 4711 panicked at src/a.rs:12:5: left 3 at 0x7ffe12, took 1.25s (commit 3fa9c21b)";
        let other =
            "thread 9 panicked at src/b/c.rs:99:1: left 44 at 0x11, took 12.5s (commit 00ab12cd)";
        assert_eq!(signature(one), signature(other));
    }

    #[test]
    fn what_is_different_stays_different() {
        assert_ne!(signature("expected `;`"), signature("expected `,`"));
        assert_ne!(signature("no method named foo"), signature("no method named bar"));
        let pytest =
            |test: &str| signature(&format!("FAILED tests/test_a.py::{test} - assert 1 == 2"));
        assert_eq!(pytest("test_x"), "FAILED <path>::test_x - assert # == #");
        assert_ne!(pytest("test_1"), pytest("test_2"));
    }
}
