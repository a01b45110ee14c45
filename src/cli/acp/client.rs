//! The client and its sessions: passes each demand to the session that it is about.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use agent_client_protocol::v1::schema::{ClientCapabilities, ClientRequest, SessionId};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Error, ErrorCode};
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::AcpArgs;
use super::open::{Opening, Place};
use super::recorded;
use super::session::{self, Order};
use crate::cli::stdout::Output;
use agent_protocol::control::Control;

/// What the client demands.
pub(super) enum Demand {
    Request(Box<(ClientRequest, Responder<Value>)>),
    Cancel(SessionId),
}

/// What the sessions of a connection share.
pub(super) struct Shared<'a> {
    pub(super) args: &'a AcpArgs,
    pub(super) connection: ConnectionTo<agent_client_protocol::Client>,
    pub(super) output: Output,
    /// What the client can show and answer.
    pub(super) can: RefCell<ClientCapabilities>,
    /// The open sessions by id.
    pub(super) open: RefCell<HashMap<SessionId, UnboundedSender<Order>>>,
    /// Nothing more comes from the client: no session is opened any more.
    pub(super) over: CancellationToken,
    /// Every turn ends now.
    pub(super) ended: CancellationToken,
}

/// The client and its sessions.
pub(super) struct Client<'a> {
    shared: Rc<Shared<'a>>,
    is_initialized: bool,
    sessions: FuturesUnordered<LocalBoxFuture<'a, ()>>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        args: &'a AcpArgs,
        connection: ConnectionTo<agent_client_protocol::Client>,
        output: Output,
    ) -> Self {
        let shared = Shared {
            args,
            connection,
            output,
            can: RefCell::default(),
            open: RefCell::default(),
            over: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        Self { shared: Rc::new(shared), is_initialized: false, sessions: FuturesUnordered::new() }
    }

    /// Serves the client until it closes its end; then running turns end by themselves. If it reads no more, or the
    /// program is ended, they end at once.
    pub(super) async fn serve(mut self, mut demands: UnboundedReceiver<Demand>, control: &Control) {
        let shared = self.shared.clone();
        let lost = shared.output.lost();
        let interrupted = control.cancel();
        loop {
            tokio::select! {
                biased;
                demand = demands.recv() => match demand {
                    Some(demand) => self.take(demand),
                    None => break,
                },
                Some(()) = self.sessions.next() => {}
                () = interrupted.cancelled() => break,
                () = lost.cancelled() => break,
                () = shared.connection.incoming_closed() => break,
            }
        }
        shared.over.cancel();
        shared.open.borrow_mut().clear();
        loop {
            if interrupted.is_cancelled() || lost.is_cancelled() {
                shared.ended.cancel();
            }
            tokio::select! {
                closed = self.sessions.next() => if closed.is_none() {
                    return;
                },
                () = interrupted.cancelled(), if !shared.ended.is_cancelled() => {}
                () = lost.cancelled(), if !shared.ended.is_cancelled() => {}
            }
        }
    }

    fn take(&mut self, demand: Demand) {
        match demand {
            Demand::Request(request) => {
                let (request, responder) = *request;
                self.take_request(request, responder);
            }
            Demand::Cancel(id) => {
                if let Some(orders) = self.shared.open.borrow().get(&id) {
                    // (The session may be closing.)
                    _ = orders.send(Order::Cancel);
                }
            }
        }
    }

    fn take_request(&mut self, request: ClientRequest, responder: Responder<Value>) {
        if !self.is_initialized && !matches!(request, ClientRequest::InitializeRequest(_)) {
            let why = "the first request must be `initialize`";
            return respond(responder, Err(Error::invalid_request().data(why)));
        }
        match request {
            ClientRequest::InitializeRequest(request) => {
                self.is_initialized = true;
                *self.shared.can.borrow_mut() = request.client_capabilities;
                respond(responder.cast(), Ok(super::capabilities(request.protocol_version)));
            }
            ClientRequest::AuthenticateRequest(_) => {
                let why =
                    "there is nothing to authenticate: keys come from the environment of the agent";
                respond(responder, Err(Error::invalid_params().data(why)));
            }
            ClientRequest::NewSessionRequest(request) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::New(responder.cast()));
            }
            ClientRequest::LoadSessionRequest(request) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::Load(request.session_id, responder.cast()));
            }
            ClientRequest::ResumeSessionRequest(request) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::Resume(request.session_id, responder.cast()));
            }
            ClientRequest::ListSessionsRequest(request) => {
                respond(responder.cast(), recorded::list(&request));
            }
            ClientRequest::CloseSessionRequest(request) => {
                self.order(&request.session_id, responder.cast(), Order::Close);
            }
            ClientRequest::PromptRequest(request) => {
                let prompt = request.prompt;
                let order = |responder| Order::Prompt(prompt, responder);
                self.order(&request.session_id, responder.cast(), order);
            }
            ClientRequest::SetSessionModeRequest(request) => {
                let mode = request.mode_id;
                let order = |responder| Order::Mode(mode, responder);
                self.order(&request.session_id, responder.cast(), order);
            }
            ClientRequest::SetSessionConfigOptionRequest(request) => {
                let (setting, value) = (request.config_id, request.value);
                let order = |responder| Order::Setting(setting, value, responder);
                self.order(&request.session_id, responder.cast(), order);
            }
            _ => respond(responder, Err(Error::method_not_found())),
        }
    }

    fn open(&mut self, place: Place, opening: Opening) {
        self.sessions.push(Box::pin(session::serve(self.shared.clone(), place, opening)));
    }

    /// Passes an order to a session that is open.
    fn order<T: agent_client_protocol::JsonRpcResponse>(
        &self,
        id: &SessionId,
        responder: Responder<T>,
        order: impl FnOnce(Responder<T>) -> Order,
    ) {
        match self.shared.open.borrow().get(id) {
            // (If the session ends meanwhile, the dropped responder answers.)
            Some(orders) => _ = orders.send(order(responder)),
            None => respond(responder, Err(not_open(id))),
        }
    }
}

fn not_open(id: &SessionId) -> Error {
    let why = format!("session {id} is not open in this connection: load or resume it");
    Error::new(ErrorCode::RESOURCE_NOT_FOUND, why)
}

/// Answers a request. A client that is gone gets no answer.
pub(super) fn respond<T: agent_client_protocol::JsonRpcResponse>(
    responder: Responder<T>,
    result: Result<T, Error>,
) {
    _ = responder.respond_with_result(result);
}
