//! Streamable HTTP: the transport to a server with an address.

use std::collections::HashMap;
use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};

use super::stdio::MAX_MESSAGE_BYTES;

/// The HTTP client of the transport.
pub type HttpClient = reqwest::Client;

pub(super) fn create_transport(
    client: HttpClient,
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let parsed = name.parse().ok().zip(value.parse().ok());
        let (name, value) =
            parsed.ok_or_else(|| format!("the header {name} is not a valid HTTP header"))?;
        all.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(all)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .max_json_response_size(MAX_MESSAGE_BYTES);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

const LOGIN_REQUIRED: &str = "it wants a login (HTTP 401): give it a token, \
    headers = { Authorization = \"Bearer ${TOKEN}\" } in its settings; a login by OAuth is not supported";

type ClientError = <HttpClient as StreamableHttpClient>::Error;

/// `None` unless a call failed because the server requires a login or cannot be reached.
pub(super) fn refusal_message(error: &ServiceError) -> Option<String> {
    if requires_login(error, error.auth_challenge().is_some()) {
        return Some(LOGIN_REQUIRED.to_owned());
    }
    let ServiceError::TransportSend(error) = error else { return None };
    is_not_connected(error).then(|| unreachable_message(error))
}

pub(super) fn connect_error_message(error: &ClientInitializeError) -> String {
    if requires_login(error, error.is_authorization_required()) {
        return LOGIN_REQUIRED.to_owned();
    }
    match error {
        ClientInitializeError::TransportError { error, .. } if is_not_connected(error) => {
            unreachable_message(error)
        }
        // `source()` of this variant is `None`.
        ClientInitializeError::TransportError { error, .. } => root_cause(error),
        error => root_cause(error),
    }
}

fn unreachable_message(error: &DynamicTransportError) -> String {
    format!("it cannot be reached: {}", root_cause(error))
}

/// Without a connection the server has received nothing.
fn is_not_connected(error: &(dyn Error + 'static)) -> bool {
    let mut errors = error_chain(error).filter_map(|error| error.downcast_ref::<ClientError>());
    errors.any(ClientError::is_connect)
}

pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    error_chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn error_chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        // Its `source()` does not return the error of the client.
        match error.downcast_ref::<StreamableHttpError<ClientError>>() {
            Some(StreamableHttpError::Client(inner)) => Some(inner as &(dyn Error + 'static)),
            _ => error.source(),
        }
    })
}

fn requires_login(error: &dyn Error, is_challenge: bool) -> bool {
    is_challenge || error.to_string().contains("HTTP 401")
}
