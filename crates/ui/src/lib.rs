//! User interfaces: output of the event stream for users and scripts. Each is a [`Sink`] and does
//! not know the loop; no other module writes to standard output.

mod json;
mod text;
pub mod tui;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub use json::{StreamJson, StreamJsonOptions, failed_result};
pub use text::Verbosity;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::Value;

use agent_protocol::event::{Sink, StampedEvent};
use agent_protocol::terminal_escape::{escape_prose, escape_prose_for_file};
use json::ResultObject;
use text::TextOutput;

/// The output format of `run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// The final answer; progress goes to standard error.
    #[default]
    Text,
    /// One `result` object at the end.
    Json,
    /// JSON lines in the shapes that scripts written for `claude -p` parse.
    StreamJson,
    /// The native event log.
    Events,
}

/// Creates the interface for a format; `further`: optional lines of `stream-json`.
pub fn sink_for_format(
    format: OutputFormat,
    verbosity: Verbosity,
    further: StreamJsonOptions,
) -> Box<dyn Sink> {
    let stdout = Box::new(io::stdout());
    match format {
        OutputFormat::Text => {
            Box::new(TextOutput::new(stdout, is_terminal(), Box::new(io::stderr()), verbosity))
        }
        OutputFormat::Json => Box::new(ResultObject::new(stdout)),
        OutputFormat::StreamJson => Box::new(StreamJson::new(stdout).with_options(further)),
        OutputFormat::Events => Box::new(EventLines(stdout)),
    }
}

/// Prints each event unchanged, as a line of JSON.
struct EventLines(Box<dyn Write + Send>);

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

/// Writes text and flushes it; false on failure. A closed pipe is not an error; the first other
/// error is reported to the user.
fn write_text(out: &mut dyn Write, text: impl AsRef<[u8]>) -> bool {
    static ERROR_REPORTED: AtomicBool = AtomicBool::new(false);
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != io::ErrorKind::BrokenPipe
                && !ERROR_REPORTED.swap(true, Ordering::Relaxed)
            {
                _ = writeln!(io::stderr(), "agent: the output could not be written: {error}");
                OUTPUT_LOST.store(true, Ordering::Relaxed);
            }
            false
        }
    }
}

static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Whether some output could not be written: the program must not exit with success then.
pub fn has_lost_output() -> bool {
    OUTPUT_LOST.load(Ordering::Relaxed)
}

/// The output of a command.
pub enum CommandOutput {
    /// For users: control characters, and marks that hide or reverse text, are visible.
    Text(String),
    /// For programs: unchanged.
    Data(String),
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Prints the output of a command; false if the reader is gone.
pub fn print_output(answer: &CommandOutput) -> bool {
    let text = match answer {
        CommandOutput::Text(text) if is_terminal() => escape_prose(text),
        CommandOutput::Text(text) => escape_prose_for_file(text),
        CommandOutput::Data(text) => text.into(),
    };
    write_text(&mut io::stdout(), &*text)
}

/// Writes data for programs; false if the reader is gone.
pub fn print_data(bytes: &[u8]) -> bool {
    write_text(&mut io::stdout(), bytes)
}

/// Waits until standard output has no reader any more; never returns if standard output is no pipe.
pub fn wait_until_stdout_closed() {
    let stdout = io::stdout();
    loop {
        // (The system reports an error of the pipe without a request.)
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().is_empty() => {}
            // (A signal that this thread received.)
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Writes text for users; false if the reader is gone.
pub fn print_text(text: &str) -> bool {
    print_output(&text.to_owned().into())
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdout())
}

/// Prints a message to standard error.
pub fn print_notice(text: &str) {
    write_text(&mut io::stderr(), format!("agent: {}\n", escape_prose(text)));
}

/// Prints a line about the progress of a long command to standard error.
pub fn print_progress(line: &str) {
    write_text(&mut io::stderr(), format!("{}\n", escape_prose(line).replace('\n', " ")));
}

/// The `result` object for a command that began no turn.
pub fn command_result(session: &str, text: &str) -> Value {
    let mut result = failed_result(text, 0);
    result["subtype"] = "success".into();
    result["is_error"] = false.into();
    result["errors"] = Value::Array(Vec::new());
    result["session_id"] = session.into();
    result["terminal_reason"] = "completed".into();
    result
}

/// The `result` object for a message that began no turn.
pub fn refused_result(session: &str, why: &str) -> Value {
    let mut result = failed_result(why, 2);
    result["session_id"] = session.into();
    result["terminal_reason"] = "refused".into();
    result
}

/// Prints the `result` object of a run that did not start, for formats that end with one.
pub fn print_failure(format: OutputFormat, message: &str, code: u8) {
    if matches!(format, OutputFormat::Json | OutputFormat::StreamJson) {
        print_output(&CommandOutput::Data(format!("{}\n", failed_result(message, code))));
    }
}
