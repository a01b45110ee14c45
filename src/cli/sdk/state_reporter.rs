//! Reports whether the session works, to programs that request it.

use serde_json::json;

use super::program::Program;

/// The program requests the states for itself, or for those who read its messages.
const READS_STATES: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
const SHOWS_STATES: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";

pub(super) struct StateReporter {
    is_requested: bool,
    /// Only the program itself reads them, not those who read its messages.
    is_internal: bool,
    session: String,
}

impl StateReporter {
    pub(super) fn from_env(session: &str) -> Self {
        let is_set = |name: &str| {
            std::env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
        };
        let is_internal = !is_set(SHOWS_STATES);
        let is_requested = !is_internal || is_set(READS_STATES);
        Self { is_requested, is_internal, session: session.to_owned() }
    }

    pub(super) fn always(session: &str) -> Self {
        Self { is_requested: true, is_internal: false, session: session.to_owned() }
    }

    pub(super) fn report(&self, program: &Program, state: &str) {
        if !self.is_requested {
            return;
        }
        let mut line = json!({
            "type": "system",
            "subtype": "session_state_changed",
            "state": state,
            "session_id": self.session,
            "uuid": uuid::Uuid::now_v7().to_string(),
        });
        if self.is_internal {
            line["sdk_host_only"] = true.into();
        }
        program.send(&line);
    }
}
