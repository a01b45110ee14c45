//! What gets past a guard (`--force`, `SKIP_BACKUP=1`, no `--dry-run`): a user said so once, for one call. It may be
//! told of, but is no fix that the kernel applies by itself.

use super::super::evidence::has_word;
use super::super::item::Fix;
use super::super::leads::words_of;
use crate::protocol::command::{is_assignment, name_of, unquoted};

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
/// Parts of those by which the other side is known: who has to name them may be talking to somebody else.
const TRUSTS: [&str; 11] = [
    "tls",
    "ssl",
    "cert",
    "certs",
    "certificate",
    "certificates",
    "hostkey",
    "knownhosts",
    "trusted",
    "untrusted",
    "unauthorized",
];
/// Parts of those that are guards themselves: to leave them out gets past them, and so does `no` in front.
const GUARDS: [&str; 27] = [
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
    "checking",
    "strict",
    "werror",
    "deny",
    "warnings",
    "locked",
    "frozen",
    "immutable",
    "hashes",
    "sandbox",
    "gpg",
    "signature",
    "signatures",
];
/// Those of them that any sentence may hold: there they count as what is called, `--locked` or in backquotes.
const OF_PROSE: [&str; 7] =
    ["locked", "deny", "strict", "warnings", "sandbox", "frozen", "immutable"];
/// Values that switch something off.
const OFF: [&str; 7] = ["no", "off", "false", "0", "none", "never", "disabled"];
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

/// The fix of commands of this head gets past a guard, or could cost something by what the failure said.
pub(super) fn gets_past(fix: &Fix, head: &str, said: &str) -> bool {
    let speaks_of = |line: &str| [head, line].iter().any(|line| runs_curl(line));
    match fix {
        Fix::ReplaceWords { from, to } => {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (from.split_whitespace().collect(), to.split_whitespace().collect());
            let come: Vec<&str> = new.iter().filter(|word| !old.contains(word)).copied().collect();
            let is_gone = |word: &str| !new.contains(&word);
            // The value of an option is one with it: `-D warnings`.
            let is_option = |at: usize| old[at].starts_with('-');
            let mut gone = (0..old.len())
                .filter(|at| is_gone(old[*at]))
                .filter(|at| is_option(*at) || at.checked_sub(1).is_some_and(is_option));
            overrides(&come, speaks_of(to))
                || gone.any(|at| is_guard(old[at]))
                || speaks_of_loss(said)
        }
        Fix::Prefix { with } => {
            let words: Vec<&str> = with.split_whitespace().collect();
            let sets = words.iter().any(|word| is_assignment(word));
            overrides(&words, speaks_of(with)) || (sets && speaks_of_loss(said))
        }
        Fix::RunFirst { command } => {
            let words: Vec<&str> = command.split_whitespace().collect();
            overrides(&words, runs_curl(command)) || speaks_of_loss(said)
        }
        Fix::SetArguments { input } => {
            let names: Vec<String> = input.keys().map(|name| format!("--{name}")).collect();
            overrides(&names.iter().map(String::as_str).collect::<Vec<_>>(), false)
        }
        // The same arguments by another name, in another place, to another tool.
        Fix::RenameArgument { .. } | Fix::ReplacePath { .. } | Fix::OtherTool { .. } => false,
    }
}

