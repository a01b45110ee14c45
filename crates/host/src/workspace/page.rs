//! Reads a page of a file of any size in little memory, and takes the file's snapshot.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use encoding_rs::DecoderResult;

use super::charset::{Charset, GUESSED_FROM, SNIFFED};
use super::replace::MAX_CHANGED;
use super::snapshot::{FileStat, MAX_KEPT, Snapshot};
use super::text::{LineEnding, binary_failure};
use super::{ProjectPath, Workspace, io_failure};
use agent_protocol::envelope::{ErrorCode, Failure};

mod pager;

pub use pager::NumberedLines;
use pager::Pager;

const CHUNK: usize = 128 * 1024;

/// Lines of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub lines: NumberedLines,
    /// From 1; or from the end of a large file, whose last line is -1.
    pub start_line: i64,
    /// `None` if a large file was not read to its end.
    pub total_lines: Option<u64>,
    pub more: bool,
    pub stat: FileStat,
    pub charset: Charset,
    pub line_ending: LineEnding,
    pub modified_externally: bool,
    /// True if the file kept changing while it was read; then there is no snapshot.
    pub unsteady: bool,
}

struct FileScan {
    charset: Charset,
    bom: usize,
    hash: Option<String>,
    bytes: Option<Vec<u8>>,
    line_ends: LineEndCounts,
}

#[derive(Clone, Copy, Default)]
struct LineEndCounts {
    lf: u64,
    crlf: u64,
    cr: u64,
    last_byte: Option<u8>,
}

impl LineEndCounts {
    fn count(&mut self, bytes: &[u8]) {
        self.lf += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let is_after_cr = self.last_byte == Some(b'\r');
        self.crlf += u64::from(is_after_cr && bytes.first() == Some(&b'\n'));
        for at in memchr::memchr_iter(b'\r', bytes) {
            self.cr += 1;
            self.crlf += u64::from(bytes.get(at + 1) == Some(&b'\n'));
        }
        self.last_byte = bytes.last().copied().or(self.last_byte);
    }

    fn n_lines(&self, end: u8) -> u64 {
        let n_ended = if end == b'\r' { self.cr } else { self.lf };
        n_ended + u64::from(self.last_byte.is_some_and(|byte| byte != end))
    }
}

impl Workspace {
    /// Reads at most `limit` lines from line `from`; a negative `from` counts from the end. Records the snapshot.
    /// `stop` is polled for cancellation (CANCELLED).
    pub fn read_page(
        &self,
        path: &ProjectPath,
        from: i64,
        limit: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, Failure> {
        self.check_file(path)?;
        let before = self.snapshots.lock().get(path.absolute());
        let (file, data) = Self::open_checked(path)?;
        let stat = FileStat::of(&data);
        let mut reading = PageReader { file, path, stop };
        let scan = reading.scan_file(&stat)?;
        let mut page = reading.read_page(&scan, stat, from, limit)?;
        let after = reading.file.metadata();
        let after = after.map_err(|error| io_failure(&error, "look at", path.relative()))?;
        if FileStat::of(&after) != stat {
            self.snapshots.lock().forget(path.absolute());
            page.unsteady = true;
            return Ok(page);
        }
        page.modified_externally = before.is_some_and(|before| match &scan.hash {
            Some(hash) => *hash != before.hash,
            None => stat.size != before.stat.size || stat.mtime_ns != before.stat.mtime_ns,
        });
        let snapshot = Snapshot { stat, hash: scan.hash.unwrap_or_default() };
        self.snapshots.lock().record(path.absolute(), snapshot, scan.bytes);
        // A shortened line does not count as shown.
        if let (Ok(first), 0) = (u64::try_from(page.start_line), page.lines.n_cut) {
            let lines = first..first.saturating_add(page.lines.count);
            self.snapshots.lock().mark_shown(path.absolute(), lines, page.total_lines);
        }
        Ok(page)
    }
}

struct PageReader<'a> {
    file: File,
    path: &'a ProjectPath,
    stop: &'a dyn Fn() -> bool,
}

