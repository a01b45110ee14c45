//! The socket of a session in the background: one program after the other reads its events and answers its requests
//! (`docs/INTEGRATION.md`).

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::input::InputReader;
use crate::app::{BackgroundRecord, VERSION};
use crate::cli::stdout::Output;

/// A command of the session may connect, too: it gets no thread for long.
const MAX_CONNECTIONS: usize = 16;
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_HELLO: usize = 1024;
/// A program that reads nothing for this time is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// After an error such as too many open files.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts programs, until this process ends.
pub(super) fn listen(
    listener: UnixListener,
    record: BackgroundRecord,
    reader: InputReader,
) -> io::Result<()> {
    let record = Arc::new(record);
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(RETRY_DELAY);
                continue;
            };
            let (record, reader) = (Arc::clone(&record), reader.clone());
            // Each connection has a clone of it.
            if Arc::strong_count(&record) <= MAX_CONNECTIONS {
                let serve = move || _ = serve_program(stream, &record, &reader);
                _ = thread::Builder::new().name("client".to_owned()).spawn(serve);
            }
        }
    };
    thread::Builder::new().name("socket".to_owned()).spawn(accept)?;
    Ok(())
}

fn serve_program(
    mut stream: UnixStream,
    record: &BackgroundRecord,
    reader: &InputReader,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let hello = read_hello(&mut stream)?;
    let refusal = if !record.is_token(hello["token"].as_str().unwrap_or_default()) {
        Some("the token is not that of the session".to_owned())
    } else if hello["version"] != VERSION {
        Some(format!("the session runs with version {VERSION}"))
    } else {
        None
    };
    if let Some(why) = refusal {
        let answer = json!({"type": "refused", "error": why});
        return stream.write_all(format!("{answer}\n").as_bytes());
    }
    stream.set_read_timeout(None)?;
    let writer = OwnedStream(stream.try_clone()?);
    let output = Output::with_writer(move |piece| writer.write(piece))?;
    output.enqueue_line(json!({"type": "hello", "version": VERSION}).to_string());
    reader.program.attach(&output);
    reader.read_lines(stream);
    reader.program.detach(&output);
    Ok(())
}

fn read_hello(stream: &mut UnixStream) -> io::Result<Value> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let until = Instant::now() + HELLO_TIMEOUT;
    // What follows the line is left for others.
    while line.len() < MAX_HELLO {
        // (No time at all is an error.)
        stream.set_read_timeout(Some(until.saturating_duration_since(Instant::now())))?;
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.extend(byte);
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Closes the connection on drop, also for the thread that reads it.
struct OwnedStream(UnixStream);

impl OwnedStream {
    fn write(&self, bytes: &[u8]) -> bool {
        (&self.0).write_all(bytes).is_ok()
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
