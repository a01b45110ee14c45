//! The supervisor of a command: a fork of the stand-by, between the agent and bash.
//!
//! The *outer* process waits for the inner one and for the end of the channel, and ends everything when the channel
//! closes, however the agent ended. The *inner* process is the parent of all processes of the command: the first process
//! of its PID namespace, or a subreaper without one; both have one thread.

use std::convert::Infallible;
use std::fmt::Display;
use std::fs;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Stdio, exit};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, fchdir,
    getgid, getpid, getuid, kill_process, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid, wait, waitpid,
};

use super::super::owners::FileOwners;
use super::super::plan::SandboxPlan;
use super::channel::SupervisorMessage;
use super::{confine, mounts, standby, sys};
use crate::exec::FOLDER_FLAGS;
use crate::exec::process::end_descendants;
use agent_protocol::disk::{self, nofollow};

pub(in crate::exec) const STANDBY_ARGUMENT: &str = "__supervise";

pub(in crate::exec) fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != STANDBY_ARGUMENT {
        return None;
    }
    let folder = arguments.next()?;
    let Ok(forked) = standby::run_standby(arguments.next().as_deref()) else { return Some(2) };
    let Some((prepared, descriptors)) = forked else {
        _ = disk::remove_folder(folder.as_ref());
        return Some(0);
    };
    let mut descriptors = descriptors.into_iter();
    let mut channel = UnixStream::from(descriptors.next()?);
    if let Err(why) = prepared.and_then(|()| run_outer(&mut channel, descriptors.collect())) {
        send_message(&mut channel, &SupervisorMessage::Failed(why));
    }
    Some(0)
}

/// Errors are ignored: they mean that the agent has ended.
fn send_message(channel: &mut UnixStream, message: &SupervisorMessage) {
    let line = serde_json::to_string(message).unwrap_or_default();
    _ = channel.write_all(format!("{line}\n").as_bytes());
}

pub(in crate::exec) fn prefix_error<E: Display>(what: impl Display) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

fn run_outer(channel: &mut UnixStream, descriptors: Vec<OwnedFd>) -> Result<(), String> {
    // The session id identifies the processes.
    setsid().map_err(prefix_error("setsid"))?;
    let plan = SandboxPlan::read(&*channel).map_err(prefix_error("the plan"))?;
    if plan.namespaces {
        unshare(mounts::NAMESPACES).map_err(prefix_error("namespaces"))?;
    }
    let own = getpid();
    set_child_subreaper(Some(own)).map_err(prefix_error("subreaper"))?;
    let outer = pidfd_open(own, PidfdFlags::empty()).map_err(prefix_error("pidfd"))?;
    let Some(inner) = sys::fork().map_err(prefix_error("fork"))? else {
        if let Err(why) = run_inner(&plan, descriptors, channel, &outer) {
            send_message(channel, &SupervisorMessage::Failed(why));
        }
        exit(0);
    };
    drop(descriptors);
    let watched = pidfd_open(inner, PidfdFlags::empty()).map_err(prefix_error("pidfd"))?;
    // The agent sends nothing after the plan: readable input means the end of the channel.
    is_readable([channel.as_fd(), watched.as_fd()], None);
    if plan.namespaces {
        // With the first process of its namespace all others end.
        _ = kill_process(inner, Signal::KILL);
    } else {
        while has_children() {
            kill_children();
            end_descendants();
        }
    }
    while wait_any(WaitOptions::empty()).is_ok() {}
    Ok(())
}

/// Also true at the end of the input. Without a time it waits.
pub(in crate::exec) fn is_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    time: Option<&Timespec>,
) -> bool {
    let mut polled = descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    !matches!(retry_on_intr(|| poll(&mut polled, time)), Ok(0))
}

const ID_MAPS: [&str; 2] = ["uid_map", "gid_map"];

/// In the new namespace this process keeps its user and group. The others are those of `maps`, if root may map them all.
/// The process must be dumpable.
pub(in crate::exec) fn make_user_namespace(
    others: CloneFlags,
    proc: &str,
    maps: Option<[String; 2]>,
) -> Result<(), String> {
    let own = [getuid().as_raw(), getgid().as_raw()];
    let mapper = maps.map(|maps| fork_mapper(proc, &maps)).transpose();
    let mapper = mapper.map_err(prefix_error("maps"))?;
    unshare(CloneFlags::CLONE_NEWUSER | others).map_err(prefix_error("namespaces"))?;
    let path = |name: &str| format!("{proc}/self/{name}");
    fs::write(path("setgroups"), "deny").map_err(prefix_error("setgroups"))?;
    if let Some((mapper, begin)) = mapper {
        drop(begin);
        _ = retry_on_intr(|| waitpid(Some(mapper), WaitOptions::empty()));
    }
    for (name, id) in ID_MAPS.into_iter().zip(own) {
        if fs::read_to_string(path(name)).is_ok_and(|map| map.is_empty()) {
            fs::write(path(name), format!("{id} {id} 1")).map_err(prefix_error(name))?;
        }
    }
    Ok(())
}

