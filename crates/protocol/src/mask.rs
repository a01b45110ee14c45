//! Masks secrets in texts before any sink receives them: well-known formats of keys, values that are known
//! to be secret, and the user's own expressions. A masked secret reads `[redacted:KIND]`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::packed;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use super::envelope::{Envelope, Verdict};

/// Start of a mask; its kind and `]` follow.
pub const MASK: &str = "[redacted:";

/// The mask of a secret of this kind.
pub fn mask_for_kind(kind: &str) -> String {
    format!("{MASK}{kind}]")
}

/// The ranges of the masks in a text.
pub fn find_masks(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    text.match_indices(MASK).filter_map(|(start, mark)| {
        let kind = &text[start + mark.len()..];
        let end = kind.find(']')?;
        let is_kind = end > 0
            && kind[..end].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        is_kind.then_some(start..start + mark.len() + end + 1)
    })
}

/// Kind and pattern of well-known secrets. The secret is the pattern's first group if it has one, else the
/// whole match. The patterns also match in JSON: they contain nothing that JSON escapes, except the line
/// breaks of the private key, which may be `\n` in two characters.
const SECRET_PATTERNS: &[(&str, &str)] = &[
    (
        "private-key",
        // Its lines may be numbered, and its end may be missing.
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\:,.|-]{16,}?-----END [A-Z ]*PRIVATE KEY-----|[A-Za-z0-9+/=\s\\:,.|-]{16,})",
    ),
    ("api-key", r"\b(?:sk|rk|pk)-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_-]{20,}"),
    ("api-key", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("gitlab-token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("slack-token", r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("bearer", r"\b(?:[Bb]earer|BEARER)\s+([A-Za-z0-9._~+/-]{16,}=*)"),
    ("url-password", r"\b[a-z][a-z0-9+.-]*://[^\s/:@'\x22]*:([^\s/:@'\x22]{3,})@"),
];

const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "COOKIE",
    "AUTHORIZATION",
];
/// Prefixes of variables that unlock password managers (Bitwarden and 1Password).
const VAULT_PREFIXES: &[&str] = &["BW_SESSION", "OP_SESSION"];
/// Count only as whole words: not in `MONKEY` or `AUTHOR`.
const SECRET_PARTS: &[&str] = &["KEY", "AUTH", "PAT", "PWD", "PASS", "JWT", "WEBHOOK"];

/// Every text that matches a well-known pattern contains one of these.
const HINTS: &[&str] = &[
    "PRIVATE KEY-----",
    "sk-",
    "rk-",
    "pk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "AIza",
    "xox",
    "hf_",
    "npm_",
    "eyJ",
    "earer",
    "BEARER",
    "://",
];

/// `None` if the processor lacks the instructions for it.
static HINT_SEARCHER: LazyLock<Option<packed::Searcher>> =
    LazyLock::new(|| packed::Searcher::new(HINTS));

/// All well-known patterns in one expression: most texts match none, and are scanned once.
static ANY_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let any: Vec<String> = SECRET_PATTERNS
        .iter()
        .map(|(_, shape)| format!("(?:{})", allow_color_prefix(shape)))
        .collect();
    Regex::new(&any.join("|")).expect("the shapes are expressions")
});

static COMPILED_PATTERNS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compiled =
        |shape| Regex::new(&allow_color_prefix(shape)).expect("the shapes are expressions");
    SECRET_PATTERNS.iter().map(|(kind, shape)| (*kind, compiled(shape))).collect()
});

/// The pattern may also begin after a colour sequence, whose last character is a letter.
fn allow_color_prefix(shape: &str) -> String {
    match shape.strip_prefix(r"\b") {
        Some(rest) => format!(r"(?:\b|\x1b\[[0-9;]*m){rest}"),
        None => shape.to_owned(),
    }
}

/// Masks secrets in texts; by default those with a well-known pattern.
#[derive(Debug, Default)]
pub struct Masker {
    extra: Vec<Regex>,
    values: Vec<(String, String)>,
}

impl Masker {
    /// A masker for the well-known patterns, these expressions (`record.redact_extra`) and these variables.
    pub fn new(
        environment: impl IntoIterator<Item = (String, String)>,
        extra: &[String],
    ) -> Result<Self, regex::Error> {
        let extra = extra.iter().map(|shape| Regex::new(shape)).collect::<Result<_, _>>()?;
        let mut values: Vec<(String, String)> = environment
            .into_iter()
            .filter(|(name, value)| is_secret_name(name) && looks_secret(value))
            .map(|(name, value)| (value, mask_for_kind(&name)))
            .collect();
        // A secret that contains another is masked first.
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        Ok(Self { extra, values })
    }

