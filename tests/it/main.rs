//! Integration tests: the built binary, a real server on loopback, real files and real bash.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the tests start the binary and look after it")]
#![expect(clippy::similar_names, reason = "a test and its text are told apart well enough")]

mod acp;
mod agents;
mod architecture;
mod background;
mod chat;
mod cli;
mod configuration;
mod extend;
mod files;
mod hooks;
mod kernel;
mod lessons;
mod mcp;
mod permission;
mod recovery;
mod sandbox;
mod sdk;
mod sessions;
mod shell;
mod support;
mod trace;
mod web;
mod wires;
