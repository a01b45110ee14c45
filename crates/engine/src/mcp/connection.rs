//! The thread of the servers: connects to each, starts one that ended again, and keeps its tools up to date.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult, Tool as RpcTool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, RoleClient, RunningService,
    serve_client_with_ct,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::server::{MAX_TOOLS, Server, ToolInfo};
use super::stdio::{Ending, Stdio};
use super::{Shared, Start, cache, http, offers};
use agent_host::exec::{Exec, seconds};
use agent_protocol::event::{Body, McpState};

/// How often a server that ended is started again in a session.
const MAX_RESTARTS: u32 = 3;
/// The pause before that, times its number.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the rest of the error output is read after the end.
const REST: Duration = Duration::from_millis(100);
/// How long the connection may take to end.
const END_TIME: Duration = Duration::from_secs(1);
/// Limit of pages of a list of tools.
const MAX_PAGES: usize = 200;

/// Runs the servers until the session ends.
pub(super) fn run(servers: &[Arc<Server>], exec: &Exec, shared: &Shared) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(join_all(servers.iter().map(|server| attend(server, exec, shared))));
        }
        Err(error) => {
            let why = format!("the runtime of the MCP servers could not start: {error}");
            for server in servers {
                server.fail(why.clone());
            }
        }
    }
}

/// Why a connection ended.
enum End {
    /// The session ends.
    Cancelled,
    /// There was none.
    NotConnected(String),
    /// It was lost.
    Lost(String),
}

async fn attend(server: &Arc<Server>, exec: &Exec, shared: &Shared) {
    let report = |state: McpState, tools: usize, detail: &str| {
        shared.report(Body::McpServer {
            server: server.name().to_owned(),
            state,
            tools,
            detail: detail.to_owned(),
        });
    };
    let mut n_restarts = 0;
    loop {
        let why = match Box::pin(live(server, exec, shared)).await {
            End::Cancelled => return server.fail("the session has ended".to_owned()),
            End::NotConnected(why) => why,
            End::Lost(why) if n_restarts == MAX_RESTARTS => {
                format!("{why}; it was started {n_restarts} times again")
            }
            End::Lost(why) => {
                n_restarts += 1;
                server.connecting();
                report(McpState::Lost, 0, &why);
                sleep(PAUSE * n_restarts).await;
                continue;
            }
        };
        report(McpState::Failed, 0, &why);
        return server.fail(why);
    }
}

/// One connection from its start to its end.
async fn live(server: &Arc<Server>, exec: &Exec, shared: &Shared) -> End {
    let ending = Ending::default();
    server.lists(false);
    server.set_offers(None);
    let changed = Arc::new(Changed::default());
    let client = Client { server: Arc::clone(server), changed: Arc::clone(&changed) };
    let cancel = shared.cancel.child_token();
    match &server.settings.start {
        Start::Address { url, headers, client: make_client } => {
            let transport =
                match make_client(url).and_then(|http| http::transport(http, url, headers)) {
                    Ok(transport) => transport,
                    Err(why) => return End::NotConnected(why),
                };
            let connecting = serve_client_with_ct(client, transport, cancel);
            Box::pin(follow(server, shared, connecting, &changed)).await
        }
        Start::Host(host) => {
            let connecting = serve_client_with_ct(client, host.connection(), cancel);
            Box::pin(follow(server, shared, connecting, &changed)).await
        }
        Start::Program(command) => {
            let stdio = exec.serve(command).map(|service| Stdio::new(service, ending.clone()));
            let (stdio, stderr) = match stdio {
                Ok(Some(stdio)) => stdio,
                Ok(None) => return End::NotConnected("it has no standard input".to_owned()),
                Err(error) => return End::NotConnected(error.to_string()),
            };
            let connecting = serve_client_with_ct(client, stdio, cancel);
            let mut following = Box::pin(follow(server, shared, connecting, &changed));
            let listening = ending.listen(stderr);
            tokio::pin!(listening);
            let end = tokio::select! {
                end = &mut following => {
                    // The last words explain the end.
                    _ = timeout(REST, listening).await;
                    end
                }
                () = &mut listening => following.await,
            };
            match end {
                End::Cancelled => End::Cancelled,
                End::NotConnected(why) => End::NotConnected(ending.in_words(&why)),
                End::Lost(why) => End::Lost(ending.in_words(&why)),
            }
        }
    }
}

type Running = RunningService<RoleClient, Client>;

