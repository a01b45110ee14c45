//! `--worktree`: the session works in a copy of the project.

use clap::Args;

use tokio_util::sync::CancellationToken;

use crate::app::{OpenError, Options, ProjectCopies, WorkCopy};

#[derive(Clone, Debug, Default, Args)]
pub(super) struct WorktreeOptions {
    /// Work in a git worktree on the branch agent/NAME, below the cache directory; outside of git in a copy
    #[arg(
        long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", hide_default_value = true,
        conflicts_with_all = ["continue_latest", "resume"]
    )]
    pub(super) worktree: Option<String>,
    /// With --worktree: with the uncommitted changes and the untracked files of the project
    #[arg(long, requires = "worktree")]
    pub(super) with_changes: bool,
}

impl WorktreeOptions {
    /// `--worktree "the task"`: a name has no spaces.
    pub(super) fn take_task(&mut self, task: &mut Vec<String>) {
        if let Some(name) = &mut self.worktree
            && task.is_empty()
            && name.contains(char::is_whitespace)
        {
            task.push(std::mem::take(name));
        }
    }

    /// Makes the copy, if one is wanted.
    pub(super) async fn open(
        &self,
        options: &mut Options,
        cancel: &CancellationToken,
    ) -> Result<Option<(ProjectCopies, WorkCopy)>, OpenError> {
        let Some(name) = &self.worktree else { return Ok(None) };
        let copies = ProjectCopies::of(&options.root, &options.config, options.dirs.as_ref())?;
        let name = Some(name.as_str()).filter(|name| !name.is_empty());
        let copy = Box::pin(copies.open_worktree(name, self.with_changes, cancel)).await?;
        options.enter_copy(&copy);
        Ok(Some((copies, copy)))
    }
}

/// Says where the work is, or removes a worktree without changes.
pub(super) fn finish(opened: Option<(ProjectCopies, WorkCopy)>) {
    if let Some((copies, copy)) = opened {
        agent_ui::print_notice(&copies.finish(&copy));
    }
}
