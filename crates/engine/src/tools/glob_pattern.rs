//! Glob patterns of Glob, Grep and LS.

use globset::{GlobBuilder, GlobMatcher};

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
            let message = format!("the pattern {pattern:?} is not a valid glob: {}", error.kind());
            Failure::new(ErrorCode::InvalidParam, message)
                .with_hint("put a `\\` before a special character that is meant literally")
        })
}
