//! Learning from failures that were resolved: attempts, lessons, their storage, and reviews.
//!
//! Reading order: [`call_record`] (a call and its result), [`attempt_chain`] (the later call that
//! resolved a failure), [`trace_builder`] (events to traces), [`pair`] and [`distillation`] (traces
//! to lessons), [`store`], [`recall`] (the lessons that a model sees), [`credit`] (whether they
//! helped), [`review`]. This module calls no model and does not read the project; see
//! `docs/LEARNING.md`.

pub mod attempt_chain;
pub mod call_record;
pub mod credit;
pub mod distillation;
pub mod lesson;
pub mod lesson_filter;
pub mod pair;
pub mod recall;
pub mod review;
pub mod store;
pub mod trace;
pub mod trace_builder;
