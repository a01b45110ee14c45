//! One line more in one file, or something in front of a value.
//!
//! The evidence is a word that both hold: a line of the failure that says what is wanted (no compiler's), and what was
//! added before the same command worked.

use super::super::super::chain::main_command;
use super::super::super::command::head;
use super::super::super::difference::common;
use super::super::super::evidence::{has_word, is_verdict, states_wish};
use super::super::super::item::Condition;
use super::super::super::pattern::plain_path;
use super::super::commands::essential;
use super::super::{Between, Lesson, MIN_SIGNATURE, Try, topic_of};
use super::told::{is_mark, is_plain_place};
use super::{Mended, has_succeeded};
use crate::protocol::command::unquoted;

/// The longest piece that is told of, in bytes.
const MAX_PIECE: usize = 80;
/// A word of so many letters says what is meant.
const MIN_WORD: usize = 3;

/// What the failure wanted.
pub(in super::super) fn lesson(
    bad: &Try<'_>,
    good: &Try<'_>,
    before: &[Between<'_>],
    between: &[Between<'_>],
    task: &str,
) -> Option<Lesson> {
    if is_verdict(bad.error) {
        return None;
    }
    let (old, new) = (essential(bad.command()?), essential(good.command()?));
    let (main, other) = (main_command(&old)?, main_command(&new)?);
    if !has_succeeded(good.command()?, other) {
        return None;
    }
    let (one, other) = (main.program(), other.program());
    let head = head(one).join(" ");
    let may_be_told = |piece: &str| is_mark(piece, bad, before, task);
    if one == other {
        let form = Mended::of(bad, good, before, between, task);
        let form = form.is_some_and(|mended| mended.is_linter());
        by_an_edit(bad, (before, between), task, form, &head, &may_be_told)
    } else {
        in_words(bad, one, other, &head, &may_be_told)
    }
}

/// The same command worked after lines were added to files, and to nothing else in them.
fn by_an_edit(
    bad: &Try<'_>,
    (before, between): (&[Between<'_>], &[Between<'_>]),
    task: &str,
    form: bool,
    head: &str,
    may_be_told: &dyn Fn(&str) -> bool,
) -> Option<Lesson> {
    let edits: Vec<&Between<'_>> = between.iter().filter(|call| call.is_edit()).collect();
    let last = edits.last()?;
    let path = plain_path(last.input.get("path")?.as_str()?);
    let is_one = edits.iter().all(|call| {
        call.input.get("path").and_then(|path| path.as_str()).map(plain_path) == Some(path)
    });
    let (changes, earlier) = (super::changes(between), super::changes(before));
    let texts = changes.last()?.texts(&earlier.iter().collect::<Vec<_>>());
    let [(old, new)] = texts.as_slice() else { return None };
    let added = added(old, new)?;
    let task = task.to_lowercase();
    let said = bad.error;
    let is_in = |line: &str, word: &str| has_word(&line.to_lowercase(), &word.to_lowercase());
    let wish = wish(said, form, |line| words(added).any(|word| is_in(line, word)))?;
    let shared: Vec<&str> = words(added).filter(|word| is_in(wish, word)).collect();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let name = path.rsplit('/').next().unwrap_or(path);
    let blames_file = said.contains(path) || said.contains(name);
    if !is_one || !is_plain_place(path) || (blames_file && !may_be_told(added)) {
        return None;
    }
    // Within a line it is a part of what stands there.
    if blames_file && !new.lines().any(|line| line.trim() == added) {
        return None;
    }
    let text = if blames_file {
        // What the task itself asked for is its work.
        let is_own = shared.iter().any(|word| !task.contains(&word.to_lowercase()));
        let place = if folder.is_empty() { String::new() } else { format!(" in `{folder}/`") };
        let kind = name.rsplit_once('.').map_or("files", |(_, kind)| kind);
        let files = if kind == "files" { kind.to_owned() } else { format!("`*.{kind}` files") };
        is_own.then(|| format!("Put `{added}` into new {files}{place}: `{head}` wants it."))?
    } else {
        format!("Add what is new to `{path}` too: `{head}` wants it there.")
    };
    // What was new then is another thing the next time.
    let names: &[&str] = if blames_file { &[] } else { &shared };
    rule(bad, head, text, wish, names)
}

/// The command worked with a value in which something stands in front, or behind.
fn in_words(
    bad: &Try<'_>,
    one: &[&str],
    other: &[&str],
    head: &str,
    may_be_told: &dyn Fn(&str) -> bool,
) -> Option<Lesson> {
    let (front, back) = common(one, other);
    if front == 0 {
        return None;
    }
    let ([old], [new]) = (&one[front..one.len() - back], &other[front..other.len() - back]) else {
        return None;
    };
    let (old, new) = (unquoted(old), unquoted(new));
    // The first letter may be a capital one no longer.
    let tail = old.get(old.chars().next()?.len_utf8()..)?;
    let (piece, at_front) = match new.strip_suffix(tail) {
        Some(rest) if !tail.is_empty() => (&rest[..rest.char_indices().next_back()?.0], true),
        _ if new.starts_with(&old) => (&new[old.len()..], false),
        // `fix: a` → `fix(web): a`.
        _ => (added(&old, &new)?, true),
    };
    let shown = if at_front { &new[..new.find(piece)? + piece.len()] } else { piece };
    let said = bad.error;
    // `WEB-7: ` is one of `WEB-<n>: `.
    let is_named = |line: &str| {
        let mut parts = words(piece).flat_map(|word| word.split('-'));
        parts.any(|part| part.chars().count() >= MIN_WORD && line.contains(part))
    };
    let wish = wish(said, false, is_named)?;
    let option = one[..front].last().filter(|word| word.starts_with('-'));
    if piece.trim().is_empty() || piece.len() > MAX_PIECE || !may_be_told(piece) {
        return None;
    }
    let what = option.map_or_else(|| head.to_owned(), |option| format!("{head} {option}"));
    let text = if at_front {
        format!("Begin what `{what}` is given as in `{shown}…`: that is what it wants.")
    } else {
        format!("End what `{what}` is given as in `…{piece}`: that is what it wants.")
    };
    rule(bad, head, text, wish, &[])
}

/// The first line that says what is wanted and names it.
fn wish(said: &str, form: bool, names: impl Fn(&str) -> bool) -> Option<&str> {
    said.lines().find(|line| states_wish(line, form) && names(line))
}

/// A rule for failures that say this, whatever `names` are called then; none where too little is left to tell them by.
fn rule(bad: &Try<'_>, head: &str, text: String, wish: &str, names: &[&str]) -> Option<Lesson> {
    let signature = bad.signature_of_line(wish, head, "")?;
    let mut pieces = vec![signature.as_str()];
    for name in names {
        pieces = pieces.into_iter().flat_map(|piece| piece.split(name)).collect();
    }
    let longest = pieces.into_iter().map(str::trim).max_by_key(|piece| piece.chars().count())?;
    (longest.chars().count() >= MIN_SIGNATURE).then(|| Lesson {
        condition: format!("`{head}` is run and says no"),
        when: Condition {
            tool: "Bash".to_owned(),
            code: bad.code,
            signature: Some(longest.to_owned()),
            command_head: Some(head.to_owned()),
            ..Condition::default()
        },
        text,
        fix: None,
        topic: topic_of("Bash", bad.input),
        general: false,
    })
}

/// The one line that was put in, where nothing else was changed.
fn added<'a>(old: &str, new: &'a str) -> Option<&'a str> {
    let rest = new.strip_prefix(old).or_else(|| new.strip_suffix(old));
    let rest = rest.or_else(|| {
        let front = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
        let back = &old[old.ceil_char_boundary(front)..];
        new.get(new.ceil_char_boundary(front)..)?.strip_suffix(back)
    })?;
    let line = rest.trim();
    (!line.is_empty() && !line.contains('\n') && line.len() <= MAX_PIECE).then_some(line)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))
        .map(|word| word.trim_matches('-'))
        .filter(|word| word.chars().count() >= MIN_WORD && word.chars().any(char::is_alphabetic))
}
