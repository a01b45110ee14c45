//! Where traces, lessons and weights are kept: one SQLite file, shared by all agents of a user.
//!
//! `terms`: how texts are indexed and searched; `sqlite`: the store; `file`: creation, opening, damage.

mod file;
mod sqlite;
mod terms;

pub use file::FILE_NAME;
pub use sqlite::{Health, SqliteStore};
pub use terms::terms;

use super::credit::Credit;
use super::lesson::Lesson;
use super::trace::ExecutionTrace;

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds it for longer than is waited.
    #[error("the memory is locked by another process")]
    Locked,
    /// It cannot be read or written.
    #[error("the memory cannot be used: {0}")]
    Broken(String),
    /// Several ids begin with this.
    #[error("{0} is the beginning of {1} ids; write more of it")]
    Ambiguous(String, usize),
}

/// What storing a lesson came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It is new.
    New,
    /// It was known and is counted once more.
    Known,
}

/// What one turn leaves behind; stored as a whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The traces; one that is stored already is left as it is.
    pub traces: Vec<ExecutionTrace>,
    /// The lessons.
    pub lessons: Vec<Lesson>,
    /// How recalled lessons turned out.
    pub credits: Vec<Credit>,
}
