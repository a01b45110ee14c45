//! How new files are called here.

use super::super::super::item::Condition;
use super::super::super::pattern::{kind_of, plain_path};
use super::super::{Lesson, guard};
use super::told::is_plain_place;
use super::{Mended, names_file};
use crate::protocol::command::name_of;

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    let [ran] = mended.ran.as_slice() else { return None };
    let (["mv", from, to] | ["git", "mv", from, to]) = ran.as_slice() else { return None };
    let (from, to) = (plain_path(from), plain_path(to));
    let (folder, name) = to.rsplit_once('/')?;
    let old = name_of(from);
    let is_ours = mended.before.iter().any(|change| change.path == from && change.call.created);
    let is_blamed = |line: &str| names_file(line, from) || names_file(line, stem(old));
    let line = mended.said.lines().find(|line| is_blamed(line))?;
    // The same words, written in another way, or with something more.
    let is_same = plain(old) == plain(name) || name.starts_with(stem(old)) || name.ends_with(old);
    let is_asked_for = mended.task.contains(name) || mended.task.contains(stem(name));
    let gets_past = name.split(|c: char| !c.is_alphanumeric()).any(guard::asks);
    if !is_ours || !is_same || from != format!("{folder}/{old}") || !mended.changes.is_empty() {
        return None;
    }
    if !mended.looks_at_form() || is_asked_for || gets_past || !is_plain_place(to) {
        return None;
    }
    let kind = kind_of(to)?;
    let text = format!(
        "Name new `*.{kind}` files in `{folder}/` as in `{name}`{}, not as in `{old}`: `{}` wants it.",
        style(name, old),
        mended.head
    );
    let when = Condition {
        tool: "Edit".to_owned(),
        file_kind: kind_of(from).map(str::to_owned),
        path: Some(format!("{folder}/")),
        ..Condition::default()
    };
    mended.lesson(text, format!("a file of another name is written in `{folder}/`"), when, line)
}

/// What stands before the ending.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Its letters, whatever stands between them.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What the way of writing is called, where it makes the difference.
fn style(name: &str, old: &str) -> &'static str {
    let has = |part: fn(char) -> bool| stem(name).contains(part) && !stem(old).contains(part);
    if has(|c| c == '-') {
        " (kebab case)"
    } else if has(|c| c == '_') {
        " (snake case)"
    } else if has(char::is_uppercase) && stem(name).contains(char::is_lowercase) {
        if name.starts_with(char::is_uppercase) { " (Pascal case)" } else { " (camel case)" }
    } else {
        ""
    }
}
