//! Hooks: commands and callbacks that run at fixed points of a session.

pub mod claude_names;
pub mod json;

use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Object;
use super::control::PermissionMode;
use super::event::EventStream;
use super::variant_names::variant_names;

/// Runs hooks. A session without hooks has no implementation.
pub trait Hooks: Send + Sync {
    /// Whether a hook exists for this event; otherwise no request is prepared.
    fn has_hook(&self, event: HookEvent) -> bool;

    /// Runs all matching hooks at once and merges their answers. A hook that fails has no effect.
    fn run_matching<'a>(&'a self, request: HookRequest<'a>) -> BoxFuture<'a, HookOutcome>;
}

/// The points of a session at which hooks are asked, with the names that Claude Code gives them.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
pub enum HookEvent {
    /// Before the first message of a session, and after a compaction.
    SessionStart,
    /// At the end of a session.
    SessionEnd,
    /// Before a message of the user is worked on.
    UserPromptSubmit,
    /// Before a call of a tool.
    PreToolUse,
    /// After a call that succeeded.
    PostToolUse,
    /// After a call that failed.
    PostToolUseFailure,
    /// Before the final answer ends a turn.
    Stop,
    /// After a turn that failed.
    StopFailure,
    /// Before the final answer of a sub-agent ends its work.
    SubagentStop,
    /// Before a compaction.
    PreCompact,
    /// While a question waits for the user.
    Notification,
}

impl HookEvent {
    /// Every event.
    pub fn all() -> &'static [Self] {
        <Self as clap::ValueEnum>::value_variants()
    }

    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// The event with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|event| event.as_str() == name)
    }
}

/// A request to hooks: the event, and facts about the session.
#[derive(Clone, Copy)]
pub struct HookRequest<'a> {
    pub payload: HookPayload<'a>,
    pub mode: PermissionMode,
    pub root: &'a Path,
    /// Events of the agent that works; runs of hooks are recorded there.
    pub events: &'a EventStream,
    /// In addition to the limits of the hooks.
    pub limit: Option<Duration>,
}

/// The data of an event.
#[derive(Clone, Copy, Debug)]
pub enum HookPayload<'a> {
    SessionStart {
        /// `startup`, `resume` or `compact`.
        source: &'a str,
        /// `provider/model`.
        model: &'a str,
    },
    SessionEnd {
        /// `prompt_input_exit` (the user ended the chat) or `other`.
        reason: &'a str,
    },
    UserPromptSubmit {
        prompt: &'a str,
    },
    /// The call is valid, and not made yet.
    PreToolUse(HookCall<'a>),
    PostToolUse {
        call: HookCall<'a>,
        response: &'a Value,
    },
    PostToolUseFailure {
        call: HookCall<'a>,
        error: &'a str,
        is_interrupt: bool,
    },
    Stop {
        /// A hook rejected an earlier answer of this turn.
        is_active: bool,
        answer: &'a str,
    },
    StopFailure {
        /// Name of the ending.
        error: &'a str,
        details: &'a str,
    },
    SubagentStop {
        is_active: bool,
        answer: &'a str,
        role: &'a str,
    },
    PreCompact {
        is_manual: bool,
        focus: &'a str,
    },
    Notification {
        message: &'a str,
    },
}

/// A call, with the agent's own names.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    pub id: &'a str,
    pub tool: &'a str,
    /// Another name of the tool for matchers.
    pub alias: &'a str,
    pub input: &'a Object,
}

