//! Handles keys: in the conversation, at a question, in the input field.

use std::time::Instant;

use super::{Action, Asked, Focus, Request, State, TWICE};
use crate::tui::composer::{Composer, Motion, Written};
use crate::tui::keys::{Code, Key, KeyAction};
use crate::tui::vi;
use crate::tui::viewer::{Outcome, Viewer};
use agent_protocol::directives::UserInput;
use agent_protocol::own_command::OF_SERVER;

/// The key that pastes an image in other programs.
const CTRL_V: Key = Key { code: Code::Char('v'), ctrl: true, alt: false, shift: false };

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
            asked.was_deferred = true;
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
            let is_answer = self.focus.is_answer();
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
            (None, None) => {
                if key == CTRL_V && !self.focus.is_answer() {
                    return vec![Action::Ask(Request::PasteImage)];
                }
                Vec::new()
            }
        };
        let asked = self.complete();
        actions.into_iter().chain(asked).collect()
    }

    /// The full-screen conversation has the focus.
    pub(in crate::tui) fn is_browsing(&self) -> bool {
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
            if self.asked.is_some() {
                self.show_end();
            }
            if !self.settings.full_screen {
                self.viewer = None;
                return Some(vec![Action::Redraw]);
            }
        }
        Some(Vec::new())
    }

    /// The keys edit a text that belongs to the answer of a question.
    pub(in crate::tui) fn answers_in_words(&self) -> bool {
        self.focus.is_answer()
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
                if let Some(letter) = self.asked.as_mut().and_then(Asked::take_letter) {
                    self.composer.insert(letter);
                }
                self.composer.paste(text);
            }
            Focus::Composer => self.composer.paste(text),
            Focus::RejectionReason | Focus::PlanText | Focus::AnswerText => {
                self.answer_text.paste(text);
            }
            Focus::Search(..) => {}
        }
        self.complete()
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
            KeyAction::NextMode => return self.next_mode(),
            KeyAction::ToggleTodos => self.shows_plan = !self.shows_plan,
            KeyAction::Editor => {
                if !self.is_editing {
                    self.is_editing = true;
                    return vec![Action::Ask(Request::Edit(self.writing().message()))];
                }
            }
            KeyAction::SearchHistory => self.focus = Focus::Search(String::new(), 0),
            KeyAction::Complete if self.asked.is_some() => self.focus = Focus::Question,
            KeyAction::Complete
                if self.focus == Focus::Composer
                    && (!self.is_idle() || !self.shells.is_empty()) =>
            {
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
            // (What is written is there again when the same choice is made.)
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
            self.open_list("/rewind ");
        } else {
            let key = self.settings.keymap.key_for(KeyAction::Escape);
            self.say_for(&format!("{key} again goes back to an earlier turn"), TWICE);
        }
        Vec::new()
    }

    pub(in crate::tui) fn interrupt(&mut self) -> Vec<Action> {
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
        self.opened_list = None;
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
    pub(in crate::tui) fn shown_queue(&self) -> impl Iterator<Item = &UserInput> {
        self.queue.iter().skip(usize::from(self.conversation.turn.is_none()))
    }

    /// A queued message can be taken back. (While the turn is being stopped, all are about to come back.)
    pub(in crate::tui) fn has_queued(&self) -> bool {
        !self.is_stopping && self.shown_queue().count() + self.follow_ups.len() > 0
    }

    /// Takes the latest queued message back for editing. The session may be delivering one of the turn.
    fn take_back(&mut self) -> Vec<Action> {
        let Some(message) = self.follow_ups.pop_back() else {
            return vec![Action::Ask(Request::TakeBack)];
        };
        let is_command = is_command(&message);
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
            // In a command of the user, bash reads it.
            let from = if writing.is_shell() { cursor } else { cursor - 1 };
            writing.replace(from, cursor, "\n");
            return Vec::new();
        }
        if self.focus == Focus::PlanText {
            let plan = self.answer_text.unfolded().text;
            return if plan.trim().is_empty() { Vec::new() } else { self.carry_out(&plan) };
        }
        if self.focus == Focus::AnswerText {
            let words = self.answer_text.unfolded();
            return self.say_answer(&words.text);
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

/// The queued message is a command. (Other messages do not begin like one.)
pub(super) fn is_command(message: &UserInput) -> bool {
    message.text.starts_with(['!', '/'])
}

/// The message in delivery is a command that the user typed. (Another one may begin with a path.)
pub(super) fn was_command(message: &UserInput) -> bool {
    let name = message.text.strip_prefix('/').unwrap_or_default();
    message.prompt.is_some() || name.starts_with(OF_SERVER)
}
