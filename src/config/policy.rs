//! The policy of the machine's administrator: requirements, which no other layer overrides, and defaults.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use globset::Glob;
use serde::Deserialize;
use toml::{Table, Value};

use super::layers::{
    ConfigError, EXTENDED_LISTS, LoadedConfig, Origin, join_key, key_lines, merge_tables,
    nested_table, parse_toml,
};
use super::types::Config;
use agent_protocol::control::{ModeLimit, PermissionMode};
use agent_protocol::disk;
use agent_protocol::settings::parse_duration;

const POLICY_FILE: &str = "/etc/agent/config.toml";

/// A policy file.
#[derive(Clone, Debug, Default)]
pub struct MachinePolicy {
    pub path: PathBuf,
    /// By key, with its table.
    pub lines: BTreeMap<String, usize>,
    pub defaults: Table,
    pub requirements: Table,
    pub allowed: AllowedServers,
    /// Variables of OpenTelemetry, in place of those of the environment.
    pub telemetry: BTreeMap<String, String>,
}

/// The models and servers that may be used; `None`: all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllowedServers {
    #[serde(skip)]
    pub policy: PathBuf,
    /// Patterns of `provider/model`.
    pub models: Option<Vec<String>>,
    /// Patterns of the hosts of model servers, of MCP servers and of the search service.
    pub hosts: Option<Vec<String>>,
}

/// What policies restrict at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restrictions {
    allowed: Vec<AllowedServers>,
    /// Variables of OpenTelemetry, in place of those of the environment.
    pub telemetry: BTreeMap<String, String>,
    pub mode: Option<ModeLimit>,
    /// What requires a sandbox.
    pub sandbox: Option<String>,
}

/// The tables of a policy file, to check them.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PolicyTables {
    #[serde(rename = "defaults")]
    _defaults: Config,
    #[serde(rename = "requirements")]
    _requirements: Config,
    allowed: AllowedServers,
    telemetry: BTreeMap<String, String>,
}

/// The policy of the machine, and the one that `AGENT_POLICY` names. A policy that others could change is an error.
pub fn read_policies() -> Result<Vec<MachinePolicy>, ConfigError> {
    let named = std::env::var_os("AGENT_POLICY").filter(|path| !path.is_empty());
    let mut policies: Vec<_> = read_policy(Path::new(POLICY_FILE), false)?.into_iter().collect();
    if let Some(path) = named {
        policies.extend(read_policy(Path::new(&path), true)?);
    }
    Ok(policies)
}

fn read_policy(path: &Path, must_exist: bool) -> Result<Option<MachinePolicy>, ConfigError> {
    let Some(text) = read_policy_text(path, must_exist)? else { return Ok(None) };
    let PolicyTables { mut allowed, telemetry, .. } = parse_toml(path, &text)?;
    path.clone_into(&mut allowed.policy);
    for pattern in [&allowed.models, &allowed.hosts].into_iter().flatten().flatten() {
        Glob::new(pattern)
            .map_err(|error| ConfigError(format!("policy {}: {error}", path.display())))?;
    }
    let mut tables: Table = parse_toml(path, &text)?;
    let mut table = |name: &str| match tables.remove(name) {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    };
    Ok(Some(MachinePolicy {
        path: path.to_owned(),
        lines: key_lines(&text),
        defaults: table("defaults"),
        requirements: table("requirements"),
        allowed,
        telemetry,
    }))
}

/// The text of a policy that no other user can change. `is_named`: the user named it, and it may be theirs; otherwise
/// it may be missing.
pub fn read_policy_text(path: &Path, is_named: bool) -> Result<Option<String>, ConfigError> {
    let wrong = |why: &str| ConfigError(format!("policy {}: {why}", path.display()));
    let data = match std::fs::metadata(path) {
        Err(error) if disk::is_missing(&error) && !is_named => return Ok(None),
        data => data.map_err(|error| wrong(&disk::in_words(&error)))?,
    };
    if data.uid() != 0 && !(is_named && data.uid() == rustix::process::geteuid().as_raw()) {
        return Err(wrong("it must belong to root"));
    }
    if data.mode() & 0o022 != 0 {
        return Err(wrong("others can write it; run `chmod go-w` on it"));
    }
    let text = disk::read_small_text(path);
    text.map(Some).map_err(|error| wrong(&disk::in_words(&error)))
}

impl MachinePolicy {
    /// Requires this value, or sets it as a default.
    pub fn set(&mut self, is_required: bool, key: &str, value: Value) {
        let table = if is_required { &mut self.requirements } else { &mut self.defaults };
        merge_tables(table, nested_table(key, value), "", &mut Vec::new());
    }

    pub fn origin(&self, table: &str, key: &str) -> Origin {
        let line = self.lines.get(&join_key(table, key)).copied().unwrap_or(0);
        Origin::Policy(self.path.clone(), line)
    }

