//! The user's controls of a session: interrupts, messages to a running turn, modes, and answers to questions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ChangedInput, Interrupt, ModeLimit, PermissionMode};
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
pub enum ApprovalDecision {
    AllowOnce,
    /// Grants this for the rest of the session, too.
    AllowAlways(Grant),
    AllowChanged(ChangedInput),
    /// Optionally with what to do instead.
    Reject(Option<String>),
    /// With the reason; ends the turn.
    RejectAndStop(String),
}

impl ApprovalDecision {
    /// The user's choices, in words: the call alone, with one of these grants, or rejection.
    pub fn choices(grants: Vec<Grant>) -> Vec<(String, Self)> {
        let mut choices = vec![("Allow".to_owned(), Self::AllowOnce)];
        choices.extend(grants.into_iter().map(|grant| {
            let words = match &grant {
                Grant::Rules(rules) => format!("Allow {} for this session", rules.join(", ")),
                Grant::Mode(mode) => format!("Allow, and switch to mode {}", mode.as_str()),
            };
            (words, Self::AllowAlways(grant))
        }));
        choices.push(("Reject".to_owned(), Self::Reject(None)));
        choices
    }
}

/// The user's controls of a session. Clones share the session.
/// After an interrupt nothing starts until [`SessionControl::begin_turn`]; started calls get a result.
#[derive(Clone, Debug, Default)]
pub struct SessionControl {
    session: Arc<SharedControls>,
    /// Ends only a sub-agent; `None` for the main agent.
    own: Option<Arc<Cancellation>>,
}

#[derive(Debug, Default)]
struct Cancellation {
    cancel: Mutex<CancellationToken>,
    cause: Mutex<Option<Interrupt>>,
}

#[derive(Debug, Default)]
struct SharedControls {
    turn: Cancellation,
    can_ask_approval: AtomicBool,
    accepts_denials: AtomicBool,
    can_ask_questions: AtomicBool,
    requests: Mutex<PendingRequests>,
    mode_limits: Mutex<Vec<ModeLimit>>,
    /// The time for which questions have waited.
    waiting_time: Mutex<Duration>,
    /// Bytes of output that are not read yet, and their limit.
    unread: OnceLock<(watch::Receiver<usize>, usize)>,
}

#[derive(Debug, Default)]
struct PendingRequests {
    messages: VecDeque<UserInput>,
    n_withdrawals: u64,
    mode: Option<PermissionMode>,
    /// Id of the call that waits for the user, and the sender of replies.
    open_question: Option<(String, UnboundedSender<UserReply>)>,
}

/// A reply of the user while a call waits for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserReply {
    Decision(ApprovalDecision),
    Answers(Vec<UserAnswer>),
    /// The user requested another mode, which may settle the question.
    ModeRequested,
}

/// The question about a call, until it is settled.
#[derive(Debug)]
pub struct OpenQuestion {
    session: Arc<SharedControls>,
    opened: Instant,
    replies: UnboundedReceiver<UserReply>,
    cancel: CancellationToken,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        *self.session.waiting_time.lock() += self.opened.elapsed();
    }
}

impl OpenQuestion {
    /// The next reply; `None` after an interrupt.
    pub async fn next_reply(&mut self) -> Option<UserReply> {
        self.cancel.run_until_cancelled(self.replies.recv()).await?
    }
}

impl SessionControl {
    /// The controls of a sub-agent, which ends with the turn and can be interrupted alone; it gets no messages.
    #[must_use]
    pub fn for_subagent(&self) -> Self {
        let cancel = Mutex::new(self.cancellation_token().child_token());
        let own = Cancellation { cancel, cause: Mutex::default() };
        Self { session: self.session.clone(), own: Some(Arc::new(own)) }
    }

    fn cancellation(&self) -> &Cancellation {
        self.own.as_deref().unwrap_or(&self.session.turn)
    }

    /// Interrupts the turn, or only the sub-agent. The first interrupt sets the reason; later ones have no effect.
    pub fn interrupt(&self, by: Interrupt) {
        // The reason is written before the token is seen.
        self.cancellation().cause.lock().get_or_insert(by);
        self.cancellation_token().cancel();
    }

    /// Who interrupted the turn or the sub-agent, if it was interrupted.
    pub fn interrupt_cause(&self) -> Option<Interrupt> {
        let own = self.own.as_ref().and_then(|own| *own.cause.lock());
        own.or_else(|| *self.session.turn.cause.lock())
    }

