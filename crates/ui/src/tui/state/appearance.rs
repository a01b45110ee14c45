//! Commands that change the display of the chat and the editing keys, until the chat ends.

use super::{Action, State};
use crate::tui::cells::Tone;
use crate::tui::theme::Background;
use crate::tui::vi::ViState;

impl State {
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
}
