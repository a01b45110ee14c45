//! The wire formats, through the built binary.

mod anthropic_messages;
mod faults;
mod gemini;
mod openai_chat;
mod openai_responses;
