//! What a check or a hook wants, where it says so: rules in the words of what was done then, never a fix.
//!
//! The evidence is twofold: a line of the failure that says what is wanted, and what was changed before the same command
//! worked, which is just that. So a change that mended the work otherwise teaches nothing. A lesson names only what
//! stands in our own calls: what a program prints decides that there is one, and never what it says.

mod added;
mod banned;
mod companion;
mod generated;
mod indented;
mod named;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeSet;

pub(super) use self::added::lesson as of_one_line;
pub(super) use self::indented::{files_of, flipped};

use super::super::chain::main_command;
use super::super::command::{head, is_task};
use super::super::evidence::{has_word, is_verdict};
use super::super::item::Condition;
use super::super::pattern::{CHANGES, plain_path};
use super::commands::{essential, only_looks, plain};
use super::{Between, Lesson, Try, topic_of};
use crate::protocol::command::{INTERPRETERS, Simple, must_have_succeeded, name_of};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::topics;

/// Parts of the names of what looks at how something is written, and not at what it does.
const LOOKS_AT_FORM: [&str; 20] = [
    "check",
    "checks",
    "checker",
    "verify",
    "lint",
    "linter",
    "style",
    "hook",
    "hooks",
    "guard",
    "vet",
    "audit",
    "validate",
    "policy",
    "conventions",
    "commitlint",
    "precommit",
    "biome",
    "vale",
    "uptodate",
];

/// What the changes of files teach that lie between a check's no and its yes; `before`: those made until it said no.
pub(super) fn of_changes(
    bad: &Try<'_>,
    good: &Try<'_>,
    before: &[Between<'_>],
    between: &[Between<'_>],
    task: &str,
) -> Option<Lesson> {
    let mended = Mended::of(bad, good, before, between, task)?;
    generated::lesson(&mended)
        .or_else(|| indented::lesson(&mended))
        .or_else(|| companion::lesson(&mended))
        .or_else(|| named::lesson(&mended))
        .or_else(|| banned::lesson(&mended))
}

/// A check that said no, and yes after files were changed.
struct Mended<'a> {
    bad: &'a Try<'a>,
    /// The check: program and arguments.
    program: Vec<&'a str>,
    /// What it is called in a lesson.
    head: String,
    said: &'a str,
    /// Changes of files until it said no.
    before: Vec<Change<'a>>,
    /// Changes of files until it said yes.
    changes: Vec<Change<'a>>,
    /// Commands that were run for that, beside the check.
    ran: Vec<Vec<&'a str>>,
    task: &'a str,
}

/// A change of a file.
struct Change<'a> {
    path: &'a str,
    call: &'a Between<'a>,
}

impl<'a> Mended<'a> {
    fn of(
        bad: &'a Try<'a>,
        good: &'a Try<'a>,
        before: &'a [Between<'a>],
        between: &'a [Between<'a>],
        task: &'a str,
    ) -> Option<Self> {
        let changes = changes(between);
        if bad.code != Some(ErrorCode::CommandFailed) || bad.is_missing() || is_verdict(bad.error) {
            return None;
        }
        let (old, new) = (essential(bad.command()?), essential(good.command()?));
        let program = main_command(&old)?.program().to_vec();
        // Whatever else failed in its line is not the check's word.
        let is_it = |simple: &Simple<'_>| simple.program() == program;
        let is_alone = old.iter().all(|simple| is_it(simple) || prepares_nothing(simple));
        let shows_status = has_succeeded(good.command()?, new.iter().find(|simple| is_it(simple))?);
        let lines = between.iter().filter(|call| call.acts).filter_map(Between::command);
        let alone = lines.filter(|line| !only_looks(line)).flat_map(essential);
        let ran = alone.chain(new.iter().cloned());
        let ran = ran.filter(|simple| !is_it(simple) && !prepares_nothing(simple));
        let ran = ran.map(|simple| simple.program().to_vec()).collect();
        (is_alone && shows_status).then(|| Self {
            bad,
            head: program[..own_words(&program)].join(" "),
            said: bad.error,
            before: self::changes(before),
            ran,
            program,
            changes,
            task,
        })
    }

    /// The check looks at how something is written: a linter, a hook, a script that is called so.
    fn looks_at_form(&self) -> bool {
        match self.topic() {
            Some("lint" | "format") => true,
            Some("build") => false,
            Some("git") => self.program.iter().any(|word| ["commit", "push"].contains(word)),
            Some(_) | None => self.names().iter().any(|name| {
                let mut parts = name.split(|c: char| !c.is_alphanumeric());
                parts.any(|part| LOOKS_AT_FORM.contains(&part.to_lowercase().as_str()))
            }),
        }
    }

    /// It is known as one that does.
    fn is_linter(&self) -> bool {
        matches!(self.topic(), Some("lint" | "format"))
    }

    /// The check runs the work: its no is no word on how the work is written.
    fn runs_the_work(&self) -> bool {
        let is_run = self.topic().is_some_and(|topic| {
            topics::BUILDS.contains(&topic) || ["migrate", "report", "data"].contains(&topic)
        });
        let first = self.program.get(behind_runner(&self.program));
        let first = first.map_or("", |first| name_of(first));
        !self.looks_at_form() && (is_run || INTERPRETERS.contains(&first))
    }

    fn topic(&self) -> Option<&'static str> {
        topics::of_command(&self.program[behind_runner(&self.program)..].join(" "))
    }

    /// The words that say what it does.
    fn names(&self) -> Vec<&'a str> {
        let (from, n) = (behind_runner(&self.program), own_words(&self.program));
        let task = self.program.get(n).filter(|word| n == from + 1 && is_task(word));
        self.program[from..n].iter().chain(task).map(|word| name_of(word)).collect()
    }

    /// The output names this file, by its path or its name.
    fn names_file(&self, path: &str) -> bool {
        names_file(self.said, path)
    }

    /// The task itself speaks of this.
    fn is_asked_for(&self, word: &str) -> bool {
        has_word(&self.task.to_lowercase(), &word.to_lowercase())
    }

    /// A lesson on calls of which `when` says what they change, for they lead to a failure with this line.
    fn lesson(
        &self,
        text: String,
        condition: String,
        when: Condition,
        line: &str,
    ) -> Option<Lesson> {
        self.lesson_as(&self.head, text, condition, when, line)
    }

    /// The same, of a check that is known by this.
    fn lesson_as(
        &self,
        head: &str,
        text: String,
        condition: String,
        when: Condition,
        line: &str,
    ) -> Option<Lesson> {
        let later = Condition {
            tool: "Bash".to_owned(),
            code: self.bad.code,
            signature: Some(self.bad.signature_of_line(line, head, "")?),
            command_head: Some(head.to_owned()),
            ..Condition::default()
        };
        Some(Lesson {
            text,
            condition,
            when: Condition { leads_to: Some(Box::new(later)), ..when },
            fix: None,
            topic: topic_of("Bash", self.bad.input),
            general: false,
        })
    }
}

