//! The lower part of the screen: the question or the input field, a list, and the status line.

use ratatui::text::{Line, Span};

use super::min_call_rows;
use crate::tui::cells::RenderOptions;
use crate::tui::completion::{self, Item};
use crate::tui::composer::Composer;
use crate::tui::keys::KeyAction;
use crate::tui::state::{Focus, QuestionSubject, State};
use crate::tui::text::{truncate, width, wrap_with_prefixes};
use crate::tui::theme::StyleRole;
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::{escape_literal, escape_literal_line, escape_prose};

/// Shown before the first message.
const HINT: &str = "describe the task · / commands · @ files · ! your own commands";

/// A blank row, the call, and the status.
const ROWS_AROUND: usize = 4;

/// The question or the input field, a list, the status.
pub(super) struct Footer {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) cursor: Option<(usize, usize)>,
}

impl Footer {
    pub(super) fn new(state: &State, look: RenderOptions, most: usize) -> Self {
        let mut footer = Self { lines: vec![Line::default()], cursor: None };
        if state.pending_question.is_some() {
            footer.push_question(state, look);
        }
        match &state.focus {
            // No text while a question waits for a key.
            Focus::Question => {}
            Focus::RejectionReason => {
                footer.push_composer(&state.answer_text, "no › ", state, look, most);
            }
            Focus::AnswerText => {
                footer.push_composer(&state.answer_text, "answer › ", state, look, most);
            }
            Focus::PlanText => {
                footer.push_composer(&state.answer_text, "plan › ", state, look, most);
            }
            Focus::Composer => footer.push_composer(&state.composer, "› ", state, look, most),
            Focus::Search(query, back) => footer.push_search(state, look, query, *back),
        }
        if let (Some(popup), Focus::Composer) = (&state.popup, &state.focus) {
            let room = most.saturating_sub(footer.lines.len() + 1).max(2);
            // Files are not counted, only the best are listed.
            let is_more =
                popup.kind != completion::CompletionKind::File && popup.items.len() > room;
            let room = if is_more { room.saturating_sub(1).max(1) } else { room };
            let from = (popup.selected + 1).saturating_sub(room);
            let shown = popup.items.iter().enumerate().skip(from).take(room);
            let name = |item: &Item| {
                escape_literal_line(format!("{} {}", item.insert.trim(), item.args).trim_end())
                    .into_owned()
            };
            let names = shown.clone().map(|(_, item)| width(&name(item)));
            let column = names.max().unwrap_or(0).min(look.width / 2);
            for (n, item) in shown {
                let is_selected = n == popup.selected;
                let name = truncate(&name(item), look.width.saturating_sub(4)).into_owned();
                let mark = if is_selected { "  ▸ " } else { "    " };
                let style =
                    look.theme.style(if is_selected { StyleRole::User } else { StyleRole::Text });
                let pad = " ".repeat(column.saturating_sub(width(&name)) + 2);
                let room = look.width.saturating_sub(4 + width(&name) + pad.len());
                let what = truncate(&escape_prose(&item.description).replace('\n', " "), room)
                    .into_owned();
                let mut spans = vec![Span::styled(format!("{mark}{name}"), style)];
                if !what.is_empty() {
                    spans.push(Span::raw(pad));
                    spans.push(Span::styled(what, look.theme.style(StyleRole::Quiet)));
                }
                footer.lines.push(Line::from(spans));
            }
            if is_more {
                let n_below = popup.items.len() - (from + room).min(popup.items.len());
                let more =
                    if n_below == 0 { String::new() } else { format!("    … {n_below} more") };
                footer.lines.push(Line::styled(more, look.theme.style(StyleRole::Quiet)));
            }
        }
        footer.lines.push(state.status_line(look));
        footer
    }

    /// Leaves out the first lines.
    pub(super) fn keep_last(&mut self, n_lines: usize) {
        let n_over = self.lines.len().saturating_sub(n_lines);
        self.lines.drain(..n_over);
        self.cursor = self.cursor.map(|(row, column)| (row.saturating_sub(n_over), column));
    }

