//! What the output of a command says of why it failed: that something about the call or the place is wrong, or
//! that the work is. Tables of phrases, in English and Chinese.

use crate::protocol::signature::signature;

/// Phrases of lines that speak of the call or of the place it was made in.
const CIRCUMSTANCES: [&str; 114] = [
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
    "provided but not defined",
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
    "must not",
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
    "refuses",
    "not enabled",
    "not allowed",
    "forbidden",
    "no longer",
    "replaced by",
    "incompatible",
    "not available",
    "unavailable",
    "not configured",
    "not initialized",
    "not initialised",
    "not running",
    "could not resolve",
    "cannot resolve",
    "could not connect",
    "cannot connect",
    "out of memory",
    "decode",
    "encoding",
    "illegal byte",
    "did you mean",
    "no matching",
    "version mismatch",
    "no inputs",
    "only works",
    "拒绝",
    "不允许",
    "禁止",
    "尚未",
    "不再",
    "需要",
    "未启用",
    "未配置",
];

/// Phrases of lines in which tests say no: to the work, whatever else their command was given.
const TESTS: [&str; 13] = [
    "assert",
    "failed,",
    "tests failed",
    "failures:",
    "failures=",
    "failing",
    "panicked",
    "expected:",
    "to equal",
    "left:",
    "--- fail:",
    "断言",
    "测试失败",
];

/// Phrases of lines in which code does not compile, or does not run: it is wrong, or was built or run in a wrong way.
const FAULTS: [&str; 27] = [
    "traceback (most",
    "mismatched types",
    "error[e",
    "syntaxerror",
    "typeerror",
    "nameerror",
    "undefined reference",
    "undefined: ",
    "undefined method",
    "undefined local variable",
    "undefined function",
    "undeclared (first",
    "was not declared in",
    "cannot find symbol",
    "cannot find name",
    "cannot find value",
    "implicit declaration",
    "imported and not used",
    "declared and not used",
    "error ts2304",
    "error ts2322",
    "error ts2339",
    "error ts2345",
    "referenceerror",
    "attributeerror",
    "keyerror",
    "segmentation fault",
];

/// What a command printed, of how it failed: without our own line in front, which holds the command's words.
pub(super) fn printed(error: &str) -> &str {
    const ENDS: [&str; 3] = ["` exited ", "` was ended by ", "` did not end within "];
    let (own, rest) = error.split_once('\n').unwrap_or((error, ""));
    let is_own = own.starts_with('`') && ENDS.iter().any(|end| own.contains(end));
    if is_own { rest } else { error }
}

/// The line speaks of the call or of the place.
pub(super) fn is_circumstance(line: &str) -> bool {
    let line = line.to_lowercase();
    CIRCUMSTANCES.iter().any(|phrase| says(&line, phrase)) || misses_something(&line)
}

/// The line has this phrase; one word is a word there, and no part of another (`needless`) or of a name
/// (`test_forbidden`).
fn says(line: &str, phrase: &str) -> bool {
    if phrase.bytes().all(|b| b.is_ascii_lowercase()) {
        ["", "s", "d", "ed"].iter().any(|end| has_word(line, &format!("{phrase}{end}")))
    } else {
        line.contains(phrase)
    }
}

/// `No tests found`, `no vault secrets were given`, `nothing specified`; not `no problems found`.
fn misses_something(line: &str) -> bool {
    const GIVEN: [&str; 10] = [
        "found",
        "specified",
        "given",
        "provided",
        "configured",
        "defined",
        "supplied",
        "selected",
        "passed",
        "loaded",
    ];
    const GOOD: [&str; 6] = ["problem", "error", "issue", "warning", "violation", "vulnerabilit"];
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
    words.iter().enumerate().any(|(at, word)| {
        let behind = || words[at + 1..].iter().take(5);
        ["no", "nothing", "none"].contains(word)
            && behind().any(|word| GIVEN.contains(word))
            && !behind().any(|word| GOOD.iter().any(|good| word.starts_with(good)))
    })
}

