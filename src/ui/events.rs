//! The native event log on standard output, line by line.

use std::io::Write;

use super::put;
use crate::protocol::event::{Body, Sink, Stamped};

/// Prints each event as the log keeps it.
pub struct EventLines {
    out: Box<dyn Write + Send>,
}

impl EventLines {
    /// Lines go to `out`, flushed one by one.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out }
    }
}

impl Sink for EventLines {
    fn take(&mut self, stamped: &Stamped) {
        if !matches!(stamped.event.body, Body::ModelDelta { .. }) {
            put(self.out.as_mut(), &format!("{}\n", stamped.line));
        }
    }
}
