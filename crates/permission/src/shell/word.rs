//! Words: the arguments of a command, as far as the text determines them.

use std::ops::Range;

/// Maximal number of words that braces expand to.
const MAX_ALTERNATIVES: usize = 64;

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Word {
    /// Without quotes; expansions stay as written.
    pub(in super::super) text: String,
    /// How far the text is the argument that the command gets.
    pub(in super::super) kind: Kind,
}

/// How far a word is known; the least known part decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Kind {
    /// The argument is exactly the text.
    #[default]
    Literal,
    /// `*`, `?`, `[…]`.
    Pattern,
    /// `~`.
    Home,
    /// `"$NAME"`: one word.
    Quoted,
    /// `$NAME`, `$((…))`.
    Variable,
    /// `$(…)`, `<(…)`.
    Output,
}

impl Word {
    pub(in super::super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Literal }
    }

    /// The argument is exactly the text.
    pub(in super::super) fn is_literal(&self) -> bool {
        self.kind == Kind::Literal
    }

    /// The text, if the argument is exactly that.
    pub(in super::super) fn known(&self) -> Option<&str> {
        self.is_literal().then_some(&*self.text)
    }

    /// The shell may split it into several arguments.
    pub(in super::super) fn is_split(&self) -> bool {
        matches!(self.kind, Kind::Variable | Kind::Output)
    }

    /// The same word, its variables not quoted.
    pub(in super::super) fn bare(&self) -> Self {
        let kind = if self.kind == Kind::Quoted { Kind::Variable } else { self.kind };
        Self { text: self.text.clone(), kind }
    }
}

/// The expansions in a word, in the order of the text.
pub(super) type Holes = [(Range<usize>, Kind)];

/// Reads the word at this range, or the words that its braces expand to.
pub(super) fn words(text: &str, at: Range<usize>, holes: &Holes) -> Vec<Word> {
    let raw = &text[at.clone()];
    let mut alternatives = Vec::new();
    if raw.contains('{')
        && !raw.contains(['$', '`'])
        && expand(raw.to_owned(), &mut alternatives)
        && alternatives.len() > 1
    {
        return alternatives.iter().map(|raw| read(raw, 0..raw.len(), &[])).collect();
    }
    vec![read(text, at, holes)]
}

/// Adds the expansions of `a{b,c}d`; `false` if there are too many.
fn expand(raw: String, made: &mut Vec<String>) -> bool {
    let opens = raw.match_indices('{').take(MAX_ALTERNATIVES);
    let Some(commas) = opens.map(|(open, _)| commas(&raw, open)).find(|found| found.len() > 2)
    else {
        made.push(raw);
        return made.len() <= MAX_ALTERNATIVES;
    };
    let (begin, end) = (&raw[..commas[0]], &raw[commas[commas.len() - 1] + 1..]);
    commas
        .windows(2)
        .all(|part| expand(format!("{begin}{}{end}", &raw[part[0] + 1..part[1]]), made))
}

/// The positions of an opening brace, its commas and its closing brace; empty if it is not closed.
fn commas(raw: &str, open: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut depth, mut quote) = (0, None);
    let mut chars = raw.char_indices();
    while let Some((at, char)) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => _ = chars.next(),
            ('\'' | '"', None) => quote = Some(char),
            (_, Some(_)) => quote = quote.filter(|quote| *quote != char),
            _ if at < open => {}
            ('{', _) => depth += 1,
            ('}', _) => depth -= 1,
            _ => {}
        }
        let is_own = quote.is_none() && at >= open;
        if is_own && (depth == 1 && char == ',' || at == open || depth == 0 && char == '}') {
            found.push(at);
        }
        if is_own && depth == 0 {
            return found;
        }
    }
    Vec::new()
}

/// Reads one word: removes quotes and escapes, marks expansions.
pub(super) fn read(text: &str, at: Range<usize>, holes: &Holes) -> Word {
    let mut reader = Reader {
        text,
        at: at.start,
        end: at.end,
        holes,
        word: Word { text: String::with_capacity(at.len()), kind: Kind::Literal },
    };
    reader.unquoted();
    reader.word
}

