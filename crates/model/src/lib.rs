//! Models: one transport, a pure encoder and decoder per wire format, retries, and a scripted model that
//! needs no server.
//!
//! [`connect`] creates a model from an [`Endpoint`]; [`Scripted`] needs none. The path of an answer:
//! [`wire`] encodes the request, `transport` sends it (the only HTTP client), `body` and `sse` split
//! the answer into texts, [`wire`] decodes them, `http` combines these into one attempt, and [`retry`]
//! repeats attempts. Failures are classified only in `failure`.

mod address;
mod anthropic_messages;
mod body;
mod client;
mod endpoint;
mod failure;
#[cfg(test)]
mod fuzzing;
mod gemini;
mod http;
mod http_client;
mod openai_chat;
mod openai_responses;
mod overflow;
mod post;
mod probe;
mod rejected;
mod replay;
mod retry;
mod scripted;
mod sse;
mod text_calls;
mod transport;
mod wire;
mod wire_record;

use std::time::Duration;

use serde_json::Value;

pub use self::endpoint::{Endpoint, TOOLS_IN_TEXT, Timeouts};
use self::failure::Refusal;
use self::http::HttpModel;
pub use self::http_client::{HttpClient, http_client};
pub use self::post::{NotSent, Receiver};
pub use self::probe::{Probed, probe};
pub use self::replay::Replay;
pub use self::retry::Retries;
pub use self::scripted::Scripted;
use self::transport::Transport;
pub use self::wire_record::WireRecorder;
use agent_protocol::model::{Model, ModelError, ModelErrorKind};
use agent_protocol::provider::Wire;

/// The model at this endpoint. Makes no connection: errors are those of the configuration.
pub fn connect(endpoint: Endpoint) -> Result<Box<dyn Model>, ModelError> {
    Ok(Box::new(HttpModel::new(endpoint)?))
}

/// The ids of the models that the server of this endpoint lists, with one request within `limit`.
pub async fn list_models(endpoint: &Endpoint, limit: Duration) -> Result<Vec<String>, ModelError> {
    let transport = Transport::new(endpoint.clone())?;
    let path = endpoint.wire.models_path();
    let text = transport.get(path, limit).await.map_err(|failure| failure.error)?;
    let endpoint_facts = transport.endpoint_facts(path);
    if text.trim_start().starts_with('<') {
        return Err(endpoint_facts.page().error);
    }
    let Ok(list) = serde_json::from_str::<Value>(&text) else {
        let message =
            format!("{}: the answer is not JSON; {}", endpoint_facts.url, "check base_url");
        return Err(ModelError::new(ModelErrorKind::Refused, message));
    };
    let models = [&list["data"], &list["models"], &list].into_iter().find_map(Value::as_array);
    let Some(models) = models else {
        return Err(endpoint_facts
            .refused(&Refusal { status: None, retry_after: None, body: &text })
            .error);
    };
    let ids = models.iter().filter_map(|model| match endpoint.wire {
        Wire::OpenaiChat | Wire::OpenaiResponses | Wire::AnthropicMessages => {
            [&model["id"], &model["name"], model].into_iter().find_map(Value::as_str)
        }
        Wire::Gemini => gemini::listed(model),
    });
    Ok(ids.map(ToOwned::to_owned).collect())
}
