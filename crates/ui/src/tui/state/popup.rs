//! The completion list: its content, and choosing from it.

use std::collections::BTreeSet;

use super::{Action, ChatRequest, Focus, State};
use crate::tui::commands::{COMMANDS, CommandAction, DEFAULT_EFFORT};
use crate::tui::completion::{self, CompletionKind, Item, Popup};
use crate::tui::composer::AttributedText;
use crate::tui::keys::KeyAction;
use agent_protocol::control::PermissionMode;
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::pluralize;
use agent_protocol::provider::Effort;

/// Begins the description of the current value.
const IN_USE: &str = "in use";

impl State {
    pub(super) fn update_popup(&mut self) -> Vec<Action> {
        self.popup = None;
        self.popup_query = self.text_before_cursor().to_owned();
        // In a shell line every character belongs to the shell.
        if self.focus != Focus::Composer
            || self.is_showing_recalled_message()
            || self.composer.is_shell()
        {
            return Vec::new();
        }
        let before = self.text_before_cursor();
        let query = before.strip_prefix('/').filter(|_| self.composer.is_command());
        let Some(query) = query else { return self.update_file_popup() };
        let Some((name, arguments)) = query.split_once(' ') else {
            let items = completion::matching_commands(query, &self.settings.own_commands);
            // A command file may just have been created.
            let is_first = query.is_empty();
            self.show_popup(CompletionKind::Command, 0, items);
            let ask = Action::SendRequest(ChatRequest::ListOwnCommands);
            return is_first.then_some(ask).into_iter().collect();
        };
        let mut from = before.len() - arguments.len();
        let mut request = None;
        let command = COMMANDS.iter().find(|command| command.name == name);
        let items = match command.map(|command| command.action) {
            Some(CommandAction::Mode) => {
                let current = self.conversation.mode;
                let modes = PermissionMode::all().iter().map(|mode| {
                    (mode.as_str(), mark_current(current == Some(*mode), &mode.in_words()))
                });
                completion::matching_words(arguments, modes)
            }
            Some(CommandAction::Theme) => {
                completion::matching_words(arguments, [("dark", ""), ("light", "")])
            }
            Some(CommandAction::Effort) => self.effort_items(&self.conversation.model, arguments),
            Some(CommandAction::Model) => match arguments.split_once(' ') {
                Some((model, effort)) => {
                    from += model.len() + 1;
                    self.effort_items(model, effort)
                }
                None => {
                    request = arguments.is_empty().then_some(ChatRequest::ListModels);
                    self.model_items(arguments)
                }
            },
            Some(action @ (CommandAction::Permissions | CommandAction::Memory)) => {
                let last = arguments.rfind(' ').map_or(0, |at| at + 1);
                let (before, query) = arguments.split_at(last);
                from += last;
                next_argument_items(action, before.trim(), query)
            }
            Some(CommandAction::Rewind) => match arguments.split_once(' ') {
                Some((turn, part)) => {
                    from += turn.len() + 1;
                    self.rewind_items(turn, part)
                }
                // A turn that is chosen from the list is followed by what to restore.
                None => followed(self.turn_items(arguments, false)),
            },
            Some(CommandAction::Undo) => {
                // Enter takes an item of the list, which must be the written turn.
                let items = self.turn_items(arguments, true);
                let is_one = items.iter().any(|item| item.insert == arguments);
                if arguments.is_empty() || is_one { items } else { Vec::new() }
            }
            Some(CommandAction::Tasks) => {
                let commands = self.background.iter();
                let stops = commands.map(|(id, line)| (format!("stop {id}"), line.as_str()));
                completion::matching_descriptions(arguments, stops)
            }
            Some(CommandAction::Resume) => {
                if self.sessions.is_empty() && arguments.is_empty() {
                    let list = "list".to_owned();
                    request = Some(ChatRequest::RunCommand(CommandAction::Sessions, list));
                }
                let sessions = self.sessions.iter();
                let sessions = sessions.map(|(id, words)| (id.as_str(), words.as_str()));
                completion::matching_descriptions(arguments, sessions)
            }
            _ => return self.update_file_popup(),
        };
        self.show_popup(CompletionKind::Argument, from, items);
        request.map(Action::SendRequest).into_iter().collect()
    }

