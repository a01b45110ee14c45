//! Runs this program again, as a process tree of its own.

use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::capture::OutputCapture;
use super::environment::MARK_VARIABLE;
use super::running_command::RunningCommand;
use super::{CommandOutcome, Error, FOLDER_FLAGS, new_command, outcome, start_in_new_session};
use agent_protocol::disk::nofollow;

/// Starts this program as a process that outlives this one, with our standard input and error, and waits for the
/// first line of its output; without one, the error is its exit code.
pub fn start_detached(arguments: &[OsString]) -> io::Result<Result<String, Option<i32>>> {
    let mut command = new_command(Path::new("/proc/self/exe"));
    command.arg0("agent").args(arguments).stdout(Stdio::piped());
    let mut child = command.as_std_mut().spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        io::BufReader::new(output).read_line(&mut line)?;
    }
    match line.trim_end() {
        "" => Ok(Err(child.wait()?.code())),
        line => Ok(Ok(line.to_owned())),
    }
}

/// A command line of this program.
#[derive(Debug)]
pub struct SelfCommand {
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    /// Additions to the variables of this process, which include its secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// When this time is over, the whole process tree is ended.
    pub timeout: Duration,
}

impl SelfCommand {
    /// Runs without standard input; else like [`super::Exec::run`].
    pub async fn run(self, cancel: &CancellationToken) -> Result<CommandOutcome, Error> {
        let begun = Instant::now();
        let folder = nofollow::open(&self.directory, FOLDER_FLAGS).map_err(io::Error::from)?;
        let mark = uuid::Uuid::now_v7().to_string();
        // The mark of the command that runs this process.
        let outer = std::env::var(MARK_VARIABLE)
            .map_or_else(|_| String::new(), |outer| format!("{outer}:"));
        // The binary of this process, even if the file was replaced since.
        let mut command = new_command(Path::new("/proc/self/exe"));
        command
            .arg0("agent")
            .args(self.arguments)
            .envs(self.environment)
            .env(MARK_VARIABLE, format!("{outer}{mark}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        start_in_new_session(&mut command, folder, None);
        let mut running = RunningCommand::from_child(command.spawn()?, mark);
        let mut capture = OutputCapture::new(None, None);
        let (ended, status) = running.read_until_end(&mut capture, self.timeout, cancel).await?;
        running.drain_output(&mut capture).await;
        Ok(CommandOutcome { timeout: self.timeout, ..outcome(ended, status, capture, begun) })
    }
}
