//! Handles keys: in the conversation, at a question, in the input field.

use std::time::Instant;

use super::{
    ALONE, Action, Asked, Choice, Focus, Pressed, Request, State, Subject, TOO_SOON, TWICE,
};
use crate::protocol::control::{Approval, Grant, PermissionMode};
use crate::protocol::directives::UserInput;
use crate::protocol::prompt::{Prompt, fill, prompt};
use crate::ui::tui::cells::Call;
use crate::ui::tui::composer::{Composer, Motion, Written};
use crate::ui::tui::keys::{Code, Key, KeyAction};
use crate::ui::tui::vi;
use crate::ui::tui::viewer::{Outcome, Viewer};

const ACCEPTED: Prompt = prompt!("plan/accepted.md");
const EDITED: Prompt = prompt!("plan/edited.md");

impl State {
    pub(super) fn key(&mut self, key: Key, at: Instant) -> Vec<Action> {
        self.toast = None;
        let was_writing = self.focus == Focus::Composer && !self.composer.is_empty();
        let actions = self.press(key, at);
        let is_said = |action: &Action| matches!(action, Action::Ask(Request::Submit(_)));
        // The draft was deleted: keys now go to the waiting question, as if it had just appeared. Not after a
        // message was sent, since the user may type another.
        if let Some(asked) = &mut self.asked
            && was_writing
            && !actions.iter().any(is_said)
            && self.focus == Focus::Composer
            && self.composer.is_empty()
        {
            self.focus = Focus::Question;
            asked.shown = None;
        }
        actions
    }

    fn press(&mut self, key: Key, at: Instant) -> Vec<Action> {
        let last_key = self.last_key.replace(at);
        if let Some(actions) = self.browse(key) {
            return actions;
        }
        let action = self.settings.keymap.action(key);
        if self.focus == Focus::Question {
            return self.answer(key, action, at, last_key);
        }
        // Only two consecutive presses count.
        self.quits_at = self.quits_at.filter(|_| action == Some(KeyAction::Cancel));
        self.escaped_at = self.escaped_at.filter(|_| action == Some(KeyAction::Escape));
        let focus = std::mem::replace(&mut self.focus, Focus::Composer);
        if let Focus::Search(query, back) = focus {
            return self.search(query, back, key, action);
        }
        self.focus = focus;
        if self.popup.is_some()
            && let Some(actions) = self.choose(action)
        {
            return actions;
        }
        if let Some(vi) = &mut self.vi
            && self.popup.is_none()
        {
            let is_answer = matches!(self.focus, Focus::RejectionReason | Focus::PlanText);
            let composer = if is_answer { &mut self.answer_text } else { &mut self.composer };
            match vi.key(key, composer) {
                vi::Outcome::Other => {}
                vi::Outcome::Taken => return self.complete(),
                vi::Outcome::Do(action) => return self.do_it(action),
            }
        }
        let actions = match (action, key.typed()) {
            (Some(action), _) => self.do_it(action),
            (None, Some(char)) => {
                self.writing().insert(char);
                Vec::new()
            }
            (None, None) => Vec::new(),
        };
        let asked = self.complete();
        actions.into_iter().chain(asked).collect()
    }

    /// The full-screen conversation has the focus.
    pub(in crate::ui::tui) fn is_browsing(&self) -> bool {
        self.page.is_some() || self.viewer.is_some() && (self.browses || !self.settings.full_screen)
    }

