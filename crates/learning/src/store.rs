//! Storage of traces, lessons and weights: one SQLite file, shared by all agents of a user.
//!
//! `terms`: how texts are indexed and searched; `sqlite`: the store; `database_file`: creation,
//! opening, damage.

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
    /// Another process holds the lock for too long.
    #[error("the memory is locked by another process")]
    Locked,
    /// The file cannot be read or written.
    #[error("the memory cannot be used: {0}")]
    Broken(String),
    /// Several ids start with this text.
    #[error("{0} is the beginning of {1} ids; write more of it")]
    Ambiguous(String, usize),
}

/// The result of storing a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    New,
    /// The count of the stored lesson was increased.
    Reinforced,
}

/// The data of one turn; stored completely or not at all. A long turn may store its traces in
/// parts.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// A trace that is stored already is not changed.
    pub traces: Vec<ExecutionTrace>,
    pub lessons: Vec<Lesson>,
    pub credits: Vec<Credit>,
}
