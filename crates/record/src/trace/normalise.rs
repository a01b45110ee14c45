//! Replaces differences between two runs of the same work: paths of roots, times and ids (all of them: `docs/TRACE.md`).

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A directory that has another path in another run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRoot {
    path: String,
    placeholder: &'static str,
}

impl RunRoot {
    /// The root of the project: `<root>`.
    pub fn project(path: impl Into<String>) -> Self {
        Self { path: path.into(), placeholder: "<root>" }
    }

    /// The session's directory, which holds its log and its spilled outputs: `<session>`.
    pub fn session(path: impl Into<String>) -> Self {
        Self { path: path.into(), placeholder: "<session>" }
    }
}

/// Replaces each path of a root, time and id by a placeholder.
pub fn normalise(text: &str, roots: &[RunRoot]) -> String {
    let mut text = Cow::Borrowed(text);
    // A root inside another one is replaced first.
    let mut roots: Vec<&RunRoot> = roots.iter().collect();
    roots.sort_by_key(|root| std::cmp::Reverse(root.path.len()));
    for root in roots {
        if let Some(replaced) = replace_root(&text, root) {
            text = Cow::Owned(replaced);
        }
    }
    for (expression, replacement) in REPLACEMENTS.iter() {
        if let Cow::Owned(replaced) = expression.replace_all(&text, *replacement) {
            text = Cow::Owned(replaced);
        }
    }
    let replacement =
        |word: &Captures<'_>| if is_hash(&word[0]) { "<id>" } else { &word[0] }.to_owned();
    HEX.replace_all(&text, replacement).into_owned()
}

fn replace_root(text: &str, root: &RunRoot) -> Option<String> {
    let path = root.path.trim_end_matches('/');
    if !path.starts_with('/') {
        return None;
    }
    let (mut replaced, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices(path) {
        let end = at + path.len();
        // A name that only begins or ends like the root is another path.
        let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let rest = &text[end..];
        let is_another = text[..at].ends_with(|c| is_of_name(c) || c == '.')
            || rest.strip_prefix('.').unwrap_or(rest).starts_with(is_of_name);
        if !is_another {
            replaced.push_str(&text[done..at]);
            replaced.push_str(root.placeholder);
            done = end;
        }
    }
    (done > 0).then(|| replaced + &text[done..])
}

const DAY: &str = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const MONTH: &str = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";

/// Patterns of times and ids with their replacements; `\b` and `\d` are ASCII.
static REPLACEMENTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let clock = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?";
    let zone = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?";
    let rules = [
        // UUIDs, and the random names of `mktemp` and of Python's `tempfile`.
        (r"\b[[:xdigit:]]{8}-(?:[[:xdigit:]]{4}-){3}[[:xdigit:]]{12}\b".to_owned(), "<id>"),
        (r"\btmp\.[A-Za-z0-9]{6,12}\b|\btmp[a-z0-9_]{8}\b".to_owned(), "<id>"),
        // ISO 8601 and RFC 3339, a date alone, and the compact form in the names of spilled outputs.
        (format!(r"\b\d{{4}}-\d\d-\d\d(?:[T ]{clock}{zone}|\b)|\d{{8}}T\d{{6}}Z?"), "<time>"),
        // RFC 5322.
        (format!(r"\b{DAY}, \d{{1,2}} {MONTH} \d{{4}} {clock}{zone}"), "<time>"),
        // `date`, `ls -l`, `git log`, syslog.
        (
            format!(
                r"\b(?:{DAY} )?{MONTH} {{1,2}}\d{{1,2}} {clock}(?: [A-Z]{{3,4}}\b)?(?: \d{{4}}\b)?(?: [+-]\d{{4}}\b)?"
            ),
            "<time>",
        ),
        // The time of day with seconds.
        (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b".to_owned(), "<time>"),
        // Unix time in milliseconds, or in seconds with a fraction.
        (r"\b1\d{12}\b|\b1\d{9}\.\d+\b".to_owned(), "<time>"),
        // A number with a unit, `1m 05s` and `"time_ms": 12`.
        (
            r"\b(?:\d+m ?)?\d+(?:\.\d+)? ?(?:ns|us|(?u:µs|μs)|ms|s|secs?|seconds?)\b".to_owned(),
            "<duration>",
        ),
        (r#"(_ms"?[:= ] ?)\d+(?:\.\d+)?\b"#.to_owned(), "${1}<duration>"),
        // Addresses; numbers of processes and of Rust's threads.
        (r"\b0x[[:xdigit:]]{6,16}\b".to_owned(), "<id>"),
        (r"\b((?:pid|PID|process)[ =:] ?)\d+\b".to_owned(), "${1}<id>"),
        (r"\b(thread '(?u:[^'\n]{1,80})' \()\d+\)".to_owned(), "${1}<id>)"),
        // The report of `git commit`: a short hash may consist of digits.
        (r"(\[(?u:[^\[\]\n]{1,200}) )[0-9a-f]{7,12}\]".to_owned(), "${1}<id>]"),
    ];
    let compiled = |(expression, replacement): (String, &'static str)| {
        let expression = Regex::new(&format!("(?-u){expression}"));
        (expression.expect("a fixed expression"), replacement)
    };
    rules.into_iter().map(compiled).collect()
});

/// Matches words that may be a commit's hash.
static HEX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\b(?:[0-9a-f]{40}|[0-9a-f]{7,12})\b").expect("a fixed expression")
});