impl PageReader<'_> {
    fn scan_file(&mut self, stat: &FileStat) -> Result<FileScan, Failure> {
        // A larger file is never changed, so that it needs no hash, and not all of its lines are counted.
        let whole = stat.size <= MAX_CHANGED;
        let mut hasher = blake3::Hasher::new();
        let mut kept = Vec::new();
        let mut scan = FileScan {
            charset: Charset::UTF_8,
            bom: 0,
            hash: None,
            bytes: None,
            line_ends: LineEndCounts::default(),
        };
        let mut sample = Vec::new();
        let mut read = 0usize;
        // One byte more than the size: the end is detected without another read.
        let size = usize::try_from(stat.size).unwrap_or(usize::MAX).saturating_add(1);
        let mut chunk = vec![0; CHUNK.min(size)];
        let mut decoder = Charset::UTF_8.decoder();
        // The first bytes may complete a character of the chunk before.
        let mut unused_text = vec![0; 2 * chunk.len() + 16];
        let mut is_invalid = false;
        loop {
            // The file was just opened and is read from its beginning. Growth is detected at the end.
            let n = self.fill(&mut chunk, size - 1 - read.min(size - 1))?;
            let mut bytes = &chunk[..n];
            let ended = n < chunk.len();
            if read == 0 {
                let head = &bytes[..n.min(SNIFFED)];
                if let Some((charset, bom)) = Charset::of_bom(head) {
                    (scan.charset, scan.bom) = (charset, bom);
                } else if memchr::memchr(0, head).is_some() {
                    return Err(binary_failure(head, self.path.relative()));
                }
            }
            read += n;
            // In a large file only the first chunk counts and, for the rule about a lone `\r`, whether there is any `\n`.
            if !is_invalid && (whole || read <= CHUNK) {
                let is_last = whole && ended;
                let (result, ..) =
                    decoder.decode_to_utf8_without_replacement(bytes, &mut unused_text, is_last);
                is_invalid = matches!(result, DecoderResult::Malformed(..));
            }
            if whole {
                hasher.update(bytes);
            }
            if !sample.is_empty() || !bytes.is_ascii() {
                let is_before_sample = |byte: &&u8| sample.is_empty() && byte.is_ascii();
                let n_before = bytes.iter().take_while(is_before_sample).count();
                let room = GUESSED_FROM - sample.len();
                sample.extend(bytes[n_before..].iter().take(room));
            }
            if read == n {
                bytes = &bytes[scan.bom..];
            }
            scan.line_ends.count(bytes);
            if whole && ended && kept.is_empty() {
                chunk.truncate(n);
                kept = chunk;
                break;
            }
            if whole && read <= MAX_KEPT {
                kept.extend_from_slice(&chunk[..n]);
            }
            if ended || (!whole && scan.line_ends.lf > 0) {
                break;
            }
        }
        if whole {
            scan.hash = Some(hasher.finalize().to_hex().to_string());
            scan.bytes = (read <= MAX_KEPT).then_some(kept);
        }
        if scan.bom == 0 && is_invalid {
            scan.charset = Charset::guess(&sample);
        }
        if scan.charset.is_utf_16() {
            let mut ends = LineEndCounts::default();
            self.decode(&scan, |text| {
                ends.count(text);
                true
            })?;
            scan.line_ends = ends;
        }
        Ok(scan)
    }

    fn read_page(
        &mut self,
        scan: &FileScan,
        stat: FileStat,
        from: i64,
        limit: u64,
    ) -> Result<Page, Failure> {
        let ends = scan.line_ends;
        let line_ending = LineEnding::of_counts(ends.lf, ends.crlf, ends.cr);
        let end = if line_ending == LineEnding::Cr { b'\r' } else { b'\n' };
        let is_counted = scan.hash.is_some() || ends.lf == 0 || scan.charset.is_utf_16();
        let total_lines = is_counted.then(|| ends.n_lines(end));
        let first = match (u64::try_from(from), total_lines) {
            (Ok(first), _) => first,
            (Err(_), Some(total)) => (total + 1).saturating_sub(from.unsigned_abs()).max(1),
            (Err(_), None) => {
                let last = self.read_last_lines(scan, &stat, from.unsigned_abs(), limit)?;
                return Ok(Page { line_ending, ..last });
            }
        };
        let mut pager = Pager::new(end, first, limit);
        let to_the_end = self.decode(scan, |text| pager.feed(text))?;
        if to_the_end {
            pager.finish();
        }
        let total_lines = total_lines.or_else(|| to_the_end.then(|| pager.total()));
        if first > 1
            && let Some(total) = total_lines
            && first > total
        {
            let message = format!(
                "start_line {from} is past the end: {} has {total} lines",
                self.path.relative()
            );
            return Err(self
                .path
                .failure(ErrorCode::InvalidParam, message)
                .with_hint("-1 is the last line, -50 starts 50 lines before the end")
                .with_data("total_lines", total));
        }
        let lines = pager.into_lines();
        Ok(Page {
            start_line: i64::try_from(first).unwrap_or(i64::MAX),
            total_lines,
            more: total_lines.is_none_or(|total| first.saturating_add(lines.count) <= total),
            lines,
            stat,
            charset: scan.charset,
            line_ending,
            modified_externally: false,
            unsteady: false,
        })
    }

    /// Begins this many lines before the end of a large file; reads backwards, without the earlier lines.
    fn read_last_lines(
        &mut self,
        scan: &FileScan,
        stat: &FileStat,
        n_from_end: u64,
        limit: u64,
    ) -> Result<Page, Failure> {
        let mut begin = stat.size;
        let mut n_lines = 0;
        let mut chunk = vec![0; CHUNK];
        let bom = scan.bom as u64;
        'found: while begin > bom {
            let from = begin.saturating_sub(CHUNK as u64).max(bom);
            let piece = &mut chunk[..usize::try_from(begin - from).unwrap_or(CHUNK)];
            self.seek(from)?;
            let n = self.fill(piece, usize::MAX)?;
            for at in memchr::memrchr_iter(b'\n', &piece[..n]) {
                let line = from + at as u64 + 1;
                n_lines += u64::from(line < stat.size);
                if n_lines == n_from_end {
                    begin = line;
                    break 'found;
                }
            }
            begin = from;
        }
        let is_first = begin == bom;
        let n_lines = if is_first { n_lines + 1 } else { n_lines };
        let from_end = i64::try_from(n_lines).unwrap_or(i64::MAX);
        let start_line = if is_first { 1 } else { -from_end };
        let mut pager = Pager::new(b'\n', 1, limit);
        pager.offset = start_line.saturating_sub(1);
        if self.decode_from(scan, begin, |text| pager.feed(text))? {
            pager.finish();
        }
        let lines = pager.into_lines();
        Ok(Page {
            start_line,
            total_lines: is_first.then_some(n_lines),
            more: lines.count < n_lines,
            lines,
            stat: *stat,
            charset: scan.charset,
            line_ending: LineEnding::Lf,
            modified_externally: false,
            unsteady: false,
        })
    }

    /// Passes chunks of UTF-8 to `take`, until it returns false. Returns true at the end of the file.
    fn decode(
        &mut self,
        scan: &FileScan,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, Failure> {
        self.decode_from(scan, scan.bom as u64, take)
    }

    fn decode_from(
        &mut self,
        scan: &FileScan,
        begin: u64,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, Failure> {
        let charset = scan.charset;
        if let Some(bytes) = &scan.bytes
            && charset.is_utf_8()
        {
            let begin = usize::try_from(begin).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(take(&bytes[begin..]));
        }
        let mut chunk = vec![0; CHUNK];
        let mut decoder = (!charset.is_utf_8()).then(|| charset.decoder());
        let mut text = String::new();
        self.seek(begin)?;
        loop {
            let n = self.fill(&mut chunk, usize::MAX)?;
            let bytes = &chunk[..n];
            let ended = n < chunk.len();
            let continues = match &mut decoder {
                None => take(bytes),
                Some(decoder) => {
                    text.clear();
                    text.reserve(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(4 * CHUNK));
                    let _ = decoder.decode_to_string(bytes, &mut text, ended);
                    take(text.as_bytes())
                }
            };
            if !continues {
                return Ok(false);
            }
            if ended {
                return Ok(true);
            }
        }
    }

    fn seek(&mut self, to: u64) -> Result<(), Failure> {
        let sought = self.file.seek(SeekFrom::Start(to));
        sought.map(drop).map_err(|error| io_failure(&error, "read", self.path.relative()))
    }

    /// Ends early at the end of the file, or after `expected` bytes.
    fn fill(&mut self, chunk: &mut [u8], expected: usize) -> Result<usize, Failure> {
        if (self.stop)() {
            return Err(self.path.failure(ErrorCode::Cancelled, "interrupted"));
        }
        let mut n = 0;
        while n < chunk.len() && (n == 0 || n != expected) {
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
