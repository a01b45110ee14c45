//! Requests pages of the web: only from addresses that were checked, within limits of size and time.

use std::collections::HashMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url};
use tokio::time::timeout;

use super::connection::{client_builder, error_causes, read_body, root_cause, system_proxy};
use super::transport::retry_after;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::format_thousands;
use agent_protocol::web::{PageAddress, PageRequest, PageResponse, WEB_FETCH, is_public};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of a body, also after it was decompressed.
const MAX_BYTES: usize = 10 * 1000 * 1000;
const MAX_REDIRECTS: usize = 5;
const LATER: &str = "try another page, or later again";
const ACCEPTED: &str =
    "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5";

/// Requests pages. Sends no cookies and no keys.
#[derive(Default)]
pub struct WebClient {
    /// Connects only to addresses that were checked.
    direct: OnceLock<Result<Client, String>>,
    /// The same without encryption, and so without root certificates, which take long to load.
    plain: OnceLock<Result<Client, String>>,
    /// The proxy connects: to which address is not known.
    by_proxy: OnceLock<Result<Client, String>>,
    addresses: CheckedAddresses,
}

impl WebClient {
    /// Requests a page. Follows redirects on the same host.
    pub async fn get(&self, request: &PageRequest) -> Result<PageResponse, Failure> {
        let late = || {
            let (url, seconds) = (&request.address.url, TIMEOUT.as_secs());
            Failure::new(ErrorCode::Timeout, format!("{url} did not arrive within {seconds} s"))
                .with_hint(LATER)
        };
        timeout(TIMEOUT, self.follow(request)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn follow(&self, request: &PageRequest) -> Result<PageResponse, Failure> {
        let mut address = request.address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&address, request.is_host_named).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).filter(|_| status.is_redirection());
            let Some(location) = location else { return read_page(address.url, response).await };
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            let target = address.url.join(&location).map_err(|error| error.to_string());
            let target = target.and_then(PageAddress::from_url).map_err(|why| {
                let message = format!("{} redirects to {location:?}: {why}", address.url);
                Failure::new(ErrorCode::InvalidParam, message)
            })?;
            let is_downgrade = !target.is_https() && !request.is_host_named;
            if target.host != address.host || is_downgrade {
                let target = target.url.to_string();
                return Ok(PageResponse::Redirect { status: status.as_u16(), target });
            }
            address = target;
        }
        let url = &request.address.url;
        let message = format!("{url} redirects more than {MAX_REDIRECTS} times on its host");
        Err(Failure::new(ErrorCode::NotFound, message).with_hint("try another address"))
    }

    async fn send(&self, address: &PageAddress, is_named: bool) -> Result<Response, Failure> {
        let url = &address.url;
        let proxy = system_proxy(url).filter(|_| !super::urls::is_loopback(url));
        if proxy.is_none() {
            self.check_addresses(address, is_named).await?;
        }
        let failed = |why: String| {
            Failure::new(ErrorCode::ExecutionError, format!("{url}: {why}")).with_hint(LATER)
        };
        let client = match (&proxy, address.is_https()) {
            (Some(_), _) => self.by_proxy.get_or_init(|| build(client_builder(CONNECT_TIMEOUT))),
            (None, true) => self.direct.get_or_init(|| build(self.direct_builder())),
            (None, false) => {
                self.plain.get_or_init(|| build(self.direct_builder().tls_certs_only([])))
            }
        };
        let client = client.as_ref().map_err(|why| failed(why.clone()))?;
        let request =
            client.get(url.clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "gzip");
        request.send().await.map_err(|error| {
            let through = if proxy.is_some() { " through the proxy" } else { "" };
            let tls = error_causes(&error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
            let why = tls
                .map_or_else(|| root_cause(&error), |tls| format!("no secure connection: {tls}"));
            failed(format!("no answer{through} ({why})"))
        })
    }

    /// Without idle connections each request uses an address that was checked for it.
    fn direct_builder(&self) -> ClientBuilder {
        let addresses = Arc::new(self.addresses.clone());
        let builder = client_builder(CONNECT_TIMEOUT).no_proxy().pool_max_idle_per_host(0);
        builder.dns_resolver(addresses)
    }

    /// Resolves the host. What it finds is what a connection uses.
    async fn check_addresses(&self, address: &PageAddress, is_named: bool) -> Result<(), Failure> {
        let url = &address.url;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
        let found: Vec<SocketAddr> = match found {
            Ok(found) => found.collect(),
            Err(error) => {
                let message = format!("{url}: there is no host {host} ({error})");
                return Err(
                    Failure::new(ErrorCode::NotFound, message).with_hint("check the address")
                );
            }
        };
        let private = found.iter().find(|found| !is_public(found.ip()));
        if let (Some(private), false) = (private, is_named) {
            let (name, ip) = (&address.host, private.ip());
            let message = format!(
                "{url} is not requested: {name} leads to {ip}, which belongs to this machine or a private network; only \
                 a rule that names the host allows it"
            );
            return Err(Failure::new(ErrorCode::AccessDenied, message)
                .with_hint(format!("the user can allow it with --allow '{WEB_FETCH}({name})'")));
        }
        self.addresses.0.lock().insert(host.to_owned(), found);
        Ok(())
    }
}