    /// Adds a secret value, such as a key in use; values below 4 bytes are ignored.
    pub fn add_secret(&mut self, kind: &str, value: &str) {
        if value.len() >= 4 {
            self.values.insert(0, (value.to_owned(), mask_for_kind(kind)));
        }
    }

    /// Quick test; the text may be JSON.
    pub(super) fn may_contain_secret(&self, text: &str) -> bool {
        // Patterns are searched in the unescaped texts: in JSON a line break before a secret is a letter.
        !self.extra.is_empty()
            || self.values.iter().any(|(value, _)| text.contains(value.as_str()))
            || HINT_SEARCHER.as_ref().is_none_or(|hint| hint.find(text).is_some())
    }

    /// A value as one line of JSON, with the secrets in its texts masked.
    pub fn to_masked_json(&self, value: &impl Serialize) -> String {
        // The values hold only strings, numbers and maps with string keys: serialising does not fail.
        let line = serde_json::to_string(value).unwrap_or_default();
        if !self.may_contain_secret(&line) {
            return line;
        }
        let mut value = serde_json::to_value(value).unwrap_or_default();
        self.mask_value(&mut value);
        value.to_string()
    }

    /// Masks the texts of a result; status and error code stay, whatever an expression matches.
    pub fn mask_envelope(&self, envelope: &mut Envelope) {
        let objects = [&mut envelope.data, &mut envelope.context.params_input];
        objects.into_iter().flatten().for_each(|(_, value)| self.mask_value(value));
        self.mask_text(&mut envelope.text);
        if let Verdict::Error { error } = &mut envelope.verdict {
            self.mask_text(&mut error.message);
            error.hint.as_mut().into_iter().for_each(|hint| self.mask_text(hint));
        }
    }

    fn mask_text(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text) {
            *text = masked;
        }
    }

    /// Masks the secrets in every text of a JSON value, so that it stays valid JSON.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.mask_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.mask_value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The masked text; borrowed if nothing was masked.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.may_contain_secret(text) {
            return Cow::Borrowed(text);
        }
        let mut text = self.mask_known_secrets(text);
        for shape in &self.extra {
            text = mask_pattern("extra", shape, text);
        }
        text
    }

    /// Masks without the user's expressions, which may match anything.
    pub(super) fn mask_known_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = replace_values(text, &self.values);
        if ANY_PATTERN.is_match(&text) {
            for (kind, shape) in COMPILED_PATTERNS.iter() {
                text = mask_pattern(kind, shape, text);
            }
        }
        text
    }
}

pub(super) fn replace_values<'a>(text: &'a str, values: &[(String, String)]) -> Cow<'a, str> {
    values.iter().fold(Cow::Borrowed(text), |text, (value, mask)| {
        if text.contains(value) { text.replace(value, mask).into() } else { text }
    })
}

fn mask_pattern<'a>(kind: &str, shape: &Regex, text: Cow<'a, str>) -> Cow<'a, str> {
    let masked = shape.replace_all(&text, |found: &regex::Captures<'_>| {
        let whole = &found[0];
        match found.get(1) {
            Some(secret) => whole.replace(secret.as_str(), &mask_for_kind(kind)),
            None => mask_for_kind(kind),
        }
    });
    match masked {
        Cow::Owned(masked) => Cow::Owned(masked),
        Cow::Borrowed(_) => text,
    }
}

pub(super) fn find_known_secrets(text: &str) -> Vec<(&'static str, &str)> {
    if !ANY_PATTERN.is_match(text) {
        return Vec::new();
    }
    let found = |(kind, shape): &'static (&'static str, Regex)| {
        let all = shape.captures_iter(text);
        all.filter_map(|found| Some((*kind, found.get(1).or_else(|| found.get(0))?.as_str())))
    };
    COMPILED_PATTERNS.iter().flat_map(found).collect()
}

