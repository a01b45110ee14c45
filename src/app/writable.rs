//! What the user lets commands write: the project, added folders, `extra_writable`.

use std::path::{Path, PathBuf};

use super::OpenError;
use crate::config::Config;
use crate::disk;
use crate::workspace::Workspace;

/// These places, as they are where a session begins: what somebody makes a link later is not looked up again.
#[derive(Clone, Debug)]
pub struct Writable {
    /// Canonical, the project first.
    places: Vec<PathBuf>,
}

impl Writable {
    /// An error where something of it is not there, or led to by a link that lies in another one of them: commands could
    /// have put that there.
    pub fn of(config: &Config, workspace: &Workspace) -> Result<Self, OpenError> {
        let mut named = Vec::new();
        for (folder, path) in extra_writable(config, workspace.root()) {
            let wrong =
                |why: &str| OpenError::Usage(format!("sandbox.extra_writable: {folder:?} {why}"));
            let path = path.ok_or_else(|| wrong("needs a home"))?;
            // (What is in it has to be seen: else nothing of it is protected.)
            let real = path.canonicalize().ok().filter(|real| real.read_dir().is_ok());
            let real =
                real.ok_or_else(|| wrong("is no folder that can be read; make it, or name one"))?;
            named.push((
                path,
                real,
                wrong("is a link that commands can change; name where it leads"),
            ));
        }
        let mut places = workspace.places();
        places.extend(named.iter().map(|(_, real, _)| real.clone()));
        added_are_there(workspace, &places)?;
        for (path, real, error) in named {
            if !is_there(&path, &real, &places) {
                return Err(error);
            }
        }
        Ok(Self { places })
    }

    /// The same before there is a workspace. What is not there is left out: nobody writes in it.
    pub fn around(config: &Config, root: &Path, added: &[PathBuf]) -> Self {
        let named = extra_writable(config, root).filter_map(|(_, path)| path);
        let named = added.iter().cloned().chain(named);
        let real = named.filter_map(|path| path.canonicalize().ok());
        Self { places: std::iter::once(root.to_owned()).chain(real).collect() }
    }

    /// The project.
    pub fn root(&self) -> &Path {
        &self.places[0]
    }

    /// All of them, canonical.
    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// The same but the project.
    pub fn besides(&self) -> &[PathBuf] {
        &self.places[1..]
    }
}

/// What the user has added lies where he says, whatever is written in these places.
pub(super) fn added_are_there(workspace: &Workspace, places: &[PathBuf]) -> Result<(), OpenError> {
    for (dir, real) in workspace.added() {
        if !is_there(dir, real, places) {
            let dir = dir.display();
            return Err(OpenError::Usage(format!(
                "--add-dir {dir}: is a link that commands can change; name where it leads"
            )));
        }
    }
    Ok(())
}

/// What is written in the other places leads it nowhere else.
fn is_there(named: &Path, real: &Path, places: &[PathBuf]) -> bool {
    let others: Vec<PathBuf> = places.iter().filter(|place| *place != real).cloned().collect();
    disk::settled(named, &others) == real
}

/// Each as it is written, and where it is: nowhere without a home. Where the sandbox is off it lets nobody write more.
fn extra_writable<'a>(
    config: &'a Config,
    root: &Path,
) -> impl Iterator<Item = (&'a str, Option<PathBuf>)> {
    let (enabled, home) = (config.sandbox.enabled, std::env::home_dir());
    let named = config.sandbox.extra_writable.iter().filter(move |_| enabled);
    named.map(move |folder| match folder.strip_prefix("~/") {
        Some(below) => (folder.as_str(), home.as_ref().map(|home| home.join(below))),
        None => (folder.as_str(), Some(root.join(folder))),
    })
}