impl HookPayload<'_> {
    /// The event of this payload.
    pub fn event(&self) -> HookEvent {
        match self {
            Self::SessionStart { .. } => HookEvent::SessionStart,
            Self::SessionEnd { .. } => HookEvent::SessionEnd,
            Self::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            Self::PreToolUse(_) => HookEvent::PreToolUse,
            Self::PostToolUse { .. } => HookEvent::PostToolUse,
            Self::PostToolUseFailure { .. } => HookEvent::PostToolUseFailure,
            Self::Stop { .. } => HookEvent::Stop,
            Self::StopFailure { .. } => HookEvent::StopFailure,
            Self::SubagentStop { .. } => HookEvent::SubagentStop,
            Self::PreCompact { .. } => HookEvent::PreCompact,
            Self::Notification { .. } => HookEvent::Notification,
        }
    }

    /// The call, for events of calls.
    pub fn call(&self) -> Option<HookCall<'_>> {
        match self {
            Self::PreToolUse(call)
            | Self::PostToolUse { call, .. }
            | Self::PostToolUseFailure { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The names of which a matcher has to fit one; `None` if every hook of the event runs.
    pub fn matcher_names(&self) -> Option<[&str; 3]> {
        let name = match self {
            Self::PreToolUse(call)
            | Self::PostToolUse { call, .. }
            | Self::PostToolUseFailure { call, .. } => {
                return Some([call.tool, claude_names::claude_tool_name(call.tool), call.alias]);
            }
            Self::SessionStart { source: name, .. }
            | Self::SessionEnd { reason: name }
            | Self::StopFailure { error: name, .. }
            | Self::SubagentStop { role: name, .. } => name,
            Self::PreCompact { is_manual, .. } => json::compaction_trigger(*is_manual),
            Self::Notification { .. } => json::PERMISSION_PROMPT,
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => return None,
        };
        Some([name; 3])
    }
}

/// A hook's ruling on a permission, from the weakest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookRuling {
    /// The user need not be asked.
    Allow,
    Ask,
    Deny,
}

/// The merged answers of hooks. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutcome {
    /// Before a call: the strictest ruling, with its reason.
    pub ruling: Option<(HookRuling, String)>,
    /// Before a call: replaces its arguments.
    pub updated_input: Option<Object>,
    /// Why a message or an ending is blocked, or why a result is wrong.
    pub block: Option<String>,
    /// Texts for the model.
    pub context: Vec<String>,
    pub stop: Option<String>,
}

impl HookOutcome {
    /// Adds the answer of another hook: the strictest ruling counts, and the reasons of all that block.
    pub fn merge(&mut self, other: Self) {
        let Self { ruling, updated_input, block, context, stop } = other;
        if let Some((theirs, _)) = &ruling
            && self.ruling.as_ref().is_none_or(|(own, _)| own < theirs)
        {
            self.ruling = ruling;
        }
        self.updated_input = updated_input.or(self.updated_input.take());
        self.block = match (self.block.take(), block) {
            (Some(own), Some(theirs)) => Some(format!("{own}\n{theirs}")),
            (own, theirs) => own.or(theirs),
        };
        self.context.extend(context);
        self.stop = self.stop.take().or(stop);
    }

    /// All texts for the model, joined; `None` if there are none.
    pub fn model_text(&self) -> Option<String> {
        let texts: Vec<&str> = self.block.iter().chain(&self.context).map(String::as_str).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

/// A hook was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookFinished {
    /// Its event.
    pub event: HookEvent,
    /// Its command.
    pub hook: String,
    /// The call that it was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How it ended.
    pub outcome: HookStatus,
    /// The exit status; `None` if it did not exit by itself, or is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its reason, what it tells the model, or why it failed; the beginning of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it tells the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took.
    pub time_ms: u64,
}

/// How a hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// It wants nothing to change.
    Passed,
    /// It allows the call.
    Allowed,
    /// It wants the user to be asked.
    Asked,
    /// It denies the call.
    Denied,
    /// It blocks the message, the end of the turn, or finds a result wrong.
    Blocked,
    /// It ends the turn.
    Stopped,
    /// It failed, and has no effect.
    Failed,
}

impl HookStatus {
    /// The status of a hook with this outcome.
    pub fn from_outcome(outcome: &HookOutcome) -> Self {
        match (&outcome.stop, &outcome.ruling, &outcome.block) {
            (Some(_), _, _) => Self::Stopped,
            (None, Some((HookRuling::Deny, _)), _) => Self::Denied,
            (None, _, Some(_)) => Self::Blocked,
            (None, Some((HookRuling::Ask, _)), None) => Self::Asked,
            (None, Some((HookRuling::Allow, _)), None) => Self::Allowed,
            (None, None, None) => Self::Passed,
        }
    }

    /// The name in events.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }
}
