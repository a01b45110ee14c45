//! The completion list: its content, and choosing from it.

use super::{Action, Focus, Request, State};
use crate::tui::commands::{COMMANDS, CommandAction, DEFAULT_EFFORT};
use crate::tui::complete::{self, Item, Kind, Popup};
use crate::tui::composer::Written;
use crate::tui::keys::KeyAction;
use crate::tui::statusline::ITEMS;
use agent_protocol::control::PermissionMode;
use agent_protocol::counted;
use agent_protocol::own_command::OwnCommand;
use agent_protocol::provider::Effort;

impl State {
    /// Updates the list for the current text.
    pub(super) fn complete(&mut self) -> Vec<Action> {
        self.close_list();
        self.listed = self.before_cursor().to_owned();
        if self.focus != Focus::Composer || self.shows_recalled() {
            return Vec::new();
        }
        // In a shell line every character belongs to the shell: a name would become a part of the command.
        if self.composer.is_shell() {
            return Vec::new();
        }
        let text = self.composer.text();
        let before = &text[..self.composer.cursor()];
        if let Some(query) = before.strip_prefix('/').filter(|_| self.composer.is_command()) {
            let Some((name, arguments)) = query.split_once(' ') else {
                let items = complete::commands(query, &self.settings.own_commands);
                // A command file may just have been created.
                let is_first = query.is_empty();
                self.offer(Kind::Command, 0, items);
                let ask = Action::Ask(Request::OwnCommands);
                return is_first.then_some(ask).into_iter().collect();
            };
            let from = before.len() - arguments.len();
            let action = COMMANDS.iter().find(|command| command.name == name).map(|it| it.action);
            let items = match action {
                Some(CommandAction::Mode) => {
                    let modes = PermissionMode::all().iter();
                    let modes: Vec<(&str, String)> =
                        modes.map(|mode| (mode.as_str(), mode.in_words())).collect();
                    complete::words(arguments, modes.iter().map(|(mode, what)| (*mode, &**what)))
                }
                Some(CommandAction::Theme) => {
                    complete::words(arguments, [("dark", ""), ("light", "")])
                }
                Some(CommandAction::Effort) => self.efforts(&self.conversation.model, arguments),
                Some(CommandAction::Model) => {
                    if let Some((model, effort)) = arguments.split_once(' ') {
                        let items = self.efforts(model, effort);
                        self.offer(Kind::Argument, from + model.len() + 1, items);
                        return Vec::new();
                    }
                    let is_first = arguments.is_empty();
                    // The provider need not be typed.
                    let models = self.settings.models.iter().filter(|id| id.contains(arguments));
                    let models = models.map(|id| {
                        let is_current = *id == self.conversation.model;
                        (id.as_str(), if is_current { "answers now" } else { "" })
                    });
                    let mut items = complete::words("", models);
                    // A model that is chosen from the list is followed by the list of efforts.
                    for item in &mut items {
                        item.takes_more = true;
                    }
                    // Any name can be used, also one that the list does not have.
                    let is_name =
                        arguments.split_once('/').is_some_and(|(_, name)| !name.is_empty());
                    if is_name && !items.iter().any(|item| item.insert == arguments) {
                        items.insert(0, Item { insert: arguments.to_owned(), ..Item::default() });
                    }
                    self.offer(Kind::Argument, from, items);
                    // Meanwhile those known already are offered.
                    let ask = Action::Ask(Request::Models);
                    return is_first.then_some(ask).into_iter().collect();
                }
                Some(
                    action @ (CommandAction::Permissions
                    | CommandAction::Memory
                    | CommandAction::StatusLine),
                ) => {
                    let last = arguments.rfind(' ').map_or(0, |at| at + 1);
                    let (before, query) = arguments.split_at(last);
                    let items = next_words(action, before.trim(), query);
                    self.offer(Kind::Argument, from + last, items);
                    return Vec::new();
                }
                Some(CommandAction::Rewind) => {
                    if let Some((turn, what)) = arguments.split_once(' ') {
                        let items = self.rewinds(turn, what);
                        self.offer(Kind::Argument, from + turn.len() + 1, items);
                        return Vec::new();
                    }
                    let mut items = self.turns(arguments, false);
                    // A turn that is chosen from the list is followed by what to restore.
                    for item in &mut items {
                        item.takes_more = true;
                    }
                    items
                }
                Some(CommandAction::Undo) => {
                    // Enter takes an item of the list: not another turn than the one that is written.
                    let items = self.turns(arguments, true);
                    let is_one = items.iter().any(|item| item.insert == arguments);
                    if arguments.is_empty() || is_one { items } else { Vec::new() }
                }
                Some(CommandAction::Tasks) => {
                    let stop = |(id, line): &(String, String)| (format!("stop {id}"), line.clone());
                    let stops: Vec<_> = self.background.iter().map(stop).collect();
                    let words = stops.iter().map(|(stop, line)| (stop.as_str(), line.as_str()));
                    complete::described(arguments, words)
                }
                Some(CommandAction::Resume) => {
                    let sessions = self.sessions.iter();
                    let sessions = sessions.map(|(id, what)| (id.as_str(), what.as_str()));
                    let items = complete::described(arguments, sessions);
                    if self.sessions.is_empty() && arguments.is_empty() {
                        let ask = Request::Command(CommandAction::Sessions, "list".to_owned());
                        return vec![Action::Ask(ask)];
                    }
                    items
                }
                _ => return self.complete_file(),
            };
            self.offer(Kind::Argument, from, items);
            return Vec::new();
        }
        self.complete_file()
    }

