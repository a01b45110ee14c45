//! Completion: commands after `/`, files after `@`, arguments of commands.

use std::borrow::Cow;
use std::sync::Arc;

use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::commands::{COMMANDS, find_built_in};
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::typed_name;

const MAX_ITEMS: usize = 50;

/// Above this number of candidates a faster score is used.
const GREEDY_THRESHOLD: usize = 5000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Popup {
    pub(super) kind: CompletionKind,
    /// The choice replaces the text from this byte on.
    pub(super) from: usize,
    pub(super) items: Vec<Item>,
    pub(super) selected: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionKind {
    Command,
    Argument,
    File,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) insert: String,
    pub(super) args: Cow<'static, str>,
    pub(super) description: String,
    pub(super) takes_more: bool,
    pub(super) needs_more: bool,
}

/// Finds files by some of their letters.
#[derive(Debug, Default)]
pub(super) struct FileFinder {
    files: Arc<[String]>,
    query: String,
    /// Indexes of the files that the query finds: more letters search only these.
    matching: Vec<u32>,
}

impl FileFinder {
    pub(super) fn set_files(&mut self, files: Arc<[String]>) {
        *self = Self { files, ..Self::default() };
    }

    pub(super) fn find(&mut self, query: &str) -> Vec<Item> {
        let before = std::mem::replace(&mut self.query, query.to_owned());
        if query.is_empty() {
            return self.files.iter().take(MAX_ITEMS).map(|file| file_item(file)).collect();
        }
        let candidates = if !before.is_empty() && query.starts_with(&before) {
            std::mem::take(&mut self.matching)
        } else {
            (0..u32::try_from(self.files.len()).unwrap_or(u32::MAX)).collect()
        };
        let mut config = Config::DEFAULT.match_paths();
        // A capital letter makes the search case-sensitive.
        config.ignore_case = !query.contains(char::is_uppercase);
        // Only letters without accents find those with accents.
        config.normalize = query.is_ascii();
        let mut matcher = Matcher::new(config);
        let mut query_buffer = Vec::new();
        let query = typed_name(query);
        let needle = Utf32Str::new(&query, &mut query_buffer);
        // For many candidates the first match of the letters is a sufficient score.
        let is_quick = candidates.len() > GREEDY_THRESHOLD;
        let mut buffer = Vec::new();
        let mut best: Vec<(u16, u32)> = Vec::new();
        for index in candidates {
            let file = typed_name(&self.files[index as usize]);
            let haystack = Utf32Str::new(&file, &mut buffer);
            let score = if is_quick {
                matcher.fuzzy_match_greedy(haystack, needle)
            } else {
                matcher.fuzzy_match(haystack, needle)
            };
            best.extend(score.map(|score| (score, index)));
        }
        self.matching = best.iter().map(|(_, index)| *index).collect();
        // The best first; at equal scores the shortest, then by index.
        let files = &self.files;
        let key = |(score, index): &(u16, u32)| {
            (std::cmp::Reverse(*score), files[*index as usize].len(), *index)
        };
        if best.len() > MAX_ITEMS {
            best.select_nth_unstable_by_key(MAX_ITEMS, key);
            best.truncate(MAX_ITEMS);
        }
        best.sort_unstable_by_key(key);
        best.iter().map(|(_, index)| file_item(&files[*index as usize])).collect()
    }
}

fn file_item(file: &str) -> Item {
    // Blanks and these signs end a name that is not quoted (`context::Mentions`).
    let ends_name = |char: char| char.is_whitespace() || "\"@`'<>|".contains(char);
    let quote = if file.contains(ends_name) { "\"" } else { "" };
    Item { insert: format!("@{quote}{file}{quote} "), ..Item::default() }
}

/// `query`: the text after the slash.
pub(super) fn matching_commands(query: &str, own: &[CustomCommand]) -> Vec<Item> {
    let alias_of = find_built_in(query);
    let built_in = COMMANDS.iter().map(|command| {
        let takes_more = !command.args.is_empty();
        let item = Item {
            insert: format!("/{}", command.name),
            args: command.args.into(),
            description: command.description.to_owned(),
            takes_more,
            needs_more: takes_more && !command.args.starts_with('['),
        };
        (command.name, item)
    });
    let own = own.iter().map(|command| {
        let insert = format!("/{}", command.name);
        let description = match &command.server {
            Some(server) => format!("{} (MCP server {server})", command.description),
            None => command.description.clone(),
        };
        let args = command.argument_hint.clone().into();
        let item = Item { insert, args, description, takes_more: true, ..Item::default() };
        (command.name.as_str(), item)
    });
    // Exact matches and aliases first, then prefixes, substrings, and letters in order.
    let ranked = built_in.chain(own).filter_map(|(name, item)| {
        let is_alias = alias_of.is_some_and(|command| command.name == name);
        let fits = [
            name == query || is_alias,
            name.starts_with(query),
            name.contains(query),
            is_subsequence(query, name),
        ];
        Some((fits.iter().position(|fits| *fits)?, item))
    });
    let mut fitting: Vec<(usize, Item)> = ranked.collect();
    fitting.sort_by_key(|(rank, _)| *rank);
    fitting.into_iter().map(|(_, item)| item).collect()
}

