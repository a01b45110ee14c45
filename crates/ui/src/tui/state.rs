//! The state of the chat and its `update` function: pure, so that every input can be tested.

mod appearance;
mod command;
mod key_handling;
mod message_history;
mod popup;
mod question;
mod questionnaire;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use message_history::RecalledMessage;
pub(super) use question::{Choice, PendingQuestion, QuestionSubject};
pub(super) use questionnaire::Questionnaire;

use super::cells::{Cell, ShellResult, Tone};
use super::commands::CommandAction;
use super::completion::{FileFinder, Popup};
use super::composer::{AttributedText, Composer};
use super::conversation::{Conversation, TurnActivity};
use super::decoder::TerminalInput;
use super::keys::Keymap;
use super::status_line::StatusItem;
use super::theme::{Background, Theme};
use super::viewer::{PageViewer, Viewer};
use agent_protocol::control::{ApprovalDecision, Ending, ModeLimit, PermissionMode};
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::model::ContextWindow;
use agent_protocol::prompt::Prompts;
use agent_protocol::provider::Effort;
use agent_protocol::question::UserAnswer;
use agent_protocol::spending::Spending;

/// A second Ctrl-C within this time quits.
const DOUBLE_PRESS: Duration = Duration::from_secs(2);
/// The end of a longer turn is notified if the window has no focus.
const LONG_TURN: Duration = Duration::from_secs(10);
/// The index of the answer "no".
const NO: usize = 1;
const TOAST_DURATION: Duration = Duration::from_secs(4);

/// The initial settings of the chat.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the configuration")]
#[derive(Clone, Debug)]
pub struct Settings {
    pub keymap: Keymap,
    pub theme: Theme,
    /// True: the terminal's background is ignored.
    pub is_theme_configured: bool,
    pub status_line: Vec<StatusItem>,
    /// Notifies the end of a long turn while the window has no focus.
    pub notifications: bool,
    /// Whether the window's title is set.
    pub title: bool,
    /// Latest last.
    pub history: Vec<String>,
    pub own_commands: Vec<CustomCommand>,
    pub offers_sessions: bool,
    pub mode_limits: Vec<ModeLimit>,
    pub first_message: Option<String>,
    pub notices: Vec<String>,
    pub branch: Option<String>,
    pub prompts: Prompts,
    /// Ids, each with its facts in a few words.
    pub models: Vec<(String, String)>,
}

/// A request of the chat to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatRequest {
    /// Delivers this message to the running turn, or works on it if the session is idle.
    Submit(UserInput),
    /// Returns the latest undelivered message.
    WithdrawMessage,
    Interrupt,
    /// The id of the call, and the answer.
    AnswerPermission(String, ApprovalDecision),
    AnswerQuestions(String, Vec<UserAnswer>),
    SetMode(PermissionMode),
    /// The number of the command in the chat, and the command.
    RunShell(u32, String),
    ListFiles,
    ListOwnCommands,
    ListModels,
    RunCommand(CommandAction, String),
    AddToHistory(String),
    OpenEditor(String),
    PasteImage,
    Quit,
}

/// A message from the session or the program to the chat.
#[derive(Clone, Debug)]
pub enum ChatUpdate {
    Event(Box<Event>),
    /// The earlier events of a resumed session.
    /// What they cost comes with them: they are not all events of the session.
    RecordedEvents(Vec<Event>, Spending),
    NewSession,
    /// The session continues after a rewind.
    SessionReopened,
    /// A turn begins with this number of the oldest undelivered messages.
    MessagesDelivered(usize),
    SessionIdle {
        outcome: WorkOutcome,
        undelivered: Vec<UserInput>,
    },
    /// An undelivered message returns to the input field.
    MessageWithdrawn(UserInput),
    Files(Arc<[String]>),
    OwnCommands(Vec<CustomCommand>),
    Models(Vec<(String, String)>),
    /// Id and description.
    Sessions(Vec<(String, String)>),
    ShellOutput {
        id: u32,
        tail: String,
    },
    ShellFinished {
        id: u32,
        command: String,
        output: String,
        /// Lines that are missing in `output`.
        n_omitted: usize,
        /// `None` if the command was ended.
        exit_code: Option<i32>,
    },
    Page {
        title: String,
        text: String,
        place: PagePlace,
    },
    /// `false`: an error.
    Note(bool, String),
    EffortChanged(Option<Effort>),
    ModelChanged {
        /// `provider/model`.
        id: String,
        effort: Option<Effort>,
        window: ContextWindow,
        warnings: Vec<String>,
    },
    /// A description of the rewind.
    SessionRewound(String),
    /// The edited text, or an error.
    EditorClosed(Result<String, String>),
    /// The file of the image.
    ImagePasted(String),
    BranchChanged(Option<String>),
    /// Id and command line.
    BackgroundCommands(Vec<(String, String)>),
    ProgramEnding,
}

