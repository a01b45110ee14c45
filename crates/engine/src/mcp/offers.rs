//! What the user can name in a message: prompts and resources of servers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::select_all;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourcesRequest, PaginatedRequestParams, Prompt as RpcPrompt, ReadResourceRequest,
    ReadResourceRequestParams, ResourceContents, Role, ServerResult,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::call::{loss_reason, wait_for_connection};
use super::result::{decoded_size, text_of};
use super::scope::server_prefix;
use super::server::{Server, ServerConnection};
use super::{NO_SERVERS, Servers, http};
use agent_host::exec::seconds;
use agent_protocol::custom_command::{CustomCommand, split_words};
use agent_protocol::tool::sanitize_name;
use agent_protocol::{Object, most_similar, one_line, shorten};

/// Limits: pages of a list, prompts or resources of a server, and bytes of a sentence of a server.
const MAX_PAGES: usize = 20;
const MAX_OFFERS: usize = 1000;
const MAX_MESSAGE_BYTES: usize = 300;

#[derive(Debug, Default)]
pub(super) struct ServerOffers {
    prompts: Vec<ServerPrompt>,
    /// Addresses.
    resources: Vec<String>,
}

#[derive(Debug)]
struct ServerPrompt {
    name: String,
    description: String,
    /// Names in order, and whether they are required.
    arguments: Vec<(String, bool)>,
}

/// The content of a prompt or a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FetchedContent {
    pub text: String,
    pub images: Vec<Vec<u8>>,
}

/// Changes of the prompts and resources of servers.
pub struct OfferChanges(Vec<watch::Receiver<Option<Arc<ServerOffers>>>>);

impl OfferChanges {
    /// The changes from now on.
    pub fn watch(servers: Option<&Servers>) -> Self {
        let servers = servers.into_iter().flat_map(Servers::servers);
        Self(servers.map(|server| server.watch_offers()).collect())
    }

    /// Waits for the next change. The future may be dropped meanwhile: no change is lost.
    pub async fn wait_for_change(&mut self) {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        let changes = self.0.iter_mut().map(|offers| Box::pin(offers.changed()));
        let (change, n, _) = select_all(changes).await;
        if change.is_err() {
            // Its server is gone.
            self.0.remove(n);
        }
    }
}

impl Servers {
    /// The prompts of connected servers as commands, sorted by name.
    pub fn commands(&self) -> Vec<CustomCommand> {
        let mut commands = Vec::new();
        for server in self.servers() {
            let Some(offers) = server.offers() else { continue };
            let prompts = offers.prompts.iter().map(|prompt| CustomCommand {
                name: prompt.command_name(server),
                description: shorten(&one_line(&prompt.description), MAX_MESSAGE_BYTES),
                argument_hint: prompt.argument_hint(),
                server: Some(server.name().to_owned()),
                ..CustomCommand::default()
            });
            commands.extend(prompts);
        }
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        commands
    }

    /// The resources of connected servers: `server:address`.
    pub fn resources(&self) -> Vec<String> {
        let of_server = |server: &Arc<Server>| {
            let offers = server.offers();
            let resources = offers.iter().flat_map(|offers| &offers.resources);
            resources.map(|uri| format!("{}:{uri}", server.name())).collect::<Vec<_>>()
        };
        self.servers().iter().flat_map(of_server).collect()
    }

    /// Whether there is a server of this name.
    pub fn has_server(&self, server: &str) -> bool {
        self.servers().iter().any(|known| known.name() == server)
    }

