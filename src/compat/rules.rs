//! Permission modes, rules and lists of tools, as Claude Code has them.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::options::{split_list, unknown_tools_warning};
use crate::app::{self, OpenError};
use crate::config::{ALLOWED_TOOLS, DISALLOWED_TOOLS, LoadedConfig, Setting};
use agent_permission::{ClaudeRule, RuleAction};
use agent_protocol::control::PermissionMode;
use agent_protocol::hook::claude_names::native_tool_name;
use agent_protocol::tool::{BASH_KILL, BASH_OUTPUT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermissionModeArg {
    pub(crate) mode: PermissionMode,
    pub(crate) asks: bool,
}

impl PermissionModeArg {
    const fn interactive(mode: PermissionMode) -> Self {
        Self { mode, asks: true }
    }
}

impl ValueEnum for PermissionModeArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [PermissionModeArg; 6] = [
            PermissionModeArg::interactive(PermissionMode::Plan),
            PermissionModeArg::interactive(PermissionMode::ReadOnly),
            PermissionModeArg::interactive(PermissionMode::Ask),
            PermissionModeArg::interactive(PermissionMode::AutoEdit),
            PermissionModeArg::interactive(PermissionMode::Full),
            PermissionModeArg { mode: PermissionMode::Ask, asks: false },
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        if self.asks {
            return self.mode.to_possible_value();
        }
        Some(PossibleValue::new("dontAsk").hide(true))
    }
}

#[derive(Debug, Default)]
pub(super) struct TranslatedRules {
    /// Rules in our syntax.
    pub(super) rules: Vec<String>,
    /// Tools without a pattern.
    pub(super) whole_tools: Vec<String>,
    pub(super) unknown_tools: Vec<String>,
}

/// Each text has one or several rules. A deny rule without a pattern removes a tool of ours: it is
/// no rule.
pub(super) fn translate_rules(
    texts: &[String],
    verb: RuleAction,
    option: &str,
) -> Result<TranslatedRules, String> {
    let mut given = TranslatedRules::default();
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let wrong = |why: String| format!("{option}: {why}");
        for rule in ClaudeRule::parse_all(text).map_err(wrong)? {
            let is_of_server = rule.tool.starts_with("mcp__");
            if !is_of_server && !app::tool_names().any(|tool| tool == rule.tool) {
                given.unknown_tools.push(rule.tool);
                continue;
            }
            let is_part = [BASH_OUTPUT, BASH_KILL].contains(&&*rule.tool);
            if verb != RuleAction::Deny || !rule.is_bare() || is_of_server || is_part {
                given.rules.extend(rule.to_native_rules(verb).map_err(wrong)?);
            }
            if rule.is_bare() {
                given.whole_tools.push(rule.tool);
            }
        }
    }
    Ok(given)
}

/// Adds the rules in our syntax. A rule that cannot be used is a warning.
pub(crate) fn apply_restrictions(loaded: &mut LoadedConfig) {
    for (list, text, origin) in std::mem::take(&mut loaded.foreign_rules) {
        let verb = if list == "deny" { RuleAction::Deny } else { RuleAction::Ask };
        match translate_rules(std::slice::from_ref(&text), verb, list) {
            Ok(TranslatedRules { rules, whole_tools, unknown_tools: _ }) => {
                // A server's tools are in the rules already.
                let is_whole =
                    |tool: &String| verb == RuleAction::Deny && !tool.starts_with("mcp__");
                for rule in rules.into_iter().chain(whole_tools.into_iter().filter(is_whole)) {
                    match app::parse_permission_rules(&rule) {
                        Ok(_) => loaded.rules.push((list.to_owned(), rule, origin.clone())),
                        Err(why) => loaded.warnings.push(format!("{origin}: not used: {why}")),
                    }
                }
            }
            Err(why) => loaded.warnings.push(format!("{origin}: not used: {why}")),
        }
    }
}

/// Options with rules in the syntax of Claude Code.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RuleOptions {
    /// Calls that are allowed, in the syntax of Claude Code
    #[arg(long = "allowed-tools", alias = "allowedTools", value_name = "RULES", hide = true, num_args = 1..)]
    allowed_tools: Vec<String>,
    /// Tools that are left out, and calls that are refused
    #[arg(long = "disallowed-tools", alias = "disallowedTools", value_name = "RULES", hide = true, num_args = 1..)]
    disallowed_tools: Vec<String>,
}

impl RuleOptions {
    fn allowed(&self) -> Result<TranslatedRules, OpenError> {
        translate_rules(&self.allowed_tools, RuleAction::Allow, ALLOWED_TOOLS)
            .map_err(OpenError::Usage)
    }

    fn disallowed(&self) -> Result<TranslatedRules, OpenError> {
        translate_rules(&self.disallowed_tools, RuleAction::Deny, DISALLOWED_TOOLS)
            .map_err(OpenError::Usage)
    }

    /// Rules in our syntax. A session lacks tools that are refused as a whole; a single call of them is
    /// refused.
    pub(crate) fn settings(&self, is_single_call: bool) -> Result<Vec<Setting>, OpenError> {
        let mut denied = self.disallowed()?;
        if is_single_call {
            denied.rules.append(&mut denied.whole_tools);
        }
        let rules = [
            ("permissions.allow", self.allowed()?.rules, ALLOWED_TOOLS),
            ("permissions.deny", denied.rules, DISALLOWED_TOOLS),
        ];
        let given = rules.into_iter().filter(|(_, rules, _)| !rules.is_empty());
        Ok(given
            .map(|(key, rules, option)| (key.to_owned(), rules.into(), option.to_owned()))
            .collect())
    }

    pub(crate) fn unknown_tool_warnings(&self) -> Result<Vec<String>, OpenError> {
        let allowed = unknown_tools_warning(&self.allowed()?.unknown_tools, ALLOWED_TOOLS);
        let denied = unknown_tools_warning(&self.disallowed()?.unknown_tools, DISALLOWED_TOOLS);
        Ok(allowed.into_iter().chain(denied).collect())
    }

    pub(crate) fn denied_tools(&self) -> Result<Vec<String>, OpenError> {
        self.disallowed().map(|denied| denied.whole_tools)
    }
}

/// Also returns names that do not exist here. `None`: all tools.
pub(super) fn parse_tool_list(texts: &[String]) -> (Option<Vec<String>>, Vec<String>) {
    if texts.is_empty() {
        return (None, Vec::new());
    }
    let names: Vec<&str> = texts.iter().flat_map(|text| split_list(text)).collect();
    if names.contains(&"default") {
        return (None, Vec::new());
    }
    let own = names.into_iter().map(|name| native_tool_name(name).to_owned());
    // The option does not concern servers.
    let own = own.filter(|name| !name.starts_with("mcp__"));
    let (known, unknown) = own.partition(|name| app::tool_names().any(|tool| tool == name));
    (Some(known), unknown)
}
