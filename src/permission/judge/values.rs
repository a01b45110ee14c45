//! What words with variables in them may stand for, by what the line says: assignments, loops, defaults, and the
//! arguments of its functions and scripts.
//!
//! What `read` reads and a command writes is no value of the line, nor is the environment.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use regex::{NoExpand, Regex};

use super::args::Args;
use super::survey::Survey;
use crate::permission::line::Line;
use crate::permission::pattern::{Pattern, expression};
use crate::permission::shell::{Kind, Run, SHELLS, Way, Word};

/// No path is longer.
const LONGEST: usize = 4096;
/// What it costs to put a path together, in values that are compared.
const A_PATH: usize = 5;
/// Variables that stand for a place, which is known where the command runs.
const PLACES: &[&str] = &["HOME", "PWD", "OLDPWD"];

/// What was found behind words, by their texts and kinds.
type Known = HashMap<(String, Kind), Rc<[Word]>>;

/// What the line gives to variables.
pub(super) struct Values<'a> {
    ground: &'a Survey<'a>,
    given: HashMap<&'a str, Vec<&'a Word>>,
    arguments: Vec<&'a Word>,
    read: HashSet<&'a str>,
    /// What besides blanks takes a value apart into words.
    separators: String,
    known: RefCell<Known>,
    /// Where ways into folders lead, by their words.
    ways: RefCell<HashMap<String, Rc<[String]>>>,
}

/// `$name`, `${name}`, `${name:-default}`, `${name%.*}` in a text.
struct Reference<'t> {
    begin: &'t str,
    name: &'t str,
    is_indirect: bool,
    default: Option<&'t str>,
    /// How the value is changed.
    change: Option<&'t str>,
    written: &'t str,
    rest: &'t str,
}

impl<'a> Values<'a> {
    pub(super) fn of(line: &'a Line, ground: &'a Survey<'a>) -> Self {
        let mut given: HashMap<&str, Vec<&Word>> = HashMap::new();
        for binding in line.bindings() {
            given.entry(&binding.name).or_default().extend(&binding.words);
        }
        let functions: HashSet<&str> = line.script().functions.iter().map(String::as_str).collect();
        let arguments = |run: &'a Run| -> Vec<&'a Word> {
            let args = Args::alone(run);
            match run.name() {
                // The first is the script.
                name if SHELLS.contains(&name) => args.operands().skip(1).collect(),
                name if name == "set" || functions.contains(name) => args.words().collect(),
                _ => Vec::new(),
            }
        };
        let readers = line
            .runs()
            .iter()
            .filter(|run| matches!(run.name(), "read" | "mapfile" | "readarray" | "getopts"));
        let read = readers.flat_map(|run| run.words.iter().skip(1).map(|word| word.text.as_str()));
        let of_separators = given.get("IFS").into_iter().flatten();
        let given_separators = of_separators.map(|word| word.text.as_str()).collect();
        Self {
            ground,
            given,
            arguments: line.runs().iter().flat_map(arguments).collect(),
            read: read.chain(["REPLY", "MAPFILE"]).collect(),
            separators: given_separators,
            known: RefCell::default(),
            ways: RefCell::default(),
        }
    }

    /// What it costs to put a path together is left.
    pub(super) fn may_go_on(&self) -> bool {
        self.ground.spend(A_PATH)
    }

    /// Where a way leads; who follows it does so once.
    pub(super) fn led_to(&self, way: &Way, follow: impl FnOnce() -> Vec<String>) -> Rc<[String]> {
        let key: Vec<String> =
            way.iter().map(|word| format!("{:?} {}", word.kind, word.text)).collect();
        let key = key.join("\0");
        if let Some(known) = self.ways.borrow().get(&key) {
            return Rc::clone(known);
        }
        let found: Rc<[String]> = if self.may_go_on() { follow().into() } else { Rc::from([]) };
        self.ways.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    /// The words that the shell makes of a value.
    pub(super) fn parts<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let is_between = |char: char| char.is_ascii_whitespace() || self.separators.contains(char);
        text.split(is_between).filter(|part| !part.is_empty())
    }

    /// One of the line's own commands reads it.
    pub(super) fn is_read(&self, text: &str) -> bool {
        references(text).any(|reference| self.read.contains(reference.name))
    }

