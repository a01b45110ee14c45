//! What command lines teach: words that have to be others, something in front, something to be run first.
//!
//! A command that fails may have failed because the work is wrong; then another command that succeeds has made
//! nothing good. So a difference teaches only where the output speaks of the call or of the place, and names what was
//! changed; and where files were edited in between, only what has nothing to do with files: a program that is missing.

use super::super::chain::main_command;
use super::super::command::{
    INTERPRETERS, Simple, WITH_TASK, head, is_assignment, is_redirection, is_script, name_of,
    simple_commands, unquoted,
};
use super::super::difference::common;
use super::super::evidence::{is_circumstance, is_verdict, names};
use super::super::item::{Condition, Fix};
use super::super::topics;
use super::{Between, Lesson, Try, reason, topic_of};
use crate::protocol::Object;
use crate::protocol::envelope::ErrorCode;

/// The longest command that is remembered to be run first, in bytes.
const MAX_FIRST: usize = 120;
/// So many words may differ.
const MAX_WORDS: usize = 3;
/// Programs that are never what has to be run first: they undo, remove or hand over work.
const NEVER_FIRST: [&str; 14] = [
    "git", "rm", "mv", "kill", "pkill", "killall", "sudo", "sed", "perl", "truncate", "dd",
    "sleep", "patch", "tee",
];
/// Topics of what prepares other work.
const PREPARES: [&str; 6] = ["format", "generate", "build", "install", "migrate", "start"];
/// Programs that run another one of the project's own packages.
const RUNNERS: [&str; 9] =
    ["npx", "pnpm", "yarn", "npm", "bundle", "poetry", "uv", "pipenv", "pdm"];
/// Programs that only show a part of what was printed.
const SHOWS: [&str; 6] = ["tail", "head", "cat", "grep", "wc", "tee"];

