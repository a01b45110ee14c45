//! Questions: the permission for a call, the approval of a plan, questions of the model; and their
//! answers.

use std::time::{Duration, Instant};

use ratatui::text::Line;

use super::questionnaire::Questionnaire;
use super::{Action, ChatRequest, Focus, State};
use crate::tui::cells::{Call, RenderOptions};
use crate::tui::composer::Composer;
use crate::tui::keys::{Key, KeyAction};
use agent_protocol::control::{ApprovalDecision, Grant, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};

const PLAN_ACCEPTED: Prompt = Prompt::named("plan/accepted.md");
const PLAN_EDITED: Prompt = Prompt::named("plan/edited.md");

/// A key this soon after a question appeared was not meant for the question.
const ANSWER_GUARD: Duration = Duration::from_millis(500);
/// A selected mode is requested after this time: modes in between must not settle the question.
const MODE_DELAY: Duration = Duration::from_millis(700);
/// A blank row, and the status line.
const ROWS_AROUND_BLOCK: usize = 2;
/// What the numbers from 4 on allow for the session, where they are not offered.
const GRANT_CHOICES: [&str; 3] =
    ["always this call, this session", "always others like it", "yes, and select mode auto-edit"];
/// A letter counts as an answer if no other follows within this time: otherwise it starts a word.
const LETTER_DELAY: Duration = Duration::from_millis(150);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) enum QuestionSubject {
    Call(String),
    /// The approval of this plan; the session is idle.
    Plan(String),
    /// The id of the call, and the index of the question.
    Questionnaire(String, usize),
}

#[derive(Debug)]
pub(in crate::tui) struct PendingQuestion {
    pub(in crate::tui) subject: QuestionSubject,
    /// Keys go to the question since then.
    pub(super) shown_at: Option<Instant>,
    /// The question was displayed before, above a message that the user was writing.
    pub(super) was_deferred: bool,
    pub(in crate::tui) selected: usize,
    pub(super) questionnaire: Option<Questionnaire>,
    pending_letter: Option<PendingLetter>,
}

impl PendingQuestion {
    pub(super) fn new(subject: QuestionSubject) -> Self {
        Self {
            subject,
            shown_at: None,
            was_deferred: false,
            selected: 0,
            questionnaire: None,
            pending_letter: None,
        }
    }

    pub(super) fn take_letter(&mut self) -> Option<char> {
        self.pending_letter.take().map(|pressed| pressed.letter)
    }

