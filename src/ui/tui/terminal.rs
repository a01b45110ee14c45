//! The terminal itself: taken over, read, and always given back as it was: at the end, on a panic, before
//! another program uses it.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::Message;
use super::decode::Decoder;

/// How long an escape may be the beginning of a key.
const ESCAPE: Duration = Duration::from_millis(25);
/// Pastes in brackets, news of the focus.
const TAKE: &str = "\x1b[?2004h\x1b[?1004h";
const GIVE: &str = "\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?7h\x1b[?25h";
/// Keys told apart (where that is known), the colour of the background, the terminal's name.
const ASK: &str = "\x1b[>1u\x1b]11;?\x1b\\\x1b[>0q";
const FORGET_KEYS: &str = "\x1b[<u";

/// The terminal, while it is ours.
pub(super) struct Terminal {
    reader: Option<Reader>,
    messages: Sender<Message>,
    is_alternate: bool,
    /// It understands more than the consoles of old.
    is_modern: bool,
    is_ours: bool,
}

/// The thread that reads keys, and how it is stopped.
struct Reader {
    thread: JoinHandle<()>,
    /// Closing it ends the thread.
    stop: OwnedFd,
}

/// The panic of a thread that does not own the screen, told when the screen is given back.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

impl Terminal {
    /// Takes the terminal over; what is typed is sent on.
    pub(super) fn take(messages: Sender<Message>) -> io::Result<Self> {
        let term = std::env::var("TERM").unwrap_or_default();
        let is_modern = !matches!(term.as_str(), "linux" | "vt100" | "vt102" | "vt220" | "ansi");
        give_back_on_panic(std::thread::current().id(), is_modern);
        let mut terminal =
            Self { reader: None, messages, is_alternate: false, is_modern, is_ours: false };
        terminal.resume()?;
        Ok(terminal)
    }

    /// Takes it again, after another program had it.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        crossterm::terminal::enable_raw_mode()?;
        self.is_ours = true;
        self.write(TAKE.as_bytes())?;
        if self.is_modern {
            self.write(ASK.as_bytes())?;
        }
        if self.reader.is_none() {
            self.reader = Some(Reader::start(self.messages.clone())?);
        }
        Ok(())
    }

    /// Gives it back: to the shell, or to another program.
    pub(super) fn give(&mut self) {
        if !std::mem::take(&mut self.is_ours) {
            return;
        }
        if let Some(reader) = self.reader.take() {
            reader.stop();
        }
        // Whatever fails here, the rest is tried.
        _ = self.alternate(false);
        if self.is_modern {
            _ = self.write(FORGET_KEYS.as_bytes());
        }
        _ = self.write(GIVE.as_bytes());
        // What the terminal answers too late is no input of the shell's.
        _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        _ = crossterm::terminal::disable_raw_mode();
    }

    /// To the alternate screen, or back from it.
    pub(super) fn alternate(&mut self, on: bool) -> io::Result<()> {
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
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give();
    }
}

/// Stops the program and whatever waits for it (a script, npm), as Ctrl-Z does in a terminal that is not
/// raw. Comes back when it is to go on; at once where the system stops nothing, as nobody could continue it.
pub(super) fn suspend() {
    use nix::sys::signal::{SigSet, Signal, killpg, raise};
    let stop = SigSet::from(Signal::SIGTSTP);
    // What is sent to the group may stop the program now or a little later, whenever the thread that
    // gets it runs. So this thread sends itself one as well, to stand still before it goes on; it is held
    // back until both are sent, as going on takes back what is held and only that.
    _ = stop.thread_block();
    _ = raise(Signal::SIGTSTP);
    _ = killpg(nix::unistd::Pid::from_raw(0), Signal::SIGTSTP);
    _ = stop.thread_unblock();
}

/// Columns and rows; a terminal that says nothing of use has 80 × 24.
pub(super) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let size = size.map_or((0, 0), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    match size {
        (0, _) | (_, 0) => (80, 24),
        (columns, rows) => (columns.clamp(10, 1000), rows.clamp(4, 1000)),
    }
}

/// The terminal breaks lines that became too long when it is made narrower, as far as its name says it.
pub(super) fn reflows(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let term = variable("TERM").unwrap_or_default();
    let is_old =
        ["linux", "vt", "ansi", "cons", "st-", "sun"].iter().any(|it| term.starts_with(it));
    let is_screen = term.starts_with("screen") && variable("TMUX").is_none();
    !is_old && !is_screen && term != "st" && variable("XTERM_VERSION").is_none()
}

/// Standard input and output are terminals.
pub fn is_here() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl Reader {
    fn start(messages: Sender<Message>) -> io::Result<Self> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read(&stopped, &messages))?;
        Ok(Self { thread, stop })
    }

    fn stop(self) {
        drop(self.stop);
        // It only waits for the terminal and for this.
        _ = self.thread.join();
    }
}

/// Sends on what is typed, until the terminal or the other end of the pipe is closed.
fn read(stopped: &OwnedFd, messages: &Sender<Message>) {
    let stdin = io::stdin();
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let patience = decoder
            .is_waiting()
            .then(|| Timespec { tv_sec: 0, tv_nsec: ESCAPE.subsec_nanos().into() });
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
            decoder.pause()
        } else {
            match rustix::io::read(&stdin, &mut buffer[..]) {
                Ok(0) => break,
                Ok(n) => decoder.feed(&buffer[..n]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => break,
            }
        };
        let at = Instant::now();
        for typed in typed {
            if messages.send(Message::Typed(typed, at)).is_err() {
                return;
            }
        }
    }
    _ = messages.send(Message::Closed);
}

/// A panic of the thread that owns the screen is shown on a terminal that is as it was. One elsewhere is an
/// answer of a tool's, or ends the program: then it is told at the end.
fn give_back_on_panic(owner: ThreadId, is_modern: bool) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == owner {
            let forget = if is_modern { FORGET_KEYS } else { "" };
            let give = format!("\x1b[?1049l{forget}{GIVE}\r\n");
            _ = io::stdout().write_all(give.as_bytes());
            _ = crossterm::terminal::disable_raw_mode();
            before(panic);
        } else {
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
        }
    }));
}

/// In a debug build `AGENT_TEST_PANIC` names the thread that is to panic at the first key or message: tests
/// look at what is left of the terminal then. A release knows nothing of it.
///
/// # Panics
/// If it is told to.
pub fn panic_if_told(thread: &str) {
    let told = || std::env::var("AGENT_TEST_PANIC").is_ok_and(|told| told == thread);
    assert!(!(cfg!(debug_assertions) && told()), "the thread {thread} was told to panic");
}

/// What a thread that does not own the screen said when it panicked.
pub(super) fn last_panic() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}
