//! What is at the paths that commands name, for the judge of commands.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::permission::{PathFacts, PathKind};
use crate::workspace::{Entry, Rules, Walk, Workspace};

impl PathFacts for Workspace {
    fn kind(&self, path: &str) -> PathKind {
        if path.is_empty() {
            return PathKind::Project;
        }
        let full = expand_home(path);
        if std::env::home_dir().is_some_and(|home| home.starts_with(&*full)) {
            return PathKind::HomeOrAbove;
        }
        let Ok(found) = self.resolve(&full) else {
            return if self.is_in(Path::new(&*full)) {
                PathKind::HomeOrAbove
            } else {
                PathKind::Elsewhere
            };
        };
        let Ok(inside) = found.absolute().strip_prefix(self.root()) else {
            return if self.exists(&found) { PathKind::Outside } else { PathKind::Missing };
        };
        if inside.as_os_str().is_empty() {
            return PathKind::Project;
        }
        if inside == Path::new(".git") {
            return PathKind::Git;
        }
        if !self.exists(&found) {
            return PathKind::Missing;
        }
        if is_ignored(self, inside) { PathKind::Ignored } else { PathKind::Covered }
    }

    fn is_file(&self, path: &str) -> bool {
        let found = self.resolve(&expand_home(path)).and_then(|found| self.metadata(&found));
        found.is_ok_and(|data| data.is_file())
    }

    fn real(&self, path: &str) -> String {
        let full = expand_home(path);
        match self.resolve(&full) {
            Ok(found) => found.relative().to_owned(),
            Err(_) => match self.closed_at(&full) {
                Some(closed) => closed.relative().to_owned(),
                None => path.to_owned(),
            },
        }
    }
}

/// An ignore file names the path or a directory above it: checkpoints leave it out.
fn is_ignored(workspace: &Workspace, path: &Path) -> bool {
    let mut above: Vec<&Path> =
        path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().any(|part| {
        let parent = part.parent().filter(|parent| !parent.as_os_str().is_empty());
        let Ok(base) = workspace.resolve(&parent.unwrap_or(Path::new(".")).to_string_lossy())
        else {
            return false;
        };
        let rules = Rules { include_hidden: true, include_ignored: false };
        let target = workspace.root().join(part);
        let is_met = AtomicBool::new(false);
        workspace.walk(&Walk { base, rules, depth: Some(1) }, || {
            Box::new(|entry: Entry| {
                let is_it = entry.path.absolute() == target;
                is_met.fetch_or(is_it, Ordering::Relaxed);
                !is_it
            })
        });
        !is_met.load(Ordering::Relaxed)
    })
}

fn expand_home(path: &str) -> Cow<'_, str> {
    let below = path.strip_prefix('~').filter(|below| below.is_empty() || below.starts_with('/'));
    let home = below.and_then(|_| std::env::home_dir()?.into_os_string().into_string().ok());
    match (below, home) {
        (Some(below), Some(home)) => format!("{}{below}", home.trim_end_matches('/')).into(),
        _ => path.into(),
    }
}
