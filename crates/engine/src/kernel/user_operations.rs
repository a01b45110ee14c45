//! Operations of the user between two turns.

use std::sync::Arc;

use super::{BackgroundRequester, ConfiguredModel, Kernel, KernelParts};
use agent_protocol::control::PermissionMode;
use agent_protocol::event::EventBody;
use agent_protocol::message::Part;
use agent_protocol::pluralize;
use agent_protocol::provider::Effort;

impl Kernel {
    /// Records a command that the user ran: the model sees it with the next message.
    pub fn record_user_command(&mut self, command: &str, output: &str, exit_code: Option<i32>) {
        let (command, output) = (command.to_owned(), output.to_owned());
        let event = self.parts.events.emit(EventBody::UserCommand { command, output, exit_code });
        self.history.apply(&event);
    }

    /// Records that changes of a turn were undone or redone: a [`EventBody::TurnUndone`].
    pub fn record_undo(&mut self, undone: EventBody) {
        let event = self.parts.events.emit(undone);
        self.history.apply(&event);
    }

    /// Changes the model, which is the light model, too, unless another one is configured.
    pub fn set_model(&mut self, speaker: ConfiguredModel) {
        self.replaced_model = None;
        if Arc::ptr_eq(&self.parts.light.model, &self.parts.main.model) {
            self.parts.light = speaker.clone();
        }
        self.parts.registry.set_takes_images(speaker.takes_images);
        self.budget = self.budget.for_model(speaker.model.id(), speaker.context_window);
        self.parts.main = speaker;
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

    /// Sends requests to the light model in the background.
    pub fn background_requester(&self) -> BackgroundRequester {
        let KernelParts { light, events, control, spend_limit, .. } = &self.parts;
        BackgroundRequester::new(
            light.clone(),
            events.clone(),
            control.clone(),
            spend_limit.clone(),
        )
    }

    /// Records the changes of background commands that have ended; `all`: every one has ended.
    pub fn record_background_changes(&self, all: bool) {
        self.parts.registry.record_background_changes(all);
    }

    /// The latest turn whose background commands still run.
    pub fn latest_background_turn(&self) -> Option<u32> {
        self.parts.registry.latest_background_turn()
    }

    /// Ends the background commands that the session's calls started.
    pub async fn end_background_commands(&self) {
        self.parts.registry.end_background_commands().await;
    }

    /// Whether the session has a turn.
    pub fn has_begun(&self) -> bool {
        self.turn > 0
    }

    /// Opens the connection to the model's server.
    pub fn connect(&self) -> impl Future<Output = ()> + use<> {
        let model = Arc::clone(&self.parts.main.model);
        async move { model.connect().await }
    }

    /// The current model.
    pub fn model(&self) -> &str {
        self.parts.main.model.id()
    }

    /// The reasoning effort in requests to the current model.
    pub fn effort(&self) -> Option<Effort> {
        self.parts.main.effort
    }

    /// The current model's context window in tokens.
    pub fn context_window(&self) -> u64 {
        self.parts.main.context_window
    }

    /// The current permission mode, after applying a requested one.
    pub fn mode(&self) -> PermissionMode {
        self.parts.registry.mode()
    }
}
