//! The wire of `OpenAI`'s Chat Completions, which most servers speak more or less: a pure encoder and a
//! pure decoder.

mod decode;
mod encode;

pub(super) use decode::{Broken, Decoder, Ids};
pub(super) use encode::encode;

/// What one server wants differently from most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// It takes `max_completion_tokens` and refuses `max_tokens`.
    pub max_completion_tokens: bool,
    /// It refuses `stream_options`, with which we ask for the usage.
    pub no_stream_options: bool,
    /// It holds an answer to a JSON Schema, and takes no other temperature than its models' own.
    pub structured_outputs: bool,
}
