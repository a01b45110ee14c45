//! Directives: sentences of the user that the program itself acts on (`data/directives.toml`).
//!
//! A sentence counts only as a whole; code, quotations, citations, pastes and piped input do not count.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::control::PermissionMode;

/// An instruction to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Switches to this mode, which permits less.
    Mode(PermissionMode),
    /// Returns to the mode before [`Directive::Mode`].
    RestoreMode,
    /// Denies changes of this path, if it exists.
    Protect(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DirectiveEffect {
    Interrupt,
    ReadOnly,
    Ask,
    RestoreMode,
    Protect,
}

#[derive(Deserialize)]
struct DirectiveList {
    fillers: Vec<String>,
    directive: Vec<DirectiveEntry>,
}

#[derive(Deserialize)]
struct DirectiveEntry {
    effect: DirectiveEffect,
    sentences: Vec<String>,
}

static DIRECTIVES: LazyLock<DirectiveList> = LazyLock::new(|| {
    toml::from_str(super::embedded::DIRECTIVES)
        .unwrap_or(DirectiveList { fillers: Vec::new(), directive: Vec::new() })
});

/// A message of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInput {
    pub text: String,
    /// Ranges of `text` that were pasted or piped in: they contain no directives of the user.
    pub pasted: Vec<Range<usize>>,
    /// Sent to the model instead of the text: the prompt of a command such as `/review`.
    pub prompt: Option<String>,
    /// Mentions in the prompt of a command, each with its `@`; they count as typed by the user.
    pub mentions: Vec<String>,
    pub images: Vec<Vec<u8>>,
}

impl UserInput {
    /// Joins several messages with this separator.
    pub fn join(messages: Vec<Self>, between: &str) -> Self {
        let mut joined = Self::default();
        if messages.iter().any(|message| message.prompt.is_some()) {
            let prompts: Vec<&str> = messages.iter().map(Self::model_text).collect();
            joined.prompt = Some(prompts.join(between));
        }
        for message in messages {
            if !joined.text.is_empty() {
                joined.text.push_str(between);
            }
            let start = joined.text.len();
            let shifted = message.pasted.iter().map(|range| start + range.start..start + range.end);
            joined.pasted.extend(shifted);
            joined.text.push_str(&message.text);
            joined.mentions.extend(message.mentions);
            joined.images.extend(message.images);
        }
        joined
    }

    /// The text for the model: the prompt, or else the text.
    pub fn model_text(&self) -> &str {
        self.prompt.as_deref().unwrap_or(&self.text)
    }

    /// Removes trailing white space.
    pub fn trim_end(&mut self) {
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        self.pasted.retain_mut(|range| {
            range.end = range.end.min(end);
            range.start < range.end
        });
    }

    /// Adds text that was pasted.
    pub fn push_pasted(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.pasted.push(start..self.text.len());
    }

    /// The text without the pasted ranges.
    pub fn typed_text(&self) -> String {
        let mut typed = self.text.clone();
        for range in self.pasted.iter().rev() {
            typed.replace_range(range.clone(), "\n");
        }
        typed
    }

    /// The directives of the message in order, each with its sentence.
    pub fn directives(&self) -> Vec<(Directive, String)> {
        find_directives(&self.typed_text())
    }

    /// Whether the whole message is a typed request to stop.
    pub fn is_stop_request(&self) -> bool {
        self.pasted.is_empty() && is_stop_phrase(&self.text)
    }
}

