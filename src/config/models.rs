//! Facts about models: from `data/models.toml`, and from the configuration, which takes precedence.

use std::collections::{BTreeMap, BTreeSet};

use super::model_types::ModelTable;
use super::types::Config;
use agent_protocol::model::{ContextWindow, WindowSource};

const TEXT: &str = agent_protocol::embedded::MODELS;

/// The models by name, or by a prefix of names with `*`.
type KnownModels = BTreeMap<String, ModelTable>;

/// Parses only the provider's table of the file: parsing all takes longer than the rest of reading
/// the configuration.
fn provider_models(provider: &str) -> KnownModels {
    let mut tables = TEXT.split("\n[").skip(1);
    let table = tables.find_map(|table| table.strip_prefix(provider)?.strip_prefix("]\n"));
    // A test parses each table: the embedded file is valid.
    table.and_then(|table| toml::from_str(table).ok()).unwrap_or_default()
}

/// The facts about `provider/model`, field by field; unknown fields are `None`.
pub fn model_table(config: &Config, id: &str) -> ModelTable {
    let mut configured = config.models.get(id).cloned().unwrap_or_default();
    let parts = id.split_once('/');
    let provider = parts.and_then(|(provider, _)| config.providers.get(provider));
    configured.images = configured.images.or(provider.and_then(|provider| provider.images));
    let known = parts.and_then(|(provider, name)| find_known(provider, name));
    let Some((_, known)) = known else { return configured };
    ModelTable {
        context_window: configured.context_window.or(known.context_window),
        max_output_tokens: configured.max_output_tokens.or(known.max_output_tokens),
        price_in: configured.price_in.or(known.price_in),
        price_out: configured.price_out.or(known.price_out),
        price_cached: configured.price_cached.or(known.price_cached),
        price_cache_write: configured.price_cache_write.or(known.price_cache_write),
        price_search: configured.price_search.or(known.price_search),
        thinking: configured.thinking.or(known.thinking),
        images: configured.images.or(known.images),
        ..configured
    }
}

/// The window of `provider/model`, without what its server says: as configured, as known of the model, or what servers
/// of this provider have of their own accord (the key `*`).
pub fn model_window(config: &Config, id: &str) -> Option<ContextWindow> {
    let configured = config.models.get(id).and_then(|table| table.context_window);
    if let Some(tokens) = configured {
        return Some(ContextWindow { tokens, source: WindowSource::Configured });
    }
    let (provider, name) = id.split_once('/')?;
    let (key, known) = find_known(provider, name)?;
    let source = if key == "*" { WindowSource::Assumed } else { WindowSource::Known };
    known.context_window.map(|tokens| ContextWindow { tokens, source })
}

/// Whether the model is a file with answers: `script:FILE`.
pub fn is_file_model(model: &str) -> bool {
    model.starts_with("script:")
}