/// The line blames the call or the place, and judges nothing: `FAILED tests/test_api.py::test_forbidden` names a test.
pub(super) fn blames(line: &str) -> bool {
    // (The name of an exception judges nothing yet: `TypeError: Unknown file extension ".ts"`.)
    let names_test = (line.contains("FAILED") && !line.contains("FAILED:"))
        || ["::test", "FAIL:", "FAIL ", "assert", "Assert"].iter().any(|part| line.contains(part));
    !names_test && is_circumstance(line)
}

/// Words of lines that say how things are done here.
const WISHES: [&str; 33] = [
    "no",
    "not",
    "never",
    "lacks",
    "lack",
    "without",
    "should",
    "shall",
    "expected",
    "expects",
    "wants",
    "wanted",
    "has to",
    "have to",
    "must",
    "may",
    "begin",
    "begins",
    "start with",
    "starts with",
    "end with",
    "ends with",
    "add",
    "use",
    "listed",
    "registered",
    "convention",
    "header",
    "应",
    "约定",
    "规范",
    "登记",
    "加上",
];

/// The line says what is wanted of the call, of the place, or of each file or message here; a compiler's line
/// (`a.go:5:2: …`, `a.c:5: error: …`, `a.ts(5,2): …`) speaks of the code, unless who looks at form (`form`) says it: then
/// all but what names stand for does.
pub(super) fn states_wish(line: &str, form: bool) -> bool {
    let low = line.to_lowercase();
    if is_of_names(line) {
        return false;
    }
    let holds = |word: &&str| {
        if word.is_ascii() { has_word(&low, word) } else { low.contains(*word) }
    };
    !is_compilers(&low, form) && (is_circumstance(line) || WISHES.iter().any(holds))
}

/// Phrases of lines that say not to change a file by hand.
const NO_EDITING: [&str; 22] = [
    "do not edit",
    "don't edit",
    "not edit",
    "not be edited",
    "not to be edited",
    "never edit",
    "do not modify",
    "don't modify",
    "not be modified",
    "not to be modified",
    "do not change",
    "not be changed",
    "by hand",
    "hand-edited",
    "manually",
    "manual change",
    "manual edit",
    "请勿",
    "不要",
    "手动",
    "手工",
    "禁止",
];

/// The line says that something is not to be changed by hand.
pub(super) fn forbids_editing(line: &str) -> bool {
    let line = line.to_lowercase();
    NO_EDITING.iter().any(|phrase| line.contains(phrase))
}

/// The line says that something is written by a program.
pub(super) fn speaks_of_generated(line: &str) -> bool {
    let line = line.to_lowercase();
    ["generated", "generates", "regenerate", "autogen", "codegen", "生成"]
        .iter()
        .any(|word| line.contains(word))
}

/// Words of lines that speak of tabs and spaces.
const INDENTATIONS: [&str; 16] = [
    "tab",
    "tabs",
    "space",
    "spaces",
    "indent",
    "indents",
    "indented",
    "indentation",
    "separator",
    "no-tabs",
    "w191",
    "e101",
    "缩进",
    "制表符",
    "空格",
    "\\t",
];

/// The line speaks of tabs and spaces, and not of code that no compiler can read.
pub(super) fn speaks_of_indentation(line: &str) -> bool {
    let low = line.to_lowercase();
    let holds = |word: &&str| {
        if word.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            has_word(&low, word)
        } else {
            low.contains(*word)
        }
    };
    let is_syntax = ["taberror", "indentationerror"].iter().any(|error| low.contains(error));
    !is_syntax && INDENTATIONS.iter().any(holds)
}

/// Words of lines that say that something is not there.
const LACKS: [&str; 19] = [
    "no",
    "none",
    "missing",
    "lacks",
    "lack",
    "without",
    "needs",
    "need",
    "requires",
    "required",
    "must",
    "add",
    "not found",
    "缺少",
    "没有",
    "需要",
    "必须",
    "未找到",
    "请添加",
];

