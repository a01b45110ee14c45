//! What of the conversation is in the terminal's own history: each line is given away once, and stays.

use ratatui::text::Line;

use super::{Cell, Conversation, Detail, Kind, Look, Tone};
use crate::protocol::model::Usage;

/// Turns of an earlier session that are printed again.
const RECALLED: usize = 3;

impl Conversation {
    /// A new one, below what is printed of another.
    pub(in crate::ui::tui) fn below(other: &Self) -> Self {
        Self { last: other.last, is_below: true, ..Self::default() }
    }

    /// Everything that will not change any more and was not taken yet: for the terminal's history.
    pub(in crate::ui::tui) fn take_finished(&mut self, look: Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(cell) = self.cells.get(self.printed) {
            let is_ended = self.ended.front().is_some_and(|ended| ended.cell == self.printed);
            if is_ended && let Some(mut ended) = self.ended.pop_front() {
                let mut rest = ended.rest.take_finished(look);
                rest.extend(ended.rest.finish(look));
                self.part(Kind::Words, ended.has_begun, rest, &mut lines);
                self.printed += 1;
                continue;
            }
            if let Cell::Call(call) = cell
                && call.question.is_some()
                && !self.question_is_printed
            {
                let asked = call.question_lines(look);
                self.part(Kind::Deeds, false, asked, &mut lines);
                self.question_is_printed = true;
                continue;
            }
            if self.hides_user && matches!(cell, Cell::User(_)) {
                self.printed += 1;
                continue;
            }
            if !cell.is_done() {
                return lines;
            }
            let (kind, of_cell) = match cell {
                // What was asked about it is there already.
                Cell::Call(call) => (Kind::Deeds, call.outcome_lines(look, Detail::Brief)),
                cell => (cell.kind(), cell.lines(look, Detail::Brief)),
            };
            // What was printed above it, while it waited, was no answer to it.
            self.question_is_printed &= !matches!(cell, Cell::Call(_));
            // What is being said goes on below it as after any other cell.
            self.stream_has_begun = false;
            self.part(kind, false, of_cell, &mut lines);
            self.printed += 1;
        }
        if !self.said.is_empty() {
            let finished = self.stream.take_finished(look);
            if !finished.is_empty() {
                self.part(Kind::Words, self.stream_has_begun, finished, &mut lines);
                self.stream_has_begun = true;
            }
        }
        lines
    }

    /// What was applied happened before. Only the last turns of it are printed; the rest can be looked at.
    pub(in crate::ui::tui) fn recall(&mut self) {
        self.turn = None;
        // Other sessions' heads say nothing any more.
        self.cells.retain(|cell| !matches!(cell, Cell::Head(_)));
        let turns = self.cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::User(_)));
        let from = turns.rev().nth(RECALLED - 1).map_or(0, |(at, _)| at);
        self.printed = from;
        if from > 0 {
            let text =
                format!("{from} earlier things are not printed again; they can be looked at");
            self.cells.insert(from, Cell::Note(Tone::Quiet, text));
        }
        self.usage = Usage::default();
        self.cost_usd = None;
        self.explained = None;
    }

    fn part(
        &mut self,
        kind: Kind,
        goes_on: bool,
        of_cell: Vec<Line<'static>>,
        lines: &mut Vec<Line<'static>>,
    ) {
        if of_cell.is_empty() {
            return;
        }
        let is_apart = kind == Kind::Words || self.last == Some(Kind::Words);
        if self.last.is_some() && is_apart && !goes_on {
            lines.push(Line::default());
        }
        self.last = Some(kind);
        lines.extend(of_cell);
    }

    /// The plan was printed, and nothing after it.
    pub(in crate::ui::tui) fn ends_in_plan(&self) -> bool {
        matches!(self.cells[..self.printed].last(), Some(Cell::Plan(_)))
    }

    /// Something was printed.
    pub(in crate::ui::tui) fn has_history(&self) -> bool {
        self.last.is_some()
    }

    /// The live area, if it shows something of the conversation, stands behind a blank line.
    pub(in crate::ui::tui) fn is_apart(&self, kind: Kind) -> bool {
        self.last.is_some_and(|last| kind == Kind::Words || last == Kind::Words)
            && !(kind == Kind::Words && self.stream_has_begun)
    }
}
