//! Is a remembered item worth telling to a task unasked? Only where the task will come to what the item is about.
//!
//! What is known of commands is told where the task asks for what the command does (its topic, its name), unless the
//! task is about a text that nothing is run for, and what three sessions came to in every task that may run something;
//! what is known of tools, where the task will use them. Quoted words, what the task says not to do, and requests to
//! explain or to list ask for nothing.

mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub(super) use self::task::Task;
use self::task::{MIN_ALIKE, REQUESTS, Sentence};
use super::command::{ANY, INTERPRETERS, SYSTEM, WITH_TASK, is_option, is_script, name_of};
use super::extract::guard;
use super::item::{FailurePattern, Fix, Item};
use super::store::words;
use super::topics;
use crate::protocol::envelope::ErrorCode;

/// What runs files of these kinds.
const RUNS: [(&str, &[&str]); 10] = [
    ("tsx", &["ts", "tsx"]),
    ("ts-node", &["ts"]),
    ("python", &["py"]),
    ("python3", &["py"]),
    ("node", &["js", "mjs", "cjs", "ts"]),
    ("ruby", &["rb"]),
    ("perl", &["pl"]),
    ("php", &["php"]),
    ("bash", &["sh"]),
    ("sh", &["sh"]),
];
/// Which tool does what these programs are used for.
const INSTEAD: [(&str, &str); 8] = [
    ("cat", "Read"),
    ("head", "Read"),
    ("tail", "Read"),
    ("sed", "Edit"),
    ("grep", "Grep"),
    ("rg", "Grep"),
    ("find", "Glob"),
    ("ls", "LS"),
];
/// Parts of commands that say nothing of what is done.
const GENERAL: [&str; 21] = [
    "npm", "pnpm", "yarn", "make", "cargo", "go", "just", "run", "git", "env", "npx", "sudo", "cd",
    "echo", "mv", "bin", "src", "lib", "tools", "scripts", "services",
];

/// Of an item that fits by its words alone so many must be in the task, and this part of them.
const MIN_SHARED_WORDS: usize = 3;
const MIN_SHARED_PART: f64 = 0.5;
/// What so many sessions came to, whatever their tasks were, the next one will come to.
const USUAL: usize = 3;

/// What an item is about, read once: tasks are many.
#[derive(Debug)]
pub(super) struct Subject {
    /// By which words a task would name its command.
    names: Vec<String>,
    topics: BTreeSet<&'static str>,
    words: BTreeSet<String>,
}

impl Subject {
    pub(super) fn of(item: &Item) -> Self {
        let head = item.failure.as_ref().and_then(|failure| failure.when.command_head.as_deref());
        let names = head.map(names_of).unwrap_or_default();
        let topics = head.map(|head| topics_of(item, head)).unwrap_or_default();
        Self { names, topics, words: words::of(&item.text).into_iter().collect() }
    }

    /// Its command is for this.
    pub(super) fn has_topic(&self, topic: &str) -> bool {
        self.topics.contains(topic)
    }
}

impl Task {
    /// How well an item fits; `None`: it is not told unasked.
    pub(super) fn fits(&self, item: &Item, subject: &Subject) -> Option<f64> {
        let Some(failure) = &item.failure else { return self.fits_words(item, subject) };
        // What gets past a guard is told where the task asks for that in words; else it is offered after the failure.
        if item.text.ends_with(guard::ONLY_ASKED)
            && !self.orders().any(|sentence| sentence.has_word_of(guard::asks))
        {
            return None;
        }
        let when = &failure.when;
        if let Some(path) = path_of(failure) {
            // Where the sources lie now matters to whoever does not name them.
            let is_folder = !path.rsplit('/').next().unwrap_or(path).contains('.');
            let is_general = is_folder && !self.is_about_text && self.names_no_path();
            return (self.names_path(path) || is_general).then_some(3.0);
        }
        match (tool_of(item, failure), &when.command_head) {
            ("Bash" | "", Some(head)) => {
                let asked = self.asks_for_command(subject, failure, head);
                asked.or_else(|| self.will_run(item).then_some(0.5))
            }
            ("Bash" | "", None)
                if when.argument.is_none() && when.code != Some(ErrorCode::UnknownTool) =>
            {
                self.fits_words(item, subject)
            }
            (tool, _) => self.will_use(tool, when.file_kind.as_deref()).then_some(1.0),
        }
    }

