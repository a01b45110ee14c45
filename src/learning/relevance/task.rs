//! What a task says: its sentences, what each asks for, and the words in which that is asked (`data/requests.toml`).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::super::pattern::NAMED_KINDS;
use super::super::question::is_everyday;
use super::super::store::words;
use super::asks::{Asks, Heard};
use super::programs::Asked;
use super::subject::{hashed, mask};
use crate::protocol::recall::STEERED;
use crate::protocol::topics;

/// Names agree that begin alike in so many letters.
pub(super) const MIN_ALIKE: usize = 4;
/// An ending of so many letters is a word of its own.
const MIN_KIND: usize = 3;
/// Chinese words that hold one of denial and forbid nothing: others, kinds, and what is not to come of it.
const NO_NEGATION: [&str; 7] = ["分别", "特别", "类别", "级别", "差别", "识别", "别的"];
/// Words of denial of what is not to come of it; where somebody is not to be let run something, they forbid that.
const NOT_LET: [&str; 2] = ["不要让", "别让"];
/// Something is run, and behind that word how it must not turn out.
const IS_RUN: [&str; 4] = ["运行", "执行", "启动", "跑"];
const TURNS_OUT: [&str; 10] = ["失败", "报错", "出错", "挂", "崩", "卡", "慢", "久", "超时", "得"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    running: Vec<String>,
    describing: Vec<String>,
    questions: Vec<String>,
    trials: Vec<String>,
    circumstances: Vec<String>,
    holding: Vec<String>,
    meanings: Vec<String>,
    negations: Vec<String>,
    between: Vec<String>,
    acts: Vec<String>,
    texts: Vec<String>,
    sources: Vec<String>,
    text_names: Vec<String>,
    changing: Vec<String>,
    looking: Vec<String>,
    planning: Vec<String>,
}

static REQUESTS: LazyLock<Requests> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../data/requests.toml"))
        .expect("data/requests.toml is a table")
});

/// What a task says, read once.
#[derive(Debug)]
pub(in super::super) struct Task {
    pub(super) sentences: Vec<Sentence>,
    pub(super) topics: u64,
    /// In order.
    pub(super) words: Vec<u64>,
    /// The programs that are asked for by what they are used for.
    pub(super) asked: Asked,
    /// It is about a text, and nothing is run for it.
    pub(super) is_about_text: bool,
    pub(super) names_no_path: bool,
    pub(super) says: Says,
    /// Words of the sentences that ask for something, and their parts, by their beginning.
    parts: HashMap<[u8; MIN_ALIKE], BTreeSet<String>>,
    /// The words of all sentences.
    tokens: BTreeSet<String>,
    /// The names of those that are paths.
    at_places: HashSet<String>,
}

/// What it speaks of, in any of its sentences.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is said or not, whatever else is")]
pub(super) struct Says {
    pub(super) changing: bool,
    pub(super) looking: bool,
    pub(super) planning: bool,
    pub(super) running: bool,
}

/// What a sentence asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// Something is to be done or found out.
    Work,
    /// An answer, which a program may give.
    Answer,
    /// An explanation, or that something is not done.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Sentence {
    text: String,
    tokens: Vec<String>,
    wants: Wants,
    pub(super) is_question: bool,
    /// It says that something is run.
    runs: bool,
    /// It says when, and no more.
    is_circumstance: bool,
}

impl Task {
    /// The task's words, by what it could ask for; a line of it may be a command that decides about its end.
    pub(super) fn read(text: &str, asks: &Asks) -> Self {
        let text = text.replace(STEERED, "\n");
        let (commands, prose): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| is_command(line));
        let prose = without_quotes(&prose.join("\n"));
        let mut sentences: Vec<Sentence> = sentences(&prose).map(Sentence::read).collect();
        for at in 1..sentences.len() {
            // When something is asked about is no part of what is asked.
            let asks = sentences[at].wants != Wants::Work || sentences[at].is_question;
            if sentences[at - 1].is_circumstance && asks {
                sentences[at - 1].wants = Wants::Nothing;
            }
        }
        let says = |words: &[String]| sentences.iter().any(|sentence| sentence.has_any(words));
        let orders = || sentences.iter().filter(|sentence| sentence.wants == Wants::Work);
        let names_text = says(&REQUESTS.text_names)
            || sentences.iter().any(|sentence| sentence.names_kind_of(&REQUESTS.texts));
        let is_about_text = names_text && !orders().any(|sentence| sentence.runs);

        let heard: Vec<Heard> = sentences.iter().map(|sentence| sentence.hear(asks)).collect();
        let asked = Asked::by(asks, &heard, is_about_text);
        let mut topics: BTreeSet<&str> =
            commands.iter().filter_map(|line| topics::of_command(line)).collect();
        topics.extend(orders().flat_map(|sentence| topics::of_words(&sentence.text)));
        topics.extend(&asked.topics);
        let holds =
            |sentence: &Sentence| sentence.is_question && sentence.has_any(&REQUESTS.holding);
        if !is_about_text && orders().any(holds) {
            topics.extend(topics::BUILDS);
        }

