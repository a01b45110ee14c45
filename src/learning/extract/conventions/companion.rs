//! A file that has to come along with what is changed: a news fragment, a migration, a page.

use std::collections::BTreeSet;

use super::super::super::chain::has_same_stem;
use super::super::super::evidence::{has_word, names_companion, states_lack};
use super::super::super::item::Condition;
use super::super::super::pattern::kind_of;
use super::super::{Lesson, guard};
use super::told::is_plain_place;
use super::{Mended, folder_of_all, names_file};

/// A word of so many letters says what is meant.
const MIN_WORD: usize = 3;

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    let [change] = mended.changes.as_slice() else { return None };
    let (folder, name) = change.path.rsplit_once('/')?;
    // A file that the output names was asked for by name: the work lacks it, and not the way of working.
    let stem = name.split('.').find(|part| !part.is_empty())?;
    let goes_with = mended.before.iter().any(|other| has_same_stem(other.path, change.path));
    let is_named = names_file(mended.said, change.path)
        || (stem.chars().any(char::is_alphabetic) && has_word(mended.said, stem) && !goes_with);
    let is_own = folder.split('/').any(|part| mended.is_asked_for(part))
        || mended.task.contains(change.path);
    let gets_past = words(change.path).iter().any(|word| guard::asks(word));
    if !change.call.created || !mended.ran.is_empty() || mended.runs_the_work() {
        return None;
    }
    if is_named || is_own || gets_past || !is_plain_place(change.path) {
        return None;
    }
    let line = mended
        .said
        .lines()
        .find(|line| states_lack(line) && (names_companion(line) || shares_a_word(line, folder)))?;
    let head = &mended.head;
    let text = format!("Add a file to `{folder}/` too, like `{name}`: `{head}` wants one.");
    let others = mended.before.iter().map(|change| change.path);
    let within = format!("{folder}/");
    let others: BTreeSet<&str> =
        others.filter(|path| is_plain_place(path) && !path.starts_with(&within)).collect();
    let place = folder_of_all(&others).map(|folder| format!("{folder}/"));
    let kinds: BTreeSet<&str> = others.iter().filter_map(|path| kind_of(path)).collect();
    let kind = kinds.first().filter(|_| kinds.len() == 1 && place.is_none());
    // Without either it would be told below any change.
    if place.is_none() && kind.is_none() {
        return None;
    }
    let when = Condition {
        tool: "Edit".to_owned(),
        file_kind: kind.map(|kind| (*kind).to_owned()),
        path: place,
        not_below: Some(within),
        ..Condition::default()
    };
    mended.lesson(text, format!("files are changed, and none is added to `{folder}/`"), when, line)
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
