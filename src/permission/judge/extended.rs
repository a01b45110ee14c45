//! Patterns of `extglob`: `@(a|b)`, `!(a)` and their kin, as wider ones that others understand.

use regex::Regex;

use crate::permission::pattern;
use crate::protocol::nests_too_deep;

/// What a group at the beginning of a name may stand for: nothing, or what is hidden.
const BEGINS: [&str; 3] = ["*", ".*", ""];

/// Patterns that stand for more than this one does, and what of that it stands for; `None` where it has no such group.
pub(super) fn wider(pattern: &str) -> Option<(Vec<String>, Regex)> {
    let begins = |at: usize| pattern.as_bytes().get(at + 1) == Some(&b'(');
    if !pattern.match_indices(['@', '?', '*', '+', '!']).any(|(at, _)| begins(at)) {
        return None;
    }
    // A hidden file is met where the pattern says its dot.
    let says_dot = ["(.", "|.", ")."].iter().any(|sign| pattern.contains(sign));
    let (mut wide, mut exact) = (String::new(), String::from("^"));
    let mut open: Vec<char> = Vec::new();
    let mut begins_with_group = false;
    let mut chars = pattern.char_indices();
    while let Some((at, char)) = chars.next() {
        let is_outside = open.is_empty();
        match char {
            '@' | '?' | '*' | '+' | '!' if begins(at) => {
                chars.next();
                if is_outside {
                    begins_with_group |= wide.is_empty() || wide.ends_with('/');
                    wide.push('*');
                }
                open.push(char);
                // (What is none of these may be anything.)
                exact.push_str(if char == '!' { "(?:.*|" } else { "(?:" });
                continue;
            }
            ')' if !is_outside => {
                exact.push(')');
                exact.extend(open.pop().filter(|kind| "?*+".contains(*kind)));
            }
            '|' if !is_outside => exact.push('|'),
            '*' => exact.push_str(".*"),
            '?' => exact.push('.'),
            '[' if let Some(class) = pattern::class(&pattern[at..], true) => {
                let written = &pattern[at..at + class.length];
                chars.nth(written.chars().count() - 2);
                exact.push('.');
                if is_outside {
                    wide.push('?');
                }
                continue;
            }
            _ => exact.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
        }
        if is_outside {
            wide.push(char);
        }
    }
    exact.push('$');
    let exact = if nests_too_deep(pattern) { ".*" } else { &exact };
    let exact = Regex::new(exact).or_else(|_| Regex::new("")).ok()?;
    let all = if begins_with_group && says_dot {
        let at = wide.rfind('/').map_or(0, |at| at + 1);
        let rest = wide[at..].trim_start_matches('*');
        let names =
            BEGINS.iter().map(|begin| format!("{begin}{rest}")).filter(|name| !name.is_empty());
        names.map(|name| format!("{}{name}", &wide[..at])).collect()
    } else {
        vec![wide]
    };
    Some((all, exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected_wide: &[&str], fits: &[&str], fits_not: &[&str]) {
        let (wide, exact) = wider(pattern).expect(pattern);
        assert_eq!(wide, expected_wide, "{pattern}");
        for path in fits {
            assert!(exact.is_match(path), "{pattern} on {path}");
        }
        for path in fits_not {
            assert!(!exact.is_match(path), "{pattern} on {path}");
        }
    }

    #[test]
    fn groups_are_read_as_wider_patterns() {
        check("@(.env)", &["*", ".*"], &[".env"], &["a.env", "env"]);
        check("sub/.e!(x)*", &["sub/.e**"], &["sub/.env"], &["sub/env"]);
        check("*.@(rs|md)", &["*.*"], &["a.rs", "b.md"], &["a.rst"]);
        check("+([a-z]).txt", &["*.txt", ".*.txt", ".txt"], &["ab.txt"], &[".txt"]);
        check("?(a)b*(c|d+(e))", &["*b*"], &["b", "abcdeec"], &["aab", "abf"]);
        check("a*(b", &["a*"], &["a", "a("], &[]);
        for pattern in ["a*", "a(b)", "[@]x"] {
            assert!(wider(pattern).is_none(), "{pattern}");
        }
    }
}
