//! The settings of a folder that require trust: all but a closed list. The same list determines what an untrusted
//! folder may not set, and what the user trusts.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use agent_protocol::control::PermissionMode;

/// What a folder may set without trust, whatever the value is: nothing here runs a program, chooses where data goes,
/// permits more, or keeps less of what the user could need.
const HARMLESS: &[&str] = &[
    "effort",
    "temperature",
    "permissions.ask",
    "permissions.deny",
    "checks.timeout",
    "context.compact_at",
    "context.keep_rounds",
    "context.max_skill_tokens",
    "context.tool_output_max_lines",
    "context.tool_output_max_bytes",
    "recovery.max_step_retries",
    "recovery.max_answer_retries",
    "recovery.max_single_step_repairs",
    "recovery.max_task_replanning_attempts",
    "recovery.max_consecutive_failures",
    "recovery.reflect_after",
    "recovery.max_reflections",
    "recovery.enable_step_level_reflection",
];

/// Tables whose settings are trusted one by one; any other is trusted as a whole.
const SEPARATE: &[&str] =
    &["permissions", "checks", "context", "recovery", "limits", "agents", "learning"];

/// Whether a folder may set this value without trust.
fn is_harmless(name: &str, value: &Value) -> bool {
    match name {
        // A script or a record is not a model: it would execute what the project wrote into it.
        "model" | "light_model" | "fallback" => {
            let models = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            !models.iter().any(|model| model.as_str().is_none_or(super::is_file_model))
        }
        // The project may be more restrictive, not less.
        "permissions.mode" => permissiveness(Some(value)) <= PermissionMode::ReadOnly,
        // The memory is the user's: a project may disable it, but not choose its path or what it keeps.
        "learning.enabled" => value.as_bool() == Some(false),
        _ => false,
    }
}

/// Settings by name, with their values; prompts of the folder by name (`prompts/learn.md`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SensitiveSettings(BTreeMap<String, Value>);

impl SensitiveSettings {
    /// Everything in the table that might require trust under any user configuration.
    pub(super) fn from_table(table: &Table) -> Self {
        let mut needs = BTreeMap::new();
        for (key, value) in table {
            if HARMLESS.contains(&key.as_str()) || is_harmless(key, value) {
                continue;
            }
            match value.as_table().filter(|_| SEPARATE.contains(&key.as_str())) {
                Some(inner) => needs.extend(inner.iter().filter_map(|(inner, value)| {
                    let name = format!("{key}.{inner}");
                    let is_free = HARMLESS.contains(&name.as_str()) || is_harmless(&name, value);
                    (!is_free).then(|| (name, value.clone()))
                })),
                None => _ = needs.insert(key.clone(), value.clone()),
            }
        }
        Self(needs)
    }

    pub(super) fn add_prompt(&mut self, name: &str, text: &str) {
        self.0.insert(format!("prompts/{name}"), Value::from(text));
    }

    pub(super) fn add_file(&mut self, name: &str, setting: Value) {
        self.0.insert(name.to_owned(), setting);
    }

    pub(super) fn has_hooks(&self) -> bool {
        self.0.keys().any(|name| name == "hooks" || name.starts_with(".claude/"))
    }

    #[must_use]
    pub fn with_allowed_rules<'a>(mut self, rules: impl Iterator<Item = &'a str>) -> Self {
        let list = self.0.entry("permissions.allow".to_owned());
        let list = list.or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            for rule in rules.map(Value::from) {
                if !list.contains(&rule) {
                    list.push(rule);
                }
            }
        }
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The settings that this user's configuration does not allow an untrusted folder to set.
    pub(super) fn exceeding_user(&self, user: &Table) -> Self {
        let beyond = self.0.iter().filter(|(name, value)| !needs_no_trust(name, Some(value), user));
        Self(beyond.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The error lists the differences that the trust does not cover.
    pub(super) fn check_trusted(&self, seal: &SettingsDigest, user: &Table) -> Result<(), String> {
        let needs = self.exceeding_user(user).0;
        if needs.is_empty() {
            return Ok(());
        }
        let counts = |name: &&String| !needs_no_trust(name, self.0.get(*name), user);
        let names: BTreeSet<&String> = needs.keys().chain(seal.0.keys().filter(counts)).collect();
        let others =
            names.into_iter().filter_map(|name| match (needs.get(name), seal.0.get(name)) {
                (Some(value), Some(hash)) if value_hash(value) == *hash => None,
                (Some(_), Some(_)) => Some(format!("{name} (changed)")),
                (Some(_), None) => Some(format!("{name} (new)")),
                (None, _) => Some(format!("{name} (gone)")),
            });
        let others: Vec<String> = others.collect();
        if others.is_empty() { Ok(()) } else { Err(others.join(", ")) }
    }

    /// The hashes to store when the user trusts these settings.
    pub fn digest(&self) -> SettingsDigest {
        let hashes = self.0.iter().map(|(name, value)| (name.clone(), value_hash(value)));
        SettingsDigest(hashes.collect())
    }
}

/// Whether a folder may set this without trust, or leave it unset (`None`): the user has no such
/// limit, or only a mode that is not more restrictive.
fn needs_no_trust(name: &str, value: Option<&Value>, user: &Table) -> bool {
    let set = |table: &str, key: &str| user.get(table).and_then(|table| table.get(key));
    match name.split_once('.') {
        Some((table @ ("limits" | "agents"), key)) => set(table, key).is_none(),
        Some(("permissions", "mode")) => {
            let own = set("permissions", "mode");
            let most = own.map_or(PermissionMode::Ask, |own| permissiveness(Some(own)));
            permissiveness(value) <= most
        }
        _ => false,
    }
}

/// `plan` permits as much as `read-only`.
fn permissiveness(mode: Option<&Value>) -> PermissionMode {
    let mode = mode.and_then(|mode| mode.clone().try_into().ok());
    mode.map_or(PermissionMode::ReadOnly, |mode: PermissionMode| mode.max(PermissionMode::ReadOnly))
}

/// The tables of a value are sorted by key, and comments are not part of a value.
fn value_hash(value: &Value) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex().to_string()
}