/// The line says that something is not there which has to be; a compiler's speaks of the code.
pub(super) fn states_lack(line: &str) -> bool {
    let low = line.to_lowercase();
    let holds = |word: &&str| {
        if word.is_ascii() { has_word(&low, word) } else { low.contains(*word) }
    };
    !is_compilers(&low, false) && LACKS.iter().any(holds)
}

/// What goes with a change of the work, by the names that tools have for it.
const COMPANIONS: [&str; 22] = [
    "newsfragment",
    "news fragment",
    "news entry",
    "news file",
    "changelog",
    "change log",
    "changeset",
    "change note",
    "change file",
    "changefile",
    "release note",
    "migration",
    "upgrade note",
    "decision record",
    "变更说明",
    "变更记录",
    "变更日志",
    "更新日志",
    "更新说明",
    "发布说明",
    "修改记录",
    "迁移",
];

/// The line speaks of what goes with a change of the work.
pub(super) fn names_companion(line: &str) -> bool {
    let line = line.to_lowercase();
    COMPANIONS.iter().any(|name| line.contains(name))
}

/// The line speaks of names that stand for nothing, or for which nothing asks.
pub(super) fn is_of_names(line: &str) -> bool {
    let line = line.to_lowercase();
    let words = ["defined", "undeclared", "unresolved", "unused", "never used", "did you mean"];
    words.iter().any(|word| line.contains(word))
}

/// The line says that a file was not changed, and has to be.
pub(super) fn lacks_change(line: &str) -> bool {
    let line = line.to_lowercase();
    let words =
        ["changed", "updated", "bumped", "raised", "touched", "entry", "更新", "修改", "记录"];
    !forbids_editing(&line) && words.iter().any(|word| line.contains(word))
}

/// The line speaks of what code takes in.
pub(super) fn names_import(line: &str) -> bool {
    let line = line.to_lowercase();
    ["import", "module", "resolve", "require("].iter().any(|word| line.contains(word))
}

/// Phrases of lines that ban something, whoever says it.
const BANS: [&str; 32] = [
    "don't use",
    "do not use",
    "not use",
    "never use",
    "don't call",
    "do not call",
    "must not",
    "disallowed",
    "not allowed",
    "forbidden",
    "banned",
    "restricted",
    "prohibited",
    "not permitted",
    "avoid",
    "instead of",
    "instead",
    "in favor of",
    "in favour of",
    "rather than",
    "no-restricted",
    "禁止",
    "禁用",
    "不要使用",
    "不要用",
    "不允许",
    "不得使用",
    "请勿使用",
    "不能使用",
    "已废弃",
    "弃用",
    "改用",
];
/// Words by which only who looks at form bans something.
const MAY_BAN: [&str; 6] = ["unexpected", "deprecated", "found", "use of", "consider", "prefer"];

/// The line that tells why speaks of the screen or the terminal: what is missing there is so for every project.
pub(super) fn speaks_of_screen(output: &str) -> bool {
    const SCREENS: [&str; 8] = [
        "$display",
        "no display",
        "open display",
        "to display",
        "x server",
        "x11",
        "headless",
        "terminal",
    ];
    let line = telling_line(output).unwrap_or_default().to_lowercase();
    SCREENS.iter().any(|phrase| has_word(&line, phrase))
}

/// The line bans this word: it names both, or a rule that is called after it (`no-console`). A compiler's line does not.
pub(super) fn bans(line: &str, word: &str) -> bool {
    !is_compilers(&line.to_lowercase(), false) && names_ban(line, word, &BANS)
}

/// The line of one who looks at form bans this word.
pub(super) fn may_ban(line: &str, word: &str) -> bool {
    names_ban(line, word, &BANS) || names_ban(line, word, &MAY_BAN) || has_rule_against(line, word)
}

fn names_ban(line: &str, word: &str, phrases: &[&str]) -> bool {
    let low = line.to_lowercase();
    let holds = |phrase: &&str| {
        let is_word = phrase.bytes().all(|b| b.is_ascii_lowercase());
        if is_word { has_word(&low, phrase) } else { low.contains(*phrase) }
    };
    (has_word(line, word) || has_rule_against(line, word)) && phrases.iter().any(holds)
}

