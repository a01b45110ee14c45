//! The wire format of `OpenAI`'s Responses. Nothing is stored at the server: each request contains the whole
//! conversation, and the reasoning in encrypted form.

mod decode;
mod encode;

pub(super) use decode::ResponsesDecoder;
pub(super) use encode::encode;

const PATH: &str = "responses";

/// Separates the messages of one answer in its text.
const SEPARATOR: &str = "\n\n";
