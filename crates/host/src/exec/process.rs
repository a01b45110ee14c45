//! Finds and ends all processes of a command: those in the shell's session or group, their descendants, and those with
//! the command's mark in their environment. A process may have left the group (`setsid`), and its parent may have ended.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::RemainingProcess;
use agent_protocol::shorten;

/// Time limit for stopping all processes before the first is killed: a stopped process starts no other.
const STOP_TIME: Duration = Duration::from_millis(50);
/// A killed process that takes longer counts as blocked in the kernel.
const HANG_TIME: Duration = Duration::from_secs(2);
const NAME_LENGTH: usize = 100;

#[derive(Debug)]
pub(super) struct CommandProcesses {
    /// The shell's process id, while the shell or its session may exist; later it may be reused.
    root: Option<i32>,
    /// Clock ticks.
    start_time: u64,
    /// Part of the environment of each process, unless the process cleared it.
    mark: String,
    /// Processes that outlived the shell: process id and start time.
    known: HashSet<(i32, u64)>,
    non_members: HashSet<(i32, u64)>,
}

impl CommandProcesses {
    pub(super) fn new(root: i32, mark: String) -> Self {
        let start_time = read_process(root).map_or(0, |process| process.start_time);
        let (known, non_members) = (HashSet::new(), HashSet::new());
        Self { root: Some(root), start_time, mark, known, non_members }
    }

    /// Only the mark identifies these processes: when they are searched, the supervisor has ended.
    pub(super) fn supervised(supervisor: i32, mark: String) -> Self {
        Self { root: None, ..Self::new(supervisor, mark) }
    }

    pub(super) fn running_processes(&mut self) -> Vec<Process> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let mut others: Vec<Process> = all_processes()
            .filter(|process| {
                process.pid != own && process.start_time >= self.start_time && process.is_alive
            })
            .collect();
        let members = others.extract_if(.., |process| self.is_member(process)).collect();
        with_descendants(members, others)
    }

    /// For use after the shell's exit; from then on process id and start time identify the processes.
    pub(super) fn keep_remaining(&mut self) -> Vec<RemainingProcess> {
        let members = self.running_processes();
        self.root = None;
        self.known = members.iter().map(|process| (process.pid, process.start_time)).collect();
        members.iter().map(Process::to_remaining).collect()
    }

    pub(super) fn kill(&mut self) {
        // Most processes end immediately, so that few can start others during the search.
        if let Some(group) = self.root.and_then(Pid::from_raw) {
            _ = kill_process_group(group, Signal::STOP);
        }
        kill_all(|| self.running_processes());
    }

    fn is_member(&mut self, process: &Process) -> bool {
        let id = (process.pid, process.start_time);
        let ids = [process.pid, process.session, process.group];
        if self.root.is_some_and(|root| ids.contains(&root)) || self.known.contains(&id) {
            return true;
        }
        if self.non_members.contains(&id) {
            return false;
        }
        let has_mark = process.has_mark(&self.mark);
        if has_mark == Some(false) {
            self.non_members.insert(id);
        }
        has_mark == Some(true)
    }
}

/// Requires that this process is a subreaper and reaps the descendants.
pub(super) fn end_descendants() {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    kill_all(|| descendants(own).0);
}

/// A process whose children supervise others. Its process id may be reused as soon as it ends.
#[derive(Debug)]
pub(super) struct SupervisorProcess {
    pub(super) pid: i32,
    /// Stays valid if the process id is reused.
    handle: OwnedFd,
}

impl SupervisorProcess {
    pub(super) fn new(pid: i32) -> io::Result<Self> {
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { pid, handle: pidfd_open(number, PidfdFlags::empty())? })
    }

    /// Descendants except the children: the processes that the children supervise.
    pub(super) fn supervised_processes(&self) -> Vec<RemainingProcess> {
        let (mut found, n_children) = descendants(self.pid);
        // If this process has ended, its process id may have been reused during the search.
        if self.has_ended() {
            return Vec::new();
        }
        found.split_off(n_children).iter().map(Process::to_remaining).collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut one = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
        poll(&mut one, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }

    pub(super) fn kill(&self) {
        // The process may have ended already.
        _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }
}

/// The children come first; also returns their number.
fn descendants(pid: i32) -> (Vec<Process>, usize) {
    let mut others: Vec<Process> = all_processes().filter(|process| process.is_alive).collect();
    let children: Vec<Process> = others.extract_if(.., |process| process.parent == pid).collect();
    let n_children = children.len();
    (with_descendants(children, others), n_children)
}

