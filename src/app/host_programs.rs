//! Programs that run as the user, outside the sandbox: none of them is one that a command of the agent could have
//! put there, nor takes anything from a folder that commands write.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::Writable;
use crate::config::{self, Config};
use crate::disk;
use crate::exec::Exec;

/// Lists of folders: what of them lies elsewhere is kept.
const LISTS: &[&str] = &[
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
/// What a variable is called whose value is a folder, or more than one: there a name alone is one, from the folder on
/// in which the program runs.
const FOLDERS: &[&str] = &["HOME", "PATH", "DIR", "DIRS", "BASE", "ROOT", "LIB", "LIBS", "PREFIX"];
/// What the folder of a Python is called that is for one project.
const PYTHONS: &[&str] = &[".venv", "venv", "env"];
/// What lies beside that, or beside `node_modules`, in a project.
const MARKS: &[&str] =
    &[".git", "package.json", "pyproject.toml", "requirements.txt", "setup.py", "Pipfile"];
/// With it Python takes nothing from that folder.
const NO_PYTHON_SITE: &str = "PYTHONNOUSERSITE";

/// What of other projects one of these lists leads into (`~/other/.venv/bin`): commands of a session there could have put
/// something into it.
fn other_projects() -> Vec<PathBuf> {
    let lists = LISTS.iter().filter_map(std::env::var_os);
    let folders = lists.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    let folders = folders.filter(|folder| folder.is_absolute());
    let with_links = folders.flat_map(|folder| {
        let links = disk::links_on(&folder);
        folder.canonicalize().into_iter().chain(links).chain([folder])
    });
    let others: BTreeSet<PathBuf> =
        with_links.flat_map(|folder| projects_around(&folder)).collect();
    others.into_iter().collect()
}

/// Folders around this one that somebody works on with the agent, or that tools make for one project. What lies in the home
/// itself is the user's own, also where that was a project: there the table of start-up files has what is in PATH mostly.
fn projects_around(folder: &Path) -> Vec<PathBuf> {
    let home = std::env::home_dir();
    let real = home.as_ref().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &Path| home.iter().chain(&real).any(|home| home.starts_with(folder));
    let holds = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let is_project = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default();
        let is_made_for_one = name == "node_modules"
            || PYTHONS.iter().any(|own| name == *own) && holds(folder, "pyvenv.cfg");
        let above = folder.parent().filter(|_| is_made_for_one);
        holds(folder, config::AGENT_DIR)
            || above
                .is_some_and(|above| !is_home(above) && MARKS.iter().any(|mark| holds(above, mark)))
    };
    let projects = folder.ancestors().filter(|folder| !is_home(folder)).filter(is_project);
    projects.map(Path::to_owned).collect()
}

/// Where such programs run, and with what.
#[derive(Clone, Debug)]
pub struct HostPrograms {
    /// What commands may write.
    places: Vec<PathBuf>,
}

impl HostPrograms {
    /// Outside of what commands may write. Outside of `/` there is nothing: it counts for none.
    pub fn of(writable: &Writable) -> Self {
        let places = writable.places().iter().filter(|place| place.parent().is_some());
        Self { places: places.cloned().chain(other_projects()).collect() }
    }

    /// The same before there is a workspace.
    pub fn around(config: &Config, root: &Path, added: &[PathBuf]) -> Self {
        Self::of(&Writable::around(config, root, added))
    }

    /// The user's home, or the top where there is none outside.
    pub fn folder(&self) -> PathBuf {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let home = home.filter(|home| home.is_dir() && !disk::is_below(home, &self.places));
        home.unwrap_or_else(|| PathBuf::from("/"))
    }

    /// A folder for temporary files.
    pub fn temporary_folder(&self) -> PathBuf {
        disk::temporary_folder(&self.places)
    }

    /// This path as no command can lead it elsewhere: to be opened without links.
    pub fn settled(&self, path: &Path) -> PathBuf {
        disk::settled(path, &self.places)
    }

