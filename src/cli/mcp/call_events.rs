//! Messages of a running call to the client: its progress, and the question whether it may run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ProgressNotificationParam,
    ProgressToken, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RequestHandle};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use agent_protocol::command_output::render_output;
use agent_protocol::control::{ApprovalDecision, Grant};
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_protocol::shorten;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use agent_protocol::view::full_call;

const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
const ANSWER_FIELD: &str = "answer";

#[derive(Clone, Default)]
pub(super) struct CallEventSink(Arc<Mutex<HashMap<String, UnboundedSender<CallEvent>>>>);

pub(super) struct CallEventStream {
    sink: CallEventSink,
    call: String,
    events: UnboundedReceiver<CallEvent>,
}

pub(super) enum CallEvent {
    Output(String),
    Question(ApprovalQuestion),
}

pub(super) struct ApprovalQuestion {
    text: String,
    grants: Vec<Grant>,
}

impl CallEventSink {
    pub(super) fn subscribe(&self, call: &str) -> CallEventStream {
        let (sender, events) = unbounded_channel();
        self.0.lock().insert(call.to_owned(), sender);
        CallEventStream { sink: self.clone(), call: call.to_owned(), events }
    }
}

impl CallEventStream {
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> CallEvent {
        match self.events.recv().await {
            Some(event) => event,
            // The stream lasts as long as the call.
            None => std::future::pending().await,
        }
    }
}

impl Drop for CallEventStream {
    fn drop(&mut self) {
        self.sink.0.lock().remove(&self.call);
    }
}

impl Sink for CallEventSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        let (call, event) = match &stamped.event.body {
            EventBody::ToolOutput { call, text } => (call, CallEvent::Output(text.clone())),
            EventBody::PermissionRequested { call, tool, input, reason, grants, diff, .. } => {
                let mut text = format!("{}\n{reason}", full_call(tool, input));
                if let Some(diff) = diff {
                    text.push_str(&format!("\n\n{diff}"));
                }
                let text = escape_prose(&text).into_owned();
                (call, CallEvent::Question(ApprovalQuestion { text, grants: grants.clone() }))
            }
            _ => return,
        };
        if let Some(sender) = self.0.lock().get(call) {
            // A call that has just ended has no receiver.
            _ = sender.send(event);
        }
    }
}

/// From protocol version 2026-07-28 on servers send no requests.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let is_early = context.protocol_version().is_some_and(|version| version.has_initialize());
    let elicitation = context.client_capabilities().and_then(|it| it.elicitation);
    is_early && elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

pub(super) async fn send_progress(
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    count: u32,
    output: &str,
) {
    let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let progress = ProgressNotificationParam::new(token, f64::from(count));
    // If the client is gone, the connection ends.
    _ = peer.notify_progress(progress.with_message(shorten(render_output(last).trim(), 200))).await;
}

/// Any answer other than a clear yes is a no.
pub(super) async fn ask_user(
    peer: &Peer<RoleServer>,
    question: ApprovalQuestion,
) -> ApprovalDecision {
    let choices = ApprovalDecision::choices(question.grants).into_iter();
    let choices: Vec<(String, ApprovalDecision)> = choices
        .map(|(words, approval)| (escape_literal_line(&words).into_owned(), approval))
        .collect();
    let words: Vec<&str> = choices.iter().map(|(words, _)| words.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {ANSWER_FIELD: {"type": "string", "title": "May it do this?", "enum": words}},
        "required": [ANSWER_FIELD],
    });
    let params = json!({"mode": "form", "message": question.text, "requestedSchema": schema});
    let answer = async {
        let params = serde_json::from_value::<ElicitRequestParams>(params).ok()?;
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let sent = peer.send_cancellable_request(request, options).await.ok()?;
        match PendingElicitation(Some(sent)).wait_for_answer().await? {
            ClientResult::ElicitResult(result) if result.action == ElicitationAction::Accept => {
                let answer = result.content?[ANSWER_FIELD].as_str()?.to_owned();
                choices.into_iter().find(|(words, _)| *words == answer)
            }
            _ => None,
        }
    };
    let chosen = tokio::time::timeout(ANSWER_TIMEOUT, answer).await.ok().flatten();
    chosen.map_or(ApprovalDecision::Reject(None), |(_, approval)| approval)
}

/// Tells the client when the answer is no longer needed.
struct PendingElicitation(Option<RequestHandle<RoleServer>>);

impl PendingElicitation {
    async fn wait_for_answer(&mut self) -> Option<ClientResult> {
        let answer = (&mut self.0.as_mut()?.rx).await;
        self.0 = None;
        answer.ok()?.ok()
    }
}

impl Drop for PendingElicitation {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // One poll sends the notice; nothing waits for its delivery.
            _ = handle.cancel(Some("the call has ended".to_owned())).now_or_never();
        }
    }
}
