//! The models that can be used now.

use futures_util::future::join_all;

use super::models::{ModelFacts, ModelServer, model_facts, model_servers};
use super::{OpenError, variable};
use crate::config::{self, Config};

#[derive(Clone, Debug)]
pub struct UsableModel {
    /// `provider/model`.
    pub id: String,
    /// Source of the key, or the address of the server that lists the model.
    pub source: String,
    /// The configuration names the model, or `auto` chooses it.
    pub is_chosen: bool,
    pub facts: ModelFacts,
}

/// The configured models and the built-in ones of presets with a key; then those that configured and local servers
/// list. Also, why a configured one cannot be used.
pub async fn usable_models(config: &Config) -> Result<(Vec<UsableModel>, Vec<String>), OpenError> {
    let resolved = |id: &String| {
        config::resolve_model(&Config { model: id.clone(), ..config.clone() }, &variable)
    };
    let lists = model_servers(config)?.into_iter().map(async |server| {
        let models = server.models().await;
        if let Ok(models) = &models {
            server.ask_windows(models).await;
        }
        (server, models)
    });
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let (mut listed, mut silent) = (Vec::new(), Vec::new());
    for (server, models) in join_all(lists).await {
        let ModelServer { name, endpoint, is_configured, .. } = server;
        match models {
            Ok(models) => listed.push((name, endpoint.base_url, models)),
            Err(error) if is_configured => {
                problems.push(format!("{name}: its models are not known: {error}"));
                silent.push(name);
            }
            Err(_) => {}
        }
    }
    for id in config::model_choices(config, &variable) {
        match resolved(&id) {
            _ if config::is_file_model(&id) => found.push((id, "scripted answers".to_owned())),
            Err(error) => problems.push(error.to_string()),
            // A model of a server that lists its models is usable if it is listed.
            Ok(_) if listed.iter().any(|(name, ..)| id.starts_with(&format!("{name}/"))) => {}
            Ok(Some(model)) if model.api_key.is_some() || model.table.api_key_command.is_some() => {
                found.push((id, model.key_source));
            }
            Ok(_) if silent.iter().any(|name| id.starts_with(&format!("{name}/"))) => {}
            Ok(Some(model)) => {
                problems.push(format!("{id}: no server answers at {}", model.base_url));
            }
            Ok(None) => {}
        }
    }
    for (name, address, models) in listed {
        found.extend(models.iter().map(|model| (format!("{name}/{model}"), address.clone())));
    }
    let auto = resolved(&config.model).ok().flatten().map(|resolved| resolved.id);
    let chosen = auto.or_else(|| Some(found.first()?.0.clone()));
    let mut usable: Vec<UsableModel> = Vec::with_capacity(found.len());
    for (id, source) in found {
        if usable.iter().all(|other| other.id != id) {
            let (is_chosen, facts) = (chosen.as_ref() == Some(&id), model_facts(config, &id));
            usable.push(UsableModel { id, source, is_chosen, facts });
        }
    }
    Ok((usable, problems))
}