    /// The beginning of a command opens its list. Leaving the list removes the text.
    pub(super) fn open_list(&mut self, text: &'static str) {
        self.composer.set_text(AttributedText::typed(text));
        self.opened_list_text = Some(text);
    }

    /// Shows what may follow a command; `None` if no input field is free for it.
    pub(in crate::tui) fn offer_list(&mut self, text: &'static str) -> Option<Vec<Action>> {
        (self.has_screen && self.composer.is_empty()).then(|| {
            self.open_list(text);
            self.update_popup()
        })
    }

    /// The selection in the list stays, and a closed list stays closed.
    pub(super) fn set_own_commands(&mut self, commands: Vec<CustomCommand>) {
        let query = self.composer.text().strip_prefix('/').unwrap_or_default();
        let fitting = completion::matching_commands(query, &self.settings.own_commands);
        self.settings.own_commands = commands;
        self.refresh_popup(CompletionKind::Command, fitting.is_empty());
    }

    pub(super) fn set_models(&mut self, models: Vec<(String, String)>) {
        let query = self.composer.text().strip_prefix("/model ");
        let listed = std::mem::replace(&mut self.settings.models, models);
        let nothing_fitted =
            query.is_some_and(|query| !listed.iter().any(|(model, _)| model.contains(query)));
        self.refresh_popup(CompletionKind::Argument, nothing_fitted);
    }

    fn refresh_popup(&mut self, kind: CompletionKind, nothing_fitted: bool) {
        let old = self.popup.take_if(|popup| popup.kind == kind);
        if old.is_none() && !nothing_fitted {
            return;
        }
        self.update_popup();
        if let (Some(old), Some(popup)) = (old, &mut self.popup) {
            let marked = &old.items[old.selected].insert;
            let at = popup.items.iter().position(|item| item.insert == *marked);
            popup.selected = at.unwrap_or(0);
        }
    }

    fn update_file_popup(&mut self) -> Vec<Action> {
        if let Some((from, query)) = self.composer.mention() {
            let query = query.to_owned();
            let items = self.finder.find(&query);
            self.show_popup(CompletionKind::File, from, items);
            // Each mention requests the files again; meanwhile the old ones are used.
            if query.is_empty() {
                return vec![Action::SendRequest(ChatRequest::ListFiles)];
            }
        }
        Vec::new()
    }

    fn model_items(&self, arguments: &str) -> Vec<Item> {
        // The provider need not be typed.
        let models = self.settings.models.iter().filter(|(id, _)| id.contains(arguments));
        let models =
            models.map(|(id, facts)| (id, mark_current(*id == self.conversation.model, facts)));
        // A model that is chosen from the list is followed by the list of efforts.
        let mut items = followed(completion::matching_words("", models));
        // Any name can be used, also one that is not in the list.
        let is_name = arguments.split_once('/').is_some_and(|(_, name)| !name.is_empty());
        if is_name && !items.iter().any(|item| item.insert == arguments) {
            items.insert(0, Item { insert: arguments.to_owned(), ..Item::default() });
        }
        items
    }

    fn effort_items(&self, model: &str, query: &str) -> Vec<Item> {
        let current = self.conversation.effort.filter(|_| self.conversation.model == model);
        let efforts = Effort::all().iter();
        let efforts =
            efforts.map(|effort| (effort.as_str(), mark_current(current == Some(*effort), "")));
        let words = "as configured, or as the model does by default".to_owned();
        let default = [(DEFAULT_EFFORT, words)];
        completion::matching_words(query, default.into_iter().chain(efforts))
    }

    /// The latest first; with `changed`, only turns that changed files.
    fn turn_items(&self, arguments: &str, changed: bool) -> Vec<Item> {
        let turns = self.conversation.turns.iter().rev();
        let turns = turns.filter(|turn| !changed || !turn.files.is_empty()).map(|turn| {
            let files = match turn.files.as_slice() {
                [] => String::new(),
                files => format!("  (changed {})", files.join(", ")),
            };
            let message = turn.message.lines().next().unwrap_or_default();
            (turn.number.to_string(), format!("{message}{files}"))
        });
        if changed {
            // `git` and `force` are no words of a message.
            completion::matching_words(arguments, turns)
        } else {
            completion::matching_descriptions(arguments, turns)
        }
    }

