//! Models: one transport, a pure encoder and decoder per wire format, retries, and a scripted model that
//! needs no server.
//!
//! [`connect`] creates a model from an [`Endpoint`]. The path of an answer: [`wire_format`] encodes
//! the request, `transport` sends it, `body_splitter` and `sse` split the answer into texts,
//! [`wire_format`] decodes them, `http_model` combines these into one attempt, [`retry`] repeats
//! attempts, and `failure` classifies failures.

mod anthropic_messages;
mod body_splitter;
mod connection;
mod document_sender;
mod endpoint;
mod failure;
#[cfg(test)]
mod fuzz_tests;
mod gemini;
mod http_model;
mod openai_chat;
mod openai_responses;
mod overflow;
mod probe;
mod provider_search;
mod rejections;
mod retry;
mod scripted;
mod sse;
mod text_calls;
mod transport;
mod urls;
mod web_client;
mod web_search;
mod window;
mod wire_format;

use std::time::Duration;

use serde_json::Value;

pub use self::connection::{HttpClient, http_client};
pub use self::document_sender::{DocumentSender, SendError};
pub use self::endpoint::{Endpoint, TOOLS_IN_TEXT, Timeouts};
use self::failure::Refusal;
use self::http_model::HttpModel;
pub use self::probe::{ProbeResult, probe};
pub use self::retry::RetrySettings;
pub use self::scripted::ScriptedModel;
use self::transport::Transport;
pub use self::web_client::WebClient;
pub use self::web_search::SearchService;
pub use self::window::{ask_windows, recall_window};
use agent_protocol::model::{Model, ModelError, ModelErrorKind};
use agent_protocol::provider::WireFormat;

/// The model at this endpoint. Makes no connection: errors are those of the configuration.
pub fn connect(endpoint: Endpoint) -> Result<Box<dyn Model>, ModelError> {
    Ok(Box::new(HttpModel::new(endpoint)?))
}

/// The ids of the models that the server lists, with one request within `limit`.
pub async fn list_models(endpoint: &Endpoint, limit: Duration) -> Result<Vec<String>, ModelError> {
    let transport = Transport::new(endpoint.clone())?;
    let path = endpoint.wire.models_path();
    let text = transport.get(path, limit).await.map_err(|failure| failure.error)?;
    let endpoint_facts = transport.endpoint_facts(path);
    if text.trim_start().starts_with('<') {
        return Err(endpoint_facts.html_page_failure().error);
    }
    let Ok(list) = serde_json::from_str::<Value>(&text) else {
        let message =
            format!("{}: the answer is not JSON; {}", endpoint_facts.url, "check base_url");
        return Err(ModelError::new(ModelErrorKind::Refused, message));
    };
    let models = [&list["data"], &list["models"], &list].into_iter().find_map(Value::as_array);
    let Some(models) = models else {
        return Err(endpoint_facts
            .classify_refusal(&Refusal { status: None, retry_after: None, body: &text })
            .error);
    };
    let ids = models.iter().filter_map(|model| match endpoint.wire {
        WireFormat::OpenaiChat | WireFormat::OpenaiResponses | WireFormat::AnthropicMessages => {
            [&model["id"], &model["name"], model].into_iter().find_map(Value::as_str)
        }
        WireFormat::Gemini => gemini::listed_model_name(model),
    });
    Ok(ids.map(ToOwned::to_owned).collect())
}