    /// Applies the requirements to the merged layers. A value that another layer set and that they do not permit is
    /// an error that names both.
    pub fn require(
        &self,
        loaded: &mut LoadedConfig,
        merged: &mut Table,
        restrictions: &mut Restrictions,
    ) -> Result<(), ConfigError> {
        let mut required = self.requirements.clone();
        let built_in = Table::try_from(Config::default()).unwrap_or_default();
        let origin = |key: &str| self.origin("requirements", key);
        self.remove_permitted(&mut required, Some(merged), Some(&built_in), "", &loaded.origins)?;
        let mode = self.requirements.get("permissions").and_then(|it| it.get("mode")?.as_str());
        if let Some(mode) = mode.and_then(PermissionMode::from_name) {
            let reason =
                format!("the policy {} permits no mode above {}", origin(MODE), mode.as_str());
            restrictions.limit_mode(ModeLimit { mode, reason });
        }
        if self.requirements.get("sandbox").and_then(|it| it.get("enabled")?.as_bool())
            == Some(true)
        {
            restrictions.sandbox = Some(origin("sandbox.enabled").to_string());
        }
        loaded.add_layer(merged, required, &origin)?;
        restrictions.allowed.push(self.allowed.clone());
        let is_other = |name: &str, value: &str| {
            std::env::var(name).is_ok_and(|given| !given.is_empty() && given != *value)
        };
        if let Some((name, value)) =
            self.telemetry.iter().find(|(name, value)| is_other(name, value))
        {
            let origin = self.origin("telemetry", name);
            return Err(ConfigError(format!(
                "environment {name}: the policy {origin} requires {value}"
            )));
        }
        if !self.telemetry.is_empty() {
            restrictions.telemetry.clone_from(&self.telemetry);
        }
        Ok(())
    }

    /// Removes what the other layers, or the defaults, are already; fails if a layer sets what is not permitted.
    fn remove_permitted(
        &self,
        required: &mut Table,
        given: Option<&Table>,
        built_in: Option<&Table>,
        prefix: &str,
        origins: &BTreeMap<String, Origin>,
    ) -> Result<(), ConfigError> {
        for key in required.keys().cloned().collect::<Vec<_>>() {
            let path = join_key(prefix, &key);
            let [set, default] = [given, built_in].map(|table| table?.get(&key));
            let Some(value) = required.get_mut(&key) else { continue };
            if let Value::Table(inner) = value {
                let [set, default] = [set, default].map(|value| value?.as_table());
                self.remove_permitted(inner, set, default, &path, origins)?;
                continue;
            }
            if EXTENDED_LISTS.contains(&path.as_str()) || prefix == "hooks" {
                continue;
            }
            let unset = (path == MODE).then(|| PermissionMode::default().as_str().into());
            let Some(now) = set.or(default).cloned().or(unset) else { continue };
            if is_permitted(&path, &now, value) {
                required.remove(&key);
            } else if let Some(by) = origins.get(&path)
                && !matches!(by, Origin::Policy(..))
            {
                let bound = if is_permitted(&path, value, &now) { "at most " } else { "" };
                let origin = self.origin("requirements", &path);
                return Err(ConfigError(format!(
                    "{by}: {path} = {now}: the policy {origin} requires {bound}{value}"
                )));
            }
        }
        Ok(())
    }
}

const MODE: &str = "permissions.mode";

/// Limits may be lower than required, and the mode may be stricter.
fn is_permitted(key: &str, given: &Value, required: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(n) => n.to_string().parse().ok(),
        Value::Float(n) => Some(*n),
        Value::String(text) => parse_duration(text).ok().map(|it| it.as_secs_f64()),
        _ => None,
    };
    let mode = |value: &Value| PermissionMode::from_name(value.as_str()?);
    given == required
        || key == MODE && mode(given).is_some_and(|given| Some(given) <= mode(required))
        || (key.starts_with("limits.") || key.starts_with("agents."))
            && number(given).is_some_and(|given| Some(given) <= number(required))
}

impl Restrictions {
    /// Fails if the model may not be used.
    pub fn check_model(&self, id: &str) -> Result<(), ConfigError> {
        self.allowed.iter().try_for_each(|it| it.check("model", id, it.models.as_deref()))
    }

    /// Fails if the host of the address may not be used.
    pub fn check_url(&self, url: &str) -> Result<(), ConfigError> {
        // As the client reads it.
        let url = url::Url::parse(url).ok();
        let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        self.allowed.iter().try_for_each(|it| it.check("host", host, it.hosts.as_deref()))
    }

    pub fn limit_mode(&mut self, limit: ModeLimit) {
        if self.mode.as_ref().is_none_or(|known| limit.mode < known.mode) {
            self.mode = Some(limit);
        }
    }
}

impl AllowedServers {
    fn check(&self, what: &str, name: &str, allowed: Option<&[String]>) -> Result<(), ConfigError> {
        let Some(allowed) = allowed else { return Ok(()) };
        let fits = |pattern: &String| {
            Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name))
        };
        if allowed.iter().any(fits) {
            return Ok(());
        }
        let (policy, allowed) = (self.policy.display(), allowed.join(", "));
        Err(ConfigError(format!(
            "{what} {name} is not allowed: the policy {policy} allows {allowed}"
        )))
    }
}