    fn rewind_items(&self, turn: &str, query: &str) -> Vec<Item> {
        let Ok(first) = turn.parse::<u32>() else { return Vec::new() };
        let undone = || self.conversation.turns.iter().filter(|turn| turn.number >= first);
        let files: BTreeSet<&str> =
            undone().flat_map(|turn| &turn.files).map(String::as_str).collect();
        let files = match files.len() {
            0 => "no file was changed".to_owned(),
            1..=3 => Vec::from_iter(files).join(", "),
            n => pluralize(n as u64, "file"),
        };
        let turns = pluralize(undone().count() as u64, "turn");
        let parts = [
            ("both", format!("files and conversation: {turns}; {files}")),
            ("conversation", format!("{turns} of the conversation; the files stay")),
            ("files", format!("{files}; the conversation stays")),
        ];
        completion::matching_words(query, parts)
    }

    fn show_popup(&mut self, kind: CompletionKind, from: usize, items: Vec<Item>) {
        let is_written = |item: &Item| item.insert.trim_end() == &self.composer.text()[from..];
        // A single item that is already complete needs no list.
        let is_whole = items.len() == 1 && items.iter().all(is_written);
        let is_needless = items.is_empty() || is_whole && kind != CompletionKind::Command;
        if !is_needless {
            // An exact match is selected, or what is in use.
            let is_current = |item: &Item| item.description.starts_with(IN_USE);
            let selected = items.iter().position(is_written);
            let selected = selected.or_else(|| items.iter().position(is_current)).unwrap_or(0);
            self.popup = Some(Popup { kind, from, items, selected });
        }
    }

