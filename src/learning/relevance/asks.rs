//! What requests sound like: the asks of `data/programs.toml` and `data/topics.toml`, and which of them a sentence holds.
//!
//! An ask has parts, each a list of words or phrases one of which has to stand there. All words of all asks are looked up at
//! once, by how they begin, so that a sentence costs what its own words cost.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::store::words::stem;

/// Asks, each for something that is known by its number.
#[derive(Debug, Default)]
pub(super) struct Asks {
    all: Vec<Ask>,
    /// English phrases by their first word.
    phrases: HashMap<String, Vec<Phrase>>,
    /// Chinese words by their first character.
    signs: HashMap<char, Vec<(String, Vec<Place>)>>,
    versions: Vec<Place>,
}

#[derive(Debug)]
struct Ask {
    /// What is asked for.
    number: usize,
    /// One bit for each part.
    all: u32,
}

/// The words behind the first one of a phrase, and where it stands in asks.
#[derive(Debug)]
struct Phrase {
    rest: Vec<String>,
    places: Vec<Place>,
}

/// A part of an ask.
#[derive(Clone, Copy, Debug)]
struct Place {
    ask: usize,
    part: u32,
}

/// The parts of asks that stand in a sentence.
pub(super) type Heard = BTreeMap<usize, u32>;

impl Asks {
    /// Of these asks, each with what it is for; `groups` are the words that `@name` stands for.
    ///
    /// # Panics
    /// If a group is not there.
    pub(super) fn new<'a>(
        asks: impl IntoIterator<Item = (usize, &'a str)>,
        groups: &'a BTreeMap<String, Vec<String>>,
    ) -> Self {
        let mut read = Self::default();
        // Each word is read once, though many asks have it.
        let (mut of_words, mut of_groups) = (HashMap::new(), HashMap::new());
        for (number, text) in asks {
            let ask = read.all.len();
            let mut all = 0;
            for (at, part) in text.split(" + ").enumerate() {
                let place = Place { ask, part: 1 << at };
                all |= place.part;
                for word in part.split('|') {
                    let (places, word): (&mut HashMap<&str, Vec<Place>>, _) =
                        match word.strip_prefix('@') {
                            Some(group) => (&mut of_groups, group),
                            None => (&mut of_words, word),
                        };
                    places.entry(word).or_default().push(place);
                }
            }
            read.all.push(Ask { number, all });
        }
        for (group, places) in of_groups {
            let words = groups.get(group).unwrap_or_else(|| panic!("no group @{group}"));
            for word in words {
                of_words.entry(word).or_default().extend(&places);
            }
        }
        for (word, places) in of_words {
            read.add(word, places);
        }
        read
    }

    fn add(&mut self, word: &str, places: Vec<Place>) {
        if word == "VERSION" {
            self.versions = places;
        } else if let Some(first) = word.chars().next().filter(|_| !word.is_ascii()) {
            self.signs.entry(first).or_default().push((word.to_owned(), places));
        } else {
            let mut words = words_of(word);
            let first = words.remove(0);
            self.phrases.entry(first).or_default().push(Phrase { rest: words, places });
        }
    }

    /// The parts of asks that stand in this sentence, which is in small letters.
    pub(super) fn hear(&self, sentence: &str) -> Heard {
        let mut heard = Heard::new();
        let mut add = |places: &[Place]| {
            for place in places {
                *heard.entry(place.ask).or_default() |= place.part;
            }
        };
        let words = words_of(sentence);
        for (at, word) in words.iter().enumerate() {
            if is_version(word) {
                add(&self.versions);
            }
            for Phrase { rest, places } in self.phrases.get(word).into_iter().flatten() {
                if words[at + 1..].starts_with(rest) {
                    add(places);
                }
            }
        }
        for (at, sign) in sentence.char_indices().filter(|(_, sign)| !sign.is_ascii()) {
            for (word, places) in self.signs.get(&sign).into_iter().flatten() {
                if sentence[at..].starts_with(word) {
                    add(places);
                }
            }
        }
        heard
    }

    /// What is asked for by sentences that follow each other: an ask stands in one, or in two neighbours.
    pub(super) fn met(&self, sentences: &[Heard]) -> BTreeSet<usize> {
        let mut met = BTreeSet::new();
        for (at, heard) in sentences.iter().enumerate() {
            let next = sentences.get(at + 1);
            for (ask, parts) in heard {
                let more = next.and_then(|next| next.get(ask)).copied().unwrap_or_default();
                if let Some(ask) = self.all.get(*ask).filter(|ask| parts | more == ask.all) {
                    met.insert(ask.number);
                }
            }
        }
        met
    }
}

/// The English words of a text without their endings. A path or an identifier is one word, which is none of a language.
fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '/'));
    let words = words.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty());
    words.map(stem).collect()
}

/// `1.4.2`, `v1.4.2`.
fn is_version(word: &str) -> bool {
    let word = word.strip_prefix('v').unwrap_or(word);
    word.split('.').count() == 3
        && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ask: &str, sentences: &[&str], is_met: bool) {
        let groups = BTreeMap::from([("see".to_owned(), vec!["show".to_owned(), "看".to_owned()])]);
        let asks = Asks::new([(7, ask)], &groups);
        let heard: Vec<Heard> = sentences.iter().map(|sentence| asks.hear(sentence)).collect();
        assert_eq!(asks.met(&heard).contains(&7), is_met, "{ask}: {sentences:?}");
    }

    #[test]
    fn an_ask_is_met_by_a_word_of_each_part() {
        check("pull request", &["open a pull-request"], true);
        check("pull request", &["pull the request"], false);
        check("restart + pod|service", &["the pods were restarted"], true);
        check("restart + pod|service", &["the pods"], false);
        check("restart + pod|service", &["restart it", "it is a service"], true);
        check("restart + pod|service", &["restart it", "please", "it is a service"], false);
        check("@see + 日志|log", &["看一下日志"], true);
        check("@see + 日志|log", &["show the log"], true);
        check("@see + 日志|log", &["show src/log/a.rs"], false);
        check("need + VERSION", &["it needs httpx 0.27.0"], true);
        check("need + VERSION", &["it needs 1.5 seconds"], false);
        check("go + 模块", &["go模块在哪"], true);
    }
}