    /// What a word may stand for. Where one is a variable still, that is not known; what a command writes stands
    /// alone.
    pub(super) fn behind(&self, word: &Word) -> Rc<[Word]> {
        if !matches!(word.kind, Kind::Quoted | Kind::Variable) {
            return Rc::from([word.clone()]);
        }
        let key = (word.text.clone(), word.kind);
        if let Some(known) = self.known.borrow().get(&key) {
            return Rc::clone(known);
        }
        let found: Rc<[Word]> = self.made_of(word, &mut Vec::new()).into();
        self.known.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    /// What a word with variables stands for, and, where they are not in quotes, the words that the shell takes that
    /// apart into: `x="a b"; cat $x`.
    fn made_of(&self, word: &Word, open: &mut Vec<String>) -> Vec<Word> {
        let mut found = self.put_in(&word.text, open);
        if word.kind == Kind::Quoted {
            return found;
        }
        let whole = found.len();
        for n in 0..whole {
            let (text, kind) = (found[n].text.clone(), found[n].kind);
            let mut parts = self.parts(&text).take_while(|_| self.ground.spend(1));
            if kind < Kind::Quoted && parts.next() != Some(&text) {
                found.extend(self.parts(&text).map(|part| Word { text: part.to_owned(), kind }));
            }
        }
        found
    }

    /// The text with values in the places of its variables. None is followed into itself.
    fn put_in(&self, text: &str, open: &mut Vec<String>) -> Vec<Word> {
        let mut made = vec![Word::literal("")];
        let mut alone = Vec::new();
        let mut left = text;
        let mut is_unknown = false;
        while let Some(reference) = Reference::first(left) {
            left = reference.rest;
            let values = self.values(&reference, open);
            is_unknown |= reference.begin.contains('$');
            if reference.change.is_some() {
                alone.extend(values.iter().cloned());
            }
            let (outputs, values): (Vec<Word>, Vec<Word>) =
                values.into_iter().partition(|value| value.kind == Kind::Output);
            alone.extend(outputs);
            let mut longer = Vec::new();
            for begin in &made {
                for value in &values {
                    if !self.ground.spend(1 + begin.text.len() / 64) {
                        return longer;
                    }
                    let text = format!("{}{}{}", begin.text, reference.begin, value.text);
                    if text.len() <= LONGEST {
                        longer.push(Word { text, kind: begin.kind.max(value.kind) });
                    }
                }
            }
            made = longer;
        }
        for word in &mut made {
            word.text.push_str(left);
            // `$((1 + 1))`
            if is_unknown || left.contains('$') {
                word.kind = Kind::Variable;
            } else if word.kind < Kind::Pattern && word.text.contains(['*', '?', '[']) {
                word.kind = Kind::Pattern;
            }
        }
        made.extend(alone);
        let mut seen = BTreeSet::new();
        made.retain(|word| seen.insert((word.text.clone(), word.kind)));
        made
    }

    fn values(&self, reference: &Reference<'_>, open: &mut Vec<String>) -> Vec<Word> {
        let name = reference.name;
        let mut found = Vec::new();
        let is_argument = is_argument(name);
        if let Some(default) = reference.default {
            found.extend(self.put_in(default, open));
        }
        let is_open = open.iter().any(|own| own == name);
        let given = if is_argument { Some(&self.arguments) } else { self.given.get(name) };
        if let Some(given) = given.filter(|_| !is_open && open.len() < 16) {
            open.push(name.to_owned());
            let mut seen = BTreeSet::new();
            for value in given {
                if !self.ground.spend(1) {
                    break;
                }
                if !seen.insert((&value.text, value.kind)) {
                    continue;
                }
                match value.kind {
                    Kind::Quoted | Kind::Variable => found.extend(self.made_of(value, open)),
                    Kind::Literal | Kind::Pattern | Kind::Home | Kind::Output => {
                        found.push((*value).clone());
                    }
                }
            }
            if reference.is_indirect {
                let names = std::mem::take(&mut found);
                for name in names.iter().filter_map(Word::known) {
                    found.extend(self.put_in(&format!("${{{name}}}"), open));
                }
            }
            open.pop();
        }
        if let Some(change) = reference.change {
            let changed: Vec<Word> = found
                .iter()
                .filter(|word| word.kind == Kind::Literal)
                .flat_map(|word| self.changed(&word.text, change, open))
                .take_while(|_| self.ground.spend(1))
                .map(Word::literal)
                .collect();
            found.extend(changed);
        }
        let is_unknown = is_argument || self.read.contains(name) || PLACES.contains(&name);
        if is_unknown || found.is_empty() {
            let text = reference.written.to_owned();
            found.push(Word { text, kind: Kind::Variable });
        }
        // What nobody has set is nothing.
        if !is_unknown && (is_open || given.is_none()) {
            found.push(Word::literal(""));
        }
        found
    }

    /// What `${x/a/b}`, `${x#a}`, `${x:1}` and their kin make of a value; where that is not certain, all that they may.
    fn changed(&self, value: &str, change: &str, open: &mut Vec<String>) -> Vec<String> {
        if value.len() > MOST_CHANGED {
            return Vec::new();
        }
        let ends = || value.char_indices().map(|(at, _)| at).chain([value.len()]);
        let of = |pattern: &str, open: &mut Vec<String>| -> Vec<Word> {
            let made = self.put_in(pattern, open);
            made.into_iter().filter(|word| word.kind != Kind::Output).take(8).collect()
        };
        let cases = || {
            let first = value.chars().next().map_or(0, char::len_utf8);
            let (begin, rest) = value.split_at(first);
            let begins = [begin.to_lowercase(), begin.to_uppercase()].map(|begin| begin + rest);
            begins.into_iter().chain([value.to_lowercase(), value.to_uppercase()]).collect()
        };
        match change.chars().next() {
            Some('/') => {
                let own = change.trim_start_matches('/');
                let is_end =
                    |(at, char): &(usize, char)| *char == '/' && !own[..*at].ends_with('\\');
                let at = own.char_indices().find(is_end).map_or(own.len(), |(at, _)| at);
                let (pattern, other) = (&own[..at], own.get(at + 1..).unwrap_or_default());
                let (patterns, others) = (of(pattern, open), of(other, open));
                let pairs = patterns.iter().flat_map(|one| others.iter().map(move |to| (one, to)));
                pairs
                    .flat_map(|(pattern, other)| replaced(value, &pattern.text, &other.text))
                    .collect()
            }
            Some('#') => {
                let patterns = of(change.trim_start_matches('#'), open);
                let own = patterns.iter().map(|one| Pattern::new(&unquoted(&one.text), false));
                own.flat_map(|own| {
                    let fits = move |at: &usize| own.is_match(&value[..*at]);
                    ends().filter(fits).map(|at| value[at..].to_owned()).collect::<Vec<_>>()
                })
                .collect()
            }
            Some('%') => {
                let patterns = of(change.trim_start_matches('%'), open);
                let own = patterns.iter().map(|one| Pattern::new(&unquoted(&one.text), false));
                own.flat_map(|own| {
                    let fits = move |at: &usize| own.is_match(&value[*at..]);
                    ends().filter(fits).map(|at| value[..at].to_owned()).collect::<Vec<_>>()
                })
                .collect()
            }
            // (Numbers may be sums.)
            Some(':') => {
                let parts = ends().flat_map(|from| ends().map(move |to| (from, to)));
                parts.filter_map(|(from, to)| value.get(from..to).map(ToOwned::to_owned)).collect()
            }
            Some('^' | ',' | '~' | '@') => cases(),
            Some(_) | None => Vec::new(),
        }
    }
}

/// Longer values are not changed here.
const MOST_CHANGED: usize = 128;

/// What a replacement makes of a value: once, everywhere, at its begin or end.
fn replaced(value: &str, pattern: &str, other: &str) -> Vec<String> {
    let other = unquoted(other).replace('\\', "");
    let mut made = Vec::new();
    for pattern in [pattern, pattern.trim_start_matches(['#', '%'])] {
        let (pattern, _) = expression(&unquoted(pattern));
        for whole in
            [format!("(?s:{pattern})"), format!("^(?s:{pattern})"), format!("(?s:{pattern})$")]
        {
            let Ok(whole) = Regex::new(&whole) else { continue };
            // (What was found may be put in again: `&`.)
            let again = other.replace('$', "$$").replace('&', "$0");
            made.push(whole.replace(value, NoExpand(&other)).into_owned());
            made.push(whole.replace(value, again.as_str()).into_owned());
            made.push(whole.replace_all(value, NoExpand(&other)).into_owned());
        }
    }
    made.sort_unstable();
    made.dedup();
    made
}

/// Without quotes, what stands between them by itself.
fn unquoted(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' | '\'' => {}
            '\\' => left.extend(std::iter::once('\\').chain(chars.next())),
            _ => left.push(char),
        }
    }
    left
}