impl From<String> for UserInput {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for UserInput {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

fn is_stop_phrase(message: &str) -> bool {
    // The longest stop phrase is far shorter.
    message.len() <= 100
        && listed_sentences(DirectiveEffect::Interrupt).any(|listed| *listed == normalize(message))
}

fn find_directives(message: &str) -> Vec<(Directive, String)> {
    let found = extract_sentences(message).into_iter().filter_map(|sentence| {
        let directive = parse_directive(sentence)?;
        Some((directive, sentence.to_owned()))
    });
    found.collect()
}

fn parse_directive(sentence: &str) -> Option<Directive> {
    let normal = normalize(sentence);
    let is_listed = |effect| listed_sentences(effect).any(|listed| *listed == normal);
    if is_listed(DirectiveEffect::ReadOnly) {
        Some(Directive::Mode(PermissionMode::ReadOnly))
    } else if is_listed(DirectiveEffect::Ask) {
        Some(Directive::Mode(PermissionMode::Ask))
    } else if is_listed(DirectiveEffect::RestoreMode) {
        Some(Directive::RestoreMode)
    } else {
        protected_path(sentence).map(Directive::Protect)
    }
}

fn listed_sentences(effect: DirectiveEffect) -> impl Iterator<Item = &'static String> {
    DIRECTIVES
        .directive
        .iter()
        .filter(move |entry| entry.effect == effect)
        .flat_map(|entry| &entry.sentences)
}

/// The path in "don't touch PATH", with or without quotes or backticks.
fn protected_path(sentence: &str) -> Option<String> {
    let sentence = unify_negations(trim_fillers(sentence.trim_end_matches(is_sentence_end)));
    listed_sentences(DirectiveEffect::Protect).find_map(|listed| {
        let lead = listed.strip_suffix("{path}")?;
        // Chinese is written with or without a blank here.
        let lead = if lead.is_ascii() { lead } else { lead.trim_end() };
        let (start, path) = sentence.split_at_checked(lead.len())?;
        let path = path.trim();
        let is_quoted =
            |quote: &char| path.len() > 2 && path.starts_with(*quote) && path.ends_with(*quote);
        let path = match ['`', '"', '\''].iter().find(|quote| is_quoted(quote)) {
            Some(_) => &path[1..path.len() - 1],
            None => path,
        };
        let is_path = !path.is_empty() && !path.contains(['`', '"', '\'']);
        (start.eq_ignore_ascii_case(lead) && is_path).then(|| path.to_owned())
    })
}

/// Lower case, without punctuation and without filler words at the ends.
fn normalize(sentence: &str) -> String {
    let plain: String = unify_negations(sentence)
        .chars()
        .map(|char| if char.is_alphanumeric() || char == '\'' { char } else { ' ' })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    trim_fillers(&words.join(" ")).to_lowercase()
}

/// Replaces "do not" and similar spellings by "don't".
fn unify_negations(sentence: &str) -> String {
    let text = sentence.replace('’', "'");
    let starts = ["do not ", "dont ", "don't "];
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(char) = rest.chars().next() {
        let is_word_start = out.chars().last().is_none_or(|before| !before.is_alphanumeric());
        let found = starts.iter().find(|start| {
            is_word_start
                && rest.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
        });
        if let Some(start) = found {
            out.push_str("don't ");
            rest = &rest[start.len()..];
        } else {
            out.push(char);
            rest = &rest[char.len_utf8()..];
        }
    }
    out
}

fn trim_fillers(text: &str) -> &str {
    let mut text =
        text.trim_matches(|char: char| char.is_whitespace() || ",，、:：".contains(char));
    loop {
        let before = text;
        for filler in &DIRECTIVES.fillers {
            let n = filler.len();
            let is_filler =
                |part: Option<&str>| part.is_some_and(|part| part.eq_ignore_ascii_case(filler));
            // English words are separated by blanks, Chinese ones are not.
            let separates = |char: Option<char>| {
                !filler.is_ascii()
                    || char.is_some_and(|char| !char.is_alphanumeric() && char != '\'')
            };
            if is_filler(text.get(..n)) && separates(text[n..].chars().next()) {
                text = text[n..].trim_start_matches(|char: char| {
                    !char.is_alphanumeric() && !"`\"'./~".contains(char)
                });
            }
            let start = text.len().saturating_sub(n);
            if is_filler(text.get(start..)) && separates(text[..start].chars().last()) {
                text = text[..start]
                    .trim_end_matches(|char: char| char.is_whitespace() || ",，".contains(char));
            }
        }
        if text == before {
            return text;
        }
    }
}

/// Only sentences outside code blocks and citations, without questions.
fn extract_sentences(message: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for line in message.lines() {
        let trimmed = line.trim();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
            fence = match fence {
                None => Some(mark),
                Some(open) if open == mark => None,
                other => other,
            };
        } else if fence.is_none() && !trimmed.starts_with('>') {
            split_sentences(strip_list_marker(trimmed), &mut found);
        }
    }
    found
}

const QUOTES: [(char, char); 5] = [('`', '`'), ('"', '"'), ('“', '”'), ('「', '」'), ('『', '』')];

/// Splits at the ends of sentences outside quotes and code.
fn split_sentences<'a>(line: &'a str, found: &mut Vec<&'a str>) {
    let (mut start, mut closing) = (0, None);
    let mut chars = line.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        if let Some(close) = closing {
            if char == close {
                closing = None;
            }
            continue;
        }
        if let Some((_, close)) = QUOTES.iter().find(|(open, _)| *open == char) {
            closing = Some(*close);
            continue;
        }
        let is_last =
            chars.peek().is_none_or(|(_, next)| next.is_whitespace() || is_sentence_end(*next));
        // A dot inside a name ends no sentence.
        if is_sentence_end(char) && (is_last || !char.is_ascii()) {
            let end = at + char.len_utf8();
            push_sentence(&line[start..end], found);
            start = end;
        }
    }
    push_sentence(&line[start..], found);
}

fn push_sentence<'a>(sentence: &'a str, found: &mut Vec<&'a str>) {
    let sentence = sentence.trim();
    let is_question = sentence.ends_with(['?', '？']);
    let is_quoted = QUOTES.iter().any(|(open, _)| sentence.starts_with(*open));
    if sentence.chars().any(char::is_alphanumeric) && !is_question && !is_quoted {
        found.push(sentence);
    }
}