async fn follow(
    server: &Server,
    shared: &Shared,
    connecting: impl Future<Output = Result<Running, ClientInitializeError>>,
    changed: &Changed,
) -> End {
    let limit = server.settings.timeout;
    let cancelled = || shared.cancel.is_cancelled();
    let first = async {
        let connecting = connecting.await;
        let running = connecting.map_err(|error| http::not_connected(&error))?;
        let listed = tools(running.peer()).await?;
        Ok::<_, String>((running, listed))
    };
    let running = match timeout(limit, first).await {
        _ if cancelled() => return End::Cancelled,
        Ok(Ok((running, tools))) => {
            publish(server, shared, running.peer(), tools, McpState::Connected);
            running
        }
        Ok(Err(why)) => return End::NotConnected(why),
        Err(_) => {
            return End::NotConnected(format!("it was not ready within {}", seconds(limit)));
        }
    };
    let peer = running.peer().clone();
    // (It ends by itself when the session ends.)
    let over = running.waiting();
    tokio::pin!(over);
    let offering = offers::list(&peer, limit);
    tokio::pin!(offering);
    let mut is_offering = true;
    loop {
        let too_late = async {
            shared.cancel.cancelled().await;
            sleep(END_TIME).await;
        };
        tokio::select! {
            _ = &mut over => break,
            () = too_late => break,
            offers = &mut offering, if is_offering => {
                is_offering = false;
                server.set_offers(Some(offers));
            }
            () = changed.offers.notified() => {
                is_offering = true;
                offering.set(offers::list(&peer, limit));
            }
            () = changed.tools.notified() => {
                if let Ok(Ok(tools)) = timeout(limit, tools(&peer)).await {
                    publish(server, shared, &peer, tools, McpState::Changed);
                }
                server.lists(false);
            }
        }
    }
    server.set_offers(Some(offers::Offers::default()));
    if cancelled() { End::Cancelled } else { End::Lost("the connection was lost".to_owned()) }
}

/// Makes the tools of a connection known.
fn publish(
    server: &Server,
    shared: &Shared,
    peer: &Peer<RoleClient>,
    tools: Vec<ToolInfo>,
    state: McpState,
) {
    let n_tools = tools.len();
    if let Some(folder) = &shared.cache {
        cache::write(folder, &server.settings, &tools);
    }
    server.connected(peer.clone(), tools);
    let (server, detail) = (server.name().to_owned(), String::new());
    shared.report(Body::McpServer { server, state, tools: n_tools, detail });
}

/// All tools of a server. One that is not as the protocol wants it does not hide the others.
async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<ToolInfo>, String> {
    let mut all: Vec<ToolInfo> = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let answer = peer.send_request(request).await;
        let answer = answer.map_err(|error| match http::refused(&error) {
            Some(why) => why,
            None => format!("it does not list its tools: {}", http::innermost(&error)),
        })?;
        let next = match answer {
            ServerResult::ListToolsResult(list) => {
                all.extend(list.tools.into_iter().map(typed));
                list.next_cursor
            }
            ServerResult::CustomResult(custom) if custom.0["tools"].is_array() => {
                all.extend(custom.0["tools"].as_array().into_iter().flatten().filter_map(untyped));
                custom.0["nextCursor"].as_str().map(str::to_owned)
            }
            _ => return Err("its list of tools is no list of tools".to_owned()),
        };
        match next {
            Some(next) if all.len() < MAX_TOOLS => cursor = Some(next),
            Some(_) | None => break,
        }
    }
    Ok(all)
}

fn typed(tool: RpcTool) -> ToolInfo {
    let reads_only = tool.annotations.and_then(|it| it.read_only_hint).unwrap_or(false);
    let description = tool.description.unwrap_or_default();
    let schema = Some((*tool.input_schema).clone());
    ToolInfo::new(tool.name.into_owned(), &description, schema, reads_only)
}

fn untyped(tool: &Value) -> Option<ToolInfo> {
    Some(ToolInfo::new(
        tool["name"].as_str().filter(|name| !name.is_empty())?.to_owned(),
        tool["description"].as_str().unwrap_or_default(),
        tool["inputSchema"].as_object().cloned(),
        tool["annotations"]["readOnlyHint"] == true,
    ))
}

/// What a server says that it has changed.
#[derive(Default)]
struct Changed {
    tools: Notify,
    offers: Notify,
}

/// Our side of a connection.
struct Client {
    server: Arc<Server>,
    changed: Arc<Changed>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("code-agent", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(ClientCapabilities::default(), own);
        // (Later versions have no handshake, which most servers expect.)
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.server.lists(true);
        self.changed.tools.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.offers.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.offers.notify_one();
    }
}
