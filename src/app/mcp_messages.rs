//! Fetches the prompts and resources of MCP servers that messages of the user name.

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::McpServers;
use agent_engine::context::resource_mentions;
use agent_engine::kernel::{Attachment, ExpandedMessage, MessageExpander};
use agent_engine::mcp::{FetchedContent, NO_SERVERS, Servers};
use agent_protocol::custom_command::MCP_PROMPT_PREFIX;
use agent_protocol::directives::UserInput;
use agent_protocol::event::EventStream;
use agent_protocol::mask::Masker;

impl McpServers {
    /// Secrets in fetched texts are masked, as in the results of tools.
    pub(super) fn expand(&self, events: &EventStream) -> MessageExpander {
        let (servers, masker) = (self.servers.clone(), events.masker().clone());
        Box::new(move |input| expand_message(servers.clone(), masker.clone(), input).boxed())
    }
}

async fn expand_message(
    servers: Option<Servers>,
    masker: Arc<Masker>,
    input: UserInput,
) -> ExpandedMessage {
    let mut expanded = ExpandedMessage { input, ..ExpandedMessage::default() };
    if let Some((name, arguments, end)) = prompt_command(&expanded.input) {
        let fetched = match &servers {
            Some(servers) => servers.fetch_prompt(name, arguments).await,
            None => Err(NO_SERVERS.to_owned()),
        };
        let input = &mut expanded.input;
        match fetched {
            Ok(FetchedContent { text, images }) => {
                let more = &input.text[end..];
                input.prompt = Some(format!("{}{more}", masker.mask(&text)));
                input.images.extend(images);
            }
            Err(why) => {
                expanded.refusal = Some(why);
                return expanded;
            }
        }
    }
    if let Some(servers) = servers {
        attach_resources(&servers, &masker, &mut expanded).await;
    }
    expanded
}

/// Name, arguments, and the end of the message's first line.
fn prompt_command(input: &UserInput) -> Option<(&str, &str, usize)> {
    let first_pasted = input.pasted.first().map_or(input.text.len(), |range| range.start);
    let line = input.text[..first_pasted].lines().next()?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.strip_prefix('/').filter(|name| name.starts_with(MCP_PROMPT_PREFIX))?;
    // A replayed message already has its prompt.
    input.prompt.is_none().then_some((name, arguments.trim(), line.len()))
}

async fn attach_resources(servers: &Servers, masker: &Masker, expanded: &mut ExpandedMessage) {
    let resources =
        |message: &UserInput| resource_mentions(message, |server| servers.has_server(server));
    let mut names: Vec<String> = Vec::new();
    let mut add = |text: &str, range: &Range<usize>| {
        let name = text[range.start + 1..range.end].to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    };
    let ranges = resources(&expanded.input);
    for range in &ranges {
        add(&expanded.input.text, range);
    }
    expanded.input.mentions.retain(|mention| {
        let ranges = resources(&mention.as_str().into());
        for range in &ranges {
            add(mention, range);
        }
        ranges.is_empty()
    });
    let fetched = join_all(names.iter().map(async |name| {
        let (server, uri) = name.split_once(':').unwrap_or((name, ""));
        servers.fetch_resource(server, uri).await
    }));
    let fetched = fetched.await;
    for (name, fetched) in names.into_iter().zip(fetched) {
        match fetched {
            Ok(FetchedContent { text, images }) => {
                if !text.is_empty() || images.is_empty() {
                    let text = masker.mask(&text).into_owned();
                    expanded.attachments.push(Attachment { name, text });
                }
                expanded.input.images.extend(images);
            }
            Err(why) => expanded.unread.push(format!("@{name} is not attached: {why}")),
        }
    }
    // The ranges name no files.
    expanded.input.pasted.extend(ranges);
    expanded.input.pasted.sort_by_key(|range| range.start);
}
