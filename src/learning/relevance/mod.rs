//! Is a remembered item worth telling to a task unasked? Only where the task will come to what the item is about.
//!
//! What is known of commands is told where the task asks for what the command does (its topic, its name), unless the
//! task is about a text that nothing is run for, and what three sessions came to in every task that may run something;
//! what is known of tools, where the task will use them. Quoted words, what the task says not to do, and requests to
//! explain or to list ask for nothing.

mod asks;
mod programs;
mod subject;
mod task;
#[cfg(test)]
mod tests;

pub(super) use self::subject::Subject;
pub(super) use self::subject::Subjects;
use self::subject::{About, Command, mask};
use self::task::Task;
use super::extract::guard;
use crate::protocol::topics;

/// Of an item that fits by its words alone so many must be in the task, and this part of them.
const MIN_SHARED_WORDS: usize = 3;
const MIN_SHARED_PART: f64 = 0.5;

/// How well an item fits, the surest reason first: its own name or path, what its program is used for, its purpose;
/// last what the user wants in any case.
const BY_NAME: f64 = 3.0;
const BY_USE: f64 = 2.5;
const BY_TOPIC: f64 = 2.0;
const BY_WORDS: f64 = 1.0;
const BY_TOOL: f64 = 1.0;
const BY_HABIT: f64 = 0.5;
const BY_WILL: f64 = 0.25;

impl Task {
    /// How well an item fits; `None`: it is not told unasked.
    pub(super) fn fits(&self, subject: &Subject) -> Option<f64> {
        // What gets past a guard is told where the task asks for that in words; else it is offered after the failure.
        if subject.is_guarded && !self.orders().any(|sentence| sentence.has_word_of(guard::asks)) {
            return None;
        }
        match &subject.about {
            About::Path(path) => {
                // Where the sources lie now matters to whoever does not name them.
                let is_folder = !path.rsplit('/').next().unwrap_or(path).contains('.');
                let is_general =
                    subject.is_moved && is_folder && !self.is_about_text && self.names_no_path;
                (self.names_path(path) || is_general).then_some(BY_NAME)
            }
            // Whether it is still needed only a failure says.
            About::Command(command) if command.yields => None,
            About::Command(command) => {
                let habit = || (subject.is_usual && self.wants_work()).then_some(BY_HABIT);
                self.asks_for_command(command).or_else(habit)
            }
            // What the user wrote holds for every task, behind what fits this one.
            About::Words { topics, words, is_own } => {
                let will = || is_own.then_some(BY_WILL);
                self.fits_words(*topics, words).or_else(will)
            }
            About::Tool { tool, kind } => self.will_use(tool, kind.as_deref()).then_some(BY_TOOL),
        }
    }

    /// The task asks for what this command does.
    fn asks_for_command(&self, command: &Command) -> Option<f64> {
        if self.names_another(&command.program)
            || (command.sets_place && command.known.is_wide(&self.asked))
        {
            return None;
        }
        let is_named = || {
            command.names.iter().any(|name| self.names(name))
                || command.called.iter().any(|name| self.calls(name))
        };
        if !self.is_about_text && is_named() {
            return Some(BY_NAME);
        }
        if command.known.is_asked(&self.asked) {
            return Some(BY_USE);
        }
        if self.is_about_text {
            return None;
        }
        let in_folder = command.folder.as_ref().is_some_and(|folder| self.names_path(folder));
        let is_such_script = command.scripts.as_ref().is_some_and(|(folder, kind)| {
            self.orders().any(|sentence| sentence.names_kind_in(folder, kind))
        });
        if in_folder || is_such_script {
            return Some(BY_USE);
        }
        // Where everything is to happen is known only where it does not happen here.
        let has_topic = command.topics & self.topics != 0 && !command.sets_place;
        let is_run = || {
            !command.files.is_empty()
                && self.orders().any(|sentence| {
                    sentence.has(&command.program)
                        || command.files.iter().any(|kind| sentence.names_kind(kind))
                })
        };
        (has_topic || is_run()).then_some(BY_TOPIC)
    }

    /// The task comes to this tool.
    fn will_use(&self, tool: &str, kind: Option<&str>) -> bool {
        let any = |is: &dyn Fn(&task::Sentence) -> bool| self.sentences.iter().any(is);
        let names_file = || {
            any(&|sentence| match kind {
                Some(kind) => sentence.names_kind(kind),
                None => sentence.names_file(),
            })
        };
        match tool {
            "edit" | "multiedit" | "write" => {
                let is_stated = || any(&|sentence| sentence.names_file() && !sentence.is_question);
                (self.says.changing || is_stated()) && (kind.is_none() || names_file())
            }
            "read" => names_file(),
            "todowrite" => self.says.planning,
            "bash" => {
                let builds = || self.topics & subject::mask(topics::BUILDS) != 0;
                !self.is_about_text && (self.says.running || builds())
            }
            "glob" => self.says.looking || any(&task::Sentence::asks_for_kind),
            _ => self.says.looking,
        }
    }

    /// An item that is bound to no call: its subject is asked for, or most of its words stand in the task.
    fn fits_words(&self, topics: u64, words: &[u64]) -> Option<f64> {
        if !self.is_about_text && topics & self.topics != 0 {
            return Some(BY_TOPIC);
        }
        let shared = words.iter().filter(|word| self.words.binary_search(word).is_ok()).count();
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        let part = shared as f64 / words.len().max(1) as f64;
        (shared >= MIN_SHARED_WORDS && part >= MIN_SHARED_PART).then_some(BY_WORDS + part)
    }
}

impl Subject {
    /// It is about a command that is for one of these.
    pub(super) fn is_for(&self, topics: &[&'static str]) -> bool {
        let is_it = |command: &Command| command.topics & mask(topics.iter().copied()) != 0;
        matches!(&self.about, About::Command(command) if is_it(command))
    }

    /// It is about where all that a program does is to happen: `go -C web`.
    pub(super) fn sets_place(&self) -> bool {
        matches!(&self.about, About::Command(command) if command.sets_place)
    }

    /// What is there now says that it does not hold any more: what had been moved lies at its old place again, the
    /// folder in which a command was to be run is gone, or all can be reached from the top.
    pub(super) fn is_over(&self, is_there: &dyn Fn(&str) -> bool) -> bool {
        match &self.about {
            About::Path(path) => self.is_moved && is_there(path),
            About::Command(command) => {
                let is_gone = |folder: &String| !is_there(folder);
                let mut roots = command.known.roots();
                command.folder.as_ref().is_some_and(is_gone)
                    || ((command.sets_place || command.folder.is_some()) && roots.any(is_there))
            }
            About::Words { .. } | About::Tool { .. } => false,
        }
    }
}
