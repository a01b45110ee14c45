//! What the judge of commands is told of the paths that they name.

use std::path::Path;

use crate::permission::{Ground, Place};
use crate::workspace::Workspace;

impl Ground for Workspace {
    fn look(&self, path: &str) -> Place {
        let home = std::env::home_dir();
        let expanded = match (path.strip_prefix('~'), &home) {
            (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
            (Some(_), None) => return Place::Elsewhere,
            (None, _) => Path::new(path).to_owned(),
        };
        let is_home = home.is_some_and(|home| home.starts_with(&expanded));
        if path.is_empty() {
            return Place::Project;
        }
        let found = expanded.to_str().and_then(|path| self.resolve(path).ok());
        let Some(found) = found else {
            let is_above = is_home || self.is_in(&expanded);
            return if is_above { Place::Above } else { Place::Elsewhere };
        };
        if found.absolute() == self.root() {
            return Place::Project;
        }
        if is_home {
            return Place::Above;
        }
        if !self.exists(&found) {
            return Place::Nothing;
        }
        // Behind a link stands something else than what the command would take away.
        let is_itself = found.absolute() == self.root().join(&expanded);
        match self.metadata(&found) {
            Ok(data) if data.is_dir() => Place::Folder,
            Ok(data) if data.is_file() && is_itself => Place::File,
            Ok(_) | Err(_) => Place::Elsewhere,
        }
    }
}
