//! What the output of a command says of why it failed: that something about the call or the place is wrong, or
//! that the work is. Tables of phrases, in English and Chinese.

use crate::protocol::signature::signature;

/// Phrases of lines that speak of the call or of the place it was made in.
const CIRCUMSTANCES: [&str; 78] = [
    "not found",
    "no such",
    "does not exist",
    "doesn't exist",
    "cannot find",
    "can't find",
    "can't open",
    "cannot open",
    "could not find",
    "couldn't find",
    "cannot access",
    "could not open",
    "not installed",
    "no module named",
    "cannot import",
    "did not match",
    "unknown revision",
    "not recognized",
    "not a directory",
    "is a directory",
    "not a valid",
    "not supported",
    "unsupported",
    "not executable",
    "not set",
    "unset",
    "unbound variable",
    "undefined variable",
    "unknown",
    "unrecognized",
    "unrecognised",
    "unexpected argument",
    "unexpected option",
    "invalid",
    "illegal option",
    "bad option",
    "no rule to make",
    "missing",
    "required",
    "requires",
    "must be",
    "must run",
    "must set",
    "please run",
    "please set",
    "run `",
    "usage:",
    "ambiguous",
    "denied",
    "refused",
    "unable to",
    "locked",
    "out of date",
    "outdated",
    "stale",
    "already in use",
    "deprecated",
    "expected a",
    "specify",
    "need",
    "only in",
    "wrong directory",
    "would reformat",
    "locale",
    "未找到",
    "找不到",
    "不存在",
    "无法",
    "缺少",
    "未知",
    "未设置",
    "未安装",
    "必须",
    "不支持",
    "无效",
    "没有",
    "请先",
    "请运行",
];

/// Phrases of lines that pass judgement on the work: a test that failed, code that does not compile.
const VERDICTS: [&str; 20] = [
    "assert",
    "failed,",
    "tests failed",
    "failures:",
    "failures=",
    "failing",
    "panicked",
    "traceback (most",
    "expected:",
    "to equal",
    "left:",
    "mismatched types",
    "error[e",
    "syntaxerror",
    "typeerror",
    "nameerror",
    "undefined reference",
    "segmentation fault",
    "断言",
    "测试失败",
];

/// The line speaks of the call or of the place.
pub(super) fn is_circumstance(line: &str) -> bool {
    let line = line.to_lowercase();
    CIRCUMSTANCES.iter().any(|phrase| line.contains(phrase))
}

/// The longest phrase of the table by which a line speaks of the call or of the place.
pub(super) fn phrase(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let found = CIRCUMSTANCES.iter().filter(|phrase| line.contains(**phrase));
    let told = found.map(|phrase| phrase.trim_end_matches([' ', '`', ':']));
    told.max_by_key(|phrase| phrase.len())
        .filter(|phrase| phrase.chars().count() > 4 || !phrase.is_ascii())
}

/// The output passes judgement on the work, and says nothing of the call or of the place.
pub(super) fn is_verdict(output: &str) -> bool {
    let output = output.to_lowercase();
    VERDICTS.iter().any(|phrase| output.contains(phrase))
}

/// The line that names this word, as a word, and speaks of the call or of the place.
pub(super) fn names<'a>(output: &'a str, word: &str) -> Option<&'a str> {
    output.lines().find(|line| is_circumstance(line) && has_word(line, word))
}

/// The text has this word, with nothing of a word on either side.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

/// The line that says most of why it failed: the last that speaks of the call or of the place, else the
/// last that says that it is an error, else the last.
pub(super) fn telling_line(output: &str) -> Option<&str> {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let says_error = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "fail", "fatal", "错误", "失败"].iter().any(|word| line.contains(word))
    };
    let told = lines().rev().find(|line| is_circumstance(line));
    told.or_else(|| lines().rev().find(says_error)).or_else(|| lines().next_back())
}

/// A line as a condition: masked, and without the place where the shell says that it read the command.
pub(super) fn as_condition(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let from = match words.as_slice() {
        [shell, "line", n, ..] if shell.ends_with(':') && n.ends_with(':') => 3,
        _ => 0,
    };
    signature(&words[from..].join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_found() {
        let output =
            "collecting\nusage: run [-h]\nrun: error: unrecognized arguments: --fast\n\nexit\n";
        assert_eq!(telling_line(output), Some("run: error: unrecognized arguments: --fast"));
        assert_eq!(telling_line("a\nerror 3\nb\n"), Some("error 3"));
        assert_eq!(telling_line("a\nb\n"), Some("b"));
        assert_eq!(telling_line("\n"), None);
        assert_eq!(
            as_condition("/usr/bin/bash: line 1: pytest: command not found"),
            "pytest: command not found"
        );
    }

    #[test]
    fn a_word_is_named_only_as_a_word() {
        assert!(names("make: *** No rule to make target 'test'.  Stop.", "test").is_some());
        assert!(names("no such file: tests/a.py", "test").is_none());
        assert!(names("FAILED tests/a.py::test_x", "tests/a.py").is_none());
    }
}
