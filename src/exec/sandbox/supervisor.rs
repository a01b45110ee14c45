//! The supervisor of a command: a fork of the stand-by, between the agent and bash.
//!
//! Two processes. The *outer* one stays with the agent: it waits for the inner one and for the end of the channel, and ends
//! everything when the channel closes, however the agent ended. The *inner* one is the parent of all that the command
//! starts: the first process of its PID namespace, or a subreaper where there is none.
//!
//! Both have one thread. Their messages to the agent are lines: `shell PID`, `exited STATUS LEFT`, `ready`, `failed WHY`.

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
use super::plan::{Plan, Run, Shared};
use super::{Network, confine, mounts, sockets, standby, sys};
use crate::disk::without_links;

/// The argument that makes this binary a stand-by; the next one is the number of its control descriptor.
pub(super) const WORD: &str = "__supervise";

/// Runs the stand-by or a supervisor if this process was started as one; then its exit code.
pub(super) fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let control = arguments.next().and_then(|number| sys::inherited(number.to_str()?).ok());
    let forked = control.map(|control| standby::stand_by(control.into()));
    let Some(Ok(descriptors)) = forked else { return Some(2) };
    Some(descriptors.map_or(0, |descriptors| supervise(Descriptors(descriptors.into_iter()))))
}

/// The descriptors of the request: the channel, the command's output, its report, the session's namespaces.
struct Descriptors(std::vec::IntoIter<OwnedFd>);

impl Descriptors {
    fn take(&mut self) -> Result<OwnedFd, String> {
        self.0.next().ok_or_else(|| "a descriptor is missing".to_owned())
    }
}

fn supervise(mut descriptors: Descriptors) -> u8 {
    let Ok(channel) = descriptors.take() else { return 2 };
    let mut channel = UnixStream::from(channel);
    match outer(&mut channel, descriptors) {
        Ok(()) => 0,
        Err(why) => {
            send(&mut channel, &format!("failed {why}"));
            1
        }
    }
}

/// Sends a message in one piece. If the agent has gone, the end is near anyway.
fn send(channel: &mut UnixStream, line: &str) {
    _ = channel.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
}

/// Puts a name before the error.
fn named<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

fn outer(channel: &mut UnixStream, mut descriptors: Descriptors) -> Result<(), String> {
    // A session of its own, so that its processes can be found by it.
    setsid().map_err(named("setsid"))?;
    // Otherwise it could not map its user.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(named("dumpable"))?;
    let Some(plan) = Plan::read(channel).map_err(named("the plan"))? else { return Ok(()) };
    if let Some(run) = &plan.run {
        let (stdout, stderr) = (descriptors.take()?, descriptors.take()?);
        dup2_stdout(&stdout).map_err(named("output"))?;
        dup2_stderr(&stderr).map_err(named("output"))?;
        if let Some(number) = run.report {
            sys::place(descriptors.take()?, number).map_err(named("the report"))?;
        }
    }
    let has_user = plan.namespaces
        && match plan.shared {
            Some(shared) => enter_namespaces(shared, &mut descriptors)?,
            None => make_namespaces(plan.network)?,
        };
    let Some(run) = &plan.run else {
        send(channel, "ready");
        sockets::serve(channel);
        return Ok(());
    };
    let own = rustix::process::getpid();
    set_child_subreaper(Some(own)).map_err(named("subreaper"))?;
    // The command cannot look into this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(named("dumpable"))?;
    let outer = pidfd_open(own, PidfdFlags::empty()).map_err(named("pidfd"))?;
    let Some(inner) = sys::fork().map_err(named("fork"))? else {
        if let Err(why) = inner(&plan, run, has_user, channel, &outer) {
            send(channel, &format!("failed {why}"));
        }
        exit(0);
    };
    sys::close_standard();
    let watched = pidfd_open(inner, PidfdFlags::empty()).map_err(named("pidfd"))?;
    wait_for_either(channel, &watched);
    if plan.namespaces {
        // With the first process of its namespace all others end.
        _ = kill_process(inner, Signal::KILL);
    } else {
        while has_children() && !end_children() {
            end_descendants();
        }
    }
    while sys::wait_any(true).is_ok() {}
    Ok(())
}

