//! The editor of the user's choice.

use std::io::Write as _;
use std::path::Path;

use crate::exec;

/// What the user made of a text in the editor of their choice.
pub(super) async fn edited(text: &str, directory: &Path) -> Result<String, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let editor = editor.ok_or("set VISUAL or EDITOR to the editor you like")?;
    let failed = |error: std::io::Error| format!("the editor {editor}: {error}");
    let mut file =
        tempfile::Builder::new().prefix("agent-").suffix(".md").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let status = exec::foreground(&editor, file.path(), directory).await.map_err(failed)?;
    if !status.success() {
        return Err(format!("{editor} ended with an error: the text is as it was"));
    }
    std::fs::read_to_string(file.path()).map_err(failed)
}
