//! The binary in tmux: a real terminal with its own scrollback that reflows lines on a resize.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Test, say};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Tmux {
    socket: std::path::PathBuf,
}

impl Tmux {
    /// Starts a shell line in a window. Reports a skip and returns `None` if tmux is not installed.
    pub(crate) fn start(
        name: &str,
        test: &Test,
        line: &str,
        (cols, rows): (u16, u16),
    ) -> Option<Self> {
        let tmux = Self { socket: test.home().join("tmux") };
        let command = test.command(&[]);
        let mut start = tmux.command();
        start.args(["-f", "/dev/null", "new-session", "-d"]);
        start.args(["-x", &cols.to_string(), "-y", &rows.to_string(), "-c"]).arg(test.root());
        for (name, value) in command.get_envs() {
            let value = value.unwrap_or_default();
            start.arg("-e").arg(format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        }
        start.arg(format!("AGENT='{}'; {line}", env!("CARGO_BIN_EXE_agent")));
        start.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        start.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/bash");
        match start.status() {
            Ok(status) if status.success() => {
                tmux.run(&["set-option", "-g", "history-limit", "100000"]);
                Some(tmux)
            }
            _ => {
                say(&format!("SKIPPED: {name}: there is no tmux"));
                None
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        self.run(&args);
    }

    pub(crate) fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    /// All lines, with wrapped ones joined.
    pub(crate) fn all(&self) -> String {
        self.run(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited for {text:?}\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Nothing is running if tmux is not installed.
        _ = self.command().arg("kill-server").output();
    }
}
