//! What a task says: its sentences, what each asks for, and the words in which that is asked (`data/requests.toml`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::super::store::words;
use super::super::topics;

/// Names agree that begin alike in so many letters.
pub(super) const MIN_ALIKE: usize = 4;
/// Chinese words that hold one of denial and deny nothing.
const NO_NEGATION: [&str; 6] = ["分别", "特别", "类别", "级别", "差别", "识别"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requests {
    pub(super) running: Vec<String>,
    describing: Vec<String>,
    negations: Vec<String>,
    acts: Vec<String>,
    texts: Vec<String>,
    text_names: Vec<String>,
    pub(super) changing: Vec<String>,
    pub(super) looking: Vec<String>,
    pub(super) planning: Vec<String>,
}

pub(super) static REQUESTS: LazyLock<Requests> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../data/requests.toml"))
        .expect("data/requests.toml is a table")
});

/// What a task says, read once.
#[derive(Debug)]
pub(in super::super) struct Task {
    pub(super) sentences: Vec<Sentence>,
    pub(super) topics: BTreeSet<&'static str>,
    pub(super) words: BTreeSet<String>,
    /// It is about a text, and nothing is run for it.
    pub(super) is_about_text: bool,
}

#[derive(Debug)]
pub(super) struct Sentence {
    text: String,
    tokens: Vec<String>,
    /// It asks for something to be done or found out.
    pub(super) orders: bool,
    pub(super) is_question: bool,
    /// It says that something is run.
    runs: bool,
}

impl Task {
    /// The task's words; a line of it may be a command that decides about its end.
    pub(in super::super) fn read(text: &str) -> Self {
        let (commands, prose): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| is_command(line));
        let prose = without_quotes(&prose.join("\n"));
        let sentences: Vec<Sentence> = sentences(&prose).map(Sentence::read).collect();
        let mut topics: BTreeSet<&str> =
            commands.iter().filter_map(|line| topics::of_command(line)).collect();
        let orders = sentences.iter().filter(|sentence| sentence.orders);
        topics.extend(orders.flat_map(|sentence| topics::of_words(&sentence.text)));
        let names_text = sentences.iter().any(|sentence| {
            REQUESTS.texts.iter().any(|kind| sentence.names_kind(kind))
                || sentence.has_any(&REQUESTS.text_names)
        });
        let runs = sentences.iter().any(|sentence| sentence.orders && sentence.runs);
        let words = words::of(&prose).into_iter().collect();
        Self { sentences, topics, words, is_about_text: names_text && !runs }
    }

    /// The sentences that ask for something to be done.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Sentence> {
        self.sentences.iter().filter(|sentence| sentence.orders)
    }

    /// It asks for more than words, and says nowhere not to run something. Of a task about a text that holds only where
    /// a source was changed for it all the same.
    pub(in super::super) fn will_run_something(&self, has_changed_source: bool) -> bool {
        let forbids = self.sentences.iter().any(Sentence::forbids_runs);
        let is_work = has_changed_source || !self.is_about_text;
        is_work && !forbids && self.orders().next().is_some()
    }

    /// One of these words stands in it.
    pub(super) fn says(&self, words: &[String]) -> bool {
        self.sentences.iter().any(|sentence| sentence.has_any(words))
    }

    pub(super) fn names_path(&self, path: &str) -> bool {
        let path = path.trim_matches('/').to_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let is_file = name.contains('.');
        self.sentences.iter().flat_map(|sentence| &sentence.tokens).any(|token| {
            *token == path
                || token.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
                || (is_file && token == name)
        })
    }

    pub(super) fn names_no_path(&self) -> bool {
        !self.sentences.iter().any(|sentence| {
            sentence.names_file() || sentence.tokens.iter().any(|token| token.contains('/'))
        })
    }
}

