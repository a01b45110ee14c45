//! Learning from failure → retry → success: attempts, failure patterns, memory, reviews.
//!
//! Reading order: [`trace`] (what happened, as attempts), [`item`] (what is remembered of it), [`store`] (where that
//! lies). Nothing here calls a model or touches the project; `docs/LEARNING.md` tells the whole.

pub mod item;
pub mod store;
pub mod trace;
