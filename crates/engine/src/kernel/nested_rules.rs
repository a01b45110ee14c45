//! Nested rules files: finds them in the folders where tools work, and moves them into L2 at a compaction.

use super::Kernel;
use crate::context::MentionTargetKind;
use agent_protocol::event::{Event, EventBody};

/// An eighth of the window, for nested rules in L2.
const NESTED_RULES_DIVISOR: u64 = 8;

impl Kernel {
    pub(super) fn apply_session_event(&mut self, event: &Event) {
        self.parts.registry.apply(event);
        // The verifier must not read what the user withholds.
        if let Some(verifier) = &self.parts.verifier {
            verifier.registry.apply(event);
        }
        self.nested_rules.apply(event);
        self.received_lessons.apply(event);
        if let EventBody::MemoryRecalled(recalled) = &event.body
            && recalled.in_rules
        {
            self.parts.layers.set_l2_additions(&self.received_lessons.layer(&self.parts.prompts));
        }
    }

    /// Moves nested rules that are new since the last compaction into L2.
    pub(super) fn update_l2(&mut self) {
        self.parts.layers.set_l2_additions(&self.l2_additions());
    }

    pub(super) fn l2_additions(&self) -> String {
        let prompts = &self.parts.prompts;
        let room = self.budget.bytes(self.budget.window() / NESTED_RULES_DIVISOR);
        let mut parts = vec![
            self.mode_line(),
            self.nested_rules.layer(prompts, room),
            self.received_lessons.layer(prompts),
        ];
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    /// Appends the rules files of the folders of this path, where a tool worked, to the results.
    pub(super) fn add_nested_rules(&mut self, path: &str) {
        let project = self.parts.project.clone();
        // By the current rules: one may have been added since the session began.
        let hidden_files = self.parts.registry.hidden_files();
        let is_shown = |path: &str| hidden_files.hidden_reason("Read", path).is_none();
        let is_folder =
            project.find_path(path).is_some_and(|found| found.kind == MentionTargetKind::Folder);
        for folder in self.nested_rules.take_unsearched_folders(path, is_folder) {
            for rules in project.rules_in(&folder, &is_shown) {
                let text = rules.truncated_text(self.parts.max_rules_bytes);
                // A link to a file in L2, or a copy of it, is not repeated.
                let is_in_l2 = || {
                    project.rules_in(".", &is_shown).iter().any(|known| known.text == rules.text)
                };
                if !self.nested_rules.contains(&rules.path, &text) && !is_in_l2() {
                    self.record(EventBody::RulesFound { path: rules.path, text });
                }
            }
        }
    }
}