        let words: BTreeSet<u64> = words::of(&prose).iter().map(|word| hashed(word)).collect();
        let mut parts: HashMap<_, BTreeSet<String>> = HashMap::new();
        for token in orders().flat_map(|sentence| &sentence.tokens) {
            let inner = token.split(['/', '.', '-', '_']).filter(|part| part.len() < token.len());
            for part in inner.chain([token.as_str()]) {
                parts.entry(beginning(part)).or_default().insert(part.to_owned());
            }
        }
        let tokens: BTreeSet<String> =
            sentences.iter().flat_map(|sentence| &sentence.tokens).cloned().collect();
        let name = |token: &String| token.rsplit_once('/').map(|(_, name)| name.to_owned());
        Self {
            topics: mask(topics),
            words: words.into_iter().collect(),
            asked,
            is_about_text,
            names_no_path: !sentences.iter().any(Sentence::names_place),
            says: Says {
                changing: says(&REQUESTS.changing),
                looking: says(&REQUESTS.looking),
                planning: says(&REQUESTS.planning),
                running: says(&REQUESTS.running),
            },
            parts,
            at_places: tokens.iter().filter_map(name).collect(),
            tokens,
            sentences,
        }
    }

    /// The sentences that ask for something to be done.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Sentence> {
        self.sentences.iter().filter(|sentence| sentence.wants == Wants::Work)
    }

    /// It asks for work, and not for words.
    pub(super) fn wants_work(&self) -> bool {
        !self.is_about_text && self.orders().next().is_some()
    }

    /// A word of what it asks for, or a part of one, means this name: `verification` means `verify`.
    pub(super) fn names(&self, name: &str) -> bool {
        if !name.is_ascii() {
            return self.orders().any(|sentence| sentence.text.contains(name));
        }
        let parts = self.parts.get(&beginning(name));
        parts.is_some_and(|parts| parts.iter().any(|part| is_alike(part, name)))
    }

    /// What it asks for has this word, as it is.
    pub(super) fn calls(&self, name: &str) -> bool {
        let parts = self.parts.get(&beginning(name));
        parts.is_some_and(|parts| parts.contains(name))
    }

    /// It names a program of this name at a place of its own: that is another one.
    pub(super) fn names_another(&self, program: &str) -> bool {
        !program.contains('/') && self.at_places.contains(program)
    }

    /// It asks for more than words, and says nowhere not to run something. Of a task about a text that holds only where
    /// a source was changed for it all the same.
    pub(in super::super) fn will_run_something(&self, has_changed_source: bool) -> bool {
        let forbids = self.sentences.iter().any(Sentence::forbids_runs);
        let is_work = has_changed_source || !self.is_about_text;
        is_work && !forbids && self.orders().next().is_some()
    }

    pub(super) fn names_path(&self, path: &str) -> bool {
        let path = path.trim_matches('/').to_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let inside = format!("{path}/");
        let next = self.tokens.range(inside.clone()..).next();
        self.tokens.contains(&path)
            || next.is_some_and(|token| token.starts_with(&inside))
            || (name.contains('.') && self.tokens.contains(name))
    }
}

