//! Named ways of working: what a planner may choose from, and what the model is then told.

use super::prompt::{Prompt, prompt};

/// A named way of working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methodology {
    /// Its name, in events and in the planner's answer.
    pub name: &'static str,
    /// How one works so.
    pub prompt: Prompt,
}

/// All there are.
pub const ALL: [Methodology; 4] = [
    Methodology { name: "reproduce_first", prompt: prompt!("methodologies/reproduce_first.md") },
    Methodology { name: "search_then_edit", prompt: prompt!("methodologies/search_then_edit.md") },
    Methodology { name: "smallest_change", prompt: prompt!("methodologies/smallest_change.md") },
    Methodology { name: "test_first", prompt: prompt!("methodologies/test_first.md") },
];

/// The way of working of this name.
pub fn named(name: &str) -> Option<Methodology> {
    ALL.into_iter().find(|methodology| methodology.name == name)
}

/// Under which a way of working is weighed; `none`: tasks for which none was chosen.
pub fn subject(name: &str) -> String {
    format!("methodology {name}")
}
