//! Builds the HTTP client for one server, of models or not: proxies, and the certificates to trust.

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Certificate, Client, ClientBuilder, Proxy, Response, Url};

use super::urls::is_loopback;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client.
pub type HttpClient = Client;

/// A client for this URL, of a server that is not a model.
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

pub(super) struct ConnectionSettings<'a> {
    pub(super) server: &'a Url,
    /// Owner of these settings, for messages.
    pub(super) owner: &'a str,
    /// `none` for no proxy at all; `None`: the environment decides.
    pub(super) proxy: Option<&'a str>,
    /// Trusted besides the system's, in PEM form.
    pub(super) ca_file: Option<&'a Path>,
    pub(super) timeout: Duration,
}

impl ConnectionSettings<'_> {
    pub(super) fn build_client(&self) -> Result<Client, String> {
        // A build may run for minutes between two requests.
        let mut builder = client_builder(self.timeout).pool_idle_timeout(Duration::from_mins(10));
        match self.proxy {
            Some("none") => builder = builder.no_proxy(),
            Some(proxy) => {
                let proxy = Proxy::all(proxy).map_err(|error| {
                    format!("`proxy` of {} is not a URL: {}", self.owner, root_cause(&error))
                })?;
                builder = builder.proxy(proxy);
            }
            // A proxy cannot reach servers on this machine.
            None if is_loopback(self.server) => builder = builder.no_proxy(),
            None => {}
        }
        let authorities = match self.ca_file {
            Some(path) => read_certificates(path)
                .map_err(|error| format!("ca_file {}: {error}", path.display()))?,
            None => Vec::new(),
        };
        builder = if self.needs_root_certificates() {
            builder.tls_certs_merge(authorities)
        } else {
            // Loading the system's root certificates would take most of the time.
            builder.tls_certs_only(authorities)
        };
        builder.build().map_err(|error| {
            format!(
                "the TLS roots cannot be read: {}; check `ca_file` and SSL_CERT_FILE, or install \
                 the system's certificates (ca-certificates)",
                root_cause(&error)
            )
        })
    }

    /// True if a connection may use TLS: to the server, or to a proxy.
    fn needs_root_certificates(&self) -> bool {
        self.server.scheme() == "https"
            || self.proxy().is_some_and(|proxy| proxy.scheme() == "https")
    }

    pub(super) fn proxy(&self) -> Option<Url> {
        match self.proxy {
            Some("none") => None,
            Some(proxy) => Url::parse(proxy).ok(),
            None if is_loopback(self.server) => None,
            None => system_proxy(self.server),
        }
    }
}

/// The proxy that the environment names for this URL.
pub(super) fn system_proxy(url: &Url) -> Option<Url> {
    let target = url.as_str().parse().ok()?;
    let proxy = Matcher::from_system().intercept(&target)?;
    Url::parse(&proxy.uri().to_string()).ok()
}

/// Redirects are not followed, since headers may contain keys.
pub(super) fn client_builder(connect_timeout: Duration) -> ClientBuilder {
    // The provider is installed once per process; a second call fails without effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("code-agent/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect_timeout)
}

/// A header whose value is not shown; `None` if it is not valid.
pub(super) fn secret_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::try_from(name).ok()?, value))
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate>, Box<dyn Error>> {
    let certificates = Certificate::from_pem_bundle(&std::fs::read(path)?)?;
    if certificates.is_empty() {
        return Err("it contains no certificate in PEM format".into());
    }
    Ok(certificates)
}

pub(super) fn error_causes<'a>(
    error: &'a reqwest::Error,
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    // reqwest's message repeats the URL with its query; its source says more.
    let first = error.source().or(Some(error));
    std::iter::successors(first, |&error| match error.downcast_ref::<io::Error>() {
        // An I/O error does not return the error that it wraps as its source.
        Some(wrapper) => wrapper.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

pub(super) fn root_cause(error: &reqwest::Error) -> String {
    error_causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// The body; `None` if it has more bytes than this.
pub(super) async fn read_body(
    response: &mut Response,
    most: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| {
        format!("the connection broke after {} bytes ({})", body.len(), root_cause(&error))
    })? {
        body.extend_from_slice(&chunk);
        if body.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(body))
}
