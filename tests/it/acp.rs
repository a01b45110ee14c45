//! `agent acp`, driven by the client of the protocol's own crate (`editor.rs`) and by raw lines (`bad_input.rs`).

mod bad_input;
mod docs;
mod editor;
mod ending;
mod late;
mod prompts;
mod sessions;
mod turns;
