//! The binary in GNU screen, which does not reflow lines on a resize and has its own scrollback.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Test, say};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct GnuScreen {
    home: PathBuf,
}

impl GnuScreen {
    /// Starts a shell line in a window of 80 × 24. Reports a skip and returns `None` if GNU screen
    /// is not installed.
    pub(crate) fn start(name: &str, test: &Test, line: &str) -> Option<Self> {
        let screen = Self { home: test.home().clone() };
        // It refuses a socket directory that others can access.
        let sockets = screen.home.join("sockets");
        std::fs::create_dir_all(&sockets).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&sockets, mode).unwrap();
        let settings =
            "defscrollback 10000\ndefutf8 on\nstartup_message off\nterm screen-256color\n";
        std::fs::write(screen.home.join("screenrc"), settings).unwrap();
        let mut start = screen.command();
        start.envs(test.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        start.arg("-c").arg(screen.home.join("screenrc")).args(["-U", "-d", "-m", "bash", "-c"]);
        start.arg(format!("AGENT='{}'; {line}; exec cat", env!("CARGO_BIN_EXE_agent")));
        start.current_dir(test.root());
        if start.status().is_ok_and(|status| status.success()) {
            return Some(screen);
        }
        say(&format!("SKIPPED: {name}: there is no GNU screen"));
        None
    }

    fn command(&self) -> Command {
        let mut command = Command::new("screen");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/bash").env("TERM", "xterm-256color");
        command.env("SCREENDIR", self.home.join("sockets")).args(["-S", "test"]);
        command
    }

    fn run(&self, args: &[&str]) {
        self.command().args(["-p", "0", "-X"]).args(args).status().unwrap();
    }

    /// Types this text.
    pub(crate) fn stuff(&self, text: &str) {
        self.run(&["stuff", text]);
    }

    fn copy(&self, flags: &[&str]) -> String {
        let file = self.home.join("copy");
        _ = std::fs::remove_file(&file);
        let path = file.to_str().unwrap();
        let begun = Instant::now();
        // The other process writes the file, and ignores commands until it is ready.
        while !file.exists() && begun.elapsed() < PATIENCE {
            self.run(&[&["hardcopy"], flags, &[path]].concat());
            let asked = Instant::now();
            while !file.exists() && asked.elapsed() < Duration::from_secs(1) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
    }

    /// All lines, including the scrollback.
    pub(crate) fn all(&self) -> String {
        self.copy(&["-h"])
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        loop {
            let screen = self.copy(&[]);
            if screen.contains(text) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited for {text:?}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for GnuScreen {
    fn drop(&mut self) {
        // Nothing is running if GNU screen is not installed.
        _ = self.command().args(["-X", "quit"]).status();
    }
}
