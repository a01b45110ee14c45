//! Scripts of `sed`: what they do besides to the text that they are given.

use super::{Kind, Word};

/// What its scripts read, write and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Effects {
    /// `r file`, `R file`
    pub(in super::super) reads: Vec<String>,
    /// `w file`, `W file`, `s/a/b/w file`
    pub(in super::super) writes: Vec<String>,
    /// `e command`, and `b` of `s/a/b/e`; nothing for a line that it is given, or a part of one.
    pub(in super::super) runs: Vec<String>,
    /// How far all of these texts are known.
    pub(in super::super) kind: Kind,
    /// That may not be all: a script lies in a file, is known only when it runs, or was not read to its end.
    pub(in super::super) is_cut: bool,
}

impl Effects {
    /// Of the words behind `sed`.
    pub(in super::super) fn of(words: &[Word]) -> Self {
        let scripts = scripts(words);
        let texts: Vec<&str> = scripts.iter().map(|word| word.text.as_str()).collect();
        let mut effects = effects(&texts.join("\n"));
        effects.kind = scripts.iter().map(|word| word.kind).max().unwrap_or_default();
        effects.is_cut |= scripts.is_empty() || !scripts.iter().all(Word::is_literal);
        effects
    }

    /// It changes the text and does nothing else.
    pub(in super::super) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The scripts among the words behind `sed`.
fn scripts(words: &[Word]) -> Vec<Word> {
    let mut found = Vec::new();
    let (mut first, mut has_file) = (None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let (name, value) = match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(""), _) => {
                first = first.or_else(|| words.next().cloned());
                break;
            }
            (Some(long), _) => match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            },
            (None, Some(letters)) if !letters.is_empty() => {
                // Behind these the word goes on with a value: `-nes/a/b/`, `-i.bak`.
                match letters.find(['e', 'f', 'i', 'l']) {
                    Some(at) => (
                        &letters[at..=at],
                        Some(&letters[at + 1..]).filter(|value| !value.is_empty()),
                    ),
                    None => continue,
                }
            }
            _ => {
                first = first.or_else(|| Some(word.clone()));
                continue;
            }
        };
        let long = |whole: &str| name.len() > 1 && whole.starts_with(name);
        let is_script = name == "e" || long("expression");
        has_file |= name == "f" || long("file");
        if is_script || name == "f" || name == "l" || long("file") || long("line-length") {
            let value = match value {
                Some(value) => Some(Word { text: value.to_owned(), kind: word.kind }),
                None => words.next().cloned(),
            };
            found.extend(value.filter(|_| is_script));
        }
    }
    if found.is_empty() && !has_file {
        found.extend(first);
    }
    found
}

/// What a script does.
fn effects(script: &str) -> Effects {
    let mut reader = Reader { rest: script, found: Effects::default() };
    while !reader.rest.is_empty() && !reader.found.is_cut {
        reader.found.is_cut = reader.command().is_none();
    }
    reader.found
}

struct Reader<'a> {
    rest: &'a str,
    found: Effects,
}

