//! What users add: commands and skills.

mod own_commands;
mod skills;
