//! The parts of a session that a replay replaces: the model and the tools.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};

use super::replay_state::ReplayState;
use super::script::ModelOutcome;
use agent_engine::tools::{CallTarget, Tool, ToolCx};
use agent_protocol::Object;
use agent_protocol::envelope::{Envelope, ErrorCode, Failure, Report, Verdict};
use agent_protocol::event::ModelResponded;
use agent_protocol::model::{ContextWindow, Delta, Model, ModelError, Request};
use agent_protocol::tool::ToolSpec;

pub(super) struct RecordedModel {
    pub(super) id: String,
    pub(super) state: ReplayState,
    /// What the server said when it was asked.
    pub(super) said_window: Option<ContextWindow>,
}

impl Model for RecordedModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn ask_window(&self) -> BoxFuture<'_, Option<ContextWindow>> {
        Box::pin(std::future::ready(self.said_window))
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        let begin = async move {
            let Some((outcome, delay)) = self.state.next_answer(request.purpose) else {
                // The turn is interrupted.
                return std::future::pending().await;
            };
            tokio::time::sleep(delay).await;
            self.deltas(outcome)
        };
        stream::once(begin).flatten().boxed()
    }
}

impl RecordedModel {
    fn deltas(&self, outcome: ModelOutcome) -> BoxStream<'_, Result<Delta, ModelError>> {
        match outcome {
            ModelOutcome::Answer(answer) => {
                stream::iter(self.answer_deltas(*answer).into_iter().map(Ok)).boxed()
            }
            ModelOutcome::Failed(error) => stream::once(async { Err(error) }).boxed(),
            ModelOutcome::NoAnswer(text, by) => {
                let text = (!text.is_empty()).then_some(Ok(Delta::Text(text)));
                let silence = stream::once(async move {
                    if let Some(by) = by {
                        self.state.lock().control.interrupt(by);
                    }
                    std::future::pending().await
                });
                stream::iter(text).chain(silence).boxed()
            }
        }
    }

    fn answer_deltas(&self, answer: ModelResponded) -> Vec<Delta> {
        let ModelResponded { text, reasoning, calls, carried, usage, stop, .. } = answer;
        let mut deltas = Vec::new();
        deltas.extend((!reasoning.is_empty()).then_some(Delta::Reasoning(reasoning)));
        deltas.extend((!text.is_empty()).then_some(Delta::Text(text)));
        let calls = calls.into_iter().enumerate();
        deltas.extend(calls.map(|(index, call)| Delta::Call {
            index,
            id: Some(call.id),
            name: Some(call.name),
            arguments: self.state.relocate(&call.arguments),
        }));
        let carried = carried.into_iter();
        deltas.extend(carried.map(|it| Delta::Opaque { model: it.model, data: it.data }));
        deltas.extend(usage.map(Delta::Usage));
        deltas.push(Delta::Done(stop));
        deltas
    }
}

/// Gives the recorded result if the call must not run again.
pub(super) struct ReplayTool {
    pub(super) tool: Box<dyn Tool>,
    pub(super) state: ReplayState,
}

impl Tool for ReplayTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        self.tool.target(input, cx)
    }

    fn canonical_input(&self, input: &Object) -> Object {
        self.tool.canonical_input(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        // A rehearsal of a change is not a call that was started.
        let Some((call, skip)) = self.state.take_started_call() else {
            return self.tool.run(input, cx);
        };
        let why = match &skip {
            Some(skip) if skip.envelope.is_none() => {
                self.state.skip_call(&call, &skip.why);
                return Box::pin(std::future::pending());
            }
            Some(skip) => skip.why.clone(),
            None if cx.rights.unsandboxed => "it ran outside the sandbox".to_owned(),
            None if cx.rights.network => "it had the network".to_owned(),
            None => return self.tool.run(input, cx),
        };
        let recorded = self.state.skip_call(&call, &why);
        Box::pin(std::future::ready(match recorded {
            Some(recorded) => tool_result(&recorded),
            None => Err(Failure::new(ErrorCode::ExecutionError, format!("not run: {why}"))),
        }))
    }
}

fn tool_result(envelope: &Envelope) -> Result<Report, Failure> {
    let Envelope { verdict, data, text, stats, context } = envelope.clone();
    let path = context.path_resolved;
    match verdict {
        Verdict::Success | Verdict::Partial => {
            Ok(Report { partial: verdict == Verdict::Partial, data, text, stats, path })
        }
        Verdict::Error { error } => {
            let (code, message, hint) = (error.code, error.message, error.hint);
            Err(Failure { code, message, hint, data, text, stats, path })
        }
    }
}