    /// The task asks for what this command does.
    fn asks_for_command(
        &self,
        subject: &Subject,
        failure: &FailurePattern,
        head: &str,
    ) -> Option<f64> {
        if self.is_about_text {
            return None;
        }
        if self.orders().any(|sentence| subject.names.iter().any(|name| sentence.names(name))) {
            return Some(3.0);
        }
        if folder_of(failure).is_some_and(|folder| self.names_path(folder)) {
            return Some(2.5);
        }
        if folder_of_scripts(failure, head).is_some_and(|(folder, kind)| {
            self.orders().any(|sentence| sentence.names_kind_in(folder, kind))
        }) {
            return Some(2.5);
        }
        // Where everything is to happen is known only where it does not happen here.
        let has_topic = subject.topics.iter().any(|topic| self.topics.contains(topic));
        if has_topic && !sets_place(failure, head) {
            return Some(2.0);
        }
        let (_, kinds) = RUNS.iter().find(|(program, _)| *program == name_of(head))?;
        let is_run = |sentence: &Sentence| {
            sentence.has(name_of(head)) || kinds.iter().any(|kind| sentence.names_kind(kind))
        };
        self.orders().any(is_run).then_some(2.0)
    }

    /// Whatever it is about: it asks for work, and work has come to this so far.
    fn will_run(&self, item: &Item) -> bool {
        item.evidence.len() >= USUAL && !self.is_about_text && self.orders().next().is_some()
    }

    /// The task comes to this tool.
    fn will_use(&self, tool: &str, kind: Option<&str>) -> bool {
        let any = |is: &dyn Fn(&Sentence) -> bool| self.sentences.iter().any(is);
        let names_file = any(&|sentence| match kind {
            Some(kind) => sentence.names_kind(kind),
            None => sentence.names_file(),
        });
        match tool.to_lowercase().as_str() {
            "edit" | "multiedit" | "write" => {
                let is_stated = any(&|sentence| sentence.names_file() && !sentence.is_question);
                (kind.is_none() || names_file) && (self.says(&REQUESTS.changing) || is_stated)
            }
            "read" => names_file,
            "todowrite" => self.says(&REQUESTS.planning),
            "bash" => {
                let builds = || topics::BUILDS.iter().any(|topic| self.topics.contains(topic));
                !self.is_about_text && (self.says(&REQUESTS.running) || builds())
            }
            _ => self.says(&REQUESTS.looking),
        }
    }

    /// An item that is bound to no call: its subject is asked for, or most of its words stand in the task.
    fn fits_words(&self, item: &Item, subject: &Subject) -> Option<f64> {
        let topic = item.tags.topic.as_str();
        if !self.is_about_text && self.topics.contains(topic) {
            return Some(2.0);
        }
        let own = &subject.words;
        let shared = own.intersection(&self.words).count();
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        let part = shared as f64 / own.len().max(1) as f64;
        (shared >= MIN_SHARED_WORDS && part >= MIN_SHARED_PART).then_some(1.0 + part)
    }
}

/// The tool by which a task comes to what the item is about: the one that is right.
fn tool_of<'a>(item: &'a Item, failure: &'a FailurePattern) -> &'a str {
    let when = &failure.when;
    let head = when.command_head.as_deref().unwrap_or_default();
    let instead = INSTEAD.iter().find(|(program, _)| *program == head);
    match (&failure.fix, instead, when.code) {
        (Some(Fix::OtherTool { tool, .. }), ..) => tool,
        (None, Some((_, tool)), Some(ErrorCode::UseTool)) => tool,
        (None, None, Some(ErrorCode::UnknownTool)) => &item.tags.topic,
        _ => &when.tool,
    }
}

/// The folder that a command is to be run in.
fn folder_of(failure: &FailurePattern) -> Option<&str> {
    let line = match failure.fix.as_ref()? {
        Fix::ReplaceWords { to: line, .. }
        | Fix::Prefix { with: line }
        | Fix::RunFirst { command: line } => line,
        Fix::RenameArgument { .. }
        | Fix::SetArguments { .. }
        | Fix::ReplacePath { .. }
        | Fix::OtherTool { .. } => return None,
    };
    line.strip_prefix("cd ")?.split_whitespace().next()
}

