//! Shows foreign text: every character that a terminal would act on, or that it would display as nothing,
//! becomes a visible one. No text is left out, so what the user reads is what the model, a file or a record
//! says. (The output of commands may also be formatted: see [`command_output`](super::command_output).)

use std::borrow::Cow;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

const TAB: &str = "    ";

/// Escapes commands, paths, patterns and names: everything invisible is shown; line breaks are kept.
pub fn escape_literal(text: &str) -> Cow<'_, str> {
    escape_chars(text, is_invisible, false)
}

/// Like [`escape_literal`], but on one line.
pub fn escape_literal_line(text: &str) -> Cow<'_, str> {
    match escape_literal(text) {
        text if text.contains('\n') => Cow::Owned(text.replace('\n', " ⏎ ")),
        text => text,
    }
}

/// Escapes text that is read: answers, reasons, questions, plans, file contents. Joiners and
/// variation selectors, which belong to scripts and emoji, and line ends are kept.
pub fn escape_prose(text: &str) -> Cow<'_, str> {
    escape_chars(text, hides_text, true)
}

/// Like [`escape_prose`], for a file: keeps tabs.
pub fn escape_prose_for_file(text: &str) -> Cow<'_, str> {
    escape_chars(text, |char| char != '\t' && hides_text(char), true)
}

/// Escapes text for a file: keeps tabs and every mark that is not a control character.
pub fn escape_for_file(text: &str) -> Cow<'_, str> {
    escape_chars(text, |char| char.is_control() && !matches!(char, '\n' | '\t'), true)
}

/// Whether the character controls a terminal, or hides or reorders text; line breaks excepted.
pub fn hides_text(char: char) -> bool {
    is_control(char) || !char.is_ascii() && contains(&HIDING_CHARS, char)
}

fn is_invisible(char: char) -> bool {
    is_control(char) || !char.is_ascii() && contains(&INVISIBLE_CHARS, char)
}

fn is_control(char: char) -> bool {
    let is_mark = matches!(char, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}');
    char != '\n' && (char.is_control() || is_mark)
}

/// Characters that displays ignore according to Unicode, and those that look like a space.
static INVISIBLE_CHARS: LazyLock<ClassUnicode> =
    LazyLock::new(|| parse_class(r"[\p{Default_Ignorable_Code_Point}\p{White_Space}\x{2800}]"));

/// Without the characters that change how the text around them looks.
static HIDING_CHARS: LazyLock<ClassUnicode> = LazyLock::new(|| {
    parse_class(
        r"[\p{Default_Ignorable_Code_Point}--[\p{Variation_Selector}\x{34F}\x{200C}\x{200D}]]",
    )
});

fn parse_class(pattern: &str) -> ClassUnicode {
    match regex_syntax::parse(pattern).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        other => unreachable!("{pattern} is a class: {other:?}"),
    }
}

fn contains(class: &ClassUnicode, char: char) -> bool {
    let ranges = class.ranges();
    let at = ranges.partition_point(|range| range.end() < char);
    ranges.get(at).is_some_and(|range| range.start() <= char)
}

fn escape_chars(text: &str, is_unwanted: fn(char) -> bool, joins_line_ends: bool) -> Cow<'_, str> {
    let Some(first) = text.find(is_unwanted) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut chars = text[first..].chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            char if !is_unwanted(char) => out.push(char),
            '\t' => out.push_str(TAB),
            '\r' if joins_line_ends && chars.peek() == Some(&'\n') => {}
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(char)).unwrap_or('?')),
            '\u{7f}' => out.push('␡'),
            char => out.push_str(&format!("<U+{:04X}>", u32::from(char))),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_are_shown_with_all_of_their_text() {
        for (text, expected) in [
            ("plain é 中 👩‍👩‍👧 ⚠️", "plain é 中 👩‍👩‍👧 ⚠️"),
            ("a\x1b[31mred\x1b[0m b", "a␛[31mred␛[0m b"),
            ("t\x1b]0;evil\x07itle", "t␛]0;evil␇itle"),
            ("npm test \x1b_;rm -rf x;\x1b\\", "npm test ␛_;rm -rf x;␛\\"),
            ("\x1bPq\x1b\\x\x1bcy\x1b", "␛Pq␛\\x␛cy␛"),
            ("a\u{9b}31mb\u{9d}c", "a<U+009B>31mb<U+009D>c"),
            ("bell\x07 nul\0 del\x7f", "bell␇ nul␀ del␡"),
            ("a\tb\r\nc\rd", "a    b\nc␍d"),
            ("rm \u{202e}txt.exe", "rm <U+202E>txt.exe"),
            ("a\u{200b}b\u{feff}\u{2028}c", "a<U+200B>b<U+FEFF><U+2028>c"),
            ("if\u{3164}x\u{115f}\u{17b4}", "if<U+3164>x<U+115F><U+17B4>"),
        ] {
            assert_eq!(escape_prose(text), expected, "{text:?}");
        }
    }

    /// Letters are not changed, whatever marks they are composed of.
    #[test]
    fn commands_and_names_show_whatever_is_invisible() {
        for (text, expected) in [
            ("cp e\u{301}te\u{301} हिन्दी 中文 한글", "cp e\u{301}te\u{301} हिन्दी 中文 한글"),
            ("a\u{fe0f}b\u{34f}c\u{200d}d\u{e0100}", "a<U+FE0F>b<U+034F>c<U+200D>d<U+E0100>"),
            ("x\u{1160}y\u{ffa0}z", "x<U+1160>y<U+FFA0>z"),
            ("a b\u{a0}c\u{2003}d\u{3000}e\u{2800}f", "a b<U+00A0>c<U+2003>d<U+3000>e<U+2800>f"),
            ("ls \\\r\n-l\r", "ls \\␍\n-l␍"),
            ("\x1b]8;;u\x07link", "␛]8;;u␇link"),
        ] {
            assert_eq!(escape_literal(text), expected, "{text:?}");
        }
        assert_eq!(escape_literal_line("a\nb"), "a ⏎ b");
    }

    #[test]
    fn files_keep_marks_and_tabs() {
        for (text, expected) in [
            ("plain é\t中\n", "plain é\t中\n"),
            ("a\x1b[31mred\x1b[0m\r\n", "a␛[31mred␛[0m\n"),
            ("10%\r50%\x08", "10%␍50%␈"),
            ("a\u{85}c\x7f", "a<U+0085>c␡"),
            ("\u{feff}x\u{202e}y", "\u{feff}x\u{202e}y"),
        ] {
            assert_eq!(escape_for_file(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_printable_character_is_shown_in_order(
            text in "(\x1b[\\[\\]P_^X(#c]|[\x07\x1b\\\\;m\r\n\u{9b}\u{202e}\u{3164}]|\\PC|.){0,40}",
        ) {
            for show in [escape_literal as fn(&str) -> Cow<'_, str>, escape_prose, escape_for_file, escape_literal_line] {
                let shown = show(&text);
                prop_assert!(!shown.chars().any(|char| char.is_control() && !"\n\t".contains(char)));
                prop_assert_eq!(show(&shown), &*shown, "what is shown stays as it is");
                let mut rest = shown.chars();
                for char in text.chars().filter(|char| !is_invisible(*char) && *char != '\n') {
                    prop_assert!(rest.any(|shown| shown == char), "{:?} in {:?}", char, shown);
                }
            }
        }
    }
}
