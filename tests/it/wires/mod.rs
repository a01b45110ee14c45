//! The wire formats, through the built binary.

mod gemini;
