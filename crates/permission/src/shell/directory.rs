//! Determines the directory in which each command of a line runs, following `cd`.
//!
//! A directory is relative to the project root (`""`, `a/b`, `../c`), absolute (`/etc`), or below the home
//! (`~`, `~/x`).

use super::word::{Kind, Word};

/// The directory after `cd` or `pushd` with these arguments, which is assumed to succeed; `None` if unknown.
pub(super) fn after_cd<'a>(
    directory: Option<&str>,
    mut arguments: impl Iterator<Item = &'a Word>,
) -> Option<String> {
    let is_option = |word: &&Word| matches!(word.known(), Some("-P" | "-L" | "-e" | "--"));
    match arguments.find(|word| !is_option(word)) {
        None => Some("~".to_owned()),
        Some(word) if word.text.starts_with(['+', '-']) => None,
        Some(word) => path_of(directory, word),
    }
}

/// The path that a word names, relative to `directory`; `None` if the text does not determine it.
pub(in super::super) fn path_of(directory: Option<&str>, word: &Word) -> Option<String> {
    let text = word.text.as_str();
    let below = |prefixes: &[&str]| {
        let mut rests = prefixes.iter().filter_map(|prefix| text.strip_prefix(prefix));
        rests.find(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.contains(['$', '`']))
    };
    match word.kind {
        // A quoted tilde is an ordinary character.
        Kind::Literal if text.starts_with('~') => join(directory?, &format!("./{text}")).into(),
        Kind::Literal | Kind::Home
            if text == "~" || text.starts_with('/') || text.starts_with("~/") =>
        {
            Some(join("", text))
        }
        Kind::Literal => Some(join(directory?, text)),
        Kind::Home | Kind::Quoted | Kind::Variable | Kind::Output => {
            if let Some(rest) = below(&["$HOME", "${HOME}"]) {
                return Some(join("", &format!("~{rest}")));
            }
            let rest = below(&["$PWD", "${PWD}", "~+", "$(pwd)", "`pwd`"])?;
            Some(join(directory?, &format!("./{rest}")))
        }
        Kind::Pattern => None,
    }
}

/// Joins and normalises lexically.
pub(in super::super) fn join(directory: &str, path: &str) -> String {
    let base = match path.chars().next() {
        Some('/') => "",
        _ if path == "~" || path.starts_with("~/") => "",
        _ => directory,
    };
    let is_absolute = base.starts_with('/') || base.is_empty() && path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                None if is_absolute => {}
                None | Some(&(".." | "~")) => parts.push(".."),
                Some(_) => _ = parts.pop(),
            },
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if is_absolute { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_lexically() {
        for (directory, path, expected) in [
            ("", "a/./b/../c", "a/c"),
            ("a", "..", ""),
            ("a", "../..", ".."),
            ("", "../x", "../x"),
            ("a", "/etc//x/", "/etc/x"),
            ("/", "../..", "/"),
            ("/tmp", "x", "/tmp/x"),
            ("a", "~/x", "~/x"),
            ("~", "..", "~/.."),
            ("", ".", ""),
        ] {
            assert_eq!(join(directory, path), expected, "{directory} {path}");
        }
    }

    #[test]
    fn path_of_a_word_is_known_only_if_static() {
        for (text, kind, expected) in [
            ("b", Kind::Literal, Some("a/b")),
            ("~", Kind::Home, Some("~")),
            ("~/x/..", Kind::Home, Some("~")),
            ("~", Kind::Literal, Some("a/~")),
            ("$HOME/", Kind::Variable, Some("~")),
            ("${HOME}/x", Kind::Quoted, Some("~/x")),
            ("~+/x", Kind::Home, Some("a/x")),
            ("$PWD/..", Kind::Quoted, Some("")),
            ("$x/y", Kind::Variable, None),
            ("$HOMER", Kind::Variable, None),
            ("*.c", Kind::Pattern, None),
        ] {
            let word = Word { text: text.to_owned(), kind };
            assert_eq!(path_of(Some("a"), &word).as_deref(), expected, "{text}");
        }
    }
}
