//! One session of the client: opened, driven by its requests, and closed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, ContentBlock, PromptResponse, SessionConfigId, SessionConfigOptionValue,
    SessionId, SessionModeId, SetSessionConfigOptionResponse, SetSessionModeResponse,
    StopReason as Stopped,
};
use agent_client_protocol::{Error, ErrorCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::client::{ConnectionState, respond};
use super::commands::{self, PromptAction};
use super::open::{self, SessionOrigin, SessionParams, wire_error};
use super::prompt;
use super::settings::{MODE, MODEL, SessionSettings};
use super::updates::{Peer, SharedSessionState, UpdateSink};
use crate::app::{OpenError, Options, Session};
use crate::cli::chat;
use agent_engine::mcp::OfferChanges;
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::event::TurnFinished;
use agent_protocol::model::StopReason;

pub(super) enum SessionRequest {
    Prompt(Vec<ContentBlock>, Responder<PromptResponse>),
    Cancel,
    SetMode(SessionModeId, Responder<SetSessionModeResponse>),
    SetOption(SessionConfigId, SessionConfigOptionValue, Responder<SetSessionConfigOptionResponse>),
    Close(Responder<CloseSessionResponse>),
}

/// Ends when the client closes the session or is gone.
pub(super) async fn serve(
    shared: Rc<ConnectionState<'_>>,
    params: SessionParams,
    origin: SessionOrigin,
    responder: Responder<Value>,
) {
    let options = match open::session_options(shared.args, params, &origin) {
        Ok(options) => options,
        Err(error) => return respond(responder, Err(wire_error(&error))),
    };
    let control = SessionControl::default();
    // The user sees denied calls, so they do not make a turn a failure.
    control.accept_denials();
    shared.output.pace_models(&control);
    let peer = Peer::new(shared.connection.clone(), &shared.client_capabilities.borrow());
    match (shared.args.tools.is_unattended(), peer.asks_questions) {
        (true, _) => {}
        (false, true) => control.enable_user_questions(),
        (false, false) => control.enable_approvals(),
    }
    let common = Arc::new(SharedSessionState {
        settings: Mutex::new(SessionSettings::from_config(&options.config.config)),
        // The client does not know a new session before the answer.
        is_announced: AtomicBool::new(matches!(origin, SessionOrigin::Load(_))),
        last_stop: Mutex::new(StopReason::End),
    });
    let (root, shown) = (options.root.clone(), common.clone());
    let updates = UpdateSink::new(peer.clone(), control.clone(), root, shown);
    let session = match open_session(&shared, &options, &control, updates).await {
        Ok(session) => session,
        Err(error) => return respond(responder, Err(wire_error(&error))),
    };
    let id = SessionId::new(session.id());
    let (sender, orders) = unbounded_channel();
    if !shared.input_closed.is_cancelled() {
        shared.open_sessions.borrow_mut().insert(id.clone(), sender);
    }
    let (modes, choices) = {
        let mut settings = common.settings.lock();
        settings.mode = session.apply_requested_mode();
        session.model().clone_into(&mut settings.model);
        (settings.modes(), settings.options())
    };
    origin.respond_opened(responder, &id, modes, choices);
    common.is_announced.store(true, Ordering::SeqCst);
    let offers = OfferChanges::watch(session.servers());
    peer.send_commands(&id, &options, session.servers());
    for notice in &session.notices {
        peer.send_notice(&id, notice);
    }
    let (listener, to) = (peer.clone(), id.clone());
    session.exec().forward_listeners(move |text| listener.send_notice(&to, &text));
    let mut served = ServedSession {
        session,
        context: SessionContext {
            id,
            options,
            control,
            peer,
            shared: common,
            requests: orders,
            offers,
            queued_prompts: VecDeque::new(),
            shutdown: shared.shutdown.clone(),
        },
    };
    let closing = served.handle_requests().await;
    let ServedSession { session, context: rest } = served;
    shared.open_sessions.borrow_mut().remove(&rest.id);
    session.close().await;
    if let Some(responder) = closing {
        respond(responder, Ok(CloseSessionResponse::new()));
    }
}

/// The end of the connection interrupts the opening.
async fn open_session(
    shared: &ConnectionState<'_>,
    options: &Options,
    control: &SessionControl,
    updates: UpdateSink,
) -> Result<Session, OpenError> {
    let opening = chat::open_session(options, control, vec![Box::new(updates)]);
    tokio::pin!(opening);
    tokio::select! {
        opened = &mut opening => opened,
        () = shared.input_closed.cancelled() => {
            control.interrupt(Interrupt::Terminate);
            opening.await
        }
    }
}

struct ServedSession {
    session: Session,
    context: SessionContext,
}

struct SessionContext {
    id: SessionId,
    options: Options,
    control: SessionControl,
    peer: Peer,
    shared: Arc<SharedSessionState>,
    requests: UnboundedReceiver<SessionRequest>,
    offers: OfferChanges,
    /// Prompts that wait for the end of a cancelled one.
    queued_prompts: VecDeque<(Vec<ContentBlock>, Responder<PromptResponse>)>,
    /// Every turn ends at once.
    shutdown: CancellationToken,
}

enum PromptOutcome {
    Turn(Box<TurnFinished>),
    Compaction(Result<bool, String>),
}

impl ServedSession {
    /// Ends when the client is gone, or closes the session: then it returns who waits for that.
    async fn handle_requests(&mut self) -> Option<Responder<CloseSessionResponse>> {
        loop {
            let Self { session, context: rest } = self;
            if let Some((blocks, responder)) = rest.queued_prompts.pop_front() {
                if let Some(closing) = self.handle_prompt(blocks, responder).await {
                    return Some(closing);
                }
                continue;
            }
            let order = tokio::select! {
                order = rest.requests.recv() => order?,
                () = rest.offers.wait_for_change() => {
                    rest.peer.send_commands(&rest.id, &rest.options, session.servers());
                    continue;
                }
                never = session.run_idle_work() => match never {},
            };
            match order {
                SessionRequest::Prompt(blocks, responder) => {
                    if let Some(closing) = self.handle_prompt(blocks, responder).await {
                        return Some(closing);
                    }
                }
                SessionRequest::Cancel => {}
                SessionRequest::SetMode(mode, responder) => {
                    respond(responder, rest.set_mode(&mode.0));
                    session.apply_requested_mode();
                }
                SessionRequest::SetOption(setting, value, responder) => {
                    let set = self.set_option(&setting, value).await;
                    respond(responder, set);
                }
                SessionRequest::Close(responder) => return Some(responder),
            }
        }
    }

    /// Accepts further requests meanwhile. Returns who waits for the session to be closed.
    async fn handle_prompt(
        &mut self,
        blocks: Vec<ContentBlock>,
        responder: Responder<PromptResponse>,
    ) -> Option<Responder<CloseSessionResponse>> {
        let Self { session, context: rest } = self;
        let work = match prompt::parse_prompt(blocks, &rest.options.root) {
            Ok(prompt) => commands::prompt_action(prompt, session, &rest.options).await,
            Err(reason) => Err(reason),
        };
        let work = match work {
            Ok(work) => work,
            Err(reason) => {
                respond(responder, Err(Error::new(ErrorCode::INVALID_PARAMS, reason)));
                return None;
            }
        };
        let control = rest.control.clone();
        control.begin_turn();
        let withdrawn = responder.cancellation();
        let (cancel, ended) = (control.cancellation_token(), rest.shutdown.clone());
        let mut closing = None;
        let mut is_open = true;
        let done = {
            let working = run_action(session, work);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    biased;
                    done = &mut working => break done,
                    order = rest.requests.recv(), if is_open => match order {
                        Some(order) => closing = rest.handle_during_turn(order).or(closing),
                        None => is_open = false,
                    },
                    () = withdrawn.cancelled(), if !cancel.is_cancelled() => {
                        control.interrupt(Interrupt::User);
                    }
                    () = ended.cancelled(), if control.interrupt_cause().is_none() => {
                        control.interrupt(Interrupt::Terminate);
                    }
                }
            }
        };
        let interrupted = control.interrupt_cause();
        // An interrupt of this turn does not affect later ones.
        control.begin_turn();
        let stopped = match done {
            PromptOutcome::Turn(finished) => stop_reason(&finished, &rest.shared.last_stop.lock()),
            PromptOutcome::Compaction(_) if interrupted.is_some() => Ok(Stopped::Cancelled),
            PromptOutcome::Compaction(Ok(true)) => Ok(Stopped::EndTurn),
            PromptOutcome::Compaction(Ok(false)) => {
                rest.peer.send_agent_message(&rest.id, "There is nothing to compact yet.");
                Ok(Stopped::EndTurn)
            }
            PromptOutcome::Compaction(Err(reason)) => {
                Err(Error::new(ErrorCode::INTERNAL_ERROR, reason))
            }
        };
        respond(responder, stopped.map(PromptResponse::new));
        closing
    }

    async fn set_option(
        &mut self,
        setting: &SessionConfigId,
        value: SessionConfigOptionValue,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let Self { session, context: rest } = self;
        let value = setting_value(value)?;
        match &*setting.0 {
            MODE => {
                rest.set_mode(&value)?;
                session.apply_requested_mode();
            }
            MODEL => {
                rest.control.begin_turn();
                let answering = Box::pin(session.change_model(&rest.options, &value, None));
                let warnings = answering.await.map_err(|error| wire_error(&error))?;
                let mut settings = rest.shared.settings.lock();
                session.model().clone_into(&mut settings.model);
                drop(settings);
                for warning in warnings {
                    rest.peer.send_notice(&rest.id, &warning);
                }
            }
            other => return Err(unknown_setting(other)),
        }
        Ok(SetSessionConfigOptionResponse::new(rest.shared.settings.lock().options()))
    }
}

