//! Sends JSON documents to a server that is not a model: a receiver of telemetry.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Url};
use tokio::time::timeout;

use super::connection::{ConnectionSettings, root_cause, secret_header};
use super::transport::{read_refusal_body, retry_after};
use super::urls::{display_url, strip_secrets};
use agent_protocol::{one_line, shorten};

const MAX_QUOTED_BYTES: usize = 200;

/// A server that receives documents at one URL.
pub struct DocumentSender {
    client: Client,
    url: Url,
    headers: HeaderMap,
    limit: Duration,
}

/// Why a document did not arrive.
#[derive(Debug)]
pub struct SendError {
    /// Contains no secrets.
    pub message: String,
    pub is_temporary: bool,
    pub retry_after: Option<Duration>,
}

impl DocumentSender {
    /// Prepares a client. No connection is opened: errors are those of the settings.
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        ca_file: Option<&Path>,
        limit: Duration,
    ) -> Result<Self, String> {
        let wrong = || {
            let given = strip_secrets(url);
            format!("`{given}` is not a URL: it has to begin with http:// or https://")
        };
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = Url::parse(url).ok().filter(is_http).ok_or_else(wrong)?;
        let connection = ConnectionSettings {
            server: &url,
            owner: "telemetry",
            proxy: None,
            ca_file,
            timeout: limit,
        };
        let client = connection.build_client()?;
        let mut all = HeaderMap::new();
        all.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let (header, value) = secret_header(name, value)
                .ok_or_else(|| format!("the header `{name}` is not valid"))?;
            all.insert(header, value);
        }
        Ok(Self { client, url, headers: all, limit })
    }

    /// Sends a document; returns the answer.
    pub async fn post(&self, document: Vec<u8>) -> Result<String, SendError> {
        let url = display_url(&self.url);
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let answer = async {
            let response = request.body(document).send().await.map_err(|error| SendError {
                message: format!("{url}: {}", root_cause(&error)),
                is_temporary: !error.is_builder(),
                retry_after: None,
            })?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_refusal_body(response).await;
            if status.is_success() {
                return Ok(body);
            }
            let words = shorten(&one_line(&body), MAX_QUOTED_BYTES);
            Err(SendError {
                message: format!("{url} answered {} {words}", status.as_u16())
                    .trim_end()
                    .to_owned(),
                // Codes that the specification of OTLP/HTTP declares retryable.
                is_temporary: matches!(status.as_u16(), 429 | 502 | 503 | 504),
                retry_after: retry_after(&headers),
            })
        };
        let late = || SendError {
            message: format!("{url}: no answer within {} s", self.limit.as_secs_f32()),
            is_temporary: true,
            retry_after: None,
        };
        timeout(self.limit, answer).await.unwrap_or_else(|_| Err(late()))
    }
}