    /// The user's environment, also what is secret in it.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let of_user = std::env::vars_os().filter_map(|(name, value)| self.variable(name, value));
        let mut variables: Vec<(OsString, OsString)> = of_user.collect();
        if self.has_python_site(&variables) {
            variables.retain(|(name, _)| name != NO_PYTHON_SITE);
            variables.push((NO_PYTHON_SITE.into(), "1".into()));
        }
        variables
    }

    /// Commands write what any Python program runs when it starts, in that user's own folder for packages.
    fn has_python_site(&self, variables: &[(OsString, OsString)]) -> bool {
        let base = variables.iter().find(|(name, _)| name == "PYTHONUSERBASE");
        let base = base.map(|(_, base)| PathBuf::from(base)).filter(|base| base.is_absolute());
        let base = base.or_else(|| Some(std::env::home_dir()?.join(".local")));
        // (Below it `pythonX.Y/site-packages`, of whatever version.)
        base.is_some_and(|base| {
            let library = base.join("lib");
            let settled = disk::canonical_prefix(&library);
            disk::is_below(&library, &self.places)
                || self.places.iter().any(|place| place.starts_with(&settled))
        })
    }

    /// The same as text; variables that are none are left out.
    pub fn texts(&self) -> Vec<(String, String)> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.environment().into_iter().filter_map(text).collect()
    }

    /// What starts them.
    pub fn exec(&self) -> Exec {
        Exec::with_environment(self.environment(), &[])
    }

    /// A list without what is relative or lies in one of the places, not at all where nothing is left; any other only
    /// where it names nothing in the places: many have programs run or files written (`NODE_OPTIONS`, `PERL5OPT`,
    /// `LD_PRELOAD`, `GIT_TRACE`).
    fn variable(&self, name: OsString, value: OsString) -> Option<(OsString, OsString)> {
        if name == "HOME" {
            return Some((name, value));
        }
        if !LISTS.iter().any(|list| name == *list) {
            let upper = name.to_string_lossy().to_uppercase();
            let is_folder = FOLDERS.iter().any(|end| upper.ends_with(end));
            let is_clear = !self.is_named_in(value.as_bytes(), is_folder);
            return is_clear.then_some((name, value));
        }
        Some((name, disk::without_places(&value, &self.places)?))
    }

    /// Some part of the text names a place, or leads to one: `--require=/p/x`, `-I/p`, `|~/p/x`. `is_folder`: each part
    /// of it is a folder's name.
    fn is_named_in(&self, text: &[u8], is_folder: bool) -> bool {
        let text = String::from_utf8_lossy(text).into_owned();
        let home = std::env::home_dir().map(|home| home.display().to_string());
        let whole = home.map_or_else(
            || text.clone(),
            |home| {
                ["${HOME}", "$HOME", "~"]
                    .iter()
                    .fold(text.clone(), |text, name| text.replace(name, &home))
            },
        );
        let here = self.folder();
        let named = |text: &str| {
            // Whatever may be a path in it: from each sign on with which one can begin, up to what can not be in one.
            let is_between = |letter: char| {
                ":;,=&|()<>{}`\"'".contains(letter) || letter.is_whitespace() || letter.is_control()
            };
            let mut is_value = false;
            let parts = text.split_inclusive(is_between).map(|part| {
                let of_option = std::mem::replace(&mut is_value, part.ends_with(['=', ',']));
                (part.trim_end_matches(is_between), of_option)
            });
            let leads_there = |path: &str| disk::is_below(&here.join(path), &self.places);
            // (`Europe/Berlin` is none, unless there is such a file: `-Iproject/lib`.)
            let is_there = |path: &str| here.join(path).exists() && leads_there(path);
            parts.into_iter().any(|(part, of_option)| {
                let first = (is_folder && !part.is_empty() || part.starts_with('.')).then_some(0);
                let slashes = part.match_indices('/').map(|(at, _)| at);
                // (A name alone counts behind an option: `-Iproject`, `-Mlib=project`.)
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
        // (A path may have blanks and signs in it.)
        let is_path = |text: &str| {
            let behind = text.split_once('=').map_or(text, |(_, behind)| behind);
            [text, behind].iter().any(|path| {
                (is_folder || path.starts_with('/'))
                    && disk::is_below(&here.join(path), &self.places)
            })
        };
        [&text, &whole].into_iter().any(|text| {
            is_path(text) || named(text) || places.iter().any(|place| holds(text, place))
        })
    }
}
