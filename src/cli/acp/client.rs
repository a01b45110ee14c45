//! The client and its sessions: passes each demand to the session that it is about.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use agent_client_protocol::v1::schema::{
    ClientCapabilities, CloseSessionRequest, CloseSessionResponse, ListSessionsRequest,
    ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionId, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Error, ErrorCode};
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::AcpArgs;
use super::open::{Opening, Place};
use super::recorded;
use super::session::{self, Order};
use crate::cli::stdout::Output;
use crate::protocol::control::Control;

/// What the client demands.
pub(super) enum Demand {
    Initialize(Box<ClientCapabilities>),
    New(NewSessionRequest, Responder<NewSessionResponse>),
    Load(LoadSessionRequest, Responder<LoadSessionResponse>),
    Resume(ResumeSessionRequest, Responder<ResumeSessionResponse>),
    List(ListSessionsRequest, Responder<ListSessionsResponse>),
    Close(CloseSessionRequest, Responder<CloseSessionResponse>),
    Prompt(PromptRequest, Responder<PromptResponse>),
    Mode(SetSessionModeRequest, Responder<SetSessionModeResponse>),
    Setting(SetSessionConfigOptionRequest, Responder<SetSessionConfigOptionResponse>),
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
        Self { shared: Rc::new(shared), sessions: FuturesUnordered::new() }
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
            Demand::Initialize(can) => *self.shared.can.borrow_mut() = *can,
            Demand::New(request, responder) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::New(responder));
            }
            Demand::Load(request, responder) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::Load(request.session_id, responder));
            }
            Demand::Resume(request, responder) => {
                let place = Place {
                    cwd: request.cwd,
                    add_dirs: request.additional_directories,
                    servers: request.mcp_servers,
                };
                self.open(place, Opening::Resume(request.session_id, responder));
            }
            Demand::List(request, responder) => {
                respond(responder, recorded::list(&request));
            }
            Demand::Close(request, responder) => {
                self.order(&request.session_id, responder, Order::Close);
            }
            Demand::Prompt(request, responder) => {
                let id = request.session_id;
                self.order(&id, responder, |responder| Order::Prompt(request.prompt, responder));
            }
            Demand::Mode(request, responder) => {
                let id = request.session_id;
                self.order(&id, responder, |responder| Order::Mode(request.mode_id, responder));
            }
            Demand::Setting(request, responder) => {
                let id = request.session_id;
                let (setting, value) = (request.config_id, request.value);
                self.order(&id, responder, |responder| Order::Setting(setting, value, responder));
            }
            Demand::Cancel(id) => {
                if let Some(orders) = self.shared.open.borrow().get(&id) {
                    // (The session may be closing.)
                    _ = orders.send(Order::Cancel);
                }
            }
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
