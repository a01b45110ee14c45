//! Faults that a script can simulate.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    BrokenJson,
    UnknownTool,
    Empty,
    Length,
    Refused,
    RateLimited,
    Overloaded,
    Unauthorized,
    Overflow,
    Hangup,
    Hang,
}

impl Fault {
    pub(super) fn replaces_answer(self) -> bool {
        matches!(self, Self::Empty | Self::Unauthorized | Self::Overflow)
    }
}
