//! Options of sessions that have the names and values of Claude Code's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::Args;
use serde_json::Value as Json;
use toml::Value;

use super::foreign::{ALLOWS_FULL, ForeignOptions};
use super::roles::parse_roles;
use super::rules::parse_tool_list;
use super::settings::ClaudeSettings;
use crate::app::{OpenError, Options, ToolChoice};
use crate::config::{self, Hook, LoadedConfig, SETTINGS, Setting};
use agent_protocol::control::{ModeLimit, PermissionMode};
use agent_protocol::disk;
use agent_protocol::provider::Effort;

const FULL_MODE_DISABLED: &str = "mode full (bypassPermissions) is not available: the settings disable it \
                        (permissions.disableBypassPermissionsMode)";

/// Options of `run` and of the chat.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CompatibleOptions {
    /// Replace the instructions on how the model works; boundaries, facts about the project, its rules and the tools stay
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    system_prompt: Option<String>,
    #[arg(long, value_name = "FILE", hide = true)]
    system_prompt_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "append_system_prompt")]
    append_system_prompt_file: Option<PathBuf>,
    /// MCP servers: a file like `.mcp.json`, or its JSON text
    #[arg(long, value_name = "FILE|JSON")]
    mcp_config: Vec<String>,
    /// Use no MCP servers but those of --mcp-config
    #[arg(long)]
    strict_mcp_config: bool,
    /// Have only these of the built-in tools: names, separated by commas; empty: none
    #[arg(long, value_name = "TOOLS")]
    tools: Vec<String>,
    /// Roles of sub-agents, as JSON: {"name": {"description": …, "prompt": …, "tools": […], "model": …}}
    #[arg(long, value_name = "JSON")]
    agents: Vec<String>,
    /// Settings of Claude Code: a file, or its JSON text; permissions, hooks, env, model and sandbox.enabled are used
    #[arg(long, value_name = "FILE|JSON")]
    settings: Vec<String>,
    /// Models that answer if the model is not available: the first, then the next
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    fallback_model: Vec<String>,
    #[arg(long, value_name = "SOURCES", hide = true)]
    setting_sources: Option<String>,
    #[arg(long, value_name = "HOW", hide = true, value_parser = ["adaptive", "enabled", "disabled"])]
    thinking: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    max_thinking_tokens: Option<u64>,
    #[arg(long, value_name = "WHO", hide = true, value_parser = ["host", "none"])]
    permission_prompts: Option<String>,
    #[command(flatten)]
    pub(crate) foreign: ForeignOptions,
    /// Shared by copies: the files are read once.
    #[arg(skip)]
    read_settings: Arc<OnceLock<Result<ClaudeSettings, String>>>,
}

#[derive(Debug, Default)]
pub(crate) struct ConfigOverrides {
    pub(crate) values: Vec<Setting>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) warnings: Vec<String>,
}

impl CompatibleOptions {
    fn settings(&self) -> Result<&ClaudeSettings, OpenError> {
        let read = || ClaudeSettings::parse(&self.settings);
        let settings = self.read_settings.get_or_init(read).as_ref();
        settings.map_err(|why| OpenError::Usage(why.clone()))
    }

    /// The user gets no questions, even at a terminal. A mode among the options outranks that of
    /// the settings; wrong settings open no session.
    pub(crate) fn is_unattended(&self, is_mode_given: bool) -> bool {
        self.permission_prompts.as_deref() == Some("none")
            || !is_mode_given && self.settings().is_ok_and(|settings| settings.is_unattended)
    }

    pub(crate) fn mode_limit(&self, begun: PermissionMode) -> Option<ModeLimit> {
        // Wrong settings open no session.
        let reason = if self.settings().is_ok_and(|settings| settings.disables_full) {
            FULL_MODE_DISABLED
        } else if begun == PermissionMode::Full || self.foreign.0.contains(&ALLOWS_FULL) {
            return None;
        } else {
            "bypassPermissions cannot be chosen: the session was started without \
             --allow-dangerously-skip-permissions"
        };
        Some(ModeLimit { mode: PermissionMode::AutoEdit, reason: reason.to_owned() })
    }

