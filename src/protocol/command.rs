//! A command line as far as it can be read without running it: its simple commands and their words.
//!
//! For what only wants to know what a line does (what it proves, what is learnt of it). Whether a line may run is
//! for `permission::shell` to say, which has to understand it to the last sign.

use std::iter::Peekable;
use std::slice::Iter;

/// A simple command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple<'a> {
    /// Its words, quotes and all, assignments in front included; one at least.
    pub words: Vec<&'a str>,
    /// Where each word begins in the line, in bytes.
    pub at: Vec<usize>,
    /// What stands behind it: `&&`, `||`, `;`, `|`, `&`, a line's end.
    pub operator: Option<&'static str>,
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
/// parenthesis). The commands of a subshell or of a group are the line's, those of a substitution are part of a word.
pub fn simple_commands(line: &str) -> Vec<Simple<'_>> {
    commands_of(&pieces(line).unwrap_or_default())
}

/// The simple commands that must have succeeded where the line did: all of the `&&` list at its end, of a
/// pipeline the last stage (`stages_known`: each stage), nothing beside an `||`.
pub fn must_have_succeeded(line: &str, stages_known: bool) -> Vec<Simple<'_>> {
    let pieces = pieces(line).unwrap_or_default();
    let known = known_in(&mut pieces.iter().peekable(), stages_known);
    let mut commands = commands_of(&pieces);
    commands.retain(|simple| known.binary_search(&simple.start()).is_ok());
    commands
}

/// What a line is made of.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    /// A word, and where it begins.
    Word(&'a str, usize),
    Operator(&'static str),
    /// A subshell or a `{` begins. Each is closed.
    Open,
    Close,
}

/// The line in its pieces, if it can be read so simply.
fn pieces(line: &str) -> Option<Vec<Piece<'_>>> {
    // A heredoc's text would be taken for commands.
    if line.contains("<<") || line.contains("<\\\n<") {
        return None;
    }
    let mut pieces = Pieces::default();
    let (mut begun, mut quote, mut depth) = (None::<usize>, None::<char>, 0_u32);
    let mut at = 0;
    while let Some(letter) = line[at..].chars().next() {
        let here = at;
        at += letter.len_utf8();
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            // The line goes on in the next one.
            ('\\', None) if begun.is_none() && line[at..].starts_with('\n') => at += 1,
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
                if let Some(from) = begun.take() {
                    pieces.word(&line[from..here], from);
                }
                match (operator, letter) {
                    (Some((operator, len)), _) => {
                        at = here + len;
                        pieces.found.push(Piece::Operator(operator));
                    }
                    (None, '(') => pieces.open('('),
                    (None, ')') => pieces.close('('),
                    (None, _) => {}
                }
            }
            (_, Some(_) | None) => {}
        }
    }
    if let Some(from) = begun {
        pieces.word(&line[from..], from);
    }
    let is_whole = quote.is_none() && depth == 0 && pieces.open.is_empty();
    (is_whole && pieces.deepest <= MAX_DEPTH).then_some(pieces.found)
}

#[derive(Default)]
struct Pieces<'a> {
    found: Vec<Piece<'a>>,
    /// What is open, the innermost last.
    open: Vec<char>,
    deepest: usize,
}

/// How deep groups may stand in each other: what reads them calls itself.
const MAX_DEPTH: usize = 64;

impl<'a> Pieces<'a> {
    fn word(&mut self, mut word: &'a str, at: usize) {
        while let Some(before) = word.strip_suffix("\\\n") {
            word = before;
        }
        match (word, self.found.last()) {
            ("{", None | Some(Piece::Open | Piece::Operator(_))) => self.open('{'),
            ("}", Some(Piece::Close | Piece::Operator(_))) if self.open.last() == Some(&'{') => {
                self.close('{');
            }
            _ => self.found.push(Piece::Word(word, at)),
        }
    }

    fn open(&mut self, sign: char) {
        self.open.push(sign);
        self.deepest = self.deepest.max(self.open.len());
        self.found.push(Piece::Open);
    }

    /// The `)` of a `case` closes nothing.
    fn close(&mut self, sign: char) {
        if self.open.pop_if(|open| *open == sign).is_some() {
            self.found.push(Piece::Close);
        }
    }
}

