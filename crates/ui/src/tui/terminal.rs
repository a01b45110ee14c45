//! Access to the terminal: sets it up, reads it, and always restores it: at the end, on a panic,
//! before another program uses it.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::Sender;
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::ThreadMessage;
use super::decoder::Decoder;

/// Bracketed paste and focus events.
const ENABLE_MODES: &str = "\x1b[?2004h\x1b[?1004h";
const RESTORE_MODES: &str = "\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?7h\x1b[?25h";
/// Extended keys with those of the base layout (if supported), and queries for the background colour and the terminal's name.
const QUERY_TERMINAL: &str = "\x1b[>5u\x1b]11;?\x1b\\\x1b[>0q";
const DISABLE_EXTENDED_KEYS: &str = "\x1b[<u";
/// The title is saved on the terminal's stack.
const SAVE_TITLE: &str = "\x1b[22;0t";
/// Clears the title first, for terminals without such a stack.
const RESTORE_TITLE: &str = "\x1b]0;\x07\x1b[23;0t";

pub(super) struct Terminal {
    reader: Option<InputReader>,
    messages: Sender<ThreadMessage>,
    setup_sequence: String,
    restore_sequence: String,
    is_alternate: bool,
    has_title: bool,
    is_acquired: bool,
}

struct InputReader {
    thread: JoinHandle<()>,
    /// Closing this end of the pipe ends the thread.
    stop: OwnedFd,
}

/// The panic of another thread, printed when the terminal is restored.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

impl Terminal {
    pub(super) fn acquire(messages: Sender<ThreadMessage>, has_title: bool) -> io::Result<Self> {
        let term = std::env::var("TERM").unwrap_or_default();
        let is_modern = !matches!(term.as_str(), "linux" | "vt100" | "vt102" | "vt220" | "ansi");
        // Basic consoles support neither.
        let has_title = has_title && is_modern;
        let (ask, forget_keys) =
            if is_modern { (QUERY_TERMINAL, DISABLE_EXTENDED_KEYS) } else { ("", "") };
        let (save, restore) = if has_title { (SAVE_TITLE, RESTORE_TITLE) } else { ("", "") };
        let mut terminal = Self {
            reader: None,
            messages,
            setup_sequence: format!("{ENABLE_MODES}{ask}{save}"),
            restore_sequence: format!("{forget_keys}{restore}{RESTORE_MODES}"),
            is_alternate: false,
            has_title,
            is_acquired: false,
        };
        restore_on_panic(std::thread::current().id(), terminal.restore_sequence.clone());
        terminal.resume()?;
        Ok(terminal)
    }

    /// Called after another program used the terminal.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        crossterm::terminal::enable_raw_mode()?;
        self.is_acquired = true;
        self.write(self.setup_sequence.clone())?;
        if self.reader.is_none() {
            let messages = self.messages.clone();
            let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            let thread = std::thread::Builder::new()
                .name("keys".to_owned())
                .spawn(move || read_input(&stopped, &messages))?;
            self.reader = Some(InputReader { thread, stop });
        }
        Ok(())
    }

    /// The shell or another program may use the terminal then.
    pub(super) fn release(&mut self) {
        if !std::mem::take(&mut self.is_acquired) {
            return;
        }
        if let Some(reader) = self.reader.take() {
            drop(reader.stop);
            // The thread waits only for the terminal and this pipe.
            _ = reader.thread.join();
        }
        // If a step fails, the others are still tried.
        _ = self.set_alternate_screen(false);
        _ = self.write(self.restore_sequence.clone());
        // Late responses of the terminal must not become input of the shell.
        _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        _ = crossterm::terminal::disable_raw_mode();
    }

    /// The title contains no control characters.
    pub(super) fn set_title(&mut self, title: &str) -> io::Result<()> {
        if self.has_title { self.write(format!("\x1b]0;{title}\x07")) } else { Ok(()) }
    }

    pub(super) fn set_alternate_screen(&mut self, on: bool) -> io::Result<()> {
        if self.is_alternate == on {
            return Ok(());
        }
        self.is_alternate = on;
        if on {
            crossterm::execute!(io::stdout(), EnterAlternateScreen)?;
            self.write(b"\x1b[2J")
        } else {
            crossterm::execute!(io::stdout(), LeaveAlternateScreen)
        }
    }

    #[expect(clippy::unused_self, reason = "who writes owns the terminal")]
    pub(super) fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes.as_ref())?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.release();
    }
}

