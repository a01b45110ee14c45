//! Configuration layers: reads and checks each with file and line, merges them, and keeps each value's
//! origin.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::claude_settings::{self, SettingsFile};
use super::hook_scripts::HookScripts;
use super::hooks::{self, Hook};
use super::mcp::{self, MCP_FILE, McpFile};
use super::policy::{MachinePolicy, Restrictions};
use super::sensitive_settings::{self, SensitiveSettings, SettingsDigest};
use super::types::Config;
use super::{AGENT_DIR, own_prompts};
use agent_protocol::control::PermissionMode;
use agent_protocol::disk::{self, read_small_text};
use agent_protocol::prompt::Prompts;
use agent_protocol::settings::{parse_duration, with_suggestion};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// File and line; 0: the line is not known.
    Policy(PathBuf, usize),
    /// File and line.
    User(PathBuf, usize),
    /// File and line.
    Project(PathBuf, usize),
    Environment(String),
    CommandLine(String),
}

/// Options with rules in the syntax of Claude Code.
pub(crate) const SETTINGS: &str = "--settings";
pub(crate) const ALLOWED_TOOLS: &str = "--allowedTools";
pub(crate) const DISALLOWED_TOOLS: &str = "--disallowedTools";

impl Origin {
    pub(crate) fn has_claude_syntax(&self) -> bool {
        let options = [SETTINGS, ALLOWED_TOOLS, DISALLOWED_TOOLS];
        matches!(self, Self::CommandLine(option) if options.contains(&option.as_str()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(path, 0) => write!(f, "{}", path.display()),
            Self::Policy(path, line) | Self::User(path, line) | Self::Project(path, line) => {
                write!(f, "{}:{line}", path.display())
            }
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::CommandLine(option) => write!(f, "command line {option}"),
        }
    }
}

/// An error in the configuration: what, where, and how to fix it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Key, value, and the variable or option that sets it.
pub type Setting = (String, Value, String);

#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub policies: Vec<MachinePolicy>,
    pub user_file: Option<PathBuf>,
    /// The user's settings of Claude Code, of which only the hooks are used. The file may not
    /// exist.
    pub user_settings: Option<PathBuf>,
    pub project_file: Option<PathBuf>,
    pub trust: Trust,
    pub environment: Vec<Setting>,
    pub command_line: Vec<Setting>,
    /// Texts by name, from the command line.
    pub prompts: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub enum Trust {
    #[default]
    Never,
    /// For this run, with any settings.
    Once,
    /// With the settings that it had when the user trusted it.
    WithSettings(SettingsDigest),
}

#[derive(Clone, Debug, Default)]
pub struct LoadedConfig {
    pub config: Config,
    /// By key; defaults have none.
    pub origins: BTreeMap<String, Origin>,
    /// In the order of their layers: list, rule, origin.
    pub rules: Vec<(String, String, Origin)>,
    /// The `ask` and `deny` rules of settings files of Claude Code, in its syntax: list, rule,
    /// origin.
    pub foreign_rules: Vec<(&'static str, String, Origin)>,
    /// In the order of their layers.
    pub hooks: Vec<Hook>,
    pub warnings: Vec<String>,
    /// Why the checks in the project's file are ignored, for example because the folder is not
    /// trusted. `None`: there are none, or they apply.
    pub untrusted_checks: Option<String>,
    pub is_trusted: bool,
    pub sensitive_settings: SensitiveSettings,
    pub prompts: Prompts,
}

pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigError> {
    let mut loaded = LoadedConfig::default();
    let mut merged = Table::new();
    for policy in &sources.policies {
        let origin = |key: &str| policy.origin("defaults", key);
        loaded.add_layer(&mut merged, policy.defaults.clone(), &origin)?;
    }
    if let Some(path) = &sources.user_file
        && let Some((table, lines)) = read_table(path)?
    {
        let origin = |key: &str| Origin::User(path.clone(), key_line(&lines, key));
        loaded.add_layer(&mut merged, table, &origin)?;
    }
    let own = sources.user_settings.as_deref().and_then(claude_settings::read_user_settings);
    let is_disabled = own.as_ref().is_some_and(|file| file.disables_all);
    if let (Some(file), Some(path)) = (&own, &sources.user_settings) {
        loaded.add_restrictions(file, &|line| Origin::User(path.clone(), line));
    }
    loaded.add_hooks(own.into_iter().collect(), is_disabled);
    if let Some(path) = &sources.project_file {
        let ProjectLayer { table: project, servers, settings, scripts } =
            loaded.load_project(path, &sources.trust, &merged)?;
        let n_hooks = loaded.hooks.len();
        if let Some((path, McpFile { table, lines, .. })) = servers {
            mcp::replace_servers(&mut merged, &table);
            let origin = |key: &str| {
                let line = lines.iter().find(|(name, _)| key.starts_with(name.as_str()));
                Origin::Project(path.clone(), line.map_or(1, |(_, line)| *line))
            };
            loaded.add_layer(&mut merged, table, &origin)?;
        }
        if let Some((table, lines)) = project {
            mcp::replace_servers(&mut merged, &table);
            let origin = |key: &str| Origin::Project(path.clone(), key_line(&lines, key));
            loaded.add_layer(&mut merged, table, &origin)?;
        }
        if let Some(file) = settings.iter().find(|file| file.disables_all) {
            let name = &file.name;
            let warning = "disableAllHooks turns off the hooks of the project's settings files";
            loaded.warnings.push(format!("{name}: {warning}, not yours"));
        }
        loaded.add_hooks(settings, is_disabled);
        for hook in &mut loaded.hooks[n_hooks..] {
            hook.scripts.clone_from(&scripts);
        }
    }
    let environment = sources.environment.iter().map(|it| (it, Origin::Environment(it.2.clone())));
    let options = sources.command_line.iter().map(|it| (it, Origin::CommandLine(it.2.clone())));
    for ((key, value, name), origin) in environment.chain(options) {
        let table = nested_table(key, value.clone());
        check_table(&table).map_err(|reason| ConfigError(format!("{name}: {key}: {reason}")))?;
        loaded.add_layer(&mut merged, table, &|_| origin.clone())?;
    }
    loaded.prompts = std::mem::take(&mut loaded.prompts)
        .with_overrides(sources.prompts.clone())
        .map_err(|reason| ConfigError(format!("--set: prompts.{reason}")))?;
    let mut restrictions = Restrictions::default();
    // That of the machine is the first, and applied last.
    for policy in sources.policies.iter().rev() {
        policy.require(&mut loaded, &mut merged, &mut restrictions)?;
    }
    loaded.config = merged
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError(with_suggestion(error.message())))?;
    loaded.config.restrictions = restrictions;
    loaded.check_ranges()?;
    Ok(loaded)
}

impl LoadedConfig {
    pub(super) fn add_layer(
        &mut self,
        merged: &mut Table,
        mut table: Table,
        origin: &dyn Fn(&str) -> Origin,
    ) -> Result<(), ConfigError> {
        // An alias of the same table.
        if let Some(recovery) = table.remove("reflection") {
            table.insert("recovery".to_owned(), recovery);
        }
        for list in ["allow", "ask", "deny"] {
            let rules = table.get("permissions").and_then(|permissions| permissions.get(list));
            let rules = rules.and_then(Value::as_array).into_iter().flatten();
            for rule in rules.filter_map(Value::as_str) {
                let origin = origin(&format!("permissions.{list}"));
                self.rules.push((list.to_owned(), rule.to_owned(), origin));
            }
        }
        let hooks = hooks::hooks_of_table(&table, &|key| origin(key).to_string());
        self.hooks.extend(hooks.map_err(ConfigError)?);
        let mut changed = Vec::new();
        merge_tables(merged, table, "", &mut changed);
        for key in changed {
            let origin = origin(&key);
            self.origins.insert(key, origin);
        }
        Ok(())
    }