/// `$1`, `$@`, `$*`
fn is_argument(name: &str) -> bool {
    name.starts_with(|char: char| char.is_ascii_digit() || "@*".contains(char))
}

/// `$name`, `${name}`, `${name%.*}` stands in a text.
pub(super) fn names_variable(text: &str, name: &str) -> bool {
    references(text).any(|reference| reference.name == name)
}

/// An argument of a function or script stands in a text.
pub(super) fn names_argument(text: &str) -> bool {
    references(text).any(|reference| is_argument(reference.name))
}

fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    let mut left = text;
    std::iter::from_fn(move || {
        let found = Reference::first(left)?;
        left = found.rest;
        Some(found)
    })
}

impl<'t> Reference<'t> {
    fn first(text: &'t str) -> Option<Self> {
        text.match_indices('$').find_map(|(at, _)| {
            let behind = &text[at + 1..];
            let (inner, rest) = match behind.strip_prefix('{') {
                Some(inner) => {
                    let end = closing(inner)?;
                    (&inner[..end], &inner[end + 1..])
                }
                None => behind.split_at(length_of_name(behind)),
            };
            let written = &text[at..text.len() - rest.len()];
            let plain = inner.strip_prefix('!').unwrap_or(inner);
            let name = &plain[..length_of_name(plain)];
            if name.is_empty() {
                return None;
            }
            let behind = &plain[name.len()..];
            // `${a[@]}`
            let is_index = behind.starts_with('[');
            let behind =
                behind.find(']').filter(|_| is_index).map_or(behind, |at| &behind[at + 1..]);
            let default = behind
                .strip_prefix(':')
                .unwrap_or(behind)
                .strip_prefix(['-', '=', '+'])
                .filter(|_| !behind.is_empty());
            let change = Some(behind).filter(|_| !behind.is_empty() && default.is_none());
            let is_indirect = plain.len() < inner.len();
            Some(Self { begin: &text[..at], name, is_indirect, default, change, written, rest })
        })
    }
}