impl SessionContext {
    fn handle_during_turn(
        &mut self,
        order: SessionRequest,
    ) -> Option<Responder<CloseSessionResponse>> {
        match order {
            SessionRequest::Cancel => {
                self.control.interrupt(Interrupt::User);
                for (_, responder) in self.queued_prompts.drain(..) {
                    respond(responder, Ok(PromptResponse::new(Stopped::Cancelled)));
                }
            }
            SessionRequest::Prompt(blocks, responder)
                if self.control.interrupt_cause().is_some() =>
            {
                self.queued_prompts.push_back((blocks, responder));
            }
            SessionRequest::Prompt(_, responder) => {
                let why = "a prompt is running in this session: cancel it, or wait for its end";
                respond(responder, Err(Error::new(ErrorCode::INVALID_REQUEST, why)));
            }
            SessionRequest::SetMode(mode, responder) => respond(responder, self.set_mode(&mode.0)),
            SessionRequest::SetOption(setting, value, responder) => {
                let set = setting_value(value).and_then(|value| match &*setting.0 {
                    MODE => self.set_mode(&value).map(drop),
                    MODEL => {
                        let why = "a prompt is running in this session: the model can be changed after it";
                        Err(Error::new(ErrorCode::INVALID_REQUEST, why))
                    }
                    other => Err(unknown_setting(other)),
                });
                let options = set.map(|()| self.shared.settings.lock().options());
                respond(responder, options.map(SetSessionConfigOptionResponse::new));
            }
            SessionRequest::Close(responder) => {
                self.control.interrupt(Interrupt::User);
                return Some(responder);
            }
        }
        None
    }

