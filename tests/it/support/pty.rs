//! The binary in a pseudo-terminal, read through a terminal parser.

use std::io::{Read as _, Write};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Longer than any wait takes on any machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A little longer than the program ignores keys for a question that has just appeared.
const QUESTION_GUARD: Duration = Duration::from_millis(600);
const PACE: Duration = Duration::from_millis(3);

pub(crate) struct Pty {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    /// Timeout of each wait.
    pub(crate) patience: Duration,
    /// Interval between two checks.
    pub(crate) pace: Duration,
    reader: JoinHandle<()>,
}

/// Output written to the terminal.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Pty {
    /// Starts a command with its own directory and environment.
    pub(crate) fn spawn(from: &Command, rows: u16, cols: u16, term: &str) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(from.get_program());
        command.args(from.get_args());
        command.cwd(from.get_current_dir().unwrap());
        command.env_clear();
        for (name, value) in from.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("TERM", term);
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let parser = vt100::Parser::new(rows, cols, 100_000);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let theirs = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                let mut seen = theirs.lock().unwrap();
                seen.parser.process(&buffer[..n]);
                seen.bytes.extend_from_slice(&buffer[..n]);
            }
        });
        let (patience, pace) = (PATIENCE, PACE);
        Self { master: pair.master, writer, child, seen, reader, patience, pace }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Types this text, as the terminal would send it.
    pub(crate) fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Types a message and, once it stands before the cursor, Enter. (Keys that arrive together may be a paste.)
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) {
        let without_space = |text: &str| text.split_whitespace().collect::<String>();
        let last = without_space(text.lines().last().unwrap());
        self.send(text);
        self.wait(text, |_| {
            self.with_screen(|screen| {
                let (row, column) = screen.cursor_position();
                without_space(&screen.contents_between(0, 0, row, column)).ends_with(&last)
            })
        });
        self.send("\r");
    }

    /// The current screen, without blank lines at the end.
    pub(crate) fn screen(&self) -> String {
        self.seen().parser.screen().contents()
    }

    /// All output, including lines that have scrolled away.
    pub(crate) fn all(&self) -> String {
        let mut seen = self.seen();
        let screen = seen.parser.screen_mut();
        let (rows, cols) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut lines = Vec::new();
        for back in (0..=screen.scrollback()).rev() {
            screen.set_scrollback(back);
            let shown = screen.rows(0, cols);
            lines.extend(shown.take(if back == 0 { usize::from(rows) } else { 1 }));
        }
        let all: String = lines.iter().map(|line| format!("{}\n", line.trim_end())).collect();
        format!("{}\n", all.trim_end())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }

    pub(crate) fn with_bytes<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.seen().bytes)
    }

    pub(crate) fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen().parser.screen())
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return;
            }
            assert!(begun.elapsed() < self.patience, "waited for {what:?}\n{screen}");
            std::thread::sleep(self.pace);
        }
    }

    /// Waits until the question for a permission accepts keys.
    #[track_caller]
    pub(crate) fn wait_for_question(&self) {
        self.wait_until_it_accepts_keys("no, and say what instead");
    }

    /// Waits until the question with this text accepts keys: it must have been on the screen for a moment.
    #[track_caller]
    pub(crate) fn wait_until_it_accepts_keys(&self, question: &str) {
        self.wait_for(question);
        std::thread::sleep(QUESTION_GUARD);
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        let mut seen = self.seen();
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
        seen.parser.screen_mut().set_size(rows, cols);
    }

    /// Reports a size that differs from the parser's.
    pub(crate) fn lie(&self, rows: u16, cols: u16) {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
    }

    /// Whether the terminal is in cooked mode, as a shell expects.
    pub(crate) fn is_cooked(&self) -> bool {
        let flags = format!("{:?}", self.master.get_termios().unwrap().local_flags);
        ["ICANON", "ECHO", "ISIG"].iter().all(|flag| flags.contains(flag))
    }

    pub(crate) fn process(&self) -> rustix::process::Pid {
        let id = self.child.process_id().unwrap();
        rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    /// Leaves the chat with Ctrl-D, which it accepts only between turns.
    #[track_caller]
    pub(crate) fn leave(&mut self) -> u32 {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < self.patience, "it does not end\n{}", self.screen());
            // It may have ended meanwhile.
            _ = self.writer.write_all(b"\x04").and_then(|()| self.writer.flush());
            std::thread::sleep(self.pace * 10);
        }
        self.end()
    }

    /// Waits until the program has exited and all output is read; returns its exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> u32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap()
                && self.reader.is_finished()
            {
                return status.exit_code();
            }
            assert!(begun.elapsed() < self.patience, "it does not end\n{}", self.screen());
            std::thread::sleep(self.pace);
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
