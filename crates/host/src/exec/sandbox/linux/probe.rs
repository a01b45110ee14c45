//! Whether the system permits namespaces, tested in a child process that exits immediately.

use std::io;

use nix::sched::{CloneFlags, clone};
use nix::sys::signal::Signal;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::mounts;

const STACK: usize = 64 * 1024;

/// Creates the namespaces of a command and mounts `/proc` in them. The error is that of the refused step.
#[expect(unsafe_code, reason = "a child that makes two system calls")]
pub(in crate::exec) fn mount_proc_in_child() -> io::Result<()> {
    let mount_proc = || match mounts::make_mounts_private().and_then(|()| mounts::mount_proc()) {
        Ok(()) => 0,
        Err(errno) => errno.raw_os_error() as isize,
    };
    let mut stack = vec![0; STACK];
    let flags = CloneFlags::CLONE_NEWUSER | mounts::NAMESPACES | CloneFlags::CLONE_NEWNET;
    // SAFETY: the child has its own memory (no `CLONE_VM`), and only makes two system calls with
    // constants, which take no lock and allocate nothing.
    let child =
        unsafe { clone(Box::new(mount_proc), &mut stack, flags, Some(Signal::SIGCHLD as i32)) }?;
    let child = Pid::from_raw(child.as_raw());
    let ended = rustix::io::retry_on_intr(|| waitpid(child, WaitOptions::empty()))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EINTR))),
    }
}
