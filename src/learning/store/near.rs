//! When two items say the same, and what becomes of them then; pure.

use std::collections::BTreeSet;

use super::super::item::{Condition, Item, Origin, Scope};
use super::words;
use crate::protocol::recall::ItemKind;

/// This part of the words of two texts has to be common to both; less is enough where they name the same things.
const SHARED: f64 = 0.75;
const SHARED_WITH_NAMES: f64 = 0.5;
/// So many sessions are kept as evidence, the latest.
const MAX_EVIDENCE: usize = 8;

/// Words that turn a sentence round.
const DENIALS: &[&str] = &[
    "not", "no", "never", "dont", "without", "avoid", "instead", "cannot", "cant", "nothing",
    "unless", "except",
];
/// The same in Chinese, wherever they stand.
const CHINESE_DENIALS: &[char] = &['不', '勿', '别', '没', '无', '非', '莫', '禁'];

/// The two say nearly the same; their scopes are not looked at.
///
/// They are of one kind, no two different fixes that a machine could apply are in them, and one of these holds:
/// - they are about one failure: the conditions are the same, and name a signature, a path, an argument or what they
///   lead to (of rules and patterns, which a model gives two at a time, only if no session is the evidence of both); or the fix is the same,
///   and tool, code and command are;
/// - the names, paths, flags and numbers in both texts are the same, so are the words that deny, and of all other
///   words (in Chinese: characters) at least three quarters are in both, or half where there are such names.
pub(super) fn says_the_same(one: &Item, other: &Item) -> bool {
    if one.kind != other.kind {
        return false;
    }
    // A model that says two things of one failure says two things.
    let are_said_together = one.kind != ItemKind::FailurePattern
        && one.evidence.iter().any(|session| other.evidence.contains(session));
    if let (Some(one), Some(other)) = (&one.failure, &other.failure) {
        let is_alike = |one: &Condition, other: &Condition| {
            (&one.tool, one.code, &one.command_head)
                == (&other.tool, other.code, &other.command_head)
        };
        match (&one.fix, &other.fix) {
            (Some(one), Some(other)) if one != other => return false,
            (Some(_), Some(_)) if is_alike(&one.when, &other.when) => return true,
            _ if one.when == other.when && tells_why(&one.when) && !are_said_together => {
                return true;
            }
            _ => {}
        }
    }
    texts_are_near(&one.text, &other.text)
}

/// The condition names more than which call failed: two failures of it have one reason.
pub(super) fn tells_why(when: &Condition) -> bool {
    when.signature.is_some()
        || when.path.is_some()
        || when.argument.is_some()
        || when.leads_to.is_some()
}

fn texts_are_near(one: &str, other: &str) -> bool {
    let (one, other) = (Parts::of(one), Parts::of(other));
    if one.names != other.names || one.denials != other.denials {
        return false;
    }
    let n_shared = one.words.intersection(&other.words).count();
    let n_all = one.words.union(&other.words).count();
    #[expect(clippy::cast_precision_loss, reason = "a few words")]
    let share = n_shared as f64 / n_all.max(1) as f64;
    let enough = if one.names.is_empty() { SHARED } else { SHARED_WITH_NAMES };
    n_all == 0 || share >= enough
}

/// A text taken apart by what its words do.
struct Parts {
    names: BTreeSet<String>,
    denials: Vec<String>,
    words: BTreeSet<String>,
}

impl Parts {
    fn of(text: &str) -> Self {
        let mut parts =
            Self { names: BTreeSet::new(), denials: Vec::new(), words: BTreeSet::new() };
        for (n, piece) in text.split('`').enumerate() {
            let is_code = n % 2 == 1;
            if is_code {
                parts.names.insert(piece.split_whitespace().collect::<Vec<_>>().join(" "));
                continue;
            }
            for token in piece.split_whitespace() {
                let token = token.trim_matches(|c: char| !c.is_alphanumeric());
                if is_name(token) {
                    parts.names.insert(token.to_owned());
                }
            }
            parts
                .denials
                .extend(piece.chars().filter(|c| CHINESE_DENIALS.contains(c)).map(String::from));
            for word in words::of(piece) {
                if DENIALS.contains(&word.as_str()) {
                    parts.denials.push(word);
                } else if words::is_pair(&word) {
                    parts.words.extend(word.chars().map(String::from));
                } else if !words::is_compound(&word) {
                    parts.words.insert(word);
                }
            }
        }
        parts.denials.sort();
        parts
    }
}

