//! Prompts of a folder that override the embedded ones: `.agent/prompts/`.

use std::collections::BTreeMap;
use std::path::Path;

use super::{AGENT_DIR, ConfigError};
use agent_protocol::disk::read_small_text;

pub(super) const PROMPTS_FOLDER: &str = "prompts";

const MAX_BYTES: u64 = 64 * 1024;

pub(super) fn read_prompts(folder: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut own = BTreeMap::new();
    if folder.is_dir() {
        read_below(folder, "", &mut own)
            .map_err(|(name, error)| prompt_error(&format!("{name}: {error}")))?;
    }
    Ok(own)
}

pub(super) fn prompt_error(problem: &str) -> ConfigError {
    ConfigError(format!("{AGENT_DIR}/{PROMPTS_FOLDER}/{problem}"))
}

/// The error is the file's name, and the reason.
fn read_below(
    folder: &Path,
    below: &str,
    own: &mut BTreeMap<String, String>,
) -> Result<(), (String, String)> {
    let failed = |name: &str, error: std::io::Error| (name.to_owned(), error.to_string());
    for entry in std::fs::read_dir(folder).map_err(|error| failed(below, error))? {
        let entry = entry.map_err(|error| failed(below, error))?;
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{below}{file_name}");
        let kind = entry.file_type().map_err(|error| failed(&name, error))?;
        // Hidden files of editors and systems are ignored.
        if file_name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            read_below(&entry.path(), &format!("{name}/"), own)?;
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
