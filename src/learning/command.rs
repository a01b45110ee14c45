//! A command line as far as learning needs it: its simple commands, each with its words as they were written.

/// A simple command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simple<'a> {
    /// Where it begins in the line, in bytes, assignments in front included.
    pub start: usize,
    /// Its words, quotes and all, assignments in front included.
    pub words: Vec<&'a str>,
    /// Where each word begins in the line.
    pub at: Vec<usize>,
    /// What stands behind it: `&&`, `||`, `;`, `|`, `&`.
    pub operator: Option<&'a str>,
}

impl<'a> Simple<'a> {
    /// The program and its arguments, behind assignments and behind programs that only start another one
    /// (`timeout 60 pytest`).
    pub fn program(&self) -> &[&'a str] {
        &self.words[self.own_words()..]
    }

    /// How many words stand before the program.
    pub fn own_words(&self) -> usize {
        let mut n = 0;
        loop {
            let rest = &self.words[n..];
            let Some(first) = rest.first() else { return n };
            if is_assignment(first) {
                n += 1;
            } else if STARTERS.contains(first) && rest.len() > 1 {
                n += 1;
                let is_own = |word: &&str| {
                    word.starts_with('-')
                        || is_assignment(word)
                        || (*first == "timeout" && word.starts_with(|c: char| c.is_ascii_digit()))
                };
                n += self.words[n..].iter().take_while(|word| is_own(word)).count();
            } else {
                return n;
            }
        }
    }
}

/// Programs that only start another one.
const STARTERS: [&str; 7] = ["env", "time", "nice", "command", "timeout", "exec", "nohup"];

/// `NAME=value`.
pub fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// `2>&1`, `> log`, `&>log`.
pub fn is_redirection(word: &str) -> bool {
    word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&').starts_with('>')
}

/// A program without its folder.
pub fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The simple commands of a line; nothing where it can not be read so simply (a heredoc, an open quote, a
/// substitution that is a command of its own).
pub fn simple_commands(line: &str) -> Vec<Simple<'_>> {
    const OPERATORS: [&str; 6] = ["&&", "||", ";", "|", "&", "\n"];
    if line.contains("<<") {
        return Vec::new();
    }
    let mut commands = Vec::new();
    let mut simple = Simple { start: 0, words: Vec::new(), at: Vec::new(), operator: None };
    let (mut begun, mut quote, mut depth) = (None::<usize>, None::<char>, 0_u32);
    let mut at = 0;
    while let Some(letter) = line[at..].chars().next() {
        let here = at;
        at += letter.len_utf8();
        let rest = &line[here..];
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
        // `2>&1`, `&>file`.
        let redirects = letter == '&' && (line[..here].ends_with('>') || rest.starts_with("&>"));
        let ends_word = |simple: &mut Simple<'_>, begun: &mut Option<usize>| {
            if let Some(from) = begun.take() {
                simple.at.push(from);
            }
        };
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => {
                begun.get_or_insert(here);
                at += line[at..].chars().next().map_or(0, char::len_utf8);
            }
            ('\'' | '"' | '`', None) => {
                begun.get_or_insert(here);
                quote = Some(letter);
            }
            ('(', None) if begun.is_some() || depth > 0 => depth += 1,
            (')', None) if depth > 0 => depth -= 1,
            ('(' | ')', None) => ends_word(&mut simple, &mut begun),
            (_, None) if depth == 0 && !redirects && operator.is_some() => {
                ends_word(&mut simple, &mut begun);
                at = here + operator.map_or(1, str::len);
                simple.operator = Some(&line[here..at]);
                commands.push(std::mem::replace(
                    &mut simple,
                    Simple { start: 0, words: Vec::new(), at: Vec::new(), operator: None },
                ));
            }
            (_, None) if letter.is_whitespace() && depth == 0 => {
                ends_word(&mut simple, &mut begun);
            }
            (_, Some(_) | None) => {
                begun.get_or_insert(here);
            }
        }
    }
    if quote.is_some() || depth > 0 {
        return Vec::new();
    }
    simple.at.extend(begun);
    commands.push(simple);
    commands.retain(|command| !command.at.is_empty());
    for command in &mut commands {
        command.start = command.at[0];
        command.words = command.at.iter().map(|from| word_at(line, *from)).collect();
    }
    commands
}

