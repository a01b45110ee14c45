//! The client and its sessions: passes each request to its session.

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
use super::open::{SessionOrigin, SessionParams};
use super::session::{self, SessionRequest};
use super::session_list;
use crate::cli::stdout::Output;
use agent_protocol::control::SessionControl;

pub(super) enum ClientMessage {
    Request(Box<(ClientRequest, Responder<Value>)>),
    Cancel(SessionId),
}

pub(super) struct ConnectionState<'a> {
    pub(super) args: &'a AcpArgs,
    pub(super) connection: ConnectionTo<agent_client_protocol::Client>,
    pub(super) output: Output,
    pub(super) client_capabilities: RefCell<ClientCapabilities>,
    pub(super) open_sessions: RefCell<HashMap<SessionId, UnboundedSender<SessionRequest>>>,
    /// The client sends nothing more: no further session is opened.
    pub(super) input_closed: CancellationToken,
    /// Every turn ends at once.
    pub(super) shutdown: CancellationToken,
}

pub(super) struct ClientConnection<'a> {
    shared: Rc<ConnectionState<'a>>,
    is_initialized: bool,
    sessions: FuturesUnordered<LocalBoxFuture<'a, ()>>,
}

impl<'a> ClientConnection<'a> {
    pub(super) fn new(
        args: &'a AcpArgs,
        connection: ConnectionTo<agent_client_protocol::Client>,
        output: Output,
    ) -> Self {
        let shared = ConnectionState {
            args,
            connection,
            output,
            client_capabilities: RefCell::default(),
            open_sessions: RefCell::default(),
            input_closed: CancellationToken::new(),
            shutdown: CancellationToken::new(),
        };
        Self { shared: Rc::new(shared), is_initialized: false, sessions: FuturesUnordered::new() }
    }

    /// Ends when the client closes its end and running turns have ended. If it reads no more, or
    /// the program is ended, turns end at once.
    pub(super) async fn serve(
        mut self,
        mut messages: UnboundedReceiver<ClientMessage>,
        control: &SessionControl,
    ) {
        let shared = self.shared.clone();
        let lost = shared.output.lost();
        let interrupted = control.cancellation_token();
        loop {
            tokio::select! {
                biased;
                message = messages.recv() => match message {
                    Some(message) => self.handle_message(message),
                    None => break,
                },
                Some(()) = self.sessions.next() => {}
                () = interrupted.cancelled() => break,
                () = lost.cancelled() => break,
                () = shared.connection.incoming_closed() => break,
            }
        }
        shared.input_closed.cancel();
        shared.open_sessions.borrow_mut().clear();
        loop {
            if interrupted.is_cancelled() || lost.is_cancelled() {
                shared.shutdown.cancel();
            }
            tokio::select! {
                closed = self.sessions.next() => if closed.is_none() {
                    return;
                },
                () = interrupted.cancelled(), if !shared.shutdown.is_cancelled() => {}
                () = lost.cancelled(), if !shared.shutdown.is_cancelled() => {}
            }
        }
    }

    fn handle_message(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Request(request) => {
                let (request, responder) = *request;
                self.handle_request(request, responder);
            }
            ClientMessage::Cancel(id) => {
                if let Some(requests) = self.shared.open_sessions.borrow().get(&id) {
                    // The session may be closing.
                    _ = requests.send(SessionRequest::Cancel);
                }
            }
        }
    }

    fn handle_request(&mut self, request: ClientRequest, responder: Responder<Value>) {
        if !self.is_initialized && !matches!(request, ClientRequest::InitializeRequest(_)) {
            let why = "the first request must be `initialize`";
            return respond(responder, Err(Error::invalid_request().data(why)));
        }
        match request {
            ClientRequest::InitializeRequest(request) => {
                self.is_initialized = true;
                *self.shared.client_capabilities.borrow_mut() = request.client_capabilities;
                respond(responder.cast(), Ok(super::initialize_response(request.protocol_version)));
            }
            ClientRequest::AuthenticateRequest(_) => {
                let why =
                    "there is nothing to authenticate: keys come from the environment of the agent";
                respond(responder, Err(Error::invalid_params().data(why)));
            }
            ClientRequest::NewSessionRequest(request) => {
                let (cwd, add_dirs) = (request.cwd, request.additional_directories);
                let params = SessionParams { cwd, add_dirs, servers: request.mcp_servers };
                self.open_session(params, SessionOrigin::New, responder);
            }
            ClientRequest::LoadSessionRequest(request) => {
                let (cwd, add_dirs) = (request.cwd, request.additional_directories);
                let params = SessionParams { cwd, add_dirs, servers: request.mcp_servers };
                self.open_session(params, SessionOrigin::Load(request.session_id), responder);
            }
            ClientRequest::ResumeSessionRequest(request) => {
                let (cwd, add_dirs) = (request.cwd, request.additional_directories);
                let params = SessionParams { cwd, add_dirs, servers: request.mcp_servers };
                self.open_session(params, SessionOrigin::Resume(request.session_id), responder);
            }
            ClientRequest::ListSessionsRequest(request) => {
                respond(responder.cast(), session_list::list_sessions(&request));
            }
            ClientRequest::CloseSessionRequest(request) => {
                self.send_to_session(&request.session_id, responder.cast(), SessionRequest::Close);
            }
            ClientRequest::PromptRequest(request) => {
                let to_request = |responder| SessionRequest::Prompt(request.prompt, responder);
                self.send_to_session(&request.session_id, responder.cast(), to_request);
            }
            ClientRequest::SetSessionModeRequest(request) => {
                let to_request = |responder| SessionRequest::SetMode(request.mode_id, responder);
                self.send_to_session(&request.session_id, responder.cast(), to_request);
            }
            ClientRequest::SetSessionConfigOptionRequest(request) => {
                let (setting, value) = (request.config_id, request.value);
                let to_request = |responder| SessionRequest::SetOption(setting, value, responder);
                self.send_to_session(&request.session_id, responder.cast(), to_request);
            }
            _ => respond(responder, Err(Error::method_not_found())),
        }
    }

    fn open_session(
        &self,
        params: SessionParams,
        origin: SessionOrigin,
        responder: Responder<Value>,
    ) {
        let served = session::serve(self.shared.clone(), params, origin, responder);
        self.sessions.push(Box::pin(served));
    }

    fn send_to_session<T: agent_client_protocol::JsonRpcResponse>(
        &self,
        id: &SessionId,
        responder: Responder<T>,
        to_request: impl FnOnce(Responder<T>) -> SessionRequest,
    ) {
        match self.shared.open_sessions.borrow().get(id) {
            // If the session ends meanwhile, the dropped responder answers.
            Some(requests) => _ = requests.send(to_request(responder)),
            None => {
                let why = format!("session {id} is not open in this connection: load or resume it");
                respond(responder, Err(Error::new(ErrorCode::RESOURCE_NOT_FOUND, why)));
            }
        }
    }
}

/// A client that is gone gets no answer.
pub(super) fn respond<T: agent_client_protocol::JsonRpcResponse>(
    responder: Responder<T>,
    result: Result<T, Error>,
) {
    _ = responder.respond_with_result(result);
}
