//! The machine: the user's files with their checkpoints, and processes in a sandbox.

pub mod exec;
pub mod workspace;
