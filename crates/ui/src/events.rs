//! Prints the native event log to standard output, line by line.

use std::io::Write;

use super::write_text;
use agent_protocol::event::{Sink, StampedEvent};

/// Prints each event unchanged, as a line of JSON.
pub(super) struct EventLines(pub(super) Box<dyn Write + Send>);

impl Sink for EventLines {
    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }

    fn receive(&mut self, stamped: &StampedEvent) {
        if stamped.event.body.is_stored() {
            write_text(self.0.as_mut(), format!("{}\n", stamped.line));
        }
    }
}
