//! The differences of two texts, line by line.

use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{Change, DiffOp, group_diff_ops};

/// Time limit: a comparison that takes longer is correct, but not minimal.
const MAX_TIME: Duration = Duration::from_millis(300);

/// Two texts, and the changes that turn the first into the second. The only use of the algorithm:
/// `similar::TextDiff` would compile every one for every type, which is 0.5 MB more.
pub struct LineDiff<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> LineDiff<'a> {
    /// Compares two texts. The lines end with their `\n`, except a last one that has none.
    pub fn from_texts(old: &'a str, new: &'a str) -> Self {
        let lines = |text: &'a str| text.split_inclusive('\n').collect();
        Self::from_lines(lines(old), lines(new))
    }

    /// Compares two lists of lines.
    pub fn from_lines(old: Vec<&'a str>, new: Vec<&'a str>) -> Self {
        let mut hook = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
        let deadline = Instant::now() + MAX_TIME;
        let (all_old, all_new) = (0..old.len(), 0..new.len());
        let Ok(()) =
            myers::diff_deadline(&mut hook, &old[..], all_old, &new[..], all_new, Some(deadline));
        let ops = hook.into_inner().into_inner().into_ops();
        Self { old, new, ops }
    }

    /// All lines in order, with what happens to each.
    pub fn changes(&self) -> impl Iterator<Item = Change<&'a str>> + '_ {
        self.ops.iter().flat_map(|op| self.changes_of(op))
    }

    /// The lines of one operation, with what happens to each.
    pub fn changes_of(&self, op: &DiffOp) -> impl Iterator<Item = Change<&'a str>> + '_ {
        op.iter_changes(&self.old[..], &self.new[..])
    }

    /// The operations that change something, with up to `context` unchanged lines around them; one group per hunk.
    pub fn hunks(&self, context: usize) -> Vec<Vec<DiffOp>> {
        group_diff_ops(self.ops.clone(), context)
    }
}
