//! One session of the client: opened, driven by its orders, and closed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, ContentBlock, PromptResponse, SessionConfigId, SessionConfigOptionValue,
    SessionId, SessionModeId, SetSessionConfigOptionResponse, SetSessionModeResponse,
    StopReason as Stopped,
};
use agent_client_protocol::{Error, ErrorCode};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::client::{Shared, respond};
use super::commands::{self, Work};
use super::open::{self, Opening, Place, wire_error};
use super::prompt;
use super::settings::{MODE, MODEL, Settings};
use super::updates::{Common, Peer, Updates};
use crate::app::{OpenError, Options, Session};
use crate::cli::chat;
use agent_engine::mcp::OfferChanges;
use agent_protocol::control::{Control, Ending, Interrupt, PermissionMode};
use agent_protocol::event::TurnFinished;
use agent_protocol::model::StopReason;

/// What the client demands of a session.
pub(super) enum Order {
    Prompt(Vec<ContentBlock>, Responder<PromptResponse>),
    Cancel,
    Mode(SessionModeId, Responder<SetSessionModeResponse>),
    Setting(SessionConfigId, SessionConfigOptionValue, Responder<SetSessionConfigOptionResponse>),
    Close(Responder<CloseSessionResponse>),
}

/// A prompt that waits for the end of a cancelled one.
type Waiting = (Vec<ContentBlock>, Responder<PromptResponse>);

/// Opens a session and serves it until the client closes it or is gone.
pub(super) async fn serve(shared: Rc<Shared<'_>>, place: Place, opening: Opening) {
    let options = match open::options(shared.args, place, &opening) {
        Ok(options) => options,
        Err(error) => return opening.fail(wire_error(&error)),
    };
    let control = Control::default();
    // The user decides, and knows of it.
    control.accept_denials();
    shared.output.slows(&control);
    let peer = Peer::new(shared.connection.clone(), &shared.can.borrow());
    match (shared.args.tools.is_unattended(), peer.can.questions) {
        (true, _) => {}
        (false, true) => control.attend(),
        (false, false) => control.attend_approvals(),
    }
    // The client does not know a new session before the answer.
    let common = Common::new(Settings::of(&options.config.config), opening.shows_record());
    let (root, shown) = (options.root.clone(), common.clone());
    let updates = Updates::new(peer.clone(), control.clone(), root, shown);
    let session = match opened(&shared, &options, &control, updates).await {
        Ok(session) => session,
        Err(error) => return opening.fail(wire_error(&error)),
    };
    let id = SessionId::new(session.id());
    let (sender, orders) = unbounded_channel();
    if !shared.over.is_cancelled() {
        shared.open.borrow_mut().insert(id.clone(), sender);
    }
    let (modes, choices) = {
        let mut settings = common.settings();
        settings.mode = session.mode();
        session.model().clone_into(&mut settings.model);
        (settings.modes(), settings.options())
    };
    opening.succeed(&id, modes, choices);
    common.is_known.store(true, Ordering::SeqCst);
    let offers = OfferChanges::of(session.servers());
    peer.commands(&id, &options, session.servers());
    for notice in &session.notices {
        peer.notice(&id, notice);
    }
    let (told, to) = (peer.clone(), id.clone());
    session.exec().forward_listeners(move |text| told.notice(&to, &text));
    let ended = shared.ended.clone();
    let waiting = VecDeque::new();
    let mut served = Served {
        session,
        rest: Rest { id, options, control, peer, common, orders, offers, waiting, ended },
    };
    let closing = served.work().await;
    let Served { session, rest } = served;
    shared.open.borrow_mut().remove(&rest.id);
    session.close().await;
    if let Some(responder) = closing {
        respond(responder, Ok(CloseSessionResponse::new()));
    }
}

/// Opens it, unless the connection ends meanwhile.
async fn opened(
    shared: &Shared<'_>,
    options: &Options,
    control: &Control,
    updates: Updates,
) -> Result<Session, OpenError> {
    let opening = chat::open(options, control, vec![Box::new(updates)]);
    tokio::pin!(opening);
    tokio::select! {
        opened = &mut opening => opened,
        () = shared.over.cancelled() => {
            control.interrupt(Interrupt::Terminate);
            opening.await
        }
    }
}

