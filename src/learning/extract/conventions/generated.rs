//! A file that is written by a program: to be changed is what it is made from.

use std::collections::BTreeSet;

use super::super::super::command::head;
use super::super::super::evidence::{forbids_editing, has_word, speaks_of_generated};
use super::super::super::item::{Condition, Fix};
use super::super::commands::NEVER_FIRST;
use super::super::{Lesson, guard};
use super::{Mended, names_file};
use crate::protocol::command::name_of;

/// The longest command that is told of, in bytes.
const MAX_COMMAND: usize = 80;

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    let said = mended.said;
    let mut changed = mended.before.iter().rev().map(|change| change.path);
    let file = changed.find(|path| is_what_is_made(said, path))?;
    let others: BTreeSet<&str> =
        mended.changes.iter().map(|change| change.path).filter(|path| *path != file).collect();
    let named: Vec<&str> = others.iter().filter(|path| mended.names_file(path)).copied().collect();
    let is_forbidden = said.lines().any(forbids_editing);
    let source = match (named.as_slice(), others.len()) {
        ([one], _) => Some(*one),
        ([], 1) if is_forbidden => others.first().copied(),
        ([], 0) => None,
        _ => return None,
    };
    let mut makers: Vec<&Vec<&str>> =
        mended.ran.iter().filter(|words| is_named(said, words)).collect();
    makers.dedup();
    let maker = match makers.as_slice() {
        [] => None,
        [one] => Some(*one),
        _ => return None,
    };
    let line = said.lines().find(|line| {
        let holds = |path: &str| names_file(line, path);
        let names_maker = || maker.is_some_and(|words| is_named(line, words));
        let is_about = holds(file) || source.is_some_and(holds) || names_maker();
        speaks_of_generated(line) && (forbids_editing(line) || is_about)
    })?;
    let maker = maker.map(|words| words.join(" "));
    if maker.as_ref().is_some_and(|maker| maker.len() > MAX_COMMAND) {
        return None;
    }
    let is_edited_again = mended.changes.iter().any(|change| change.path == file);
    let text = match (source, &maker) {
        (Some(source), Some(maker)) => {
            format!("Change `{source}` and run `{maker}`: `{file}` is generated.")
        }
        (Some(source), None) if !is_edited_again && mended.names_file(source) => {
            format!("Change `{source}`, not `{file}`, which is generated.")
        }
        (None, Some(maker)) if is_forbidden => {
            format!(
                "Run `{maker}` for `{file}`, which is generated, and leave it as that writes it."
            )
        }
        _ => return None,
    };
    let gets_past =
        maker.is_some_and(|command| guard::gets_past(&Fix::RunFirst { command }, "", ""));
    // Whoever reads it is about to change it: any call that names it will do.
    let when = Condition { path: Some(file.to_owned()), ..Condition::default() };
    let text = if gets_past { guard::with_care(&text) } else { text };
    mended.lesson(text, format!("`{file}` is changed by hand"), when, line)
}

/// The output names the file, and not as what something else is made from, compared with, or to be changed in its place.
fn is_what_is_made(said: &str, path: &str) -> bool {
    const SOURCES: [&str; 7] = ["from", "with", "than", "of", "根据", "从", "由"];
    const CHANGES: [&str; 7] = ["edit", "change", "update", "modify", "修改", "编辑", "更新"];
    let Some(line) = said.lines().find(|line| names_file(line, path)) else { return false };
    let name = if has_word(line, path) { path } else { name_of(path) };
    let before = line.split(name).next().unwrap_or_default().to_lowercase();
    let clause = before.rsplit([';', ',', ':', '；', '，', '：', '。']).next().unwrap_or_default();
    let clause = clause.trim_end_matches(|c: char| !c.is_alphanumeric() && !c.is_whitespace());
    let ends_with = |word: &&str| {
        clause.trim_end().strip_suffix(*word).is_some_and(|rest| {
            !word.is_ascii() || rest.is_empty() || rest.ends_with(char::is_whitespace)
        })
    };
    !SOURCES.iter().any(&ends_with) && (forbids_editing(clause) || !CHANGES.iter().any(ends_with))
}

/// The output names this command; no command that undoes or removes work.
fn is_named(said: &str, words: &[&str]) -> bool {
    let Some(first) = words.first().filter(|first| !NEVER_FIRST.contains(&name_of(first))) else {
        return false;
    };
    let is_own = first.contains('/') && has_word(said, name_of(first));
    is_own || has_word(said, &head(words).join(" "))
}
