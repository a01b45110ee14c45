//! Handles keys: in the conversation, at a question, in the input field.

use std::time::Instant;

use super::{Action, ChatRequest, DOUBLE_PRESS, Focus, PendingQuestion, State};
use crate::tui::commands::CommandAction;
use crate::tui::composer::{AttributedText, Composer, Motion};
use crate::tui::keys::{Key, KeyAction};
use crate::tui::viewer::Viewer;
use agent_protocol::custom_command::MCP_PROMPT_PREFIX;
use agent_protocol::directives::UserInput;

/// Other programs paste images with this key.
const CTRL_V: Key = Key::ctrl('v');

impl State {
    pub(super) fn handle_key(&mut self, key: Key, at: Instant) -> Vec<Action> {
        self.toast = None;
        let was_writing = self.focus == Focus::Composer && !self.composer.is_empty();
        let actions = self.dispatch_key(key, at);
        let submits =
            |action: &Action| matches!(action, Action::SendRequest(ChatRequest::Submit(_)));
        // The draft was deleted, not sent: keys now go to the question, as if it had just appeared.
        if let Some(question) = &mut self.pending_question
            && was_writing
            && !actions.iter().any(submits)
            && self.focus == Focus::Composer
            && self.composer.is_empty()
        {
            self.focus = Focus::Question;
            question.shown_at = None;
            question.was_deferred = true;
        }
        actions
    }

    fn dispatch_key(&mut self, key: Key, at: Instant) -> Vec<Action> {
        let last_key = self.last_key.replace(at);
        if let Some(actions) = self.handle_viewer_key(key) {
            return actions;
        }
        let action = self.settings.keymap.action(key);
        if self.focus == Focus::Question {
            return self.handle_question_key(key, action, at, last_key);
        }
        let showed_keys = std::mem::take(&mut self.shows_keys);
        if showed_keys && action == Some(KeyAction::Escape) {
            return Vec::new();
        }
        let begins = self.focus == Focus::Composer && self.composer.is_empty();
        if !showed_keys && key.typed_char() == Some('?') && begins {
            self.shows_keys = true;
            return Vec::new();
        }
        // Only two consecutive presses count.
        self.last_cancel = self.last_cancel.filter(|_| action == Some(KeyAction::Cancel));
        self.last_escape = self.last_escape.filter(|_| action == Some(KeyAction::Escape));
        let focus = std::mem::replace(&mut self.focus, Focus::Composer);
        if let Focus::Search(query, back) = focus {
            return self.handle_search_key(query, back, key, action);
        }
        self.focus = focus;
        if self.popup.is_some()
            && let Some(actions) = self.handle_popup_key(action)
        {
            return actions;
        }
        let mut actions = Vec::new();
        match (action, key.typed_char()) {
            (Some(action), _) => actions = self.perform_key_action(action),
            (None, Some(char)) => self.active_composer().insert(char),
            (None, None) if key == CTRL_V && !self.focus.is_answer() => {
                return vec![Action::SendRequest(ChatRequest::PasteImage)];
            }
            (None, None) => {}
        }
        actions.extend(self.update_popup());
        actions
    }

    pub(in crate::tui) fn is_browsing(&self) -> bool {
        self.page.is_some() || self.viewer.is_some()
    }

    /// `None` if the key belongs to the input field.
    fn handle_viewer_key(&mut self, key: Key) -> Option<Vec<Action>> {
        let rows = self.size.1.saturating_sub(1);
        let is_closed = if let Some(page) = &mut self.page {
            let is_closed = page.viewer.handle_key(key, &page.cells, rows);
            self.page.take_if(|_| is_closed).is_some()
        } else {
            let is_closed = self.viewer.as_mut()?.handle_key(key, &self.conversation.cells, rows);
            self.viewer.take_if(|_| is_closed).is_some()
        };
        Some(is_closed.then_some(Action::Redraw).into_iter().collect())
    }

    pub(super) fn active_composer(&mut self) -> &mut Composer {
        if self.focus.is_answer() { &mut self.answer_text } else { &mut self.composer }
    }