/// Whether the name of a variable says that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The name of a variable that holds a key is not a key; the shell's directory is not a password.
    if name.ends_with("_ENV") || matches!(name.as_str(), "PWD" | "OLDPWD") {
        return false;
    }
    SECRET_WORDS.iter().any(|word| name.contains(word))
        // The URL of the team's database may have a password.
        || name == "AGENT_TEAM_DATABASE"
        // The headers of requests to a receiver of telemetry.
        || (name.starts_with("OTEL_") && name.ends_with("_HEADERS"))
        || VAULT_PREFIXES.iter().any(|begin| name.starts_with(begin))
        || name.split(['_', '-']).any(|part| SECRET_PARTS.contains(&part))
}

/// Whether a value looks like a key: masking words, paths and addresses makes texts unreadable.
pub fn looks_secret(value: &str) -> bool {
    let is_place = value.starts_with(['/', '~', '.']) || value.contains("://");
    // Such a value would be escaped in JSON, and not be found in it.
    if value.len() < 8 || is_place || value.contains([' ', '\\', '"', '\n', '\t']) {
        return false;
    }
    let mut counts = [0u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX));
    let entropy: f64 = counts
        .iter()
        .filter(|n| **n > 0)
        .map(|n| f64::from(*n) / length)
        .map(|share| -share * share.log2())
        .sum();
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    has_digit && has_letter && entropy >= 2.75
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_at_the_start_of_a_line_is_masked_in_json() {
        let masker = Masker::new([], &[]).expect("no expressions");
        let value = serde_json::json!({"text": "first\nAKIAIOSFODNN7EXAMPLE\n"});
        assert_eq!(masker.to_masked_json(&value), r#"{"text":"first\n[redacted:aws-key]\n"}"#);
    }

    fn check(text: &str, expected: &str) {
        let environment = [
            ("MY_API_KEY", "q7Zp-93kd-Lmx2-0aWb"),
            ("MONKEY", "banana"),
            ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
            ("PLAIN", "q7Zp93kdLmx20aWbXX"),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYz1"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut masker = Masker::new(environment, &["cust-[0-9]+".to_owned()]).expect("shapes");
        masker.add_secret("model-key", "local-pass");
        assert_eq!(masker.mask(text), expected);
    }

    #[test]
    fn well_known_secret_formats_are_masked() {
        check("key sk-proj-abcdefghij0123456789ABCD!", "key [redacted:api-key]!");
        check("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted:github-token]");
        check("id AKIAIOSFODNN7EXAMPLE.", "id [redacted:aws-key].");
        check("\x1b[32mAKIAIOSFODNN7EXAMPLE\x1b[0m", "[redacted:aws-key]\x1b[0m");
        check(
            "1 | -----BEGIN PRIVATE KEY-----\n2 | MIIEvQIBADANBgkqhkiG9w0\n3 | rest+of/it==\n",
            "1 | [redacted:private-key]",
        );
        check(
            "Authorization: Bearer abcdef0123456789abcdef",
            "Authorization: Bearer [redacted:bearer]",
        );
        check("postgres://me:hunter22@host/db", "postgres://me:[redacted:url-password]@host/db");
    }

    #[test]
    fn a_private_key_is_masked_in_plain_text_and_in_json() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc+/def==\nabcdefghijkl\n-----END RSA PRIVATE KEY-----";
        check(key, "[redacted:private-key]");
        let json = serde_json::to_string(key).expect("a string");
        check(&json, "\"[redacted:private-key]\"");
    }

    #[test]
    fn known_values_and_custom_expressions_are_masked() {
        check("use q7Zp-93kd-Lmx2-0aWb now", "use [redacted:MY_API_KEY] now");
        check("local-pass", "[redacted:model-key]");
        check("wJalrXUtnFEMI/K7MDENG+bPxRfiCYz1;", "[redacted:AWS_SECRET_ACCESS_KEY];");
        check("cust-123", "[redacted:extra]");
    }

    #[test]
    fn secret_variable_names_are_recognised() {
        for name in [
            "OPENAI_API_KEY",
            "GH_TOKEN",
            "DB_PASSWORD",
            "NPM_AUTH",
            "MYAPIKEY",
            "CI_JOB_JWT",
            "OP_SESSION_x",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "MONKEY",
            "GIT_AUTHOR_NAME",
            "XAUTHORITY",
            "PWD",
            "OPENAI_API_KEY_ENV",
            "DESKTOP_SESSION",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn words_paths_and_unnamed_values_are_not_masked() {
        for text in ["banana", "/run/user/1000/keyring/ssh", "q7Zp93kdLmx20aWbXX", "task-force"] {
            check(text, text);
        }
    }
}
