//! What rules are compared with: the words of a line's commands, as texts.

use super::shell::{Run, Script};

/// What is known of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Its simple commands.
    pub(super) parts: Vec<Part>,
    /// Every command that may be run, also through others.
    pub(super) runs: Vec<Run>,
    /// The grammar accepts all of the line.
    pub(super) is_understood: bool,
    /// All that may be run stands in the runs.
    pub(super) is_known: bool,
}

/// A simple command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its words as written, the assignments before them included.
    pub(super) words: Vec<String>,
    /// It writes files by redirection.
    pub(super) writes_file: bool,
    /// The words of every command that may run: as written, without assignments and with the bare
    /// name of the program, and what its wrappers run.
    pub(super) runs: Vec<Vec<String>>,
}

impl Facts {
    pub(super) fn of(line: &str) -> Self {
        let script = Script::read(line);
        let (runs, is_known) = script.runs();
        let mut parts: Vec<Part> = script
            .commands
            .iter()
            .map(|simple| {
                let words = simple.assignments.iter().chain(&simple.words);
                let words: Vec<String> = words.map(|word| word.text.clone()).collect();
                Part {
                    writes_file: simple.redirects.iter().any(|to| to.writes().is_some()),
                    runs: vec![words.clone()],
                    words,
                }
            })
            .collect();
        for run in runs.iter().filter(|run| !run.words.is_empty()) {
            let words = run.words.iter().map(|word| word.text.clone()).collect();
            if let Some(part) = parts.get_mut(run.of).filter(|part| !part.runs.contains(&words)) {
                part.runs.push(words);
            }
        }
        Self { parts, runs, is_understood: script.is_understood, is_known }
    }

    /// The words of every command that may run.
    pub(super) fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        self.parts.iter().flat_map(|part| &part.runs)
    }
}
