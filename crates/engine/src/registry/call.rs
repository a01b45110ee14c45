//! Runs one call through all steps of the registry, and the calls of one answer together.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::hooks::describe_changed_arguments;
use super::prepare::{InvalidCall, PreparedCall};
use super::repetition::RepetitionKey;
use super::{OutputLimits, Registry, output_limits};
use crate::tools::WorkspaceFacts;
use agent_host::workspace::{ChangedFiles, CutLines};
use agent_permission::{DeniedPath, Policy};
use agent_protocol::control::Ending;
use agent_protocol::envelope::{
    Envelope, ErrorCode, Failure, Report, ResultContext, SealedEnvelope, ToolError, Verdict,
};
use agent_protocol::event::{Caller, ChangeAuthor, EventBody};
use agent_protocol::hook::HookRuling;
use agent_protocol::message::ToolCall;
use agent_protocol::question::Inquirer;
use agent_protocol::tool::{CommandRights, Effect};
use agent_protocol::{Object, shorten};

/// The permission that a call lacked, whoever decided it. An instruction of the user, mode plan, or a rule that allows
/// another form of a command takes none away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingPermission {
    #[default]
    None,
    /// Of a call that only reads: the task may do without it.
    Read,
    /// Of a write, a command or a request: the task may have needed it.
    Effect,
}

impl MissingPermission {
    /// That of a call with this effect, if it is known.
    pub(super) fn of(effect: Option<&Effect>) -> Self {
        if matches!(effect, Some(Effect::Read { .. })) { Self::Read } else { Self::Effect }
    }
}

/// The result of a call.
#[derive(Debug)]
pub struct ToolCallResult {
    /// The result of the tool, or a refusal.
    pub envelope: SealedEnvelope,
    /// The effect of the call, if it was determined.
    pub effect: Option<Effect>,
    pub missing: MissingPermission,
    /// A rule made from the user's words refused it.
    pub violates_instruction: bool,
    /// What it changed, as far as checkpoints cover it.
    pub changed: ChangedFiles,
    /// A hook ends the turn: why.
    pub stop_reason: Option<String>,
}

/// What is known about a call while it is processed; its result is made of it.
#[derive(Default)]
pub(super) struct CallInProgress {
    pub(super) input: Object,
    pub(super) effect: Option<Effect>,
    pub(super) missing: MissingPermission,
    pub(super) violates_instruction: bool,
    pub(super) changed_files: ChangedFiles,
    /// What the model should know about its arguments.
    pub(super) notes: String,
    /// The user or a hook allowed it, where the policy asks.
    pub(super) is_approved: bool,
    pub(super) has_started: bool,
    time_ms: u64,
    pub(super) hook_texts: Vec<String>,
    /// A hook allows the call, or wants the user to be asked.
    pub(super) hook_ruling: Option<(HookRuling, String)>,
    /// The arguments are not the model's.
    pub(super) changed_by: Option<ChangeAuthor>,
    pub(super) stop_reason: Option<String>,
    /// The id of the model's call for which the kernel makes this one.
    parent: Option<String>,
    pub(super) cancel: CancellationToken,
}

impl CallInProgress {
    /// Copies input, effect and notes, which are needed after the call has run.
    pub(super) fn add_preparation<'a>(
        &mut self,
        prepared: Preparation<'a>,
    ) -> Result<PreparedCall<'a>, Failure> {
        match prepared {
            Ok(mut prepared) => {
                self.input.clone_from(&prepared.input);
                self.effect = Some(prepared.target.effect.clone());
                self.notes = std::mem::take(&mut prepared.notes);
                Ok(prepared)
            }
            Err(invalid) => {
                (self.input, self.notes) = (invalid.input, invalid.notes);
                Err(invalid.failure)
            }
        }
    }

    fn caller(&self) -> Caller {
        if self.parent.is_some() { Caller::Kernel } else { Caller::Model }
    }
}