struct Served {
    session: Session,
    rest: Rest,
}

/// What belongs to a session besides itself.
struct Rest {
    id: SessionId,
    options: Options,
    control: Control,
    peer: Peer,
    common: Common,
    orders: UnboundedReceiver<Order>,
    /// MCP servers have other prompts.
    offers: OfferChanges,
    waiting: VecDeque<Waiting>,
    /// Every turn ends now.
    ended: CancellationToken,
}

/// How work ended.
enum Done {
    Turn(Box<TurnFinished>),
    Compacted(Result<bool, String>),
}

impl Served {
    /// Carries out orders until the client is gone, or closes the session and waits for that.
    async fn work(&mut self) -> Option<Responder<CloseSessionResponse>> {
        loop {
            let Self { session, rest } = self;
            if let Some((blocks, responder)) = rest.waiting.pop_front() {
                if let Some(closing) = self.prompt(blocks, responder).await {
                    return Some(closing);
                }
                continue;
            }
            let order = tokio::select! {
                order = rest.orders.recv() => order?,
                () = rest.offers.next() => {
                    rest.peer.commands(&rest.id, &rest.options, session.servers());
                    continue;
                }
                never = session.idle() => match never {},
            };
            match order {
                Order::Prompt(blocks, responder) => {
                    if let Some(closing) = self.prompt(blocks, responder).await {
                        return Some(closing);
                    }
                }
                Order::Cancel => {}
                Order::Mode(mode, responder) => {
                    respond(responder, rest.set_mode(&mode.0));
                    session.mode();
                }
                Order::Setting(setting, value, responder) => {
                    let set = self.set(&setting, value).await;
                    respond(responder, set);
                }
                Order::Close(responder) => return Some(responder),
            }
        }
    }

    /// Works on a prompt, while further orders arrive. Returns who waits for the session to be closed.
    async fn prompt(
        &mut self,
        blocks: Vec<ContentBlock>,
        responder: Responder<PromptResponse>,
    ) -> Option<Responder<CloseSessionResponse>> {
        let Self { session, rest } = self;
        let read = prompt::input(blocks, &rest.options.root);
        let work = match read {
            Ok(read) => commands::work(read, session, &rest.options).await,
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
        let (cancel, ended) = (control.cancel(), rest.ended.clone());
        let mut closing = None;
        let mut is_open = true;
        let done = {
            let working = carry_out(session, work);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    biased;
                    done = &mut working => break done,
                    order = rest.orders.recv(), if is_open => match order {
                        Some(order) => closing = rest.meanwhile(order).or(closing),
                        None => is_open = false,
                    },
                    () = withdrawn.cancelled(), if !cancel.is_cancelled() => {
                        control.interrupt(Interrupt::User);
                    }
                    () = ended.cancelled(), if control.interrupted().is_none() => {
                        control.interrupt(Interrupt::Terminate);
                    }
                }
            }
        };
        let interrupted = control.interrupted();
        // An interrupt of this turn does not affect later ones.
        control.begin_turn();
        let stopped = match done {
            Done::Turn(finished) => stop_reason(&finished, &rest.common.last_stop()),
            Done::Compacted(_) if interrupted.is_some() => Ok(Stopped::Cancelled),
            Done::Compacted(Ok(true)) => Ok(Stopped::EndTurn),
            Done::Compacted(Ok(false)) => {
                rest.peer.say(&rest.id, "There is nothing to compact yet.");
                Ok(Stopped::EndTurn)
            }
            Done::Compacted(Err(reason)) => Err(Error::new(ErrorCode::INTERNAL_ERROR, reason)),
        };
        respond(responder, stopped.map(PromptResponse::new));
        closing
    }

    /// Sets the mode or the model.
    async fn set(
        &mut self,
        setting: &SessionConfigId,
        value: SessionConfigOptionValue,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let Self { session, rest } = self;
        let value = chosen(value)?;
        match &*setting.0 {
            MODE => {
                rest.set_mode(&value)?;
                session.mode();
            }
            MODEL => {
                rest.control.begin_turn();
                let answering = Box::pin(session.answer_with(&rest.options, &value, None));
                let warnings = answering.await.map_err(|error| wire_error(&error))?;
                let mut settings = rest.common.settings();
                session.model().clone_into(&mut settings.model);
                drop(settings);
                for warning in warnings {
                    rest.peer.notice(&rest.id, &warning);
                }
            }
            other => return Err(no_setting(other)),
        }
        Ok(SetSessionConfigOptionResponse::new(rest.common.settings().options()))
    }
}

