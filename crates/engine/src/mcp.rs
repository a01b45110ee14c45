//! MCP servers: programs and addresses that offer tools.
//!
//! Servers start in the background, on a thread of their own, and never delay a request. The tools for the model are
//! fixed at the first request: those of connected servers, and for the others those of last time (`cache`); directly,
//! or beyond a limit of tokens as an index (`catalog`); later ones are called through the one tool `McpTool`.

mod cache;
mod call;
mod catalog;
mod connection;
mod host;
mod http;
mod offers;
mod result;
mod scope;
mod search;
mod server;
mod stdio;
mod tool;
mod tool_names;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::tools::Tool;
use agent_host::exec::{Exec, ServiceCommand};
use agent_protocol::event::{EventBody, EventStream};
use agent_protocol::pluralize;
use agent_protocol::prompt::Prompts;

pub use host::HostChannel;
pub use http::HttpClient;
pub use offers::{FetchedContent, OfferChanges};
pub use scope::ToolScope;
use server::Server;
pub use server::{ServerState, ToolInfo};

/// The one tool for all servers.
pub const MCP_TOOL_NAME: &str = "McpTool";

pub const NO_SERVERS: &str = "no MCP server is configured; `agent mcp add NAME COMMAND` or `agent mcp add NAME --url URL` adds one";

/// Time for the servers to end by themselves.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum ServerEndpoint {
    /// Messages use standard input and output.
    Program(ServiceCommand),
    /// Streamable HTTP.
    Address {
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
        client: fn(&str) -> Result<HttpClient, String>,
    },
    /// Inside the program that drives the session.
    Host(HostChannel),
}

/// The settings of one server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub name: String,
    pub endpoint: ServerEndpoint,
    /// Limit of the start, and of each call.
    pub timeout: Duration,
    /// Empty: all.
    pub enabled_tools: Vec<String>,
    pub disabled_tools: Vec<String>,
    /// The project, which the server learns about with `roots/list`.
    pub root: Option<PathBuf>,
}

/// A server, for users.
pub struct ServerReport {
    pub name: String,
    pub state: ServerState,
    /// `None` if they are unknown.
    pub tools: Option<Vec<String>>,
}

impl std::fmt::Display for ServerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            ServerState::Idle => "not started",
            ServerState::Connecting => "starting",
            ServerState::Connected(_) => "connected",
            ServerState::Failed(why) => return write!(f, "{}: not available: {why}", self.name),
        };
        write!(f, "{}: {state}", self.name)?;
        let Some(tools) = &self.tools else { return Ok(()) };
        write!(f, ", {}", pluralize(tools.len() as u64, "tool"))?;
        if tools.is_empty() { Ok(()) } else { write!(f, ": {}", tools.join(", ")) }
    }
}

/// The servers of a session. Those that run end when the last copy is dropped.
#[derive(Clone)]
pub struct Servers(Arc<ServerPool>);

struct ServerPool {
    servers: Vec<Arc<Server>>,
    max_tokens: u64,
    prompts: Prompts,
    shared: Arc<ServerThreadContext>,
    exec: Arc<Exec>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// Shared by the thread of the servers and the session.
struct ServerThreadContext {
    cache: Option<PathBuf>,
    cancel: CancellationToken,
    reports: Mutex<ReportQueue>,
}

#[derive(Default)]
struct ReportQueue {
    events: Option<EventStream>,
    /// Reports from before the session began.
    queued: Vec<EventBody>,
}

impl ServerThreadContext {
    fn report(&self, body: EventBody) {
        let mut reports = self.reports.lock();
        match reports.events.clone() {
            Some(events) => {
                drop(reports);
                events.emit(body);
            }
            None => reports.queued.push(body),
        }
    }
}

impl Servers {
    /// The servers with these settings; none is started. `cache`: the folder for their schemas. `max_tokens`: of
    /// their schemas or their index (`catalog`).
    pub fn new(
        settings: Vec<ServerSettings>,
        exec: Exec,
        cache: Option<PathBuf>,
        max_tokens: u64,
        prompts: &Prompts,
    ) -> Self {
        let server = |settings| Arc::new(Server::new(settings, cache.as_deref()));
        let servers = settings.into_iter().map(server).collect();
        let shared = Arc::new(ServerThreadContext {
            cache,
            cancel: CancellationToken::new(),
            reports: Mutex::default(),
        });
        let thread = Mutex::default();
        let (exec, prompts) = (Arc::new(exec), prompts.clone());
        Self(Arc::new(ServerPool { servers, max_tokens, prompts, shared, exec, thread }))
    }

