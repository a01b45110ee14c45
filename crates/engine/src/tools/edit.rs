//! Edit: replaces one exact text in a file.

use serde::{Deserialize, Serialize};

use super::change::{ChangeArgs, ChangeDraft, ChangeTool, ExistingFile, Replacement};
use super::{Tool, ToolCx, embedded_spec};
use agent_host::workspace::CheckedPath;
use agent_protocol::embedded;
use agent_protocol::envelope::Failure;

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn tool() -> impl Tool {
    ChangeTool::<Args>::new(embedded_spec("Edit", embedded::EDIT))
}

impl ChangeArgs for Args {
    fn passages(&self) -> Vec<&str> {
        vec![&self.old_string]
    }

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure> {
        let existing = ExistingFile::open(cx, cx.workspace.existing_file(path)?)?;
        let (old, new) = (self.old_string.as_str(), self.new_string.as_str());
        let replacement = Replacement { old, new, replace_all: self.replace_all };
        let ranges = replacement.find_ranges(existing.text.plain(), existing.path.relative())?;
        let edits: Vec<_> = ranges.into_iter().map(|range| (range, new)).collect();
        ChangeDraft::from_edits(existing, &edits)
    }
}

#[cfg(test)]
mod tests;
