//! A word that is not wanted here, and the one that stands in its place.

use super::super::super::difference::common;
use super::super::super::evidence::{bans, has_word, is_compilers, is_of_names, may_ban};
use super::super::super::item::Condition;
use super::super::super::pattern::{kind_of, replaced};
use super::super::{Lesson, guard};
use super::{Mended, files_of};

/// The longest word that is told of, in bytes.
const MAX_WORD: usize = 60;
/// A part of so many letters says what is meant.
const MIN_PART: usize = 3;
/// A name behind one of these is made there, and is nobody else's.
const MAKES: [&str; 22] = [
    "def",
    "fn",
    "func",
    "function",
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "type",
    "let",
    "const",
    "var",
    "val",
    "mut",
    "import",
    "package",
    "module",
    "mod",
    "namespace",
    "static",
    "public",
];

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    if mended.runs_the_work() {
        return None;
    }
    mended.changes.iter().enumerate().find_map(|(at, change)| {
        let earlier: Vec<_> = mended.before.iter().chain(&mended.changes[..at]).collect();
        let texts = change.texts(&earlier);
        let mut swaps = texts.iter().filter_map(|(old, new)| swap(old, new));
        let mut given = texts.iter().filter_map(|(old, new)| given(old, new));
        let banned = swaps.find_map(|swap| of(mended, change.path, &swap));
        banned.or_else(|| given.find_map(|given| wanted(mended, change.path, &given)))
    })
}

/// What a call is to be given, where the output names both: `requests.get` a `timeout=10`.
fn wanted(mended: &Mended<'_>, path: &str, given: &Given<'_>) -> Option<Lesson> {
    let Given { call, name, piece } = given;
    let is_named = |line: &&str| {
        has_word(line, name) && parts(call).any(|part| has_word(line, part)) && !is_of_types(line)
    };
    let line = mended.said.lines().find(is_named)?;
    let is_own = mended.is_asked_for(name) || parts(call).any(|part| mended.is_asked_for(part));
    let gets_past = guard::asks(name) || piece.len() > MAX_WORD || piece.contains('`');
    if !mended.looks_at_form() || is_own || gets_past {
        return None;
    }
    let kind = kind_of(path)?;
    let head = &mended.head;
    let text = format!("Give `{call}` `{piece}` in {}: `{head}` wants it.", files_of(kind));
    let when = Condition {
        tool: "Edit".to_owned(),
        file_kind: Some(kind.to_owned()),
        puts_in: Some((*call).to_owned()),
        ..Condition::default()
    };
    mended.lesson(text, format!("`{call}` is written without `{name}`"), when, line)
}

/// An argument by its name, with a value that is no name of the place (`10`, `UTC`, `"utf-8"`), and what it is given to.
struct Given<'a> {
    call: &'a str,
    name: &'a str,
    piece: &'a str,
}

/// What one line was given more, in a call or a tag, where nothing else is another.
fn given<'a>(old: &'a str, new: &'a str) -> Option<Given<'a>> {
    let (one, other) = (whole_lines(old), whole_lines(new));
    let (front, back) = common(&one, &other);
    let ([from], [to]) = (&one[front..one.len() - back], &other[front..other.len() - back]) else {
        return None;
    };
    let (one, other): (Vec<&str>, Vec<&str>) = (tokens(from).collect(), tokens(to).collect());
    let (front, back) = common(&one, &other);
    let back = back.min(one.len() - front);
    let start: usize = other[..front].iter().map(|token| token.len()).sum();
    let end: usize = other[other.len() - back..].iter().map(|token| token.len()).sum();
    let piece = to.get(start..to.len() - end)?.trim_matches([',', ' ']);
    let (name, value) = piece.split_once(['=', ':'])?;
    let value = value.trim();
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let last = value.rsplit('.').next()?;
    let is_fixed = last
        .starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || "\"'".contains(c))
        || ["true", "false"].contains(&last);
    // What is open to the left is what it is given to.
    let mut depth = 0_i32;
    let at = other[..front].iter().rposition(|token| {
        depth += i32::from(*token == ")") - i32::from(matches!(*token, "(" | "<"));
        depth < 0
    })?;
    let call = if other[at] == "<" { other.get(at + 1) } else { other[..at].last() }?;
    let is_all = front + back == one.len() && is_name(name) && is_name(&call.replace('.', ""));
    (is_all && is_fixed && !value.contains(',')).then_some(Given { call, name, piece })
}

/// The line is a type checker's: what a function takes is the code's affair.
fn is_of_types(line: &str) -> bool {
    let line = line.to_lowercase();
    let types = ["positional", "named argument", "argument missing", "for parameter", "prop "];
    is_compilers(&line, true) || types.iter().any(|word| line.contains(word))
}

