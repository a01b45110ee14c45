//! `--settings`: a settings file of Claude Code, or its text.

use std::path::PathBuf;

use clap::ValueEnum as _;
use serde_json::{Map, Value as Json};
use toml::Value;

use super::options::read_json;
use super::rules::{PermissionModeArg, translate_rules};
use crate::config::{Hook, SETTINGS, hooks_of_settings};
use agent_permission::RuleAction;

/// The key of `permissions` with the value `disable`.
const DISABLES_FULL: &str = "disableBypassPermissionsMode";

#[derive(Clone, Debug, Default)]
pub(super) struct ClaudeSettings {
    pub(super) values: Vec<(String, Value)>,
    /// Denied as a whole.
    pub(super) denied_tools: Vec<String>,
    pub(super) add_dirs: Vec<PathBuf>,
    /// In the environment of commands.
    pub(super) variables: Vec<(String, String)>,
    pub(super) hooks: Vec<Hook>,
    pub(super) is_unattended: bool,
    pub(super) disables_full: bool,
    pub(super) ignored: Vec<String>,
    pub(super) unknown_tools: Vec<String>,
}

impl ClaudeSettings {
    /// The last ones count.
    pub(super) fn parse(all: &[String]) -> Result<Self, String> {
        let mut given = Self::default();
        for one in all {
            let wrong = |why: String| format!("{SETTINGS}: {why}");
            let (json, place) = read_json(one).map_err(wrong)?;
            let Json::Object(settings) = &json else {
                return Err(wrong(format!("{place}write an object of settings")));
            };
            for (key, value) in settings {
                let taken = given.add_setting(key, value);
                taken.map_err(|why| wrong(format!("{place}{key}: {why}")))?;
            }
        }
        Ok(given)
    }

    fn add_setting(&mut self, key: &str, value: &Json) -> Result<(), String> {
        match (key, value) {
            ("$schema", _) => {}
            ("permissions", Json::Object(permissions)) => self.add_permissions(permissions)?,
            ("env", Json::Object(variables)) => {
                let text =
                    |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let variables = variables.iter().map(|(name, value)| (name.clone(), text(value)));
                self.variables.extend(variables);
            }
            ("hooks", _) => {
                let text = serde_json::json!({ "hooks": value }).to_string();
                let hooks = hooks_of_settings(SETTINGS, &text)?;
                self.hooks.extend(hooks);
            }
            ("model", Json::String(model)) => self.set_value("model", model.as_str()),
            ("effortLevel", Json::String(effort)) => self.set_value("effort", effort.as_str()),
            ("sandbox", Json::Object(sandbox)) => self.add_sandbox(sandbox),
            ("permissions" | "env" | "sandbox", _) => return Err("it is no object".to_owned()),
            ("model" | "effortLevel", _) => return Err("it is not text".to_owned()),
            _ => self.ignored.push(key.to_owned()),
        }
        Ok(())
    }

    fn add_permissions(&mut self, permissions: &Map<String, Json>) -> Result<(), String> {
        for (key, value) in permissions {
            let list = || {
                serde_json::from_value::<Vec<String>>(value.clone())
                    .map_err(|_| format!("{key} is no list of texts"))
            };
            let verb = match key.as_str() {
                "allow" => RuleAction::Allow,
                "ask" => RuleAction::Ask,
                "deny" => RuleAction::Deny,
                "additionalDirectories" => {
                    self.add_dirs.extend(list()?.into_iter().map(PathBuf::from));
                    continue;
                }
                "defaultMode" => {
                    let name = value.as_str().unwrap_or_default();
                    let mode = PermissionModeArg::from_str(name, false)
                        .map_err(|_| format!("there is no permission mode {value}"))?;
                    self.set_value("permissions.mode", mode.mode.as_str());
                    self.is_unattended = !mode.asks;
                    continue;
                }
                DISABLES_FULL if value == "disable" => {
                    self.disables_full = true;
                    continue;
                }
                _ => {
                    self.ignored.push(format!("permissions.{key}"));
                    continue;
                }
            };
            let given = translate_rules(&list()?, verb, key)?;
            self.set_value(&format!("permissions.{key}"), given.rules);
            self.unknown_tools.extend(given.unknown_tools);
            if verb == RuleAction::Deny {
                self.denied_tools.extend(given.whole_tools);
            }
        }
        Ok(())
    }

    fn add_sandbox(&mut self, sandbox: &Map<String, Json>) {
        for (key, value) in sandbox {
            match (key.as_str(), value) {
                ("enabled", Json::Bool(true)) => self.set_value("sandbox.enabled", true),
                // Commands are confined by default; what is left out here does not free them.
                _ => self.ignored.push(format!("sandbox.{key}")),
            }
        }
    }

    fn set_value(&mut self, key: &str, value: impl Into<Value>) {
        self.values.push((key.to_owned(), value.into()));
    }
}
