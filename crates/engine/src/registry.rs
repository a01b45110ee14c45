//! The registry, which processes every tool call: prepare → hooks (→ prepare again) → redirect → repetition → breaker →
//! expected snapshot → permission → write lock → checkpoint → `ToolStarted` → run (a change of a file between two
//! comparisons of git) → checkpoint → hooks → limits → envelope → `ToolFinished`.
//!
//! It does not know the kernel that calls it, nor the internals of tools.

mod approval;
mod arguments;
mod call;
mod checkpoint;
mod circuit_breaker;
mod hooks;
mod output_limits;
mod prepare;
mod redirect;
mod repetition;

use std::path::Path;
use std::sync::Arc;

use arguments::Validator;
pub use call::{MissingPermission, ToolCallResult};
pub use checkpoint::undo_with_comparison;
use circuit_breaker::CircuitBreaker;
pub use output_limits::OutputLimits;
use parking_lot::{Mutex, MutexGuard};

pub use agent_host::workspace::ChangedFiles;
use repetition::RepetitionTracker;

use crate::tools::{Tool, ToolCx, WorkspaceFacts};
use agent_host::workspace::OpenOperation;
use agent_permission::{HiddenFiles, Policy, Rule};
use agent_protocol::control::{PermissionMode, Ruling, SessionControl};
use agent_protocol::event::{Event, EventBody, EventStream, SessionRule};
use agent_protocol::hook::Hooks;
use agent_protocol::prompt::Prompts;
use agent_protocol::tool::{Effect, ToolSpec};

/// All tools of an agent, and the state that their calls are checked against.
pub struct Registry {
    entries: Vec<RegisteredTool>,
    specs: Vec<ToolSpec>,
    cx: ToolCx,
    events: EventStream,
    control: SessionControl,
    /// Whatever the mode is, it permits no change.
    reads_only: bool,
    shared: Arc<SharedState>,
    state: Mutex<State>,
    /// The number of tools that are known from the beginning, and the others, which follow them.
    deferred_tools: Option<(usize, ToolLoader)>,
}

/// Loads tools that may be known only at the first request, such as those of MCP servers.
type ToolLoader = Box<dyn FnOnce() -> Vec<Box<dyn Tool>> + Send + Sync>;

/// What the registries of all agents of a session share: permissions, and the locks for questions and writes.
pub struct SharedState {
    limits: OutputLimits,
    hides_secrets: bool,
    hooks: Option<Arc<dyn Hooks>>,
    /// Modes and rules are facts of the session, whichever agent's call the user answers.
    events: EventStream,
    control: SessionControl,
    /// Only one question is asked at a time.
    question_lock: tokio::sync::Mutex<()>,
    /// Only one operation writes at a time, so that its checkpoint holds only its own changes.
    write_lock: tokio::sync::RwLock<()>,
    permissions: Mutex<Permissions>,
}

struct Permissions {
    policy: Policy,
    last_rule_id: u32,
    restriction: Option<ModeRestriction>,
    /// The most permissive mode that the user selected in this process.
    most_permissive_mode: PermissionMode,
    /// The user was notified that some changes cannot be undone.
    is_gap_reported: bool,
}

struct RegisteredTool {
    tool: Box<dyn Tool>,
    validator: Validator,
}

impl From<Box<dyn Tool>> for RegisteredTool {
    fn from(tool: Box<dyn Tool>) -> Self {
        Self { tool, validator: Validator::default() }
    }
}

struct State {
    breaker: CircuitBreaker,
    repetition: RepetitionTracker,
    takes_images: bool,
    may_have_changed_project: bool,
    unrecorded_background: Vec<(String, OpenOperation)>,
    /// The background commands that its calls started.
    background_ids: Vec<String>,
}

/// The mode that a sentence of the user switched to, and the one that it replaced.
#[derive(Clone, Copy)]
struct ModeRestriction {
    mode: PermissionMode,
    replaced_mode: PermissionMode,
}

