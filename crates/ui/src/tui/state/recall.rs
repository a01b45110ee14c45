//! Earlier messages: recalling and searching them.

use super::{Action, Focus, State};
use crate::tui::composer::Written;
use crate::tui::keys::{Key, KeyAction};

/// An earlier message in the input field.
pub(super) struct Recalled {
    /// Its position in the earlier messages.
    at: usize,
    /// What was written before.
    draft: Written,
    /// The text of the input field.
    shown: String,
}

impl State {
    pub(super) fn recall(&mut self, earlier: bool) {
        if self.answers_in_words() {
            return;
        }
        let history = &self.settings.history;
        let (at, draft) = match self.recalled.take() {
            Some(Recalled { at, draft, .. }) => (at, draft),
            None => (history.len(), self.composer.written().clone()),
        };
        let next = if earlier { at.checked_sub(1) } else { Some(at + 1) };
        match next {
            Some(next) if next < history.len() => {
                let text = Written::message(&history[next]);
                self.composer.set_folded(&text);
                let shown = self.composer.text().to_owned();
                self.recalled = Some(Recalled { at: next, draft, shown });
            }
            Some(next) if next == history.len() => self.composer.set(draft),
            // The oldest stays; after the draft there is nothing.
            Some(_) => {}
            None => {
                let shown = self.composer.text().to_owned();
                self.recalled = Some(Recalled { at, draft, shown });
            }
        }
    }

    /// The input field contains an earlier message as it was recalled.
    pub(super) fn shows_recalled(&self) -> bool {
        self.recalled.as_ref().is_some_and(|recalled| recalled.shown == self.composer.text())
    }

    /// The messages that match a search, the latest first.
    pub(in crate::tui) fn matches(&self, query: &str) -> Vec<&String> {
        let query = query.to_lowercase();
        let mut seen = std::collections::HashSet::new();
        let all = self.settings.history.iter().rev();
        all.filter(|text| text.to_lowercase().contains(&query) && seen.insert(*text)).collect()
    }

    pub(super) fn search(
        &mut self,
        mut query: String,
        back: usize,
        key: Key,
        action: Option<KeyAction>,
    ) -> Vec<Action> {
        let n_found = self.matches(&query).len();
        match (action, key.typed()) {
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
                let found = self.matches(&query).get(back).map(|text| Written::message(text));
                if let Some(text) = found {
                    self.composer.set_folded(&text);
                }
            }
        }
        Vec::new()
    }
}
