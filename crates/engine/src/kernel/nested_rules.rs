//! Nested rules files: finds them in the folders where tools work, and moves them and pins into L2 at a
//! compaction.

use super::Kernel;
use super::turn::Turn;
use crate::context::{MentionTargetKind, RulesFile};
use crate::registry::ToolCallResult;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::tool::Effect;

/// An eighth of the window, for nested rules in L2.
const NESTED_RULES_DIVISOR: u64 = 8;

impl Kernel {
    pub(super) fn apply_session_event(&mut self, event: &Event) {
        self.parts.registry.apply(event);
        // The verifier must not read what the user withholds.
        if let Some(verifier) = &self.parts.verifier {
            verifier.registry.apply(event);
        }
        self.pins.apply(event);
        self.nested_rules.apply(event);
        self.received_lessons.apply(event);
        if let EventBody::MemoryRecalled(recalled) = &event.body
            && recalled.in_rules
        {
            self.parts.layers.set_l2_additions(&self.received_lessons.layer(&self.parts.prompts));
        }
    }

    /// Moves pins and nested rules that are new since the last compaction into L2.
    pub(super) fn update_l2(&mut self) {
        let joining = self.l2_additions();
        self.parts.layers.set_l2_additions(&joining);
    }

    pub(super) fn l2_additions(&self) -> String {
        let prompts = &self.parts.prompts;
        let room = self.budget.bytes(self.budget.window() / NESTED_RULES_DIVISOR);
        let parts = [
            self.mode_line(),
            self.pins.layer(prompts),
            self.nested_rules.layer(prompts, room),
            self.received_lessons.layer(prompts),
        ];
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// Appends the rules files of the folders of this path, where a tool worked, to the results.
    pub(super) fn add_nested_rules(&mut self, path: &str) {
        let project = self.parts.project.clone();
        // By the current rules: a pin may have been added since the session began.
        let withheld = self.parts.registry.read_restrictions();
        let is_shown = |path: &str| withheld.hidden_reason("Read", path).is_none();
        let is_folder =
            project.find_path(path).is_some_and(|found| found.kind == MentionTargetKind::Folder);
        for folder in self.nested_rules.take_unsearched_folders(path, is_folder) {
            for rules in project.rules_in(&folder, &is_shown) {
                let RulesFile { path, .. } = &rules;
                let text = rules.truncated_text(self.parts.max_rules_bytes);
                // A link to a file in L2, or a copy of it, is not repeated.
                let in_l2 = || {
                    let known = project.rules_in(".", &is_shown);
                    known.iter().any(|known| known.text == rules.text)
                };
                if self.nested_rules.contains(path, &text) || in_l2() {
                    continue;
                }
                let path = path.clone();
                self.record(EventBody::RulesFound { path, text });
            }
        }
    }
}

impl Turn {
    pub(super) fn record_touched_paths(&mut self, answers: &[ToolCallResult]) {
        for answer in answers {
            let Some(Effect::Read { path } | Effect::Write { path }) = &answer.effect else {
                continue;
            };
            if answer.envelope.error().is_none() {
                self.touched_paths.push(path.clone());
            }
        }
    }
}
