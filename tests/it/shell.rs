//! Commands: how they are judged, run, and ended.

mod background;
mod everyday;
pub(crate) mod judge;
mod redirects;
