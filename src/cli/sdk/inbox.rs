//! Takes what a program sends while the session is busy.

use std::collections::VecDeque;
use std::pin::pin;

use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::face::{SharedKnown, locked};
use super::input::{Input, Request};
use super::requests::{Deferred, Desk};
use super::{compaction, noted};
use agent_protocol::control::{Control, Interrupt};
use agent_protocol::own_command::OwnCommand;

/// Takes what the program sends.
pub(super) struct Inbox {
    pub(super) control: Control,
    pub(super) desk: Desk,
    pub(super) known: SharedKnown,
    pub(super) commands: Vec<OwnCommand>,
    /// What waits for the idle session, in order.
    pub(super) waiting: VecDeque<Input>,
    /// Requests for the idle session that do not wait for messages.
    pub(super) deferred: VecDeque<(String, Deferred)>,
}

impl Inbox {
    /// Takes input until the work is done. The end of the program interrupts the work. `is_turn`: a turn runs, and
    /// messages reach it.
    pub(super) async fn until_done<T>(
        &mut self,
        work: impl Future<Output = T>,
        input: &mut UnboundedReceiver<Input>,
        is_turn: bool,
    ) -> T {
        let mut work = pin!(work);
        let mut is_closed = false;
        loop {
            tokio::select! {
                done = &mut work => return done,
                next = input.recv(), if !is_closed => match next {
                    Some(next) => self.take(next, is_turn),
                    None => is_closed = true,
                },
                () = self.desk.gone() => {
                    self.control.interrupt(Interrupt::Terminate);
                    return work.await;
                }
                never = self.desk.work() => match never {},
            }
        }
    }

    fn take(&mut self, next: Input, is_turn: bool) {
        match next {
            Input::Message(message) if message.input.is_stop() => {
                self.control.interrupt(Interrupt::User);
            }
            Input::Message(message)
                if is_turn && !message.is_later && compaction(&message).is_none() =>
            {
                self.control.steer(noted(&self.known, &self.commands, message));
            }
            Input::Request(request) if request.is_interrupt() => self.interrupt(&request),
            // Messages that wait came before it.
            Input::Request(request) if !is_turn && request.needs_idle() => {
                self.waiting.push_back(Input::Request(request));
            }
            Input::Request(request) => {
                self.deferred.extend(self.desk.take(request, is_turn));
            }
            later => self.waiting.push_back(later),
        }
    }

    fn interrupt(&mut self, request: &Request) {
        self.control.interrupt(Interrupt::User);
        let queued = self.queued();
        let answer = if request.asked["cancel_queued"] == true {
            self.control.drop_messages();
            locked(&self.known).sent.clear();
            self.waiting.retain(|it| !matches!(it, Input::Message(_)));
            json!({"still_queued": [], "cancelled": queued})
        } else {
            json!({ "still_queued": queued })
        };
        self.desk.answer(&request.id, Ok(answer));
    }

    /// The ids of messages that no turn has taken yet, as far as the program gave them some.
    fn queued(&self) -> Vec<String> {
        let known = locked(&self.known);
        let sent = known.sent.iter().filter_map(|sent| sent.uuid.clone());
        let later = self.waiting.iter().filter_map(|input| match input {
            Input::Message(message) => message.uuid.clone(),
            Input::Refused { .. } | Input::Request(_) => None,
        });
        sent.chain(later).collect()
    }
}