impl Registry {
    /// Runs the calls of one answer: consecutive read-only calls and consecutive sub-agents in parallel, others one by one, in order.
    /// Every call gets a result, in call order; nothing starts after an interrupt or after a message of the
    /// user, so that the model reads the message first. All results together may take `room` bytes: small
    /// ones are shown in full, the large ones share the rest. `written`: the calls before [`Registry::correct_names`].
    pub async fn run_calls(
        &self,
        calls: &[ToolCall],
        written: &[ToolCall],
        mut room: usize,
    ) -> Vec<ToolCallResult> {
        let mut results: Vec<ToolCallResult> = Vec::with_capacity(calls.len());
        while results.len() < calls.len() {
            let is_stopped = results.iter().any(|result| result.stop_reason.is_some());
            let rest = &calls[results.len()..];
            if is_stopped || self.control.has_queued_messages() {
                results
                    .extend(rest.iter().map(|call| self.cancel_unstarted_call(call, is_stopped)));
                break;
            }
            let batch = self.next_batch(rest);
            let later = rest.len() - batch.len();
            let cancel = self.control.cancellation_token();
            let attempts = rest
                .iter()
                .zip(batch)
                .map(|(call, prepared)| self.process_call(call, prepared, None, cancel.clone()));
            let mut attempts = join_all(attempts).await;
            for ((outcome, _), (call, written)) in
                attempts.iter_mut().zip(calls.iter().zip(written).skip(results.len()))
            {
                if call.name != written.name {
                    let (name, written) = (&call.name, shorten(&written.name, 60));
                    let note = format!(" The name of this tool is {name}, not {written}.");
                    output_limits::append_note(outcome, &note);
                }
            }
            let sizes = attempts.iter().map(|(outcome, _)| output_limits::outcome_size(outcome));
            let sizes: Vec<usize> = sizes.collect();
            let reserved = (later * output_limits::MIN_RESULT_BYTES).min(room / 2);
            let share = output_limits::fair_share(&sizes, room - reserved);
            room = room.saturating_sub(sizes.iter().map(|size| size.min(&share)).sum());
            let finished = rest.iter().zip(attempts);
            results.extend(
                finished.map(|(call, (outcome, record))| {
                    self.finish_call(call, outcome, record, share)
                }),
            );
        }
        results
    }

