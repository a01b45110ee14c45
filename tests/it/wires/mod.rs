//! The wire formats, through the built binary.

pub(crate) mod anthropic_messages;
mod faults;
pub(crate) mod gemini;
mod openai_chat;
pub(crate) mod openai_responses;
mod switching;
mod text_calls;
