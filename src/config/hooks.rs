//! Hooks: their configuration, and the settings files of Claude Code, whose hooks are used as they are.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::hook_scripts::HookScripts;
use agent_protocol::disk::{read_small_text, read_small_text_without_links};
use agent_protocol::hook::HookEvent;
use agent_protocol::most_similar;

/// Relative to a project's root; their hooks are for Claude Code.
const PROJECT_FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// A command that is asked at an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookTable {
    /// The tools, or other things that the event is about: names separated by `|`, or a regular expression. Empty or `*`:
    /// all.
    pub matcher: String,
    /// The command line, for bash. It gets JSON on its standard input, and runs as you, without the sandbox.
    pub command: String,
    /// Time limit.
    pub timeout: String,
}

/// An array without an event is an error that shows how to write it.
pub(super) fn tables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Vec<HookTable>>, D::Error> {
    struct HookTablesVisitor;
    impl<'de> Visitor<'de> for HookTablesVisitor {
        type Value = BTreeMap<String, Vec<HookTable>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("tables by event: [[hooks.PreToolUse]]")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(map))
        }
    }
    from.deserialize_map(HookTablesVisitor)
}

impl Default for HookTable {
    fn default() -> Self {
        let timeout = format!("{}s", DEFAULT_TIMEOUT.as_secs());
        Self { matcher: String::new(), command: String::new(), timeout }
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// A configured hook.
#[derive(Clone, Debug)]
pub struct Hook {
    pub event: HookEvent,
    pub matcher: Matcher,
    pub command: String,
    pub timeout: Duration,
    /// File and line.
    pub origin: String,
    /// `None`: the hook is not the project's. Else the scripts that the user trusted with it.
    pub scripts: Option<Arc<HookScripts>>,
}

/// Lists the hooks in Markdown; without hooks the error says how to add some.
pub fn describe_hooks(hooks: &[Hook]) -> Result<String, String> {
    if hooks.is_empty() {
        return Err(
            "there are no hooks: `[[hooks.PreToolUse]]` in the configuration, or `hooks` in \
                    .claude/settings.json (docs/EXTENDING.md)"
                .to_owned(),
        );
    }
    let line = |Hook { event, matcher, command, origin, .. }: &Hook| {
        let command = command.replace('\n', " ");
        format!("- {} {}: `{command}` ({origin})\n", event.as_str(), matcher.text())
    };
    Ok(hooks.iter().map(line).collect())
}

/// Selects the names that a hook runs for.
#[derive(Clone, Debug)]
pub enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "_-| ,".contains(letter);
        match text.trim() {
            "" | "*" => Ok(Self::All),
            text if text.chars().all(is_plain) => {
                let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
                Ok(Self::Names(names.filter(|name| !name.is_empty()).collect()))
            }
            text => Regex::new(text).map(Self::Pattern).map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default();
                format!("the matcher {text:?} is no regular expression: {reason}")
            }),
        }
    }

    /// Whether the matcher selects one of these names.
    pub fn matches_any(&self, names: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Names(own) => names.iter().any(|name| own.iter().any(|own| own == name)),
            Self::Pattern(shape) => names.iter().any(|name| shape.is_match(name)),
        }
    }

    /// The matcher as the user wrote it.
    pub fn text(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Names(names) => names.join("|"),
            Self::Pattern(shape) => shape.as_str().to_owned(),
        }
    }
}

/// `origin` returns the origin of a key.
pub(super) fn hooks_of_table(
    table: &Table,
    origin: &dyn Fn(&str) -> String,
) -> Result<Vec<Hook>, String> {
    let mut hooks = Vec::new();
    for (name, entries) in table.get("hooks").and_then(Value::as_table).into_iter().flatten() {
        let key = format!("hooks.{name}");
        let origin = origin(&key);
        let wrong = |why: String| format!("{origin}: {key}: {why}");
        let event = HookEvent::from_name(name).ok_or_else(|| {
            let names = HookEvent::all().iter().map(|event| event.as_str());
            let meant = most_similar(name, names.clone());
            let meant = meant.map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
            let names = names.collect::<Vec<_>>().join(", ");
            format!("{origin}: unknown key `{key}`{meant} (known here: {names})")
        })?;
        for entry in entries.as_array().into_iter().flatten() {
            let entry: HookTable = entry
                .clone()
                .try_into()
                .map_err(|error: toml::de::Error| wrong(error.to_string()))?;
            if entry.command.trim().is_empty() {
                return Err(wrong("set command, the command line to run".to_owned()));
            }
            hooks.push(Hook {
                event,
                matcher: Matcher::parse(&entry.matcher).map_err(wrong)?,
                command: entry.command,
                timeout: agent_protocol::settings::parse_duration(&entry.timeout).map_err(wrong)?,
                origin: origin.clone(),
                scripts: None,
            });
        }
    }
    Ok(hooks)
}

#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    /// The path, relative to the project if the file is in it.
    pub(super) name: String,
    /// The value of `hooks`.
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

/// Reads the hooks of settings from the command line; a hook that cannot be used is an error.
pub fn hooks_of_settings(name: &str, text: &str) -> Result<Vec<Hook>, String> {
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
    let text = match text {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => {
            file.warnings.push(format!("{name}: {error}; its hooks and rules are not used"));
            return Some(file);
        }
    };
    let json: Json = match serde_json::from_str(&text) {
        Ok(json) => json,
        Err(error) => {
            let line = error.line();
            file.warnings.push(format!("{name}:{line}: {error}; its hooks and rules are not used"));
            return Some(file);
        }
    };
    file.disables_all = json["disableAllHooks"] == true;
    for list in ["ask", "deny"] {
        let rules = json["permissions"][list].as_array().into_iter().flatten();
        file.restrictions.extend(rules.filter_map(Json::as_str).map(|rule| {
            let at = text.find(&Json::from(rule).to_string()).unwrap_or_default();
            (list, rule.to_owned(), text[..at].matches('\n').count() + 1)
        }));
    }
    let Some(setting) = json.get("hooks").filter(|hooks| !hooks.is_null()) else {
        return Some(file);
    };
    file.setting = Some(json_to_toml(setting));
    let mut left_out = Vec::new();
    let line_of = |event: &str| {
        let at = text.find(&format!("{event:?}")).unwrap_or_default();
        text[..at].matches('\n').count() + 1
    };
    for (event, groups) in setting.as_object().into_iter().flatten() {
        let origin = format!("{name}:{}", line_of(event));
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

/// Leaves out null values, which mean nothing in these files.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_fit_names_and_expressions() {
        let check = |matcher: &str, name: &str, expected: bool| {
            let fits = Matcher::parse(matcher).map(|matcher| matcher.matches_any(&[name]));
            assert_eq!(fits, Ok(expected), "{matcher} {name}");
        };
        for all in ["", "*", " "] {
            check(all, "Bash", true);
        }
        check("Edit|Write", "Write", true);
        check("Edit, Write", "Write", true);
        check("Edit|Write", "MultiEdit", false);
        check("Notebook.*|.*Edit", "MultiEdit", true);
        check("mcp__git__.*", "mcp__git__log", true);
        check("mcp__git__log", "mcp__git__log", true);
        check("mcp__git__log", "mcp__git__log_all", false);
        check("^Bash$", "BashOutput", false);
        assert!(Matcher::parse("Bash(").is_err());
    }
}