/// The addresses of hosts as they were checked: a name is not resolved again for the connection.
#[derive(Clone, Default)]
struct CheckedAddresses(Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>);

impl Resolve for CheckedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.0.lock().get(name.as_str()).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(Box::new(found.into_iter()) as Addrs)))
    }
}

fn build(builder: ClientBuilder) -> Result<Client, String> {
    builder.build().map_err(|error| {
        format!("the TLS roots cannot be read: {}; check SSL_CERT_FILE", root_cause(&error))
    })
}

async fn read_page(url: Url, mut response: Response) -> Result<PageResponse, Failure> {
    if response.status() != StatusCode::OK {
        return Err(refusal(&url, &response));
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let encoding = header(CONTENT_ENCODING).unwrap_or("identity").trim().to_ascii_lowercase();
    let too_large = || {
        let most = format_thousands(MAX_BYTES as u64);
        let message = format!("{url} is too large: it has more than {most} bytes");
        Failure::new(ErrorCode::TooLarge, message).with_hint("look for a smaller page")
    };
    if response.content_length().is_some_and(|length| length > MAX_BYTES as u64) {
        return Err(too_large());
    }
    let body = read_body(&mut response, MAX_BYTES).await;
    let body = body.map_err(|why| Failure::new(ErrorCode::ExecutionError, format!("{url}: {why}")));
    let mut body = body?.ok_or_else(too_large)?;
    match encoding.as_str() {
        "identity" | "" => {}
        "gzip" | "x-gzip" => {
            // No more than the limit, whatever it would become.
            let mut plain = Vec::new();
            let read =
                MultiGzDecoder::new(&*body).take(MAX_BYTES as u64 + 1).read_to_end(&mut plain);
            read.map_err(|error| {
                let message = format!("{url}: its compressed content is broken ({error})");
                Failure::new(ErrorCode::Encoding, message)
            })?;
            if plain.len() > MAX_BYTES {
                return Err(too_large());
            }
            body = plain;
        }
        other => {
            let message = format!("{url} is compressed with {other}, which was not asked for");
            return Err(Failure::new(ErrorCode::Encoding, message));
        }
    }
    Ok(PageResponse::Page { url, content_type, body })
}

fn refusal(url: &Url, response: &Response) -> Failure {
    let status = response.status();
    let (code, hint) = match status.as_u16() {
        401 | 403 => (
            ErrorCode::PermissionDenied,
            "it needs a login, or refuses programs; no cookies and no keys are sent".to_owned(),
        ),
        404 | 410 => (ErrorCode::NotFound, "check the address".to_owned()),
        _ => match retry_after(response.headers()) {
            Some(time) => {
                let hint = format!("the server wants no further request for {} s", time.as_secs());
                (ErrorCode::ExecutionError, hint)
            }
            None => (ErrorCode::ExecutionError, LATER.to_owned()),
        },
    };
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let message = format!("{url} answered {} ({reason})", status.as_u16());
    Failure::new(code, message).with_hint(hint)
}