    /// Adds only rules that restrict: they need no trust.
    fn add_restrictions(&mut self, file: &SettingsFile, origin: &dyn Fn(usize) -> Origin) {
        let rules = file.restrictions.iter();
        let rules = rules.map(|(list, rule, line)| (*list, rule.clone(), origin(*line)));
        self.foreign_rules.extend(rules);
    }

    /// Adds the hooks of settings files, unless one of them or `is_disabled` turns them off.
    fn add_hooks(&mut self, files: Vec<SettingsFile>, is_disabled: bool) {
        if is_disabled || files.iter().any(|file| file.disables_all) {
            return;
        }
        for file in files {
            self.warnings.extend(file.warnings);
            self.hooks.extend(file.hooks);
        }
    }

    fn load_project(
        &mut self,
        path: &Path,
        trust: &Trust,
        user: &Table,
    ) -> Result<ProjectLayer, ConfigError> {
        let folder = path.with_file_name(own_prompts::PROMPTS_FOLDER);
        // Commands can write the target of a link: then the file counts as that of an untrusted folder.
        let config_is_redirectable = is_redirectable(path);
        let prompts_are_redirectable =
            folder.is_symlink() || folder.parent().is_some_and(Path::is_symlink);
        let link_warning = |what: &str| {
            format!("commands could write the target of a link; put the {what} itself there")
        };

        let mut project = read_table(path)?;
        if let Some((table, _)) = &mut project
            && table.remove("team").is_some()
        {
            // It would choose where lessons go and come from.
            let ignored = "[team] is ignored: only your own configuration names a database";
            self.warnings.push(format!("{}: {ignored}", path.display()));
        }
        if let (Some((table, _)), false) = (&project, config_is_redirectable) {
            self.sensitive_settings = SensitiveSettings::from_table(table);
        }
        // Prompts of an untrusted folder are not read.
        let own = match trust {
            Trust::Once | Trust::WithSettings(_) if !prompts_are_redirectable => {
                own_prompts::read_prompts(&folder)?
            }
            _ => BTreeMap::new(),
        };
        for (name, text) in &own {
            self.sensitive_settings.add_prompt(name, text);
        }
        let root = path.ancestors().nth(2).unwrap_or(path);
        let mcp_file = root.join(MCP_FILE);
        let mut servers = mcp::read_mcp_file(&mcp_file).map(|file| (mcp_file, file));
        if let Some(servers) = servers.as_ref().and_then(|(_, file)| file.table.get("mcp")) {
            self.sensitive_settings.add_file(MCP_FILE, servers["servers"].clone());
        }
        let mut settings = claude_settings::read_project_settings(root);
        for file in &settings {
            let path = root.join(&file.name);
            self.add_restrictions(file, &|line| Origin::Project(path.clone(), line));
            if let Some(setting) = &file.setting {
                self.sensitive_settings.add_file(&file.name, setting.clone());
            }
        }
        let reads_scripts = !matches!(trust, Trust::Never) && self.sensitive_settings.has_hooks();
        let scripts = reads_scripts.then(|| HookScripts::read(root));
        for (name, files) in scripts.iter().flat_map(HookScripts::hashes_by_folder) {
            self.sensitive_settings.add_file(name, files);
        }
        let why = match trust {
            Trust::Once => None,
            Trust::Never => Some("this folder is not trusted; read its .agent".to_owned()),
            Trust::WithSettings(seal) => self.sensitive_settings.check_trusted(seal, user).err().map(|others| {
                format!("the settings of this folder changed since you trusted it: {others}; review them")
            }),
        };
        let why = why.map(|why| format!("{why}, then run `agent trust`"));
        self.is_trusted = why.is_none();

        let n_warnings = self.warnings.len();
        if let Some((table, _)) = &mut project
            && let Some(why) = config_is_redirectable.then(|| link_warning("file")).or(why.clone())
        {
            self.remove_untrusted(table, (path, &why), user);
        }
        match why.clone().or(prompts_are_redirectable.then(|| link_warning("folder"))) {
            None => {
                self.prompts = Prompts::new(own).map_err(|it| own_prompts::prompt_error(&it))?;
            }
            Some(why) if folder.is_dir() => {
                let shown = format!("{AGENT_DIR}/{}", own_prompts::PROMPTS_FOLDER);
                self.warnings.push(format!("{shown}: ignored because {why}"));
            }
            Some(_) => {}
        }
        match (trust, &why) {
            (_, None) => {
                self.warnings.extend(servers.iter().flat_map(|(_, file)| file.warnings.clone()));
            }
            (Trust::Never, Some(_)) => {
                let why = "this folder is not trusted; read it, then run `agent trust`";
                self.drop_untrusted(&mut servers, &mut settings, why);
            }
            (_, Some(why)) => self.drop_untrusted(&mut servers, &mut settings, why),
        }
        // Scripts that cannot be read exactly cannot be trusted.
        if let Some(unknown) = scripts.as_ref().and_then(HookScripts::untrusted_reason) {
            self.warnings.push(format!("the hooks of this project are not used: {unknown}"));
            settings.clear();
            if let Some((table, _)) = &mut project {
                sensitive_settings::remove_setting(table, "hooks");
            }
        }
        // The user who trusted the folder is notified, even if nothing is ignored.
        if let (Trust::WithSettings(_), Some(why)) = (trust, why)
            && self.warnings.len() == n_warnings
        {
            self.warnings.push(why);
        }
        Ok(ProjectLayer { table: project, servers, settings, scripts: scripts.map(Arc::new) })
    }

