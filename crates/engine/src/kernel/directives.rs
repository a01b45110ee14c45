//! Input of the user: messages, the directives in them, pins and session rules.

use super::Kernel;
use crate::context::FoundKind;
use agent_protocol::directives::{Directive, UserInput};
use agent_protocol::event::{Body, Pin, SessionRule};

impl Kernel {
    /// Carries out the directives of a message.
    pub(super) fn apply_directives(&mut self, message: &UserInput) {
        for (directive, sentence) in message.directives() {
            let registry = &self.parts.registry;
            match directive {
                Directive::Mode(mode) => {
                    registry.restrict(mode, &sentence);
                }
                Directive::RestoreMode => {
                    registry.restore_mode(&sentence);
                }
                Directive::Protect(path) => {
                    if let Some(found) = self.parts.project.find(&path) {
                        registry.protect(&found.path, found.kind == FoundKind::Folder, &sentence);
                    }
                }
            }
        }
    }

    /// The pins of the session, oldest first.
    pub fn pins(&self) -> &[Pin] {
        self.pins.current()
    }

    /// Adds a pin; `None` if the text is empty or pinned already.
    pub fn pin(&mut self, text: &str) -> Option<Pin> {
        self.record(self.pins.add(text)?);
        self.pins.current().last().cloned()
    }

    /// Removes a pin; false if there is none of this number.
    pub fn unpin(&mut self, id: u32) -> bool {
        let removed = self.pins.remove(id);
        removed.map(|body| self.record(body)).is_some()
    }

    /// The permission rules that the user has added in this session.
    pub fn session_rules(&self) -> Vec<SessionRule> {
        self.parts.registry.session_rules()
    }

    /// Adds a rule that the user wrote; false if it is known or invalid.
    pub fn add_rule(&self, rule: String) -> bool {
        self.parts.registry.add_written_rule(rule)
    }

    /// Removes such a rule; false if there is none of this number.
    pub fn remove_rule(&self, id: u32) -> bool {
        self.parts.registry.remove_rule(id)
    }

    fn record(&mut self, body: Body) {
        let event = self.parts.events.emit(body);
        self.history.apply(&event);
        self.note(&event);
    }
}
