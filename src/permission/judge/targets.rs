//! The paths that commands delete, as far as the line names them.

use super::command::{Command, value_of};
use super::{Context, PathKind};
use crate::permission::shell::{Kind, Word, directory};

/// Actions of `find` that do not restrict its results.
const NOT_CONDITIONS: &[&str] = &[
    "-delete",
    "-depth",
    "-d",
    "-mindepth",
    "-maxdepth",
    "-xdev",
    "-mount",
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "-print",
    "-print0",
    "-H",
    "-L",
    "-P",
];

/// It deletes the root, the home or a directory above it, the project or its `.git`.
pub(super) fn is_protected(command: &Command, context: &Context<'_>) -> bool {
    let is_find = command.name() == "find";
    if is_find && (!find_deletes(command) || has_condition(command)) {
        return false;
    }
    let is_it = |path: String| {
        matches!(context.kind(&path), PathKind::Project | PathKind::Git | PathKind::HomeOrAbove)
    };
    let targets: Vec<Word> =
        if is_find { start_paths(command) } else { command.operands().cloned().collect() };
    targets.iter().filter_map(|word| target(word, command)).any(is_it)
}

/// It deletes or replaces an existing path that no checkpoint covers and that is not build output.
pub(super) fn is_uncovered(command: &Command, context: &Context<'_>) -> bool {
    let paths: Vec<String> = match command.name() {
        "find" if !find_deletes(command) => return false,
        "find" => start_paths(command).iter().filter_map(|word| target(word, command)).collect(),
        "mv" => replaced(command, context),
        _ => command.operands().flat_map(|word| targets(word, command, context)).collect(),
    };
    paths.iter().any(|path| context.is_uncovered(path))
}

/// It is a `find` that deletes its results.
pub(super) fn find_deletes(command: &Command) -> bool {
    let is_exec = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir");
    let deletes = |word: &Word| matches!(word.text.as_str(), "rm" | "/bin/rm" | "shred" | "unlink");
    command.has("-delete")
        || command.arguments().windows(2).any(|pair| is_exec(&pair[0]) && deletes(&pair[1]))
}

fn has_condition(command: &Command) -> bool {
    let mut arguments = command.arguments().iter().peekable();
    while let Some(word) = arguments.next() {
        match word.text.as_str() {
            // The command of an action is not a condition.
            "-exec" | "-execdir" => {
                while arguments.next_if(|word| !matches!(word.text.as_str(), ";" | "+")).is_some() {
                }
            }
            text if text.starts_with('-') && !NOT_CONDITIONS.contains(&text) => return true,
            _ => {}
        }
    }
    false
}

/// The start paths of a `find`.
fn start_paths(command: &Command) -> Vec<Word> {
    let is_option = |word: &&Word| matches!(word.text.as_str(), "-H" | "-L" | "-P");
    let is_expression = |word: &Word| word.text.starts_with(['-', '(', '!']);
    let paths = command.arguments().iter().skip_while(is_option);
    let paths: Vec<Word> = paths.take_while(|word| !is_expression(word)).cloned().collect();
    if paths.is_empty() { vec![Word::literal(".")] } else { paths }
}

/// The paths that `mv` replaces: the destination, or the entries of that name in it; and those that it moves into a
/// temporary directory, or to an unknown place, which may be one.
fn replaced(command: &Command, context: &Context<'_>) -> Vec<String> {
    let mut operands: Vec<&Word> = command.operands().collect();
    let arguments = command.arguments();
    let named = (0..arguments.len()).find_map(|at| {
        let mut options = ["-t", "--target-directory"].into_iter();
        options.find_map(|option| value_of(&arguments[at..], option))
    });
    let Some(word) = named.or_else(|| operands.pop().cloned()) else { return Vec::new() };
    let destination = target(&word, command);
    let place = destination.clone().or_else(|| known_directory(&word, command));
    let is_lost = |kind| matches!(kind, PathKind::Temporary | PathKind::HomeOrAbove);
    if place.is_none_or(|place| is_lost(context.kind(&place))) {
        return operands.iter().flat_map(|word| targets(word, command, context)).collect();
    }
    let Some(destination) = destination else { return Vec::new() };
    let inside = operands.iter().filter_map(|source| {
        let name = source.known()?.trim_end_matches('/').rsplit('/').next()?;
        Some(directory::join(&destination, name))
    });
    let inside: Vec<String> = inside.collect();
    if context.facts.is_file(&directory::join(context.directory, &destination)) {
        vec![destination]
    } else {
        inside
    }
}

/// The directory of a path whose last part is not known (`old/$name`).
fn known_directory(word: &Word, command: &Command) -> Option<String> {
    let known = &word.text[..word.text.find(['$', '`', '*', '?', '['])?];
    if known.is_empty() {
        return None;
    }
    let directory = known.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let directory = Word::literal(if directory.is_empty() { "/" } else { directory });
    directory::path_of(command.directory.as_deref(), &directory)
}

/// The paths that an operand names; a pattern in its last component is expanded.
fn targets(word: &Word, command: &Command, context: &Context<'_>) -> Vec<String> {
    if let Some(path) = target(word, command) {
        return vec![path];
    }
    let (directory, pattern) = word.text.rsplit_once('/').unwrap_or((".", &word.text));
    let is_known = word.kind == Kind::Pattern && !directory.contains(['*', '?', '[', '{']);
    let directory = Word::literal(if directory.is_empty() { "/" } else { directory });
    match directory::path_of(command.directory.as_deref(), &directory) {
        Some(directory) if is_known => {
            let names =
                context.facts.matches(&directory::join(context.directory, &directory), pattern);
            names.iter().map(|name| directory::join(&directory, name)).collect()
        }
        _ => Vec::new(),
    }
}

/// The path that a word names; `a/*` counts as all of `a`.
fn target(word: &Word, command: &Command) -> Option<String> {
    let mut word = word.clone();
    if word.kind != Kind::Literal {
        while let Some(text) =
            ["/*", "/.*", "/**", "/{*,.*}"].iter().find_map(|end| word.text.strip_suffix(end))
        {
            word.text = if text.is_empty() { "/".to_owned() } else { text.to_owned() };
        }
        if matches!(word.text.as_str(), "*" | ".*" | "**") {
            ".".clone_into(&mut word.text);
        }
        if word.kind == Kind::Pattern && !word.text.contains(['*', '?', '[']) {
            word.kind = Kind::Literal;
        }
    }
    directory::path_of(command.directory.as_deref(), &word)
}
