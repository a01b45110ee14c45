//! The supervisor: a copy of the stand-by, between the agent and bash.
//!
//! Two processes. The *outer* one stays with the agent: it waits for the inner one and for the agent's
//! end of the channel, and ends everything when that closes, whatever ended the agent. The *inner* one
//! is the parent of all that the command starts: the first process of the command's PID namespace, which
//! takes everything along when it ends, or a subreaper where there is none.
//!
//! Both have one thread; what they say to the agent are lines: `shell PID`, `exited STATUS LEFT`,
//! `failed WHY`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::exit;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, fchdir, getgid, getuid,
    kill_process, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::super::FOLDER;
use super::super::process::end_descendants;
use super::plan::{Plan, Session};
use super::{Network, confine, mounts, standby, sys};
use crate::disk::without_links;

/// What the agent starts itself with to be a stand-by; then the descriptor of its end.
pub(super) const WORD: &str = "__supervise";

/// So begins what is said where the system permits no namespaces.
pub(super) const REFUSED: &str = "namespaces are refused";

/// Is the stand-by, and each supervisor, if that is what the process was started as: then its exit code.
pub(super) fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let control = arguments.next().and_then(|number| sys::inherited(number.to_str()?).ok());
    let standing = control.map(|control| standby::stand_by(control.into()));
    let Some(Ok(given)) = standing else { return Some(2) };
    Some(given.map_or(0, |given| supervise(Given(given.into_iter()))))
}

/// What came with the plan: the channel, what the command writes to, its report, the session's namespaces or what it
/// may read.
struct Given(std::vec::IntoIter<OwnedFd>);

impl Given {
    fn take(&mut self) -> Result<OwnedFd, String> {
        self.0.next().ok_or_else(|| "a descriptor is missing".to_owned())
    }
}

fn supervise(mut given: Given) -> u8 {
    let Ok(channel) = given.take() else { return 2 };
    let mut channel = UnixStream::from(channel);
    match outer(&mut channel, given) {
        Ok(()) => 0,
        Err(why) => {
            tell(&mut channel, &format!("failed {why}"));
            1
        }
    }
}

fn tell(channel: &mut UnixStream, line: &str) {
    // Nobody may be listening any more; then the end is near.
    // In one piece: each wakes the agent.
    _ = channel.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
}

fn outer(channel: &mut UnixStream, mut given: Given) -> Result<(), String> {
    let system = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    // What is found by its session is this command's alone.
    setsid().map_err(|error| system("setsid", error))?;
    // Else it could not map its user.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(|error| system("dumpable", error))?;
    let Some(plan) = Plan::read(channel).map_err(|error| format!("the plan: {error}"))? else {
        return Ok(());
    };
    if let Some(run) = &plan.run {
        let (stdout, stderr) = (given.take()?, given.take()?);
        dup2_stdout(&stdout).map_err(|error| system("output", error))?;
        dup2_stderr(&stderr).map_err(|error| system("output", error))?;
        if let Some(number) = run.report {
            sys::place(given.take()?, number).map_err(|error| format!("the report: {error}"))?;
        }
    }
    let has_user = plan.namespaces
        && match plan.session {
            Some(session) => enter_session(session, &mut given).map(|()| session.has_user)?,
            None => enter_namespaces(plan.network)?,
        };
    let readable = if plan.namespaces { None } else { Some(given.take()?) };
    let own = rustix::process::getpid();
    set_child_subreaper(Some(own)).map_err(|error| system("subreaper", error))?;
    if plan.run.is_some() {
        // What the command could learn or take from here: nothing.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| system("dumpable", error))?;
    }
    let outer = pidfd_open(own, PidfdFlags::empty()).map_err(|error| system("pidfd", error))?;
    let Some(inner) = sys::fork().map_err(|error| format!("fork: {error}"))? else {
        if let Err(why) = inner(&plan, has_user, channel, &outer, readable.as_ref()) {
            tell(channel, &format!("failed {why}"));
        }
        exit(0);
    };
    sys::close_standard();
    let watched = pidfd_open(inner, PidfdFlags::empty()).map_err(|error| system("pidfd", error))?;
    wait_for_either(channel, &watched);
    if plan.namespaces {
        // With the first process of the namespace all others end, before it is reaped.
        _ = kill_process(inner, Signal::KILL);
    } else {
        while has_children() && !end_children() {
            end_descendants();
        }
    }
    while sys::wait_any(true).is_ok() {}
    if plan.run.is_none() {
        wait_for_end(channel);
    }
    Ok(())
}

