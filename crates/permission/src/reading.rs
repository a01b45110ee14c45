//! Files that may not be shown: a rule about Read applies to every tool that shows file contents.

use std::sync::Arc;

use super::paths::is_secret;
use super::rule::Places;
use super::{Entry, Origin, Verb};

/// The files that may not be shown.
#[derive(Clone, Debug, Default)]
pub struct Withheld {
    pub(super) entries: Arc<Vec<Entry>>,
    pub(super) places: Arc<Places>,
}

/// Why a file may not be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A rule denies it, or asks before it.
    Rule,
    /// Its name indicates secrets, and no rule names it.
    Secret,
}

impl Withheld {
    /// Why this tool skips this file, if it does.
    pub fn why(&self, tool: &str, path: &str) -> Option<Why> {
        if self.denies(tool, path).is_some() || self.asks(tool, path).is_some() {
            return Some(Why::Rule);
        }
        self.is_secret(path).then_some(Why::Secret)
    }

    /// Rules may restrict which files this tool shows. Otherwise their names alone decide ([`is_secret`]).
    pub fn has_rules(&self, tool: &str) -> bool {
        let is_about = |entry: &Entry| entry.rule.tool() == "Read" || entry.rule.tool() == tool;
        self.entries.iter().any(|entry| entry.verb != Verb::Allow && is_about(entry))
    }

    /// The rule that denies this tool to show this file.
    pub(super) fn denies(&self, tool: &str, path: &str) -> Option<&Entry> {
        self.about(tool, Verb::Deny, path).next()
    }

    /// The rule that asks before this tool shows this file, unless the user allowed it on the command line or in an answer.
    pub(super) fn asks(&self, tool: &str, path: &str) -> Option<&Entry> {
        let by_person =
            |entry: &Entry| matches!(entry.origin, Origin::CommandLine | Origin::Session(_));
        if self.about(tool, Verb::Allow, path).any(by_person) {
            return None;
        }
        self.about(tool, Verb::Ask, path).next()
    }

    /// Its name indicates secrets, and no rule names it; a rule that allows everything is not sufficient.
    pub(super) fn is_secret(&self, path: &str) -> bool {
        is_secret(path) && self.about("Read", Verb::Allow, path).next().is_none()
    }

    /// The rules of this verb that match this file: those about Read, and those about the tool itself.
    fn about(&self, tool: &str, verb: Verb, path: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| {
            entry.verb == verb
                && (entry.rule.tool() == "Read" || entry.rule.tool() == tool)
                && match verb {
                    Verb::Allow => {
                        !entry.rule.is_of_any_file() && entry.rule.fits_path(path, &self.places)
                    }
                    Verb::Ask | Verb::Deny => {
                        !entry.rule.is_bare() && entry.rule.holds_for_path(path, &self.places)
                    }
                }
        })
    }
}
