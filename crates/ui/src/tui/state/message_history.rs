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
            Some(recalled) => (recalled.index, recalled.draft),
            None => (history.len(), self.composer.content().clone()),
        };
        let next = if earlier { at.checked_sub(1) } else { Some(at + 1) };
        match next {
            Some(next) if next == history.len() => return self.composer.set_text(draft),
            // After the draft there is nothing.
            Some(next) if next > history.len() => return,
            Some(next) => {
                self.composer.set_folded(&AttributedText::from_message(&history[next]));
            }
            // The oldest stays.
            None => {}
        }
        let displayed_text = self.composer.text().to_owned();
        let index = next.unwrap_or(at);
        self.recalled_message = Some(RecalledMessage { index, draft, displayed_text });
    }

    /// The message is unchanged.
    pub(super) fn is_showing_recalled_message(&self) -> bool {
        let recalled = self.recalled_message.as_ref();
        recalled.is_some_and(|recalled| recalled.displayed_text == self.composer.text())
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
        let found = self.history_matches(&query);
        match (action, key.typed_char()) {
            (Some(KeyAction::SearchHistory), _) => {
                let back = (back + 1).checked_rem(found.len()).unwrap_or(0);
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
                if let Some(text) = found.get(back) {
                    let text = AttributedText::from_message(text);
                    self.composer.set_folded(&text);
                }
            }
        }
        Vec::new()
    }
}
