//! What the model is shown: L1 (prompt), L2 (rules), L3 (the conversation), then one trailing message.
//!
//! Pure: texts and events in, a request out. L1 and L2 never change between compactions and L3 only
//! grows at its end, so that each request begins with the whole request before it: what providers cache.

mod history;
mod mentions;
mod pins;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

pub use history::History;
pub use mentions::{Found, Mentions};
pub use pins::{Pins, binds};
pub use rules::{MAX_RULES_BYTES, Rules, RulesMet};

use crate::protocol::control::PermissionMode;
use crate::protocol::event::{Layer, ModelRequested};
use crate::protocol::model::{Purpose, Request};
use crate::protocol::plan::Plan;
use crate::protocol::tool::ToolSpec;

/// L1: who the agent is and what it must not do.
const L1: &str = include_str!("../../prompts/system.md");

/// What stands in the project, as far as the context asks for it.
pub trait Project: Send + Sync {
    /// What a person means by this path, if it exists inside.
    fn find(&self, path: &str) -> Option<Found>;
    /// The rules files of one of its folders, whole; `.` is the root.
    fn rules_in(&self, folder: &str) -> Vec<Rules>;
}

/// L1 and L2: one text, made once.
#[derive(Clone, Debug)]
pub struct Layers {
    system: String,
    l1_bytes: usize,
}

/// Hashes of the texts that the log has already.
pub type Told = BTreeSet<String>;

impl Layers {
    /// L1 with what the program knows of the place, and L2 of these rules. `append` is the user's own
    /// addition to the prompt.
    pub fn new(environment: &str, rules: &[Rules], append: Option<&str>) -> Self {
        let mut system = L1.trim_end().to_owned();
        system.push_str("\n\n");
        system.push_str(environment);
        if let Some(append) = append {
            system.push_str("\n\n");
            system.push_str(append);
        }
        let l1_bytes = system.len();
        for file in rules {
            let (path, text) = (&file.path, file.shown());
            system.push_str(&format!("\n\n# Rules of this project ({path})\n\n{text}"));
        }
        Self { system, l1_bytes }
    }

    /// The request for the next answer.
    pub fn request<'a>(
        &'a self,
        tools: &'a [ToolSpec],
        history: &'a History,
        trailing: &'a str,
    ) -> Request<'a> {
        Request {
            purpose: Purpose::Main,
            system: &self.system,
            tools,
            messages: history.messages(),
            trailing: Some(trailing),
            max_output_tokens: None,
            temperature: None,
        }
    }

    /// What the log keeps of a request. Each text that it refers to by hash is given once.
    pub fn describe(
        &self,
        told: &mut Told,
        model: &str,
        request: &Request<'_>,
        l3_bytes: usize,
    ) -> ModelRequested {
        let (l1, l2) = request.system.split_at(self.l1_bytes.min(request.system.len()));
        let tools: String = request
            .tools
            .iter()
            .map(|tool| format!("{}: {}\n{}\n", tool.name, tool.description, tool.schema))
            .collect();
        let mut layers = BTreeMap::new();
        let mut texts = BTreeMap::new();
        for (name, text) in [("l1", l1), ("l2", l2), ("tools", tools.as_str())] {
            let hash = blake3::hash(text.as_bytes()).to_hex()[..16].to_owned();
            if !text.is_empty() && told.insert(hash.clone()) {
                texts.insert(hash.clone(), text.to_owned());
            }
            let tokens = estimate_tokens(text.len());
            layers.insert(name.to_owned(), Layer { hash, bytes: text.len(), tokens });
        }
        let tokens = estimate_tokens(l3_bytes);
        layers.insert("l3".to_owned(), Layer { hash: String::new(), bytes: l3_bytes, tokens });
        let trailing = request.trailing.map(str::to_owned);
        let bytes = layers.values().map(|layer| layer.bytes).sum::<usize>()
            + trailing.as_ref().map_or(0, String::len);
        ModelRequested {
            purpose: request.purpose,
            model: model.to_owned(),
            messages: request.messages.len(),
            bytes,
            estimated_tokens: estimate_tokens(bytes),
            window: None,
            shared_bytes: 0,
            layers,
            texts,
            trailing,
        }
    }
}

/// A rough estimate of the tokens in so many bytes; the provider's own count replaces it.
pub fn estimate_tokens(bytes: usize) -> u64 {
    // 3.6 bytes a token: measured on code and prose with o200k.
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(10) / 36
}

/// The one message behind the conversation: the mode, what the kernel has to say about the next
/// decision, and the recap of the plan, which is always the last line.
pub fn trailing(mode: PermissionMode, reminders: &[String], plan: &Plan) -> String {
    let mut text = format!("<system-reminder>\nPermission mode: {}.", mode.as_str());
    for reminder in reminders {
        text.push('\n');
        text.push_str(reminder.trim_end());
    }
    if let Some(recap) = plan.recap() {
        text.push('\n');
        text.push_str(&recap);
    }
    text.push_str("\n</system-reminder>");
    text
}
