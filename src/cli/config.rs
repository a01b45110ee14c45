//! `agent config`: prints the active configuration with the origin of each value.

use clap::Subcommand;
use toml::Value;

use super::options::{self, ToolOptions};
use super::print_answer;
use crate::app::{self, OpenError};
use crate::config::LoadedConfig;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show every value and where it came from
    Show(ToolOptions),
    /// Print the JSON Schema of the configuration
    Schema,
}

/// The schema of [`Config`](crate::config::Config), which a test generates: the code that generates it is 0.2 MB.
const SCHEMA: &str = include_str!("../../docs/config.schema.json");

pub(super) fn run(command: &ConfigCommand) -> u8 {
    let text = match command {
        ConfigCommand::Show(options) => {
            options::load_project_config(options).and_then(|(.., loaded)| describe_config(&loaded))
        }
        ConfigCommand::Schema => Ok(SCHEMA.to_owned()),
    };
    print_answer(text.map(Into::into))
}

pub(super) fn describe_config(loaded: &LoadedConfig) -> Result<String, OpenError> {
    let table = toml::Table::try_from(&loaded.config)
        .map_err(|error| OpenError::Usage(error.to_string()))?;
    let masker = app::build_masker(&loaded.config, &[])?;
    let mut lines = Vec::new();
    collect_leaves(&Value::Table(table), "", &mut lines);
    let width = lines.iter().map(|(key, value)| key.len() + value.len()).max().unwrap_or(0).min(60);
    let mut out = String::new();
    for (key, value) in lines {
        let origin = loaded.origins.get(&key.replace('"', ""));
        let origin = origin.map_or_else(|| "default".to_owned(), ToString::to_string);
        let setting = format!("{key} = {value}");
        let setting = masker.mask(&setting);
        out.push_str(&format!("{setting:<width$}  # {origin}\n", width = width + 3));
    }
    Ok(out)
}

pub(super) fn collect_leaves(value: &Value, prefix: &str, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let plain =
                    key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                let key = if plain { key.clone() } else { format!("\"{key}\"") };
                let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                collect_leaves(value, &path, lines);
            }
        }
        other => lines.push((prefix.to_owned(), other.to_string())),
    }
}
