//! A program that is not there, or can not be started: what was run instead.

use super::super::super::command::head;
use super::super::super::evidence::names;
use super::super::super::item::Fix;
use super::super::Lesson;
use super::Case;
use crate::protocol::command::{INTERPRETERS, Simple, is_assignment, name_of, unquoted};
use crate::protocol::topics;

/// Programs that run another one of the project's own packages.
pub(super) const RUNNERS: [&str; 9] =
    ["npx", "pnpm", "yarn", "npm", "bundle", "poetry", "uv", "pipenv", "pdm"];

impl Case<'_> {
    /// A program is not there, or can not be started: the one that was run instead.
    pub(super) fn missing(&self, bad: &[Simple<'_>], good: &[Simple<'_>]) -> Option<Lesson> {
        if !self.bad.is_missing() {
            return None;
        }
        let gone = bad.iter().find(|simple| {
            let program = simple.program().first();
            program.is_some_and(|program| names(self.bad.error, program).is_some())
        })?;
        let program = gone.program();
        let (first, arguments) = program.split_first()?;
        let name = name_of(first);
        let akin = good.iter().find_map(|simple| instead(first, arguments, simple));
        let to = akin.clone().or_else(|| same_purpose(gone, good))?;
        let is_same = to.len() == 1 && to[0] == *first;
        if is_same || to.iter().any(|word| is_assignment(word)) {
            return None;
        }
        let to = to.join(" ");
        let why = if self.bad.exit_code == Some(127) { "not installed" } else { "not executable" };
        let runs_project = to.contains('/') || RUNNERS.iter().any(|runner| to.starts_with(runner));
        let is_plain = !first.contains('/') && !runs_project;
        let general = akin.is_some() && is_plain && self.bad.exit_code == Some(127);
        let mut lesson = self.lesson("", first, None);
        lesson.text = format!("Run `{to}`, not `{first}`: it is {why} here.");
        lesson.when.signature = (self.bad.exit_code == Some(127))
            .then(|| crate::protocol::signature::signature(&format!("{first}: ")))
            .map(|piece| piece.trim().to_owned())
            .filter(|piece| {
                crate::protocol::signature::signature(self.bad.error).contains(piece.as_str())
            });
        lesson.when.platform = general.then(|| std::env::consts::OS.to_owned());
        lesson.condition = format!("`{name}` is {why}");
        lesson.fix = Some(Fix::ReplaceWords { from: (*first).to_owned(), to });
        lesson.general = general;
        Some(lesson)
    }
}

/// The words that stand for a missing program: `python3 -m pytest`, `./bin/pytest`, `bash gen.sh`, `python3`.
fn instead<'a>(missing: &str, arguments: &[&str], good: &Simple<'a>) -> Option<Vec<&'a str>> {
    let program = good.program();
    let (first, rest) = program.split_first()?;
    let name = name_of(missing);
    let at = program.iter().position(|word| name_of(&unquoted(word)) == name);
    match at {
        // Elsewhere: a path to it, where it was none or another.
        Some(0) => (*first != missing).then(|| vec![*first]),
        Some(at) => {
            let starts =
                INTERPRETERS.contains(&name_of(first)) || RUNNERS.contains(&name_of(first));
            let none_between = program[1..at]
                .iter()
                .all(|word| word.starts_with('-') || ["run", "exec", "dlx"].contains(word));
            (starts && none_between).then(|| program[..=at].to_vec())
        }
        None => {
            let is_akin = strsim::jaro(name, name_of(first)) > 0.8 || is_split(name, program);
            let n = if is_split(name, program) { 2 } else { 1 };
            let same_rest = program[n..] == *arguments || (n == 1 && rest == arguments);
            (is_akin && same_rest).then(|| program[..n].to_vec())
        }
    }
}

/// The program of another name that is for the same and was given the same: `pytest-3 tests/` →
/// `./run_tests.sh tests/`.
fn same_purpose<'a>(gone: &Simple<'_>, good: &[Simple<'a>]) -> Option<Vec<&'a str>> {
    let topic = topics::of_simple(gone)?;
    let (_, arguments) = gone.program().split_first()?;
    let same = good.iter().find(|simple| topics::of_simple(simple) == Some(topic))?;
    let program = same.program();
    let n = (1..=head(program).len()).find(|n| program[*n..] == *arguments)?;
    Some(program[..n].to_vec())
}

/// `docker-compose` → `docker compose`.
fn is_split(name: &str, program: &[&str]) -> bool {
    matches!(program, [first, second, ..] if name == format!("{first}-{second}"))
}
