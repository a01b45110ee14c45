//! What messages of the user name of MCP servers: prompts as commands, resources by mention.

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::McpServers;
use agent_engine::context::resource_mentions;
use agent_engine::kernel::{Attachment, Expand, Expanded};
use agent_engine::mcp::{Fetched, NO_SERVERS, Servers};
use agent_protocol::directives::UserInput;
use agent_protocol::event::Events;
use agent_protocol::mask::Masker;
use agent_protocol::own_command::OF_SERVER;

impl McpServers {
    /// Fetches what a message names. Secrets in it are masked, as in the results of tools.
    pub(super) fn expand(&self, events: &Events) -> Expand {
        let (servers, masker) = (self.servers.clone(), events.masker().clone());
        Box::new(move |input| expanded(servers.clone(), masker.clone(), input).boxed())
    }
}

async fn expanded(servers: Option<Servers>, masker: Arc<Masker>, input: UserInput) -> Expanded {
    let mut expanded = Expanded { input, ..Expanded::default() };
    if let Some((name, arguments, end)) = command(&expanded.input) {
        let fetched = match &servers {
            Some(servers) => servers.prompt(name, arguments).await,
            None => Err(NO_SERVERS.to_owned()),
        };
        let input = &mut expanded.input;
        match fetched {
            Ok(Fetched { text, images }) => {
                let more = &input.text[end..];
                input.prompt = Some(format!("{}{more}", masker.mask(&text)));
                input.images.extend(images);
            }
            Err(why) => {
                expanded.refused = Some(why);
                return expanded;
            }
        }
    }
    if let Some(servers) = servers {
        attach(&servers, &masker, &mut expanded).await;
    }
    expanded
}

/// The name and the arguments of the prompt that a message asks for, and the end of its first line.
fn command(input: &UserInput) -> Option<(&str, &str, usize)> {
    let first_pasted = input.pasted.first().map_or(input.text.len(), |range| range.start);
    let line = input.text[..first_pasted].lines().next()?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.strip_prefix('/').filter(|name| name.starts_with(OF_SERVER))?;
    // (What the model receives is known already if a recorded session is played again.)
    input.prompt.is_none().then_some((name, arguments.trim(), line.len()))
}

async fn attach(servers: &Servers, masker: &Masker, expanded: &mut Expanded) {
    let resources = |message: &UserInput| resource_mentions(message, |server| servers.has(server));
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
        servers.resource(server, uri).await
    }));
    let fetched = fetched.await;
    for (name, fetched) in names.into_iter().zip(fetched) {
        match fetched {
            Ok(Fetched { text, images }) => {
                if !text.is_empty() || images.is_empty() {
                    let text = masker.mask(&text).into_owned();
                    expanded.attached.push(Attachment { name, text });
                }
                expanded.input.images.extend(images);
            }
            Err(why) => expanded.unread.push(format!("@{name} is not attached: {why}")),
        }
    }
    // They name no files.
    expanded.input.pasted.extend(ranges);
    expanded.input.pasted.sort_by_key(|range| range.start);
}
