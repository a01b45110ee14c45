//! The chat's one state and its one `update`: pure, so that every key, event and answer can be tested.

mod command;
mod keys;
mod offer;
mod recall;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cells::{Cell, Shell, Tone};
use super::commands::{Deed as CommandDeed, OwnCommand};
use super::complete::{Finder, Popup};
use super::composer::{Composer, Written};
use super::conversation::Conversation;
use super::decode::Typed;
use super::keys::Keymap;
use super::theme::{Background, Theme};
use super::vi::Vi;
use super::viewer::Viewer;
use crate::protocol::control::{Approval, Ending, PermissionMode};
use crate::protocol::directives::UserInput;
use crate::protocol::event::{Body, Event};

/// A key this soon after a question came was meant for something else.
const TOO_SOON: Duration = Duration::from_millis(500);
/// An answer counts when no other letter follows it within this time: then it was the beginning of a word.
const ALONE: Duration = Duration::from_millis(150);
/// A second Ctrl-C within this time quits.
const TWICE: Duration = Duration::from_secs(2);
/// A turn this long is worth telling a person who looked away.
const LONG: Duration = Duration::from_secs(10);
/// How long a word at the foot of the screen stays.
const TOAST: Duration = Duration::from_secs(4);
/// Rows of a list to choose from.
pub(super) const POPUP_ROWS: usize = 6;

/// What the chat starts with.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the configuration")]
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which key does what.
    pub keymap: Keymap,
    /// The colours.
    pub theme: Theme,
    /// The colours were chosen: what the terminal says of its background does not count.
    pub theme_is_chosen: bool,
    /// The conversation fills the screen.
    pub full_screen: bool,
    /// The composer has vi's modes.
    pub vi: bool,
    /// Tell the person when a long turn is over and the window has no focus.
    pub notifications: bool,
    /// The messages sent before, the latest last.
    pub history: Vec<String>,
    /// The user's own commands.
    pub own_commands: Vec<OwnCommand>,
    /// What is written when the chat starts.
    pub first_message: Option<String>,
    /// What the person should know.
    pub notices: Vec<String>,
    /// The branch, where there is one.
    pub branch: Option<String>,
}

/// What the chat wants of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Work on this message.
    Submit(UserInput),
    /// Tell the model this while it works.
    Steer(UserInput),
    /// Stop the turn.
    Interrupt,
    /// The answer to the question about a call.
    Answer(String, Approval),
    /// From now on this mode.
    Mode(PermissionMode),
    /// Run a command of the user's own.
    Shell(String),
    /// Find the files of the project.
    Files,
    /// Look which commands of the user's own there are.
    OwnCommands,
    /// Do this command.
    Command(CommandDeed, String),
    /// Remember this message for later sessions.
    Remember(String),
    /// Let the user write this in an editor.
    Edit(String),
    /// End the chat.
    Quit,
}

/// What the session, or the program around it, tells the chat.
#[derive(Clone, Debug)]
pub enum News {
    /// Something happened.
    Event(Box<Event>),
    /// What had happened before, in a session that goes on.
    Recorded(Vec<Event>),
    /// Another session begins.
    Anew,
    /// Nothing runs any more.
    Idle {
        /// The turn was stopped: what was said and not heard comes back.
        interrupted: bool,
    },
    /// The files of the project.
    Files(Arc<[String]>),
    /// The user's own commands, as they are now.
    OwnCommands(Vec<OwnCommand>),
    /// Other sessions: id and what it was about.
    Sessions(Vec<(String, String)>),
    /// What a command of the user's own wrote last.
    ShellOutput {
        /// The command.
        command: String,
        /// The end of it.
        tail: String,
    },
    /// A command of the user's own is over.
    Shell {
        /// The command.
        command: String,
        /// What it wrote.
        output: String,
        /// Its exit status; `None` where it was ended.
        exit_code: Option<i32>,
    },
    /// What a command of the chat answered.
    Page {
        /// What it is.
        title: String,
        /// The answer.
        text: String,
    },
    /// One sentence; false: something went wrong.
    Note(bool, String),
    /// The session went back, as was asked for last; in one sentence.
    Rewound(String),
    /// What the user wrote in the editor, or why not.
    Edited(Result<String, String>),
    /// The branch is another now.
    Branch(Option<String>),
    /// The program ends.
    End,
}