    pub(super) fn paste(&mut self, text: &str, at: Instant) -> Vec<Action> {
        self.last_key = Some(at);
        self.toast = None;
        match self.focus {
            // A paste is never an answer.
            Focus::Question => {
                self.focus = Focus::Composer;
                // A letter immediately before it was no answer either.
                let question = self.pending_question.as_mut();
                if let Some(letter) = question.and_then(PendingQuestion::take_letter) {
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
        self.update_popup()
    }

    pub(super) fn perform_key_action(&mut self, action: KeyAction) -> Vec<Action> {
        let columns = self.size.0.saturating_sub(3).max(1);
        match action {
            KeyAction::Send => return self.send(),
            KeyAction::NewLine => self.active_composer().insert('\n'),
            KeyAction::Escape => return self.handle_escape(),
            KeyAction::Cancel => return self.handle_cancel(),
            KeyAction::EndOfInput => {
                if !self.active_composer().is_empty() {
                    self.active_composer().delete(Motion::Right);
                } else if self.is_working {
                    self.show_toast("the agent works; Esc stops it");
                } else {
                    return vec![Action::SendRequest(ChatRequest::Quit)];
                }
            }
            KeyAction::Transcript => {
                self.viewer = Some(Viewer::at_end(self.conversation.cells.len(), false));
            }
            KeyAction::NextMode => return self.select_next_mode(),
            KeyAction::ToggleTodos => self.is_plan_visible = !self.is_plan_visible,
            KeyAction::Editor if self.is_editing => {}
            KeyAction::Editor => {
                self.is_editing = true;
                let text = self.active_composer().message_text();
                return vec![Action::SendRequest(ChatRequest::OpenEditor(text))];
            }
            KeyAction::SearchHistory => self.focus = Focus::Search(String::new(), 0),
            KeyAction::Complete if self.pending_question.is_some() => self.focus = Focus::Question,
            KeyAction::Complete
                if self.focus == Focus::Composer
                    && (!self.is_idle() || !self.shells.is_empty()) =>
            {
                return self.queue_follow_up();
            }
            KeyAction::Complete => {}
            KeyAction::Redraw => return vec![Action::Redraw],
            KeyAction::Suspend => return vec![Action::Suspend],
            KeyAction::Detach => return self.run_command(CommandAction::Detach, ""),
            KeyAction::Up => {
                if self.active_composer().move_row(false, columns) {
                    return Vec::new();
                }
                if self.has_queued_message()
                    && self.recalled_message.is_none()
                    && self.focus == Focus::Composer
                {
                    return self.withdraw_message();
                }
                self.recall_message(true);
            }
            KeyAction::Down => {
                if !self.active_composer().move_row(true, columns) {
                    self.recall_message(false);
                }
            }
            KeyAction::Left => self.active_composer().move_cursor(Motion::Left),
            KeyAction::Right => self.active_composer().move_cursor(Motion::Right),
            KeyAction::WordLeft => self.active_composer().move_cursor(Motion::WordLeft),
            KeyAction::WordRight => self.active_composer().move_cursor(Motion::WordRight),
            KeyAction::LineStart => self.active_composer().move_cursor(Motion::LineStart),
            KeyAction::LineEnd => self.active_composer().move_cursor(Motion::LineEnd),
            KeyAction::DeleteBack => self.active_composer().delete(Motion::Left),
            KeyAction::DeleteForward => self.active_composer().delete(Motion::Right),
            KeyAction::DeleteWordBack => self.active_composer().delete(Motion::WordLeft),
            KeyAction::DeleteWordForward => self.active_composer().delete(Motion::WordRight),
            KeyAction::DeleteToStart => self.active_composer().delete(Motion::LineStart),
            KeyAction::DeleteToEnd => self.active_composer().delete(Motion::LineEnd),
            KeyAction::Yank => self.active_composer().yank(),
            KeyAction::Undo => self.active_composer().undo(),
        }
        Vec::new()
    }

    fn handle_escape(&mut self) -> Vec<Action> {
        if self.focus.is_answer() {
            // (The text returns when the user makes the same choice again.)
            self.focus = Focus::Question;
            return Vec::new();
        }
        if self.is_working {
            return self.interrupt();
        }
        // The user's commands are ended if nothing else is running.
        if !self.shells.is_empty() {
            return vec![Action::SendRequest(ChatRequest::Interrupt)];
        }
        if !self.composer.is_empty() || self.conversation.turns.is_empty() {
            return Vec::new();
        }
        // Pressing twice selects an earlier turn.
        let before = self.last_escape.replace(self.now);
        if before.is_some_and(|before| self.now.duration_since(before) <= DOUBLE_PRESS) {
            self.last_escape = None;
            self.toast = None;
            self.open_list("/rewind ");
        } else {
            let key = self.settings.keymap.key_for(KeyAction::Escape);
            self.show_toast_for(&format!("{key} again goes back to an earlier turn"), DOUBLE_PRESS);
        }
        Vec::new()
    }

    pub(in crate::tui) fn interrupt(&mut self) -> Vec<Action> {
        self.is_stopping = true;
        self.close_question();
        vec![Action::SendRequest(ChatRequest::Interrupt)]
    }

    fn handle_cancel(&mut self) -> Vec<Action> {
        if self.focus.is_answer() {
            return self.handle_escape();
        }
        if !self.composer.is_empty() {
            self.composer.kill_all();
            self.recalled_message = None;
            let yank = self.settings.keymap.key_for(KeyAction::Yank);
            self.show_toast(&format!("{yank} brings it back"));
            return Vec::new();
        }
        if self.last_cancel.is_some_and(|at| self.now.duration_since(at) <= DOUBLE_PRESS) {
            return vec![Action::SendRequest(ChatRequest::Quit)];
        }
        self.last_cancel = Some(self.now);
        let key = self.settings.keymap.key_for(KeyAction::Cancel);
        self.show_toast_for(&format!("{key} again quits"), DOUBLE_PRESS);
        if self.is_working { self.interrupt() } else { Vec::new() }
    }

    /// Adds the message to the history.
    fn take_message(&mut self) -> (UserInput, Vec<Action>) {
        let mut input = self.composer.to_user_input();
        input.trim_end();
        self.composer.take_message();
        self.opened_list_text = None;
        self.toast = None;
        self.recalled_message = None;
        let mut actions = Vec::new();
        if self.settings.history.last() != Some(&input.text) {
            self.settings.history.push(input.text.clone());
            actions.push(Action::SendRequest(ChatRequest::AddToHistory(input.text.clone())));
        }
        (input, actions)
    }

    /// Without the message with which a turn is about to begin.
    pub(in crate::tui) fn visible_queue(&self) -> impl Iterator<Item = &UserInput> {
        self.queue.iter().skip(usize::from(self.conversation.turn.is_none()))
    }

    /// (While the turn is being stopped, all queued messages are about to return.)
    pub(in crate::tui) fn has_queued_message(&self) -> bool {
        !self.is_stopping && self.visible_queue().count() + self.follow_ups.len() > 0
    }

    /// The session may be delivering a message of the turn.
    fn withdraw_message(&mut self) -> Vec<Action> {
        let Some(message) = self.follow_ups.pop_back() else {
            return vec![Action::SendRequest(ChatRequest::WithdrawMessage)];
        };
        let is_command = is_command(&message);
        self.return_to_composer(&message, is_command);
        Vec::new()
    }

    pub(super) fn return_to_composer(&mut self, message: &UserInput, is_command: bool) {
        if is_command && self.composer.is_empty() {
            self.composer.set_folded(&AttributedText::from_message(&message.text));
        } else {
            self.composer.prepend_message(message);
        }
    }

    fn queue_follow_up(&mut self) -> Vec<Action> {
        if self.composer.text().trim().is_empty() {
            return Vec::new();
        }
        let (input, actions) = self.take_message();
        self.follow_ups.push_back(input);
        actions
    }

    pub(super) fn send(&mut self) -> Vec<Action> {
        let writing = self.active_composer();
        let cursor = writing.cursor();
        if writing.text()[..cursor].ends_with('\\') {
            // In a command of the user, bash reads it.
            let from = if writing.is_shell() { cursor } else { cursor - 1 };
            writing.replace(from, cursor, "\n");
            return Vec::new();
        }
        match self.focus {
            Focus::PlanText => {
                let plan = self.answer_text.message_text();
                if plan.trim().is_empty() { Vec::new() } else { self.execute_edited_plan(&plan) }
            }
            Focus::AnswerText => {
                let words = self.answer_text.message_text();
                self.answer_with_text(&words)
            }
            Focus::RejectionReason => {
                let words = self.answer_text.to_user_input();
                self.answer_text.take_message();
                let Some(call) = self.questioned_call().map(str::to_owned) else {
                    self.focus = Focus::Composer;
                    return Vec::new();
                };
                self.reject_call(&call, words)
            }
            Focus::Composer | Focus::Question | Focus::Search(..) => self.send_composer_text(),
        }
    }

    /// The last character has no special meaning.
    pub(super) fn send_composer_text(&mut self) -> Vec<Action> {
        if self.composer.text().trim().is_empty() {
            return Vec::new();
        }
        let (input, mut actions) = self.take_message();
        actions.extend(self.dispatch(input));
        actions
    }
}

/// Other messages do not begin like a command.
pub(super) fn is_command(message: &UserInput) -> bool {
    message.text.starts_with(['!', '/'])
}

/// The user must have typed it. (Another message may begin with a path.)
pub(super) fn is_delivered_command(message: &UserInput) -> bool {
    let name = message.text.strip_prefix('/').unwrap_or_default();
    message.prompt.is_some() || name.starts_with(MCP_PROMPT_PREFIX)
}
