//! Patterns of shells and of `find` and `grep`, as expressions that stand for no less than they do.

use regex::{Regex, RegexBuilder};

/// See above.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// None where it could not be read: it may stand for anything.
    expression: Option<Regex>,
    /// It stands for no more than the pattern does.
    pub is_exact: bool,
}

impl Pattern {
    /// Reads the pattern of a whole name or path.
    pub fn new(text: &str, any_case: bool) -> Self {
        let (inner, is_exact) = expression(text);
        let whole = format!("^(?s:{inner})$");
        match RegexBuilder::new(&whole).case_insensitive(any_case).build() {
            Ok(expression) => Self { expression: Some(expression), is_exact },
            Err(_) => Self::anything(),
        }
    }

    /// What can not be read.
    pub(super) fn anything() -> Self {
        Self { expression: None, is_exact: false }
    }

    /// A name or path is one of those that it stands for.
    pub fn is_match(&self, name: &str) -> bool {
        self.expression.as_ref().is_none_or(|expression| expression.is_match(name))
    }

    /// A text has something in it that a shell replaces by names.
    pub fn is_in(text: &str) -> bool {
        let is_class = |(at, _)| class(&text[at..], true).is_some();
        text.contains(['*', '?']) || text.match_indices('[').any(is_class)
    }
}

/// The expression of a pattern, and whether it stands for no more than that.
pub(super) fn expression(pattern: &str) -> (String, bool) {
    let (mut made, mut is_exact) = (String::new(), true);
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        let class = class(rest, true);
        let brackets = class.as_ref().map_or(rest, |class| &rest[..class.length]);
        if let Some(inner) = brackets.strip_prefix('[')
            && ["[=", "[.", "-["].iter().any(|sign| inner.contains(sign))
        {
            // Nobody writes these, and where such brackets end each program has a mind of its own.
            made.push_str(".*");
            is_exact = false;
            break;
        }
        if let Some(class) = class {
            made.push_str(&class.expression);
            is_exact &= class.is_exact;
            rest = &rest[class.length..];
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match char {
            '*' => made.push_str(".*"),
            '?' => made.push('.'),
            '\\' => {
                let escaped = rest.chars().next().unwrap_or('\\');
                rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                made.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])));
            }
            _ => made.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    (made, is_exact)
}

