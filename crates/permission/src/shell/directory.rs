//! Determines the directory in which each command of a line runs, following `cd`.
//!
//! A directory is relative to the project root (`""`, `a/b`, `../c`), absolute (`/etc`), or below
//! the home (`~`, `~/x`).

use super::word::{Word, WordKind};

/// Assumes that `cd` or `pushd` succeeds; `None` if the directory is unknown.
pub(super) fn after_cd<'a>(
    directory: Option<&str>,
    mut arguments: impl Iterator<Item = &'a Word>,
) -> Option<String> {
    let is_option = |word: &&Word| matches!(word.literal_text(), Some("-P" | "-L" | "-e" | "--"));
    match arguments.find(|word| !is_option(word)) {
        None => Some("~".to_owned()),
        Some(word) if word.text.starts_with(['+', '-']) => None,
        Some(word) => resolve_word(directory, word),
    }
}

/// Relative to `directory`; `None` if the text does not determine the path.
pub(crate) fn resolve_word(directory: Option<&str>, word: &Word) -> Option<String> {
    let text = word.text.as_str();
    let below = |prefixes: &[&str]| {
        let mut rests = prefixes.iter().filter_map(|prefix| text.strip_prefix(prefix));
        rests.find(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.contains(['$', '`']))
    };
    match word.kind {
        // A quoted tilde is an ordinary character.
        WordKind::Literal if text.starts_with('~') => join(directory?, &format!("./{text}")).into(),
        WordKind::Literal | WordKind::Home
            if text == "~" || text.starts_with('/') || text.starts_with("~/") =>
        {
            Some(join("", text))
        }
        WordKind::Literal => Some(join(directory?, text)),
        WordKind::Home | WordKind::Quoted | WordKind::Variable | WordKind::Output => {
            if let Some(rest) = below(&["$HOME", "${HOME}"]) {
                return Some(join("", &format!("~{rest}")));
            }
            let rest = below(&["$PWD", "${PWD}", "~+", "$(pwd)", "`pwd`"])?;
            Some(join(directory?, &format!("./{rest}")))
        }
        WordKind::Pattern => None,
    }
}

/// Normalises lexically.
pub(crate) fn join(directory: &str, path: &str) -> String {
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
            ("b", WordKind::Literal, Some("a/b")),
            ("~", WordKind::Home, Some("~")),
            ("~/x/..", WordKind::Home, Some("~")),
            ("~", WordKind::Literal, Some("a/~")),
            ("$HOME/", WordKind::Variable, Some("~")),
            ("${HOME}/x", WordKind::Quoted, Some("~/x")),
            ("~+/x", WordKind::Home, Some("a/x")),
            ("$PWD/..", WordKind::Quoted, Some("")),
            ("$x/y", WordKind::Variable, None),
            ("$HOMER", WordKind::Variable, None),
            ("*.c", WordKind::Pattern, None),
        ] {
            let word = Word { text: text.to_owned(), kind };
            assert_eq!(resolve_word(Some("a"), &word).as_deref(), expected, "{text}");
        }
    }
}