fn commands_of<'a>(pieces: &[Piece<'a>]) -> Vec<Simple<'a>> {
    let (mut commands, mut simple) = (Vec::new(), Simple::default());
    for piece in pieces {
        match *piece {
            Piece::Word(word, at) => {
                simple.words.push(word);
                simple.at.push(at);
            }
            Piece::Operator(operator) if !simple.words.is_empty() => {
                simple.operator = Some(operator);
                commands.push(std::mem::take(&mut simple));
            }
            // What stands behind `{ a; }` is said of what stands in it, as behind `(a)`.
            Piece::Close if simple.words.is_empty() => {
                let ends = |last: &mut Simple<'_>| matches!(last.operator, Some(";" | "\n"));
                simple = commands.pop_if(ends).unwrap_or_default();
                simple.operator = None;
            }
            Piece::Operator(_) | Piece::Open | Piece::Close => {}
        }
    }
    if !simple.words.is_empty() {
        commands.push(simple);
    }
    commands
}

/// Where those begin that must have succeeded where the list did that stands here, up to what closes it; in order.
fn known_in(pieces: &mut Peekable<Iter<'_, Piece<'_>>>, stages_known: bool) -> Vec<usize> {
    let (mut known, mut in_doubt, mut is_over) = (Vec::new(), false, false);
    loop {
        let of_command = known_of_command(pieces, stages_known);
        let next = pieces.next();
        if let Some(of_command) = of_command {
            if is_over {
                (known, in_doubt, is_over) = (Vec::new(), false, false);
            }
            let is_lost = matches!(next, Some(Piece::Operator("|"))) && !stages_known;
            if !is_lost {
                known.extend(of_command);
            }
            if let Some(Piece::Operator(operator)) = next {
                in_doubt |= matches!(*operator, "||" | "&");
                is_over = !matches!(*operator, "&&" | "||" | "|");
            }
        }
        if matches!(next, None | Some(Piece::Close)) {
            return if in_doubt { Vec::new() } else { known };
        }
    }
}

/// The same of one command, if there is one: of a subshell or group what is known of its list.
fn known_of_command(
    pieces: &mut Peekable<Iter<'_, Piece<'_>>>,
    stages_known: bool,
) -> Option<Vec<usize>> {
    let mut known = None;
    let mut is_group = false;
    while let Some(piece) =
        pieces.next_if(|piece| !matches!(piece, Piece::Operator(_) | Piece::Close))
    {
        match piece {
            Piece::Word(_, at) if known.is_none() => known = Some(vec![*at]),
            Piece::Word(word, _) => {
                // `then (a; b) fi`: it may have been passed over.
                if std::mem::take(&mut is_group) && !is_redirection(word) {
                    known = Some(Vec::new());
                }
            }
            Piece::Open => {
                let of_group = known_in(pieces, stages_known);
                is_group = known.is_none();
                // Behind a `!`, a `then` or a function's name nobody knows.
                known = Some(if is_group { of_group } else { Vec::new() });
            }
            Piece::Operator(_) | Piece::Close => {}
        }
    }
    known
}

/// The operator that stands there, and its length.
fn operator_at(line: &str, at: usize) -> Option<(&'static str, usize)> {
    const OPERATORS: [&str; 6] = ["&&", "||", ";", "|", "&", "\n"];
    // `2>&1`, `&>file`.
    let redirects = line[..at].trim_end_matches("\\\n").ends_with('>')
        || length_of("&>", &line[at..]).is_some();
    let found = OPERATORS
        .into_iter()
        .find_map(|operator| length_of(operator, &line[at..]).map(|length| (operator, length)))?;
    (!(redirects && found.0.starts_with('&'))).then_some(found)
}

/// How much of the text this sign takes, if the text begins with it: the line may go on in the midst of it.
fn length_of(sign: &str, text: &str) -> Option<usize> {
    let mut rest = text;
    for (n, letter) in sign.chars().enumerate() {
        if n > 0 {
            rest = rest.trim_start_matches("\\\n");
        }
        rest = rest.strip_prefix(letter)?;
    }
    Some(text.len() - rest.len())
}