/// How the work of the session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    Succeeded,
    Failed,
    Interrupted,
}

/// Where the output of a command is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// In the viewer if it does not fit on the screen.
    Conversation,
    Viewer,
    /// Shows the last lines first.
    ViewerAtEnd,
}

/// An input of [`State::update`].
#[derive(Debug)]
pub(super) enum Input {
    Terminal(TerminalInput, Instant),
    /// Columns and rows.
    Resized(usize, usize),
    Update(ChatUpdate),
    /// A frame with this question was displayed.
    QuestionShown(QuestionSubject),
    Tick,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    SendRequest(ChatRequest),
    /// The target is the terminal's clipboard.
    Copy(String),
    Notify(String),
    Suspend,
    Redraw,
    EndChat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Composer,
    Question,
    RejectionReason,
    PlanText,
    AnswerText,
    /// The query, and the number of the match.
    Search(String, usize),
}

impl Focus {
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::RejectionReason | Self::PlanText | Self::AnswerText)
    }
}

#[derive(Debug)]
pub(super) struct RunningShell {
    id: u32,
    pub(super) command: String,
    pub(super) tail: String,
}

#[expect(clippy::struct_excessive_bools, reason = "each is so or not, whatever the others are")]
pub(super) struct State {
    pub(super) conversation: Conversation,
    pub(super) composer: Composer,
    pub(super) answer_text: Composer,
    pub(super) focus: Focus,
    pub(super) pending_question: Option<PendingQuestion>,
    /// The mode and the time of the key; it is requested later if a call waits.
    pending_mode: Option<(PermissionMode, Instant)>,
    /// The final text of a turn in mode plan, until the session is idle.
    finished_plan: Option<String>,
    /// The session has these undelivered messages; the oldest first.
    pub(super) queue: VecDeque<UserInput>,
    pub(super) follow_ups: VecDeque<UserInput>,
    pub(super) popup: Option<Popup>,
    /// Written to open the list of a command.
    opened_list_text: Option<&'static str>,
    pub(super) viewer: Option<Viewer>,
    pub(super) page: Option<PageViewer>,
    /// False: no input field, lists and pages.
    pub(super) has_screen: bool,
    pub(super) settings: Settings,
    pub(super) size: (usize, usize),
    pub(super) is_working: bool,
    /// The turn has ended, but the session is not idle yet.
    pub(super) is_ending: bool,
    pub(super) is_stopping: bool,
    pub(super) is_plan_visible: bool,
    /// Until the next key.
    pub(super) shows_keys: bool,
    /// The text in the status line, and the end of its display.
    pub(super) toast: Option<(String, Instant)>,
    pub(super) shells: Vec<RunningShell>,
    n_shells: u32,
    /// Id and command line.
    pub(super) background: Vec<(String, String)>,
    pub(super) now: Instant,
    has_focus: bool,
    recalled_message: Option<RecalledMessage>,
    /// The message of the turn to which the session is rewound.
    rewound_message: Option<AttributedText>,
    finder: FileFinder,
    /// The text before the cursor when the list was built.
    popup_query: String,
    sessions: Vec<(String, String)>,
    last_cancel: Option<Instant>,
    /// The last press of Esc without effect.
    last_escape: Option<Instant>,
    last_key: Option<Instant>,
    is_editing: bool,
}

