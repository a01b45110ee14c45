//! The chat in a terminal: one state, a pure `update`, and cells, displayed inline, on the full
//! screen, or as plain lines.
//!
//! [`start`] runs the chat in a separate thread, so that the session never delays keys. The chat
//! receives updates through a [`ChatHandle`] and sends [`ChatRequest`]s to a channel; nothing else
//! is shared.

mod cells;
mod commands;
mod completion;
mod composer;
mod conversation;
mod decoder;
mod draw;
mod highlight;
mod keys;
mod markdown;
mod plain;
mod screen;
mod state;
mod status_line;
mod terminal;
mod text;
mod theme;
mod viewer;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use commands::{
    COMMANDS, Command, CommandAction, CommandTiming, DEFAULT_EFFORT, find_built_in,
    unknown_effort_message,
};
pub use keys::Keymap;
pub use state::{ChatRequest, ChatUpdate, PagePlace, Settings, WorkOutcome};
pub use status_line::StatusItem;
pub use terminal::{is_interactive, panic_if_requested};
pub use theme::{Background, ColorDepth, Theme};

use composer::AttributedText;
use decoder::TerminalInput;
use screen::{Screen, TerminalFeatures};
use state::{Action, Input, State};
use terminal::Terminal;

use agent_protocol::event::{Event, Sink, StampedEvent};
use agent_protocol::spending::Spending;
use agent_protocol::terminal_escape::escape_literal_line;

/// The interval while no key is pressed.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// A signal this soon after the program was resumed is redundant.
const RESUME_DEBOUNCE: Duration = Duration::from_secs(1);
/// Limit on the messages between two frames.
const MAX_BATCH: usize = 512;

enum ThreadMessage {
    Terminal(TerminalInput, Instant),
    Line(String),
    Update(ChatUpdate),
    /// Another program may have written to the screen, too.
    Resized,
    ProgramResumed,
    InputClosed,
}

/// How the chat is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisplayMode {
    /// On the terminal's screen.
    Screen,
    /// As plain lines.
    Plain,
    /// Does not read input.
    PlainOutput,
}

/// Sends messages to the chat. Clones share the chat.
#[derive(Clone)]
pub struct ChatHandle(Sender<ThreadMessage>);

impl ChatHandle {
    /// Sends an update.
    pub fn send(&self, update: ChatUpdate) {
        // The chat may have ended.
        _ = self.0.send(ThreadMessage::Update(update));
    }

    /// Reports that the terminal was resized.
    pub fn notify_resized(&self) {
        _ = self.0.send(ThreadMessage::Resized);
    }

    /// Reports that another process suspended and resumed the program.
    pub fn notify_resumed(&self) {
        _ = self.0.send(ThreadMessage::ProgramResumed);
    }
}

/// The chat receives every event of the session.
impl Sink for ChatHandle {
    fn receive(&mut self, stamped: &StampedEvent) {
        self.send(ChatUpdate::Event(Box::new(stamped.event.clone())));
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }

    fn receive_recorded(&mut self, events: &[&Event], spending: Spending) {
        let events = events.iter().copied().cloned().collect();
        self.send(ChatUpdate::RecordedEvents(events, spending));
    }
}

/// A running chat. Dropping it ends it and restores the terminal.
pub struct Chat {
    pub handle: ChatHandle,
    pub requests: UnboundedReceiver<ChatRequest>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the chat in its own thread.
pub fn start(settings: Settings, display_mode: DisplayMode) -> io::Result<Chat> {
    let (sender, messages) = mpsc::channel();
    let (ask, requests) = unbounded_channel();
    let handle = ChatHandle(sender.clone());
    let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || {
        let done = match display_mode {
            DisplayMode::Screen => run_on_screen(settings, &messages, sender, &ask),
            DisplayMode::Plain => plain::run(settings, &messages, Some(sender), &ask),
            DisplayMode::PlainOutput => plain::run(settings, &messages, None, &ask),
        };
        // The session is notified, however the chat ended.
        _ = ask.send(ChatRequest::Quit);
        done
    })?;
    Ok(Chat { handle, requests, thread: Some(thread) })
}

