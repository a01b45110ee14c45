//! What a person may do between two turns.

use std::collections::BTreeMap;

use super::{Kernel, Speaker};
use crate::protocol::control::PermissionMode;
use crate::protocol::event::Body;

impl Kernel {
    /// The user ran a command by hand: the model sees it with the next message.
    pub fn record_user_command(&mut self, command: &str, output: &str, exit_code: Option<i32>) {
        let (command, output) = (command.to_owned(), output.to_owned());
        let event = self.parts.events.emit(Body::UserCommand { command, output, exit_code });
        self.history.apply(&event);
    }

    /// The user undid what a turn had changed.
    pub fn record_undo(&mut self, undone: u32, files: BTreeMap<String, String>, is_complete: bool) {
        let event = self.parts.events.emit(Body::TurnUndone { undone, files, is_complete });
        self.history.apply(&event);
    }

    /// From now on another model answers. Its window is its own.
    pub fn answer_with(&mut self, speaker: Speaker) {
        self.budget = self.budget.of(speaker.model.id(), speaker.context_window);
        self.parts.main = speaker;
    }

    /// Records what background commands changed that have ended; `all`: every one has.
    pub fn settle_background(&self, all: bool) {
        self.parts.registry.settle_background(all);
    }

    /// A background command runs.
    pub fn has_background(&self) -> bool {
        self.parts.registry.has_background()
    }

    /// A turn was begun in this session.
    pub fn has_begun(&self) -> bool {
        self.turn > 0
    }

    /// Who answers.
    pub fn model(&self) -> &str {
        self.parts.main.model.id()
    }

    /// How freely the agent may act now; what the person wished meanwhile is taken first.
    pub fn mode(&self) -> PermissionMode {
        self.parts.registry.mode()
    }
}
