//! The chat, driven as a person drives it: in a pseudo-terminal and in tmux.

mod approvals;
mod commands;
mod composer;
mod docs;
mod freeze;
mod manners;
mod pty;
mod shape;
mod steering;
mod tmux;
