//! The supervisor: our own binary, started again between the agent and bash.
//!
//! Two processes. The *outer* one stays with the agent: it waits for the inner one and for the agent's
//! end of the channel, and ends everything when that closes, whatever ended the agent. The *inner* one
//! is the parent of all that the command starts: the first process of the command's PID namespace, which
//! takes everything along when it ends, or a subreaper where there is none.
//!
//! Both have one thread; what they say to the agent are lines: `shell PID`, `exited STATUS LEFT`,
//! `failed WHY`.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, getgid, getuid, kill_process, pidfd_open,
    set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::super::process::end_descendants;
use super::plan::{Plan, Session};
use super::{Network, confine, mounts, sys};

/// What the agent starts itself with to be this; then the channel's descriptor, and the command's program
/// with its arguments. Without a program it is only tried whether all this holds. The plan comes by the
/// channel: it is made while this process starts.
pub(super) const WORD: &str = "__supervise";

/// Is the supervisor, if that is what the process was started as: then its exit code.
pub(super) fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let mut descriptor = || sys::inherited(arguments.next()?.to_str()?).ok();
    let Some(channel) = descriptor() else { return Some(2) };
    let mut channel = UnixStream::from(channel);
    let command: Vec<_> = arguments.collect();
    if let Err(why) = outer(&mut channel, &command) {
        tell(&mut channel, &format!("failed {why}"));
        return Some(1);
    }
    Some(0)
}

fn tell(channel: &mut UnixStream, line: &str) {
    // Nobody may be listening any more; then the end is near.
    // In one piece: each wakes the agent.
    _ = channel.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
}

fn outer(channel: &mut UnixStream, command: &[std::ffi::OsString]) -> Result<(), String> {
    // Away from our terminal and our group: what is sent to those is not for a command. (It may lead a group
    // of its own already, who tries it by hand.)
    _ = setsid();
    let Some(plan) = Plan::read(channel).map_err(|error| format!("the plan: {error}"))? else {
        return Ok(());
    };
    let system = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    if plan.namespaces {
        match &plan.session {
            Some(session) => enter_session(session)?,
            None => enter_namespaces(plan.network)?,
        }
    }
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| system("subreaper", error))?;
    if !plan.only_tries {
        // What the command could learn or take from here: nothing.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| system("dumpable", error))?;
    }
    let Some(inner) = sys::fork().map_err(|error| format!("fork: {error}"))? else {
        if let Err(why) = inner(&plan, channel, command) {
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
        end_descendants();
    }
    while sys::wait_any(true).is_ok() {}
    if plan.only_tries {
        wait_for_end(channel);
    }
    Ok(())
}

/// Returns when the inner process has ended or nobody holds the other end of the channel.
fn wait_for_either(channel: &UnixStream, inner: &OwnedFd) {
    loop {
        let mut both = [
            // Nothing is ever sent to here: what can be read is its end.
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(inner.as_fd(), PollFlags::IN),
        ];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

fn wait_for_end(channel: &UnixStream) {
    let mut one = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    while poll(&mut one, None) == Err(rustix::io::Errno::INTR) {}
}

/// The session's namespaces, as far as it has any, and new ones of the other kinds.
fn enter_session(session: &Session) -> Result<(), String> {
    let enter = |number: i32, kind| {
        let namespace = sys::inherited(&number.to_string())?;
        move_into_link_name_space(namespace.as_fd(), Some(kind)).map_err(std::io::Error::from)
    };
    if let Some(user) = session.user {
        enter(user, LinkNameSpaceType::User)
            .map_err(|error| format!("the session's user namespace: {error}"))?;
    }
    sys::unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC)
        .map_err(|error| format!("namespaces are refused: {error}"))?;
    enter(session.network, LinkNameSpaceType::Network)
        .map_err(|error| format!("the session's network namespace: {error}"))
}

fn enter_namespaces(network: Network) -> Result<(), String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if network != Network::On {
        flags |= UnshareFlags::NEWNET;
    }
    let refused = |error| format!("namespaces are refused: {error}");
    match sys::unshare(flags | UnshareFlags::NEWUSER) {
        Ok(()) => map_user(uid, gid)?,
        // Root needs no user namespace for the others; its capabilities go in any case.
        Err(_) if uid == 0 => sys::unshare(flags).map_err(refused)?,
        Err(error) => return Err(refused(error)),
    }
    if network == Network::Loopback {
        sys::loopback_up().map_err(|error| format!("the loopback interface: {error}"))?;
    }
    Ok(())
}

/// In its user namespace it is who it was, and nobody else.
fn map_user(uid: u32, gid: u32) -> Result<(), String> {
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| format!("/proc/self/{file}: {error}"))?;
    }
    Ok(())
}

/// The parent of the command: waits for all that it starts. Ends with the last of them.
fn inner(
    plan: &Plan,
    channel: &mut UnixStream,
    command: &[std::ffi::OsString],
) -> Result<(), String> {
    if plan.namespaces {
        // Follows the outer process, which has one thread.
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("death signal: {error}"))?;
        mounts::arrange(&plan.binds)?;
    }
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let Some(shell) = sys::fork().map_err(|error| format!("fork: {error}"))? else {
        let why = become_command(plan, command);
        tell(channel, &format!("failed {why}"));
        exit(1);
    };
    sys::close_standard();
    tell(channel, &format!("shell {}", shell.as_raw_pid()));
    while let Ok(Some((ended, status))) = sys::wait_any(true) {
        if Pid::from_raw(ended) == Some(shell) {
            let has_left = loop {
                match sys::wait_any(false) {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            tell(channel, &format!("exited {status} {}", u8::from(has_left)));
        }
    }
    Ok(())
}

/// Returns only why it could not.
fn become_command(plan: &Plan, command: &[std::ffi::OsString]) -> String {
    let prepared = || -> Result<(), String> {
        // No group in common with the supervisor: a command may signal its whole group.
        setsid().map_err(|error| format!("setsid: {error}"))?;
        rustix::process::chdir(plan.directory.0.as_path())
            .map_err(|error| format!("{}: {error}", plan.directory.0.display()))?;
        sys::close_at_exec(plan.report).map_err(|error| format!("descriptors: {error}"))?;
        confine::confine(plan)
    };
    if let Err(why) = prepared() {
        return why;
    }
    let Some((program, arguments)) = command.split_first() else { exit(0) };
    #[expect(
        clippy::disallowed_methods,
        reason = "exec starts it: this process becomes bash, and its parent ends it"
    )]
    let error = std::process::Command::new(program).args(arguments).exec();
    format!("{}: {error}", program.display())
}
