//! A command line as far as it can be read without running it: its simple commands and their words.
//!
//! For what only wants to know what a line does (what it proves, what is learnt of it). Whether a line may run is
//! for `permission::shell` to say, which has to understand it to the last sign.

/// A simple command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple<'a> {
    /// Its words, quotes and all, assignments in front included; one at least.
    pub words: Vec<&'a str>,
    /// Where each word begins in the line, in bytes.
    pub at: Vec<usize>,
    /// What stands behind it: `&&`, `||`, `;`, `|`, `&`, a line's end.
    pub operator: Option<&'a str>,
}

impl<'a> Simple<'a> {
    /// Where it begins in the line, in bytes, assignments in front included.
    pub fn start(&self) -> usize {
        self.at[0]
    }

    /// The program and its arguments, without what stands before it.
    pub fn program(&self) -> &[&'a str] {
        program(&self.words)
    }

    /// How many words stand before the program.
    pub fn own_words(&self) -> usize {
        self.words.len() - self.program().len()
    }
}

/// Programs that only start another one.
const STARTERS: [&str; 7] = ["env", "time", "nice", "command", "timeout", "exec", "nohup"];

/// Programs that run a script or a module.
pub const INTERPRETERS: [&str; 10] =
    ["bash", "sh", "zsh", "python", "python3", "node", "ruby", "perl", "php", "deno"];

/// Programs whose next words say what is done: `cargo test`, `npm run build`, `make fmt`.
pub const WITH_TASK: [&str; 33] = [
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

/// The simple commands of a line; nothing where it can not be read so simply (a heredoc, an open quote or
/// parenthesis). The commands of a subshell are the line's, those of a substitution are part of a word.
pub fn simple_commands(line: &str) -> Vec<Simple<'_>> {
    // A heredoc's text would be taken for commands.
    if line.contains("<<") {
        return Vec::new();
    }
    let (mut commands, mut simple) = (Vec::new(), Simple::default());
    let (mut begun, mut quote, mut depth) = (None::<usize>, None::<char>, 0_u32);
    let mut at = 0;
    while let Some(letter) = line[at..].chars().next() {
        let here = at;
        at += letter.len_utf8();
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
            // A comment goes to the line's end.
            ('#', None) if depth == 0 && begun.is_none() => {
                at = line[here..].find('\n').map_or(line.len(), |end| here + end);
            }
            (_, None) if depth == 0 => {
                let operator = operator_at(line, here);
                if operator.is_none() && !letter.is_whitespace() && !matches!(letter, '(' | ')') {
                    begun.get_or_insert(here);
                    continue;
                }
                simple.take(line, begun.take(), here);
                if let Some(operator) = operator {
                    at = here + operator.len();
                    simple.operator = Some(operator);
                    commands.push(std::mem::take(&mut simple));
                }
            }
            (_, Some(_) | None) => {}
        }
    }
    if quote.is_some() || depth > 0 {
        return Vec::new();
    }
    simple.take(line, begun, line.len());
    commands.push(simple);
    commands.retain(|command| !command.words.is_empty());
    commands
}

impl<'a> Simple<'a> {
    /// One word more, if one has begun.
    fn take(&mut self, line: &'a str, begun: Option<usize>, end: usize) {
        if let Some(from) = begun {
            self.words.push(&line[from..end]);
            self.at.push(from);
        }
    }
}

fn operator_at(line: &str, at: usize) -> Option<&str> {
    const OPERATORS: [&str; 6] = ["&&", "||", ";", "|", "&", "\n"];
    let rest = &line[at..];
    // `2>&1`, `&>file`.
    let redirects = rest.starts_with('&') && line[..at].ends_with('>') || rest.starts_with("&>");
    let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))?;
    (!redirects).then(|| &rest[..operator.len()])
}

/// The simple commands that must have succeeded where the line did: all of the `&&` list at its end, of a
/// pipeline the last stage (`stages_known`: each stage), nothing beside an `||`.
pub fn must_have_succeeded(line: &str, stages_known: bool) -> Vec<Simple<'_>> {
    let commands = simple_commands(line);
    let ends_list = |simple: &Simple<'_>| !matches!(simple.operator, Some("&&" | "||" | "|"));
    let list = commands.split_inclusive(ends_list).next_back().unwrap_or_default();
    if list.iter().any(|simple| matches!(simple.operator, Some("||" | "&"))) {
        return Vec::new();
    }
    let is_known = |simple: &&Simple<'_>| stages_known || simple.operator != Some("|");
    list.iter().filter(is_known).cloned().collect()
}

/// What stands behind assignments and behind programs that only start another one: `A=1 timeout 60 pytest`.
pub fn program<'a, 'b>(words: &'b [&'a str]) -> &'b [&'a str] {
    let Some((first, rest)) = words.split_first() else { return words };
    if is_assignment(first) {
        return program(rest);
    }
    // A `./time` is the project's.
    let name = if first.starts_with('/') { name_of(first) } else { first };
    if !STARTERS.contains(&name) || rest.is_empty() {
        return words;
    }
    let is_own = |word: &&str| {
        word.starts_with('-') || name == "timeout" && word.starts_with(|c: char| c.is_ascii_digit())
    };
    program(&rest[rest.iter().take_while(|word| is_own(word)).count()..])
}

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

/// A path of the project's own program or script: `./gen.sh`, `tools/build.py`.
pub fn is_script(program: &str) -> bool {
    let ending = program.rsplit_once('.').map_or("", |(_, ending)| ending);
    (program.contains('/') && !program.starts_with('/'))
        || (["sh", "py", "js", "ts", "rb", "pl", "mjs"].contains(&ending) && !program.contains('='))
}

