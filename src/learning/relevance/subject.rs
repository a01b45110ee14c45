//! What an item is about, read once when it is loaded: tasks are many.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::command::{ANY, SYSTEM, is_option};
use super::super::extract::guard;
use super::super::item::{FailurePattern, Fix, Item, Origin};
use super::super::question::is_everyday;
use super::super::store::words;
use super::asks::Asks;
use super::programs::{self, Known};
use super::task::{MIN_ALIKE, Task};
use crate::protocol::command::{INTERPRETERS, WITH_TASK, is_script, name_of};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::topics;

/// Parts of commands that say nothing of what is done.
const GENERAL: [&str; 21] = [
    "npm", "pnpm", "yarn", "make", "cargo", "go", "just", "run", "git", "env", "npx", "sudo", "cd",
    "echo", "mv", "bin", "src", "lib", "tools", "scripts", "services",
];

/// What is done with many programs. The other topics are those of one kind of program, and say nothing of its tasks.
const PURPOSES: [&str; 11] = [
    "test", "build", "lint", "bench", "start", "docs", "format", "install", "generate", "migrate",
    "release",
];
/// What so many sessions came to, whatever their tasks were, the next one will come to.
const USUAL: usize = 3;

/// What an item is about.
#[derive(Debug)]
pub(in super::super) struct Subject {
    pub(super) about: About,
    /// It gets past a guard.
    pub(super) is_guarded: bool,
    /// Work has come to it so often that it will again.
    pub(super) is_usual: bool,
    /// It says where a path leads now.
    pub(super) is_moved: bool,
}

#[derive(Debug)]
pub(super) enum About {
    Path(String),
    Command(Box<Command>),
    /// A tool, in small letters, and the kind of file that it is used for.
    Tool {
        tool: String,
        kind: Option<String>,
    },
    /// Nothing that a call shows: its topics, and its words, in order.
    Words {
        topics: u64,
        words: Vec<u64>,
        /// The user wrote it, and bound it to no topic.
        is_own: bool,
    },
}

/// A command that something is known of.
#[derive(Debug)]
pub(super) struct Command {
    /// As it was called.
    pub(super) program: String,
    /// What its program is called, where that is known and says something, and its place in the project.
    pub(super) called: Vec<String>,
    /// By which other words a task would name it, or by forms of them.
    pub(super) names: Vec<String>,
    pub(super) topics: u64,
    /// What its program is used for.
    pub(super) known: Known,
    /// Endings of the files that it runs.
    pub(super) files: Vec<&'static str>,
    /// The folder that it is to be run in.
    pub(super) folder: Option<String>,
    /// Where scripts lie that can only be run through an interpreter, and of which kind they are.
    pub(super) scripts: Option<(String, String)>,
    /// An option stands between the program and what it is to do, whatever that is.
    pub(super) sets_place: bool,
    /// It gets round versions that are at odds, which the next update may mend.
    pub(super) yields: bool,
}

/// What the items are about that are known, and what tasks could ask for.
#[derive(Debug, Default)]
pub(in super::super) struct Subjects {
    subjects: Vec<Subject>,
    asks: Asks,
}

impl Subjects {
    pub(in super::super) fn of(items: &[Item]) -> Self {
        let subjects: Vec<Subject> = items.iter().map(Subject::of).collect();
        let known = subjects.iter().filter_map(|subject| match &subject.about {
            About::Command(command) => Some(&command.known),
            About::Path(_) | About::Tool { .. } | About::Words { .. } => None,
        });
        let asks = if items.is_empty() { Asks::default() } else { programs::asks_of(known) };
        Self { subjects, asks }
    }

    /// What a task says.
    pub(in super::super) fn read(&self, task: &str) -> Task {
        Task::read(task, &self.asks)
    }

    /// In the order of the items.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.subjects.iter()
    }
}

impl Subject {
    fn of(item: &Item) -> Self {
        let fix = item.failure.as_ref().and_then(|failure| failure.fix.as_ref());
        Self {
            about: about(item),
            is_guarded: item.text.ends_with(guard::ONLY_ASKED),
            is_usual: item.evidence.len() >= USUAL,
            is_moved: matches!(fix, Some(Fix::ReplacePath { .. })),
        }
    }
}

fn about(item: &Item) -> About {
    let words = || {
        let words: BTreeSet<u64> = words::of(&item.text).iter().map(|word| hashed(word)).collect();
        let topic = topics::all().filter(|topic| *topic == item.tags.topic);
        let topics = mask(topic);
        let is_own = item.origin == Origin::User && topics == 0;
        About::Words { topics, words: words.into_iter().collect(), is_own }
    };
    let Some(failure) = &item.failure else { return words() };
    let when = &failure.when;
    if let Some(path) = path_of(failure) {
        return About::Path(path.to_owned());
    }
    match (tool_of(item, failure), &when.command_head) {
        ("Bash" | "", Some(head)) => About::Command(Box::new(Command::of(item, failure, head))),
        ("Bash" | "", None)
            if when.argument.is_none() && when.code != Some(ErrorCode::UnknownTool) =>
        {
            words()
        }
        (tool, _) => About::Tool { tool: tool.to_lowercase(), kind: when.file_kind.clone() },
    }
}

