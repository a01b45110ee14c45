//! Nested rules files: finds them in the folders where tools work, and moves them and pins into L2 at a
//! compaction.

use super::Kernel;
use super::turn::Turn;
use crate::context::{FoundKind, Rules};
use crate::registry::Answer;
use agent_protocol::event::{Body, Event};
use agent_protocol::tool::Effect;

/// Part of the window for nested rules in L2: an eighth.
const NESTED_RULES_DIVISOR: u64 = 8;

impl Kernel {
    /// Applies an event that is not part of the conversation.
    pub(super) fn note(&mut self, event: &Event) {
        self.parts.registry.apply(event);
        // The verifier must not read what the user withholds.
        if let Some(verifier) = &self.parts.verifier {
            verifier.registry.apply(event);
        }
        self.pins.apply(event);
        self.nested_rules.apply(event);
        self.memories.apply(event);
        if let Body::MemoryRecalled(recalled) = &event.body
            && recalled.in_rules
        {
            self.parts.layers.join(&self.memories.layer(&self.parts.prompts));
        }
    }

    /// Moves pins and nested rules that are new since the last compaction into L2.
    pub(super) fn join_l2(&mut self) {
        let joining = self.joining_l2();
        self.parts.layers.join(&joining);
    }

    /// The text that a compaction would now add to L2.
    pub(super) fn joining_l2(&self) -> String {
        let prompts = &self.parts.prompts;
        let room = self.budget.bytes(self.budget.window() / NESTED_RULES_DIVISOR);
        let parts = [
            self.mode_line(),
            self.pins.layer(prompts),
            self.nested_rules.layer(prompts, room),
            self.memories.layer(prompts),
        ];
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// Appends the rules files of the folders where tools worked in this round to the results.
    pub(super) fn show_nested_rules(&mut self, turn: &mut Turn) {
        for path in std::mem::take(&mut turn.touched) {
            self.meet_rules_of(&path);
        }
    }

    fn meet_rules_of(&mut self, path: &str) {
        let project = self.parts.project.clone();
        // By the rules in force now: a pin may have been added since the session began.
        let withheld = self.parts.registry.withheld();
        let is_shown = |path: &str| withheld.why("Read", path).is_none();
        let is_folder = project.find(path).is_some_and(|found| found.kind == FoundKind::Folder);
        for folder in self.nested_rules.folders(path, is_folder) {
            for rules in project.rules_in(&folder, &is_shown) {
                let Rules { path, .. } = &rules;
                let text = rules.shown(self.parts.max_rules_bytes);
                // A link to a file in L2, or a copy of it, is not repeated.
                let in_l2 = || {
                    let known = project.rules_in(".", &is_shown);
                    known.iter().any(|known| known.text == rules.text)
                };
                if self.nested_rules.has(path, &text) || in_l2() {
                    continue;
                }
                let path = path.clone();
                let found = self.parts.events.emit(Body::RulesFound { path, text });
                self.history.apply(&found);
                self.note(&found);
            }
        }
    }
}

impl Turn {
    /// Records the paths that calls worked on: their folders may have rules.
    pub(super) fn note_paths(&mut self, answers: &[Answer]) {
        for answer in answers {
            let Some(Effect::Read { path } | Effect::Write { path }) = &answer.effect else {
                continue;
            };
            if answer.envelope.error().is_none() {
                self.touched.push(path.clone());
            }
        }
    }
}
