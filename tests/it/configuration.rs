//! The configuration, and where the program keeps its files.

mod page;
mod state_dirs;
