//! From the configuration to a model that answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{HostPrograms, OpenError};
use crate::config::{self, Config};
use crate::context::DEFAULT_WINDOW;
use crate::exec::Command;
use crate::kernel::{Price, Speaker};
use crate::model;
use crate::protocol::control::Control;
use crate::protocol::model::Model;
use crate::protocol::thousands;

/// How long a server may take to say which models it has: one that may not be there, and one that
/// the configuration names.
const LOCAL_PATIENCE: Duration = Duration::from_millis(500);
const OWN_PATIENCE: Duration = Duration::from_secs(5);

/// A model with what is known of it, and the key in use.
pub(super) type Opened = (Speaker, Option<String>);

/// The models that the configuration means.
pub(super) struct Models {
    pub(super) main: Speaker,
    /// For summaries and reflections; it may be the main one.
    pub(super) light: Speaker,
    /// The verifier.
    pub(super) verifier: Option<Speaker>,
    /// The keys in use.
    pub(super) keys: Vec<String>,
}

/// Opens them all.
pub(super) async fn open_models(
    config: &Config,
    outside: &HostPrograms,
    control: &Control,
) -> Result<Models, OpenError> {
    let (main, key) = open_model(config, outside, control).await?;
    let mut keys: Vec<String> = key.into_iter().collect();
    let mut others = [None, None];
    for (other, name) in others.iter_mut().zip([&config.light_model, &config.verify.model]) {
        if let Some(name) = name {
            let config = Config { model: name.clone(), ..config.clone() };
            let (speaker, key) = open_model(&config, outside, control).await?;
            *other = Some(speaker);
            keys.extend(key);
        }
    }
    let [light, verifier] = others;
    Ok(Models { light: light.unwrap_or_else(|| main.clone()), main, verifier, keys })
}

/// The model that the configuration means.
pub(super) async fn open_model(
    config: &Config,
    outside: &HostPrograms,
    control: &Control,
) -> Result<Opened, OpenError> {
    if let Some(path) = config.model.strip_prefix("script:") {
        return Ok((speaker(config, Arc::new(script(path)?)), None));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let resolved = match config::resolve(config, &variable)? {
        Some(resolved) => resolved,
        None => model_of_a_server(config).await?,
    };
    let endpoint = endpoint(&resolved, outside, control).await?;
    let key = endpoint.api_key.clone();
    let model = model::connect(endpoint).map_err(|error| OpenError::Usage(error.to_string()))?;
    Ok((speaker(config, Arc::from(model)), key))
}

fn speaker(config: &Config, model: Arc<dyn Model>) -> Speaker {
    let facts = facts(config, model.id());
    Speaker {
        price: facts.price,
        context_window: facts.context_window.unwrap_or(DEFAULT_WINDOW),
        // What a model could say at most is not what it is asked for.
        max_output_tokens: config.models.get(model.id()).and_then(|table| table.max_output_tokens),
        model,
    }
}

/// The scripted model in this file.
pub fn script(path: &str) -> Result<model::Scripted, OpenError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        OpenError::Usage(format!(
            "the script {path} can not be read: {error}; behind script: stands the path of a file of answers, as docs/SCRIPTED_MODEL.md says"
        ))
    })?;
    model::Scripted::parse(path, &text).map_err(|error| OpenError::Usage(error.to_string()))
}

/// How the transport reaches a model; a command that prints the key is run.
pub async fn endpoint(
    resolved: &config::Resolved,
    outside: &HostPrograms,
    control: &Control,
) -> Result<model::Endpoint, OpenError> {
    let table = &resolved.table;
    let mut endpoint = model::Endpoint::new(&resolved.id, &resolved.base_url);
    endpoint.api_key.clone_from(&resolved.api_key);
    endpoint.key_source.clone_from(&resolved.key_source);
    endpoint.headers = table.headers.clone().into_iter().collect();
    endpoint.ca_file = table.ca_file.as_ref().map(PathBuf::from);
    endpoint.proxy.clone_from(&table.proxy);
    if let (None, Some(command)) = (&endpoint.api_key, &table.api_key_command) {
        endpoint.api_key = Some(key_from(command, outside, control).await?);
    }
    Ok(endpoint)
}

