//! Directories that the user adds to a session while it runs (`/add-dir`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{OpenError, Options, SessionChoice, StateDirs, Storage};
use agent_protocol::disk;

/// The canonical path of a directory that the user names, or why it cannot be added. `places`: the project and
/// the directories added before.
pub fn resolve_added_dir(
    named: &str,
    places: &[PathBuf],
    state_dirs: &StateDirs,
) -> Result<PathBuf, String> {
    if named.is_empty() {
        return Err("say which: /add-dir PATH".to_owned());
    }
    let wrong = |why: &str| Err(format!("{named} cannot be added: {why}"));
    let below_home = if named == "~" { Some("") } else { named.strip_prefix("~/") };
    let path = match (below_home, std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => places.first().map_or_else(|| PathBuf::from(named), |root| root.join(named)),
    };
    let real = match path.canonicalize() {
        Ok(real) if real.is_dir() => real,
        Ok(_) => return wrong("it is a file; name its directory"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return wrong("there is no such directory; create it, or name another");
        }
        Err(error) => return wrong(&disk::in_words(&error)),
    };
    if disk::resolve_outside(&path, places) != real {
        return wrong("it is a link that commands can change; name where it leads");
    }
    if let Some(place) = places.iter().find(|place| real.starts_with(place)) {
        return wrong(&format!("it is in {}, which the agent works in already", place.display()));
    }
    if real.to_str().is_none() {
        return wrong("its path is not UTF-8");
    }
    if let Some(why) = state_dirs.closed_reason(&real) {
        return wrong(why);
    }
    match fs::read_dir(&real) {
        Ok(_) => Ok(real),
        Err(error) => wrong(&format!("{}; make it readable first", disk::in_words(&error))),
    }
}

/// Names the recorded session of these options by its whole id, and adds its directories, or the copy of the project
/// in which it works. Returns the id, and a notice for each directory that cannot be used any more.
pub fn resolve_recorded_session(
    options: &mut Options,
    state_dirs: &StateDirs,
) -> Result<(Option<String>, Vec<String>), OpenError> {
    let (part, is_fork) = match &options.session {
        SessionChoice::New | SessionChoice::NewWithId(_) => return Ok((None, Vec::new())),
        SessionChoice::Latest => (None, false),
        SessionChoice::Resume(id) => (Some(id.as_str()), false),
        SessionChoice::Fork(id) => (id.as_deref(), true),
    };
    let storage = options.session_storage();
    let id = part
        .map_or_else(|| storage.latest_session(), |part| storage.resolve_session_id(Some(part)))?;
    if storage.is_record_of_attempts(&id) {
        let short = storage.short_id(&id);
        return Err(OpenError::Usage(format!(
            "session {short} is the record of several attempts and has no conversation: `agent logs {short}` names their \
             sessions, which can be resumed"
        )));
    }
    let recorded = id.clone();
    options.session =
        if is_fork { SessionChoice::Fork(Some(recorded)) } else { SessionChoice::Resume(recorded) };
    if let Some(project) = options.project.take() {
        options.root = project;
    }
    let mut notices = Vec::new();
    if let Some(copy) = storage.work_copy(&id) {
        let shown = copy.display();
        if copy.is_dir() {
            notices.push(format!("the session works in {shown}"));
            options.project = Some(std::mem::replace(&mut options.root, copy));
        } else {
            let root = options.root.display();
            notices.push(format!("{shown} is gone: the session works in {root} now"));
        }
    }
    let (directories, gone) =
        with_recorded_dirs(&options.add_dirs, (&storage, &id), &options.root, state_dirs);
    notices.extend(gone);
    options.add_dirs = directories;
    Ok((Some(id), notices))
}

/// The given directories and those that the user added to the session, and a notice for each of the latter
/// that cannot be used any more.
pub(super) fn with_recorded_dirs(
    given: &[PathBuf],
    (storage, id): (&Storage, &str),
    root: &Path,
    state_dirs: &StateDirs,
) -> (Vec<PathBuf>, Vec<String>) {
    let mut places = vec![root.to_owned()];
    let mut notices = Vec::new();
    // An unreadable log is reported when it is loaded.
    for path in agent_record::added_directories(&storage.log_path(id)).unwrap_or_default() {
        match resolve_added_dir(&path, &places, state_dirs) {
            Ok(real) if Path::new(&path) == real => places.push(real),
            Ok(real) => notices.push(format!(
                "{path} leads to {} by now and is not added; /add-dir adds it again",
                real.display()
            )),
            Err(reason) => notices.push(reason),
        }
    }
    let added = places.split_off(1).into_iter().filter(|place| !given.contains(place));
    (given.iter().cloned().chain(added).collect(), notices)
}
