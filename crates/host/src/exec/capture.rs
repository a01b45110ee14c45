//! Captures a command's output: its beginning and end in memory, long output completely in a file.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::live_output::LiveOutput;

/// Opens the file for the complete output; returns its path for the reader.
pub type OutputFileOpener<'a> =
    Box<dyn FnOnce() -> io::Result<(Box<dyn Write + Send>, String)> + Send + 'a>;

/// Size in bytes of each stream's beginning, and of its end, in memory.
pub(super) const KEPT_BYTES: usize = 64 * 1024;

/// Size limit of the file: endless output (`yes`) must not fill the disk.
const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// The output of a command on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The output, or its beginning and end if it is long. Invalid UTF-8 becomes `�`.
    pub text: String,
    pub total_bytes: u64,
    pub total_lines: u64,
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StreamKind {
    Stdout,
    Stderr,
}

pub(super) struct OutputCapture<'a> {
    stdout: Stream,
    stderr: Stream,
    file: OutputFile<'a>,
    /// If true, even short output goes to the file, which can be read while the command runs.
    pub(super) keeps_all: bool,
    pub(super) live: Option<LiveOutput<'a>>,
}

pub(super) struct CapturedStreams {
    pub(super) stdout: CapturedOutput,
    pub(super) stderr: CapturedOutput,
    pub(super) full_output: Option<String>,
    pub(super) full_output_error: Option<String>,
}

impl<'a> OutputCapture<'a> {
    pub(super) fn new(
        whole_output: Option<OutputFileOpener<'a>>,
        live: Option<LiveOutput<'a>>,
    ) -> Self {
        let pending = |factory| OutputFile::Pending { factory, so_far: Vec::new() };
        let file = whole_output.map_or(OutputFile::Disabled, pending);
        let (stdout, stderr) = (Stream::default(), Stream::default());
        Self { stdout, stderr, file, keeps_all: false, live }
    }

    pub(super) fn close(&mut self) {
        self.file = match std::mem::replace(&mut self.file, OutputFile::Disabled) {
            OutputFile::Open { name, .. } => OutputFile::Closed { name, why: None },
            unchanged => unchanged,
        };
    }

    pub(super) fn has_output(&self) -> bool {
        self.stdout.total + self.stderr.total > 0
    }

    pub(super) fn take(&mut self) -> CapturedStreams {
        let (full_output, full_output_error) = match &mut self.file {
            OutputFile::Disabled | OutputFile::Pending { .. } => (None, None),
            OutputFile::Open { file, name, .. } => {
                (Some(name.clone()), file.flush().err().map(|error| error.to_string()))
            }
            OutputFile::Closed { name, why } => (Some(name.clone()), why.clone()),
            OutputFile::Failed(error) => (None, Some(error.clone())),
        };
        CapturedStreams {
            stdout: std::mem::take(&mut self.stdout).finish(),
            stderr: std::mem::take(&mut self.stderr).finish(),
            full_output,
            full_output_error,
        }
    }

    pub(super) fn push(&mut self, source: StreamKind, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        match source {
            StreamKind::Stdout => self.stdout.push(piece),
            StreamKind::Stderr => self.stderr.push(piece),
        }
        if let Some(live) = &mut self.live {
            live.push(piece);
        }
        let is_long = self.keeps_all || self.stdout.is_long() || self.stderr.is_long();
        self.file = std::mem::replace(&mut self.file, OutputFile::Disabled).push(piece, is_long);
    }
}

/// Contains both streams in order of arrival, once one of them is too long for memory.
enum OutputFile<'a> {
    Disabled,
    Pending {
        factory: OutputFileOpener<'a>,
        so_far: Vec<u8>,
    },
    Open {
        file: Box<dyn Write + Send>,
        name: String,
        room: u64,
    },
    /// With `why` the file has only the beginning: the size limit was reached, or writing failed.
    Closed {
        name: String,
        why: Option<String>,
    },
    Failed(String),
}

impl OutputFile<'_> {
    fn push(self, piece: &[u8], is_long: bool) -> Self {
        match self {
            Self::Pending { factory, mut so_far } => {
                so_far.extend_from_slice(piece);
                if !is_long {
                    return Self::Pending { factory, so_far };
                }
                match factory() {
                    Ok((file, name)) => {
                        Self::Open { file, name, room: MAX_FILE_BYTES }.push(&so_far, is_long)
                    }
                    Err(error) => Self::Failed(error.to_string()),
                }
            }
            Self::Open { mut file, name, room } => {
                let n = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
                match file.write_all(&piece[..n]) {
                    Ok(()) if n < piece.len() => {
                        let why = Some("of a command's output 2 GiB are kept".to_owned());
                        Self::Closed { name, why }
                    }
                    Ok(()) => Self::Open { file, name, room: room - n as u64 },
                    Err(error) => Self::Closed { name, why: Some(error.to_string()) },
                }
            }
            unchanged => unchanged,
        }
    }
}

