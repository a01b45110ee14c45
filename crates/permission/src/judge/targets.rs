//! The paths that commands delete, as far as the line names them.

use super::command::{Command, option_value};
use super::find::{self, FindExpression};
use super::{JudgeContext, PathKind};
use crate::shell::{Word, WordKind, directory};

const MAX_EXPANDED: usize = 10_000;

const UNRESTRICTING_ACTIONS: &[&str] = &[
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

pub(super) fn is_protected(command: &Command, context: &JudgeContext<'_>) -> bool {
    let is_find = command.name() == "find";
    if is_find && (!find::deletes(command.arguments()) || has_condition(command)) {
        return false;
    }
    let is_protected_path = |path: String| {
        matches!(
            context.path_kind(&path),
            PathKind::Project | PathKind::Git | PathKind::HomeOrAbove
        )
    };
    let targets: Vec<Word> =
        if is_find { start_paths(command) } else { command.operands().cloned().collect() };
    targets.iter().filter_map(|word| target_path(word, command)).any(is_protected_path)
}

pub(super) fn is_uncovered(command: &Command, context: &JudgeContext<'_>) -> bool {
    match command.name() {
        "find" => find_reaches_uncovered(command, context),
        _ => target_paths_of(command, context).iter().any(|path| context.is_uncovered(path)),
    }
}

/// The paths that the command deletes or replaces, as far as the line names them; from the root.
pub(crate) fn lost_paths(command: &Command, context: &JudgeContext<'_>) -> Vec<String> {
    if !matches!(command.name(), "rm" | "rmdir" | "unlink" | "shred" | "truncate" | "mv") {
        return Vec::new();
    }
    let paths = target_paths_of(command, context).into_iter();
    paths.map(|path| directory::join(context.directory, &path)).collect()
}

fn target_paths_of(command: &Command, context: &JudgeContext<'_>) -> Vec<String> {
    match command.name() {
        "mv" => replaced_paths(command, context),
        _ => command.operands().flat_map(|word| target_paths(word, command, context)).collect(),
    }
}

fn find_reaches_uncovered(command: &Command, context: &JudgeContext<'_>) -> bool {
    if !find::deletes(command.arguments()) {
        return false;
    }
    let starts = start_paths(command);
    let is_option = |word: &&Word| matches!(word.text.as_str(), "-H" | "-L" | "-P");
    let is_start = |word: &&Word| !is_expression(word);
    let expression = command.arguments().iter().skip_while(is_option).skip_while(is_start);
    let expression = FindExpression::parse(&expression.cloned().collect::<Vec<_>>());
    let is_selected = |name: &str, is_directory| {
        expression.as_ref().is_none_or(|expression| expression.may_delete(name, is_directory))
    };
    let paths = starts.iter().flat_map(|word| target_paths(word, command, context));
    let mut paths = paths.map(|path| directory::join(context.directory, &path));
    paths.any(|path| {
        context.facts.kind(&path) == PathKind::Outside
            || context.facts.has_uncovered(&path, &is_selected)
    })
}

pub(super) fn discards_unsaved(command: &Command, context: &JudgeContext<'_>) -> bool {
    let mut operands = command.operands();
    let Some(action) = operands.next().map(|word| word.text.as_str()) else { return false };
    let has = |options: [&str; 2]| options.iter().any(|option| command.has_option(option));
    // (git expands quoted patterns itself, and `:/` begins with an instruction to it.)
    let is_pathspec = |word: &Word| {
        word.is_literal() && word.text.contains([':', '*', '?', '[']) || word.text.starts_with(':')
    };
    let is_whole = matches!(action, "reset" | "switch")
        || action == "checkout" && has(["-f", "--force"])
        || command.has_option("-C")
        || command.operands().any(is_pathspec);
    let only_index = has(["-S", "--staged"]) && !has(["-W", "--worktree"]);
    let is_tracked = action != "clean";
    let paths: Vec<String> = match action {
        "restore" if only_index => Vec::new(),
        _ if is_whole => vec![String::new()],
        _ => {
            let named = operands.flat_map(|word| target_paths(word, command, context));
            let mut paths: Vec<String> = named.collect();
            if paths.is_empty() && !is_tracked {
                paths.extend(target_path(&Word::literal("."), command));
            }
            paths.iter().map(|path| directory::join(context.directory, path)).collect()
        }
    };
    !paths.is_empty() && context.facts.has_unsaved(&paths, is_tracked)
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
            text if text.starts_with('-') && !UNRESTRICTING_ACTIONS.contains(&text) => return true,
            _ => {}
        }
    }
    false
}

