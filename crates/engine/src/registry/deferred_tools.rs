//! Tools that are known better when the model is asked for the first time than when the session is opened.

use super::validator::Validator;
use super::{RegisteredTool, Registry};
use crate::tools::Tool;
use agent_protocol::tool::ToolSpec;

/// Returns the tools as they are known by then.
type ToolLoader = Box<dyn FnOnce() -> Vec<Box<dyn Tool>> + Send + Sync>;

/// The number of tools that are known from the beginning, and the others, which follow them.
pub(super) type DeferredTools = (usize, ToolLoader);

impl Registry {
    /// The tools after the first `n_kept` are replaced by these before the first request.
    pub fn defer_tools(&mut self, n_kept: usize, tools: ToolLoader) {
        self.deferred_tools = Some((n_kept, tools));
    }

    /// Fixes the list of tools, before the first request; false if it is as before.
    pub fn load_deferred_tools(&mut self) -> bool {
        let Some((n_kept, tools)) = self.deferred_tools.take() else { return false };
        let tools = tools();
        let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec().clone()).collect();
        if self.specs[n_kept..] == specs {
            return false;
        }
        self.specs.truncate(n_kept);
        self.specs.extend(specs);
        self.entries.truncate(n_kept);
        let new =
            tools.into_iter().map(|tool| RegisteredTool { tool, validator: Validator::default() });
        self.entries.extend(new);
        true
    }
}
