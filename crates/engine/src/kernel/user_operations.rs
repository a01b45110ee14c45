//! Operations of the user between two turns, and the change to another model within one.

use std::sync::Arc;

use super::{ConfiguredModel, Kernel};
use crate::registry::Registry;
use agent_protocol::event::EventBody;
use agent_protocol::message::Part;
use agent_protocol::model::{ModelError, ModelErrorKind};
use agent_protocol::pluralize;

/// The main model, while another one replaces it.
pub(super) struct ReplacedModel {
    pub(super) configured_model: ConfiguredModel,
    fallbacks_tried: usize,
}

impl Kernel {
    /// Records a command that the user ran: the model sees it with the next message.
    pub fn record_user_command(&mut self, command: &str, output: &str, exit_code: Option<i32>) {
        let (command, output) = (command.to_owned(), output.to_owned());
        self.record(EventBody::UserCommand { command, output, exit_code });
    }

    /// Changes the model, which is the light model, too, unless another one is configured.
    pub fn set_model(&mut self, configured: ConfiguredModel) {
        self.replaced_model = None;
        if Arc::ptr_eq(&self.parts.light.model, &self.parts.main.model) {
            self.parts.light = configured.clone();
        }
        self.parts.registry.set_takes_images(configured.takes_images);
        self.budget = self.budget.for_model(configured.model.id(), configured.window);
        self.parts.main = configured;
        self.offer_all_tools();
        self.reduce_tools();
    }

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

    /// What the user should know about images of the conversation that are not sent to the current model.
    pub fn hidden_images_note(&self) -> Option<String> {
        let images = self.history.n_images();
        let model = self.model();
        (!self.parts.main.takes_images && images > 0).then(|| {
            let images = pluralize(images as u64, "image");
            format!("{model} takes no images: it does not see {images} of the conversation")
        })
    }

    /// Whether the conversation holds reasoning of another model, which is not sent to the current one.
    pub fn has_foreign_reasoning(&self) -> bool {
        let mut parts = self.history.messages().iter().flat_map(|message| &message.parts);
        parts.any(|part| matches!(part, Part::Carried(carried) if carried.model != self.model()))
    }

    /// The session's registry.
    pub fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    /// Whether the session has a turn.
    pub fn has_begun(&self) -> bool {
        self.turn > 0
    }

    /// The current model.
    pub fn model(&self) -> &str {
        self.parts.main.model.id()
    }

    /// The current model with its limits.
    pub fn configured_model(&self) -> &ConfiguredModel {
        &self.parts.main
    }
}