/// A word without its quotes, as a program is given it. A substitution stays as it was written.
pub fn unquoted(word: &str) -> String {
    let (mut plain, mut quote) = (String::with_capacity(word.len()), None);
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => plain.extend(letters.next()),
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(_) | None) => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(commands: &[Simple<'_>]) -> String {
        commands.iter().map(|simple| simple.words.join(" ")).collect::<Vec<_>>().join(" + ")
    }

    #[test]
    fn a_line_is_cut_into_its_commands_and_words() {
        for (line, expected) in [
            ("pytest tests/a.py -q", "pytest tests/a.py -q"),
            ("cd web && npm test 2>&1 | tail -5", "cd web + npm test 2>&1 + tail -5"),
            ("echo \"a; b\" 'c && d'; ls", "echo \"a; b\" 'c && d' + ls"),
            ("(cd web && npm test)", "cd web + npm test"),
            ("A=$(nproc; true) make -j$(nproc)", "A=$(nproc; true) make -j$(nproc)"),
            ("cat <<E\npytest\nE", ""),
            ("echo 'open", ""),
            ("echo $(open", ""),
            ("make &> log; make 2>&1 &", "make &> log + make 2>&1"),
            ("cargo test &&\n ls;\n", "cargo test + ls"),
            ("cargo test # it's slow\nls a#b $#", "cargo test + ls a#b $#"),
            ("运行 测试.sh && ls", "运行 测试.sh + ls"),
            ("", ""),
        ] {
            assert_eq!(shown(&simple_commands(line)), expected, "{line}");
        }
    }

    #[test]
    fn only_a_command_whose_status_is_not_lost_must_have_succeeded() {
        for (line, stages_known, expected) in [
            ("cargo test", false, "cargo test"),
            ("cd a && cargo test 2>&1", false, "cd a + cargo test 2>&1"),
            ("cargo test | tail -5", false, "tail -5"),
            ("cargo test | tail -5", true, "cargo test + tail -5"),
            ("cargo test || true", true, ""),
            ("cargo test ||\ntrue", true, ""),
            ("cargo test || true; ls", true, "ls"),
            ("cargo test; echo \"a; b\"", true, "echo \"a; b\""),
            ("cargo test;\n", true, "cargo test"),
            ("make\ncargo test\n", true, "cargo test"),
            ("(cd a && make test)", true, "cd a + make test"),
            ("cargo test &", true, ""),
            ("cargo test & ls", true, "ls"),
            ("cargo test # || true; it's slow", true, "cargo test"),
            ("cargo test -j$(nproc; true) && ls", true, "cargo test -j$(nproc; true) + ls"),
            ("cat <<E\ncargo test\nE", true, ""),
            ("", true, ""),
        ] {
            assert_eq!(shown(&must_have_succeeded(line, stages_known)), expected, "{line}");
        }
    }

    #[test]
    fn the_program_stands_behind_what_only_starts_it() {
        for (line, expected) in [
            ("LC_ALL=C timeout 60 pytest -q", "pytest -q"),
            ("env A=1 make fmt", "make fmt"),
            ("/usr/bin/time -v make", "make"),
            ("./time make", "./time make"),
            ("env", "env"),
            ("A=1", ""),
        ] {
            let simple = &simple_commands(line)[0];
            assert_eq!(simple.program().join(" "), expected, "{line}");
            assert_eq!(simple.words[simple.own_words()..], *simple.program(), "{line}");
        }
    }

    #[test]
    fn a_word_is_known_without_its_quotes() {
        for (word, expected) in [
            ("'a b'", "a b"),
            (r#""it's"\ 'a"b'"#, r#"it's a"b"#),
            (r"a\", "a"),
            ("`a b`", "`a b`"),
        ] {
            assert_eq!(unquoted(word), expected, "{word}");
        }
    }

    proptest! {
        /// Whatever a line holds: its words stand where they say, in order, and between them nothing but what parts
        /// words and commands, and comments.
        #[test]
        fn words_cover_the_line(line in "[a-z测 '\"\\\\$()|&;<>=/.\n`#-]{0,40}") {
            let mut end = 0;
            let commands = simple_commands(&line);
            for simple in &commands {
                prop_assert!(!simple.words.is_empty() && simple.words.len() == simple.at.len());
                for (word, at) in simple.words.iter().zip(&simple.at) {
                    prop_assert!(!word.is_empty() && line[*at..].starts_with(word), "{}", line);
                    prop_assert!(parts(&line[end..*at]), "{}", line);
                    end = at + word.len();
                }
            }
            let is_read = !commands.is_empty();
            prop_assert!(!is_read || parts(&line[end..]), "{}", line);
            let shown = must_have_succeeded(&line, true);
            prop_assert!(shown.iter().all(|simple| commands.contains(simple)));
            for word in commands.iter().flat_map(|simple| &simple.words) {
                prop_assert!(unquoted(word).len() <= word.len());
            }
        }

        /// What is quoted for a shell is read as it was meant.
        #[test]
        fn quoted_words_are_read_back(words in prop::collection::vec("[a-z测 '\"\\\\$()|&;>=\n`#]{1,9}", 1..4)) {
            let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
            let line = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
            let [simple] = &simple_commands(&line)[..] else { panic!("{line}") };
            let read: Vec<String> = simple.words.iter().map(|word| unquoted(word)).collect();
            prop_assert_eq!(read, words);
        }
    }

    /// Blanks, operators, parentheses and comments.
    fn parts(text: &str) -> bool {
        let is_sign = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')');
        text.split('\n')
            .all(|line| line.split('#').next().is_none_or(|text| text.chars().all(is_sign)))
    }
}