fn start_paths(command: &Command) -> Vec<Word> {
    let is_option = |word: &&Word| matches!(word.text.as_str(), "-H" | "-L" | "-P");
    let paths = command.arguments().iter().skip_while(is_option);
    let paths: Vec<Word> = paths.take_while(|word| !is_expression(word)).cloned().collect();
    if paths.is_empty() { vec![Word::literal(".")] } else { paths }
}

fn is_expression(word: &Word) -> bool {
    word.text.starts_with(['-', '(', '!'])
}

/// For `mv`: the destination, or the entries of that name in it; and what it moves into a temporary
/// directory, or to an unknown place, which may be one.
fn replaced_paths(command: &Command, context: &JudgeContext<'_>) -> Vec<String> {
    let mut operands: Vec<&Word> = command.operands().collect();
    let arguments = command.arguments();
    let named = (0..arguments.len()).find_map(|at| {
        let mut options = ["-t", "--target-directory"].into_iter();
        options.find_map(|option| option_value(&arguments[at..], option))
    });
    let Some(word) = named.or_else(|| operands.pop().cloned()) else { return Vec::new() };
    let destination = target_path(&word, command);
    let place = destination.clone().or_else(|| known_directory(&word, command));
    let is_lost = |kind| matches!(kind, PathKind::Temporary | PathKind::HomeOrAbove);
    if place.is_none_or(|place| is_lost(context.path_kind(&place))) {
        return operands.iter().flat_map(|word| target_paths(word, command, context)).collect();
    }
    let Some(destination) = destination else { return Vec::new() };
    let inside = operands.iter().filter_map(|source| {
        let name = source.literal_text()?.trim_end_matches('/').rsplit('/').next()?;
        Some(directory::join(&destination, name))
    });
    let inside: Vec<String> = inside.collect();
    if context.facts.is_file(&directory::join(context.directory, &destination)) {
        vec![destination]
    } else {
        inside
    }
}

/// The directory of `old/$name`.
fn known_directory(word: &Word, command: &Command) -> Option<String> {
    let known = &word.text[..word.text.find(['$', '`', '*', '?', '['])?];
    if known.is_empty() {
        return None;
    }
    let directory = known.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let directory = Word::literal(if directory.is_empty() { "/" } else { directory });
    directory::resolve_word(command.directory.as_deref(), &directory)
}

fn target_paths(word: &Word, command: &Command, context: &JudgeContext<'_>) -> Vec<String> {
    let is_pattern = word.kind == WordKind::Pattern;
    match target_path(word, command) {
        // (`*` in the project is not all of it: hidden files stay.)
        Some(path) if !is_pattern || context.path_kind(&path) != PathKind::Project => {
            return vec![path];
        }
        _ if !is_pattern => return Vec::new(),
        _ => {}
    }
    let (start, rest) = match word.text.strip_prefix("~/") {
        Some(rest) => (Some("~".to_owned()), rest),
        None => {
            let start = if word.text.starts_with('/') { "/" } else { "." };
            let start =
                directory::resolve_word(command.directory.as_deref(), &Word::literal(start));
            (start, word.text.as_str())
        }
    };
    let mut paths: Vec<String> = start.into_iter().collect();
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        let has_pattern = part.contains(['*', '?', '[']);
        let expanded = paths.iter().flat_map(|path| {
            if !has_pattern {
                return vec![directory::join(path, part)];
            }
            let names =
                context.facts.expand_pattern(&directory::join(context.directory, path), part);
            names.iter().map(|name| directory::join(path, name)).collect()
        });
        paths = expanded.take(MAX_EXPANDED).collect();
    }
    paths
}

/// `a/*` counts as all of `a`.
fn target_path(word: &Word, command: &Command) -> Option<String> {
    let mut word = word.clone();
    if word.kind != WordKind::Literal {
        while let Some(text) =
            ["/*", "/.*", "/**", "/{*,.*}"].iter().find_map(|end| word.text.strip_suffix(end))
        {
            word.text = if text.is_empty() { "/".to_owned() } else { text.to_owned() };
        }
        if matches!(word.text.as_str(), "*" | ".*" | "**") {
            ".".clone_into(&mut word.text);
        }
        if word.kind == WordKind::Pattern && !word.text.contains(['*', '?', '[']) {
            word.kind = WordKind::Literal;
        }
    }
    directory::resolve_word(command.directory.as_deref(), &word)
}
