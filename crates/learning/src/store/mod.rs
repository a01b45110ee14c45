//! Storage of traces, lessons and weights: one SQLite file, shared by all agents of a user.
//!
//! `terms`: how texts are indexed and searched; `sqlite`: the store; `file`: creation, opening, damage.

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
    /// It cannot be read or written.
    #[error("the memory cannot be used: {0}")]
    Broken(String),
    /// Several ids start with this.
    #[error("{0} is the beginning of {1} ids; write more of it")]
    Ambiguous(String, usize),
}

/// The result of storing a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    /// It is new.
    New,
    /// It was known, and its count was increased.
    Reinforced,
}

/// The data of one turn, of a long one its traces in parts; stored completely or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The traces; one that is stored already is not changed.
    pub traces: Vec<ExecutionTrace>,
    /// The lessons.
    pub lessons: Vec<Lesson>,
    /// The results of recalled lessons.
    pub credits: Vec<Credit>,
}
