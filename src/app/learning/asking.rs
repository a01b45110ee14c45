//! Open questions, asked of a model beside the work: what is not answered when the session ends stays open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::{oneshot, watch};

use super::{Shared, Work};
use crate::kernel::{BackgroundRequest, Unanswered};
use crate::learning::question::{Question, answer_schema};
use crate::protocol::control::{Ending, PermissionMode};
use crate::protocol::event::{Body, Event};
use crate::protocol::model::{Purpose, Reply, StopReason};
use crate::protocol::prompt::{Prompt, Prompts, prompt};

const LEARN: Prompt = prompt!("learn.md");

/// So many questions are asked in one session.
const MAX_A_START: usize = 3;

/// What the session has come to, as far as it decides whether anybody is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// The model has answered, and the work goes on or is done: it is there, and nobody waits for its first word.
    has_answered: bool,
    /// So many turns have begun, and so many are done.
    n_begun: u32,
    n_done: u32,
    /// The last turn was interrupted, and no other has begun.
    is_stopped: bool,
    is_read_only: bool,
}

impl Heard {
    /// Takes one more event; false where it changes nothing.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match &event.body {
            // A session of one answer ends with it: what were asked then would be paid for and not heard.
            Body::ModelResponded(answer)
                if answer.purpose == Purpose::Main
                    && !answer.discarded
                    && !answer.calls.is_empty() =>
            {
                !std::mem::replace(&mut self.has_answered, true)
            }
            Body::TurnStarted { .. } => {
                self.n_begun += 1;
                self.is_stopped = false;
                true
            }
            Body::TurnFinished(finished) => {
                let is_away =
                    matches!(finished.ending, Ending::ModelUnavailable | Ending::ModelRefused);
                self.has_answered |= finished.rounds > 0 && !is_away;
                self.n_done += 1;
                self.is_stopped = finished.ending == Ending::Interrupted;
                true
            }
            Body::SessionStarted(now) | Body::SessionResumed { now, .. } => {
                self.is_now_in(now.permission_mode)
            }
            Body::ModeChanged { mode, .. } => self.is_now_in(*mode),
            _ => false,
        }
    }

    fn is_now_in(&mut self, mode: PermissionMode) -> bool {
        let was = std::mem::replace(&mut self.is_read_only, mode == PermissionMode::ReadOnly);
        was != self.is_read_only
    }

    fn may_ask(self) -> bool {
        self.has_answered && !self.is_read_only && !self.is_stopped
    }
}

/// Who asks.
pub(super) struct Asking {
    pub(super) aside: BackgroundRequest,
    pub(super) prompts: Arc<Prompts>,
    pub(super) work: SyncSender<Work>,
    pub(super) shared: Arc<Shared>,
    pub(super) heard: watch::Receiver<Heard>,
}

/// What follows a question.
enum Then {
    /// The next one; this one was asked.
    Next,
    /// The person stopped the work: nothing is asked before the next turn.
    Wait { was_asked: bool },
    /// No other in this session.
    End,
}

/// What came of a question.
pub(super) enum Answered {
    /// These words, whatever they are worth.
    Said(String),
    /// The provider does not let it be answered.
    Withheld,
}

impl Asking {
    /// Asks what there is to be asked, as long as the session lasts.
    pub(super) async fn ask(mut self) {
        let mut asked = BTreeSet::new();
        while asked.len() < MAX_A_START {
            let heard = self.heard.wait_for(|heard| heard.may_ask()).await.map(|heard| *heard);
            let Ok(heard) = heard else {
                return;
            };
            let Some(question) = self.next(asked.clone()).await else {
                // The next turn may leave one.
                let is_later = |now: &Heard| now.n_done > heard.n_done;
                if self.heard.wait_for(is_later).await.is_err() {
                    return;
                }
                continue;
            };
            let id = question.id.clone();
            match self.ask_one(question).await {
                Then::Next => _ = asked.insert(id),
                Then::Wait { was_asked } => {
                    asked.extend(was_asked.then_some(id));
                    let is_later = |now: &Heard| now.n_begun > heard.n_begun;
                    if self.heard.wait_for(is_later).await.is_err() {
                        return;
                    }
                }
                Then::End => return,
            }
        }
    }

    /// The next open question.
    async fn next(&self, asked: BTreeSet<String>) -> Option<Box<Question>> {
        let (give, question) = oneshot::channel();
        self.work.try_send(Work::Ask { asked, give }).ok()?;
        question.await.ok().flatten()
    }

    /// Asks one. It counts as asked from when it is sent.
    async fn ask_one(&self, question: Box<Question>) -> Then {
        let system = self.prompts.text(LEARN).trim_end();
        let is_useful = |reply: &Reply| question.taken_from(&reply.text).is_ok();
        let (text, schema) = (question.in_words(), answer_schema());
        let sends = || drop(self.work.try_send(Work::Asked(question.id.clone())));
        let asking = self.aside.ask(Purpose::Learn, system, &text, &schema, is_useful, sends);
        let answered = match asking.await {
            Ok(reply) if reply.stop == Some(StopReason::Refused) => Answered::Withheld,
            Ok(reply) => Answered::Said(reply.text),
            Err(Unanswered::TooDear) => return Then::End,
            Err(Unanswered::Interrupted { was_sent }) => return Then::Wait { was_asked: was_sent },
            Err(Unanswered::Failed(why)) => {
                self.shared.tell(Body::Error {
                    source: "memory".to_owned(),
                    message: format!(
                        "what earlier failures teach could not be asked: {why}; it is asked at the next start"
                    ),
                    retry_in_ms: None,
                    attempt: None,
                });
                return Then::End;
            }
        };
        match self.work.try_send(Work::Answered(question, answered)) {
            Ok(()) => Then::Next,
            Err(_) => Then::End,
        }
    }
}
