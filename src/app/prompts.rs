//! The words of a trusted folder's own, in the place of those that are embedded: `.agent/prompts/`.

use std::collections::BTreeMap;
use std::path::Path;

use super::OpenError;
use crate::config::AGENT_DIR;
use crate::disk::read_small_text;
use crate::protocol::prompt::Prompts;

/// More is no prompt but a mistake.
const MAX_BYTES: u64 = 64 * 1024;

/// What is said to models in this folder. Nothing of an untrusted folder is said.
pub(super) fn prompts(
    root: &Path,
    is_trusted: bool,
) -> Result<(Prompts, Option<String>), OpenError> {
    let folder = root.join(AGENT_DIR).join("prompts");
    if !folder.is_dir() {
        return Ok((Prompts::default(), None));
    }
    let shown = format!("{AGENT_DIR}/prompts");
    let is_link = folder.is_symlink() || folder.parent().is_some_and(Path::is_symlink);
    let why = match (is_trusted, is_link) {
        (false, _) => Some("this folder is not trusted; read the files, then run `agent trust`"),
        (true, true) => {
            Some("a command could write what a link leads to; put the files themselves there")
        }
        (true, false) => None,
    };
    if let Some(why) = why {
        let notice = format!("{shown}: ignored because {why}");
        return Ok((Prompts::default(), Some(notice)));
    }
    let mut own = BTreeMap::new();
    read(&folder, "", &mut own)
        .map_err(|(name, error)| OpenError::Usage(format!("{shown}/{name}: {error}")))?;
    let prompts =
        Prompts::new(own).map_err(|error| OpenError::Usage(format!("{shown}/{error}")))?;
    Ok((prompts, None))
}

type Unreadable = (String, String);

fn read(folder: &Path, below: &str, own: &mut BTreeMap<String, String>) -> Result<(), Unreadable> {
    let failed = |name: &str, error: std::io::Error| (name.to_owned(), error.to_string());
    for entry in std::fs::read_dir(folder).map_err(|error| failed(below, error))? {
        let entry = entry.map_err(|error| failed(below, error))?;
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{below}{file_name}");
        let kind = entry.file_type().map_err(|error| failed(&name, error))?;
        // What editors and systems leave behind is no prompt.
        if file_name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            read(&entry.path(), &format!("{name}/"), own)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|end| end == "md") {
            let size = entry.metadata().map_err(|error| failed(&name, error))?.len();
            if size > MAX_BYTES {
                return Err((name, format!("has more than {MAX_BYTES} bytes; make it shorter")));
            }
            let text = read_small_text(&entry.path()).map_err(|error| failed(&name, error))?;
            own.insert(name, text);
        }
    }
    Ok(())
}