/// A rule against this word is named: `no-console`, `noConsole`, `no_print`.
fn has_rule_against(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    line.split(|c: char| !is_part(c)).any(|name| {
        let rest = name.strip_prefix("no").map(|rest| {
            let is_rule = rest.starts_with(['-', '_']) || rest.starts_with(char::is_uppercase);
            if is_rule { rest.trim_start_matches(['-', '_']) } else { "" }
        });
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(word))
    })
}

/// A place in a file to the column, or to the line and an error; of who looks at form (`form`) only the latter.
pub(super) fn is_compilers(line: &str, form: bool) -> bool {
    let Some(place) = line.split_whitespace().find(|word| word.contains(['.', '/'])) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut numbers = place.split(':').skip(1);
    let (row, column) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    let in_brackets = place.rsplit_once('(').is_some_and(|(_, at)| {
        let at = at.trim_end_matches([':', ')']);
        at.split(',').count() == 2 && at.split(',').all(is_number)
    });
    let says_error = ["error", "fatal", "warning"]
        .iter()
        .any(|word| line.split_once(place).is_some_and(|(_, rest)| rest.trim().starts_with(word)));
    in_brackets || (is_number(row) && ((!form && is_number(column)) || says_error))
}

/// The longest phrase of the table by which a line speaks of the call or of the place.
pub(super) fn phrase(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let found = CIRCUMSTANCES.iter().filter(|phrase| says(&line, phrase));
    let told = found.map(|phrase| phrase.trim_end_matches([' ', '`', ':']));
    told.max_by_key(|phrase| phrase.len())
        .filter(|phrase| phrase.chars().count() > 4 || !phrase.is_ascii())
}

/// The output passes judgement on the work: a test failed, or code does not compile or run.
pub(super) fn is_verdict(output: &str) -> bool {
    fails_tests(output) || is_fault(output)
}

/// Tests say no to the work.
pub(super) fn fails_tests(output: &str) -> bool {
    let output = output.to_lowercase();
    TESTS.iter().any(|phrase| output.contains(phrase))
}

/// Code does not compile, or does not run.
fn is_fault(output: &str) -> bool {
    let output = output.to_lowercase();
    FAULTS.iter().any(|phrase| output.contains(phrase))
}

/// The line that names this word, and not as a place in a file that was read (`a.js:3`).
pub(super) fn mention_of<'a>(output: &'a str, word: &str) -> Option<&'a str> {
    let is_place = |rest: &str| {
        let rest = rest.strip_prefix([':', '(']);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    output.lines().find(|line| {
        has_word(line, word)
            && !line.match_indices(word).any(|(at, _)| is_place(&line[at + word.len()..]))
    })
}

/// The line that names this word, as a word, and speaks of the call or of the place.
pub(super) fn names<'a>(output: &'a str, word: &str) -> Option<&'a str> {
    output.lines().find(|line| is_circumstance(line) && has_word(line, word))
}

/// An option that chooses what is looked at: a success with it says nothing of the rest.
pub(super) fn narrows(option: &str) -> bool {
    const NARROWS: [&str; 26] = [
        "-k",
        "-m",
        "-t",
        "-g",
        "-p",
        "-x",
        "--lf",
        "--last-failed",
        "--ff",
        "--deselect",
        "--ignore",
        "--exclude",
        "--only",
        "--only-changed",
        "--filter",
        "--grep",
        "--test",
        "--tests",
        "--lib",
        "--bin",
        "--package",
        "--testNamePattern",
        "--testPathPattern",
        "--skip",
        "--run",
        "--changed",
    ];
    NARROWS.contains(&option.split('=').next().unwrap_or(option))
}