    /// `None` if the list does not use the key.
    pub(super) fn handle_popup_key(&mut self, action: Option<KeyAction>) -> Option<Vec<Action>> {
        let is_rewind = self.composer.text().starts_with("/rewind ");
        let popup = self.popup.as_mut()?;
        let n_items = popup.items.len();
        match action? {
            // The oldest turn is not next to the latest.
            KeyAction::Up if popup.selected == 0 && is_rewind => {}
            KeyAction::Up => popup.selected = (popup.selected + n_items - 1) % n_items,
            KeyAction::Down => popup.selected = (popup.selected + 1) % n_items,
            KeyAction::Escape => {
                self.popup = None;
                let opened = self.opened_list_text.take();
                if opened.is_some_and(|text| self.composer.text().starts_with(text)) {
                    self.composer.set_text(AttributedText::typed(""));
                }
            }
            KeyAction::Complete => {
                let popup = self.popup.take()?;
                if popup.items[popup.selected].insert == self.text_before_cursor()[popup.from..] {
                    // There is nothing to complete: the key has its other meaning.
                    return None;
                }
                self.insert_selected_item(&popup);
                return Some(self.update_popup());
            }
            KeyAction::Send => {
                let popup = self.popup.take()?;
                let item = &popup.items[popup.selected];
                let is_written = self.text_before_cursor()[popup.from..] == item.insert;
                let is_enough = is_written && !item.needs_more;
                let usage = format!("{} {}: {}", item.insert, item.args, item.description);
                if !is_enough {
                    self.insert_selected_item(&popup);
                }
                return Some(match popup.kind {
                    // A command with arguments is sent only if its name was complete.
                    CompletionKind::Command if item.takes_more && !is_enough => {
                        let actions = self.update_popup();
                        if self.popup.is_none() {
                            self.show_toast(&usage);
                        }
                        actions
                    }
                    CompletionKind::Argument
                        if item.needs_more || item.takes_more && !is_enough =>
                    {
                        self.update_popup()
                    }
                    CompletionKind::Command | CompletionKind::Argument => self.send(),
                    CompletionKind::File => Vec::new(),
                });
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn insert_selected_item(&mut self, popup: &Popup) {
        let item = &popup.items[popup.selected];
        let cursor = self.composer.cursor();
        let space = if item.takes_more { " " } else { "" };
        let insert = format!("{}{space}", item.insert);
        // Choosing a command counts as typing it; its arguments come from elsewhere.
        let insert = match popup.kind {
            CompletionKind::Command => AttributedText::typed(&insert),
            CompletionKind::Argument | CompletionKind::File => AttributedText::from_user(&insert),
        };
        self.composer.replace_with(popup.from, cursor, &insert);
    }
}

fn mark_current(is_current: bool, words: &str) -> String {
    let marks = [is_current.then_some(IN_USE), Some(words).filter(|words| !words.is_empty())];
    marks.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Choosing an item opens the list of the next argument.
fn followed(mut items: Vec<Item>) -> Vec<Item> {
    for item in &mut items {
        item.takes_more = true;
    }
    items
}

fn next_argument_items(action: CommandAction, before: &str, query: &str) -> Vec<Item> {
    let words: &[(&str, &str)] = match (action, before) {
        (CommandAction::Permissions, "") => &[
            ("list", "the mode and all rules"),
            ("add", "a rule: allow, ask or deny"),
            ("remove", "a rule of this session, by its number"),
        ],
        (CommandAction::Permissions, "add") => &[
            ("allow", "calls that match are made without a question"),
            ("ask", "calls that match need your answer"),
            ("deny", "calls that match are refused"),
        ],
        (CommandAction::Permissions, rule) if rule.starts_with("add ") && rule.ends_with(')') => &[
            ("session", "for this session"),
            ("project", "in the configuration of this project"),
            ("user", "in your own configuration"),
        ],
        (CommandAction::Memory, "") => &[
            ("list", "the lessons"),
            ("add", "a lesson of your own for this project"),
            ("show", "a lesson, by its id"),
            ("forget", "a lesson, by its id"),
        ],
        _ => return Vec::new(),
    };
    // The scope of a rule is the last argument.
    let needs_more = !before.ends_with(')');
    let mut items = completion::matching_words(query, words.iter().copied());
    for item in &mut items {
        item.needs_more = needs_more && item.insert != "list";
        item.takes_more = item.needs_more;
    }
    items
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use super::*;
    use crate::tui::decoder::TerminalInput;
    use crate::tui::keys::{Key, KeyCode, Keymap};
    use crate::tui::state::{ChatUpdate, Input, Settings};
    use crate::tui::theme::{Background, ColorDepth, Theme};
    use agent_protocol::prompt::Prompts;

    fn state() -> State {
        let settings = Settings {
            keymap: Keymap::new(&BTreeMap::new()).expect("the defaults hold"),
            theme: Theme::new(ColorDepth::None, Background::Dark),
            is_theme_configured: true,
            status_line: Vec::new(),
            notifications: false,
            title: false,
            history: Vec::new(),
            own_commands: Vec::new(),
            offers_sessions: false,
            mode_limits: Vec::new(),
            first_message: None,
            notices: Vec::new(),
            branch: None,
            prompts: Prompts::default(),
            models: Vec::new(),
        };
        State::new(settings, (80, 24), Instant::now())
    }

    #[test]
    fn refreshed_completion_list_keeps_selection_and_stays_closed() {
        let mut state = state();
        let press = |state: &mut State, code| {
            let now = Instant::now();
            state.update(Input::Terminal(TerminalInput::Key(Key::plain(code)), now), now);
        };
        let own = || {
            let own = CustomCommand { name: "aaa".into(), ..CustomCommand::default() };
            Input::Update(ChatUpdate::OwnCommands(vec![own]))
        };
        let marked = |state: &State| {
            state.popup.as_ref().map(|popup| popup.items[popup.selected].insert.clone())
        };
        press(&mut state, KeyCode::Char('/'));
        press(&mut state, KeyCode::Down);
        press(&mut state, KeyCode::Down);
        let before = marked(&state);
        state.update(own(), Instant::now());
        assert_eq!(marked(&state), before);
        press(&mut state, KeyCode::Esc);
        state.update(own(), Instant::now());
        assert_eq!(marked(&state), None);
    }
}