    /// The current tools for an agent with this scope, in a fixed order.
    pub fn tools(&self, scope: ToolScope) -> Vec<Box<dyn Tool>> {
        catalog::offer_tools(self, scope)
    }

    /// Whether a name in the list of a role means a server, or a tool that one has or, without known tools, may have.
    pub fn is_known_name(&self, name: &str) -> bool {
        self.0.servers.iter().any(|server| match server.tools() {
            _ if name == MCP_TOOL_NAME => true,
            Some(tools) => {
                let names = |tool: &str| scope::names_tool(name, server.name(), tool);
                names("") || tools.iter().any(|tool| names(&tool.name))
            }
            None => scope::names_server(name, server.name()),
        })
    }

    /// Starts the servers that are not started yet, in the background.
    pub fn start(&self) {
        let mut thread = self.0.thread.lock();
        if thread.is_some() {
            return;
        }
        let (servers, exec, shared) =
            (self.0.servers.clone(), Arc::clone(&self.0.exec), Arc::clone(&self.0.shared));
        for server in &servers {
            server.set_connecting();
        }
        let run = move || connection::run_servers(&servers, &exec, &shared);
        match std::thread::Builder::new().name("mcp".to_owned()).spawn(run) {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                let why = format!("the thread of the MCP servers could not be started: {error}");
                for server in &self.0.servers {
                    server.set_failed(why.clone());
                }
            }
        }
    }

    /// Reports changes as events of this session, including those from before it began.
    pub fn attach_events(&self, events: &EventStream) {
        let mut reports = self.0.shared.reports.lock();
        reports.events = Some(events.clone());
        let queued = std::mem::take(&mut reports.queued);
        drop(reports);
        for body in queued {
            events.emit(body);
        }
    }

    /// The servers with their states.
    pub fn states(&self) -> Vec<ServerReport> {
        let report = |server: &Arc<Server>| ServerReport {
            name: server.name().to_owned(),
            state: server.displayed_state(),
            tools: server.tools().map(|tools| tools.iter().map(|tool| tool.name.clone()).collect()),
        };
        self.0.servers.iter().map(report).collect()
    }

    /// The servers with their states and tools, one per line.
    pub fn in_words(&self) -> String {
        self.states().iter().map(|server| format!("{server}\n")).collect()
    }

    /// Waits until each server, or only the one of this name, is connected with its tools or has failed.
    pub async fn wait_until_ready(&self, only: Option<&str>) {
        for server in &self.0.servers {
            if only.is_none_or(|name| name == server.name()) {
                server.wait_until_settled().await;
                server.wait_until_listed().await;
            }
        }
    }

    /// Ends the servers; returns when they have ended.
    pub async fn close(&self) {
        self.0.shared.cancel.cancel();
        let thread = self.0.thread.lock().take();
        let Some(thread) = thread else { return };
        let joined = tokio::task::spawn_blocking(move || thread.join());
        _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, joined).await;
    }

    fn servers(&self) -> &[Arc<Server>] {
        &self.0.servers
    }

    fn names(&self) -> Vec<&str> {
        self.servers().iter().map(|server| server.name()).collect()
    }

    /// The server and its tool that `git.log` or `mcp__git__log` names.
    fn find_tool<'a>(&'a self, tool: &'a str) -> Option<(&'a Arc<Server>, &'a str)> {
        let split = |separator: &'static str| {
            move |server: &'a Arc<Server>| {
                let rest = tool.strip_prefix("mcp__").filter(|_| separator == "__");
                let rest = rest.unwrap_or(tool).strip_prefix(server.name())?;
                Some((server, rest.strip_prefix(separator)?))
            }
        };
        let dotted = self.0.servers.iter().filter_map(split("."));
        let all = dotted.chain(self.0.servers.iter().filter_map(split("__")));
        // The name of a server may begin with that of another one.
        all.max_by_key(|(server, _)| server.name().len())
    }
}

impl Drop for ServerPool {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
    }
}
