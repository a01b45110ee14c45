//! Facts about the paths in command lines, for the permission judge.

use std::path::{Path, PathBuf};

use super::glob_pattern;
use agent_host::exec::sandbox;
use agent_host::workspace::{FileKind, ProjectPath, Workspace, expand_home};
use agent_permission::{PathFacts, PathKind, is_build_output};

/// A directory with as many entries is not counted.
const MAX_COUNTED: usize = 10_000;

/// The facts about paths that a workspace knows.
pub struct WorkspaceFacts<'a>(pub &'a Workspace);

impl PathFacts for WorkspaceFacts<'_> {
    fn kind(&self, path: &str) -> PathKind {
        if path.is_empty() {
            return PathKind::Project;
        }
        let full = expand_home(path);
        if std::env::home_dir().is_some_and(|home| home.starts_with(&*full)) {
            return PathKind::HomeOrAbove;
        }
        let Ok(found) = self.0.resolve(&full) else {
            return if self.0.has_root_in(Path::new(&*full)) {
                PathKind::HomeOrAbove
            } else if sandbox::is_private_temporary(&self.0.path_without_links(&full)) {
                PathKind::Temporary
            } else {
                PathKind::Elsewhere
            };
        };
        let Ok(inside) = found.absolute().strip_prefix(self.0.root()) else {
            return if self.0.exists(&found) { PathKind::Outside } else { PathKind::Missing };
        };
        if inside.as_os_str().is_empty() {
            return PathKind::Project;
        }
        if inside == Path::new(".git") {
            return PathKind::Git;
        }
        if !self.0.exists(&found) {
            return PathKind::Missing;
        }
        if self.0.has_uncovered(
            found.absolute(),
            &|path| is_known_build_output(self.0, path),
            &|_, _| true,
        ) {
            PathKind::Uncovered
        } else {
            PathKind::Covered
        }
    }

    fn is_file(&self, path: &str) -> bool {
        let found = self.0.resolve(&expand_home(path)).and_then(|found| self.0.metadata(&found));
        found.is_ok_and(|data| data.is_file())
    }

    fn expand_pattern(&self, directory: &str, pattern: &str) -> Vec<String> {
        let directory = expand_home(directory);
        let named = if directory.is_empty() { "." } else { &*directory };
        let (Ok(found), Ok(matcher)) =
            (self.0.resolve(named), glob_pattern::compile_glob(pattern, true))
        else {
            return Vec::new();
        };
        let is_wanted = |name: &str, _| {
            // `*` does not match a leading dot.
            name.starts_with('.') == pattern.starts_with('.') && matcher.is_match(name)
        };
        let entries =
            self.0.list_matching_entries(&found, usize::MAX, &is_wanted).unwrap_or_default();
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        entries.iter().filter_map(|entry| name(entry.path.absolute())).collect()
    }

    fn count_files(&self, path: &str) -> Option<usize> {
        // Of a link, only the link is deleted.
        let found = self.0.resolve(&expand_home(path)).ok().filter(|found| !found.is_link())?;
        let mut folders = vec![found];
        let (mut n_files, mut n_entries) = (0, 0);
        while let Some(folder) = folders.pop() {
            let entries = self.0.list_matching_entries(&folder, MAX_COUNTED, &|_, _| true).ok()?;
            n_entries += entries.len();
            if n_entries >= MAX_COUNTED {
                return None;
            }
            for entry in entries {
                match entry.kind {
                    FileKind::Directory => folders.push(entry.path),
                    _ => n_files += 1,
                }
            }
        }
        Some(n_files)
    }

    fn has_uncovered(&self, directory: &str, is_selected: &dyn Fn(&str, bool) -> bool) -> bool {
        let Some(found) = resolve_path(self.0, directory) else { return false };
        let is_selected = |path: &Path, is_directory| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            is_selected(&name, is_directory)
        };
        self.0.has_uncovered(
            found.absolute(),
            &|path| is_known_build_output(self.0, path),
            &is_selected,
        )
    }

    fn has_unsaved(&self, paths: &[String], is_tracked: bool) -> bool {
        let found = paths.iter().filter_map(|path| resolve_path(self.0, path));
        let found: Vec<PathBuf> = found.map(|found| found.absolute().to_owned()).collect();
        self.0.has_unsaved(&found, is_tracked)
    }

    fn resolve_links(&self, path: &str) -> String {
        let full = expand_home(path);
        match self.0.resolve(&full) {
            Ok(found) => found.relative().to_owned(),
            Err(_) => match self.0.resolve_closed(&full) {
                Some(closed) => closed.relative().to_owned(),
                None => path.to_owned(),
            },
        }
    }
}

fn is_known_build_output(workspace: &Workspace, path: &Path) -> bool {
    path.strip_prefix(workspace.root()).is_ok_and(is_build_output)
}

fn resolve_path(workspace: &Workspace, path: &str) -> Option<ProjectPath> {
    let path = if path.is_empty() { "." } else { path };
    workspace.resolve(&expand_home(path)).ok()
}
