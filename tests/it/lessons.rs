//! Lessons: how they are learnt, stored and used.

mod distil;
mod learning;
mod learning_traces;
pub(crate) mod memory;
mod memory_use;
pub(crate) mod recall;
mod stores;
mod team;
