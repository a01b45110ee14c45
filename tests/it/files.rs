//! The file tools: what they do to files, names, links and repositories.

mod encodings;
mod file_contract;
mod fuzz;
mod images;
mod never_lose;
mod paths;
pub(crate) mod properties;
mod race;
mod repository;
mod symlinks;
mod tools;
