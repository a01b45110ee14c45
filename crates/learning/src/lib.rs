//! Learning from failures that were resolved: attempts, lessons, their storage, and reviews.
//!
//! Reading order: [`call`] (a call and its result), [`attempt_chain`] (the later call that resolved a
//! failure), [`fold`] (events to traces), [`pair`] and [`distil`] (traces to lessons), [`store`], [`recall`]
//! (the lessons that a model sees), [`credit`] (whether they helped), [`review`]. This module calls no model
//! and does not read the project; see `docs/LEARNING.md`.

pub mod attempt_chain;
pub mod call;
pub mod credit;
pub mod distil;
pub mod fold;
pub mod lesson;
pub mod lesson_filter;
pub mod pair;
pub mod recall;
pub mod review;
pub mod store;
pub mod trace;