/// Something that the state has to take note of.
#[derive(Debug)]
pub(super) enum Input {
    /// From the terminal, and when it was typed.
    Typed(Typed, Instant),
    /// The screen has another size.
    Resized(usize, usize),
    /// From the session.
    News(News),
    /// A frame with the question about this call is on the screen.
    Asked(String),
    /// Time passes.
    Tick,
}

/// What has to be done outside of the state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The session is asked.
    Ask(Request),
    /// The terminal's clipboard gets this.
    Copy(String),
    /// The person is called.
    Notify(String),
    /// The program is suspended.
    Suspend,
    /// The screen is written anew.
    Redraw,
    /// The chat is over.
    Leave,
}

/// Where keys go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Into the message.
    Composer,
    /// They answer the question.
    Question,
    /// Into the words that say what to do instead.
    Instead,
    /// Into the search of earlier messages: the query, and how many matches back.
    Search(String, usize),
}

/// A question that waits for an answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) call: String,
    /// Since when it is on the screen.
    shown: Option<Instant>,
    /// The letter that was pressed, and is an answer if it stays alone.
    pressed: Option<Pressed>,
}

/// A letter that was pressed at a question.
#[derive(Clone, Copy, Debug)]
struct Pressed {
    letter: char,
    at: Instant,
    /// The question had been seen when it was pressed.
    counts: bool,
}

/// All that the screen shows.
#[expect(clippy::struct_excessive_bools, reason = "each is so or not, whatever the others are")]
pub(super) struct State {
    pub(super) conversation: Conversation,
    pub(super) composer: Composer,
    /// What to do instead of a call that is refused.
    pub(super) instead: Composer,
    pub(super) focus: Focus,
    pub(super) asked: Option<Asked>,
    /// Said, and not heard yet.
    pub(super) queue: VecDeque<UserInput>,
    pub(super) popup: Option<Popup>,
    pub(super) viewer: Option<Viewer>,
    pub(super) settings: Settings,
    pub(super) size: (usize, usize),
    pub(super) is_working: bool,
    /// The turn has ended, and the session has not said yet that it waits for the next one.
    pub(super) is_ending: bool,
    pub(super) is_stopping: bool,
    pub(super) shows_plan: bool,
    /// One word at the foot of the screen, and until when it stays.
    pub(super) toast: Option<(String, Instant)>,
    /// Commands of the user's own that run, and the end of what each wrote.
    pub(super) shells: Vec<(String, String)>,
    pub(super) vi: Option<Vi>,
    /// What the clock says.
    pub(super) now: Instant,
    has_focus: bool,
    /// Where in the earlier messages one is, and what was being written.
    recalled: Option<(usize, Written)>,
    /// What was said in the turn that it is to go back to.
    rewound: Option<String>,
    finder: Finder,
    /// Files are searched for the mention that begins here.
    searches: Option<usize>,
    sessions: Vec<(String, String)>,
    quits_at: Option<Instant>,
    /// When Esc had nothing to stop.
    escaped_at: Option<Instant>,
    last_key: Option<Instant>,
    is_editing: bool,
    /// On the full screen keys move in the conversation, not in the message.
    browses: bool,
}