/// Words that begin with the text, with their descriptions.
pub(super) fn matching_words<W: AsRef<str>, D: AsRef<str>>(
    query: &str,
    words: impl IntoIterator<Item = (W, D)>,
) -> Vec<Item> {
    word_items(words, |word, _| word.starts_with(query))
}

/// Words that begin with the text, or whose description contains it.
pub(super) fn matching_descriptions<W: AsRef<str>, D: AsRef<str>>(
    query: &str,
    words: impl IntoIterator<Item = (W, D)>,
) -> Vec<Item> {
    let lower = query.to_lowercase();
    word_items(words, |word, what| word.starts_with(query) || what.to_lowercase().contains(&lower))
}

fn word_items<W: AsRef<str>, D: AsRef<str>>(
    words: impl IntoIterator<Item = (W, D)>,
    fits: impl Fn(&str, &str) -> bool,
) -> Vec<Item> {
    let words = words.into_iter().filter(|(word, what)| fits(word.as_ref(), what.as_ref()));
    let items = words.map(|(word, what)| Item {
        insert: word.as_ref().to_owned(),
        description: what.as_ref().to_owned(),
        ..Item::default()
    });
    items.take(MAX_ITEMS).collect()
}

/// The letters occur in the name in this order.
fn is_subsequence(letters: &str, name: &str) -> bool {
    let mut chars = name.chars();
    letters.chars().all(|letter| chars.any(|char| char == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_fuzzy_search() {
        let files =
            ["src/kernel/mod.rs", "src/ui/tui/mod.rs", "README.md", "docs/TUI.md", "Übung.md"];
        let mut finder = FileFinder::default();
        finder.set_files(files.iter().map(|file| (*file).to_owned()).collect());
        let mut find = |query: &str| {
            let items = finder.find(query);
            items.iter().map(|item| item.insert.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(find("tuimod"), ["@src/ui/tui/mod.rs"]);
        assert_eq!(find("r"), ["@README.md", "@src/kernel/mod.rs", "@src/ui/tui/mod.rs"]);
        assert_eq!(find("re"), ["@README.md", "@src/kernel/mod.rs"]);
        assert_eq!(find("TUI"), ["@docs/TUI.md"]);
        assert_eq!(find("").len(), 5);
        assert_eq!(find("zzz"), [""; 0]);
        assert_eq!(find("Ü"), ["@Übung.md"]);
        assert_eq!(find("ü"), ["@Übung.md"]);
        assert_eq!(find("ubung"), ["@Übung.md"]);
        let odd = "Fotos vom Fru\u{308}hling\u{202f}1.txt";
        finder.set_files([odd.to_owned()].into());
        for query in ["vom Frühling 1", "fruhling"] {
            assert_eq!(finder.find(query)[0].insert, format!("@\"{odd}\" "), "{query}");
        }
    }

    #[test]
    fn more_letters_narrow_the_search_of_many_files() {
        let files: Vec<String> =
            (0..35_000).map(|n| format!("source/module_{}/part_{n}.rs", n % 100)).collect();
        let mut finder = FileFinder::default();
        finder.set_files(files.into());
        assert_eq!(finder.find("part").len(), MAX_ITEMS);
        assert_eq!(finder.find("part_34999")[0].insert, "@source/module_99/part_34999.rs ");
        assert_eq!(finder.matching.len(), 1);
        assert_eq!(finder.find("part_1").len(), MAX_ITEMS);
    }

    #[test]
    fn command_completion_prefers_prefix_matches() {
        let names = |query: &str| {
            let items = matching_commands(query, &[]);
            items.iter().map(|item| item.insert.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("co"), ["/copy", "/cost", "/compact", "/context", "/config", "/doctor"]);
        assert_eq!(names("mde"), ["/model", "/mode"]);
        assert_eq!(names("mode"), ["/mode", "/model"]);
        assert_eq!(names("status"), ["/cost"]);
        assert_eq!(names("").len(), COMMANDS.len());
    }
}
