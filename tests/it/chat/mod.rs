//! The chat, driven as a person drives it: in a pseudo-terminal and in tmux.

mod pty;
mod shape;
mod tmux;
