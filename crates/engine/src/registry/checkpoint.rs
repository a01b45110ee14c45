//! Takes checkpoints before and after calls that may write.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::{Registry, output_limits};
use crate::tools::{CallTarget, shorten_command};
use agent_host::git_guard::{GitGuard, GuardReport};
use agent_host::workspace::{
    ChangedFiles, Checkpoints, OpenOperation, OperationScope, USER_PROGRAMS, UndoError,
    UndoOptions, UndoOutcome, UndoReport, UndoTarget, Workspace, is_cache,
};
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::event::EventBody;
use agent_protocol::message::ToolCall;
use agent_protocol::tool::{CommandRights, Effect};

/// Limit: paths that are listed in `data.files_changed`, which leaves out caches; more are counted.
const MAX_LISTED_FILES: usize = 200;

/// Exclusive for operations whose checkpoint must hold only their own changes; shared for calls that may overlap each
/// other, but not an exclusive one.
type WriteGuard<'a> = (Option<RwLockWriteGuard<'a, ()>>, Option<RwLockReadGuard<'a, ()>>);

impl Registry {
    /// Tells the policy whether what this command changes can be undone.
    pub(super) async fn update_checkpoint_coverage(&self, effect: &Effect) {
        if !matches!(effect, Effect::Command { reads_only: false, .. }) {
            return;
        }
        let gap = match self.cx.workspace.checkpoints().map(Arc::clone) {
            None => return self.permissions().policy.set_checkpoints(false),
            Some(checkpoints) => {
                let gap = tokio::task::spawn_blocking(move || checkpoints.coverage_gap()).await;
                gap.unwrap_or_else(|error| Some(error.to_string()))
            }
        };
        let mut permissions = self.permissions();
        permissions.policy.set_checkpoints(gap.is_none());
        let is_first = gap.is_some() && !std::mem::replace(&mut permissions.is_gap_reported, true);
        drop(permissions);
        if let Some(gap) = gap.filter(|_| is_first) {
            self.shared.events.emit(EventBody::error("workspace", format!(
                    "some changes of commands cannot be undone: {gap}; until that is fixed, destructive commands need approval"
                )));
        }
    }

    pub(super) async fn checkpoint_before(
        &self,
        call: &ToolCall,
        target: &CallTarget,
        rights: CommandRights,
    ) -> Option<OpenOperation> {
        let checkpoints = Arc::clone(self.cx.workspace.checkpoints()?);
        let scope = match (&target.effect, &target.resolved_path) {
            (Effect::Write { .. }, Some(resolved_path)) => {
                OperationScope::File(resolved_path.absolute().to_path_buf())
            }
            (Effect::Command { .. }, _) if !rights.read_only => OperationScope::Project,
            (Effect::Mcp { reads_only: false, .. }, _) => OperationScope::Project,
            _ => return None,
        };
        let (id, tool) = (call.id.clone(), call.name.clone());
        let author = match &target.effect {
            Effect::Command { command, .. } => format!("`{}`", shorten_command(command)),
            Effect::Write { .. } => format!("another agent's {tool}"),
            _ => tool.clone(),
        };
        let author = self.events.masker().mask(&author).into_owned();
        let guard = self.cx.exec.git_guard().map(Arc::clone);
        let begin = move || {
            let set = |found: Option<&BTreeSet<PathBuf>>| {
                guard.as_ref().is_some_and(|guard| guard.set_nested(found))
            };
            checkpoints.begin_operation(&tool, scope, &set).with_call(id, author)
        };
        tokio::task::spawn_blocking(begin).await.ok()
    }

    /// Finishes an operation, and checks the repositories that it made. Blocks.
    fn finish_operation(
        checkpoints: &Checkpoints,
        guard: Option<&GitGuard>,
        operation: OpenOperation,
        (is_background, rights): (bool, CommandRights),
    ) -> (std::io::Result<ChangedFiles>, GuardReport) {
        let report = RefCell::default();
        let check = |found: Option<&BTreeSet<PathBuf>>| {
            let compared = guard.map(|guard| guard.compare_new(rights, found));
            *report.borrow_mut() = compared.unwrap_or_default();
            *report.borrow() != GuardReport::default()
        };
        let changed = checkpoints.finish_operation(operation, is_background, &check);
        (changed, report.into_inner())
    }

