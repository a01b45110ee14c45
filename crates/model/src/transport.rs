//! The HTTP client for models. It is created for the first request, reuses its connection, and
//! converts every network failure to an [`AttemptFailure`]; it does not know wire formats.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio::time::timeout;

use super::connection::{ConnectionSettings, error_causes, root_cause, secret_header};
use super::endpoint::{Endpoint, Timeouts};
use super::failure::{AttemptFailure, EndpointFacts, Refusal};
use super::urls::{display_url, host_and_port, is_local, is_versioned, join_url, parse_base_url};
use agent_protocol::model::{ModelError, ModelErrorKind};

const REFUSAL_BYTES: usize = 64 << 10;
const REFUSAL_TIME: Duration = Duration::from_secs(10);
/// Limit of a list of models or another document.
const DOCUMENT_BYTES: usize = 16 << 20;

/// What a time-out means before the first byte of an answer, and after it.
const NOT_BEGUN: &str = "; the server may be overloaded, or still loading the model";
const IN_MID_ANSWER: &str = " in mid-answer; try again, or raise requests.idle_timeout";

pub(super) struct Transport {
    base: Url,
    headers: HeaderMap,
    endpoint: Endpoint,
    first_byte: Duration,
    idle: Duration,
    client: OnceLock<Result<Client, AttemptFailure>>,
    /// After a response, the next request may use its connection.
    has_answered: AtomicBool,
}

impl Transport {
    pub(super) fn new(mut endpoint: Endpoint) -> Result<Self, ModelError> {
        // A variable with an empty value contains no key.
        endpoint.api_key = endpoint.api_key.filter(|key| !key.trim().is_empty());
        let base = parse_base_url(&endpoint)?;
        let headers = request_headers(&endpoint)?;
        let Timeouts { first_byte, idle, .. } = endpoint.timeouts;
        let is_local = is_local(&base);
        Ok(Self {
            headers,
            first_byte: first_byte.unwrap_or(Duration::from_mins(if is_local { 30 } else { 5 })),
            // A local server may generate a whole call before it sends any of it.
            idle: idle.unwrap_or(Duration::from_mins(if is_local { 10 } else { 2 })),
            base,
            endpoint,
            client: OnceLock::new(),
            has_answered: AtomicBool::new(false),
        })
    }

