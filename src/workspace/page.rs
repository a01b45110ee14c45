//! Reading a page of a file of any size, in little memory, and taking its snapshot on the way.

use std::fs::File;
use std::io::{Read, Seek};

use super::charset::{Charset, GUESSED_FROM, SNIFFED};
use super::snapshot::{FileStat, MAX_KEPT, Snapshot};
use super::text::{LineEnding, binary};
use super::{ProjectPath, Workspace, io_failure};
use crate::protocol::envelope::{ErrorCode, Failure};

mod pager;

pub use pager::Line;
use pager::Pager;

const CHUNK: usize = 128 * 1024;
/// A larger file's hash is made after the answer, and its lines are not all counted.
const FOREGROUND: u64 = 32 * 1024 * 1024;
/// How often a file is looked at anew that changes while it is read.
const TRIES: usize = 3;

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The lines that were asked for, as far as there are any.
    pub lines: Vec<Line>,
    /// The number of the first of them, from 1.
    pub start_line: u64,
    /// How many there are in all; unknown in a very large file that was not read to its end.
    pub total_lines: Option<u64>,
    /// There are lines after these.
    pub more: bool,
    /// Size and times.
    pub stat: FileStat,
    /// What encoding the file is in.
    pub charset: Charset,
    /// How its lines end.
    pub line_ending: LineEnding,
    /// Somebody else changed it since it was last read here.
    pub modified_externally: bool,
    /// It kept changing while it was read, so that there is no snapshot.
    pub unsteady: bool,
}

/// What one pass over a file's bytes tells.
struct Survey {
    charset: Charset,
    bom: usize,
    hash: Option<String>,
    bytes: Option<Vec<u8>>,
    lf: u64,
    crlf: u64,
    cr: u64,
}

impl Workspace {
    /// At most `limit` lines from line `from` on; a negative `from` counts from the end. Records
    /// the snapshot. `stop` is asked now and then whether to give up (CANCELLED).
    pub fn page(
        &self,
        path: &ProjectPath,
        from: i64,
        limit: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, Failure> {
        let before = self.snapshots.peek(path.absolute());
        let mut tries = 0;
        loop {
            tries += 1;
            let (file, data) = self.open_file(path)?;
            let stat = FileStat::of(&data);
            let mut reading = Reading { file, path, stop };
            let survey = reading.survey(stat.size <= FOREGROUND)?;
            let mut page = reading.page(&survey, stat, from, limit)?;
            let after = reading.file.metadata();
            let after = after.map_err(|error| io_failure(&error, "look at", path.relative()))?;
            if FileStat::of(&after) != stat {
                if tries < TRIES {
                    continue;
                }
                self.snapshots.forget(path.absolute());
                page.unsteady = true;
                return Ok(page);
            }
            page.modified_externally = before.as_ref().is_some_and(|before| match &survey.hash {
                Some(hash) => *hash != before.hash,
                None => stat.size != before.stat.size || stat.mtime_ns != before.stat.mtime_ns,
            });
            match survey.hash {
                Some(hash) => {
                    let snapshot = Snapshot { stat, hash };
                    self.snapshots.record(path.absolute(), snapshot, survey.bytes);
                }
                None => self.snapshots.promise(path.absolute(), reading.file, stat),
            }
            return Ok(page);
        }
    }
}

struct Reading<'a> {
    file: File,
    path: &'a ProjectPath,
    stop: &'a dyn Fn() -> bool,
}

