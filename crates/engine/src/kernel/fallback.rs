//! Another model answers for the rest of a turn if the main one is not available.

use super::Kernel;
use super::spend::Speaker;
use agent_protocol::event::Body;
use agent_protocol::model::{ModelError, ModelErrorKind};

/// The main model, while another one replaces it.
pub(super) struct Replaced {
    speaker: Speaker,
    /// Number of models that have been tried instead.
    tried: usize,
}

impl Kernel {
    /// Replaces the model after this error; false: there is no other, or it would not help.
    pub(super) fn fall_back(&mut self, error: &ModelError) -> bool {
        let tried = self.replaced.as_ref().map_or(0, |replaced| replaced.tried);
        let Some(next) = self.parts.fallback.get(tried).cloned() else { return false };
        if !matches!(error.kind, ModelErrorKind::Unavailable | ModelErrorKind::Quota) {
            return false;
        }
        self.parts.events.emit(Body::ModelFallback {
            from: self.model().to_owned(),
            to: next.model.id().to_owned(),
            reason: error.message.clone(),
        });
        let replaced = self.replaced.take();
        let speaker = replaced.map_or_else(|| self.parts.main.clone(), |replaced| replaced.speaker);
        self.answer_with(next);
        if let Some(sentence) = self.images_not_shown() {
            self.parts.events.emit(Body::error("images", sentence));
        }
        self.replaced = Some(Replaced { speaker, tried: tried + 1 });
        true
    }

    /// The turn ends: the next one tries the main model again.
    pub(super) fn end_fallback(&mut self) {
        if let Some(replaced) = self.replaced.take() {
            self.answer_with(replaced.speaker);
        }
    }
}
