//! The machine: the user's files with their checkpoints, and processes in a sandbox.

pub mod exec;
pub mod git_guard;
pub mod workspace;
