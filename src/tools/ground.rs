//! What the judge of commands is told of the paths that they name.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::permission::{Ground, Pattern, Place, Reach};
use crate::workspace::{Entry, Kind, ProjectPath, Rules, Walk, Workspace};

/// So many names are compared with a pattern; whoever has more is not looked through.
const MOST_NAMES: usize = 20_000;

impl Ground for Workspace {
    fn look(&self, path: &str) -> Place {
        if path.is_empty() {
            return Place::Project;
        }
        let full = full(path);
        let is_home = std::env::home_dir().is_some_and(|home| home.starts_with(&*full));
        let Ok(found) = self.resolve(&full) else {
            let is_above = is_home || self.is_in(Path::new(&*full));
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
        let is_itself = || named(self, &full).is_some_and(|named| named == found.relative());
        match self.metadata(&found) {
            Ok(data) if data.is_dir() => Place::Folder,
            Ok(data) if data.is_file() && is_itself() => Place::File,
            Ok(_) | Err(_) => Place::Elsewhere,
        }
    }

    fn real(&self, path: &str) -> String {
        let full = full(path);
        if let Ok(found) = self.resolve(&full) {
            return found.relative().to_owned();
        }
        if let Some(closed) = self.closed_at(&full) {
            return closed.relative().to_owned();
        }
        // Above the project.
        let above = self
            .way_down(&full)
            .and_then(|way| self.root().ancestors().nth(way.components().count())?.to_str());
        above.unwrap_or(path).to_owned()
    }

    fn closed(&self) -> Vec<String> {
        self.closed_places().iter().map(|path| self.display(path)).collect()
    }

    fn is_changeable(&self, path: &str) -> bool {
        self.resolve(&full(path)).is_ok_and(|found| self.check_writable(&found).is_ok())
    }

    fn expand(&self, pattern: &str) -> Vec<String> {
        let pattern = full(pattern);
        let (start, rest) = match pattern.strip_prefix('/') {
            Some(rest) => ("/", rest),
            None => ("", &*pattern),
        };
        let mut found = vec![start.to_owned()];
        let mut left = MOST_NAMES;
        for part in rest.split('/') {
            let pattern = Pattern::is_in(part).then(|| Pattern::new(part, false));
            found = found
                .iter()
                .flat_map(|base| match &pattern {
                    Some(pattern) => fitting(self, base, part, pattern, &mut left),
                    None => vec![below(base, part)],
                })
                .collect();
        }
        let is_plain = |path: &str| !path.starts_with(['/', '.']);
        let as_named = |path: String| {
            if is_plain(&path) { path } else { named(self, &path).unwrap_or(path) }
        };
        found.into_iter().map(as_named).collect()
    }

    fn find(
        &self,
        folder: &str,
        reach: Reach,
        is_it: &(dyn Fn(&str) -> bool + Sync),
    ) -> Option<String> {
        let base = folder_at(self, folder)?;
        let all = match reach {
            Reach::Own => return own(self, base, is_it),
            Reach::All => true,
            Reach::Shown => false,
        };
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

/// The path with the home in the place of `~`.
fn full(path: &str) -> Cow<'_, str> {
    let below = path.strip_prefix('~').filter(|below| below.is_empty() || below.starts_with('/'));
    let home = below.and_then(|_| std::env::home_dir()?.into_os_string().into_string().ok());
    match (below, home) {
        (Some(below), Some(home)) => format!("{}{below}", home.trim_end_matches('/')).into(),
        _ => path.into(),
    }
}

/// As tools name what stands at a path: through the links on the way to it, but not through itself.
fn named(workspace: &Workspace, path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => return Some(path.to_owned()),
    };
    if matches!(name, "." | "..") {
        return None;
    }
    let folder = workspace.resolve(folder).ok()?;
    Some(below(if folder.relative() == "." { "" } else { folder.relative() }, name))
}

/// A folder of the project, or the project where it lies in this one.
fn folder_at(workspace: &Workspace, folder: &str) -> Option<ProjectPath> {
    let folder = if folder.is_empty() { ".".into() } else { full(folder) };
    let place = workspace.locate(&folder);
    let place = place.or_else(|failure| match workspace.way_down(&folder) {
        Some(_) => workspace.locate("."),
        None => Err(failure),
    });
    workspace.directory(&place.ok()?).ok()
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
    folder: ProjectPath,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let mut folders = vec![folder];
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
    pattern: &Pattern,
    left: &mut usize,
) -> Vec<String> {
    let given = |name: &str| part.starts_with('.') || !name.starts_with('.');
    let folder = if base.is_empty() { "." } else { base };
    let place = workspace.locate(folder);
    let entries = place.and_then(|place| workspace.entries(&workspace.directory(&place)?));
    let Ok(entries) = entries else {
        // Of what lies above the project nothing counts but the way to it.
        let way = workspace.way_down(folder).and_then(|way| way.iter().next()?.to_str());
        let name = way.filter(|name| given(name) && pattern.is_match(name));
        return name.map(|name| below(base, name)).into_iter().collect();
    };
    if entries.len() > *left {
        return Vec::new();
    }
    *left -= entries.len();
    let names = entries.iter().filter_map(|entry| {
        let shown = entry.path.relative();
        Some((shown.rsplit('/').next()?, entry.path.absolute().file_name()?))
    });
    // A shell's pattern means no name that begins with a dot, unless it does so itself.
    names
        .filter(|(shown, name)| given(shown) && pattern.is_match(&name.to_string_lossy()))
        .map(|(shown, _)| below(base, shown))
        .collect()
}

fn below(base: &str, name: &str) -> String {
    match base {
        "" => name.to_owned(),
        "/" => format!("/{name}"),
        _ => format!("{base}/{name}"),
    }
}