    fn drop_untrusted(
        &mut self,
        servers: &mut Option<(PathBuf, McpFile)>,
        settings: &mut Vec<SettingsFile>,
        why: &str,
    ) {
        if servers.take().is_some_and(|(_, file)| !file.table.is_empty()) {
            self.warnings.push(format!("{MCP_FILE}: ignored because {why}"));
        }
        for file in settings.drain(..).filter(|file| file.setting.is_some()) {
            self.warnings.push(format!("{}: its hooks are ignored because {why}", file.name));
        }
    }

    fn remove_untrusted(&mut self, table: &mut Table, (path, why): (&Path, &str), user: &Table) {
        let beyond = SensitiveSettings::from_table(table).exceeding_user(user);
        let (checks, ignored): (Vec<&str>, Vec<&str>) =
            beyond.iter().map(|(name, _)| name).partition(|name| *name == "checks.commands");
        for name in checks.iter().chain(&ignored) {
            sensitive_settings::remove_setting(table, name);
        }
        // A task with these checks is not started.
        self.untrusted_checks = (!checks.is_empty()).then(|| why.to_owned());
        if !ignored.is_empty() {
            let (path, ignored) = (path.display(), ignored.join(", "));
            self.warnings.push(format!("{path}: ignored {ignored} because {why}"));
        }
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let config = &self.config;
        let Config { agents, context, learning, limits, record, recovery, requests, .. } = config;
        let at_least = |key: &str, value: Option<u64>, min: u64| match value {
            Some(value) if value < min => {
                self.range_error(key, &format!("must be at least {min}, not {value}"))
            }
            _ => Ok(()),
        };
        let failures = recovery.max_consecutive_failures;
        let positive = [
            ("limits.max_turns", Some(u64::from(limits.max_turns))),
            ("sandbox.max_processes", Some(u64::from(config.sandbox.max_processes))),
            ("agents.max_concurrent", Some(agents.max_concurrent as u64)),
            ("agents.max_turns", Some(u64::from(agents.max_turns))),
            ("agents.max_tokens", Some(agents.max_tokens)),
            ("context.tool_output_max_lines", Some(context.tool_output_max_lines as u64)),
            ("context.keep_rounds", Some(context.keep_rounds as u64)),
            ("recovery.max_consecutive_failures", Some(u64::from(failures))),
            ("recovery.reflect_after", Some(u64::from(recovery.reflect_after))),
            ("learning.keep_days", Some(u64::from(learning.keep_days))),
            ("learning.max_items", Some(learning.max_items as u64)),
            ("record.keep_days", record.keep_days.map(u64::from)),
            ("requests.max_tries", requests.max_tries.map(u64::from)),
        ];
        for (key, value) in positive {
            at_least(key, value, 1)?;
        }
        let max_bytes = Some(context.tool_output_max_bytes as u64);
        at_least("context.tool_output_max_bytes", max_bytes, 1024)?;
        if !(0.1..=0.95).contains(&context.compact_at) {
            return self.range_error("context.compact_at", "must be from 0.1 to 0.95");
        }
        let mut temperatures = vec![("temperature".to_owned(), config.temperature)];
        for (id, model) in &config.models {
            at_least(&format!("models.{id}.context_window"), model.context_window, 1024)?;
            temperatures.push((format!("models.{id}.temperature"), model.temperature));
        }
        for (key, value) in temperatures {
            if value.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
                return self.range_error(&key, "must be from 0 to 2");
            }
        }
        if limits.max_budget_usd.is_some_and(|budget| !budget.is_finite() || budget <= 0.0) {
            return self.range_error("limits.max_budget_usd", "must be more than 0");
        }
        let time_limits = [
            ("requests.connect_timeout", Some(&requests.connect_timeout)),
            ("requests.first_data_timeout", requests.first_data_timeout.as_ref()),
            ("requests.idle_timeout", requests.idle_timeout.as_ref()),
            ("agents.timeout", Some(&agents.timeout)),
        ];
        for (key, text) in time_limits {
            if text.is_some_and(|text| parse_duration(text) == Ok(Duration::ZERO)) {
                return self.range_error(key, "must be more than 0");
            }
        }
        let durations = [
            ("requests.retry_for", requests.retry_for.as_ref()),
            ("checks.timeout", Some(&config.checks.timeout)),
            ("limits.timeout", limits.timeout.as_ref()),
            ("checkpoints.expire_after", Some(&config.checkpoints.expire_after)),
        ];
        for (key, text) in time_limits.into_iter().chain(durations) {
            if let Some(Err(reason)) = text.map(|text| parse_duration(text)) {
                return self.range_error(key, &reason);
            }
        }
        for (name, server) in &config.mcp.servers {
            if let Err((key, reason)) = server.check() {
                return self.range_error(&format!("mcp.servers.{name}.{key}"), &reason);
            }
        }
        for shape in &config.record.redact_extra {
            if let Err(error) = regex::Regex::new(shape) {
                let reason = error.to_string().replace('\n', " ");
                return self.range_error("record.redact_extra", &reason);
            }
        }
        Ok(())
    }

