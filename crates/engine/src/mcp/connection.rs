//! The thread of the servers: connects to each, restarts one that ended, and keeps its tools up to date.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ErrorData, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult, Tool as RpcTool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, RequestContext, RoleClient, RunningService,
    serve_client_with_ct,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::server::{MAX_TOOLS, Server, ToolInfo};
use super::stdio::{ProcessEnding, StdioTransport};
use super::{ServerEndpoint, ServerThreadContext, cache, http, offers};
use agent_host::exec::{Exec, seconds};
use agent_protocol::event::{EventBody, McpServerState};

/// Limit for one server in a session.
const MAX_RESTARTS: u32 = 3;
/// Pause before a restart, times its number.
const RESTART_PAUSE: Duration = Duration::from_millis(100);
/// Time for the rest of the error output after the end.
const STDERR_DRAIN_TIME: Duration = Duration::from_millis(100);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// Pages of a list of tools.
const MAX_PAGES: usize = 200;

pub(super) fn run_servers(servers: &[Arc<Server>], exec: &Exec, shared: &ServerThreadContext) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(join_all(
                servers.iter().map(|server| supervise_server(server, exec, shared)),
            ));
        }
        Err(error) => {
            let why = format!("the runtime of the MCP servers could not start: {error}");
            for server in servers {
                server.set_failed(why.clone());
            }
        }
    }
}

enum ConnectionEnd {
    Cancelled,
    Lost(String),
}

async fn supervise_server(server: &Arc<Server>, exec: &Exec, shared: &ServerThreadContext) {
    let report = |state: McpServerState, tools: usize, detail: &str| {
        shared.report(EventBody::McpServer {
            server: server.name().to_owned(),
            state,
            tools,
            detail: detail.to_owned(),
        });
    };
    let mut n_restarts = 0;
    loop {
        let why = match Box::pin(run_connection(server, exec, shared)).await {
            Ok(ConnectionEnd::Cancelled) => {
                return server.set_failed("the session has ended".to_owned());
            }
            Err(why) => why,
            Ok(ConnectionEnd::Lost(why)) if n_restarts == MAX_RESTARTS => {
                format!("{why}; it was started {n_restarts} times again")
            }
            Ok(ConnectionEnd::Lost(why)) => {
                n_restarts += 1;
                server.set_connecting();
                report(McpServerState::Lost, 0, &why);
                sleep(RESTART_PAUSE * n_restarts).await;
                continue;
            }
        };
        report(McpServerState::Failed, 0, &why);
        return server.set_failed(why);
    }
}

/// An error is the reason why the server could not be connected.
async fn run_connection(
    server: &Arc<Server>,
    exec: &Exec,
    shared: &ServerThreadContext,
) -> Result<ConnectionEnd, String> {
    let ending = ProcessEnding::default();
    server.set_listing(false);
    server.set_offers(None);
    let changed = Arc::new(ListChanges::default());
    let client = McpClient { server: Arc::clone(server), changed: Arc::clone(&changed) };
    let cancel = shared.cancel.child_token();
    match &server.settings.endpoint {
        ServerEndpoint::Address { url, headers, client: make_client } => {
            let transport = http::create_transport(make_client(url)?, url, headers)?;
            let connecting = serve_client_with_ct(client, transport, cancel);
            Box::pin(follow_connection(server, shared, connecting, &changed)).await
        }
        ServerEndpoint::Host(host) => {
            let connecting = serve_client_with_ct(client, host.connect(), cancel);
            Box::pin(follow_connection(server, shared, connecting, &changed)).await
        }
        ServerEndpoint::Program(command) => {
            let service = exec.start_service(command).map_err(|error| error.to_string())?;
            let stdio = StdioTransport::new(service, ending.clone());
            let (stdio, stderr) = stdio.ok_or("it has no standard input")?;
            let connecting = serve_client_with_ct(client, stdio, cancel);
            let mut following = Box::pin(follow_connection(server, shared, connecting, &changed));
            let listening = ending.collect_stderr(stderr);
            tokio::pin!(listening);
            let end = tokio::select! {
                end = &mut following => {
                    // The last words explain the end.
                    _ = timeout(STDERR_DRAIN_TIME, listening).await;
                    end
                }
                () = &mut listening => following.await,
            };
            match end {
                Ok(ConnectionEnd::Cancelled) => end,
                Ok(ConnectionEnd::Lost(why)) => Ok(ConnectionEnd::Lost(ending.describe(&why))),
                Err(why) => Err(ending.describe(&why)),
            }
        }
    }
}

type RunningClient = RunningService<RoleClient, McpClient>;