#[derive(Default)]
struct Stream {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    line_breaks: u64,
}

impl Stream {
    fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        self.line_breaks += memchr::memchr_iter(b'\n', piece).count() as u64;
        let (head, rest) = piece.split_at(piece.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(KEPT_BYTES)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(KEPT_BYTES);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    fn is_long(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    fn finish(self) -> CapturedOutput {
        let truncated = self.is_long();
        let (total_bytes, mut head) = (self.total, self.head);
        let mut tail = Vec::from(self.tail);
        let last = tail.last().or(head.last());
        let total_lines = self.line_breaks + u64::from(last.is_some_and(|byte| *byte != b'\n'));
        if truncated {
            // The cut is at a line if there is one, else at a character.
            match head.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => head.truncate(at + 1),
                None => cut_character_at_end(&mut head),
            }
            let start = match tail.iter().position(|byte| *byte == b'\n') {
                Some(at) if at + 1 < tail.len() => at + 1,
                // Continuation bytes of UTF-8.
                _ => tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count(),
            };
            tail.drain(..start);
            let left_out = total_bytes - (head.len() + tail.len()) as u64;
            if !head.ends_with(b"\n") {
                head.push(b'\n');
            }
            head.extend_from_slice(format!("[… {left_out} bytes left out …]\n").as_bytes());
        }
        head.append(&mut tail);
        let text = String::from_utf8_lossy(&head).into_owned();
        CapturedOutput { text, total_bytes, total_lines, truncated }
    }
}

fn cut_character_at_end(bytes: &mut Vec<u8>) {
    let Err(error) = std::str::from_utf8(bytes) else { return };
    if error.error_len().is_none() {
        bytes.truncate(error.valid_up_to());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[&[u8]]) -> CapturedOutput {
        let mut stream = Stream::default();
        for piece in pieces {
            stream.push(piece);
        }
        stream.finish()
    }

    #[test]
    fn short_output_is_unchanged() {
        let short = captured(&[b"a\nb", "ä\n".as_bytes()]);
        let expected = CapturedOutput {
            text: "a\nbä\n".into(),
            total_bytes: 6,
            total_lines: 2,
            truncated: false,
        };
        assert_eq!(short, expected);
        let exact = captured(&[&vec![b'x'; KEPT_BYTES], &vec![b'y'; KEPT_BYTES]]);
        assert_eq!((exact.text.len(), exact.truncated), (2 * KEPT_BYTES, false));
    }

    #[test]
    fn long_output_keeps_whole_lines_of_head_and_tail() {
        let line = b"0123456789\n".repeat(100_000);
        let long = captured(&line.chunks(1000).collect::<Vec<_>>());
        assert!(long.truncated);
        assert_eq!((long.total_bytes, long.total_lines), (1_100_000, 100_000));
        let mut odd = long.text.lines().filter(|line| *line != "0123456789");
        let note = odd.next().expect("a note");
        assert_eq!(odd.next(), None);
        let left_out = 1_100_000 - (long.text.len() - note.len() - 1);
        assert_eq!(note, format!("[… {left_out} bytes left out …]"));
    }

    #[test]
    fn long_line_is_truncated_at_a_character_boundary() {
        let long = captured(&["€".repeat(100_000).as_bytes()]);
        assert!(long.truncated);
        assert!(!long.text.contains('\u{fffd}'));
    }

    #[test]
    fn endless_output_does_not_fill_the_disk() {
        #[derive(Clone, Default)]
        struct Disk(std::sync::Arc<std::sync::atomic::AtomicU64>);
        impl Write for Disk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.fetch_add(bytes.len() as u64, std::sync::atomic::Ordering::Relaxed);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let disk = Disk::default();
        let file = Box::new(disk.clone());
        let mut capture = OutputCapture::new(Some(Box::new(|| Ok((file, "x".to_owned())))), None);
        let piece = vec![b'y'; 1_000_000];
        for _ in 0..2_200 {
            capture.push(StreamKind::Stdout, &piece);
        }
        let kept = capture.take();
        assert_eq!(disk.0.load(std::sync::atomic::Ordering::Relaxed), MAX_FILE_BYTES);
        assert_eq!(kept.stdout.total_bytes, 2_200_000_000);
        assert_eq!(kept.full_output.as_deref(), Some("x"));
        assert!(kept.full_output_error.expect("why").contains("2 GiB"));
    }

    #[test]
    fn invalid_utf8_becomes_replacement_characters() {
        assert_eq!(captured(&[b"a\xff\xfeb"]).text, "a\u{fffd}\u{fffd}b");
    }
}
