//! Files with which people extend the agent: their discovery and parsing.
//!
//! It knows the files only. What they mean for a session is decided in `app/`.

pub mod front_matter;
pub mod roles;
