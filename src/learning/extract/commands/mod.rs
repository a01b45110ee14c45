//! What command lines teach: words that have to be others, something in front, something to be run first.
//!
//! A command that fails may have failed because the work is wrong; then another command that succeeds has made
//! nothing good. So a difference teaches only where the output speaks of the call or of the place, and names what was
//! changed; and where files were edited in between, only what has nothing to do with files: a program that is missing.

mod before;
mod missing;
mod words;

pub(super) use self::before::{NEVER_FIRST, only_looks};
use super::super::chain::main_command;
use super::super::command::{ANY, SYSTEM, head, is_task};
use super::super::difference::common;
use super::super::evidence::{blames, fails_tests, is_verdict, names};
use super::super::item::{Condition, Fix};
use super::{Between, Lesson, Try, reason, topic_of};
use crate::protocol::Object;
use crate::protocol::command::{
    INTERPRETERS, Simple, WITH_TASK, is_redirection, name_of, simple_commands,
};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::topics;

/// Programs that only show a part of what was printed.
const SHOWS: [&str; 6] = ["tail", "head", "cat", "grep", "wc", "tee"];
/// What the success teaches of the failure; `next`: what was tried next and failed in another way, and what was
/// done before that.
///
/// Then the success may differ in more than one thing. What was tried next failed no more as this did, so it tells
/// what helped, if that still stands at the end; else the success tells it, if it differs in one thing after all.
pub(super) fn lesson(
    bad: &Try<'_>,
    next: Option<(&Try<'_>, &[Between<'_>])>,
    good: &Try<'_>,
    between: &[Between<'_>],
) -> Option<Lesson> {
    let Some((next, before_next)) = next else { return compared(bad, good, between) };
    if bad.is_missing() {
        return Case::of(bad, between)
            .missing(&essential(bad.command()?), &essential(good.command()?));
    }
    if next.is_missing() {
        return None;
    }
    // What helped is still there at the end.
    let stands = |words: &str| {
        let line = good.command().unwrap_or_default();
        let mut words = words.split_whitespace().filter(|word| *word != ANY);
        words.all(|word| line.split_whitespace().any(|other| other == word))
    };
    let helps = |lesson: &Lesson| match lesson.fix.as_ref() {
        Some(Fix::ReplaceWords { to, .. }) => stands(to),
        Some(Fix::Prefix { with }) => stands(with),
        // What was run has had its effect.
        Some(Fix::RunFirst { .. }) => true,
        Some(
            Fix::RenameArgument { .. }
            | Fix::SetArguments { .. }
            | Fix::ReplacePath { .. }
            | Fix::OtherTool { .. },
        )
        | None => false,
    };
    let of_words =
        |lesson: &Lesson| matches!(lesson.fix, Some(Fix::ReplaceWords { .. } | Fix::Prefix { .. }));
    compared(bad, next, before_next)
        .filter(helps)
        .or_else(|| compared(bad, good, between).filter(of_words))
}

fn compared(bad: &Try<'_>, good: &Try<'_>, between: &[Between<'_>]) -> Option<Lesson> {
    let (bad_line, good_line) = (bad.command()?, good.command()?);
    let (bad_commands, good_commands) = (essential(bad_line), essential(good_line));
    if bad_commands.is_empty() || good_commands.is_empty() {
        return None;
    }
    let case = Case::of(bad, between);
    let words = |commands: &[Simple<'_>]| -> Vec<Vec<String>> {
        commands.iter().map(|c| c.words.iter().map(|w| (*w).to_owned()).collect()).collect()
    };
    let (old, new) = (words(&bad_commands), words(&good_commands));
    if old == new {
        return with_other_arguments(bad, good).or_else(|| case.run_first(bad_line, between));
    }
    if bad.code == Some(ErrorCode::Timeout) {
        return None;
    }
    if new.len() > old.len() && new.ends_with(&old) {
        return case.in_front(good_line, &bad_commands, &good_commands);
    }
    let below = match (bad_commands.as_slice(), good_commands.as_slice()) {
        ([bad_command], [cd, good]) => match cd.program() {
            ["cd", folder] => case.below_a_folder(folder, bad_command, good),
            _ => case.piped(bad_command, cd, good),
        },
        ([bad_command], [good_command]) => good
            .text("directory")
            .filter(|_| !bad.input.contains_key("directory"))
            .and_then(|folder| case.below_a_folder(folder, bad_command, good_command)),
        _ => None,
    };
    if below.is_some() {
        return below;
    }
    let (front, back) = common(&old, &new);
    let one = old.len() == front + back + 1 && new.len() == front + back + 1;
    if !one {
        // `tests; x` and `cd web && python3 -m tests` differ in more than one place, but for a program
        // that is missing the first alone counts.
        return case.missing(&bad_commands, &good_commands);
    }
    case.changed(&bad_commands[front], &good_commands[front])
        .or_else(|| case.missing(&bad_commands, &good_commands))
}

/// A failure, and what is known of it.
struct Case<'a> {
    bad: &'a Try<'a>,
    /// Files were changed before the success.
    edited: bool,
    /// The output passes judgement on the work.
    judged: bool,
    /// The output blames the call or the place.
    blamed: bool,
}

