//! The checkpoints of a session: their location, and when the first one is taken.

use std::sync::Arc;

use super::{OpenError, Storage, parse_duration};
use crate::config::{self, Config};
use agent_host::exec::git;
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
    let config = &config.checkpoints;
    if !config.enabled {
        return Ok(workspace);
    }
    let workspace = workspace.with_checkpoints(checkpoint_settings(config, storage, id)?);
    if let Some(checkpoints) = workspace.checkpoints() {
        checkpoints.recover_killed_operations();
    }
    Ok(workspace)
}

pub(super) fn checkpoint_settings(
    config: &config::Checkpoints,
    storage: &Storage,
    id: &str,
) -> Result<CheckpointSettings, OpenError> {
    Ok(CheckpointSettings {
        store: storage.checkpoints_dir(),
        session: storage.session_dir(id),
        limits: checkpoint_limits(config)?,
        read_blobs: Arc::new(git::read_blobs),
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
