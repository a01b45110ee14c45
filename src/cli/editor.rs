//! The editor of the user's choice.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::app::Outside;
use crate::{disk, exec};

/// What the user made of a text in the editor of their choice. The text lies in a folder of its own, in which the
/// editor runs: what a command put into the project (another file in the place of this one, settings of an editor) is
/// not there.
pub(super) async fn edited(text: &str, outside: &Outside) -> Result<String, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let editor = editor.ok_or("set VISUAL or EDITOR to the editor you like")?;
    let failed = |error: std::io::Error| format!("the editor {editor}: {error}");
    let mut folder = tempfile::Builder::new();
    folder.prefix("agent-").permissions(Permissions::from_mode(0o700));
    let folder = folder.tempdir_in(outside.temporary_folder()).map_err(failed)?;
    let path = folder.path().join("message.md");
    disk::create(&path, 0o600)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed)?;
    let status = exec::foreground(&editor, &path, folder.path(), outside.environment());
    if !status.await.map_err(failed)?.success() {
        return Err(format!("{editor} ended with an error: the text is as it was"));
    }
    disk::read_small_text_without_links(&path).map_err(failed)
}
