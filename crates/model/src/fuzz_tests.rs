//! Feeds the decoders of the wire formats with damaged streams. `AGENT_FUZZ_SECONDS` and `AGENT_FUZZ_SEED` as in
//! `tests/it/files/fuzz.rs`.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::body_splitter::BodySplitter;
use super::wire_format::{AnswerDecoder, CallIds};
use agent_protocol::model::{Delta, Purpose, Reply, Request, StopReason};

/// Decodes damaged versions of these streams, each a list of the data of its events. `is_end`:
/// whether the text, as it reached the decoder, contains the end mark of this wire format.
///
/// No stream makes the decoder panic, and an answer without that mark never counts as complete.
pub(super) fn decode_damaged<'a>(
    streams: &[Vec<String>],
    is_end: impl Fn(&str) -> bool,
    decoder: impl Fn(CallIds<'a>) -> Box<dyn AnswerDecoder + 'a>,
    next_id: &'a AtomicU64,
) {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = variable("AGENT_FUZZ_SECONDS");
    let seed = variable("AGENT_FUZZ_SEED")
        .unwrap_or_else(|| seconds.map_or(1, |_| u64::from(std::process::id())));
    let time = Duration::from_secs(seconds.unwrap_or(2));
    let (begin, mut random) = (Instant::now(), Random(seed));
    let (mut n_streams, mut n_complete) = (0, 0);
    while begin.elapsed() < time {
        let body = random.body(streams);
        let (mut decoder, mut ended) = (decoder(ids(next_id)), false);
        let mut reply = Reply::default();
        for text in random.texts(&body) {
            // The decoders accept white space that is none in JSON.
            ended |= is_end(text.trim());
            let Ok(deltas) = decoder.push(&text) else { break };
            for delta in &deltas {
                reply.apply_delta(delta);
            }
            let stop = decoder.stop_reason();
            let is_complete = matches!(stop, Some(StopReason::End | StopReason::ToolCalls));
            assert!(
                ended || !is_complete,
                "seed {seed}, stream {n_streams}: {stop:?} without an end: {}",
                String::from_utf8_lossy(&body)
            );
            if decoder.is_stream_over() {
                break;
            }
        }
        if let Some(stop) = decoder.stop_reason() {
            reply.apply_delta(&Delta::Done(stop));
            n_complete += 1;
        }
        n_streams += 1;
    }
    assert!(
        n_complete * 10 > n_streams,
        "hardly any stream is decoded: {n_complete} of {n_streams}"
    );
}

fn ids(next: &AtomicU64) -> CallIds<'_> {
    CallIds::new("call_", next, &Request::new(Purpose::Main, "", &[]))
}

/// Reproducible random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("usize has at most 64 bits");
        usize::try_from(self.next() % limit).expect("it is below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A damaged stream, or one of its events as a document.
    fn body(&mut self, streams: &[Vec<String>]) -> Vec<u8> {
        let mut events = streams[self.below(streams.len())].clone();
        for _ in 0..self.below(4) {
            self.damage_events(&mut events, streams);
        }
        let mut body = if events.len() == 1 && self.one_in(2) {
            events.remove(0).into_bytes()
        } else {
            events.iter().flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect()
        };
        if !body.is_empty() && self.one_in(4) {
            body.truncate(self.below(body.len()));
        }
        if self.one_in(4) {
            for _ in 0..self.below(8) {
                if !body.is_empty() {
                    let at = self.below(body.len());
                    body[at] = self.next().to_le_bytes()[0];
                }
            }
        }
        body
    }

    fn damage_events(&mut self, events: &mut Vec<String>, streams: &[Vec<String>]) {
        if events.is_empty() {
            return;
        }
        let (at, other) = (self.below(events.len()), self.below(events.len()));
        match self.below(6) {
            0 => drop(events.remove(at)),
            1 => events.insert(other, events[at].clone()),
            2 => events.swap(at, other),
            3 => events.truncate(at),
            4 => {
                let stream = &streams[self.below(streams.len())];
                events.insert(at, stream[self.below(stream.len())].clone());
            }
            _ => {
                if let Ok(mut event) = serde_json::from_str(&events[at]) {
                    self.damage_value(&mut event);
                    events[at] = event.to_string();
                }
            }
        }
    }

    fn damage_value(&mut self, value: &mut Value) {
        let n_inside = match value {
            Value::Object(fields) => fields.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if n_inside > 0 && !self.one_in(6) {
            let at = self.below(n_inside);
            let inside = match value {
                Value::Object(fields) => fields.values_mut().nth(at),
                Value::Array(items) => items.get_mut(at),
                _ => None,
            };
            return self.damage_value(inside.expect("there are as many"));
        }
        let values = [
            json!(null),
            json!(""),
            json!("é\u{0}"),
            json!(-1),
            json!(u64::MAX),
            json!([]),
            json!({}),
        ];
        *value = values[self.below(values.len())].clone();
    }

    /// The texts that reach the decoder if the body arrives in random chunks.
    fn texts(&mut self, body: &[u8]) -> Vec<String> {
        let (mut parser, mut texts, mut rest) = (BodySplitter::Unknown, Vec::new(), body);
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(1 + self.below(rest.len()));
            match parser.push(chunk) {
                Ok(complete) => texts.extend(complete),
                Err(_) => return texts,
            }
            rest = later;
        }
        texts.extend(parser.finish());
        texts
    }
}
