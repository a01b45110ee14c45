//! The address and settings of a model.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::retry::RetrySettings;
use super::urls::{is_local, parse_base_url, strip_secrets};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::provider::{Dialect, Effort, EffortField, WindowQuestion, WireFormat};

/// Describes the tools to a model whose server has no function calling.
pub const TOOLS_IN_TEXT: Prompt = Prompt::named("tools_in_text.md");

/// The address and settings of a model. Its `Debug` shows neither the key nor any header.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// `provider/model`, as in the configuration.
    pub id: String,
    /// Name at the server.
    pub model: String,
    /// The base URL, usually with `/v1` at its end. A query is kept.
    pub base_url: String,
    /// `None`: no key is sent.
    pub api_key: Option<String>,
    /// The source of the key, or the variable where it is expected: for messages.
    pub key_source: String,
    /// Sent with every request; they take precedence over ours.
    pub headers: Vec<(String, String)>,
    /// Trusted besides the system's, in PEM form.
    pub ca_file: Option<PathBuf>,
    /// `none` for no proxy at all; `None`: the environment decides.
    pub proxy: Option<String>,
    pub timeouts: Timeouts,
    pub retries: RetrySettings,
    pub wire: WireFormat,
    pub dialect: Dialect,
    /// Only Responses: reasoning that can be sent back is requested.
    pub returns_reasoning: bool,
    /// The model accepts settings of its thinking. `None`: they are sent if an effort is configured.
    pub thinking: Option<bool>,
    pub tools_in_text: String,
    /// What the server is asked about the model's window, in this order.
    pub window_questions: Vec<&'static WindowQuestion>,
}

/// Time limits of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// `None`: 5 minutes; 30 in a private network or on this machine.
    pub first_byte: Option<Duration>,
    /// Between parts of an answer. `None`: 2 minutes; 10 in a private network or on this machine.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), first_byte: None, idle: None }
    }
}

impl Endpoint {
    /// The model `provider/model` at this address, with default settings.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        let (id, base_url) = (id.into(), base_url.into());
        let model = id.split_once('/').map_or(id.as_str(), |(_, model)| model).to_owned();
        Self {
            id,
            model,
            base_url,
            returns_reasoning: true,
            tools_in_text: Prompts::default().text(TOOLS_IN_TEXT).to_owned(),
            ..Self::default()
        }
    }

    /// Whether the server is on this machine or in a private network.
    pub fn is_local(&self) -> bool {
        parse_base_url(self).is_ok_and(|base| is_local(&base))
    }

    pub(super) fn accepts_effort(&self, effort: Effort) -> bool {
        self.wire.has_effort(effort) && self.dialect.effort != Some(EffortField::Unsupported)
    }

    /// Why this effort and this temperature are not sent to the server: one line each.
    pub fn unsent_settings(&self, effort: Option<Effort>, temperature: Option<f32>) -> Vec<String> {
        let Self { id, wire, dialect, .. } = self;
        let provider = id.split_once('/').map_or(id.as_str(), |(provider, _)| provider);
        let mut lines = Vec::new();
        if let Some(effort) = effort.filter(|effort| !self.accepts_effort(*effort)) {
            lines.push(format!(
                "{id}: effort {} is not sent: {provider} has no value for it with the wire format {}",
                effort.as_str(),
                wire.as_str()
            ));
        }
        if let (Some(temperature), false) = (temperature, dialect.has_temperature()) {
            lines.push(format!(
                "{id}: temperature {temperature} is not sent: {provider} accepts only its default \
                 (providers.{provider}.dialect.temperature = true sends it)"
            ));
        }
        lines
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("id", &self.id)
            .field("base_url", &strip_secrets(&self.base_url))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_name_follows_the_provider_prefix() {
        let endpoint = Endpoint::new("router/meta/llama-3", "http://h/v1");
        assert_eq!(endpoint.model, "meta/llama-3");
    }

    #[test]
    fn debug_shows_no_secret() {
        let mut endpoint = Endpoint::new("p/m", "https://me:secret1@h/v1?key=secret2");
        endpoint.api_key = Some("secret3".into());
        endpoint.headers.push(("x-key".into(), "secret4".into()));
        endpoint.proxy = Some("http://me:secret5@proxy".into());
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("https://h/v1") && shown.contains("x-key"), "{shown}");
    }
}
