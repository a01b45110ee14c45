//! Write: creates or replaces a whole file.

use serde::{Deserialize, Serialize};

use super::change::{ChangeArgs, ChangeDraft, ChangeTool, ExistingFile};
use super::{Tool, ToolCx, embedded_spec};
use agent_host::workspace::{CheckedPath, plain};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure};

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Args {
    pub(super) content: String,
}

pub(super) fn tool() -> impl Tool {
    ChangeTool::<Args>::new(embedded_spec("Write", embedded::WRITE))
}

impl ChangeArgs for Args {
    fn passages(&self) -> Vec<&str> {
        Vec::new()
    }

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure> {
        let (workspace, path) = (&cx.workspace, path.path().clone());
        if !workspace.exists(&path) {
            return match &cx.expected_snapshot {
                Some(seen) => Err(workspace.change_conflict(&path, seen, None)),
                None => {
                    let field = ("operation", "create".into());
                    Ok(ChangeDraft::new_file(path, self.content.clone(), field))
                }
            };
        }
        let existing = ExistingFile::open(cx, path, &[])?;
        let field = ("operation", "update".into());
        let new = existing.text.rewrite(&self.content);
        if new.is_same_as(&existing.text) || plain(&self.content) == existing.text.plain() {
            return Ok(ChangeDraft::unchanged(existing, field));
        }
        if cx.expected_snapshot.is_some() && !workspace.is_fully_shown(&existing.path) {
            let at = existing.path.relative();
            let first = workspace.first_unshown_line(&existing.path);
            let message = format!("line {first} of {at} was not shown: Write needs all lines");
            return Err(Failure::new(ErrorCode::NotRead, message).with_path(at));
        }
        ChangeDraft::from_text(existing, new, "Updated", field)
    }
}

#[cfg(test)]
mod tests;
