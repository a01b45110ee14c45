//! The web search of a provider, in a request of its own: adds the provider's tool, and reads what it found.
//!
//! The sources in answers are recognised by their shape, alike in all wire formats, streamed or not.

use serde_json::{Value, json};

use super::wire_format::{AnswerDecoder, DecodeError, EncodedRequest, non_empty_str};
use agent_protocol::model::{Delta, StopReason};
use agent_protocol::provider::WireFormat;
use agent_protocol::web::{SearchHit, SearchQuery};

/// Adds the provider's tool, which is used at most once, as far as the wire format can say so.
pub(super) fn add_search(request: &mut EncodedRequest, wire: WireFormat, query: &SearchQuery) {
    let mut body: Value = serde_json::from_slice(&request.body).expect("an encoder writes JSON");
    let lists = [("allowed_domains", &query.allowed), ("blocked_domains", &query.blocked)];
    let mut lists = lists.into_iter().filter(|(_, domains)| !domains.is_empty());
    let tool = match wire {
        WireFormat::AnthropicMessages => {
            // The first version: later ones execute code, which not every model can.
            let mut tool =
                json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 1});
            // It takes only one of the lists.
            if let Some((name, domains)) = lists.next() {
                tool[name] = json!(domains);
            }
            tool
        }
        WireFormat::OpenaiResponses => {
            let mut tool = json!({"type": "web_search"});
            for (name, domains) in lists {
                tool["filters"][name] = json!(domains);
            }
            body["max_tool_calls"] = json!(1);
            body["include"] = json!(["web_search_call.action.sources"]);
            tool
        }
        WireFormat::Gemini => json!({"googleSearch": {}}),
        WireFormat::OpenaiChat => return,
    };
    body["tools"] = json!([tool]);
    request.body = body.to_string().into_bytes();
}

/// Adds pages and the number of searches to what another decoder reads.
pub(super) struct SearchDecoder<'a> {
    pub(super) inner: Box<dyn AnswerDecoder + 'a>,
    pub(super) query: &'a SearchQuery,
    pub(super) n_searches: u64,
}

impl AnswerDecoder for SearchDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let mut deltas = self.inner.push(data)?;
        let mut sources = Sources { query: self.query, hits: Vec::new(), n_searches: 0 };
        sources.collect(&serde_json::from_str(data).unwrap_or_default())?;
        // Later events repeat earlier ones.
        self.n_searches = self.n_searches.max(sources.n_searches);
        for delta in &mut deltas {
            if let Delta::Usage(usage) = delta {
                usage.searches = self.n_searches;
            }
        }
        deltas.extend(sources.hits.into_iter().map(Delta::Hit));
        Ok(deltas)
    }

    fn finish(&mut self) -> Vec<Delta> {
        self.inner.finish()
    }

    fn is_stream_over(&self) -> bool {
        self.inner.is_stream_over()
    }

    fn is_answer_complete(&self) -> bool {
        self.inner.is_answer_complete()
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.inner.stop_reason()
    }
}

struct Sources<'a> {
    query: &'a SearchQuery,
    hits: Vec<SearchHit>,
    n_searches: u64,
}

impl Sources<'_> {
    fn collect(&mut self, value: &Value) -> Result<(), DecodeError> {
        let text = |name: &str| value[name].as_str().unwrap_or_default();
        match (value, text("type")) {
            (Value::Array(items), _) => items.iter().try_for_each(|item| self.collect(item))?,
            (_, "web_search_result" | "url") => self.add(value, "", None),
            (_, "web_search_result_location") => self.add(value, text("cited_text"), None),
            (_, "web_search_tool_result_error") if text("error_code") != "max_uses_exceeded" => {
                let message = format!("the search failed: {}", text("error_code"));
                return Err(DecodeError::ServerError(json!({"error": {"message": message}})));
            }
            (_, "web_search_call") if value["action"]["type"] == "search" => self.n_searches += 1,
            (_, "output_text") => {
                for citation in value["annotations"].as_array().into_iter().flatten() {
                    // The sentence before the link.
                    let start = citation["start_index"].as_u64().unwrap_or_default();
                    let start = usize::try_from(start).unwrap_or(usize::MAX);
                    let before: String = text("text").chars().take(start).collect();
                    let line = before.trim_end_matches([' ', '(']).lines().last();
                    self.add(citation, line.unwrap_or_default(), None);
                }
            }
            _ => {}
        }
        let searches = value["server_tool_use"]["web_search_requests"].as_u64();
        self.n_searches = self.n_searches.max(searches.unwrap_or_default());
        self.add_grounding(value);
        let fields = value.as_object().into_iter().flatten();
        fields.map(|(_, field)| field).try_for_each(|field| self.collect(field))
    }

    /// Gemini's sources. Their addresses are redirects, and their titles are the domains.
    fn add_grounding(&mut self, metadata: &Value) {
        let items = |name: &str| metadata[name].as_array().into_iter().flatten();
        self.n_searches = self.n_searches.max(items("webSearchQueries").count() as u64);
        for (index, chunk) in items("groundingChunks").enumerate() {
            let is_cited = |support: &&Value| {
                let of = support["groundingChunkIndices"].as_array();
                of.is_some_and(|of| of.contains(&json!(index)))
            };
            let support = items("groundingSupports").find(is_cited);
            let excerpt = support.and_then(|it| it["segment"]["text"].as_str()).unwrap_or_default();
            let web = &chunk["web"];
            let domain = non_empty_str(&web["domain"]).or(non_empty_str(&web["title"]));
            self.add(web, excerpt, domain);
        }
    }

    fn add(&mut self, page: &Value, excerpt: &str, domain: Option<&str>) {
        let url = non_empty_str(&page["url"]).or(non_empty_str(&page["uri"]));
        // OpenAI marks the address of a citation, but not that of the same source.
        let url = url.map(|url| {
            let marked = url.strip_suffix("utm_source=openai");
            marked.map_or(url, |url| url.trim_end_matches(['?', '&']))
        });
        let Some(hit) = url.and_then(|url| self.query.hit(url, domain)) else { return };
        let title = page["title"].as_str().unwrap_or_default().to_owned();
        self.hits.push(SearchHit { title, excerpt: excerpt.to_owned(), ..hit });
    }
}