    /// The text of the prompt of the command `mcp__server__prompt`.
    pub async fn fetch_prompt(
        &self,
        command: &str,
        arguments: &str,
    ) -> Result<FetchedContent, String> {
        let of_server = |server: &Arc<Server>| {
            let rest = command.strip_prefix(&server_prefix(server.name()))?.strip_prefix("__")?;
            Some((Arc::clone(server), rest))
        };
        let named = self.servers().iter().filter_map(of_server);
        // The name of a server may begin with that of another one.
        let Some((server, name)) = named.max_by_key(|(server, _)| server.name().len()) else {
            return Err(format!(
                "/{command} names no MCP server: it would be /mcp__SERVER__PROMPT; the servers are {}",
                self.names().join(", ")
            ));
        };
        with_time_limit(&server, async {
            let connected = connect(&server).await?;
            let offers = server.wait_for_offers().await;
            let is_named = |own: &str| own == name || sanitize_name(own) == name;
            let prompt = offers.prompts.iter().find(|prompt| is_named(&prompt.name));
            let prompt = prompt.ok_or_else(|| offers.unknown_prompt_message(&server, name))?;
            let arguments = prompt.parse_arguments(arguments).map_err(|why| {
                format!("{why}: /{} {}", prompt.command_name(&server), prompt.argument_hint())
            })?;
            let params = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(arguments);
            let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
            let answer = send_request(&server, &connected, request).await?;
            let ServerResult::GetPromptResult(result) = answer else {
                return Err(protocol_error_message(&server));
            };
            let is_answer = |message: &rmcp::model::PromptMessage| message.role != Role::User;
            let has_answers = result.messages.iter().any(is_answer);
            let mut fetched = FetchedContent::default();
            let mut texts = Vec::new();
            for message in result.messages {
                let who = match message.role {
                    _ if !has_answers => "",
                    Role::User => "User: ",
                    Role::Assistant => "Assistant: ",
                };
                let mut show = |data: &str, _: &str| fetched.add_image(data);
                let text = text_of(message.content, &mut show);
                texts.extend(text.map(|text| format!("{who}{text}")));
            }
            fetched.text = texts.join("\n\n");
            if fetched == FetchedContent::default() {
                return Err(format!(
                    "the prompt {} of the MCP server {} is empty",
                    prompt.name,
                    server.name()
                ));
            }
            Ok(fetched)
        })
        .await
    }

    /// The content of a resource.
    pub async fn fetch_resource(&self, server: &str, uri: &str) -> Result<FetchedContent, String> {
        let named = self.servers().iter().find(|known| known.name() == server);
        let server = named.ok_or(NO_SERVERS)?;
        with_time_limit(server, async {
            let connected = connect(server).await?;
            let params = ReadResourceRequestParams::new(uri);
            let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
            let answer = send_request(server, &connected, request).await?;
            let ServerResult::ReadResourceResult(result) = answer else {
                return Err(protocol_error_message(server));
            };
            let mut fetched = FetchedContent::default();
            let mut texts = Vec::new();
            for contents in result.contents {
                match contents {
                    ResourceContents::TextResourceContents { text, .. } => texts.push(text),
                    ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                        let kind = mime_type.unwrap_or_default();
                        if !kind.starts_with("image/") {
                            let kind = if kind.is_empty() { "binary" } else { &kind };
                            let size = decoded_size(&blob);
                            return Err(format!("it is not text ({kind}, {size} bytes)"));
                        }
                        fetched.add_image(&blob)?;
                    }
                    _ => return Err(protocol_error_message(server)),
                }
            }
            fetched.text = texts.join("\n");
            Ok(fetched)
        })
        .await
    }
}

impl FetchedContent {
    fn add_image(&mut self, base64: &str) -> Result<(), String> {
        let image =
            STANDARD.decode(base64).map_err(|_| "its image is not valid base64".to_owned())?;
        self.images.push(image);
        Ok(())
    }
}

impl ServerOffers {
    fn unknown_prompt_message(&self, server: &Server, name: &str) -> String {
        let prompts = &self.prompts;
        let names: Vec<String> = prompts.iter().map(|prompt| prompt.command_name(server)).collect();
        let hint = match most_similar(name, prompts.iter().map(|prompt| prompt.name.as_str())) {
            Some(near) => {
                format!("did you mean /{}__{}?", server_prefix(server.name()), sanitize_name(near))
            }
            None if names.is_empty() => "it has none".to_owned(),
            None => format!("it has /{}", names.join(", /")),
        };
        format!("the MCP server {} has no prompt {name:?}: {hint}", server.name())
    }
}

impl ServerPrompt {
    fn command_name(&self, server: &Server) -> String {
        format!("{}__{}", server_prefix(server.name()), sanitize_name(&self.name))
    }