fn of(mended: &Mended<'_>, path: &str, swap: &Swap<'_>) -> Option<Lesson> {
    let (old, new) = (swap.old, swap.new);
    let told = parts(old).filter(|part| parts(new).all(|other| other != *part));
    let told: Vec<&str> = told.collect();
    let line = mended.said.lines().find(|line| {
        let is_form = mended.looks_at_form();
        let names_both = |part: &str| {
            has_word(line, part)
                && parts(new).any(|part| has_word(line, part))
                && !is_of_names(line)
        };
        told.iter()
            .any(|part| bans(line, part) || (is_form && (may_ban(line, part) || names_both(part))))
    })?;
    // What the other word is follows from the place, unless it is one that is called, or that the output names.
    let call = format!("{old}(");
    let is_called = swap.is_called
        || mended.before.iter().any(|change| {
            let texts = replaced(change.call.input);
            texts.into_iter().any(|(_, new)| new.contains(&call))
        });
    let is_one_for_all = is_called || parts(new).any(|part| has_word(mended.said, part));
    let is_own = swap.is_made
        || [old, new].iter().any(|word| mended.is_asked_for(word))
        || told.iter().any(|part| mended.is_asked_for(part))
        || is_same_name(old, new);
    let gets_past = parts(new).any(guard::asks);
    if !is_one_for_all || is_own || gets_past || old.len().max(new.len()) > MAX_WORD {
        return None;
    }
    let kind = kind_of(path);
    let files = kind.map_or_else(|| format!("`{path}`"), files_of);
    let text = format!("Use `{new}`, not `{old}`, in {files}: `{}` wants it.", mended.head);
    let when = Condition {
        tool: "Edit".to_owned(),
        file_kind: kind.map(str::to_owned),
        path: kind.is_none().then(|| path.to_owned()),
        puts_in: Some(old.to_owned()),
        ..Condition::default()
    };
    mended.lesson(text, format!("`{old}` is written in {files}"), when, line)
}

/// One word that stands where another stood.
struct Swap<'a> {
    old: &'a str,
    new: &'a str,
    /// It is called, or a part of something is taken: `print(…)`, `console.log`.
    is_called: bool,
    /// The name is made there: a function's, a variable's.
    is_made: bool,
}

/// The word that is gone, and the one in its place; none where lines changed otherwise, but for new ones (an import).
fn swap<'a>(old: &'a str, new: &'a str) -> Option<Swap<'a>> {
    let (old, new) = (whole_lines(old), whole_lines(new));
    let gone: Vec<&str> = old.iter().filter(|line| !new.contains(line)).copied().collect();
    let mut come: Vec<&str> = new.iter().filter(|line| !old.contains(line)).copied().collect();
    let mut found: Option<Swap<'a>> = None;
    let mut left = Vec::new();
    for line in gone {
        let swapped = come.iter().position(|other| swap_in(line, other).is_some());
        match swapped.and_then(|at| swap_in(line, come.remove(at))) {
            Some(swap) => found = found.or(Some(swap)),
            None => left.push(line),
        }
    }
    let swap = found?;
    // What else went is where the word came from: `from typing import Optional`.
    let is_gone = |line: &&str| tokens(line).any(|token| parts(swap.old).any(|part| part == token));
    let stays = new.iter().any(|line| tokens(line).any(|token| token == swap.old));
    (!stays && left.iter().all(is_gone)).then_some(swap)
}

fn swap_in<'a>(old: &'a str, new: &'a str) -> Option<Swap<'a>> {
    let (one, other): (Vec<&str>, Vec<&str>) =
        (tokens(old.trim()).collect(), tokens(new.trim()).collect());
    let (front, back) = common(&one, &other);
    let ([from], [to]) = (&one[front..one.len() - back], &other[front..other.len() - back]) else {
        return None;
    };
    let is_word =
        |word: &str| word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'));
    let before = one[..front].iter().rev().find(|token| !token.trim().is_empty());
    let behind = one.get(front + 1);
    (is_word(from) && is_word(to)).then(|| Swap {
        old: from,
        new: to,
        is_called: behind == Some(&"(") || from.contains(['.', '!']) || from.contains("::"),
        is_made: before.is_some_and(|word| MAKES.contains(word)),
    })
}

/// Lines of a text; without the last one where it was cut.
fn whole_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    if text.ends_with('…') {
        lines.pop();
    }
    lines
}

/// Words as programs have them (`console.log`, `std::env`, `println!`), and every other character.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = word_end(rest);
        let at = if end == 0 { first.len_utf8() } else { end };
        let (token, more) = rest.split_at(at);
        rest = more;
        Some(token)
    })
}

/// Where the word ends that the text begins with; 0 where it begins with none.
fn word_end(text: &str) -> usize {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let mut end = 0;
    while let Some(letter) = text[end..].chars().next() {
        let rest = &text[end + letter.len_utf8()..];
        let goes_on = |rest: &str| end > 0 && rest.starts_with(is_letter);
        if is_letter(letter) || (letter == '.' && goes_on(rest)) {
            end += letter.len_utf8();
        } else if letter == ':' && rest.strip_prefix(':').is_some_and(goes_on) {
            end += 2;
        } else if letter == '!' && end > 0 && rest.starts_with(['(', '[', '{']) {
            return end + 1;
        } else {
            return end;
        }
    }
    end
}

/// The names in a word: `console.log` has two.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let all = word.split(['.', ':', '!']).filter(|part| part.chars().count() >= MIN_PART);
    all.chain(word.contains(['.', ':']).then_some(word))
}

/// One name in two ways of writing: `getData` and `get_data`.
fn is_same_name(one: &str, other: &str) -> bool {
    let plain = |word: &str| word.replace('_', "").to_lowercase();
    plain(one) == plain(other)
}