    /// Prepares the calls that start together: the first, and those after it as long as all only read, or all are
    /// sub-agents. The call after them is prepared when its turn comes, since files may change until then.
    fn next_batch(&self, calls: &[ToolCall]) -> Vec<Preparation<'_>> {
        let mut batch = Vec::new();
        let (mut reads, mut agents) = (true, true);
        for call in calls {
            let prepared = self.prepare(call);
            let effect = prepared.as_ref().ok().map(|call| &call.target.effect);
            reads &= effect.is_some_and(Effect::is_read_only);
            // Sub-agents run concurrently, also if they may write: their operations take turns.
            agents &= matches!(effect, Some(Effect::Agent { .. }));
            let is_first = batch.is_empty();
            if is_first || reads || agents {
                batch.push(prepared);
            }
            if !reads && !agents {
                break;
            }
        }
        batch
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
        let call = &arguments::as_bash_call(call).unwrap_or_else(|| call.clone());
        let (outcome, record) =
            Box::pin(self.process_call(call, self.prepare(call), None, cancel)).await;
        self.finish_call(call, outcome, record, usize::MAX)
    }

    /// Runs a call that the kernel makes on behalf of one of the model's, within the room that the results of
    /// the round have left.
    pub async fn run_kernel_call(
        &self,
        call: &ToolCall,
        parent: &str,
        room: usize,
    ) -> ToolCallResult {
        let cancel = self.control.cancellation_token();
        let (outcome, record) =
            Box::pin(self.process_call(call, self.prepare(call), Some(parent), cancel)).await;
        self.finish_call(call, outcome, record, room.max(output_limits::MIN_RESULT_BYTES))
    }

    /// An effect that would need no approval by itself, whatever rules and modes say.
    pub fn is_harmless(&self, effect: &Effect) -> bool {
        Policy::is_harmless(effect, &WorkspaceFacts(&self.cx.workspace))
    }

    async fn process_call(
        &self,
        call: &ToolCall,
        prepared: Preparation<'_>,
        parent: Option<&str>,
        cancel: CancellationToken,
    ) -> (Result<Report, Failure>, CallInProgress) {
        let started = self.events.clock().now();
        let mut record = CallInProgress {
            parent: parent.map(str::to_owned),
            cancel,
            ..CallInProgress::default()
        };
        let mut outcome = match self.ask_pre_tool_hooks(call, &prepared, &mut record).await {
            Ok(Some(call)) => {
                let prepared = self.prepare(&call);
                self.check_and_run(&call, prepared, &mut record).await
            }
            Ok(None) => self.check_and_run(call, prepared, &mut record).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &mut outcome
            && failure.code == ErrorCode::InvalidParam
            && failure.hint.is_none()
            && let Ok(entry) = self.find_tool(&call.name)
        {
            failure.hint = Some(arguments::parameters_hint(&entry.tool.spec().schema));
        }
        if record.has_started {
            self.ask_post_tool_hooks(call, &mut record, &mut outcome).await;
        }
        if !record.notes.is_empty() {
            output_limits::append_note(&mut outcome, &record.notes);
        }
        let arguments = record.changed_by.map(|by| describe_changed_arguments(by, &record.input));
        for text in arguments.iter().chain(&record.hook_texts) {
            output_limits::append_note(&mut outcome, &format!("\n{text}"));
        }
        let time_ms = match record.effect {
            // The user's time is not the tool's.
            Some(Effect::Ask) => 0,
            _ => self.events.clock().now().duration_since(started).as_millis(),
        };
        record.time_ms = u64::try_from(time_ms).unwrap_or(u64::MAX);
        (outcome, record)
    }

    async fn check_and_run(
        &self,
        call: &ToolCall,
        prepared: Preparation<'_>,
        record: &mut CallInProgress,
    ) -> Result<Report, Failure> {
        if self.control.interrupt_cause().is_some() {
            return Err(Failure::new(ErrorCode::Cancelled, "not run: the turn was interrupted"));
        }
        if record.cancel.is_cancelled() {
            return Err(Failure::new(ErrorCode::Cancelled, "not run: the call was cancelled"));
        }
        let mut prepared = record.add_preparation(prepared)?;
        if call.name == "Bash"
            && let Some(outcome) = self.try_redirect(call, &prepared, record).await
        {
            return outcome;
        }
        let effect = &prepared.target.effect;
        self.refuse_repetition(&format!("the same {} call", call.name), prepared.key, effect)?;
        let circuit = circuit_of(&call.name, effect);
        let now = self.events.clock().now();
        if let Err(seconds_left) = self.state().breaker.admit_call(&circuit, now) {
            let message = format!(
                "Tool temporarily disabled: {} failed several times in a row; {seconds_left} s left",
                call.name
            );
            return Err(Failure::new(ErrorCode::CircuitOpen, message)
                .with_hint("use another tool, or continue with another part of the task"));
        }
        self.load_expected_snapshot(&mut prepared).await;
        let permission = self.permit(call, &mut prepared, record).await;
        // If it is refused, the tool did not run: the trial call is still open.
        permission.inspect_err(|_| self.state().breaker.release_call(&circuit))?;
        self.execute(call, prepared, record).await
    }

    async fn execute(
        &self,
        call: &ToolCall,
        prepared: PreparedCall<'_>,
        record: &mut CallInProgress,
    ) -> Result<Report, Failure> {
        let mut cx = self.call_cx(&call.id, &prepared, record.cancel.clone());
        let PreparedCall { entry, input, target, snapshot, key, .. } = prepared;
        let effect = &target.effect;
        match effect {
            Effect::Command { .. } => {
                cx.rights = self.command_rights(&call.name, effect, record.is_approved);
                self.apply_denied_paths();
            }
            Effect::Fetch { .. } => {
                cx.is_host_named = self.permissions().policy.names_host(effect);
            }
            _ => {}
        }
        if effect.writes() && !cx.rights.read_only {
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
        if let Some(seen) = &snapshot {
            record
                .input
                .insert(arguments::SNAPSHOT_FIELDS[0].to_owned(), seen.stat.mtime_ms().into());
            record.input.insert(arguments::SNAPSHOT_FIELDS[1].to_owned(), seen.stat.size.into());
        }
        let guard = self.acquire_write_lock(effect, cx.rights.read_only, &cx.cancel).await;
        let circuit = circuit_of(&call.name, effect);
        let _guard = guard.inspect_err(|_| self.state().breaker.release_call(&circuit))?;
        let operation = self.checkpoint_before(call, &target, cx.rights).await;
        let epoch = self.state().repetition.epoch;
        self.emit_started(call, effect, record);
        // With the file that a file tool writes, a directory may become a git directory.
        let written = match effect {
            Effect::Write { path } => self.cx.exec.begin_git_comparison(&self.root().join(path)),
            _ => None,
        };
        let run = AssertUnwindSafe(entry.tool.run(input, &cx)).catch_unwind().await;
        let mut outcome =
            run.unwrap_or_else(|panic| Err(panic_failure(&call.name, panic.as_ref())));
        if let Ok(report) = &outcome
            && let Some(id) = report.data.get("background_id").and_then(serde_json::Value::as_str)
        {
            self.state().background_ids.push(id.to_owned());
        }
        if let Some(written) = written {
            output_limits::append_notes(&mut outcome, written.finish(false).into_notes());
        }
        if let Some(operation) = operation {
            record.changed_files =
                self.checkpoint_after(operation, (effect, cx.rights), &mut outcome).await;
        }
        match (effect, &target.resolved_path) {
            (Effect::Read { .. }, Some(path)) => {
                self.record_outside_change(path.absolute(), &outcome).await;
            }
            (Effect::Job { .. }, _) => self.record_background_changes(false),
            (Effect::Agent { .. }, _) => record_agent_outcome(&outcome, record),
            _ => {}
        }
        let mut state = self.state();
        let class = outcome.as_ref().err().map(|failure| failure.code.class(&call.name));
        state.breaker.record_outcome(&circuit, class, self.events.clock().now());
        if may_have_changed_something(effect, &outcome) {
            state.repetition.epoch += 1;
        }
        state.repetition.record_outcome(key, &mut outcome, epoch);
        outcome
    }

    pub(super) fn emit_started(
        &self,
        call: &ToolCall,
        effect: &Effect,
        record: &mut CallInProgress,
    ) {
        record.has_started = true;
        self.events.emit(EventBody::ToolStarted {
            call: call.id.clone(),
            tool: call.name.clone(),
            input: record.input.clone(),
            effect: effect.clone(),
            by: record.caller(),
            parent_call: record.parent.clone(),
            changed_by: record.changed_by,
        });
    }

    /// Creates the envelope of a call, of which up to `share` bytes are shown.
    fn finish_call(
        &self,
        call: &ToolCall,
        outcome: Result<Report, Failure>,
        record: CallInProgress,
        share: usize,
    ) -> ToolCallResult {
        let limits = self.shared.limits;
        let limits = OutputLimits { max_bytes: limits.max_bytes.min(share), ..limits };
        let (outcome, cut) =
            output_limits::limit_output(outcome, &call.name, &limits, &self.cx.spill);
        if let Some(cut) = cut {
            self.mark_unshown(&outcome, &cut);
        }
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
        stats.insert("time_ms".to_owned(), record.time_ms.into());
        let params_input = record.input.clone();
        let result_context = ResultContext { cwd: ".".to_owned(), params_input, path_resolved };
        let mut envelope = Envelope { verdict, data, text, stats, context: result_context };
        // Once, for the model and the log. (A server runs with the user's environment, like a command.) File tools show
        // the model the real text, so that it can be edited; the log masks it.
        if call.name == "Bash" || matches!(record.effect, Some(Effect::Mcp { .. })) {
            self.events.masker().mask_envelope(&mut envelope);
        }
        let envelope = SealedEnvelope::from(envelope);
        self.events.emit(EventBody::ToolFinished {
            call: call.id.clone(),
            tool: call.name.clone(),
            envelope: envelope.clone(),
            synthetic: false,
            by: record.caller(),
            parent_call: record.parent,
        });
        ToolCallResult {
            envelope,
            effect: record.effect,
            missing: record.missing,
            violates_instruction: record.violates_instruction,
            changed: record.changed_files,
            stop_reason: record.stop_reason,
        }
    }

    /// For a call that did not start because a hook ended the turn, or the user sent a message.
    fn cancel_unstarted_call(&self, call: &ToolCall, is_stopped: bool) -> ToolCallResult {
        let failure = if is_stopped {
            Failure::new(ErrorCode::Cancelled, "not run: a hook ended the turn")
        } else {
            Failure::new(ErrorCode::Cancelled, "cancelled: the user sent a message first")
                .with_hint("read it, and repeat the call only if it is still right")
        };
        let input = arguments::envelope_input(call);
        let record = CallInProgress { input, ..CallInProgress::default() };
        self.finish_call(call, Err(failure), record, usize::MAX)
    }

    /// The lines of this result's file that were not shown.
    pub(super) fn mark_unshown(&self, outcome: &Result<Report, Failure>, cut: &CutLines) {
        let (Ok(Report { path, .. }) | Err(Failure { path, .. })) = outcome;
        if let Some(path) = path.as_ref().and_then(|path| self.cx.workspace.resolve(path).ok()) {
            self.cx.workspace.mark_unshown(&path, Some(cut));
        }
    }

    fn command_rights(&self, tool: &str, effect: &Effect, is_approved: bool) -> CommandRights {
        let facts = WorkspaceFacts(&self.cx.workspace);
        let rights = self.permissions().policy.command_rights(tool, effect, is_approved, &facts);
        if !self.is_read_only() {
            return rights;
        }
        CommandRights { read_only: true, network: rights.network, ..CommandRights::default() }
    }

    /// The sandbox denies commands the paths that rules deny file tools.
    fn apply_denied_paths(&self) {
        let (hidden, read_only) = self.permissions().policy.denied_paths();
        let root = self.cx.workspace.root();
        let full = |paths: Vec<DeniedPath>| -> Vec<(PathBuf, String)> {
            paths.into_iter().map(|denied| (root.join(denied.path), denied.reason)).collect()
        };
        let (mut hidden, read_only) = (full(hidden), full(read_only));
        if self.shared.hides_secrets {
            let files = self.cx.secrets.files(&self.cx.workspace).into_iter();
            let reason = "sandbox.hide_secrets".to_owned();
            hidden.extend(files.map(|path| (path, reason.clone())));
        }
        self.cx.exec.close_paths(hidden, read_only);
    }

    pub(super) fn refuse_repetition(
        &self,
        subject: &str,
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
            Effect::Read { .. }
            | Effect::Write { .. }
            | Effect::Skill { .. }
            | Effect::Lookup
            | Effect::Fetch { .. }
            | Effect::WebSearch { .. } => 3,
        };
        let times = self.state().repetition.repeat_count(key);
        if times + 1 < limit {
            return Ok(());
        }
        // If another process changed the file, reading it again is no repetition.
        if let Effect::Read { path } = effect
            && self.cx.workspace.files_changed_since_read(true).contains(path)
        {
            return Ok(());
        }
        Err(Failure::new(
            ErrorCode::RepeatedCall,
            format!("{subject} gave the same answer {times} times running; it was not run again"),
        )
        .with_hint("use the answer you have, change the arguments, or do something else first"))
    }
}

