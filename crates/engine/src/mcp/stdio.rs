//! The transport to a program: one JSON-RPC message per line.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use agent_host::exec::Service;
use agent_protocol::shorten;

/// Limit of a message, in bytes.
pub(super) const MAX_MESSAGE: usize = 64 << 20;
/// Limit of lines, and of their bytes, that are no messages: some programs greet.
const MAX_GARBAGE_LINES: usize = 100;
const MAX_GARBAGE: usize = 1 << 20;
/// The end of the error output that is kept.
const MAX_TAIL: usize = 2048;
/// How long a program may take to end by itself.
const PATIENCE: Duration = Duration::from_millis(250);

/// What is known about the end of a program.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    why: Option<String>,
    /// The end of its error output.
    tail: Vec<u8>,
}

impl Ending {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn because(&self, why: String) {
        self.known().why.get_or_insert(why);
    }

    /// Why the connection ended, and the last lines of the error output.
    pub(super) fn in_words(&self, otherwise: &str) -> String {
        let known = self.known();
        let mut words = known.why.clone().unwrap_or_else(|| otherwise.to_owned());
        let tail = String::from_utf8_lossy(&known.tail);
        let lines: Vec<&str> = tail.lines().rev().filter(|line| !line.trim().is_empty()).collect();
        let last: Vec<&str> = lines.into_iter().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().map(str::trim).collect();
        if !last.is_empty() {
            words.push_str(&format!("; its last output: {}", shorten(&last.join(" / "), 400)));
        }
        words
    }

    /// Reads the error output until its end; only the last part is kept.
    pub(super) async fn listen(&self, mut stderr: ChildStderr) {
        let mut chunk = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
            let mut known = self.known();
            known.tail.extend_from_slice(&chunk[..n]);
            let excess = known.tail.len().saturating_sub(MAX_TAIL);
            known.tail.drain(..excess);
        }
    }
}

/// The connection to a running program.
pub(super) struct Stdio {
    service: Option<Service>,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    stdout: BufReader<ChildStdout>,
    /// An incomplete line.
    line: Vec<u8>,
    n_garbage: usize,
    garbage: usize,
    ending: Ending,
}

impl Stdio {
    /// The connection, and the error output.
    pub(super) fn new(mut service: Service, ending: Ending) -> Option<(Self, ChildStderr)> {
        let (stdin, stdout) = (service.stdin.take()?, service.stdout.take()?);
        let stderr = service.stderr.take()?;
        let connection = Self {
            service: Some(service),
            stdin: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            stdout: BufReader::with_capacity(64 * 1024, stdout),
            line: Vec::new(),
            n_garbage: 0,
            garbage: 0,
            ending,
        };
        Some((connection, stderr))
    }

    /// The next line; `None` at the end. Cancel safe.
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
            if self.line.len() > MAX_MESSAGE {
                let limit = MAX_MESSAGE >> 20;
                self.ending.because(format!("it sent a message of more than {limit} MB"));
                return None;
            }
        }
    }

    /// Whether a line that is no message can be ignored.
    fn ignores(&mut self, line: &[u8]) -> bool {
        self.n_garbage += 1;
        self.garbage += line.len();
        if self.n_garbage <= MAX_GARBAGE_LINES && self.garbage <= MAX_GARBAGE {
            return true;
        }
        self.ending.because(format!("it writes something else than messages: {}", quoted(line)));
        false
    }
}

fn quoted(line: &[u8]) -> String {
    format!("{:?}", shorten(String::from_utf8_lossy(line).trim(), 80))
}

impl Transport<RoleClient> for Stdio {
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
                Err(_) if self.ignores(&line) => {
                    // If nothing else comes, this explains why.
                    if self.n_garbage == 1 {
                        self.ending.known().tail.extend_from_slice(
                            &[b"stdout: ", &line[..line.len().min(200)]].concat(),
                        );
                    }
                }
                Err(_) => break,
            }
        }
        if let Some(service) = &mut self.service
            && let Ok(code) = tokio::time::timeout(PATIENCE, service.ended()).await
        {
            let how = match code {
                Some(code @ 129..) => format!("it was ended by signal {}", code - 128),
                Some(code) => format!("it exited with {code}"),
                None => "it ended".to_owned(),
            };
            self.ending.because(how);
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Some(service) = self.service.take() {
            // (A program that does not read its input may block a message.)
            if let Ok(mut stdin) = tokio::time::timeout(PATIENCE, self.stdin.lock()).await {
                *stdin = None;
            }
            service.end(PATIENCE).await;
        }
        Ok(())
    }
}