/// An option, or its value, by which more or less is printed: it mends nothing.
pub(super) fn only_talks(word: &str) -> bool {
    const TALKS: [&str; 10] = [
        "-s",
        "-q",
        "-v",
        "-vv",
        "--silent",
        "--quiet",
        "--verbose",
        "--debug",
        "--stacktrace",
        "--no-color",
    ];
    TALKS.contains(&word)
}

/// The output blames this option: by its name, without its value, or by its letter (`invalid option -- 'v'`).
pub(super) fn blames_option(output: &str, option: &str) -> bool {
    let Some(bare) = option.strip_prefix('-').map(|rest| rest.trim_start_matches('-')) else {
        return false;
    };
    let name = option.split('=').next().unwrap_or(option);
    let by_name = [name, bare.split('=').next().unwrap_or(bare)];
    let letter = bare.chars().next().filter(|_| !option.starts_with("--"));
    let by_letter = |c: char| [format!("-{c}"), format!("-- {c}"), format!("-- '{c}'")];
    by_name.iter().any(|word| names(output, word).is_some())
        || letter.is_some_and(|c| by_letter(c).iter().any(|word| names(output, word).is_some()))
}

/// The output says that its program does not know this option.
pub(super) fn knows_no_option(output: &str, option: &str) -> bool {
    const UNKNOWN: [&str; 14] = [
        "unrecognized",
        "unrecognised",
        "not recognized",
        "invalid option",
        "invalid flag",
        "illegal option",
        "bad option",
        "unexpected argument",
        "unexpected option",
        "no such option",
        "not a valid option",
        "未知选项",
        "未知参数",
        "无法识别",
    ];
    // Of these something else may be so that stands in one line with the option.
    const MAY_BE: [&str; 7] =
        ["unknown", "does not exist", "doesn't exist", "not defined", "未知", "不存在", "无效"];
    const OPTIONS: [&str; 8] =
        ["option", "flag", "argument", "switch", "parameter", "predicate", "选项", "参数"];
    let is_said = |line: &str| {
        let low = line.to_lowercase();
        let holds = |phrases: &[&str]| phrases.iter().any(|phrase| says(&low, phrase));
        holds(&UNKNOWN) || (holds(&MAY_BE) && holds(&OPTIONS))
    };
    output.lines().any(|line| is_said(line) && blames_option(line, option))
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
/// last that says what is wrong with the code, else the last that says that it is an error, else the last. Our own is
/// it only where nothing was printed.
pub(super) fn telling_line(error: &str) -> Option<&str> {
    let output = Some(printed(error)).filter(|output| !output.trim().is_empty()).unwrap_or(error);
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let says_error = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "fail", "fatal", "错误", "失败"].iter().any(|word| line.contains(word))
    };
    let told = lines().rev().find(|line| is_circumstance(line));
    let says_fault = |line: &&str| is_fault(line) && !line.ends_with("):");
    told.or_else(|| lines().rev().find(says_fault))
        .or_else(|| lines().rev().find(says_error))
        .or_else(|| lines().next_back())
}

/// A line from where it says what is wrong with the code: not where that is.
pub(super) fn from_fault(line: &str) -> &str {
    let low = line.to_lowercase();
    let found = FAULTS.iter().filter_map(|phrase| low.find(phrase)).min();
    found.and_then(|at| line.get(at..)).unwrap_or(line)
}

/// A line as a condition: masked, and without the place where the shell says that it read the command.
pub(super) fn as_condition(line: &str) -> String {
    signature(&without_place(line))
}

