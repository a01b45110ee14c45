//! The configuration, and where the program keeps its files.

mod page;
mod policy;
mod state_dirs;