/// Something of a program: a path, a flag, an identifier, a number.
fn is_name(token: &str) -> bool {
    let has_hump =
        token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase);
    let has_sign = token.contains(['_', '/', '.', '\\', '=', ':']);
    token.is_ascii() && (has_sign || has_hump || token.bytes().any(|byte| byte.is_ascii_digit()))
}

/// What is known becomes stronger by what was learnt again.
pub(super) fn strengthen(known: &mut Item, again: &Item) {
    known.frequency = known.frequency.saturating_add(again.frequency.max(1));
    known.count(again.wins, again.losses);
    known.last_occurred_ms = known.last_occurred_ms.max(again.last_occurred_ms);
    known.created_at_ms = known.created_at_ms.min(again.created_at_ms);
    for session in &again.evidence {
        known.evidence.retain(|there| there != session);
        known.evidence.push(session.clone());
    }
    let n_old = known.evidence.len().saturating_sub(MAX_EVIDENCE);
    known.evidence.drain(..n_old);
    if known.because.is_none() {
        known.because.clone_from(&again.because);
    }
    // What a person has said is not filled up by a program.
    let is_said = known.origin == Origin::User && again.origin != Origin::User;
    match (&mut known.failure, &again.failure) {
        (Some(_), Some(_)) if is_said => {}
        (Some(failure), Some(newer)) => {
            if failure.fix.is_none() {
                failure.fix.clone_from(&newer.fix);
            }
            if failure.suggested_fix.is_none() {
                failure.suggested_fix.clone_from(&newer.suggested_fix);
            }
            failure.was_led_to_by(&newer.led_by);
            if known.scope == Scope::User {
                // The folders of one project say nothing in another.
                failure.led_by.clear();
            }
        }
        (none @ None, Some(newer)) => *none = Some(newer.clone()),
        (_, None) => {}
    }
    // A person's words stand above those of a program.
    if again.origin == Origin::User {
        known.origin = Origin::User;
        known.text.clone_from(&again.text);
        known.tags.clone_from(&again.tags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, is_near: bool) {
        assert_eq!(texts_are_near(one, other), is_near, "{one}\n{other}");
    }

    #[test]
    fn what_led_to_it_in_a_project_is_kept_in_that_project() {
        let item = |scope: &str, led_by: &str| -> Item {
            serde_json::from_value(serde_json::json!({
                "id": "abcdef0123", "scope": serde_json::from_str::<serde_json::Value>(scope).expect("JSON"),
                "kind": "failure_pattern", "text": "Run `b`, not `a`.", "tags": {}, "because": null,
                "evidence": ["s"], "origin": "trace", "frequency": 1, "wins": 1, "losses": 0,
                "created_at_ms": 1, "last_occurred_ms": 1,
                "failure": {"skill": "Bash", "condition": "", "error_type": "", "suggested_fix": null,
                    "when": {"tool": "Bash"}, "fix": null, "led_by": [led_by]}
            }))
            .expect("an item")
        };
        let here = r#"{"project": "here"}"#;
        for (scope, expected) in [(here, vec!["a/*.txt", "b/*.txt"]), ("\"user\"", Vec::new())] {
            let mut known = item(scope, "a/*.txt");
            strengthen(&mut known, &item(here, "b/*.txt"));
            assert_eq!(
                known.failure.map(|failure| failure.led_by),
                Some(expected.iter().map(|f| (*f).to_owned()).collect())
            );
        }
    }

    #[test]
    fn other_words_for_one_thing_are_near() {
        check(
            "Run `python3 -m pytest`, not `pytest`: it is not installed here.",
            "Run `python3 -m pytest`, not `pytest`; it is not installed in this project.",
            true,
        );
        check("Read a file before you edit it.", "Read a file before editing it.", true);
        check("修改文件前先读取文件", "修改文件前要先读取该文件", true);
    }

    #[test]
    fn another_name_number_or_denial_is_another_thing() {
        check("Run `make test` before a commit.", "Run `make lint` before a commit.", false);
        check(
            "Set the timeout to 30 seconds for tests.",
            "Set the timeout to 300 seconds for tests.",
            false,
        );
        check("Always edit the generated file.", "Never edit the generated file.", false);
        check(
            "Look for settings in src/config.rs first.",
            "Look for settings in src/model.rs first.",
            false,
        );
        check("提交前运行测试", "提交前不运行测试", false);
        check("提交前运行测试", "提交前运行检查", false);
        check("Run the tests before a commit.", "Run the linter before a commit.", false);
        check("Start the server first.", "Format the code before a commit.", false);
    }
}
