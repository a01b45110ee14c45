//! State of the chat outside of sessions: earlier messages, the user's own commands, the branch.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::app;
use crate::config::UserDirs;
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::disk;
use agent_protocol::prompt::Prompts;
use agent_ui::tui::find_built_in;

/// Offered messages, and the file size in bytes at which the file is truncated to them.
const MAX_MESSAGES: usize = 1000;
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MAX_MESSAGE: usize = 64 * 1024;

pub(in crate::cli) struct ChatFiles {
    root: PathBuf,
    /// One JSON string per line.
    history: Option<PathBuf>,
    dirs: Option<UserDirs>,
}

impl ChatFiles {
    pub(in crate::cli) fn new(root: &Path, dirs: Option<&UserDirs>) -> Self {
        // A command of a session with this folder as its project may have created a link.
        let history = dirs.map(|dirs| disk::canonical_prefix(&dirs.state).join("messages.jsonl"));
        Self { root: root.to_path_buf(), history, dirs: dirs.cloned() }
    }

    /// The latest last.
    pub(super) fn history(&self) -> Vec<String> {
        let bytes = self.history.as_ref().and_then(|path| disk::read_file(path).ok());
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        // An incomplete line after a crash is ignored.
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut messages: Vec<String> = messages.collect();
        messages.drain(..messages.len().saturating_sub(MAX_MESSAGES));
        messages
    }

    pub(in crate::cli) fn append_history(&self, message: &str) {
        let Some(path) = self.history.as_ref().filter(|_| message.len() <= MAX_MESSAGE) else {
            return;
        };
        let line = format!("{}\n", serde_json::Value::from(message));
        let open = || disk::open_for_append(path, true);
        let file = open().or_else(|_| {
            drop(disk::create_folder_all(path.parent().unwrap_or(path), 0o700)?);
            open()
        });
        let Ok(mut file) = file else { return };
        _ = file.write_all(line.as_bytes());
        if file.metadata().is_ok_and(|data| data.len() > MAX_BYTES) {
            let text: String = self
                .history()
                .iter()
                .map(|message| format!("{}\n", serde_json::Value::from(message.as_str())))
                .collect();
            _ = disk::replace_file(path, text.as_bytes());
        }
    }

    pub(super) fn commands(&self, prompts: &Prompts) -> (Vec<CustomCommand>, Vec<String>) {
        let is_built_in = |name: &str| find_built_in(name).is_some();
        app::own_commands(&self.root, self.dirs.as_ref(), prompts, is_built_in)
    }

    pub(super) fn branch(&self) -> Option<String> {
        app::git_branch(&self.root)
    }
}
