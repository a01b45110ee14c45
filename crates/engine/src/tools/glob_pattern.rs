//! Glob patterns of Glob, Grep and LS.

use globset::{ErrorKind, GlobBuilder, GlobMatcher};

use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::has_too_many_braces;

/// A glob for paths relative to the start of the search. `*` and `?` do not match `/`, `**` crosses folders;
/// a pattern without `/` matches names in any folder.
pub(super) fn compile_glob(pattern: &str, case_sensitive: bool) -> Result<GlobMatcher, Failure> {
    let anchored = pattern.trim_start_matches("./").trim_start_matches('/');
    if anchored.split('/').any(|part| part == "..") {
        let message = format!("the pattern {pattern:?} leads upwards");
        return Err(Failure::new(ErrorCode::InvalidParam, message)
            .with_hint("name the folder to search in `path`"));
    }
    if has_too_many_braces(anchored) {
        let message = "the pattern is not a valid glob: its braces are nested too deeply";
        return Err(Failure::new(ErrorCode::InvalidParam, message)
            .with_hint("search for a simpler pattern, once for each case"));
    }
    let mut glob = anchored.to_owned();
    if glob.ends_with('/') {
        glob.push_str("**");
    }
    if !pattern.contains('/') {
        glob.insert_str(0, "**/");
    }
    GlobBuilder::new(&glob)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(!case_sensitive)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            let at = error_position(pattern, error.kind());
            let message = format!(
                "the pattern {pattern:?} is not a valid glob: {} at position {at}",
                error.kind()
            );
            Failure::new(ErrorCode::InvalidParam, message)
                .with_hint("put a `\\` before a special character that is meant literally")
                .with_data("position", at)
        })
}

/// The position of the error in the pattern, in characters from 1.
fn error_position(pattern: &str, kind: &ErrorKind) -> usize {
    let characters: Vec<char> = pattern.chars().collect();
    let mut in_class = None;
    let mut braces = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        match characters[index] {
            '\\' => index += 1,
            ']' if in_class.is_some_and(|start| index > start + 1) => in_class = None,
            '[' if in_class.is_none() => in_class = Some(index),
            '{' if in_class.is_none() => braces.push(index),
            '}' if in_class.is_none()
                && braces.pop().is_none()
                && *kind == ErrorKind::UnopenedAlternates =>
            {
                return index + 1;
            }
            _ => {}
        }
        index += 1;
    }
    match kind {
        ErrorKind::UnclosedClass => in_class.map_or(1, |at| at + 1),
        ErrorKind::UnclosedAlternates => braces.first().map_or(1, |at| at + 1),
        ErrorKind::InvalidRange(from, to) => {
            let range = [*from, '-', *to];
            characters.windows(3).position(|window| window == range).map_or(1, |at| at + 1)
        }
        ErrorKind::DanglingEscape => characters.len(),
        _ => 1,
    }
}