fn kill_all(mut members: impl FnMut() -> Vec<Process>) {
    let begun = Instant::now();
    let mut stopped = HashSet::new();
    let mut last_change = begun;
    let mut n_before = 0;
    loop {
        let members = members();
        if members.is_empty() {
            return;
        }
        let mut n_new = 0;
        for process in &members {
            if stopped.insert((process.pid, process.start_time)) {
                n_new += 1;
                process.signal(Signal::STOP);
            }
        }
        let now = Instant::now();
        if n_new > 0 || members.len() != n_before {
            (last_change, n_before) = (now, members.len());
        }
        if n_new > 0 && now.duration_since(begun) < STOP_TIME {
            continue;
        }
        for process in &members {
            process.signal(Signal::KILL);
        }
        if now.duration_since(last_change) > HANG_TIME {
            return;
        }
        if n_new == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn with_descendants(mut members: Vec<Process>, mut others: Vec<Process>) -> Vec<Process> {
    let mut at = 0;
    while let Some(member) = members.get(at) {
        let parent = member.pid;
        members.extend(others.extract_if(.., |process| process.parent == parent));
        at += 1;
    }
    members
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    start_time: u64,
    /// Neither a zombie nor dead.
    is_alive: bool,
}

impl Process {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // The process may have ended already.
            _ = kill_process(pid, signal);
        }
    }

    /// `None` if unknown: the environment is empty while a program is being executed.
    fn has_mark(&self, mark: &str) -> Option<bool> {
        let Some(environment) = self.read_proc_file("environ") else {
            // Not readable: the process belongs to another user.
            return Some(false);
        };
        let has_mark = environment.windows(mark.len()).any(|window| window == mark.as_bytes());
        (has_mark || !environment.is_empty()).then_some(has_mark)
    }

    /// Reads the file of another thread if the main thread has ended.
    fn read_proc_file(&self, file: &str) -> Option<Vec<u8>> {
        let text = fs::read(format!("/proc/{}/{file}", self.pid)).ok()?;
        if !text.is_empty() {
            return Some(text);
        }
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let files = threads.flatten().map(|thread| thread.path().join(file));
        let mut texts = files.filter_map(|file| fs::read(file).ok());
        Some(texts.find(|text| !text.is_empty()).unwrap_or(text))
    }

    pub(super) fn to_remaining(&self) -> RemainingProcess {
        let line = self.read_proc_file("cmdline").unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        RemainingProcess { pid: self.pid, name: shorten(line.trim_end(), NAME_LENGTH) }
    }
}

fn all_processes() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| read_process(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

fn read_process(pid: i32) -> Option<Process> {
    // One read of the first part: this is done for each process of the system.
    let mut stat = [0; 1024];
    let n = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    let stat = String::from_utf8_lossy(&stat[..n]);
    // The name, the second field, is in parentheses and may contain any character, including parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let n_threads: u32 = fields.nth(13)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    // The main thread may have ended while others run.
    let is_alive = !matches!(state, "Z" | "X" | "x") || n_threads > 1;
    Some(Process { pid, parent, group, session, start_time, is_alive })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]
    #![expect(clippy::disallowed_methods, reason = "processes that are nobody's command")]

    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn reused_pid_is_not_killed() {
        // A process with descendants: a shell and its child.
        let mut other = Command::new("bash")
            .args(["-c", "bash -c 'sleep 600 & echo $!; wait'; :"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        let stdout = other.stdout.as_mut().unwrap();
        while !said.ends_with(b"\n") {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        let grandchild: i32 = String::from_utf8(said).unwrap().trim().parse().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        let mut watcher = SupervisorProcess::new(pid).unwrap();
        let seen: Vec<i32> = watcher.supervised_processes().iter().map(|left| left.pid).collect();
        assert_eq!(seen, [grandchild]);

        // The process id of an ended process, reused by another one.
        let mut ended = Command::new("true").spawn().unwrap();
        let handle = SupervisorProcess::new(i32::try_from(ended.id()).unwrap()).unwrap().handle;
        ended.wait().unwrap();
        watcher.handle = handle;
        assert_eq!(watcher.supervised_processes(), []);
        watcher.kill();
        let grandchild = read_process(grandchild).unwrap();
        assert!(grandchild.is_alive);
        assert!(other.try_wait().unwrap().is_none());

        grandchild.signal(Signal::KILL);
        other.wait().unwrap();
    }
}