/// The settings that a folder was trusted with: a hash of each value, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsDigest(BTreeMap<String, String>);

impl SettingsDigest {
    /// The stored form: without blanks, which do not occur in names of settings or prompts.
    pub(super) fn to_text(&self) -> String {
        let parts = self.0.iter().map(|(name, hash)| format!("{name}={hash}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// An invalid entry is a setting that no folder has.
    pub(super) fn parse(text: &str) -> Self {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let parts = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        Self(parts.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
    }
}

pub(super) fn remove_setting(table: &mut Table, name: &str) {
    match name.split_once('.') {
        Some((outer, key)) => {
            let inner = table.get_mut(outer).and_then(Value::as_table_mut);
            _ = inner.and_then(|inner| inner.remove(key));
        }
        None => _ = table.remove(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(then: &str, now: &str, user: &str, expected: Result<(), &str>) {
        let [then, now, user] = [then, now, user].map(|text| text.parse::<Table>().expect(text));
        let seal = SettingsDigest::parse(&SensitiveSettings::from_table(&then).digest().to_text());
        let found = SensitiveSettings::from_table(&now).check_trusted(&seal, &user);
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|it| *it));
    }

    #[test]
    fn trust_covers_exactly_the_trusted_settings() {
        let sandbox = "[sandbox]\nenabled = true\nnetwork = \"on\"\n";
        check("", "", "", Ok(()));
        check(sandbox, sandbox, "", Ok(()));
        // Order, comments, syntax, and settings that need no trust make no difference.
        let same = "model = \"a/b\" # mine\nsandbox = { network = 'on', enabled = true }\n\
            permissions.deny = [\"Write\"]\ncontext.keep_rounds = 3\nlearning.enabled = false\n";
        check(sandbox, same, "", Ok(()));
        check("", sandbox, "", Err("sandbox (new)"));
        let off = "sandbox.enabled = false\nverify.model = \"a/b\"\n";
        check(sandbox, off, "", Err("sandbox (changed), verify (new)"));
        // Settings that were trusted together are trusted only together.
        let full = "permissions.mode = \"full\"\n";
        check(&format!("{full}{sandbox}"), full, "", Err("sandbox (gone)"));
        check(&format!("{full}{sandbox}"), "", "", Ok(()));
        check("model = \"script:a\"", "model = \"script:b\"", "", Err("model (changed)"));
        check("", "light_model = \"script:a\"", "", Err("light_model (new)"));
        check("", "fallback = [\"a/b\", \"script:b\"]", "", Err("fallback (new)"));
        check("", "fallback = [\"a/b\"]", "", Ok(()));
        let allows = |rules: &str| format!("permissions.allow = [{rules}]");
        check(&allows("\"Read\""), &allows("\"Bash\""), "", Err("permissions.allow (changed)"));
        check("", "checks.commands = [\"x\"]", "", Err("checks.commands (new)"));
        check("", "learning.keep_days = 1", "", Err("learning.keep_days (new)"));
        check("", "checkpoints.enabled = false", "", Err("checkpoints (new)"));
        // What is not known is not harmless.
        check("", "later.key = 1\ncontext.later = 1", "", Err("context.later (new), later (new)"));
    }

    #[test]
    fn settings_within_the_users_configuration_need_no_trust() {
        let limits = |turns: u32| format!("limits.max_turns = {turns}\nsandbox.enabled = false\n");
        check(&limits(1), &limits(2), "", Ok(()));
        let set = "limits.max_turns = 3";
        check(&limits(1), &limits(2), set, Err("limits.max_turns (changed)"));
        check("", "limits.max_turns = 2", set, Err("limits.max_turns (new)"));
        let mode = |mode: &str| format!("permissions.mode = {mode:?}\nsandbox.enabled = false\n");
        check(&mode("full"), &mode("ask"), "", Ok(()));
        check(&mode("full"), "sandbox.enabled = false", "", Ok(()));
        check(&mode("ask"), &mode("full"), "", Err("permissions.mode (changed)"));
        let careful = "permissions.mode = \"read-only\"";
        check("sandbox.enabled = false", &mode("ask"), careful, Err("permissions.mode (new)"));
        check(&mode("full"), &mode("full"), careful, Ok(()));
        check("sandbox.enabled = false", &mode("plan"), careful, Ok(()));
    }
}