impl Command {
    fn of(item: &Item, failure: &FailurePattern, head: &str) -> Self {
        let words: Vec<&str> = head.split_whitespace().collect();
        let folder = folder_of(failure).map(str::to_owned);
        let sets_place = sets_place(failure, head);
        let known = Known::of(&words, sets_place || folder.is_some());
        let (told, rest) = words.split_at(known.n_words);
        let told = &told[..told.len() - usize::from(known.has_task)];
        // What a project calls a program of its own says what it is for.
        let is_own = is_script(head) && !known.has_task;
        let names = names_of(if is_own { &words } else { rest });
        let mut topics = mask(topics_of(item, head, &names));
        if known.has_task {
            topics &= mask(PURPOSES);
        }
        let says_itself = |word: &&str| {
            is_telling(word) && !is_everyday(word) && topics::of_words(word).is_empty()
        };
        let called = told.iter().map(|word| name_of(word)).filter(says_itself).map(str::to_owned);
        let program = words.first().copied().unwrap_or_default();
        let place = Some(program.trim_start_matches("./")).filter(|place| place.contains('/'));
        Self {
            program: program.to_owned(),
            called: called.chain(place.map(str::to_lowercase)).collect(),
            names,
            topics,
            files: if words.len() == 1 { known.files.clone() } else { Vec::new() },
            yields: known.yields(&item.text),
            known,
            folder,
            scripts: folder_of_scripts(failure, head),
            sets_place,
        }
    }
}

/// Topics as the bits of a number.
pub(super) fn mask<'a>(topics: impl IntoIterator<Item = &'a str>) -> u64 {
    let number = |topic: &str| topics::all().position(|other| other == topic);
    topics.into_iter().filter_map(number).fold(0, |mask, number| mask | 1 << number)
}

/// A word as it is compared.
pub(super) fn hashed(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// The tool by which a task comes to what the item is about: the one that is right.
fn tool_of<'a>(item: &'a Item, failure: &'a FailurePattern) -> &'a str {
    let when = &failure.when;
    match (&failure.fix, when.code) {
        (Some(Fix::OtherTool { tool, .. }), _) => tool,
        (None, Some(ErrorCode::UnknownTool)) => &item.tags.topic,
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

/// What a command is for, by the table of commands and by the words of these names.
fn topics_of(item: &Item, head: &str, names: &[String]) -> BTreeSet<&'static str> {
    let mut found: BTreeSet<&str> = topics::of_command(head).into_iter().collect();
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
    let is_general = WITH_TASK.contains(&name_of(head)) && topics::of_command(head).is_none();
    let is_program = |from: &str| from == head && is_general;
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
fn sets_place(failure: &FailurePattern, head: &str) -> bool {
    let Some(Fix::ReplaceWords { from, to }) = &failure.fix else { return false };
    let more = to.strip_prefix(from.as_str()).map(str::trim_start);
    from == head && WITH_TASK.contains(&name_of(head)) && more.is_some_and(is_option)
}

/// Where a script lies that can only be run through an interpreter, and of which kind it is: others there are so too.
fn folder_of_scripts(failure: &FailurePattern, head: &str) -> Option<(String, String)> {
    let Some(Fix::ReplaceWords { from, to }) = &failure.fix else { return None };
    let through = to.split_whitespace().next().is_some_and(|first| INTERPRETERS.contains(&first));
    let path = head.trim_start_matches("./");
    let (folder, name) = path.rsplit_once('/')?;
    let (_, kind) = name.rsplit_once('.')?;
    (from == head && through).then(|| (folder.to_owned(), kind.to_owned()))
}

/// The words by which a task would name this command. What programs that do anything are called says nothing, nor
/// does an everyday word that is a program's name too (`date`, `sort`).
fn names_of(head: &[&str]) -> Vec<String> {
    let words = head.iter().filter(|word| !word.starts_with('-'));
    let parts = words.flat_map(|word| word.split('/')).map(str::to_lowercase);
    let stem =
        |part: String| part.rsplit_once('.').map_or(part.clone(), |(stem, _)| stem.to_owned());
    parts.map(stem).filter(|stem| is_telling(stem)).collect()
}

/// Who says this word means a program.
fn is_telling(name: &str) -> bool {
    let is_word = name.chars().count() >= if name.is_ascii() { 3 } else { 2 };
    let is_everyday = SYSTEM.contains(&name) && name.chars().all(char::is_alphabetic);
    is_word && !is_everyday && !GENERAL.contains(&name) && !INTERPRETERS.contains(&name)
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
