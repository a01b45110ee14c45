//! The interface to sub-agents, for the tool that starts them.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::event::TurnFinished;

/// Runs sub-agents.
pub trait SubagentRunner: Send + Sync {
    /// The error lists the roles that exist.
    fn find_role(&self, name: &str) -> Result<RoleFacts, Vec<String>>;

    /// Without the built-in roles; empty if there are no others.
    fn role_descriptions(&self) -> &str;

    /// Runs the task until it is done or cannot be continued. The error says why it was not started.
    fn run_subagent(&self, task: SubagentTask) -> BoxFuture<'_, Result<SubagentResult, String>>;
}

/// Facts about a role, for the permission check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFacts {
    /// Own name of the role; the request may have used another.
    pub name: String,
    pub reads_only: bool,
}

/// A task for a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// Id of the call, and of the sub-agent.
    pub call: String,
    pub description: String,
    pub prompt: String,
    pub role: String,
    /// `None` is the model of the role.
    pub model: Option<ModelChoice>,
}

/// The model of a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelChoice {
    /// The model of the session. The other names are those that Claude Code gives its models.
    #[serde(alias = "inherit", alias = "sonnet", alias = "opus")]
    Main,
    #[serde(alias = "haiku")]
    Light,
}

/// What a sub-agent did.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentResult {
    pub turn: TurnFinished,
    pub calls: BTreeMap<String, u32>,
}
