//! The user's controls of a session: interrupts, messages to a running turn, modes, and answers to questions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ChangedInput, Interrupt, PermissionMode};
use crate::directives::UserInput;
use crate::question::UserAnswer;

/// What the answer "always" allows for the rest of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// The calls that these rules match.
    Rules(Vec<String>),
    /// Everything that this mode allows.
    Mode(PermissionMode),
}

impl Grant {
    /// The grant in words: `allow Edit(src/**)`, `mode auto-edit`.
    pub fn in_words(&self) -> String {
        match self {
            Self::Rules(rules) => format!("allow {}", rules.join(", ")),
            Self::Mode(mode) => format!("mode {}", mode.as_str()),
        }
    }
}

/// The user's answer to a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Allow this call.
    Once,
    /// Allow it, and grant this for the session.
    Always(Grant),
    /// Allow this call with other arguments.
    Changed(ChangedInput),
    /// Reject it, optionally with what to do instead.
    No(Option<String>),
    /// Reject it with this reason, and end the turn.
    Stop(String),
}

impl Approval {
    /// What a user can choose, in words: the call alone, with one of these grants, or not.
    pub fn choices(grants: Vec<Grant>) -> Vec<(String, Self)> {
        let mut choices = vec![("Allow".to_owned(), Self::Once)];
        choices.extend(grants.into_iter().map(|grant| {
            let words = match &grant {
                Grant::Rules(rules) => format!("Allow {} for this session", rules.join(", ")),
                Grant::Mode(mode) => format!("Allow, and switch to mode {}", mode.as_str()),
            };
            (words, Self::Always(grant))
        }));
        choices.push(("Reject".to_owned(), Self::No(None)));
        choices
    }
}

/// The user's controls of a session. Clones share the session.
///
/// After an interrupt nothing starts, and every call that was started gets a result; the next turn begins
/// with [`Control::begin_turn`].
#[derive(Clone, Debug, Default)]
pub struct Control {
    session: Arc<Session>,
    /// Of a sub-agent: what ends it alone.
    own: Option<Arc<Interruption>>,
}

#[derive(Debug, Default)]
struct Interruption {
    cancel: Mutex<CancellationToken>,
    by: AtomicU8,
}

#[derive(Debug, Default)]
struct Session {
    /// For the current turn.
    turn: Interruption,
    /// A user can be asked whether a call may be made.
    is_attended: AtomicBool,
    /// A denied call does not make the turn a failure.
    accepts_denials: AtomicBool,
    /// The user can also be asked the model's questions.
    takes_questions: AtomicBool,
    requests: Mutex<Requests>,
    /// What whoever drives the session has not read yet, in bytes, and the limit.
    unread: OnceLock<(watch::Receiver<usize>, usize)>,
}

/// What the user requested, until the loop takes it.
#[derive(Debug, Default)]
struct Requests {
    /// Messages that arrived while the turn runs.
    messages: VecDeque<UserInput>,
    /// How often they were dropped.
    n_drops: u64,
    mode: Option<PermissionMode>,
    /// The call that waits for the user, and their replies.
    asked: Option<(String, UnboundedSender<Reply>)>,
}

/// A reply of the user while a call waits for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The user answered the question whether the call may be made.
    Answer(Approval),
    /// The user answered the questions of the call.
    Told(Vec<UserAnswer>),
    /// The user requested another mode, which may settle the question.
    ModeRequested,
}

/// The question about a call, until it is settled.
#[derive(Debug)]
pub struct OpenQuestion {
    replies: UnboundedReceiver<Reply>,
    cancel: CancellationToken,
}

impl OpenQuestion {
    /// The next reply; `None` after an interrupt.
    pub async fn reply(&mut self) -> Option<Reply> {
        self.cancel.run_until_cancelled(self.replies.recv()).await?
    }
}

impl Interruption {
    fn by(&self) -> Option<Interrupt> {
        match self.by.load(Ordering::SeqCst) {
            1 => Some(Interrupt::User),
            2 => Some(Interrupt::Terminate),
            3 => Some(Interrupt::Timeout),
            _ => None,
        }
    }
}

impl Control {
    /// The controls of a sub-agent, which ends with the turn and can be interrupted alone. The user's messages
    /// are for the main agent only.
    #[must_use]
    pub fn of_agent(&self) -> Self {
        let cancel = Mutex::new(self.cancel().child_token());
        let own = Interruption { cancel, by: AtomicU8::new(0) };
        Self { session: self.session.clone(), own: Some(Arc::new(own)) }
    }

    fn interruption(&self) -> &Interruption {
        self.own.as_deref().unwrap_or(&self.session.turn)
    }

