//! Commands that change how the chat looks and how keys edit a message, until it ends.

use super::command::columns;
use super::{Action, PagePlace, State};
use crate::tui::cells::Tone;
use crate::tui::commands::CommandAction;
use crate::tui::statusline::{ITEMS, StatusItem};
use crate::tui::theme::Background;
use crate::tui::vi::Vi;

impl State {
    pub(super) fn appearance(&mut self, action: CommandAction, arguments: &str) -> Vec<Action> {
        match action {
            CommandAction::Vim => self.toggle_vi(),
            CommandAction::StatusLine if arguments.is_empty() => {
                let text = self.status_items();
                self.page("Status line", text, PagePlace::Conversation);
            }
            CommandAction::StatusLine => match chosen_items(arguments) {
                Ok(items) => {
                    let names = items.iter().map(|item| format!("{:?}", item.name()));
                    let names = names.collect::<Vec<_>>().join(", ");
                    let text = format!("ui.statusline = [{names}] keeps these items");
                    self.settings.status_line = items;
                    self.conversation.remark(Tone::Quiet, &text);
                }
                Err(reason) => self.conversation.remark(Tone::Bad, &reason),
            },
            _ => return self.change_theme(arguments),
        }
        Vec::new()
    }

    fn toggle_vi(&mut self) {
        self.vi = if self.vi.is_some() { None } else { Some(Vi::default()) };
        let text = if self.vi.is_some() {
            "vi's modes are on; ui.editing = \"vi\" keeps them"
        } else {
            "vi's modes are off; ui.editing = \"emacs\" keeps this"
        };
        self.conversation.remark(Tone::Quiet, text);
    }

    fn change_theme(&mut self, arguments: &str) -> Vec<Action> {
        let background = match arguments {
            "dark" => Background::Dark,
            "light" => Background::Light,
            "" => match self.settings.theme.background() {
                Background::Dark => Background::Light,
                Background::Light => Background::Dark,
            },
            other => {
                let text = format!("there is no theme {other:?}: dark, light");
                self.conversation.remark(Tone::Bad, &text);
                return Vec::new();
            }
        };
        self.settings.theme = self.settings.theme.on(background);
        self.settings.theme_is_chosen = true;
        let word = if background == Background::Dark { "dark" } else { "light" };
        let text = format!("colours for a {word} background; ui.theme = \"{word}\" keeps them");
        self.conversation.remark(Tone::Quiet, &text);
        vec![Action::Redraw]
    }

    /// The items of the status line, with a mark at the chosen ones.
    fn status_items(&self) -> String {
        let chosen = &self.settings.status_line;
        let rows = ITEMS.map(|(item, name, what)| {
            let mark = if chosen.contains(&item) { "✓" } else { "·" };
            (format!("{mark} {name}"), what.to_owned())
        });
        let names: Vec<&str> = chosen.iter().map(|item| item.name()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        format!("{}\nnow: /statusline {names}\n", columns(&rows))
    }
}

/// `mode model`, `none`, `default`.
fn chosen_items(arguments: &str) -> Result<Vec<StatusItem>, String> {
    match arguments {
        "none" => Ok(Vec::new()),
        "default" => Ok(ITEMS.map(|(item, ..)| item).into()),
        names => StatusItem::named(names.split_whitespace()),
    }
}
