//! Redacts secrets of the project in command output, by their values.

use std::borrow::Cow;

use super::mask::{find_known_secrets, is_secret_name, mask_for_kind, replace_values};

/// Shorter values are too common to be secrets.
const MIN_LENGTH: usize = 8;

/// The values to remove from a text, each with its replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactor {
    values: Vec<(String, String)>,
}

impl Redactor {
    /// The secrets in these texts: values with secret-like names, and keys in well-known formats.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<(String, String)> = Vec::new();
        for text in texts {
            let named =
                text.lines().filter_map(parse_variable).filter(|(name, _)| is_secret_name(name));
            let shapes = find_known_secrets(text).into_iter().flat_map(|(kind, value)| {
                // The lines of a private key also occur one by one.
                let lines: Vec<&str> =
                    value.lines().filter(|line| !line.starts_with('-')).collect();
                [value].into_iter().chain(lines).map(move |value| (kind, value))
            });
            for (name, value) in named.chain(shapes) {
                let value = value.trim();
                let is_known = values.iter().any(|(known, _)| known == value);
                if value.len() >= MIN_LENGTH && !is_path(value) && !is_known {
                    values.push((value.to_owned(), mask_for_kind(name)));
                }
            }
        }
        // A secret that contains another goes first.
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The text without the values.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replace_values(text, &self.values)
    }

    /// Redacts a text in place.
    pub fn redact_in(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redact(text) {
            *text = redacted;
        }
    }
}

/// A path is where a secret is, not the secret.
fn is_path(value: &str) -> bool {
    let is_mixed = value.bytes().any(|byte| byte.is_ascii_uppercase())
        && value.bytes().any(|byte| byte.is_ascii_lowercase())
        && value.bytes().any(|byte| byte.is_ascii_digit());
    ["./", "../", "~/"].iter().any(|begin| value.starts_with(begin))
        || value.starts_with('/') && !is_mixed
}

/// `NAME=value`, `export NAME="value"`, `NAME: value`, `"NAME": "value",` or `password value`.
fn parse_variable(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    // (`//host/:_authToken=value` has a colon in its name.)
    let separator = line.find(['=', ':']).filter(|at| !line[..*at].contains('/'));
    let (name, value) = match separator.or_else(|| line.find('=')) {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => line.rsplit_once(char::is_whitespace)?,
    };
    let name = name.trim().trim_matches(['"', '\'']);
    let is_before = |char: char| char.is_whitespace() || char == ':';
    let name = name.rsplit(is_before).next().unwrap_or(name);
    let value = value.trim().trim_end_matches([',', ';']);
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return Some((name, rest.split(quote).next().unwrap_or(rest)));
        }
    }
    Some((name, value.split(" #").next().unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, output: &str, expected: &str) {
        assert_eq!(Redactor::from_texts([file]).redact(output), expected, "{file}");
    }

    #[test]
    fn values_of_secret_variables_are_redacted() {
        let expected = "it is [redacted:API_KEY].";
        for file in [
            "API_KEY=hunter2hunter2",
            "A=b\nexport API_KEY='hunter2hunter2' # x\n",
            "API_KEY: \"hunter2hunter2\"",
            "{\n  \"API_KEY\": \"hunter2hunter2\",\n}",
            "  API_KEY = hunter2hunter2 # comment",
        ] {
            check(file, "it is hunter2hunter2.", expected);
        }
        check("machine x login y password hunter2hunter2", "hunter2hunter2", "[redacted:password]");
        check("//host/:_authToken=abcdefgh1", "abcdefgh1", "[redacted:_authToken]");
    }

    #[test]
    fn other_values_are_not_redacted() {
        for file in [
            "API_KEY=short",
            "NAME=hunter2hunter2",
            "# API_KEY=hunter2hunter2",
            "KEY_FILE=./certs/hunter2hunter2",
            "",
        ] {
            check(file, "short ./certs/hunter2hunter2", "short ./certs/hunter2hunter2");
        }
    }

    #[test]
    fn known_formats_and_longest_values_are_redacted_first() {
        check("URL=postgres://me:hunter22@host/db", "hunter22", "[redacted:url-password]");
        check(
            "A_TOKEN=abcdefgh\nB_TOKEN=abcdefghijkl",
            "abcdefghijkl abcdefgh",
            "[redacted:B_TOKEN] [redacted:A_TOKEN]",
        );
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----";
        check(key, "2 MIIEvQIBADANBgkqhkiG9w0", "2 [redacted:private-key]");
    }
}