    fn range_error(&self, key: &str, reason: &str) -> Result<(), ConfigError> {
        // A key that is missing belongs to a table of which another one is set.
        let table = key.rfind('.').map_or(key, |at| &key[..=at]);
        let of_table = || Some(self.origins.iter().find(|(it, _)| it.starts_with(table))?.1);
        let origin = self.origins.get(key).or_else(of_table);
        let origin = origin.map_or_else(String::new, |origin| format!("{origin}: "));
        Err(ConfigError(format!("{origin}{key}: {reason}")))
    }

    pub fn mode_or(&self, default: PermissionMode) -> PermissionMode {
        self.config.permissions.mode.unwrap_or(default)
    }
}

/// Whether `.agent` is a link, or the file is a link into or through the project.
fn is_redirectable(file: &Path) -> bool {
    let (Some(agent), Some(root)) = (file.parent(), file.ancestors().nth(2)) else { return false };
    if agent.is_symlink() || !file.is_symlink() {
        return agent.is_symlink();
    }
    let Ok(root) = root.canonicalize() else { return true };
    let is_inside = |path: PathBuf| disk::passes_through(&path, std::slice::from_ref(&root));
    // The link's target as written, and as resolved now.
    let real = file.canonicalize().ok();
    link_target(file).is_none_or(is_inside) || real.is_some_and(|real| real.starts_with(&root))
}

