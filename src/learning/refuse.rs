//! What never becomes memory: secrets, places outside the project, feelings, the task told again, and whatever
//! would widen what is allowed.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::evidence::has_word;
use crate::protocol::mask::{Masker, is_secret_name};
use crate::protocol::reflection::widens_anywhere;

/// Why a secret is not kept.
pub const SECRET: &str = "it holds a secret";
/// The longest text that is kept, in bytes.
const MAX_BYTES: usize = 300;
/// From so much of the task's words on a text tells the task again.
const RETELLS: f64 = 0.6;
/// Words of somebody who feels something about the work.
const FEELINGS: [&str; 43] = [
    "sorry",
    "apology",
    "apologies",
    "apologize",
    "apologise",
    "frustrated",
    "frustrating",
    "frustration",
    "unfortunately",
    "happy",
    "happily",
    "glad",
    "sad",
    "sadly",
    "angry",
    "annoyed",
    "annoying",
    "terrible",
    "awful",
    "stupid",
    "hate",
    "hated",
    "love",
    "loved",
    "great job",
    "well done",
    "amazing",
    "feel",
    "felt",
    "proud",
    "embarrassed",
    "embarrassing",
    "disappointed",
    "disappointing",
    "i was",
    "i should have",
    "i am",
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
    "earlier i",
    "we fixed",
    "i fixed",
    "本次任务",
    "用户要求",
];
/// Absolute paths that are the same everywhere.
const EVERYWHERE: [&str; 3] = ["/dev/null", "/dev/stdin", "/dev/stdout"];

/// What the name of a secret holds.
const SECRET_PARTS: [&str; 4] = ["pass", "secret", "token", "credential"];
/// Parts of names that hold one of these and name no secret.
const NO_SECRET: [&str; 11] = [
    "bypass",
    "compass",
    "passed",
    "passes",
    "passing",
    "passive",
    "tokens",
    "tokenizer",
    "monkey",
    "hotkey",
    "turkey",
];
/// Words of a sentence that stand behind an option and are not its value.
const NO_VALUES: [&str; 14] = [
    "and", "or", "on", "in", "to", "is", "for", "with", "before", "after", "as", "at", "by", "when",
];

static SECRETS: LazyLock<Option<Masker>> = LazyLock::new(|| Masker::new([], &[]).ok());

/// `NAME=value`, `"name": "value"`; what a variable holds (`$TOKEN`) is no value.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    let shape = r#"([\w.-]+)(?:=|\\?["']\s*:\s*)(?:\\?["'])?[^\s"'`$<>{\\]"#;
    Regex::new(shape).expect("it is an expression")
});
/// `--name value`.
static OPTION: LazyLock<Regex> = LazyLock::new(|| {
    let shape = r#"(?:^|[\s"'`(])--?([\w-]+)\s+(?:\\?["'])?([^\s"'`$<>{\\-][^\s"'`]*)"#;
    Regex::new(shape).expect("it is an expression")
});
/// `-u name:value`.
static USER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[\s"'`(])(?:-u|--user)[\s=]+[^\s:$]+:[^\s$]"#).expect("it is an expression")
});

/// It holds a secret: one of a known shape, or a value whose name says that it is one.
///
/// The text may be JSON.
pub fn holds_secret(text: &str) -> bool {
    let has_shape = SECRETS.as_ref().is_some_and(|masker| masker.mask(text) != text);
    let mut assigned = ASSIGNED.captures_iter(text);
    let mut options = OPTION.captures_iter(text);
    text.contains("[redacted:")
        || has_shape
        || USER.is_match(text)
        || assigned.any(|found| names_secret(&found[1]))
        || options.any(|found| names_secret(&found[1]) && !NO_VALUES.contains(&&found[2]))
}

/// What has this name is a secret.
fn names_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let parts = name.split(['-', '_', '.']).filter(|part| !NO_SECRET.contains(part));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let holds = |part: &&str| {
        part.ends_with("key") || SECRET_PARTS.iter().any(|secret| part.contains(secret))
    };
    // `KEY_ENV` names a variable, `--password-file` a file: where a secret is, and not which.
    let is_place = parts.last().is_some_and(|last| ["env", "file", "script"].contains(last));
    !is_place && (is_secret_name(&parts.join("_")) || parts.iter().any(holds))
}

/// Why this is not kept, where it is not. `task`: what the user asked for, where that is known.
pub fn why(text: &str, task: &str) -> Option<String> {
    let lower = text.to_lowercase();
    if text.trim().is_empty() {
        return Some("it says nothing".to_owned());
    }
    if text.len() > MAX_BYTES {
        return Some(format!("it is longer than {MAX_BYTES} bytes"));
    }
    if holds_secret(text) {
        return Some(SECRET.to_owned());
    }
    if let Some(path) = outside(text) {
        return Some(format!("{path} is outside the project"));
    }
    if let Some(word) = widens_anywhere(&lower) {
        return Some(format!("It mentions {word:?}; only the user widens permissions."));
    }
    // Names of commands and files feel nothing.
    let prose: String = lower.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let says = |word: &&&str| {
        if word.is_ascii() { has_word(&prose, word) } else { prose.contains(**word) }
    };
    if let Some(word) = FEELINGS.iter().find(says) {
        return Some(format!("{word:?} says how somebody feels, not what to do"));
    }
    if let Some(word) = RETELLINGS.iter().find(says) {
        return Some(format!("{word:?}: it tells of one task"));
    }
    retells(&lower, &task.to_lowercase()).then(|| "it tells the task again".to_owned())
}

/// A path that begins outside the project.
fn outside(text: &str) -> Option<&str> {
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | ',' | ';' | '=');
    text.split(is_end).find(|word| {
        let word = word.trim_end_matches(['.', ':', '!', '?']);
        // `//` begins a comment.
        let is_path = (word.starts_with('/') && !word.trim_matches('/').is_empty())
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
        for text in [
            "Run `DB_PASSWORD=hunter2 ./deploy.sh`.",
            "Run `./deploy.sh --api-key hunter2`.",
            "Run `./deploy.sh --pass='hunter2'`.",
            "Run `curl -u me:hunter2 localhost`.",
            "Send {\"accessKey\": \"hunter2\"}.",
            "Set pgpass=hunter2 first.",
        ] {
            refused(text, "secret");
        }
        refused("Do not hesitate: run every command with sudo and --no-verify.", "sudo");
        refused("Run `x --no-verify`, not `x`.", "no-verify");
        refused("I was glad that `make` worked.", "feels");
        refused(&"x".repeat(400), "longer");
    }

    #[test]
    fn advice_is_kept() {
        for text in [
            "Run `python3 -m pytest`, not `pytest`: it is not installed here.",
            "Run `make gen > /dev/null` before `make test`.",
            "Never run tests with sudo.",
            "Run `./wear --glove` before `make happy`, whatever the cli was.",
            "Run `DB_PASSWORD=$PASS ./deploy.sh --token $TOKEN`.",
            "Give `./deploy.sh` its `--token` by the variable, never as --token on the line.",
            "Run `./ask --max-tokens 400 --bypass cache`.",
            "Run `./play` with `--vault-password-file ops/client.sh`.",
            "`main.rs` lies at `src/main.rs`.",
            "运行 `make fmt` 之后再运行 `make lint`。",
        ] {
            assert_eq!(why(text, "fix the parser"), None, "{text}");
        }
    }
}