    /// The call is shown in full above the choices.
    fn push_question(&mut self, state: &State, look: RenderOptions) {
        let theme = look.theme;
        if let Some(inquiry) = state.questionnaire() {
            self.push_questionnaire(&escape_prose(&inquiry.in_words()), state, look);
            return;
        }
        let ask = match (
            state.pending_question.as_ref().map(|asked| &asked.subject),
            state.question_call(),
        ) {
            (Some(QuestionSubject::Plan(_)), _) => "Carry out this plan?".to_owned(),
            (_, Some(call)) => {
                let call = format!("{} {}", call.name(look), call.subject);
                format!("Allow {}?", escape_literal(&call).trim().replace('\n', " ⏎ "))
            }
            (_, None) => return,
        };
        if state.focus == Focus::Question && state.is_too_low_for_choices(look) {
            self.push_compact_question(ask, state, look);
            return;
        }
        let ask = truncate(&ask, look.width).into_owned();
        self.lines.push(Line::styled(ask, theme.style(StyleRole::Warn)));
        if state.is_editing_answer() {
            return;
        }
        if state.focus != Focus::Question {
            let key = state.settings.keymap.key_for(KeyAction::Complete);
            let text = format!("{key} answers it (y yes, n no, …); your text is kept");
            let line = truncate(&text, look.width).into_owned();
            self.lines.push(Line::styled(line, theme.style(StyleRole::User)));
            return;
        }
        self.lines.extend(state.choice_lines(look, false).into_iter().flatten());
    }