    /// Writes the beginning of a command, whose list opens. Leaving the list removes what was written.
    pub(super) fn open_list(&mut self, text: &'static str) {
        self.composer.set(Written::own(text));
        self.opened_list = Some(text);
    }

    /// Closes the list: the text was replaced.
    pub(super) fn close_list(&mut self) {
        self.popup = None;
        self.searches = None;
    }

    /// Updates the user's commands. The selection in the list is kept, and a closed list stays closed.
    pub(super) fn own_commands_are(&mut self, commands: Vec<OwnCommand>) {
        let query = self.composer.text().strip_prefix('/').unwrap_or_default();
        let nothing_fitted = complete::commands(query, &self.settings.own_commands).is_empty();
        self.settings.own_commands = commands;
        self.refresh_list(Kind::Command, nothing_fitted);
    }

    /// Adds models that can be used now, in the same way.
    pub(super) fn models_are(&mut self, models: Vec<String>) {
        let known = &mut self.settings.models;
        let query = self.composer.text().strip_prefix("/model ");
        let nothing_fitted =
            query.is_some_and(|query| !known.iter().any(|known| known.contains(query)));
        for model in models {
            if !known.contains(&model) {
                known.push(model);
            }
        }
        self.refresh_list(Kind::Argument, nothing_fitted);
    }

    fn refresh_list(&mut self, kind: Kind, nothing_fitted: bool) {
        let old = self.popup.take_if(|popup| popup.kind == kind);
        if old.is_none() && !nothing_fitted {
            return;
        }
        self.complete();
        if let (Some(old), Some(popup)) = (old, &mut self.popup) {
            let marked = &old.items[old.selected].insert;
            let at = popup.items.iter().position(|item| item.insert == *marked);
            popup.selected = at.unwrap_or(0);
        }
    }

    /// Updates the list of files for a mention.
    fn complete_file(&mut self) -> Vec<Action> {
        if let Some((from, query)) = self.composer.mention() {
            let query = query.to_owned();
            let is_first = query.is_empty();
            let items = self.finder.find(&query);
            self.offer(Kind::File, from, items);
            self.searches = (!is_first).then_some(from);
            // Each mention requests the files again; meanwhile the old ones are used.
            return if is_first { vec![Action::Ask(Request::Files)] } else { Vec::new() };
        }
        Vec::new()
    }

    /// The efforts to choose from for this model.
    fn efforts(&self, model: &str, query: &str) -> Vec<Item> {
        let current = self.conversation.effort.filter(|_| self.conversation.model == model);
        let efforts = Effort::all().iter().map(|effort| {
            (effort.as_str(), if current == Some(*effort) { "in use now" } else { "" })
        });
        let default = [(DEFAULT_EFFORT, "as configured, or as the model does by default")];
        complete::words(query, default.into_iter().chain(efforts))
    }

