//! Learning from failure → retry → success: attempts, lessons, their storage, and reviews.
//!
//! Reading order: [`call`] (a call and how it ended), [`attempt_chain`] (which later call resolved a failure), [`fold`]
//! (events to traces), [`pair`] and [`distil`] (traces to lessons), [`store`], [`recall`] (which lessons a model sees),
//! [`credit`] (whether they helped), [`review`]. Nothing here calls a model or reads the project; see `docs/LEARNING.md`.

pub mod attempt_chain;
pub mod call;
pub mod credit;
pub mod distil;
pub mod fold;
pub mod lesson;
pub mod pair;
pub mod recall;
pub mod refuse;
pub mod review;
pub mod store;
pub mod trace;
