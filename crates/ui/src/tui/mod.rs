//! The chat in a terminal: one state, a pure `update`, and cells, displayed inline, on the full screen, or as
//! plain lines.
//!
//! [`start`] runs it in a separate thread, so that keys are never delayed by the session. News are sent
//! through a [`Handle`], [`Request`]s are received from a channel; nothing else is shared.

mod cells;
mod commands;
mod complete;
mod composer;
mod conversation;
mod decode;
mod draw;
mod highlight;
mod keys;
mod markdown;
mod plain;
mod screen;
mod state;
mod statusline;
mod terminal;
mod text;
mod theme;
mod vi;
mod viewer;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use commands::{COMMANDS, Command, CommandAction, DEFAULT_EFFORT, Timing, built_in, no_effort};
pub use keys::{BINDINGS, Key, Keymap};
pub use state::{Ended, News, PagePlace, Request, Settings};
pub use statusline::StatusItem;
pub use terminal::{is_here, panic_if_requested};
pub use theme::{Background, Depth, Theme};

use composer::Written;
use decode::Typed;
use screen::Screen;
use state::{Action, Input, State};
use terminal::Terminal;

use agent_protocol::event::{Event, Sink, Stamped};
use agent_protocol::visible::literal_line;

/// Interval of frames while no key is pressed.
const FRAME: Duration = Duration::from_millis(33);
/// A signal this soon after the program was resumed is redundant.
const JUST_NOW: Duration = Duration::from_secs(1);
/// Number of messages that are processed before the next frame.
const BATCH: usize = 512;

/// A message to the chat's thread.
enum Message {
    Typed(Typed, Instant),
    /// A line, in plain mode.
    Line(String),
    News(News),
    /// The screen's size may have changed, or another program wrote to it.
    Resized,
    /// The program was suspended and resumed.
    Continued,
    /// The input is closed.
    Closed,
}

/// How the chat is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// On the terminal's screen.
    Screen,
    /// As plain lines.
    Plain,
    /// As plain lines, without reading input.
    Shown,
}

/// Sends messages to the chat. Clones share the chat.
#[derive(Clone)]
pub struct Handle(Sender<Message>);

impl Handle {
    /// Sends news.
    pub fn tell(&self, news: News) {
        // The chat may have ended.
        _ = self.0.send(Message::News(news));
    }

    /// The terminal was resized.
    pub fn resized(&self) {
        _ = self.0.send(Message::Resized);
    }

    /// The program was suspended from outside and resumed.
    pub fn continued(&self) {
        _ = self.0.send(Message::Continued);
    }
}

/// The chat receives every event of the session.
impl Sink for Handle {
    fn take(&mut self, stamped: &Stamped) {
        self.tell(News::Event(Box::new(stamped.event.clone())));
    }

    fn take_from_agent(&mut self, stamped: &Stamped) {
        self.take(stamped);
    }

    fn recorded(&mut self, events: &[&Event]) {
        self.tell(News::Recorded(events.iter().copied().cloned().collect()));
    }
}

/// A running chat. Dropping it ends it and restores the terminal.
pub struct Chat {
    /// Sends messages to it.
    pub handle: Handle,
    /// Its requests.
    pub requests: UnboundedReceiver<Request>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the chat.
pub fn start(settings: Settings, arrangement: Arrangement) -> io::Result<Chat> {
    let (sender, messages) = mpsc::channel();
    let (ask, requests) = unbounded_channel();
    let handle = Handle(sender.clone());
    let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || {
        let done = match arrangement {
            Arrangement::Screen => on_screen(settings, &messages, sender, &ask),
            Arrangement::Plain => plain::run(settings, &messages, Some(sender), &ask),
            Arrangement::Shown => plain::run(settings, &messages, None, &ask),
        };
        // The session is notified, however the chat ended.
        _ = ask.send(Request::Quit);
        done
    })?;
    Ok(Chat { handle, requests, thread: Some(thread) })
}

impl Chat {
    /// Ends the chat: prints the rest, and restores the terminal.
    pub fn end(&mut self) -> io::Result<()> {
        self.handle.tell(News::End);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the screen's thread panicked")))
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // If writing fails, nobody can be notified.
        _ = self.end();
        if std::thread::panicking()
            && let Some(panic) = terminal::last_panic()
        {
            super::tell(&panic);
        }
    }
}

/// The screen with the state.
struct Face<'a> {
    state: State,
    terminal: Terminal,
    screen: Screen,
    /// The alternate screen, if it is displayed.
    page: Option<Screen>,
    ask: &'a UnboundedSender<Request>,
    reflows: bool,
    /// The window's title as it was last set.
    title: String,
    /// An editor uses the terminal.
    is_away: bool,
    /// When the program was resumed.
    came_back: Option<Instant>,
    is_over: bool,
}