    /// Returns after a successful response header.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<ResponseStream, AttemptFailure> {
        self.send(path, Some(body), self.first_byte).await
    }

    /// A document about the server.
    pub(super) async fn get(&self, path: &str, limit: Duration) -> Result<String, AttemptFailure> {
        let endpoint_facts = self.endpoint_facts(path);
        let whole = async {
            let mut answer = self.send(path, None, limit).await?;
            let mut text = Vec::new();
            while let Some(chunk) = answer.read_chunk().await? {
                text.extend(chunk);
                if text.len() > DOCUMENT_BYTES {
                    let message = format!(
                        "{}: the answer is longer than 16 MiB; check base_url",
                        endpoint_facts.url
                    );
                    return Err(AttemptFailure::permanent(ModelErrorKind::Refused, message));
                }
            }
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let late = || timeout_failure(&endpoint_facts, limit, NOT_BEGUN);
        timeout(limit, whole).await.unwrap_or_else(|_| Err(late()))
    }

    pub(super) fn endpoint_facts(&self, path: &str) -> EndpointFacts {
        EndpointFacts {
            url: display_url(&join_url(&self.base, path)),
            models_url: display_url(&join_url(&self.base, "models")),
            is_versioned: is_versioned(&self.base),
            model: self.endpoint.model.clone(),
            key_source: self.endpoint.key_source.clone(),
            key: self.endpoint.api_key.clone(),
        }
    }

    async fn send(
        &self,
        path: &str,
        body: Option<Vec<u8>>,
        first_byte: Duration,
    ) -> Result<ResponseStream, AttemptFailure> {
        let client =
            self.client.get_or_init(|| self.build_client()).as_ref().map_err(Clone::clone)?;
        let endpoint_facts = self.endpoint_facts(path);
        let url = join_url(&self.base, path);
        let request = match body {
            Some(body) => client.post(url).header("content-type", "application/json").body(body),
            None => client.get(url),
        };
        let request = request.headers(self.headers.clone());
        // Some servers close a connection after its answer, although they promise to keep it.
        let spare =
            if self.has_answered.load(Ordering::Relaxed) { request.try_clone() } else { None };
        let sent = async {
            match (request.send().await, spare) {
                (Err(error), Some(spare)) if is_closed_connection(&error) => spare.send().await,
                (sent, _) => sent,
            }
        };
        let response = match timeout(first_byte, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.connection_failure(&endpoint_facts, &error)),
            Err(_) => return Err(timeout_failure(&endpoint_facts, first_byte, NOT_BEGUN)),
        };
        self.has_answered.store(true, Ordering::Relaxed);
        let status = response.status();
        if status.is_success() {
            return Ok(ResponseStream {
                response,
                endpoint_facts,
                limit: first_byte,
                idle: self.idle,
                progress: NOT_BEGUN,
            });
        }
        if status.is_redirection() {
            return Err(redirect_failure(&endpoint_facts, &response));
        }
        let headers = response.headers().clone();
        let body = read_refusal_body(response).await;
        Err(refusal_failure(&endpoint_facts, status.as_u16(), &headers, &body))
    }

    fn build_client(&self) -> Result<Client, AttemptFailure> {
        let configuration =
            |message| AttemptFailure::permanent(ModelErrorKind::Configuration, message);
        self.connection().build_client().map_err(configuration)
    }

    fn connection(&self) -> ConnectionSettings<'_> {
        ConnectionSettings {
            server: &self.base,
            owner: &self.endpoint.id,
            proxy: self.endpoint.proxy.as_deref(),
            ca_file: self.endpoint.ca_file.as_deref(),
            timeout: self.endpoint.timeouts.connect,
        }
    }

    fn connection_failure(
        &self,
        endpoint_facts: &EndpointFacts,
        error: &reqwest::Error,
    ) -> AttemptFailure {
        let (url, address) = (&endpoint_facts.url, host_and_port(&self.base));
        let by_proxy = self.connection().proxy();
        let proxy = match &by_proxy {
            Some(proxy) => format!(" through the proxy {}", display_url(proxy)),
            None => String::new(),
        };
        let proxy_advice = match self.endpoint.proxy {
            Some(_) => "`proxy` of the provider",
            None => "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY",
        };
        let root = endpoint_facts.redact_key(&root_cause(error));
        if error.is_builder() {
            let message = format!("{url}: {root}");
            return AttemptFailure::permanent(ModelErrorKind::Configuration, message);
        }
        if let Some(error) = error_causes(error).find_map(|cause| cause.downcast_ref()) {
            return match error {
                rustls::Error::InvalidCertificate(_) => AttemptFailure::permanent(
                    ModelErrorKind::Refused,
                    format!(
                        "{url}{proxy}: the server's certificate is not trusted ({error}); if it is \
                         yours or your company's, name its authority with `ca_file` or SSL_CERT_FILE"
                    ),
                ),
                rustls::Error::InvalidMessage(_) => AttemptFailure::permanent(
                    ModelErrorKind::Refused,
                    format!("{url}{proxy}: no TLS is spoken there ({error}); is it http://?"),
                ),
                _ => {
                    let message = format!("{url}{proxy}: no secure connection ({error})");
                    AttemptFailure::temporary(message).with_reason("no secure connection")
                }
            };
        }
        if error.is_dns() {
            let advice = if by_proxy.is_some() { proxy_advice } else { "base_url" };
            return AttemptFailure::temporary(format!(
                "{url}{proxy}: there is no host of that name ({root}); check {advice} and the network"
            ))
            .with_reason("no such host");
        }
        let kind =
            error_causes(error).find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
        if error.is_connect() {
            return AttemptFailure::temporary(match (kind, &by_proxy) {
                (Some(io::ErrorKind::ConnectionRefused), None) => {
                    format!(
                        "{url}: nothing listens at {address}; start the server, or check base_url"
                    )
                }
                (Some(io::ErrorKind::ConnectionRefused), Some(by_proxy)) => {
                    let by_proxy = display_url(by_proxy);
                    format!("{url}: nothing listens at the proxy {by_proxy}; start it, or check {proxy_advice}")
                }
                _ if error.is_timeout() => {
                    let seconds = self.endpoint.timeouts.connect.as_secs_f32();
                    format!("{url}{proxy}: no connection to {address} within {seconds} s")
                }
                _ => format!("{url}{proxy}: no connection to {address} ({root})"),
            })
            .with_reason("no connection");
        }
        let message = format!("{url}{proxy}: the connection broke before an answer ({root})");
        AttemptFailure::temporary(message).with_reason("the connection broke")
    }
}

