//! Storage of traces and lessons: one SQLite file, shared by all agents of a user.

mod database_file;
mod sqlite;
mod terms;

pub use database_file::FILE_NAME;
pub use sqlite::{SqliteStore, StoreHealth};
pub use terms::index_terms;

use super::credit::Credit;
use super::lesson::Lesson;
use super::trace::ExecutionTrace;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the memory is locked by another process")]
    Locked,
    #[error("the memory cannot be used: {0}")]
    Broken(String),
    #[error("{0} is the beginning of {1} ids; write more of it")]
    Ambiguous(String, usize),
}

/// The result of storing a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    New,
    Reinforced,
}

/// The data of one turn, stored completely or not at all; of a long turn a part.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// A trace that is stored already is not changed.
    pub traces: Vec<ExecutionTrace>,
    pub lessons: Vec<Lesson>,
    pub credits: Vec<Credit>,
}
