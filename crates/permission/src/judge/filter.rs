//! Commands that are harmless beside one with a right: filters of their standard input, `cd` in the project, `echo`.

use serde::Deserialize;

use super::command::Command;
use super::table::table;
use super::{PathFacts, PathKind};
use crate::shell::{Word, directory};

/// A program of the table that only reads its standard input, with the options for which that is so.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Filter {
    pub(super) programs: Vec<String>,
    /// Letters of options without a value, and of those with one.
    letters: String,
    values: String,
    long: Vec<String>,
    /// Arguments that are no files: a pattern, sets of characters.
    operands: usize,
    /// Whether a number is an option: `-5`.
    count: bool,
    /// Whether an operand may only select parts of its input: `.items[] | .name`.
    paths: bool,
}

impl Filter {
    fn fits(&self, words: &[&str]) -> bool {
        let mut n_operands = 0;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some(long) if long.starts_with('-') => {
                    if !self.long.iter().any(|own| own == word) {
                        return false;
                    }
                }
                Some(count) if self.count && count.bytes().all(|byte| byte.is_ascii_digit()) => {}
                Some(letters) if !letters.is_empty() => {
                    let other = letters.find(|letter| !self.letters.contains(letter));
                    let Some(rest) = other.map(|at| &letters[at..]) else { continue };
                    if !rest.starts_with(|letter| self.values.contains(letter)) {
                        return false;
                    }
                    // The value is the rest of the word, or the next word.
                    if rest.chars().count() == 1 {
                        words.next();
                    }
                }
                _ if self.paths && !selects_parts(word) => return false,
                _ => n_operands += 1,
            }
        }
        n_operands <= self.operands
    }
}

/// A jq program of keys and indexes, which calls no function: each name follows a dot or is in quotes.
fn selects_parts(program: &str) -> bool {
    let mut before = ' ';
    program.chars().all(|char| {
        let may_name = matches!(before, '.' | '"' | '_') || before.is_ascii_alphanumeric();
        before = char;
        let is_name = char.is_ascii_alphabetic() || char == '_';
        is_name && may_name || char.is_ascii_digit() || " .[]|,\"-?:".contains(char)
    })
}

pub(crate) fn is_harmless_beside(command: &Command, from: &str, facts: &dyn PathFacts) -> bool {
    let literal = |words: &[Word]| -> Option<Vec<String>> {
        words.iter().map(|word| word.literal_text().map(str::to_owned)).collect()
    };
    let Some(words) = literal(command.arguments()) else { return false };
    if !command.assignments.is_empty() || !command.opens_no_file() || !command.is_system_program() {
        return false;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (command.name(), words.as_slice()) {
        ("echo" | "true" | ":", _) => true,
        // A wrapper of the command that has the right.
        ("timeout", [time, ..]) => {
            command.is_wrapper && time.starts_with(|char: char| char.is_ascii_digit())
        }
        ("nice" | "nohup", [first, ..]) => command.is_wrapper && !first.starts_with('-'),
        ("cd", [place]) => {
            let place =
                directory::resolve_word(command.directory.as_deref(), &Word::literal(*place));
            let kind = place.map(|place| facts.kind(&directory::join(from, &place)));
            matches!(kind, Some(PathKind::Project | PathKind::Covered | PathKind::Uncovered))
        }
        (name, words) => {
            let mut filters = table().filters().iter();
            filters.any(|filter| filter.programs.iter().any(|it| it == name) && filter.fits(words))
        }
    }
}