impl Rest {
    /// Takes an order while a turn runs. Returns who waits for the session to be closed.
    fn meanwhile(&mut self, order: Order) -> Option<Responder<CloseSessionResponse>> {
        match order {
            Order::Cancel => {
                self.control.interrupt(Interrupt::User);
                for (_, responder) in self.waiting.drain(..) {
                    respond(responder, Ok(PromptResponse::new(Stopped::Cancelled)));
                }
            }
            Order::Prompt(blocks, responder) if self.control.interrupted().is_some() => {
                self.waiting.push_back((blocks, responder));
            }
            Order::Prompt(_, responder) => {
                let why = "a prompt is running in this session: cancel it, or wait for its end";
                respond(responder, Err(Error::new(ErrorCode::INVALID_REQUEST, why)));
            }
            Order::Mode(mode, responder) => respond(responder, self.set_mode(&mode.0)),
            Order::Setting(setting, value, responder) => {
                let set = chosen(value).and_then(|value| match &*setting.0 {
                    MODE => self.set_mode(&value).map(drop),
                    MODEL => {
                        let why = "a prompt is running in this session: the model can be changed after it";
                        Err(Error::new(ErrorCode::INVALID_REQUEST, why))
                    }
                    other => Err(no_setting(other)),
                });
                let options =
                    || SetSessionConfigOptionResponse::new(self.common.settings().options());
                respond(responder, set.map(|()| options()));
            }
            Order::Close(responder) => {
                self.control.interrupt(Interrupt::User);
                return Some(responder);
            }
        }
        None
    }

    /// Requests a mode: it applies from the next call on.
    fn set_mode(&self, name: &str) -> Result<SetSessionModeResponse, Error> {
        let mode = PermissionMode::named(name).ok_or_else(|| {
            Error::new(ErrorCode::INVALID_PARAMS, format!("there is no mode {name:?}"))
        })?;
        self.control.want_mode(mode);
        self.common.settings().mode = mode;
        Ok(SetSessionModeResponse::new())
    }
}

fn no_setting(name: &str) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, format!("there is no option {name:?}: {MODE}, {MODEL}"))
}

/// The value of a setting.
fn chosen(value: SessionConfigOptionValue) -> Result<String, Error> {
    match value {
        SessionConfigOptionValue::ValueId { value } => Ok(value.0.to_string()),
        _ => Err(Error::new(ErrorCode::INVALID_PARAMS, "the value is the name of a choice")),
    }
}

async fn carry_out(session: &mut Session, work: Work) -> Done {
    match work {
        Work::Turn(message) => Done::Turn(Box::new(session.run(message).await)),
        Work::Compact(focus) => {
            let focus = Some(focus.as_str()).filter(|focus| !focus.is_empty());
            Done::Compacted(session.compact(focus).await)
        }
    }
}

/// Why the turn ended, in the protocol's terms. Where these are too few, the text of the turn has the reason
/// (`Updates::finished`).
fn stop_reason(finished: &TurnFinished, last: &StopReason) -> Result<Stopped, Error> {
    Ok(match (finished.ending, last) {
        (Ending::Completed | Ending::CompletedUnverified | Ending::Failed, StopReason::Length) => {
            Stopped::MaxTokens
        }
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
