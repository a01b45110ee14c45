//! URLs: joining paths to a base, hiding secrets for messages, and detecting local servers. Pure.

use reqwest::Url;

use super::endpoint::Endpoint;
use agent_protocol::model::{ModelError, ModelErrorKind};

/// A URL without a path gets the version; in some wire formats also one without a version.
pub(super) fn parse_base_url(endpoint: &Endpoint) -> Result<Url, ModelError> {
    let wrong = |why: &str| {
        let (id, given) = (&endpoint.id, strip_secrets(&endpoint.base_url));
        let message = format!(
            "base_url of {id}, `{given}`, is not a URL ({why}): it has to begin with http:// or https://"
        );
        ModelError::new(ModelErrorKind::Configuration, message)
    };
    let mut url =
        Url::parse(endpoint.base_url.trim()).map_err(|error| wrong(&error.to_string()))?;
    let lacks_version = endpoint.wire.adds_version() && !is_versioned(&url);
    if url.path() == "/" || lacks_version {
        url = join_url(&url, endpoint.wire.api_version());
    }
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        scheme => Err(wrong(&format!("its scheme is `{scheme}`"))),
    }
}

/// Keeps the base's query, as Azure requires it, and adds that of the path. `..` in it leaves out the last segment.
pub(super) fn join_url(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if !query.is_empty() {
        let own = base.query().map_or_else(String::new, |own| format!("{own}&"));
        url.set_query(Some(&format!("{own}{query}")));
    }
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
        for segment in path.split('/') {
            match segment {
                ".." => segments.pop(),
                _ => segments.push(segment),
            };
        }
    }
    url
}

/// For messages: without user, password, query and fragment.
pub(super) fn display_url(url: &Url) -> String {
    let path = url.path().trim_end_matches('/');
    format!("{}://{}{path}", url.scheme(), host_and_port(url))
}

/// For text that may not be a URL: see [`display_url`].
pub(super) fn strip_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => text.to_owned(),
    }
}

/// `host` or `host:port`.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Local servers, on this machine or in a private network, may be slow without being down.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        Ok(std::net::IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => {
            let endings = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];
            !host.contains('.') || endings.iter().any(|ending| host.ends_with(ending))
        }
    }
}

pub(super) fn is_versioned(base: &Url) -> bool {
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    base.path_segments().is_some_and(|mut segments| segments.any(is_version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_protocol::provider::WireFormat;

    #[test]
    fn base_url_without_a_path_gets_the_version() {
        for (given, expected) in [
            ("http://h:1", "http://h:1/v1"),
            ("http://h/?key=1", "http://h/v1?key=1"),
            ("http://h/v1/", "http://h/v1/"),
            ("https://h/api/paas/v4", "https://h/api/paas/v4"),
        ] {
            let base = parse_base_url(&Endpoint::new("p/m", given)).expect("a URL");
            assert_eq!(base.as_str(), expected);
        }
        for (given, expected) in [
            ("http://h", "http://h/v1beta"),
            ("http://h/gemini/", "http://h/gemini/v1beta"),
            ("http://h/gemini/v1alpha", "http://h/gemini/v1alpha"),
            ("http://h/v1/publishers/google", "http://h/v1/publishers/google"),
        ] {
            let mut endpoint = Endpoint::new("p/m", given);
            endpoint.wire = WireFormat::Gemini;
            assert_eq!(parse_base_url(&endpoint).expect("a URL").as_str(), expected);
        }
        for (given, expected) in [
            ("http://h:1", "http://h:1/v1"),
            ("https://h/anthropic", "https://h/anthropic/v1"),
            ("https://h/anthropic/", "https://h/anthropic/v1"),
            ("https://h/anthropic/v1/", "https://h/anthropic/v1/"),
        ] {
            let mut endpoint = Endpoint::new("p/m", given);
            endpoint.wire = WireFormat::AnthropicMessages;
            assert_eq!(parse_base_url(&endpoint).expect("a URL").as_str(), expected);
        }
    }

    fn url(text: &str) -> Url {
        Url::parse(text).expect("an address")
    }

    #[test]
    fn joined_url_keeps_the_query_and_display_omits_it() {
        let base = url("https://user:secret@h:8443/openai/v1/?api-version=3");
        let joined = join_url(&base, "chat/completions");
        assert_eq!(joined.path(), "/openai/v1/chat/completions");
        assert_eq!(joined.query(), Some("api-version=3"));
        assert_eq!(display_url(&joined), "https://h:8443/openai/v1/chat/completions");
        let with_query = super::join_url(&base, "models/m:generate?alt=sse");
        assert_eq!(with_query.path(), "/openai/v1/models/m:generate");
        assert_eq!(with_query.query(), Some("api-version=3&alt=sse"));
        for (base, expected) in [
            ("http://h:1/v1/", "http://h:1/api/ps"),
            ("http://h:1/ollama/v1", "http://h:1/ollama/api/ps"),
        ] {
            assert_eq!(join_url(&url(base), "../api/ps").as_str(), expected);
        }
    }

    #[test]
    fn local_servers() {
        fn check(text: &str, loopback: bool, local: bool) {
            let url = url(text);
            assert_eq!((is_loopback(&url), is_local(&url)), (loopback, local), "{text}");
        }
        check("http://localhost:11434/v1", true, true);
        check("http://127.0.0.1/v1", true, true);
        check("http://[::1]:8080/v1", true, true);
        check("http://192.168.0.4/v1", false, true);
        check("http://ollama:11434/v1", false, true);
        check("http://box.local/v1", false, true);
        check("https://api.openai.com/v1", false, false);
        check("http://8.8.8.8/v1", false, false);
    }
}
