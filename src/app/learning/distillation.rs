//! Distillation: one model request for lessons after a turn with failures.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{LearningMessage, LearningState};
use agent_engine::kernel::{BackgroundRequestError, BackgroundRequester};
use agent_learning::distillation::{DistillationRequest, answer_schema};
use agent_protocol::event::{DISTILLATION, EventBody};
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{Purpose, Reply, Request, StopReason};
use agent_protocol::prompt::{Prompt, Prompts};

const DISTIL: Prompt = Prompt::named("distil.md");

#[derive(Clone)]
pub(super) struct Distillation {
    pub(super) model: Arc<BackgroundRequester>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) sender: mpsc::Sender<LearningMessage>,
    pub(super) shared: Arc<LearningState>,
}

impl Distillation {
    /// Sends the request about the turn that just ended, if there is a reason, and stores the answer.
    pub(super) async fn run(self) {
        let (give, request) = oneshot::channel();
        if self.sender.try_send(LearningMessage::TakeRequest(give)).is_err() {
            return;
        }
        let Ok(Some(request)) = request.await else { return };
        match self.request_answer(&request).await {
            Ok(Some(answer)) => {
                let (done, stored) = oneshot::channel();
                let message = LearningMessage::StoreAnswer { request, answer, done };
                if self.sender.try_send(message).is_ok() {
                    _ = stored.await;
                }
            }
            Ok(None) => {}
            Err(why) => {
                let message = format!("no lessons were distilled: {why}");
                self.shared.emit(EventBody::error(DISTILLATION, message));
            }
        }
    }

    /// `None` if the budget does not allow the request, or the user interrupted.
    async fn request_answer(
        &self,
        request: &DistillationRequest,
    ) -> Result<Option<String>, String> {
        let system = self.prompts.text(DISTIL).trim_end();
        let is_useful = |reply: &Reply| request.parse_lessons(&reply.text).is_ok();
        let (messages, schema) = ([Message::text(Role::User, &*request.evidence)], answer_schema());
        let sent = Request {
            answer_schema: Some(&schema),
            ..Request::new(Purpose::Learn, system, &messages)
        };
        match self.model.send_request(sent, is_useful).await {
            Ok(reply) if reply.stop == Some(StopReason::Refused) => Ok(None),
            Ok(reply) => Ok(Some(reply.text)),
            Err(
                BackgroundRequestError::TooExpensive
                | BackgroundRequestError::Interrupted
                | BackgroundRequestError::NotScripted,
            ) => Ok(None),
            Err(BackgroundRequestError::Failed(why)) => Err(why),
        }
    }
}
