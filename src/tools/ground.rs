//! What the judge of commands is told of the paths that they name.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use globset::{GlobBuilder, GlobMatcher};

use crate::permission::{Ground, Place, Reach};
use crate::protocol::nests_too_deep;
use crate::workspace::{Entry, Kind, Rules, Walk, Workspace};

/// So many names are compared with a pattern; whoever has more is not looked through.
const MOST_NAMES: usize = 20_000;

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

    fn real(&self, path: &str) -> String {
        match self.resolve(path) {
            Ok(found) => found.relative().to_owned(),
            Err(_) => path.to_owned(),
        }
    }

    fn expand(&self, pattern: &str) -> Vec<String> {
        let (start, rest) = match pattern.strip_prefix('/') {
            Some(rest) => ("/", rest),
            None => ("", pattern),
        };
        let mut found = vec![start.to_owned()];
        let mut left = MOST_NAMES;
        for part in rest.split('/') {
            // What can not be read may stand for anything.
            let anything = if part.starts_with('.') { ".*" } else { "*" };
            let part = if nests_too_deep(part) { anything } else { part };
            let is_pattern = part.contains(['*', '?', '[']);
            let glob = is_pattern.then(|| GlobBuilder::new(part).build().ok()).flatten();
            let glob = glob.map(|glob| glob.compile_matcher());
            found = found
                .iter()
                .flat_map(|base| match &glob {
                    Some(glob) => fitting(self, base, part, glob, &mut left),
                    None => vec![below(base, part)],
                })
                .collect();
        }
        found
    }

    fn find(
        &self,
        folder: &str,
        reach: Reach,
        is_it: &(dyn Fn(&str) -> bool + Sync),
    ) -> Option<String> {
        let all = match reach {
            Reach::Own => return own(self, folder, is_it),
            Reach::All => true,
            Reach::Shown => false,
        };
        let folder = if folder.is_empty() { "." } else { folder };
        let base = self.directory(&self.locate(folder).ok()?).ok()?;
        let rules = Rules { include_hidden: all, include_ignored: all };
        let found = Mutex::new(None);
        self.walk(&Walk { base, rules, depth: None }, || {
            Box::new(|entry: Entry| {
                let path = entry.path.relative();
                if entry.kind != Kind::Directory && is_it(path) {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    *found = Some(path.to_owned());
                    return false;
                }
                true
            })
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Folders that package managers and builds fill, and git's.
const NOT_OWN: &[&str] = &[
    ".git",
    "node_modules",
    "venv",
    ".venv",
    "site-packages",
    "vendor",
    "target",
    "__pycache__",
    ".tox",
    ".cargo",
    ".agent",
];

/// A file like this below a folder, the nearest first, among the project's own, hidden and ignored or not.
fn own(
    workspace: &Workspace,
    folder: &str,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let place = workspace.locate(if folder.is_empty() { "." } else { folder }).ok()?;
    let mut folders = vec![workspace.directory(&place).ok()?];
    let mut left = MOST_NAMES;
    while !folders.is_empty() {
        let mut deeper = Vec::new();
        for folder in folders {
            let entries = workspace.entries(&folder).unwrap_or_default();
            left = left.checked_sub(entries.len())?;
            for entry in entries {
                let path = entry.path.relative();
                match entry.kind {
                    Kind::Directory => {
                        let name = path.rsplit('/').next().unwrap_or(path);
                        if !NOT_OWN.contains(&name) {
                            deeper.push(entry.path);
                        }
                    }
                    Kind::File | Kind::Link if is_it(path) => return Some(path.to_owned()),
                    Kind::File | Kind::Link | Kind::Other => {}
                }
            }
        }
        folders = deeper;
    }
    None
}

/// The names in a folder that fit a part of a pattern.
fn fitting(
    workspace: &Workspace,
    base: &str,
    part: &str,
    glob: &GlobMatcher,
    left: &mut usize,
) -> Vec<String> {
    let place = workspace.locate(if base.is_empty() { "." } else { base });
    let entries = place.and_then(|place| workspace.entries(&workspace.directory(&place)?));
    let Ok(entries) = entries else { return Vec::new() };
    if entries.len() > *left {
        return Vec::new();
    }
    *left -= entries.len();
    let names = entries.iter().filter_map(|entry| entry.path.absolute().file_name()?.to_str());
    // A shell's pattern means no name that begins with a dot, unless it does so itself.
    names
        .filter(|name| part.starts_with('.') || !name.starts_with('.'))
        .filter(|name| glob.is_match(name))
        .map(|name| below(base, name))
        .collect()
}

fn below(base: &str, name: &str) -> String {
    match base {
        "" => name.to_owned(),
        "/" => format!("/{name}"),
        _ => format!("{base}/{name}"),
    }
}
