//! What the words of a command say: which of them name what is done.

use crate::protocol::command::{INTERPRETERS, WITH_TASK, is_redirection, name_of};

/// Programs that every system has, each in its own kind: what they take is the machine's, not a project's.
pub(super) const SYSTEM: [&str; 46] = [
    "awk",
    "base64",
    "cat",
    "chmod",
    "column",
    "cp",
    "curl",
    "cut",
    "date",
    "df",
    "diff",
    "du",
    "file",
    "find",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "hostname",
    "less",
    "ls",
    "md5",
    "md5sum",
    "mkdir",
    "mktemp",
    "nc",
    "netstat",
    "nl",
    "od",
    "paste",
    "ps",
    "readlink",
    "realpath",
    "seq",
    "sha256sum",
    "shasum",
    "sort",
    "split",
    "stat",
    "tail",
    "tar",
    "touch",
    "tr",
    "wc",
    "xargs",
    "xxd",
];

/// In a pattern of words: any one word, of a head any word that says what is done.
pub(super) const ANY: &str = "*";

/// A word that says what its program is to do, if it stands first behind it: `import`, `db:seed`.
pub(super) fn is_task(word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':');
    word.starts_with(char::is_alphabetic) && word.chars().all(is_letter)
}

/// The words of a program that say what it does: `npm run build`, `python3 -m pytest`, `bash gen.sh`,
/// `pytest`.
pub fn head<'a>(program: &'a [&'a str]) -> &'a [&'a str] {
    let Some((first, rest)) = program.split_first() else { return program };
    let name = name_of(first);
    let is_task = |word: &str| !word.starts_with('-') && !is_redirection(word);
    let n = if INTERPRETERS.contains(&name) {
        match rest {
            ["-m", _, ..] => 3,
            [script, ..] if is_task(script) => 2,
            _ => 1,
        }
    } else if WITH_TASK.contains(&name) {
        match rest {
            ["run" | "exec" | "compose", task, ..] if is_task(task) => 3,
            [task, ..] if is_task(task) => 2,
            _ => 1,
        }
    } else {
        1
    };
    &program[..n]
}

/// So many words may stand between a program and what it is to do.
const MAX_OPTIONS: usize = 3;

/// The later one is the earlier one with options between the program and what it is to do: `go test` →
/// `go -C web test`, `node a.ts` → `node --import tsx a.ts`, `docker compose up` → `docker compose -f x up`.
pub(super) fn has_options_more(one: &[&str], other: &[&str]) -> bool {
    let n = other.len().saturating_sub(one.len());
    let n_head = if one.len() > 1 { head(one).len().max(2) } else { 0 };
    (1..=MAX_OPTIONS).contains(&n)
        && (1..n_head).any(|at| {
            other[..at] == one[..at] && other[at + n..] == one[at..] && is_option(other[at])
        })
}

/// `-n`, `--offline`; `+nightly` chooses a toolchain.
pub(super) fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::command::simple_commands;

    #[test]
    fn the_head_says_what_is_done() {
        let head = |line: &str| head(simple_commands(line)[0].program()).join(" ");
        assert_eq!(head("npm run build -- --fast"), "npm run build");
        assert_eq!(head("cargo test -q"), "cargo test");
        assert_eq!(head("python3 -m pytest tests/a.py"), "python3 -m pytest");
        assert_eq!(head("bash gen.sh x"), "bash gen.sh");
        assert_eq!(head("pytest tests/a.py"), "pytest");
        assert_eq!(head("make -j4"), "make");
        assert_eq!(head("make 2>&1"), "make");
    }
}
