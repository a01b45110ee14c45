//! Finds tools of servers by words.

use std::cmp::Reverse;

use super::server::{ServerState, ToolInfo};
use super::tool_names::ToolNames;
use super::{Servers, ToolScope};
use agent_protocol::envelope::Report;
use agent_protocol::pluralize;

/// Limits: tools that are shown with their schemas, bytes of those, and tools that are only named.
const MAX_DETAILED_TOOLS: usize = 8;
const MAX_BYTES: usize = 16 * 1024;
const MAX_LISTED_TOOLS: usize = 40;

/// A word in a name counts more than one in a description.
const NAME_WEIGHT: usize = 3;

pub(super) fn search_tools(
    servers: &Servers,
    scope: &ToolScope,
    names: &ToolNames,
    words: &str,
) -> Report {
    let words: Vec<String> = words
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut matches: Vec<(usize, &str, ToolInfo)> = Vec::new();
    for server in servers.servers() {
        for tool in server.tools().iter().flat_map(|tools| tools.iter()) {
            let points = score(server.name(), tool, &words);
            let hashed = names.hashed_name(server.name(), &tool.name);
            if points > 0 && scope.allows(server.name(), &tool.name, hashed, tool.reads_only) {
                matches.push((points, server.name(), tool.clone()));
            }
        }
    }
    matches.sort_by_key(|(points, ..)| Reverse(*points));
    let mut content = String::new();
    let mut n_whole = 0;
    for (_, server, tool) in matches.iter().take(MAX_DETAILED_TOOLS) {
        let text = describe_tool(server, tool);
        if n_whole > 0 && content.len() + text.len() > MAX_BYTES {
            break;
        }
        content.push_str(&text);
        n_whole += 1;
    }
    let rest = &matches[n_whole..];
    if !rest.is_empty() {
        let names = rest.iter().take(MAX_LISTED_TOOLS);
        let names = names.map(|(_, server, tool)| format!("{server}.{}", tool.name));
        let names = names.collect::<Vec<_>>().join(" ");
        content.push_str(&format!("also: {names}\n"));
    }
    let mut text = format!("{} found.", pluralize(matches.len() as u64, "tool"));
    if let more @ 1.. = rest.len().saturating_sub(MAX_LISTED_TOOLS) {
        text.push_str(&format!(" {more} are not named: use more words."));
    }
    if matches.is_empty() {
        text.push_str(&format!(" The servers are {}.", describe_states(servers)));
    }
    let data = [("content".to_owned(), content.into())];
    Report { data: data.into_iter().collect(), text, ..Report::default() }
}

pub(super) fn describe_tool(server: &str, tool: &ToolInfo) -> String {
    format!("{server}.{}: {}\n{}\n", tool.name, tool.description, tool.schema)
}

fn describe_states(servers: &Servers) -> String {
    let states = servers.servers().iter().map(|server| {
        let state = match server.state() {
            ServerState::Connected(connected) => pluralize(connected.tools.len() as u64, "tool"),
            ServerState::Idle | ServerState::Connecting => "still starting".to_owned(),
            ServerState::Failed(why) => format!("not available: {why}"),
        };
        format!("{} ({state})", server.name())
    });
    states.collect::<Vec<_>>().join(", ")
}

/// Without words every tool matches.
fn score(server: &str, tool: &ToolInfo, words: &[String]) -> usize {
    if words.is_empty() {
        return 1;
    }
    let name = format!("{server} {}", tool.name).to_lowercase();
    let description = tool.description.to_lowercase();
    let scores = words.iter().map(|word| {
        NAME_WEIGHT * usize::from(name.contains(word.as_str()))
            + usize::from(description.contains(word.as_str()))
    });
    scores.sum()
}
