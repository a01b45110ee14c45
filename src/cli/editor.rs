//! Edits text in the user's editor.

use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::app::HostPrograms;
use crate::config::UserDirs;
use agent_host::exec;
use agent_protocol::disk;

/// The text and the editor's working directory are in a private folder, so that files of the
/// project (a replacement of this file, editor settings) have no effect.
pub(super) async fn edit_text(
    text: &str,
    outside: &HostPrograms,
    dirs: Option<&UserDirs>,
) -> Result<String, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let editor = editor.or_else(|| has_vi(outside).then(|| "vi".to_owned()));
    let editor = editor.ok_or("there is no vi: set VISUAL or EDITOR to your editor")?;
    let failed = |error: io::Error| format!("the editor {editor}: {error}");
    let folder = PrivateFolder::create(outside, dirs).map_err(failed)?;
    let path = folder.0.join("message.md");
    disk::create_file(&path, 0o600)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed)?;
    let status = exec::run_in_foreground(&editor, &path, &folder.0, outside.environment());
    if !status.await.map_err(failed)?.success() {
        return Err(format!("{editor} ended with an error: the text was not changed"));
    }
    disk::read_small_text_without_links(&path).map_err(failed)
}

fn has_vi(outside: &HostPrograms) -> bool {
    let variables = outside.environment();
    let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let mut folders = path.into_iter().flat_map(std::env::split_paths);
    folders.any(|folder| folder.join("vi").is_file())
}

/// For text that the user writes or pastes. Removed on drop.
pub(super) struct PrivateFolder(pub(super) PathBuf);

impl PrivateFolder {
    /// In the agent's directory, which every sandbox hides. Only if that fails, in the temporary
    /// directory, where commands of another session may write.
    pub(super) fn create(outside: &HostPrograms, dirs: Option<&UserDirs>) -> io::Result<Self> {
        let name = format!("draft-{}", uuid::Uuid::now_v7());
        let own = dirs.map(|dirs| outside.resolve(&dirs.state).join(&name));
        if let Some(own) = own.filter(|own| disk::create_folder_all(own, 0o700).is_ok()) {
            return Ok(Self(own));
        }
        let folder = outside.temporary_folder().join(format!("agent-{name}"));
        disk::create_folder_all(&folder, 0o700)?;
        Ok(Self(folder))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        _ = disk::remove_folder(&self.0);
    }
}
