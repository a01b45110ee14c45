//! The wire format of Anthropic's Messages API, which many providers offer besides Chat Completions.

mod decode;
mod encode;
mod schema;

pub(super) use decode::AnthropicDecoder;
pub(super) use encode::encode;

const PATH: &str = "messages";