/// The target of a link as written. A leading `..` is resolved lexically, which is exact: the path of
/// the link's parent folder contains no links.
fn link_target(link: &Path) -> Option<PathBuf> {
    let (target, mut folder) = (link.read_link().ok()?, link.parent()?);
    let mut rest = target.components();
    while let Some(part @ (Component::ParentDir | Component::CurDir)) = rest.clone().next() {
        rest.next();
        if part == Component::ParentDir {
            folder = folder.parent().unwrap_or(folder);
        }
    }
    Some(folder.join(rest.as_path()))
}

struct ProjectLayer {
    table: Option<(Table, KeyLines)>,
    servers: Option<(PathBuf, McpFile)>,
    settings: Vec<SettingsFile>,
    scripts: Option<Arc<HookScripts>>,
}

pub(super) type KeyLines = BTreeMap<String, usize>;

fn read_table(path: &Path) -> Result<Option<(Table, KeyLines)>, ConfigError> {
    let text = match read_small_text(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(ConfigError(format!("{}: {error}", path.display()))),
    };
    // Checked separately, so that the message contains this file and line.
    parse_toml::<Config>(path, &text)?;
    Ok(Some((parse_toml(path, &text)?, key_lines(&text))))
}

/// An error names the file and the line.
pub(super) fn parse_toml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let message = with_suggestion(error.message());
        ConfigError(format!("{}:{line}: {message}", path.display()))
    })
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// The line of each key.
pub(super) fn key_lines(text: &str) -> KeyLines {
    let mut lines = BTreeMap::new();
    if let Ok(spanned) = DeTable::parse(text) {
        collect_lines(spanned.get_ref(), "", &|at| line_at(text, at), &mut lines);
    }
    lines
}

