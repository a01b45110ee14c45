//! Views of a recorded session for people and scripts: events in, text or data out. It accesses no files.

pub mod normalise;
pub mod page;
