//! What a command line may run, as far as one can tell: through `env`, `xargs`, `sh -c` and their kin.

use super::shell::{Simple, is_assignment, split};

/// Programs that run the command in their arguments.
const WRAPPERS: &[&str] = &[
    "builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "timeout",
    "xargs",
];
/// Programs that run a text, given after `-c`.
pub(super) const SHELLS: &[&str] = &["bash", "dash", "ksh", "sh", "zsh"];
/// How deep a shell in a shell is followed.
const DEPTH: usize = 4;

/// What is known of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its simple commands.
    pub(super) parts: Vec<Part>,
    /// The line was fully understood.
    pub(super) is_complete: bool,
}

/// A simple command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its words as written.
    pub(super) words: Vec<String>,
    /// The files that it writes by redirection.
    pub(super) writes: Vec<String>,
    /// It reads what the command before it writes.
    pub(super) is_piped: bool,
    /// The words of every command that may run: as written, without assignments and with the bare
    /// name of the program, and what its wrappers run.
    pub(super) runs: Vec<Vec<String>>,
}

impl Facts {
    pub(super) fn of(line: &str) -> Self {
        let line = split(line);
        let mut is_complete = line.is_complete;
        let mut parts = Vec::new();
        for Simple { words, writes, is_piped } in line.commands {
            let mut runs = Vec::new();
            is_complete &= unwrap(&words, DEPTH, &mut runs);
            parts.push(Part { words, writes, is_piped, runs });
        }
        Self { parts, is_complete }
    }

    /// The words of every command that may run.
    pub(super) fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        self.parts.iter().flat_map(|part| &part.runs)
    }
}

/// Adds every command that this one may run; `false` where not all of it was understood.
fn unwrap(words: &[String], depth: usize, runs: &mut Vec<Vec<String>>) -> bool {
    let begin = words.iter().position(|word| !is_assignment(word)).unwrap_or(words.len());
    let Some((program, arguments)) = words[begin..].split_first() else { return true };
    let name = program.rsplit('/').next().unwrap_or(program);
    if begin > 0 || name != program {
        runs.push(words.to_vec());
    }
    runs.push([&[name.to_owned()], arguments].concat());
    if depth == 0 {
        return false;
    }
    let mut is_complete = true;
    let only_asks = name == "command"
        && arguments.first().is_some_and(|option| matches!(option.as_str(), "-v" | "-V"));
    // Options, their numbers, `{}` and assignments come before the program.
    let is_program = |word: &String| {
        let begins = |char: char| char.is_ascii_alphabetic() || matches!(char, '/' | '.' | '_');
        !is_assignment(word) && word.starts_with(begins)
    };
    if WRAPPERS.contains(&name)
        && !only_asks
        && let Some(at) = arguments.iter().position(is_program)
    {
        is_complete &= unwrap(&arguments[at..], depth - 1, runs);
    }
    if name == "find" {
        let is_run = |word: &str| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir");
        for (at, _) in arguments.iter().enumerate().filter(|(_, word)| is_run(word)) {
            is_complete &= unwrap(&arguments[at + 1..], depth - 1, runs);
        }
    }
    let is_text_option =
        |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    if SHELLS.contains(&name)
        && let Some(at) = arguments.iter().position(is_text_option)
        && let Some(text) = arguments.get(at + 1)
    {
        let line = split(text);
        is_complete &= line.is_complete;
        for command in &line.commands {
            is_complete &= unwrap(&command.words, depth - 1, runs);
        }
    }
    is_complete
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let facts = Facts::of(line);
        let commands: Vec<String> = facts.commands().map(|words| words.join(" ")).collect();
        assert_eq!(commands, expected, "{line}");
    }

    #[test]
    fn what_a_wrapper_runs_is_seen() {
        check("a b", &["a b"]);
        check("/bin/rm x", &["/bin/rm x", "rm x"]);
        check("X=1 rm x", &["X=1 rm x", "rm x"]);
        check("env X=1 rm x", &["env X=1 rm x", "rm x"]);
        check(
            "timeout -k 5 10s nice -n 5 rm x",
            &["timeout -k 5 10s nice -n 5 rm x", "nice -n 5 rm x", "rm x"],
        );
        check("ls | xargs -I{} rm {}", &["ls", "xargs -I{} rm {}", "rm {}"]);
        check("bash -lc 'a; b | c'", &["bash -lc a; b | c", "a", "b", "c"]);
        check("find . -exec rm {} +", &["find . -exec rm {} +", "rm {} +"]);
        check("command -v sudo", &["command -v sudo"]);
        check("xargs grep sudo", &["xargs grep sudo", "grep sudo"]);
    }
}
