//! The project's files for the context, read through the workspace.

use std::sync::Arc;

use crate::context::{Found, Project, Rules};
use crate::disk;
use crate::workspace::{ImageKind, Workspace};

/// Names of rules files, in any case.
const RULES_FILES: [&str; 2] = ["CODE_LAW.md", "AGENTS.md"];
/// Used in a folder that has none of those.
const OTHER_RULES_FILE: &str = "CLAUDE.md";

/// The project's files.
pub(super) struct ProjectFiles {
    pub(super) workspace: Arc<Workspace>,
}

impl Project for ProjectFiles {
    fn find(&self, path: &str) -> Option<Found> {
        let path = self.workspace.resolve(path).ok()?;
        let is_folder = self.workspace.metadata(&path).ok()?.is_dir();
        Some(Found { path: path.relative().to_owned(), is_folder })
    }

    fn is_image(&self, path: &str) -> bool {
        let head = disk::beginning(&self.workspace.root().join(path), 16);
        head.is_ok_and(|head| ImageKind::of(&head).is_some())
    }

    fn rules_in(&self, folder: &str, is_shown: &dyn Fn(&str) -> bool) -> Vec<Rules> {
        let workspace = &self.workspace;
        let folder = workspace.locate(folder).and_then(|place| workspace.directory(&place));
        let Ok(folder) = folder else { return Vec::new() };
        // (A rules file may be a link to a file that must not be shown.)
        let texts = |names: &[&str]| workspace.texts_in(&folder, names, is_shown);
        let mut texts_met = texts(&RULES_FILES);
        if texts_met.is_empty() {
            texts_met = texts(&[OTHER_RULES_FILE]);
        }
        texts_met.into_iter().map(|(path, text)| Rules { path, text }).collect()
    }
}
