//! Where commands run: folders that are followed through `cd`, by their names alone.

use super::word::{Kind, Word};

/// A folder: relative to the project's root (`""`, `a/b`, `../c`), from the root of all (`/etc`), from the
/// home (`~`, `~/x`); `None` where it is not known.
pub(in super::super) type Dir = Option<String>;

/// A path as seen from a folder, without `.` and, as far as that goes, `..`.
pub(in super::super) fn join(dir: &str, path: &str) -> String {
    let base = match path.chars().next() {
        Some('/') => "",
        _ if path == "~" || path.starts_with("~/") => "",
        _ => dir,
    };
    let is_absolute = base.starts_with('/') || base.is_empty() && path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                // Above the home is a place without a name.
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

/// The path that a word names: literal, or from the home or the folder it runs in.
pub(in super::super) fn path_of(dir: &Dir, word: &Word) -> Dir {
    let text = word.text.as_str();
    let from_variable = |name: &str| {
        let rest = [format!("${name}"), format!("${{{name}}}")]
            .iter()
            .find_map(|begin| text.strip_prefix(begin.as_str()).map(ToOwned::to_owned))?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    match word.kind {
        // A file of that name, which `join` would take for the home.
        Kind::Literal if text.starts_with('~') => None,
        Kind::Literal => match dir {
            Some(dir) => Some(join(dir, text)),
            None => text.starts_with('/').then(|| join("", text)),
        },
        Kind::Home if text == "~" || text.starts_with("~/") => Some(join("", text)),
        Kind::Variable => {
            let rest = from_variable("HOME");
            if let Some(rest) = rest.filter(|rest| !rest.contains('$')) {
                return Some(join("", &format!("~{rest}")));
            }
            let rest = from_variable("PWD").filter(|rest| !rest.contains('$'))?;
            dir.as_ref().map(|dir| join(dir, &format!("./{rest}")))
        }
        Kind::Pattern | Kind::Home | Kind::Output => None,
    }
}

/// Where `cd` goes from here.
pub(super) fn after_cd(dir: &Dir, arguments: &[Word]) -> Dir {
    let mut targets = arguments.iter().filter(|word| {
        !(word.is_literal() && matches!(word.text.as_str(), "-P" | "-L" | "-e" | "--" | "-n"))
    });
    match targets.next() {
        None => Some("~".to_owned()),
        Some(word) if word.text == "-" || word.text.starts_with(['+', '-']) => None,
        Some(word) => path_of(dir, word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_by_their_names() {
        for (dir, path, expected) in [
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
            assert_eq!(join(dir, path), expected, "{dir} {path}");
        }
    }
}