    /// Returns what the call changed.
    pub(super) async fn checkpoint_after(
        &self,
        operation: OpenOperation,
        (effect, rights): (&Effect, CommandRights),
        outcome: &mut Result<Report, Failure>,
    ) -> ChangedFiles {
        let Some(checkpoints) = self.cx.workspace.checkpoints().map(Arc::clone) else {
            return ChangedFiles::default();
        };
        let job = outcome.as_ref().ok().and_then(|report| report.data.get("background_id"));
        if let Some(id) = job.and_then(Value::as_str) {
            // The change belongs to the command until it ends.
            self.state().unrecorded_background.push((id.to_owned(), operation));
            return ChangedFiles::default();
        }
        let guard = self.cx.exec.git_guard().map(Arc::clone);
        let finish = move || {
            Self::finish_operation(&checkpoints, guard.as_deref(), operation, (false, rights))
        };
        let finished = tokio::task::spawn_blocking(finish).await;
        let (changed, report) =
            finished.unwrap_or_else(|_| (Ok(ChangedFiles::default()), GuardReport::default()));
        let mut notes = report.into_notes();
        let changed = changed.unwrap_or_else(|error| {
            notes.push(format!("this change cannot be undone: {error}"));
            ChangedFiles::default()
        });
        output_limits::append_notes(outcome, notes);
        if matches!(effect, Effect::Command { .. }) {
            let (Ok(Report { data, .. }) | Err(Failure { data, .. })) = outcome;
            let is_cached = |path: &&String| {
                let directories = Path::new(path).ancestors().skip(1);
                let mut inside = directories.take_while(|path| !path.as_os_str().is_empty());
                inside.any(|path| is_cache(&self.root().join(path)))
            };
            let mut news = changed.files.iter().filter(|path| !is_cached(path));
            let listed = news.by_ref().take(MAX_LISTED_FILES);
            let listed: Vec<Value> = listed.map(|path| path.as_str().into()).collect();
            data.insert("files_changed".to_owned(), listed.into());
            if let more @ 1.. = news.count() {
                data.insert("more_files_changed".to_owned(), more.into());
            }
            if let ignored @ 1.. = changed.ignored.len() {
                data.insert("ignored_files_changed".to_owned(), ignored.into());
            }
        }
        changed
    }

    /// Undoes operations of the session.
    pub fn undo(&self, target: UndoTarget, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let guard = self.cx.exec.git_guard().map(Arc::as_ref);
        undo_with_comparison(&self.cx.workspace, guard, target, options)
    }

