//! The wire format of `OpenAI`'s Chat Completions, which most servers support with deviations: see
//! [`Dialect`](agent_protocol::provider::Dialect).

mod decode;
mod encode;
mod thinking;

pub(super) use decode::ChatDecoder;
pub(super) use encode::encode;

const PATH: &str = "chat/completions";