    pub(crate) fn check_mode(&self, loaded: &LoadedConfig) -> Result<(), OpenError> {
        let limit = self.mode_limit(PermissionMode::Full);
        let mode = loaded.config.permissions.mode;
        match limit.as_ref().zip(mode).and_then(|(limit, mode)| limit.refusal(mode)) {
            Some(why) => Err(OpenError::Usage(why.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether to read the settings of the project, and those of the user's Claude Code.
    pub(crate) fn selected_sources(&self) -> Result<(bool, bool), OpenError> {
        let Some(sources) = &self.setting_sources else { return Ok((true, true)) };
        let names: Vec<&str> = split_list(sources).collect();
        if let Some(name) = names.iter().find(|name| !["user", "project", "local"].contains(name)) {
            return Err(OpenError::Usage(format!(
                "--setting-sources: there is no source {name:?}; the sources are user, project, local"
            )));
        }
        let of_project = names.iter().any(|name| matches!(*name, "project" | "local"));
        Ok((of_project, names.contains(&"user")))
    }

    pub(crate) fn config_overrides(&self) -> Result<ConfigOverrides, OpenError> {
        let mut overrides = ConfigOverrides::default();
        let settings = self.settings()?;
        for (key, value) in &settings.values {
            overrides.values.push((key.clone(), value.clone(), SETTINGS.to_owned()));
        }
        overrides.hooks.clone_from(&settings.hooks);
        if !settings.ignored.is_empty() {
            let ignored = settings.ignored.join(", ");
            overrides.warnings.push(format!("--settings: without effect: {ignored}"));
        }
        let (_, unknown) = parse_tool_list(&self.tools);
        overrides.warnings.extend(unknown_tools_warning(&unknown, "--tools"));
        overrides.warnings.extend(unknown_tools_warning(&settings.unknown_tools, "--settings"));
        if !self.fallback_model.is_empty() {
            let models = self.fallback_model.iter().map(|model| Value::from(model.trim()));
            let models: Vec<Value> = models.collect();
            overrides.values.push(("fallback".into(), models.into(), "--fallback-model".into()));
        }
        match (self.thinking.as_deref(), self.max_thinking_tokens) {
            (Some("disabled"), _) | (None, Some(0)) => {
                let (effort, option) = (Effort::None.as_str(), "--thinking".to_owned());
                overrides.values.push(("effort".to_owned(), effort.into(), option));
            }
            (_, Some(_)) => overrides.warnings.push(
                "--max-thinking-tokens: without effect; --effort says how much the model reasons"
                    .to_owned(),
            ),
            (Some(_) | None, None) => {}
        }
        Ok(overrides)
    }

    /// `denied`: the tools of --disallowedTools without a pattern.
    pub(crate) fn apply_to(
        &self,
        options: Options,
        denied: Vec<String>,
    ) -> Result<Options, OpenError> {
        let settings = self.settings()?;
        let mut roles = Vec::new();
        for given in &self.agents {
            let wrong = |why: String| OpenError::Usage(format!("--agents: {why}"));
            let (json, _) = read_json(given).map_err(wrong)?;
            roles.extend(parse_roles(&json, "--agents", "--agents")?);
        }
        let without = [denied, settings.denied_tools.clone()].concat();
        Ok(Options {
            tools: ToolChoice { only: parse_tool_list(&self.tools).0, without },
            roles,
            variables: settings.variables.clone(),
            add_dirs: settings.add_dirs.clone(),
            ..options
        })
    }

    pub(crate) fn prompt_overrides(&self) -> Result<BTreeMap<String, String>, OpenError> {
        let text = match (&self.system_prompt, &self.system_prompt_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => read_option_file(path, "--system-prompt-file")?,
            (None, None) => return Ok(BTreeMap::new()),
        };
        Ok(system_prompt_overrides(text))
    }

    pub(crate) fn system_prompt_addition(
        &self,
        given: Option<&String>,
    ) -> Result<Option<String>, OpenError> {
        match &self.append_system_prompt_file {
            Some(path) => read_option_file(path, "--append-system-prompt-file").map(Some),
            None => Ok(given.cloned()),
        }
    }

    pub(crate) fn add_servers(&self, loaded: &mut LoadedConfig) -> Result<(), OpenError> {
        let given = self.mcp_config_servers()?;
        let servers = &mut loaded.config.mcp.servers;
        if self.strict_mcp_config {
            servers.clear();
        }
        servers.extend(given.servers);
        Ok(())
    }

    /// Servers in the program that started this one.
    pub(crate) fn host_servers(&self) -> Result<Vec<String>, OpenError> {
        Ok(self.mcp_config_servers()?.host_servers)
    }

    /// Warns about servers in a program that does not drive the session.
    pub(crate) fn warn_without_host(&self) -> Result<(), OpenError> {
        let names = self.host_servers()?;
        if !names.is_empty() {
            agent_ui::print_notice(&format!(
                "MCP servers of the type sdk are not used without --input-format stream-json: {}",
                names.join(", ")
            ));
        }
        Ok(())
    }

    fn mcp_config_servers(&self) -> Result<config::McpConfigServers, OpenError> {
        let mut all = config::McpConfigServers::default();
        for given in &self.mcp_config {
            let wrong = |why: String| OpenError::Usage(format!("--mcp-config: {why}"));
            let (json, place) = read_json(given).map_err(wrong)?;
            let servers = config::parse_servers(&json);
            let servers = servers.map_err(|why| wrong(format!("{place}{why}")))?;
            all.servers.extend(servers.servers);
            all.host_servers.extend(servers.host_servers);
        }
        Ok(all)
    }
}

pub(crate) fn system_prompt_overrides(text: String) -> BTreeMap<String, String> {
    let prompts = [("system/decision.md", text), ("system/recovery.md", String::new())];
    prompts.map(|(name, text)| (name.to_owned(), text)).into()
}

pub(super) fn unknown_tools_warning(names: &[String], option: &str) -> Option<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    (!names.is_empty())
        .then(|| format!("{option}: there are no such tools here: {}", names.join(", ")))
}

pub(super) fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(|char: char| char == ',' || char.is_whitespace()).filter(|word| !word.is_empty())
}

/// The value is the text itself or a file. Also returns the file's name, for messages.
pub(crate) fn read_json(given: &str) -> Result<(Json, String), String> {
    let trimmed = given.trim();
    let (text, place) = if trimmed.starts_with(['{', '[']) {
        (trimmed.to_owned(), String::new())
    } else {
        let text = disk::read_small_text(Path::new(given));
        (text.map_err(|error| format!("{given}: {error}"))?, format!("{given}: "))
    };
    // Files of other systems may begin with a byte order mark.
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(json) => Ok((json, place)),
        Err(error) => Err(format!("{place}{error}; give JSON, or the path of a file with JSON")),
    }
}

fn read_option_file(path: &Path, option: &str) -> Result<String, OpenError> {
    disk::read_small_text(path)
        .map_err(|error| OpenError::Usage(format!("{option} {}: {error}", path.display())))
}
