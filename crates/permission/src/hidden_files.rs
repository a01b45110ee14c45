//! Files that may not be shown: a rule about Read applies to every tool that shows file contents.

use std::sync::Arc;

use super::paths::is_secret_file;
use super::rule::PathRoots;
use super::{PolicyEntry, RuleAction, RuleOrigin};

/// The rules and names that decide which files may not be shown.
#[derive(Clone, Debug, Default)]
pub struct HiddenFiles {
    pub(super) entries: Arc<Vec<PolicyEntry>>,
    pub(super) roots: Arc<PathRoots>,
}

/// Why a file may not be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenReason {
    /// A rule denies the file, or asks before it.
    Rule,
    /// The file's name indicates secrets, and no rule names it.
    Secret,
}

impl HiddenFiles {
    /// Why this tool skips this file; `None` if it may show it.
    pub fn hidden_reason(&self, tool: &str, path: &str) -> Option<HiddenReason> {
        if self.denying_entry(tool, path).is_some() || self.asking_entry(tool, path).is_some() {
            return Some(HiddenReason::Rule);
        }
        self.is_secret(path).then_some(HiddenReason::Secret)
    }

    /// Whether rules, and not only names ([`is_secret_file`]), may restrict which files this tool shows.
    pub fn has_rules(&self, tool: &str) -> bool {
        let is_about =
            |entry: &PolicyEntry| entry.rule.tool() == "Read" || entry.rule.tool() == tool;
        self.entries.iter().any(|entry| entry.verb != RuleAction::Allow && is_about(entry))
    }

    pub(super) fn denying_entry(&self, tool: &str, path: &str) -> Option<&PolicyEntry> {
        self.matching_entries(tool, RuleAction::Deny, path).next()
    }

    /// `None` if the user allowed the file on the command line or in an answer.
    pub(super) fn asking_entry(&self, tool: &str, path: &str) -> Option<&PolicyEntry> {
        let by_person = |entry: &PolicyEntry| {
            matches!(entry.origin, RuleOrigin::CommandLine | RuleOrigin::Session(_))
        };
        let is_allowed = self.matching_entries(tool, RuleAction::Allow, path).any(by_person);
        let asks = |entry: &&PolicyEntry| !is_allowed || entry.origin == RuleOrigin::Policy;
        self.matching_entries(tool, RuleAction::Ask, path).find(asks)
    }

    /// False if a rule names the file; a rule that allows everything is not sufficient.
    pub(super) fn is_secret(&self, path: &str) -> bool {
        is_secret_file(path)
            && self.matching_entries("Read", RuleAction::Allow, path).next().is_none()
    }

    /// Rules about Read apply to every tool.
    fn matching_entries(
        &self,
        tool: &str,
        verb: RuleAction,
        path: &str,
    ) -> impl Iterator<Item = &PolicyEntry> {
        self.entries.iter().filter(move |entry| {
            entry.verb == verb
                && (entry.rule.tool() == "Read" || entry.rule.tool() == tool)
                && match verb {
                    RuleAction::Allow => {
                        !entry.rule.matches_any_file() && entry.rule.fits_path(path, &self.roots)
                    }
                    RuleAction::Ask | RuleAction::Deny => {
                        !entry.rule.is_bare() && entry.rule.covers_path(path, &self.roots)
                    }
                }
        })
    }
}
