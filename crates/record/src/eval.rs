//! Experiments: a suite of tasks, variants that change one thing, and a report. Reads no files and runs no commands.

pub mod plan;
pub mod report;
pub mod results;
pub mod statistics;
pub mod suite;
pub mod variants;
