//! The settings of a session that the client can change: the permission mode and the model.

use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelect,
    SessionConfigSelectOption, SessionConfigSelectOptions, SessionMode, SessionModeState,
};

use crate::config::{self, Config};
use agent_protocol::control::PermissionMode;

pub(super) const MODE: &str = "mode";
pub(super) const MODEL: &str = "model";

#[derive(Clone, Debug)]
pub(super) struct SessionSettings {
    pub(super) mode: PermissionMode,
    pub(super) model: String,
    models: Vec<String>,
}

impl SessionSettings {
    pub(super) fn from_config(config: &Config) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let models = config::model_choices(config, &variable);
        Self { mode: PermissionMode::Ask, model: String::new(), models }
    }

    pub(super) fn modes(&self) -> SessionModeState {
        let modes = PermissionMode::all().iter().map(|mode| {
            SessionMode::new(mode.as_str(), mode.as_str()).description(mode.in_words())
        });
        SessionModeState::new(self.mode.as_str(), modes.collect())
    }

    /// Mode and model. A client that supports these options ignores the modes.
    pub(super) fn options(&self) -> Vec<SessionConfigOption> {
        let modes = PermissionMode::all().iter().map(|mode| {
            SessionConfigSelectOption::new(mode.as_str(), mode.as_str())
                .description(mode.in_words())
        });
        let other = (!self.models.contains(&self.model)).then_some(&self.model);
        let choices = self.models.iter().chain(other);
        let choices =
            choices.map(|name| SessionConfigSelectOption::new(name.clone(), name.clone()));
        let select = |current: &str, options: Vec<SessionConfigSelectOption>| {
            let options = SessionConfigSelectOptions::Ungrouped(options);
            SessionConfigKind::Select(SessionConfigSelect::new(current.to_owned(), options))
        };
        let mode_select = select(self.mode.as_str(), modes.collect());
        vec![
            SessionConfigOption::new(MODE, "Mode", mode_select)
                .category(SessionConfigOptionCategory::Mode),
            SessionConfigOption::new(MODEL, "Model", select(&self.model, choices.collect()))
                .category(SessionConfigOptionCategory::Model),
        ]
    }
}
