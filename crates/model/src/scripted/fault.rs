//! Faults that a script can simulate.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(super) const ALL: [Self; 11] = [
        Self::BrokenJson,
        Self::UnknownTool,
        Self::Empty,
        Self::Length,
        Self::Refused,
        Self::RateLimited,
        Self::Overloaded,
        Self::Unauthorized,
        Self::Overflow,
        Self::Hangup,
        Self::Hang,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BrokenJson => "broken_json",
            Self::UnknownTool => "unknown_tool",
            Self::Empty => "empty",
            Self::Length => "length",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unauthorized => "unauthorized",
            Self::Overflow => "overflow",
            Self::Hangup => "hangup",
            Self::Hang => "hang",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| {
            format!("unknown fault `{name}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }

    pub(super) fn replaces_answer(self) -> bool {
        matches!(self, Self::Empty | Self::Unauthorized | Self::Overflow)
    }
}
