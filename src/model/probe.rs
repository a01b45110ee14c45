//! Tries what a server supports, with one small request.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::body::Body;
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::http::{on_broken, on_foreign};
use super::transport::Transport;
use super::wire::{Encoded, Ids, decoder, encode};
use crate::protocol::message::{Message, Role};
use crate::protocol::model::{ModelError, Purpose, Reply, Request};
use crate::protocol::tool::ToolSpec;

/// Enough for a call after some reasoning.
const ANSWER_TOKENS: u64 = 1024;

/// What a server did with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The answer was a stream.
    pub streams: bool,
    /// The model called the tool.
    pub calls_tools: bool,
}

/// Sends `message` with a tool of this description; answers are waited for within `limit`.
pub async fn probe(
    endpoint: &Endpoint,
    message: &str,
    description: &str,
    limit: Duration,
) -> Result<Probed, ModelError> {
    let transport = Transport::new(endpoint.clone())?;
    let tools = [ToolSpec {
        name: "Ready",
        description: description.to_owned().into(),
        schema: json!({"type": "object", "properties": {}}),
    }];
    let messages = [Message::text(Role::User, message)];
    let request = Request {
        tools: &tools,
        max_output_tokens: Some(ANSWER_TOKENS),
        ..Request::new(Purpose::Main, "", &messages)
    };
    let late = || {
        let url = transport.endpoint_facts("").url;
        Failure::soon(format!("{url}: no complete answer within {} s", limit.as_secs()))
    };
    let answering = timeout(limit, answer(&transport, endpoint, &request));
    answering.await.unwrap_or_else(|_| Err(late())).map_err(|failure| failure.error)
}

async fn answer(
    transport: &Transport,
    endpoint: &Endpoint,
    request: &Request<'_>,
) -> Result<Probed, Failure> {
    let Encoded { path, body } = encode(request, endpoint);
    let facts = transport.endpoint_facts(&path);
    let next_id = AtomicU64::new(1);
    let mut decoder = decoder(endpoint, request, Ids::new("call_", &next_id, request));
    let mut answer = transport.post(&path, body, None).await?;
    let mut body = Body::new();
    let mut reply = Reply::default();
    while !decoder.is_done() {
        let chunk = answer.chunk().await?;
        let is_end = chunk.is_none();
        let texts = match chunk {
            Some(chunk) => body.push(&chunk).map_err(|foreign| on_foreign(&facts, foreign))?,
            None => body.finish(),
        };
        for text in texts {
            let deltas = decoder.push(&text).map_err(|broken| on_broken(&facts, &broken))?;
            for delta in &deltas {
                reply.fold(delta);
            }
        }
        if is_end {
            break;
        }
    }
    if decoder.stop().is_none() {
        return Err(Failure::soon(format!(
            "{}: the answer ended before it was complete",
            facts.url
        )));
    }
    for delta in &decoder.end() {
        reply.fold(delta);
    }
    Ok(Probed { streams: body.is_stream(), calls_tools: !reply.calls.is_empty() })
}
