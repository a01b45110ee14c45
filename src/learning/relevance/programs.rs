//! What programs are used for (`data/programs.toml`), and which of it a task asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::super::command::{ANY, is_option};
use super::asks::{Asks, Heard};
use crate::protocol::command::{INTERPRETERS, name_of};
use crate::protocol::topics;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    groups: BTreeMap<String, Vec<String>>,
    program: Vec<Row>,
}

/// What is known of some programs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Row {
    names: Vec<String>,
    asks: Vec<String>,
    tasks: BTreeMap<String, Vec<String>>,
    files: Vec<String>,
    texts: bool,
    wide: Vec<String>,
    roots: Vec<String>,
    yields: Vec<String>,
}

/// The table, and numbers for what its asks are for: a topic, a row, a task of a row, what is wide of a row.
#[derive(Debug)]
struct Book {
    rows: Vec<Row>,
    groups: BTreeMap<String, Vec<String>>,
    by_name: HashMap<String, Vec<usize>>,
    aims: Vec<Aim>,
    /// The numbers of each row's aims: what is wide, the row's own, those of its tasks.
    of_row: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug)]
enum Aim {
    Topic(&'static str),
    Wide(usize),
    Program { row: usize, task: Option<usize> },
}

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let Table { groups, program: rows } =
        toml::from_str(include_str!("../../../data/programs.toml"))
            .expect("data/programs.toml is a table");
    let mut aims: Vec<Aim> = topics::all().map(Aim::Topic).collect();
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut of_row = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let start = aims.len();
        aims.extend([Aim::Wide(at), Aim::Program { row: at, task: None }]);
        let tasks = 0..row.tasks.len();
        aims.extend(tasks.map(|task| Aim::Program { row: at, task: Some(task) }));
        of_row.push(start..aims.len());
        row.names.iter().for_each(|name| by_name.entry(name.clone()).or_default().push(at));
    }
    Book { rows, groups, by_name, aims, of_row }
});

/// The asks of all topics and of these programs: of the whole table few are known of.
pub(super) fn asks_of<'a>(known: impl Iterator<Item = &'a Known>) -> Asks {
    let rows: BTreeSet<usize> = known.flat_map(|known| known.rows.iter().copied()).collect();
    let of_rows = rows.into_iter().flat_map(|row| BOOK.of_row[row].clone());
    let n_topics = topics::all().count();
    let texts = (0..n_topics).chain(of_rows).flat_map(|number| {
        let texts: &[String] = match BOOK.aims[number] {
            Aim::Topic(topic) => topics::asks_of(topic),
            Aim::Wide(row) => &BOOK.rows[row].wide,
            Aim::Program { row, task: None } => &BOOK.rows[row].asks,
            Aim::Program { row, task: Some(task) } => {
                BOOK.rows[row].tasks.values().nth(task).map_or(&[], Vec::as_slice)
            }
        };
        texts.iter().map(move |text| (number, text.as_str()))
    });
    Asks::new(texts, &BOOK.groups)
}

/// What the sentences of a task ask for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) topics: BTreeSet<&'static str>,
    /// Numbers of aims, those of programs.
    programs: BTreeSet<usize>,
    /// Rows of which everything is asked for.
    wide: BTreeSet<usize>,
}

impl Asked {
    /// Of a task about a text only programs are asked for whose work are texts.
    pub(super) fn by(asks: &Asks, sentences: &[Heard], is_about_text: bool) -> Self {
        let mut asked = Self::default();
        for number in asks.met(sentences) {
            match BOOK.aims[number] {
                Aim::Topic(topic) => {
                    asked.topics.insert(topic);
                }
                Aim::Program { row, .. } if !is_about_text || BOOK.rows[row].texts => {
                    asked.programs.insert(number);
                }
                Aim::Program { .. } => {}
                Aim::Wide(row) => {
                    asked.wide.insert(row);
                }
            }
        }
        asked
    }
}

/// What is known of the program of a lesson.
#[derive(Debug, Default)]
pub(super) struct Known {
    rows: Vec<usize>,
    /// The numbers of the aims by which it is asked for.
    aims: Vec<usize>,
    /// Endings of the files that it runs.
    pub(super) files: Vec<&'static str>,
    /// The table knows what its task is asked for in.
    pub(super) has_task: bool,
    /// How many of the command's words the table knows: the program, and its task.
    pub(super) n_words: usize,
}