/// What a command is for, by the table of commands and by the words of its names.
fn topics_of(item: &Item, head: &str) -> BTreeSet<&'static str> {
    let mut found: BTreeSet<&str> = topics::of_command(head).into_iter().collect();
    let names = names_of(head);
    found.extend(names.iter().flat_map(|name| topics::of_words(name)));
    found.extend(topics::all().filter(|topic| {
        let mut words = topics::words_of(topic).iter().filter(|word| word.len() >= MIN_ALIKE);
        words.any(|word| names.iter().any(|name| name.contains(word.as_str())))
    }));
    found.extend(topics::all().filter(|topic| *topic == item.tags.topic));
    if does_all_work(item, head) {
        found.extend(topics::BUILDS);
    }
    // Where the program itself is another, whatever it is asked for.
    let is_program = |from: &str| from == head && WITH_TASK.contains(&name_of(head));
    let fix = item.failure.as_ref().and_then(|failure| failure.fix.as_ref());
    if matches!(fix, Some(Fix::ReplaceWords { from, .. }) if is_program(from)) {
        found.extend(topics::BUILDS);
        found.extend(["format", "generate"]);
    }
    found
}

/// What is known is known of a program whatever it is to do, and it is one that builds the code, runs it or looks at
/// it: `cargo *`, `yarn workspace`, `./manage.py *`.
fn does_all_work(item: &Item, head: &str) -> bool {
    let words: Vec<&str> = head.split_whitespace().collect();
    let Some((program, tasks)) = words.split_first() else { return false };
    let has_own_subject = topics::of_command(program).is_some();
    match tasks {
        [.., ANY] | ["workspace"] if WITH_TASK.contains(&name_of(program)) => true,
        // What a program of the project was to do was said by its arguments.
        [] | [ANY] if is_script(program) => {
            !has_own_subject && topics::all().any(|topic| topic == item.tags.topic)
        }
        _ => false,
    }
}

/// An option stands between a program and what it is to do, whatever that is: `go -C web`, `kubectl -n shop`.
pub(super) fn sets_place(failure: &FailurePattern, head: &str) -> bool {
    let Some(Fix::ReplaceWords { from, to }) = &failure.fix else { return false };
    let more = to.strip_prefix(from.as_str()).map(str::trim_start);
    from == head && WITH_TASK.contains(&name_of(head)) && more.is_some_and(is_option)
}

/// Where a script lies that can only be run through an interpreter, and of which kind it is: others there are so too.
fn folder_of_scripts<'a>(failure: &FailurePattern, head: &'a str) -> Option<(&'a str, &'a str)> {
    let Some(Fix::ReplaceWords { from, to }) = &failure.fix else { return None };
    let through = to.split_whitespace().next().is_some_and(|first| INTERPRETERS.contains(&first));
    let path = head.trim_start_matches("./");
    let (folder, name) = path.rsplit_once('/')?;
    let (_, kind) = name.rsplit_once('.')?;
    (from == head && through).then_some((folder, kind))
}

/// The words by which a task would name this command. What programs that do anything are called says nothing, nor
/// does an everyday word that is a program's name too (`date`, `sort`).
fn names_of(head: &str) -> Vec<String> {
    let mut names = Vec::new();
    for word in head.split_whitespace().filter(|word| !word.starts_with('-')) {
        for part in word.split('/') {
            let part = part.to_lowercase();
            let stem = part.rsplit_once('.').map_or(part.as_str(), |(stem, _)| stem);
            let is_word = stem.chars().count() >= if stem.is_ascii() { 3 } else { 2 };
            let is_everyday = SYSTEM.contains(&stem) && stem.chars().all(char::is_alphabetic);
            let does_anything = GENERAL.contains(&stem) || INTERPRETERS.contains(&stem);
            if is_word && !is_everyday && !does_anything {
                names.push(stem.to_owned());
            }
        }
    }
    names
}

/// The path that a pattern is about.
fn path_of(failure: &FailurePattern) -> Option<&str> {
    match &failure.fix {
        Some(Fix::ReplacePath { from, .. }) => Some(from),
        Some(
            Fix::ReplaceWords { .. }
            | Fix::Prefix { .. }
            | Fix::RenameArgument { .. }
            | Fix::SetArguments { .. }
            | Fix::RunFirst { .. }
            | Fix::OtherTool { .. },
        )
        | None => failure.when.path.as_deref(),
    }
}