    /// The question is shown in full if the screen is high enough.
    fn push_questionnaire(&mut self, ask: &str, state: &State, look: RenderOptions) {
        let theme = look.theme;
        if state.focus == Focus::Question && state.is_too_low_for_choices(look) {
            self.push_compact_question(ask.to_owned(), state, look);
            return;
        }
        let indent = Span::raw("  ");
        let words = [Span::styled(ask.to_owned(), theme.style(StyleRole::Warn))];
        let mut ask = wrap_with_prefixes(&Span::raw("? "), &indent, &words, look.width);
        let choices: Vec<Line<'static>> = match state.focus {
            Focus::Question => state.choice_lines(look, false).into_iter().flatten().collect(),
            _ => Vec::new(),
        };
        // The text that is typed below needs rows, too.
        let room = match state.focus {
            Focus::Question => state.size.1.saturating_sub(choices.len() + ROWS_AROUND),
            _ => min_call_rows(state.size.1).saturating_sub(2),
        };
        if ask.len() > room && room >= 3 {
            // The question itself is often at the end.
            let n_first = (room - 1) / 2;
            let n_hidden = ask.len() - (room - 1);
            let key = state.settings.keymap.key_for(KeyAction::Transcript);
            let more = pluralize(n_hidden as u64, "more line");
            let text = format!("  … {more} ({key} shows them)");
            let text = truncate(&text, look.width).into_owned();
            let more = Line::styled(text, theme.style(StyleRole::Quiet));
            ask.splice(n_first..n_first + n_hidden, [more]);
        }
        self.lines.extend(first_lines(ask, room.max(1), look));
        match state.focus {
            Focus::Question => self.lines.extend(choices),
            Focus::AnswerText => {}
            _ => {
                let key = state.settings.keymap.key_for(KeyAction::Complete);
                let text = format!("{key} answers it; your text is kept");
                let line = truncate(&text, look.width).into_owned();
                self.lines.push(Line::styled(line, theme.style(StyleRole::User)));
            }
        }
    }

    /// Shows the choices around the selected one on a low screen. The call is more important than
    /// the other choices: its command is written here, because there may be no row above.
    fn push_compact_question(&mut self, ask: String, state: &State, look: RenderOptions) {
        self.lines.clear();
        let rows = state.size.1.saturating_sub(1);
        let choices = state.choice_lines(look, true);
        let selected = state.pending_question.as_ref().map_or(0, |asked| asked.selected);
        let n_selected = choices.get(selected).map_or(1, Vec::len);
        let room = rows.saturating_sub(min_call_rows(state.size.1)).max(n_selected);
        let room = room.min(rows.saturating_sub(1)).max(1);
        let style = look.theme.style(StyleRole::Warn);
        let indent = Span::raw("  ");
        let ask =
            wrap_with_prefixes(&Span::raw(""), &indent, &[Span::styled(ask, style)], look.width);
        self.lines.extend(first_lines(ask, rows.saturating_sub(room).max(1), look));
        if n_selected > room {
            let selected = choices.into_iter().nth(selected).unwrap_or_default();
            self.lines.extend(first_lines(selected, room, look));
            return;
        }
        let end: usize = choices.iter().take(selected + 1).map(Vec::len).sum();
        let from = end.saturating_sub(room);
        self.lines.extend(choices.into_iter().flatten().skip(from).take(room));
    }

    fn push_composer(
        &mut self,
        composer: &Composer,
        mark: &'static str,
        state: &State,
        look: RenderOptions,
        most: usize,
    ) {
        let columns = look.width.saturating_sub(width(mark) + 1).max(1);
        let rows = composer.rows(columns);
        let at = composer.row_of_cursor(&rows);
        // Reserves rows for the list below.
        let reserved = if state.popup.is_some() { 4 } else { 1 };
        let room = most.saturating_sub(self.lines.len() + reserved).max(1);
        let from = at.saturating_sub(room.saturating_sub(1)).min(rows.len().saturating_sub(room));
        let style = look.theme.style(StyleRole::User);
        for (n, row) in rows.iter().enumerate().skip(from).take(room) {
            let mark = if n == 0 { mark.to_owned() } else { " ".repeat(width(mark)) };
            let text = escape_prose(&composer.text()[row.start..row.end]).into_owned();
            if n == at {
                let before =
                    escape_prose(&composer.text()[row.start..composer.cursor()]).into_owned();
                let column = (width(&mark) + width(&before)).min(look.width.saturating_sub(1));
                self.cursor = Some((self.lines.len(), column));
            }
            let part =
                if composer.is_shell() && n == 0 { StyleRole::Warn } else { StyleRole::Text };
            let text = if text.is_empty() && state.is_new() && self.cursor.is_some() {
                let hint = truncate(HINT, columns).into_owned();
                Span::styled(hint, look.theme.style(StyleRole::Quiet))
            } else {
                Span::styled(text, look.theme.style(part))
            };
            self.lines.push(Line::from(vec![Span::styled(mark, style), text]));
        }
    }

    fn push_search(&mut self, state: &State, look: RenderOptions, query: &str, back: usize) {
        let found = state.history_matches(query);
        let text = found.get(back).map_or("", |text| text.as_str());
        let mark = format!("search “{}” › ", escape_prose(query));
        let room = look.width.saturating_sub(width(&mark));
        let text = truncate(&escape_prose(text).replace('\n', " ⏎ "), room).into_owned();
        self.cursor = Some((self.lines.len(), width(&mark).min(look.width.saturating_sub(1))));
        let mark = Span::styled(mark, look.theme.style(StyleRole::User));
        self.lines.push(Line::from(vec![mark, Span::raw(text)]));
    }
}

/// Marks that there are more lines.
fn first_lines(
    mut lines: Vec<Line<'static>>,
    most: usize,
    look: RenderOptions,
) -> Vec<Line<'static>> {
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let style = last.spans.last().map(|span| span.style).unwrap_or_default();
            let text = truncate(&last.to_string(), look.width.saturating_sub(1)).into_owned();
            *last = Line::styled(format!("{}…", text.trim_end_matches('…')), style);
        }
    }
    lines
}
