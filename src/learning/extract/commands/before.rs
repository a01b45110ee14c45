//! What has to stand in front of a command, or to be run before it.

use super::super::super::chain::main_command;
use super::super::super::command::{head, is_task};
use super::super::super::evidence::has_word;
use super::super::super::item::Fix;
use super::super::{Between, Lesson};
use super::{Case, essential};
use crate::protocol::command::{Simple, is_script, name_of, simple_commands};
use crate::protocol::topics;

/// The longest command that is remembered to be run first, in bytes.
const MAX_FIRST: usize = 120;
/// Programs that are never what has to be run first: they undo, remove or hand over work.
pub(in super::super) const NEVER_FIRST: [&str; 14] = [
    "git", "rm", "mv", "kill", "pkill", "killall", "sudo", "sed", "perl", "truncate", "dd",
    "sleep", "patch", "tee",
];
/// Topics of what prepares other work.
const PREPARES: [&str; 6] = ["format", "generate", "build", "install", "migrate", "start"];

impl Case<'_> {
    /// Something stands in front of what failed: another folder, variables, a command.
    pub(super) fn in_front(
        &self,
        line: &str,
        bad: &[Simple<'_>],
        good: &[Simple<'_>],
    ) -> Option<Lesson> {
        if !self.may_be_the_call() {
            return None;
        }
        let added = &good[..good.len() - bad.len()];
        let main = main_command(bad)?;
        let head = head(main.program()).join(" ");
        let rest = &good[good.len() - bad.len()];
        let joined = added.iter().all(|simple| matches!(simple.operator, Some("&&" | ";")));
        let with = line.get(added.first()?.start()..rest.start())?.trim_start_matches('(');
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
                    let text =
                        format!("Run `{head}` in `{folder}`, in one call: `cd {folder} && {head}`");
                    self.lesson(&text, &head, None)
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
    pub(super) fn below_a_folder(
        &self,
        folder: &str,
        bad: &Simple<'_>,
        good: &Simple<'_>,
    ) -> Option<Lesson> {
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

    /// What the program reads goes through another one first: `bin/strip a.json | bin/jsonq key`.
    pub(super) fn piped(
        &self,
        bad: &Simple<'_>,
        filter: &Simple<'_>,
        good: &Simple<'_>,
    ) -> Option<Lesson> {
        let (old, new, filter_words) = (bad.program(), good.program(), filter.program());
        // The file is the filter's now.
        let handed: Vec<&str> = old.iter().filter(|word| !new.contains(word)).copied().collect();
        let [file] = handed.as_slice() else { return None };
        let at = filter_words.iter().position(|word| word == file)?;
        let stays = old.len() == new.len() + 1 || new.contains(&"-");
        let name = name_of(filter_words[0]);
        let is_stream = ["sed", "perl"].contains(&name)
            && !filter_words.iter().any(|word| word.starts_with("-i"));
        let is_look = (NEVER_FIRST.contains(&name) && !is_stream) || name == "echo";
        if filter.operator != Some("|") || !stays || is_look || !self.may_be_the_call() {
            return None;
        }
        let kept: Vec<&str> = old.iter().filter(|word| *word != file).copied().collect();
        let head = head(&kept).join(" ");
        let filter = filter_words[..at].join(" ");
        let text = format!("Give `{head}` its file through `{filter}`: `{filter} FILE | {head} …`");
        Some(self.lesson(&text, &head, None))
    }

    /// `first` has to be run before the command.
    fn first(&self, first: &str, head: &str, mechanical: bool) -> Lesson {
        let fix = mechanical.then(|| Fix::RunFirst { command: first.to_owned() });
        self.lesson(&format!("Run `{first}` before `{head}`"), head, fix)
    }

    /// The same command worked after something else was run.
    pub(super) fn run_first(&self, line: &str, between: &[Between<'_>]) -> Option<Lesson> {
        let commands = essential(line);
        let failed = main_command(&commands)?.program();
        let acts =
            |call: &&Between<'_>| call.acts && call.command().is_some_and(|line| !only_looks(line));
        let acted: Vec<&Between<'_>> = between.iter().filter(acts).collect();
        let told = |call: &&Between<'_>| {
            let line = call.command().unwrap_or_default();
            essential(line).iter().any(|simple| {
                let program = simple.program();
                let own = super::super::super::command::head(program);
                let what = own.last().copied().unwrap_or_default();
                // `run: make gen`, `run 'pod install'`, `tools/gen.sh is older than …`.
                let told = match program {
                    _ if own.len() > 1 => own.join(" "),
                    [first, task, ..] if is_task(task) => format!("{} {task}", name_of(first)),
                    _ => String::new(),
                };
                has_word(self.bad.error, &told)
                    || (is_script(what) && has_word(self.bad.error, name_of(what)))
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
        // Of a program that has to do something else first it is one of its tasks that fails.
        let is_same = own.iter().any(|simple| simple.program().first() == failed.first());
        let n = if is_same && failed.len() > 1 { 2 } else { 1 };
        let head = failed[..head(failed).len().max(n)].join(" ");
        let mut lesson = self.first(&first, &head, !in_background);
        if in_background {
            lesson.text = format!("Start `{first}` in the background before `{head}`.");
        }
        Some(lesson)
    }
}

/// It asks a program what it can do, or shows something.
pub(in super::super) fn only_looks(line: &str) -> bool {
    const LOOKS: [&str; 12] =
        ["cat", "ls", "head", "tail", "grep", "find", "which", "type", "wc", "file", "pwd", "echo"];
    const ASKS: [&str; 4] = ["--help", "-h", "help", "--version"];
    let commands = essential(line);
    !commands.is_empty()
        && commands.iter().all(|simple| {
            let program = simple.program();
            program.first().is_some_and(|first| LOOKS.contains(first))
                || program.get(1).is_some_and(|word| ASKS.contains(word))
                || program.starts_with(&["make", "-p"])
                || program.last().is_some_and(|word| ASKS[..2].contains(word))
        })
}
