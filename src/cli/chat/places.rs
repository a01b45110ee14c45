//! State of the chat outside of sessions: earlier messages, the user's own commands, the branch.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::app;
use crate::config::{AGENT_DIR, UserDirs};
use crate::disk::{self, read_small_text, read_small_text_without_links};
use crate::ui::tui::{OwnCommand, built_in};

/// Limits: messages that are offered, and the size at which the file is truncated to them.
const MAX_MESSAGES: usize = 1000;
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Limit: size of a message that is stored.
const MAX_MESSAGE: usize = 64 * 1024;

/// Limit: files that are named in one sentence.
const MAX_NAMED: usize = 5;

/// Paths of the chat's files.
pub(super) struct Places {
    root: PathBuf,
    /// One JSON string per line.
    history: Option<PathBuf>,
    /// The user's own commands.
    commands: Option<PathBuf>,
}

impl Places {
    pub(super) fn new(root: &Path, dirs: Option<&UserDirs>) -> Self {
        let commands = dirs.map(|dirs| dirs.config.join("commands"));
        // (A link may have been created by a command of a session with this folder as its project.)
        let history = dirs.map(|dirs| disk::canonical_prefix(&dirs.state).join("messages.jsonl"));
        Self { root: root.to_path_buf(), history, commands }
    }

    /// The messages sent before, the latest last.
    pub(super) fn history(&self) -> Vec<String> {
        let bytes = self.history.as_ref().and_then(|path| disk::read(path).ok());
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        // An incomplete line after a crash is ignored.
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut messages: Vec<String> = messages.collect();
        messages.drain(..messages.len().saturating_sub(MAX_MESSAGES));
        messages
    }

    /// Stores a message for later sessions, unless it is too large; errors are ignored.
    pub(super) fn remember(&self, message: &str) {
        let Some(path) = self.history.as_ref().filter(|_| message.len() <= MAX_MESSAGE) else {
            return;
        };
        let line = format!("{}\n", serde_json::Value::from(message));
        let open = || disk::append(path, true);
        let file = open().or_else(|_| {
            drop(disk::make_folder(path.parent().unwrap_or(path), 0o700)?);
            open()
        });
        let Ok(mut file) = file else { return };
        _ = file.write_all(line.as_bytes());
        if file.metadata().is_ok_and(|data| data.len() > MAX_BYTES) {
            let kept: String = self
                .history()
                .iter()
                .map(|message| format!("{}\n", serde_json::Value::from(message.as_str())))
                .collect();
            _ = disk::replace(path, kept.as_bytes());
        }
    }

    /// The user's commands and the project's; the user's take precedence. Links in the project are not
    /// followed: they may lead to files that the user does not want to send.
    pub(super) fn commands(&self) -> Vec<OwnCommand> {
        let in_project = self.root.join(AGENT_DIR).join("commands");
        let mut commands = commands_in(&in_project, read_small_text_without_links);
        if let Some(own) = &self.commands {
            let own = commands_in(own, read_small_text);
            commands.retain(|command| own.iter().all(|own| own.name != command.name));
            commands.extend(own);
        }
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        commands
    }

    /// Files that would be commands under a valid name, in one sentence.
    pub(super) fn misnamed(&self) -> Option<String> {
        let folders = std::iter::once(self.root.join(AGENT_DIR).join("commands"));
        let files = folders.chain(self.commands.clone()).flat_map(|folder| files_in(&folder));
        let mut files: Vec<String> = files
            .filter(|(name, _)| !is_name(name))
            .map(|(_, path)| {
                let shown = path.strip_prefix(&self.root).unwrap_or(&path);
                // (Escaped: a name may contain line breaks.)
                format!("{:?}", shown.to_string_lossy())
            })
            .collect();
        files.sort();
        let more = files.len().saturating_sub(MAX_NAMED);
        files.truncate(MAX_NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!files.is_empty()).then(|| {
            format!(
                "no command is made of {}{more}: the name of one is letters, digits, - _ . and :, and none that the \
                 chat itself understands",
                files.join(", ")
            )
        })
    }

    /// The branch that is checked out, if this is a repository.
    pub(super) fn branch(&self) -> Option<String> {
        app::branch(&self.root)
    }
}

fn commands_in(folder: &Path, read: impl Fn(&Path) -> std::io::Result<String>) -> Vec<OwnCommand> {
    let files = files_in(folder).into_iter().filter(|(name, _)| is_name(name));
    let commands = files.filter_map(|(name, path)| {
        let (what, text) = described(&read(&path).ok()?);
        Some(OwnCommand { name, what, text })
    });
    commands.collect()
}

/// The files of commands, each with its name.
fn files_in(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let path = entry.path();
        let is_command = path.extension().is_some_and(|extension| extension == "md");
        let name = path.file_stem()?.to_str().filter(|_| is_command)?.to_owned();
        Some((name, path))
    });
    files.collect()
}

/// A name without arguments that is not one of the chat's own commands: `mode full` would be `/mode`.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    !name.is_empty() && name.chars().all(is_letter) && built_in(name).is_none()
}

/// A command's description and text: `description:` in the front matter, else its first line.
fn described(text: &str) -> (String, String) {
    let first_line = |text: &str| {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim_start_matches('#').trim().to_owned()
    };
    if let Some((front, body)) =
        text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"))
    {
        let what = front.lines().find_map(|line| line.strip_prefix("description:"));
        let what = what.map(|what| what.trim().trim_matches('"').to_owned());
        return (what.unwrap_or_else(|| first_line(body)), body.trim_start().to_owned());
    }
    (first_line(text), text.to_owned())
}
