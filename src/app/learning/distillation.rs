//! Distillation: one model request for lessons after a turn with failures.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{Shared, Work};
use agent_engine::kernel::{BackgroundRequest, Unanswered};
use agent_learning::distil::{Request, answer_schema};
use agent_protocol::event::Body;
use agent_protocol::model::{Purpose, Reply, StopReason};
use agent_protocol::prompt::{Prompt, Prompts};

const DISTIL: Prompt = Prompt::named("distil.md");

/// A distillation of one turn.
#[derive(Clone)]
pub(super) struct Distillation {
    pub(super) model: Arc<BackgroundRequest>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) work: mpsc::Sender<Work>,
    pub(super) shared: Arc<Shared>,
}

impl Distillation {
    /// Asks about the turn that just ended, if there is a reason, and stores the answer.
    pub(super) async fn run(self) {
        let (give, request) = oneshot::channel();
        if self.work.try_send(Work::Distil(give)).is_err() {
            return;
        }
        let Ok(Some(request)) = request.await else { return };
        match self.ask(&request).await {
            Ok(Some(answer)) => {
                let (done, stored) = oneshot::channel();
                if self.work.try_send(Work::Distilled { request, answer, done }).is_ok() {
                    _ = stored.await;
                }
            }
            Ok(None) => {}
            Err(why) => {
                self.shared
                    .emit(Body::error("memory", format!("no lessons were distilled: {why}")));
            }
        }
    }

    /// The answer; `None` if the budget does not allow the request, or the user interrupted.
    async fn ask(&self, request: &Request) -> Result<Option<String>, String> {
        let system = self.prompts.text(DISTIL).trim_end();
        let is_useful = |reply: &Reply| request.lessons(&reply.text).is_ok();
        let (text, schema) = (&request.evidence, answer_schema());
        match self.model.ask(Purpose::Learn, system, text, &schema, is_useful).await {
            Ok(reply) if reply.stop == Some(StopReason::Refused) => Ok(None),
            Ok(reply) => Ok(Some(reply.text)),
            Err(Unanswered::TooExpensive | Unanswered::Interrupted | Unanswered::NotScripted) => {
                Ok(None)
            }
            Err(Unanswered::Failed(why)) => Err(why),
        }
    }
}
