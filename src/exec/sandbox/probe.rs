//! Whether the system permits namespaces, tried in a child process that ends at once.

use std::io;

const NAMESPACES: i32 =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;

/// Creates the namespaces that a command gets and mounts `/proc` in them. The error says what was refused.
pub(super) fn namespaces() -> Result<(), String> {
    let with_user = attempt(NAMESPACES | libc::CLONE_NEWUSER);
    // Root needs no user namespace for the others.
    if with_user.is_err() && rustix::process::getuid().is_root() && attempt(NAMESPACES).is_ok() {
        return Ok(());
    }
    with_user.map_err(|error| format!("namespaces, or /proc in them, are refused: {error}"))
}

#[expect(unsafe_code, reason = "a child that makes three system calls")]
fn attempt(flags: i32) -> io::Result<()> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without `CLONE_VM` the child has its own copy of the memory. It calls nothing but `mount` and `_exit`, which
    // take no lock and allocate nothing.
    let pid = unsafe {
        let pid = libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize);
        if pid == 0 {
            libc::_exit(mount_proc());
        }
        libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)
    };
    let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else {
        return Err(io::Error::last_os_error());
    };
    let options = rustix::process::WaitOptions::empty();
    let ended = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), options))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EINTR))),
    }
}

/// Returns the error number.
#[expect(unsafe_code, reason = "two system calls")]
fn mount_proc() -> i32 {
    let nothing = std::ptr::null();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let strict = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (proc, target) = (c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: every string ends with NUL, the null pointers are permitted for these arguments, and the error number is this
    // thread's.
    unsafe {
        if libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast()) == 0
            && libc::mount(proc, target, proc, strict, nothing.cast()) == 0
        {
            return 0;
        }
        *libc::__errno_location()
    }
}
