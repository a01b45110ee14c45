//! The registry, which processes every tool call: find → validate → repetition → breaker → permit → lock →
//! run → limits → envelope → events.
//!
//! It does not know the kernel that calls it, nor the internals of tools.

mod approval;
mod arguments;
mod breaker;
mod call;
mod checkpoint;
mod limits;
mod redirect;
mod repetition;
mod validate;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use breaker::Breaker;
pub use breaker::BreakerConfig;
pub use call::Answer;
pub use limits::OutputLimits;

pub use crate::workspace::Changed;
use repetition::Repetition;
use validate::Validator;

use crate::permission::{Policy, Rule, Withheld};
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::event::{Body, Event, Events, SessionRule};
use crate::protocol::prompt::Prompts;
use crate::protocol::tool::ToolSpec;
use crate::tools::{Tool, ToolCx};
use crate::workspace::{Begun, Undo, UndoError, UndoOptions};

/// All tools, and the state that their calls are checked against.
pub struct Registry {
    entries: Vec<Entry>,
    specs: Vec<ToolSpec>,
    limits: OutputLimits,
    cx: ToolCx,
    events: Events,
    control: Control,
    hides_secrets: bool,
    /// Only one question is asked at a time.
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
    /// The highest number of a session rule so far.
    last_rule: u32,
    /// A restriction of the mode by a sentence of the user.
    restriction: Option<Restriction>,
    /// The most permissive mode that the user selected in this process.
    freest_mode: PermissionMode,
    /// The model accepts images.
    takes_images: bool,
    /// A call of this turn could have changed the project.
    could_change: bool,
    /// Background commands whose changes are not recorded yet.
    background: Vec<(String, Begun)>,
    /// The user was notified that some changes cannot be undone.
    is_gap_reported: bool,
}

/// The mode that a sentence of the user switched to, and the one that it replaced.
#[derive(Clone, Copy)]
struct Restriction {
    mode: PermissionMode,
    replaced: PermissionMode,
}

/// Settings of a registry.
pub struct Settings {
    /// The permission policy.
    pub policy: Policy,
    /// Output limits.
    pub limits: OutputLimits,
    /// When a failing tool is disabled, and how long.
    pub breaker: BreakerConfig,
    /// Files that contain secrets are hidden from commands.
    pub hides_secrets: bool,
}

