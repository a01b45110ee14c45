//! The command line: `agent run`, the other subcommands, options, and bad input.

mod bad_input;
mod claude_options;
mod commands;
mod eval;
mod integration;
mod run;
