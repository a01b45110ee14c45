//! A terminal code agent: a language model in a ReAct loop, with permissions, a sandbox, checkpoints and
//! recovery.
//!
//! The modules in reading order; `tests/it/architecture.rs` lists which module may import which:
//!
//! * [`cli`] parses the command line, [`config`] loads the settings, [`app`] composes a session;
//! * [`protocol`] defines the shared types, and `disk` opens files safely: they import no other module;
//! * [`workspace`], [`exec`], [`model`], [`permission`], [`context`], [`learning`]: independent parts that
//!   import only `protocol` and `disk`;
//! * [`tools`] and the [`registry`] that runs them;
//! * [`kernel`] the loop;
//! * [`extend`] files with which people extend the agent;
//! * [`record`], [`ui`] and [`otel`]: consumers of events; [`trace`]: views of a recorded session;
//! * [`eval`]: what an experiment with variants consists of, and what its results say.

pub mod app;
pub mod cli;
pub mod config;
pub mod extend;
