//! The program at the other end, and the requests that it has not answered yet. A session in the background has one
//! only now and then; the requests wait for the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
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
    /// Where the program reads; `None` while there is none.
    output: watch::Sender<Option<Output>>,
    lost: CancellationToken,
}

#[derive(Default)]
struct OpenRequests {
    n_sent: u64,
    pending: HashMap<String, PendingRequest>,
    is_closed: bool,
}

struct PendingRequest {
    line: Value,
    on_answer: AnswerCallback,
    deadline: (Instant, Duration),
    /// `None`: the request is our own.
    forwarded: Option<ForwardedRequest>,
}

/// The server in the program, and the id of the request there.
pub(super) type ForwardedRequest = (String, Value);

impl Program {
    /// Without an output programs come and go: see [`Program::attach`].
    pub(super) fn new(output: Option<Output>) -> Self {
        let lost = output.as_ref().map_or_else(CancellationToken::new, |it| it.lost().clone());
        let (open, has_new, output) = (Mutex::default(), Notify::new(), watch::Sender::new(output));
        Self(Arc::new(ProgramConnection { open, has_new, output, lost }))
    }

    pub(super) fn send(&self, message: &Value) {
        self.send_line(message.to_string());
    }

    pub(super) fn send_line(&self, line: String) {
        // (The borrow ends before a program that reads too slowly is detached.)
        let output = self.0.output.borrow().clone();
        if let Some(output) = output
            && !output.enqueue_line(line)
        {
            // If the only program is gone, the session ends.
            self.detach(&output);
        }
    }

    /// Cancelled when the only program is gone.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// The next program: it takes the place of the one before, and gets the requests that wait.
    pub(super) fn attach(&self, output: &Output) {
        let open = self.0.open.lock();
        if let Some(before) = self.0.output.send_replace(Some(output.clone())) {
            let line =
                json!({"type": "detached", "reason": "was taken over by another `agent attach`"});
            _ = before.enqueue_line(line.to_string());
        }
        let mut waiting: Vec<&PendingRequest> = open.pending.values().collect();
        waiting.sort_by_key(|request| request.deadline);
        for request in waiting {
            _ = output.enqueue_line(request.line.to_string());
        }
    }

    /// Without effect if another program took over.
    pub(super) fn detach(&self, output: &Output) {
        let is_its =
            |current: &Option<Output>| current.as_ref().is_some_and(|it| it.is_same(output));
        self.0.output.send_if_modified(|current| is_its(current) && current.take().is_some());
    }

    /// Waits until the program has read everything, unless it reads nothing.
    pub(super) async fn finish_output(&self) {
        let output = self.0.output.borrow().clone();
        if let Some(output) = output {
            output.finish().await;
        }
    }

    pub(super) async fn wait_until_alone(&self) {
        // (The sender lives as long as this.)
        _ = self.0.output.subscribe().wait_for(Option::is_none).await;
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
            let line = json!({"type": "control_request", "request_id": id, "request": request});
            let on_answer = Box::new(then);
            let pending =
                PendingRequest { line: line.clone(), on_answer, deadline, forwarded: about };
            open.pending.insert(id.clone(), pending);
            // (A program that is attached meanwhile gets the request once.)
            self.send(&line);
            id
        };
        self.0.has_new.notify_one();
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