    /// The turns to return to, the latest first; or only those that changed files.
    fn turns(&self, arguments: &str, changed: bool) -> Vec<Item> {
        let turns = self.conversation.turns.iter().rev();
        let turns: Vec<(String, String)> = turns
            .filter(|turn| !changed || !turn.files.is_empty())
            .map(|turn| {
                let files = if turn.files.is_empty() {
                    String::new()
                } else {
                    format!("  (changed {})", turn.files.join(", "))
                };
                let message = turn.message.lines().next().unwrap_or_default();
                (turn.number.to_string(), format!("{message}{files}"))
            })
            .collect();
        let turns = turns.iter().map(|(turn, what)| (turn.as_str(), what.as_str()));
        if changed {
            // `git` and `force` are no words of a message.
            complete::words(arguments, turns)
        } else {
            complete::described(arguments, turns)
        }
    }

    /// What a rewind to before this turn can restore.
    fn rewinds(&self, turn: &str, query: &str) -> Vec<Item> {
        let Ok(first) = turn.parse::<u32>() else { return Vec::new() };
        let undone = || self.conversation.turns.iter().filter(|turn| turn.number >= first);
        let mut files: Vec<&str> =
            undone().flat_map(|turn| &turn.files).map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        let n_files = counted(files.len() as u64, "file");
        let files = match files.len() {
            0 => "no file was changed".to_owned(),
            1..=3 => files.join(", "),
            _ => n_files,
        };
        let turns = counted(undone().count() as u64, "turn");
        complete::words(
            query,
            [
                ("both", &*format!("files and conversation: {turns}; {files}")),
                ("conversation", &*format!("{turns} of the conversation; the files stay")),
                ("files", &*format!("{files}; the conversation stays")),
            ],
        )
    }

    pub(super) fn offer(&mut self, kind: Kind, from: usize, items: Vec<Item>) {
        let is_written = |item: &Item| item.insert.trim_end() == &self.composer.text()[from..];
        // A single item that is already complete needs no list.
        let is_whole = items.len() == 1 && items.iter().all(is_written);
        let is_needless = items.is_empty() || is_whole && kind != Kind::Command;
        if !is_needless {
            // What is written exactly is selected.
            let selected = items.iter().position(is_written).unwrap_or(0);
            self.popup = Some(Popup { kind, from, items, selected });
        }
    }

    /// Searches more files; all of them if an item is being chosen.
    pub(super) fn search_on(&mut self, to_the_end: bool) {
        let Some(from) = self.searches.filter(|_| self.finder.is_searching()) else { return };
        self.finder.step();
        while to_the_end && self.finder.is_searching() {
            self.finder.step();
        }
        self.popup = None;
        let items = self.finder.items();
        self.offer(Kind::File, from, items);
    }

