//! The wire formats, through the built binary.

mod gemini;
mod openai_responses;
