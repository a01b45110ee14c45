//! Receives what a program sends while the session is busy.

use std::collections::VecDeque;
use std::pin::pin;

use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::compact_focus;
use super::input::{ControlRequest, ProgramInput, ProgramMessage};
use super::program_sink::{SharedStatus, UndeliveredMessage};
use super::requests::{DeferredRequest, RequestHandler};
use agent_protocol::control::{Interrupt, SessionControl};
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::directives::UserInput;

pub(super) struct Inbox {
    pub(super) control: SessionControl,
    pub(super) handler: RequestHandler,
    pub(super) status: SharedStatus,
    pub(super) commands: Vec<CustomCommand>,
    /// For the idle session, in order.
    pub(super) queued_input: VecDeque<ProgramInput>,
    /// Requests for the idle session that do not wait for messages.
    pub(super) deferred: VecDeque<(String, DeferredRequest)>,
}

impl Inbox {
    /// The end of the program interrupts the work. `is_turn`: a turn runs, and messages reach it.
    pub(super) async fn run_until_done<T>(
        &mut self,
        work: impl Future<Output = T>,
        input: &mut UnboundedReceiver<ProgramInput>,
        is_turn: bool,
    ) -> T {
        let mut work = pin!(work);
        let mut is_closed = false;
        loop {
            tokio::select! {
                done = &mut work => return done,
                next = input.recv(), if !is_closed => match next {
                    Some(next) => self.handle_input(next, is_turn),
                    None => is_closed = true,
                },
                () = self.handler.program.lost().cancelled() => {
                    self.control.interrupt(Interrupt::Terminate);
                    return work.await;
                }
                never = self.handler.run() => match never {},
            }
        }
    }

    fn handle_input(&mut self, next: ProgramInput, is_turn: bool) {
        match next {
            ProgramInput::Message(message) if message.input.is_stop_request() => {
                self.control.interrupt(Interrupt::User);
            }
            ProgramInput::Message(message)
                if is_turn && !message.is_deferred && compact_focus(&message).is_none() =>
            {
                self.control.queue_message(self.register_message(message));
            }
            ProgramInput::Request(request) if request.is_interrupt() => self.interrupt(&request),
            // Queued messages came before the request.
            ProgramInput::Request(request) if !is_turn && request.needs_idle() => {
                self.queued_input.push_back(ProgramInput::Request(request));
            }
            ProgramInput::Request(request) => {
                self.deferred.extend(self.handler.handle(request, is_turn));
            }
            later => self.queued_input.push_back(later),
        }
    }

    /// With the text of the command that the message names. Remembers the message's id.
    pub(super) fn register_message(&self, message: ProgramMessage) -> UserInput {
        let ProgramMessage { input, uuid, content, is_redelivered, share, .. } = message;
        if is_redelivered {
            return input;
        }
        let undelivered = UndeliveredMessage { uuid, content, _share: share };
        self.status.lock().undelivered.push_back(undelivered);
        let line = input.text.strip_prefix('/').filter(|_| input.pasted.is_empty());
        let Some(line) = line else { return input };
        let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match CustomCommand::find(&self.commands, name) {
            Some(command) => {
                UserInput { images: input.images, ..command.expand_to_message(arguments.trim()) }
            }
            None => input,
        }
    }

    fn interrupt(&mut self, request: &ControlRequest) {
        self.control.interrupt(Interrupt::User);
        let queued = self.queued_ids();
        let answer = if request.body["cancel_queued"] == true {
            self.control.discard_messages();
            self.status.lock().undelivered.clear();
            self.queued_input.retain(|input| !matches!(input, ProgramInput::Message(_)));
            json!({"still_queued": [], "cancelled": queued})
        } else {
            json!({ "still_queued": queued })
        };
        self.handler.answer(&request.id, Ok(answer));
    }

    /// Messages that no turn has taken yet; those without an id are left out.
    fn queued_ids(&self) -> Vec<String> {
        let status = self.status.lock();
        let sent = status.undelivered.iter().filter_map(|sent| sent.uuid.clone());
        let later = self.queued_input.iter().filter_map(|input| match input {
            ProgramInput::Message(message) => message.uuid.clone(),
            ProgramInput::Refused { .. } | ProgramInput::Request(_) => None,
        });
        sent.chain(later).collect()
    }
}
