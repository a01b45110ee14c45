//! Runs one call through all steps of the registry, and the calls of one answer together.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::approval::{Approver, PermissionRefusal};
use super::circuit_breaker::CircuitState;
use super::hooks::describe_changed_arguments;
use super::repetition::RepetitionKey;
use super::{
    OutputLimits, RegisteredTool, Registry, arguments, output_limits, redirect, repetition,
    validator,
};
use crate::tools::WorkspaceFacts;
use crate::tools::{CallTarget, ToolCx};
use agent_host::workspace::{ChangedFiles, ProjectPath, Snapshot, expand_home};
use agent_permission::{DeniedPath, Policy};
use agent_protocol::control::{Ending, Ruling};
use agent_protocol::envelope::{
    Envelope, ErrorCode, Failure, Report, ResultContext, SealedEnvelope, ToolError, Verdict,
};
use agent_protocol::event::{Caller, ChangeAuthor, EventBody};
use agent_protocol::hook::HookRuling;
use agent_protocol::message::ToolCall;
use agent_protocol::question::Inquirer;
use agent_protocol::tool::{CommandRights, Effect};
use agent_protocol::{Object, most_similar};

/// A validated call: this is judged, shown to the user and run.
pub(super) struct PreparedCall<'a> {
    pub(super) entry: &'a RegisteredTool,
    pub(super) arguments: Object,
    pub(super) target: CallTarget,
    /// The optimistic lock of a file that is to be changed.
    pub(super) seen: Option<Snapshot>,
    key: RepetitionKey,
}

/// The result of a call.
#[derive(Debug)]
pub struct ToolCallResult {
    /// The result of the tool, or a refusal.
    pub envelope: SealedEnvelope,
    /// The effect of the call, if it was determined.
    pub effect: Option<Effect>,
    /// A rule or the mode refused a write or a command.
    pub is_denied: bool,
    /// A rule made from the user's words refused it.
    pub violates_instruction: bool,
    /// What it changed, as far as checkpoints cover it.
    pub changed: ChangedFiles,
    /// A hook ends the turn: why.
    pub stop_reason: Option<String>,
}

/// A call that ran or was refused, before its envelope is made.
struct CallAttempt {
    outcome: Result<Report, Failure>,
    known: CallContext,
    time_ms: u64,
}

/// What is known about a call while it is processed.
#[derive(Default)]
pub(super) struct CallContext {
    pub(super) input: Object,
    pub(super) effect: Option<Effect>,
    pub(super) denied: bool,
    violates_instruction: bool,
    pub(super) changed: ChangedFiles,
    /// Arguments that the tool does not have.
    notes: arguments::ArgumentNotes,
    /// The tool was run.
    pub(super) has_run: bool,
    /// What hooks tell the model.
    pub(super) hook_texts: Vec<String>,
    /// A hook allows the call, or wants the user to be asked.
    pub(super) hook_ruling: Option<(HookRuling, String)>,
    /// The arguments are not the model's.
    pub(super) changed_by: Option<ChangeAuthor>,
    /// A hook ends the turn.
    pub(super) stop: Option<String>,
    /// The call on behalf of which the kernel makes this one.
    parent: Option<String>,
    /// Cancelled when the call should stop.
    pub(super) cancel: CancellationToken,
}

impl CallContext {
    fn by(&self) -> Caller {
        if self.parent.is_some() { Caller::Kernel } else { Caller::Model }
    }
}

