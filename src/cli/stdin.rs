//! Input of a program that sends lines. It is read by a separate thread, since a blocking read cannot
//! be interrupted but the work must be.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};

use tokio::sync::mpsc;

/// Bytes: a message may contain images.
pub(super) const MAX_LINE: usize = 64 << 20;

pub(super) enum InputLine {
    /// With its line end, unless it is the last one.
    Line(Vec<u8>),
    TooLong,
}

/// Lines that arrived together, without empty ones. Blocks.
pub(super) fn batches(
    mut input: impl Read,
    limit: usize,
) -> impl Iterator<Item = io::Result<Vec<InputLine>>> {
    let mut chunk = vec![0; 64 * 1024];
    let mut lines = LineSplitter { limit, partial: Vec::new(), is_dropping: false };
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let mut read = match input.read(&mut chunk) {
                Ok(0) => {
                    is_over = true;
                    vec![InputLine::Line(std::mem::take(&mut lines.partial))]
                }
                Ok(n) => lines.split(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    is_over = true;
                    return Some(Err(error));
                }
            };
            read.retain(
                |line| !matches!(line, InputLine::Line(line) if line.trim_ascii().is_empty()),
            );
            if !read.is_empty() {
                return Some(Ok(read));
            }
        }
        None
    })
}

/// The same lines, one by one.
pub(super) struct LineReader {
    batches: mpsc::Receiver<io::Result<Vec<InputLine>>>,
    ready: VecDeque<InputLine>,
}

impl LineReader {
    pub(super) fn spawn(limit: usize) -> Self {
        // A capacity of one slows the writer down to our speed.
        let (sender, receiver) = mpsc::channel(1);
        std::thread::spawn(move || {
            // Without a receiver nothing more is read.
            batches(io::stdin(), limit).try_for_each(|batch| sender.blocking_send(batch)).ok()
        });
        Self { batches: receiver, ready: VecDeque::new() }
    }

    /// Cancel safe. `None` at the end of the input.
    pub(super) async fn next(&mut self) -> Option<io::Result<InputLine>> {
        while self.ready.is_empty() {
            match self.batches.recv().await? {
                Ok(lines) => self.ready.extend(lines),
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

struct LineSplitter {
    limit: usize,
    partial: Vec<u8>,
    is_dropping: bool,
}

impl LineSplitter {
    fn split(&mut self, chunk: &[u8]) -> Vec<InputLine> {
        let mut lines = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if self.is_dropping {
                self.is_dropping = !is_end;
            } else if self.partial.len().saturating_add(piece.len()) > self.limit {
                self.partial = Vec::new();
                self.is_dropping = !is_end;
                lines.push(InputLine::TooLong);
            } else {
                self.partial.extend_from_slice(piece);
                if is_end {
                    lines.push(InputLine::Line(std::mem::take(&mut self.partial)));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: usize, chunks: &[&str], expected: &[Option<&str>]) {
        let mut lines = LineSplitter { limit, partial: Vec::new(), is_dropping: false };
        let read = chunks.iter().flat_map(|chunk| lines.split(chunk.as_bytes()));
        let read: Vec<Option<String>> = read
            .map(|input| match input {
                InputLine::Line(line) => Some(String::from_utf8_lossy(&line).into_owned()),
                InputLine::TooLong => None,
            })
            .collect();
        assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        check(9, &["a\nb", "c\n\nd"], &[Some("a\n"), Some("bc\n"), Some("\n")]);
    }

    #[test]
    fn line_over_the_limit_is_reported_once_and_dropped() {
        let chunks = ["a\n12", "345", "678\nb\n", "12345\nc\n"];
        check(4, &chunks, &[Some("a\n"), None, Some("b\n"), None, Some("c\n")]);
    }
}