    fn set_mode(&self, name: &str) -> Result<SetSessionModeResponse, Error> {
        let mode = PermissionMode::from_name(name).ok_or_else(|| {
            Error::new(ErrorCode::INVALID_PARAMS, format!("there is no mode {name:?}"))
        })?;
        if let Some(why) = self.control.mode_refusal(mode) {
            return Err(Error::new(ErrorCode::INVALID_PARAMS, why));
        }
        self.control.request_mode(mode);
        self.shared.settings.lock().mode = mode;
        Ok(SetSessionModeResponse::new())
    }
}

fn unknown_setting(name: &str) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, format!("there is no option {name:?}: {MODE}, {MODEL}"))
}

fn setting_value(value: SessionConfigOptionValue) -> Result<String, Error> {
    match value {
        SessionConfigOptionValue::ValueId { value } => Ok(value.0.to_string()),
        _ => Err(Error::new(ErrorCode::INVALID_PARAMS, "the value is the name of a choice")),
    }
}

async fn run_action(session: &mut Session, work: PromptAction) -> PromptOutcome {
    match work {
        PromptAction::Turn(message) => PromptOutcome::Turn(Box::new(session.run(message).await)),
        PromptAction::Compact(focus) => {
            let focus = Some(focus.as_str()).filter(|focus| !focus.is_empty());
            PromptOutcome::Compaction(session.compact(focus).await)
        }
    }
}

/// In the protocol's terms. Where these are too few, the text of the turn has the reason
/// (`UpdateSink::show_turn_finished`).
fn stop_reason(finished: &TurnFinished, last: &StopReason) -> Result<Stopped, Error> {
    Ok(match (finished.ending, last) {
        (Ending::IncompleteAnswer, _) | (Ending::Failed, StopReason::Length) => Stopped::MaxTokens,
        (Ending::Failed, StopReason::Refused) | (Ending::ModelRefused, _) => Stopped::Refusal,
        (
            Ending::Completed
            | Ending::CompletedUnverified
            | Ending::Failed
            | Ending::CheckFailed
            | Ending::PermissionDenied,
            _,
        ) => Stopped::EndTurn,
        (Ending::MaxTurns | Ending::MaxBudget | Ending::Timeout, _) => Stopped::MaxTurnRequests,
        (Ending::Interrupted | Ending::Terminated, _) => Stopped::Cancelled,
        (Ending::ModelUnavailable, _) => {
            return Err(Error::new(ErrorCode::INTERNAL_ERROR, finished.result.clone()));
        }
    })
}
