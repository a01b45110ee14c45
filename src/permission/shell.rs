//! A command line as simple commands, as far as it is fully understood.
//!
//! No grammar: a reader that stops at the first thing that could be something else than it looks
//! (substitutions, subshells, control words, here documents, a command whose name is only known when
//! it runs). What it read until then is still there, marked as not all of it.

/// Words that begin or end a construct instead of naming a program, and those whose arguments are
/// commands in a text.
const NOT_SIMPLE: &[&str] = &[
    "!", ".", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "eval", "fi", "for",
    "function", "if", "select", "source", "then", "time", "trap", "until", "while", "{", "}",
];

/// What was read of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its simple commands in their order; the last one may be cut off where the line is not
    /// complete.
    pub(super) commands: Vec<Simple>,
    /// All of the line was understood.
    pub(super) is_complete: bool,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Its words without quotes; variables stand as they are written. Assignments are words too.
    pub(super) words: Vec<String>,
    /// The files that it writes by redirection.
    pub(super) writes: Vec<String>,
    /// It reads what the command before it writes.
    pub(super) is_piped: bool,
}

/// Reads a line.
pub(super) fn split(line: &str) -> Line {
    let mut reader = Reader { rest: line.chars().collect(), at: 0, line: Line::default() };
    let is_complete = reader.read().is_some();
    let mut line = reader.line;
    line.is_complete = is_complete;
    line.commands.retain(|command| !command.words.is_empty() || !command.writes.is_empty());
    line
}

struct Reader {
    rest: Vec<char>,
    at: usize,
    line: Line,
}

