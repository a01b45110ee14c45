//! The loop of a turn: what requests contain, checks of the answer, questions to the user.

mod ask_user;
mod attention;
mod checks;
pub(crate) mod context;
pub(crate) mod prompts;
mod small_windows;
mod verify;
