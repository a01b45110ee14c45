//! Hooks and their configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::hook_scripts::HookScripts;
use super::types::Notify;
use agent_protocol::hook::HookEvent;
use agent_protocol::most_similar;

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

pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

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

impl Notify {
    pub fn hooks(&self) -> Vec<Hook> {
        let events = [
            (HookEvent::Notification, "a session waits for your permission"),
            (HookEvent::SessionEnd, "a session has ended"),
        ];
        let hook = |command: &String, (event, what)| Hook {
            event,
            matcher: Matcher::All,
            command: format!("export AGENT_NOTIFICATION='{what}'\n{command}"),
            timeout: DEFAULT_TIMEOUT,
            origin: "notify.command".to_owned(),
            scripts: None,
        };
        let command = self.command.as_ref();
        command.map_or_else(Vec::new, |command| events.map(|event| hook(command, event)).into())
    }
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

    pub fn matches_any(&self, names: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Names(own) => names.iter().any(|name| own.iter().any(|own| own == name)),
            Self::Pattern(shape) => names.iter().any(|name| shape.is_match(name)),
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Names(names) => names.join("|"),
            Self::Pattern(shape) => shape.as_str().to_owned(),
        }
    }
}

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
