//! Compatibility with Claude Code: its options, rules and settings, in our terms (`docs/INTEGRATION.md`).

mod foreign;
mod managed;
mod options;
mod roles;
mod rules;
mod settings;

pub(crate) use managed::read_managed_settings;
pub(crate) use options::{CompatibleOptions, read_json, system_prompt_overrides};
pub(crate) use roles::parse_roles;
pub(crate) use rules::{PermissionModeArg, RuleOptions, apply_restrictions};
