//! Integration tests: the built binary, a real server on loopback, real files and real bash.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the tests start the binary and look after it")]
#![expect(clippy::similar_names, reason = "a test and its text are told apart well enough")]

mod architecture;
mod attention;
mod background;
mod bad_input;
mod batch;
mod chat;
mod checkpoints;
mod checks;
mod commands;
mod configuration;
mod context;
mod directives;
mod distil;
mod encodings;
mod everyday;
mod fallback;
mod file_contract;
mod fuzz;
mod host_programs;
mod learning;
mod learning_traces;
mod memory;
mod memory_use;
mod never_lose;
mod paths;
mod prompts;
mod properties;
mod race;
mod read_only;
mod recall;
mod recovery;
mod redirects;
mod repository;
mod resume;
mod run;
mod sandbox;
mod sandbox_closed;
mod sandbox_git;
mod sandbox_network;
mod secrets;
mod server;
mod session;
mod shell;
mod state_dirs;
mod support;
mod symlinks;
mod tools;
mod trust;
mod undo;
mod verify;
mod wire;
mod wire_record;
mod wires;