fn is_sentence_end(char: char) -> bool {
    ".!?;。！？；".contains(char)
}

/// Removes `- `, `* ` or `1. ` before a list item.
fn strip_list_marker(line: &str) -> &str {
    let digits = line.trim_start_matches(|char: char| char.is_ascii_digit());
    let numbered = (digits.len() < line.len())
        .then(|| digits.strip_prefix(". ").or(digits.strip_prefix(") ")))
        .flatten();
    let marked = line.strip_prefix("- ").or(line.strip_prefix("* "));
    marked.or(numbered).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(message: &str) -> Vec<Directive> {
        find_directives(message).into_iter().map(|(directive, _)| directive).collect()
    }

    #[test]
    fn directive_list_parses_and_is_normalised() {
        assert!(DIRECTIVES.directive.len() >= 5 && DIRECTIVES.fillers.len() > 5);
        for sentence in DIRECTIVES.directive.iter().flat_map(|entry| &entry.sentences) {
            if !sentence.contains("{path}") {
                assert_eq!(*sentence, normalize(sentence), "it would never match");
            }
        }
    }

    #[test]
    fn stop_phrase_must_be_the_whole_message() {
        for message in [
            "stop",
            "STOP!!",
            "Stop, please.",
            "Stop! Don't do anything!",
            "wait",
            "停",
            "住手！",
            "先停一下。",
        ] {
            assert!(is_stop_phrase(message), "{message}");
        }
        for message in [
            "stop the server",
            "wait for the tests",
            "don't stop",
            "停止服务器",
            "why did you stop?",
            "",
        ] {
            assert!(!is_stop_phrase(message), "{message}");
        }
    }

    #[test]
    fn ask_first_directives_switch_the_mode() {
        use PermissionMode::{Ask, ReadOnly};
        let check = |message: &str, mode| {
            assert_eq!(effects(message), [Directive::Mode(mode)], "{message}");
        };
        check("Don't change anything until I say so. Why does the test fail?", ReadOnly);
        check("Why does it fail? Do not edit anything yet.", ReadOnly);
        check("Please don’t touch anything!", ReadOnly);
        check("看看为什么失败。先不要改。", ReadOnly);
        check("Fix the bug.\n- Ask me before you change anything.", Ask);
        check("未经批准不得操作", Ask);
        check("OK, but no changes without my approval.", Ask);
    }

    #[test]
    fn quoted_and_embedded_sentences_are_not_directives() {
        for message in [
            "The README says \"Don't change anything.\" Fix it.",
            "> Don't change anything.",
            "```\nDon't change anything.\n```\nFix it.",
            "Don't change anything?",
            "Make sure that users don't change anything.",
            "`Don't change anything.`",
            "go ahead with the release notes",
        ] {
            assert_eq!(effects(message), [], "{message}");
        }
    }

    #[test]
    fn directive_limited_to_a_path_switches_no_mode() {
        for message in ["Don't change anything in src/.", "Don't edit anything but a.rs."] {
            let switches = |directive: &Directive| matches!(directive, Directive::Mode(_));
            assert!(!effects(message).iter().any(switches), "{message}");
        }
    }

    #[test]
    fn protect_directive_requires_its_own_sentence() {
        let check = |message: &str, path: &str| {
            assert_eq!(effects(message), [Directive::Protect(path.to_owned())], "{message}");
        };
        check("Fix it. Don't touch src/a.rs.", "src/a.rs");
        check("please do not edit `My File.txt`", "My File.txt");
        check("不要改config.toml。", "config.toml");
        check("别动 src/core", "src/core");
        check("Don't delete tests, please", "tests");
        assert_eq!(effects("Don't touch \"a\" or \"b\""), []);
    }

    #[test]
    fn trimming_keeps_pasted_ranges_correct_when_joined() {
        let mut first = UserInput::from("look: ");
        first.push_pasted("a\n\n\n");
        first.trim_end();
        let joined = UserInput::join(vec![first, "先看。 Don't touch src.".into()], "\n");
        assert_eq!(joined.text, "look: a\n先看。 Don't touch src.");
        assert_eq!(joined.typed_text(), "look: \n\n先看。 Don't touch src.");
        assert_eq!(joined.directives().len(), 1);
        let mut blank = UserInput::default();
        blank.push_pasted("\n\n");
        blank.trim_end();
        assert_eq!(blank, UserInput::default());
    }

    #[test]
    fn go_ahead_directives_restore_the_mode() {
        for message in ["go ahead", "OK, go ahead.", "Yes, go ahead and fix it", "好的，可以改了。"]
        {
            assert_eq!(effects(message), [Directive::RestoreMode], "{message}");
        }
    }
}