    /// Waits until no operation of another agent writes, if the call may write or its checkpoint covers the project.
    pub(super) async fn acquire_write_lock(
        &self,
        effect: &Effect,
        is_read_only: bool,
        cancel: &CancellationToken,
    ) -> Result<WriteGuard<'_>, Failure> {
        let lock = &self.shared.write_lock;
        let guard = async {
            match effect {
                Effect::Mcp { reads_only: false, .. } => (None, Some(lock.read().await)),
                Effect::Command { reads_only: true, .. } if !is_read_only => {
                    (None, Some(lock.read().await))
                }
                Effect::Write { .. } | Effect::Command { .. } if !is_read_only => {
                    (Some(lock.write().await), None)
                }
                _ => (None, None),
            }
        };
        let why = "not run: it was interrupted while another agent's operation ran";
        let guard = cancel.run_until_cancelled(guard).await;
        guard.ok_or_else(|| Failure::new(ErrorCode::Cancelled, why))
    }

    /// Runs hooks or checks, after a call if they belong to one; also returns what they changed. If they may write, other
    /// agents wait with their changes.
    pub async fn run_user_programs<T>(
        &self,
        call: &str,
        may_write: bool,
        cancel: &CancellationToken,
        programs: impl Future<Output = T>,
    ) -> (T, ChangedFiles) {
        let checkpoints = self.cx.workspace.checkpoints().filter(|_| may_write).map(Arc::clone);
        let Some(checkpoints) = checkpoints else {
            return (programs.await, ChangedFiles::default());
        };
        let effect = Effect::Write { path: String::new() };
        let _guard = self.acquire_write_lock(&effect, false, cancel).await;
        let before = Arc::clone(&checkpoints);
        let begin =
            move || before.begin_operation(USER_PROGRAMS, OperationScope::Project, &|_| false);
        let operation = tokio::task::spawn_blocking(begin).await;
        let (call, author) = (call.to_owned(), "a hook or check".to_owned());
        let operation = operation.map(|operation| operation.with_call(call, author));
        let result = programs.await;
        let Ok(operation) = operation else { return (result, ChangedFiles::default()) };
        let guard = self.cx.exec.git_guard().map(Arc::clone);
        let kind = (false, CommandRights::default());
        let finish =
            move || Self::finish_operation(&checkpoints, guard.as_deref(), operation, kind);
        let Ok((changed, report)) = tokio::task::spawn_blocking(finish).await else {
            return (result, ChangedFiles::default());
        };
        self.report_comparison(report);
        // (A failure means that these changes cannot be undone.)
        (result, changed.unwrap_or_default())
    }

    /// Notes a change from outside that a call has read.
    pub(super) async fn record_outside_change(
        &self,
        target: &Path,
        outcome: &Result<Report, Failure>,
    ) {
        let Ok(report) = outcome else { return };
        let Some(checkpoints) = self.cx.workspace.checkpoints().map(Arc::clone) else { return };
        let number = |name: &str| report.stats.get(name);
        let mtime = number("file_mtime_ms").and_then(Value::as_i64);
        let size = number("file_size_bytes").and_then(Value::as_u64);
        let Some((mtime, size)) = mtime.zip(size) else { return };
        if checkpoints.is_unexpected(target, mtime, size) {
            let path = target.to_owned();
            let look = move || checkpoints.inspect_read_file(&path, mtime, size);
            // (A failure means that a replay reports a difference.)
            _ = tokio::task::spawn_blocking(look).await;
        }
    }

    /// The latest turn whose background commands still run.
    pub fn latest_background_turn(&self) -> Option<u32> {
        self.state().unrecorded_background.iter().map(|(_, operation)| operation.turn()).max()
    }

    /// Takes the checkpoints after background commands that ended; `all`: that every one has.
    pub fn record_background_changes(&self, all: bool) {
        let Some(checkpoints) = self.cx.workspace.checkpoints() else { return };
        let unrecorded = std::mem::take(&mut self.state().unrecorded_background);
        let (ended, running): (Vec<_>, Vec<_>) = unrecorded
            .into_iter()
            .partition(|(id, _)| all || !self.cx.exec.is_background_running(id));
        self.state().unrecorded_background.extend(running);
        for (_, operation) in ended {
            // A failure means that the changes cannot be undone; the command has ended.
            let guard = self.cx.exec.git_guard().map(Arc::as_ref);
            let kind = (true, CommandRights::default());
            let (_, report) = Self::finish_operation(checkpoints, guard, operation, kind);
            self.report_comparison(report);
        }
    }

    /// Compares git's state at the end of the session, when all processes have ended.
    pub async fn finish_comparison(&self) {
        let Some(guard) = self.cx.exec.git_guard().map(Arc::clone) else { return };
        let end = tokio::task::spawn_blocking(move || guard.end());
        self.report_comparison(end.await.unwrap_or_default());
    }

    /// Reports what a comparison of git's state reverted outside of a call.
    fn report_comparison(&self, report: GuardReport) {
        for text in report.into_notes() {
            self.shared.events.emit(EventBody::error("workspace", text));
        }
    }
}

/// Undoes operations; what git would execute then and did not before is reverted, and counts as left as it is.
pub fn undo_with_comparison(
    workspace: &Workspace,
    guard: Option<&GitGuard>,
    target: UndoTarget,
    options: UndoOptions,
) -> Result<UndoReport, UndoError> {
    let Some(guard) = guard else { return workspace.undo(target, options) };
    let (outcome, compared) = guard.around(|| workspace.undo(target, options));
    let mut report = outcome?;
    let notes = compared.into_notes().into_iter();
    report.files.extend(notes.map(|note| ("git".to_owned(), UndoOutcome::Refused(note))));
    Ok(report)
}