/// Settings of a registry.
pub struct RegistrySettings {
    /// The permission policy.
    pub policy: Policy,
    /// Output limits.
    pub limits: OutputLimits,
    /// Files that contain secrets are hidden from commands.
    pub hides_secrets: bool,
    /// The hooks of the session, if there are any.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl Registry {
    /// A registry of these tools, in this order.
    pub fn new(
        tools: Vec<Box<dyn Tool>>,
        cx: ToolCx,
        events: EventStream,
        control: SessionControl,
        settings: RegistrySettings,
    ) -> Self {
        let permissions = Permissions {
            most_permissive_mode: settings.policy.initial_mode(),
            policy: settings.policy,
            last_rule_id: 0,
            restriction: None,
            is_gap_reported: false,
        };
        let session = SharedState {
            limits: settings.limits,
            hides_secrets: settings.hides_secrets,
            hooks: settings.hooks,
            events: events.clone(),
            control: control.clone(),
            question_lock: tokio::sync::Mutex::default(),
            write_lock: tokio::sync::RwLock::default(),
            permissions: Mutex::new(permissions),
        };
        Self::for_agent(Arc::new(session), tools, cx, events, control, false)
    }

    /// The registry of another agent of the session. `reads_only`: it permits no change, whatever the mode is.
    pub fn for_agent(
        session: Arc<SharedState>,
        tools: Vec<Box<dyn Tool>>,
        cx: ToolCx,
        events: EventStream,
        control: SessionControl,
        reads_only: bool,
    ) -> Self {
        let state = State {
            breaker: CircuitBreaker::default(),
            repetition: RepetitionTracker::default(),
            takes_images: true,
            may_have_changed_project: false,
            unrecorded_background: Vec::new(),
            background_ids: Vec::new(),
        };
        Self {
            specs: tools.iter().map(|tool| tool.spec().clone()).collect(),
            entries: tools.into_iter().map(RegisteredTool::from).collect(),
            cx,
            events,
            control,
            reads_only,
            shared: session,
            state: Mutex::new(state),
            deferred_tools: None,
        }
    }

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
        self.specs.splice(n_kept.., specs);
        self.entries.splice(n_kept.., tools.into_iter().map(RegisteredTool::from));
        true
    }

    /// What it shares with the registries of the session's other agents.
    pub fn shared_state(&self) -> &Arc<SharedState> {
        &self.shared
    }

    /// The tools as described to the model: from the first request on the same list, in the same order.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Replaces the descriptions of tools, before the first request.
    pub fn override_descriptions(&mut self, prompts: &Prompts) {
        for (name, text) in prompts.overrides() {
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
        let mut permissions = self.permissions();
        permissions.policy.apply_event(&event.body, &WorkspaceFacts(&self.cx.workspace));
        match &event.body {
            EventBody::RuleAdded { rule } => {
                permissions.last_rule_id = permissions.last_rule_id.max(rule.id);
            }
            EventBody::ModeChanged { from, words: Some(_), mode } if mode < from => {
                let before = permissions.restriction.map_or(*from, |before| before.replaced_mode);
                let restriction = ModeRestriction { mode: *mode, replaced_mode: before.max(*from) };
                permissions.restriction = Some(restriction);
            }
            EventBody::ModeChanged { .. } => permissions.restriction = None,
            _ => {}
        }
    }

    /// Switches to a mode because of a sentence of the user, if the mode permits less than the current one.
    pub fn restrict_mode(&self, mode: PermissionMode, words: &str) -> Option<Event> {
        let current = self.update_mode();
        (mode < current).then(|| self.change_mode(mode, Some(words.to_owned())))
    }

    /// Returns to the mode before [`Registry::restrict_mode`], because of a sentence of the user, but not to a
    /// more permissive one than the user selected in this process, whatever a resumed session had.
    pub fn restore_mode(&self, words: &str) -> Option<Event> {
        let current = self.update_mode();
        let most_permissive_mode = self.permissions().most_permissive_mode;
        let restriction = self.permissions().restriction?;
        let mode = restriction.replaced_mode.min(most_permissive_mode);
        let is_restricted = restriction.mode == current && mode > current;
        is_restricted.then(|| self.change_mode(mode, Some(words.to_owned())))
    }

    /// Adds a permission rule that the user wrote; false if it is known or invalid.
    pub fn add_written_rule(&self, rule: String) -> bool {
        self.add_session_rule(SessionRule { rule, is_written: true, ..SessionRule::default() })
    }

    /// Adds a rule under the next number.
    fn add_session_rule(&self, rule: SessionRule) -> bool {
        let is_same = |known: &SessionRule| {
            (&known.rule, known.is_written, &known.directories)
                == (&rule.rule, rule.is_written, &rule.directories)
        };
        let is_new =
            !self.session_rules().iter().any(is_same) && Policy::is_session_rule(&rule.rule);
        if is_new {
            let id = self.permissions().last_rule_id + 1;
            let added = EventBody::RuleAdded { rule: SessionRule { id, ..rule } };
            self.apply(&self.shared.events.emit(added));
        }
        is_new
    }

    /// Adds a rule that denies changes of this path and everything in it, because of a sentence of the user.
    pub fn protect_path(&self, path: &str, is_folder: bool, words: &str) {
        let slash = if is_folder { "/" } else { "" };
        let rule = format!("deny Edit({}{slash})", Rule::path_pattern(path));
        let words = words.to_owned();
        self.add_session_rule(SessionRule { rule, words, ..SessionRule::default() });
    }

    /// Removes a session rule; false if there is none of this number.
    pub fn remove_rule(&self, id: u32) -> bool {
        let rule = self.session_rules().into_iter().find(|rule| rule.id == id);
        let removed = rule.map(|rule| self.shared.events.emit(EventBody::RuleRemoved { rule }));
        removed.inspect(|event| self.apply(event)).is_some()
    }

    /// The permission rules that the user has added in this session.
    pub fn session_rules(&self) -> Vec<SessionRule> {
        self.permissions().policy.session_rules().to_vec()
    }

    /// Which files must not be shown.
    pub fn hidden_files(&self) -> HiddenFiles {
        self.permissions().policy.hidden_files()
    }

    /// The current mode permits no changes.
    pub fn is_read_only(&self) -> bool {
        self.reads_only || self.update_mode().is_read_only()
    }

    /// A call of this turn could have changed the project.
    pub fn may_have_changed_project(&self) -> bool {
        self.state().may_have_changed_project
    }

    /// Applies a mode that the user selected meanwhile; returns the current mode.
    pub fn update_mode(&self) -> PermissionMode {
        if let Some(mode) = self.shared.control.take_requested_mode()
            && mode != self.permissions().policy.mode()
        {
            let mut permissions = self.permissions();
            permissions.most_permissive_mode = permissions.most_permissive_mode.max(mode);
            drop(permissions);
            self.change_mode(mode, None);
        }
        self.permissions().policy.mode()
    }

    fn change_mode(&self, mode: PermissionMode, words: Option<String>) -> Event {
        let from = self.permissions().policy.mode();
        self.permissions().policy.set_mode(mode);
        let event = self.shared.events.emit(EventBody::ModeChanged { mode, from, words });
        self.apply(&event);
        event
    }

    /// Assigns further changes to this turn.
    pub fn begin_turn(&self, turn: u32) {
        self.state().may_have_changed_project = false;
        self.reset_repetitions();
        if let Some(checkpoints) = self.cx.workspace.checkpoints() {
            checkpoints.begin_turn(turn);
        }
    }

    /// Results may differ now, or are no longer in the conversation: no call counts as repeated. The user may
    /// have changed anything before a message, and a compaction archives results.
    pub fn reset_repetitions(&self) {
        self.state().repetition.epoch += 1;
    }

    fn ruling(&self, tool: &str, effect: &Effect) -> Ruling {
        let (permissions, facts) = (self.permissions(), WorkspaceFacts(&self.cx.workspace));
        // A read-only agent has only those tools of MCP servers that are marked as reading; the mode of the session
        // decides about them, and about the web.
        let is_of_session = matches!(
            effect,
            Effect::Mcp { reads_only: true, .. } | Effect::Fetch { .. } | Effect::WebSearch { .. }
        );
        if self.reads_only && !is_of_session && !permissions.policy.mode().is_read_only() {
            let mut policy = permissions.policy.clone();
            policy.set_mode(PermissionMode::ReadOnly);
            return policy.rule_on(tool, effect, &facts);
        }
        permissions.policy.rule_on(tool, effect, &facts)
    }

    /// Ends the background commands that its calls started: nobody could read their output any more.
    pub async fn end_background_commands(&self) {
        let jobs = std::mem::take(&mut self.state().background_ids);
        for id in jobs {
            self.cx.exec.kill_background(&id).await;
        }
        self.record_background_changes(true);
    }

    fn permissions(&self) -> MutexGuard<'_, Permissions> {
        self.shared.permissions.lock()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