impl Sentence {
    fn read(text: &str) -> Self {
        let is_question = text.trim_end().ends_with(['?', '？']);
        let text = text.to_lowercase();
        let tokens: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.' | '/' | '\''))
            .map(|token| token.trim_matches(['.', '\'', '-', '/']).to_owned())
            .filter(|token| !token.is_empty())
            .collect();
        let first =
            tokens.iter().find(|token| !["please", "now", "then", "and"].contains(&token.as_str()));
        // An English sentence asks for words by how it begins, a Chinese one anywhere.
        let describes = REQUESTS.describing.iter().any(|word| {
            if word.is_ascii() { first == Some(word) } else { text.contains(word.as_str()) }
        });
        let refuses = denied_act(&tokens).is_some() || denies_in_chinese(&text);
        let runs = REQUESTS.running.iter().any(|word| {
            if word.is_ascii() { tokens.contains(word) } else { text.contains(word.as_str()) }
        });
        Self { text, tokens, orders: !describes && !refuses, is_question, runs }
    }

    /// It says that something is not to be run.
    fn forbids_runs(&self) -> bool {
        let is_run = |act: &String| {
            REQUESTS.running.contains(act)
                || topics::all().any(|topic| topic == act)
                || !topics::of_words(act).is_empty()
        };
        let changes = || REQUESTS.changing.iter().any(|word| self.text.contains(word.as_str()));
        denied_act(&self.tokens).is_some_and(is_run)
            || (denies_in_chinese(&self.text) && !changes())
    }

    pub(super) fn has(&self, word: &str) -> bool {
        if !word.is_ascii() {
            return self.text.contains(word);
        }
        self.tokens.iter().any(|token| token == word)
    }

    fn has_any(&self, words: &[String]) -> bool {
        words.iter().any(|word| self.has(word))
    }

    /// A word of it, or a part of one, means this name: `verification` means `verify`.
    pub(super) fn names(&self, name: &str) -> bool {
        if !name.is_ascii() {
            return self.text.contains(name);
        }
        self.tokens.iter().any(|token| {
            token == name || token.split(['/', '.', '-', '_']).any(|part| is_alike(part, name))
        })
    }

    pub(super) fn names_kind(&self, kind: &str) -> bool {
        self.tokens.iter().any(|token| token.rsplit_once('.').is_some_and(|(_, end)| end == kind))
    }

    pub(super) fn has_word_of(&self, is_one: impl Fn(&str) -> bool) -> bool {
        self.tokens.iter().any(|token| is_one(token))
    }

    /// A word of it is a file of this kind in this folder.
    pub(super) fn names_kind_in(&self, folder: &str, kind: &str) -> bool {
        self.tokens.iter().any(|token| {
            token.rsplit_once('/').is_some_and(|(place, name)| {
                place.trim_start_matches("./") == folder
                    && name.rsplit_once('.').is_some_and(|(_, end)| end == kind)
            })
        })
    }

    /// A word of it is a file's name.
    pub(super) fn names_file(&self) -> bool {
        self.tokens.iter().any(|token| {
            token.rsplit_once('.').is_some_and(|(stem, end)| {
                !stem.is_empty()
                    && (1..=6).contains(&end.len())
                    && end.chars().any(char::is_alphabetic)
            }) || REQUESTS.text_names.contains(token)
        })
    }
}

/// What the words say not to do.
fn denied_act(tokens: &[String]) -> Option<&String> {
    let mut pairs = tokens.windows(2);
    let denies = |pair: &&[String]| {
        REQUESTS.negations.contains(&pair[0]) && REQUESTS.acts.contains(&pair[1])
    };
    pairs.find(denies).map(|pair| &pair[1])
}

/// A Chinese word of denial says so alone.
fn denies_in_chinese(text: &str) -> bool {
    let plain = NO_NEGATION.iter().fold(text.to_owned(), |text, word| text.replace(word, ""));
    REQUESTS.negations.iter().any(|word| !word.is_ascii() && plain.contains(word))
}

/// The parts of a text that each say something.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split_inclusive(['\n', '!', '?', ';', '。', '！', '？', '；', '，']);
    parts.flat_map(|part| part.split(". ")).filter(|part| !part.trim().is_empty())
}

/// The text without what stands in quotation marks: words that are spoken of, not asked for.
fn without_quotes(text: &str) -> String {
    let mut parts = text.split('"');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    while let Some(quoted) = parts.next() {
        match parts.next() {
            Some(rest) => plain.push_str(rest),
            // A quotation that is not closed is none.
            None => plain.push_str(quoted),
        }
    }
    plain
}

/// A line that is a command rather than a sentence: it begins with a program in small letters and has few words.
fn is_command(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_end = line.trim_end().ends_with(['.', '?', '!']);
    let verbs = [&REQUESTS.changing, &REQUESTS.running, &REQUESTS.looking];
    let is_verb = |word: &str| verbs.iter().any(|words| words.iter().any(|verb| verb == word));
    let Some(first) = words.first().copied() else { return false };
    let has_option = words.iter().skip(1).any(|word| word.starts_with('-'));
    let is_known = !is_verb(first) && (first.contains('/') || topics::of_command(line).is_some());
    !is_end && line.is_ascii() && first == first.to_lowercase() && (has_option || is_known)
}

/// Two words with the same beginning: one is a form of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    let alike = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one == other || (alike >= MIN_ALIKE && alike + 1 >= shorter)
}
