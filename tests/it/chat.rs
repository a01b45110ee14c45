//! The chat, driven as by a user: in a pseudo-terminal and in tmux.

mod approvals;
mod background;
mod bad_input;
mod cells;
mod commands;
mod composer;
mod directives;
mod docs;
mod hidden_text;
mod keyboard;
mod manners;
mod pages;
mod planning;
mod queue;
mod requests;
mod screens;
mod session_commands;
mod settings;
mod shape;
mod spending;
mod steering;
mod tasks;