/// What the success teaches of the failure; `next`: what was tried next and failed in another way, and what was
/// done before that.
///
/// Then the success differs in more than one thing, and only a missing program is made good by it alone;
/// the rest is told by what was tried next, which failed no more as this did.
pub(super) fn lesson(
    bad: &Try<'_>,
    next: Option<(&Try<'_>, &[Between<'_>])>,
    good: &Try<'_>,
    between: &[Between<'_>],
) -> Option<Lesson> {
    let Some((next, before_next)) = next else { return compared(bad, good, between) };
    let is_missing = |tried: &Try<'_>| [Some(126), Some(127)].contains(&tried.exit_code);
    if is_missing(bad) {
        return Case::of(bad, between)
            .missing(&essential(bad.command()?), &essential(good.command()?));
    }
    if is_missing(next) {
        return None;
    }
    let lesson = compared(bad, next, before_next)?;
    // What helped is still there at the end.
    let stands = |words: &str| {
        let line = good.command().unwrap_or_default();
        words.split_whitespace().all(|word| line.split_whitespace().any(|other| other == word))
    };
    let helps = match lesson.fix.as_ref()? {
        Fix::ReplaceWords { to, .. } => stands(to),
        Fix::Prefix { with } => stands(with),
        // What was run has had its effect.
        Fix::RunFirst { .. } => true,
        Fix::RenameArgument { .. }
        | Fix::SetArguments { .. }
        | Fix::ReplacePath { .. }
        | Fix::OtherTool { .. } => false,
    };
    helps.then_some(lesson)
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
            _ => None,
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
            blamed: bad.code == Some(ErrorCode::CommandBlocked) || is_blamed(bad),
        }
    }

    /// The success may be due to how the command was called.
    fn may_be_the_call(&self) -> bool {
        !self.edited && (self.blamed || !self.judged)
    }

    fn when(&self, head: &str) -> Condition {
        Condition {
            tool: "Bash".to_owned(),
            code: self.bad.code,
            signature: self.bad.signature(),
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
        Lesson {
            text: format!("{text}{}.", reason(said.as_deref())),
            condition,
            when: self.when(head),
            fix,
            topic: topic_of("Bash", self.bad.input),
            general: false,
        }
    }

    /// A program is not there, or can not be started: the one that was run instead.
    fn missing(&self, bad: &[Simple<'_>], good: &[Simple<'_>]) -> Option<Lesson> {
        if ![Some(126), Some(127)].contains(&self.bad.exit_code) {
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

    /// Something stands in front of what failed: another folder, variables, a command.
    fn in_front(&self, line: &str, bad: &[Simple<'_>], good: &[Simple<'_>]) -> Option<Lesson> {
        if !self.may_be_the_call() {
            return None;
        }
        let added = &good[..good.len() - bad.len()];
        let main = main_command(bad)?;
        let head = head(main.program()).join(" ");
        let rest = &good[good.len() - bad.len()];
        let joined = added.iter().all(|simple| matches!(simple.operator, Some("&&" | ";")));
        let with = line.get(added.first()?.start..rest.start)?.trim_start_matches('(');
        if !joined || with.len() > MAX_FIRST {
            return None;
        }
        let is_setting = |simple: &Simple<'_>| {
            let program = simple.program().first();
            program.is_none()
                || ["cd", "export", "source", ".", "set"].iter().any(|own| program == Some(own))
        };
        if added.iter().all(is_setting) {
            let mut lesson = match simple_commands(with).as_slice() {
                [only] if only.program().first() == Some(&"cd") => {
                    let folder = only.program().get(1)?;
                    self.lesson(&format!("Run `{head}` in `{folder}`"), &head, None)
                }
                _ => self.lesson(
                    &format!(
                        "Run `{}` before `{head}`, in one line",
                        with.trim_end_matches(['&', ' ', ';'])
                    ),
                    &head,
                    None,
                ),
            };
            let with = format!("{} && ", with.trim_end_matches(['&', ' ', ';']));
            lesson.fix = Some(Fix::Prefix { with });
            return Some(lesson);
        }
        let [only] = added else { return None };
        let command = with.trim_end_matches(['&', ' ', ';']);
        let program = only.program().first()?;
        (!NEVER_FIRST.contains(&name_of(program))).then(|| self.first(command, &head, true))
    }

    /// In another folder, from which the program is called by another path: `cd web && ../bin/build`.
    fn below_a_folder(&self, folder: &str, bad: &Simple<'_>, good: &Simple<'_>) -> Option<Lesson> {
        if folder.starts_with(['/', '~', '.', '$', '-']) || folder.contains(char::is_whitespace) {
            return None;
        }
        let up = "../".repeat(folder.trim_end_matches('/').split('/').count());
        let ([first, rest @ ..], [again, others @ ..]) = (bad.program(), good.program()) else {
            return None;
        };
        let back = again.strip_prefix(up.as_str())? == first.trim_start_matches("./");
        if !back || rest != others || !self.may_be_the_call() {
            return None;
        }
        let fix =
            Fix::ReplaceWords { from: (*first).to_owned(), to: format!("cd {folder} && {again}") };
        let head = head(bad.program()).join(" ");
        let text = format!("Run `{head}` in `{folder}`, by its path from there");
        Some(self.lesson(&text, first, Some(fix)))
    }

    /// `first` has to be run before the command.
    fn first(&self, first: &str, head: &str, mechanical: bool) -> Lesson {
        let fix = mechanical.then(|| Fix::RunFirst { command: first.to_owned() });
        self.lesson(&format!("Run `{first}` before `{head}`"), head, fix)
    }

    /// The same command worked after something else was run.
    fn run_first(&self, line: &str, between: &[Between<'_>]) -> Option<Lesson> {
        let commands = essential(line);
        let head = head(main_command(&commands)?.program()).join(" ");
        let acted: Vec<&Between<'_>> =
            between.iter().filter(|call| call.acts && call.command().is_some()).collect();
        let told = |call: &&Between<'_>| {
            let line = call.command().unwrap_or_default();
            essential(line).iter().any(|simple| {
                let head = super::super::command::head(simple.program());
                let what = head.last().copied().unwrap_or_default();
                // `run: make gen`, `tools/gen.sh is older than …`.
                (head.len() > 1 || is_script(what))
                    && (self.bad.error.contains(&head.join(" "))
                        || (is_script(what) && self.bad.error.contains(name_of(what))))
            })
        };
        let named: Vec<&&Between<'_>> = acted.iter().filter(|call| told(call)).collect();
        let call = match (named.as_slice(), acted.as_slice()) {
            ([call], _) => **call,
            ([], [call]) if !self.edited => {
                let topic = call.command().and_then(topics::of_command);
                let prepares = topic.is_some_and(|topic| PREPARES.contains(&topic));
                (prepares || (self.blamed && !self.judged)).then_some(*call)?
            }
            _ => return None,
        };
        let first = call.command()?.trim();
        let own = simple_commands(first);
        let harmless = own.iter().all(|simple| {
            simple.program().first().is_none_or(|program| !NEVER_FIRST.contains(&name_of(program)))
        });
        if own.is_empty() || !harmless || first.len() > MAX_FIRST || first.contains('\n') {
            return None;
        }
        let in_background = call.input.get("background").is_some_and(|value| *value == true);
        let directory = call.input.get("directory").and_then(|value| value.as_str());
        let first = match directory {
            Some(folder) if folder != "." => format!("cd {folder} && {first}"),
            _ => first.to_owned(),
        };
        let mut lesson = self.first(&first, &head, !in_background);
        if in_background {
            lesson.text = format!("Start `{first}` in the background before `{head}`.");
        }
        Some(lesson)
    }

    /// One command has other words.
    fn changed(&self, bad: &Simple<'_>, good: &Simple<'_>) -> Option<Lesson> {
        if let Some(lesson) = self.with_variables(bad, good) {
            return Some(lesson);
        }
        if [Some(126), Some(127)].contains(&self.bad.exit_code) || !self.may_be_the_call() {
            return None;
        }
        let (n_old, n_new) = (bad.own_words(), good.own_words());
        if bad.words[..n_old] != good.words[..n_new] {
            return None;
        }
        let (old, new) = (bad.program(), good.program());
        if old.is_empty() || new.is_empty() {
            return None;
        }
        let (old_head, new_head) = (head(old), head(new));
        let (front, back) = common(old, new);
        let (from, to) = (&old[front..old.len() - back], &new[front..new.len() - back]);
        if from.len() > MAX_WORDS || to.len() > MAX_WORDS {
            return None;
        }
        let named = |word: &&str| {
            let word = unquoted(word);
            let bare = word.trim_start_matches('-').split('=').next().unwrap_or_default();
            names(self.bad.error, &word).or_else(|| names(self.bad.error, bare)).is_some()
        };
        let is_flag = |word: &&str| word.starts_with('-');
        let is_blamed_on = from.iter().any(named);
        let said = |text: String, fix: Fix, head: &[&str]| {
            Some(self.lesson(&text, &head.join(" "), Some(fix)))
        };
        let replaced =
            |from: &str, to: &str| Fix::ReplaceWords { from: from.into(), to: to.into() };
        // What the command is, is another: `make test` → `make check`.
        if old_head != new_head {
            let rest_is_same = old[old_head.len()..] == new[new_head.len()..];
            let same_program = old_head.first() == new_head.first();
            let akin = is_blamed_on
                || (!same_program
                    && self.blamed
                    && topics::of_simple(bad) == topics::of_simple(good));
            // Of an interpreter it is the program alone that is another.
            let of_program = old_head[1..] == new_head[1..];
            let n_old = if of_program { 1 } else { old_head.len() };
            let n_new = if of_program { 1 } else { new_head.len() };
            let (from, to) = (old_head[..n_old].join(" "), new_head[..n_new].join(" "));
            return (akin && rest_is_same).then(|| {
                said(format!("Run `{to}`, not `{from}`"), replaced(&from, &to), &old_head[..n_old])
            })?;
        }
        let head = old_head.join(" ");
        match (from, to) {
            ([], added) => {
                // A flag, with its value; what else stands there more is another target.
                let is_named = added.iter().any(named);
                if !is_flag(added.first()?) && !is_named {
                    return None;
                }
                // Of a test run it may choose fewer tests.
                if topics::of_simple(bad) == Some("test") && !self.blamed && !is_named {
                    return None;
                }
                let added = added.join(" ");
                // Behind other arguments it stays at the end; else it belongs to what the command is.
                let is_last = back == 0 && front > old_head.len();
                let fix = if is_last {
                    replaced("", &added)
                } else {
                    replaced(&head, &format!("{head} {added}"))
                };
                said(format!("Run `{head}` with `{added}`"), fix, old_head)
            }
            (gone, []) => {
                let gone = (is_blamed_on && gone.iter().any(is_flag)).then(|| gone.join(" "))?;
                said(format!("Run `{head}` without `{gone}`"), replaced(&gone, ""), old_head)
            }
            (gone, come) => {
                let both_flags = gone.iter().all(is_flag) && come.iter().all(is_flag);
                let one = gone.len() == 1 && come.len() == 1;
                let same_place = one && is_same_thing(gone[0], come[0]);
                // `stat -c %s` → `stat -f %z`.
                let with_values = gone.len() == come.len()
                    && is_flag(&gone[0])
                    && is_flag(&come[0])
                    && named(&gone[0]);
                // A branch, a service, a package of another name.
                let is_name =
                    |word: &str| !word.contains(['/', '.', '*', '$']) && !word.starts_with('-');
                let named_otherwise = one
                    && is_name(gone[0])
                    && is_name(come[0])
                    && WITH_TASK.contains(&name_of(old_head[0]));
                let renamed = one.then(|| name_in_range(gone[0], come[0])).flatten();
                let is_range = renamed.is_some();
                let fits = both_flags || same_place || with_values || named_otherwise || is_range;
                if !is_blamed_on || !fits {
                    return None;
                }
                let dotted = !gone[0].contains('/') && come[0].contains('/');
                if same_place && dotted {
                    let text = format!(
                        "Give `{head}` a path like `{}`, not a dotted name like `{}`",
                        come[0], gone[0]
                    );
                    let mut lesson = self.lesson(&text, &head, Some(replaced(gone[0], come[0])));
                    // The name stands in what it says.
                    lesson.when.signature = None;
                    return Some(lesson);
                }
                let (gone, come) = (gone.join(" "), come.join(" "));
                let (from, to) = renamed.unwrap_or((&gone, &come));
                let text = format!("Give `{head}` `{to}`, not `{from}`");
                said(text, replaced(&gone, &come), old_head)
            }
        }
    }

    /// `LC_ALL=C make test`.
    fn with_variables(&self, bad: &Simple<'_>, good: &Simple<'_>) -> Option<Lesson> {
        let set =
            |simple: &Simple<'_>| simple.words.iter().take_while(|w| is_assignment(w)).count();
        let (n_old, n_new) = (set(bad), set(good));
        let stays = bad.words[..n_old].iter().all(|word| good.words[..n_new].contains(word));
        let added: Vec<&str> =
            good.words[..n_new].iter().filter(|word| !bad.words.contains(word)).copied().collect();
        let rest_is_same = bad.words[n_old..] == good.words[n_new..];
        if !stays || added.is_empty() || !rest_is_same || !self.may_be_the_call() {
            return None;
        }
        let with = added.join(" ");
        let head = head(bad.program()).join(" ");
        let fix = Fix::Prefix { with: format!("{with} ") };
        Some(self.lesson(&format!("Run `{head}` with `{with}` in front"), &head, Some(fix)))
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

/// The commands of a line without redirections, and without those that only show a part of the output.
fn essential(line: &str) -> Vec<Simple<'_>> {
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
fn plain<'a>(simple: &Simple<'a>) -> Simple<'a> {
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

/// The output, or the status, blames the call or the place.
fn is_blamed(bad: &Try<'_>) -> bool {
    // The first line is ours: the command and its status.
    let mut lines = bad.error.lines();
    let own = lines.next().filter(|line| !line.contains(" exited "));
    own.into_iter().chain(lines).any(is_circumstance)
}

/// One name in another place or notation: `tests.unit` and `tests/unit`, `a/x.py` and `b/x.py`.
fn is_same_thing(one: &str, other: &str) -> bool {
    let letters = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    let without_ending = |text: &str| -> String {
        let (stem, ending) = text.rsplit_once('.').unwrap_or((text, ""));
        letters(if ending.contains('/') { text } else { stem })
    };
    letters(one) == letters(other)
        || (other.contains('/') && letters(one) == without_ending(other))
        || ((one.contains('/') || other.contains('/') || one.contains('.'))
            && super::super::chain::has_same_stem(one, other))
}

/// The name that is another in a range: `master..HEAD` and `main..HEAD`.
fn name_in_range<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let dots = ["...", ".."].into_iter().find(|dots| one.contains(dots))?;
    let ((from, to), (new_from, new_to)) = (one.split_once(dots)?, other.split_once(dots)?);
    match (from == new_from, to == new_to) {
        (false, true) => Some((from, new_from)),
        (true, false) => Some((to, new_to)),
        _ => None,
    }
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
