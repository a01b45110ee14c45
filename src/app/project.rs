//! What the context asks of the project's files, answered through the workspace.

use std::sync::Arc;

use crate::context::{Found, Project, Rules};
use crate::workspace::Workspace;

/// Names of the files in which a project gives rules, each in any case.
const RULES_FILES: [&str; 2] = ["CODE_LAW.md", "AGENTS.md"];
/// Read where a folder has none of those.
const OTHER_RULES_FILE: &str = "CLAUDE.md";

/// The project's files.
pub(super) struct ProjectFiles(pub(super) Arc<Workspace>);

impl Project for ProjectFiles {
    fn find(&self, path: &str) -> Option<Found> {
        let path = self.0.resolve(path).ok()?;
        let is_folder = self.0.metadata(&path).ok()?.is_dir();
        Some(Found { path: path.relative().to_owned(), is_folder })
    }

    fn rules_in(&self, folder: &str) -> Vec<Rules> {
        let folder = self.0.locate(folder).and_then(|place| self.0.directory(&place));
        let Ok(folder) = folder else { return Vec::new() };
        let mut texts = self.0.texts_in(&folder, &RULES_FILES);
        if texts.is_empty() {
            texts = self.0.texts_in(&folder, &[OTHER_RULES_FILE]);
        }
        texts.into_iter().map(|(path, text)| Rules { path, text }).collect()
    }
}