fn collect_lines(
    table: &DeTable<'_>,
    prefix: &str,
    line_at: &dyn Fn(usize) -> usize,
    lines: &mut KeyLines,
) {
    for (key, value) in table {
        let path = join_key(prefix, key.get_ref());
        lines.insert(path.clone(), line_at(key.span().start));
        if let DeValue::Table(table) = value.get_ref() {
            collect_lines(table, &path, line_at, lines);
        }
    }
}

fn key_line(lines: &KeyLines, key: &str) -> usize {
    lines.get(key).copied().unwrap_or(1)
}

/// Lists that layers extend: a layer cannot remove what another one denies or hides.
pub(super) const EXTENDED_LISTS: [&str; 4] =
    ["permissions.allow", "permissions.ask", "permissions.deny", "record.redact_extra"];

pub(super) fn merge_tables(base: &mut Table, over: Table, prefix: &str, changed: &mut Vec<String>) {
    for (key, value) in over {
        let path = join_key(prefix, &key);
        let adds = EXTENDED_LISTS.contains(&path.as_str()) || prefix == "hooks";
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => {
                merge_tables(base, over, &path, changed);
            }
            (Some(Value::Array(base)), Value::Array(over)) if adds => {
                base.extend(over);
                changed.push(path);
            }
            (_, Value::Table(over)) => {
                let mut table = Table::new();
                merge_tables(&mut table, over, &path, changed);
                base.insert(key, Value::Table(table));
            }
            (_, value) => {
                base.insert(key, value);
                changed.push(path);
            }
        }
    }
}

