//! Sub-agents, as far as the tool that starts them knows them.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::event::TurnFinished;

/// Runs sub-agents.
pub trait SubagentRunner: Send + Sync {
    /// The role of this name; an error: there is none, but these.
    fn find_role(&self, name: &str) -> Result<RoleFacts, Vec<String>>;

    /// The descriptions of the roles that are not built in; empty if there are none.
    fn role_descriptions(&self) -> &str;

    /// Works on the order until it is done or cannot be continued. An error: it was not begun, and why.
    fn run_subagent(&self, order: SubagentTask) -> BoxFuture<'_, Result<SubagentResult, String>>;
}

/// What the permission check knows about a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFacts {
    /// Its own name, if it was asked for by another.
    pub name: String,
    /// Its sub-agents can change nothing.
    pub reads_only: bool,
}

/// A task for a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// The call, whose id is also that of the sub-agent.
    pub call: String,
    /// The task in a few words.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// The role.
    pub role: String,
    /// The model; `None`: that of the role.
    pub model: Option<ModelChoice>,
}

/// The model of a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelChoice {
    /// That of the session. (Other names are those that Claude Code gives its models.)
    #[serde(alias = "inherit", alias = "sonnet", alias = "opus")]
    Main,
    /// The configured light model.
    #[serde(alias = "haiku")]
    Light,
}

/// What a sub-agent did.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentResult {
    /// How it ended, with its final answer or report.
    pub turn: TurnFinished,
    /// The number of its calls by tool.
    pub calls: BTreeMap<String, u32>,
}