impl State {
    pub(super) fn new(settings: Settings, size: (usize, usize), now: Instant) -> Self {
        let first_message = settings.first_message.clone();
        let mut conversation = Conversation::default();
        for notice in &settings.notices {
            conversation.note(Tone::Warn, notice);
        }
        let mut state = Self {
            conversation,
            composer: Composer::default(),
            instead: Composer::default(),
            focus: Focus::Composer,
            asked: None,
            queue: VecDeque::new(),
            popup: None,
            viewer: settings.full_screen.then(|| Viewer::at_end(0, false)),
            vi: settings.vi.then(Vi::default),
            settings,
            size,
            is_working: false,
            is_ending: false,
            is_stopping: false,
            shows_plan: true,
            toast: None,
            shells: Vec::new(),
            now,
            has_focus: true,
            recalled: None,
            rewound: None,
            finder: Finder::default(),
            searches: None,
            sessions: Vec::new(),
            quits_at: None,
            escaped_at: None,
            last_key: None,
            is_editing: false,
            browses: false,
        };
        if let Some(words) = first_message {
            state.composer.set_folded(&Written::words(&words));
        }
        state
    }

    /// Takes note of something; says what has to be done.
    pub(super) fn update(&mut self, input: Input, now: Instant) -> Vec<Action> {
        self.now = now;
        if self.toast.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.toast = None;
        }
        // A key is judged by when it was pressed.
        let moment = if let Input::Typed(_, at) = &input { *at } else { now };
        let mut actions = self.settle_answer(moment);
        actions.extend(self.take_note(input));
        actions
    }

    fn take_note(&mut self, input: Input) -> Vec<Action> {
        let now = self.now;
        match input {
            Input::Typed(Typed::Key(key), at) => self.key(key, at),
            Input::Typed(Typed::Paste(text), at) => self.paste(&text, at),
            Input::Typed(Typed::Focus(has_focus), _) => {
                self.has_focus = has_focus;
                Vec::new()
            }
            Input::Typed(Typed::LightBackground(is_light), _) => {
                if !self.settings.theme_is_chosen {
                    let background = if is_light { Background::Light } else { Background::Dark };
                    self.settings.theme = self.settings.theme.on(background);
                }
                Vec::new()
            }
            Input::Tick => {
                self.search_on(false);
                Vec::new()
            }
            Input::Typed(Typed::Name(_), _) => Vec::new(),
            Input::Resized(columns, rows) => {
                self.size = (columns, rows);
                Vec::new()
            }
            Input::Asked(call) => {
                if let Some(asked) = self.asked.as_mut().filter(|asked| asked.call == call) {
                    asked.shown.get_or_insert(now);
                }
                Vec::new()
            }
            Input::News(news) => self.news(news),
        }
    }

    /// When the screen changes by itself next, if it does.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        if self.searches.is_some() && self.finder.is_searching() {
            return Some(Duration::ZERO);
        }
        if let Some(pressed) = self.asked.as_ref().and_then(|asked| asked.pressed) {
            return Some((pressed.at + ALONE).saturating_duration_since(self.now));
        }
        if let Some((_, until)) = &self.toast {
            let left = until.saturating_duration_since(self.now);
            return Some(left.min(Duration::from_secs(1)));
        }
        // The seconds that the turn takes are shown.
        let started = self.conversation.turn.as_ref()?.started;
        let passed = self.now.duration_since(started);
        Some(Duration::from_millis(1000 - u64::from(passed.subsec_millis())))
    }

    fn news(&mut self, news: News) -> Vec<Action> {
        match news {
            News::Event(event) => return self.event(&event),
            News::Recorded(events) => {
                for event in &events {
                    self.conversation.apply(event, self.now);
                }
                self.conversation.recall();
            }
            News::Anew => {
                self.conversation = Conversation::below(&self.conversation);
                self.queue.clear();
                self.asked = None;
                self.focus = Focus::Composer;
                if let Some(viewer) = &mut self.viewer {
                    viewer.reset();
                }
            }
            News::Idle { interrupted } => {
                self.is_working = false;
                self.is_ending = false;
                self.is_stopping = false;
                self.conversation.turn = None;
                self.drop_question();
                let queued: Vec<UserInput> = self.queue.drain(..).collect();
                if interrupted && !queued.is_empty() {
                    self.composer.put_before(&UserInput::joined(queued, "\n"));
                    self.close_list();
                }
            }
            News::Files(files) => {
                self.finder.set_files(files);
                self.complete();
            }
            News::Sessions(sessions) => {
                self.sessions = sessions;
                if self.sessions.is_empty() {
                    self.say("there is no other session of this project");
                }
                self.complete();
            }
            News::OwnCommands(commands) => {
                self.own_commands_are(commands);
            }
            News::ShellOutput { command, tail } => {
                if let Some((_, before)) = self.shells.iter_mut().find(|(it, _)| *it == command) {
                    *before = tail;
                }
            }
            News::Shell { command, output, exit_code } => {
                if let Some(at) = self.shells.iter().position(|(it, _)| *it == command) {
                    self.shells.remove(at);
                }
                let shell = Shell { command, output, exit_code };
                self.conversation.aside(Cell::Shell(Box::new(shell)));
            }
            News::Page { title, text } => self.conversation.aside(Cell::Page { title, text }),
            News::Note(is_good, text) => {
                let tone = if is_good { Tone::Quiet } else { Tone::Bad };
                self.conversation.remark(tone, &text);
            }
            News::Rewound(text) => {
                self.conversation.remark(Tone::Quiet, &text);
                // What was said there can be said otherwise.
                if let Some(words) = self.rewound.take().filter(|_| self.composer.is_empty()) {
                    self.composer.set_folded(&Written::earlier(&words));
                }
            }
            News::Edited(edited) => {
                self.is_editing = false;
                match edited {
                    Ok(text) => {
                        self.composer.set_edited(text.trim_end());
                        self.close_list();
                    }
                    Err(reason) => self.say(&reason),
                }
                return vec![Action::Redraw];
            }
            News::Branch(branch) => self.settings.branch = branch,
            News::End => return vec![Action::Leave],
        }
        Vec::new()
    }

    fn event(&mut self, event: &Event) -> Vec<Action> {
        let ran = self.conversation.turn.as_ref().map(|turn| self.now.duration_since(turn.started));
        self.conversation.apply(event, self.now);
        let mut actions = Vec::new();
        match &event.body {
            Body::TurnStarted { .. } => {
                self.is_working = true;
                self.is_ending = false;
                self.queue.clear();
            }
            Body::TurnSteered { input, .. } => {
                if let Some(at) = self.queue.iter().position(|queued| queued.text == *input) {
                    self.queue.remove(at);
                }
            }
            Body::PermissionRequested { call, tool, .. } => {
                self.asked = Some(Asked { call: call.clone(), shown: None, pressed: None });
                // Whoever is writing goes on writing.
                if self.composer.is_empty() && self.focus == Focus::Composer {
                    self.focus = Focus::Question;
                    self.popup = None;
                }
                actions.extend(self.notify(&format!("may it use {tool}?")));
            }
            Body::PermissionDecided { call, .. }
                if self.asked.as_ref().is_some_and(|asked| asked.call == *call) =>
            {
                self.drop_question();
            }
            Body::TurnFinished(finished) => {
                self.is_working = false;
                self.is_ending = true;
                self.is_stopping = false;
                self.drop_question();
                if ran.is_some_and(|ran| ran > LONG) && finished.ending != Ending::Interrupted {
                    let how = if finished.ending.is_success() { "done" } else { "it failed" };
                    actions.extend(self.notify(how));
                }
            }
            _ => {}
        }
        actions
    }

    fn notify(&self, text: &str) -> Option<Action> {
        let is_away = self.settings.notifications && !self.has_focus;
        is_away.then(|| Action::Notify(format!("agent: {text}")))
    }

    fn drop_question(&mut self) {
        self.asked = None;
        if matches!(self.focus, Focus::Question | Focus::Instead) {
            self.focus = Focus::Composer;
        }
        self.instead = Composer::default();
    }

    /// One word at the foot of the screen, for a while.
    fn say(&mut self, text: &str) {
        self.say_for(text, TOAST);
    }

    fn say_for(&mut self, text: &str, time: Duration) {
        self.toast = Some((text.to_owned(), self.now + time));
    }
}
