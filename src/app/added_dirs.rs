//! Directories that the user adds to a session while it runs (`/add-dir`).

use std::path::{Path, PathBuf};

use super::{OpenError, Options, StateDirs, Storage, Which};
use crate::disk;
use crate::record;

/// The canonical path of a directory that the user names, or why it cannot be added. `places`: the project and
/// the directories added before.
pub fn addable(named: &str, places: &[PathBuf], own: &StateDirs) -> Result<PathBuf, String> {
    if named.is_empty() {
        return Err("say which: /add-dir PATH".to_owned());
    }
    let wrong = |why: &str| Err(format!("{named} cannot be added: {why}"));
    let path = match (named.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => places.first().map_or_else(|| PathBuf::from(named), |root| root.join(named)),
    };
    let real = match path.canonicalize() {
        Ok(real) if real.is_dir() => real,
        Ok(_) => return wrong("it is a file; name its directory"),
        Err(error) => return wrong(&error.to_string()),
    };
    if disk::settled(&path, places) != real {
        return wrong("it is a link that commands can change; name where it leads");
    }
    if let Some(place) = places.iter().find(|place| real.starts_with(place)) {
        return wrong(&format!("it is in {}, which the agent works in already", place.display()));
    }
    if real.to_str().is_none() {
        return wrong("its path is not UTF-8");
    }
    match own.why_closed(&real) {
        Some(why) => wrong(why),
        None => Ok(real),
    }
}

/// Adds the directories of the recorded session that these options name; returns a notice for each that cannot
/// be used any more.
pub(super) fn recall(options: &mut Options, own: &StateDirs) -> Result<Vec<String>, OpenError> {
    let storage = options.recorded();
    let id = match &options.session {
        Which::New | Which::NewWithId(_) => return Ok(Vec::new()),
        Which::Latest => storage.choose(None)?,
        Which::Resume(id) => storage.choose(Some(id))?,
        Which::Fork(id) => storage.choose(id.as_deref())?,
    };
    let (added, notices) = recorded(&storage, &id, &options.root, own);
    for directory in added {
        if !options.add_dirs.contains(&directory) {
            options.add_dirs.push(directory);
        }
    }
    Ok(notices)
}

/// The directories that the user added to the session with this id, and notices about the others.
pub(super) fn recorded(
    storage: &Storage,
    id: &str,
    root: &Path,
    own: &StateDirs,
) -> (Vec<PathBuf>, Vec<String>) {
    let mut places = vec![root.to_owned()];
    let mut notices = Vec::new();
    // (An unreadable log is reported when it is loaded.)
    for path in record::directories(&storage.log_path(id)).unwrap_or_default() {
        match addable(&path, &places, own) {
            Ok(real) if Path::new(&path) == real => places.push(real),
            Ok(real) => notices.push(format!(
                "{path} leads to {} by now and is not added; /add-dir adds it again",
                real.display()
            )),
            Err(reason) => notices.push(reason),
        }
    }
    (places.split_off(1), notices)
}