impl Known {
    /// Of the program that a command begins with; `is_whole`: of all its tasks, whichever is named.
    pub(super) fn of(head: &[&str], is_whole: bool) -> Self {
        let skipped = n_starters(head);
        let [first, rest @ ..] = &head[skipped..] else { return Self::default() };
        let first = name_of(first);
        let of_two = rest.first().and_then(|word| BOOK.by_name.get(&format!("{first} {word}")));
        let Some(rows) = of_two.or_else(|| rows_of(first)) else { return Self::default() };
        let rest = if of_two.is_some() { &rest[1..] } else { rest };
        let task = rest.iter().find(|word| !is_option(word)).filter(|_| !is_whole);
        let of_task = aims(rows, |_, names| {
            names.is_some_and(|names| names.split('|').any(|name| Some(&name) == task))
        });
        let has_task = !of_task.is_empty();
        // What builds the code, runs it or looks at it the table does not tell apart from the program.
        let is_work = |task: &str| {
            let topic = topics::of_command(&format!("{first} {task}"));
            topic.is_some_and(|topic| topics::BUILDS.contains(&topic))
        };
        let aims = match task {
            Some(_) if has_task => of_task,
            // It stands for any task of that kind.
            Some(task) if *task == ANY => {
                let is_one = |names: &str| names.split('|').next().is_some_and(is_work);
                aims(rows, |_, of| of.is_none_or(is_one))
            }
            Some(task) => {
                aims(rows, |row, of| of.is_none() && (row.tasks.is_empty() || is_work(task)))
            }
            None => aims(rows, |_, _| true),
        };
        let files = rows.iter().flat_map(|row| &BOOK.rows[*row].files).map(String::as_str);
        let n_words = skipped + 1 + usize::from(of_two.is_some()) + usize::from(has_task);
        Self { rows: rows.clone(), aims, files: files.collect(), has_task, n_words }
    }

    pub(super) fn is_asked(&self, asked: &Asked) -> bool {
        self.aims.iter().any(|aim| asked.programs.contains(aim))
    }

    /// Everything is asked for, and no place.
    pub(super) fn is_wide(&self, asked: &Asked) -> bool {
        self.rows.iter().any(|row| asked.wide.contains(row))
    }

    /// What lies at the top where all can be reached from there.
    pub(super) fn roots(&self) -> impl Iterator<Item = &'static str> {
        self.rows.iter().flat_map(|row| &BOOK.rows[*row].roots).map(String::as_str)
    }

    /// The advice gets round versions that are at odds.
    pub(super) fn yields(&self, advice: &str) -> bool {
        let mut options = self.rows.iter().flat_map(|row| &BOOK.rows[*row].yields);
        options.any(|option| advice.split([' ', '`']).any(|word| word == option))
    }
}

/// The rows of a program, which may have its version behind its name: `pytest-3`.
fn rows_of(name: &str) -> Option<&'static Vec<usize>> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    BOOK.by_name.get(name).or_else(|| BOOK.by_name.get(plain))
}

/// The aims of these rows that are meant: of the row itself, or of one of its tasks.
fn aims(rows: &[usize], is_meant: impl Fn(&Row, Option<&str>) -> bool) -> Vec<usize> {
    let numbers = rows.iter().flat_map(|row| BOOK.of_row[*row].clone());
    let is_one = |number: &usize| match BOOK.aims[*number] {
        Aim::Program { row, task } => {
            let row = &BOOK.rows[row];
            is_meant(row, task.and_then(|task| row.tasks.keys().nth(task)).map(String::as_str))
        }
        Aim::Topic(_) | Aim::Wide(_) => false,
    };
    numbers.filter(is_one).collect()
}

/// How many words stand before the program that is run: `python3 -m pytest`, `npx jest`, `uv run pytest`.
fn n_starters(head: &[&str]) -> usize {
    match head {
        [first, "-m", _, ..] if INTERPRETERS.contains(&name_of(first)) => 2,
        ["npx" | "pnpx" | "bunx" | "uvx" | "sudo", _, ..] => 1,
        [_, "exec" | "run" | "dlx", program, ..] if rows_of(program).is_some() => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, n_words: usize, has_task: bool) {
        let words: Vec<&str> = head.split_whitespace().collect();
        let known = Known::of(&words, false);
        assert_eq!((known.n_words, known.has_task), (n_words, has_task), "{head}");
    }

    #[test]
    fn every_ask_of_both_tables_can_be_read() {
        let all = Known { rows: (0..BOOK.rows.len()).collect(), ..Known::default() };
        let asks = asks_of(std::iter::once(&all));
        let asked = Asked::by(&asks, &[asks.hear("clean up the history: squash it")], false);
        assert!(asked.topics.contains("git") && !asked.programs.is_empty());
    }

    #[test]
    fn a_program_is_known_by_its_name_wherever_it_lies_and_whatever_runs_it() {
        check("docker compose logs", 3, true);
        check("docker-compose", 1, false);
        check("podman ps", 2, true);
        check("node_modules/.bin/jest", 1, false);
        check("python3 -m pytest", 3, false);
        check("uv run pytest-3", 3, false);
        check("./mvnw", 1, false);
        check("kubectl *", 1, false);
        check("bin/gen", 0, false);
        check("", 0, false);
    }
}
