//! What gets past a guard (`--force`, `SKIP_BACKUP=1`, no `--dry-run`): a user said so once, for one call. It may be
//! told of, but is no fix that the kernel applies by itself.

use super::super::evidence::has_word;
use super::super::item::Fix;
use crate::protocol::command::{is_assignment, unquoted};

/// Parts of options, variables and tasks that get past a guard.
const OVERRIDES: [&str; 31] = [
    "force",
    "forced",
    "yes",
    "assume",
    "overwrite",
    "hard",
    "allow",
    "unsafe",
    "insecure",
    "ignore",
    "confirm",
    "confirmed",
    "skip",
    "bypass",
    "override",
    "disable",
    "accept",
    "trust",
    "dangerously",
    "break",
    "clobber",
    "delete",
    "remove",
    "purge",
    "prune",
    "wipe",
    "reset",
    "destroy",
    "discard",
    "noverify",
    "nocheck",
];
/// Parts of those that are guards themselves: to leave them out gets past them, and so does `no` in front.
const GUARDS: [&str; 14] = [
    "verify",
    "check",
    "checks",
    "dry",
    "preview",
    "backup",
    "safe",
    "interactive",
    "confirm",
    "prompt",
    "protect",
    "validate",
    "hooks",
    "preserve",
];
/// Words of sentences that leave something out.
const LEAVES: [&str; 16] = [
    "no", "not", "never", "without", "omit", "drop", "leave", "avoid", "less", "off", "don",
    "stop", "cut", "suppress", "exclude", "instead",
];
/// What a message says where something could be lost.
const LOSSES: [&str; 30] = [
    "delete",
    "deletes",
    "deleted",
    "overwrite",
    "overwrites",
    "overwritten",
    "destroy",
    "destroys",
    "destroyed",
    "lose",
    "lost",
    "loss",
    "wipe",
    "wiped",
    "drop",
    "drops",
    "discard",
    "discarded",
    "irreversible",
    "undone",
    "are you sure",
    "production",
    "protected",
    "dangerous",
    "不可恢复",
    "删除",
    "覆盖",
    "丢失",
    "清空",
    "生产环境",
];

/// What is told of what gets past a guard, behind the advice itself.
pub(in super::super) const ONLY_ASKED: &str =
    ", but only where the user asks for that: it may get past a guard.";

/// A word of a task asks for that.
pub(in super::super) fn asks(word: &str) -> bool {
    says_so(word)
}

/// The fix gets past a guard, or could cost something by what the failure said.
pub(super) fn gets_past(fix: &Fix, said: &str) -> bool {
    match fix {
        Fix::ReplaceWords { from, to } => {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (from.split_whitespace().collect(), to.split_whitespace().collect());
            let come: Vec<&str> = new.iter().filter(|word| !old.contains(word)).copied().collect();
            let mut gone = old.iter().filter(|word| !new.contains(word));
            overrides(&come) || gone.any(|word| is_guard(word)) || speaks_of_loss(said)
        }
        Fix::Prefix { with } => {
            let words: Vec<&str> = with.split_whitespace().collect();
            let sets = words.iter().any(|word| is_assignment(word));
            overrides(&words) || (sets && speaks_of_loss(said))
        }
        Fix::RunFirst { command } => {
            overrides(&command.split_whitespace().collect::<Vec<_>>()) || speaks_of_loss(said)
        }
        Fix::SetArguments { input } => {
            let names: Vec<String> = input.keys().map(|name| format!("--{name}")).collect();
            overrides(&names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        // The same arguments by another name, in another place, to another tool.
        Fix::RenameArgument { .. } | Fix::ReplacePath { .. } | Fix::OtherTool { .. } => false,
    }
}

/// A sentence names what gets past a guard, or what to call where the failure spoke of loss.
pub(in crate::learning) fn names_a_way_past(text: &str, said: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '“' | '”');
    let is_mark = |c: char| c.is_ascii_punctuation() && !matches!(c, '-' | '_' | '$' | '/');
    let pieces: Vec<Vec<&str>> = text
        .split(|c: char| c == '`' || (!c.is_ascii() && c.is_alphabetic()))
        .map(|piece| piece.split(is_end).map(|word| word.trim_matches(is_mark)).collect())
        .collect();
    let words: Vec<String> = pieces.iter().flatten().flat_map(|word| parts_of(word)).collect();
    let telling: Vec<&String> = words
        .iter()
        .filter(|word| !["a", "an", "any", "its", "the"].contains(&word.as_str()))
        .collect();
    let leaves = |word: &&String| LEAVES.contains(&word.as_str());
    let leaves_out = text_leaves_out(text) || telling.iter().any(leaves);
    let names_guard = || telling.iter().any(|word| GUARDS.contains(&word.as_str()));
    pieces.iter().any(|words| overrides(words))
        || (leaves_out && names_guard())
        || (text.contains('`') && speaks_of_loss(said))
}

/// The advice, where it gets past a guard.
pub(in crate::learning) fn with_care(advice: &str) -> String {
    let advice = advice.trim_end_matches(['.', '。']);
    format!("{advice}{ONLY_ASKED}")
}

/// Chinese has no spaces.
fn text_leaves_out(text: &str) -> bool {
    ["不要", "不用", "不加", "无需", "去掉", "省略", "跳过", "关闭", "禁用", "忽略"]
        .iter()
        .any(|word| text.contains(word))
}

/// One of these words gets past a guard.
fn overrides(words: &[&str]) -> bool {
    let is_flag = |word: &&str| word.starts_with('-');
    words.iter().enumerate().any(|(at, word)| {
        // `-f %z` takes a value, `-f` alone is one of force; so are `-y` and `-fy`.
        let alone = words.get(at + 1).is_none_or(is_flag);
        let letters = word.strip_prefix('-').unwrap_or_default();
        let short = (1..=3).contains(&letters.len()) && letters.contains(['f', 'y']);
        (short && alone) || says_so(word)
    })
}

fn says_so(word: &str) -> bool {
    let parts = parts_of(word);
    let overrides = |part: &String| OVERRIDES.contains(&part.as_str());
    let denies = parts.windows(2).any(|pair| {
        ["no", "without", "non"].contains(&pair[0].as_str()) && GUARDS.contains(&pair[1].as_str())
    });
    !parts.is_empty() && (parts.iter().any(overrides) || denies)
}

fn is_guard(word: &str) -> bool {
    word.starts_with('-') && parts_of(word).iter().any(|part| GUARDS.contains(&part.as_str()))
}

/// The parts of an option, a variable with its value, or a task; a path has none.
fn parts_of(word: &str) -> Vec<String> {
    let word = unquoted(word);
    let is_named = word.starts_with('-') || is_assignment(&word);
    if !is_named && word.contains(['/', '.']) {
        return Vec::new();
    }
    let word = word.to_lowercase();
    let parts = word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

fn speaks_of_loss(said: &str) -> bool {
    let said = said.to_lowercase();
    let says =
        |word: &&str| if word.is_ascii() { has_word(&said, word) } else { said.contains(*word) };
    LOSSES.iter().any(says)
}
