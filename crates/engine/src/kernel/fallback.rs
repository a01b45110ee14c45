//! Another model answers for the rest of a turn if the main one is not available.

use super::Kernel;
use super::spend::ConfiguredModel;
use agent_protocol::event::EventBody;
use agent_protocol::model::{ModelError, ModelErrorKind};

/// The main model, while another one replaces it.
pub(super) struct ReplacedModel {
    pub(super) configured_model: ConfiguredModel,
    fallbacks_tried: usize,
}

impl Kernel {
    /// False: there is no other model, or it would not help.
    pub(super) fn use_fallback_model(&mut self, error: &ModelError) -> bool {
        let tried = self.replaced_model.as_ref().map_or(0, |replaced| replaced.fallbacks_tried);
        let Some(next) = self.parts.fallback.get(tried).cloned() else { return false };
        if !matches!(error.kind, ModelErrorKind::Unavailable | ModelErrorKind::Quota) {
            return false;
        }
        self.parts.events.emit(EventBody::ModelFallback {
            from: self.model().to_owned(),
            to: next.model.id().to_owned(),
            reason: error.message.clone(),
        });
        let replaced = self.replaced_model.take();
        let main =
            replaced.map_or_else(|| self.parts.main.clone(), |replaced| replaced.configured_model);
        self.set_model(next);
        if let Some(sentence) = self.hidden_images_note() {
            self.parts.events.emit(EventBody::error("images", sentence));
        }
        self.replaced_model =
            Some(ReplacedModel { configured_model: main, fallbacks_tried: tried + 1 });
        true
    }
}