/// What stands behind assignments and behind programs that only start another one: `A=1 timeout 60 pytest`.
pub fn program<'a, 'b>(words: &'b [&'a str]) -> &'b [&'a str] {
    let Some((first, rest)) = words.split_first() else { return words };
    if is_assignment(first) {
        return program(rest);
    }
    // A `./time` is the project's.
    let name = if first.starts_with('/') { name_of(first) } else { first };
    let is_own = |word: &&&str| {
        word.starts_with('-') || name == "timeout" && word.starts_with(|c: char| c.is_ascii_digit())
    };
    let (own, started) = rest.split_at(rest.iter().take_while(is_own).count());
    // `command -v` starts nothing: it says where a program is.
    let only_asks = name == "command" && own.iter().any(|word| word.contains(['v', 'V']));
    if !STARTERS.contains(&name) || rest.is_empty() || only_asks {
        return words;
    }
    program(started)
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
            // An escaped line break is none: the line goes on.
            ('\\', None | Some('"')) => plain.extend(letters.next().filter(|next| *next != '\n')),
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
            ("docker run --rm \\\n  img\\\n && \\\nls", "docker run --rm img + ls"),
            ("ls # a \\\ncat |\\\n| x", "ls + cat + x"),
            ("{ cd web; npm test; } 2>&1 | tail", "cd web + npm test 2>&1 + tail"),
            ("echo { a; }", "echo { a + }"),
            ("(cd web && npm test", ""),
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
            ("(cd a; make test) > log 2>&1", true, "make test > log 2>&1"),
            ("{ cd a; make test; } | tail", true, "make test + tail"),
            ("cd a; { make && make test; }", true, "make + make test"),
            ("(make && make test;) | tail", false, "tail"),
            ("(make;) && make test", false, "make + make test"),
            ("(make; make test;) &", true, ""),
            ("(make &) && ls", true, "ls"),
            ("true || (echo x; pytest)", true, ""),
            ("true || { echo x; pytest; }", true, ""),
            ("true || cat a | (echo x; pytest;)", true, ""),
            ("true || (echo x; pytest); ls", true, "ls"),
            ("(true || (echo x; pytest))", true, ""),
            ("! (echo x; pytest)", true, ""),
            ("if false; then (echo x; pytest) fi", true, ""),
            ("f() (echo x; pytest)", true, ""),
            ("pytest |\\\n| true", true, ""),
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
    fn a_line_of_any_depth_and_length_is_read() {
        let deep = |n: usize| format!("{}ls{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(shown(&must_have_succeeded(&deep(20), true)), "ls");
        assert!(simple_commands(&deep(1 << 18)).is_empty());
        let long = "ls && ".repeat(1 << 16) + "ls";
        assert_eq!(must_have_succeeded(&long, true).len(), (1 << 16) + 1);
    }

    #[test]
    fn the_program_stands_behind_what_only_starts_it() {
        for (line, expected) in [
            ("LC_ALL=C timeout 60 pytest -q", "pytest -q"),
            ("env A=1 make fmt", "make fmt"),
            ("/usr/bin/time -v make", "make"),
            ("./time make", "./time make"),
            ("command pytest -v", "pytest -v"),
            ("command -p pytest", "pytest"),
            ("command -v pytest", "command -v pytest"),
            ("A=1 command -pV pytest", "command -pV pytest"),
            ("type pytest", "type pytest"),
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
            ("py\\\ntest", "pytest"),
            ("\"a\\\nb\"'\\\n'", "ab\\\n"),
            ("`a b`", "`a b`"),
        ] {
            assert_eq!(unquoted(word), expected, "{word}");
        }
    }

    proptest! {
        /// Whatever a line holds: its words stand where they say, in order, and between them nothing but what parts
        /// words and commands, and comments.
        #[test]
        fn words_cover_the_line(line in "([a-z测 '\"\\\\$()|&;{}<>=/.\n`#-]|\\\\\n|; [{}] ){0,40}") {
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

        /// A line that goes on in the next one is read as if it stood in one.
        #[test]
        fn a_line_may_be_parted_anywhere(line in "[a-z \"$()|&;{}<>=\n-]{1,30}", at in 0..30_usize) {
            let at = at.min(line.len());
            let parted = format!("{}\\\n{}", &line[..at], &line[at..]);
            let read = |line: &str| -> Vec<(Vec<String>, Option<String>)> {
                let words = |simple: &Simple<'_>| simple.words.iter().map(|word| unquoted(word)).collect();
                let known = must_have_succeeded(line, true).into_iter();
                let all = simple_commands(line).into_iter().chain(known);
                all.map(|simple| (words(&simple), simple.operator.map(str::to_owned))).collect()
            };
            prop_assert_eq!(read(&parted), read(&line), "{}", parted);
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

    /// Blanks, operators, parentheses, braces, comments and lines that go on.
    fn parts(text: &str) -> bool {
        let is_sign =
            |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '{' | '}');
        text.split_inclusive('\n').all(|line| {
            let shown = line.split_once('#').map_or(line, |(before, _)| before);
            shown.strip_suffix("\\\n").unwrap_or(shown).chars().all(is_sign)
        })
    }
}
