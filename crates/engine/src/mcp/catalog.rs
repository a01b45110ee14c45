//! The servers' tools for the model: their schemas, or beyond a limit of tokens an index of them.
//!
//! An agent receives them once, so that each of its requests begins like the one before.

use std::sync::Arc;

use super::scope::ToolScope;
use super::server::{Server, ToolInfo};
use super::tool::{McpTool, ServerTool};
use super::tool_names::ToolNames;
use super::{MCP_TOOL_NAME, Servers};
use crate::tools::Tool;
use agent_protocol::embedded;
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::tool::ToolSpec;

const DESCRIPTION: Prompt = Prompt::named("mcp/tool.md");
const SCHEMA: &str = embedded::MCP_TOOL.schema;

/// Estimate for a schema. An index has more tokens than its text: names are unusual words.
const BYTES_PER_TOKEN: usize = 4;
const INDEX_BYTES_PER_TOKEN: usize = 3;
/// Limit of a description in the index.
const MAX_FIRST_WORDS_BYTES: usize = 40;

/// The model calls it under its own name.
struct DirectTool {
    server: Arc<Server>,
    name: String,
    tool: ToolInfo,
}

/// The tools for an agent with this scope, in a fixed order. The smallest servers are offered directly, as long as they
/// and an index of the others take at most `max_tokens`.
pub(super) fn offer_tools(servers: &Servers, scope: ToolScope) -> Vec<Box<dyn Tool>> {
    let room = usize::try_from(servers.0.max_tokens).unwrap_or(usize::MAX);
    let mut names = ToolNames::default();
    let mut known: Vec<(usize, Vec<DirectTool>)> = Vec::new();
    let mut all: Vec<IndexedServer> = Vec::new();
    for server in servers.servers() {
        let tools = server.tools();
        let offered = tools.iter().flat_map(|tools| tools.iter()).map(|tool| DirectTool {
            server: Arc::clone(server),
            name: names.assign_name(server.name(), &tool.name),
            tool: tool.clone(),
        });
        let mut offered: Vec<DirectTool> = offered.collect();
        offered.retain(|DirectTool { tool, .. }| {
            let hashed = names.hashed_name(server.name(), &tool.name);
            scope.allows(server.name(), &tool.name, hashed, tool.reads_only)
        });
        let is_used = match tools {
            Some(_) => !offered.is_empty() || scope.allows_all(),
            None => scope.may_allow_server(server.name()),
        };
        if is_used {
            let in_scope = offered.iter().map(|direct| direct.tool.clone()).collect();
            all.push((server.name().to_owned(), tools.map(|_| in_scope)));
        }
        let tokens = offered.iter().map(|DirectTool { name, tool, .. }| {
            let bytes = name.len() + tool.description.len() + tool.schema.to_string().len();
            bytes / BYTES_PER_TOKEN + 1
        });
        known.push((tokens.sum(), offered));
    }
    known.sort_by_key(|(tokens, _)| *tokens);
    let (mut direct, mut taken) = (Vec::new(), 0);
    let mut is_indexed: Vec<&IndexedServer> = all.iter().collect();
    // The servers that are not offered directly should at least have their names in the index.
    let fits = index_tokens(&format_index(&is_indexed, IndexDetail::Names)) <= room;
    let least = if fits { IndexDetail::Names } else { IndexDetail::Counts };
    for (tokens, tools) in known {
        let Some(first) = tools.first() else { continue };
        let others = is_indexed.iter().copied().filter(|(name, _)| name != first.server.name());
        let others: Vec<&IndexedServer> = others.collect();
        let index = index_tokens(&format_index(&others, least));
        if taken + tokens + index > room {
            break;
        }
        taken += tokens;
        direct.extend(tools);
        is_indexed = others;
    }
    direct.sort_by(|a, b| a.server.name().cmp(b.server.name()));
    let index = [IndexDetail::Words, IndexDetail::Names, IndexDetail::Counts]
        .map(|detail| format_index(&is_indexed, detail))
        .into_iter()
        .find(|index| taken + index_tokens(index) <= room)
        .unwrap_or_else(|| format_index(&is_indexed, IndexDetail::Counts));
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    for DirectTool { server, name, tool } in direct {
        tools.push(Box::new(ServerTool::new(servers.clone(), server, &name, &tool)));
    }
    if !all.is_empty() {
        let text = servers.0.prompts.text(DESCRIPTION).trim_end();
        let spec = ToolSpec {
            name: MCP_TOOL_NAME.into(),
            description: fill(text, &[("index", &index)]).into(),
            schema: serde_json::from_str(SCHEMA).unwrap_or_default(),
            is_foreign: false,
        };
        tools.push(Box::new(McpTool { servers: servers.clone(), scope, names, spec }));
    }
    tools
}

/// A server's name, and those of its tools that are in the scope; `None` if they are unknown.
type IndexedServer = (String, Option<Vec<ToolInfo>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexDetail {
    /// Names and the first words of descriptions.
    Words,
    Names,
    /// Numbers of tools.
    Counts,
}

/// One server per paragraph; empty without servers.
fn format_index(servers: &[&IndexedServer], detail: IndexDetail) -> String {
    let mut index = String::new();
    for (name, tools) in servers {
        let Some(tools) = tools else {
            index.push_str(&format!("\n{name}: not connected yet, search it"));
            continue;
        };
        match detail {
            IndexDetail::Words => {
                index.push_str(&format!("\n{name}:"));
                for tool in tools {
                    index.push_str(&format!("\n- {}{}", tool.name, first_words(tool)));
                }
            }
            IndexDetail::Names => {
                let tools: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                index.push_str(&format!("\n{name}: {}", tools.join(" ")));
            }
            IndexDetail::Counts => index.push_str(&format!("\n{name}: {} tools", tools.len())),
        }
    }
    index
}

fn first_words(tool: &ToolInfo) -> String {
    let line = tool.description.lines().next().unwrap_or_default();
    let line = line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.');
    let words = if line.len() <= MAX_FIRST_WORDS_BYTES {
        line
    } else {
        let cut = line.get(..=MAX_FIRST_WORDS_BYTES).and_then(|cut| cut.rsplit_once(' '));
        cut.map_or("", |(words, _)| words)
    };
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

fn index_tokens(index: &str) -> usize {
    index.len().div_ceil(INDEX_BYTES_PER_TOKEN)
}