impl Registry {
    /// Runs the calls of one answer: consecutive read-only calls and consecutive sub-agents in parallel, others one by one, in order.
    /// Every call gets a result, in call order; nothing starts after an interrupt or after a message of the
    /// user, so that the model reads the message first. All results together may take `room` bytes: small
    /// ones are shown in full, the large ones share the rest.
    pub async fn run_calls(&self, calls: &[ToolCall], room: usize) -> Vec<ToolCallResult> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut room = room;
        let mut rest = calls;
        while !rest.is_empty() {
            let is_stopped =
                answers.iter().any(|answer: &ToolCallResult| answer.stop_reason.is_some());
            if is_stopped || self.control.has_queued_messages() {
                answers
                    .extend(rest.iter().map(|call| self.cancel_unstarted_call(call, is_stopped)));
                break;
            }
            let reads = rest.iter().take_while(|call| self.is_read_only_call(call)).count();
            // Sub-agents run concurrently, also if they may write: their operations take turns.
            let agents = rest.iter().take_while(|call| self.is_agent_call(call)).count();
            let (now, later) = rest.split_at(reads.max(agents).max(1));
            let cancel = self.control.cancellation_token();
            let tried = now.iter().map(|call| self.attempt(call, None, cancel.clone()));
            let tried = join_all(tried).await;
            let sizes: Vec<usize> =
                tried.iter().map(|tried| output_limits::outcome_size(&tried.outcome)).collect();
            let reserved = (later.len() * output_limits::MIN_RESULT_BYTES).min(room / 2);
            let share = output_limits::fair_share(&sizes, room - reserved);
            let taken: usize = sizes.iter().map(|size| size.min(&share)).sum();
            room = room.saturating_sub(taken);
            let finished =
                now.iter().zip(tried).map(|(call, tried)| self.finish_call(call, tried, share));
            answers.extend(finished);
            rest = later;
        }
        answers
    }

    /// Runs one call.
    pub async fn run_call(&self, call: &ToolCall) -> ToolCallResult {
        self.run_cancellable_call(call, self.control.cancellation_token()).await
    }

    /// Runs one call, which can be cancelled alone.
    pub async fn run_cancellable_call(
        &self,
        call: &ToolCall,
        cancel: CancellationToken,
    ) -> ToolCallResult {
        let tried = self.attempt(call, None, cancel).await;
        self.finish_call(call, tried, usize::MAX)
    }

    /// Runs a call that the kernel makes on behalf of one of the model's, within the room that the results of
    /// the round have left.
    pub async fn run_kernel_call(
        &self,
        call: &ToolCall,
        parent: &str,
        room: usize,
    ) -> ToolCallResult {
        let tried = self.attempt(call, Some(parent), self.control.cancellation_token()).await;
        self.finish_call(call, tried, room.max(output_limits::MIN_RESULT_BYTES))
    }

    /// The tool exists and takes these arguments.
    pub fn check_call(&self, call: &ToolCall) -> Result<(), Failure> {
        self.understood(call).map(|_| ())
    }

    /// The effect of this call, or why it cannot be made.
    pub fn effect_of(&self, call: &ToolCall) -> Result<Effect, Failure> {
        let (entry, arguments, _) = self.understood(call)?;
        Ok(entry.tool.target(&arguments, &self.cx)?.effect)
    }

    /// It would need no approval by itself, whatever rules and modes say.
    pub fn is_harmless(&self, effect: &Effect) -> bool {
        Policy::is_harmless(effect, &WorkspaceFacts(&self.cx.workspace))
    }

    async fn attempt(
        &self,
        call: &ToolCall,
        parent: Option<&str>,
        cancel: CancellationToken,
    ) -> CallAttempt {
        let started = self.events.clock().now();
        let mut known =
            CallContext { parent: parent.map(str::to_owned), cancel, ..CallContext::default() };
        let mut outcome = match self.ask_pre_tool_hooks(call, &mut known).await {
            Ok(call) => self.run_or_redirect(&call, &mut known).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &mut outcome
            && failure.code == ErrorCode::InvalidParam
            && failure.hint.is_none()
            && let Ok(entry) = self.find_tool(&call.name)
        {
            failure.hint = Some(validator::parameters_hint(&entry.tool.spec().schema));
        }
        self.ask_post_tool_hooks(call, &mut known, &mut outcome).await;
        let changed = known.changed_by.map(|by| describe_changed_arguments(by, &known.input));
        let texts = changed.iter().chain(&known.hook_texts).map(|text| format!("\n{text}"));
        for note in known.notes.in_words().into_iter().chain(texts) {
            match &mut outcome {
                Ok(report) => report.text.push_str(&note),
                Err(failure) => failure.append_note(&note),
            }
        }
        let time_ms = match known.effect {
            // The user's time is not the tool's.
            Some(Effect::Ask) => 0,
            _ => self.events.clock().now().duration_since(started).as_millis(),
        };
        CallAttempt { outcome, known, time_ms: u64::try_from(time_ms).unwrap_or(u64::MAX) }
    }

    /// Makes a call that hooks have seen.
    async fn run_or_redirect(
        &self,
        call: &ToolCall,
        known: &mut CallContext,
    ) -> Result<Report, Failure> {
        if let Some(outcome) = self.try_redirect(call, known).await {
            return outcome;
        }
        let (wanted, permit) = self.pass(call, known).await?;
        self.run(call, wanted, permit, known).await
    }

    /// Creates the envelope of a call, of which up to `share` bytes are shown.
    fn finish_call(&self, call: &ToolCall, tried: CallAttempt, share: usize) -> ToolCallResult {
        let CallAttempt { outcome, known, time_ms } = tried;
        let limits = self.shared.limits;
        let limits = OutputLimits { max_bytes: limits.max_bytes.min(share), ..limits };
        let (outcome, cut) =
            output_limits::limit_output(outcome, &call.name, &limits, &self.cx.spill);
        if cut.iter().any(|field| field == "content") {
            self.mark_lines_unshown(&outcome);
        }
        let is_of_mcp = matches!(known.effect, Some(Effect::Mcp { .. }));
        let envelope =
            self.seal_envelope(&call.name, outcome, known.input.clone(), time_ms, is_of_mcp);
        self.events.emit(EventBody::ToolFinished {
            call: call.id.clone(),
            tool: call.name.clone(),
            envelope: envelope.clone(),
            synthetic: false,
            by: known.by(),
            parent_call: known.parent,
        });
        let CallContext { effect, denied, violates_instruction, changed, stop, .. } = known;
        ToolCallResult {
            envelope,
            effect,
            is_denied: denied,
            violates_instruction,
            changed,
            stop_reason: stop,
        }
    }

    /// The result of a call that is not run because a hook ended the turn, or the user sent a message, before it
    /// started.
    fn cancel_unstarted_call(&self, call: &ToolCall, is_stopped: bool) -> ToolCallResult {
        let failure = if is_stopped {
            Failure::new(ErrorCode::Cancelled, "not run: a hook ended the turn")
        } else {
            Failure::new(ErrorCode::Cancelled, "cancelled: the user sent a message first")
                .with_hint("read it, and repeat the call only if it is still right")
        };
        let envelope =
            self.seal_envelope(&call.name, Err(failure), arguments::envelope_input(call), 0, false);
        self.events.emit(EventBody::ToolFinished {
            call: call.id.clone(),
            tool: call.name.clone(),
            envelope: envelope.clone(),
            synthetic: false,
            by: Caller::Model,
            parent_call: None,
        });
        ToolCallResult {
            envelope,
            effect: None,
            is_denied: false,
            violates_instruction: false,
            changed: ChangedFiles::default(),
            stop_reason: None,
        }
    }

    /// All steps before the tool runs.
    async fn pass(
        &self,
        call: &ToolCall,
        known: &mut CallContext,
    ) -> Result<(PreparedCall<'_>, Approver), Failure> {
        if self.control.interrupt_cause().is_some() {
            return Err(Failure::new(ErrorCode::Cancelled, "not run: the turn was interrupted"));
        }
        if known.cancel.is_cancelled() {
            return Err(Failure::new(ErrorCode::Cancelled, "not run: the call was cancelled"));
        }
        let mut wanted = self.prepare(call, known).await?;
        let effect = &wanted.target.effect;
        self.refuse_repetition(&format!("the same {} call", call.name), wanted.key, effect)?;
        if let CircuitState::Open { seconds_left } = self
            .state()
            .breaker
            .admit_call(&circuit_of(&call.name, effect), self.events.clock().now())
        {
            return Err(Failure::new(
                ErrorCode::CircuitOpen,
                format!(
                    "Tool temporarily disabled: {} failed several times in a row; {seconds_left} s left",
                    call.name
                ),
            )
            .with_hint("use another tool, or continue with another part of the task"));
        }
        match self.permit(call, &mut wanted, known).await {
            Ok(permit) => Ok((wanted, permit)),
            Err(PermissionRefusal { failure, denied, violates_instruction }) => {
                known.denied = denied;
                known.violates_instruction = violates_instruction;
                // The tool did not run: the trial call is still open.
                let effect = known.effect.as_ref();
                let circuit = effect.map(|effect| circuit_of(&call.name, effect));
                self.state().breaker.release_call(circuit.as_deref().unwrap_or(&call.name));
                Err(failure)
            }
        }
    }

    /// Validates a call, and determines its effect and the lock of the file that it changes.
    pub(super) async fn prepare(
        &self,
        call: &ToolCall,
        known: &mut CallContext,
    ) -> Result<PreparedCall<'_>, Failure> {
        known.input = arguments::envelope_input(call);
        let (entry, arguments, notes) = self.understood(call)?;
        known.input.clone_from(&arguments);
        known.notes = notes;
        let target = entry.tool.target(&arguments, &self.cx)?;
        known.effect = Some(target.effect.clone());
        let key = repetition::repetition_key(
            &call.name,
            entry.tool.canonical_input(&arguments),
            &target.effect,
        );
        let seen = match (&target.effect, &target.checked_path) {
            (Effect::Write { .. }, Some(checked_path)) => self.snapshot(checked_path.path()).await,
            _ => None,
        };
        Ok(PreparedCall { entry, arguments, target, seen, key })
    }

    async fn run(
        &self,
        call: &ToolCall,
        wanted: PreparedCall<'_>,
        permit: Approver,
        known: &mut CallContext,
    ) -> Result<Report, Failure> {
        let PreparedCall { entry, arguments, target, seen, key } = wanted;
        let effect = target.effect.clone();
        let mut cx = self.cx.clone();
        cx.cancel = known.cancel.clone();
        let is_approved = permit != Approver::Policy;
        cx.rights = self.permissions().policy.command_rights(
            &call.name,
            &effect,
            is_approved,
            &WorkspaceFacts(&self.cx.workspace),
        );
        if self.is_read_only() {
            cx.rights = CommandRights {
                read_only: true,
                network: cx.rights.network,
                ..CommandRights::default()
            };
        }
        if matches!(effect, Effect::Command { .. }) {
            self.apply_denied_paths();
        }
        let changes = match effect {
            Effect::Write { .. } | Effect::Command { .. } => !cx.rights.read_only,
            Effect::Agent { reads_only, .. } => !reads_only,
            Effect::Mcp { .. } => true,
            Effect::Read { .. }
            | Effect::Job { .. }
            | Effect::Plan
            | Effect::Ask
            | Effect::Skill { .. }
            | Effect::Lookup => false,
        };
        if changes {
            self.state().may_have_changed_project = true;
        }
        let (events, id) = (self.events.clone(), call.id.clone());
        cx.output_watcher = Some(Arc::new(move |text| {
            events.emit(EventBody::ToolOutput { call: id.clone(), text: text.to_owned() });
        }));
        cx.inquirer = self.control.can_ask_questions().then(|| Inquirer {
            control: self.control.clone(),
            events: self.events.clone(),
            call: call.id.clone(),
        });
        cx.read_restrictions = self.read_restrictions();
        cx.takes_images = self.state().takes_images;
        if let Some(seen) = &seen {
            known.input.insert(arguments::LOCK_FIELDS[0].to_owned(), seen.mtime_ms().into());
            known.input.insert(arguments::LOCK_FIELDS[1].to_owned(), seen.size().into());
        }
        cx.expected_snapshot = seen;
        cx.call_id.clone_from(&call.id);
        let turn = self.acquire_write_lock(&effect, &cx).await;
        let _turn = turn.inspect_err(|_| self.state().breaker.release_call(&call.name))?;
        let begun = self.checkpoint_before(&call.name, &target, cx.rights).await;
        let begun = begun.map(|begun| begun.with_call(&call.id));
        let read = matches!(effect, Effect::Read { .. }).then_some(&target.checked_path);
        let read = read.and_then(Option::as_ref).map(|path| path.path().absolute().to_path_buf());
        cx.checked_path = target.checked_path;
        let epoch = self.state().repetition.epoch();
        self.events.emit(EventBody::ToolStarted {
            call: call.id.clone(),
            tool: call.name.clone(),
            input: known.input.clone(),
            effect: effect.clone(),
            by: known.by(),
            parent_call: known.parent.clone(),
            changed_by: known.changed_by,
        });
        known.has_run = true;
        let run = AssertUnwindSafe(entry.tool.run(arguments, &cx)).catch_unwind().await;
        let mut outcome =
            run.unwrap_or_else(|panic| Err(panic_failure(&call.name, panic.as_ref())));
        if let Ok(report) = &outcome
            && let Some(id) = report.data.get("background_id").and_then(serde_json::Value::as_str)
        {
            self.state().background_ids.push(id.to_owned());
        }
        if let Some(begun) = begun {
            known.changed = self.checkpoint_after(begun, &effect, &mut outcome).await;
        }
        if let Some(path) = read {
            self.record_external_change(&path, &outcome).await;
        }
        match &effect {
            Effect::Job { .. } => self.record_background_changes(false),
            Effect::Agent { .. } => record_agent_outcome(&outcome, known),
            Effect::Read { .. }
            | Effect::Write { .. }
            | Effect::Command { .. }
            | Effect::Plan
            | Effect::Ask
            | Effect::Skill { .. }
            | Effect::Lookup
            | Effect::Mcp { .. } => {}
        }

        let mut state = self.state();
        let class = outcome.as_ref().err().map(|failure| failure.code.class(&call.name));
        let circuit = circuit_of(&call.name, &effect);
        state.breaker.record_outcome(&circuit, class, self.events.clock().now());
        if may_have_changed_something(&effect, &outcome) {
            state.repetition.advance_epoch();
        }
        state.repetition.record_outcome(key, &mut outcome, epoch);
        outcome
    }

    /// The sandbox denies commands the paths that rules deny file tools.
    fn apply_denied_paths(&self) {
        let (hidden, read_only) = self.permissions().policy.denied_paths();
        let root = self.cx.workspace.root();
        let full = |paths: Vec<DeniedPath>| -> Vec<(PathBuf, String)> {
            paths.into_iter().map(|it| (root.join(it.path), it.reason)).collect()
        };
        let (mut hidden, read_only) = (full(hidden), full(read_only));
        if self.shared.hides_secrets {
            let files = self.cx.secrets.files(&self.cx.workspace).into_iter();
            let reason = "sandbox.hide_secrets".to_owned();
            hidden.extend(files.map(|path| (path, reason.clone())));
        }
        self.cx.exec.close_paths(hidden, read_only);
    }

    /// The lines of the file that this result contains were not shown completely.
    fn mark_lines_unshown(&self, outcome: &Result<Report, Failure>) {
        let (path, data) = match outcome {
            Ok(report) => (&report.path, &report.data),
            Err(failure) => (&failure.path, &failure.data),
        };
        let number = |name: &str| data.get(name).and_then(serde_json::Value::as_u64);
        let lines = number("start_line").zip(number("end_line")).map(|(a, b)| a..b + 1);
        if let Some(path) = path.as_ref().and_then(|path| self.cx.workspace.resolve(path).ok()) {
            self.cx.workspace.mark_unshown(&path, lines);
        }
    }

    /// The envelope of a result. Secrets in what commands print are masked here, once, for the model and the log. File tools
    /// show the model the real text, so that it can be edited; the log masks it.
    fn seal_envelope(
        &self,
        tool: &str,
        outcome: Result<Report, Failure>,
        input: Object,
        time_ms: u64,
        is_of_mcp: bool,
    ) -> SealedEnvelope {
        let mut envelope = build_envelope(outcome, input, time_ms);
        // (A server runs with the user's environment, like a command.)
        if tool.starts_with("Bash") || is_of_mcp {
            self.events.masker().mask_envelope(&mut envelope);
        }
        envelope.into()
    }

    /// The tool, the arguments under its own names, and what the model should know about them.
    pub(super) fn understood(
        &self,
        call: &ToolCall,
    ) -> Result<(&RegisteredTool, Object, arguments::ArgumentNotes), Failure> {
        let entry = self.find_tool(&call.name)?;
        let spec = entry.tool.spec();
        let schema = &spec.schema;
        if spec.is_foreign {
            let (arguments, is_repaired) = validator::parse_json_object(&call.arguments)?;
            let arguments = entry.validator.check_foreign(schema, arguments)?;
            return Ok((
                entry,
                arguments,
                arguments::ArgumentNotes { is_repaired, ..Default::default() },
            ));
        }
        let (mut arguments, is_repaired) = arguments::parse_arguments(call)?;
        let notes = arguments::ArgumentNotes {
            ignored: arguments::canonicalize_names(schema, &mut arguments)?,
            is_repaired,
        };
        // Tools, hooks and events see one path.
        for name in ["path", "directory"] {
            if let Some(serde_json::Value::String(path)) = arguments.get_mut(name)
                && let Cow::Owned(full) = expand_home(path)
            {
                *path = full;
            }
        }
        let checked = entry.validator.check_input(schema, &arguments);
        checked.map_err(|mut failure| {
            if let Some(note) = notes.in_words() {
                failure.append_note(&note);
            }
            failure
        })?;
        Ok((entry, arguments, notes))
    }

    /// Runs a file tool instead of a Bash line that is exactly one simple reading command with the same
    /// result; `None` if the shell has to run it.
    async fn try_redirect(
        &self,
        call: &ToolCall,
        known: &mut CallContext,
    ) -> Option<Result<Report, Failure>> {
        if call.name != "Bash"
            || self.control.interrupt_cause().is_some()
            || known.cancel.is_cancelled()
        {
            return None;
        }
        let (bash, line, notes) = self.understood(call).ok()?;
        if matches!(known.hook_ruling, Some((HookRuling::Ask, _))) {
            return None;
        }
        let redirect = redirect::redirect(&line)?;
        let entry = self.find_tool(redirect.tool).ok()?;
        entry.validator.check_input(&entry.tool.spec().schema, &redirect.input).ok()?;
        let target = entry.tool.target(&redirect.input, &self.cx).ok()?;
        let is_file = target
            .checked_path
            .as_ref()
            .is_some_and(|checked_path| checked_path.file_size().is_some());
        if redirect.needs_file && !is_file {
            return None;
        }
        let command = bash.tool.target(&line, &self.cx).ok()?.effect;
        self.mode();
        let is_allowed =
            |tool: &str, effect: &Effect| matches!(self.ruling(tool, effect), Ruling::Allow(_));
        if !is_allowed(redirect.tool, &target.effect) || !is_allowed("Bash", &command) {
            return None;
        }
        let canonical = entry.tool.canonical_input(&redirect.input);
        let key = repetition::repetition_key(redirect.tool, canonical, &target.effect);
        let it = format!("the {} call that answers this command", redirect.tool);
        if let Err(failure) = self.refuse_repetition(&it, key, &target.effect) {
            (known.input, known.notes) = (line, notes);
            return Some(Err(failure));
        }
        let mut cx = self.cx.clone();
        cx.cancel = known.cancel.clone();
        cx.read_restrictions = self.read_restrictions();
        // The command prints the bytes of an image.
        cx.takes_images = false;
        cx.checked_path = target.checked_path;
        let run = AssertUnwindSafe(entry.tool.run(redirect.input.clone(), &cx)).catch_unwind();
        let report = run.await.ok()?.ok()?;
        if !redirect.is_complete(&report) {
            if redirect.tool == "Read" {
                self.mark_lines_unshown(&Ok(report));
            }
            return None;
        }
        (known.input, known.notes) = (line, notes);
        known.effect = Some(target.effect.clone());
        self.events.emit(EventBody::ToolStarted {
            call: call.id.clone(),
            tool: call.name.clone(),
            input: known.input.clone(),
            effect: target.effect,
            by: known.by(),
            parent_call: known.parent.clone(),
            changed_by: known.changed_by,
        });
        known.has_run = true;
        let mut outcome = Ok(redirect.annotate_report(report));
        let mut state = self.state();
        let epoch = state.repetition.epoch();
        state.repetition.record_outcome(key, &mut outcome, epoch);
        Some(outcome)
    }

    pub(super) fn find_tool(&self, name: &str) -> Result<&RegisteredTool, Failure> {
        self.entries.iter().find(|entry| entry.tool.spec().name == name).ok_or_else(|| {
            let names = self.specs.iter().map(|spec| &*spec.name);
            let hint = self.entries.iter().find_map(|it| it.tool.hint_for_unknown_name(name));
            let hint = hint.unwrap_or_else(|| match most_similar(name, names.clone()) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => format!("the tools are {}", names.collect::<Vec<_>>().join(", ")),
            });
            Failure::new(ErrorCode::UnknownTool, format!("there is no tool named {name:?}"))
                .with_hint(hint)
        })
    }

    fn refuse_repetition(
        &self,
        it: &str,
        key: RepetitionKey,
        effect: &Effect,
    ) -> Result<(), Failure> {
        // A command may be polling.
        let limit = match effect {
            // Waiting for a background command is no repetition; a turn has its own limit. The plan may have
            // changed meanwhile, so that the same list restores it.
            // The user may answer differently, and a sub-agent may find something else.
            Effect::Job { .. } | Effect::Plan | Effect::Ask | Effect::Agent { .. } => return Ok(()),
            Effect::Command { .. } | Effect::Mcp { .. } => 5,
            Effect::Read { .. } | Effect::Write { .. } | Effect::Skill { .. } | Effect::Lookup => 3,
        };
        let times = self.state().repetition.repeat_count(key);
        if times + 1 < limit {
            return Ok(());
        }
        // If another process changed the file, reading it again is no repetition.
        if let Effect::Read { path } = effect
            && self.cx.workspace.files_changed_since_read().contains(path)
        {
            return Ok(());
        }
        Err(Failure::new(
            ErrorCode::RepeatedCall,
            format!("{it} gave the same answer {times} times running; it was not run again"),
        )
        .with_hint("use the answer you have, change the arguments, or do something else first"))
    }

    /// The snapshot of a file that was read. Waits if the hash of a large file is still being computed.
    async fn snapshot(&self, path: &ProjectPath) -> Option<Snapshot> {
        let (workspace, path) = (self.cx.workspace.clone(), path.clone());
        tokio::task::spawn_blocking(move || workspace.snapshot(&path)).await.ok()?
    }

    /// Waits until no operation of another agent writes, if the call may write or its checkpoint covers the project.
    pub(super) async fn acquire_write_lock(
        &self,
        effect: &Effect,
        cx: &ToolCx,
    ) -> Result<WriteGuard<'_>, Failure> {
        let lock = &self.shared.write_lock;
        let turn = async {
            match effect {
                Effect::Write { .. } | Effect::Command { reads_only: false, .. }
                    if !cx.rights.read_only =>
                {
                    (Some(lock.write().await), None)
                }
                Effect::Mcp { reads_only: false, .. } => (None, Some(lock.read().await)),
                Effect::Command { .. } if !cx.rights.read_only => (None, Some(lock.read().await)),
                Effect::Write { .. }
                | Effect::Command { .. }
                | Effect::Read { .. }
                | Effect::Job { .. }
                | Effect::Plan
                | Effect::Ask
                | Effect::Skill { .. }
                | Effect::Agent { .. }
                | Effect::Lookup
                | Effect::Mcp { .. } => (None, None),
            }
        };
        let why = "not run: it was interrupted while another agent's operation ran";
        let turn = cx.cancel.run_until_cancelled(turn).await;
        turn.ok_or_else(|| Failure::new(ErrorCode::Cancelled, why))
    }

    /// The call is certainly one of a sub-agent.
    fn is_agent_call(&self, call: &ToolCall) -> bool {
        let effect = self.effect_of(call);
        effect.is_ok_and(|effect| matches!(effect, Effect::Agent { .. }))
    }

    /// The call is certainly read-only. An invalid call has no effect, but runs alone.
    fn is_read_only_call(&self, call: &ToolCall) -> bool {
        let Ok((entry, arguments, _)) = self.understood(call) else { return false };
        entry.tool.target(&arguments, &self.cx).is_ok_and(|it| it.effect.is_read_only())
    }
}

