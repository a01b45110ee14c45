//! The part of the conversation in the terminal's scrollback: each line is printed once.

use ratatui::text::Line;

use super::{Cell, Conversation, Detail, Kind, Look, Tone};
use agent_protocol::spending::Spending;

/// Number of turns of an earlier session that are printed again.
const RECALLED: usize = 3;

impl Conversation {
    /// A new conversation after the printed part of another one.
    pub(in crate::tui) fn below(other: &Self, is_reopened: bool) -> Self {
        let earlier = if is_reopened { other.spending } else { Spending::default() };
        Self { last: other.last, is_below: true, is_reopened, earlier, ..Self::default() }
    }

    /// Takes the lines that will not change any more, for the scrollback.
    pub(in crate::tui) fn take_finished(&mut self, look: Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(cell) = self.cells.get(self.printed) {
            let is_ended = self.ended.front().is_some_and(|ended| ended.cell == self.printed);
            if is_ended && let Some(mut ended) = self.ended.pop_front() {
                let mut rest = ended.rest.take_finished(look);
                rest.extend(ended.rest.finish(look));
                self.part(Kind::Text, ended.has_begun, rest, &mut lines);
                self.printed += 1;
                continue;
            }
            if let Cell::Call(call) = cell
                && call.question.is_some()
                && !self.printed_questions.contains(&call.id)
            {
                let asked = call.question_lines(look);
                self.printed_questions.insert(call.id.clone());
                self.part(Kind::Activity, false, asked, &mut lines);
                continue;
            }
            if self.hides_user && matches!(cell, Cell::User(..)) {
                self.printed += 1;
                continue;
            }
            if !cell.is_done() {
                return lines;
            }
            let (kind, of_cell) = match cell {
                // Its question is printed already.
                Cell::Call(call) => (Kind::Activity, call.outcome_lines(look, Detail::Brief)),
                cell => (cell.kind(), cell.lines(look, Detail::Brief)),
            };
            // The stream continues after it as after any other cell.
            self.stream_has_begun = false;
            self.part(kind, false, of_cell, &mut lines);
            self.printed += 1;
        }
        if !self.answer.is_empty() {
            let finished = self.stream.take_finished(look);
            if !finished.is_empty() {
                self.part(Kind::Text, self.stream_has_begun, finished, &mut lines);
                self.stream_has_begun = true;
            }
        }
        lines
    }

    /// Marks the events so far as history. Only the last turns are printed; the rest is available in the
    /// viewer.
    pub(in crate::tui) fn recall(&mut self) {
        self.is_cut_off = self.turn.take().is_some();
        // Facts about earlier sessions are outdated.
        self.cells.retain(|cell| !matches!(cell, Cell::Head(_)));
        let turns =
            self.cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::User(..)));
        let from = turns.rev().nth(RECALLED - 1).map_or(0, |(at, _)| at);
        self.printed = from;
        if from > 0 {
            let text = format!("{from} earlier items are not printed again; Ctrl-T shows them");
            self.cells.insert(from, Cell::Note(Tone::Quiet, text));
        }
        self.spending = self.earlier;
        self.running_cost_usd = None;
        self.explained = None;
    }

    fn part(
        &mut self,
        kind: Kind,
        continues: bool,
        of_cell: Vec<Line<'static>>,
        lines: &mut Vec<Line<'static>>,
    ) {
        if of_cell.is_empty() {
            return;
        }
        let is_apart = kind == Kind::Text || self.last == Some(Kind::Text);
        if self.last.is_some() && is_apart && !continues {
            lines.push(Line::default());
        }
        self.last = Some(kind);
        lines.extend(of_cell);
    }

    /// The plan was printed last.
    pub(in crate::tui) fn ends_in_plan(&self) -> bool {
        matches!(self.cells[..self.printed].last(), Some(Cell::Plan(_)))
    }

    /// Something was printed.
    pub(in crate::tui) fn has_history(&self) -> bool {
        self.last.is_some()
    }

    /// The live area is separated from the scrollback by a blank line.
    pub(in crate::tui) fn is_apart(&self, kind: Kind) -> bool {
        self.last.is_some_and(|last| kind == Kind::Text || last == Kind::Text)
            && !(kind == Kind::Text && self.stream_has_begun)
    }
}
