//! The matcher of a search: a regular expression, and text that each matching line contains.

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::RegexMatcher;
use memchr::memmem::Finder;
use regex_syntax::hir::{Hir, HirKind};

/// Shorter text is in too many lines to be worth a search of its own.
const MIN_REQUIRED_BYTES: usize = 3;

/// A regular expression that finds lines by required text where it can.
///
/// `grep-regex` finds lines by the text that a pattern begins with. In `class \w+Controller` that is in every class of a
/// project, and the longer text is at the end.
#[derive(Clone, Debug)]
pub(super) struct LineMatcher {
    regex: RegexMatcher,
    /// Longer than the text that the pattern begins with.
    required: Option<Finder<'static>>,
}

impl LineMatcher {
    /// A matcher of lines; `pattern` is the one that `regex` was built from.
    pub(super) fn for_lines(regex: RegexMatcher, pattern: &str, is_case_sensitive: bool) -> Self {
        let parsed = regex_syntax::ParserBuilder::new()
            .utf8(false)
            .case_insensitive(!is_case_sensitive)
            .build()
            .parse(pattern);
        let required = parsed.ok().and_then(|hir| longest_later_literal(&hir));
        let required = required.map(|text| Finder::new(&text).into_owned());
        Self { regex, required }
    }

    /// A matcher whose matches may go over several lines.
    pub(super) fn for_text(regex: RegexMatcher) -> Self {
        Self { regex, required: None }
    }
}

/// The longest literal of a sequence, unless it is short or the sequence begins with one that is as long.
fn longest_later_literal(hir: &Hir) -> Option<Box<[u8]>> {
    let HirKind::Concat(parts) = hir.kind() else { return None };
    let literal = |part: &Hir| match part.kind() {
        HirKind::Literal(literal) => literal.0.clone(),
        _ => Box::default(),
    };
    let first = literal(parts.first()?);
    let longest = parts.iter().skip(1).map(literal).max_by_key(|literal| literal.len())?;
    (longest.len() > first.len().max(MIN_REQUIRED_BYTES - 1)).then_some(longest)
}

impl Matcher for LineMatcher {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        self.regex.find_at(text, at)
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, NoError> {
        self.regex.shortest_match_at(text, at)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.regex.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.regex.line_terminator()
    }

    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, NoError> {
        match &self.required {
            Some(required) => Ok(required.find(text).map(LineMatchKind::Candidate)),
            None => self.regex.find_candidate_line(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(pattern: &str, is_case_sensitive: bool) -> Option<String> {
        let regex = RegexMatcher::new(pattern).expect("a pattern");
        let required = LineMatcher::for_lines(regex, pattern, is_case_sensitive).required?;
        Some(String::from_utf8_lossy(required.needle()).into_owned())
    }

    #[test]
    fn required_text_is_longer_than_the_beginning() {
        assert_eq!(required(r"fn \w+_77\(", true).as_deref(), Some("_77("));
        assert_eq!(required(r"\bclass \w+Controller$", true).as_deref(), Some("Controller"));
        assert_eq!(required(r"\d+ errors?", true).as_deref(), Some(" error"));
        for none in [r"struct \w+Err", "plain", "one|another", r"(?i)a\w+bcd", r"a(bcd)?", r"\w+"] {
            assert_eq!(required(none, true), None, "{none}");
        }
        assert_eq!(required(r"fn \w+_aa\(", false), None);
    }

    #[test]
    fn lines_are_found_by_required_text_and_checked() {
        let regex = RegexMatcher::new_line_matcher(r"a\w+bcd").expect("a pattern");
        let matcher = LineMatcher::for_lines(regex, r"a\w+bcd", true);
        let mut lines = Vec::new();
        let sink = grep_searcher::sinks::UTF8(|n, line| {
            lines.push((n, line.to_owned()));
            Ok(true)
        });
        let text = b"abcd\nbcd a\naxbcd\n\nbcd axxbcd\n";
        grep_searcher::Searcher::new().search_slice(&matcher, text, sink).expect("searched");
        assert_eq!(lines, [(3, "axbcd\n".to_owned()), (5, "bcd axxbcd\n".to_owned())]);
    }
}