fn on_screen(
    settings: Settings,
    messages: &Receiver<Message>,
    sender: Sender<Message>,
    ask: &UnboundedSender<Request>,
) -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let size = terminal::size();
    let reflows = terminal::reflows(&variable);
    let has_title = settings.title;
    let first_message = settings.first_message.clone();
    let offers_sessions = settings.offers_sessions;
    let mut face = Face {
        state: State::new(settings, size, Instant::now()),
        terminal: Terminal::take(sender, has_title)?,
        screen: Screen::inline(size.0, reflows),
        page: None,
        ask,
        reflows,
        title: String::new(),
        is_away: false,
        came_back: None,
        is_over: false,
    };
    let offered = if offers_sessions { face.state.offer_sessions() } else { Vec::new() };
    for action in offered {
        face.act(action)?;
    }
    if let Some(words) = first_message {
        for action in face.state.send_message(Written::words(&words), Instant::now()) {
            face.act(action)?;
        }
    }
    face.draw()?;
    let mut drawn = Instant::now();
    let mut is_stale = false;
    while !face.is_over {
        let tick = face.state.next_tick();
        let patience = if is_stale { Some(FRAME.saturating_sub(drawn.elapsed())) } else { tick };
        let first = match patience {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(patience) => messages.recv_timeout(patience),
        };
        let mut is_urgent = false;
        match first {
            Ok(first) => {
                let more = std::iter::from_fn(|| messages.try_recv().ok());
                for message in std::iter::once(first).chain(more.take(BATCH)) {
                    is_urgent |= !matches!(message, Message::News(_));
                    face.take(message)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                face.update(Input::Tick)?;
                is_urgent = true;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        is_stale = true;
        if is_urgent || drawn.elapsed() >= FRAME {
            face.draw()?;
            drawn = Instant::now();
            is_stale = false;
        }
    }
    face.leave()
}

impl Face<'_> {
    fn take(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Typed(typed, at) => {
                terminal::panic_if_requested("screen");
                if let Typed::Name(name) = &typed {
                    self.reflows = !name.starts_with("XTerm");
                    self.screen.set_reflows(self.reflows);
                }
                self.update(Input::Typed(typed, at))
            }
            Message::News(news) => {
                if self.is_away && matches!(news, News::Edited(_)) {
                    self.come_back()?;
                }
                self.update(Input::News(news))
            }
            Message::Line(_) | Message::Resized => Ok(()),
            Message::Continued => {
                let is_known = self.came_back.is_some_and(|at| at.elapsed() < JUST_NOW);
                // Another program had suspended this one.
                if self.is_away || is_known { Ok(()) } else { self.come_back() }
            }
            Message::Closed => {
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn update(&mut self, input: Input) -> io::Result<()> {
        for action in self.state.update(input, Instant::now()) {
            self.act(action)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> io::Result<()> {
        match action {
            Action::Ask(request) => {
                if matches!(request, Request::Edit(_)) {
                    self.step_aside()?;
                    self.is_away = true;
                }
                // A closed session accepts no requests.
                self.is_over |= self.ask.send(request).is_err();
                Ok(())
            }
            Action::Copy(text) => {
                self.terminal.write(format!("\x1b]52;c;{}\x07", base64(text.as_bytes())).as_bytes())
            }
            Action::Notify(text) => {
                let text = literal_line(&text).replace(';', ",");
                self.terminal.write(format!("\x1b]9;{text}\x07\x07").as_bytes())
            }
            Action::Suspend => {
                self.step_aside()?;
                terminal::suspend();
                self.came_back = Some(Instant::now());
                self.come_back()
            }
            Action::Redraw => {
                self.screen.forget();
                if let Some(page) = &mut self.page {
                    page.forget();
                }
                Ok(())
            }
            Action::Leave => {
                self.is_over = true;
                Ok(())
            }
        }
    }

    /// Releases the terminal for another program.
    fn step_aside(&mut self) -> io::Result<()> {
        self.terminal.alternate(false)?;
        self.page = None;
        let clear = self.screen.clear();
        self.terminal.write(&clear)?;
        self.terminal.give();
        Ok(())
    }

    fn come_back(&mut self) -> io::Result<()> {
        self.terminal.resume()?;
        self.is_away = false;
        self.title.clear();
        self.page = None;
        self.screen = Screen::inline(terminal::size().0, self.reflows);
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.is_away {
            return Ok(());
        }
        let size = terminal::size();
        if size != self.state.size {
            self.update(Input::Resized(size.0, size.1))?;
            self.screen.resized(size.0);
            if let Some(page) = &mut self.page {
                *page = Screen::full(size.0);
                self.terminal.write(b"\x1b[2J")?;
            }
        }
        if self.state.viewer.is_some() || self.state.page.is_some() {
            self.terminal.alternate(true)?;
            let live = self.state.full();
            let page = self.page.get_or_insert_with(|| Screen::full(size.0));
            let bytes = page.frame(&[], &live);
            self.terminal.write(&bytes)?;
        } else {
            if self.page.take().is_some() {
                self.terminal.alternate(false)?;
            }
            let look = self.state.look();
            let history = self.state.conversation.take_finished(look);
            let live = self.state.live();
            let bytes = self.screen.frame(&history, &live);
            self.terminal.write(&bytes)?;
        }
        let title = self.state.title();
        if title != self.title {
            self.terminal.set_title(&title)?;
            self.title = title;
        }
        if let Some(about) = self.state.asked.as_ref().map(|asked| asked.about.clone())
            && !self.state.is_browsing()
        {
            self.update(Input::Asked(about))?;
        }
        Ok(())
    }

    /// Ends: prints the rest of the conversation to the scrollback.
    fn leave(mut self) -> io::Result<()> {
        if !self.is_away {
            self.terminal.alternate(false)?;
            let look = self.state.look();
            let history = self.state.conversation.take_finished(look);
            let bytes = self.screen.frame(&history, &screen::Live::default());
            self.terminal.write(&bytes)?;
            let clear = self.screen.clear();
            self.terminal.write(&clear)?;
        }
        self.terminal.give();
        Ok(())
    }
}

/// The encoding of text for the terminal's clipboard.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |n: usize| u32::from(part.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_text_is_base64() {
        for (text, expected) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("é中", "w6nkuK0=")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
