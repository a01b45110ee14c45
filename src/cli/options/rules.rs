//! Permission modes, rules and lists of tools, as Claude Code has them.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use toml::Value;

use super::compatible::{split_list, unknown_tools_warning};
use super::{CompatibleOptions, OpenError, SessionOverrides, Setting, ToolOptions};
use crate::app;
use crate::config::{ALLOWED_TOOLS, DISALLOWED_TOOLS, LoadedConfig};
use agent_permission::{ClaudeRule, RuleAction};
use agent_protocol::control::PermissionMode;
use agent_protocol::hook::claude_names::native_tool_name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct PermissionModeArg {
    pub(in crate::cli) mode: PermissionMode,
    pub(in crate::cli) asks: bool,
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
    /// In our syntax.
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
) -> Result<TranslatedRules, OpenError> {
    let mut given = TranslatedRules::default();
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let wrong = |why: String| OpenError::Usage(format!("{option}: {why}"));
        for rule in ClaudeRule::parse_all(text).map_err(wrong)? {
            let is_of_server = rule.tool.starts_with("mcp__");
            if !is_of_server && !app::tool_names().any(|tool| tool == rule.tool) {
                given.unknown_tools.push(rule.tool);
                continue;
            }
            if verb != RuleAction::Deny || !rule.is_bare() || is_of_server {
                given.rules.extend(rule.to_native_rules(verb).map_err(wrong)?);
            }
            if rule.is_bare() {
                given.whole_tools.push(rule.tool);
            }
        }
    }
    Ok(given)
}

/// In our syntax. A rule that cannot be used is a warning.
pub(super) fn apply_restrictions(loaded: &mut LoadedConfig) {
    for (list, text, origin) in std::mem::take(&mut loaded.foreign_rules) {
        let verb = if list == "deny" { RuleAction::Deny } else { RuleAction::Ask };
        match translate_rules(std::slice::from_ref(&text), verb, list) {
            Ok(TranslatedRules { rules, whole_tools: bare, unknown_tools: _ }) => {
                // A server's tools are in the rules already.
                let is_whole =
                    |tool: &String| verb == RuleAction::Deny && !tool.starts_with("mcp__");
                for rule in rules.into_iter().chain(bare.into_iter().filter(is_whole)) {
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

impl ToolOptions {
    /// The user gets no questions, even at a terminal.
    pub(in crate::cli) fn is_unattended(&self) -> bool {
        self.permission_mode.is_some_and(|given| !given.asks)
    }

    /// In the syntax of Claude Code, with the key of the configuration and the option.
    fn foreign_rules(&self) -> [(&[String], RuleAction, &'static str, &'static str); 2] {
        [
            (&self.allowed_tools, RuleAction::Allow, "permissions.allow", ALLOWED_TOOLS),
            (&self.disallowed_tools, RuleAction::Deny, "permissions.deny", DISALLOWED_TOOLS),
        ]
    }

    /// In our syntax. A session lacks tools that are refused as a whole; a single call of them is
    /// refused.
    pub(super) fn rule_settings(&self, is_single_call: bool) -> Result<Vec<Setting>, OpenError> {
        let mut all = Vec::new();
        for (texts, verb, key, option) in self.foreign_rules() {
            let TranslatedRules { mut rules, whole_tools: bare, .. } =
                translate_rules(texts, verb, option)?;
            if is_single_call && verb == RuleAction::Deny {
                rules.extend(bare);
            }
            if !rules.is_empty() {
                let rules: Vec<Value> = rules.into_iter().map(Value::String).collect();
                all.push((key.to_owned(), rules.into(), option.to_owned()));
            }
        }
        Ok(all)
    }

    pub(in crate::cli) fn check_rules(&self) -> Result<(), OpenError> {
        self.unknown_tool_warnings().map(drop)
    }

    pub(super) fn unknown_tool_warnings(&self) -> Result<Vec<String>, OpenError> {
        let mut warnings = Vec::new();
        for (texts, verb, _, option) in self.foreign_rules() {
            let unknown = translate_rules(texts, verb, option)?.unknown_tools;
            warnings.extend(unknown_tools_warning(&unknown, option));
        }
        Ok(warnings)
    }

    pub(in crate::cli) fn session_overrides(
        &self,
        compatible: &CompatibleOptions,
    ) -> Result<SessionOverrides, OpenError> {
        let [_, (texts, verb, _, option)] = self.foreign_rules();
        let denied = translate_rules(texts, verb, option)?.whole_tools;
        let mut of_session = compatible.session_overrides(denied)?;
        of_session.add_dirs.splice(0..0, self.add_dir.iter().cloned());
        Ok(of_session)
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
