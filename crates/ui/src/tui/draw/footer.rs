//! The lower part of the screen: the question or the input field, a list, and the status line.

use ratatui::text::{Line, Span};

use super::min_call_rows;
use crate::tui::cells::RenderOptions;
use crate::tui::completion::{CompletionKind, Item, Popup};
use crate::tui::composer::Composer;
use crate::tui::keys::KeyAction;
use crate::tui::state::{Focus, State};
use crate::tui::text::{truncate, width};
use crate::tui::theme::StyleRole;
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};

/// Shown before the first message.
const HINT: &str = "describe the task · / commands · @ files · ! your own commands · ? keys";

/// A blank row, the call, and the status.
const ROWS_AROUND: usize = 4;

pub(super) struct Footer {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) cursor: Option<(usize, usize)>,
}

impl Footer {
    pub(super) fn new(state: &State, options: RenderOptions, most: usize) -> Self {
        let mut footer = Self { lines: vec![Line::default()], cursor: None };
        if state.pending_question.is_some() {
            footer.push_question(state, options);
        }
        match &state.focus {
            // No text while a question waits for a key.
            Focus::Question => {}
            Focus::Composer => footer.push_composer(&state.composer, "› ", state, options, most),
            Focus::Search(query, back) => footer.push_search(state, options, query, *back),
            answer => {
                let mark = match answer {
                    Focus::RejectionReason => "no › ",
                    Focus::PlanText => "plan › ",
                    _ => "answer › ",
                };
                footer.push_composer(&state.answer_text, mark, state, options, most);
            }
        }
        let room = most.saturating_sub(footer.lines.len() + 1).max(2);
        if let (Some(popup), Focus::Composer) = (&state.popup, &state.focus) {
            footer.push_list(popup, options, room);
        } else if state.shows_keys {
            let keys = state.key_lines().into_iter().take(room);
            footer.lines.extend(keys.map(|keys| options.cut_line(&keys, StyleRole::Quiet)));
        }
        footer.lines.push(state.status_line(options));
        footer
    }

    /// The arguments of the selected item follow its description, or stand below it.
    fn push_list(&mut self, popup: &Popup, options: RenderOptions, mut room: usize) {
        let name = |item: &Item| escape_literal_line(item.insert.trim()).into_owned();
        let args = escape_literal_line(&popup.items[popup.selected].args);
        let is_high = room > 2;
        room -= usize::from(is_high && !args.is_empty());
        // Files are not counted, only the best are listed.
        let is_more = popup.kind != CompletionKind::File && popup.items.len() > room;
        room -= usize::from(is_more);
        let from = (popup.selected + 1).saturating_sub(room);
        let shown = popup.items.iter().enumerate().skip(from).take(room);
        let names = shown.clone().map(|(_, item)| width(&name(item)));
        let column = names.max().unwrap_or(0).min(options.width / 2);
        for (n, item) in shown {
            let is_selected = n == popup.selected;
            let name = truncate(&name(item), options.width.saturating_sub(4));
            let mark = if is_selected { "  ▸ " } else { "    " };
            let style = options.style(if is_selected { StyleRole::User } else { StyleRole::Text });
            let pad = " ".repeat(column.saturating_sub(width(&name)) + 2);
            let room = options.width.saturating_sub(4 + width(&name) + pad.len());
            let mut description = escape_prose(&item.description).replace('\n', " ");
            let is_below = is_selected && width(&description) + 2 + width(&args) > room;
            if is_selected && !is_below && !args.is_empty() {
                let between = if description.is_empty() { "" } else { "  " };
                description.push_str(&format!("{between}{args}"));
            }
            let mut spans = vec![Span::styled(format!("{mark}{name}"), style)];
            if !description.is_empty() {
                spans.push(Span::raw(pad));
                spans.push(options.span(truncate(&description, room), StyleRole::Quiet));
            }
            self.lines.push(Line::from(spans));
            if is_below && is_high && !args.is_empty() {
                let indent = " ".repeat(column + 6);
                self.lines.push(options.cut_line(&format!("{indent}{args}"), StyleRole::Quiet));
            }
        }
        if is_more {
            let n_below = popup.items.len() - (from + room).min(popup.items.len());
            let more = if n_below == 0 { String::new() } else { format!("    … {n_below} more") };
            self.lines.push(Line::styled(more, options.style(StyleRole::Quiet)));
        }
    }

    pub(super) fn keep_last(&mut self, n_lines: usize) {
        let n_over = self.lines.len().saturating_sub(n_lines);
        self.lines.drain(..n_over);
        self.cursor = self.cursor.map(|(row, column)| (row.saturating_sub(n_over), column));
    }

