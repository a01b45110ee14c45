//! The HTTP client for servers that are not models.

use std::time::Duration;

use reqwest::{Client, Url};

use super::connection::client_builder;
use super::urls::is_loopback;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client.
pub type HttpClient = Client;

/// A client for this URL.
pub fn http_client(url: &str) -> Result<HttpClient, String> {
    let url = Url::parse(url).map_err(|error| format!("{url:?} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{url}: only http and https are supported"));
    }
    let mut builder = client_builder(CONNECT_TIMEOUT);
    if is_loopback(&url) {
        // A proxy cannot reach servers on this machine.
        builder = builder.no_proxy();
        if url.scheme() == "http" {
            // Loading the system's root certificates would take most of the time.
            builder = builder.tls_certs_only([]);
        }
    }
    builder.build().map_err(|error| format!("the HTTP client cannot be made: {error}"))
}
