//! Searches the web by a service of `data/search.toml`.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::connection::{http_client, read_body, root_cause, secret_header};
use super::urls::{display_url, join_url};
use agent_protocol::embedded::SEARCH_SERVICES;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::web::{SearchHit, SearchQuery};

const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_BYTES: usize = 5_000_000;

/// A service that searches the web.
pub struct SearchService {
    facts: ServiceFacts,
    url: Url,
    key: Option<String>,
}

#[derive(Deserialize)]
struct ServiceList {
    service: Vec<ServiceFacts>,
}

/// As described in the file.
#[derive(Deserialize)]
struct ServiceFacts {
    name: String,
    address: Option<String>,
    path: String,
    #[serde(default)]
    post: bool,
    key: Option<String>,
    #[serde(default)]
    header: String,
    #[serde(default)]
    scheme: String,
    query: String,
    fixed: Map<String, Value>,
    allowed: Option<String>,
    blocked: Option<String>,
    results: String,
    excerpt: String,
}

impl SearchService {
    /// The address that is asked.
    pub fn address(&self) -> &str {
        self.url.as_str()
    }

    /// The service of this name, at its own address or another one. `key` contains the key, if the service needs one.
    pub fn new(
        name: &str,
        address: Option<&str>,
        key_variable: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let services = toml::from_str::<ServiceList>(SEARCH_SERVICES);
        let services = services.map_err(|error| error.to_string())?.service;
        let names: Vec<&str> = services.iter().map(|facts| facts.name.as_str()).collect();
        let unknown = format!("web.search is one of {}, not {name:?}", names.join(", "));
        let facts = services.into_iter().find(|facts| facts.name == name).ok_or(unknown)?;
        let address = address.or(facts.address.as_deref());
        let address = address.ok_or_else(|| format!("web.address: {name} needs an address"))?;
        let url = Url::parse(address).map_err(|error| format!("web.address: {error}"))?;
        let key = key_variable.or(facts.key.as_deref()).and_then(variable);
        Ok(Self { url: join_url(&url, &facts.path), facts, key })
    }

    /// The first results, as far as their domains were asked for.
    pub async fn search(&self, query: &SearchQuery) -> Result<Vec<SearchHit>, Failure> {
        let place = display_url(&self.url);
        let failed = |why: String| {
            Failure::new(ErrorCode::ExecutionError, format!("{place}: {why}")).with_hint(
                "try later again; the user can check web.search, its address and its key",
            )
        };
        if let (Some(key), None) = (&self.facts.key, &self.key) {
            return Err(failed(format!("{} needs a key", self.facts.name))
                .with_hint(format!("the user can set {key}, or web.api_key_env")));
        }
        let answer = timeout(TIMEOUT, self.request(query)).await;
        let late = || format!("no answer within {} s", TIMEOUT.as_secs());
        let answer = answer.unwrap_or_else(|_| Err(late())).map_err(failed)?;
        let found = answer.pointer(&self.facts.results).and_then(Value::as_array);
        let found = found.ok_or_else(|| failed("the answer has no list of results".to_owned()))?;
        let hits = found.iter().filter_map(|item| {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            let (title, excerpt) = (text("title"), text(&self.facts.excerpt));
            Some(SearchHit { title, excerpt, ..query.hit(&text("url"), None)? })
        });
        Ok(hits.collect())
    }

    async fn request(&self, query: &SearchQuery) -> Result<Value, String> {
        let facts = &self.facts;
        let (mut fields, mut words) = (facts.fixed.clone(), query.words.clone());
        let lists = [(&query.allowed, &facts.allowed), (&query.blocked, &facts.blocked)];
        for ((domains, field), operators) in lists.into_iter().zip(query.operators()) {
            match field {
                Some(_) if domains.is_empty() => {}
                Some(field) => _ = fields.insert(field.clone(), json!(domains)),
                None => words.push_str(&operators),
            }
        }
        fields.insert(facts.query.clone(), words.into());
        let client = http_client(self.url.as_str())?;
        let mut request = if facts.post {
            let body = Value::Object(fields).to_string();
            client.post(self.url.clone()).header("content-type", "application/json").body(body)
        } else {
            let mut url = self.url.clone();
            let pairs = fields.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
            url.query_pairs_mut().extend_pairs(pairs);
            client.get(url)
        };
        if let Some(key) = &self.key {
            let value = format!("{}{}", facts.scheme, key.trim());
            let (name, value) =
                secret_header(&facts.header, &value).ok_or("the key is not valid")?;
            request = request.header(name, value);
        }
        let mut response = request.send().await.map_err(|error| root_cause(&error))?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status()));
        }
        let body = read_body(&mut response, MAX_BYTES).await?.ok_or("its answer is too large")?;
        serde_json::from_slice(&body).map_err(|error| format!("its answer is no JSON: {error}"))
    }
}
