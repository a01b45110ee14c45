//! Operations of an interactive session between its turns.

use std::path::PathBuf;
use std::sync::Arc;

use super::project::ProjectFiles;
use super::toolbox::check_memory_outside;
use super::undo::{nothing_to_undo, undo_event};
use super::{
    HostPrograms, OpenError, Options, Session, Storage, UndoOptions, WritableDirs, models,
};
use agent_engine::context::Project as _;
use agent_engine::mcp::Servers;
use agent_host::exec::{BackgroundCommand, Exec};
use agent_host::workspace::{GitSkipReason, UndoError, UndoReport, UndoTarget, Workspace};
use agent_permission::Rule;
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::event::EventBody;
use agent_protocol::mask::Masker;
use agent_protocol::model::ContextWindow;
use agent_protocol::provider::Effort;
use agent_protocol::shorten;

/// Limit of a user command's output, in bytes: the model receives its end.
const MAX_SHARED: usize = 16 * 1024;
/// Limit of a command in a sentence, in bytes.
const MAX_NAMED: usize = 60;

impl Session {
    pub fn control(&self) -> &SessionControl {
        &self.control
    }

    pub fn masker(&self) -> Arc<Masker> {
        self.events.masker().clone()
    }

    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    pub fn writable(&self) -> &WritableDirs {
        &self.writable
    }

    pub fn exec(&self) -> &Arc<Exec> {
        &self.exec
    }

    pub fn servers(&self) -> Option<&Servers> {
        self.mcp.servers.as_ref()
    }

    /// The permission mode, after applying a requested one.
    pub fn apply_requested_mode(&self) -> PermissionMode {
        self.kernel.registry().update_mode()
    }

