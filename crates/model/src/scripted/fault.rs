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
    pub(super) const NAMES: [(&'static str, Self); 11] = [
        ("broken_json", Self::BrokenJson),
        ("unknown_tool", Self::UnknownTool),
        ("empty", Self::Empty),
        ("length", Self::Length),
        ("refused", Self::Refused),
        ("rate_limited", Self::RateLimited),
        ("overloaded", Self::Overloaded),
        ("unauthorized", Self::Unauthorized),
        ("overflow", Self::Overflow),
        ("hangup", Self::Hangup),
        ("hang", Self::Hang),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, fault)| *fault == self).map_or("", |(name, _)| name)
    }

    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.into_iter().find(|(own, _)| *own == name);
        found.map(|(_, fault)| fault).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            format!("unknown fault `{name}`; there are {names}")
        })
    }

    pub(super) fn replaces_answer(self) -> bool {
        matches!(self, Self::Empty | Self::Unauthorized | Self::Overflow)
    }
}
