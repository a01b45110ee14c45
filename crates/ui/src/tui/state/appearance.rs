//! Commands that change the display of the chat, until the chat ends.

use super::{Action, State};
use crate::tui::cells::Tone;
use crate::tui::theme::Background;

impl State {
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
}
