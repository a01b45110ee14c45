//! The web: addresses of pages, which of them lead to this machine or a private network, and the answers of servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use url::{Host, Url};

use super::envelope::Failure;

/// The tool that requests a page, in permission rules.
pub const WEB_FETCH: &str = "WebFetch";
/// The tool that searches, in permission rules.
pub const WEB_SEARCH: &str = "WebSearch";

/// The address of a page: `https` or `http`, a host, no user and no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAddress {
    pub url: Url,
    /// As in rules: in lower case and ASCII; an address in its usual form, without brackets.
    pub host: String,
}

impl PageAddress {
    /// The error says why it is no address of a page.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
        Self::from_url(url)
    }

    /// The address without its fragment, which is not sent.
    pub fn from_url(mut url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(format!("its scheme is {}, not https", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it contains a user or a password, which are not sent".to_owned());
        }
        url.set_fragment(None);
        let host = url.host().map(|host| host_name(&host)).ok_or("it has no host")?;
        Ok(Self { url, host })
    }

    /// Whether its content is encrypted.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

fn host_name(host: &Host<&str>) -> String {
    match host {
        Host::Domain(name) => name.trim_end_matches('.').to_owned(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    }
}

/// A host, or a pattern with `*`, as in [`PageAddress::host`]; `None` for other text, such as a URL.
pub fn normalize_host(text: &str) -> Option<String> {
    let is_ip_v6 = text.parse::<Ipv6Addr>().is_ok();
    let text = if is_ip_v6 { format!("[{text}]") } else { text.to_owned() };
    if text.contains(['/', '\\', '@', '?', '#']) {
        return None;
    }
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    url.port().is_none().then(|| url.host().map(|host| host_name(&host)))?
}

/// The host is an address or a name of this machine or of a private network. Other names are known only when they are
/// resolved.
pub fn is_private_host(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(ip) => !is_public(ip),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The address is one of the public internet: not this machine, not a private network, no address with a special
/// meaning (link-local, where clouds have their metadata; multicast; reserved), whatever form it is written in.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_benchmark = a == 198 && matches!(b, 18 | 19);
    let is_protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    // Azure's metadata and DNS.
    let is_platform = ip == Ipv4Addr::new(168, 63, 129, 16);
    !(a == 0
        || a >= 224
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_documentation()
        || is_shared
        || is_benchmark
        || is_protocol
        || is_platform)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        // An IPv4 address in IPv6, mapped, compatible, translated (NAT64), 6to4.
        [0, 0, 0, 0, 0, 0 | 0xFFFF, high, low] | [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarks, documentation.
        [0x2001, 0 | 2 | 0xDB8, ..] => false,
        // Global unicast: the rest is local, reserved or multicast.
        [first, ..] => first & 0xE000 == 0x2000,
    }
}

/// A request for a page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub address: PageAddress,
    /// A rule names the host: it may be private, and `http` may be used.
    pub is_host_named: bool,
}

/// The answer of a server.
#[derive(Clone, Debug)]
pub enum PageResponse {
    Page {
        /// After redirects on the same host.
        url: Url,
        /// `Content-Type`, or empty.
        content_type: String,
        body: Vec<u8>,
    },
    /// To another host, which is not followed.
    Redirect { status: u16, target: String },
}

/// A search in the web.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    pub words: String,
    /// If there are any, only results of these domains and their subdomains.
    pub allowed: Vec<String>,
    pub blocked: Vec<String>,
}

impl SearchQuery {
    /// A result for the page with this address; `None` if it is no page, or not of the domains that were asked for.
    /// `domain`: of the page, if the address is only a redirect to it.
    pub fn hit(&self, url: &str, domain: Option<&str>) -> Option<SearchHit> {
        let PageAddress { url, host } = PageAddress::parse(url).ok()?;
        let host = domain.and_then(normalize_host).unwrap_or(host);
        let is_of = |domain: &String| {
            let rest = host.strip_suffix(domain.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_requested = (self.allowed.is_empty() || self.allowed.iter().any(is_of))
            && !self.blocked.iter().any(is_of);
        is_requested.then(|| SearchHit { url: url.into(), ..SearchHit::default() })
    }

    /// The allowed and the blocked domains as operators after the words: ` site:a OR site:b`, ` -site:c -site:d`.
    pub fn operators(&self) -> [String; 2] {
        let all = |domains: &[String], operator: &str| -> Vec<String> {
            domains.iter().map(|domain| format!(" {operator}{domain}")).collect()
        };
        [all(&self.allowed, "site:").join(" OR"), all(&self.blocked, "-site:").concat()]
    }
}

/// A result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHit {
    pub title: String,
    pub url: String,
    pub excerpt: String,
}

/// Searches the web.
pub type SearchRunner =
    Arc<dyn Fn(SearchQuery) -> BoxFuture<'static, Result<Vec<SearchHit>, Failure>> + Send + Sync>;

/// Requests a page.
pub type PageLoader =
    Arc<dyn Fn(PageRequest) -> BoxFuture<'static, Result<PageResponse, Failure>> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_in_any_form() {
        for text in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://017700000001/",
            "http://127.1/",
            "http://0/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:80/",
            "http://10.1.2.3/",
            "http://172.31.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://255.255.255.255/",
            "http://224.0.0.1/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[2001:0:1::]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://[ff02::1]/",
        ] {
            let address = PageAddress::parse(text).expect(text);
            assert!(is_private_host(&address.host), "{text}: {}", address.host);
        }
        for text in ["https://1.1.1.1", "https://[2606:4700::1111]", "https://docs.rs/x"] {
            let address = PageAddress::parse(text).expect(text);
            assert!(!is_private_host(&address.host), "{text}");
        }
    }

    #[test]
    fn only_pages_have_an_address() {
        for text in [
            "file:///etc/passwd",
            "data:text/html,<p>x",
            "ftp://h/x",
            "https://user:word@h/",
            "https://user@h/",
            "docs.rs/serde",
            "https://",
            "https://h:99999/",
            "javascript:alert(1)",
        ] {
            PageAddress::parse(text).expect_err(text);
        }
        let address = PageAddress::parse(" HTTPS://Docs.RS./a?b=1#c ").expect("an address");
        assert_eq!((address.url.as_str(), &*address.host), ("https://docs.rs./a?b=1", "docs.rs"));
    }

    #[test]
    fn hosts_of_rules() {
        for (text, expected) in [
            ("Docs.RS", Some("docs.rs")),
            ("*.docs.rs", Some("*.docs.rs")),
            ("münchen.de", Some("xn--mnchen-3ya.de")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("2130706433", Some("127.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("https://docs.rs", None),
            ("docs.rs/serde", None),
            ("docs.rs:8080", None),
            ("a b", None),
        ] {
            assert_eq!(normalize_host(text).as_deref(), expected, "{text}");
        }
    }
}
