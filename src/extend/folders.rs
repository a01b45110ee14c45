//! The folders of files with which people extend the agent: the project's and the user's.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Folders of other agents, whose files are read unchanged.
const SHARED_FOLDERS: &[&str] = &[".claude", ".agents"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionFolder {
    pub path: PathBuf,
    /// Otherwise it is the project's.
    pub is_user_folder: bool,
}

/// The project's folders of this name: its own and those of other agents. A link that leaves the
/// project is left out: it may lead to files that the user does not want to send.
pub fn project_folders(root: &Path, own: &str, name: &str) -> Vec<ExtensionFolder> {
    let folders = std::iter::once(own).chain(SHARED_FOLDERS.iter().copied());
    let paths = folders.map(|folder| root.join(folder).join(name));
    let inside = paths.filter(|path| path.canonicalize().is_ok_and(|real| real.starts_with(root)));
    inside.map(|path| ExtensionFolder { path, is_user_folder: false }).collect()
}

/// The user's folders of this name. `config`: the agent's configuration directory.
pub fn user_folders(config: &Path, home: Option<&Path>, name: &str) -> Vec<ExtensionFolder> {
    let shared =
        home.into_iter().flat_map(|home| SHARED_FOLDERS.iter().map(|folder| home.join(folder)));
    let paths = std::iter::once(config.to_owned()).chain(shared).map(|folder| folder.join(name));
    paths
        .filter(|path| path.is_dir())
        .map(|path| ExtensionFolder { path, is_user_folder: true })
        .collect()
}

/// Each folder once, in order: the home may be the project, and one folder a link to another.
pub fn distinct_folders(mut folders: Vec<ExtensionFolder>) -> Vec<ExtensionFolder> {
    let mut seen = HashSet::new();
    folders.retain(|folder| folder.path.canonicalize().is_ok_and(|real| seen.insert(real)));
    folders
}
