//! Experiments: a suite of tasks, variants that change one thing, and what the results say. Pure: no file is
//! read and nothing runs here.

pub mod plan;
pub mod report;
pub mod results;
pub mod statistics;
pub mod suite;
pub mod variants;