impl State {
    pub(super) fn new(settings: Settings, size: (usize, usize), now: Instant) -> Self {
        let mut conversation = Conversation::default();
        for notice in &settings.notices {
            conversation.add_note(Tone::Warn, notice);
        }
        Self {
            conversation,
            composer: Composer::default(),
            answer_text: Composer::default(),
            focus: Focus::Composer,
            pending_question: None,
            pending_mode: None,
            finished_plan: None,
            queue: VecDeque::new(),
            follow_ups: VecDeque::new(),
            popup: None,
            opened_list_text: None,
            page: None,
            has_screen: true,
            viewer: None,
            settings,
            size,
            is_working: false,
            is_ending: false,
            is_stopping: false,
            is_plan_visible: true,
            shows_keys: false,
            toast: None,
            shells: Vec::new(),
            n_shells: 0,
            background: Vec::new(),
            now,
            has_focus: true,
            recalled_message: None,
            rewound_message: None,
            finder: FileFinder::default(),
            popup_query: String::new(),
            sessions: Vec::new(),
            last_cancel: None,
            last_escape: None,
            last_key: None,
            is_editing: false,
        }
    }

    pub(super) fn send_message(&mut self, message: AttributedText, now: Instant) -> Vec<Action> {
        self.now = now;
        self.composer.set_text(message);
        self.send_composer_text()
    }

