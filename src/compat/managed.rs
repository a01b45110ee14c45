//! Settings of Claude Code that the machine's administrator manages: they are a policy.

use std::path::Path;

use super::settings::ClaudeSettings;
use crate::app::OpenError;
use crate::config::{Hook, MachinePolicy, read_policy_text};
use agent_protocol::control::PermissionMode;

const MANAGED_SETTINGS: &str = "/etc/claude-code/managed-settings.json";
/// The other keys are defaults.
const REQUIRED: [&str; 3] = ["permissions.ask", "permissions.deny", "sandbox.enabled"];

/// The policy with its hooks; `None` if there is no such file. Keys without a counterpart are left out.
pub(crate) fn read_managed_settings() -> Result<Option<(MachinePolicy, Vec<Hook>)>, OpenError> {
    let path = Path::new(MANAGED_SETTINGS);
    let Some(text) = read_policy_text(path, false)? else { return Ok(None) };
    let settings = ClaudeSettings::parse(&[text])
        .map_err(|why| OpenError::Usage(format!("policy {MANAGED_SETTINGS}: {why}")))?;
    let mut policy = MachinePolicy { path: path.to_owned(), ..MachinePolicy::default() };
    for (key, value) in settings.values {
        // A name like `opus` is an alias of Claude Code's.
        if key == "model" && !value.as_str().is_some_and(|model| model.contains('/')) {
            continue;
        }
        policy.set(REQUIRED.contains(&key.as_str()), &key, value);
    }
    // A server's tools are among the rules already.
    let denied = settings.denied_tools.into_iter().filter(|tool| !tool.starts_with("mcp__"));
    policy.set(true, "permissions.deny", denied.collect::<Vec<_>>().into());
    if settings.disables_full {
        policy.set(true, "permissions.mode", PermissionMode::AutoEdit.as_str().into());
    }
    Ok(Some((policy, settings.hooks)))
}