/// The body is not read yet.
pub(super) struct ResponseStream {
    response: Response,
    endpoint_facts: EndpointFacts,
    /// For the next bytes.
    limit: Duration,
    idle: Duration,
    progress: &'static str,
}

impl ResponseStream {
    /// `None` at the end.
    pub(super) async fn read_chunk(&mut self) -> Result<Option<Vec<u8>>, AttemptFailure> {
        match timeout(self.limit, self.response.chunk()).await {
            Ok(Ok(chunk)) => {
                (self.limit, self.progress) = (self.idle, IN_MID_ANSWER);
                Ok(chunk.map(Into::into))
            }
            Ok(Err(error)) => {
                let root = root_cause(&error);
                let url = &self.endpoint_facts.url;
                let message =
                    format!("{url}: the connection broke in mid-answer ({root}); try again");
                Err(AttemptFailure::temporary(message).with_reason("the connection broke"))
            }
            Err(_) => Err(timeout_failure(&self.endpoint_facts, self.limit, self.progress)),
        }
    }

    pub(super) fn shorten_limits(&mut self, limit: Duration) {
        self.limit = self.limit.min(limit);
        self.idle = self.idle.min(limit);
    }
}

fn timeout_failure(
    endpoint_facts: &EndpointFacts,
    limit: Duration,
    progress: &str,
) -> AttemptFailure {
    let (url, seconds) = (&endpoint_facts.url, limit.as_secs_f32());
    AttemptFailure::temporary(format!("{url}: no data for {seconds} s{progress}"))
        .with_reason("no data")
}

fn redirect_failure(endpoint_facts: &EndpointFacts, response: &Response) -> AttemptFailure {
    let status = response.status().as_u16();
    let target = response.headers().get("location").and_then(|value| value.to_str().ok());
    let target = match target.and_then(|location| response.url().join(location).ok()) {
        Some(target) => display_url(&target),
        None => "an address that it does not name".to_owned(),
    };
    let url = &endpoint_facts.url;
    let mut failure = AttemptFailure::permanent(
        ModelErrorKind::Refused,
        format!(
            "the server redirects to {target} ({status}): redirects are not followed, because the key \
             would go with them; if you trust that address, set base_url to it ({url})"
        ),
    );
    failure.error.status = Some(status);
    failure
}

fn refusal_failure(
    endpoint_facts: &EndpointFacts,
    status: u16,
    headers: &HeaderMap,
    body: &str,
) -> AttemptFailure {
    let retry_after = retry_after(headers).or_else(|| match status {
        429 => limit_reset(headers),
        _ => None,
    });
    endpoint_facts.classify_refusal(&Refusal { status: Some(status), retry_after, body })
}

/// As far as the body arrives in time.
pub(super) async fn read_refusal_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let whole = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() >= REFUSAL_BYTES {
                break;
            }
        }
    };
    // A partial body is sufficient.
    let _ = timeout(REFUSAL_TIME, whole).await;
    String::from_utf8_lossy(&body).into_owned()
}

pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok().map(time_until)
}