impl<'a> Change<'a> {
    /// What it took out and put in. What wrote the file anew took out what `earlier` had written, if that is known.
    fn texts(&self, earlier: &[&Change<'a>]) -> Vec<(&'a str, &'a str)> {
        let texts = super::super::pattern::replaced(self.call.input);
        let [("", new)] = texts.as_slice() else { return texts };
        let written =
            |change: &&&Change<'a>| change.path == self.path && change.call.tool == "Write";
        let before = earlier.iter().rev().find(written);
        let old = before.and_then(|change| change.call.input.get("content")?.as_str());
        old.map(|old| (old, *new)).into_iter().collect()
    }
}

/// The line, which succeeded, shows that this command of it did: where that is piped on, or the line goes on whatever it
/// says, it has not said yes.
fn has_succeeded(line: &str, command: &Simple<'_>) -> bool {
    let must = must_have_succeeded(line, false);
    must.iter().map(plain).any(|simple| simple.program() == command.program())
}

/// The changes of files among these calls.
fn changes<'a>(calls: &'a [Between<'a>]) -> Vec<Change<'a>> {
    let of = |call: &'a Between<'a>| {
        let path = plain_path(call.input.get("path")?.as_str()?);
        (call.acts && CHANGES.contains(&call.tool)).then_some(Change { path, call })
    };
    calls.iter().filter_map(of).collect()
}

/// How many words stand before the program that is run by another one: `npx eslint`, `uv run ruff`.
fn behind_runner(program: &[&str]) -> usize {
    let n = match program {
        ["npx" | "bunx" | "pnpx" | "uvx", ..] => 1,
        ["npm" | "pnpm" | "yarn" | "bundle", "exec", ..]
        | ["uv" | "poetry" | "pdm" | "pipenv" | "pipx" | "hatch", "run", ..]
        | ["yarn" | "pnpm", "dlx", ..] => 2,
        _ => 0,
    };
    let n = n + program[n..].iter().take_while(|word| word.starts_with('-')).count();
    if n < program.len() { n } else { 0 }
}

/// How many words say what is run, with the program that runs it.
fn own_words(program: &[&str]) -> usize {
    let n = behind_runner(program);
    n + head(&program[n..]).len()
}

/// It only sets where and how the next command runs, or hands files to git.
fn prepares_nothing(simple: &Simple<'_>) -> bool {
    const SETS: [&str; 8] = ["cd", "export", "source", ".", "set", "echo", "true", "pwd"];
    match simple.program() {
        ["git", "add" | "status" | "diff", ..] | [] => true,
        [first, ..] => SETS.contains(first),
    }
}

/// The text names this file, by its path or its name.
fn names_file(text: &str, path: &str) -> bool {
    has_word(text, path) || has_word(text, name_of(path))
}

/// The folder that all of these lie below, from the project's root.
fn folder_of_all<'a>(paths: &BTreeSet<&'a str>) -> Option<&'a str> {
    let mut folders = paths.iter().map(|path| path.split_once('/').map(|(first, _)| first));
    let first = folders.next()??;
    folders.all(|folder| folder == Some(first)).then_some(first)
}
