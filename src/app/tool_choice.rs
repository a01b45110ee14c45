//! Which tools a session has, as far as the user limits them.

use agent_engine::mcp::ToolScope;
use agent_engine::tools::Tool;

/// The tools that the user chose for a session and its sub-agents.
#[derive(Clone, Debug, Default)]
pub struct ToolChoice {
    /// Our own tools that it has; `None`: all.
    pub only: Option<Vec<String>>,
    /// Our own tools that it lacks, `mcp__server` or `mcp__server__tool`.
    pub without: Vec<String>,
}

impl ToolChoice {
    pub(super) fn apply(&self, tools: &mut Vec<Box<dyn Tool>>) {
        tools.retain(|tool| {
            let is_named =
                |names: &Vec<String>| names.iter().any(|name| *name == *tool.spec().name);
            self.only.as_ref().is_none_or(is_named) && !is_named(&self.without)
        });
    }

    pub(super) fn restrict_scope(&self, mut scope: ToolScope) -> ToolScope {
        let of_servers = self.without.iter().filter(|name| name.starts_with("mcp__"));
        scope.excluded.extend(of_servers.cloned());
        scope
    }
}