    /// The cancellation token of this turn, or of the sub-agent.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancellation().cancel.lock().clone()
    }

    /// Clears an interrupt of the previous turn, but not a termination of the program.
    pub fn begin_turn(&self) {
        if matches!(self.interrupt_cause(), Some(Interrupt::User | Interrupt::Timeout)) {
            *self.session.turn.cancel.lock() = CancellationToken::new();
            *self.session.turn.cause.lock() = None;
        }
    }

    /// Takes a message, which is delivered after the current tool; a stop phrase also interrupts.
    pub fn queue_message(&self, message: UserInput) {
        if message.is_stop_request() {
            self.interrupt(Interrupt::User);
        }
        self.session.requests.lock().messages.push_back(message);
    }

    /// Whether a message is not delivered yet.
    pub fn has_queued_messages(&self) -> bool {
        self.own.is_none() && !self.session.requests.lock().messages.is_empty()
    }

    /// Takes the messages that are not delivered yet, in order.
    pub fn drain_user_messages(&self) -> Vec<UserInput> {
        if self.own.is_some() {
            return Vec::new();
        }
        self.session.requests.lock().messages.drain(..).collect()
    }

    /// Drops the messages that are not delivered yet.
    pub fn discard_messages(&self) {
        let mut requests = self.session.requests.lock();
        requests.messages.clear();
        requests.n_withdrawals += 1;
    }

    /// How often messages were dropped so far.
    pub fn n_withdrawals(&self) -> u64 {
        self.session.requests.lock().n_withdrawals
    }

    /// Puts back messages that could not be delivered, unless messages were dropped since `n_withdrawals`.
    pub fn requeue_messages(&self, mut messages: VecDeque<UserInput>, n_withdrawals: u64) {
        let mut requests = self.session.requests.lock();
        if requests.n_withdrawals == n_withdrawals {
            messages.append(&mut requests.messages);
            requests.messages = messages;
        }
    }

    /// Removes the latest message that is not delivered yet.
    pub fn withdraw_last_message(&self) -> Option<UserInput> {
        self.session.requests.lock().messages.pop_back()
    }

    /// Limits the modes of the session.
    pub fn limit_mode(&self, limit: ModeLimit) {
        let mut limits = self.session.mode_limits.lock();
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }

    /// Why this mode may not be chosen.
    pub fn mode_refusal(&self, mode: PermissionMode) -> Option<String> {
        let limits = self.session.mode_limits.lock();
        limits.iter().find_map(|limit| limit.refusal(mode)).map(str::to_owned)
    }

    /// Requests this mode, or the most permissive one that may be chosen, from the next call on. A question that
    /// waits is decided anew.
    pub fn request_mode(&self, mode: PermissionMode) {
        let limits = self.session.mode_limits.lock();
        let mode = limits.iter().map(|limit| limit.mode).fold(mode, PermissionMode::min);
        drop(limits);
        let mut requests = self.session.requests.lock();
        requests.mode = Some(mode);
        if let Some((_, sender)) = &requests.open_question {
            // Nothing waits any more: the question is settled.
            _ = sender.send(UserReply::ModeRequested);
        }
    }

    /// Takes the mode that the user requested.
    pub fn take_requested_mode(&self) -> Option<PermissionMode> {
        self.session.requests.lock().mode.take()
    }

    /// Declares that a user can be asked.
    pub fn enable_user_questions(&self) {
        self.enable_approvals();
        self.session.can_ask_questions.store(true, Ordering::SeqCst);
    }

    /// Declares that a user can be asked to approve calls, but not the model's questions.
    pub fn enable_approvals(&self) {
        self.session.can_ask_approval.store(true, Ordering::SeqCst);
    }

    /// Whether a user can be asked to approve calls.
    pub fn can_ask_approval(&self) -> bool {
        self.session.can_ask_approval.load(Ordering::SeqCst)
    }

    /// Declares that a denied call does not make a turn a failure: the client sees it.
    pub fn accept_denials(&self) {
        self.session.accepts_denials.store(true, Ordering::SeqCst);
    }

    /// Whether a denied call does not make a turn a failure.
    pub fn accepts_denials(&self) -> bool {
        self.session.accepts_denials.load(Ordering::SeqCst)
    }

    /// Whether a user can be asked the model's questions.
    pub fn can_ask_questions(&self) -> bool {
        self.session.can_ask_questions.load(Ordering::SeqCst)
    }

    /// Declares how much output waits to be read, in bytes: while it is more than `limit`, models wait.
    pub fn track_unread_output(&self, unread: watch::Receiver<usize>, limit: usize) {
        // (A session has one output.)
        _ = self.session.unread.set((unread, limit));
    }

    /// Waits while too much output waits to be read.
    pub async fn wait_for_reader(&self) {
        let Some((unread, limit)) = self.session.unread.get() else { return };
        // (Another task may pass the output on.)
        tokio::task::consume_budget().await;
        if *unread.borrow() > *limit {
            // (Nothing is written any more after the end of the output.)
            _ = unread.clone().wait_for(|n| n <= limit).await;
        }
    }

    /// Opens the question about a call. Show it after calling this, so that no answer is lost.
    pub fn open_question(&self, call: &str) -> OpenQuestion {
        let (sender, replies) = unbounded_channel();
        self.session.requests.lock().open_question = Some((call.to_owned(), sender));
        let (session, opened) = (self.session.clone(), Instant::now());
        OpenQuestion { session, opened, replies, cancel: self.cancellation_token() }
    }

    /// The time for which questions have waited for the user since the last call.
    pub fn take_waiting_time(&self) -> Duration {
        std::mem::take(&mut self.session.waiting_time.lock())
    }

    /// Delivers the user's answer about this call; an answer to another question is ignored. A
    /// granted mode is requested at once, so that a later request of the user replaces it.
    pub fn answer_approval(&self, call: &str, approval: ApprovalDecision) {
        let mut requests = self.session.requests.lock();
        if let Some((_, sender)) = requests.open_question.take_if(|(id, _)| id == call) {
            if let ApprovalDecision::AllowAlways(Grant::Mode(mode)) = &approval {
                requests.mode = Some(*mode);
            }
            // Nothing waits any more: the turn was interrupted.
            _ = sender.send(UserReply::Decision(approval));
        }
    }

    /// Delivers the user's answers to the questions of this call; other answers are ignored.
    pub fn answer_questions(&self, call: &str, answers: Vec<UserAnswer>) {
        let question = self.session.requests.lock().open_question.take_if(|(id, _)| id == call);
        if let Some((_, sender)) = question {
            // Nothing waits any more: the turn was interrupted.
            _ = sender.send(UserReply::Answers(answers));
        }
    }

    /// Interrupts the turn if the question about this call is still open: the user cancelled it.
    pub fn cancel_question(&self, call: &str) {
        let question = self.session.requests.lock().open_question.take_if(|(id, _)| id == call);
        // Nothing waits for the answer to a settled question.
        if question.is_some_and(|(_, sender)| !sender.is_closed()) {
            self.interrupt(Interrupt::User);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_messages_do_not_come_back() {
        let control = SessionControl::default();
        for (is_dropped, n_left) in [(false, 2), (true, 0)] {
            control.queue_message("a".into());
            control.queue_message("b".into());
            let n_withdrawals = control.n_withdrawals();
            let taken = control.drain_user_messages();
            if is_dropped {
                control.discard_messages();
            }
            control.requeue_messages(taken.into(), n_withdrawals);
            assert_eq!(control.drain_user_messages().len(), n_left);
        }
    }

    #[tokio::test]
    async fn approval_answer_applies_only_to_its_question() {
        let control = SessionControl::default();
        control.answer_approval("a", ApprovalDecision::AllowOnce);
        let mut question = control.open_question("a");
        control.answer_approval("b", ApprovalDecision::AllowOnce);
        control.answer_approval("a", ApprovalDecision::Reject(None));
        assert_eq!(
            question.next_reply().await,
            Some(UserReply::Decision(ApprovalDecision::Reject(None)))
        );
        // An answer directly after a request for a mode is not lost.
        let mut question = control.open_question("b");
        control.request_mode(PermissionMode::Full);
        control.answer_approval("b", ApprovalDecision::AllowOnce);
        assert_eq!(question.next_reply().await, Some(UserReply::ModeRequested));
        assert_eq!(
            question.next_reply().await,
            Some(UserReply::Decision(ApprovalDecision::AllowOnce))
        );
        // A mode that the user selects after a grant replaces the granted one.
        _ = control.open_question("c");
        control.answer_approval(
            "c",
            ApprovalDecision::AllowAlways(Grant::Mode(PermissionMode::AutoEdit)),
        );
        control.request_mode(PermissionMode::Plan);
        assert_eq!(control.take_requested_mode(), Some(PermissionMode::Plan));
        let mut question = control.open_question("d");
        control.interrupt(Interrupt::User);
        assert_eq!(question.next_reply().await, None);
    }

    #[test]
    fn cancelled_question_interrupts_only_while_it_is_open() {
        let control = SessionControl::default();
        drop(control.open_question("settled"));
        control.cancel_question("settled");
        let _question = control.open_question("open");
        control.cancel_question("settled");
        assert_eq!(control.interrupt_cause(), None);
        control.cancel_question("open");
        assert_eq!(control.interrupt_cause(), Some(Interrupt::User));
    }

    #[test]
    fn sub_agent_ends_with_the_turn_and_alone() {
        let control = SessionControl::default();
        let (first, second) = (control.for_subagent(), control.for_subagent());
        first.interrupt(Interrupt::Timeout);
        assert_eq!(first.interrupt_cause(), Some(Interrupt::Timeout));
        assert!(first.cancellation_token().is_cancelled());
        assert!(!second.cancellation_token().is_cancelled() && control.interrupt_cause().is_none());
        control.queue_message("and also".into());
        assert!(control.has_queued_messages() && !second.has_queued_messages());
        assert!(second.drain_user_messages().is_empty());
        control.interrupt(Interrupt::User);
        assert_eq!(second.interrupt_cause(), Some(Interrupt::User));
        assert!(second.cancellation_token().is_cancelled());
        assert_eq!(control.drain_user_messages().len(), 1);
    }

    #[test]
    fn new_turn_clears_the_previous_interrupt() {
        let control = SessionControl::default();
        control.interrupt(Interrupt::User);
        assert!(control.cancellation_token().is_cancelled());
        control.begin_turn();
        assert!(
            !control.cancellation_token().is_cancelled() && control.interrupt_cause().is_none()
        );
        control.interrupt(Interrupt::Terminate);
        control.begin_turn();
        assert!(
            control.cancellation_token().is_cancelled(),
            "the end of the program ends every turn"
        );
    }
}
