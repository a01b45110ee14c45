//! A terminal code agent: a language model in a ReAct loop, and everything around it controlled,
//! diagnosable and recoverable.
//!
//! The modules in reading order; imports run downwards only (`tests/it/architecture.rs` keeps it):
//!
//! * [`cli`] what was typed, [`config`] what it means, [`app`] the composition root;
//! * [`protocol`] the vocabulary, and `disk`, which opens without surprises: they import nothing of ours;
//! * [`workspace`], [`exec`], [`model`], [`permission`], [`context`], [`learning`]: rooms that know only the
//!   vocabulary;
//! * [`tools`] and the one gate in front of them, [`registry`];
//! * [`kernel`] the loop;
//! * [`record`] and [`ui`]: consumers of events.

pub mod app;
pub mod cli;
pub mod config;
pub mod context;
mod disk;
pub mod exec;
pub mod kernel;
pub mod learning;
pub mod model;
pub mod permission;
pub mod protocol;
pub mod record;
pub mod registry;
pub mod tools;
pub mod ui;
pub mod workspace;
