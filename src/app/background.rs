//! Work beside the loop that follows the session's events: the first checkpoint, retention.

use super::Storage;
use super::checkpoints::FirstCheckpoint;
use super::retention::Retention;
use crate::config::Config;
use crate::protocol::event::Events;
use crate::workspace::Workspace;

/// What the end of a session waits for, within limits.
pub(super) struct Background {
    retention: Option<Retention>,
}

impl Background {
    /// Adds the sinks. `recorded`: where the session is recorded.
    pub(super) fn begin(
        events: &Events,
        config: &Config,
        recorded: Option<&Storage>,
        workspace: &Workspace,
    ) -> Self {
        if let Some(checkpoints) = workspace.checkpoints() {
            events.add(Box::new(FirstCheckpoint(checkpoints.clone())));
        }
        let retention =
            recorded.and_then(|storage| Retention::of(&config.record, storage, events.session()));
        if let Some(retention) = &retention {
            events.add(Box::new(retention.clone()));
        }
        Self { retention }
    }

    /// Called after the last event.
    pub(super) fn finish(&self) {
        if let Some(retention) = &self.retention {
            retention.finish();
        }
    }
}
