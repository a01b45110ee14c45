//! Compatibility with Claude Code: its options, rules and settings, in our terms (`docs/INTEGRATION.md`).

mod foreign;
mod options;
mod roles;
mod rules;
mod settings;
mod settings_files;

use std::io::{self, ErrorKind};

use serde_json::Value as Json;

pub(crate) use options::{CompatibleOptions, read_json, system_prompt_overrides};
pub(crate) use roles::parse_roles;
pub(crate) use rules::{PermissionModeArg, RuleOptions, apply_restrictions};
pub(crate) use settings_files::{SettingsFile, read_project_settings, read_user_settings};

/// The JSON of a file for another program, and its text; the error names the file. `None` if there is no such
/// file.
pub(crate) fn parse_file(
    name: &str,
    text: io::Result<String>,
) -> Option<Result<(Json, String), String>> {
    let text = match text {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => return Some(Err(format!("{name}: {error}"))),
    };
    Some(match serde_json::from_str(&text) {
        Ok(json) => Ok((json, text)),
        Err(error) => Err(format!("{name}:{}: {error}", error.line())),
    })
}

/// The line of a JSON string in a text; 1 if it is not found.
pub(crate) fn line_of(text: &str, string: &str) -> usize {
    let at = text.find(&Json::from(string).to_string()).unwrap_or_default();
    text[..at].matches('\n').count() + 1
}

/// The option with settings.
const SETTINGS: &str = "--settings";
const ALLOWED_TOOLS: &str = "--allowedTools";
const DISALLOWED_TOOLS: &str = "--disallowedTools";

/// Whether the rules of this option are in the syntax of Claude Code.
pub(crate) fn uses_foreign_syntax(option: &str) -> bool {
    [SETTINGS, ALLOWED_TOOLS, DISALLOWED_TOOLS].contains(&option)
}
