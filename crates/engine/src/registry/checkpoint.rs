//! Takes checkpoints before and after calls that may write.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Registry;
use super::call::WriteTurn;
use crate::tools::{Target, ToolCx};
use agent_host::workspace::{Begun, Changed, Scope, USER_PROGRAMS};
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::event::Body;
use agent_protocol::tool::{Effect, Rights};

/// Limit: paths that are listed in `data.files_changed`; more are counted.
const MAX_NAMED: usize = 200;

/// The checkpoint before programs of the user: hooks or checks.
pub struct BeforeUserPrograms<'a> {
    begun: Begun,
    _turn: Option<WriteTurn<'a>>,
}

impl Registry {
    /// Tells the policy whether what this command changes can be undone.
    pub(super) async fn check_coverage(&self, effect: &Effect) {
        if !matches!(effect, Effect::Command { reads_only: false, .. }) {
            return;
        }
        let gap = match self.cx.workspace.checkpoints().map(Arc::clone) {
            None => return self.permissions().policy.set_checkpoints(false),
            Some(checkpoints) => {
                let gap = tokio::task::spawn_blocking(move || checkpoints.gap()).await;
                gap.unwrap_or_else(|error| Some(error.to_string()))
            }
        };
        let mut state = self.permissions();
        state.policy.set_checkpoints(gap.is_none());
        let is_first = gap.is_some() && !std::mem::replace(&mut state.is_gap_reported, true);
        drop(state);
        if let Some(gap) = gap.filter(|_| is_first) {
            self.session.events.emit(Body::error("workspace", format!(
                    "some changes of commands cannot be undone: {gap}; until that is fixed, destructive commands need approval"
                )));
        }
    }

    /// Takes a checkpoint before a call that may write.
    pub(super) async fn checkpoint_before(
        &self,
        tool: &str,
        target: &Target,
        rights: Rights,
    ) -> Option<Begun> {
        let checkpoints = Arc::clone(self.cx.workspace.checkpoints()?);
        let scope = match (&target.effect, &target.checked_path) {
            (Effect::Write { .. }, Some(checked_path)) => {
                Scope::File(checked_path.path().absolute().to_path_buf())
            }
            (Effect::Command { .. }, _) if !rights.read_only => Scope::Project,
            (Effect::Mcp { reads_only: false, .. }, _) => Scope::Project,
            _ => return None,
        };
        let tool = tool.to_owned();
        tokio::task::spawn_blocking(move || checkpoints.before(&tool, scope)).await.ok()
    }

    /// Takes the checkpoint after it; what the call changed.
    pub(super) async fn checkpoint_after(
        &self,
        begun: Begun,
        effect: &Effect,
        outcome: &mut Result<Report, Failure>,
    ) -> Changed {
        let Some(checkpoints) = self.cx.workspace.checkpoints().map(Arc::clone) else {
            return Changed::default();
        };
        let job = outcome.as_ref().ok().and_then(|report| report.data.get("background_id"));
        if let Some(id) = job.and_then(Value::as_str) {
            // The change belongs to the command until it ends.
            self.state().background.push((id.to_owned(), begun));
            return Changed::default();
        }
        let after = tokio::task::spawn_blocking(move || checkpoints.after(begun, false)).await;
        let changed = match after {
            Ok(Ok(changed)) => changed,
            Ok(Err(error)) => {
                let note = format!(" Note: this change cannot be undone: {error}.");
                match outcome {
                    Ok(report) => report.text.push_str(&note),
                    Err(failure) if failure.text.is_empty() => failure.message.push_str(&note),
                    Err(failure) => failure.text.push_str(&note),
                }
                Changed::default()
            }
            Err(_) => Changed::default(),
        };
        if matches!(effect, Effect::Command { .. }) {
            let data = match outcome {
                Ok(report) => &mut report.data,
                Err(failure) => &mut failure.data,
            };
            name_changed(data, &changed);
        }
        changed
    }

    /// Takes a checkpoint before hooks or checks, after a call if they belong to one. Other agents wait with their
    /// changes.
    pub async fn before_user_programs(
        &self,
        call: &str,
        cancel: CancellationToken,
    ) -> Option<BeforeUserPrograms<'_>> {
        let checkpoints = Arc::clone(self.cx.workspace.checkpoints()?);
        let effect = Effect::Write { path: String::new() };
        let cx = ToolCx { cancel, ..self.cx.clone() };
        let turn = self.turn_to_write(&effect, &cx).await.ok();
        let take = move || checkpoints.before(USER_PROGRAMS, Scope::Project);
        let begun = tokio::task::spawn_blocking(take).await.ok()?;
        Some(BeforeUserPrograms { begun: begun.of_call(call), _turn: turn })
    }

    /// What they changed.
    pub async fn after_user_programs(&self, begun: BeforeUserPrograms<'_>) -> Changed {
        let Some(checkpoints) = self.cx.workspace.checkpoints().map(Arc::clone) else {
            return Changed::default();
        };
        let BeforeUserPrograms { begun, _turn } = begun;
        let after = tokio::task::spawn_blocking(move || checkpoints.after(begun, false)).await;
        // (A failure means that these changes cannot be undone.)
        after.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Notes a change from outside that a call has read.
    pub(super) async fn note_read(&self, target: &Path, outcome: &Result<Report, Failure>) {
        let Ok(report) = outcome else { return };
        let Some(checkpoints) = self.cx.workspace.checkpoints().map(Arc::clone) else { return };
        let number = |name: &str| report.stats.get(name);
        let mtime = number("file_mtime_ms").and_then(Value::as_i64);
        let size = number("file_size_bytes").and_then(Value::as_u64);
        let Some((mtime, size)) = mtime.zip(size) else { return };
        if checkpoints.is_unexpected(target, mtime, size) {
            let path = target.to_owned();
            let look = move || checkpoints.look_at(&path, mtime, size);
            // (A failure means that a replay reports a difference.)
            _ = tokio::task::spawn_blocking(look).await;
        }
    }

    /// The latest turn whose background commands still run.
    pub fn background_turn(&self) -> Option<u32> {
        self.state().background.iter().map(|(_, begun)| begun.turn()).max()
    }

    /// Takes the checkpoints after background commands that ended; `all`: that every one has.
    pub fn settle_background(&self, all: bool) {
        let Some(checkpoints) = self.cx.workspace.checkpoints() else { return };
        let held = std::mem::take(&mut self.state().background);
        let (ended, running): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(id, _)| all || !self.cx.exec.is_running(id));
        self.state().background.extend(running);
        for (_, begun) in ended {
            // A failure means that the changes cannot be undone; the command has ended.
            _ = checkpoints.after(begun, true);
        }
    }
}

fn name_changed(data: &mut Object, changed: &Changed) {
    let named: Vec<Value> =
        changed.files.iter().take(MAX_NAMED).map(|path| path.as_str().into()).collect();
    data.insert("files_changed".to_owned(), named.into());
    if let more @ 1.. = changed.files.len().saturating_sub(MAX_NAMED) {
        data.insert("more_files_changed".to_owned(), more.into());
    }
    if let ignored @ 1.. = changed.ignored.len() {
        data.insert("ignored_files_changed".to_owned(), ignored.into());
    }
}
