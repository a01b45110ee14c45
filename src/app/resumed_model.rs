//! The model with which a recorded session continues.

use super::models::{Models, open_models};
use super::{HostPrograms, OpenError, Options};
use crate::config::{Config, Origin, is_file_model};
use agent_protocol::control::SessionControl;

/// Opens the models of a session; `recorded`: the one that is resumed. If its own cannot be opened, the configured
/// ones are, and a notice says so. Also, the configuration that was used.
pub(super) async fn open_recorded_models(
    options: &Options,
    recorded: Option<&str>,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<(Models, Config), OpenError> {
    let (config, prompts) = (&options.config.config, &options.config.prompts);
    let recorded = recorded.and_then(|id| recorded_config(options, id));
    let Some(recorded) = recorded else {
        return Ok((open_models(config, prompts, programs, control).await?, config.clone()));
    };
    let reason = match open_models(&recorded, prompts, programs, control).await {
        Ok(models) => return Ok((models, recorded)),
        Err(OpenError::Usage(reason)) => reason,
        Err(error) => return Err(error),
    };
    let mut models = match open_models(config, prompts, programs, control).await {
        // What the session's own model lacks is nearer than any other model.
        Err(OpenError::NoModel(_)) => return Err(OpenError::Usage(reason)),
        opened => opened?,
    };
    let notice = format!(
        "this session's model {} cannot be used, so {} answers: {reason}",
        recorded.model,
        models.main.model.id()
    );
    models.notices.insert(0, notice);
    Ok((models, config.clone()))
}

/// The configuration with the model and the effort of this recorded session, except what the command line sets;
/// `None`: the session has no answer yet, or these options keep their model.
fn recorded_config(options: &Options, id: &str) -> Option<Config> {
    if options.keeps_model {
        return None;
    }
    let log = options.session_storage().log_path(id);
    // An unreadable log is reported when it is loaded.
    let (model, effort) = agent_record::last_main_model(&log).ok().flatten()?;
    // A file with answers may be gone, or be about something else by now.
    if is_file_model(&model) {
        return None;
    }
    let is_given = |key| matches!(options.config.origins.get(key), Some(Origin::CommandLine(_)));
    let mut config = options.config.config.clone();
    if !is_given("effort") {
        config.chosen_effort = effort.map(|effort| (model.clone(), effort));
    }
    if !is_given("model") {
        config.model = model;
    }
    Some(config)
}