/// A short word is a hash if it has digits and letters. Except SHA-1, checksums of contents are longer.
fn is_hash(word: &str) -> bool {
    word.len() == 40
        || (word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        let roots = [
            RunRoot::project("/tmp/a"),
            RunRoot::session("/tmp/a/.state/s"),
            RunRoot::project("relative"),
        ];
        for (text, expected) in cases {
            assert_eq!(normalise(text, &roots), *expected, "{text}");
        }
    }

    #[test]
    fn root_paths_are_replaced_up_to_the_end_of_a_name() {
        check(&[
            ("cd /tmp/a && ls /tmp/a/src", "cd <root> && ls <root>/src"),
            ("file:///tmp/a/x:3", "file://<root>/x:3"),
            ("it is in /tmp/a.", "it is in <root>."),
            ("/tmp/ab /tmp/a-b /tmp/a.old /x/tmp/a", "/tmp/ab /tmp/a-b /tmp/a.old /x/tmp/a"),
            ("/tmp/a/.state/s/tool-output/f", "<session>/tool-output/f"),
            ("a relative path", "a relative path"),
        ]);
    }

    #[test]
    fn times_are_replaced() {
        check(&[
            ("at 2026-11-26T20:42:40.365Z.", "at <time>."),
            ("2026-11-26 20:42:40 +0100 x", "<time> x"),
            ("Date: 2026-11-26\nGit", "Date: <time>\nGit"),
            ("tool_20261126T204240_001_Bash.txt", "tool_<time>_001_Bash.txt"),
            ("Date: Thu, 26 Nov 2026 20:41:35 GMT", "Date: <time>"),
            ("Thu Nov 26 20:41:35 UTC 2026", "<time>"),
            ("Date:   Thu Nov 6 20:41:35 2026 +0000", "Date:   <time>"),
            ("-rw-r--r-- 1 u g 98 Nov  6 20:39 a.rs", "-rw-r--r-- 1 u g 98 <time> a.rs"),
            ("[12:00:01] started", "[<time>] started"),
            ("modified 1795725760310, now", "modified <time>, now"),
            ("1795725760.310", "<time>"),
        ]);
    }

    #[test]
    fn durations_are_replaced() {
        check(&[
            ("finished in 0.48s", "finished in <duration>"),
            ("real\t0m0.012s", "real\t<duration>"),
            ("ok (12 ms, 3µs, 1m 05s)", "ok (<duration>, <duration>, <duration>)"),
            ("Ran 3 tests in 0.001 seconds", "Ran 3 tests in <duration>"),
            ("# duration_ms 52.3", "# duration_ms <duration>"),
            ("{\"time_ms\": 5, \"n\": 5}", "{\"time_ms\": <duration>, \"n\": 5}"),
        ]);
    }

    #[test]
    fn ids_are_replaced() {
        check(&[
            ("session 01a21998-9762-74a6-9cd3-06437d91766e", "session <id>"),
            ("/tmp/tmp.Ab12Cd34Ef/x /tmp/tmpab_12cd9/y", "/tmp/<id>/x /tmp/<id>/y"),
            ("<A object at 0x7f3a5c0b2d10>", "<A object at <id>>"),
            ("process 4711, pid=12, PID: 3", "process <id>, pid=<id>, PID: <id>"),
            (
                "thread 'main' (4711) panicked at a.rs:1:2",
                "thread 'main' (<id>) panicked at a.rs:1:2",
            ),
            ("[main (root-commit) 1234567] first", "[main (root-commit) <id>] first"),
            ("[topic/x 3f2a1b9] second", "[topic/x <id>] second"),
            ("commit 3fa9c21b3fa9c21b3fa9c21b3fa9c21b3fa9c21b", "commit <id>"),
            ("HEAD is now at 3f2a1b9 x", "HEAD is now at <id> x"),
        ]);
    }

    #[test]
    fn everything_else_stays() {
        let md5 = "9e107d9d372bb6826bd81d3542a419d6";
        let text = format!(
            "34 strings, 5 seconds_left, v1.2.3, 1234567 bytes, a defaced wall, 0x1234, {md5}, \
             127.0.0.1:8080, 12:30, [1, 2], [ok 7], thread 'a', 3 µm, é 7"
        );
        check(&[(&text, &text)]);
    }

    #[test]
    fn placeholders_are_stable() {
        let once = normalise("/tmp/a 2026-11-26 5ms 0x7f3a5c0b2d10 [main 3f2a1b9] pid 3", &[]);
        assert_eq!(normalise(&once, &[]), once);
    }
}