    pub(in crate::tui) fn call(&self) -> Option<&str> {
        match &self.subject {
            QuestionSubject::Call(call) | QuestionSubject::Questionnaire(call, _) => Some(call),
            QuestionSubject::Plan(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(in crate::tui) enum Choice {
    Answer(ApprovalDecision),
    /// Its number keeps its meaning.
    Unavailable(&'static str),
    RejectWithText,
    ExecutePlan(PermissionMode),
    EditPlan,
    KeepPlanning,
    /// An answer that the model offers.
    Option {
        /// The index, from 0.
        n: usize,
        label: String,
        /// May be empty.
        description: String,
        /// `None` if only one option can be chosen.
        is_chosen: Option<bool>,
    },
    FreeText,
}

impl Choice {
    pub(in crate::tui) fn letter(&self, n: usize) -> Option<char> {
        match self {
            Self::Answer(ApprovalDecision::AllowOnce | ApprovalDecision::AllowChanged(_)) => {
                Some('y')
            }
            Self::Answer(ApprovalDecision::AllowAlways(grant)) => {
                (grant_place(grant) == 0).then_some('a')
            }
            Self::Answer(ApprovalDecision::Reject(_) | ApprovalDecision::RejectAndStop(_))
            | Self::KeepPlanning => Some('n'),
            Self::RejectWithText => Some('i'),
            Self::ExecutePlan(_) => (n == 0).then_some('y'),
            Self::EditPlan => Some('e'),
            // A letter begins an answer in words.
            Self::Option { .. } | Self::FreeText | Self::Unavailable(_) => None,
        }
    }

    pub(in crate::tui) fn is_available(&self) -> bool {
        !matches!(self, Self::Unavailable(_))
    }

    pub(in crate::tui) fn in_words(&self) -> String {
        match self {
            Self::Answer(ApprovalDecision::AllowOnce | ApprovalDecision::AllowChanged(_)) => {
                "yes".to_owned()
            }
            Self::Answer(ApprovalDecision::AllowAlways(grant)) => grant_in_words(grant),
            Self::Unavailable(words) => (*words).to_owned(),
            Self::Answer(ApprovalDecision::Reject(_) | ApprovalDecision::RejectAndStop(_)) => {
                "no".to_owned()
            }
            Self::RejectWithText => "no, and say what instead".to_owned(),
            Self::ExecutePlan(PermissionMode::Ask) => {
                "yes, and ask before each change (mode ask)".to_owned()
            }
            Self::ExecutePlan(mode) => format!("yes (mode {})", mode.as_str()),
            Self::EditPlan => "edit the plan, then carry it out".to_owned(),
            Self::KeepPlanning => "no, keep planning".to_owned(),
            Self::Option { label, is_chosen, .. } => {
                let label = escape_prose(label.trim()).replace('\n', " ");
                match is_chosen {
                    Some(true) => format!("[x] {label}"),
                    Some(false) => format!("[ ] {label}"),
                    None => label,
                }
            }
            Self::FreeText => "answer in your own words".to_owned(),
        }
    }

    /// May be empty.
    pub(in crate::tui) fn details(&self) -> String {
        match self {
            Self::Option { description, .. } => escape_prose(description.trim()).replace('\n', " "),
            _ => String::new(),
        }
    }
}

/// The index in [`GRANT_CHOICES`]: only a rule for more than this call has a pattern.
fn grant_place(grant: &Grant) -> usize {
    match grant {
        Grant::Rules(rules) => usize::from(rules.iter().any(|rule| rule.contains('*'))),
        Grant::Mode(_) => 2,
    }
}

fn grant_in_words(grant: &Grant) -> String {
    let Grant::Rules(rules) = grant else { return GRANT_CHOICES[2].to_owned() };
    if grant_place(grant) == 0 {
        let what = match rules.as_slice() {
            [rule] if rule.starts_with("Bash(") => "this command",
            [rule] if rule.starts_with("mcp(") => "this tool",
            [rule] if rule.starts_with("WebFetch(") => "this host",
            [rule] if rule == "WebSearch" => "searches of the web",
            [_] => "this file",
            _ => "these commands",
        };
        return format!("always {what}, this session");
    }
    let patterns = rules.iter().map(|rule| {
        let pattern = rule.split_once('(').map_or(rule.as_str(), |(_, rest)| rest);
        let pattern = pattern.strip_suffix(')').unwrap_or(pattern);
        format!("\"{}\"", escape_literal_line(pattern).replace(" *", " …"))
    });
    format!("always {}, this session", patterns.collect::<Vec<_>>().join(", "))
}

#[derive(Clone, Copy, Debug)]
struct PendingLetter {
    letter: char,
    pressed_at: Instant,
    /// The reason why the letter does not count.
    rejection: Option<&'static str>,
}

impl State {
    pub(in crate::tui) fn is_asking_about_plan(&self) -> bool {
        self.pending_question.as_ref().is_some_and(|question| question.call().is_none())
    }

    /// The id of the call about which the user is asked.
    pub(in crate::tui) fn questioned_call(&self) -> Option<&str> {
        self.pending_question.as_ref().and_then(PendingQuestion::call)
    }

    pub(in crate::tui) fn selected_choice(&self) -> usize {
        self.pending_question.as_ref().map_or(0, |question| question.selected)
    }

    pub(super) fn open_question(&mut self, subject: QuestionSubject) {
        self.pending_question = Some(PendingQuestion::new(subject));
        // A draft is not replaced.
        self.shows_keys = false;
        if self.composer.is_empty() && self.focus == Focus::Composer {
            self.focus = Focus::Question;
            self.popup = None;
        }
    }

    pub(super) fn close_question(&mut self) {
        self.pending_question = None;
        if self.focus == Focus::Question || self.focus.is_answer() {
            self.focus = Focus::Composer;
        }
        self.answer_text = Composer::default();
    }

    /// A key is an answer only if the question was visible for a moment, and no text is being typed.
    pub(super) fn handle_question_key(
        &mut self,
        key: Key,
        action: Option<KeyAction>,
        at: Instant,
        last_key: Option<Instant>,
    ) -> Vec<Action> {
        let Some(question) = &mut self.pending_question else {
            self.focus = Focus::Composer;
            return Vec::new();
        };
        let before = question.pending_letter.take();
        let since = |moment: Instant| at.saturating_duration_since(moment);
        let was_seen = question.shown_at.is_some_and(|shown| since(shown) >= ANSWER_GUARD);
        let is_typing = question.shown_at.zip(last_key).is_some_and(|(shown, last)| {
            since(last) < ANSWER_GUARD / 2 && last < shown + ANSWER_GUARD
        });
        let guard = match (was_seen, question.was_deferred) {
            (true, _) if is_typing => Some("you were typing when the question appeared"),
            (true, _) => None,
            (false, true) => Some("this key came right after your message was deleted"),
            (false, false) => Some("the question had just appeared"),
        };
        match action {
            Some(KeyAction::Escape | KeyAction::Cancel) if question.call().is_none() => {
                return self.choose_answer(Choice::KeepPlanning);
            }
            Some(KeyAction::Escape | KeyAction::Cancel) => return self.interrupt(),
            Some(KeyAction::NextMode) if guard.is_some() => {
                self.show_toast(&format!("{}: press the key again", guard.unwrap_or_default()));
                return Vec::new();
            }
            Some(
                action @ (KeyAction::Transcript
                | KeyAction::NextMode
                | KeyAction::Redraw
                | KeyAction::Suspend
                | KeyAction::Detach),
            ) => return self.perform_key_action(action),
            _ => {}
        }
        let asks_user = self.questionnaire().is_some();
        if asks_user && key.typed_char() == Some(' ') && before.is_none() {
            return self.toggle_selected_option(guard);
        }
        match (key.typed_char(), before) {
            (None, Some(pressed)) if action == Some(KeyAction::Send) => {
                self.answer_with_letter(pressed)
            }
            // Any other key cancels a letter.
            (None, _) => self.select_answer(action, guard),
            (Some(letter), None) if self.choice_for(letter).is_some() => {
                if let Some(question) = &mut self.pending_question {
                    let letter = PendingLetter { letter, pressed_at: at, rejection: guard };
                    question.pending_letter = Some(letter);
                }
                Vec::new()
            }
            (Some(digit), None) if digit.is_ascii_digit() && !asks_user => Vec::new(),
            // Other characters start an answer to the model, or a message.
            (Some(char), before) => {
                let is_answer = asks_user && guard.is_none();
                self.focus = if is_answer { Focus::AnswerText } else { Focus::Composer };
                if let Some(pressed) = before {
                    self.active_composer().insert(pressed.letter);
                }
                self.active_composer().insert(char);
                self.update_popup()
            }
        }
    }

    fn toggle_selected_option(&mut self, guard: Option<&'static str>) -> Vec<Action> {
        let selected = self.selected_choice();
        let takes_several = self.questionnaire().is_some_and(Questionnaire::allows_several);
        let is_option = matches!(self.choices().get(selected), Some(Choice::Option { .. }));
        if let Some(guard) = guard {
            self.show_toast(&format!("{guard}: press the key again"));
        } else if takes_several && is_option {
            return self.choose_option(selected);
        }
        Vec::new()
    }

    fn select_answer(
        &mut self,
        action: Option<KeyAction>,
        guard: Option<&'static str>,
    ) -> Vec<Action> {
        let mut choices = self.choices();
        let Some(question) = &mut self.pending_question else { return Vec::new() };
        let n_choices = choices.len();
        let step = if action == Some(KeyAction::Up) { n_choices - 1 } else { 1 };
        match action {
            Some(KeyAction::Up | KeyAction::Down) => {
                let next = (1..=n_choices).map(|n| (question.selected + n * step) % n_choices);
                let mut next = next.filter(|at| choices[*at].is_available());
                question.selected = next.next().unwrap_or(0);
            }
            Some(KeyAction::Send) => {
                if let Some(guard) = guard {
                    self.show_toast(&format!("{guard}: press Enter again"));
                    return Vec::new();
                }
                let selected = question.selected;
                if question.questionnaire.is_some() {
                    return self.confirm_choice(selected);
                }
                let choice = choices.swap_remove(selected);
                return self.choose_answer(choice);
            }
            Some(KeyAction::Left) => self.return_to_previous_question(),
            _ => {}
        }
        Vec::new()
    }

    pub(in crate::tui) fn choices(&self) -> Vec<Choice> {
        if let Some(inquiry) = self.questionnaire() {
            return inquiry.choices();
        }
        if self.is_asking_about_plan() {
            return vec![
                Choice::ExecutePlan(PermissionMode::AutoEdit),
                Choice::KeepPlanning,
                Choice::EditPlan,
                Choice::ExecutePlan(PermissionMode::Ask),
            ];
        }
        let mut choices = vec![
            Choice::Answer(ApprovalDecision::AllowOnce),
            Choice::Answer(ApprovalDecision::Reject(None)),
            Choice::RejectWithText,
        ];
        let question = self.question_call().and_then(|call| call.question.as_ref());
        let grants = question.map_or(&[] as &[_], |question| &question.grants);
        choices.extend(GRANT_CHOICES.iter().enumerate().map(|(place, words)| {
            let grant = grants.iter().find(|grant| grant_place(grant) == place).cloned();
            let answer = grant.map(|grant| Choice::Answer(ApprovalDecision::AllowAlways(grant)));
            answer.unwrap_or(Choice::Unavailable(words))
        }));
        choices
    }

    pub(in crate::tui) fn choice_for(&self, char: char) -> Option<Choice> {
        let char = char.to_ascii_lowercase();
        let number = char.to_digit(10).and_then(|number| usize::try_from(number).ok());
        let choices = self.choices().into_iter().enumerate();
        let is_meant = |(n, choice): &(usize, Choice)| {
            choice.letter(*n) == Some(char) || number == Some(n + 1) && choice.is_available()
        };
        choices.into_iter().find(is_meant).map(|(_, choice)| choice)
    }

    /// While a call waits, the mode is requested only when no further key follows.
    pub(super) fn select_next_mode(&mut self) -> Vec<Action> {
        let mode = match self.conversation.mode {
            Some(PermissionMode::Ask) | None => PermissionMode::AutoEdit,
            Some(PermissionMode::AutoEdit) => PermissionMode::Plan,
            // The other modes can be selected by their names only.
            Some(PermissionMode::Plan | PermissionMode::ReadOnly | PermissionMode::Full) => {
                PermissionMode::Ask
            }
        };
        if self.questioned_call().is_none() {
            return self.set_mode(mode);
        }
        self.conversation.mode = Some(mode);
        self.pending_mode = Some((mode, self.now));
        Vec::new()
    }

    pub(super) fn request_pending_mode(&mut self, moment: Instant) -> Vec<Action> {
        let waits = self.questioned_call().is_some();
        let settled = self
            .pending_mode
            .take_if(|(_, at)| !waits || moment.saturating_duration_since(*at) >= MODE_DELAY);
        let request = settled.map(|(mode, _)| Action::SendRequest(ChatRequest::SetMode(mode)));
        request.into_iter().collect()
    }

    /// The time until a letter counts as an answer, or a selected mode is requested.
    pub(super) fn question_tick(&self) -> Option<Duration> {
        let pressed = self.pending_question.as_ref().and_then(|question| question.pending_letter);
        let letter = pressed.map(|pressed| pressed.pressed_at + LETTER_DELAY);
        let mode = self.pending_mode.map(|(_, at)| at + MODE_DELAY);
        let at = letter.into_iter().chain(mode).min()?;
        Some(at.saturating_duration_since(self.now))
    }

    pub(super) fn accept_pending_letter(&mut self, moment: Instant) -> Vec<Action> {
        let Some(question) = &mut self.pending_question else { return Vec::new() };
        let letter = question
            .pending_letter
            .take_if(|letter| moment.saturating_duration_since(letter.pressed_at) >= LETTER_DELAY);
        letter.map(|letter| self.answer_with_letter(letter)).unwrap_or_default()
    }

    fn answer_with_letter(&mut self, pressed: PendingLetter) -> Vec<Action> {
        if let Some(guard) = pressed.rejection {
            self.show_toast(&format!("{guard}: press {} again", pressed.letter));
            return Vec::new();
        }
        self.choice_for(pressed.letter).map(|choice| self.choose_answer(choice)).unwrap_or_default()
    }

    pub(in crate::tui) fn choose_answer(&mut self, choice: Choice) -> Vec<Action> {
        let Some(subject) = self.pending_question.as_ref().map(|question| question.subject.clone())
        else {
            return Vec::new();
        };
        match (choice, subject) {
            (Choice::Answer(approval), QuestionSubject::Call(call)) => {
                return self.send_approval(&call, approval);
            }
            (Choice::Option { n, .. }, QuestionSubject::Questionnaire(..)) => {
                return self.choose_option(n);
            }
            (Choice::FreeText, _) => self.focus = Focus::AnswerText,
            (Choice::RejectWithText, _) => self.focus = Focus::RejectionReason,
            (Choice::ExecutePlan(mode), _) => {
                self.close_question();
                let mut actions = self.set_mode(mode);
                let message = self.settings.prompts.text(PLAN_ACCEPTED).trim_end().into();
                actions.extend(self.submit(message));
                return actions;
            }
            (Choice::EditPlan, QuestionSubject::Plan(plan)) => {
                if self.answer_text.is_empty() {
                    self.answer_text.set_edited(plan.trim());
                }
                self.focus = Focus::PlanText;
            }
            (Choice::KeepPlanning, _) => {
                self.close_question();
                self.show_toast("say what to change in the plan, or select another mode");
            }
            (_, _) => {}
        }
        Vec::new()
    }

    pub(in crate::tui) fn send_approval(
        &mut self,
        call: &str,
        approval: ApprovalDecision,
    ) -> Vec<Action> {
        self.close_question();
        self.toast = None;
        vec![Action::SendRequest(ChatRequest::AnswerPermission(call.to_owned(), approval))]
    }

    /// `words`: an instruction instead of the call. It is a message, so that no compaction summarises
    /// it, and is sent before the answer, so that no other call starts in between.
    pub(in crate::tui) fn reject_call(&mut self, call: &str, words: UserInput) -> Vec<Action> {
        let no = ApprovalDecision::Reject(Some(words.text.clone()));
        let mut actions =
            if words.text.trim().is_empty() { Vec::new() } else { self.submit(words) };
        actions.extend(self.send_approval(call, no));
        actions
    }

    pub(in crate::tui) fn question_call(&self) -> Option<&Call> {
        self.conversation.find_call(self.questioned_call()?)
    }

    /// The block of the question, its choices and the status line fit on the screen.
    pub(in crate::tui) fn question_block(
        &self,
        options: RenderOptions,
    ) -> Option<Vec<Line<'static>>> {
        let call = self.question_call()?;
        let question = call.question.as_ref().filter(|question| !question.is_printed)?;
        let (columns, rows) = self.size;
        let n_bytes = call.subject.len() + question.diff.as_ref().map_or(0, String::len);
        // A long call is not laid out for each frame.
        if !self.has_screen || n_bytes > 4 * columns * rows {
            return None;
        }
        let block = call.question_block(question, options);
        let n_choices: usize = self.choice_lines(options, false).iter().map(Vec::len).sum();
        (block.len() + n_choices + ROWS_AROUND_BLOCK <= rows).then_some(block)
    }

    pub(in crate::tui) fn take_finished(&mut self) -> Vec<Line<'static>> {
        let options = self.render_options();
        let waits = self.question_call().is_some_and(|call| call.question.is_some());
        self.conversation.prints_question = waits && self.question_block(options).is_none();
        self.conversation.take_finished(options)
    }

    pub(super) fn execute_edited_plan(&mut self, plan: &str) -> Vec<Action> {
        let plan = fill(self.settings.prompts.text(PLAN_EDITED), &[("plan", plan.trim())]);
        // The model wrote it: its sentences are no directives of the user.
        let mut message = UserInput::default();
        message.push_pasted(plan.trim_end());
        let mut actions = self.set_mode(PermissionMode::AutoEdit);
        actions.extend(self.submit(message));
        actions
    }
}
