//! MultiEdit: several replacements in one file, all or none.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{ChangeArgs, ChangeDraft, ChangeTool, ExistingFile, Replacement};
use super::{Tool, ToolCx, embedded_spec};
use agent_host::workspace::CheckedPath;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    edits: Vec<Replacement>,
}

pub(super) fn tool() -> impl Tool {
    ChangeTool::<Args>::new(embedded_spec("MultiEdit", embedded::MULTI_EDIT))
}

impl ChangeArgs for Args {
    fn passages(&self) -> Vec<&str> {
        self.edits.iter().map(|edit| edit.old_string.as_str()).collect()
    }

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure> {
        let path = cx.workspace.existing_file(path)?;
        let existing = ExistingFile::open(cx, path, &self.passages())?;
        let at = existing.path.relative();
        let mut places = Vec::new();
        for (index, edit) in self.edits.iter().enumerate() {
            let found = edit.find_ranges(existing.text.plain(), at).map_err(|failure| {
                let message = format!("edits[{index}]: {}; nothing was changed", failure.message);
                Failure { message, ..failure }.with_data("failed_index", index)
            })?;
            places.extend(found.into_iter().map(|place| (place, index)));
        }
        places.sort_by_key(|(place, index)| (place.start, *index));
        for pair in places.windows(2) {
            let [(first, i), (second, j)] = pair else { continue };
            if second.start < first.end {
                let (i, j) = (i.min(j), i.max(j));
                let message = format!("edits[{i}] and edits[{j}] overlap; nothing was changed");
                return Err(Failure::new(ErrorCode::InvalidParam, message)
                    .with_hint("make one edit of the two")
                    .with_data("overlapping", json!([i, j]))
                    .with_data("failed_index", *j)
                    .with_path(at));
            }
        }
        let edits: Vec<_> = places
            .into_iter()
            .map(|(place, index)| (place, self.edits[index].new_string.as_str()))
            .collect();
        ChangeDraft::from_edits(existing, &edits)
    }
}

#[cfg(test)]
mod tests;
