//! A call of `sed`: its script, its files, and what the script reads, writes and runs.

use super::args::Args;
use crate::permission::shell::{Kind, Word};

/// What a command of a script does beside changing text. Its words are as the shell gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed<'a> {
    /// `r file`, `R file`
    Reads(&'a str),
    /// `w file`, `W file`, `s/a/b/w file`
    Writes(&'a str),
    /// `e command`; nothing where the lines themselves are run, as `e` alone and `s/a/b/e` do.
    Runs(&'a str),
}

/// What `sed` is given.
pub(super) struct Call<'a> {
    /// All of its script that stands in the words.
    pub(super) script: Word,
    pub(super) files: Vec<&'a Word>,
    /// It changes the files.
    pub(super) is_in_place: bool,
}

impl<'a> Call<'a> {
    pub(super) fn of(args: &Args<'a>) -> Self {
        let scripts = args.values_of(&["-e", "--expression"]);
        let has_file = !args.values_of(&["-f", "--file"]).is_empty();
        let mut files = args.own_operands();
        let in_words = if scripts.is_empty() && !has_file && !files.is_empty() {
            vec![files.remove(0).clone()]
        } else {
            scripts
        };
        // Each `-e` is a line.
        let kind = in_words.iter().map(|word| word.kind).max().unwrap_or(Kind::Literal);
        let texts: Vec<&str> = in_words.iter().map(|word| word.text.as_str()).collect();
        let script = Word { text: texts.join("\n"), kind };
        Self { script, files, is_in_place: args.gives(&["-i", "--in-place"]) }
    }

    pub(super) fn deeds(&self) -> Vec<Deed<'_>> {
        deeds(&self.script.text)
    }
}

/// What a script does, command by command, in time in proportion to it. After what is no command it goes on
/// with the next.
fn deeds(script: &str) -> Vec<Deed<'_>> {
    let mut reader = Reader { text: script, at: 0 };
    let mut deeds = Vec::new();
    while reader.at < script.len() {
        reader.command(&mut deeds);
    }
    deeds
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn skip(&mut self, is_it: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is_it) {
            self.next();
        }
    }

    fn blanks(&mut self) {
        self.skip(|char| char.is_whitespace() && char != '\n');
    }

    /// One command, with what stands between it and the one before.
    fn command(&mut self, deeds: &mut Vec<Deed<'a>>) {
        self.skip(|char| char.is_whitespace() || matches!(char, ';' | '{' | '}'));
        self.address();
        self.blanks();
        if self.peek() == Some(',') {
            self.next();
            self.blanks();
            self.skip(|char| matches!(char, '+' | '~'));
            self.address();
        }
        self.skip(|char| char == '!' || char.is_whitespace() && char != '\n');
        match self.next() {
            Some('#') => _ = self.line(),
            Some('a' | 'i' | 'c') => _ = self.lines(),
            Some('r' | 'R') => deeds.push(Deed::Reads(self.line())),
            Some('w' | 'W') => deeds.push(Deed::Writes(self.line())),
            Some('e') => deeds.push(Deed::Runs(self.lines())),
            Some('s') => {
                if let Some(mark) = self.next() {
                    self.part(mark, true);
                    self.part(mark, false);
                    self.flags(deeds);
                }
            }
            Some('y') => {
                if let Some(mark) = self.next() {
                    self.part(mark, false);
                    self.part(mark, false);
                }
            }
            Some(':' | 'b' | 't' | 'T' | 'v' | 'l' | 'L' | 'q' | 'Q') => {
                self.blanks();
                self.skip(|char| !char.is_whitespace() && !matches!(char, ';' | '}'));
            }
            // Those that are a letter and nothing else, and what is none.
            Some(_) | None => {}
        }
    }

    /// `1`, `1~2`, `$`, `/a/I`, `\|a|M`
    fn address(&mut self) {
        match self.peek() {
            Some('0'..='9') => self.skip(|char| char.is_ascii_digit() || char == '~'),
            Some('$') => _ = self.next(),
            Some(open @ ('/' | '\\')) => {
                self.next();
                let mark = if open == '/' { Some(open) } else { self.next() };
                if let Some(mark) = mark {
                    self.part(mark, true);
                }
                self.skip(|char| matches!(char, 'I' | 'M' | ' '));
            }
            _ => {}
        }
    }

    /// Up to behind the next of these marks. What the shell puts in has marks of its own.
    fn part(&mut self, mark: char, is_pattern: bool) {
        while let Some(char) = self.next() {
            match char {
                _ if char == mark => return,
                '\\' => _ = self.next(),
                '[' if is_pattern => self.class(),
                '$' if self.peek() == Some('(') => self.skip_to(')'),
                '$' if self.peek() == Some('{') => self.skip_to('}'),
                _ => {}
            }
        }
    }

    /// `[^]/]`: within it a mark is none.
    fn class(&mut self) {
        let rest = &self.text[self.at..];
        let inner = rest.strip_prefix('^').unwrap_or(rest);
        let inner = inner.strip_prefix(']').unwrap_or(inner);
        let line = inner.split('\n').next().unwrap_or_default();
        if let Some(end) = line.find(']') {
            self.at += rest.len() - inner.len() + end + 1;
        }
    }

    fn skip_to(&mut self, close: char) {
        if let Some(end) = self.text[self.at..].find(close) {
            self.at += end + 1;
        }
    }

    /// Behind `s/a/b/`.
    fn flags(&mut self, deeds: &mut Vec<Deed<'a>>) {
        while let Some(flag) = self.peek() {
            match flag {
                'w' => {
                    self.next();
                    return deeds.push(Deed::Writes(self.line()));
                }
                'e' => deeds.push(Deed::Runs("")),
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' | ' ' => {}
                _ => return,
            }
            self.next();
        }
    }

    /// The rest of the line: to its end, whatever stands there, it is the name of a file.
    fn line(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let line = rest.split('\n').next().unwrap_or_default();
        self.at += line.len();
        line.trim()
    }

    /// The same, and the lines that it says go on.
    fn lines(&mut self) -> &'a str {
        let begin = self.at;
        while let Some(char) = self.next().filter(|char| *char != '\n') {
            if char == '\\' {
                self.next();
            }
        }
        self.text[begin..self.at].trim()
    }
}

