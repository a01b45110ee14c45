//! Providers: the presets in `data/providers.toml`, and settings from the configuration, which take precedence.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::layers::ConfigError;
use super::model_types::ProviderTable;
use super::types::Config;
use agent_protocol::model::WindowSource;
use agent_protocol::most_similar;
use agent_protocol::provider::{Dialect, WindowQuestion, WireFormat};
use agent_protocol::terminal_escape::escape_literal;

const TEXT: &str = agent_protocol::embedded::PROVIDERS;

#[derive(Default, Deserialize)]
struct Presets {
    provider: Vec<ProviderPreset>,
    window: Vec<WindowQuestion>,
}

// A test parses the file too: the embedded file is valid.
static PRESETS: LazyLock<Presets> = LazyLock::new(|| toml::from_str(TEXT).unwrap_or_default());

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderPreset {
    /// As in `provider/model`.
    pub name: String,
    /// `None`: the user has to set it.
    pub base_url: Option<String>,
    /// Variables that may contain the key; empty: a local server that needs none.
    #[serde(default)]
    pub keys: Vec<String>,
    #[serde(default)]
    pub key_is_optional: bool,
    /// The model of `auto`.
    pub model: Option<String>,
    /// Precedes a model's name in requests.
    #[serde(default)]
    pub model_prefix: String,
    pub wire: WireFormat,
    /// Wire format and dialect apply only to the domain of `base_url`, with all its hosts.
    #[serde(default)]
    pub only_here: bool,
    /// How a local server is started with a larger window.
    pub larger_window: Option<String>,
    /// How the preset was tested, for the documentation.
    pub tested: String,
    #[serde(default)]
    pub dialect: Dialect,
}

impl ProviderPreset {
    pub fn is_local(&self) -> bool {
        self.keys.is_empty()
    }

    fn applies_to(&self, base_url: &str) -> bool {
        let host = |url: &str| url::Url::parse(url).ok()?.host_str().map(str::to_owned);
        let own = self.base_url.as_deref().and_then(host).unwrap_or_default();
        let domain = own.split_once('.').map_or("", |(_, domain)| domain);
        let other = host(base_url).unwrap_or_default();
        !self.only_here || other == domain || other.ends_with(&format!(".{domain}"))
    }
}

/// Every preset, in the order of `auto`.
pub fn presets() -> &'static [ProviderPreset] {
    &PRESETS.provider
}

/// What the server of this model is asked about its window: nothing if that is configured, or if the model is known
/// and hosted. `is_local`: the server is on this machine or in a private network.
pub fn window_questions(
    config: &Config,
    resolved: &ResolvedModel,
    is_local: bool,
) -> Vec<&'static WindowQuestion> {
    let is_open = match super::model_window(config, &resolved.id).map(|window| window.source) {
        Some(WindowSource::Configured) => false,
        Some(WindowSource::Known) => is_local,
        _ => true,
    };
    let is_own = is_local || resolved.table.base_url.is_some();
    let is_asked = |question: &&WindowQuestion| {
        is_open
            && question.wire.is_none_or(|wire| wire == resolved.wire)
            && (is_own || !question.only_self_hosted)
    };
    PRESETS.window.iter().filter(is_asked).collect()
}

/// How the server of this provider is started with a larger window; all ways, if it is local and no preset says it.
pub fn larger_window(provider: &str, is_local: bool) -> Option<String> {
    let preset = PRESETS.provider.iter().find(|preset| preset.name == provider);
    let known = PRESETS.provider.iter().filter_map(|preset| preset.larger_window.as_deref());
    let all = || is_local.then(|| known.collect::<Vec<_>>().join(" or "));
    preset.and_then(|preset| preset.larger_window.clone()).or_else(all)
}

/// The variables that `auto` reads for a key, as text for messages.
pub fn key_variables() -> Vec<&'static str> {
    let with_model = PRESETS.provider.iter().filter(|preset| preset.model.is_some());
    with_model.filter_map(|preset| Some(preset.keys.first()?.as_str())).collect()
}

/// The presets whose models can be used: those with a key.
pub fn usable_presets<'a>(
    config: &'a Config,
    variable: &'a dyn Fn(&str) -> Option<String>,
) -> impl Iterator<Item = &'static ProviderPreset> + 'a {
    PRESETS.provider.iter().filter(move |preset| {
        let table = config.providers.get(&preset.name);
        let has_url = preset.base_url.is_some() || table.is_some_and(|it| it.base_url.is_some());
        let has_command = table.is_some_and(|table| table.api_key_command.is_some());
        has_url && (has_command || find_key(preset.keys.as_slice(), table, variable).is_some())
    })
}