    pub fn share_command(&mut self, command: &str, output: &str, exit_code: Option<i32>) {
        let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_SHARED));
        let cut = if from > 0 { "…\n" } else { "" };
        self.kernel.record_user_command(command, &format!("{cut}{}", &output[from..]), exit_code);
    }

    /// Replaces the older part of the conversation by a summary. `false`: there is nothing to replace.
    pub async fn compact(&mut self, focus: Option<&str>) -> Result<bool, String> {
        self.distilling = None;
        let compacted = self.kernel.compact(focus).await;
        compacted.map_err(|ending| format!("the summary could not be written: {}", ending.as_str()))
    }

    /// Returns a hint for the user, if there is one.
    pub fn undo(
        &mut self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<Option<String>, String> {
        let report = match self.run_undo(target, options)? {
            Ok(report) => report,
            Err(UndoError::Nothing) => return Ok(Some(nothing_to_undo(target))),
            Err(error) => return Err(describe_undo_error(&error, target)),
        };
        let turn = report.turns.0;
        // After an undo in part there is nothing to redo first.
        let how = match (report.git_skipped, report.is_complete()) {
            (None, _) => return Ok(None),
            (Some(GitSkipReason::MayHaveFile), _) => {
                format!("{MAY_HAVE_FILE}; /undo {turn} git force restores them anyway")
            }
            (Some(GitSkipReason::NotRequested), true) => {
                format!("to restore them too: /redo, then /undo {turn} git")
            }
            (Some(GitSkipReason::NotRequested), false) => {
                format!("to restore them too: /undo {turn} git")
            }
        };
        Ok(Some(format!("HEAD, the index and refs are left as they are; {how}")))
    }

    pub fn undo_files(
        &mut self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoReport, String> {
        self.run_undo(target, options)?.map_err(|error| describe_undo_error(&error, target))
    }

    /// The outer error is a command that may still write.
    fn run_undo(
        &mut self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<Result<UndoReport, UndoError>, String> {
        self.kernel.registry().record_background_changes(false);
        self.check_running(target, options)?;
        let undone = self.kernel.registry().undo(target, options);
        if let Ok(report) = &undone {
            self.kernel.record(undo_event(report, target));
        }
        Ok(undone)
    }

    pub fn undo_preview(&mut self, target: UndoTarget) -> Result<UndoReport, String> {
        self.kernel.registry().record_background_changes(false);
        let options = UndoOptions::default();
        self.check_running(target, options)?;
        self.workspace
            .undo_preview(target, options)
            .map_err(|error| describe_undo_error(&error, target))
    }

    /// A background command of these turns, or of a later one, may still write.
    fn check_running(&self, target: UndoTarget, options: UndoOptions) -> Result<(), String> {
        let first = self.workspace.turn_to_undo(target);
        if !options.force
            && self.kernel.registry().latest_background_turn() >= Some(first.unwrap_or_default())
            && let Some(running) = self.describe_running()
        {
            return Err(format!(
                "{running} may still write in the background; `/tasks stop ID` ends it, or use /undo force"
            ));
        }
        Ok(())
    }

    /// Names the session; fails if another one of the project has the name.
    pub fn rename(&self, name: &str, storage: &Storage) -> Result<(), String> {
        if self.log_path.is_none() {
            return Err("this session is not recorded: it needs no name".to_owned());
        }
        let name = storage.check_name(self.id(), name)?;
        self.events.emit(EventBody::SessionRenamed { name });
        Ok(())
    }

    /// Records an added directory: it is available when the session is opened again with these options.
    pub fn record_directory(&self, path: PathBuf, options: &Options) -> Result<(), OpenError> {
        let shown = path.display().to_string();
        check_memory_outside(&options.config.config, &[path], options.dirs.as_ref())?;
        self.events.emit(EventBody::DirectoryAdded { path: shown });
        Ok(())
    }

    pub fn has_begun(&self) -> bool {
        self.kernel.has_begun()
    }

    /// Describes the commands that the model started and that still run: they end with the session.
    pub fn describe_running(&self) -> Option<String> {
        let running = self.exec.running_commands();
        let BackgroundCommand { id, line, .. } = running.first()?;
        let line = shorten(line.trim().lines().next().unwrap_or_default(), MAX_NAMED);
        let more = match running.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{id} (`{line}`){more}"))
    }

    /// Adds permission rules for this session that the user wrote; false if none is new.
    pub fn add_rules(&self, list: &str, rules: &[Rule]) -> bool {
        let registry = self.kernel.registry();
        let add = |rule: &&Rule| registry.add_written_rule(format!("{list} {}", rule.text()));
        rules.iter().filter(add).count() > 0
    }

    /// The rules file of the project's root that the model receives first, if there is one.
    pub fn rules_file(&self) -> Option<String> {
        let project = ProjectFiles { workspace: self.workspace.clone() };
        project.rules_in(".", &|_| true).into_iter().next().map(|rules| rules.path)
    }

    /// Changes the model, if its server can be reached, and its effort; without one, the configured effort is
    /// used. Returns what the user should know about the server.
    pub async fn change_model(
        &mut self,
        options: &Options,
        model: &str,
        effort: Option<Effort>,
    ) -> Result<Vec<String>, OpenError> {
        let mut config = options.config.config.clone();
        model.clone_into(&mut config.model);
        config.chosen_effort = effort.map(|effort| (model.to_owned(), effort));
        let programs = HostPrograms::from_writable(&self.writable);
        let prompts = &options.config.prompts;
        let opened = models::open_model(&config, prompts, &programs, &self.control).await?;
        if let Some(key) = opened.key()
            && self.events.masker().mask(&key) == key
        {
            return Err(OpenError::Usage(format!(
                "{model}: its key is not known to this session, which could not hide it; start with \
                 `agent -c --model {model}`"
            )));
        }
        let mut warnings = opened.unsupported_settings();
        warnings.extend(opened.check_listed().await?);
        self.kernel.set_model(opened.configured_model);
        self.chosen_effort = config.chosen_effort;
        warnings.extend(self.kernel.hidden_images_note());
        if self.kernel.has_foreign_reasoning() {
            warnings.push("the reasoning of the other model is not passed on".to_owned());
        }
        if let Some(learning) = &self.learning {
            let request = self.log_path.is_some().then(|| self.kernel.background_requester());
            learning.attach_session(&self.events, request, &Arc::new(prompts.clone()));
        }
        Ok(warnings)
    }

    pub fn effort(&self) -> Option<Effort> {
        self.kernel.configured_model().effort
    }

    pub fn context_window(&self) -> ContextWindow {
        self.kernel.configured_model().window
    }

    pub fn model(&self) -> &str {
        self.kernel.model()
    }
}

/// Why the state of git is left as it is although it was to be restored.
pub const MAY_HAVE_FILE: &str = "git may have the only copy of a file that could not be restored";

fn describe_undo_error(error: &UndoError, target: UndoTarget) -> String {
    match error {
        UndoError::Nothing => nothing_to_undo(target),
        UndoError::Shared { turn, .. } => {
            error.to_string().replace("--force", &format!("/undo {turn} force"))
        }
        UndoError::Failed(_) => error.to_string(),
    }
}