/// A line without the place where the shell says that it read the command.
pub(super) fn without_place(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let from = match words.as_slice() {
        [shell, "line", n, ..] if shell.ends_with(':') && n.ends_with(':') => 3,
        _ => 0,
    };
    words[from..].join(" ")
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
    fn an_option_is_blamed_by_its_name_or_letter() {
        for (output, option) in [
            ("date: invalid option -- 'v'", "-v-7d"),
            ("stat: illegal option -- c", "-c"),
            ("error: unexpected argument '--fast' found", "--fast=yes"),
            ("unknown shorthand flag: 'x' in -x", "-x"),
        ] {
            assert!(blames_option(output, option), "{output}: {option}");
        }
        assert!(!blames_option("date: invalid date", "-d"));
        assert!(!blames_option("unknown option --fast", "fast"));
    }

    #[test]
    fn an_option_is_unknown_where_the_output_says_just_that() {
        for (output, option) in [
            ("date: invalid option -- 'v'", "-v"),
            ("flag provided but not defined: -fast", "-fast"),
            ("Unknown cli option \"--fast\"", "--fast=yes"),
            ("error: unrecognized arguments: --cov", "--cov"),
            ("错误：未知选项 --fast", "--fast"),
        ] {
            assert!(knows_no_option(output, option), "{output}: {option}");
        }
        for (output, option) in [
            ("the lock file needs to be updated but --locked was passed", "--locked"),
            ("unknown package given with --with", "--with"),
            ("unknown option --fast", "--slow"),
            ("unknown option\n--fast is required", "--fast"),
        ] {
            assert!(!knows_no_option(output, option), "{output}: {option}");
        }
    }

    #[test]
    fn what_we_say_of_a_command_is_not_what_it_printed() {
        for own in
            ["`a b` exited 1", "`a …` exited 2: stage 1/2 `a` exited 3", "`a` was ended by SIGKILL"]
        {
            assert_eq!(printed(&format!("{own}\nx\ny")), "x\ny");
            assert_eq!(printed(own), "");
            assert_eq!(telling_line(&format!("{own}\n\n")), Some(own));
        }
        for other in ["x\ny", "…\n`a` exited 1", "a exited 1\nx", "`a` is wrong\nx"] {
            assert_eq!(printed(other), other);
        }
    }

    #[test]
    fn a_name_of_a_test_blames_nobody() {
        for line in [
            "FAILED tests/test_api.py::test_forbidden - assert 200 == 403",
            "tests/api.py::test_decode",
            "--- FAIL: TestUnavailable (0.00s)",
            "test api::test_not_allowed ... FAILED",
            "run test_forbidden",
            "AssertionError: unknown user is forbidden",
        ] {
            assert!(!blames(line), "{line}");
        }
        for line in [
            "403 forbidden",
            "'utf-8' codec can't decode byte 0xb5",
            "it needs a zone",
            "FAILED: unknown revision",
            "必须先运行 make",
        ] {
            assert!(blames(line), "{line}");
        }
    }

    #[test]
    fn a_compilers_line_states_no_wish() {
        for line in [
            "./main.go:5:2: undefined: strings",
            "src/a.c:5: error: missing include",
            "src/a.ts(5,2): error TS1005: ';' expected.",
            "something is odd",
        ] {
            assert!(!states_wish(line, false), "{line}");
        }
        for line in [
            "src/area.x:1: no SPDX-License-Identifier in the first line",
            "check: module greet is never loaded",
            "the subject must begin with a type: feat, fix",
            "新文件应登记在 list.txt",
        ] {
            assert!(states_wish(line, false), "{line}");
        }
    }

    #[test]
    fn a_word_is_named_only_as_a_word() {
        assert!(names("make: *** No rule to make target 'test'.  Stop.", "test").is_some());
        assert!(names("no such file: tests/a.py", "test").is_none());
        assert!(names("FAILED tests/a.py::test_x", "tests/a.py").is_none());
    }

    #[test]
    fn what_is_missing_is_a_circumstance_and_what_is_good_is_none() {
        for line in ["No tests found, exiting", "but no vault secrets found", "nothing specified"] {
            assert!(is_circumstance(line), "{line}");
        }
        for line in ["No problems found", "no more than that", "found no type errors"] {
            assert!(!is_circumstance(line), "{line}");
        }
    }

    #[test]
    fn a_file_that_was_read_is_not_what_is_looked_for() {
        assert_eq!(mention_of("a\ncan not load ./a/b.rb", "a/b.rb"), Some("can not load ./a/b.rb"));
        assert_eq!(mention_of("at a/b.rb:3 in f", "a/b.rb"), None);
    }
}