/// Returns when the inner process has ended or the channel has closed.
fn wait_for_either(channel: &UnixStream, inner: &OwnedFd) {
    loop {
        let mut both = [
            // After the plan nothing is sent to this end: what can be read is the end of the channel.
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

/// Enters the session's namespaces and makes the other ones. Whether there is a user namespace.
fn enter_namespaces(shared: Shared, descriptors: &mut Descriptors) -> Result<bool, String> {
    if shared.has_user {
        move_into_link_name_space(descriptors.take()?.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(named("the session's user namespace"))?;
    }
    sys::unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC)
        .map_err(named("namespaces"))?;
    move_into_link_name_space(descriptors.take()?.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(named("the session's network namespace"))?;
    Ok(shared.has_user)
}

/// Whether there is a user namespace.
fn make_namespaces(network: Network) -> Result<bool, String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if network != Network::On {
        flags |= UnshareFlags::NEWNET;
    }
    let has_user = match sys::unshare(flags | UnshareFlags::NEWUSER) {
        Ok(()) => map_user(&open_proc()?, uid, gid).map(|()| true)?,
        // Root needs no user namespace for the others; its capabilities are dropped in any case.
        Err(_) if uid == 0 => sys::unshare(flags).map(|()| false).map_err(named("namespaces"))?,
        Err(error) => return Err(named("namespaces")(error)),
    };
    if network == Network::Loopback {
        sys::loopback_up().map_err(named("the loopback interface"))?;
    }
    Ok(has_user)
}

/// In its user namespace it keeps its user and group, and there are no others.
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
    open("/proc", FOLDER | OFlags::CLOEXEC, Mode::empty()).map_err(named("/proc"))
}

/// Copies the mounts into the namespace of another user namespace, where none of them can be removed. Otherwise they would
/// be detached when the last process ends, and a process of another command that holds an open directory would see what they
/// cover.
fn lock_mounts(proc: &OwnedFd) -> Result<(), String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let dumpable = |how| set_dumpable_behavior(how).map_err(named("dumpable"));
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(named("namespaces"))?;
    // No command runs yet that could look into this process meanwhile.
    dumpable(DumpableBehavior::Dumpable)?;
    map_user(proc, uid, gid)?;
    dumpable(DumpableBehavior::NotDumpable)
}

/// The parent of the command. Ends with the last process that the command started.
fn inner(
    plan: &Plan,
    run: &Run,
    has_user: bool,
    channel: &mut UnixStream,
    outer: &OwnedFd,
) -> Result<(), String> {
    // The outer process has one thread, so the signal comes when it ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(named("death signal"))?;
    if plan.namespaces {
        let proc = mounts::arrange(plan)?;
        if has_user {
            lock_mounts(&proc)?;
        }
    }
    set_child_subreaper(Some(rustix::process::getpid())).map_err(named("subreaper"))?;
    // It may have ended before the signal was set. In a PID namespace the parent's number is not visible, so a handle is
    // used.
    if has_ended(outer) {
        return Ok(());
    }
    let Some(shell) = sys::fork().map_err(named("fork"))? else {
        let why = become_command(plan, run);
        send(channel, &format!("failed {why}"));
        exit(1);
    };
    sys::close_standard();
    send(channel, &format!("shell {}", shell.as_raw_pid()));
    while let Ok(Some((ended, status))) = sys::wait_any(true) {
        if Pid::from_raw(ended) == Some(shell) {
            send(channel, &format!("exited {status} {}", u8::from(has_children())));
        }
    }
    Ok(())
}

/// Whether any child lives. Children that have ended are reaped.
fn has_children() -> bool {
    loop {
        match sys::wait_any(false) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills the children, which as a subreaper's include what they leave behind, until there are none: a process that starts
/// another and ends is gone before all processes have been listed. `false`: there are too many, or the kernel has no list of
/// children.
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
            std::thread::sleep(Duration::from_millis(1));
        }
        before = found;
    }
    false
}

/// Returns only if it failed, with the reason.
fn become_command(plan: &Plan, run: &Run) -> String {
    let directory: &Path = &run.directory.0;
    let prepared = || -> Result<(), String> {
        // A command may send signals to its whole process group: the supervisor is in another one.
        setsid().map_err(named("setsid"))?;
        without_links::open(directory, FOLDER)
            .and_then(fchdir)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        // The inherited one is the machine's, whose mode and times could be changed.
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        null.and_then(dup2_stdin).map_err(named("/dev/null"))?;
        // With 1 no handler of the system receives its memory when it dies. A lower limit stays.
        _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
        sys::close_at_exec(run.report).map_err(named("descriptors"))?;
        confine::confine(plan)
    };
    if let Err(why) = prepared() {
        return why;
    }
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