/// Reads the body of a here-document, which has the escapes and expansions of double quotes.
pub(super) fn read_body(text: &str, at: Range<usize>, holes: &Holes) -> Word {
    let word = Word { text: String::with_capacity(at.len()), kind: Kind::Literal };
    let mut reader = Reader { text, at: at.start, end: at.end, holes, word };
    reader.double_quoted(None);
    reader.word.bare()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    holes: &'a Holes,
    word: Word,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..self.end].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn mark(&mut self, kind: Kind) {
        self.word.kind = self.word.kind.max(kind);
    }

    /// Copies the expansion that begins here, if there is one.
    fn hole(&mut self, variable: Kind) -> bool {
        let at = self.at;
        let Ok(found) = self.holes.binary_search_by_key(&at, |(hole, _)| hole.start) else {
            return false;
        };
        let (hole, kind) = &self.holes[found];
        if hole.is_empty() {
            return false;
        }
        let end = hole.end.min(self.end);
        self.word.text.push_str(&self.text[at..end]);
        self.at = end;
        self.mark(if *kind == Kind::Variable { variable } else { *kind });
        true
    }

    fn unquoted(&mut self) {
        let begin = self.at;
        while self.at < self.end {
            if self.hole(Kind::Variable) {
                continue;
            }
            let at = self.at;
            let Some(char) = self.next() else { return };
            match char {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(char) => {
                        self.word.text.push(char);
                    }
                },
                '\'' => {
                    while let Some(char) = self.next().filter(|char| *char != '\'') {
                        self.word.text.push(char);
                    }
                }
                '"' => {
                    self.double_quoted(Some('"'));
                }
                '$' if self.peek() == Some('\'') => {
                    self.next();
                    self.ansi_quoted();
                }
                '$' if self.peek() == Some('"') => {
                    self.next();
                    self.double_quoted(Some('"'));
                }
                _ => {
                    match char {
                        '*' | '?' => self.mark(Kind::Pattern),
                        // (The grammar knows these only in some positions.)
                        '@' | '+' | '!' if self.peek() == Some('(') => self.mark(Kind::Pattern),
                        '[' if self.text[self.at..self.end].contains(']') => {
                            self.mark(Kind::Pattern);
                        }
                        '~' if at == begin || self.text[..at].ends_with(['=', ':']) => {
                            self.mark(Kind::Home);
                        }
                        // Braces that were not expanded before; `{}` is no expansion.
                        '{' if self.peek() != Some('}') && self.makes_several() => {
                            self.mark(Kind::Variable);
                        }
                        // The grammar found no expansion where bash may.
                        '$' if self.peek().is_some_and(|char| "({_".contains(char)) => {
                            self.mark(Kind::Variable);
                        }
                        '`' => self.mark(Kind::Output),
                        _ => {}
                    }
                    self.word.text.push(char);
                }
            }
        }
    }

    /// The brace expands: it holds a comma or two dots.
    fn makes_several(&self) -> bool {
        let rest = &self.text[self.at..self.end];
        rest.contains('}') && (rest.contains(',') || rest.contains(".."))
    }

    fn double_quoted(&mut self, close: Option<char>) {
        while self.at < self.end {
            if self.hole(Kind::Quoted) {
                continue;
            }
            let Some(char) = self.next() else { return };
            match char {
                _ if Some(char) == close => return,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(char @ ('$' | '`' | '\\')) => self.word.text.push(char),
                    Some('"') if close.is_some() => self.word.text.push('"'),
                    Some(char) => self.word.text.extend(['\\', char]),
                },
                _ => {
                    if char == '`' {
                        self.mark(Kind::Output);
                    }
                    if char == '$' && self.peek().is_some_and(|char| "({_".contains(char)) {
                        self.mark(Kind::Quoted);
                    }
                    self.word.text.push(char);
                }
            }
        }
    }

    /// `$'…'`, with the escapes of C.
    fn ansi_quoted(&mut self) {
        let mut bytes = Vec::new();
        while let Some(char) = self.next() {
            let escaped = match char {
                '\'' => break,
                '\\' => self.next().unwrap_or('\\'),
                _ => {
                    bytes.extend(char.encode_utf8(&mut [0; 4]).bytes());
                    continue;
                }
            };
            match escaped {
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'e' | 'E' => bytes.push(27),
                'f' => bytes.push(12),
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'v' => bytes.push(11),
                'x' => self.number(16, 2, &mut bytes),
                'u' => self.number(16, 4, &mut bytes),
                'U' => self.number(16, 8, &mut bytes),
                '0'..='7' => {
                    self.at -= 1;
                    self.number(8, 3, &mut bytes);
                }
                'c' => {
                    let char = self.next().unwrap_or('@');
                    bytes.push(u8::try_from(u32::from(char) & 0x1f).unwrap_or(0));
                }
                '\\' | '\'' | '"' | '?' => bytes.extend(escaped.to_string().bytes()),
                _ => bytes.extend(format!("\\{escaped}").bytes()),
            }
        }
        self.word.text.push_str(&String::from_utf8_lossy(&bytes));
    }

    fn number(&mut self, base: u32, most: usize, bytes: &mut Vec<u8>) {
        let mut value = 0_u32;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|char| char.to_digit(base)) else { break };
            self.next();
            value = value.wrapping_mul(base).wrapping_add(digit);
        }
        match (most, char::from_u32(value)) {
            // Up to three digits make a byte, more make a character.
            (2 | 3, _) => bytes.push(value.to_le_bytes()[0]),
            (_, Some(char)) => bytes.extend(char.to_string().bytes()),
            (_, None) => {}
        }
    }
}
