//! The supervisor of a command: a fork of the stand-by, between the agent and bash.
//!
//! Two processes. The *outer* one stays with the agent: it waits for the inner one and for the end of the channel, and ends
//! everything when the channel closes, however the agent ended. The *inner* one is the parent of all that the command
//! starts: the first process of its PID namespace, or a subreaper where there is none.
//!
//! Both have one thread.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::exit;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::retry_on_intr;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, fchdir,
    getgid, getuid, kill_process, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::super::FOLDER;
use super::super::process::end_descendants;
use super::channel::Message;
use super::plan::{Plan, Run};
use super::{Network, confine, mounts, sockets, standby, sys};
use crate::disk::without_links;

/// The argument that makes this binary a stand-by.
pub(super) const WORD: &str = "__supervise";

/// How long children are killed one by one; after that, all are stopped first.
const MOST_TIME: Duration = Duration::from_millis(200);

/// Runs the stand-by or a supervisor if this process was started as one; then its exit code.
pub(super) fn main() -> Option<u8> {
    if std::env::args_os().nth(1)? != WORD {
        return None;
    }
    let Ok(forked) = standby::stand_by() else { return Some(2) };
    let Some(descriptors) = forked else { return Some(0) };
    let mut descriptors = descriptors.into_iter();
    let Some(channel) = descriptors.next() else { return Some(2) };
    let mut channel = UnixStream::from(channel);
    if let Err(why) = outer(&mut channel, descriptors) {
        send(&mut channel, &Message::Failed(why));
    }
    Some(0)
}

/// Sends a message in one piece. If the agent has gone, the end is near anyway.
fn send(channel: &mut UnixStream, message: &Message) {
    let line = serde_json::to_string(message).unwrap_or_default();
    _ = channel.write_all(format!("{line}\n").as_bytes());
}

/// Puts a name before the error.
pub(super) fn named<E: Display>(what: impl Display) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// The descriptors are the command's output and its report, and the session's namespaces.
fn outer(
    channel: &mut UnixStream,
    mut descriptors: impl Iterator<Item = OwnedFd>,
) -> Result<(), String> {
    // A session of its own, so that its processes can be found by it.
    setsid().map_err(named("setsid"))?;
    // Otherwise it could not map its user.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(named("dumpable"))?;
    let Some(plan) = Plan::read(channel).map_err(named("the plan"))? else { return Ok(()) };
    if let Some(run) = &plan.run {
        let mut take = || descriptors.next().ok_or("a descriptor is missing");
        dup2_stdout(take()?).map_err(named("output"))?;
        dup2_stderr(take()?).map_err(named("output"))?;
        if let Some(number) = run.report {
            sys::place(take()?, number).map_err(named("the report"))?;
        }
    }
    let shared: Vec<OwnedFd> = descriptors.collect();
    let has_user = plan.namespaces
        && match &*shared {
            [] => make_namespaces(plan.network)?,
            [user @ .., network] => enter_namespaces(user.first(), network)?,
        };
    let Some(run) = &plan.run else {
        send(channel, &Message::Ready);
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
            send(channel, &Message::Failed(why));
        }
        exit(0);
    };
    sys::close_standard();
    let watched = pidfd_open(inner, PidfdFlags::empty()).map_err(named("pidfd"))?;
    // After the plan the agent sends nothing: what can be read is the end of the channel.
    is_readable([channel.as_fd(), watched.as_fd()], None);
    if plan.namespaces {
        // With the first process of its namespace all others end.
        _ = kill_process(inner, Signal::KILL);
    } else {
        let deadline = Instant::now() + MOST_TIME;
        while has_children() {
            if Instant::now() < deadline { kill_children() } else { end_descendants() }
        }
    }
    while wait_any(WaitOptions::empty()).is_ok() {}
    Ok(())
}

/// Whether one of these can be read within this time, or is at its end.
fn is_readable<const N: usize>(descriptors: [BorrowedFd<'_>; N], time: Option<&Timespec>) -> bool {
    let mut polled = descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    !matches!(retry_on_intr(|| poll(&mut polled, time)), Ok(0))
}

/// Enters the session's namespaces and makes the other ones. Whether there is a user namespace; root may have none.
fn enter_namespaces(user: Option<&OwnedFd>, network: &OwnedFd) -> Result<bool, String> {
    if let Some(user) = user {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(named("the session's user namespace"))?;
    }
    sys::unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC)
        .map_err(named("namespaces"))?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(named("the session's network namespace"))?;
    Ok(user.is_some())
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
    for (name, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(proc, format!("self/{name}"), flags, Mode::empty());
        let written = file.and_then(|file| rustix::io::write(file, text.as_bytes()));
        written.map_err(named(name))?;
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
    if is_readable([outer.as_fd()], Some(&Timespec::default())) {
        return Ok(());
    }
    let Some(shell) = sys::fork().map_err(named("fork"))? else {
        let why = become_command(plan, run);
        send(channel, &Message::Failed(why));
        exit(1);
    };
    sys::close_standard();
    send(channel, &Message::Shell(shell.as_raw_pid()));
    while let Ok(Some((ended, status))) = wait_any(WaitOptions::empty()) {
        if ended == shell {
            let (status, has_left) = (status.as_raw(), has_children());
            send(channel, &Message::Exited { status, has_left });
        }
    }
    Ok(())
}

/// A child that has ended, of any kind: also one that sends its parent no signal.
fn wait_any(options: WaitOptions) -> rustix::io::Result<Option<(Pid, WaitStatus)>> {
    let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    retry_on_intr(|| wait(options | all))
}

/// Whether any child lives. Children that have ended are reaped.
fn has_children() -> bool {
    loop {
        match wait_any(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills the children, which as a subreaper's include what they leave behind: a process that only starts the next one and
/// ends may be gone before all processes have been listed.
fn kill_children() {
    let own = rustix::process::getpid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    for child in pids.filter_map(Pid::from_raw) {
        _ = kill_process(child, Signal::KILL);
    }
}

/// Returns only if it failed, with the reason.
fn become_command(plan: &Plan, run: &Run) -> String {
    let directory: &Path = &run.directory.0;
    let prepared = || -> Result<(), String> {
        // A command may send signals to its whole process group: the supervisor is in another one.
        setsid().map_err(named("setsid"))?;
        without_links::open(directory, FOLDER)
            .and_then(fchdir)
            .map_err(named(directory.display()))?;
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
