//! The wire formats, through the built binary.

mod faults;
mod gemini;
mod openai_chat;
mod openai_responses;
