//! Splits the body of an answer into texts for a decoder: the events of a stream, or one whole document. The
//! first byte determines which; the content type of servers is not reliable.

use super::sse::{EventLengthError, SseParser};

const MAX_EVENT_BYTES: usize = 16 << 20;
const MAX_DOCUMENT_BYTES: usize = 16 << 20;

pub(super) enum BodySplitter {
    /// Only white space and a byte order mark so far.
    Unknown,
    Events(SseParser),
    Document(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    HtmlPage,
    TooLong { limit: usize },
}

impl BodySplitter {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, BodyError> {
        match self {
            Self::Unknown => {
                let blank =
                    |byte: &u8| byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(byte);
                let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
                let bytes = &bytes[start..];
                *self = match bytes.first() {
                    None => return Ok(Vec::new()),
                    Some(b'<') => return Err(BodyError::HtmlPage),
                    Some(b'{' | b'[') => Self::Document(Vec::new()),
                    Some(_) => Self::Events(SseParser::with_limit(MAX_EVENT_BYTES)),
                };
                self.push(bytes)
            }
            Self::Events(parser) => parser
                .push(bytes)
                .map_err(|EventLengthError { limit }| BodyError::TooLong { limit }),
            Self::Document(document) => {
                document.extend_from_slice(bytes);
                if document.len() > MAX_DOCUMENT_BYTES {
                    return Err(BodyError::TooLong { limit: MAX_DOCUMENT_BYTES });
                }
                Ok(Vec::new())
            }
        }
    }

    pub(super) fn finish(&mut self) -> Vec<String> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Events(parser) => parser.finish().into_iter().collect(),
            Self::Document(document) => vec![String::from_utf8_lossy(document).into_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], expected: Result<&[&str], BodyError>) {
        let mut body = BodySplitter::Unknown;
        let mut texts = Vec::new();
        let outcome = chunks.iter().try_for_each(|chunk| {
            texts.extend(body.push(chunk.as_bytes())?);
            Ok(())
        });
        texts.extend(body.finish());
        let outcome = outcome.map(|()| texts);
        let expected = expected.map(|texts| texts.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(outcome, expected, "{chunks:?}");
    }

    #[test]
    fn body_format_is_detected_from_the_first_byte() {
        check(&["\n", "\u{feff} da", "ta: {}\n\n"], Ok(&["{}"]));
        check(&[": hello\n\ndata: {}\n\ndata: [DONE]"], Ok(&["{}", "[DONE]"]));
        check(&[" {\"a\"", ":1}"], Ok(&["{\"a\":1}"]));
        check(&["[{}]"], Ok(&["[{}]"]));
        check(&["\r\n<!doctype html>"], Err(BodyError::HtmlPage));
        check(&[" ", ""], Ok(&[]));
    }
}
