//! Words: what a command gets, as far as that stands in the text.

use std::ops::Range;

/// How many words braces may make of one.
const MOST_ALTERNATIVES: usize = 64;

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Word {
    /// Without quotes; what bash puts in stands as written.
    pub(in super::super) text: String,
    /// How far the text is what the command gets.
    pub(in super::super) kind: Kind,
}

/// How far a word is known: the least of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Kind {
    /// The command gets this very text.
    #[default]
    Literal,
    /// `*`, `?`, `[…]`: names of files.
    Pattern,
    /// `~`.
    Home,
    /// `"$NAME"`: what it holds is not taken apart into words.
    Quoted,
    /// `$NAME`, `$((…))`.
    Variable,
    /// What a command writes: `$(…)`, `<(…)`.
    Output,
}

impl Word {
    pub(in super::super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Literal }
    }

    /// The command gets this very text.
    pub(in super::super) fn is_literal(&self) -> bool {
        self.kind == Kind::Literal
    }

    /// The text, where it is all that the command gets.
    pub(in super::super) fn known(&self) -> Option<&str> {
        self.is_literal().then_some(&*self.text)
    }

    /// The same word without quotes around its variables.
    pub(in super::super) fn bare(&self) -> Self {
        let kind = if self.kind == Kind::Quoted { Kind::Variable } else { self.kind };
        Self { text: self.text.clone(), kind }
    }

    /// The rest of it after a beginning.
    pub(in super::super) fn after(&self, begin: &str) -> Option<Self> {
        let text = self.text.strip_prefix(begin)?.to_owned();
        Some(Self { text, kind: self.kind })
    }
}

/// What of a word the grammar found that bash replaces: places in the text, in its order.
pub(super) type Holes = [(Range<usize>, Kind)];

/// Reads the words that a piece of text stands for: one, or several where braces make them.
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

/// The words that braces make of one that was read whole, as bash puts something into it: `$HOME/{a,b}`.
pub(in super::super) fn alternatives(word: &Word) -> Option<Vec<Word>> {
    let mut made = Vec::new();
    let is_replaced = matches!(word.kind, Kind::Quoted | Kind::Variable | Kind::Home);
    let is_some = is_replaced
        && word.text.contains('{')
        && expand(word.text.clone(), &mut made)
        && made.len() > 1;
    is_some.then(|| made.into_iter().map(|text| Word { text, kind: word.kind }).collect())
}

/// Adds what `a{b,c}d` stands for; `false` where it is too many.
fn expand(raw: String, made: &mut Vec<String>) -> bool {
    let opens = raw.match_indices('{').take(MOST_ALTERNATIVES);
    let Some(commas) = opens.map(|(open, _)| commas(&raw, open)).find(|found| found.len() > 2)
    else {
        made.push(raw);
        return made.len() <= MOST_ALTERNATIVES;
    };
    let (begin, end) = (&raw[..commas[0]], &raw[commas[commas.len() - 1] + 1..]);
    commas
        .windows(2)
        .all(|part| expand(format!("{begin}{}{end}", &raw[part[0] + 1..part[1]]), made))
}

/// Where a brace opens, its commas, and where it closes; nothing where it does not.
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

/// Reads one word: quotes and escapes are taken away, what bash replaces is marked.
pub(super) fn read(text: &str, at: Range<usize>, holes: &Holes) -> Word {
    let mut reader = Reader {
        text,
        at: at.start,
        end: at.end,
        holes,
        word: Word { text: String::with_capacity(at.len()), kind: Kind::Literal },
        bracket: None,
        unread: Vec::new(),
    };
    reader.unquoted();
    reader.widened()
}

/// Reads a text whose only special things are the escapes and holes of double quotes: the body of a
/// here-document.
pub(super) fn read_body(text: &str, at: Range<usize>, holes: &Holes) -> Word {
    let word = Word { text: String::with_capacity(at.len()), kind: Kind::Literal };
    let (bracket, unread) = (None, Vec::new());
    let mut reader = Reader { text, at: at.start, end: at.end, holes, word, bracket, unread };
    reader.double_quoted(None);
    reader.word.bare()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    holes: &'a Holes,
    word: Word,
    /// Where in the word a bracket opens, in this part of the path.
    bracket: Option<usize>,
    /// Where one opens in which signs are quoted.
    unread: Vec<usize>,
}

impl Reader<'_> {
    /// The word; of brackets with quoted signs between them (`[\!e]`) nothing is known but where they begin.
    fn widened(self) -> Word {
        let Word { mut text, kind } = self.word;
        for at in self.unread.into_iter().rev() {
            let is_item = |rest: &str| rest.contains("]=") || rest.contains("]+=");
            let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
            // `a["b-c"]=1`
            if at > 0 && text[..at].chars().all(is_name) && is_item(&text[at..]) {
                continue;
            }
            let end = text[at..].find('/').map_or(text.len(), |end| at + end);
            text.replace_range(at..end, "*");
        }
        Word { text, kind }
    }

    /// What of the word is behind this place was quoted.
    fn quoted(&mut self, from: usize) {
        let has_signs = self.word.text[from..].contains(['!', '^', '-', ']', '[', '\\']);
        if let Some(at) = self.bracket.filter(|_| has_signs)
            && self.unread.last() != Some(&at)
        {
            self.unread.push(at);
        }
    }

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

    /// Takes over what bash replaces here, if it does.
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
            let from = self.word.text.len();
            let Some(char) = self.next() else { return };
            match char {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(char) => {
                        self.word.text.push(char);
                        self.quoted(from);
                    }
                },
                '\'' => {
                    while let Some(char) = self.next().filter(|char| *char != '\'') {
                        self.word.text.push(char);
                    }
                    self.quoted(from);
                }
                '"' => {
                    self.double_quoted(Some('"'));
                    self.quoted(from);
                }
                '$' if self.peek() == Some('\'') => {
                    self.next();
                    self.ansi_quoted();
                    self.quoted(from);
                }
                '$' if self.peek() == Some('"') => {
                    self.next();
                    self.double_quoted(Some('"'));
                    self.quoted(from);
                }
                _ => {
                    match char {
                        '*' | '?' => self.mark(Kind::Pattern),
                        // (To the grammar it is none but where it expects one.)
                        '@' | '+' | '!' if self.peek() == Some('(') => self.mark(Kind::Pattern),
                        '[' if self.text[self.at..self.end].contains(']') => {
                            self.mark(Kind::Pattern);
                            self.bracket.get_or_insert(from);
                        }
                        '/' => self.bracket = None,
                        '~' if at == begin || self.text[..at].ends_with(['=', ':']) => {
                            self.mark(Kind::Home);
                        }
                        // Braces that were not taken apart before: of `{}` nothing is made.
                        '{' if self.peek() != Some('}') && self.makes_several() => {
                            self.mark(Kind::Variable);
                        }
                        // The grammar found no hole where bash may.
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

    /// A comma or two dots follow before the brace is closed.
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

    /// `$'…'`, as C writes it.
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
            // Of up to three digits a byte is made, of more a character.
            (2 | 3, _) => bytes.push(value.to_le_bytes()[0]),
            (_, Some(char)) => bytes.extend(char.to_string().bytes()),
            (_, None) => {}
        }
    }
}
