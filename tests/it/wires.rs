//! The wire formats, through the built binary.

pub(crate) mod anthropic_messages;
mod bounds;
mod fallback;
mod faults;
pub(crate) mod gemini;
pub(crate) mod http;
mod openai_chat;
pub(crate) mod openai_responses;
mod presets;
mod switching;
mod text_calls;
mod thinking;
mod windows;