/// Only a process outside of a namespace can map other users into it. This one writes the maps when the pipe is closed.
fn fork_mapper(proc: &str, maps: &[String; 2]) -> io::Result<(Pid, PipeWriter)> {
    // Opened before the fork: in the `/proc` of another PID namespace the number of the process is not known.
    let process = fs::File::open(format!("{proc}/self"))?;
    let (mut request, sender) = io::pipe()?;
    if let Some(mapper) = sys::fork()? {
        return Ok((mapper, sender));
    }
    drop(sender);
    _ = request.read(&mut [0]);
    for (name, map) in ID_MAPS.iter().zip(maps) {
        _ = fs::write(format!("/proc/self/fd/{}/{name}", process.as_raw_fd()), map);
    }
    exit(0)
}

/// Root's namespaces contain all users that it knows, so that those of its commands can contain some.
pub(in crate::exec) fn known_ids() -> Option<[String; 2]> {
    let known = |name: &str| {
        let map = fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let ranges = map.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let ranges = ranges.filter(|range| range.len() == 3);
        ranges.map(|range| format!("{0} {0} {1}\n", range[0], range[2])).collect()
    };
    getuid().is_root().then(|| ID_MAPS.map(known))
}

/// In the namespace of another user namespace no mount can be removed. Otherwise the mounts are detached when the
/// last process ends, and a process of another command with an open directory sees what they cover.
fn lock_mounts(proc: &OwnedFd, owners: &FileOwners) -> Result<(), String> {
    let dumpable = |how| set_dumpable_behavior(how).map_err(prefix_error("dumpable"));
    // No command runs yet that could look into this process meanwhile.
    dumpable(DumpableBehavior::Dumpable)?;
    let proc = format!("/proc/self/fd/{}", proc.as_raw_fd());
    make_user_namespace(CloneFlags::CLONE_NEWNS, &proc, owners.id_maps())?;
    dumpable(DumpableBehavior::NotDumpable)
}

/// Ends with the last process that the command started.
fn run_inner(
    plan: &SandboxPlan,
    descriptors: Vec<OwnedFd>,
    channel: &mut UnixStream,
    outer: &OwnedFd,
) -> Result<(), String> {
    // The outer process has one thread, so the signal comes when it ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(prefix_error("death signal"))?;
    if plan.namespaces {
        lock_mounts(&mounts::apply_mounts(plan)?, &plan.owners)?;
    }
    set_child_subreaper(Some(getpid())).map_err(prefix_error("subreaper"))?;
    // The outer process may have ended before; its number is not visible in a PID namespace, so a handle is used.
    if is_readable([outer.as_fd()], Some(&Timespec::default())) {
        return Ok(());
    }
    let Some(shell) = sys::fork().map_err(prefix_error("fork"))? else {
        let Err(why) = exec_command(plan, descriptors);
        send_message(channel, &SupervisorMessage::Failed(why));
        exit(1);
    };
    drop(descriptors);
    send_message(channel, &SupervisorMessage::Shell(shell.as_raw_pid()));
    while let Ok(Some((ended, status))) = wait_any(WaitOptions::empty()) {
        if ended == shell {
            let (status, has_left) = (status.as_raw(), has_children());
            send_message(channel, &SupervisorMessage::Exited { status, has_left });
        }
    }
    Ok(())
}

/// Includes children that send their parent no signal.
pub(in crate::exec) fn wait_any(
    options: WaitOptions,
) -> rustix::io::Result<Option<(Pid, WaitStatus)>> {
    let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    retry_on_intr(|| wait(options | all))
}

pub(in crate::exec) fn has_children() -> bool {
    loop {
        match wait_any(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// For a subreaper this includes orphaned descendants, which may exit before all processes are listed.
pub(in crate::exec) fn kill_children() {
    let own = getpid();
    let children = fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    for child in pids.filter_map(Pid::from_raw) {
        _ = kill_process(child, Signal::KILL);
    }
}

fn exec_command(plan: &SandboxPlan, descriptors: Vec<OwnedFd>) -> Result<Infallible, String> {
    let run = &plan.run;
    let mut descriptors = descriptors.into_iter();
    let mut take = || descriptors.next().ok_or("a descriptor is missing");
    let (stdout, stderr) = (take()?, take()?);
    if let Some(number) = run.report {
        sys::duplicate_onto(&take()?, number).map_err(prefix_error("the report"))?;
    }
    // A command may send signals to its whole process group: the supervisor is in another one.
    setsid().map_err(prefix_error("setsid"))?;
    nofollow::open(run.directory.as_ref(), FOLDER_FLAGS)
        .and_then(fchdir)
        .map_err(prefix_error(run.directory.display()))?;
    // With 1 no handler of the system receives the memory of a crashed process. A lower limit stays.
    _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
    // Counted per user namespace; without one all processes of the user would count.
    if plan.namespaces && plan.max_processes > 0 {
        let max = Some(plan.max_processes.into());
        _ = setrlimit(Resource::Nproc, Rlimit { current: max, maximum: max });
    }
    confine::confine_process(plan)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "exec starts it: this process becomes bash, and its parent ends it"
    )]
    let error = std::process::Command::new(&run.program)
        .args(&run.words)
        .env_clear()
        .envs(run.variables.iter().map(|(name, value)| (name, value)))
        // The inherited input is the machine's; a command could change its mode and times.
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .exec();
    Err(format!("{}: {error}", run.program.display()))
}