/// `auto` without a key: the first server that answers, with the first of its models. Those that the
/// configuration names come first.
async fn model_of_a_server(config: &Config) -> Result<config::Resolved, OpenError> {
    let own = config.providers.iter().filter_map(|(name, provider)| {
        Some((name.as_str(), provider.base_url.as_deref()?, OWN_PATIENCE))
    });
    let locals = config::presets()
        .iter()
        .filter(|preset| preset.api_key_env.is_none())
        .map(|preset| (preset.name, preset.base_url, LOCAL_PATIENCE));
    for (name, base_url, patience) in own.chain(locals) {
        let endpoint = model::Endpoint::new(name, base_url);
        let Ok(models) = model::list_models(&endpoint, patience).await else { continue };
        if let Some(first) = models.first() {
            let config = Config { model: format!("{name}/{first}"), ..config.clone() };
            if let Some(resolved) = config::resolve(&config, &|_| None)? {
                return Ok(resolved);
            }
        }
    }
    let keys: Vec<&str> = config::presets()
        .iter()
        .filter(|preset| preset.default_model.is_some())
        .filter_map(|preset| preset.api_key_env)
        .collect();
    Err(OpenError::NoModel(format!(
        "no model: set a key ({}), start a local server (ollama, llama.cpp, vLLM, LM Studio), or name \
         one with --model provider/model; `agent demo` needs none",
        keys.join(", ")
    )))
}

async fn key_from(
    command: &str,
    outside: &HostPrograms,
    control: &Control,
) -> Result<String, OpenError> {
    // The user's own command, which may need the user's own secrets. In the project's folder `python3 -m keyring`
    // would run what a command of the agent has put there.
    let line = Command {
        environment: outside.texts(),
        ..Command::new(command.to_owned(), outside.folder(), Duration::from_secs(30))
    };
    let outcome = outside
        .exec()
        .run(line, &control.cancel())
        .await
        .map_err(|error| OpenError::Usage(format!("api_key_command: {error}")))?;
    if let Some(interrupt) = control.interrupted() {
        return Err(OpenError::Interrupted(interrupt));
    }
    let key = outcome.stdout.text.trim().to_owned();
    if outcome.exit_code != Some(0) || key.is_empty() {
        let how = outcome.how();
        return Err(OpenError::Usage(format!(
            "api_key_command {how} and printed no key; run it by hand, in {} and without programs of this project or another one",
            outside.folder().display()
        )));
    }
    Ok(key)
}

/// What is known of a model; a field that nobody knows is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// The most tokens that a request and its answer may have together.
    pub context_window: Option<u64>,
    /// The most tokens that an answer may have.
    pub max_output_tokens: Option<u64>,
    /// What tokens cost.
    pub price: Option<Price>,
}

impl Facts {
    /// In one line, for people: `window 272,000 tokens · 5 in, 30 out, 0.5 cached $ per million tokens`.
    pub fn in_words(&self) -> String {
        let window = self.context_window.map_or_else(
            || "window not known".to_owned(),
            |window| format!("window {} tokens", thousands(window)),
        );
        let price = self.price.map_or_else(
            || "price not known".to_owned(),
            |Price { input, output, cached }| {
                format!("{input} in, {output} out, {cached} cached $ per million tokens")
            },
        );
        format!("{window} · {price}")
    }
}

/// What is known of `provider/model`: what the configuration says, then what the program knows.
pub fn facts(config: &Config, id: &str) -> Facts {
    let known = config::known(config, id);
    let price = known.price_in.zip(known.price_out).map(|(input, output)| Price {
        input,
        output,
        cached: known.price_cached.unwrap_or(input),
    });
    Facts {
        context_window: known.context_window,
        max_output_tokens: known.max_output_tokens,
        price,
    }
}