/// The brace that closes a text which begins behind one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn length_of_name(text: &str) -> usize {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    match text.chars().next() {
        Some('@' | '*') => 1,
        // `$10` is `$1` and a zero.
        Some(char) if char.is_ascii_digit() => 1,
        _ => text.find(|char| !is_name(char)).unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Nowhere;
    use super::*;

    /// What the last word of a line may stand for; `?` stands behind what is not known.
    fn check(line: &str, expected: &[&str]) {
        let line = Line::part(line);
        let survey = Survey::new(&Nowhere);
        let word = line.runs().last().and_then(|run| run.words.last()).expect("a word");
        let found = Values::of(&line, &survey).behind(word);
        let found = found.iter().map(|word| match word.kind {
            Kind::Quoted | Kind::Variable | Kind::Output => format!("{}?", word.text),
            Kind::Literal | Kind::Home | Kind::Pattern => word.text.clone(),
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{}", line.text());
    }

    #[test]
    fn values_are_put_in_the_places_of_variables() {
        check("x=a; y=b; cat $x/${y}.c", &["a/b.c"]);
        check("x=a; x=b; cat $x$x", &["aa", "ab", "ba", "bb"]);
        check("for f in a b; do x=$f.c; cat d/$x; done", &["d/a.c", "d/b.c"]);
        check("x=y; y=a; cat ${!x}", &["a"]);
        check("x=(a b); cat \"${x[@]}\"", &["a", "b"]);
        check("x=*.c; cat d/$x", &["d/*.c"]);
        check("cat ${x:-a}${y-${z=b}}", &["ab", "a", "b", ""]);
    }

    #[test]
    fn a_value_is_taken_apart_where_no_quotes_are() {
        check("x='a b'; cat $x", &["a b", "a", "b"]);
        check("x='a b'; cat \"$x\"", &["a b"]);
        check("x='a b'; y=$x; cat \"$y\"", &["a b"]);
        check("x='a b'; y=\"$x\"; cat $y", &["a b", "a", "b"]);
        check("x='a b'; for y in $x; do cat \"$y\"; done", &["a b", "a", "b"]);
        check("x='a b'; cat \"$x\"$x", &["a ba b", "a", "ba", "b"]);
    }

    #[test]
    fn what_is_changed_on_the_way_or_not_known_is_told_so() {
        check("x=a.b; cat ${x%.b}.c", &["a.b.c", "a.c", "a.b", "a"]);
        check("x=ab; cat ${x/b/c}", &["ab", "ac"]);
        check("x=$x; cat $x.c", &["$x.c?", ".c"]);
        check("cat $HOME/a", &["$HOME/a?"]);
        check("read x; cat $x", &["$x?"]);
        check("x=$(ls); cat a/$x", &["$(ls)?"]);
        check("cat $((1 + 1)).c", &["$((1 + 1)).c?"]);
        check("f() { cat $1; }; f a; cat .$1", &[".a", ".$1?"]);
        check("cat $x.c", &["$x.c?", ".c"]);
    }
}
