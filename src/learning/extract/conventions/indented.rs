//! Tabs or spaces, where a program says which.

use super::super::super::evidence::speaks_of_indentation;
use super::super::super::item::Condition;
use super::super::super::pattern::kind_of;
use super::super::Lesson;
use super::Mended;

/// Kinds of files that are indented so wherever they are.
const BY_NATURE: [(&str, &str); 7] = [
    ("Makefile", "tabs"),
    ("makefile", "tabs"),
    ("GNUmakefile", "tabs"),
    ("mk", "tabs"),
    ("go", "tabs"),
    ("yaml", "spaces"),
    ("yml", "spaces"),
];

pub(super) fn lesson(mended: &Mended<'_>) -> Option<Lesson> {
    let line = mended.said.lines().find(|line| speaks_of_indentation(line))?;
    let mut with_without = None;
    let mut path = "";
    // Nothing but blanks made the difference.
    for (at, change) in mended.changes.iter().enumerate() {
        let earlier: Vec<_> = mended.before.iter().chain(&mended.changes[..at]).collect();
        let texts = change.texts(&earlier);
        let found: Vec<_> = texts.iter().map(|(old, new)| flipped(old, new)).collect();
        let first = *found.first()?;
        let is_one = found.iter().all(|other| *other == first) && first.is_some();
        if !is_one || with_without.is_some_and(|known| Some(known) != first) {
            return None;
        }
        (with_without, path) = (first, change.path);
    }
    let (with, without) = with_without?;
    let kind = kind_of(path);
    let is_by_nature = kind.is_some_and(|kind| BY_NATURE.contains(&(kind, with)));
    let files = kind.map_or_else(|| format!("`{path}`"), files_of);
    let head = if is_by_nature { *mended.program.first()? } else { &mended.head };
    let mut text = format!("Indent {files} with {with}, not with {without}");
    text.push_str(&if is_by_nature { ".".to_owned() } else { format!(": `{head}` wants it.") });
    let when = Condition {
        tool: "Edit".to_owned(),
        file_kind: kind.map(str::to_owned),
        path: kind.is_none().then(|| path.to_owned()),
        puts_in: Some(if without == "tabs" { "\t" } else { "  " }.to_owned()),
        ..Condition::default()
    };
    let condition = format!("{files} are indented with {without}");
    let lesson = mended.lesson_as(head, text, condition, when, line)?;
    Some(Lesson { general: is_by_nature, ..lesson })
}

/// Which of tabs and spaces the lines begin with now, and with which before, where nothing else of them is new.
pub(in super::super) fn flipped(old: &str, new: &str) -> Option<(&'static str, &'static str)> {
    let lines = |text: &str| text.trim_end_matches('…').lines().count();
    if lines(old) != lines(new) {
        return None;
    }
    let is_cut = old.ends_with('…') || new.ends_with('…');
    // The last line of a text that was cut is no whole one.
    let n = lines(old) - usize::from(is_cut && lines(old) > 0);
    let mut found = None;
    for (one, other) in old.lines().zip(new.lines()).take(n) {
        if one.split_whitespace().ne(other.split_whitespace()) {
            return None;
        }
        let now = match (one.chars().next(), other.chars().next()) {
            _ if one == other => continue,
            (Some(' '), Some('\t')) => ("tabs", "spaces"),
            (Some('\t'), Some(' ')) => ("spaces", "tabs"),
            _ => return None,
        };
        if found.is_some_and(|known| known != now) {
            return None;
        }
        found = Some(now);
    }
    found
}

/// How files of a kind are called: `*.go`, or by the name that they all have.
pub(in super::super) fn files_of(kind: &str) -> String {
    // Of `Makefile` the kind is the whole name.
    if kind_of(kind).is_some() { format!("`{kind}` files") } else { format!("`*.{kind}` files") }
}
