//! What words may be when bash has put in what it replaces: `tou${x}ch` may be `touch`.

use std::collections::HashMap;

use super::pattern::class;
use super::shell::{Binding, Kind, Word};

/// Stands for anything that is put in. (No word of a command can hold it.)
pub(super) const ANYTHING: char = '\0';

/// So many values of a variable are tried.
const MOST_VALUES: usize = 8;

/// The values that a line gives to variables.
#[derive(Debug)]
pub(super) struct Values(HashMap<String, Vec<String>>);

impl Values {
    pub(super) fn new(bindings: &[Binding]) -> Self {
        let mut values: HashMap<String, Vec<String>> = HashMap::new();
        for Binding { name, words } in bindings {
            let known = values.entry(name.clone()).or_default();
            let left = MOST_VALUES.saturating_sub(known.len());
            known.extend(words.iter().take(left).map(|word| word.text.clone()));
        }
        Self(values)
    }

    /// The texts that a word may be. A program of which nothing is known is none.
    pub(super) fn of_word(&self, word: &Word, is_program: bool) -> Vec<String> {
        if word.is_literal() {
            return vec![word.text.clone()];
        }
        let is_known = |text: &String| text.contains(|char| char != ANYTHING);
        let is_pattern = is_program && word.kind >= Kind::Pattern;
        let text = if is_pattern { without_patterns(&word.text) } else { word.text.clone() };
        let mut texts = vec![filled(&text, |_| ANYTHING.to_string())];
        texts.retain(is_known);
        // `xargs` and `find` put in what they find.
        let is_found = word.kind == Kind::Output && !word.text.contains(['$', '`', '<', '>']);
        if is_found && !is_program {
            texts.push(ANYTHING.to_string());
        }
        texts.extend(self.in_text(&text, &ANYTHING.to_string()));
        if is_program {
            texts.retain(is_known);
        }
        if texts.is_empty() {
            texts.push(word.text.clone());
        }
        texts
    }

    /// The text with the line's own values in it, one after the other; `unknown` where there is none.
    pub(super) fn in_text(&self, text: &str, unknown: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let mut n_values = 1;
        while texts.len() < n_values {
            let n = texts.len();
            texts.push(filled(text, |hole| {
                let values = self.of_hole(hole);
                n_values = values.len().max(n_values);
                let value = values
                    .get(n)
                    .or(values.last())
                    .map(|value| filled(value, |_| unknown.to_owned()));
                value.unwrap_or_else(|| unknown.to_owned())
            }));
        }
        texts
    }

    /// What may stand for `$x`, `${x}` or `${x:-y}`.
    fn of_hole(&self, hole: &str) -> Vec<String> {
        let inner = hole.trim_start_matches(['$', '{']).trim_end_matches('}');
        let end = inner.find(|char: char| !is_of_name(char)).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let other = rest.trim_start_matches(':').strip_prefix(['-', '=', '+']);
        if name.is_empty() || !rest.is_empty() && other.is_none() {
            return Vec::new();
        }
        let known = self.0.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut values = known.to_vec();
        // `x=tou; x+=ch`
        values.extend((known.len() > 1).then(|| known.concat()));
        values.extend(other.map(ToOwned::to_owned));
        values
    }
}

/// The text with something else for each `$x`, `$@`, `${…}`, `$(…)` and `` `…` `` in it, as `put_in` says.
pub(super) fn filled(text: &str, mut put_in: impl FnMut(&str) -> String) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '`', '\\']) {
        left.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('\\') {
            let escaped = rest.chars().take(2).map(char::len_utf8).sum();
            left.push_str(&rest[..escaped]);
            rest = &rest[escaped..];
            continue;
        }
        let (hole, after) = rest.split_at(end_of_hole(rest));
        left.push_str(&put_in(hole));
        rest = after;
    }
    left.push_str(rest);
    left
}

/// Where what begins with `$` or a backquote ends.
fn end_of_hole(text: &str) -> usize {
    let behind = &text[1..];
    match behind.chars().next() {
        _ if text.starts_with('`') => balanced(text),
        Some('(' | '{') => balanced(text),
        Some(char) if char.is_ascii_alphabetic() || char == '_' => {
            1 + behind.find(|char| !is_of_name(char)).unwrap_or(behind.len())
        }
        Some(char) if char.is_ascii_digit() || "@*#?-$!".contains(char) => 2,
        // `$"…"`
        Some(_) | None => 1,
    }
}

/// Where what is opened at the beginning is closed.
fn balanced(text: &str) -> usize {
    let mut open: Vec<char> = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        let last = open.last().copied();
        match char {
            '\\' => _ = chars.next(),
            _ if last == Some(char) => _ = open.pop(),
            '\'' if last != Some('"') => _ = chars.find(|(_, char)| *char == '\''),
            '"' | '`' => open.push(char),
            '(' if last != Some('"') => open.push(')'),
            '$' => match text[at + 1..].chars().next() {
                Some('(') => {
                    chars.next();
                    open.push(')');
                }
                Some('{') => {
                    chars.next();
                    open.push('}');
                }
                _ => {}
            },
            _ => {}
        }
        if open.is_empty() {
            return at + char.len_utf8();
        }
    }
    text.len()
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// `/bin/t?uch`
fn without_patterns(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['*', '?', '[']) {
        let after = &rest[at + 1..];
        left.push_str(&rest[..at]);
        let is_of_hole = left.ends_with(['$', '{']);
        let class = class(&rest[at..], true).map(|class| class.length);
        if is_of_hole {
            left.push_str(&rest[at..=at]);
            rest = after;
        } else {
            left.push(ANYTHING);
            rest = class.map_or(after, |length| &rest[at + length..]);
        }
    }
    left.push_str(rest);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found() {
        for (text, expected) in [
            ("tou$@ch n", "tou_ch n"),
            ("tou$*ch", "tou_ch"),
            ("$x", "_"),
            ("$x-y", "_-y"),
            ("a$1b${x:-c}d", "a_b_d"),
            ("tou`:`ch `a", "tou_ch _"),
            ("tou$(echo \"$(:)\")ch", "tou_ch"),
            ("tou$(echo ')' \")\" \\) `)`)ch", "tou_ch"),
            ("tou${x:-${y:-\"}\"}}ch", "tou_ch"),
            ("tou$( (:); (:) )ch", "tou_ch"),
            ("tou$((1 + (2)))ch", "tou_ch"),
            ("a$(b", "a_"),
            ("a\\$b $\"c\" $", "a\\$b _\"c\" _"),
            ("é$éa\\", "é_éa\\"),
        ] {
            assert_eq!(filled(text, |_| "_".to_owned()), expected, "{text}");
        }
    }

    #[test]
    fn values_of_the_line_are_put_in() {
        let line = "x=tou; y=ch; y=at; z=${x}ch; echo";
        let line = super::super::Line::read(line);
        let values = line.values();
        for (word, expected) in [
            ("${x}ch", vec!["\0ch", "touch"]),
            ("$x$y", vec!["touch", "touat", "touchat"]),
            ("$z", vec!["\0ch"]),
            ("$o", vec!["$o"]),
            ("${o:-touch}", vec!["touch"]),
            ("${x#t}", vec!["${x#t}"]),
            ("t?uch", vec!["t\0uch", "t\0uch"]),
            ("t[a-o]uch$*", vec!["t\0uch\0", "t\0uch\0"]),
        ] {
            let kind = if word.contains('$') { Kind::Variable } else { Kind::Pattern };
            let word = Word { text: word.to_owned(), kind };
            assert_eq!(values.of_word(&word, true), expected, "{word:?}");
        }
    }
}
