//! The tools that a server had last time, in a file of the user's cache.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::server::ToolInfo;
use super::{ServerEndpoint, ServerSettings};
use agent_protocol::disk;

/// A larger file is not stored.
const MAX_BYTES: u64 = 8 << 20;

/// `None` if no tools are stored for these settings.
pub(super) fn read(folder: &Path, settings: &ServerSettings) -> Option<Vec<ToolInfo>> {
    let bytes = disk::read_small(&cache_path(folder, settings)?, MAX_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A failure only means that the next session does not have the tools.
pub(super) fn write(folder: &Path, settings: &ServerSettings, tools: &[ToolInfo]) {
    let Some(path) = cache_path(folder, settings) else { return };
    let Ok(bytes) = serde_json::to_vec(tools) else { return };
    let is_known = disk::read_small(&path, MAX_BYTES).is_ok_and(|stored| stored == bytes);
    if bytes.len() as u64 <= MAX_BYTES
        && !is_known
        && disk::create_folder_all(folder, 0o700).is_ok()
    {
        _ = disk::replace_file(&path, &bytes);
    }
}

/// Another configuration of a server may have other tools. Those of a program that drives the session are not stored.
fn cache_path(folder: &Path, settings: &ServerSettings) -> Option<PathBuf> {
    let start = match &settings.endpoint {
        ServerEndpoint::Program(program) => json!([
            program.program,
            program.arguments,
            program.environment,
            program.directory.as_os_str().as_encoded_bytes()
        ]),
        ServerEndpoint::Address { url, headers, .. } => json!([url, headers]),
        ServerEndpoint::Host(_) => return None,
    };
    let key = json!([settings.name, start]).to_string();
    Some(folder.join(format!("{}.json", &blake3::hash(key.as_bytes()).to_hex()[..32])))
}
