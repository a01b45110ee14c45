//! Spans, and the caller's span.

use super::metrics::Measurement;
use super::{Attributes, LogRecord};
use serde_json::Value as Json;

pub(super) type TraceId = [u8; 16];
pub(super) type SpanId = [u8; 8];

/// The caller's span, which contains the process (`TRACEPARENT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentSpan {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub is_sampled: bool,
}

impl ParentSpan {
    /// Parses the W3C format `00-TRACE-SPAN-FLAGS`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let (version, flags): ([u8; 1], [u8; 1]) = (parse_hex(version)?, parse_hex(parts.next()?)?);
        let (trace, span) = (parse_hex(trace)?, parse_hex(span)?);
        // A later version may have further parts.
        let is_valid = version != [0xff]
            && (version != [0] || parts.next().is_none())
            && trace != [0; 16]
            && span != [0; 8];
        is_valid.then_some(Self { trace, span, is_sampled: flags[0] & 1 == 1 })
    }
}

/// Requires exactly `N` bytes in lower-case hexadecimal digits.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let bytes = u128::from_str_radix(text, 16).ok()?.to_be_bytes();
    bytes[bytes.len() - N..].try_into().ok()
}

/// A finished span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    pub(super) is_client: bool,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    pub(super) is_error: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SpanEvent {
    pub(super) time: u64,
    pub(super) name: &'static str,
    pub(super) attributes: Attributes,
}

impl Span {
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Json>) {
        self.attributes.push((name, value.into()));
    }

    pub(super) fn set_some(&mut self, name: &'static str, value: Option<impl Into<Json>>) {
        self.attributes.extend(value.map(|value| (name, value.into())));
    }

    pub(super) fn text_attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(attribute, _)| *attribute == name)?.1.as_str()
    }
}

/// A record for the export.
#[derive(Clone, Debug, PartialEq)]
pub enum TelemetryRecord {
    Span(Box<Span>),
    Log(LogRecord),
    Measurement(Measurement),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_parents_are_parsed_strictly() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let parse = |text: &str| ParentSpan::parse(text);
        let parent = parse(&format!("00-{trace}-{span}-01")).expect("valid");
        assert!(parent.is_sampled && parent.trace[0] == 0x4b && parent.span[7] == 0xb7);
        assert!(parse(&format!("01-{trace}-{span}-00-more")).is_some_and(|it| !it.is_sampled));
        for text in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}-{}-01", "é".repeat(8)),
        ] {
            assert_eq!(parse(&text), None, "{text}");
        }
    }
}
