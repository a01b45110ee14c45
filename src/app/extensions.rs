//! Tools beyond the fixed ones: each exists only if the session has what it needs.

use std::sync::Arc;

use super::agents::Agents;
use crate::tools::{Task, Tool};

/// The tools of the main agent that depend on the session.
pub(super) fn tools(agents: &Arc<Agents>) -> Vec<Box<dyn Tool>> {
    vec![Box::new(Task::new(agents.clone()))]
}
