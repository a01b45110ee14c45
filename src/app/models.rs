//! Creates models from the configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{HostPrograms, OpenError, parse_duration, variable};
use crate::config::{self, Config, Requests};
use agent_engine::context::DEFAULT_WINDOW;
use agent_engine::kernel::{ConfiguredModel, Price};
use agent_host::exec::Command;
use agent_model::RetrySettings;
use agent_protocol::control::SessionControl;
use agent_protocol::format_thousands;
use agent_protocol::model::{ContextWindow, Model, ModelError, ModelErrorKind, WindowSource};
use agent_protocol::prompt::Prompts;
use agent_protocol::provider::WireFormat;

/// Time limits for listing the models of a server that may not exist, and of a configured one.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(500);
const CONFIGURED_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct OpenModel {
    pub(super) configured_model: ConfiguredModel,
    /// `None`: a scripted model.
    pub(super) endpoint: Option<agent_model::Endpoint>,
}

impl OpenModel {
    pub(super) fn key(&self) -> Option<String> {
        self.endpoint.as_ref().and_then(|endpoint| endpoint.api_key.clone())
    }

    pub(super) fn unsupported_settings(&self) -> Vec<String> {
        let ConfiguredModel { effort, temperature, .. } = self.configured_model;
        self.endpoint.as_ref().map_or_else(Vec::new, |it| it.unsent_settings(effort, temperature))
    }

