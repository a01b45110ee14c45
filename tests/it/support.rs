//! Shared by the tests: a project in a temporary directory, the built binary, and its results.

pub(crate) mod batch;
pub(crate) mod browser;
pub(crate) mod gnu_screen;
pub(crate) mod picture;
pub(crate) mod postgres;
mod pty;
pub(crate) mod server;
pub(crate) mod tmux;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use pty::Pty;
use serde_json::Value;

/// A project, a home, and the binary to run in them.
#[must_use]
pub(crate) struct Test {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
    stdin: Option<Vec<u8>>,
    user: Option<u32>,
}

/// `nobody`: the user to run the binary as where root would be refused nothing.
pub(crate) const NOBODY: u32 = 65534;

impl Test {
    pub(crate) fn new() -> Self {
        Self::with_dir(tempfile::tempdir().unwrap())
    }

    /// A project in memory if possible, which avoids waiting for a disk.
    pub(crate) fn in_memory() -> Self {
        tempfile::tempdir_in("/dev/shm").map_or_else(|_| Self::new(), Self::with_dir)
    }

    /// A project below this directory.
    pub(crate) fn new_in(folder: &Path) -> Self {
        Self::with_dir(tempfile::tempdir_in(folder).unwrap())
    }

    fn with_dir(dir: tempfile::TempDir) -> Self {
        std::fs::create_dir_all(dir.path().join("project")).unwrap();
        std::fs::create_dir_all(dir.path().join("home")).unwrap();
        Self { dir, env: Vec::new(), stdin: None, user: None }
    }

    /// Adds a file to the project.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// Sets the script for `--model script:../script`.
    pub(crate) fn script(self, text: &str) -> Self {
        std::fs::write(self.dir.path().join("script"), text).unwrap();
        self
    }

    /// Sets the user's configuration.
    pub(crate) fn user_config(self, text: &str) -> Self {
        let dir = self.dir.path().join("home/.config/agent");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), text).unwrap();
        self
    }

    /// The same test without root privileges: if the tests run as root, all files are given to
    /// `nobody`, who runs the binary. Reports a skip and returns `None` if that does not work.
    pub(crate) fn unprivileged(mut self, test: &str) -> Option<Self> {
        if !is_root() {
            return Some(self);
        }
        give_to_nobody(self.dir.path());
        self.user = Some(NOBODY);
        if self.command(&["--version"]).output().is_ok_and(|output| output.status.success()) {
            return Some(self);
        }
        say(&format!(
            "SKIPPED: {test}: root is refused nothing, and nobody can not run the binary"
        ));
        None
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdin = Some(text.as_ref().to_vec());
        self
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("project").canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The binary with these arguments, ready to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .args(args)
            .current_dir(self.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs the binary to completion.
    pub(crate) fn agent(&self, args: &[&str]) -> Done {
        let mut command = self.command(args);
        let output = match &self.stdin {
            None => command.output().unwrap(),
            Some(text) => {
                let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
                let mut stdin = child.stdin.take().unwrap();
                let text = text.clone();
                let writer = std::thread::spawn(move || {
                    // A program that reads no input may exit before everything is written.
                    _ = std::io::Write::write_all(&mut stdin, &text);
                });
                let output = child.wait_with_output().unwrap();
                writer.join().unwrap();
                output
            }
        };
        Done::new(&output)
    }

    /// Runs the binary to completion in a terminal with this typed input; its output is in
    /// `stdout`.
    pub(crate) fn in_terminal(&self, args: &[&str], typed: &str) -> Done {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
        let mut command = self.command(args);
        let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // Close our copy of the slave side, so that reading ends when the child exits.
        drop(command);
        let mut terminal = std::fs::File::from(terminal);
        std::io::Write::write_all(&mut terminal, typed.as_bytes()).unwrap();
        let mut written = Vec::new();
        // Linux reports EIO where other systems report end of file.
        _ = std::io::Read::read_to_end(&mut terminal, &mut written);
        let status = child.wait().unwrap();
        Done {
            code: status.code(),
            stdout: String::from_utf8(written).unwrap().replace("\r\n", "\n"),
            stderr: String::new(),
        }
    }

    /// Runs `agent run` with the script.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let mut all = vec!["run", "--model", "script:../script"];
        // The result must not depend on the load of the machine.
        all.extend(["--set", "learning.wait_ms=10000"]);
        all.extend(args);
        self.agent(&all)
    }

    /// Starts the binary.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs `agent tool call`; returns its envelope.
    pub(crate) fn call(&self, name: &str, input: &Value) -> Value {
        let done = self.agent(&["tool", "call", name, &input.to_string()]);
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    }

    /// Runs `agent tool batch` with these calls; returns their envelopes.
    pub(crate) fn batch(&self, calls: &[(&str, Value)]) -> Vec<Value> {
        let lines: String = calls
            .iter()
            .enumerate()
            .map(|(id, (name, input))| {
                format!("{}\n", serde_json::json!({"id": id, "name": name, "input": input}))
            })
            .collect();
        let mut command = self.command(&["tool", "batch"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let done = Done::new(&child.wait_with_output().unwrap());
        done.stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["envelope"].clone())
            .collect()
    }

    /// The directory of the project's sessions, whether it exists or not.
    pub(crate) fn sessions(&self) -> PathBuf {
        let home = self.env.iter().rev().find(|(name, _)| name == "HOME");
        let home = home.map_or_else(|| self.home(), |(_, home)| PathBuf::from(home));
        sessions_in(&home.join(".local/state/agent"), &self.root())
    }

    /// Writes a session with these events; returns the path of its log.
    pub(crate) fn record(&self, id: &str, events: &str) -> PathBuf {
        let sessions = self.sessions();
        let log = sessions.join(id).join("events.jsonl");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, events).unwrap();
        let path = sessions.with_file_name("path");
        std::fs::write(path, self.root().as_os_str().as_encoded_bytes()).unwrap();
        log
    }

    /// The event log of the latest session, if there is one.
    pub(crate) fn try_log(&self) -> Option<PathBuf> {
        let sessions = std::fs::read_dir(self.sessions()).ok()?;
        let mut logs: Vec<_> = sessions
            .map(|entry| entry.unwrap().path().join("events.jsonl"))
            .filter(|path| path.exists())
            .collect();
        logs.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
        logs.pop()
    }

    /// The event log of the latest session.
    pub(crate) fn log(&self) -> PathBuf {
        self.try_log().expect("a session")
    }

    /// Whether the log, which may be being written, contains an event of this type.
    pub(crate) fn has_event(&self, kind: &str) -> bool {
        self.n_events(kind) > 0
    }

    /// The number of events of this type in the log, which may be being written.
    pub(crate) fn n_events(&self, kind: &str) -> usize {
        let text = self.try_log().and_then(|log| std::fs::read_to_string(log).ok());
        // A line that is being written does not count: it cannot be read yet.
        let whole = |text: &str| text.rfind('\n').map_or(0, |end| end + 1);
        text.map_or(0, |text| text[..whole(&text)].matches(&format!("\"type\":\"{kind}\"")).count())
    }

    /// The events of the latest session.
    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.log())
    }

    /// The events of one type.
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }
}

