//! The chat's one state and its one `update`: pure, so that every key, event and answer can be tested.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cells::{Call, Cell, Shell, Tone};
use super::commands::{COMMANDS, Deed as CommandDeed, OwnCommand};
use super::complete::{self, Finder, Item, Kind, Popup};
use super::composer::{Composer, Motion};
use super::conversation::Conversation;
use super::decode::Typed;
use super::keys::{Code, Deed, Key, Keymap};
use super::theme::{Background, Theme};
use super::vi::{self, Vi};
use super::viewer::{Outcome, Viewer};
use crate::protocol::control::{Approval, Ending, PermissionMode};
use crate::protocol::event::{Body, Event};

/// A key this soon after a question came was meant for something else.
const TOO_SOON: Duration = Duration::from_millis(500);
/// A second Ctrl-C within this time quits.
const TWICE: Duration = Duration::from_secs(2);
/// A turn this long is worth telling a person who looked away.
const LONG: Duration = Duration::from_secs(10);
/// How long a word at the foot of the screen stays.
const TOAST: Duration = Duration::from_secs(4);
/// Rows of a list to choose from.
pub(super) const POPUP_ROWS: usize = 6;

/// What the chat starts with.
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
    Submit(String),
    /// Tell the model this while it works.
    Steer(String),
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
    /// Other sessions: id and what it was about.
    Sessions(Vec<(String, String)>),
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
}

/// All that the screen shows.
pub(super) struct State {
    pub(super) conversation: Conversation,
    pub(super) composer: Composer,
    /// What to do instead of a call that is refused.
    pub(super) instead: Composer,
    pub(super) focus: Focus,
    pub(super) asked: Option<Asked>,
    /// Said, and not heard yet.
    pub(super) queue: VecDeque<String>,
    pub(super) popup: Option<Popup>,
    pub(super) viewer: Option<Viewer>,
    pub(super) settings: Settings,
    pub(super) size: (usize, usize),
    pub(super) is_working: bool,
    pub(super) is_stopping: bool,
    pub(super) shows_plan: bool,
    pub(super) toast: Option<(String, Instant)>,
    /// Commands of the user's own that run.
    pub(super) shells: Vec<String>,
    pub(super) vi: Option<Vi>,
    /// What the clock says.
    pub(super) now: Instant,
    has_focus: bool,
    /// Where in the earlier messages one is, and what was being written.
    recalled: Option<(usize, String)>,
    finder: Finder,
    sessions: Vec<(String, String)>,
    quits_at: Option<Instant>,
    last_key: Option<Instant>,
    is_editing: bool,
    /// On the full screen keys move in the conversation, not in the message.
    browses: bool,
}

impl State {
    pub(super) fn new(settings: Settings, size: (usize, usize), now: Instant) -> Self {
        let mut composer = Composer::default();
        if let Some(message) = &settings.first_message {
            composer.set(message);
        }
        let mut conversation = Conversation::default();
        for notice in &settings.notices {
            conversation.note(Tone::Warn, notice);
        }
        Self {
            conversation,
            composer,
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
            is_stopping: false,
            shows_plan: true,
            toast: None,
            shells: Vec::new(),
            now,
            has_focus: true,
            recalled: None,
            finder: Finder::default(),
            sessions: Vec::new(),
            quits_at: None,
            last_key: None,
            is_editing: false,
            browses: false,
        }
    }

