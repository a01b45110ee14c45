//! Words: the arguments of a command, as far as the text determines them.

use std::ops::Range;

const MAX_ALTERNATIVES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Without quotes; expansions stay as written.
    pub(crate) text: String,
    pub(crate) kind: WordKind,
}

/// The least known part decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WordKind {
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
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: WordKind::Literal }
    }

    pub(crate) fn is_literal(&self) -> bool {
        self.kind == WordKind::Literal
    }

    /// `None` if the argument is not exactly the text.
    pub(crate) fn literal_text(&self) -> Option<&str> {
        self.is_literal().then_some(&*self.text)
    }

    /// Whether the word consists of literal text, and of variables as `$NAME` or `${NAME}`.
    pub(crate) fn is_plain(&self) -> bool {
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        let mut rests = self.text.split('$').skip(1);
        self.kind != WordKind::Output
            && (self.is_literal()
                || !self.text.contains('`')
                    && rests.all(|rest| match rest.strip_prefix('{') {
                        Some(inner) => inner.split_once('}').is_some_and(|(name, _)| is_name(name)),
                        None => {
                            rest.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
                        }
                    }))
    }

    pub(crate) fn is_split(&self) -> bool {
        matches!(self.kind, WordKind::Variable | WordKind::Output)
    }

    pub(crate) fn without_quotes(&self) -> Self {
        let kind = if self.kind == WordKind::Quoted { WordKind::Variable } else { self.kind };
        Self { text: self.text.clone(), kind }
    }
}

pub(super) type Expansions = [(Range<usize>, WordKind)];

/// Returns several words if braces expand.
pub(super) fn read_words(text: &str, at: Range<usize>, holes: &Expansions) -> Vec<Word> {
    let raw = &text[at.clone()];
    let mut alternatives = Vec::new();
    if raw.contains('{')
        && !raw.contains(['$', '`'])
        && expand_braces(raw.to_owned(), &mut alternatives)
        && alternatives.len() > 1
    {
        return alternatives.iter().map(|raw| read_word(raw, 0..raw.len(), &[])).collect();
    }
    vec![read_word(text, at, holes)]
}

/// Adds the expansions of `a{b,c}d`; `false` if there are too many.
fn expand_braces(raw: String, expanded: &mut Vec<String>) -> bool {
    let opens = raw.match_indices('{').take(MAX_ALTERNATIVES);
    let Some(commas) =
        opens.map(|(open, _)| brace_positions(&raw, open)).find(|found| found.len() > 2)
    else {
        expanded.push(raw);
        return expanded.len() <= MAX_ALTERNATIVES;
    };
    let (begin, end) = (&raw[..commas[0]], &raw[commas[commas.len() - 1] + 1..]);
    commas
        .windows(2)
        .all(|part| expand_braces(format!("{begin}{}{end}", &raw[part[0] + 1..part[1]]), expanded))
}

/// The opening brace, its commas and its closing brace; empty if the brace is not closed.
fn brace_positions(raw: &str, open: usize) -> Vec<usize> {
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

/// Removes quotes and escapes, marks expansions.
pub(super) fn read_word(text: &str, at: Range<usize>, holes: &Expansions) -> Word {
    let mut reader = WordReader::new(text, at, holes);
    reader.read_unquoted();
    reader.word
}

/// The body has the escapes and expansions of double quotes.
pub(super) fn read_here_document_body(text: &str, at: Range<usize>, holes: &Expansions) -> Word {
    let mut reader = WordReader::new(text, at, holes);
    reader.read_double_quoted(None);
    reader.word.without_quotes()
}

struct WordReader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    holes: &'a Expansions,
    word: Word,
}

impl<'a> WordReader<'a> {
    fn new(text: &'a str, at: Range<usize>, holes: &'a Expansions) -> Self {
        let word = Word::literal(String::with_capacity(at.len()));
        Self { text, at: at.start, end: at.end, holes, word }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..self.end].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn mark(&mut self, kind: WordKind) {
        self.word.kind = self.word.kind.max(kind);
    }

    fn copy_expansion(&mut self, variable: WordKind) -> bool {
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
        self.mark(if *kind == WordKind::Variable { variable } else { *kind });
        true
    }

    fn read_unquoted(&mut self) {
        let begin = self.at;
        while self.at < self.end {
            if self.copy_expansion(WordKind::Variable) {
                continue;
            }
            let at = self.at;
            let Some(char) = self.next() else { return };
            match char {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(char) => self.word.text.push(char),
                },
                '\'' => {
                    while let Some(char) = self.next().filter(|char| *char != '\'') {
                        self.word.text.push(char);
                    }
                }
                '"' => self.read_double_quoted(Some('"')),
                '$' if self.peek() == Some('\'') => {
                    self.next();
                    self.read_ansi_quoted();
                }
                '$' if self.peek() == Some('"') => {
                    self.next();
                    self.read_double_quoted(Some('"'));
                }
                _ => {
                    match char {
                        '*' | '?' => self.mark(WordKind::Pattern),
                        // (The grammar knows these only in some positions.)
                        '@' | '+' | '!' if self.peek() == Some('(') => self.mark(WordKind::Pattern),
                        '[' if self.text[self.at..self.end].contains(']') => {
                            self.mark(WordKind::Pattern);
                        }
                        '~' if at == begin || self.text[..at].ends_with(['=', ':']) => {
                            self.mark(WordKind::Home);
                        }
                        // Braces that were not expanded before; `{}` is no expansion.
                        '{' if self.peek() != Some('}') && self.is_brace_expansion() => {
                            self.mark(WordKind::Variable);
                        }
                        // The grammar found no expansion where bash may.
                        '$' if self.peek().is_some_and(|char| "({_".contains(char)) => {
                            self.mark(WordKind::Variable);
                        }
                        '`' => self.mark(WordKind::Output),
                        _ => {}
                    }
                    self.word.text.push(char);
                }
            }
        }
    }

    /// The brace holds a comma or two dots.
    fn is_brace_expansion(&self) -> bool {
        let rest = &self.text[self.at..self.end];
        rest.contains('}') && (rest.contains(',') || rest.contains(".."))
    }

    fn read_double_quoted(&mut self, close: Option<char>) {
        while self.at < self.end {
            if self.copy_expansion(WordKind::Quoted) {
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
                        self.mark(WordKind::Output);
                    }
                    if char == '$' && self.peek().is_some_and(|char| "({_".contains(char)) {
                        self.mark(WordKind::Quoted);
                    }
                    self.word.text.push(char);
                }
            }
        }
    }

    /// `$'…'`, with the escapes of C.
    fn read_ansi_quoted(&mut self) {
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
                'x' => self.read_number(16, 2, &mut bytes),
                'u' => self.read_number(16, 4, &mut bytes),
                'U' => self.read_number(16, 8, &mut bytes),
                '0'..='7' => {
                    self.at -= 1;
                    self.read_number(8, 3, &mut bytes);
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

    fn read_number(&mut self, base: u32, most: usize, bytes: &mut Vec<u8>) {
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
