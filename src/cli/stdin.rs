//! Standard input of a program that sends lines. It is read by a separate thread, since a blocking read cannot
//! be interrupted but the work must be.

use std::io::{self, ErrorKind, Read as _};

use tokio::sync::mpsc;

/// Bytes: a message may contain images.
pub(super) const MAX_LINE: usize = 64 << 20;

pub(super) enum InputLine {
    /// With its line end, unless it is the last one.
    Line(Vec<u8>),
    TooLong,
}

/// Each batch has the lines that arrived together.
pub(super) fn read_lines(limit: usize) -> mpsc::Receiver<io::Result<Vec<InputLine>>> {
    // A capacity of one slows the writer down to our speed.
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut chunk = vec![0; 64 * 1024];
        let mut lines = LineSplitter { limit, partial: Vec::new(), is_dropping: false };
        loop {
            let read = match stdin.read(&mut chunk) {
                Ok(0) if lines.partial.is_empty() => return,
                Ok(0) => Ok(vec![InputLine::Line(std::mem::take(&mut lines.partial))]),
                Ok(n) => Ok(lines.split(&chunk[..n])),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_over = read.is_err();
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    });
    receiver
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