impl Pty {
    /// The chat with the test's script.
    pub(crate) fn chat(test: &Test, args: &[&str]) -> Self {
        let mut all = vec!["--model", "script:../script"];
        all.extend(args);
        Self::start(test, &all, 24, 80, "xterm-256color")
    }

    /// The program with these arguments in the test's project.
    pub(crate) fn start(test: &Test, args: &[&str], rows: u16, cols: u16, term: &str) -> Self {
        Self::spawn(&test.command(args), rows, cols, term)
    }
}

/// Directory of a project's sessions in a state directory.
pub(crate) fn sessions_in(state: &Path, project: &Path) -> PathBuf {
    let name = project.file_name().unwrap().to_str().unwrap();
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    state.join("projects").join(format!("{name}-{}", &hash[..16])).join("sessions")
}

fn give_to_nobody(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give_to_nobody(&entry.unwrap().path());
        }
    }
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Prints to the output of the tests even if the test passes, so that skipped tests are visible. `.ci/run` fails on
/// a line with `SKIPPED: ` that `.ci/skipped` does not list.
pub(crate) fn say(text: &str) {
    // Not `eprintln`, which the test runner captures.
    _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
}

/// Compares a table with the one after this line of a page; with `UPDATE_TABLE=1`, writes it there.
pub(crate) fn check_generated_table(page: &str, begin: &str, table: &str) {
    check_generated(page, begin, table, "UPDATE_TABLE");
}

/// Compares a generated part with the one after this line of a page; if the variable is set, writes it there.
pub(crate) fn check_generated(page: &str, begin: &str, part: &str, variable: &str) {
    const END: &str = "<!-- its end -->\n";

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(begin).expect("the line before it");
    let (stands, after) = rest.split_once(END).expect("the line behind it");
    if std::env::var_os(variable).is_some() {
        std::fs::write(&path, format!("{before}{begin}{part}{END}{after}")).unwrap();
    } else {
        assert_eq!(stands, part, "{variable}=1 writes it");
    }
}

/// Whether this program is installed; if not, reports that the test is skipped.
pub(crate) fn has(program: &str, test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !is_there {
        say(&format!("SKIPPED: {test}: there is no {program} here"));
    }
    is_there
}

/// Command lines of processes that contain this text.
pub(crate) fn running(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(line);
        }
    }
    found
}

/// Processes that work in the project, or in a copy of it.
pub(crate) fn processes_in(test: &Test) -> Vec<u32> {
    let place = test.root().parent().unwrap().canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let is_in = std::fs::read_link(process.path().join("cwd")).ok()?.starts_with(&place);
        is_in.then_some(pid)
    });
    processes.collect()
}

/// Waits until this is so.
#[track_caller]
pub(crate) fn wait_for(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_mins(1), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = std::process::Command::new("bash")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .unwrap();
    assert!(status.success());
}

/// The events in a log; each line must be complete.
pub(crate) fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The result of a run of the binary.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn expect_stderr(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "{part:?} is not in\n{}", self.stderr);
        self
    }

    /// Exactly one line, and no panic.
    #[track_caller]
    pub(crate) fn expect_one_line_of_stderr(self, part: &str) -> Self {
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.expect_stderr(part)
    }

    #[track_caller]
    pub(crate) fn expect_stdout(self, text: &str) -> Self {
        assert_eq!(self.stdout, text, "{}", self.stderr);
        self
    }

    /// Standard output as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}
