//! The checkpoints of a session: their location, and when the first one is taken.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use super::{HostPrograms, OpenError, Storage, parse_duration};
use crate::config::{self, Config};
use agent_host::workspace::{CheckpointLimits, CheckpointSettings, Checkpoints, Workspace};
use agent_permission::is_build_output;
use agent_protocol::event::{EventBody, Sink, StampedEvent};

/// Enables checkpoints for this session, unless the configuration disables them.
pub fn with_checkpoints(
    workspace: Workspace,
    config: &Config,
    storage: &Storage,
    id: &str,
) -> Result<Workspace, OpenError> {
    if !config.checkpoints.enabled {
        return Ok(workspace);
    }
    let settings = checkpoint_settings(config, &workspace.roots(), storage, id)?;
    let workspace = workspace.with_checkpoints(settings);
    if let Some(checkpoints) = workspace.checkpoints() {
        checkpoints.recover_killed_operations();
    }
    Ok(workspace)
}

pub(super) fn checkpoint_settings(
    config: &Config,
    places: &[PathBuf],
    storage: &Storage,
    id: &str,
) -> Result<CheckpointSettings, OpenError> {
    let limits = checkpoint_limits(&config.checkpoints)?;
    let (config, places) = (config.clone(), places.to_vec());
    // The search for git costs time that most sessions save.
    let git =
        LazyLock::new(move || HostPrograms::from_config(&config, &places[0], &places[1..]).git());
    Ok(CheckpointSettings {
        store: storage.checkpoints_dir(id),
        session: storage.operations_dir(id),
        limits,
        read_blobs: Arc::new(move |directory, ids| git.read_blobs(directory, ids)),
    })
}

pub fn checkpoint_limits(config: &config::Checkpoints) -> Result<CheckpointLimits, OpenError> {
    Ok(CheckpointLimits {
        max_files: config.max_files,
        max_file_bytes: config.max_file_bytes,
        max_bytes: config.max_bytes,
        expire_after: parse_duration(&config.expire_after)?,
        is_build_output,
    })
}

/// While the first model request is running.
pub(super) struct FirstCheckpoint(pub(super) Arc<Checkpoints>);

impl Sink for FirstCheckpoint {
    fn receive(&mut self, stamped: &StampedEvent) {
        if matches!(stamped.event.body, EventBody::ModelRequested(_)) {
            self.0.spawn_first_manifest();
        }
    }
}
