//! Programs that run as the user, outside the sandbox: ensures that they, and everything they load, come from
//! places that the agent's commands cannot write.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::WritableDirs;
use crate::config::{self, Config};
use agent_host::exec::Exec;
use agent_host::exec::git::Git;
use agent_protocol::disk;

/// Lists of folders: only the folders outside remain.
const PATH_LIST_VARIABLES: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "MANPATH",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "PYTHONPATH",
    "NODE_PATH",
    "PERL5LIB",
    "RUBYLIB",
    "CLASSPATH",
];
/// Suffixes of the names of variables that contain one or more folders: a plain name in such a variable is a folder,
/// relative to the working directory.
const FOLDER_SUFFIXES: &[&str] =
    &["HOME", "PATH", "DIR", "DIRS", "BASE", "ROOT", "LIB", "LIBS", "PREFIX"];
const PYTHON_ENVIRONMENTS: &[&str] = &[".venv", "venv", "env"];
/// Next to such a folder, or to `node_modules`, they indicate a project.
const PROJECT_MARKERS: &[&str] =
    &[".git", "package.json", "pyproject.toml", "requirements.txt", "setup.py", "Pipfile"];
/// With it Python does not load packages from that folder.
const NO_PYTHON_SITE: &str = "PYTHONNOUSERSITE";

/// Folders of other projects in one of these lists (`~/other/.venv/bin`): commands of a session there could
/// have changed them.
fn other_projects() -> Vec<PathBuf> {
    let lists = PATH_LIST_VARIABLES.iter().filter_map(std::env::var_os);
    let folders = lists.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    let folders = folders.filter(|folder| folder.is_absolute());
    let with_links = folders.flat_map(|folder| {
        let links = disk::ResolvedPath::resolve(&folder, &[]).links().to_vec();
        folder.canonicalize().into_iter().chain(links).chain([folder])
    });
    let others: BTreeSet<PathBuf> =
        with_links.flat_map(|folder| projects_around(&folder)).collect();
    others.into_iter().collect()
}

/// The folders around this one that are a project of the agent, or that tools create for a project. The home
/// itself is excluded, even if it was a project: there the table of start-up files protects the folders that
/// are usually in PATH.
fn projects_around(folder: &Path) -> Vec<PathBuf> {
    let home = std::env::home_dir();
    let real = home.as_ref().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &Path| home.iter().chain(&real).any(|home| home.starts_with(folder));
    let holds = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let is_project = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default();
        let is_made_for_one = name == "node_modules"
            || PYTHON_ENVIRONMENTS.iter().any(|own| name == *own) && holds(folder, "pyvenv.cfg");
        let above = folder.parent().filter(|_| is_made_for_one);
        holds(folder, config::AGENT_DIR)
            || above.is_some_and(|above| {
                !is_home(above) && PROJECT_MARKERS.iter().any(|mark| holds(above, mark))
            })
    };
    let projects = folder.ancestors().filter(|folder| !is_home(folder)).filter(is_project);
    projects.map(Path::to_owned).collect()
}

