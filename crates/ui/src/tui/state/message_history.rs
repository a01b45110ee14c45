//! Earlier messages: recalling and searching them.

use super::{Action, Focus, State};
use crate::tui::composer::AttributedText;
use crate::tui::keys::{Key, KeyAction};

pub(super) struct RecalledMessage {
    index: usize,
    /// The text of the input field before the first recall.
    draft: AttributedText,
    displayed_text: String,
}

impl State {
    pub(super) fn recall_message(&mut self, earlier: bool) {
        if self.focus.is_answer() {
            return;
        }
        let history = &self.settings.history;
        let (at, draft) = match self.recalled_message.take() {
            Some(RecalledMessage { index: at, draft, .. }) => (at, draft),
            None => (history.len(), self.composer.content().clone()),
        };
        let next = if earlier { at.checked_sub(1) } else { Some(at + 1) };
        match next {
            Some(next) if next < history.len() => {
                let text = AttributedText::from_message(&history[next]);
                self.composer.set_folded(&text);
                let shown = self.composer.text().to_owned();
                self.recalled_message =
                    Some(RecalledMessage { index: next, draft, displayed_text: shown });
            }
            Some(next) if next == history.len() => self.composer.set_text(draft),
            // The oldest stays; after the draft there is nothing.
            Some(_) => {}
            None => {
                let shown = self.composer.text().to_owned();
                self.recalled_message =
                    Some(RecalledMessage { index: at, draft, displayed_text: shown });
            }
        }
    }

    /// The message is unchanged.
    pub(super) fn is_showing_recalled_message(&self) -> bool {
        self.recalled_message
            .as_ref()
            .is_some_and(|recalled| recalled.displayed_text == self.composer.text())
    }

    /// The latest first.
    pub(in crate::tui) fn history_matches(&self, query: &str) -> Vec<&String> {
        let query = query.to_lowercase();
        let mut seen = std::collections::HashSet::new();
        let all = self.settings.history.iter().rev();
        all.filter(|text| text.to_lowercase().contains(&query) && seen.insert(*text)).collect()
    }

    pub(super) fn handle_search_key(
        &mut self,
        mut query: String,
        back: usize,
        key: Key,
        action: Option<KeyAction>,
    ) -> Vec<Action> {
        let n_found = self.history_matches(&query).len();
        match (action, key.typed_char()) {
            (Some(KeyAction::SearchHistory), _) => {
                let back = if n_found == 0 { 0 } else { (back + 1) % n_found };
                self.focus = Focus::Search(query, back);
            }
            (Some(KeyAction::DeleteBack), _) => {
                query.pop();
                self.focus = Focus::Search(query, 0);
            }
            (Some(KeyAction::Escape | KeyAction::Cancel), _) => {}
            (_, Some(char)) => {
                query.push(char);
                self.focus = Focus::Search(query, 0);
            }
            _ => {
                let found = self
                    .history_matches(&query)
                    .get(back)
                    .map(|text| AttributedText::from_message(text));
                if let Some(text) = found {
                    self.composer.set_folded(&text);
                }
            }
        }
        Vec::new()
    }
}
