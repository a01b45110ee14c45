//! System calls without a safe function in the dependencies, and messages with descriptors.

#![expect(unsafe_code, reason = "each wraps one system call")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};
use rustix::process::Pid;

/// In one message: a channel, two for output, the report.
const MAX_DESCRIPTORS: usize = 4;

fn check_result(is_done: bool) -> io::Result<()> {
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(in crate::exec) fn send(
    channel: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !rights.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(channel, &[IoSlice::new(bytes)], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Returns the number of bytes, 0 at the end of the channel, and the descriptors.
pub(in crate::exec) fn receive(
    channel: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(bytes)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(channel, &mut into, &mut rights, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = rights.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().collect()))
}

/// Adds `MOUNT_ATTR_*` flags, also to all mounts below.
pub(in crate::exec) fn restrict_mounts(tree: &OwnedFd, flags: u64) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: flags, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is empty and ends with NUL, the structure lives through the call and its size is given.
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
    check_result(result == 0)
}

/// Returns twice: `None` in the new process. Only where this process has one thread: another could hold a lock.
pub(in crate::exec) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: neither the stand-by nor a supervisor starts a thread.
    let pid = unsafe { libc::fork() };
    check_result(pid >= 0)?;
    Ok(Pid::from_raw(pid))
}

pub(in crate::exec) fn ignore_children(forgets: bool) -> io::Result<()> {
    let action = if forgets { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither action runs code of this process.
    let before = unsafe { libc::signal(libc::SIGCHLD, action) };
    check_result(before != libc::SIG_ERR)
}

pub(in crate::exec) fn duplicate_onto(descriptor: &OwnedFd, number: i32) -> io::Result<()> {
    // SAFETY: the agent chose a number far above those that this process uses.
    check_result(unsafe { libc::dup2(descriptor.as_raw_fd(), number) } == number)
}

/// All descriptors but the first three.
pub(in crate::exec) fn close_inherited() -> io::Result<()> {
    // SAFETY: called before this process opens any.
    check_result(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } == 0)
}

pub(in crate::exec) fn bring_loopback_up() -> io::Result<()> {
    // `IFF_UP | IFF_RUNNING`, in the width of the field.
    const UP: libc::c_short = 0x41;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the request is the structure that this call reads.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check_result(result == 0)
}

/// The Landlock version of the kernel; 0 without Landlock.
pub(in crate::exec) fn landlock_abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: the call only returns the version; nothing is passed in.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    i32::try_from(version).unwrap_or(0).max(0)
}