/// The word that begins here: up to a blank or an operator outside quotes and parentheses.
fn word_at(line: &str, from: usize) -> &str {
    let (mut quote, mut depth, mut escaped) = (None, 0_u32, false);
    let mut before = None;
    for (at, letter) in line[from..].char_indices() {
        let is_end = letter.is_whitespace()
            || matches!(letter, ';' | '|' | ')')
            || (letter == '&' && before != Some('>') && !line[from + at..].starts_with("&>"));
        match (letter, quote) {
            _ if escaped => escaped = false,
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => escaped = true,
            ('\'' | '"' | '`', None) => quote = Some(letter),
            ('(', None) => depth += 1,
            (')', None) if depth > 0 => depth -= 1,
            (_, None) if depth == 0 && is_end => return &line[from..from + at],
            (_, Some(_) | None) => {}
        }
        before = Some(letter);
    }
    &line[from..]
}

/// A word without its quotes.
pub fn unquoted(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect()
}

/// A path of the project's own program or script: `./gen.sh`, `tools/build.py`.
pub fn is_script(program: &str) -> bool {
    let ending = program.rsplit_once('.').map_or("", |(_, ending)| ending);
    (program.contains('/') && !program.starts_with('/'))
        || (["sh", "py", "js", "ts", "rb", "pl", "mjs"].contains(&ending) && !program.contains('='))
}

/// Programs that run a script or a module.
pub(super) const INTERPRETERS: [&str; 10] =
    ["bash", "sh", "zsh", "python", "python3", "node", "ruby", "perl", "php", "deno"];

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

/// Programs whose next words say what is done: `cargo test`, `npm run build`, `make fmt`.
pub(super) const WITH_TASK: [&str; 33] = [
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "go",
    "dotnet",
    "swift",
    "mix",
    "zig",
    "bazel",
    "composer",
    "make",
    "gmake",
    "mvn",
    "gradle",
    "just",
    "rake",
    "task",
    "sbt",
    "git",
    "docker",
    "poetry",
    "uv",
    "pip",
    "pip3",
    "bundle",
    "deno",
    "kubectl",
    "terraform",
    "npx",
    "bunx",
    "uvx",
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

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let commands = simple_commands(line);
        let shown: Vec<String> = commands.iter().map(|simple| simple.words.join(" ")).collect();
        assert_eq!(shown.join(" + "), expected, "{line}");
        for simple in commands {
            for (word, at) in simple.words.iter().zip(&simple.at) {
                assert!(line[*at..].starts_with(word), "{line}: {word} at {at}");
            }
        }
    }

    #[test]
    fn a_line_is_cut_into_its_commands_and_words() {
        check("pytest tests/a.py -q", "pytest tests/a.py -q");
        check("cd web && npm test 2>&1 | tail -5", "cd web + npm test 2>&1 + tail -5");
        check("echo \"a; b\" 'c && d'; ls", "echo \"a; b\" 'c && d' + ls");
        check("(cd web && npm test)", "cd web + npm test");
        check("A=$(nproc; true) make -j$(nproc)", "A=$(nproc; true) make -j$(nproc)");
        check("cat <<E\npytest\nE", "");
        check("echo 'open", "");
        check("make &> log; make 2>&1 &", "make &> log + make 2>&1");
        check("运行 测试.sh && ls", "运行 测试.sh + ls");
    }

    proptest::proptest! {
        /// Whatever a line holds, its words are pieces of it, in order.
        #[test]
        fn any_line_can_be_read(line in "[a-z测 '\"\\\\$()|&;<>=/.-]{0,40}") {
            let mut end = 0;
            for simple in simple_commands(&line) {
                proptest::prop_assert_eq!(simple.words.len(), simple.at.len());
                for (word, at) in simple.words.iter().zip(&simple.at) {
                    proptest::prop_assert!(*at >= end && line[*at..].starts_with(word), "{}", line);
                    end = at + word.len();
                }
            }
        }
    }

    #[test]
    fn the_program_stands_behind_what_only_starts_it() {
        let program = |line: &str| simple_commands(line)[0].program().join(" ");
        assert_eq!(program("LC_ALL=C timeout 60 pytest -q"), "pytest -q");
        assert_eq!(program("env A=1 make fmt"), "make fmt");
        assert_eq!(program("A=1"), "");
    }

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