    /// Handles a key while the list is open; `None` if the list does not use it.
    pub(super) fn choose(&mut self, action: Option<KeyAction>) -> Option<Vec<Action>> {
        if matches!(
            action,
            Some(KeyAction::Up | KeyAction::Down | KeyAction::Complete | KeyAction::Send)
        ) {
            self.search_on(true);
        }
        let is_rewind = self.composer.text().starts_with("/rewind ");
        let popup = self.popup.as_mut()?;
        let n_items = popup.items.len();
        match action? {
            // The oldest turn is not next to the latest.
            KeyAction::Up if popup.selected == 0 && is_rewind => {}
            KeyAction::Up => popup.selected = (popup.selected + n_items - 1) % n_items,
            KeyAction::Down => popup.selected = (popup.selected + 1) % n_items,
            KeyAction::Escape => {
                self.close_list();
                let opened = self.opened_list.take();
                if opened.is_some_and(|text| self.composer.text().starts_with(text)) {
                    self.composer.set(Written::own(""));
                }
            }
            KeyAction::Complete => {
                let popup = self.popup.take()?;
                let written = &self.composer.text()[popup.from..self.composer.cursor()];
                if popup.items[popup.selected].insert == written {
                    // There is nothing to complete: the key has its other meaning.
                    return None;
                }
                self.take(&popup);
                return Some(self.complete());
            }
            KeyAction::Send => {
                let popup = self.popup.take()?;
                let item = &popup.items[popup.selected];
                let is_written =
                    self.composer.text()[popup.from..self.composer.cursor()] == item.insert;
                let is_enough = is_written && !item.needs_more;
                let usage = format!("{} {}: {}", item.insert, item.args, item.what);
                if !is_enough {
                    self.take(&popup);
                }
                return Some(match popup.kind {
                    // A command with arguments is sent only if its name was complete.
                    Kind::Command if item.takes_more && !is_enough => {
                        let actions = self.complete();
                        if self.popup.is_none() {
                            self.say(&usage);
                        }
                        actions
                    }
                    Kind::Argument if item.needs_more || item.takes_more && !is_enough => {
                        self.complete()
                    }
                    Kind::Command | Kind::Argument => self.send(),
                    Kind::File => Vec::new(),
                });
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    pub(super) fn take(&mut self, popup: &Popup) {
        let item = &popup.items[popup.selected];
        let cursor = self.composer.cursor();
        let space = if item.takes_more { " " } else { "" };
        let insert = format!("{}{space}", item.insert);
        // Choosing a command counts as typing it; its arguments come from elsewhere.
        let insert = match popup.kind {
            Kind::Command => Written::own(&insert),
            Kind::Argument | Kind::File => Written::words(&insert),
        };
        self.composer.put(popup.from, cursor, &insert);
    }

    /// Width of the input field's text.
    pub(in crate::tui) fn text_columns(&self) -> usize {
        self.size.0.saturating_sub(3).max(1)
    }
}

/// The words that can follow, for commands with several.
fn next_words(action: CommandAction, before: &str, query: &str) -> Vec<Item> {
    if action == CommandAction::StatusLine {
        let is_new = |name: &str| !before.split_whitespace().any(|word| word == name);
        let items = ITEMS.iter().filter(|(_, name, _)| is_new(name));
        let items = items.map(|(_, name, what)| (*name, *what));
        let whole = [("default", "all items"), ("none", "no item")].into_iter();
        return complete::words(query, whole.filter(|_| before.is_empty()).chain(items));
    }
    let (words, needs_more): (&[(&str, &str)], _) = match (action, before) {
        (CommandAction::Permissions, "") => (
            &[
                ("list", "the mode and all rules"),
                ("add", "a rule: allow, ask or deny"),
                ("remove", "a rule of this session, by its number"),
            ],
            true,
        ),
        (CommandAction::Permissions, "add") => (
            &[
                ("allow", "calls that match are made without a question"),
                ("ask", "calls that match need your answer"),
                ("deny", "calls that match are refused"),
            ],
            true,
        ),
        (CommandAction::Permissions, rule) if rule.starts_with("add ") && rule.ends_with(')') => (
            &[
                ("session", "for this session"),
                ("project", "in the configuration of this project"),
                ("user", "in your own configuration"),
            ],
            false,
        ),
        (CommandAction::Memory, "") => (
            &[
                ("list", "the lessons"),
                ("add", "a lesson of your own for this project"),
                ("show", "a lesson, by its id"),
                ("forget", "a lesson, by its id"),
            ],
            true,
        ),
        _ => return Vec::new(),
    };
    let mut items = complete::words(query, words.iter().copied());
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
    use crate::tui::decode::Typed;
    use crate::tui::keys::{Code, Key, Keymap};
    use crate::tui::state::{Input, News, Settings};
    use crate::tui::theme::{Background, Depth, Theme};
    use agent_protocol::prompt::Prompts;

    fn state() -> State {
        let settings = Settings {
            keymap: Keymap::new(&BTreeMap::new()).expect("the defaults hold"),
            theme: Theme::new(Depth::None, Background::Dark),
            theme_is_chosen: true,
            full_screen: false,
            vi: false,
            status_line: Vec::new(),
            notifications: false,
            title: false,
            history: Vec::new(),
            own_commands: Vec::new(),
            offers_sessions: false,
            refuses_full: None,
            first_message: None,
            notices: Vec::new(),
            branch: None,
            prompts: Prompts::default(),
            models: Vec::new(),
            preconnect: false,
        };
        State::new(settings, (80, 24), Instant::now())
    }

    #[test]
    fn refreshed_completion_list_keeps_selection_and_stays_closed() {
        let mut state = state();
        let press = |state: &mut State, code| {
            let now = Instant::now();
            state.update(Input::Typed(Typed::Key(Key::plain(code)), now), now);
        };
        let own = || {
            let own = OwnCommand { name: "aaa".into(), ..OwnCommand::default() };
            Input::News(News::OwnCommands(vec![own]))
        };
        let marked = |state: &State| {
            state.popup.as_ref().map(|popup| popup.items[popup.selected].insert.clone())
        };
        press(&mut state, Code::Char('/'));
        press(&mut state, Code::Down);
        press(&mut state, Code::Down);
        let before = marked(&state);
        state.update(own(), Instant::now());
        assert_eq!(marked(&state), before);
        press(&mut state, Code::Esc);
        state.update(own(), Instant::now());
        assert_eq!(marked(&state), None);
    }
}
