//! Input of the user: messages, the directives in them, and session rules.

use super::Kernel;
use crate::context::MentionTargetKind;
use agent_protocol::directives::{Directive, UserInput};
use agent_protocol::event::EventBody;

impl Kernel {
    pub(super) fn apply_directives(&mut self, message: &UserInput) {
        self.parts.registry.cx().exec.add_reader(message.model_text());
        for (directive, sentence) in message.directives() {
            let registry = &self.parts.registry;
            match directive {
                Directive::Mode(mode) => {
                    registry.restrict_mode(mode, &sentence);
                }
                Directive::RestoreMode => {
                    registry.restore_mode(&sentence);
                }
                Directive::Protect(path) => {
                    if let Some(found) = self.parts.project.find_path(&path) {
                        registry.protect_path(
                            &found.path,
                            found.kind == MentionTargetKind::Folder,
                            &sentence,
                        );
                    }
                }
            }
        }
    }

    /// Emits an event and applies it to the conversation and the session.
    pub fn record(&mut self, body: EventBody) {
        let event = self.parts.events.emit(body);
        self.history.apply(&event);
        self.apply_session_event(&event);
    }
}