    /// Takes note of something; says what has to be done.
    pub(super) fn update(&mut self, input: Input, now: Instant) -> Vec<Action> {
        self.now = now;
        if self.toast.as_ref().is_some_and(|(_, since)| now.duration_since(*since) > TOAST) {
            self.toast = None;
        }
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
            Input::Typed(Typed::Name(_), _) | Input::Tick => Vec::new(),
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
        if self.toast.is_some() {
            return Some(Duration::from_secs(1));
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
                self.conversation = Conversation::default();
                self.queue.clear();
                self.asked = None;
                self.focus = Focus::Composer;
                if let Some(viewer) = &mut self.viewer {
                    viewer.reset();
                }
            }
            News::Idle { interrupted } => {
                self.is_working = false;
                self.is_stopping = false;
                self.drop_question();
                let unheard: Vec<String> = self.queue.drain(..).collect();
                if interrupted && !unheard.is_empty() {
                    let mut text = unheard.join("\n");
                    if !self.composer.is_empty() {
                        text.push('\n');
                        text.push_str(self.composer.text());
                    }
                    self.composer.set(&text);
                }
            }
            News::Files(files) => {
                self.finder.set_files(files);
                self.complete();
            }
            News::Sessions(sessions) => {
                self.sessions = sessions;
                self.complete();
            }
            News::Shell { command, output, exit_code } => {
                if let Some(at) = self.shells.iter().position(|running| *running == command) {
                    self.shells.remove(at);
                }
                let shell = Shell { command, output, exit_code };
                self.conversation.cells.push(Cell::Shell(Box::new(shell)));
            }
            News::Page { title, text } => {
                self.conversation.cells.push(Cell::Page { title, text });
            }
            News::Note(is_good, text) => {
                let tone = if is_good { Tone::Quiet } else { Tone::Bad };
                self.conversation.note(tone, &text);
            }
            News::Edited(edited) => {
                self.is_editing = false;
                match edited {
                    Ok(text) => self.composer.set(text.trim_end()),
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
                self.queue.clear();
            }
            Body::TurnSteered { input } => {
                if let Some(at) = self.queue.iter().position(|queued| queued == input) {
                    self.queue.remove(at);
                }
            }
            Body::PermissionRequested { call, tool, .. } => {
                self.asked = Some(Asked { call: call.clone(), shown: None });
                // Whoever is writing goes on writing.
                if self.composer.is_empty() && self.focus == Focus::Composer {
                    self.focus = Focus::Question;
                    self.popup = None;
                }
                actions.extend(self.notify(&format!("may it use {tool}?")));
            }
            Body::PermissionDecided { call, .. } => {
                if self.asked.as_ref().is_some_and(|asked| asked.call == *call) {
                    self.drop_question();
                }
            }
            Body::TurnFinished(finished) => {
                self.is_working = false;
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
        self.toast = Some((text.to_owned(), self.now));
    }

    // ── keys ──

    fn key(&mut self, key: Key, at: Instant) -> Vec<Action> {
        let last_key = self.last_key.replace(at);
        if let Some(actions) = self.browse(key) {
            return actions;
        }
        let deed = self.settings.keymap.deed(key);
        if self.focus == Focus::Question {
            return self.answer(key, deed, at, last_key);
        }
        self.quits_at = self.quits_at.filter(|_| deed == Some(Deed::Cancel));
        let focus = std::mem::replace(&mut self.focus, Focus::Composer);
        if let Focus::Search(query, back) = focus {
            return self.search(query, back, key, deed);
        }
        self.focus = focus;
        if self.popup.is_some()
            && let Some(actions) = self.choose(deed)
        {
            return actions;
        }
        if let Some(vi) = &mut self.vi
            && self.popup.is_none()
        {
            let composer =
                if self.focus == Focus::Instead { &mut self.instead } else { &mut self.composer };
            match vi.key(key, composer) {
                vi::Outcome::Other => {}
                vi::Outcome::Taken => return self.complete(),
                vi::Outcome::Do(deed) => return self.do_it(deed),
            }
        }
        let actions = match (deed, key.typed()) {
            (Some(deed), _) => self.do_it(deed),
            (None, Some(char)) => {
                self.writing().insert(char);
                Vec::new()
            }
            (None, None) => Vec::new(),
        };
        let asked = self.complete();
        actions.into_iter().chain(asked).collect()
    }

    /// The conversation fills the screen, and keys move in it.
    pub(super) fn is_browsing(&self) -> bool {
        self.viewer.is_some() && (self.browses || !self.settings.full_screen)
    }

    /// A key while the conversation fills the screen; `None` where it is for the message.
    fn browse(&mut self, key: Key) -> Option<Vec<Action>> {
        let is_browsing = self.is_browsing();
        let viewer = self.viewer.as_mut()?;
        let rows = self.size.1.saturating_sub(1);
        if !is_browsing {
            // Beside the message only these two move.
            match key.code {
                Code::PageUp => viewer.scroll_up(rows / 2),
                Code::PageDown => viewer.scroll_down(rows / 2),
                _ => return None,
            }
            return Some(Vec::new());
        }
        let outcome = viewer.key(key, &self.conversation.cells, rows);
        if outcome == Outcome::Close {
            self.browses = false;
            if !self.settings.full_screen {
                self.viewer = None;
                return Some(vec![Action::Redraw]);
            }
        }
        Some(Vec::new())
    }

    /// The text that keys go into.
    fn writing(&mut self) -> &mut Composer {
        if self.focus == Focus::Instead { &mut self.instead } else { &mut self.composer }
    }

    fn paste(&mut self, text: &str, at: Instant) -> Vec<Action> {
        self.last_key = Some(at);
        match self.focus {
            // A paste is never an answer.
            Focus::Question => {
                self.focus = Focus::Composer;
                self.composer.paste(text);
            }
            Focus::Composer => self.composer.paste(text),
            Focus::Instead => self.instead.paste(text),
            Focus::Search(..) => {}
        }
        self.complete()
    }

    /// A key while a question waits. Only a key that was pressed when the question had been on the screen
    /// for a moment, and not in the middle of typing, is an answer.
    fn answer(
        &mut self,
        key: Key,
        deed: Option<Deed>,
        at: Instant,
        last_key: Option<Instant>,
    ) -> Vec<Action> {
        let Some(asked) = &self.asked else {
            self.focus = Focus::Composer;
            return Vec::new();
        };
        let since = |moment: Instant| at.saturating_duration_since(moment);
        let was_seen = asked.shown.is_some_and(|shown| since(shown) >= TOO_SOON);
        let is_typing = last_key.is_some_and(|last| since(last) < TOO_SOON / 2)
            && asked.shown.zip(last_key).is_some_and(|(shown, last)| last < shown + TOO_SOON);
        match deed {
            Some(Deed::Escape) => return self.interrupt(),
            Some(Deed::Cancel) => return self.interrupt(),
            Some(Deed::Transcript | Deed::NextMode | Deed::Redraw | Deed::Suspend) => {
                return deed.map(|deed| self.do_it(deed)).unwrap_or_default();
            }
            _ => {}
        }
        let call = asked.call.clone();
        let is_answer = was_seen && !is_typing;
        match key.typed().map(|char| char.to_ascii_lowercase()) {
            Some('y') if is_answer => self.answered(&call, Approval::Once),
            Some('a') if is_answer && !self.rules().is_empty() => {
                self.answered(&call, Approval::Always)
            }
            Some('n') if is_answer => self.answered(&call, Approval::No(None)),
            Some('i') if is_answer => {
                self.focus = Focus::Instead;
                Vec::new()
            }
            // Whoever types something else writes a message.
            Some(_) if !is_answer || !matches!(key.code, Code::Char('a' | 'A')) => {
                self.focus = Focus::Composer;
                if let Some(char) = key.typed() {
                    self.composer.insert(char);
                }
                self.complete()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn answered(&mut self, call: &str, approval: Approval) -> Vec<Action> {
        self.drop_question();
        vec![Action::Ask(Request::Answer(call.to_owned(), approval))]
    }

    /// The rules that "from now on" would add.
    pub(super) fn rules(&self) -> &[String] {
        let question = self.asked_call().and_then(|call| call.question.as_deref());
        question.map_or(&[], |question| &question.rules)
    }

    /// The call that is asked about.
    pub(super) fn asked_call(&self) -> Option<&Call> {
        self.asked.as_ref().and_then(|asked| self.conversation.asked(&asked.call))
    }

    fn do_it(&mut self, deed: Deed) -> Vec<Action> {
        let columns = self.text_columns();
        match deed {
            Deed::Send => return self.send(),
            Deed::NewLine => self.writing().insert('\n'),
            Deed::Escape => return self.escape(),
            Deed::Cancel => return self.cancel(),
            Deed::EndOfInput => {
                if !self.writing().is_empty() {
                    self.writing().delete(Motion::Right);
                } else if self.is_working {
                    self.say("the agent works; Esc stops it");
                } else {
                    return vec![Action::Ask(Request::Quit)];
                }
            }
            Deed::Transcript if self.settings.full_screen => self.browses = true,
            Deed::Transcript => {
                self.viewer = Some(Viewer::at_end(self.conversation.cells.len(), false));
            }
            Deed::NextMode => {
                let mode = match self.conversation.mode {
                    Some(PermissionMode::Ask) | None => PermissionMode::AutoEdit,
                    Some(PermissionMode::AutoEdit) => PermissionMode::ReadOnly,
                    // The mode that allows everything is chosen by its name alone.
                    Some(PermissionMode::ReadOnly | PermissionMode::Full) => PermissionMode::Ask,
                };
                return self.set_mode(mode);
            }
            Deed::TogglePlan => self.shows_plan = !self.shows_plan,
            Deed::Editor => {
                if !self.is_editing {
                    self.is_editing = true;
                    return vec![Action::Ask(Request::Edit(self.composer.message()))];
                }
            }
            Deed::SearchHistory => self.focus = Focus::Search(String::new(), 0),
            Deed::Complete => {
                if self.asked.is_some() {
                    self.focus = Focus::Question;
                }
            }
            Deed::Redraw => return vec![Action::Redraw],
            Deed::Suspend => return vec![Action::Suspend],
            Deed::Up => {
                if !self.writing().go_row(false, columns) {
                    self.recall(true);
                }
            }
            Deed::Down => {
                if !self.writing().go_row(true, columns) {
                    self.recall(false);
                }
            }
            Deed::Left => self.writing().go(Motion::Left),
            Deed::Right => self.writing().go(Motion::Right),
            Deed::WordLeft => self.writing().go(Motion::WordLeft),
            Deed::WordRight => self.writing().go(Motion::WordRight),
            Deed::LineStart => self.writing().go(Motion::LineStart),
            Deed::LineEnd => self.writing().go(Motion::LineEnd),
            Deed::DeleteBack => self.writing().delete(Motion::Left),
            Deed::DeleteForward => self.writing().delete(Motion::Right),
            Deed::DeleteWordBack => self.writing().delete(Motion::WordLeft),
            Deed::DeleteWordForward => self.writing().delete(Motion::WordRight),
            Deed::DeleteToStart => self.writing().delete(Motion::LineStart),
            Deed::DeleteToEnd => self.writing().delete(Motion::LineEnd),
            Deed::Yank => self.writing().yank(),
            Deed::Undo => self.writing().undo(),
            Deed::Redo => self.writing().redo(),
        }
        Vec::new()
    }

    fn escape(&mut self) -> Vec<Action> {
        if self.focus == Focus::Instead {
            self.instead = Composer::default();
            self.focus = Focus::Question;
            return Vec::new();
        }
        if self.is_working {
            return self.interrupt();
        }
        Vec::new()
    }

    fn interrupt(&mut self) -> Vec<Action> {
        self.is_stopping = true;
        self.drop_question();
        vec![Action::Ask(Request::Interrupt)]
    }

    fn cancel(&mut self) -> Vec<Action> {
        if self.focus == Focus::Instead {
            return self.escape();
        }
        if !self.composer.is_empty() {
            let text = self.composer.take();
            self.composer.keep(&text);
            self.recalled = None;
            let yank = self.settings.keymap.key_for(Deed::Yank);
            self.say(&format!("{yank} brings it back"));
            return Vec::new();
        }
        if self.quits_at.is_some_and(|at| self.now.duration_since(at) <= TWICE) {
            return vec![Action::Ask(Request::Quit)];
        }
        self.quits_at = Some(self.now);
        self.say("once more quits");
        if self.is_working { self.interrupt() } else { Vec::new() }
    }

    fn send(&mut self) -> Vec<Action> {
        if self.focus == Focus::Instead {
            let words = self.instead.take();
            let Some(call) = self.asked.as_ref().map(|asked| asked.call.clone()) else {
                self.focus = Focus::Composer;
                return Vec::new();
            };
            return self.answered(&call, Approval::No(Some(words)));
        }
        let cursor = self.composer.cursor();
        if self.composer.text()[..cursor].ends_with('\\') {
            self.composer.replace(cursor - 1, cursor, "\n");
            return Vec::new();
        }
        if self.composer.text().trim().is_empty() {
            return Vec::new();
        }
        let message = self.composer.take();
        let message = message.trim_end().to_owned();
        self.recalled = None;
        self.popup = None;
        if let Some(vi) = &mut self.vi {
            vi.reset();
        }
        let mut actions = Vec::new();
        if self.settings.history.last() != Some(&message) {
            self.settings.history.push(message.clone());
            actions.push(Action::Ask(Request::Remember(message.clone())));
        }
        actions.extend(self.dispatch(message));
        actions
    }

    fn dispatch(&mut self, message: String) -> Vec<Action> {
        if let Some(command) = message.strip_prefix('!') {
            let command = command.trim().to_owned();
            if command.is_empty() {
                return Vec::new();
            }
            self.shells.push(command.clone());
            return vec![Action::Ask(Request::Shell(command))];
        }
        if let Some(rest) = message.strip_prefix('/') {
            let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if let Some(command) = COMMANDS.iter().find(|command| command.name == name) {
                return self.command(command.deed, arguments.trim());
            }
            let own = self.settings.own_commands.iter().find(|own| own.name == name);
            if let Some(own) = own {
                let message = own.message(arguments.trim()).trim_end().to_owned();
                return self.submit(message);
            }
            // A path is no command.
            if !name.contains('/') {
                let names = COMMANDS.iter().map(|command| command.name);
                let hint = crate::protocol::nearest(name, names).map_or_else(
                    || "/help lists them".to_owned(),
                    |it| format!("did you mean /{it}?"),
                );
                self.conversation.note(Tone::Bad, &format!("there is no command /{name}: {hint}"));
                return Vec::new();
            }
        }
        self.submit(message)
    }

    fn submit(&mut self, message: String) -> Vec<Action> {
        if let Some(viewer) = &mut self.viewer {
            *viewer = Viewer::at_end(self.conversation.cells.len(), false);
        }
        if self.is_working {
            self.queue.push_back(message.clone());
            // A turn that is being stopped hears nothing more: the message comes back.
            let hears = !self.is_stopping;
            return hears.then_some(Action::Ask(Request::Steer(message))).into_iter().collect();
        }
        self.is_working = true;
        vec![Action::Ask(Request::Submit(message))]
    }

    fn set_mode(&mut self, mode: PermissionMode) -> Vec<Action> {
        self.conversation.mode = Some(mode);
        vec![Action::Ask(Request::Mode(mode))]
    }

    fn page(&mut self, title: &str, text: String) {
        self.conversation.cells.push(Cell::Page { title: title.to_owned(), text });
    }

    fn command(&mut self, deed: CommandDeed, arguments: &str) -> Vec<Action> {
        match deed {
            CommandDeed::Help => {
                let text = self.help();
                self.page("Commands", text);
            }
            CommandDeed::Keys => {
                let rows = self.settings.keymap.rows();
                let text =
                    rows.iter().map(|(keys, name, what)| format!("{keys:<26} {what} ({name})\n"));
                let text = text.collect();
                self.page("Keys", text);
            }
            CommandDeed::Plan if self.conversation.plan.todos.is_empty() => {
                self.conversation.note(Tone::Quiet, "there is no plan");
            }
            CommandDeed::Plan => {
                let plan = self.conversation.plan.clone();
                self.conversation.cells.push(Cell::Plan(plan));
            }
            CommandDeed::Cost => {
                let usage = self.conversation.usage;
                let cost = self.conversation.cost_usd.map_or_else(
                    || "not known: set models.\"provider/model\".price_in and price_out".to_owned(),
                    |usd| format!("${usd:.4}"),
                );
                let text = format!(
                    "input   {} tokens, {} of them from the provider's cache\noutput  {} tokens\n\
                     money   {cost}\n",
                    usage.input_tokens, usage.cached_tokens, usage.output_tokens
                );
                self.page("Since this chat began", text);
            }
            CommandDeed::Copy => {
                let answer = self.conversation.cells.iter().rev().find_map(|cell| match cell {
                    Cell::Answer(text) => Some(text.clone()),
                    _ => None,
                });
                match answer {
                    Some(answer) => {
                        self.say("copied, as far as this terminal lets programs do that");
                        return vec![Action::Copy(answer)];
                    }
                    None => self.say("there is no answer yet"),
                }
            }
            CommandDeed::Theme => {
                let background = match arguments {
                    "dark" => Background::Dark,
                    "light" => Background::Light,
                    _ => match self.settings.theme.background() {
                        Background::Dark => Background::Light,
                        Background::Light => Background::Dark,
                    },
                };
                self.settings.theme = self.settings.theme.on(background);
                self.settings.theme_is_chosen = true;
                let word = if background == Background::Dark { "dark" } else { "light" };
                let text =
                    format!("colours for a {word} background; ui.theme = \"{word}\" keeps them");
                self.conversation.note(Tone::Quiet, &text);
                return vec![Action::Redraw];
            }
            CommandDeed::Mode if arguments.is_empty() => {
                let mode = self.conversation.mode.map_or("not known yet", PermissionMode::as_str);
                let text = format!(
                    "the mode is {mode}; /mode read-only, ask, auto-edit or full changes it"
                );
                self.conversation.note(Tone::Quiet, &text);
            }
            CommandDeed::Mode => match mode_named(arguments) {
                Some(mode) => return self.set_mode(mode),
                None => {
                    let text =
                        format!("there is no mode {arguments:?}: read-only, ask, auto-edit, full");
                    self.conversation.note(Tone::Bad, &text);
                }
            },
            CommandDeed::Quit => return vec![Action::Ask(Request::Quit)],
            CommandDeed::Undo
            | CommandDeed::Rewind
            | CommandDeed::Resume
            | CommandDeed::Clear
            | CommandDeed::Compact
            | CommandDeed::Model
                if self.is_working =>
            {
                self.say("the agent works; Esc stops it");
            }
            CommandDeed::Model
            | CommandDeed::Undo
            | CommandDeed::Rewind
            | CommandDeed::Diff
            | CommandDeed::Sessions
            | CommandDeed::Resume
            | CommandDeed::Compact
            | CommandDeed::Clear
            | CommandDeed::Trace
            | CommandDeed::Export
            | CommandDeed::Config
            | CommandDeed::Doctor => {
                return vec![Action::Ask(Request::Command(deed, arguments.to_owned()))];
            }
        }
        Vec::new()
    }

    fn help(&self) -> String {
        let mut text = String::new();
        for command in COMMANDS {
            let name = format!("/{} {}", command.name, command.args);
            text.push_str(&format!("{name:<24} {}\n", command.what));
        }
        for own in &self.settings.own_commands {
            text.push_str(&format!("{:<24} {} (your own)\n", format!("/{}", own.name), own.what));
        }
        let key = |deed| self.settings.keymap.key_for(deed);
        text.push_str(&format!(
            "\n@ names a file · ! runs a command of your own · {} a new line · {} stops the agent\n\
             {} everything in full · {} the next mode · /keys all keys\n",
            key(Deed::NewLine),
            key(Deed::Escape),
            key(Deed::Transcript),
            key(Deed::NextMode),
        ));
        text
    }

    // ── earlier messages ──

    fn recall(&mut self, earlier: bool) {
        if self.focus == Focus::Instead {
            return;
        }
        let history = &self.settings.history;
        let (at, draft) = match self.recalled.take() {
            Some(recalled) => recalled,
            None => (history.len(), self.composer.text().to_owned()),
        };
        let next = if earlier { at.checked_sub(1) } else { Some(at + 1) };
        match next {
            Some(next) if next < history.len() => {
                let text = history[next].clone();
                self.composer.set(&text);
                self.recalled = Some((next, draft));
            }
            Some(next) if next == history.len() => self.composer.set(&draft),
            // The oldest stays; below the draft there is nothing.
            Some(_) => {}
            None => self.recalled = Some((at, draft)),
        }
    }

    /// The messages that fit a search, the latest first.
    pub(super) fn matches(&self, query: &str) -> Vec<&String> {
        let query = query.to_lowercase();
        let mut seen = std::collections::HashSet::new();
        let all = self.settings.history.iter().rev();
        all.filter(|text| text.to_lowercase().contains(&query) && seen.insert(*text)).collect()
    }

    fn search(
        &mut self,
        mut query: String,
        back: usize,
        key: Key,
        deed: Option<Deed>,
    ) -> Vec<Action> {
        let n_found = self.matches(&query).len();
        match (deed, key.typed()) {
            (Some(Deed::SearchHistory), _) => {
                let back = if n_found == 0 { 0 } else { (back + 1) % n_found };
                self.focus = Focus::Search(query, back);
            }
            (Some(Deed::DeleteBack), _) => {
                query.pop();
                self.focus = Focus::Search(query, 0);
            }
            (Some(Deed::Escape | Deed::Cancel), _) => {}
            (_, Some(char)) => {
                query.push(char);
                self.focus = Focus::Search(query, 0);
            }
            _ => {
                let found = self.matches(&query).get(back).map(|text| (*text).clone());
                if let Some(text) = found {
                    self.composer.set(&text);
                }
            }
        }
        Vec::new()
    }

    // ── completion ──

    /// Looks whether what is written can be completed.
    fn complete(&mut self) -> Vec<Action> {
        self.popup = None;
        if self.focus != Focus::Composer || self.recalled.is_some() {
            return Vec::new();
        }
        let text = self.composer.text();
        let before = &text[..self.composer.cursor()];
        if let Some(query) = before.strip_prefix('/') {
            let Some((name, arguments)) = query.split_once(' ') else {
                let items = complete::commands(query, &self.settings.own_commands);
                self.offer(Kind::Command, 0, items);
                return Vec::new();
            };
            let from = before.len() - arguments.len();
            let deed = COMMANDS.iter().find(|command| command.name == name).map(|it| it.deed);
            let items = match deed {
                Some(CommandDeed::Mode) => complete::words(
                    arguments,
                    [
                        ("read-only", "it looks and changes nothing"),
                        ("ask", "it asks before every change and command"),
                        (
                            "auto-edit",
                            "it changes files of the project; commands run in the sandbox",
                        ),
                        ("full", "it may do anything but what is never done"),
                    ],
                ),
                Some(CommandDeed::Theme) => {
                    complete::words(arguments, [("dark", ""), ("light", "")])
                }
                Some(CommandDeed::Resume) => {
                    let sessions = self.sessions.iter();
                    let sessions = sessions.map(|(id, what)| (id.as_str(), what.as_str()));
                    let items = complete::words(arguments, sessions);
                    if self.sessions.is_empty() && arguments.is_empty() {
                        let ask = Request::Command(CommandDeed::Sessions, "list".to_owned());
                        return vec![Action::Ask(ask)];
                    }
                    items
                }
                _ => Vec::new(),
            };
            self.offer(Kind::Argument, from, items);
            return Vec::new();
        }
        if let Some((from, query)) = self.composer.mention('@') {
            let query = query.to_owned();
            let is_first = query.is_empty();
            let items = self.finder.find(&query);
            self.offer(Kind::File, from, items);
            // The list is made anew with each mention, while the old one is already of use.
            return if is_first { vec![Action::Ask(Request::Files)] } else { Vec::new() };
        }
        Vec::new()
    }

    fn offer(&mut self, kind: Kind, from: usize, items: Vec<Item>) {
        let is_written = |item: &Item| item.insert.trim_end() == &self.composer.text()[from..];
        // What is written whole needs no list of one.
        let is_whole = items.len() == 1 && items.iter().all(is_written);
        if !items.is_empty() && !(is_whole && kind != Kind::Command) {
            self.popup = Some(Popup { kind, from, items, selected: 0 });
        }
    }

    /// A key while there is something to choose; `None` where it is not for the choice.
    fn choose(&mut self, deed: Option<Deed>) -> Option<Vec<Action>> {
        let popup = self.popup.as_mut()?;
        let n_items = popup.items.len();
        match deed? {
            Deed::Up => popup.selected = (popup.selected + n_items - 1) % n_items,
            Deed::Down => popup.selected = (popup.selected + 1) % n_items,
            Deed::Escape => self.popup = None,
            Deed::Complete => {
                let popup = self.popup.take()?;
                self.take(&popup);
                return Some(self.complete());
            }
            Deed::Send => {
                let popup = self.popup.take()?;
                let item = &popup.items[popup.selected];
                let is_written =
                    self.composer.text()[popup.from..self.composer.cursor()] == item.insert;
                if !is_written {
                    self.take(&popup);
                }
                return Some(match popup.kind {
                    // What may take more is sent once its name was written whole.
                    Kind::Command if item.takes_more && !is_written => self.complete(),
                    Kind::Command | Kind::Argument => self.send(),
                    Kind::File => Vec::new(),
                });
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn take(&mut self, popup: &Popup) {
        let item = &popup.items[popup.selected];
        let cursor = self.composer.cursor();
        let space = if popup.kind == Kind::Command && item.takes_more { " " } else { "" };
        let insert = format!("{}{space}", item.insert);
        self.composer.replace(popup.from, cursor, &insert);
    }

    /// Columns for the text of the message.
    pub(super) fn text_columns(&self) -> usize {
        self.size.0.saturating_sub(3).max(1)
    }
}

fn mode_named(name: &str) -> Option<PermissionMode> {
    let modes = [
        PermissionMode::ReadOnly,
        PermissionMode::Ask,
        PermissionMode::AutoEdit,
        PermissionMode::Full,
    ];
    modes.into_iter().find(|mode| mode.as_str() == name)
}
