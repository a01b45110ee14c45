//! Unified diffs of bounded size, for users and models.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use similar::ChangeTag;

use agent_protocol::line_diff::LineDiff;

const CONTEXT: usize = 3;
const MAX_LINES: usize = 100;
const MAX_BYTES: usize = 10 * 1024;
const NO_NEWLINE: &str = "\n\\ No newline at end of file\n";

/// A unified diff with line counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The header and the hunks; as a preview at most 100 lines and 10 KiB of them.
    pub text: String,
    pub truncated: bool,
    pub added: usize,
    pub removed: usize,
}

/// The size limit of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffSize {
    Preview,
    /// Without limit, for a user who approves the change.
    Whole,
}

impl Diff {
    /// The diff of two texts with `\n` line ends. The names appear in its header.
    pub fn between(old: &str, new: &str, names: (&str, &str)) -> Self {
        Self::after_lines(0, old, new, names, DiffSize::Preview)
    }

    /// The diff of two texts that follow this many lines in their files.
    pub fn after_lines(
        n_lines: usize,
        old: &str,
        new: &str,
        names: (&str, &str),
        size: DiffSize,
    ) -> Self {
        let mut middle = ChangedRegion::of(old, new);
        middle.n_before += n_lines;
        let (old, new) = (&old[middle.old.clone()], &new[middle.new.clone()]);
        let diff = LineDiff::from_texts(old, new);
        let mut result = Self::default();
        for change in diff.changes() {
            match change.tag() {
                ChangeTag::Insert => result.added += 1,
                ChangeTag::Delete => result.removed += 1,
                ChangeTag::Equal => {}
            }
        }
        let mut lines = vec![format!("--- {}\n", names.0), format!("+++ {}\n", names.1)];
        let mut n_bytes = lines.iter().map(String::len).sum::<usize>();
        // Hunk by hunk: the diff of a large file is never built as a whole.
        for hunk in diff.hunks(CONTEXT) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            let head = format!("@@ -{} +{} @@\n", middle.hunk_range(&old), middle.hunk_range(&new));
            let changes = hunk.iter().flat_map(|op| diff.changes_of(op)).map(|change| {
                let missing = if change.value().ends_with('\n') { "" } else { NO_NEWLINE };
                format!("{}{}{missing}", change.tag(), change.value())
            });
            for line in std::iter::once(head).chain(changes) {
                n_bytes += line.len();
                let is_full = lines.len() >= MAX_LINES || n_bytes > MAX_BYTES;
                if is_full && size == DiffSize::Preview {
                    result.truncated = true;
                    result.text = lines.concat();
                    return result;
                }
                lines.push(line);
            }
        }
        // The header alone is not a diff.
        if lines.len() > 2 {
            result.text = lines.concat();
        }
        result
    }
}

/// The part in which two texts differ, with context lines: only this part is compared line by line.
struct ChangedRegion {
    old: Range<usize>,
    new: Range<usize>,
    n_before: usize,
}

impl ChangedRegion {
    fn of(old: &str, new: &str) -> Self {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let same = equal_at_start(old, new);
        let mut start = memrchr(b'\n', &old[..same]).map_or(0, |at| at + 1);
        let same = equal_at_end(&old[start..], &new[start..]);
        let tail = &old[old.len() - same..];
        // A line that only ends with the same bytes is not an equal line.
        let cut = memchr(b'\n', tail).map_or(tail.len(), |at| at + 1);
        let mut n_after = tail.len() - cut;
        for _ in 0..CONTEXT {
            start = memrchr(b'\n', &old[..start.saturating_sub(1)]).map_or(0, |at| at + 1);
            let after = &old[old.len() - n_after..];
            n_after -= memchr(b'\n', after).map_or(after.len(), |at| at + 1);
        }
        Self {
            old: start..old.len() - n_after,
            new: start..new.len() - n_after,
            n_before: memchr_iter(b'\n', &old[..start]).count(),
        }
    }

    fn hunk_range(&self, range: &Range<usize>) -> String {
        let start = range.start + self.n_before;
        match range.len() {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            length => format!("{},{length}", start + 1),
        }
    }
}

const STRIDE: usize = 4096;

fn equal_at_start(a: &[u8], b: &[u8]) -> usize {
    let strides = a.chunks(STRIDE).zip(b.chunks(STRIDE)).take_while(|(a, b)| a == b);
    let whole: usize = strides.map(|(a, _)| a.len()).sum();
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

fn equal_at_end(a: &[u8], b: &[u8]) -> usize {
    let strides = a.rchunks(STRIDE).zip(b.rchunks(STRIDE)).take_while(|(a, b)| a == b);
    let whole: usize = strides.map(|(a, _)| a.len()).sum();
    let (a, b) = (&a[..a.len() - whole], &b[..b.len() - whole]);
    whole + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn diff_of_a_change_has_the_line_numbers_of_the_file() {
        let old: String = (1..=9999).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 5000\n", "line five\nthousand\n");
        let diff = Diff::between(&old, &new, ("a/a", "b/a"));
        let expected = "--- a/a\n+++ b/a\n@@ -4997,7 +4997,8 @@\n line 4997\n line 4998\n line 4999\n\
                        -line 5000\n+line five\n+thousand\n line 5001\n line 5002\n line 5003\n";
        assert_eq!((diff.text.as_str(), diff.added, diff.removed), (expected, 2, 1));
    }

    proptest! {
        #[test]
        fn diff_applied_to_the_old_text_gives_the_new_text(
            old in prop::collection::vec("[ab]{0,2}", 0..30),
            new in prop::collection::vec("[ab]{0,2}", 0..30),
            common in prop::collection::vec("[ab]{0,2}", 0..30),
            ends in any::<[bool; 2]>(),
        ) {
            let text = |lines: &[String], end: bool| {
                let all = [&common[..], lines, &common[..]].concat();
                all.join("\n") + if end { "\n" } else { "" }
            };
            let (old, new) = (text(&old, ends[0]), text(&new, ends[1]));
            let diff = Diff::between(&old, &new, ("a", "b"));
            prop_assert_eq!(patched(&old, &diff.text), new);
        }
    }

    fn patched(old: &str, diff: &str) -> String {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut at, mut new) = (0, String::new());
        let mut shown = diff.lines().skip(2).peekable();
        while let Some(line) = shown.next() {
            let (sign, text) = line.split_at(1);
            if sign == "@" {
                let range =
                    text.split(' ').nth(1).and_then(|r| r.strip_prefix('-')).unwrap_or_default();
                let (start, length) = range.split_once(',').unwrap_or((range, "1"));
                let start: usize = start.parse().expect("a number");
                let start = if length == "0" { start } else { start - 1 };
                new.extend(lines[at..start].iter().copied());
                at = start;
                continue;
            }
            let ends = shown.next_if(|next| next.starts_with('\\')).is_none();
            let text = format!("{text}{}", if ends { "\n" } else { "" });
            if sign != "+" {
                assert_eq!(lines[at], text);
                at += 1;
            }
            if sign != "-" {
                new.push_str(&text);
            }
        }
        new.extend(lines[at..].iter().copied());
        new
    }
}
