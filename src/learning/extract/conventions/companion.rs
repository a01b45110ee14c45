//! A file that has to come along with what is changed: a news fragment, a migration, a page.

use std::collections::BTreeSet;

use super::super::super::chain::has_same_stem;
use super::super::super::evidence::{
    has_word, lacks_change, mention_of, names_companion, names_import, states_lack, states_wish,
};
use super::super::super::item::Condition;
use super::super::super::pattern::kind_of;
use super::super::{Lesson, guard};
use super::told::is_plain_place;
use super::{Mended, folder_of_all, names_file};
use crate::protocol::command::name_of;

/// A word of so many letters says what is meant.
const MIN_WORD: usize = 3;

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    new_file(mended).or_else(|| changed_too(mended))
}

/// A file that is there, and has to be changed with the others: `CHANGELOG.md was not changed`.
fn changed_too(mended: &Mended<'_>) -> Option<Lesson> {
    let [change] = mended.changes.as_slice() else { return None };
    let path = change.path;
    let is_it = |line: &&str| {
        let name = mention_of(line, path).or_else(|| mention_of(line, name_of(path)));
        name.is_some() && states_wish(line, false) && lacks_change(line)
    };
    let line = mended.said.lines().find(is_it)?;
    let others = mended.before.iter().map(|other| other.path);
    let others: BTreeSet<&str> = others.filter(|path| is_plain_place(path)).collect();
    let is_asked_for = mended.task.contains(name_of(path));
    let is_new = change.call.created || others.contains(path) || is_asked_for;
    if is_new || !mended.ran.is_empty() || !mended.looks_at_form() || !is_plain_place(path) {
        return None;
    }
    let when = change_of(&others)?;
    let text = format!("Change `{path}` too with every change: `{}` wants it.", mended.head);
    mended.lesson(text, format!("files are changed, and `{path}` is not"), when, line)
}

/// A change of files like these: below their folder, or of their kind; without either it would be told below any change.
fn change_of(others: &BTreeSet<&str>) -> Option<Condition> {
    let kinds: BTreeSet<&str> = others.iter().filter_map(|path| kind_of(path)).collect();
    let path = folder_of_all(others).map(|folder| format!("{folder}/"));
    let kind = kinds.first().filter(|_| kinds.len() == 1 && path.is_none());
    let file_kind = kind.map(|kind| (*kind).to_owned());
    let is_known = path.is_some() || file_kind.is_some();
    is_known.then(|| Condition { tool: "Edit".to_owned(), file_kind, path, ..Condition::default() })
}

fn new_file(mended: &Mended<'_>) -> Option<Lesson> {
    let [change] = mended.changes.as_slice() else { return None };
    let (folder, name) = change.path.rsplit_once('/')?;
    // A file that the output names was asked for by name: the work lacks it, and not the way of working.
    let stem = name.split('.').find(|part| !part.is_empty())?;
    let goes_with = mended.before.iter().any(|other| has_same_stem(other.path, change.path));
    let says_name = names_file(mended.said, change.path)
        || (stem.chars().any(char::is_alphabetic) && has_word(mended.said, stem));
    // One that is called after what was changed goes with each file of its kind: `Badge.tsx`, `Badge.stories.tsx`.
    let after = mended.before.iter().find(|other| is_called_after(name, other.path));
    let after = after.map(|other| other.path);
    let after = after.filter(|path| mended.looks_at_form() && says_name && is_plain_place(path));
    let is_named =
        after.is_none() && says_name && (names_file(mended.said, change.path) || !goes_with);
    let is_own = folder.split('/').any(|part| mended.is_asked_for(part))
        || mended.task.contains(change.path);
    let gets_past = words(change.path).iter().any(|word| guard::asks(word));
    if !change.call.created || !mended.ran.is_empty() || mended.runs_the_work() {
        return None;
    }
    if is_named || is_own || gets_past || !is_plain_place(change.path) {
        return None;
    }
    let is_about = |line: &str| match after {
        Some(_) => names_file(line, name) && !names_import(line),
        None => names_companion(line) || shares_a_word(line, folder),
    };
    let line = mended.said.lines().find(|line| states_lack(line) && is_about(line))?;
    let head = &mended.head;
    let text = match after {
        Some(other) => format!(
            "Add a file like `{}` for a new file like `{other}`: `{head}` wants one.",
            change.path
        ),
        None => format!("Add a file to `{folder}/` too, like `{name}`: `{head}` wants one."),
    };
    let within = format!("{folder}/");
    let others = mended.before.iter().map(|change| change.path);
    let others: BTreeSet<&str> = match after {
        Some(other) => BTreeSet::from([other]),
        None => others.filter(|path| is_plain_place(path) && !path.starts_with(&within)).collect(),
    };
    let mut when = change_of(&others)?;
    if let Some(other) = after {
        when.path = other.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        when.file_kind = kind_of(other).map(str::to_owned);
    }
    when.not_below = after.is_none_or(|other| !other.starts_with(&within)).then_some(within);
    mended.lesson(text, format!("files are changed, and none is added to `{folder}/`"), when, line)
}

/// Its name is the other's with something more: `Badge.stories.tsx` and `Badge.tsx`, `area_spec.rb` and `area.rb`.
fn is_called_after(name: &str, other: &str) -> bool {
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_lowercase();
    let (name, other) = (stem(name), stem(name_of(other)));
    let is_end = |c: char| !c.is_alphanumeric();
    other.len() >= MIN_WORD
        && (name.strip_prefix(&other).is_some_and(|rest| rest.starts_with(is_end))
            || name.strip_suffix(&other).is_some_and(|rest| rest.ends_with(is_end)))
}

/// The line speaks of what is in the folder: `no migration`, `migrations/`.
fn shares_a_word(line: &str, folder: &str) -> bool {
    let (line, folder) = (words(line), words(folder));
    let plain = |word: &str| word.trim_end_matches('s').to_owned();
    folder.iter().any(|word| line.iter().any(|other| plain(other) == plain(word)))
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= MIN_WORD)
        .map(str::to_owned)
        .collect()
}
