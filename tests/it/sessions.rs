//! Recorded sessions: resumed, undone, kept, and played again.

mod checkpoints;
mod copies;
mod receipt;
pub(crate) mod replay;
mod resume;
mod retention;
mod session;
mod undo;
mod undo_properties;