/// The models to choose from, as `provider/model`: the configured ones, and those of the presets
/// that have a key.
pub fn model_choices(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let main_models =
        [Some(&config.model), config.light_model.as_ref(), config.verify.model.as_ref()];
    let configured = main_models.into_iter().flatten().filter(|model| *model != "auto").cloned();
    let mut ids: Vec<String> = configured.chain(config.models.keys().cloned()).collect();
    // A server of the user's own has what it lists, whatever the preset knows.
    let is_own = |name: &str| config.providers.get(name).is_some_and(|it| it.base_url.is_some());
    for preset in super::usable_presets(config, variable).filter(|it| !is_own(&it.name)) {
        let known = provider_models(&preset.name);
        // A pattern that ends with the beginning of a date is no name: `gpt-5.4-20*`.
        let is_dated = |key: &&String| {
            let end = key.strip_suffix('*').and_then(|key| key.rsplit_once('-'));
            end.is_some_and(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let known = known.keys().filter(|key| !is_dated(key));
        let models = preset.model.iter().chain(known);
        ids.extend(models.map(|name| format!("{}/{}", preset.name, name.trim_end_matches('*'))));
    }
    let mut seen = BTreeSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    ids
}

fn find_known(provider: &str, name: &str) -> Option<(String, ModelTable)> {
    let fits = |key: &str| match key.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == key,
    };
    let models = provider_models(provider).into_iter();
    models.filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::presets;

    fn check(id: &str, window: Option<u64>, price: Option<(f64, f64)>) {
        let known = model_table(&Config::default(), id);
        assert_eq!(known.context_window, window, "{id}");
        assert_eq!(known.price_in.zip(known.price_out), price, "{id}");
    }

    #[test]
    fn longest_matching_model_key_wins() {
        check("openai/gpt-5.6", Some(272_000), Some((2.0, 10.0)));
        check("openai/gpt-5.6-sol", Some(272_000), Some((2.0, 10.0)));
        check("openai/gpt-5.6-luna-2026-07-09", Some(272_000), Some((1.0, 6.0)));
        check("openai/gpt-5.5-pro", Some(272_000), Some((30.0, 180.0)));
        check("openrouter/anthropic/claude-haiku-4.5", Some(200_000), Some((1.0, 5.0)));
        check("ollama/anything:7b", Some(32_768), None);
    }

    #[test]
    fn unknown_models_have_no_facts() {
        for id in ["openai/gpt-5.5-instant", "openai/m", "own/gpt-5.5", "script:x", "openai"] {
            check(id, None, None);
        }
    }

    #[test]
    fn user_model_settings_override_field_by_field() {
        let mut config = Config::default();
        let configured = ModelTable { price_in: Some(7.0), ..ModelTable::default() };
        config.models.insert("openai/gpt-5.5".into(), configured);
        let known = model_table(&config, "openai/gpt-5.5");
        assert_eq!((known.price_in, known.price_out), (Some(7.0), Some(30.0)));
        assert_eq!(known.context_window, Some(272_000));
    }

    #[test]
    fn model_table_is_consistent() {
        let table: BTreeMap<String, KnownModels> = toml::from_str(TEXT).expect("it parses");
        for (provider, models) in &table {
            assert_eq!(
                format!("{:?}", provider_models(provider)),
                format!("{models:?}"),
                "{provider}"
            );
            assert!(presets().iter().any(|preset| preset.name == *provider), "{provider}");
            for (name, facts) in models {
                assert!(!name.trim_end_matches('*').contains('*'), "{name}");
                assert_eq!(facts.price_in.is_some(), facts.price_out.is_some(), "{name}");
                let order = [facts.price_cached, facts.price_in, facts.price_out];
                let order: Vec<f64> = order.into_iter().flatten().collect();
                assert!(order.is_sorted(), "{name}: cached, in, out {order:?}");
                assert!(facts.context_window.is_none_or(|window| window >= 32_768), "{name}");
            }
        }
    }

    #[test]
    fn default_models_have_known_facts() {
        for preset in presets() {
            let Some(model) = &preset.model else { continue };
            let known = model_table(&Config::default(), &format!("{}/{model}", preset.name));
            assert!(known.context_window.is_some() && known.price_in.is_some(), "{model}");
        }
    }

    #[test]
    fn choices_are_the_configured_and_the_known_names_of_presets_with_a_key() {
        let config = Config { model: "mine/x".to_owned(), ..Config::default() };
        assert_eq!(model_choices(&config, &|_| None), ["mine/x"]);
        let key = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        let ids = model_choices(&config, &key);
        assert!(ids.iter().any(|id| id == "openai/gpt-5.4"), "{ids:?}");
        assert!(ids.iter().any(|id| id == "openai/gpt-5.4-mini"), "{ids:?}");
        assert!(!ids.iter().any(|id| id.contains('*') || id.ends_with("-20")), "{ids:?}");
        assert!(!ids.iter().any(|id| id.starts_with("deepseek/")), "{ids:?}");
    }
}