/// Returns when the inner process has ended or nobody holds the other end of the channel.
fn wait_for_either(channel: &UnixStream, inner: &OwnedFd) {
    loop {
        let mut both = [
            // After the plan nothing is sent to here: what can be read is its end.
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(inner.as_fd(), PollFlags::IN),
        ];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut one = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut one, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

fn wait_for_end(channel: &UnixStream) {
    let mut one = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    while poll(&mut one, None) == Err(rustix::io::Errno::INTR) {}
}

/// The session's namespaces, as far as it has any, and new ones of the other kinds.
fn enter_session(session: Session, given: &mut Given) -> Result<(), String> {
    if session.has_user {
        move_into_link_name_space(given.take()?.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(|error| format!("the session's user namespace: {error}"))?;
    }
    sys::unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC)
        .map_err(|error| format!("{REFUSED}: {error}"))?;
    move_into_link_name_space(given.take()?.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("the session's network namespace: {error}"))
}

/// Who has no memory now may have some later.
#[expect(clippy::needless_pass_by_value, reason = "it is handed on so")]
fn refused(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EAGAIN) => format!("namespaces: {error}"),
        _ => format!("{REFUSED}: {error}"),
    }
}

/// Whether the user namespace is a new one, too.
fn enter_namespaces(network: Network) -> Result<bool, String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if network != Network::On {
        flags |= UnshareFlags::NEWNET;
    }
    let has_user = match sys::unshare(flags | UnshareFlags::NEWUSER) {
        Ok(()) => map_user(&open_proc()?, uid, gid).map(|()| true)?,
        // Root needs no user namespace for the others; its capabilities go in any case.
        Err(_) if uid == 0 => sys::unshare(flags).map(|()| false).map_err(refused)?,
        Err(error) => return Err(refused(error)),
    };
    if network == Network::Loopback {
        sys::loopback_up().map_err(|error| format!("the loopback interface: {error}"))?;
    }
    Ok(has_user)
}

/// In its user namespace it is who it was, and nobody else.
fn map_user(proc: &OwnedFd, uid: u32, gid: u32) -> Result<(), String> {
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        let path = format!("self/{file}");
        let opened = openat(proc, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        let written = opened
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).write_all(text.as_bytes()));
        written.map_err(|error| format!("/proc/{path}: {error}"))?;
    }
    Ok(())
}

fn open_proc() -> Result<OwnedFd, String> {
    open("/proc", FOLDER | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("/proc: {error}"))
}

/// Copies the mounts into a namespace of another user's, in which none of them can be taken from what it covers. Else
/// they would be when the last process here ends, and whoever was handed an open folder by then (by a socket, in another
/// box) would see what lies below.
fn lock_mounts(proc: &OwnedFd) -> Result<(), String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let dumpable = |how| set_dumpable_behavior(how).map_err(|error| format!("dumpable: {error}"));
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(refused)?;
    // (No command runs yet that could look at it meanwhile.)
    dumpable(DumpableBehavior::Dumpable)?;
    map_user(proc, uid, gid)?;
    dumpable(DumpableBehavior::NotDumpable)
}

