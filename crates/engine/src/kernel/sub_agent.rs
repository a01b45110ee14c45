//! Kernels of sub-agents: what they share with the kernel of the session.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::turn::Turn;
use super::{ConfiguredModel, Kernel, ModelCost, SpendLimit, completion};
use agent_protocol::control::Ending;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Event, EventBody, MAIN_AGENT, UserMessage};
use agent_protocol::format_thousands;
use agent_protocol::message::{Image, ToolCall};
use agent_protocol::model::Reply;
use parking_lot::Mutex;

/// The facts about a sub-agent that its kernel needs.
pub struct SubAgent {
    pub role: String,
    pub description: String,
    /// Number of the turn of the session.
    pub turn: u32,
    /// Limit for all requests and answers together.
    pub max_tokens: u64,
    /// The turn, which pays for the sub-agent.
    pub payer: SpendLimit,
}

/// The models of a session while its calls run. Clones share them.
#[derive(Clone, Default)]
pub struct SessionModels(pub(super) Arc<Mutex<Option<(ConfiguredModel, ConfiguredModel)>>>);

impl SessionModels {
    /// The main model and the light model; `None` before the first call.
    pub fn current(&self) -> Option<(ConfiguredModel, ConfiguredModel)> {
        self.0.lock().clone()
    }
}

/// The ids of all calls of a session. Clones share them.
#[derive(Clone, Debug)]
pub struct CallIds(Arc<Mutex<HashSet<String>>>);

impl Default for CallIds {
    fn default() -> Self {
        // The events of a sub-agent have the id of its call: it must not be the name of the main agent.
        Self(Arc::new(Mutex::new(HashSet::from([MAIN_AGENT.to_owned()]))))
    }
}

impl CallIds {
    pub(super) fn register(&self, calls: &[ToolCall]) {
        self.0.lock().extend(calls.iter().map(|call| call.id.clone()));
    }

    /// Ids are unique in the session: servers omit ids, or reuse them in every answer.
    pub(super) fn assign_ids(&self, prefix: &str, reply: &mut Reply) {
        let mut ids = self.0.lock();
        for (n, call) in reply.calls.iter_mut().enumerate() {
            if call.id.is_empty() || ids.contains(&call.id) {
                call.id = format!("{prefix}_{}", n + 1);
            }
            ids.insert(call.id.clone());
        }
    }
}

impl Kernel {
    /// The number of calls by tool, since the session began in this process.
    pub fn calls_made(&self) -> &BTreeMap<String, u32> {
        &self.calls_made
    }

    /// Reserves the ids of a recorded session's calls, of whichever agent.
    pub fn register_calls(&self, event: &Event) {
        if let EventBody::ModelResponded(answer) = &event.body {
            self.parts.call_ids.register(&answer.calls);
        }
    }

    pub(super) fn describe_ending(&self, ending: Ending) -> String {
        let limits = &self.parts.limits;
        match (&self.parts.sub_agent, ending) {
            (Some(_), Ending::MaxTurns) => {
                format!(
                    "the limit of {} model calls was reached (agents.max_turns)",
                    limits.max_turns
                )
            }
            (Some(_), Ending::MaxBudget) => "the budget of the user's task is used up".to_owned(),
            (Some(_), Ending::Timeout) => {
                "the time limit was reached (agents.timeout, or that of the user's task)".to_owned()
            }
            (Some(_), Ending::Interrupted) => "the user interrupted the turn".to_owned(),
            (_, ending) => completion::describe_ending(ending, limits),
        }
    }

    pub(super) fn started_event(
        &self,
        message: &UserInput,
        shown: Option<String>,
        images: Vec<Image>,
    ) -> EventBody {
        match &self.parts.sub_agent {
            Some(SubAgent { role, description, .. }) => EventBody::AgentStarted {
                role: role.clone(),
                description: description.clone(),
                prompt: message.text.clone(),
                model: self.model().to_owned(),
            },
            None => EventBody::TurnStarted(UserMessage::new(message, shown, images)),
        }
    }
}

impl SubAgent {
    pub(super) fn charge_payer(&self, turn: &mut Turn) {
        self.payer.charge(turn.spent.since(turn.charged));
        turn.charged = turn.spent;
    }

    pub(super) fn has_used_up_budget(&self, spent: &ModelCost) -> bool {
        self.payer.is_used_up() || spent.usage.total() >= self.max_tokens
    }

    /// `None` also if the budget of the turn is used up, which takes precedence.
    pub(super) fn token_limit_error(&self, spent: &ModelCost) -> Option<String> {
        let is_reached = !self.payer.is_used_up() && spent.usage.total() >= self.max_tokens;
        let limit = format_thousands(self.max_tokens);
        is_reached.then(|| format!("the limit of {limit} tokens was reached (agents.max_tokens)"))
    }
}