impl Registry {
    /// A registry of these tools, in this order.
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
        let freest_mode = settings.policy.initial_mode();
        let state = State {
            policy: settings.policy,
            breaker: Breaker::new(settings.breaker),
            repetition: Repetition::default(),
            last_rule: 0,
            restriction: None,
            freest_mode,
            takes_images: true,
            could_change: false,
            background: Vec::new(),
            is_gap_reported: false,
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

    /// The tools as described to the model: the same list, in the same order, for the whole session.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Replaces the descriptions of tools, before the first request.
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

    /// Whether the model that receives the results of the next calls accepts images.
    pub fn set_takes_images(&self, takes_images: bool) {
        self.state().takes_images = takes_images;
    }

    /// What the tools can reach.
    pub fn cx(&self) -> &ToolCx {
        &self.cx
    }

    /// The project's root.
    pub fn root(&self) -> &Path {
        self.cx.workspace.root()
    }

    /// Applies an event of a session.
    pub fn apply(&self, event: &Event) {
        let mut state = self.state();
        state.policy.apply(&event.body, &*self.cx.workspace);
        match &event.body {
            Body::RuleAdded { rule } => state.last_rule = state.last_rule.max(rule.id),
            Body::ModeChanged { from, words: Some(_), mode } if mode < from => {
                let before = state.restriction.map_or(*from, |before| before.replaced);
                let replaced = before.max(*from);
                state.restriction = Some(Restriction { mode: *mode, replaced });
            }
            Body::ModeChanged { .. } => state.restriction = None,
            _ => {}
        }
    }

    /// Switches to a mode because of a sentence of the user, if the mode permits less than the current one.
    pub fn restrict(&self, mode: PermissionMode, words: &str) -> Option<Event> {
        let current = self.mode();
        (mode < current).then(|| self.change_mode(mode, Some(words.to_owned())))
    }

    /// Returns to the mode before [`Registry::restrict`], because of a sentence of the user, but not to a
    /// more permissive one than the user selected in this process, whatever a resumed session had.
    pub fn restore_mode(&self, words: &str) -> Option<Event> {
        let current = self.mode();
        let state = self.state();
        let (restriction, freest) = (state.restriction?, state.freest_mode);
        drop(state);
        let mode = restriction.replaced.min(freest);
        let is_restricted = restriction.mode == current && mode > current;
        is_restricted.then(|| self.change_mode(mode, Some(words.to_owned())))
    }

    /// Adds a permission rule for this session: `deny Edit(src/)`. `words`: the user's sentence, if it was
    /// made from one. A known or invalid rule is not added.
    pub fn add_rule(&self, rule: String, words: &str) {
        self.add(SessionRule { id: 0, rule, words: words.to_owned(), is_written: false });
    }

    /// Adds a permission rule that the user wrote; false if it is known or invalid.
    pub fn add_written_rule(&self, rule: String) -> bool {
        self.add(SessionRule { id: 0, rule, words: String::new(), is_written: true })
    }

    /// Adds a rule under the next number.
    fn add(&self, rule: SessionRule) -> bool {
        let is_same =
            |known: &SessionRule| known.rule == rule.rule && known.is_written == rule.is_written;
        let is_new =
            !self.session_rules().iter().any(is_same) && Policy::is_session_rule(&rule.rule);
        if is_new {
            let id = self.state().last_rule + 1;
            self.apply(&self.events.emit(Body::RuleAdded { rule: SessionRule { id, ..rule } }));
        }
        is_new
    }

    /// Adds a rule that denies changes of this path and everything in it, because of a sentence of the user.
    pub fn protect(&self, path: &str, is_folder: bool, words: &str) {
        let slash = if is_folder { "/" } else { "" };
        self.add_rule(format!("deny Edit({}{slash})", Rule::pattern_of(path)), words);
    }

    /// Removes a session rule; false if there is none of this number.
    pub fn remove_rule(&self, id: u32) -> bool {
        let rule = self.session_rules().into_iter().find(|rule| rule.id == id);
        rule.map(|rule| self.apply(&self.events.emit(Body::RuleRemoved { rule }))).is_some()
    }

    /// The permission rules that the user has added in this session.
    pub fn session_rules(&self) -> Vec<SessionRule> {
        self.state().policy.session_rules().to_vec()
    }

    /// Which files must not be shown.
    pub fn withheld(&self) -> Withheld {
        self.state().policy.withheld()
    }

    /// The current mode permits no changes.
    pub fn changes_nothing(&self) -> bool {
        self.mode().is_read_only()
    }

    /// A call of this turn could have changed the project.
    pub fn could_change(&self) -> bool {
        self.state().could_change
    }

    /// The current mode, after applying one that the user selected meanwhile.
    pub fn mode(&self) -> PermissionMode {
        if let Some(mode) = self.control.take_mode()
            && mode != self.state().policy.mode()
        {
            let mut state = self.state();
            state.freest_mode = state.freest_mode.max(mode);
            drop(state);
            self.change_mode(mode, None);
        }
        self.state().policy.mode()
    }

    fn change_mode(&self, mode: PermissionMode, words: Option<String>) -> Event {
        let from = self.state().policy.mode();
        self.state().policy.set_mode(mode);
        let event = self.events.emit(Body::ModeChanged { mode, from, words });
        self.apply(&event);
        event
    }

    /// Assigns further changes to this turn.
    pub fn begin_turn(&self, turn: u32) {
        self.state().could_change = false;
        self.forget_repetition();
        if let Some(checkpoints) = self.cx.workspace.checkpoints() {
            checkpoints.begin_turn(turn);
        }
    }

    /// Results may differ now, or are no longer in the conversation: no call counts as repeated. The user may
    /// have changed anything before a message, and a compaction archives results.
    pub fn forget_repetition(&self) {
        self.state().repetition.world_changed();
    }

    /// Undoes the changes of this turn: returns each path with its result, and whether all changes were
    /// undone.
    pub fn undo(&self, turn: u32) -> (BTreeMap<String, String>, bool) {
        match self.cx.workspace.undo(Undo::Turn(turn), UndoOptions::default()) {
            Ok(report) => {
                let is_complete = report.is_complete();
                let files = report.files.into_iter().map(|(path, how)| (path, how.to_string()));
                (files.collect(), is_complete)
            }
            Err(UndoError::Nothing) => (BTreeMap::new(), true),
            Err(error) => (BTreeMap::from([(".".to_owned(), error.to_string())]), false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
