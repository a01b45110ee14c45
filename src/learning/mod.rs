//! Learning from failure → retry → success: attempts, failure patterns, memory, reviews.
//!
//! Reading order: [`trace`] (what happened, as attempts), [`item`] (what is remembered of it), [`store`] (where that
//! lies). [`fold`] makes traces of events, [`extract`] items of traces, [`pattern`] says when an item fits a call and
//! what it makes of it; what the rules see nothing in is a [`question`]. Nothing here calls a model or touches the project; `docs/LEARNING.md` tells the whole.

pub mod advisor;
pub mod call;
pub mod chain;
pub mod command;
pub mod credit;
mod difference;
mod evidence;
pub mod extract;
pub mod fold;
pub mod item;
mod leads;
pub mod lessons;
pub mod pattern;
pub mod question;
pub mod reflexion;
pub mod refuse;
mod relevance;
pub mod review;
pub mod store;
pub mod trace;