    pub(super) fn update(&mut self, input: Input, now: Instant) -> Vec<Action> {
        self.now = now;
        if self.toast.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.toast = None;
        }
        // A key is evaluated at the time when it was pressed.
        let moment = if let Input::Terminal(_, at) = &input { *at } else { now };
        let mut actions = self.accept_pending_letter(moment);
        actions.extend(self.handle_input(input));
        actions.extend(self.request_pending_mode(moment));
        // A list is only used with the text for which it was made.
        if self.text_before_cursor() != self.popup_query {
            self.popup = None;
        }
        actions
    }

    fn text_before_cursor(&self) -> &str {
        &self.composer.text()[..self.composer.cursor()]
    }

    /// The session has no work and no message.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_working && !self.is_ending
    }

    fn handle_input(&mut self, input: Input) -> Vec<Action> {
        match input {
            Input::Terminal(TerminalInput::Key(key), at) => return self.handle_key(key, at),
            Input::Terminal(TerminalInput::Paste(text), at) => return self.paste(&text, at),
            Input::Update(update) => return self.apply_update(update),
            Input::Terminal(TerminalInput::Focus(has_focus), _) => self.has_focus = has_focus,
            Input::Terminal(TerminalInput::LightBackground(is_light), _) => {
                if !self.settings.is_theme_configured {
                    let background = if is_light { Background::Light } else { Background::Dark };
                    self.settings.theme.background = background;
                }
            }
            Input::Terminal(TerminalInput::TerminalName(_), _) | Input::Tick => {}
            Input::Resized(columns, rows) => self.size = (columns, rows),
            Input::QuestionShown(subject) => {
                if let Some(question) = &mut self.pending_question
                    && question.subject == subject
                {
                    question.shown_at.get_or_insert(self.now);
                }
            }
        }
        Vec::new()
    }

    /// The time until the display changes without input; `None` if it does not.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        if let Some(tick) = self.question_tick() {
            return Some(tick);
        }
        if let Some((_, until)) = &self.toast {
            let left = until.saturating_duration_since(self.now);
            return Some(left.min(Duration::from_secs(1)));
        }
        // The elapsed seconds are displayed, or the seconds until a retry.
        let turn = self.conversation.turn.as_ref()?;
        let passed = self.now.duration_since(turn.started);
        let second = Duration::from_millis(1000 - u64::from(passed.subsec_millis()));
        let TurnActivity::Retrying { at, .. } = turn.activity else { return Some(second) };
        let left = at.saturating_duration_since(self.now);
        Some(match (left.as_secs(), left.subsec_millis()) {
            (0, 0) => second,
            (_, 0) => Duration::from_secs(1),
            (_, part) => Duration::from_millis(part.into()),
        })
    }

    fn apply_update(&mut self, update: ChatUpdate) -> Vec<Action> {
        match update {
            ChatUpdate::Event(event) => return self.apply_event(&event),
            ChatUpdate::RecordedEvents(events, spending) => {
                for event in &events {
                    self.conversation.apply(event, self.now);
                }
                self.conversation.mark_as_history(spending);
            }
            ChatUpdate::NewSession | ChatUpdate::SessionReopened => {
                let is_reopened = matches!(update, ChatUpdate::SessionReopened);
                self.conversation = Conversation::following(&self.conversation, is_reopened);
                self.pending_question = None;
                self.focus = Focus::Composer;
                // Another session is current now.
                self.sessions.clear();
                self.viewer = None;
            }
            ChatUpdate::MessagesDelivered(n) => {
                self.queue.drain(..n.min(self.queue.len()));
            }
            ChatUpdate::SessionIdle { outcome, undelivered } => {
                return self.handle_idle(outcome, undelivered);
            }
            ChatUpdate::MessageWithdrawn(message) => {
                if let Some(at) = self.queue.iter().rposition(|queued| *queued == message) {
                    self.queue.remove(at);
                }
                let is_command = key_handling::is_delivered_command(&message);
                self.return_to_composer(&message, is_command);
            }
            ChatUpdate::Files(files) => {
                self.finder.set_files(files);
                self.update_popup();
            }
            ChatUpdate::Sessions(sessions) => {
                self.sessions = sessions;
                if self.sessions.is_empty() {
                    if self.composer.text() == "/resume " {
                        self.composer.set_text(AttributedText::typed(""));
                    }
                    self.show_toast("there is no other session of this project");
                }
                self.update_popup();
            }
            ChatUpdate::OwnCommands(commands) => self.set_own_commands(commands),
            ChatUpdate::Models(models) => self.set_models(models),
            ChatUpdate::ShellOutput { id, tail } => {
                if let Some(shell) = self.shells.iter_mut().find(|shell| shell.id == id) {
                    shell.tail = tail;
                }
            }
            ChatUpdate::ShellFinished { id, command, output, n_omitted, exit_code } => {
                self.shells.retain(|shell| shell.id != id);
                let shell = ShellResult { command, output, n_omitted, exit_code };
                self.conversation.insert_output(Cell::Shell(Box::new(shell)));
                if exit_code != Some(0) && self.is_idle() && self.shells.is_empty() {
                    let mut returned = Vec::new();
                    self.return_follow_ups(&mut returned, true);
                    self.return_messages(returned);
                }
                return self.send_follow_ups();
            }
            ChatUpdate::Page { title, text, place } => self.show_page(&title, text, place),
            ChatUpdate::Note(is_good, text) => {
                let tone = if is_good { Tone::Quiet } else { Tone::Bad };
                self.conversation.insert_note(tone, &text);
            }
            ChatUpdate::EffortChanged(effort) => self.conversation.effort = effort,
            ChatUpdate::ModelChanged { id, effort, window, warnings } => {
                let with = effort.map(|effort| format!(" with effort {}", effort.as_str()));
                let text = format!("{id} answers from now on{}", with.unwrap_or_default());
                self.conversation.insert_note(Tone::Quiet, &text);
                for warning in warnings {
                    self.conversation.insert_note(Tone::Warn, &warning);
                }
                self.conversation.model = id;
                self.conversation.effort = effort;
                self.conversation.window = Some(window.tokens);
                self.conversation.window_source = Some(window.source);
                self.conversation.compacts_at = None;
            }
            ChatUpdate::SessionRewound(text) => {
                self.conversation.insert_note(Tone::Quiet, &text);
                // The message of that turn can be edited and sent again.
                let message = self.rewound_message.take();
                if let Some(message) = message.filter(|_| self.composer.is_empty()) {
                    self.composer.set_folded(&message);
                }
            }
            ChatUpdate::EditorClosed(edited) => {
                self.is_editing = false;
                match edited {
                    Ok(text) => self.active_composer().set_edited(text.trim_end()),
                    Err(reason) => self.show_toast(&reason),
                }
                let follow_ups = self.send_follow_ups();
                return std::iter::once(Action::Redraw).chain(follow_ups).collect();
            }
            ChatUpdate::ImagePasted(path) => self.composer.paste(&path),
            ChatUpdate::BranchChanged(branch) => self.settings.branch = branch,
            ChatUpdate::BackgroundCommands(running) => self.background = running,
            ChatUpdate::ProgramEnding => return vec![Action::EndChat],
        }
        Vec::new()
    }

    /// Messages that are still in the queue are on their way to the session.
    fn handle_idle(&mut self, outcome: WorkOutcome, undelivered: Vec<UserInput>) -> Vec<Action> {
        self.queue.drain(..undelivered.len().min(self.queue.len()));
        self.is_working = !self.queue.is_empty();
        self.is_ending = false;
        self.is_stopping = false;
        self.conversation.turn = None;
        // A plan stays open: it is about no call.
        if !self.is_asking_about_plan() {
            self.close_question();
        }
        let mut returned = undelivered;
        if outcome != WorkOutcome::Succeeded {
            self.return_follow_ups(&mut returned, outcome == WorkOutcome::Failed);
        }
        self.return_messages(returned);
        let actions = self.send_follow_ups();
        if outcome != WorkOutcome::Interrupted
            && !self.is_working
            && let Some(plan) = self.finished_plan.take()
        {
            self.open_question(QuestionSubject::Plan(plan));
        }
        actions
    }

    /// Puts messages that were not sent into the input field.
    fn return_messages(&mut self, messages: Vec<UserInput>) {
        match messages.as_slice() {
            [] => {}
            [command] if key_handling::is_delivered_command(command) => {
                self.return_to_composer(command, true);
            }
            _ => self.return_to_composer(&UserInput::join(messages, "\n"), false),
        }
    }

    /// A command stays one only if it is alone: the model would receive it as a part of a message.
    fn return_follow_ups(&mut self, returned: &mut Vec<UserInput>, has_failed: bool) {
        let (commands, messages): (Vec<_>, Vec<_>) =
            self.follow_ups.drain(..).partition(key_handling::is_command);
        let is_alone = returned.is_empty() && messages.is_empty() && self.composer.is_empty();
        let is_back = match commands.as_slice() {
            [] => !messages.is_empty(),
            [command] if is_alone => {
                self.return_to_composer(command, true);
                true
            }
            commands => {
                let texts: Vec<_> = commands.iter().map(|command| command.text.as_str()).collect();
                let text = format!("not run: {}", texts.join(" · "));
                self.conversation.insert_note(Tone::Warn, &text);
                !messages.is_empty()
            }
        };
        if has_failed && is_back {
            let why = "the work failed: what was to follow it is not sent, and is in the input";
            self.conversation.insert_note(Tone::Warn, why);
        }
        returned.extend(messages);
    }

    /// Stops at the first message that has to end before the next.
    fn send_follow_ups(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while self.is_idle()
            && self.shells.is_empty()
            && !self.is_editing
            && let Some(next) = self.follow_ups.pop_front()
        {
            actions.extend(self.dispatch(next));
        }
        actions
    }

    fn apply_event(&mut self, event: &Event) -> Vec<Action> {
        let ran = self.conversation.turn.as_ref().map(|turn| self.now.duration_since(turn.started));
        self.conversation.apply(event, self.now);
        let mut actions = Vec::new();
        match &event.body {
            EventBody::TurnStarted { .. } => {
                self.is_working = true;
                self.is_ending = false;
                self.finished_plan = None;
                if self.is_asking_about_plan() {
                    self.close_question();
                }
            }
            EventBody::TurnSteered { .. } => {
                self.queue.pop_front();
            }
            EventBody::PermissionRequested { call, tool, dangers, .. } => {
                self.open_question(QuestionSubject::Call(call.clone()));
                if let Some(question) =
                    self.pending_question.as_mut().filter(|_| !dangers.is_empty())
                {
                    question.selected = NO;
                }
                actions.extend(self.notification(&format!("may it use {tool}?")));
            }
            EventBody::QuestionAsked { call, questions } => {
                self.open_questionnaire(call, questions);
                actions.extend(self.notification("it asks you something"));
            }
            EventBody::PermissionDecided { call, .. }
            | EventBody::QuestionAnswered { call, .. }
                if self.questioned_call() == Some(call) =>
            {
                self.close_question();
            }
            EventBody::TurnFinished(finished) => {
                self.is_working = false;
                self.is_ending = true;
                self.is_stopping = false;
                self.close_question();
                self.finished_plan = finished.is_plan.then(|| finished.result.clone());
                if ran.is_some_and(|ran| ran > LONG_TURN) && finished.ending != Ending::Interrupted
                {
                    let how = if finished.ending.is_success() { "done" } else { "it failed" };
                    actions.extend(self.notification(how));
                }
            }
            _ => {}
        }
        actions
    }

    fn notification(&self, text: &str) -> Option<Action> {
        let is_away = self.settings.notifications && !self.has_focus;
        is_away.then(|| Action::Notify(format!("agent: {text}")))
    }

    fn show_toast(&mut self, text: &str) {
        self.show_toast_for(text, TOAST_DURATION);
    }

    fn show_toast_for(&mut self, text: &str, time: Duration) {
        self.toast = Some((text.to_owned(), self.now + time));
    }
}