/// Suspends the program and its process group (a script, npm) until it is resumed, as Ctrl-Z does
/// in cooked mode.
pub(super) fn suspend() {
    use nix::sys::signal::{SigSet, Signal, killpg, raise};
    let stop = SigSet::from(Signal::SIGTSTP);
    // A signal to the group may stop the program with a delay, so this thread signals itself too. It
    // is blocked until both are sent, because resuming discards only pending stop signals.
    _ = stop.thread_block();
    _ = raise(Signal::SIGTSTP);
    _ = killpg(nix::unistd::Pid::from_raw(0), Signal::SIGTSTP);
    _ = stop.thread_unblock();
}

/// Columns and rows; 80 × 24 if the terminal does not report them.
pub(super) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let size = size.map_or((0, 0), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    match size {
        (0, _) | (_, 0) => (80, 24),
        (columns, rows) => (columns.clamp(10, 1000), rows.clamp(4, 1000)),
    }
}

/// The name of the terminal tells whether it rewraps long lines when it becomes narrower.
pub(super) fn reflows(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let term = variable("TERM").unwrap_or_default();
    let is_old =
        ["linux", "vt", "ansi", "cons", "st-", "sun"].iter().any(|name| term.starts_with(name));
    let is_screen = term.starts_with("screen") && variable("TMUX").is_none();
    !is_old && !is_screen && term != "st" && variable("XTERM_VERSION").is_none()
}

/// Whether standard input and output are terminals.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Ends when the terminal or the other end of the pipe is closed.
fn read_input(stopped: &OwnedFd, messages: &Sender<ThreadMessage>) {
    let stdin = io::stdin();
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let patience = decoder.patience().and_then(|time| Timespec::try_from(time).ok());
        let mut waiting = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        let ready = match poll(&mut waiting, patience.as_ref()) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        };
        if !waiting[1].revents().is_empty() {
            return;
        }
        let typed = if ready == 0 {
            decoder.flush(Instant::now())
        } else {
            match rustix::io::read(&stdin, &mut buffer[..]) {
                Ok(0) => break,
                Ok(n) => decoder.feed(&buffer[..n], Instant::now()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => break,
            }
        };
        let at = Instant::now();
        for typed in typed {
            if messages.send(ThreadMessage::Terminal(typed, at)).is_err() {
                return;
            }
        }
    }
    _ = messages.send(ThreadMessage::InputClosed);
}

/// Restores the terminal before a panic of the owner is printed; others are printed at the end.
fn restore_on_panic(owner: ThreadId, restoring: String) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == owner {
            _ = write!(io::stdout(), "\x1b[?1049l{restoring}\r\n");
            _ = crossterm::terminal::disable_raw_mode();
            before(panic);
        } else {
            *PANIC.lock() = Some(panic.to_string());
        }
    }));
}

/// In a debug build `AGENT_TEST_PANIC` names the thread that panics, so that tests can check the
/// terminal afterwards.
///
/// # Panics
/// If the variable names the thread.
pub fn panic_if_requested(thread: &str) {
    let requested = || std::env::var("AGENT_TEST_PANIC").is_ok_and(|name| name == thread);
    assert!(!(cfg!(debug_assertions) && requested()), "AGENT_TEST_PANIC names the thread {thread}");
}

pub(super) fn last_panic() -> Option<String> {
    PANIC.lock().take()
}