impl<'a> Reader<'a> {
    /// Reads a command with its addresses; `None` where it is none.
    fn command(&mut self) -> Option<()> {
        self.skip(|char| char.is_whitespace() || matches!(char, ';' | '{' | '}'));
        self.address()?;
        self.skip(|char| matches!(char, ' ' | '\t' | '!'));
        let Some(command) = self.next() else { return Some(()) };
        match command {
            '{' | '}' => return Some(()),
            // Their texts go on behind a backslash.
            'a' | 'i' | 'c' => while self.line().ends_with('\\') && self.next().is_some() {},
            '#' | 'r' | 'R' | 'w' | 'W' | 'e' => {
                let line = self.line().trim().to_owned();
                match command {
                    'r' | 'R' => self.found.reads.push(line),
                    'w' | 'W' => self.found.writes.push(line),
                    'e' => self.found.runs.push(line),
                    _ => {}
                }
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {}
            'l' | 'L' | 'q' | 'Q' => self.skip(|char| char == ' ' || char.is_ascii_digit()),
            ':' | 'b' | 't' | 'T' | 'v' => self.skip(|char| !matches!(char, ';' | '\n' | '}')),
            's' => {
                let mark = self.next()?;
                self.part(mark, true)?;
                let put_in = self.rest;
                self.part(mark, false)?;
                let n_behind = self.rest.len() + mark.len_utf8();
                self.flags(&put_in[..put_in.len() - n_behind]);
            }
            'y' => {
                let mark = self.next()?;
                self.part(mark, false)?;
                self.part(mark, false)?;
            }
            _ => return None,
        }
        self.skip(|char| matches!(char, ' ' | '\t'));
        (self.rest.is_empty() || self.rest.starts_with([';', '\n', '}', '#'])).then_some(())
    }

    /// `3`, `$`, `/re/I`, `1~2`, and two of them.
    fn address(&mut self) -> Option<()> {
        loop {
            match self.rest.chars().next() {
                Some('/') => {
                    self.next();
                    self.part('/', true)?;
                    self.skip(|char| matches!(char, 'I' | 'M'));
                }
                Some('\\') => {
                    self.next();
                    let mark = self.next()?;
                    self.part(mark, true)?;
                    self.skip(|char| matches!(char, 'I' | 'M'));
                }
                _ => self.skip(|char| char.is_ascii_digit() || matches!(char, '$' | '~' | '+')),
            }
            self.skip(|char| char == ' ');
            if !self.rest.starts_with(',') {
                return Some(());
            }
            self.skip(|char| matches!(char, ',' | ' '));
        }
    }

    /// What stands before the next mark; in a pattern one in brackets is none.
    fn part(&mut self, mark: char, is_pattern: bool) -> Option<()> {
        while let Some(char) = self.next() {
            match char {
                '\\' => _ = self.next()?,
                _ if char == mark => return Some(()),
                '[' if is_pattern => self.brackets()?,
                _ => {}
            }
        }
        None
    }

    /// The rest of `[…]`.
    fn brackets(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        // A `]` that comes first is one of its characters.
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        loop {
            match self.next()? {
                ']' => return Some(()),
                // Does it stand for itself?
                '\\' if self.rest.starts_with(']') => return None,
                '\\' => _ = self.next()?,
                '[' if self.rest.starts_with(':') => {
                    self.rest = self.rest.split_once(":]")?.1;
                }
                _ => {}
            }
        }
    }

    /// The flags behind `s/a/b/`, which puts in this text.
    fn flags(&mut self, put_in: &str) {
        while let Some(flag) = self.rest.chars().next() {
            match flag {
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | ' ' | '0'..='9' => {}
                'e' => self.found.runs.extend([put_in.to_owned(), String::new()]),
                'w' => {
                    let file = self.line()[1..].trim().to_owned();
                    self.found.writes.push(file);
                    return;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next();
        self.rest = chars.as_str();
        char
    }

    fn skip(&mut self, is_it: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_it);
    }

    /// The rest of the line.
    fn line(&mut self) -> &'a str {
        let (line, rest) = self.rest.split_at(self.rest.find('\n').unwrap_or(self.rest.len()));
        self.rest = rest;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it reads, writes and runs, in this order; `?` where it was not read to its end.
    fn check(script: &str, expected: &str) {
        let Effects { reads, writes, runs, is_cut, .. } = effects(script);
        let shown = [("<", reads), (">", writes), ("!", runs)];
        let shown =
            shown.iter().flat_map(|(sign, all)| all.iter().map(move |one| format!("{sign}{one}")));
        let mut shown: Vec<String> = shown.collect();
        shown.extend(is_cut.then(|| "?".to_owned()));
        assert_eq!(shown.join(" "), expected, "{script}");
    }

    #[test]
    fn what_a_script_does_is_read() {
        for script in [
            "",
            "p",
            "3,9p;$d",
            "1~2p",
            "/a/,/b/{s/x/y/g;p}",
            "/[/]e/d",
            "s|a/e|b/w|g;q 3",
            "y/abc/xyz/",
            "a\\\ne x\\\nw y\np",
            "$!N;P;D",
            ":a;N;$!ba;s/\\n/e/g",
            "s/\\/e/w/2p # w x",
            "/a/I,+3!d",
            "\\,e w,p",
            "s/[]/e]/x/",
            "s/[^]/]/x/g",
            "2{n;d\n}",
            "s/a\\nb/c\\\ne/",
        ] {
            check(script, "");
        }
        check("1r .env", "<.env");
        check("/x/w out.txt\np", ">out.txt");
        check("s/a/b/gw out.txt\nR x", "<x >out.txt");
        check("s/a/b/ w out.txt", ">out.txt");
        check("s/[[:space:]/]/b/e", "!b !");
        check("1e cat .env", "!cat .env");
        check("e", "!");
        check("s/a/b/e;s/a\\/b/c/2e", "!b ! !c !");
        check("y/a/b/;e x", "!x");
        for script in ["k", "s/a", "s/[/x/y", "pp", "y/a/b", "/a", "p w x", "s/[\\]/x/"] {
            check(script, "?");
        }
    }

    #[test]
    fn scripts_are_found_among_the_words() {
        for (line, expected) in [
            ("p a.txt", "p"),
            ("-n p a.txt", "p"),
            ("-e p -e d a.txt", "p d"),
            ("-nep --expression=d --expr q a.txt", "p d q"),
            ("-i.bak -E s a.txt", "s"),
            ("-l 3 p", "p"),
            ("-f x.sed a.txt", ""),
            ("-- -p a", "-p"),
        ] {
            let word = |text: &str| Word { text: text.to_owned(), kind: Kind::Literal };
            let words: Vec<Word> = line.split(' ').map(word).collect();
            let found: Vec<String> = scripts(&words).into_iter().map(|word| word.text).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
    }
}