/// A sentence names what gets past a guard, or what to call where the failure spoke of loss.
pub(in crate::learning) fn names_a_way_past(text: &str, said: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '“' | '”');
    let is_mark = |c: char| c.is_ascii_punctuation() && !matches!(c, '-' | '_' | '$' | '/');
    // Every second piece stands between backquotes.
    let pieces: Vec<(bool, Vec<&str>)> = text
        .split('`')
        .enumerate()
        .flat_map(|(n, piece)| {
            let pieces = piece.split(|c: char| !c.is_ascii() && c.is_alphabetic());
            pieces.map(move |piece| (n % 2 == 1, piece))
        })
        .map(|(is_called, piece)| {
            (is_called, piece.split(is_end).map(|word| word.trim_matches(is_mark)).collect())
        })
        .collect();
    let words: Vec<String> =
        pieces.iter().flat_map(|(_, words)| words).flat_map(|word| parts_of(word)).collect();
    let telling: Vec<&String> = words
        .iter()
        .filter(|word| !["a", "an", "any", "its", "the"].contains(&word.as_str()))
        .collect();
    let leaves = |word: &&String| LEAVES.contains(&word.as_str());
    let leaves_out = text_leaves_out(text) || telling.iter().any(leaves);
    let names_one = || {
        pieces.iter().any(|(is_called, words)| {
            words.iter().any(|word| {
                let is_called = *is_called || word.starts_with('-');
                let counts = |part: &&String| is_called || !OF_PROSE.contains(&part.as_str());
                parts_of(word).iter().filter(counts).any(|part| GUARDS.contains(&part.as_str()))
            })
        })
    };
    pieces.iter().any(|(_, words)| overrides(words, runs_curl(text)))
        || (leaves_out && names_one())
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

/// One of these words gets past a guard; of curl `-k` does.
fn overrides(words: &[&str], of_curl: bool) -> bool {
    let is_flag = |word: &&str| word.starts_with('-');
    words.iter().enumerate().any(|(at, word)| {
        // `-f %z` takes a value, `-f` alone is one of force; so are `-y` and `-fy`.
        let alone = words.get(at + 1).is_none_or(is_flag);
        let letters = word.strip_prefix('-').unwrap_or_default();
        let short = (1..=3).contains(&letters.len()) && letters.contains(['f', 'y']);
        let is_blind = of_curl && letters.contains('k') && letters.chars().all(char::is_alphabetic);
        (short && alone) || is_blind || says_so(word) || trusts(word) || switches_off(word)
    })
}

fn runs_curl(line: &str) -> bool {
    line.split([' ', '`', '\n']).any(|word| name_of(word) == "curl")
}

fn says_so(word: &str) -> bool {
    let parts = parts_of(word);
    let denies = |part: &String| ["no", "without", "non"].contains(&part.as_str());
    let at = parts.iter().position(denies);
    let behind = at.map_or(&[][..], |at| &parts[at + 1..]);
    parts.iter().any(|part| OVERRIDES.contains(&part.as_str())) || names_guard(behind)
}

/// It says by what the other side is known, or that nobody asks for that.
fn trusts(word: &str) -> bool {
    let parts = parts_of(word);
    let joined = |pair: &[String]| TRUSTS.contains(&pair.concat().as_str());
    parts.iter().any(|part| TRUSTS.contains(&part.as_str())) || parts.windows(2).any(joined)
}

/// `PYTHONHTTPSVERIFY=0`, `--verify=no`.
fn switches_off(word: &str) -> bool {
    let word = unquoted(word).to_lowercase();
    let Some((name, value)) = word.split_once('=') else { return false };
    OFF.contains(&value) && (names_guard(&parts_of(name)) || name.ends_with("verify"))
}

fn is_guard(word: &str) -> bool {
    names_guard(&parts_of(word))
}

fn names_guard(parts: &[String]) -> bool {
    parts.iter().any(|part| GUARDS.contains(&part.as_str()))
}

/// The parts of an option, a setting with its value, or a task; a path has none.
fn parts_of(word: &str) -> Vec<String> {
    let word = unquoted(word);
    // `http.sslVerify=false` is a setting, `a/b=c` is a path.
    let is_setting = word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    if !word.starts_with('-') && !is_setting && word.contains(['/', '.']) {
        return Vec::new();
    }
    words_of(&word).collect()
}

fn speaks_of_loss(said: &str) -> bool {
    let said = said.to_lowercase();
    let says =
        |word: &&str| if word.is_ascii() { has_word(&said, word) } else { said.contains(*word) };
    LOSSES.iter().any(says)
}
