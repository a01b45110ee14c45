//! Providers: a table of presets, and settings from the configuration.

use std::collections::BTreeMap;

use super::layers::ConfigError;
use super::types::{Config, ProviderTable};
use crate::protocol::nearest;
use crate::protocol::sanitize::clean;

/// A preset.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// Its name in `provider/model`.
    pub name: &'static str,
    /// The base URL of its server.
    pub base_url: &'static str,
    /// The variable that contains its key; `None`: a local server that needs none.
    pub api_key_env: Option<&'static str>,
    /// The model for `auto`.
    pub default_model: Option<&'static str>,
}

const fn hosted(
    name: &'static str,
    base_url: &'static str,
    api_key_env: &'static str,
    default_model: Option<&'static str>,
) -> Provider {
    Provider { name, base_url, api_key_env: Some(api_key_env), default_model }
}

const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider { name, base_url, api_key_env: None, default_model: None }
}

const PRESETS: &[Provider] = &[
    hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", Some("gpt-5.5")),
    hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        Some("openai/gpt-5.5"),
    ),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", Some("deepseek-flash")),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", None),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", None),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", None),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
];

/// Every preset.
pub fn presets() -> &'static [Provider] {
    PRESETS
}

/// A model with its endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Resolved {
    /// `provider/model`.
    pub id: String,
    /// The model's name at its provider.
    pub model: String,
    /// The base URL of the server.
    pub base_url: String,
    /// The key. Never shown.
    pub api_key: Option<String>,
    /// The source of the key, or where it is expected.
    pub key_source: String,
    /// Further settings of the provider.
    pub table: ProviderTable,
}

/// Resolves the configured model. `variable` reads the environment. `Ok(None)`: the model is `auto` and there
/// is no key; local servers have not been tried.
pub fn resolve(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Resolved>, ConfigError> {
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if config.model == "auto" {
        let found = PRESETS.iter().find_map(|preset| {
            variable(preset.api_key_env?)?;
            Some(format!("{}/{}", preset.name, preset.default_model?))
        });
        return match found {
            Some(id) => reach(config, &id, &variable).map(Some),
            None => Ok(None),
        };
    }
    reach(config, &config.model, &variable).map(Some)
}

fn reach(
    config: &Config,
    id: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, ConfigError> {
    // It is displayed, in the window's title too.
    if clean(id) != id || id.contains('\n') {
        return Err(ConfigError(format!(
            "model {id:?} contains control or invisible characters; write provider/model without them"
        )));
    }
    let Some((name, model)) = id.split_once('/').filter(|(p, m)| !p.is_empty() && !m.is_empty())
    else {
        return Err(ConfigError(format!(
            "model {id:?} is not of the form provider/model, such as openai/gpt-5.5 or ollama/qwen3-coder; \
             with --base-url a plain name is enough"
        )));
    };
    let preset = PRESETS.iter().find(|preset| preset.name == name);
    let table = config.providers.get(name).cloned().unwrap_or_default();
    let Some(base_url) = table.base_url.clone().or(preset.map(|preset| preset.base_url.to_owned()))
    else {
        return Err(unknown(name, &config.providers));
    };
    let own_url = table.base_url.is_some();
    let key_name = table.api_key_env.clone().or(preset.and_then(|p| p.api_key_env).map(Into::into));
    let api_key = key_name.as_deref().and_then(variable);
    let key_source = match (&table.api_key_command, &key_name) {
        (Some(command), _) => format!("api_key_command `{command}`"),
        (None, Some(name)) => format!("environment variable {name}"),
        (None, None) => format!("providers.{name}.api_key_env"),
    };
    if let (None, None, Some(key_name), false) =
        (&api_key, &table.api_key_command, &key_name, own_url)
    {
        return Err(ConfigError(format!(
            "no key for {id}: set {key_name}, or choose another model with --model \
             (ollama/NAME for a local server, script:FILE for none at all)"
        )));
    }
    Ok(Resolved {
        id: id.to_owned(),
        model: model.to_owned(),
        base_url,
        api_key,
        key_source,
        table,
    })
}

fn unknown(name: &str, own: &BTreeMap<String, ProviderTable>) -> ConfigError {
    let names = PRESETS.iter().map(|preset| preset.name).chain(own.keys().map(String::as_str));
    let names: Vec<&str> = names.collect();
    let suggestion = nearest(name, names.iter().copied())
        .map_or_else(String::new, |known| format!(" did you mean {known}?"));
    ConfigError(format!(
        "unknown provider {name:?}:{suggestion} known are {}; any other needs providers.{name}.base_url",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(model: &str, environment: &[(&str, &str)], expected: &str) {
        let config = Config { model: model.into(), ..Config::default() };
        let variable = |name: &str| {
            environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        let found = match resolve(&config, &variable) {
            Ok(Some(resolved)) => format!("{} at {}", resolved.id, resolved.base_url),
            Ok(None) => "look for a local server".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.starts_with(expected), "{found}\nexpected {expected}");
    }

    #[test]
    fn model_resolution_succeeds_or_explains_what_to_do() {
        let key = [("OPENAI_API_KEY", "k")];
        check("auto", &key, "openai/gpt-5.5 at https://api.openai.com/v1");
        check("auto", &[("OPENAI_API_KEY", " ")], "look for a local server");
        check("openai/o5", &key, "openai/o5 at https://api.openai.com/v1");
        check("openai/o5", &[], "no key for openai/o5: set OPENAI_API_KEY");
        check("ollama/qwen", &[], "ollama/qwen at http://127.0.0.1:11434/v1");
        check("opnai/x", &[], "unknown provider \"opnai\": did you mean openai?");
        let hidden = "model \"openai/o5\\u{1b}]0;x\\u{7}\" contains control or invisible";
        check("openai/o5\u{1b}]0;x\u{7}", &key, hidden);
        check("openai/o5\u{200b}", &key, "model \"openai/o5\\u{200b}\" contains");
        check("gpt-5.5", &key, "model \"gpt-5.5\" is not of the form provider/model");
    }
}