impl Chat {
    /// Ends the chat: prints the rest, and restores the terminal.
    pub fn end(&mut self) -> io::Result<()> {
        self.handle.send(ChatUpdate::ProgramEnding);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the screen's thread panicked")))
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // If writing fails, a message cannot be shown either.
        _ = self.end();
        if std::thread::panicking()
            && let Some(panic) = terminal::last_panic()
        {
            super::print_notice(&panic);
        }
    }
}

struct ChatScreen<'a> {
    state: State,
    terminal: Terminal,
    screen: Screen,
    alternate_screen: Option<Screen>,
    requests: &'a UnboundedSender<ChatRequest>,
    features: TerminalFeatures,
    title: String,
    is_editor_open: bool,
    resumed_at: Option<Instant>,
    is_finished: bool,
}

fn run_on_screen(
    settings: Settings,
    messages: &Receiver<ThreadMessage>,
    sender: Sender<ThreadMessage>,
    ask: &UnboundedSender<ChatRequest>,
) -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let size = terminal::size();
    let features =
        TerminalFeatures { reflows: terminal::reflows(&variable), has_hyperlinks: false };
    let has_title = settings.title;
    let first_message = settings.first_message.clone();
    let offers_sessions = settings.offers_sessions;
    let mut chat = ChatScreen {
        state: State::new(settings, size, Instant::now()),
        terminal: Terminal::acquire(sender, has_title)?,
        screen: Screen::inline(size.0, features),
        alternate_screen: None,
        requests: ask,
        features,
        title: String::new(),
        is_editor_open: false,
        resumed_at: None,
        is_finished: false,
    };
    if offers_sessions {
        let actions = chat.state.offer_list("/resume ").unwrap_or_default();
        chat.perform_all(actions)?;
    }
    if let Some(words) = first_message {
        let message = AttributedText::from_user(&words);
        let actions = chat.state.send_message(message, Instant::now());
        chat.perform_all(actions)?;
    }
    chat.draw()?;
    let mut drawn = Instant::now();
    let mut is_stale = false;
    while !chat.is_finished {
        let tick = chat.state.next_tick();
        let patience =
            if is_stale { Some(FRAME_INTERVAL.saturating_sub(drawn.elapsed())) } else { tick };
        let first = match patience {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(patience) => messages.recv_timeout(patience),
        };
        let mut is_urgent = false;
        match first {
            Ok(first) => {
                let more = std::iter::from_fn(|| messages.try_recv().ok());
                for message in std::iter::once(first).chain(more.take(MAX_BATCH)) {
                    is_urgent |= !matches!(message, ThreadMessage::Update(_));
                    chat.handle_message(message)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                chat.update(Input::Tick)?;
                is_urgent = true;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        is_stale = true;
        if is_urgent || drawn.elapsed() >= FRAME_INTERVAL {
            chat.draw()?;
            drawn = Instant::now();
            is_stale = false;
        }
    }
    chat.finish()
}

impl ChatScreen<'_> {
    fn handle_message(&mut self, message: ThreadMessage) -> io::Result<()> {
        match message {
            ThreadMessage::Terminal(typed, at) => {
                terminal::panic_if_requested("screen");
                if let TerminalInput::TerminalName(name) = &typed {
                    // The others that give their name know hyperlinks, or ignore them.
                    let is_xterm = name.starts_with("XTerm");
                    self.features =
                        TerminalFeatures { reflows: !is_xterm, has_hyperlinks: !is_xterm };
                    self.screen.features = self.features;
                }
                self.update(Input::Terminal(typed, at))
            }
            ThreadMessage::Update(update) => {
                if self.is_editor_open && matches!(update, ChatUpdate::EditorClosed(_)) {
                    self.reclaim_terminal()?;
                }
                self.update(Input::Update(update))
            }
            ThreadMessage::Line(_) | ThreadMessage::Resized => Ok(()),
            ThreadMessage::ProgramResumed => {
                let is_known = self.resumed_at.is_some_and(|at| at.elapsed() < RESUME_DEBOUNCE);
                // Another program suspended this one.
                if self.is_editor_open || is_known { Ok(()) } else { self.reclaim_terminal() }
            }
            ThreadMessage::InputClosed => {
                self.is_finished = true;
                Ok(())
            }
        }
    }

    fn update(&mut self, input: Input) -> io::Result<()> {
        let actions = self.state.update(input, Instant::now());
        self.perform_all(actions)
    }

    fn perform_all(&mut self, actions: Vec<Action>) -> io::Result<()> {
        actions.into_iter().try_for_each(|action| self.perform(action))
    }

    fn perform(&mut self, action: Action) -> io::Result<()> {
        match action {
            Action::SendRequest(request) => {
                if matches!(request, ChatRequest::OpenEditor(_)) {
                    self.release_terminal()?;
                    self.is_editor_open = true;
                }
                // A closed session accepts no requests.
                self.is_finished |= self.requests.send(request).is_err();
            }
            Action::Copy(text) => {
                let text = BASE64_STANDARD.encode(text);
                self.terminal.write(format!("\x1b]52;c;{text}\x07"))?;
            }
            Action::Notify(text) => {
                let text = escape_literal_line(&text).replace(';', ",");
                self.terminal.write(format!("\x1b]9;{text}\x07\x07"))?;
            }
            Action::Suspend => {
                self.release_terminal()?;
                terminal::suspend();
                self.resumed_at = Some(Instant::now());
                self.reclaim_terminal()?;
            }
            Action::Redraw => {
                self.screen.invalidate();
                if let Some(page) = &mut self.alternate_screen {
                    page.invalidate();
                }
            }
            Action::EndChat => self.is_finished = true,
        }
        Ok(())
    }

    fn release_terminal(&mut self) -> io::Result<()> {
        self.terminal.set_alternate_screen(false)?;
        self.alternate_screen = None;
        self.terminal.write(self.screen.erase_live_area())?;
        self.terminal.release();
        Ok(())
    }

    fn reclaim_terminal(&mut self) -> io::Result<()> {
        self.terminal.resume()?;
        self.is_editor_open = false;
        self.title.clear();
        self.alternate_screen = None;
        self.screen = Screen::inline(terminal::size().0, self.features);
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.is_editor_open {
            return Ok(());
        }
        let size = terminal::size();
        if size != self.state.size {
            self.update(Input::Resized(size.0, size.1))?;
            self.screen.resize(size.0);
            if let Some(page) = &mut self.alternate_screen {
                *page = Screen::full(size.0);
                self.terminal.write(b"\x1b[2J")?;
            }
        }
        if self.state.is_browsing() {
            self.terminal.set_alternate_screen(true)?;
            let live = self.state.full_screen_area();
            let page = self.alternate_screen.get_or_insert_with(|| Screen::full(size.0));
            self.terminal.write(page.render_frame(&[], &live))?;
        } else {
            if self.alternate_screen.take().is_some() {
                self.terminal.set_alternate_screen(false)?;
            }
            let history = self.state.take_finished();
            self.terminal.write(self.screen.render_frame(&history, &self.state.live_area()))?;
        }
        let title = self.state.window_title();
        if title != self.title {
            self.terminal.set_title(&title)?;
            self.title = title;
        }
        if let Some(subject) =
            self.state.pending_question.as_ref().map(|question| question.subject.clone())
            && !self.state.is_browsing()
        {
            self.update(Input::QuestionShown(subject))?;
        }
        Ok(())
    }

    /// Prints the rest of the conversation to the scrollback.
    fn finish(mut self) -> io::Result<()> {
        // The editor has the terminal.
        if self.is_editor_open {
            return Ok(());
        }
        self.terminal.set_alternate_screen(false)?;
        let history = self.state.take_finished();
        self.terminal.write(self.screen.render_frame(&history, &screen::LiveArea::default()))?;
        self.release_terminal()
    }
}
