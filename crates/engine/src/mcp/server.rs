//! One server: its settings, its state, and the tools that it has.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rmcp::service::{Peer, RoleClient};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::offers::ServerOffers;
use super::{ServerEndpoint, ServerSettings, cache};
use agent_protocol::Object;

const MAX_DESCRIPTION: usize = 2048;
/// Limit for one server.
pub(super) const MAX_TOOLS: usize = 2000;

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Name on the server.
    pub name: String,
    /// Up to `MAX_DESCRIPTION` bytes.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// The server says so.
    #[serde(default)]
    pub reads_only: bool,
}

impl ToolInfo {
    /// A tool without a schema takes any object.
    pub(super) fn new(
        name: String,
        description: &str,
        schema: Option<Object>,
        reads_only: bool,
    ) -> Self {
        let mut description = description.trim();
        if description.len() > MAX_DESCRIPTION {
            description = &description[..description.floor_char_boundary(MAX_DESCRIPTION)];
        }
        let schema = match schema.filter(|schema| !schema.is_empty()) {
            Some(schema) => Value::Object(schema),
            None => json!({"type": "object", "properties": {}}),
        };
        Self { name, description: description.to_owned(), schema, reads_only }
    }
}

/// The state of a server.
#[derive(Clone)]
pub enum ServerState {
    Idle,
    Connecting,
    Connected(ServerConnection),
    /// The reason; the server is not used any more.
    Failed(Arc<str>),
}

impl ServerState {
    /// In the words of Claude Code.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Idle | Self::Connecting => "pending",
            Self::Connected(_) => "connected",
            Self::Failed(_) => "failed",
        }
    }
}

/// A connection to a server.
#[derive(Clone)]
pub struct ServerConnection {
    pub(super) peer: Peer<RoleClient>,
    pub tools: Arc<Vec<ToolInfo>>,
}

pub(super) struct Server {
    pub(super) settings: ServerSettings,
    state: watch::Sender<ServerState>,
    /// Why the last call could not reach the server, although it is connected: with an address, each call is a
    /// connection of its own.
    unreachable: watch::Sender<Option<Arc<str>>>,
    is_listing: watch::Sender<bool>,
    /// Prompts and resources; `None` until they are listed.
    offers: watch::Sender<Option<Arc<ServerOffers>>>,
    /// Tools of an earlier session; `None` if unknown.
    cached_tools: Option<Arc<Vec<ToolInfo>>>,
}

impl Server {
    pub(super) fn new(settings: ServerSettings, cache: Option<&Path>) -> Self {
        let cached_tools = cache.and_then(|folder| cache::read(folder, &settings));
        Self {
            cached_tools: cached_tools.map(|tools| Arc::new(filter_enabled(&settings, tools))),
            settings,
            state: watch::Sender::new(ServerState::Idle),
            unreachable: watch::Sender::new(None),
            is_listing: watch::Sender::new(false),
            offers: watch::Sender::new(None),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(super) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    pub(super) fn displayed_state(&self) -> ServerState {
        match (self.state(), &self.settings.endpoint, &*self.unreachable.borrow()) {
            (ServerState::Connected(_), ServerEndpoint::Address { .. }, Some(why)) => {
                ServerState::Failed(Arc::clone(why))
            }
            (state, ..) => state,
        }
    }

    /// An error is the reason why a call could not reach the server. The next call tries again.
    pub(super) fn record_reachability(&self, outcome: Result<(), &str>) {
        self.unreachable.send_replace(outcome.err().map(Into::into));
    }

    pub(super) fn set_connecting(&self) {
        self.state.send_replace(ServerState::Connecting);
    }

    pub(super) fn set_connected(&self, peer: Peer<RoleClient>, tools: Vec<ToolInfo>) {
        let tools = Arc::new(filter_enabled(&self.settings, tools));
        self.record_reachability(Ok(()));
        self.state.send_replace(ServerState::Connected(ServerConnection { peer, tools }));
    }

    pub(super) fn set_failed(&self, why: String) {
        self.state.send_replace(ServerState::Failed(why.into()));
    }

    pub(super) fn set_listing(&self, is_listing: bool) {
        self.is_listing.send_replace(is_listing);
    }

    pub(super) async fn wait_until_listed(&self) {
        _ = self.is_listing.subscribe().wait_for(|is_listing| !is_listing).await;
    }

    pub(super) fn offers(&self) -> Option<Arc<ServerOffers>> {
        self.offers.borrow().clone()
    }

    pub(super) fn watch_offers(&self) -> watch::Receiver<Option<Arc<ServerOffers>>> {
        self.offers.subscribe()
    }

    pub(super) fn set_offers(&self, offers: Option<ServerOffers>) {
        self.offers.send_replace(offers.map(Arc::new));
    }

    pub(super) async fn wait_for_offers(&self) -> Arc<ServerOffers> {
        let mut offers = self.offers.subscribe();
        let listed = offers.wait_for(Option::is_some).await;
        listed.ok().and_then(|offers| offers.clone()).unwrap_or_default()
    }

    /// The state is connected or failed.
    pub(super) async fn wait_until_settled(&self) -> ServerState {
        self.wait_for_state(|state| {
            matches!(state, ServerState::Connected(_) | ServerState::Failed(_))
        })
        .await
    }

    pub(super) async fn wait_until_lost(&self, connected: &ServerConnection) -> ServerState {
        self.wait_for_state(|state| match state {
            ServerState::Connected(now) => !Arc::ptr_eq(&now.tools, &connected.tools),
            _ => true,
        })
        .await
    }

    async fn wait_for_state(&self, is_reached: impl FnMut(&ServerState) -> bool) -> ServerState {
        let mut states = self.state.subscribe();
        states.wait_for(is_reached).await.map_or(ServerState::Idle, |state| state.clone())
    }

    /// Tools of the connection, otherwise those of last time.
    pub(super) fn tools(&self) -> Option<Arc<Vec<ToolInfo>>> {
        match &*self.state.borrow() {
            ServerState::Connected(connected) => Some(Arc::clone(&connected.tools)),
            _ => self.cached_tools.clone(),
        }
    }
}

/// Keeps each name once.
fn filter_enabled(settings: &ServerSettings, tools: Vec<ToolInfo>) -> Vec<ToolInfo> {
    let mut seen = HashSet::new();
    let is_enabled = |tool: &ToolInfo| {
        (settings.enabled_tools.is_empty() || settings.enabled_tools.contains(&tool.name))
            && !settings.disabled_tools.contains(&tool.name)
    };
    let tools = tools.into_iter().filter(is_enabled);
    tools.filter(|tool| seen.insert(tool.name.clone())).take(MAX_TOOLS).collect()
}
