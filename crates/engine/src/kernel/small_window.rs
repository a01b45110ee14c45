//! Windows of which the instructions and all tools leave too little for the work.

use super::Kernel;
use agent_protocol::event::EventBody;
use agent_protocol::format_thousands;
use agent_protocol::model::ModelError;
use agent_protocol::prompt::Prompt;
use agent_protocol::tool::ToolSpec;

/// The tools that are left, with their shorter descriptions.
const TOOLS: [(&str, Prompt); 4] = [
    ("Read", Prompt::named("small_window/read.md")),
    ("Grep", Prompt::named("small_window/grep.md")),
    ("Edit", Prompt::named("small_window/edit.md")),
    ("Bash", Prompt::named("small_window/bash.md")),
];

impl Kernel {
    /// The tools as described to the model.
    pub(super) fn offered_tools(&self) -> &[ToolSpec] {
        self.reduced_tools.as_deref().unwrap_or_else(|| self.parts.registry.specs())
    }

    /// Offers all tools again, for a model with another window.
    pub(super) fn offer_all_tools(&mut self) {
        if self.reduced_tools.take().is_some() {
            self.describe_tools();
        }
    }

    /// Offers fewer tools, with shorter descriptions, if instructions and tools leave less than half of the window.
    /// They stay until the model changes. False: nothing changed.
    pub(super) fn reduce_tools(&mut self) -> bool {
        let (needed, window) =
            (self.budget.tokens(self.parts.layers.bytes()), self.budget.window());
        if needed <= window / 2 || self.reduced_tools.is_some() {
            return false;
        }
        let specs = self.parts.registry.specs();
        let tools = specs.iter().filter_map(|spec| {
            let (_, description) = TOOLS.iter().find(|(name, _)| *name == spec.name)?;
            Some(spec.shortened(self.parts.prompts.text(*description).trim_end()))
        });
        let tools: Vec<ToolSpec> = tools.collect();
        if tools.is_empty() || tools == specs {
            return false;
        }
        let names = tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(", ");
        self.reduced_tools = Some(tools);
        self.describe_tools();
        if self.parts.sub_agent.is_none() {
            self.parts.events.emit(EventBody::error(
                "context",
                format!(
                    "instructions and tools take about {} of the {} tokens of the window: the model gets only {names}, \
                     with short descriptions",
                    format_thousands(needed),
                    format_thousands(window)
                ),
            ));
        }
        true
    }

    fn describe_tools(&mut self) {
        let tools = self.offered_tools().to_vec();
        self.parts.layers.set_tools(&tools);
        self.sent_requests.is_compacted = true;
        self.budget.reset_count();
    }

    /// Adds to an error about a request that cannot be shortened any more what takes the room, and what helps.
    pub(super) fn explain_overflow(&self, error: &mut ModelError) {
        let fixed = self.parts.layers.bytes();
        let window = error.window.unwrap_or(self.budget.window());
        let [fixed, rest] =
            [fixed, self.history.bytes()].map(|bytes| format_thousands(self.budget.tokens(bytes)));
        let server = self.parts.main.larger_window.as_ref().map_or_else(String::new, |how| {
            format!("start the server with a larger context ({how}) and this program again, ")
        });
        error.message.push_str(&format!(
            "; of {} tokens, instructions and tools take about {fixed}, the messages {rest}: {server}begin a new \
             conversation (/clear) or choose another model (/model, --model)",
            format_thousands(window)
        ));
    }
}
