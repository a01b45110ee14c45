//! Questions: may a call be made, is a plan carried out, what the model asks; and their answers.

use std::time::{Duration, Instant};

use super::inquiry::Inquiry;
use super::{Action, Focus, Request, State};
use crate::tui::cells::Call;
use crate::tui::composer::Composer;
use crate::tui::keys::{Key, KeyAction};
use agent_protocol::control::{Approval, Grant, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::visible::{literal_line, prose};

const ACCEPTED: Prompt = Prompt::named("plan/accepted.md");
const EDITED: Prompt = Prompt::named("plan/edited.md");

/// A key this soon after a question appeared was not meant for it.
const TOO_SOON: Duration = Duration::from_millis(500);
/// A mode that was selected with a key is requested after this time without another such key: the modes in
/// between must not settle the question.
const MODE_SETTLES: Duration = Duration::from_millis(700);
/// The place of the first further "yes" among the choices. The places before it have the same meaning at every
/// question: yes, no, in your own words.
const FIRST_GRANT: usize = 3;
/// A letter counts as an answer if no other follows within this time: otherwise it starts a word.
const ALONE: Duration = Duration::from_millis(150);

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Subject {
    /// May this call be made?
    Call(String),
    /// Is this plan carried out? The session is idle.
    Plan(String),
    /// The model asks: the call, and the number of the question, from 0.
    Inquiry(String, usize),
}

/// A waiting question.
#[derive(Debug)]
pub(in crate::tui) struct Asked {
    pub(in crate::tui) about: Subject,
    /// When keys began to go to it.
    pub(super) shown: Option<Instant>,
    /// It was displayed before, above a message that was being written.
    pub(super) was_deferred: bool,
    /// The selected choice.
    pub(in crate::tui) selected: usize,
    /// The questions of the model.
    pub(super) inquiry: Option<Inquiry>,
    /// A pressed letter that becomes an answer if no other follows.
    pressed: Option<Pressed>,
}

impl Asked {
    pub(super) fn new(about: Subject) -> Self {
        Self { about, shown: None, was_deferred: false, selected: 0, inquiry: None, pressed: None }
    }

    /// Takes back a letter that is no answer yet.
    pub(super) fn take_letter(&mut self) -> Option<char> {
        self.pressed.take().map(|pressed| pressed.letter)
    }

    /// The call that waits for the user.
    pub(in crate::tui) fn call(&self) -> Option<&str> {
        match &self.about {
            Subject::Call(call) | Subject::Inquiry(call, _) => Some(call),
            Subject::Plan(_) => None,
        }
    }
}

/// A choice at a question.
#[derive(Clone, Debug)]
pub(in crate::tui) enum Choice {
    Answer(Approval),
    /// No, with a text for the model.
    NoWithText,
    /// The plan is carried out in this mode.
    CarryOut(PermissionMode),
    /// The user edits the plan first.
    EditPlan,
    /// The plan is not carried out.
    KeepPlanning,
    /// An answer that the model offers.
    Option {
        /// Its number, from 0.
        n: usize,
        /// The answer.
        label: String,
        /// What it means; may be empty.
        description: String,
        /// Whether it is chosen, if several can be.
        is_chosen: Option<bool>,
    },
    /// An answer in the user's words.
    OwnWords,
}

impl Choice {
    /// The letter that selects it, if there is one.
    pub(in crate::tui) fn letter(&self, n: usize) -> Option<char> {
        match self {
            Self::Answer(Approval::Once | Approval::Changed(_)) => Some('y'),
            // The narrowest grant is the first.
            Self::Answer(Approval::Always(grant)) => {
                (n == FIRST_GRANT && matches!(grant, Grant::Rules(_))).then_some('a')
            }
            Self::Answer(Approval::No(_) | Approval::Stop(_)) | Self::KeepPlanning => Some('n'),
            Self::NoWithText => Some('i'),
            Self::CarryOut(_) => (n == 0).then_some('y'),
            Self::EditPlan => Some('e'),
            // A letter begins an answer in words.
            Self::Option { .. } | Self::OwnWords => None,
        }
    }

    pub(in crate::tui) fn in_words(&self) -> String {
        match self {
            Self::Answer(Approval::Once | Approval::Changed(_)) => "yes".to_owned(),
            Self::Answer(Approval::Always(grant)) => {
                format!("yes, and for this session: {}", literal_line(&grant.in_words()))
            }
            Self::Answer(Approval::No(_) | Approval::Stop(_)) => "no".to_owned(),
            Self::NoWithText => "no, and say what instead".to_owned(),
            Self::CarryOut(PermissionMode::Ask) => {
                "yes, and ask before each change (mode ask)".to_owned()
            }
            Self::CarryOut(mode) => format!("yes (mode {})", mode.as_str()),
            Self::EditPlan => "edit the plan, then carry it out".to_owned(),
            Self::KeepPlanning => "no, keep planning".to_owned(),
            Self::Option { label, is_chosen, .. } => {
                let label = prose(label.trim()).replace('\n', " ");
                match is_chosen {
                    Some(true) => format!("[x] {label}"),
                    Some(false) => format!("[ ] {label}"),
                    None => label,
                }
            }
            Self::OwnWords => "answer in your own words".to_owned(),
        }
    }

    /// What it means, in addition to its words; may be empty.
    pub(in crate::tui) fn details(&self) -> String {
        match self {
            Self::Option { description, .. } => prose(description.trim()).replace('\n', " "),
            _ => String::new(),
        }
    }
}

/// A letter that was pressed at a question.
#[derive(Clone, Copy, Debug)]
struct Pressed {
    letter: char,
    at: Instant,
    /// Why it does not count, if so.
    guard: Option<&'static str>,
}

impl State {
    /// The question is about a plan.
    pub(in crate::tui) fn asks_about_plan(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.call().is_none())
    }

    pub(super) fn ask_about_plan(&mut self) {
        if let Some(plan) = self.finished_plan.take() {
            self.ask(Subject::Plan(plan));
        }
    }

    pub(super) fn ask(&mut self, about: Subject) {
        self.asked = Some(Asked::new(about));
        if !self.browses {
            self.show_end();
        }
        // A draft is not replaced.
        if self.composer.is_empty() && self.focus == Focus::Composer {
            self.focus = Focus::Question;
            self.popup = None;
        }
    }

    pub(super) fn drop_question(&mut self) {
        if !self.browses {
            self.show_end();
        }
        self.asked = None;
        if self.focus == Focus::Question || self.answers_in_words() {
            self.focus = Focus::Composer;
        }
        self.answer_text = Composer::default();
    }

    /// Handles a key while a question waits. It is an answer only if the question was visible for a moment
    /// when it was pressed, and no text is being typed.
    pub(super) fn answer(
        &mut self,
        key: Key,
        action: Option<KeyAction>,
        at: Instant,
        last_key: Option<Instant>,
    ) -> Vec<Action> {
        let Some(asked) = &mut self.asked else {
            self.focus = Focus::Composer;
            return Vec::new();
        };
        let before = asked.pressed.take();
        let since = |moment: Instant| at.saturating_duration_since(moment);
        let was_seen = asked.shown.is_some_and(|shown| since(shown) >= TOO_SOON);
        let is_typing = last_key.is_some_and(|last| since(last) < TOO_SOON / 2)
            && asked.shown.zip(last_key).is_some_and(|(shown, last)| last < shown + TOO_SOON);
        let guard = match (was_seen, asked.was_deferred) {
            (true, _) if is_typing => Some("you were typing when the question appeared"),
            (true, _) => None,
            (false, true) => Some("this key came right after your message was deleted"),
            (false, false) => Some("the question had just appeared"),
        };
        match action {
            Some(KeyAction::Escape | KeyAction::Cancel) if asked.call().is_none() => {
                return self.choose_answer(Choice::KeepPlanning);
            }
            Some(KeyAction::Escape | KeyAction::Cancel) => return self.interrupt(),
            Some(KeyAction::NextMode) if guard.is_some() => {
                self.say(&format!("{}: press the key again", guard.unwrap_or_default()));
                return Vec::new();
            }
            Some(
                KeyAction::Transcript
                | KeyAction::NextMode
                | KeyAction::Redraw
                | KeyAction::Suspend,
            ) => {
                return action.map(|action| self.do_it(action)).unwrap_or_default();
            }
            _ => {}
        }
        let asks_user = self.inquiry().is_some();
        if asks_user && key.typed() == Some(' ') && before.is_none() {
            return self.mark(guard);
        }
        match (key.typed(), before) {
            (None, Some(pressed)) if action == Some(KeyAction::Send) => self.decide(pressed),
            // Any other key cancels a letter.
            (None, _) => self.select_answer(action, guard),
            (Some(letter), None) if self.choice_for(letter).is_some() => {
                if let Some(asked) = &mut self.asked {
                    asked.pressed = Some(Pressed { letter, at, guard });
                }
                Vec::new()
            }
            // Other characters start an answer to the model, or a message.
            (Some(char), before) => {
                let is_answer = asks_user && guard.is_none();
                self.focus = if is_answer { Focus::AnswerText } else { Focus::Composer };
                if let Some(pressed) = before {
                    self.writing().insert(pressed.letter);
                }
                self.writing().insert(char);
                self.complete()
            }
        }
    }

    /// Marks the option under the selection, or removes its mark.
    fn mark(&mut self, guard: Option<&'static str>) -> Vec<Action> {
        let selected = self.asked.as_ref().map_or(0, |asked| asked.selected);
        let takes_several = self.inquiry().is_some_and(Inquiry::takes_several);
        let is_option = matches!(self.choices().get(selected), Some(Choice::Option { .. }));
        if let Some(guard) = guard {
            self.say(&format!("{guard}: press the key again"));
        } else if takes_several && is_option {
            return self.choose_option(selected);
        }
        Vec::new()
    }

    /// Moves the selection, or answers with it.
    fn select_answer(
        &mut self,
        action: Option<KeyAction>,
        guard: Option<&'static str>,
    ) -> Vec<Action> {
        let mut choices = self.choices();
        let Some(asked) = &mut self.asked else { return Vec::new() };
        let n_choices = choices.len();
        match action {
            Some(KeyAction::Up) => asked.selected = (asked.selected + n_choices - 1) % n_choices,
            Some(KeyAction::Down) => asked.selected = (asked.selected + 1) % n_choices,
            Some(KeyAction::Send) => {
                if let Some(guard) = guard {
                    self.say(&format!("{guard}: press Enter again"));
                    return Vec::new();
                }
                let selected = asked.selected;
                if asked.inquiry.is_some() {
                    return self.confirm(selected);
                }
                let choice = choices.swap_remove(selected);
                return self.choose_answer(choice);
            }
            Some(KeyAction::Left) => self.ask_again(),
            _ => {}
        }
        Vec::new()
    }

    /// The choices at the question.
    pub(in crate::tui) fn choices(&self) -> Vec<Choice> {
        if let Some(inquiry) = self.inquiry() {
            return inquiry.choices();
        }
        if self.asked.as_ref().is_some_and(|asked| asked.call().is_none()) {
            return vec![
                Choice::CarryOut(PermissionMode::AutoEdit),
                Choice::KeepPlanning,
                Choice::EditPlan,
                Choice::CarryOut(PermissionMode::Ask),
            ];
        }
        let question = self.asked_call().and_then(|call| call.question.as_deref());
        let grants = question.map_or(&[] as &[Grant], |question| &question.grants);
        let mut choices = vec![
            Choice::Answer(Approval::Once),
            Choice::Answer(Approval::No(None)),
            Choice::NoWithText,
        ];
        choices.extend(grants.iter().cloned().map(|grant| Choice::Answer(Approval::Always(grant))));
        choices
    }

    /// The choice that a letter or a number selects.
    pub(in crate::tui) fn choice_for(&self, char: char) -> Option<Choice> {
        let char = char.to_ascii_lowercase();
        let number = char.to_digit(10).and_then(|number| usize::try_from(number).ok());
        let choices = self.choices().into_iter().enumerate();
        let is_meant = |(n, choice): &(usize, Choice)| {
            choice.letter(*n) == Some(char) || number == Some(n + 1)
        };
        choices.into_iter().find(is_meant).map(|(_, choice)| choice)
    }

    /// Selects the next mode. While a call waits, it is requested only when no further key follows.
    pub(super) fn next_mode(&mut self) -> Vec<Action> {
        let mode = match self.conversation.mode {
            Some(PermissionMode::Ask) | None => PermissionMode::AutoEdit,
            Some(PermissionMode::AutoEdit) => PermissionMode::Plan,
            // The other modes can be selected by their names only.
            Some(PermissionMode::Plan | PermissionMode::ReadOnly | PermissionMode::Full) => {
                PermissionMode::Ask
            }
        };
        if self.asked.as_ref().and_then(Asked::call).is_none() {
            return self.set_mode(mode);
        }
        self.conversation.mode = Some(mode);
        self.pending_mode = Some((mode, self.now));
        Vec::new()
    }

    /// Requests the mode that was selected while a call waits: after a moment, or when the call is settled.
    pub(super) fn settle_mode(&mut self, moment: Instant) -> Vec<Action> {
        let waits = self.asked.as_ref().and_then(Asked::call).is_some();
        let is_settled = |(_, at): &mut (PermissionMode, Instant)| {
            !waits || moment.saturating_duration_since(*at) >= MODE_SETTLES
        };
        let settled = self.pending_mode.take_if(is_settled);
        settled.map(|(mode, _)| Action::Ask(Request::Mode(mode))).into_iter().collect()
    }

    /// The time until a letter counts as an answer, or a selected mode is requested.
    pub(super) fn question_tick(&self) -> Option<Duration> {
        let pressed = self.asked.as_ref().and_then(|asked| asked.pressed);
        let letter = pressed.map(|pressed| pressed.at + ALONE);
        let mode = self.pending_mode.map(|(_, at)| at + MODE_SETTLES);
        let at = letter.into_iter().chain(mode).min()?;
        Some(at.saturating_duration_since(self.now))
    }

    /// A letter that was not followed by another is an answer.
    pub(super) fn settle_answer(&mut self, moment: Instant) -> Vec<Action> {
        let Some(asked) = &mut self.asked else { return Vec::new() };
        let is_alone =
            |pressed: &mut Pressed| moment.saturating_duration_since(pressed.at) >= ALONE;
        match asked.pressed.take_if(is_alone) {
            Some(pressed) => self.decide(pressed),
            None => Vec::new(),
        }
    }

    fn decide(&mut self, pressed: Pressed) -> Vec<Action> {
        if let Some(guard) = pressed.guard {
            self.say(&format!("{guard}: press {} again", pressed.letter));
            return Vec::new();
        }
        self.choice_for(pressed.letter).map(|choice| self.choose_answer(choice)).unwrap_or_default()
    }

    pub(in crate::tui) fn choose_answer(&mut self, choice: Choice) -> Vec<Action> {
        let Some(about) = self.asked.as_ref().map(|asked| asked.about.clone()) else {
            return Vec::new();
        };
        match (choice, about) {
            (Choice::Answer(approval), Subject::Call(call)) => {
                return self.answered(&call, approval);
            }
            (Choice::Option { n, .. }, Subject::Inquiry(..)) => return self.choose_option(n),
            (Choice::OwnWords, _) => self.focus = Focus::AnswerText,
            (Choice::NoWithText, _) => self.focus = Focus::RejectionReason,
            (Choice::CarryOut(mode), _) => {
                self.drop_question();
                let mut actions = self.set_mode(mode);
                actions.extend(self.submit(self.settings.prompts.text(ACCEPTED).trim_end().into()));
                return actions;
            }
            (Choice::EditPlan, Subject::Plan(plan)) => {
                if self.answer_text.is_empty() {
                    self.answer_text.set_edited(plan.trim());
                }
                self.focus = Focus::PlanText;
            }
            (Choice::KeepPlanning, _) => {
                self.drop_question();
                self.say("say what to change in the plan, or select another mode");
            }
            (Choice::Answer(_) | Choice::EditPlan | Choice::Option { .. }, _) => {}
        }
        Vec::new()
    }

    pub(in crate::tui) fn answered(&mut self, call: &str, approval: Approval) -> Vec<Action> {
        self.drop_question();
        self.toast = None;
        vec![Action::Ask(Request::Answer(call.to_owned(), approval))]
    }

    /// Rejects a call, optionally with what to do instead. That text is a message of the user, so that no
    /// compaction summarises it; it is sent before the answer, so that no other call starts in between.
    pub(in crate::tui) fn deny(&mut self, call: &str, words: UserInput) -> Vec<Action> {
        let no = Approval::No(Some(words.text.clone()));
        let mut actions =
            if words.text.trim().is_empty() { Vec::new() } else { self.submit(words) };
        actions.extend(self.answered(call, no));
        actions
    }

    /// The call of the question.
    pub(in crate::tui) fn asked_call(&self) -> Option<&Call> {
        let call = self.asked.as_ref().and_then(Asked::call)?;
        self.conversation.asked(call)
    }

    /// Carries out a plan that the user has edited.
    pub(super) fn carry_out(&mut self, plan: &str) -> Vec<Action> {
        let plan = fill(self.settings.prompts.text(EDITED), &[("plan", plan.trim())]);
        // The model wrote it: its sentences are no directives of the user.
        let mut message = UserInput::default();
        message.push_pasted(plan.trim_end());
        let mut actions = self.set_mode(PermissionMode::AutoEdit);
        actions.extend(self.submit(message));
        actions
    }
}
