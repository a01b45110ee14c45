//! Where traces and items lie: a trait, small enough that a shared database can follow, and one file behind it.
//!
//! Reading order: [`SqliteStore`], [`words`] (what a text is found by), [`search`] (how well it fits), `near` (when
//! two items say the same), `questions`, `index` (items in the database), `file` (made, opened, set aside).

mod file;
mod index;
mod near;
mod questions;
pub mod search;
mod sqlite;
pub mod words;

pub use file::FILE_NAME;
pub use sqlite::{Health, SqliteStore};

use super::item::{Item, Scope};
use super::question::Question;
use super::trace::ExecutionTrace;
use crate::protocol::recall::ItemKind;

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds it for longer than is waited.
    #[error("the memory is locked by another process")]
    Locked,
    /// It can not be read or written.
    #[error("the memory can not be used: {0}")]
    Broken(String),
    /// An id that several begin with.
    #[error("{0} is the beginning of {1} items; write more of it")]
    Ambiguous(String, usize),
}

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Words of any language, an error message, an identifier.
    pub text: String,
    /// Items of this project and those that hold everywhere; `None`: of all projects.
    pub project: Option<String>,
    /// Only these kinds; empty: all.
    pub kinds: Vec<ItemKind>,
    /// At most so many.
    pub limit: usize,
    /// Now, in milliseconds since 1970: what is recent counts more.
    pub now_ms: i64,
}

/// What was found, and why it stands where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The item.
    pub item: Item,
    /// Its score (`docs/LEARNING.md`), at least 0; better is more.
    pub score: f64,
    /// The part of the query's weight that its words cover, from 0 to 1: below a bound nothing is shown
    /// to a model unasked.
    pub relevance: f64,
}

/// What learning an item came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It is new.
    New,
    /// It was known, exactly or nearly: the item of this id is stronger now.
    Known(String),
}

/// How an item that was used turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It helped.
    Won,
    /// It did not.
    Lost,
}

/// What keeps traces and items. What it has answered `Ok` to survives a crash of the process.
pub trait Store: Send {
    /// Keeps what was learnt from a task, all or nothing: `traces` (one that is there already is left as it
    /// is), `items`, `credits`, `questions`, and that the session's events are reviewed up to `seq`.
    ///
    /// What is learnt again makes the item stronger that says the same (exactly or nearly). Where the session is
    /// reviewed that far already, or further than `after`, another process has done this work: only traces that are
    /// missing are added.
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Learned>, StoreError>;

    /// Up to which event a session was reviewed; 0: not at all.
    fn reviewed(&self, session: &str) -> Result<u64, StoreError>;

    /// All items of these scopes that are in use, the newest first; empty: of all scopes.
    fn items(&self, scopes: &[Scope]) -> Result<Vec<Item>, StoreError>;

    /// The item whose id begins like this, in use or not; an error where there are several.
    fn item(&self, id: &str) -> Result<Option<Item>, StoreError>;

    /// Writes an item as it is given: by hand, or by a review.
    fn put(&mut self, item: &Item) -> Result<(), StoreError>;

    /// Forgets an item; false where there was none. A failure that it was told on may be asked about again, unless the
    /// item had stopped helping.
    fn forget(&mut self, id: &str) -> Result<bool, StoreError>;

    /// The best matches first.
    fn search(&self, query: &Query) -> Result<Vec<Found>, StoreError>;

    /// Traces that began at or after this moment, the oldest first; of one project or of all.
    fn traces(
        &self,
        since_ms: i64,
        project: Option<&str>,
    ) -> Result<Vec<ExecutionTrace>, StoreError>;

    /// The open questions of a project or of all, those first that were asked least.
    fn questions(&self, project: Option<&str>) -> Result<Vec<Question>, StoreError>;

    /// A question is asked now; false where it is open no longer, or was asked too often.
    fn ask(&mut self, id: &str) -> Result<bool, StoreError>;

    /// A question was answered: these items are learnt, and it is closed. `None`: the answer could not be used; at
    /// the second such answer it is closed too. Where another process has closed it, nothing is learnt.
    fn answer(&mut self, id: &str, items: Option<&[Item]>) -> Result<Vec<Learned>, StoreError>;

    /// The weight of a skill or methodology, 0.5 where nothing is known.
    fn weight(&self, subject: &str) -> Result<f64, StoreError>;

    /// Sets the weight of a skill or methodology.
    fn set_weight(&mut self, subject: &str, weight: f64) -> Result<(), StoreError>;

    /// Drops traces older than this and what is over the bounds, the least used first; how many went. Questions
    /// older than 30 days go too.
    fn prune(&mut self, before_ms: i64, max_items: usize) -> Result<usize, StoreError>;
}

/// What one task leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The session.
    pub session: String,
    /// The number of the last event that went into it.
    pub seq: u64,
    /// What happened.
    pub traces: Vec<ExecutionTrace>,
    /// What is to be remembered.
    pub items: Vec<Item>,
    /// Ids of items that were used, and how that turned out.
    pub credits: Vec<(String, Outcome)>,
    /// What a model may be asked of it.
    pub questions: Vec<Question>,
    /// The event up to which the session had been reviewed when this was worked out of its record. Where another
    /// process has written more of it since, nothing is learnt or credited a second time.
    pub after: Option<u64>,
    /// Nobody trusts the folder that it comes from: its items stay in their scopes, and no item of another project
    /// becomes the user's by them.
    pub is_untrusted: bool,
}