impl Reading<'_> {
    /// Looks at the whole file, or, if that is too large, at its beginning.
    fn survey(&mut self, whole: bool) -> Result<Survey, Failure> {
        let mut hasher = blake3::Hasher::new();
        let mut kept = Vec::new();
        let mut validity = Utf8Check::default();
        let mut survey = Survey {
            charset: Charset::UTF_8,
            bom: 0,
            hash: None,
            bytes: None,
            lf: 0,
            crlf: 0,
            cr: 0,
        };
        let mut sample = Vec::new();
        let mut previous = 0;
        let mut read = 0usize;
        let mut chunk = vec![0; CHUNK];
        self.rewind()?;
        loop {
            let n = self.fill(&mut chunk)?;
            let bytes = &chunk[..n];
            if read == 0 {
                let head = &bytes[..n.min(SNIFFED)];
                if let Some((charset, bom)) = Charset::of_bom(head) {
                    (survey.charset, survey.bom) = (charset, bom);
                } else if head.contains(&0) {
                    return Err(binary(head, self.path.relative()));
                }
            }
            read += n;
            // Nothing of a large file decides but its first chunk and, for the rule about a lone
            // `\r`, whether there is any `\n`.
            let looked_at = whole || read <= CHUNK;
            if looked_at {
                validity.feed(bytes);
                if whole {
                    hasher.update(bytes);
                }
            }
            if read <= MAX_KEPT && whole {
                kept.extend_from_slice(bytes);
            }
            if !sample.is_empty() || !validity.ascii {
                let from = if sample.is_empty() {
                    bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(0)
                } else {
                    0
                };
                let room = GUESSED_FROM - sample.len();
                sample.extend(bytes[from..].iter().take(room));
            }
            for &byte in bytes {
                match byte {
                    b'\n' => {
                        survey.lf += 1;
                        survey.crlf += u64::from(previous == b'\r');
                    }
                    b'\r' => survey.cr += 1,
                    _ => {}
                }
                previous = byte;
            }
            let ended = n < chunk.len();
            if ended || (!whole && survey.lf > 0) {
                break;
            }
        }
        if whole {
            survey.hash = Some(hasher.finalize().to_hex().to_string());
            survey.bytes = (read <= MAX_KEPT).then_some(kept);
        }
        if survey.bom == 0 && !validity.is_valid(whole) {
            survey.charset = Charset::guess(&sample);
        }
        if survey.charset.is_utf_16() {
            self.count_utf_16(&mut survey, whole)?;
        }
        Ok(survey)
    }

    /// Line ends of UTF-16 are counted in its text, not in its bytes.
    fn count_utf_16(&mut self, survey: &mut Survey, whole: bool) -> Result<(), Failure> {
        (survey.lf, survey.crlf, survey.cr) = (0, 0, 0);
        let mut previous = 0;
        self.decoded(survey.charset, survey.bom, |text| {
            for &byte in text {
                match byte {
                    b'\n' => {
                        survey.lf += 1;
                        survey.crlf += u64::from(previous == b'\r');
                    }
                    b'\r' => survey.cr += 1,
                    _ => {}
                }
                previous = byte;
            }
            whole || survey.lf == 0
        })?;
        Ok(())
    }

    fn page(
        &mut self,
        survey: &Survey,
        stat: FileStat,
        from: i64,
        limit: u64,
    ) -> Result<Page, Failure> {
        let line_ending = LineEnding::of_counts(survey.lf, survey.crlf, survey.cr);
        let end = if line_ending == LineEnding::Cr { b'\r' } else { b'\n' };
        let first = match u64::try_from(from) {
            Ok(first) => first,
            Err(_) => {
                let mut counter = Pager::new(end, u64::MAX, 0, true);
                self.decoded(survey.charset, survey.bom, |text| counter.feed(text))?;
                counter.finish();
                (counter.total() + 1).saturating_sub(from.unsigned_abs()).max(1)
            }
        };
        let mut pager = Pager::new(end, first, limit, survey.hash.is_some());
        let to_the_end = self.decoded(survey.charset, survey.bom, |text| pager.feed(text))?;
        if to_the_end {
            pager.finish();
        }
        let total_lines = to_the_end.then(|| pager.total());
        let more = match total_lines {
            Some(total) => first.saturating_add(limit) <= total,
            None => true,
        };
        if first > 1
            && let Some(total) = total_lines
            && first > total
        {
            let message = format!(
                "start_line {from} is past the end: {} has {total} lines",
                self.path.relative()
            );
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .hint("-1 is the last line, -50 starts 50 lines before the end")
                .datum("total_lines", total)
                .at(self.path.relative()));
        }
        Ok(Page {
            lines: pager.into_lines(),
            start_line: first,
            total_lines,
            more,
            stat,
            charset: survey.charset,
            line_ending,
            modified_externally: false,
            unsteady: false,
        })
    }

    /// Gives the file's text as UTF-8, piece by piece, until `take` has enough. True: to its end.
    fn decoded(
        &mut self,
        charset: Charset,
        bom: usize,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, Failure> {
        let mut chunk = vec![0; CHUNK];
        let mut decoder = (!charset.is_utf_8()).then(|| charset.decoder());
        let mut text = String::new();
        let mut skip = bom;
        self.rewind()?;
        loop {
            let n = self.fill(&mut chunk)?;
            let bytes = &chunk[skip.min(n)..n];
            skip = 0;
            let ended = n < chunk.len();
            let wanted = match &mut decoder {
                None => take(bytes),
                Some(decoder) => {
                    text.clear();
                    text.reserve(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(4 * CHUNK));
                    let _ = decoder.decode_to_string(bytes, &mut text, ended);
                    take(text.as_bytes())
                }
            };
            if !wanted {
                return Ok(false);
            }
            if ended {
                return Ok(true);
            }
        }
    }

    fn rewind(&mut self) -> Result<(), Failure> {
        self.file.rewind().map_err(|error| io_failure(&error, "read", self.path.relative()))
    }

    /// Fills the chunk, unless the file ends before.
    fn fill(&mut self, chunk: &mut [u8]) -> Result<usize, Failure> {
        if (self.stop)() {
            return Err(Failure::new(ErrorCode::Cancelled, "interrupted").at(self.path.relative()));
        }
        let mut n = 0;
        while n < chunk.len() {
            match self.file.read(&mut chunk[n..]) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_failure(&error, "read", self.path.relative())),
            }
        }
        Ok(n)
    }
}

/// Whether bytes that come in pieces are UTF-8.
struct Utf8Check {
    ascii: bool,
    valid: bool,
    /// The beginning of a character that the next piece ends.
    begun: Vec<u8>,
}

impl Default for Utf8Check {
    fn default() -> Self {
        Self { ascii: true, valid: true, begun: Vec::new() }
    }
}

impl Utf8Check {
    fn feed(&mut self, mut bytes: &[u8]) {
        self.ascii &= bytes.is_ascii();
        while self.valid && !self.begun.is_empty() && !bytes.is_empty() {
            self.begun.push(bytes[0]);
            bytes = &bytes[1..];
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) => self.valid = error.error_len().is_none(),
            }
        }
        if let Err(error) = std::str::from_utf8(bytes)
            && self.valid
        {
            self.valid = error.error_len().is_none();
            self.begun.extend_from_slice(&bytes[error.valid_up_to()..]);
        }
    }

    /// A piece of a larger file may end within a character.
    fn is_valid(&self, whole: bool) -> bool {
        self.valid && (!whole || self.begun.is_empty())
    }
}