    /// An error: the server cannot be reached. A text: a notice for the user.
    pub(super) async fn check_listed(&self) -> Result<Option<String>, OpenError> {
        let Some(endpoint) = &self.endpoint else { return Ok(None) };
        let name = &endpoint.model;
        match agent_model::list_models(endpoint, CONFIGURED_TIMEOUT).await {
            Ok(models) if models.contains(name) => Ok(None),
            Ok(models) => {
                let n = models.len();
                Ok(Some(format!("the server does not list {name} among its {n} models")))
            }
            Err(error) if error.kind == ModelErrorKind::Unavailable => {
                Err(OpenError::Usage(error.to_string()))
            }
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}

pub(super) struct Models {
    pub(super) main: ConfiguredModel,
    /// The model for summaries and reflections; it may be the main model.
    pub(super) light: ConfiguredModel,
    /// The models that answer if the main model is not available, in this order.
    pub(super) fallback: Vec<ConfiguredModel>,
    pub(super) verifier: Option<ConfiguredModel>,
    pub(super) keys: Vec<String>,
    pub(super) notices: Vec<String>,
}

pub(super) async fn open_models(
    config: &Config,
    prompts: &Prompts,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<Models, OpenError> {
    let main = open_model(config, prompts, programs, control).await?;
    let mut keys: Vec<String> = main.key().into_iter().collect();
    let mut notices = main.unsupported_settings();
    let mut open = async |name: &String| {
        let config = Config { model: name.clone(), ..config.clone() };
        let opened = open_model(&config, prompts, programs, control).await?;
        keys.extend(opened.key());
        notices.extend(opened.unsupported_settings());
        Ok::<_, OpenError>(opened.configured_model)
    };
    let mut others = [None, None];
    for (other, name) in others.iter_mut().zip([&config.light_model, &config.verify.model]) {
        if let Some(name) = name {
            *other = Some(open(name).await?);
        }
    }
    let mut fallback = Vec::with_capacity(config.fallback.len());
    for name in &config.fallback {
        fallback.push(open(name).await?);
    }
    let [light, verifier] = others;
    let main = main.configured_model;
    let all = [&main].into_iter().chain(&light).chain(&fallback).chain(&verifier);
    notices.extend(all.filter_map(|model| budget_notice(config, model)).collect::<BTreeSet<_>>());
    let light = light.unwrap_or_else(|| main.clone());
    Ok(Models { main, light, fallback, verifier, keys, notices })
}

/// What the user should know about a cost limit with a model whose price is not known.
pub(super) fn budget_notice(config: &Config, model: &ConfiguredModel) -> Option<String> {
    let id = model.model.id();
    let is_uncounted = config.limits.max_budget_usd.is_some() && model.price.is_none();
    is_uncounted.then(|| {
        format!(
            "--max-budget-usd does not count {id}, whose price is not known: set models.\"{id}\".price_in and \
             price_out (US dollars per million tokens)"
        )
    })
}

pub(super) async fn open_model(
    config: &Config,
    prompts: &Prompts,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<OpenModel, OpenError> {
    if let Some(path) = config.model.strip_prefix("script:") {
        let configured_model = configure_model(config, Arc::new(read_script(path)?));
        return Ok(OpenModel { configured_model, endpoint: None });
    }
    let resolved = match config::resolve_model(config, &variable)? {
        Some(resolved) => resolved,
        None => find_server_model(config).await?,
    };
    let mut endpoint = open_endpoint(config, &resolved, prompts, programs, control).await?;
    let facts = model_facts(config, &resolved.id);
    endpoint.thinking = facts.thinking;
    let model = agent_model::connect(endpoint.clone());
    let model = model.map_err(|error| OpenError::Usage(error.to_string()))?;
    // Other servers are asked after their first answer, which must not wait for this one.
    let is_local = endpoint.is_local();
    if is_local {
        model.ask_window().await;
    }
    let provider = resolved.id.split('/').next().unwrap_or_default();
    let configured_model = ConfiguredModel {
        searches: facts.searches && resolved.wire != WireFormat::OpenaiChat,
        is_local,
        larger_window: config::larger_window(provider, is_local),
        ..configure_model(config, Arc::from(model))
    };
    Ok(OpenModel { configured_model, endpoint: Some(endpoint) })
}

fn configure_model(config: &Config, model: Arc<dyn Model>) -> ConfiguredModel {
    let facts = model_facts(config, model.id());
    let table = config.models.get(model.id());
    let chosen = config.chosen_effort.as_ref().filter(|(id, _)| id == model.id());
    ConfiguredModel {
        price: facts.price,
        window: facts.window,
        takes_images: facts.takes_images.unwrap_or(true),
        max_output_tokens: facts.max_output_tokens,
        temperature: table.and_then(|table| table.temperature).or(config.temperature),
        effort: chosen
            .map(|(_, effort)| *effort)
            .or(table.and_then(|it| it.effort))
            .or(config.effort),
        searches: false,
        is_local: false,
        larger_window: None,
        has_failed_summary: Arc::default(),
        model,
    }
}

pub fn read_script(path: &str) -> Result<agent_model::ScriptedModel, OpenError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        OpenError::Usage(format!(
            "the script {path} cannot be read: {error}; script: is followed by the path of a file with answers, see docs/SCRIPTED_MODEL.md"
        ))
    })?;
    agent_model::ScriptedModel::parse(path, &text)
        .map_err(|error| OpenError::Usage(error.to_string()))
}

/// The endpoint of a model; runs the command that prints the key, if one is configured.
pub async fn open_endpoint(
    config: &Config,
    resolved: &config::ResolvedModel,
    prompts: &Prompts,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<agent_model::Endpoint, OpenError> {
    let mut endpoint = endpoint_without_key(config, resolved)?;
    prompts.text(agent_model::TOOLS_IN_TEXT).clone_into(&mut endpoint.tools_in_text);
    if let (None, Some(command)) = (&endpoint.api_key, &resolved.table.api_key_command) {
        endpoint.api_key = Some(run_key_command(command, programs, control).await?);
    }
    Ok(endpoint)
}

/// Without a key that a command prints.
fn endpoint_without_key(
    config: &Config,
    resolved: &config::ResolvedModel,
) -> Result<agent_model::Endpoint, OpenError> {
    let (table, requests) = (&resolved.table, &config.requests);
    let mut endpoint = agent_model::Endpoint::new(&resolved.id, &resolved.base_url);
    endpoint.model.clone_from(&resolved.model);
    endpoint.api_key.clone_from(&resolved.api_key);
    endpoint.key_source.clone_from(&resolved.key_source);
    endpoint.wire = resolved.wire;
    endpoint.dialect = resolved.dialect;
    endpoint.headers = table.headers.clone().into_iter().collect();
    endpoint.ca_file = table.ca_file.as_ref().map(PathBuf::from);
    endpoint.proxy.clone_from(&table.proxy);
    let Requests { connect_timeout, first_data_timeout, idle_timeout, .. } = requests;
    endpoint.timeouts = agent_model::Timeouts {
        connect: parse_duration(connect_timeout)?,
        first_byte: first_data_timeout.as_deref().map(parse_duration).transpose()?,
        idle: idle_timeout.as_deref().map(parse_duration).transpose()?,
    };
    endpoint.retries = retry_settings(requests)?;
    endpoint.window_questions = config::window_questions(config, resolved, endpoint.is_local());
    Ok(endpoint)
}

fn retry_settings(requests: &Requests) -> Result<RetrySettings, OpenError> {
    let Requests { max_tries, retry_for, .. } = requests;
    let mut retries = RetrySettings::default();
    retries.max_attempts = max_tries.unwrap_or(retries.max_attempts);
    if let Some(time) = retry_for {
        retries.time_limit = parse_duration(time)?;
    }
    Ok(retries)
}

/// The model of `auto` without a key: the first of the first server that responds. Configured servers come first.
pub async fn find_server_model(config: &Config) -> Result<config::ResolvedModel, OpenError> {
    for server in model_servers(config)? {
        let Ok(models) = server.models().await else { continue };
        let ids = models.iter().map(|model| format!("{}/{model}", server.name));
        if let Some(model) = ids.into_iter().find(|id| config.restrictions.check_model(id).is_ok())
        {
            let config = Config { model, ..config.clone() };
            if let Some(resolved) = config::resolve_model(&config, &variable)? {
                return Ok(resolved);
            }
        }
    }
    Err(no_model_error())
}

pub fn no_model_error() -> OpenError {
    OpenError::NoModel(format!(
        "no model: set a key ({}), start a local server (ollama, llama.cpp, vLLM, LM Studio), or name \
         one with --model provider/model; `agent demo` needs none",
        config::key_variables().join(", ")
    ))
}

/// A server that may answer without a key.
pub(super) struct ModelServer {
    pub(super) name: String,
    /// Precedes the names of the provider's models at the server.
    prefix: String,
    pub(super) endpoint: agent_model::Endpoint,
    /// A configured server should answer.
    pub(super) is_configured: bool,
    timeout: Duration,
}

impl ModelServer {
    /// Asks for the windows of these models.
    pub(super) async fn ask_windows(&self, models: &[String]) {
        let named =
            |model: &String| (format!("{}/{model}", self.name), format!("{}{model}", self.prefix));
        agent_model::ask_windows(&self.endpoint, &models.iter().map(named).collect::<Vec<_>>())
            .await;
    }

    pub(super) async fn models(&self) -> Result<Vec<String>, ModelError> {
        let listed = agent_model::list_models(&self.endpoint, self.timeout).await?;
        let own = listed.iter().filter_map(|name| name.strip_prefix(&self.prefix));
        Ok(own.map(ToOwned::to_owned).collect())
    }
}

const UNKNOWN: &str = "?";

/// The configured ones, then those on this machine.
pub(super) fn model_servers(config: &Config) -> Result<Vec<ModelServer>, OpenError> {
    let is_own = |name: &String| config.providers.get(name).is_some_and(|it| it.base_url.is_some());
    let own = config.providers.keys().filter(|name| is_own(name));
    let own = own.map(|name| (name, CONFIGURED_TIMEOUT));
    let local = config::presets().iter().filter(|it| it.is_local() && !is_own(&it.name));
    let local = local.map(|preset| (&preset.name, LOCAL_TIMEOUT));
    let mut servers = Vec::new();
    for (name, timeout) in own.chain(local) {
        // The name of the model is unknown here.
        let mut config = Config { model: format!("{name}/{UNKNOWN}"), ..config.clone() };
        let allowed = std::mem::take(&mut config.restrictions);
        if let Some(resolved) = config::resolve_model(&config, &variable)? {
            if allowed.check_url(&resolved.base_url).is_err() {
                continue;
            }
            let prefix = resolved.model.strip_suffix(UNKNOWN).unwrap_or_default().to_owned();
            let endpoint = endpoint_without_key(&config, &resolved)?;
            servers.push(ModelServer {
                name: name.clone(),
                prefix,
                endpoint,
                is_configured: is_own(name),
                timeout,
            });
        }
    }
    Ok(servers)
}

async fn run_key_command(
    command: &str,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<String, OpenError> {
    // The user's own command may need the user's secrets. In the project's folder `python3 -m keyring` would
    // run a file that the agent's commands could have created.
    let line = Command {
        environment: programs.utf8_environment(),
        ..Command::new(command.to_owned(), programs.working_directory(), Duration::from_secs(30))
    };
    let outcome = programs
        .exec()
        .run(line, &control.cancellation_token())
        .await
        .map_err(|error| OpenError::Usage(format!("api_key_command: {error}")))?;
    if let Some(interrupt) = control.interrupt_cause() {
        return Err(OpenError::Interrupted(interrupt));
    }
    let key = outcome.stdout.text.trim().to_owned();
    if outcome.exit_code != Some(0) || key.is_empty() {
        let how = outcome.describe_end();
        return Err(OpenError::Usage(format!(
            "api_key_command {how} and printed no key; run it by hand, in {} and without programs of this project or another one",
            programs.working_directory().display()
        )));
    }
    Ok(key)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelFacts {
    pub window: ContextWindow,
    pub max_output_tokens: Option<u64>,
    pub price: Option<Price>,
    /// Its provider searches the web for it, if the wire format has that.
    pub searches: bool,
    /// The model takes settings of its thinking.
    pub thinking: Option<bool>,
    pub takes_images: Option<bool>,
}

impl ModelFacts {
    /// For example: `window 8,192 tokens (the server) · 5 in, 30 out, 0.5 cached $ per million tokens`.
    pub fn describe(&self) -> String {
        let price = match self.price {
            Some(Price { input, output, cached, .. }) => {
                format!("{input} in, {output} out, {cached} cached $ per million tokens")
            }
            None => "price not known".to_owned(),
        };
        format!("window {} · {price}", self.window)
    }

    /// For a list: `window 272,000 · $5 in, $30 out`, per million tokens.
    pub fn describe_briefly(&self) -> String {
        let ContextWindow { tokens, source } = self.window;
        let source = if source == WindowSource::Assumed { " (assumed)" } else { "" };
        let price = match self.price {
            Some(Price { input, output, .. }) => format!("${input} in, ${output} out"),
            None => "price not known".to_owned(),
        };
        format!("window {}{source} · {price}", format_thousands(tokens))
    }
}

/// The window of `provider/model`: as configured, unless an error of its server named a smaller one; else as its server
/// said, else as known, else assumed.
fn context_window(config: &Config, id: &str) -> ContextWindow {
    let own = config::model_window(config, id);
    let said = agent_model::recall_window(id);
    if let Some(own) = own.filter(|window| window.source == WindowSource::Configured) {
        let is_smaller =
            |said: &ContextWindow| said.source == WindowSource::Error && said.tokens < own.tokens;
        return said.filter(is_smaller).unwrap_or(own);
    }
    let assumed = ContextWindow { tokens: DEFAULT_WINDOW, source: WindowSource::Assumed };
    said.or(own).unwrap_or(assumed)
}

/// Facts about `provider/model`: from the configuration, from its server, then built-in.
pub fn model_facts(config: &Config, id: &str) -> ModelFacts {
    let table = config::model_table(config, id);
    let price = table.price_in.zip(table.price_out).map(|(input, output)| Price {
        input,
        output,
        cached: table.price_cached.unwrap_or(input),
        cache_write: table.price_cache_write.unwrap_or(input),
        searches: table.price_search.unwrap_or_default(),
    });
    ModelFacts {
        window: context_window(config, id),
        max_output_tokens: table.max_output_tokens,
        price,
        searches: table.price_search.is_some(),
        thinking: table.thinking,
        takes_images: table.images,
    }
}