pub(super) fn join_key(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// `a.b = value` as a table. A quoted part may contain dots: `models."openai/gpt-5.5".price_in`.
pub(super) fn nested_table(key: &str, value: Value) -> Table {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quoted = false;
    for c in key.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    let mut table = Table::from_iter([(part, value)]);
    for part in parts.into_iter().rev() {
        table = Table::from_iter([(part, Value::Table(table))]);
    }
    table
}

fn check_table(table: &Table) -> Result<(), String> {
    let checked: Result<Config, _> = table.clone().try_into();
    checked.map(drop).map_err(|error| with_suggestion(error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn check_error(text: &str, expected: &str) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = file(&dir, "c.toml", text);
        let sources = Sources { user_file: Some(path.clone()), ..Sources::default() };
        let error = load(&sources).expect_err(text).to_string();
        let error = error.replace(&path.display().to_string(), "c.toml");
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }

    #[test]
    fn config_errors_name_the_line_and_the_nearest_key() {
        check_error("\nmodle = \"x\"\n", "c.toml:2: unknown key `modle`: did you mean `model`?");
        check_error(
            "[limits]\nmax_turn = 3\n",
            "c.toml:2: unknown key `max_turn`: did you mean `max_turns`?",
        );
        check_error("[limits]\nmax_turns = \"x\"\n", "c.toml:2: invalid type: string \"x\"");
        check_error("[limits]\nmax_turns = 0\n", "c.toml:2: limits.max_turns: must be at least 1");
        check_error("[checks]\ntimeout = \"soon\"\n", "c.toml:2: checks.timeout: \"soon\" is no");
        check_error("model = \n", "c.toml:1: ");
    }

    #[test]
    fn config_layers_override_earlier_ones() {
        let dir = tempfile::tempdir().expect("a folder");
        let user =
            "model = \"a/user\"\n[limits]\nmax_turns = 7\n[permissions]\ndeny = [\"Write\"]\n";
        let project = "model = \"a/project\"\n[permissions]\ndeny = [\"Edit\"]\n";
        let sources = Sources {
            policies: Vec::new(),
            user_file: Some(file(&dir, "user.toml", user)),
            user_settings: None,
            project_file: Some(file(&dir, "project.toml", project)),
            trust: Trust::Once,
            environment: Vec::new(),
            command_line: vec![(
                "models.\"a/x.y\".price_in".into(),
                Value::Float(1.0),
                "--set".into(),
            )],
            prompts: BTreeMap::new(),
        };
        let loaded = load(&sources).expect("a configuration");
        assert_eq!(loaded.config.model, "a/project");
        assert_eq!(loaded.config.limits.max_turns, 7);
        assert_eq!(loaded.config.permissions.deny, ["Write", "Edit"]);
        assert_eq!(loaded.rules.len(), 2);
        assert!(matches!(loaded.origins["model"], Origin::Project(_, 1)));
        assert!(matches!(loaded.origins["limits.max_turns"], Origin::User(_, 3)));
        assert_eq!(loaded.config.models["a/x.y"].price_in, Some(1.0));
    }

    #[test]
    fn untrusted_project_cannot_set_dangerous_keys() {
        let dir = tempfile::tempdir().expect("a folder");
        let project = "model = \"a/b\"\n[providers.openai]\nbase_url = \"http://evil\"\n\
            [permissions]\nmode = \"full\"\nallow = [\"Bash\"]\ndeny = [\"Write\"]\n\
            [checks]\ncommands = [\"rm x\"]\n\
            [record]\nredact_extra = [\"user\", \".*\"]\n\
            [learning]\nenabled = false\nkeep_days = 1\n";
        let sources = Sources {
            project_file: Some(file(&dir, "project.toml", project)),
            ..Sources::default()
        };
        let loaded = load(&sources).expect("a configuration");
        assert_eq!(loaded.config.model, "a/b");
        assert!(loaded.config.providers.is_empty());
        assert_eq!(loaded.config.permissions.mode, None);
        assert!(loaded.config.permissions.allow.is_empty());
        assert_eq!(loaded.config.permissions.deny, ["Write"]);
        assert!(loaded.config.checks.commands.is_empty() && loaded.untrusted_checks.is_some());
        assert!(!loaded.config.learning.enabled && loaded.config.learning.keep_days == 90);
        assert!(loaded.config.record.redact_extra.is_empty());
        let ignored = "learning.keep_days, permissions.allow, permissions.mode, providers, record";
        assert!(loaded.warnings[0].contains(ignored), "{:?}", loaded.warnings);
    }
}