    fn argument_hint(&self) -> String {
        let shown = self.arguments.iter().map(|(name, is_required)| match is_required {
            true => format!("<{name}>"),
            false => format!("[{name}]"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// Words become arguments in order; the last argument takes the rest of the line.
    fn parse_arguments(&self, line: &str) -> Result<Object, String> {
        let mut words = split_words(line);
        let n = self.arguments.len();
        if n == 0 && !words.is_empty() {
            return Err("the prompt takes no arguments".to_owned());
        }
        if words.len() > n {
            let rest = words.split_off(n - 1).join(" ");
            words.push(rest);
        }
        if let Some((name, _)) =
            self.arguments.iter().skip(words.len()).find(|(_, is_required)| *is_required)
        {
            return Err(format!("the argument <{name}> is missing"));
        }
        let names = self.arguments.iter().map(|(name, _)| name.clone());
        Ok(names.zip(words.into_iter().map(Into::into)).collect())
    }
}

async fn with_time_limit(
    server: &Server,
    work: impl Future<Output = Result<FetchedContent, String>>,
) -> Result<FetchedContent, String> {
    let limit = server.settings.timeout;
    timeout(limit, work).await.unwrap_or_else(|_| {
        Err(format!("the MCP server {} did not answer within {}", server.name(), seconds(limit)))
    })
}

async fn connect(server: &Server) -> Result<ServerConnection, String> {
    wait_for_connection(server).await.map_err(|failure| failure.message)
}

fn protocol_error_message(server: &Server) -> String {
    format!("the answer of the MCP server {} does not follow the protocol", server.name())
}

async fn send_request(
    server: &Server,
    connected: &ServerConnection,
    request: ClientRequest,
) -> Result<ServerResult, String> {
    let error = match connected.peer.send_request(request).await {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let name = server.name();
    Err(match error {
        ServiceError::McpError(error) => {
            let message = shorten(&one_line(&error.message), MAX_MESSAGE_BYTES);
            format!("the MCP server {name}: {message}")
        }
        ServiceError::TransportClosed => {
            let why = loss_reason(server, connected).await;
            format!("the MCP server {name} ended before it answered{why}")
        }
        error => {
            let refused = http::refusal_message(&error);
            if let Some(why) = &refused {
                server.record_reachability(Err(why));
            }
            let why = refused.unwrap_or_else(|| one_line(&http::root_cause(&error)));
            format!("the MCP server {name}: {}", shorten(&why, MAX_MESSAGE_BYTES))
        }
    })
}

/// Lists only what the server declares. What fails is not offered.
pub(super) async fn list_offers(peer: &Peer<RoleClient>, limit: Duration) -> ServerOffers {
    let info = peer.peer_info();
    let capabilities = info.as_ref().map(|info| &info.capabilities);
    let mut offers = ServerOffers::default();
    if capabilities.is_some_and(|declared| declared.prompts.is_some()) {
        _ = timeout(limit, list_prompts(peer, &mut offers.prompts)).await;
    }
    if capabilities.is_some_and(|declared| declared.resources.is_some()) {
        _ = timeout(limit, list_resources(peer, &mut offers.resources)).await;
    }
    offers
}

async fn list_prompts(peer: &Peer<RoleClient>, prompts: &mut Vec<ServerPrompt>) {
    let mut params = PaginatedRequestParams::default();
    for _ in 0..MAX_PAGES {
        let request = ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let answer = peer.send_request(request).await;
        let Ok(ServerResult::ListPromptsResult(page)) = answer else { return };
        prompts.extend(page.prompts.into_iter().map(prompt_from_rpc));
        prompts.truncate(MAX_OFFERS);
        let Some(next) = page.next_cursor.filter(|_| prompts.len() < MAX_OFFERS) else { return };
        params = PaginatedRequestParams::default().with_cursor(Some(next));
    }
}

fn prompt_from_rpc(prompt: RpcPrompt) -> ServerPrompt {
    let arguments = prompt.arguments.unwrap_or_default().into_iter();
    ServerPrompt {
        arguments: arguments.map(|own| (own.name, own.required == Some(true))).collect(),
        description: prompt.description.or(prompt.title).unwrap_or_default(),
        name: prompt.name,
    }
}

async fn list_resources(peer: &Peer<RoleClient>, resources: &mut Vec<String>) {
    let mut params = PaginatedRequestParams::default();
    for _ in 0..MAX_PAGES {
        let request = ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        let answer = peer.send_request(request).await;
        let Ok(ServerResult::ListResourcesResult(page)) = answer else { return };
        resources.extend(page.resources.into_iter().map(|resource| resource.uri));
        resources.truncate(MAX_OFFERS);
        let Some(next) = page.next_cursor.filter(|_| resources.len() < MAX_OFFERS) else { return };
        params = PaginatedRequestParams::default().with_cursor(Some(next));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn arguments_are_taken_by_order() {
        let check = |arguments: &[(&str, bool)], line: &str, expected: Result<Value, &str>| {
            let arguments = arguments.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
            let prompt =
                ServerPrompt { name: "p".to_owned(), description: String::new(), arguments };
            let found = prompt.parse_arguments(line).map(Value::Object);
            assert_eq!(found, expected.map_err(str::to_owned), "{line}");
        };
        let two = [("city", true), ("date", false)];
        check(&two, "Bern", Ok(json!({"city": "Bern"})));
        check(&two, "\"New York\" next week", Ok(json!({"city": "New York", "date": "next week"})));
        check(&two, "", Err("the argument <city> is missing"));
        check(&[("a", false), ("b", true)], "x", Err("the argument <b> is missing"));
        check(&[], "x", Err("the prompt takes no arguments"));
        check(&[], "", Ok(json!({})));
    }
}