/// An expression of `grep` with brackets as those of this crate.
pub(super) fn with_classes(expression: &str) -> (String, bool) {
    let (mut made, mut is_exact) = (String::new(), true);
    let mut rest = expression;
    while let Some(char) = rest.chars().next() {
        let class = class(rest, false);
        let length = class.as_ref().map_or(char.len_utf8(), |class| class.length);
        let escaped = rest[length..].chars().next().filter(|_| char == '\\');
        let length = length + escaped.map_or(0, char::len_utf8);
        match class {
            Some(class) => {
                made.push_str(&class.expression);
                is_exact &= class.is_exact;
            }
            None => made.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    (made, is_exact)
}

/// `[…]`, as an expression.
pub(super) struct Class {
    expression: String,
    pub(super) length: usize,
    is_exact: bool,
}

/// What stands between brackets.
enum Item {
    One(char),
    /// As written in a class of an expression.
    Several(String),
    /// What is not known here.
    Unknown,
}

/// The brackets at the beginning of a text, if they are closed. (In a pattern a backslash takes away what a sign means.)
pub(super) fn class(text: &str, has_escapes: bool) -> Option<Class> {
    let inner = text.strip_prefix('[')?;
    let mut rest = inner.strip_prefix(['!', '^']).unwrap_or(inner);
    if !has_escapes && inner.starts_with('!') {
        rest = inner;
    }
    let is_turned = rest.len() < inner.len();
    let (mut made, mut is_known, mut is_exact) = (String::new(), true, true);
    let mut is_first = true;
    loop {
        if let Some(after) = rest.strip_prefix(']').filter(|_| !is_first) {
            rest = after;
            break;
        }
        is_first = false;
        let (first, after) = item(rest, has_escapes, is_turned)?;
        rest = after;
        let last = rest.strip_prefix('-').filter(|after| !after.starts_with(']'));
        // (At the end of a range `[:` and `[=` mean nothing.)
        let last = last.and_then(|after| match after.strip_prefix('[') {
            Some(rest) if rest.starts_with([':', '=']) => Some((Item::One('['), rest)),
            Some(_) | None => item(after, has_escapes, is_turned),
        });
        if let Some((_, after)) = &last {
            rest = after;
        }
        match (first, last.map(|(last, _)| last)) {
            (Item::One(char), None) => made.push_str(&written(char)),
            // (What lies between letters of other scripts depends on the language.)
            (Item::One(low), Some(Item::One(high)))
                if low <= high && low.is_ascii() && high.is_ascii() =>
            {
                made.extend([written(low), "-".to_owned(), written(high)]);
            }
            (Item::Several(several), None) => {
                made.push_str(&several);
                is_exact = false;
            }
            _ => is_known = false,
        }
    }
    let turn = if is_turned { "^" } else { "" };
    let expression =
        if is_known && !made.is_empty() { format!("[{turn}{made}]") } else { ".".to_owned() };
    let length = text.len() - rest.len();
    // (Of a bracket between brackets programs think differently.)
    let is_exact = is_exact && is_known && !text[1..length].contains('[');
    Some(Class { expression, length, is_exact })
}

/// The first item of a text, and what follows.
fn item(text: &str, has_escapes: bool, is_turned: bool) -> Option<(Item, &str)> {
    for (sign, close) in [("[:", ":]"), ("[=", "=]"), ("[.", ".]")] {
        let Some(inner) = text.strip_prefix(sign) else { continue };
        let begin = inner.chars().next()?.len_utf8();
        let Some(end) = inner[begin..].find(close).map(|at| begin + at) else { continue };
        let (name, rest) = (&inner[..end], &inner[end + close.len()..]);
        let mut chars = name.chars();
        let item = match (sign, chars.next(), chars.next()) {
            ("[:", ..) => named(name, is_turned),
            ("[.", Some(char), None) => Item::One(char),
            // (Which letters are alike depends on the language.)
            ("[=", Some(char), None) if is_turned => Item::Several(written(char)),
            ("[=", Some(char), None) => {
                let cases = [char.to_ascii_lowercase(), char.to_ascii_uppercase()];
                let cases = cases.map(written).concat();
                Item::Several(format!("{cases}{OTHERS}"))
            }
            _ => Item::Unknown,
        };
        return Some((item, rest));
    }
    let mut chars = text.chars();
    let mut char = chars.next()?;
    if char == '\\' && has_escapes {
        char = chars.next()?;
    }
    Some((Item::One(char), chars.as_str()))
}

/// Letters of other scripts.
const OTHERS: &str = r"\x{80}-\x{10ffff}";

fn named(name: &str, is_turned: bool) -> Item {
    let own = match name {
        "alpha" => "a-zA-Z",
        "alnum" => "a-zA-Z0-9",
        "word" => "a-zA-Z0-9_",
        "lower" => "a-z",
        "upper" => "A-Z",
        "digit" => "0-9",
        "xdigit" => "0-9a-fA-F",
        "blank" => r"\t ",
        "space" => r"\t-\r ",
        "cntrl" => r"\x00-\x1f\x7f",
        "print" => " -~",
        "graph" => "!-~",
        "punct" => r"!-/:-@\[-`\{-~",
        _ => return Item::Unknown,
    };
    Item::Several(if is_turned { own.to_owned() } else { format!("{own}{OTHERS}") })
}

/// A character between brackets of an expression.
fn written(char: char) -> String {
    format!("\\x{{{:x}}}", u32::from(char))
}
