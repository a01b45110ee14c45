//! What files with settings have in common: durations, errors about unknown keys, and types of several crates.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::most_similar;

/// Parses a duration: `90s`, `10m`, `1h 30m`, `500ms`, `30d`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    text.parse::<jiff::Span>()
        .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()))
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("{text:?} is not a duration; write it like 90s, 10m, 1h30m or 30d"))
}

/// Adds the most similar valid key to the message about an unknown key.
pub fn with_suggestion(message: &str) -> String {
    let message = message.trim_end().replace('\n', " ");
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let suggestion = match names.split_first() {
        Some((wrong, known)) if message.starts_with("unknown field") => {
            let meant = most_similar(wrong, known.iter().copied())
                .map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
            Some(format!("unknown key `{wrong}`{meant} (known here: {})", known.join(", ")))
        }
        _ => None,
    };
    suggestion.unwrap_or(message)
}

/// The mechanism of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxBackend {
    /// The best available one.
    #[default]
    Auto,
    /// Namespaces, Landlock and seccomp.
    Namespaces,
    /// Landlock and seccomp alone.
    Landlock,
}

/// The network of commands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// None.
    #[default]
    Off,
    /// A loopback interface that the commands of a session share.
    Loopback,
    /// The network of the user.
    On,
}

impl SandboxNetwork {
    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Loopback => "loopback",
            Self::On => "on",
        }
    }
}