pub(super) type Preparation<'a> = Result<PreparedCall<'a>, InvalidCall>;

/// What a sub-agent did counts as done by the call.
fn record_agent_outcome(outcome: &Result<Report, Failure>, record: &mut CallInProgress) {
    let (Ok(Report { data, .. }) | Err(Failure { data, .. })) = outcome;
    let files = data.get("files_changed").and_then(serde_json::Value::as_array);
    let files = files.into_iter().flatten().filter_map(serde_json::Value::as_str);
    let files = files.map(str::to_owned).collect();
    record.changed_files = ChangedFiles { files, ignored: Vec::new() };
    let ending = data.get("ending").and_then(serde_json::Value::as_str);
    if ending == Some(Ending::PermissionDenied.as_str()) {
        record.missing = MissingPermission::Effect;
    }
}

/// The circuit of a call: each tool of a server has its own, by whatever tool it is called.
fn circuit_of(tool: &str, effect: &Effect) -> String {
    match effect {
        Effect::Mcp { server, tool, .. } => format!("{server}.{tool}"),
        _ => tool.to_owned(),
    }
}

/// A write that was refused changed nothing, but CONFLICT shows that another process did; a command may have
/// changed anything, whatever its result is.
fn may_have_changed_something(effect: &Effect, outcome: &Result<Report, Failure>) -> bool {
    match effect {
        Effect::Write { .. } => {
            outcome.as_ref().err().is_none_or(|failure| failure.code == ErrorCode::Conflict)
        }
        Effect::Command { reads_only, .. } => !reads_only,
        other => other.writes(),
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
