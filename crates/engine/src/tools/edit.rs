//! Edit: replaces one exact text in a file.

use super::change::{ChangeArgs, ChangeDraft, ChangeTool, ExistingFile, Replacement};
use super::{Tool, ToolCx, embedded_spec, write};
use agent_host::workspace::CheckedPath;
use agent_protocol::embedded;
use agent_protocol::envelope::Failure;

pub(super) fn tool() -> impl Tool {
    ChangeTool::<Replacement>::new(embedded_spec("Edit", embedded::EDIT))
}

impl ChangeArgs for Replacement {
    fn passages(&self) -> Vec<&str> {
        vec![&self.old_string]
    }

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure> {
        let is_new = !cx.workspace.exists(path.path()) || path.file_size() == Some(0);
        if self.old_string.is_empty() && is_new {
            return write::Args { content: self.new_string.clone() }.draft(cx, path);
        }
        let path = cx.workspace.existing_file(path)?;
        let existing = ExistingFile::open(cx, path, &self.passages())?;
        let ranges = self.find_ranges(existing.text.plain(), existing.path.relative())?;
        let edits: Vec<_> =
            ranges.into_iter().map(|range| (range, self.new_string.as_str())).collect();
        ChangeDraft::from_edits(existing, &edits)
    }
}

#[cfg(test)]
mod tests;