impl<'a> Case<'a> {
    fn of(bad: &'a Try<'a>, between: &[Between<'_>]) -> Self {
        Self {
            bad,
            edited: between.iter().any(Between::is_edit),
            judged: is_verdict(bad.error),
            blamed: bad.code == Some(ErrorCode::CommandBlocked) || bad.error.lines().any(blames),
        }
    }

    /// The success may be due to how the command was called.
    fn may_be_the_call(&self) -> bool {
        !self.edited && (self.blamed || !self.judged)
    }

    /// The same, where all that was given stands there again: nothing of the work is another, so code that did not
    /// compile or run was only built or run in a wrong way.
    fn may_be_what_was_added(&self) -> bool {
        !self.edited && (self.blamed || !fails_tests(self.bad.error))
    }

    fn when(&self, head: &str, replaced: &str) -> Condition {
        Condition {
            tool: "Bash".to_owned(),
            code: self.bad.code,
            signature: self.bad.signature_of_kind(head, replaced),
            command_head: Some(head.to_owned()),
            ..Condition::default()
        }
    }

    fn lesson(&self, text: &str, head: &str, fix: Option<Fix>) -> Lesson {
        let said = self.bad.signature();
        let condition = match &said {
            Some(said) => format!("`{head}` is run and says: {said}"),
            None => format!("`{head}` is run"),
        };
        let replaced = match &fix {
            Some(Fix::ReplaceWords { from, .. }) => from.as_str(),
            Some(
                Fix::Prefix { .. }
                | Fix::RunFirst { .. }
                | Fix::RenameArgument { .. }
                | Fix::SetArguments { .. }
                | Fix::ReplacePath { .. }
                | Fix::OtherTool { .. },
            )
            | None => "",
        };
        Lesson {
            text: format!("{text}{}.", reason(said.as_deref())),
            condition,
            when: self.when(head, replaced),
            fix,
            topic: topic_of("Bash", self.bad.input),
            general: false,
        }
    }
}

/// What it says of a program holds on the whole machine.
fn of_machine(lesson: Lesson, program: &str) -> Lesson {
    if SYSTEM.contains(&program) { on_this_system(lesson) } else { lesson }
}

/// It holds in all projects on this system.
pub(super) fn on_this_system(mut lesson: Lesson) -> Lesson {
    lesson.when.platform = Some(std::env::consts::OS.to_owned());
    lesson.general = true;
    lesson
}

/// How a lesson names the commands that it is about, and the head by which it knows them: with what this one is to do,
/// or, where the failure does not blame just that, whatever it is to do.
fn heads(simple: &Simple<'_>, error: &str) -> (String, String) {
    let program = simple.program();
    let own = head(program);
    let told = own.join(" ");
    let has_tasks = WITH_TASK.contains(&name_of(own[0]));
    // The first word behind a program of the project is what it is to do, where more words follow.
    let is_own = !has_tasks && !INTERPRETERS.contains(&name_of(own[0]));
    let task = match program {
        [_, task, ..] if is_own && is_task(task) && program.len() > 2 => Some(*task),
        _ if has_tasks && own.len() > 1 => own.last().copied(),
        _ => None,
    };
    match task {
        Some(task) if topics::is_akin(simple) && names(error, task).is_none() => {
            let n = own.len().max(2) - 1;
            (told, format!("{} {ANY}", program[..n].join(" ")))
        }
        Some(_) | None => (told.clone(), told),
    }
}

/// The commands of a line without redirections, and without those that only show a part of the output.
pub(super) fn essential(line: &str) -> Vec<Simple<'_>> {
    let mut commands: Vec<Simple<'_>> = simple_commands(line).iter().map(plain).collect();
    commands.retain(|simple| !simple.words.is_empty());
    while commands.len() > 1 {
        let shows = |simple: &Simple<'_>| {
            simple.words.first().is_some_and(|program| SHOWS.contains(program))
        };
        let is_piped = commands[commands.len() - 2].operator == Some("|");
        if !(is_piped && commands.last().is_some_and(shows)) {
            break;
        }
        commands.pop();
    }
    if let Some(last) = commands.last_mut() {
        last.operator = None;
    }
    commands
}

/// The command without its redirections: what it prints where is no part of what it is.
pub(super) fn plain<'a>(simple: &Simple<'a>) -> Simple<'a> {
    let mut plain = Simple { words: Vec::new(), at: Vec::new(), ..*simple };
    let mut skip = false;
    for (word, at) in simple.words.iter().zip(&simple.at) {
        if std::mem::take(&mut skip) {
            continue;
        }
        if is_redirection(word) {
            skip = word.ends_with('>');
            continue;
        }
        plain.words.push(word);
        plain.at.push(*at);
    }
    plain
}

/// The same line with other arguments of Bash: a folder, more time, in the background.
fn with_other_arguments(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let commands = essential(bad.command()?);
    let head = head(main_command(&commands)?.program()).join(" ");
    let (name, value) = good.input.iter().find(|(name, value)| {
        ["directory", "timeout_ms", "background"].contains(&name.as_str())
            && bad.input.get(*name) != Some(value)
    })?;
    let fits = match name.as_str() {
        "directory" => bad.code == Some(ErrorCode::CommandFailed),
        _ => bad.code == Some(ErrorCode::Timeout),
    };
    let text = match name.as_str() {
        "directory" => format!("Run `{head}` in `{}`.", value.as_str()?),
        "timeout_ms" => format!("Give `{head}` a `timeout_ms` of {value}: it takes its time."),
        _ => format!("Run `{head}` in the background: it does not end by itself."),
    };
    let signature = (name == "directory").then(|| bad.signature()).flatten();
    fits.then(|| Lesson {
        text,
        condition: format!("`{head}` is run without `{name}`: {value}"),
        when: Condition {
            tool: "Bash".to_owned(),
            code: bad.code,
            signature,
            command_head: Some(head.clone()),
            ..Condition::default()
        },
        fix: Some(Fix::SetArguments { input: Object::from_iter([(name.clone(), value.clone())]) }),
        topic: topic_of("Bash", bad.input),
        general: false,
    })
}
