//! Commands that change the display of the chat and the editing keys, until the chat ends.

use super::command::format_columns;
use super::{Action, PagePlace, State};
use crate::tui::cells::Tone;
use crate::tui::status_line::{STATUS_ITEMS, StatusItem};
use crate::tui::theme::Background;
use crate::tui::vi::ViState;

impl State {
    /// For example `mode model`, `none`, `default`.
    pub(super) fn status_line_command(&mut self, arguments: &str) {
        let items = match arguments {
            "" => {
                let text = self.status_items_text();
                return self.show_page("Status line", text, PagePlace::Conversation);
            }
            "none" => Ok(Vec::new()),
            "default" => Ok(STATUS_ITEMS.map(|(item, ..)| item).into()),
            names => StatusItem::from_names(names.split_whitespace()),
        };
        match items {
            Ok(items) => {
                let names = items.iter().map(|item| format!("{:?}", item.name()));
                let names = names.collect::<Vec<_>>().join(", ");
                let text = format!("ui.statusline = [{names}] keeps these items");
                self.settings.status_line = items;
                self.conversation.insert_note(Tone::Quiet, &text);
            }
            Err(reason) => self.conversation.insert_note(Tone::Bad, &reason),
        }
    }

    pub(super) fn toggle_vi(&mut self) {
        self.vi = self.vi.is_none().then(ViState::default);
        let text = if self.vi.is_some() {
            "vi's modes are on; ui.editing = \"vi\" keeps them"
        } else {
            "vi's modes are off; ui.editing = \"emacs\" keeps this"
        };
        self.conversation.insert_note(Tone::Quiet, text);
    }

    pub(super) fn change_theme(&mut self, arguments: &str) -> Vec<Action> {
        let background = match arguments {
            "dark" => Background::Dark,
            "light" => Background::Light,
            "" => match self.settings.theme.background {
                Background::Dark => Background::Light,
                Background::Light => Background::Dark,
            },
            other => {
                let text = format!("there is no theme {other:?}: dark, light");
                self.conversation.insert_note(Tone::Bad, &text);
                return Vec::new();
            }
        };
        self.settings.theme.background = background;
        self.settings.is_theme_configured = true;
        let word = if background == Background::Dark { "dark" } else { "light" };
        let text = format!("colours for a {word} background; ui.theme = \"{word}\" keeps them");
        self.conversation.insert_note(Tone::Quiet, &text);
        vec![Action::Redraw]
    }

    fn status_items_text(&self) -> String {
        let chosen = &self.settings.status_line;
        let rows = STATUS_ITEMS.map(|(item, name, what)| {
            let mark = if chosen.contains(&item) { "✓" } else { "·" };
            (format!("{mark} {name}"), what.to_owned())
        });
        let names: Vec<&str> = chosen.iter().map(|item| item.name()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        format!("{}\nnow: /statusline {names}\n", format_columns(&rows))
    }
}
