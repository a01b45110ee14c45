//! Brings the changes of a session that worked in a copy of the project into the project.

use std::path::{Path, PathBuf};

use super::checkpoints::checkpoint_settings;
use super::sandbox_facts::git_guard;
use super::toolbox::{build_policy, open_workspace};
use super::{OpenError, Options, RecordedSession, StateDirs, Storage, WritableDirs};
use crate::config::Config;
use agent_engine::tools::WorkspaceFacts;
use agent_host::workspace::{
    CheckpointSettings, TakeOverError, UndoOptions, UndoOutcome, UndoTarget,
};
use agent_protocol::control::Ruling;
use agent_protocol::disk;
use agent_protocol::event::EventBody;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::tool::Effect;

/// Changes that are in the project, as the last turn of the session, until they are kept or taken back.
pub struct TakeOver {
    session: RecordedSession,
    storage: Storage,
    id: String,
    n_files: usize,
}

impl TakeOver {
    /// `options`: of a session in the project. From now on an undo of the session concerns the project. If this process
    /// is killed, [`revert_unfinished`] takes the changes back.
    pub fn begin(options: &Options, id: &str, copy: &Path) -> Result<Self, OpenError> {
        let (config, storage) = (&options.config.config, options.session_storage());
        let own = StateDirs::new(options.dirs.as_ref());
        let copy = open_workspace(copy, &[], &own)?;
        let settings = checkpoint_settings(config, &copy.roots(), &storage, id)?;
        let writable = WritableDirs::from_config(config, &options.root, &[]);
        let mode = options.config.mode_or(options.default_mode);
        let policy = build_policy(&options.config, &writable, mode, true)?;
        let failed = |why: String| OpenError::Failed(format!("session {id}: {why}"));
        let store = storage.take_overs().join(id);
        let settings = CheckpointSettings {
            store: store.join("checkpoints"),
            session: store.clone(),
            ..settings
        };
        let copy = copy.with_checkpoints(settings);
        let begin = || storage.begin_take_over(id);
        let place = (&*options.root, &[][..], &own);
        let opened = RecordedSession::open_after(place, &storage, id, config, begin);
        let session = opened.inspect_err(|_| storage.end_take_over(id, false))?;
        let mut this = Self { session, storage, id: id.to_owned(), n_files: 0 };
        let workspace = &this.session.workspace;
        let refusal = |path: &Path| {
            let path = path.to_string_lossy().into_owned();
            let facts = WorkspaceFacts(workspace);
            match policy.rule_on("Write", &Effect::Write { path }, &facts) {
                Ruling::Allow(_) => None,
                Ruling::Ask(why) | Ruling::Refuse(_, why) => Some(why.text),
            }
        };
        let turn = this.session.last_turn();
        let (taken, compared) =
            git_guard(workspace).around(|| workspace.take_over(&copy, turn, &refusal));
        compared.into_notes().iter().for_each(|note| agent_ui::print_notice(note));
        let error = match taken {
            Ok(n_files) => {
                this.n_files = n_files;
                return Ok(this);
            }
            Err(error) => error,
        };
        let conflict = if matches!(error, TakeOverError::Refused(_)) { "CONFLICT: " } else { "" };
        this.revert().map_err(|left| failed(format!("{error}; in the project is left: {left}")))?;
        Err(failed(format!("{conflict}{error}")))
    }

    /// The session works in the project from now on. Returns the number of files.
    pub fn keep(self, prompts: &Prompts) -> usize {
        const TAKEN_OVER: Prompt = Prompt::named("feedback/taken_over.md");
        let text = prompts.text(TAKEN_OVER).trim_end().to_owned();
        self.storage.end_take_over(&self.id, true);
        self.session.events.emit(EventBody::Feedback { text, files: Vec::new() });
        self.n_files
    }

    /// The session works in its copy again, unless something else has changed a file since.
    pub fn revert(self) -> Result<(), OpenError> {
        let options = UndoOptions { confirmed: true, ..UndoOptions::default() };
        let target = UndoTarget::Turn(self.session.last_turn());
        // Nothing may be recorded yet.
        let undone = self.session.undo_unrecorded(target, options)?;
        let is_left = |(_, how): &(String, UndoOutcome)| matches!(how, UndoOutcome::Refused(_));
        let left = undone.and_then(|report| report.files.into_iter().find(is_left));
        self.storage.end_take_over(&self.id, left.is_some());
        let Some((path, how)) = left else { return Ok(()) };
        let id = self.storage.short_id(&self.id);
        let why = format!("{path}: {how}; `agent session undo {id} --force` takes it back");
        Err(OpenError::Failed(why))
    }
}

/// Takes back what killed processes brought into the project, in whole or in part, and did not keep: their sessions work in
/// their copies again. Returns their ids, each with a notice.
pub fn revert_unfinished(root: &Path, storage: &Storage, config: &Config) -> Vec<(String, String)> {
    let own = StateDirs::find();
    let mut reverted = Vec::new();
    for entry in std::fs::read_dir(storage.take_overs()).into_iter().flatten().flatten() {
        let Ok(id) = entry.file_name().into_string() else { continue };
        // The process that has the session may do it now, or be about to keep the result.
        let is_left = || std::fs::metadata(entry.path()).map(drop);
        let place = (root, &[][..], &own);
        let opened = RecordedSession::open_after(place, storage, &id, config, is_left);
        let Ok(session) = opened else { continue };
        let short = storage.short_id(&id);
        let what = format!("session {short}: its process ended while its result was taken over");
        let unkept = TakeOver { session, storage: storage.clone(), id: id.clone(), n_files: 0 };
        let notice = match unkept.revert() {
            Ok(()) => format!("{what}; the project is as before, the result is in its copy"),
            Err(error) => format!("{what}, and the project has changed since: {error}"),
        };
        reverted.push((id, notice));
    }
    reverted
}

impl Storage {
    /// The folders of sessions whose results are being taken over, each with the session's operations in its copy.
    pub(super) fn take_overs(&self) -> PathBuf {
        self.sessions_folder().with_file_name("take-over")
    }

    /// Sets the operations in the copy aside, where no undo finds them.
    fn begin_take_over(&self, id: &str) -> std::io::Result<()> {
        disk::create_folder_all(&self.take_overs(), 0o700)?;
        std::fs::rename(self.operations_dir(id), self.take_overs().join(id))
    }

    fn end_take_over(&self, id: &str, is_kept: bool) {
        let store = self.take_overs().join(id);
        if is_kept {
            _ = self.discard(&store);
        } else {
            _ = std::fs::rename(store, self.session_dir(id).join(super::storage::WORK_COPY));
        }
    }
}
