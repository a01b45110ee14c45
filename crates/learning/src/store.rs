//! Storage of lessons: in one SQLite file, shared by all agents of a user and with traces too; for a team in
//! PostgreSQL.

mod database_file;
mod outbox;
mod postgres;
mod sqlite;
mod terms;

pub use database_file::FILE_NAME;
pub use outbox::TeamReport;
pub use postgres::PostgresStore;
pub use sqlite::{SqliteStore, StoreHealth};
pub use terms::index_terms;

use serde::{Deserialize, Serialize};

use super::credit::Credit;
use super::lesson::{Lesson, Scope};
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
    #[error("the team's database cannot be reached: {0}")]
    Unreachable(String),
    /// A team's database cannot be used as it is.
    #[error("{0}")]
    Team(String),
    /// It would be refused again.
    #[error("the team's database refused it: {0}")]
    Rejected(String),
}

/// The result of storing a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    New,
    Reinforced,
}

/// The data of one turn, stored completely or not at all; of a long turn a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// A trace that is stored already is not changed.
    pub traces: Vec<ExecutionTrace>,
    pub lessons: Vec<Lesson>,
    pub credits: Vec<Credit>,
    /// What a team is to learn of it, later.
    pub reports: Vec<(Scope, TeamReport)>,
}

/// Whom a lesson of a team is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LessonState {
    /// Only one machine has learnt it, and it has helped nobody yet.
    Candidate,
    /// It is given to all.
    Proven,
    /// It hurts more machines than it helps, or a user forgot it.
    Retired,
}

/// A lesson with its state. Its counts are numbers of machines: which learnt it, which it helped and hurt.
#[derive(Clone, Debug)]
pub struct TeamLesson {
    pub lesson: Lesson,
    pub state: LessonState,
    /// The reason that a user gave with `agent memory forget`.
    pub reason: Option<String>,
}

/// What every store does with lessons. Counts are cases in the file of a user, and machines in the database of a team.
pub trait Store {
    /// Stores the data of a turn; returns the result for each lesson. Traces and reports are only for a file.
    fn commit(&self, batch: &Batch) -> Result<Vec<LearnOutcome>, StoreError>;

    /// All lessons of these scopes, including retired ones, the latest first; empty: of all scopes.
    fn lessons(&self, scopes: &[Scope]) -> Result<Vec<Lesson>, StoreError>;

    /// The lessons of these scopes that may be recalled for any task: those that the user wrote first, then the latest.
    fn latest_lessons(&self, scopes: &[Scope], limit: usize) -> Result<Vec<Lesson>, StoreError>;

    /// The lessons in use about exactly this failure ([`super::lesson::failure_key`]).
    fn lessons_about(&self, scopes: &[Scope], failure: &str) -> Result<Vec<Lesson>, StoreError>;

    /// The lessons in use of these scopes that have terms in common with a query ([`index_terms`]),
    /// the best first, each with its score; empty: of all scopes.
    fn matching_lessons(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<(f64, Lesson)>, StoreError>;

    /// The lesson whose id starts with this, including retired ones; an error if there are several.
    fn find_lesson(&self, id: &str) -> Result<Option<Lesson>, StoreError>;

    /// Removes a lesson; false if there was none.
    fn forget_lesson(&self, id: &str) -> Result<bool, StoreError>;
}

/// What a lesson is found by: its text, target, files and task.
fn searchable_text(lesson: &Lesson) -> String {
    let target = lesson.failure.as_ref().map_or("", |failure| failure.target.as_str());
    let subjects = lesson.subjects().join(" ");
    index_terms(&format!("{} {target} {subjects} {}", lesson.text, lesson.context))
}

/// Of lessons whose ids begin with this one: the lesson itself, or the only one.
fn single(id: &str, mut found: Vec<Lesson>) -> Result<Option<Lesson>, StoreError> {
    match found.iter().position(|lesson| lesson.id == id) {
        Some(exact) => Ok(Some(found.swap_remove(exact))),
        None if found.len() > 1 => Err(StoreError::Ambiguous(id.to_owned(), found.len())),
        None => Ok(found.pop()),
    }
}
