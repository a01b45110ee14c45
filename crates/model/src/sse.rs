//! Parses server-sent events from bytes that may be split anywhere.
//!
//! Only the `data` of an event is kept: the supported wire formats repeat the event's name inside it.

pub(super) struct SseParser {
    /// Bytes of the incomplete line.
    line: Vec<u8>,
    /// `data` of the incomplete event.
    data: Option<String>,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
    /// No line is complete yet: a byte order mark may occur.
    at_start: bool,
    max_bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventLengthError {
    pub(super) limit: usize,
}

impl SseParser {
    pub(super) fn with_limit(max_bytes: usize) -> Self {
        Self { line: Vec::new(), data: None, after_cr: false, at_start: true, max_bytes }
    }

    /// Returns the data of every event that the bytes complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, EventLengthError> {
        let mut events = Vec::new();
        if let (true, [first, rest @ ..]) = (self.after_cr, bytes) {
            self.after_cr = false;
            bytes = if *first == b'\n' { rest } else { bytes };
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&bytes[..end])?;
            events.extend(self.end_line());
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            match bytes {
                [b'\n', rest @ ..] if is_cr => bytes = rest,
                [] => self.after_cr = is_cr,
                _ => {}
            }
        }
        self.extend_line(bytes)?;
        Ok(events)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), EventLengthError> {
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.data.as_ref().map_or(0, String::len) > self.max_bytes {
            return Err(EventLengthError { limit: self.max_bytes });
        }
        Ok(())
    }

    /// The standard drops an event without its last empty line, but some servers omit that line.
    pub(super) fn finish(&mut self) -> Option<String> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.data.take()
    }

    /// An empty line ends the event.
    fn end_line(&mut self) -> Option<String> {
        let mut whole = std::mem::take(&mut self.line);
        let mut line = whole.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.data.take();
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        if field == b"data" {
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                None => self.data = Some(value.into_owned()),
            }
        }
        // Comments (keep-alives), names, ids and retry times are not used.
        whole.clear();
        self.line = whole;
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(chunks: &[&[u8]]) -> Result<Vec<String>, EventLengthError> {
        let mut parser = SseParser::with_limit(100);
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(parser.push(chunk)?);
        }
        events.extend(parser.finish());
        Ok(events)
    }

    fn check(text: &str, expected: &[&str]) {
        let expected = expected.iter().map(|&event| event.to_owned()).collect::<Vec<_>>();
        assert_eq!(events(&[text.as_bytes()]), Ok(expected), "{text:?}");
    }

    #[test]
    fn sse_events_end_at_an_empty_line_with_any_line_ending() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data:a\n\ndata:  b\n\n", &["a", " b"]);
        check("data: a", &["a"]);
        check("data: a\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("", &[]);
    }

    #[test]
    fn comments_and_other_fields_are_skipped() {
        check(": keep-alive\n\nevent: x\nid: 3\nretry: 1\ndata: a\n\n", &["a"]);
        check("event: ping\n\ndatax: a\n\n", &[]);
        check("data: a\n: in between\ndata: b\n\n", &["a\nb"]);
        check("data\n\n", &[""]);
    }

    #[test]
    fn sse_line_over_the_limit_is_an_error() {
        let long = "x".repeat(101);
        assert_eq!(events(&[long.as_bytes()]), Err(EventLengthError { limit: 100 }));
        let lines = "data: 123456789\n".repeat(20);
        assert_eq!(events(&[lines.as_bytes()]), Err(EventLengthError { limit: 100 }));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            pieces in prop::collection::vec(
                prop_oneof![
                    Just("data: "), Just("é😀"), Just("\r"), Just("\n"), Just("\r\n"), Just("\n\n"),
                    Just(":"), Just("x"), Just("\u{feff}"), Just("event: a\n"),
                ],
                0..20,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = pieces.concat().into_bytes();
            let mut cuts = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect::<Vec<_>>();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect::<Vec<_>>();
            prop_assert_eq!(events(&chunks), events(&[&bytes]));
        }
    }
}