impl Sentence {
    fn read(text: &str) -> Self {
        let is_question = text.trim_end().ends_with(['?', '？']);
        let text = text.to_lowercase().replace(['’', 'ʼ'], "'");
        let tokens: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.' | '/' | '\''))
            .map(|token| token.trim_matches(['.', '\'', '-', '/']).to_owned())
            .filter(|token| !token.is_empty())
            .collect();
        let first =
            tokens.iter().find(|token| !["please", "now", "then", "and"].contains(&token.as_str()));
        // An English sentence asks for words by how it begins, a Chinese one anywhere.
        let begins = |words: &[String]| {
            words.iter().any(|word| {
                if word.is_ascii() { first == Some(word) } else { text.contains(word.as_str()) }
            })
        };
        let asks_meaning = first.is_some_and(|first| ["what", "how", "why"].contains(&&**first))
            && tokens.last().is_some_and(|last| REQUESTS.meanings.contains(last));
        let holds = |words: &[String]| {
            words.iter().any(|word| {
                if word.is_ascii() { tokens.contains(word) } else { text.contains(word.as_str()) }
            })
        };
        // How something would turn out only a try tells.
        let is_trial = holds(&REQUESTS.trials);
        let describes = begins(&REQUESTS.describing) || (asks_meaning && !is_trial);
        let refuses = denied_act(&tokens).is_some() || denies_in_chinese(&text);
        let runs = holds(&REQUESTS.running);
        let wants = match (describes || refuses, begins(&REQUESTS.questions) && !is_trial) {
            (true, _) => Wants::Nothing,
            (false, true) => Wants::Answer,
            (false, false) => Wants::Work,
        };
        let clause = text.trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_circumstance =
            REQUESTS.circumstances.iter().any(|end| clause.ends_with(end.as_str()));
        Self { text, tokens, wants, is_question, runs, is_circumstance }
    }

    /// The parts of asks that stand in it.
    fn hear(&self, asks: &Asks) -> Heard {
        if self.wants == Wants::Nothing { Heard::new() } else { asks.hear(&self.text) }
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

    /// A word of it is a file of this kind, which is an ending or, of a few, the whole name (`Makefile`).
    pub(super) fn names_kind(&self, kind: &str) -> bool {
        let is_name = NAMED_KINDS.contains(&kind);
        self.tokens.iter().any(|token| {
            if is_name {
                let name = token.rsplit('/').next();
                name.is_some_and(|name| name.eq_ignore_ascii_case(kind))
            } else {
                token.rsplit_once('.').is_some_and(|(_, ending)| ending == kind)
            }
        })
    }

    fn names_kind_of(&self, kinds: &[String]) -> bool {
        kinds.iter().any(|kind| self.names_kind(kind))
    }

    /// It asks about the files of a kind, by their ending alone: "are there icons that are no SVG?"
    pub(super) fn asks_for_kind(&self) -> bool {
        let is_kind = |token: &String| {
            let kinds = REQUESTS.texts.iter().chain(&REQUESTS.sources);
            token.len() >= MIN_KIND
                && !is_everyday(token)
                && kinds.into_iter().any(|kind| kind == token)
        };
        self.is_question && self.tokens.iter().any(is_kind)
    }

    /// A word of it is a path, or a file of a kind that is known.
    fn names_place(&self) -> bool {
        self.names_kind_of(&REQUESTS.texts)
            || self.names_kind_of(&REQUESTS.sources)
            || self.has_any(&REQUESTS.text_names)
            || self.tokens.iter().any(|token| token.contains('/'))
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

/// What the words say not to do: "don't run", "no need to ever run", "don't bother running".
fn denied_act(tokens: &[String]) -> Option<&String> {
    let after_any = |words, phrases: &[String]| phrases.iter().find_map(|one| after(words, one));
    (0..tokens.len()).find_map(|at| {
        let mut rest = after_any(&tokens[at..], &REQUESTS.negations)?;
        let mut denied = None;
        loop {
            denied = rest.first().filter(|word| REQUESTS.acts.contains(word)).or(denied);
            match after_any(rest, &REQUESTS.between) {
                Some(more) => rest = more,
                None => return denied,
            }
        }
    })
}

/// What follows a phrase that these words begin with.
fn after<'a>(words: &'a [String], phrase: &str) -> Option<&'a [String]> {
    phrase.split(' ').try_fold(words, |words, expected| {
        words.split_first().filter(|(word, _)| *word == expected).map(|(_, rest)| rest)
    })
}

/// A Chinese word of denial says so alone.
fn denies_in_chinese(text: &str) -> bool {
    let not_let = NOT_LET.iter().find_map(|word| text.split_once(word));
    let runs = |what: &str| {
        let behind = IS_RUN.iter().find_map(|word| what.split_once(word));
        behind.is_some_and(|(_, rest)| !TURNS_OUT.iter().any(|word| rest.contains(word)))
    };
    if not_let.is_some_and(|(_, what)| runs(what)) {
        return true;
    }
    let plain = NO_NEGATION
        .iter()
        .chain(&NOT_LET)
        .fold(text.to_owned(), |text, word| text.replace(word, ""));
    REQUESTS.negations.iter().any(|word| !word.is_ascii() && plain.contains(word))
}

/// The parts of a text that each say something.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    // Between Chinese words a comma parts what an English one only joins.
    let is_chinese = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !c.is_ascii());
    let ends = text.char_indices().filter(move |(at, sign)| match sign {
        '\n' | '!' | '?' | ';' | '。' | '！' | '？' | '；' | '，' => true,
        ',' => {
            let (before, after) = (text[..*at].trim_end(), text[at + 1..].trim_start());
            is_chinese(before.chars().next_back()) || is_chinese(after.chars().next())
        }
        _ => false,
    });
    let mut from = 0;
    let ends = ends.map(|(at, sign)| at + sign.len_utf8()).chain([text.len()]);
    let parts = ends.map(move |to| &text[std::mem::replace(&mut from, to)..to]);
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

/// By what words are found that are alike.
fn beginning(word: &str) -> [u8; MIN_ALIKE] {
    let mut beginning = [0; MIN_ALIKE];
    beginning.iter_mut().zip(word.bytes()).for_each(|(to, from)| *to = from);
    beginning
}

/// Two words with the same beginning: one is a form of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    let alike = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one == other || (alike >= MIN_ALIKE && alike + 1 >= shorter)
}