async fn follow_connection(
    server: &Server,
    shared: &ServerThreadContext,
    connecting: impl Future<Output = Result<RunningClient, ClientInitializeError>>,
    changed: &ListChanges,
) -> Result<ConnectionEnd, String> {
    let limit = server.settings.timeout;
    let cancelled = || shared.cancel.is_cancelled();
    let first = async {
        let connecting = connecting.await;
        let running = connecting.map_err(|error| http::connect_error_message(&error))?;
        let listed = list_tools(running.peer()).await?;
        Ok::<_, String>((running, listed))
    };
    let first = timeout(limit, first).await;
    if cancelled() {
        return Ok(ConnectionEnd::Cancelled);
    }
    let first = first.map_err(|_| format!("it was not ready within {}", seconds(limit)))?;
    let (running, tools) = first?;
    publish_tools(server, shared, running.peer(), tools, McpServerState::Connected);
    let peer = running.peer().clone();
    // The connection ends by itself when the session ends.
    let over = running.waiting();
    tokio::pin!(over);
    let offering = offers::list_offers(&peer, limit);
    tokio::pin!(offering);
    let mut is_offering = true;
    loop {
        let too_late = async {
            shared.cancel.cancelled().await;
            sleep(CLOSE_TIMEOUT).await;
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
                offering.set(offers::list_offers(&peer, limit));
            }
            () = changed.tools.notified() => {
                if let Ok(Ok(tools)) = timeout(limit, list_tools(&peer)).await {
                    publish_tools(server, shared, &peer, tools, McpServerState::Changed);
                }
                server.set_listing(false);
            }
        }
    }
    server.set_offers(Some(offers::ServerOffers::default()));
    if cancelled() {
        Ok(ConnectionEnd::Cancelled)
    } else {
        Ok(ConnectionEnd::Lost("the connection was lost".to_owned()))
    }
}

fn publish_tools(
    server: &Server,
    shared: &ServerThreadContext,
    peer: &Peer<RoleClient>,
    tools: Vec<ToolInfo>,
    state: McpServerState,
) {
    let n_tools = tools.len();
    if let Some(folder) = &shared.cache {
        cache::write(folder, &server.settings, &tools);
    }
    server.set_connected(peer.clone(), tools);
    let (server, detail) = (server.name().to_owned(), String::new());
    shared.report(EventBody::McpServer { server, state, tools: n_tools, detail });
}

/// A tool that does not follow the protocol does not hide the others.
async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<ToolInfo>, String> {
    let mut all: Vec<ToolInfo> = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let answer = peer.send_request(request).await;
        let answer = answer.map_err(|error| match http::refusal_message(&error) {
            Some(why) => why,
            None => format!("it does not list its tools: {}", http::root_cause(&error)),
        })?;
        cursor = match answer {
            ServerResult::ListToolsResult(list) => {
                all.extend(list.tools.into_iter().map(tool_from_typed));
                list.next_cursor
            }
            ServerResult::CustomResult(custom) if custom.0["tools"].is_array() => {
                let tools = custom.0["tools"].as_array().into_iter().flatten();
                all.extend(tools.filter_map(tool_from_json));
                custom.0["nextCursor"].as_str().map(str::to_owned)
            }
            _ => return Err("its list of tools is no list of tools".to_owned()),
        };
        if cursor.is_none() || all.len() >= MAX_TOOLS {
            break;
        }
    }
    Ok(all)
}

fn tool_from_typed(tool: RpcTool) -> ToolInfo {
    let hint = tool.annotations.and_then(|annotations| annotations.read_only_hint);
    let description = tool.description.unwrap_or_default();
    let schema = Some((*tool.input_schema).clone());
    ToolInfo::new(tool.name.into_owned(), &description, schema, hint == Some(true))
}

fn tool_from_json(tool: &Value) -> Option<ToolInfo> {
    Some(ToolInfo::new(
        tool["name"].as_str().filter(|name| !name.is_empty())?.to_owned(),
        tool["description"].as_str().unwrap_or_default(),
        tool["inputSchema"].as_object().cloned(),
        tool["annotations"]["readOnlyHint"] == true,
    ))
}

#[derive(Default)]
struct ListChanges {
    tools: Notify,
    offers: Notify,
}

struct McpClient {
    server: Arc<Server>,
    changed: Arc<ListChanges>,
}

#[expect(deprecated, reason = "the servers of today ask for roots")]
impl ClientHandler for McpClient {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("code-agent", env!("CARGO_PKG_VERSION"));
        let capabilities = ClientCapabilities::builder().enable_roots().build();
        let mut config = ClientConfig::new(capabilities, own);
        // Later versions have no handshake, which most servers expect.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let root = self.server.settings.root.iter();
        let urls = root.filter_map(|root| url::Url::from_file_path(root).ok());
        let roots = urls.map(|url| rmcp::model::Root::new(String::from(url)));
        Ok(rmcp::model::ListRootsResult::new(roots.collect()))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.server.set_listing(true);
        self.changed.tools.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.offers.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.offers.notify_one();
    }
}
