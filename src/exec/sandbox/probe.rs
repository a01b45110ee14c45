//! Whether the system permits namespaces, tried in a child process that ends at once.

use std::io;

/// Where the child failed.
const STEPS: [&str; 3] = ["new mount, process and network namespaces", "private mounts", "/proc"];
/// In the child's exit status: which step failed, above the error number.
const STEP_SHIFT: i32 = 6;
const NAMESPACES: i32 =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;

/// Creates the namespaces that a command gets and mounts `/proc` in them. The error says what was refused.
pub(super) fn namespaces() -> Result<(), String> {
    let with_user = attempt(NAMESPACES | libc::CLONE_NEWUSER);
    // Root needs no user namespace for the others.
    if with_user.is_err() && rustix::process::getuid().is_root() && attempt(NAMESPACES).is_ok() {
        return Ok(());
    }
    with_user.map_err(|why| format!("namespaces are refused: {why}"))
}

fn attempt(flags: i32) -> Result<(), String> {
    #[expect(unsafe_code, reason = "a child that makes three system calls")]
    // SAFETY: without `CLONE_VM` the child has its own copy of the memory. It calls nothing but `mount` and `_exit`, which
    // take no lock and allocate nothing.
    let status = unsafe {
        let flags = libc::c_long::from(flags | libc::SIGCHLD);
        let pid = libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize);
        if pid == 0 {
            libc::_exit(child());
        }
        if pid < 0 {
            return Err(format!("{}: {}", STEPS[0], io::Error::last_os_error()));
        }
        let mut status = 0;
        let pid = libc::pid_t::try_from(pid).unwrap_or(-1);
        while libc::waitpid(pid, &raw mut status, 0) < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(format!("waiting for a child process: {error}"));
            }
        }
        status
    };
    if status == 0 {
        return Ok(());
    }
    let code = libc::WEXITSTATUS(status);
    let step = usize::try_from(code >> STEP_SHIFT).ok().and_then(|step| STEPS.get(step));
    let errno = code & ((1 << STEP_SHIFT) - 1);
    Err(format!("{}: {}", step.unwrap_or(&STEPS[0]), io::Error::from_raw_os_error(errno)))
}

#[expect(unsafe_code, reason = "two system calls")]
fn child() -> i32 {
    let nothing = std::ptr::null();
    let failed = |step: i32| {
        // SAFETY: reads the error number of this thread.
        let errno = unsafe { *libc::__errno_location() };
        step << STEP_SHIFT | errno & ((1 << STEP_SHIFT) - 1)
    };
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: every string ends with NUL, and the null pointers are permitted for these arguments.
    if unsafe { libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast()) } != 0 {
        return failed(1);
    }
    let strict = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (proc, target) = (c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: as above.
    if unsafe { libc::mount(proc, target, proc, strict, nothing.cast()) } != 0 {
        return failed(2);
    }
    0
}
