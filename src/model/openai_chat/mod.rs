//! The wire format of `OpenAI`'s Chat Completions, which most servers support with deviations: a pure encoder
//! and a pure decoder.

mod decode;
mod encode;

pub(super) use decode::{Broken, Decoder, Ids};
pub(super) use encode::encode;

/// Deviations of a server from the usual behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// It accepts `max_completion_tokens` and rejects `max_tokens`.
    pub max_completion_tokens: bool,
    /// It rejects `stream_options`, which requests the usage.
    pub no_stream_options: bool,
    /// It enforces a JSON Schema, and rejects other temperatures than the default.
    pub structured_outputs: bool,
}
