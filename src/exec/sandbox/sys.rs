//! The system calls of the sandbox that no crate of ours offers as safe functions.

#![expect(unsafe_code, reason = "each wraps one system call")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use rustix::thread::UnshareFlags;

/// What a mount may be used for.
#[derive(Clone, Copy, Debug)]
pub(super) struct MountFlags(u64);

impl MountFlags {
    /// Nothing on it can be changed, no device on it opened, no program on it gets rights by its owner.
    pub(super) const READ: Self =
        Self(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// The same, but it can be changed.
    pub(super) const WRITE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// A device that can be opened, to write too. Its mode and times are as they are.
    pub(super) const DEVICE: Self = Self(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID);
}

/// Adds flags to a mount and all mounts below it.
pub(super) fn restrict_mounts(tree: &OwnedFd, flags: MountFlags) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: flags.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is empty and ends with NUL, the structure lives through the call and its true
    // size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Two processes go on from here: `None` in the new one.
///
/// Only where this process has one thread: another could hold a lock that nobody will ever release.
pub(super) fn fork() -> io::Result<Option<rustix::process::Pid>> {
    // SAFETY: neither the stand-by nor a supervisor ever starts a thread, so the copy finds no lock held by another.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        pid if pid > 0 => Ok(rustix::process::Pid::from_raw(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Children that end leave nothing behind, and are not waited for; or they do, and are.
pub(super) fn forget_children(forgets: bool) -> io::Result<()> {
    let action = if forgets { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither of the two runs any code of this process.
    let before = unsafe { libc::signal(libc::SIGCHLD, action) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives a descriptor this number, which nobody else has. Children inherit it, programs do not.
pub(super) fn place(descriptor: OwnedFd, number: i32) -> io::Result<()> {
    if descriptor.as_raw_fd() == number {
        // It stays open, under the number that it has.
        _ = descriptor.into_raw_fd();
        return Ok(());
    }
    // SAFETY: the agent chose a number far above those that this process got by itself.
    let placed = unsafe { libc::dup3(descriptor.as_raw_fd(), number, libc::O_CLOEXEC) };
    if placed == number { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Leaves the namespaces that this process is in.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared with nobody: there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// How a child ended: its id and status. `None` where none has ended yet; an error where there is none.
pub(super) fn wait_any(hang: bool) -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // All kinds of children, those too that tell their parent nothing when they end.
    let options = if hang { libc::__WALL } else { libc::__WALL | libc::WNOHANG };
    loop {
        // SAFETY: the status is a valid place to write to.
        match unsafe { libc::waitpid(-1, &raw mut status, options) } {
            0 => return Ok(None),
            pid if pid > 0 => return Ok(Some((pid, status))),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// No descriptor but the first three and `kept` outlives the start of a program.
pub(super) fn close_at_exec(kept: Option<i32>) -> io::Result<()> {
    // SAFETY: descriptors are only marked; nothing is closed under somebody's feet.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(kept) = kept {
        // SAFETY: sets a flag of a descriptor; a number that is none is an error.
        if unsafe { libc::fcntl(kept, libc::F_SETFD, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets go of input and output: they are the command's, and whoever reads them waits for its end alone.
pub(super) fn close_standard() {
    for number in 0..3 {
        // SAFETY: nothing in the supervisor reads or writes these.
        unsafe { libc::close(number) };
    }
}

/// Takes a descriptor that this process was started with.
pub(super) fn inherited(number: &str) -> io::Result<OwnedFd> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let number: i32 = number.parse().map_err(|_| invalid())?;
    // SAFETY: asks for a flag of a descriptor; a number that is none is an error.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(invalid());
    }
    // SAFETY: it is open, and nothing else in this process knows of it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(descriptor.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

/// Brings the loopback interface of this network namespace up.
pub(super) fn loopback_up() -> io::Result<()> {
    // `IFF_UP | IFF_RUNNING`, in the width of the field.
    const UP: libc::c_short = 0x41;
    // SAFETY: makes a descriptor, or fails.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the request is the structure that this call reads.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The version of Landlock that the kernel has; 0 for none.
pub(super) fn landlock_abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: asks for the version; nothing is passed in.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    i32::try_from(version).unwrap_or(0).max(0)
}
