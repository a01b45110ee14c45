//! Settings files of Claude Code: their hooks are used as they are, and their rules as far as they restrict.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use toml::Value;

use super::hooks::{DEFAULT_TIMEOUT, Hook, Matcher};
use super::{line_of, parse_file};
use agent_protocol::disk::{read_small_text, read_small_text_without_links};
use agent_protocol::hook::HookEvent;

/// Relative to a project's root.
const PROJECT_FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    /// The path, relative to the project if the file is in it.
    pub(super) name: String,
    pub(super) setting: Option<Value>,
    pub(super) hooks: Vec<Hook>,
    /// The `deny` and `ask` rules: list, rule, line.
    pub(super) restrictions: Vec<(&'static str, String, usize)>,
    pub(super) warnings: Vec<String>,
    /// Whether the file turns off hooks: those of all files if it is the user's, else those of the
    /// project's.
    pub(super) disables_all: bool,
}

pub(super) fn read_project_settings(root: &Path) -> Vec<SettingsFile> {
    let read = |name: &&str| {
        let text = read_small_text_without_links(&root.join(name));
        parse_settings((*name).to_owned(), text)
    };
    PROJECT_FILES.iter().filter_map(read).collect()
}

/// The hooks of settings on the command line; a hook that cannot be used is an error.
pub(crate) fn hooks_of_settings(name: &str, text: &str) -> Result<Vec<Hook>, String> {
    let file = parse_settings(name.to_owned(), Ok(text.to_owned())).unwrap_or_default();
    match file.warnings.into_iter().next() {
        Some(warning) => Err(warning),
        None => Ok(file.hooks),
    }
}

pub(super) fn read_user_settings(path: &Path) -> Option<SettingsFile> {
    parse_settings(path.display().to_string(), read_small_text(path))
}

/// `None` if there is no such file. Mistakes are warnings: the file was written for another
/// program.
fn parse_settings(name: String, text: io::Result<String>) -> Option<SettingsFile> {
    let mut file = SettingsFile { name, ..SettingsFile::default() };
    let name = &file.name;
    let (json, text) = match parse_file(name, text)? {
        Ok(parsed) => parsed,
        Err(why) => {
            file.warnings.push(format!("{why}; its hooks and rules are not used"));
            return Some(file);
        }
    };
    file.disables_all = json["disableAllHooks"] == true;
    for list in ["ask", "deny"] {
        let rules = json["permissions"][list].as_array().into_iter().flatten();
        let rules = rules.filter_map(Json::as_str);
        file.restrictions.extend(rules.map(|rule| (list, rule.to_owned(), line_of(&text, rule))));
    }
    let Some(setting) = json.get("hooks").filter(|hooks| !hooks.is_null()) else {
        return Some(file);
    };
    file.setting = Some(json_to_toml(setting));
    let mut left_out = Vec::new();
    for (event, groups) in setting.as_object().into_iter().flatten() {
        let origin = format!("{name}:{}", line_of(&text, event));
        let Some(event) = HookEvent::from_name(event) else {
            left_out.push(format!("{event} (there is no such event here)"));
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let matcher = match Matcher::parse(group["matcher"].as_str().unwrap_or_default()) {
                Ok(matcher) => matcher,
                Err(why) => {
                    left_out.push(format!("{} ({why})", event.as_str()));
                    continue;
                }
            };
            for entry in group["hooks"].as_array().into_iter().flatten() {
                match hook_command(entry) {
                    Ok((command, timeout)) => file.hooks.push(Hook {
                        event,
                        matcher: matcher.clone(),
                        command,
                        timeout,
                        origin: origin.clone(),
                        scripts: None,
                    }),
                    Err(why) => left_out.push(format!("{} ({why})", event.as_str())),
                }
            }
        }
    }
    left_out.dedup();
    if !left_out.is_empty() {
        file.warnings.push(format!("{name}: hooks that are not used: {}", left_out.join(", ")));
    }
    Some(file)
}

fn hook_command(entry: &Json) -> Result<(String, Duration), String> {
    let kind = entry["type"].as_str().unwrap_or("command");
    if kind != "command" {
        return Err(format!("the type {kind:?} is not supported"));
    }
    // Without its condition the hook would run for more calls than it was written for.
    if entry.get("if").is_some() {
        return Err("`if` is not supported; use a matcher".to_owned());
    }
    // An asynchronous hook would delay the call here, and could forbid it.
    if let Some(key) = ["async", "asyncRewake"].into_iter().find(|key| entry[key] == true) {
        return Err(format!("`{key}` is not supported"));
    }
    if entry.get("args").is_some() {
        return Err("`args` is not supported; write the whole line in `command`".to_owned());
    }
    if let Some(shell) = entry["shell"].as_str().filter(|shell| *shell != "bash") {
        return Err(format!("the shell {shell:?} is not supported"));
    }
    let command = entry["command"].as_str().filter(|command| !command.trim().is_empty());
    let command = command.ok_or("it has no command")?;
    let timeout = match &entry["timeout"] {
        Json::Null => DEFAULT_TIMEOUT,
        limit => {
            let seconds = limit.as_f64().filter(|seconds| *seconds > 0.0);
            let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            timeout.ok_or("its timeout is not a number of seconds")?
        }
    };
    Ok((command.to_owned(), timeout))
}

/// Null, which means nothing in these files, becomes an empty text.
fn json_to_toml(json: &Json) -> Value {
    match json {
        Json::Null => Value::String(String::new()),
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Array(values) => Value::Array(values.iter().map(json_to_toml).collect()),
        Json::Object(object) => {
            let fields = object.iter().map(|(name, value)| (name.clone(), json_to_toml(value)));
            Value::Table(fields.collect())
        }
    }
}