/// The parent of the command: waits for all that it starts. Ends with the last of them.
fn inner(
    plan: &Plan,
    has_user: bool,
    channel: &mut UnixStream,
    outer: &OwnedFd,
    readable: Option<&OwnedFd>,
) -> Result<(), String> {
    // Follows the outer process, which has one thread. Without a namespace what it leaves is found by the agent,
    // whose channel closes with it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("death signal: {error}"))?;
    if plan.namespaces {
        let proc = mounts::arrange(plan)?;
        if has_user {
            lock_mounts(&proc)?;
        }
    }
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    // It may have ended before the signal was asked for: then nobody ends this one. (From a PID namespace no
    // parent is seen, so it is asked by a handle; and late, as who is about to end is not yet seen as ended.)
    if has_ended(outer) {
        return Ok(());
    }
    let Some(shell) = sys::fork().map_err(|error| format!("fork: {error}"))? else {
        let why = become_command(plan, readable);
        tell(channel, &format!("failed {why}"));
        exit(1);
    };
    sys::close_standard();
    tell(channel, &format!("shell {}", shell.as_raw_pid()));
    while let Ok(Some((ended, status))) = sys::wait_any(true) {
        if Pid::from_raw(ended) == Some(shell) {
            tell(channel, &format!("exited {status} {}", u8::from(has_children())));
        }
    }
    Ok(())
}

/// Whether any child lives; what descends from a subreaper has one of its children above it. Those that have ended
/// are reaped.
fn has_children() -> bool {
    loop {
        match sys::wait_any(false) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Ends the children, and what they leave behind, which are this process's then, again and again: one that only starts the
/// next one and ends is over before all processes have been looked at. `false`: they are too many, or the kernel does not
/// tell of children alone.
fn end_children() -> bool {
    const MOST_TIME: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    let own = rustix::process::getpid().as_raw_nonzero();
    let children = format!("/proc/self/task/{own}/children");
    let mut before = String::new();
    while begun.elapsed() < MOST_TIME {
        let Ok(found) = std::fs::read_to_string(&children) else { return false };
        let pids = found.split_whitespace().filter_map(|pid| pid.parse().ok());
        for child in pids.filter_map(rustix::process::Pid::from_raw) {
            _ = kill_process(child, Signal::KILL);
        }
        if !has_children() {
            return true;
        }
        if found == before {
            // They take their time, and start nothing.
            std::thread::sleep(Duration::from_millis(1));
        }
        before = found;
    }
    false
}

/// Returns only why it could not.
fn become_command(plan: &Plan, readable: Option<&OwnedFd>) -> String {
    let directory = plan.run.as_ref().map_or(Path::new("/"), |run| &run.directory.0);
    let report = plan.run.as_ref().and_then(|run| run.report);
    let prepared = || -> Result<(), String> {
        // No group in common with the supervisor: a command may signal its whole group.
        setsid().map_err(|error| format!("setsid: {error}"))?;
        without_links::open(directory, FOLDER)
            .and_then(fchdir)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        // What it inherits is the machine's, and could be changed by that (its mode, its times).
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        nothing.and_then(dup2_stdin).map_err(|error| format!("/dev/null: {error}"))?;
        // No program of the system's takes its memory elsewhere when it dies: the only limit that a handler keeps to.
        // (Where less is allowed, less stays.)
        _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
        sys::close_at_exec(report).map_err(|error| format!("descriptors: {error}"))?;
        confine::confine(plan, readable)
    };
    if let Err(why) = prepared() {
        return why;
    }
    let Some(run) = &plan.run else { exit(0) };
    let Some((program, arguments)) = run.words.split_first() else { exit(0) };
    #[expect(
        clippy::disallowed_methods,
        reason = "exec starts it: this process becomes bash, and its parent ends it"
    )]
    let error = std::process::Command::new(&program.0)
        .args(arguments.iter().map(|word| &word.0))
        .env_clear()
        .envs(run.variables.iter().map(|(name, value)| (&name.0, &value.0)))
        .exec();
    format!("{}: {error}", program.0.display())
}
