//! The processes of one command, found and ended.
//!
//! Ending the group is not enough: a process may have left it (`setsid`), and its parent may be
//! gone. So a process belongs to a command if it is in the shell's session or group, descends from
//! one that belongs, or carries the command's mark in its environment.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::LeftRunning;
use crate::protocol::shorten;

/// What a kill may take at most; what does not die within it hangs in the kernel.
const KILL_TIME: Duration = Duration::from_secs(1);
/// How much of a command line is a name.
const NAME_LENGTH: usize = 100;

/// The processes of one command.
#[derive(Debug)]
pub(super) struct Family {
    /// The shell, while it or its session may still be there; its number may come again later.
    root: Option<i32>,
    /// When the shell began, in the system's ticks.
    since: u64,
    /// In the environment of each of them, unless it cleared it.
    mark: String,
    /// Those that outlived the shell: number and beginning.
    known: HashSet<(i32, u64)>,
}

impl Family {
    pub(super) fn new(root: i32, mark: String) -> Self {
        let since = read(root).map_or(0, |process| process.since);
        Self { root: Some(root), since, mark, known: HashSet::new() }
    }

    /// Those that live now.
    pub(super) fn living(&self) -> Vec<Process> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let mut others: Vec<Process> = all()
            .filter(|process| process.pid != own && process.since >= self.since && process.lives)
            .collect();
        let mut members: Vec<Process> =
            others.extract_if(.., |process| self.claims(process)).collect();
        let mut at = 0;
        while let Some(member) = members.get(at) {
            let parent = member.pid;
            members.extend(others.extract_if(.., |process| process.parent == parent));
            at += 1;
        }
        members
    }

    /// Those that live now, when the shell is gone: from here on they are known by themselves.
    pub(super) fn outlived(&mut self) -> Vec<LeftRunning> {
        let members = self.living();
        self.root = None;
        self.known = members.iter().map(|process| (process.pid, process.since)).collect();
        members
            .iter()
            .map(|process| LeftRunning { pid: process.pid, name: process.name() })
            .collect()
    }

    /// Ends them all. First all are stopped, so that none can start another meanwhile.
    pub(super) fn kill(&mut self) {
        let deadline = Instant::now() + KILL_TIME;
        let mut stopped = HashSet::new();
        loop {
            let members = self.living();
            let mut n_new = 0;
            for process in &members {
                if stopped.insert((process.pid, process.since)) {
                    n_new += 1;
                    process.signal(Signal::STOP);
                }
            }
            if n_new > 0 && Instant::now() < deadline {
                continue;
            }
            for process in &members {
                process.signal(Signal::KILL);
            }
            if members.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn claims(&self, process: &Process) -> bool {
        self.root.is_some_and(|root| [process.pid, process.session, process.group].contains(&root))
            || self.known.contains(&(process.pid, process.since))
            || process.has_mark(&self.mark)
    }
}

/// A process, as `/proc` tells of it.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    since: u64,
    /// Neither a zombie nor dead.
    lives: bool,
}

impl Process {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended by itself.
            _ = kill_process(pid, signal);
        }
    }

    fn has_mark(&self, mark: &str) -> bool {
        // Not readable: it belongs to somebody else.
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    }

    fn name(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        shorten(line.trim_end(), NAME_LENGTH)
    }
}

/// The signal's name, where it has one.
pub(super) fn signal_name(signal: i32) -> Option<String> {
    const NAMES: &[&str] = &[
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = NAMES.get(usize::try_from(signal).ok()?.checked_sub(1)?)?;
    Some(format!("SIG{name}"))
}

fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| read(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may contain any character, these too.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let since = fields.nth(15)?.parse().ok()?;
    Some(Process { pid, parent, group, session, since, lives })
}
