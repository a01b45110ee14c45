//! Configuration keys of providers and models.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use agent_protocol::provider::{Dialect, Effort, WireFormat};

/// One provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTable {
    /// Wire format: `openai-chat`, `openai-responses`, `anthropic-messages` or `gemini`.
    #[schemars(example = &"openai-chat")]
    pub wire: Option<WireFormat>,
    /// Deviations of the server from the wire format; each outranks that of the preset.
    pub dialect: Dialect,
    /// The base URL of the server; without a path, the version is added.
    #[schemars(example = &"http://127.0.0.1:8000/v1")]
    pub base_url: Option<String>,
    /// The environment variable that contains the key.
    #[schemars(example = &"MY_SERVER_KEY")]
    pub api_key_env: Option<String>,
    /// A command that prints the key. It runs as you, outside the sandbox: in your home, without the parts of
    /// `PATH` and similar variables that are in the project.
    #[schemars(example = &"pass show my-server")]
    pub api_key_command: Option<String>,
    /// Additional HTTP headers.
    #[schemars(example = serde_json::json!({"X-Team": "blue"}))]
    pub headers: BTreeMap<String, String>,
    /// A file of certificates (PEM) to trust in addition to those of the system.
    #[schemars(example = &"/etc/ssl/my-ca.pem")]
    pub ca_file: Option<String>,
    /// A proxy for this provider.
    #[schemars(example = &"http://127.0.0.1:3128")]
    pub proxy: Option<String>,
    /// Whether its models accept images.
    #[schemars(example = false)]
    pub images: Option<bool>,
}

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTable {
    /// Limit of tokens of a request and its answer together; unset: the server is asked.
    #[schemars(range(min = 1024))]
    #[schemars(example = 131_072)]
    pub context_window: Option<u64>,
    /// Limit of tokens of an answer; unset: what is known of the model, otherwise a quarter of the window, at most 32,000.
    #[schemars(example = 16_384)]
    pub max_output_tokens: Option<u64>,
    /// As the global `effort`, for this model.
    #[schemars(example = &"low")]
    pub effort: Option<Effort>,
    /// As the global `temperature`, for this model.
    #[schemars(range(min = 0.0, max = 2.0))]
    #[schemars(example = 0.2)]
    pub temperature: Option<f32>,
    /// US dollars per million tokens of request.
    #[schemars(example = 1.25)]
    pub price_in: Option<f64>,
    /// US dollars per million tokens of answer.
    #[schemars(example = 10.0)]
    pub price_out: Option<f64>,
    /// US dollars per million tokens of request that were read from the provider's cache.
    #[schemars(example = 0.125)]
    pub price_cached: Option<f64>,
    /// US dollars per million tokens of request that were written to the provider's cache; unset: `price_in`.
    #[schemars(example = 1.5)]
    pub price_cache_write: Option<f64>,
    /// US dollars per thousand searches of the provider for this model, which is how `WebSearch` searches then. Unset: as in
    /// `data/models.toml`, else there is no such search.
    #[schemars(example = 10.0)]
    pub price_search: Option<f64>,
    /// Whether it takes settings of its thinking: Anthropic's adaptive thinking, or Gemini's thoughts. Unset: as in
    /// `data/models.toml`, else only if an effort is configured.
    #[schemars(example = true)]
    pub thinking: Option<bool>,
    /// Whether it accepts images; unset: as for its provider, as in `data/models.toml`, else yes.
    #[schemars(example = false)]
    pub images: Option<bool>,
}

/// Requests to models: time limits and retries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// Time limit for a connection.
    pub connect_timeout: String,
    /// Time limit for the first data of an answer; unset: 5m, and 30m for a server in a private network or on
    /// this machine.
    #[schemars(example = &"10m")]
    pub first_data_timeout: Option<String>,
    /// Time limit for the next data of an answer; unset: 2m, and 10m for such a server.
    #[schemars(example = &"5m")]
    pub idle_timeout: Option<String>,
    /// Number of tries for one answer; unset: 10, and 20 in the chat without `fallback`.
    #[schemars(range(min = 1))]
    #[schemars(example = 10)]
    pub max_tries: Option<u32>,
    /// How long after the first failure a request is retried; delays that the server asks for are added.
    /// Unset: 30s, and 5m in the chat without `fallback`.
    #[schemars(example = &"2m")]
    pub retry_for: Option<String>,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            connect_timeout: "10s".into(),
            first_data_timeout: None,
            idle_timeout: None,
            max_tries: None,
            retry_for: None,
        }
    }
}

impl super::Config {
    /// Sets what is unset to the defaults of the chat, where a user watches and can stop. With a fallback,
    /// another model answers instead of many retries.
    pub fn use_chat_defaults(&mut self) {
        if self.fallback.is_empty() {
            self.requests.max_tries.get_or_insert(20);
            self.requests.retry_for.get_or_insert_with(|| "5m".to_owned());
        }
    }
}