#[cfg(test)]
mod tests {
    use super::Deed::{Reads, Runs, Writes};
    use super::*;

    fn check(script: &str, expected: &[Deed<'_>]) {
        assert_eq!(deeds(script), expected, "{script}");
    }

    #[test]
    fn what_reads_writes_and_runs_is_found_behind_any_address() {
        check("r a b;p", &[Reads("a b;p")]);
        check("1R.env\nw b", &[Reads(".env"), Writes("b")]);
        check("$!{/x/,+2{r a\n}};2,/y/I!W b", &[Reads("a"), Writes("b")]);
        check("\\,a/b,r c", &[Reads("c")]);
        check("/[/]w x/r c", &[Reads("c")]);
        check("1~2e cat a\\\nb\np", &[Runs("cat a\\\nb")]);
        check("e\nr a", &[Runs(""), Reads("a")]);
        check(":a;N;$!ba;s/\\n/ /g;w a", &[Writes("a")]);
        check("0,/a/s|b|c|;e x", &[Runs("x")]);
        check("# w a\nw b", &[Writes("b")]);
        check("y/abc/wre/;r a", &[Reads("a")]);
        check("q5;n;d;x;=;l 3;r a", &[Reads("a")]);
    }

    #[test]
    fn a_substitution_writes_and_runs_by_its_flags_alone() {
        check("s/was/x/w a/b", &[Writes("a/b")]);
        check("s/w x/e y/gp;s,a,b,2ew c", &[Runs(""), Writes("c")]);
        check("s/a\\/w b/r c/ ; s/[]/]w x/y/I w d", &[Writes("d")]);
        check("s/$(date +%d/%m)/${x/y}/e", &[Runs("")]);
        check("s/edit .env first/x/", &[]);
        check("/error: r .env/d;s/e .env/r .env/", &[]);
        check("a w b\\\nw c\nw d", &[Writes("d")]);
        check("s/a/b", &[]);
        check("s", &[]);
        check("", &[]);
    }
}
