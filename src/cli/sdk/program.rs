//! The program at the other end, and the requests that it has not answered yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cli::stdout::Output;
use agent_host::exec::seconds;

/// Receives the answer, or why there is none. Called once, in any thread.
type AnswerCallback = Box<dyn FnOnce(Result<Value, String>) + Send>;

#[derive(Clone)]
pub(super) struct Program(Arc<ProgramConnection>);

struct ProgramConnection {
    open: Mutex<OpenRequests>,
    has_new: Notify,
    output: Output,
}

#[derive(Default)]
struct OpenRequests {
    n_sent: u64,
    pending: HashMap<String, PendingRequest>,
    is_closed: bool,
}

struct PendingRequest {
    on_answer: AnswerCallback,
    deadline: (Instant, Duration),
    /// `None`: the request is our own.
    forwarded: Option<ForwardedRequest>,
}

/// The server in the program, and the id of the request there.
pub(super) type ForwardedRequest = (String, Value);

impl Program {
    pub(super) fn new(output: Output) -> Self {
        let (open, has_new) = (Mutex::default(), Notify::new());
        Self(Arc::new(ProgramConnection { open, has_new, output }))
    }

    pub(super) fn send(&self, message: &Value) {
        // If the program is gone, the session ends.
        _ = self.0.output.enqueue_line(message.to_string());
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        self.0.output.lost()
    }

    /// `then` receives the answer. Returns the request's id.
    pub(super) fn ask(
        &self,
        request: &Value,
        limit: Duration,
        then: impl FnOnce(Result<Value, String>) + Send + 'static,
    ) -> String {
        self.forward(request, limit, None, then)
    }

    /// The MCP client may cancel the request.
    pub(super) fn forward(
        &self,
        request: &Value,
        limit: Duration,
        about: Option<ForwardedRequest>,
        then: impl FnOnce(Result<Value, String>) + Send + 'static,
    ) -> String {
        let id = {
            let mut open = self.0.open.lock();
            if open.is_closed {
                drop(open);
                then(Err("the program has closed its end".to_owned()));
                return String::new();
            }
            open.n_sent += 1;
            let id = format!("agent_{}", open.n_sent);
            let deadline = (Instant::now() + limit, limit);
            let pending = PendingRequest { on_answer: Box::new(then), deadline, forwarded: about };
            open.pending.insert(id.clone(), pending);
            id
        };
        self.0.has_new.notify_one();
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        id
    }

    /// Takes a `control_response`. An answer to a request that is not open is ignored.
    pub(super) fn handle_response(&self, response: &Value) {
        let id = response["request_id"].as_str().unwrap_or_default();
        let Some(pending) = self.remove_pending(id) else { return };
        (pending.on_answer)(match response["subtype"].as_str() {
            Some("success") => Ok(response["response"].clone()),
            _ => Err(response["error"].as_str().unwrap_or("the program failed").to_owned()),
        });
    }

    /// Without effect if the request is not open. Its answer is ignored.
    pub(super) fn withdraw(&self, id: &str) {
        if self.remove_pending(id).is_some() {
            self.send(&json!({"type": "control_cancel_request", "request_id": id}));
        }
    }

    pub(super) fn withdraw_forwarded(&self, about: &ForwardedRequest) {
        let id = {
            let open = self.0.open.lock();
            let mut pending = open.pending.iter();
            pending.find(|(_, it)| it.forwarded.as_ref() == Some(about)).map(|(id, _)| id.clone())
        };
        if let Some(id) = id {
            self.withdraw(&id);
        }
    }

    /// The program sends nothing more, so no request will be answered.
    pub(super) fn close(&self) {
        let pending = {
            let mut open = self.0.open.lock();
            open.is_closed = true;
            std::mem::take(&mut open.pending)
        };
        for pending in pending.into_values() {
            (pending.on_answer)(Err("the program has closed its end".to_owned()));
        }
    }

    pub(super) async fn expire_requests(&self) -> std::convert::Infallible {
        loop {
            let next = {
                let open = self.0.open.lock();
                open.pending.values().map(|it| it.deadline.0).min()
            };
            let has_new = self.0.has_new.notified();
            match next {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => self.end_late_requests(),
                    () = has_new => {}
                },
                None => has_new.await,
            }
        }
    }

    fn end_late_requests(&self) {
        let now = Instant::now();
        let late: Vec<(String, Duration)> = {
            let open = self.0.open.lock();
            let late = open.pending.iter().filter_map(|(id, pending)| {
                let (at, limit) = pending.deadline;
                (at <= now).then(|| (id.clone(), limit))
            });
            late.collect()
        };
        for (id, limit) in late {
            if let Some(pending) = self.remove_pending(&id) {
                self.send(&json!({"type": "control_cancel_request", "request_id": id}));
                let limit = seconds(limit);
                (pending.on_answer)(Err(format!("the program did not answer within {limit}")));
            }
        }
    }

    fn remove_pending(&self, id: &str) -> Option<PendingRequest> {
        self.0.open.lock().pending.remove(id)
    }
}
