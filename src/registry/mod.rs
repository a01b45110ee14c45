//! The one gate through which every tool call passes: find → validate → repetition → breaker → permit →
//! lock → run → limits → envelope → events.
//!
//! It knows nothing of the kernel that calls it and nothing of what a tool does inside.

mod approval;
mod breaker;
mod call;
mod checkpoint;
mod freeze;
mod limits;
mod repetition;
mod validate;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use breaker::Breaker;
pub use breaker::BreakerConfig;
pub use call::Answer;
use freeze::Freeze;
pub use limits::OutputLimits;
use repetition::Repetition;
use validate::Validator;

use crate::permission::{Heard, Policy, Withheld, heard};
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::event::{Body, Event, Events, FreezeCause};
use crate::protocol::prompt::Prompts;
use crate::protocol::tool::ToolSpec;
use crate::tools::{Tool, ToolCx};
use crate::workspace::{Begun, Undo, UndoError};

/// Every tool, and the gate in front of them.
pub struct Registry {
    entries: Vec<Entry>,
    specs: Vec<ToolSpec>,
    limits: OutputLimits,
    cx: ToolCx,
    events: Events,
    control: Control,
    hides_secrets: bool,
    /// One question at a time.
    asking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct Entry {
    tool: Box<dyn Tool>,
    validator: Validator,
}

struct State {
    policy: Policy,
    breaker: Breaker,
    repetition: Repetition,
    freeze: Freeze,
    /// Something ran in this turn that could change the project.
    could_change: bool,
    /// Background commands whose changes are not recorded yet.
    background: Vec<(String, Begun)>,
}

/// How the gate is set.
pub struct Settings {
    /// Who may do what.
    pub policy: Policy,
    /// How much of an answer is shown.
    pub limits: OutputLimits,
    /// When a tool that is ill rests, and how long.
    pub breaker: BreakerConfig,
    /// Files that hold secrets are hidden from commands.
    pub hides_secrets: bool,
}

impl Registry {
    /// A gate in front of these tools, in this order.
    pub fn new(
        tools: Vec<Box<dyn Tool>>,
        cx: ToolCx,
        events: Events,
        control: Control,
        settings: Settings,
    ) -> Self {
        let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec().clone()).collect();
        let entries =
            tools.into_iter().map(|tool| Entry { tool, validator: Validator::default() }).collect();
        let state = State {
            policy: settings.policy,
            breaker: Breaker::new(settings.breaker),
            repetition: Repetition::default(),
            freeze: Freeze::default(),
            could_change: false,
            background: Vec::new(),
        };
        Self {
            entries,
            specs,
            limits: settings.limits,
            cx,
            events,
            control,
            hides_secrets: settings.hides_secrets,
            asking: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// The tools as the model is told of them: the same list, in the same order, all session long.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// The tools are described in these words, before anybody is told of them.
    pub fn describe(&mut self, prompts: &Prompts) {
        for (name, text) in prompts.own() {
            // `tools/multi_edit.md` describes `MultiEdit`.
            let tool = name.strip_prefix("tools/").map(|name| name.replace('_', ""));
            let is_named = |spec: &&mut ToolSpec| {
                tool.as_deref() == Some(format!("{}.md", spec.name.to_lowercase()).as_str())
            };
            if let Some(spec) = self.specs.iter_mut().find(is_named) {
                spec.description = text.trim_end().to_owned().into();
            }
        }
    }

    /// What the tools can reach.
    pub fn cx(&self) -> &ToolCx {
        &self.cx
    }

    /// The project's root.
    pub fn root(&self) -> &Path {
        self.cx.workspace.root()
    }

    /// The user said something: it may forbid all changes, or allow them again.
    pub fn hear(&self, message: &str) {
        let heard = self.state().freeze.hear(message);
        if let Some(body) = heard {
            self.apply(&self.events.emit(body));
        }
    }

    /// The turn was interrupted: nothing is changed before the next message.
    pub fn interrupted(&self) {
        let words = "an interrupt".to_owned();
        if self.frozen().is_none() {
            self.apply(&self.events.emit(Body::Frozen { by: FreezeCause::Interrupt, words }));
        }
    }

    /// Takes one more event of a recorded session.
    pub fn apply(&self, event: &Event) {
        self.state().freeze.apply(&event.body);
        self.state().policy.apply(&event.body, &*self.cx.workspace);
        if matches!(event.body, Body::Frozen { .. } | Body::Thawed { .. }) {
            // What was started before could still change something.
            self.cx.exec.set_paused(self.frozen().is_some());
        }
    }

    /// Which files are not to be shown now.
    pub fn withheld(&self) -> Withheld {
        self.state().policy.withheld()
    }

    /// The sentence forbids all changes: it is held as a freeze, and as nothing else.
    pub fn is_freeze(&self, sentence: &str) -> bool {
        matches!(heard(sentence, false), Some(Heard::Freeze(_)))
    }

    /// In whose words nothing may be changed now.
    pub fn frozen(&self) -> Option<String> {
        self.state().freeze.words().map(str::to_owned)
    }

    /// Commands write nothing now: the user wants it so, or the mode.
    pub fn changes_nothing(&self) -> bool {
        self.mode() == PermissionMode::ReadOnly || self.frozen().is_some()
    }

    /// Something ran in this turn that could change the project.
    pub fn could_change(&self) -> bool {
        self.state().could_change
    }

    /// How freely the agent may act now; what the person wished meanwhile is taken first.
    pub fn mode(&self) -> PermissionMode {
        if let Some(mode) = self.control.take_mode()
            && mode != self.state().policy.mode()
        {
            self.state().policy.set_mode(mode);
            self.events.emit(Body::ModeChanged { mode });
        }
        self.state().policy.mode()
    }

    /// From now on changes belong to this turn of the user.
    pub fn begin_turn(&self, turn: u32) {
        self.state().could_change = false;
        if let Some(checkpoints) = self.cx.workspace.checkpoints() {
            checkpoints.begin_turn(turn);
        }
    }

    /// Undoes what this turn changed: each path, and what became of it.
    pub fn undo(&self, turn: u32) -> BTreeMap<String, String> {
        match self.cx.workspace.undo(Undo::Turn(turn), false, false) {
            Ok(report) => {
                report.files.into_iter().map(|(path, how)| (path, how.to_string())).collect()
            }
            Err(UndoError::Nothing) => BTreeMap::new(),
            Err(error) => BTreeMap::from([(".".to_owned(), error.to_string())]),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
