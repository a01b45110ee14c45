//! What changed, for people and models: a unified diff of bounded size.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

const MAX_LINES: usize = 100;
const MAX_BYTES: usize = 10 * 1024;
/// A minimal diff is not worth more waiting.
const MAX_TIME: Duration = Duration::from_millis(300);

/// A unified diff, and what it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// At most 100 lines and 10 KiB of it.
    pub text: String,
    /// There is more than `text` shows.
    pub truncated: bool,
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

impl Diff {
    /// The difference between two texts with `\n` line ends. The names stand at its head.
    pub fn between(old: &str, new: &str, names: (&str, &str)) -> Self {
        let diff = TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new);
        let mut result = Self::default();
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => result.added += 1,
                ChangeTag::Delete => result.removed += 1,
                ChangeTag::Equal => {}
            }
        }
        let mut unified = diff.unified_diff();
        unified.header(names.0, names.1);
        let mut lines = 0;
        // Hunk by hunk: the diff of a large file is never put together to be cut.
        'hunks: for (index, hunk) in unified.iter_hunks().enumerate() {
            let head = if index == 0 {
                format!("--- {}\n+++ {}\n", names.0, names.1)
            } else {
                String::new()
            };
            for line in format!("{head}{hunk}").split_inclusive('\n') {
                if lines == MAX_LINES || result.text.len() + line.len() > MAX_BYTES {
                    result.truncated = true;
                    break 'hunks;
                }
                lines += 1;
                result.text.push_str(line);
            }
        }
        result
    }

    /// The difference that a change of `path` makes (or made).
    pub fn of_change(old: &str, new: &str, path: &str) -> Self {
        Self::between(old, new, (&format!("a/{path}"), &format!("b/{path}")))
    }
}
