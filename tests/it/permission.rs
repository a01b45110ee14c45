//! What is allowed: directives of the user, trust in a folder, secrets.

mod directives;
mod secrets;
mod trust;
