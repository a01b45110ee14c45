//! Runs this program again, as a process tree of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::environment::MARK;
use super::running::Running;
use super::{Error, FOLDER, Outcome, new_command, outcome, start_in_a_session};
use agent_protocol::disk::without_links;

/// A command line of this program.
#[derive(Debug)]
pub struct Itself {
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables besides those of this process, which include its secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// After this time its whole process tree is ended.
    pub timeout: Duration,
}

impl Itself {
    /// Runs it without standard input. On timeout or cancellation, or if this future is dropped, its whole
    /// process tree is ended; nothing that it started outlives it.
    ///
    /// To be awaited on the main thread, like [`super::Exec::run`].
    pub async fn run(self, cancel: &CancellationToken) -> Result<Outcome, Error> {
        let begun = Instant::now();
        let folder = without_links::open(&self.directory, FOLDER)
            .map_err(|error| Error::Io(error.into()))?;
        let mark = uuid::Uuid::now_v7().to_string();
        // (Of the command that runs this process, if there is one.)
        let outer = std::env::var(MARK).map_or_else(|_| String::new(), |outer| format!("{outer}:"));
        // (The file of this process, even if it was replaced since.)
        let mut command = new_command(Path::new("/proc/self/exe"));
        command
            .arg0("agent")
            .args(self.arguments)
            .envs(self.environment)
            .env(MARK, format!("{outer}{mark}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        start_in_a_session(&mut command, folder, None);
        let mut running = Running::unboxed(command.spawn()?, mark);
        let mut capture = Capture::new(None, None);
        let (ended, status) = running.follow(&mut capture, self.timeout, cancel).await?;
        running.settle(&mut capture).await;
        Ok(Outcome { timeout: self.timeout, ..outcome(ended, status, capture, begun) })
    }
}