/// The absolute path as one word of a line of bash.
pub fn quote(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[derive(Clone, Debug)]
pub struct HostPrograms {
    /// Commands may write them.
    places: Vec<PathBuf>,
}

impl HostPrograms {
    /// From the places that commands may write. Only `/` has no folder outside, and is skipped.
    pub fn from_writable(writable: &WritableDirs) -> Self {
        let places = writable.places().iter().filter(|place| place.parent().is_some());
        Self { places: places.cloned().chain(other_projects()).collect() }
    }

    /// The folder and environment before a workspace exists.
    pub fn from_config(config: &Config, root: &Path, added: &[PathBuf]) -> Self {
        Self::from_writable(&WritableDirs::from_config(config, root, added))
    }

    /// The user's home, or the root directory if there is no home outside those places.
    pub fn working_directory(&self) -> PathBuf {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let home = home.filter(|home| home.is_dir() && !disk::passes_through(home, &self.places));
        home.unwrap_or_else(|| PathBuf::from("/"))
    }

    pub fn temporary_folder(&self) -> PathBuf {
        disk::temporary_folder(&self.places)
    }

    /// This path, resolved so that commands cannot redirect it: to be opened without following links.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        disk::resolve_outside(path, &self.places)
    }

    /// The user's environment, including secrets.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let of_user =
            std::env::vars_os().filter_map(|(name, value)| self.safe_variable(name, value));
        let mut variables: Vec<(OsString, OsString)> = of_user.collect();
        if self.has_python_site(&variables) {
            variables.retain(|(name, _)| name != NO_PYTHON_SITE);
            variables.push((NO_PYTHON_SITE.into(), "1".into()));
        }
        variables
    }

    /// Every Python program loads code from the user's package folder at its start.
    fn has_python_site(&self, variables: &[(OsString, OsString)]) -> bool {
        let base = variables.iter().find(|(name, _)| name == "PYTHONUSERBASE");
        let base = base.map(|(_, base)| PathBuf::from(base)).filter(|base| base.is_absolute());
        let base = base.or_else(|| Some(std::env::home_dir()?.join(".local")));
        // It contains `pythonX.Y/site-packages`, for any version.
        base.is_some_and(|base| {
            let library = base.join("lib");
            let settled = disk::canonical_prefix(&library);
            disk::passes_through(&library, &self.places)
                || self.places.iter().any(|place| place.starts_with(&settled))
        })
    }

    /// Variables that are not UTF-8 are left out.
    pub fn utf8_environment(&self) -> Vec<(String, String)> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.environment().into_iter().filter_map(text).collect()
    }

    /// Git, found outside these places.
    pub fn git(&self) -> Git {
        Git::new(self.environment())
    }

    pub fn exec(&self) -> Exec {
        Exec::with_environment(self.environment(), &[])
    }

    /// A list without folders that are relative or inside the places, or `None` if none is left; another
    /// variable only if it names nothing inside the places, since many cause programs to run or files to be
    /// written (`NODE_OPTIONS`, `PERL5OPT`, `LD_PRELOAD`, `GIT_TRACE`).
    fn safe_variable(&self, name: OsString, value: OsString) -> Option<(OsString, OsString)> {
        if name == "HOME" {
            return Some((name, value));
        }
        if !PATH_LIST_VARIABLES.iter().any(|list| name == *list) {
            let upper = name.to_string_lossy().to_uppercase();
            let is_folder = FOLDER_SUFFIXES.iter().any(|end| upper.ends_with(end));
            let is_clear = !self.names_writable_place(value.as_bytes(), is_folder);
            return is_clear.then_some((name, value));
        }
        Some((name, disk::filter_search_path(&value, &self.places)?))
    }

    /// Some part of the text is a path inside the places, or leads there: `--require=/p/x`, `-I/p`, `|~/p/x`.
    /// `is_folder`: each part of it is the name of a folder.
    fn names_writable_place(&self, text: &[u8], is_folder: bool) -> bool {
        let text = String::from_utf8_lossy(text).into_owned();
        let home = std::env::home_dir().map(|home| home.display().to_string());
        let whole = home.map_or_else(
            || text.clone(),
            |home| text.replace("${HOME}", &home).replace("$HOME", &home).replace('~', &home),
        );
        let here = self.working_directory();
        let named = |text: &str| {
            // Every possible path in the text: from each character that can start one to the next that cannot
            // be part of one.
            let is_between = |letter: char| {
                ":;,=&|()<>{}`\"'".contains(letter) || letter.is_whitespace() || letter.is_control()
            };
            let mut is_value = false;
            let parts = text.split_inclusive(is_between).map(|part| {
                let of_option = std::mem::replace(&mut is_value, part.ends_with(['=', ',']));
                (part.trim_end_matches(is_between), of_option)
            });
            let leads_there = |path: &str| disk::passes_through(&here.join(path), &self.places);
            // `Europe/Berlin` is not a path, unless such a file exists: `-Iproject/lib`.
            let is_there = |path: &str| here.join(path).exists() && leads_there(path);
            parts.into_iter().any(|(part, of_option)| {
                let first = (is_folder && !part.is_empty() || part.starts_with('.')).then_some(0);
                let slashes = part.match_indices('/').map(|(at, _)| at);
                // A plain name counts after an option: `-Iproject`, `-Mlib=project`.
                let is_option = part.starts_with('-') || of_option;
                let end = part.find('/').unwrap_or(if is_option { part.len() } else { 0 });
                let mut before = part.char_indices().take_while(|(at, _)| *at < end);
                first.into_iter().chain(slashes).any(|at| leads_there(&part[at..]))
                    || before.any(|(at, _)| is_there(&part[at..]))
            })
        };
        let ends = |rest: &str| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || "._-".contains(next))
        };
        let holds = |text: &str, place: &str| {
            text.match_indices(place).any(|(at, _)| ends(&text[at + place.len()..]))
        };
        let places: Vec<String> =
            self.places.iter().map(|place| place.display().to_string()).collect();
        // A path may contain blanks and other characters.
        let is_path = |text: &str| {
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            [text, value].iter().any(|path| {
                (is_folder || path.starts_with('/'))
                    && disk::passes_through(&here.join(path), &self.places)
            })
        };
        [&text, &whole].into_iter().any(|text| {
            is_path(text) || named(text) || places.iter().any(|place| holds(text, place))
        })
    }
}
