//! Lists recorded sessions.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{ListSessionsRequest, ListSessionsResponse, SessionInfo};
use agent_client_protocol::{Error, ErrorCode};

use crate::app::Storage;
use crate::config::UserDirs;
use agent_protocol::shorten;
use agent_protocol::terminal_escape::escape_prose;

const PAGE_SIZE: usize = 100;
/// Bytes.
const MAX_TITLE: usize = 120;

/// Sessions of one project, or of all; the latest of each project first. The cursor is the number of
/// sessions before the page.
pub(super) fn list_sessions(request: &ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
    let skipped = match &request.cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            Error::new(ErrorCode::INVALID_PARAMS, format!("{cursor:?} is no cursor of a list"))
        })?,
    };
    let dirs = UserDirs::find();
    let projects: Vec<(Storage, PathBuf)> = match &request.cwd {
        Some(cwd) => {
            let root = cwd.canonicalize().unwrap_or_else(|_| cwd.clone());
            vec![(Storage::find(&root, dirs.as_ref()), root)]
        }
        // A session of a folder that is gone could not be opened.
        None => {
            let all = Storage::find_all(dirs.as_ref()).into_iter();
            let all =
                all.filter_map(|storage| storage.project_dir().ok().map(|root| (storage, root)));
            all.filter(|(_, root)| root.is_dir()).collect()
        }
    };
    let ids = projects.iter().flat_map(|(storage, root)| {
        let ids = storage.session_ids().into_iter().rev();
        ids.map(move |id| (storage, root, id))
    });
    let mut ids = ids.skip(skipped).peekable();
    let page: Vec<_> = ids.by_ref().take(PAGE_SIZE).collect();
    let next = ids.peek().is_some().then(|| (skipped + page.len()).to_string());
    let sessions =
        page.into_iter().filter_map(|(storage, root, id)| session_info(storage, root, id));
    Ok(ListSessionsResponse::new(sessions.collect()).next_cursor(next))
}

/// `None` for a session without a message of the user.
fn session_info(storage: &Storage, root: &Path, id: String) -> Option<SessionInfo> {
    let log = storage.log_path(&id);
    let overview = agent_record::read_overview(&log).ok().filter(|overview| overview.turns > 0)?;
    let written = std::fs::metadata(&log).and_then(|metadata| metadata.modified()).ok();
    let updated = written.and_then(|time| jiff::Timestamp::try_from(time).ok());
    let updated = updated.map(|time| format!("{time:.3}"));
    let title = overview.name.unwrap_or(overview.task);
    let title = shorten(&escape_prose(title.trim().lines().next().unwrap_or_default()), MAX_TITLE);
    Some(SessionInfo::new(id, root).title(title).updated_at(updated))
}
