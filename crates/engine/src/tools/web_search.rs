//! WebSearch: asks the provider of the model, or a search service.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::web_fetch::check_project_secrets;
use super::{CallTarget, Tool, ToolCx, cancelled_failure, embedded_spec, json_object, parse_input};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::terminal_escape::hides_text;
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::web::{SearchHit, SearchQuery, SearchRunner, WEB_SEARCH, normalize_host};
use agent_protocol::{Object, one_line, pluralize, shorten};

const MAX_HITS: usize = 10;
/// About two lines.
const MAX_EXCERPT_BYTES: usize = 240;

/// Searches the web.
#[derive(Clone)]
pub struct WebSearchTool {
    spec: ToolSpec,
    search: SearchRunner,
}

#[derive(Deserialize)]
struct Args {
    query: String,
    #[serde(default)]
    allowed_domains: Vec<String>,
    #[serde(default)]
    blocked_domains: Vec<String>,
}

impl WebSearchTool {
    /// The tool, whose queries this answers.
    pub fn new(search: SearchRunner) -> Self {
        Self { spec: embedded_spec(WEB_SEARCH, embedded::WEB_SEARCH), search }
    }
}

impl Tool for WebSearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let args: Args = parse_input(input)?;
        cx.web.check_secrets(&args.sent_text())?;
        Ok(Effect::WebSearch { query: args.query }.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let args: Args = parse_input(&input)?;
            check_project_secrets(args.sent_text(), cx).await?;
            let query = SearchQuery {
                allowed: domains(&args.allowed_domains)?,
                blocked: domains(&args.blocked_domains)?,
                words: args.query,
            };
            let search = (self.search)(query.clone());
            let hits = cx.cancel.run_until_cancelled(search).await;
            let mut hits = hits.unwrap_or_else(|| Err(cancelled_failure()))?;
            hits.truncate(MAX_HITS);
            let n = pluralize(hits.len() as u64, "result");
            let content: String = (1..).zip(&hits).map(|(n, hit)| describe_hit(n, hit)).collect();
            Ok(Report {
                text: format!("{n} of a search for {:?} in the web.", query.words),
                data: json_object(json!({ "content": content })),
                stats: json_object(json!({ "results": hits.len() })),
                ..Report::default()
            })
        })
    }
}

impl Args {
    fn sent_text(&self) -> String {
        let domains = self.allowed_domains.iter().chain(&self.blocked_domains);
        let texts: Vec<&str> =
            std::iter::once(&self.query).chain(domains).map(|it| &**it).collect();
        texts.join("\n")
    }
}

/// As hosts are compared; a domain has its subdomains.
fn domains(written: &[String]) -> Result<Vec<String>, Failure> {
    let host = |domain: &String| {
        normalize_host(domain.trim_start_matches("*.")).ok_or_else(|| {
            Failure::new(ErrorCode::InvalidParam, format!("{domain:?} is not a domain"))
                .with_hint("write it like docs.rs")
        })
    };
    written.iter().map(host).collect()
}

fn describe_hit(n: u32, hit: &SearchHit) -> String {
    let plain = |text: &str| -> String {
        one_line(text).chars().filter(|char| !hides_text(*char)).collect()
    };
    let excerpt = shorten(&plain(&hit.excerpt), MAX_EXCERPT_BYTES);
    let mut lines = vec![plain(&hit.title), hit.url.clone(), excerpt];
    lines.retain(|line| !line.is_empty());
    format!("{n}. {}\n", lines.join("\n   "))
}
