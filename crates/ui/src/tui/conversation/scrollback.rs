//! The part of the conversation in the terminal's scrollback: each line is printed once.

use ratatui::text::Line;

use super::{Call, CallState, Cell, CellGroup, Conversation, Detail, RenderOptions, Tone};
use crate::tui::cells::exploration_lines;
use agent_protocol::spending::Spending;

/// Limit on the turns of an earlier session.
const REPRINTED_TURNS: usize = 3;

impl Conversation {
    /// Continues after the printed part of another conversation.
    pub(in crate::tui) fn following(other: &Self, is_reopened: bool) -> Self {
        Self {
            last_group: other.last_group,
            follows_session: true,
            prints_each_call: other.prints_each_call,
            is_reopened,
            ..Self::default()
        }
    }

    /// Takes the lines that do not change any more.
    pub(in crate::tui) fn take_finished(&mut self, options: RenderOptions) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(cell) = self.cells.get(self.n_printed) {
            let next_answer = self.pending_answers.front().map(|ended| ended.cell_index);
            if next_answer == Some(self.n_printed)
                && let Some(mut ended) = self.pending_answers.pop_front()
            {
                let mut rest = ended.stream.take_finished(options);
                rest.extend(ended.stream.finish(options));
                self.push_cell_lines(CellGroup::Text, ended.has_begun, rest, &mut lines);
                self.n_printed += 1;
                continue;
            }
            if self.prints_question
                && let Cell::Call(call) = cell
                && matches!(call.state, CallState::Waiting)
                && let Some(question) = call.question.as_ref().filter(|it| !it.is_printed)
            {
                let printed = call.question_lines(question, options);
                if let Cell::Call(call) = &mut self.cells[self.n_printed]
                    && let Some(question) = &mut call.question
                {
                    question.is_printed = true;
                }
                self.push_cell_lines(CellGroup::Activity, false, printed, &mut lines);
                continue;
            }
            if self.hides_user_messages && matches!(cell, Cell::User(..)) {
                self.n_printed += 1;
                continue;
            }
            if !cell.is_done() {
                return lines;
            }
            let (calls, is_open) = self.explorations();
            if is_open {
                return lines;
            }
            if calls.len() > 1 {
                let joined = exploration_lines(&calls, options);
                self.n_printed += calls.len();
                self.stream_has_begun = false;
                self.push_cell_lines(CellGroup::Activity, false, joined, &mut lines);
                continue;
            }
            let (kind, cell_lines) = match cell {
                // The question of the call is printed already.
                Cell::Call(call) => {
                    (CellGroup::Activity, call.outcome_lines(options, Detail::Brief))
                }
                cell => (cell.group(), cell.lines(options, Detail::Brief)),
            };
            // The stream continues after this cell as after any other.
            self.stream_has_begun = false;
            self.push_cell_lines(kind, false, cell_lines, &mut lines);
            self.n_printed += 1;
        }
        if !self.streamed_answer.is_empty() {
            let finished = self.stream.take_finished(options);
            if !finished.is_empty() {
                self.push_cell_lines(CellGroup::Text, self.stream_has_begun, finished, &mut lines);
                self.stream_has_begun = true;
            }
        }
        lines
    }

    /// The reads and searches in a row that are printed next; the flag tells whether more may follow.
    fn explorations(&self) -> (Vec<&Call>, bool) {
        if self.prints_each_call {
            return (Vec::new(), false);
        }
        let next = &self.cells[self.n_printed..];
        let calls = next.iter().map_while(Cell::as_call).take_while(|call| call.is_exploration());
        let calls: Vec<&Call> = calls.collect();
        let is_last = calls.len() == next.len() && !calls.is_empty();
        let is_silent = self.streamed_answer.is_empty() && self.reasoning.trim().is_empty();
        let is_open = is_last && is_silent && self.turn.is_some()
            || calls.iter().any(|call| !matches!(call.state, CallState::Done(_)));
        (calls, is_open)
    }

    /// Those of them that are done, in the live area.
    pub(in crate::tui) fn held_lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        let mut calls = self.explorations().0;
        calls.retain(|call| matches!(call.state, CallState::Done(_)));
        exploration_lines(&calls, options)
    }

    /// Only the last turns are printed; the viewer shows the rest.
    pub(in crate::tui) fn mark_as_history(&mut self, spending: Spending) {
        self.is_cut_off = self.turn.take().is_some();
        // Facts about earlier sessions are outdated.
        self.cells.retain(|cell| !matches!(cell, Cell::SessionHeader(_)));
        let turns =
            self.cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::User(..)));
        let from = turns.rev().nth(REPRINTED_TURNS - 1).map_or(0, |(at, _)| at);
        self.n_printed = from;
        if from > 0 {
            let text = format!("{from} earlier items are not printed again; Ctrl-T shows them");
            self.cells.insert(from, Cell::Note(Tone::Quiet, text));
        }
        self.spending = spending;
        self.running_cost_usd = None;
    }

    fn push_cell_lines(
        &mut self,
        kind: CellGroup,
        continues: bool,
        cell_lines: Vec<Line<'static>>,
        lines: &mut Vec<Line<'static>>,
    ) {
        if cell_lines.is_empty() {
            return;
        }
        let is_apart = kind == CellGroup::Text || self.last_group == Some(CellGroup::Text);
        if self.last_group.is_some() && is_apart && !continues {
            lines.push(Line::default());
        }
        self.last_group = Some(kind);
        lines.extend(cell_lines);
    }

    /// A blank line separates the live area from the scrollback.
    pub(in crate::tui) fn needs_blank_line(&self, kind: CellGroup) -> bool {
        self.last_group.is_some_and(|last| kind == CellGroup::Text || last == CellGroup::Text)
            && !(kind == CellGroup::Text && self.stream_has_begun)
    }
}
