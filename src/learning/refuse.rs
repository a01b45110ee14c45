//! What never becomes memory: secrets, places outside the project, feelings, the task told again, and whatever
//! would widen what is allowed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::protocol::mask::Masker;
use crate::protocol::reflection::{proposals, widens};

/// The longest text that is kept, in bytes.
const MAX_BYTES: usize = 300;
/// From so much of the task's words on a text tells the task again.
const RETELLS: f64 = 0.6;
/// Words of somebody who feels something about the work.
const FEELINGS: [&str; 30] = [
    "sorry",
    "apolog",
    "frustrat",
    "unfortunately",
    "happy",
    "glad",
    "sad",
    "angry",
    "annoying",
    "terrible",
    "awful",
    "stupid",
    "hate",
    "love",
    "great job",
    "well done",
    "amazing",
    "feel ",
    "proud",
    "embarrass",
    "disappoint",
    "i was",
    "i should have",
    "i am ",
    "抱歉",
    "对不起",
    "遗憾",
    "高兴",
    "糟糕",
    "沮丧",
];
/// Words of a text that is about one task, not about tasks of its kind.
const RETELLINGS: [&str; 14] = [
    "the user asked",
    "the user wants",
    "the user wanted",
    "in this task",
    "this task",
    "the task was",
    "in this session",
    "this session",
    "today",
    "earlier i ",
    "we fixed",
    "i fixed",
    "本次任务",
    "用户要求",
];
/// Absolute paths that are the same everywhere.
const EVERYWHERE: [&str; 3] = ["/dev/null", "/dev/stdin", "/dev/stdout"];

static SECRETS: LazyLock<Option<Masker>> = LazyLock::new(|| Masker::new([], &[]).ok());

/// Why this is not kept, where it is not. `task`: what the user asked for, where that is known.
pub fn why(text: &str, task: &str) -> Option<String> {
    let lower = text.to_lowercase();
    if text.trim().is_empty() {
        return Some("it says nothing".to_owned());
    }
    if text.len() > MAX_BYTES {
        return Some(format!("it is longer than {MAX_BYTES} bytes"));
    }
    let is_secret = |masker: &Masker| masker.mask(text) != text;
    if text.contains("[redacted:") || SECRETS.as_ref().is_some_and(is_secret) {
        return Some("it holds a secret".to_owned());
    }
    if let Some(path) = outside(text) {
        return Some(format!("{path} is outside the project"));
    }
    if let Some(word) = proposals(&lower).into_iter().find_map(widens) {
        return Some(format!("it speaks of {word:?}: what is allowed is a person's business"));
    }
    if let Some(word) = FEELINGS.iter().find(|word| lower.contains(*word)) {
        return Some(format!("{:?} says how somebody feels, not what to do", word.trim()));
    }
    if let Some(word) = RETELLINGS.iter().find(|word| lower.contains(*word)) {
        return Some(format!("{:?}: it tells of one task", word.trim()));
    }
    retells(&lower, &task.to_lowercase()).then(|| "it tells the task again".to_owned())
}

/// A path that begins outside the project.
fn outside(text: &str) -> Option<&str> {
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | ',' | ';' | '=');
    text.split(is_end).find(|word| {
        let word = word.trim_end_matches(['.', ':', '!', '?']);
        let is_path = (word.starts_with('/') && word.len() > 1)
            || word.starts_with("~/")
            || word == ".."
            || word.starts_with("../")
            || word.contains("/../");
        is_path && !EVERYWHERE.contains(&word)
    })
}

/// Most of the text's words are the task's, and most of the task's are its.
fn retells(text: &str, task: &str) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        words.map(str::to_owned).collect()
    };
    let (text, task) = (words(text), words(task));
    if text.len() < 4 || task.len() < 4 {
        return false;
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
    let share = |of: &BTreeSet<String>| text.intersection(&task).count() as f64 / of.len() as f64;
    share(&text) >= RETELLS && share(&task) >= RETELLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, because: &str) {
        let why = why(text, "fix the failing parser test in tests/parser.py").unwrap_or_default();
        assert!(why.contains(because), "{text}: {why}");
    }

    #[test]
    fn what_must_not_be_kept_is_refused_with_a_reason() {
        refused("Use token [redacted:api-key].", "secret");
        refused("Send AKIAIOSFODNN7EXAMPLE with it.", "secret");
        refused("Read /etc/hosts first.", "outside");
        refused("Run `cd ../other && make`.", "outside");
        refused("Run commands with sudo.", "sudo");
        refused("Set the permission mode to full.", "permission mode");
        refused("Unfortunately the tests were slow.", "feels");
        refused("The user wanted the parser fixed.", "one task");
        refused("Fix the failing parser test in tests/parser.py", "task again");
        refused(" ", "nothing");
        refused(&"x".repeat(400), "longer");
    }

    #[test]
    fn advice_is_kept() {
        for text in [
            "Run `python3 -m pytest`, not `pytest`: it is not installed here.",
            "Run `make gen > /dev/null` before `make test`.",
            "Never run tests with sudo.",
            "`main.rs` lies at `src/main.rs`.",
            "运行 `make fmt` 之后再运行 `make lint`。",
        ] {
            assert_eq!(why(text, "fix the parser"), None, "{text}");
        }
    }
}