/// The turn to write, or to read while nothing writes.
pub(super) type WriteGuard<'a> =
    (Option<RwLockWriteGuard<'a, ()>>, Option<RwLockReadGuard<'a, ()>>);

/// What a sub-agent did counts as done by the call.
fn record_agent_outcome(outcome: &Result<Report, Failure>, known: &mut CallContext) {
    let data = match outcome {
        Ok(report) => &report.data,
        Err(failure) => &failure.data,
    };
    let files = data.get("files_changed").and_then(serde_json::Value::as_array);
    let files = files.into_iter().flatten().filter_map(serde_json::Value::as_str);
    let files = files.map(str::to_owned).collect();
    known.changed = ChangedFiles { files, ignored: Vec::new() };
    let ending = data.get("ending").and_then(serde_json::Value::as_str);
    known.denied = ending == Some(Ending::PermissionDenied.as_str());
}

/// The circuit of a call: each tool of a server has its own, by whatever tool it is called.
fn circuit_of<'a>(tool: &'a str, effect: &Effect) -> Cow<'a, str> {
    if let Effect::Mcp { server, tool, .. } = effect {
        return Cow::Owned(format!("{server}.{tool}"));
    }
    Cow::Borrowed(tool)
}

/// A write that was refused changed nothing, but CONFLICT shows that another process did; a command may have
/// changed anything, whatever its result is.
fn may_have_changed_something(effect: &Effect, outcome: &Result<Report, Failure>) -> bool {
    match effect {
        Effect::Read { .. }
        | Effect::Job { .. }
        | Effect::Plan
        | Effect::Ask
        | Effect::Skill { .. }
        | Effect::Lookup
        | Effect::Agent { reads_only: true, .. } => false,
        Effect::Agent { .. } | Effect::Mcp { .. } => true,
        Effect::Write { .. } => match outcome {
            Ok(_) => true,
            Err(failure) => failure.code == ErrorCode::Conflict,
        },
        Effect::Command { reads_only, .. } => !reads_only,
    }
}

fn panic_failure(tool: &str, panic: &(dyn std::any::Any + Send)) -> Failure {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let message = format!("{tool} failed unexpectedly (internal error): {message}");
    Failure::new(ErrorCode::InternalError, message)
        .with_hint("the call is not at fault; try another tool or another way")
}

fn build_envelope(
    outcome: Result<Report, Failure>,
    params_input: Object,
    time_ms: u64,
) -> Envelope {
    let (verdict, data, text, mut stats, path_resolved) = match outcome {
        Ok(Report { partial, data, text, stats, path }) => {
            let verdict = if partial { Verdict::Partial } else { Verdict::Success };
            (verdict, data, text, stats, path)
        }
        Err(Failure { code, message, hint, data, text, stats, path }) => {
            let error = ToolError { code, message, hint };
            let text = if text.is_empty() { error.in_words() } else { text };
            (Verdict::Error { error }, data, text, stats, path)
        }
    };
    stats.insert("time_ms".to_owned(), time_ms.into());
    let context = ResultContext { cwd: ".".to_owned(), params_input, path_resolved };
    Envelope { verdict, data, text, stats, context }
}
