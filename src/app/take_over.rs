//! Brings the changes of a session that worked in a copy of the project into the project.

use std::path::{Path, PathBuf};

use super::checkpoints::checkpoint_settings;
use super::toolbox::{build_policy, open_workspace};
use super::{OpenError, Options, RecordedSession, StateDirs, Storage, WritableDirs};
use agent_engine::tools::WorkspaceFacts;
use agent_host::workspace::{
    CheckpointSettings, TakeOverError, UndoOptions, UndoOutcome, UndoTarget,
};
use agent_protocol::control::Ruling;
use agent_protocol::event::EventBody;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::tool::Effect;

/// Changes that are in the project, as the last turn of the session, until they are kept or taken back.
pub struct TakeOver {
    session: RecordedSession,
    storage: Storage,
    id: String,
    files: Vec<String>,
}

impl TakeOver {
    /// `options`: of a session in the project. From now on an undo of the session concerns the project, also if this
    /// process is killed.
    pub fn begin(options: &Options, id: &str, copy: &Path) -> Result<Self, OpenError> {
        let (config, storage) = (&options.config.config, options.session_storage());
        let own = StateDirs::new(options.dirs.as_ref());
        let copy = open_workspace(copy, &[], &own)?;
        let settings = checkpoint_settings(config, &copy.roots(), &storage, id)?;
        let writable = WritableDirs::from_config(config, &options.root, &[]);
        let mode = options.config.mode_or(options.default_mode);
        let policy = build_policy(&options.config, &writable, mode, true)?;
        let failed = |why: String| OpenError::Failed(format!("session {id}: {why}"));
        let store = storage.begin_take_over(id).map_err(|error| failed(error.to_string()))?;
        let settings = CheckpointSettings {
            store: store.join("checkpoints"),
            session: store.clone(),
            ..settings
        };
        let copy = copy.with_checkpoints(settings);
        let opened = RecordedSession::open((&options.root, &[], &own), &storage, id, config);
        let session = opened.inspect_err(|_| storage.end_take_over(id, false))?;
        let refusal = |path: &Path| {
            let path = path.to_string_lossy().into_owned();
            let facts = WorkspaceFacts(&session.workspace);
            match policy.rule_on("Write", &Effect::Write { path }, &facts) {
                Ruling::Allow(_) => None,
                Ruling::Ask(why) | Ruling::Refuse(_, why) => Some(why.text),
            }
        };
        match session.workspace.take_over(&copy, session.last_turn(), &refusal) {
            Ok(files) => Ok(Self { session, storage, id: id.to_owned(), files }),
            Err(error) => {
                if let TakeOverError::Incomplete(_) = error {
                    let next = format!("`agent session undo {id} --force` takes it back");
                    return Err(failed(format!("{error}; {next}")));
                }
                storage.end_take_over(id, false);
                let is_conflict = matches!(error, TakeOverError::Refused(_));
                Err(failed(format!("{}{error}", if is_conflict { "CONFLICT: " } else { "" })))
            }
        }
    }

    /// The session works in the project from now on. Returns the number of files.
    pub fn keep(self, prompts: &Prompts) -> usize {
        const TAKEN_OVER: Prompt = Prompt::named("feedback/taken_over.md");
        let text = prompts.text(TAKEN_OVER).trim_end().to_owned();
        let body = EventBody::Feedback { text, files: Vec::new() };
        self.session.events.emit(body);
        self.storage.end_take_over(&self.id, true);
        self.files.len()
    }

    /// The session works in its copy again.
    pub fn revert(self) -> Result<(), OpenError> {
        let options = UndoOptions { confirmed: true, ..UndoOptions::default() };
        let undone = self.session.undo(UndoTarget::Turn(self.session.last_turn()), options)?;
        let is_left = |how: &UndoOutcome| matches!(how, UndoOutcome::Refused(_));
        if let Some((path, how)) = undone.files.iter().find(|(_, how)| is_left(how)) {
            return Err(OpenError::Failed(format!("{path}: {how}")));
        }
        self.storage.end_take_over(&self.id, false);
        Ok(())
    }
}

impl Storage {
    /// Sets the operations in the copy aside, where no undo finds them.
    fn begin_take_over(&self, id: &str) -> std::io::Result<PathBuf> {
        let store = self.session_dir(id).join(TAKE_OVER);
        std::fs::rename(self.operations_dir(id), &store)?;
        Ok(store)
    }

    fn end_take_over(&self, id: &str, is_kept: bool) {
        let store = self.session_dir(id).join(TAKE_OVER);
        if is_kept {
            _ = agent_protocol::disk::remove_folder(&store);
        } else {
            _ = std::fs::rename(store, self.session_dir(id).join(super::storage::WORK_COPY));
        }
    }
}

/// A folder of a session whose changes are being taken over.
const TAKE_OVER: &str = "take-over";
