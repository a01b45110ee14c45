//! The connection to the socket of a session in the background.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::app::{BackgroundRecord, OpenError, SessionStatus, VERSION};
use crate::cli::stdin::{self, InputLine, MAX_LINE};

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    stream: UnixStream,
    lines: UnboundedReceiver<Value>,
}

impl Connection {
    pub(super) fn open(status: &SessionStatus, short: &str) -> Result<Self, OpenError> {
        let pid = status.pid.unwrap_or_default();
        let record = status.background.as_ref().ok_or_else(|| {
            OpenError::InUse(format!(
                "session {short} does not run in the background, but in process {pid}: use it there, or wait for its end"
            ))
        })?;
        if record.is_of_attempts() {
            return Err(OpenError::Usage(format!(
                "session {short} is several attempts, which take no messages: `agent logs -f {short}` shows them, `agent \
                 stop {short}` ends them"
            )));
        }
        let by_version = |version: &str| {
            OpenError::Usage(format!(
                "session {short} runs with version {version} of agent, this is {VERSION}: attach with that version, or \
                 `agent stop {short}`, then `agent --resume {short}`"
            ))
        };
        if record.version != VERSION {
            return Err(by_version(&record.version));
        }
        let opened = Self::introduce(record).map_err(|why| {
            OpenError::Usage(format!(
                "session {short} cannot be reached: {why}; `agent stop {short}` ends it"
            ))
        })?;
        Ok(opened)
    }

    fn introduce(record: &BackgroundRecord) -> Result<Self, String> {
        let in_words = |error: std::io::Error| error.to_string();
        let mut stream = UnixStream::connect(&record.socket).map_err(in_words)?;
        // Where the sandbox has no mounts, a command could have put a socket of its own in this place.
        let peer = socket_peercred(&stream).map_err(|error| error.to_string())?;
        if u32::try_from(peer.pid.as_raw_nonzero().get()) != Ok(record.pid) {
            return Err("another process listens on its socket".to_owned());
        }
        stream.set_write_timeout(Some(WRITE_TIMEOUT)).map_err(in_words)?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT)).map_err(in_words)?;
        let hello = json!({"type": "hello", "version": VERSION, "token": record.token});
        stream.write_all(format!("{hello}\n").as_bytes()).map_err(in_words)?;
        let reader = stream.try_clone().map_err(in_words)?;
        let mut batches = stdin::batches(reader, MAX_LINE);
        let first = batches.next().ok_or("it has just ended")?.map_err(in_words)?;
        let mut first = first.into_iter().filter_map(parse_line);
        let answer = first.next().unwrap_or_default();
        if answer["type"] != "hello" {
            return Err(answer["error"].as_str().unwrap_or("it does not answer").to_owned());
        }
        stream.set_read_timeout(None).map_err(in_words)?;
        let (sender, lines) = unbounded_channel();
        let first: Vec<Value> = first.collect();
        let read = move || {
            let more = batches.flatten().flatten().filter_map(parse_line);
            first.into_iter().chain(more).try_for_each(|line| sender.send(line)).ok()
        };
        let reading = std::thread::Builder::new().name("socket".to_owned());
        reading.spawn(read).map_err(in_words)?;
        Ok(Self { stream, lines })
    }

    /// Cancel safe. `None` at the end.
    pub(super) async fn next_line(&mut self) -> Option<Value> {
        self.lines.recv().await
    }

    pub(super) fn send(&mut self, message: &Value) {
        // At the end of the session the next line is `None`.
        _ = self.stream.write_all(format!("{message}\n").as_bytes());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The thread that reads has a copy.
        _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn parse_line(line: InputLine) -> Option<Value> {
    let InputLine::Line(line) = line else { return None };
    serde_json::from_slice(&line).ok()
}
