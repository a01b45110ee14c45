//! What the context asks of the project's files, answered through the workspace.

use std::sync::Arc;

use crate::context::{Found, Project, Rules};
use crate::permission::Withheld;
use crate::workspace::Workspace;

/// Names of the files in which a project gives rules, each in any case.
const RULES_FILES: [&str; 2] = ["CODE_LAW.md", "AGENTS.md"];
/// Read where a folder has none of those.
const OTHER_RULES_FILE: &str = "CLAUDE.md";

/// The project's files, but for those that are not to be shown: a file of rules may be a link to one.
pub(super) struct ProjectFiles {
    pub(super) workspace: Arc<Workspace>,
    pub(super) withheld: Withheld,
}

impl Project for ProjectFiles {
    fn find(&self, path: &str) -> Option<Found> {
        let path = self.workspace.resolve(path).ok()?;
        let is_folder = self.workspace.metadata(&path).ok()?.is_dir();
        Some(Found { path: path.relative().to_owned(), is_folder })
    }

    fn rules_in(&self, folder: &str) -> Vec<Rules> {
        let workspace = &self.workspace;
        let folder = workspace.locate(folder).and_then(|place| workspace.directory(&place));
        let Ok(folder) = folder else { return Vec::new() };
        let texts = |names: &[&str]| {
            workspace.texts_in(&folder, names, |path| self.withheld.why(path).is_none())
        };
        let mut texts_met = texts(&RULES_FILES);
        if texts_met.is_empty() {
            texts_met = texts(&[OTHER_RULES_FILE]);
        }
        texts_met.into_iter().map(|(path, text)| Rules { path, text }).collect()
    }
}
