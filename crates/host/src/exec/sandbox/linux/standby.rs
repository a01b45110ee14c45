//! The stand-by: this binary, started with the first command of a session. Each command's supervisor is a fork of it,
//! which is faster than starting this program. It has one thread and is in the namespaces that commands of a session
//! share, so it can also create sockets there.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sched::CloneFlags;
use rustix::process::{DumpableBehavior, chdir, set_dumpable_behavior, setsid};
use rustix::stdio::dup2_stdin;

use super::super::Network;
use super::super::plan::SandboxPlan;
use super::channel::Supervisor;
use super::supervisor::{self, prefix_error};
use super::{SocketRequest, sockets, sys};
use crate::exec::process::SupervisorProcess;
use agent_protocol::disk;

/// How long an answer, or reading a plan, may take. The first answer includes the start of the program.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The dynamic linker's first places, without those that commands can write: the stand-by is outside the sandbox.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// The request for a fork; other numbers are a [`SocketRequest`].
const FORK: u8 = 0;

#[derive(Debug)]
pub(in crate::exec) struct StandbyProcess {
    pub(in crate::exec) process: Child,
    control: UnixStream,
}

impl StandbyProcess {
    /// Uses libraries from outside `writable`. With a `network` it creates the session's namespaces.
    pub(in crate::exec) fn start(
        network: Option<Network>,
        folder: &Path,
        writable: &[PathBuf],
    ) -> io::Result<Self> {
        let libraries = std::env::var_os(LIBRARIES);
        let libraries = libraries.and_then(|list| disk::filter_search_path(&list, writable));
        let (control, theirs) = UnixStream::pair()?;
        control.set_read_timeout(Some(ANSWER_TIME))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it runs nothing but supervisors, and ends with this process"
        )]
        // The binary of this process, even if its path has changed.
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .arg(supervisor::STANDBY_ARGUMENT)
            .arg(folder)
            .args(network.map(Network::as_str))
            .env_clear()
            .envs(libraries.map(|list| (LIBRARIES, list)))
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self { process: command.spawn()?, control })
    }

    /// The supervisor inherits the descriptors. Its plan is computed meanwhile. Must be called in a runtime.
    pub(in crate::exec) fn fork_supervisor(
        &mut self,
        descriptors: &[BorrowedFd<'_>],
        plan: impl FnOnce() -> SandboxPlan,
    ) -> io::Result<Supervisor> {
        let (mut channel, theirs) = UnixStream::pair()?;
        sys::send(&self.control, &[FORK, 0, 0], &[&[theirs.as_fd()], descriptors].concat())?;
        drop(theirs);
        let plan = plan();
        let (pid, _) = self.read_answer()?;
        let process = SupervisorProcess::new(pid)?;
        channel.set_write_timeout(Some(ANSWER_TIME))?;
        plan.write(&mut channel)?;
        Supervisor::new(channel, process)
    }

    pub(in crate::exec) fn create_socket(
        &mut self,
        socket: SocketRequest,
        port: u16,
    ) -> io::Result<OwnedFd> {
        let [low, high] = port.to_le_bytes();
        sys::send(&self.control, &[socket as u8, low, high], &[])?;
        self.read_answer()?.1.pop().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    /// A process id and descriptors. A negative number is an error code.
    fn read_answer(&mut self) -> io::Result<(i32, Vec<OwnedFd>)> {
        let mut answer = [0; size_of::<i32>()];
        let received = sys::receive(&self.control, &mut answer);
        if !matches!(received, Ok((1.., _))) {
            // A late answer must not be read as that to another request.
            _ = self.process.kill();
        }
        match (received?, i32::from_le_bytes(answer)) {
            ((0, _), _) => Err(io::ErrorKind::UnexpectedEof.into()),
            (_, errno @ ..0) => Err(io::Error::from_raw_os_error(-errno)),
            ((_, descriptors), number) => Ok((number, descriptors)),
        }
    }
}

impl Drop for StandbyProcess {
    fn drop(&mut self) {
        // The forks of the stand-by run without it.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The error of creating the namespaces, and the descriptors of the request, the channel first.
pub(in crate::exec) type ForkRequest = (Result<(), String>, Vec<OwnedFd>);

/// Returns `None` when the agent has ended, and the request in each fork.
pub(in crate::exec) fn run_standby(network: Option<&OsStr>) -> io::Result<Option<ForkRequest>> {
    // Descriptors that the agent inherited are not for commands.
    sys::close_inherited()?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let prepared = prepare_process(network);
    sys::ignore_children(true)?;
    let mut request = [0; 3];
    while let (1.., descriptors) = sys::receive(&control, &mut request)? {
        let [kind, low, high] = request;
        let answer = if kind == FORK {
            match sys::fork() {
                Ok(None) => {
                    sys::ignore_children(false)?;
                    return Ok(Some((prepared, descriptors)));
                }
                forked => forked.map(|fork| (fork.map_or(0, |fork| fork.as_raw_pid()), None)),
            }
        } else if prepared.is_ok() {
            sockets::create_socket(kind, u16::from_le_bytes([low, high]))
                .map(|socket| (0, Some(socket)))
        } else {
            Err(io::ErrorKind::NetworkDown.into())
        };
        let errno = |error: io::Error| -error.raw_os_error().unwrap_or(libc::ENETDOWN);
        let (number, socket) = answer.unwrap_or_else(|error| (errno(error), None));
        let socket: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
        sys::send(&control, &number.to_le_bytes(), &socket)?;
    }
    Ok(None)
}

fn prepare_process(network: Option<&OsStr>) -> Result<(), String> {
    let null = std::fs::File::open("/dev/null").map_err(prefix_error("/dev/null"))?;
    dup2_stdin(null).map_err(prefix_error("/dev/null"))?;
    // Signals of the agent's terminal and process group are not for commands.
    _ = setsid();
    // A working directory would stay in use.
    chdir("/").map_err(prefix_error("/"))?;
    if let Some(network) = network {
        let is_on = network == Network::On.as_str();
        let shared = if is_on { CloneFlags::empty() } else { CloneFlags::CLONE_NEWNET };
        supervisor::make_user_namespace(shared, "/proc", supervisor::known_ids())?;
        if network == Network::Loopback.as_str() {
            sys::bring_loopback_up().map_err(prefix_error("the loopback interface"))?;
        }
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(prefix_error("dumpable"))
}
