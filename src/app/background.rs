//! Work beside the loop that follows the session's events: the first checkpoint, retention, telemetry.

use std::sync::Arc;

use super::checkpoints::FirstCheckpoint;
use super::retention::Retention;
use super::telemetry::Telemetry;
use super::{Storage, variable};
use crate::config::Config;
use agent_host::workspace::{Checkpoints, Workspace};
use agent_protocol::event::EventStream;
use agent_record::{LoadedSession, otel};

/// Variables of OpenTelemetry that describe a run, and not what is reported of it.
const DESCRIPTIONS: [&str; 2] = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"];

/// Work for which the end of a session waits, within limits.
pub(super) struct BackgroundWork {
    checkpoints: Option<Arc<Checkpoints>>,
    retention: Option<Retention>,
    telemetry: Option<Telemetry>,
}

impl BackgroundWork {
    /// Adds the sinks, and notices for the user.
    pub(super) fn start(
        events: &EventStream,
        config: &Config,
        storage: Option<&Storage>,
        resumed: Option<&LoadedSession>,
        workspace: &Workspace,
        notices: &mut Vec<String>,
    ) -> Self {
        if let Some(checkpoints) = workspace.checkpoints() {
            events.add_sink(Box::new(FirstCheckpoint(checkpoints.clone())));
        }
        let retention = storage.and_then(|storage| {
            Retention::from_config(&config.record, storage, events.session_id())
        });
        if let Some(retention) = &retention {
            events.add_sink(Box::new(retention.clone()));
        }
        let required = &config.restrictions.telemetry;
        let (settings, warnings) = otel::read_settings(|name| match required.get(name) {
            Some(value) => Some(value.clone()),
            // What the policy leaves out must not redirect or stop what it requires.
            None if !required.is_empty() && !DESCRIPTIONS.contains(&name) => None,
            None => variable(name),
        });
        notices.extend(warnings);
        let earlier = resumed.map_or(&[][..], |resumed| &resumed.events);
        let telemetry = settings.and_then(|settings| Telemetry::start(events, settings, earlier));
        Self { checkpoints: workspace.checkpoints().cloned(), retention, telemetry }
    }

    pub(super) async fn finish(&self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish().await;
        }
        if let Some(checkpoints) = self.checkpoints.clone() {
            _ = tokio::task::spawn_blocking(move || checkpoints.finish()).await;
        }
        if let Some(retention) = &self.retention {
            retention.finish();
        }
    }
}
