//! Methodologies: named procedures that a planner selects, with their prompts.

use super::prompt::Prompt;

/// A named procedure, with its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methodology {
    /// In events and in the planner's answer.
    pub name: &'static str,
    pub prompt: Prompt,
}

/// In the order in which the planner is told of them.
pub const ALL: [Methodology; 4] = [
    Methodology {
        name: "reproduce_first",
        prompt: Prompt::named("methodologies/reproduce_first.md"),
    },
    Methodology {
        name: "search_then_edit",
        prompt: Prompt::named("methodologies/search_then_edit.md"),
    },
    Methodology {
        name: "smallest_change",
        prompt: Prompt::named("methodologies/smallest_change.md"),
    },
    Methodology { name: "test_first", prompt: Prompt::named("methodologies/test_first.md") },
];

/// The methodology with this name.
pub fn find_by_name(name: &str) -> Option<Methodology> {
    ALL.into_iter().find(|methodology| methodology.name == name)
}
