//! Tests what a server supports, with one small request.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::failure::AttemptFailure;
use super::http_model::Attempt;
use super::transport::Transport;
use super::wire_format::{CallIds, EncodedRequest, encode, new_decoder};
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{ModelError, Purpose, Reply, Request};
use agent_protocol::tool::ToolSpec;

/// Enough for a call after some reasoning.
const ANSWER_TOKENS: u64 = 1024;

/// What a server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    pub streams: bool,
    pub calls_tools: bool,
    /// The server's count of the request.
    pub request_tokens: Option<u64>,
}

/// Sends `message`, if there is a description also with a tool; waits for the answer within `limit`.
pub async fn probe(
    endpoint: &Endpoint,
    message: &str,
    description: Option<&str>,
    limit: Duration,
) -> Result<ProbeResult, ModelError> {
    let transport = Transport::new(endpoint.clone())?;
    let tools = description.map(|description| ToolSpec {
        name: "Ready".into(),
        description: description.to_owned().into(),
        schema: json!({"type": "object", "properties": {}}),
        is_foreign: false,
    });
    let messages = [Message::text(Role::User, message)];
    let request = Request {
        tools: tools.as_slice(),
        max_output_tokens: Some(ANSWER_TOKENS),
        ..Request::new(Purpose::Main, "", &messages)
    };
    let late = || {
        let url = transport.endpoint_facts("").url;
        AttemptFailure::temporary(format!("{url}: no complete answer within {} s", limit.as_secs()))
    };
    let EncodedRequest { path, body } = encode(&request, endpoint);
    let next_id = AtomicU64::new(1);
    let decoder = new_decoder(endpoint, &request, CallIds::new("call_", &next_id, &request));
    let open = async { transport.post(&path, body).await };
    let mut attempt = Attempt::new(transport.endpoint_facts(&path), decoder, open.boxed());
    let answering = async {
        let mut reply = Reply::default();
        while let Some(delta) = attempt.next_delta().await {
            reply.apply_delta(&delta?);
        }
        Ok(ProbeResult {
            streams: attempt.is_streamed(),
            calls_tools: !reply.calls.is_empty(),
            request_tokens: reply.usage.map(|usage| usage.input_tokens),
        })
    };
    let answer = timeout(limit, answering).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|failure| failure.error)
}
