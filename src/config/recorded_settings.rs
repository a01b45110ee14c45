//! The settings that a session records, so that it can be replayed: those that decide how calls run, as far as they
//! are not the defaults.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Config, LoadedConfig, Origin};

/// The permission mode is recorded by itself, the rules with their origins.
const SECTIONS: [&str; 7] =
    ["sandbox", "checkpoints", "checks", "limits", "context", "recovery", "web"];
/// Key of the permission rules, each as list, rule and origin.
const RULES: &str = "rules";

pub fn settings_to_record(loaded: &LoadedConfig) -> Map<String, Value> {
    let as_object = |config: &Config| match serde_json::to_value(config) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::new(),
    };
    let (set, by_default) = (as_object(&loaded.config), as_object(&Config::default()));
    let mut settings = Map::new();
    for section in SECTIONS {
        let (Some(Value::Object(set)), Some(by_default)) =
            (set.get(section), by_default.get(section))
        else {
            continue;
        };
        let differs = |(key, value): &(&String, &Value)| by_default[key.as_str()] != **value;
        let changed = set.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone()));
        let changed: Map<String, Value> = changed.collect();
        if !changed.is_empty() {
            settings.insert(section.to_owned(), changed.into());
        }
    }
    let rules = loaded.rules.iter().map(|(list, rule, origin)| {
        let origin = match origin {
            Origin::Policy(..) => "policy",
            Origin::User(..) => "user",
            Origin::Project(..) => "project",
            Origin::Environment(_) | Origin::CommandLine(_) => "command line",
        };
        json!([list, rule, origin])
    });
    let rules: Vec<Value> = rules.collect();
    if !rules.is_empty() {
        settings.insert(RULES.to_owned(), rules.into());
    }
    settings
}

pub fn config_from_record(settings: &Map<String, Value>) -> Result<LoadedConfig, String> {
    let mut set = settings.clone();
    let rules = set.remove(RULES).unwrap_or_default();
    set.retain(|key, _| SECTIONS.contains(&key.as_str()));
    let config: Config = serde_json::from_value(set.into()).map_err(|error| error.to_string())?;
    let rules: Vec<(String, String, String)> = match rules {
        Value::Null => Vec::new(),
        rules => serde_json::from_value(rules).map_err(|error| error.to_string())?,
    };
    let rules = rules.into_iter().map(|(list, rule, origin)| {
        let origin = match origin.as_str() {
            "policy" => Origin::Policy(PathBuf::new(), 0),
            "user" => Origin::User(PathBuf::new(), 0),
            "project" => Origin::Project(PathBuf::new(), 0),
            _ => Origin::CommandLine("the record".to_owned()),
        };
        (list, rule, origin)
    });
    Ok(LoadedConfig { config, rules: rules.collect(), ..LoadedConfig::default() })
}