    /// A call that does not fit is shown in full above.
    fn push_question(&mut self, state: &State, options: RenderOptions) {
        let inquiry = state.questionnaire();
        let ask = match (inquiry, state.question_call()) {
            (Some(inquiry), _) => escape_prose(&inquiry.in_words()).into_owned(),
            (None, Some(call)) => call.question_in_words(options),
            (None, None) if state.is_asking_about_plan() => "Carry out this plan?".to_owned(),
            (None, None) => return,
        };
        let takes_keys = state.focus == Focus::Question;
        if takes_keys && state.is_too_low_for_choices(options) {
            return self.push_compact_question(ask, state, options);
        }
        let choices = if takes_keys { state.choice_lines(options, false) } else { Vec::new() };
        let choices: Vec<Line<'static>> = choices.into_iter().flatten().collect();
        match state.question_block(options) {
            Some(block) => self.lines.extend(block),
            None if inquiry.is_some() => {
                // The text that is typed below needs rows, too.
                let room = if takes_keys {
                    state.size.1.saturating_sub(choices.len() + ROWS_AROUND)
                } else {
                    min_call_rows(state.size.1).saturating_sub(2)
                };
                self.push_inquiry(ask, room, state, options);
            }
            None => self.lines.push(options.cut_line(&ask, StyleRole::Warn)),
        }
        self.lines.extend(choices);
        if !takes_keys && !state.focus.is_answer() {
            let key = state.settings.keymap.key_for(KeyAction::Complete);
            let letters = if inquiry.is_some() { "" } else { " (y yes, n no, …)" };
            let text = format!("{key} answers it{letters}; your text is kept");
            self.lines.push(options.cut_line(&text, StyleRole::User));
        }
    }

    /// A question of the model is shown in full if the screen is high enough.
    fn push_inquiry(&mut self, ask: String, room: usize, state: &State, options: RenderOptions) {
        let words = [options.span(ask, StyleRole::Warn)];
        let mut ask = options.wrap(&Span::raw("? "), &Span::raw("  "), &words);
        if ask.len() > room && room >= 3 {
            // The question itself is often at the end.
            let n_first = (room - 1) / 2;
            let n_hidden = ask.len() - (room - 1);
            let key = state.settings.keymap.key_for(KeyAction::Transcript);
            let more = pluralize(n_hidden as u64, "more line");
            let text = format!("  … {more} ({key} shows them)");
            let more = options.cut_line(&text, StyleRole::Quiet);
            ask.splice(n_first..n_first + n_hidden, [more]);
        }
        self.lines.extend(first_lines(ask, room.max(1), options));
    }

    /// On a low screen: the call, which may have no row above, and the choices around the selected.
    fn push_compact_question(&mut self, ask: String, state: &State, options: RenderOptions) {
        self.lines.clear();
        let rows = state.size.1.saturating_sub(1);
        let choices = state.choice_lines(options, true);
        let selected = state.selected_choice();
        let n_selected = choices.get(selected).map_or(1, Vec::len);
        let room = rows.saturating_sub(min_call_rows(state.size.1)).max(n_selected);
        let room = room.min(rows.saturating_sub(1)).max(1);
        let style = options.style(StyleRole::Warn);
        let indent = Span::raw("  ");
        let ask = options.wrap(&Span::raw(""), &indent, &[Span::styled(ask, style)]);
        self.lines.extend(first_lines(ask, rows.saturating_sub(room).max(1), options));
        if n_selected > room {
            let selected = choices.into_iter().nth(selected).unwrap_or_default();
            self.lines.extend(first_lines(selected, room, options));
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
        options: RenderOptions,
        most: usize,
    ) {
        let columns = options.width.saturating_sub(width(mark) + 1).max(1);
        let rows = composer.rows(columns);
        let at = composer.row_of_cursor(&rows);
        // Reserves rows for the list below.
        let reserved = if state.popup.is_some() { 4 } else { 1 };
        let room = most.saturating_sub(self.lines.len() + reserved).max(1);
        let from = at.saturating_sub(room.saturating_sub(1)).min(rows.len().saturating_sub(room));
        let style = options.style(StyleRole::User);
        for (n, row) in rows.iter().enumerate().skip(from).take(room) {
            let mark = if n == 0 { mark.to_owned() } else { " ".repeat(width(mark)) };
            let text = escape_prose(&composer.text()[row.start..row.end]).into_owned();
            if n == at {
                let before = escape_prose(&composer.text()[row.start..composer.cursor()]);
                let column = (width(&mark) + width(&before)).min(options.width.saturating_sub(1));
                self.cursor = Some((self.lines.len(), column));
            }
            let role =
                if composer.is_shell() && n == 0 { StyleRole::Warn } else { StyleRole::Text };
            let text = if text.is_empty() && state.is_new() && self.cursor.is_some() {
                options.span(truncate(HINT, columns), StyleRole::Quiet)
            } else {
                options.span(text, role)
            };
            self.lines.push(Line::from(vec![Span::styled(mark, style), text]));
        }
    }

    fn push_search(&mut self, state: &State, options: RenderOptions, query: &str, back: usize) {
        let found = state.history_matches(query);
        let text = found.get(back).map_or("", |text| text.as_str());
        let mark = format!("search “{}” › ", escape_prose(query));
        let room = options.width.saturating_sub(width(&mark));
        let text = truncate(&escape_prose(text).replace('\n', " ⏎ "), room);
        self.cursor = Some((self.lines.len(), width(&mark).min(options.width.saturating_sub(1))));
        let mark = options.span(mark, StyleRole::User);
        self.lines.push(Line::from(vec![mark, Span::raw(text)]));
    }
}

/// Marks that there are more lines.
fn first_lines(
    mut lines: Vec<Line<'static>>,
    most: usize,
    options: RenderOptions,
) -> Vec<Line<'static>> {
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let style = last.spans.last().map(|span| span.style).unwrap_or_default();
            let text = truncate(&last.to_string(), options.width.saturating_sub(1));
            *last = Line::styled(format!("{}…", text.trim_end_matches('…')), style);
        }
    }
    lines
}
