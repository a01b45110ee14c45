//! The loop and what it works with, from the inside out: [`context`] builds requests, [`tools`] act, [`mcp`] adds those
//! of other servers, [`registry`] checks and runs calls, [`kernel`] is the loop.

pub mod context;
pub mod kernel;
pub mod mcp;
pub mod registry;
pub mod tools;
