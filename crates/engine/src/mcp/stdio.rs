//! The transport to a program: one JSON-RPC message per line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use agent_host::exec::Service;
use agent_protocol::shorten;

pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Lines, and their bytes, that are no messages: some programs print a greeting.
const MAX_GARBAGE_LINES: usize = 100;
const MAX_GARBAGE_BYTES: usize = 1 << 20;
const MAX_STDERR_TAIL_BYTES: usize = 2048;
/// Time for a program to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Clone, Default)]
pub(super) struct ProcessEnding(Arc<Mutex<EndingFacts>>);

#[derive(Default)]
struct EndingFacts {
    reason: Option<String>,
    tail: Vec<u8>,
}

impl ProcessEnding {
    fn set_reason(&self, why: String) {
        self.0.lock().reason.get_or_insert(why);
    }

    /// The reason with the last lines of the error output.
    pub(super) fn describe(&self, otherwise: &str) -> String {
        let facts = self.0.lock();
        let mut words = facts.reason.clone().unwrap_or_else(|| otherwise.to_owned());
        let tail = String::from_utf8_lossy(&facts.tail);
        let lines = tail.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        let mut last: Vec<&str> = lines.take(3).collect();
        last.reverse();
        if !last.is_empty() {
            words.push_str(&format!("; its last output: {}", shorten(&last.join(" / "), 400)));
        }
        words
    }

    /// Keeps only the end of the output.
    pub(super) async fn collect_stderr(&self, mut stderr: ChildStderr) {
        let mut chunk = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
            let mut facts = self.0.lock();
            facts.tail.extend_from_slice(&chunk[..n]);
            let excess = facts.tail.len().saturating_sub(MAX_STDERR_TAIL_BYTES);
            facts.tail.drain(..excess);
        }
    }
}

pub(super) struct StdioTransport {
    service: Option<Service>,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    stdout: BufReader<ChildStdout>,
    /// An incomplete line.
    line: Vec<u8>,
    garbage_lines: usize,
    garbage_bytes: usize,
    ending: ProcessEnding,
}

impl StdioTransport {
    pub(super) fn new(mut service: Service, ending: ProcessEnding) -> Option<(Self, ChildStderr)> {
        let (stdin, stdout) = (service.stdin.take()?, service.stdout.take()?);
        let stderr = service.stderr.take()?;
        let connection = Self {
            service: Some(service),
            stdin: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            stdout: BufReader::with_capacity(64 * 1024, stdout),
            line: Vec::new(),
            garbage_lines: 0,
            garbage_bytes: 0,
            ending,
        };
        Some((connection, stderr))
    }

    /// `None` at the end. Cancel safe.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let available = self.stdout.fill_buf().await.ok()?;
            if available.is_empty() {
                return None;
            }
            let end = memchr::memchr(b'\n', available);
            let n = end.map_or(available.len(), |end| end + 1);
            self.line.extend_from_slice(&available[..n]);
            self.stdout.consume(n);
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
            if self.line.len() > MAX_MESSAGE_BYTES {
                let limit = MAX_MESSAGE_BYTES >> 20;
                self.ending.set_reason(format!("it sent a message of more than {limit} MB"));
                return None;
            }
        }
    }

    fn may_ignore(&mut self, line: &[u8]) -> bool {
        self.garbage_lines += 1;
        self.garbage_bytes += line.len();
        if self.garbage_lines <= MAX_GARBAGE_LINES && self.garbage_bytes <= MAX_GARBAGE_BYTES {
            return true;
        }
        let line = shorten(String::from_utf8_lossy(line).trim(), 80);
        self.ending.set_reason(format!("it writes something else than messages: {line:?}"));
        false
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut bytes = serde_json::to_vec(&message)?;
            bytes.push(b'\n');
            let mut stdin = stdin.lock().await;
            let stdin = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            match stdin.write_all(&bytes).await {
                // The end of its output tells why it ended.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.and(stdin.flush().await),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(line) = self.next_line().await else { break };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(_) if self.may_ignore(&line) => {
                    // If nothing else comes, the line explains why.
                    if self.garbage_lines == 1 {
                        self.ending.0.lock().tail.extend_from_slice(
                            &[b"stdout: ", &line[..line.len().min(200)]].concat(),
                        );
                    }
                }
                Err(_) => break,
            }
        }
        if let Some(service) = &mut self.service
            && let Ok(code) = tokio::time::timeout(EXIT_TIMEOUT, service.wait_for_exit()).await
        {
            let how = match code {
                Some(code @ 129..) => format!("it was ended by signal {}", code - 128),
                Some(code) => format!("it exited with {code}"),
                None => "it ended".to_owned(),
            };
            self.ending.set_reason(how);
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Some(service) = self.service.take() {
            // A program that does not read its input may block a message.
            if let Ok(mut stdin) = tokio::time::timeout(EXIT_TIMEOUT, self.stdin.lock()).await {
                *stdin = None;
            }
            service.shutdown(EXIT_TIMEOUT).await;
        }
        Ok(())
    }
}