    /// Handles a key in the full-screen conversation; `None` if it belongs to the input field.
    pub(super) fn browse(&mut self, key: Key) -> Option<Vec<Action>> {
        let rows = self.size.1.saturating_sub(1);
        if let Some(page) = &mut self.page {
            if page.viewer.key(key, &page.cells, rows) == Outcome::Close {
                self.page = None;
                return Some(vec![Action::Redraw]);
            }
            return Some(Vec::new());
        }
        let is_browsing = self.is_browsing();
        let viewer = self.viewer.as_mut()?;
        if !is_browsing {
            // Next to the input field only these two keys scroll.
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

    /// The keys edit a text that belongs to the answer of a question.
    pub(in crate::ui::tui) fn answers_in_words(&self) -> bool {
        matches!(self.focus, Focus::RejectionReason | Focus::PlanText)
    }

    /// The text that keys edit.
    pub(super) fn writing(&mut self) -> &mut Composer {
        if self.answers_in_words() { &mut self.answer_text } else { &mut self.composer }
    }

    pub(super) fn paste(&mut self, text: &str, at: Instant) -> Vec<Action> {
        self.last_key = Some(at);
        self.toast = None;
        match self.focus {
            // A paste is never an answer.
            Focus::Question => {
                self.focus = Focus::Composer;
                // A letter immediately before it was no answer either.
                if let Some(pressed) = self.asked.as_mut().and_then(|asked| asked.pressed.take()) {
                    self.composer.insert(pressed.letter);
                }
                self.composer.paste(text);
            }
            Focus::Composer => self.composer.paste(text),
            Focus::RejectionReason | Focus::PlanText => self.answer_text.paste(text),
            Focus::Search(..) => {}
        }
        self.complete()
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
        let counts = was_seen && !is_typing;
        match action {
            Some(KeyAction::Escape | KeyAction::Cancel) if asked.call().is_none() => {
                return self.choose_answer(Choice::KeepPlanning);
            }
            Some(KeyAction::Escape | KeyAction::Cancel) => return self.interrupt(),
            Some(KeyAction::NextMode) if !counts => {
                self.say("the question had just appeared: press the key again");
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
        match (key.typed(), before) {
            (None, Some(pressed)) if action == Some(KeyAction::Send) => self.decide(pressed),
            // Any other key cancels a letter.
            (None, _) => self.select_answer(action, counts),
            (Some(letter), None) if self.choice_for(letter).is_some() => {
                if let Some(asked) = &mut self.asked {
                    asked.pressed = Some(Pressed { letter, at, counts });
                }
                Vec::new()
            }
            // Other characters start a message.
            (Some(char), before) => {
                self.focus = Focus::Composer;
                if let Some(pressed) = before {
                    self.composer.insert(pressed.letter);
                }
                self.composer.insert(char);
                self.complete()
            }
        }
    }

    /// Moves the selection, or answers with it.
    fn select_answer(&mut self, action: Option<KeyAction>, counts: bool) -> Vec<Action> {
        let mut choices = self.choices();
        let Some(asked) = &mut self.asked else { return Vec::new() };
        let n_choices = choices.len();
        match action {
            Some(KeyAction::Up) => asked.selected = (asked.selected + n_choices - 1) % n_choices,
            Some(KeyAction::Down) => asked.selected = (asked.selected + 1) % n_choices,
            Some(KeyAction::Send) if !counts => {
                self.say("the question had just appeared: press Enter again");
            }
            Some(KeyAction::Send) => {
                let choice = choices.swap_remove(asked.selected);
                return self.choose_answer(choice);
            }
            _ => {}
        }
        Vec::new()
    }

    /// The choices at the question.
    pub(in crate::ui::tui) fn choices(&self) -> Vec<Choice> {
        if self.asked.as_ref().is_some_and(|asked| asked.call().is_none()) {
            let modes = [PermissionMode::AutoEdit, PermissionMode::Ask].map(Choice::CarryOut);
            return modes.into_iter().chain([Choice::KeepPlanning, Choice::EditPlan]).collect();
        }
        let question = self.asked_call().and_then(|call| call.question.as_deref());
        let grants = question.map_or(&[] as &[Grant], |question| &question.grants);
        let mut choices = vec![Choice::Answer(Approval::Once)];
        choices.extend(grants.iter().cloned().map(|grant| Choice::Answer(Approval::Always(grant))));
        choices.extend([Choice::Answer(Approval::No(None)), Choice::NoWithText]);
        choices
    }

    /// The choice that a letter or a number selects.
    pub(in crate::ui::tui) fn choice_for(&self, char: char) -> Option<Choice> {
        let char = char.to_ascii_lowercase();
        let number = char.to_digit(10).and_then(|number| usize::try_from(number).ok());
        let choices = self.choices().into_iter().enumerate();
        let is_meant = |(n, choice): &(usize, Choice)| {
            choice.letter(*n) == Some(char) || number == Some(n + 1)
        };
        choices.into_iter().find(is_meant).map(|(_, choice)| choice)
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
        if !pressed.counts {
            self.say(&format!("the question had just appeared: press {} again", pressed.letter));
            return Vec::new();
        }
        self.choice_for(pressed.letter).map(|choice| self.choose_answer(choice)).unwrap_or_default()
    }

    pub(in crate::ui::tui) fn choose_answer(&mut self, choice: Choice) -> Vec<Action> {
        let Some(about) = self.asked.as_ref().map(|asked| asked.about.clone()) else {
            return Vec::new();
        };
        match (choice, about) {
            (Choice::Answer(approval), Subject::Call(call)) => {
                return self.answered(&call, approval);
            }
            (Choice::NoWithText, _) => self.focus = Focus::RejectionReason,
            (Choice::CarryOut(mode), _) => {
                self.drop_question();
                let mut actions = self.set_mode(mode);
                actions.extend(self.submit(self.settings.prompts.text(ACCEPTED).trim_end().into()));
                return actions;
            }
            (Choice::EditPlan, Subject::Plan(plan)) => {
                self.answer_text.set_edited(plan.trim());
                self.focus = Focus::PlanText;
            }
            (Choice::KeepPlanning, _) => {
                self.drop_question();
                self.say("say what to change in the plan, or select another mode");
            }
            (Choice::Answer(_), Subject::Plan(_)) | (Choice::EditPlan, Subject::Call(_)) => {}
        }
        Vec::new()
    }

    pub(in crate::ui::tui) fn answered(&mut self, call: &str, approval: Approval) -> Vec<Action> {
        self.drop_question();
        self.toast = None;
        vec![Action::Ask(Request::Answer(call.to_owned(), approval))]
    }

    /// Rejects a call, optionally with what to do instead. That text is a message of the user, so that no
    /// compaction summarises it; it is sent before the answer, so that no other call starts in between.
    pub(in crate::ui::tui) fn deny(&mut self, call: &str, words: UserInput) -> Vec<Action> {
        let no = Approval::No(Some(words.text.clone()));
        let mut actions =
            if words.text.trim().is_empty() { Vec::new() } else { self.submit(words) };
        actions.extend(self.answered(call, no));
        actions
    }

    /// The call of the question.
    pub(in crate::ui::tui) fn asked_call(&self) -> Option<&Call> {
        let call = self.asked.as_ref().and_then(Asked::call)?;
        self.conversation.asked(call)
    }

    pub(super) fn do_it(&mut self, action: KeyAction) -> Vec<Action> {
        let columns = self.text_columns();
        match action {
            KeyAction::Send => return self.send(),
            KeyAction::NewLine => self.writing().insert('\n'),
            KeyAction::Escape => return self.escape(),
            KeyAction::Cancel => return self.cancel(),
            KeyAction::EndOfInput => {
                if !self.writing().is_empty() {
                    self.writing().delete(Motion::Right);
                } else if self.is_working {
                    self.say("the agent works; Esc stops it");
                } else {
                    return vec![Action::Ask(Request::Quit)];
                }
            }
            KeyAction::Transcript if self.settings.full_screen => self.browses = true,
            KeyAction::Transcript => {
                self.viewer = Some(Viewer::at_end(self.conversation.cells.len(), false));
            }
            KeyAction::NextMode => {
                let mode = match self.conversation.mode {
                    Some(PermissionMode::Ask) | None => PermissionMode::AutoEdit,
                    Some(PermissionMode::AutoEdit) => PermissionMode::Plan,
                    // The other modes can be selected by their names only.
                    Some(
                        PermissionMode::Plan | PermissionMode::ReadOnly | PermissionMode::Full,
                    ) => PermissionMode::Ask,
                };
                return self.set_mode(mode);
            }
            KeyAction::ToggleTodos => self.shows_plan = !self.shows_plan,
            KeyAction::Editor => {
                if !self.is_editing {
                    self.is_editing = true;
                    return vec![Action::Ask(Request::Edit(self.writing().message()))];
                }
            }
            KeyAction::SearchHistory => self.focus = Focus::Search(String::new(), 0),
            KeyAction::Complete if self.asked.is_some() => self.focus = Focus::Question,
            KeyAction::Complete if !self.is_idle() && self.focus == Focus::Composer => {
                return self.follow_up();
            }
            KeyAction::Complete => {}
            KeyAction::Redraw => return vec![Action::Redraw],
            KeyAction::Suspend => return vec![Action::Suspend],
            KeyAction::Up => {
                if self.writing().go_row(false, columns) {
                    return Vec::new();
                }
                if self.has_queued() && self.recalled.is_none() && self.focus == Focus::Composer {
                    return self.take_back();
                }
                self.recall(true);
            }
            KeyAction::Down => {
                if !self.writing().go_row(true, columns) {
                    self.recall(false);
                }
            }
            KeyAction::Left => self.writing().go(Motion::Left),
            KeyAction::Right => self.writing().go(Motion::Right),
            KeyAction::WordLeft => self.writing().go(Motion::WordLeft),
            KeyAction::WordRight => self.writing().go(Motion::WordRight),
            KeyAction::LineStart => self.writing().go(Motion::LineStart),
            KeyAction::LineEnd => self.writing().go(Motion::LineEnd),
            KeyAction::DeleteBack => self.writing().delete(Motion::Left),
            KeyAction::DeleteForward => self.writing().delete(Motion::Right),
            KeyAction::DeleteWordBack => self.writing().delete(Motion::WordLeft),
            KeyAction::DeleteWordForward => self.writing().delete(Motion::WordRight),
            KeyAction::DeleteToStart => self.writing().delete(Motion::LineStart),
            KeyAction::DeleteToEnd => self.writing().delete(Motion::LineEnd),
            KeyAction::Yank => self.writing().yank(),
            KeyAction::Undo => self.writing().undo(),
            KeyAction::Redo => self.writing().redo(),
        }
        Vec::new()
    }

    pub(super) fn escape(&mut self) -> Vec<Action> {
        if self.answers_in_words() {
            self.answer_text = Composer::default();
            self.focus = Focus::Question;
            return Vec::new();
        }
        if self.is_working {
            return self.interrupt();
        }
        // The user's commands are ended if nothing else is running.
        if !self.shells.is_empty() {
            return vec![Action::Ask(Request::Interrupt)];
        }
        if !self.composer.is_empty() || self.conversation.turns.is_empty() {
            return Vec::new();
        }
        // If nothing is running and the field is empty, pressing twice selects an earlier turn.
        let before = self.escaped_at.replace(self.now);
        if before.is_some_and(|before| self.now.duration_since(before) <= TWICE) {
            self.escaped_at = None;
            self.toast = None;
            self.composer.set(Written::own("/rewind "));
        } else {
            let key = self.settings.keymap.key_for(KeyAction::Escape);
            self.say_for(&format!("{key} again goes back to an earlier turn"), TWICE);
        }
        Vec::new()
    }

    pub(in crate::ui::tui) fn interrupt(&mut self) -> Vec<Action> {
        self.is_stopping = true;
        self.drop_question();
        vec![Action::Ask(Request::Interrupt)]
    }

    pub(super) fn cancel(&mut self) -> Vec<Action> {
        if self.answers_in_words() {
            return self.escape();
        }
        if !self.composer.is_empty() {
            self.composer.take_away();
            self.recalled = None;
            let yank = self.settings.keymap.key_for(KeyAction::Yank);
            self.say(&format!("{yank} brings it back"));
            return Vec::new();
        }
        if self.quits_at.is_some_and(|at| self.now.duration_since(at) <= TWICE) {
            return vec![Action::Ask(Request::Quit)];
        }
        self.quits_at = Some(self.now);
        let key = self.settings.keymap.key_for(KeyAction::Cancel);
        self.say_for(&format!("{key} again quits"), TWICE);
        if self.is_working { self.interrupt() } else { Vec::new() }
    }

    /// Takes the message from the input field and adds it to the history.
    fn take_message(&mut self) -> (UserInput, Vec<Action>) {
        let mut input = self.composer.unfolded();
        input.trim_end();
        self.composer.take();
        self.toast = None;
        self.recalled = None;
        if let Some(vi) = &mut self.vi {
            vi.reset();
        }
        let mut actions = Vec::new();
        if self.settings.history.last() != Some(&input.text) {
            self.settings.history.push(input.text.clone());
            actions.push(Action::Ask(Request::Remember(input.text.clone())));
        }
        (input, actions)
    }

    /// The queued messages, without the one with which a turn is about to begin.
    pub(in crate::ui::tui) fn shown_queue(&self) -> impl Iterator<Item = &UserInput> {
        self.queue.iter().skip(usize::from(self.conversation.turn.is_none()))
    }

    /// A queued message can be taken back. (While the turn is being stopped, all are about to come back.)
    pub(in crate::ui::tui) fn has_queued(&self) -> bool {
        !self.is_stopping && self.shown_queue().count() + self.follow_ups.len() > 0
    }

    /// Takes the latest queued message back for editing. The session may be delivering one of the turn.
    fn take_back(&mut self) -> Vec<Action> {
        let Some(message) = self.follow_ups.pop_back() else {
            return vec![Action::Ask(Request::TakeBack)];
        };
        let is_command = is_one_command([&message]);
        self.edit_again(&message, is_command);
        Vec::new()
    }

    /// Puts a message back into the input field. A command stays one.
    pub(super) fn edit_again(&mut self, message: &UserInput, is_command: bool) {
        if is_command && self.composer.is_empty() {
            self.composer.set_folded(&Written::message(&message.text));
        } else {
            self.composer.put_before(message);
        }
    }

    /// Keeps the message until the turn has ended.
    fn follow_up(&mut self) -> Vec<Action> {
        if self.composer.text().trim().is_empty() {
            return Vec::new();
        }
        let (input, actions) = self.take_message();
        self.follow_ups.push_back(input);
        actions
    }

    pub(super) fn send(&mut self) -> Vec<Action> {
        let writing = self.writing();
        let cursor = writing.cursor();
        if writing.text()[..cursor].ends_with('\\') {
            writing.replace(cursor - 1, cursor, "\n");
            return Vec::new();
        }
        if self.focus == Focus::PlanText {
            let plan = self.answer_text.unfolded().text;
            return if plan.trim().is_empty() { Vec::new() } else { self.carry_out(&plan) };
        }
        if self.focus == Focus::RejectionReason {
            let words = self.answer_text.unfolded();
            self.answer_text.take();
            let call = self.asked.as_ref().and_then(Asked::call).map(str::to_owned);
            let Some(call) = call else {
                self.focus = Focus::Composer;
                return Vec::new();
            };
            return self.deny(&call, words);
        }
        self.send_written()
    }

    /// Carries out a plan that the user has edited.
    fn carry_out(&mut self, plan: &str) -> Vec<Action> {
        let plan = fill(self.settings.prompts.text(EDITED), &[("plan", plan.trim())]);
        // The model wrote it: its sentences are no directives of the user.
        let mut message = UserInput::default();
        message.push_pasted(plan.trim_end());
        let mut actions = self.set_mode(PermissionMode::AutoEdit);
        actions.extend(self.submit(message));
        actions
    }

    /// Sends what is written, whatever its last character is.
    pub(super) fn send_written(&mut self) -> Vec<Action> {
        if self.composer.text().trim().is_empty() {
            return Vec::new();
        }
        let (input, mut actions) = self.take_message();
        actions.extend(self.dispatch(input));
        actions
    }
}

/// It is a single queued command.
pub(super) fn is_one_command<'a>(messages: impl IntoIterator<Item = &'a UserInput>) -> bool {
    let mut messages = messages.into_iter();
    let first = messages.next().is_some_and(|message| message.text.starts_with(['!', '/']));
    first && messages.next().is_none()
}
