//! Prints the native event log to standard output, line by line.

use std::io::Write;

use super::put;
use agent_protocol::event::{Sink, Stamped};

/// Prints each event as it is in the log.
pub struct EventLines {
    out: Box<dyn Write + Send>,
}

impl EventLines {
    /// Writes lines to `out`, flushing each.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out }
    }
}

impl Sink for EventLines {
    fn take_from_agent(&mut self, stamped: &Stamped) {
        self.take(stamped);
    }

    fn take(&mut self, stamped: &Stamped) {
        if stamped.event.body.is_stored() {
            put(self.out.as_mut(), &format!("{}\n", stamped.line));
        }
    }
}