    /// Interrupts the turn, or only the sub-agent. The first interrupt sets the reason; later ones have no effect.
    pub fn interrupt(&self, by: Interrupt) {
        let code = match by {
            Interrupt::User => 1,
            Interrupt::Terminate => 2,
            Interrupt::Timeout => 3,
        };
        // The reason is written before the token is seen.
        let by = &self.interruption().by;
        _ = by.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst);
        self.cancel().cancel();
    }

    /// Who interrupted the turn or the sub-agent, if it was interrupted.
    pub fn interrupted(&self) -> Option<Interrupt> {
        let own = self.own.as_ref().and_then(|own| own.by());
        own.or_else(|| self.session.turn.by())
    }

    /// The cancellation token of this turn, or of the sub-agent.
    pub fn cancel(&self) -> CancellationToken {
        locked(&self.interruption().cancel).clone()
    }

    /// Clears an interrupt of the previous turn, but not a termination of the program.
    pub fn begin_turn(&self) {
        if matches!(self.interrupted(), Some(Interrupt::User | Interrupt::Timeout)) {
            *locked(&self.session.turn.cancel) = CancellationToken::new();
            self.session.turn.by.store(0, Ordering::SeqCst);
        }
    }

    /// Takes a message of the user while the turn runs. It is delivered after the current tool; a stop phrase
    /// also interrupts.
    pub fn steer(&self, message: UserInput) {
        if message.is_stop() {
            self.interrupt(Interrupt::User);
        }
        locked(&self.session.requests).messages.push_back(message);
    }

    /// There is a message that was not delivered yet.
    pub fn is_steered(&self) -> bool {
        self.own.is_none() && !locked(&self.session.requests).messages.is_empty()
    }

    /// Takes the messages that were not delivered yet, in order.
    pub fn take_messages(&self) -> Vec<UserInput> {
        if self.own.is_some() {
            return Vec::new();
        }
        locked(&self.session.requests).messages.drain(..).collect()
    }

    /// Drops the messages that were not delivered yet.
    pub fn drop_messages(&self) {
        let mut requests = locked(&self.session.requests);
        requests.messages.clear();
        requests.n_drops += 1;
    }

    /// How often messages were dropped so far.
    pub fn n_drops(&self) -> u64 {
        locked(&self.session.requests).n_drops
    }

    /// Returns messages that were taken when there were `n_drops`, but could not be delivered. If messages were dropped
    /// since, these are, too.
    pub fn put_back(&self, mut messages: VecDeque<UserInput>, n_drops: u64) {
        let mut requests = locked(&self.session.requests);
        if requests.n_drops == n_drops {
            messages.append(&mut requests.messages);
            requests.messages = messages;
        }
    }

    /// Takes back the latest message that was not delivered yet.
    pub fn take_back(&self) -> Option<UserInput> {
        locked(&self.session.requests).messages.pop_back()
    }

    /// Requests this mode, from the next call on. A question that waits is decided anew.
    pub fn want_mode(&self, mode: PermissionMode) {
        let mut requests = locked(&self.session.requests);
        requests.mode = Some(mode);
        if let Some((_, sender)) = &requests.asked {
            // Nothing waits any more: the question is settled.
            _ = sender.send(Reply::ModeRequested);
        }
    }

    /// Takes the requested mode.
    pub fn take_mode(&self) -> Option<PermissionMode> {
        locked(&self.session.requests).mode.take()
    }

    /// Declares that a user can be asked.
    pub fn attend(&self) {
        self.attend_approvals();
        self.session.takes_questions.store(true, Ordering::SeqCst);
    }

    /// Declares that a user can be asked whether calls may be made, but not the model's questions.
    pub fn attend_approvals(&self) {
        self.session.is_attended.store(true, Ordering::SeqCst);
    }

    /// A user can be asked whether a call may be made.
    pub fn is_attended(&self) -> bool {
        self.session.is_attended.load(Ordering::SeqCst)
    }

    /// Declares that a denied call does not make a turn a failure: whoever drives the session knows of it.
    pub fn accept_denials(&self) {
        self.session.accepts_denials.store(true, Ordering::SeqCst);
    }

    /// A denied call does not make a turn a failure.
    pub fn accepts_denials(&self) -> bool {
        self.session.accepts_denials.load(Ordering::SeqCst)
    }

    /// A user can be asked the model's questions.
    pub fn takes_questions(&self) -> bool {
        self.session.takes_questions.load(Ordering::SeqCst)
    }

    /// Declares how much output waits to be read, in bytes: while it is more than `limit`, models wait.
    pub fn keep_pace(&self, unread: watch::Receiver<usize>, limit: usize) {
        // (A session has one output.)
        _ = self.session.unread.set((unread, limit));
    }

    /// Waits while too much output waits to be read.
    pub async fn caught_up(&self) {
        let Some((unread, limit)) = self.session.unread.get() else { return };
        // (Another task may pass the output on.)
        tokio::task::consume_budget().await;
        if *unread.borrow() > *limit {
            // (Nothing is written any more after the end of the output.)
            _ = unread.clone().wait_for(|n| n <= limit).await;
        }
    }

    /// Opens the question about a call. Show it after calling this, so that no answer is lost.
    pub fn ask(&self, call: &str) -> OpenQuestion {
        let (sender, replies) = unbounded_channel();
        locked(&self.session.requests).asked = Some((call.to_owned(), sender));
        OpenQuestion { replies, cancel: self.cancel() }
    }

    /// The user's answer about this call. An answer to another question is ignored. A granted mode is requested
    /// at once, so that a later request of the user replaces it.
    pub fn answer(&self, call: &str, approval: Approval) {
        let mut requests = locked(&self.session.requests);
        if let Some((_, sender)) = requests.asked.take_if(|(asked, _)| asked == call) {
            if let Approval::Always(Grant::Mode(mode)) = &approval {
                requests.mode = Some(*mode);
            }
            // Nothing waits any more: the turn was interrupted.
            _ = sender.send(Reply::Answer(approval));
        }
    }

    /// The user's answers to the questions of this call. An answer to another question is ignored.
    pub fn tell(&self, call: &str, answers: Vec<UserAnswer>) {
        let asked = locked(&self.session.requests).asked.take_if(|(asked, _)| asked == call);
        if let Some((_, sender)) = asked {
            // Nothing waits any more: the turn was interrupted.
            _ = sender.send(Reply::Told(answers));
        }
    }

    /// Interrupts the turn if the question about this call is still open: the user cancelled it.
    pub fn interrupt_asked(&self, call: &str) {
        let asked = locked(&self.session.requests).asked.take_if(|(asked, _)| asked == call);
        // Nothing waits for the answer to a settled question.
        if asked.is_some_and(|(_, sender)| !sender.is_closed()) {
            self.interrupt(Interrupt::User);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_messages_do_not_come_back() {
        let control = Control::default();
        for (is_dropped, n_left) in [(false, 2), (true, 0)] {
            control.steer("a".into());
            control.steer("b".into());
            let n_drops = control.n_drops();
            let taken = control.take_messages();
            if is_dropped {
                control.drop_messages();
            }
            control.put_back(taken.into(), n_drops);
            assert_eq!(control.take_messages().len(), n_left);
        }
    }

    #[tokio::test]
    async fn approval_answer_applies_only_to_its_question() {
        let control = Control::default();
        control.answer("a", Approval::Once);
        let mut question = control.ask("a");
        control.answer("b", Approval::Once);
        control.answer("a", Approval::No(None));
        assert_eq!(question.reply().await, Some(Reply::Answer(Approval::No(None))));
        // An answer directly after a request for a mode is not lost.
        let mut question = control.ask("b");
        control.want_mode(PermissionMode::Full);
        control.answer("b", Approval::Once);
        assert_eq!(question.reply().await, Some(Reply::ModeRequested));
        assert_eq!(question.reply().await, Some(Reply::Answer(Approval::Once)));
        // A mode that the user selects after a grant replaces the granted one.
        _ = control.ask("c");
        control.answer("c", Approval::Always(Grant::Mode(PermissionMode::AutoEdit)));
        control.want_mode(PermissionMode::Plan);
        assert_eq!(control.take_mode(), Some(PermissionMode::Plan));
        let mut question = control.ask("d");
        control.interrupt(Interrupt::User);
        assert_eq!(question.reply().await, None);
    }

    #[test]
    fn cancelled_question_interrupts_only_while_it_is_open() {
        let control = Control::default();
        drop(control.ask("settled"));
        control.interrupt_asked("settled");
        let _question = control.ask("open");
        control.interrupt_asked("settled");
        assert_eq!(control.interrupted(), None);
        control.interrupt_asked("open");
        assert_eq!(control.interrupted(), Some(Interrupt::User));
    }

    #[test]
    fn sub_agent_ends_with_the_turn_and_alone() {
        let control = Control::default();
        let (first, second) = (control.of_agent(), control.of_agent());
        first.interrupt(Interrupt::Timeout);
        assert_eq!(first.interrupted(), Some(Interrupt::Timeout));
        assert!(first.cancel().is_cancelled());
        assert!(!second.cancel().is_cancelled() && control.interrupted().is_none());
        control.steer("and also".into());
        assert!(control.is_steered() && !second.is_steered());
        assert!(second.take_messages().is_empty());
        control.interrupt(Interrupt::User);
        assert_eq!(second.interrupted(), Some(Interrupt::User));
        assert!(second.cancel().is_cancelled());
        assert_eq!(control.take_messages().len(), 1);
    }

    #[test]
    fn new_turn_clears_the_previous_interrupt() {
        let control = Control::default();
        control.interrupt(Interrupt::User);
        assert!(control.cancel().is_cancelled());
        control.begin_turn();
        assert!(!control.cancel().is_cancelled() && control.interrupted().is_none());
        control.interrupt(Interrupt::Terminate);
        control.begin_turn();
        assert!(control.cancel().is_cancelled(), "the end of the program ends every turn");
    }
}
