//! What joins L2 at a compaction, and the rules files that are found in the folders where tools work.

use super::Kernel;
use super::turn::Turn;
use crate::context::Rules;
use crate::protocol::event::{Body, Event};
use crate::protocol::tool::Effect;
use crate::registry::Answer;

/// All rules that were met on the way take this part of the window in L2: an eighth.
const RULES_MET: u64 = 8;

impl Kernel {
    /// A fact that is no part of the conversation itself.
    pub(super) fn note(&mut self, event: &Event) {
        self.parts.registry.apply(event);
        // What the user does not want to be read is read by nobody.
        if let Some(verifier) = &self.parts.verifier {
            verifier.registry.apply(event);
        }
        self.pins.apply(event);
        self.rules_met.apply(event);
        self.memories.apply(event);
        if let Body::MemoryRecalled(recalled) = &event.body
            && recalled.in_rules
        {
            self.parts.layers.join(&self.memories.layer(&self.parts.prompts));
        }
    }

    /// The conversation gives way: what was pinned and met since then moves into L2.
    pub(super) fn join_l2(&mut self) {
        let joining = self.joining_l2();
        self.parts.layers.join(&joining);
    }

    /// What L2 would say besides, if the conversation gave way now.
    pub(super) fn joining_l2(&self) -> String {
        let prompts = &self.parts.prompts;
        let room = self.budget.bytes(self.budget.window() / RULES_MET);
        let parts = [
            self.mode_line(),
            self.pins.layer(prompts),
            self.rules_met.layer(prompts, room),
            self.memories.layer(prompts),
        ];
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// Tells of the rules that hold where tools worked in this round, behind all of its results.
    pub(super) fn meet_rules(&mut self, turn: &mut Turn) {
        for path in std::mem::take(&mut turn.touched) {
            self.meet_rules_of(&path);
        }
    }

    fn meet_rules_of(&mut self, path: &str) {
        let project = self.parts.project.clone();
        // By the rules that hold now: a pin may have come since the session began.
        let withheld = self.parts.registry.withheld();
        let is_shown = |path: &str| withheld.why("Read", path).is_none();
        let is_folder = project.find(path).is_some_and(|found| found.is_folder);
        for folder in self.rules_met.folders(path, is_folder) {
            for rules in project.rules_in(&folder, &is_shown) {
                let Rules { path, .. } = &rules;
                let text = rules.shown(self.parts.max_rules_bytes);
                // A link to what stands in L2, or a copy, says nothing new.
                let in_l2 = || {
                    let known = project.rules_in(".", &is_shown);
                    known.iter().any(|known| known.text == rules.text)
                };
                if self.rules_met.has(path, &text) || in_l2() {
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
    /// Notes the paths that calls have worked on: their folders may have rules.
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