/// `x-ratelimit-remaining-tokens: 0`, or of Anthropic `anthropic-ratelimit-tokens-remaining: 0`.
fn limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let exhausted = headers.iter().filter(|(_, value)| value.as_bytes() == b"0");
    let resets = exhausted.filter_map(|(name, _)| {
        let is_limit = name.as_str().contains("ratelimit-") && name.as_str().contains("remaining");
        let reset = is_limit.then(|| name.as_str().replace("remaining", "reset"))?;
        time_to_reset(headers.get(reset.as_str())?.to_str().ok()?)
    });
    resets.max()
}

/// Servers write `6m0s`, `1.5` (seconds), or a date.
fn time_to_reset(text: &str) -> Option<Duration> {
    if let Ok(date) = text.parse::<Timestamp>() {
        return Some(time_until(date));
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok())
}

/// Zero if the date is over.
fn time_until(date: Timestamp) -> Duration {
    Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or_default()
}

fn request_headers(endpoint: &Endpoint) -> Result<HeaderMap, ModelError> {
    let wrong = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
    let mut headers = HeaderMap::new();
    for (name, value) in endpoint.wire.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = &endpoint.api_key {
        let (name, scheme) = endpoint.wire.key_header();
        let mut value = HeaderValue::try_from(format!("{scheme}{}", key.trim())).map_err(|_| {
            let source = &endpoint.key_source;
            wrong(format!(
                "the key from {source} contains characters that are invalid in a key; set it again"
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    for (name, value) in &endpoint.headers {
        let (header, value) = secret_header(name, value)
            .ok_or_else(|| wrong(format!("the header `{name}` of {} is not valid", endpoint.id)))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Closed before the first byte of a response.
fn is_closed_connection(error: &reqwest::Error) -> bool {
    error_causes(error)
        .any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_incomplete_message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_wait() {
        fn check(name: &'static str, value: &str, expected: Option<Duration>) {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).expect("a value"));
            assert_eq!(retry_after(&headers), expected, "{name}: {value}");
        }
        check("retry-after", "3", Some(Duration::from_secs(3)));
        check("retry-after", "0.5", Some(Duration::from_millis(500)));
        check("retry-after", "-1", Some(Duration::ZERO));
        check("retry-after-ms", "20", Some(Duration::from_millis(20)));
        check("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", Some(Duration::ZERO));
        check("retry-after", "soon", None);

        let date = jiff::fmt::rfc2822::to_string(
            &(Timestamp::now() + Duration::from_secs(40)).to_zoned(jiff::tz::TimeZone::UTC),
        );
        let mut headers = HeaderMap::new();
        let date = date.expect("a date").replace("+0000", "GMT");
        headers.insert("retry-after", HeaderValue::from_str(&date).expect("a value"));
        let delay = retry_after(&headers).expect("a time").as_secs();
        assert!((37..=40).contains(&delay), "{delay}");
    }

    #[test]
    fn exhausted_limits_are_waited_for() {
        fn check_limits(limits: &[(&'static str, &'static str)], expected: Option<u64>) {
            let limits = limits.iter().map(|&(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            let delay = limit_reset(&limits.collect());
            assert_eq!(delay.map(|delay| delay.as_millis()), expected.map(u128::from));
        }
        let requests = ("x-ratelimit-remaining-requests", "0");
        let tokens = ("x-ratelimit-remaining-tokens", "0");
        let requests_reset = ("x-ratelimit-reset-requests", "6m0s");
        check_limits(&[requests, requests_reset], Some(360_000));
        check_limits(&[tokens, requests_reset, ("x-ratelimit-reset-tokens", "120ms")], Some(120));
        check_limits(&[tokens, ("x-ratelimit-reset-tokens", "1.5")], Some(1500));
        check_limits(&[requests_reset], None);
        check_limits(&[tokens, ("x-ratelimit-reset-tokens", "later")], None);
        check_limits(
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2015-10-21T07:28:00Z"),
            ],
            Some(0),
        );
    }
}
