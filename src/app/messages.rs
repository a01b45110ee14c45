//! Operations of an interactive session between its turns.

use std::sync::Arc;

use super::{HostPrograms, OpenError, Options, Session, UndoOptions, Writable, models};
use crate::config::Config;
use crate::exec::Exec;
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::mask::Masker;
use crate::workspace::{Undo, UndoError, Workspace};

/// Limit of a user command's output that is shared with the model.
const MAX_SHARED: usize = 16 * 1024;

impl Session {
    /// The user's controls.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The masker for everything that leaves the program.
    pub fn masker(&self) -> Arc<Masker> {
        self.events.masker().clone()
    }

    /// The project's files.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The directories that its commands may write.
    pub fn writable(&self) -> &Writable {
        &self.writable
    }

    /// Runs its commands, in the sandbox.
    pub fn exec(&self) -> &Arc<Exec> {
        &self.exec
    }

    /// The permission mode, after applying a requested one.
    pub fn mode(&self) -> PermissionMode {
        self.kernel.mode()
    }

    /// Shares the output of a user's command with the model.
    pub fn share(&mut self, command: &str, output: &str, exit_code: Option<i32>) {
        let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_SHARED));
        let cut = if from > 0 { "…\n" } else { "" };
        self.kernel.record_user_command(command, &format!("{cut}{}", &output[from..]), exit_code);
    }

    /// Replaces the older part of the conversation by a summary. `false`: there is nothing to replace.
    pub async fn compact(&mut self, focus: Option<&str>) -> Result<bool, String> {
        let compacted = self.kernel.compact(focus).await;
        compacted.map_err(|ending| format!("the summary could not be written: {}", ending.as_str()))
    }

    /// Undoes changes of files, or redoes them.
    pub fn undo(&mut self, what: Undo, options: UndoOptions) -> Result<(), String> {
        self.kernel.settle_background(false);
        if self.kernel.has_background() && !options.force {
            return Err("a command is running in the background and may still write; end it, or use /undo force"
                .to_owned());
        }
        let report = self.workspace.undo(what, options).map_err(|error| match error {
            UndoError::Nothing if what == Undo::Redo => "there is no undo to redo".to_owned(),
            UndoError::Nothing => "there is no change to undo".to_owned(),
            UndoError::Shared(_) => error.to_string().replace("--force", "/undo force"),
            UndoError::Failed(_) => error.to_string(),
        })?;
        let files = report.files.iter().map(|(path, how)| (path.clone(), how.to_string()));
        self.kernel.record_undo(report.turns.0, files.collect(), report.is_complete());
        if report.leaves_git {
            return Err("HEAD, the index and refs are left as they are; to restore them too: /redo, then /undo git"
                .to_owned());
        }
        Ok(())
    }

    /// Changes the model, if its server can be reached. Returns what the user should know about the server.
    pub async fn answer_with(
        &mut self,
        options: &Options,
        model: &str,
    ) -> Result<Option<String>, OpenError> {
        let config = Config { model: model.to_owned(), ..options.config.config.clone() };
        let outside = HostPrograms::of(&self.writable);
        let opened = models::open_model(&config, &outside, &self.control).await?;
        if let Some(key) = opened.key()
            && self.events.masker().mask(&key) == key
        {
            return Err(OpenError::Usage(format!(
                "{model}: its key is not known to this session, which could not hide it; start with \
                 `agent -c --model {model}`"
            )));
        }
        let warning = opened.check().await?;
        self.kernel.answer_with(opened.speaker);
        Ok(warning)
    }

    /// The current model's context window in tokens.
    pub fn context_window(&self) -> u64 {
        self.kernel.context_window()
    }

    /// The current model.
    pub fn model(&self) -> &str {
        self.kernel.model()
    }
}