fn find_key<'a>(
    keys: &'a [String],
    table: Option<&'a ProviderTable>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<(&'a str, String)> {
    let own = table.and_then(|table| table.api_key_env.as_ref());
    let mut names = own.map_or(keys, std::slice::from_ref).iter();
    names.find_map(|name| {
        let value = variable(name).filter(|value| !value.trim().is_empty())?;
        Some((name.as_str(), value))
    })
}

#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedModel {
    /// `provider/model`.
    pub id: String,
    /// The name at the provider.
    pub model: String,
    pub base_url: String,
    /// Never shown.
    pub api_key: Option<String>,
    /// The source of the key, or where it is expected.
    pub key_source: String,
    pub wire: WireFormat,
    pub dialect: Dialect,
    pub table: ProviderTable,
}

/// Resolves the configured model. `variable` reads the environment. `Ok(None)`: the model is `auto` and there
/// is no key; local servers have not been tried.
pub fn resolve_model(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ResolvedModel>, ConfigError> {
    if config.model == "auto" {
        let found = usable_presets(config, variable)
            .filter_map(|preset| Some(format!("{}/{}", preset.name, preset.model.as_ref()?)))
            .find(|id| config.restrictions.check_model(id).is_ok());
        return found.map(|id| resolve_id(config, &id, variable)).transpose();
    }
    resolve_id(config, &config.model, variable).map(Some)
}

fn resolve_id(
    config: &Config,
    id: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ResolvedModel, ConfigError> {
    // The id is displayed, also in the window's title.
    if escape_literal(id) != id || id.contains('\n') {
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
    let preset = PRESETS.provider.iter().find(|preset| preset.name == name);
    let table = config.providers.get(name).cloned().unwrap_or_default();
    let own_url = table.base_url.is_some();
    let Some(base_url) = table.base_url.clone().or(preset.and_then(|it| it.base_url.clone()))
    else {
        return Err(match preset {
            Some(_) => ConfigError(format!(
                "the server of {name} has no fixed address: set providers.{name}.base_url, see docs/MODELS.md"
            )),
            None => unknown_provider(name, &config.providers),
        });
    };
    config.restrictions.check_model(id)?;
    config.restrictions.check_url(&base_url)?;
    let matching = preset.filter(|preset| preset.applies_to(&base_url));
    let keys = preset.map_or(&[][..], |preset| &preset.keys);
    let found = find_key(keys, Some(&table), variable);
    let expected = table.api_key_env.clone().unwrap_or_else(|| keys.join(" or "));
    let key_source = match (&table.api_key_command, &found) {
        (Some(command), _) => format!("api_key_command `{command}`"),
        (None, Some((name, _))) => format!("environment variable {name}"),
        (None, None) if expected.is_empty() => format!("providers.{name}.api_key_env"),
        (None, None) => format!("environment variable {expected}"),
    };
    let is_optional = own_url || preset.is_none_or(|it| it.is_local() || it.key_is_optional);
    if found.is_none() && table.api_key_command.is_none() && !(is_optional || expected.is_empty()) {
        return Err(ConfigError(format!(
            "no key for {id}: set {expected}, or choose another model with --model \
             (ollama/NAME for a local server, script:FILE for none at all)"
        )));
    }
    Ok(ResolvedModel {
        id: id.to_owned(),
        model: format!("{}{model}", preset.map_or("", |preset| &preset.model_prefix)),
        base_url,
        api_key: found.map(|(_, key)| key),
        key_source,
        wire: table.wire.or(matching.map(|preset| preset.wire)).unwrap_or_default(),
        dialect: table.dialect.or(matching.map(|preset| preset.dialect).unwrap_or_default()),
        table,
    })
}

fn unknown_provider(name: &str, own: &BTreeMap<String, ProviderTable>) -> ConfigError {
    let presets = PRESETS.provider.iter().map(|preset| &preset.name);
    let names: Vec<&str> = presets.chain(own.keys()).map(String::as_str).collect();
    let suggestion = most_similar(name, names.iter().copied())
        .map_or_else(String::new, |known| format!(" did you mean {known}?"));
    ConfigError(format!(
        "unknown provider {name:?}:{suggestion} known are {}; any other needs providers.{name}.base_url",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_protocol::provider::EffortField;

    fn check(model: &str, environment: &[(&str, &str)], expected: &str) {
        let config = Config { model: model.into(), ..Config::default() };
        let variable = |name: &str| {
            environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        let found = match resolve_model(&config, &variable) {
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
        check("auto", &[("GOOGLE_API_KEY", "k")], "gemini/gemini-3.8-flash at");
        check("gemini/x", &[], "no key for gemini/x: set GEMINI_API_KEY or GOOGLE_API_KEY, or");
        check("azure/d", &[("AZURE_API_KEY", "k")], "the server of azure has no fixed address");
        check("bedrock/m", &[], "bedrock/m at http://127.0.0.1:4000/v1");
        check("ollama/qwen", &[], "ollama/qwen at http://127.0.0.1:11434/v1");
        check("opnai/x", &[], "unknown provider \"opnai\": did you mean openai?");
        let hidden = "model \"openai/o5\\u{1b}]0;x\\u{7}\" contains control or invisible";
        check("openai/o5\u{1b}]0;x\u{7}", &key, hidden);
        check("openai/o5\u{200b}", &key, "model \"openai/o5\\u{200b}\" contains");
        check("gpt-5.5", &key, "model \"gpt-5.5\" is not of the form provider/model");
    }

    fn resolved(model: &str, table: &str) -> ResolvedModel {
        let (name, _) = model.split_once('/').expect("provider/model");
        let mut config = Config { model: model.into(), ..Config::default() };
        config.providers.insert(name.into(), toml::from_str(table).expect("a table"));
        let resolved = resolve_model(&config, &|_| Some("key".into()));
        resolved.expect("a model").expect("a server")
    }

    #[test]
    fn configuration_outranks_a_preset_field_by_field() {
        let usual = resolved("deepseek/m", "");
        assert_eq!(usual.dialect.effort, Some(EffortField::Thinking));
        let own =
            resolved("deepseek/m", "base_url = 'http://h'\ndialect = { effort = 'reasoning' }");
        assert_eq!(own.base_url, "http://h");
        assert_eq!(own.dialect.effort, Some(EffortField::Reasoning));
        assert_eq!(own.dialect.reasoning_back, usual.dialect.reasoning_back);
        assert_eq!(resolved("vertex/m", "").model, "vertex_ai/m");
    }

    #[test]
    fn dialect_of_openai_holds_for_its_own_domain_only() {
        let here = resolved("openai/m", "");
        assert_eq!(here.dialect.temperature, Some(false));
        assert_eq!(
            resolved("openai/m", "base_url = 'https://api.openai.com'").dialect,
            here.dialect
        );
        // A host for one region (developers.openai.com/api/docs/guides/your-data).
        let regional = resolved("openai/m", "base_url = 'https://eu.API.openai.com/v1'");
        assert_eq!((regional.wire, regional.dialect), (here.wire, here.dialect));
        for elsewhere in [
            "http://127.0.0.1:9/v1",
            "https://notopenai.com/v1",
            "https://me:api.openai.com@h/v1",
            "https://x.openai.azure.com/openai/v1",
            "http://h/api.openai.com",
        ] {
            let elsewhere = resolved("openai/m", &format!("base_url = '{elsewhere}'"));
            assert_eq!(
                (elsewhere.wire, elsewhere.dialect),
                (WireFormat::OpenaiChat, Dialect::default())
            );
        }
    }

    #[test]
    fn data_file_of_providers_is_consistent() {
        let parsed: Presets = toml::from_str(TEXT).expect("it parses");
        let mut names = std::collections::BTreeSet::new();
        for preset in &parsed.provider {
            let name = &preset.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{name}");
            assert!(!preset.tested.is_empty(), "{name}");
            assert!(!preset.is_local() || preset.model.is_none(), "{name}: a server's own models");
            assert!(preset.base_url.is_some() || preset.model.is_none(), "{name}");
            for key in &preset.keys {
                let fits = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
                assert!(key.bytes().all(fits), "{name}: {key}");
            }
            let Some(base_url) = &preset.base_url else { continue };
            let is_here = base_url.starts_with("http://127.0.0.1:");
            assert!(is_here || base_url.starts_with("https://"), "{name}: {base_url}");
            assert!(!base_url.ends_with('/'), "{name}: {base_url}");
        }
        for question in &parsed.window {
            assert_eq!(question.list.is_none(), question.model_name.is_none(), "{question:?}");
            let pointers = question.model_name.iter().chain(&question.window).chain(&question.list);
            assert!(pointers.clone().all(|pointer| pointer.starts_with('/')), "{question:?}");
        }
    }
}
