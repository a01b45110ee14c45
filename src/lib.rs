//! A terminal code agent: a language model in a ReAct loop, with permissions, a sandbox, checkpoints and
//! recovery.
//!
//! The front ends and the composition. What they compose is in `crates/` (`docs/ARCHITECTURE.md`):
//!
//! * [`cli`] parses the command line and runs the chat, one task, an editor or another program as a front end;
//! * [`config`] loads the settings, [`extend`] the files with which people extend the agent;
//! * `compat` reads the options, rules and settings of Claude Code;
//! * [`app`] composes a session from them.

pub mod app;
pub mod cli;
mod compat;
pub mod config;
pub mod extend;