/// A word, and what is not as written.
struct Word {
    text: String,
    /// Something of it was quoted.
    is_quoted: bool,
    /// Unquoted it holds something that the shell replaces: a variable, a pattern.
    is_dynamic: bool,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn next_is(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(at, char)| self.peek(at) == Some(char))
    }

    /// Reads to the end; `None` at something that is not understood.
    fn read(&mut self) -> Option<()> {
        self.line.commands.push(Simple::default());
        while let Some(char) = self.peek(0) {
            match char {
                ' ' | '\t' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => {
                    while self.peek(0).is_some_and(|char| char != '\n') {
                        self.at += 1;
                    }
                }
                '\n' | ';' => self.end(1, false)?,
                '&' if self.next_is("&&") => self.end(2, false)?,
                '|' if self.next_is("||") => self.end(2, false)?,
                '|' if self.next_is("|&") => self.end(2, true)?,
                '|' => self.end(1, true)?,
                '&' if self.next_is("&>>") => self.redirect(3, true)?,
                '&' if self.next_is("&>") => self.redirect(2, true)?,
                '&' | '(' | ')' => return None,
                '<' | '>' => self.redirection()?,
                _ => self.argument()?,
            }
        }
        Some(())
    }

    /// An operator of so many characters that ends a command.
    fn end(&mut self, length: usize, is_pipe: bool) -> Option<()> {
        self.at += length;
        if self.next_is(";") && length == 1 {
            // `;;` belongs to `case`.
            return None;
        }
        let has_begun = self.line.commands.last().is_some_and(|command| !command.words.is_empty());
        match self.line.commands.last_mut() {
            // A line may end after `|` and `&&`.
            Some(command) if !has_begun && command.writes.is_empty() => {
                command.is_piped |= is_pipe;
            }
            _ => self.line.commands.push(Simple { is_piped: is_pipe, ..Simple::default() }),
        }
        Some(())
    }

    fn redirection(&mut self) -> Option<()> {
        match (self.peek(0)?, self.peek(1)) {
            ('<', Some('<')) if self.next_is("<<<") => self.redirect(3, false),
            (_, Some('(')) | ('<', Some('<')) => None,
            ('>', Some('>' | '|' | '&')) | ('<', Some('>' | '&')) => self.redirect(2, true),
            ('<', _) => self.redirect(1, false),
            _ => self.redirect(1, true),
        }
    }

    /// The target after an operator of so many characters.
    fn redirect(&mut self, length: usize, writes: bool) -> Option<()> {
        let copies = self.peek(length - 1) == Some('&');
        self.at += length;
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let target = self.word()?;
        let is_number = |text: &str| text.chars().all(|char| char.is_ascii_digit() || char == '-');
        let is_harmless =
            matches!(target.text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr")
                || copies && !target.is_dynamic && is_number(&target.text);
        let command = self.line.commands.last_mut()?;
        if writes && !is_harmless {
            command.writes.push(target.text);
        }
        Some(())
    }

    fn argument(&mut self) -> Option<()> {
        let begin = self.at;
        let command = self.line.commands.len() - 1;
        let Some(word) = self.word() else {
            // What was read of it belongs to no word.
            self.at = begin;
            return None;
        };
        // A number right before a redirection is the descriptor that it is about.
        let is_descriptor = !word.is_quoted
            && matches!(self.peek(0), Some('<' | '>'))
            && word.text.chars().all(|char| char.is_ascii_digit());
        if is_descriptor {
            return Some(());
        }
        let words = &mut self.line.commands[command].words;
        let is_name = words.iter().all(|word| is_assignment(word));
        let is_plain = !word.is_quoted && NOT_SIMPLE.contains(&word.text.as_str());
        let is_unknown = is_name && !is_assignment(&word.text) && (word.is_dynamic || is_plain);
        words.push(word.text);
        (!is_unknown).then_some(())
    }

    /// A word without its quotes.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word { text: String::new(), is_quoted: false, is_dynamic: false };
        let begin = self.at;
        while let Some(char) = self.peek(0) {
            match char {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' => break,
                '(' | ')' | '`' => return None,
                '\'' => {
                    self.at += 1;
                    word.is_quoted = true;
                    loop {
                        let quoted = self.peek(0)?;
                        self.at += 1;
                        if quoted == '\'' {
                            break;
                        }
                        word.text.push(quoted);
                    }
                    continue;
                }
                '"' => {
                    self.double_quoted(&mut word)?;
                    continue;
                }
                '\\' => {
                    self.at += 1;
                    let escaped = self.peek(0)?;
                    word.is_quoted = true;
                    if escaped != '\n' {
                        word.text.push(escaped);
                    }
                    self.at += 1;
                    continue;
                }
                // `$'…'` and `$"…"`, `${…}` may hold anything.
                '$' if matches!(self.peek(1), Some('(' | '\'' | '"' | '[')) => return None,
                '$' if self.peek(1) == Some('{') => self.parameter(&mut word)?,
                '{' if self.peek(1) != Some('}') => return None,
                '$' | '*' | '?' | '[' | '~' => word.is_dynamic = true,
                _ => {}
            }
            let char = self.peek(0)?;
            word.text.push(char);
            self.at += 1;
        }
        (self.at > begin).then_some(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Option<()> {
        self.at += 1;
        word.is_quoted = true;
        loop {
            let char = self.peek(0)?;
            self.at += 1;
            match char {
                '"' => return Some(()),
                '`' => return None,
                '$' if matches!(self.peek(0), Some('(' | '[')) => return None,
                '$' if self.peek(0) == Some('{') => {
                    self.at -= 1;
                    self.parameter(word)?;
                    word.text.push(self.peek(0)?);
                    self.at += 1;
                }
                '$' => {
                    word.is_dynamic = true;
                    word.text.push('$');
                }
                '\\' => {
                    let escaped = self.peek(0)?;
                    self.at += 1;
                    match escaped {
                        '$' | '`' | '"' | '\\' => word.text.push(escaped),
                        '\n' => {}
                        _ => word.text.extend(['\\', escaped]),
                    }
                }
                _ => word.text.push(char),
            }
        }
    }

    /// `${NAME}` and nothing more in the braces; stops before the last one.
    fn parameter(&mut self, word: &mut Word) -> Option<()> {
        word.is_dynamic = true;
        loop {
            let char = self.peek(0)?;
            match char {
                '}' => return Some(()),
                '$' | '{' | '_' => {}
                _ if char.is_ascii_alphanumeric() => {}
                _ => return None,
            }
            word.text.push(char);
            self.at += 1;
        }
    }
}

/// `NAME=value` or `NAME+=value`.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `words words > file | words`, one text a command.
    fn shown(line: &str) -> (Vec<String>, bool) {
        let line = split(line);
        let show = |command: &Simple| {
            let pipe = if command.is_piped { "| " } else { "" };
            let begin = String::new();
            let writes = command.writes.iter().fold(begin, |text, file| format!("{text} > {file}"));
            format!("{pipe}{}{writes}", command.words.join("·"))
        };
        (line.commands.iter().map(show).collect(), line.is_complete)
    }

    fn check(line: &str, expected: &[&str]) {
        let expected = expected.iter().map(ToString::to_string).collect();
        assert_eq!(shown(line), (expected, true), "{line}");
    }

    #[test]
    fn a_line_is_split_into_simple_commands() {
        check("cargo test --lib", &["cargo·test·--lib"]);
        check("a; b && c || d | e |& f\ng;", &["a", "b", "c", "d", "| e", "| f", "g"]);
        check("a |\n b &&\n c # d; e", &["a", "| b", "c"]);
        check("r\"\"m '-r'f \\rm \"a b\"", &["rm·-rf·rm·a b"]);
        check("echo $HOME \"${X}y\" *.rs ~ {}", &["echo·$HOME·${X}y·*.rs·~·{}"]);
        check("X=1 a", &["X=1·a"]);
        check("a \"x\\n\\\"\" \\\n b", &["a·x\\n\"·b"]);
        check("", &[]);
        check("a#b", &["a#b"]);
    }

    #[test]
    fn redirections_that_write_a_file_are_seen() {
        check("a 2>&1 >/dev/null 2> /dev/null <in <<<text", &["a"]);
        check("a >out 2>>err &>both >|over b", &["a·b > out > err > both > over"]);
        check("a >& file 1>&2 >&$x", &["a > file > $x"]);
        check("> out", &[" > out"]);
        check("echo 2 >x", &["echo·2 > x"]);
        check("echo \">\" '2'>x", &["echo·>·2 > x"]);
    }

    #[test]
    fn what_is_not_understood_ends_the_reading() {
        for line in [
            "a $(b)",
            "a `b`",
            "(a)",
            "a <(b)",
            "a &",
            "a & b",
            "cat <<X\nX",
            "$X a",
            "${X} a",
            "\"$X\" a",
            "eval a",
            "source a",
            ". a",
            "if a; then b; fi",
            "for x in a; do b; done",
            "f() { a; }",
            "{ a; }",
            "! a",
            "time a",
            "[[ a ]]",
            "{rm,-rf,/}",
            "a {b,c}",
            "a ${x:-b}",
            "a $'b'",
            "a 'b",
            "a \"b",
            "a \"$(b)\"",
            "*/rm a",
            "a=(b)",
            "a >",
            "case a in b) c;; esac",
            "a \\",
            "X=$(a) b",
            "trap a EXIT",
            "~/a b",
            "a $[1]",
        ] {
            assert!(!split(line).is_complete, "{line}: {:?}", split(line));
        }
    }

    #[test]
    fn what_was_read_before_it_is_kept() {
        assert_eq!(shown("a b; sudo ls $(c)"), (vec!["a·b".into(), "sudo·ls".into()], false));
    }
}
