//! An editor: the client of the protocol's crate, connected to the built binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, CreateElicitationRequest, CreateElicitationResponse,
    ElicitationAction, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionId, SessionNotification,
    SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, Lines, on_receive_notification, on_receive_request,
};
use futures_util::{sink, stream};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::support::Test;

type Permits = dyn Fn(&RequestPermissionRequest) -> Option<RequestPermissionOutcome> + Send + Sync;
type Answers = dyn Fn(&CreateElicitationRequest) -> ElicitationAction + Send + Sync;

/// How the user answers permission requests and questions.
pub(super) struct User {
    /// `None`: not at all.
    permits: Box<Permits>,
    pub(super) answers: Box<Answers>,
    pub(super) capabilities: ClientCapabilities,
}

impl User {
    /// Answers each permission request with the option of this id.
    pub(super) fn choosing(option: &'static str) -> Self {
        Self::permitting(move |_| {
            let selected = SelectedPermissionOutcome::new(option);
            Some(RequestPermissionOutcome::Selected(selected))
        })
    }

    pub(super) fn permitting(
        permits: impl Fn(&RequestPermissionRequest) -> Option<RequestPermissionOutcome>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            permits: Box::new(permits),
            answers: Box::new(|_| ElicitationAction::Decline),
            capabilities: ClientCapabilities::new(),
        }
    }
}

/// What the agent sent, and the requests that were not answered.
#[derive(Default)]
struct Seen {
    updates: Vec<SessionNotification>,
    asked: Vec<RequestPermissionRequest>,
    unanswered: Vec<Responder<RequestPermissionResponse>>,
}

/// A connected editor.
#[derive(Clone)]
pub(super) struct Editor {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) initialized: InitializeResponse,
    seen: Arc<Mutex<Seen>>,
}

impl Editor {
    /// Opens a session in the project.
    pub(super) async fn open(&self, test: &Test) -> NewSessionResponse {
        self.connection
            .send_request(NewSessionRequest::new(test.root()))
            .block_task()
            .await
            .unwrap()
    }

    /// Sends a prompt and waits for its end.
    pub(super) async fn prompt(
        &self,
        session: &SessionId,
        blocks: Vec<ContentBlock>,
    ) -> Result<StopReason, Error> {
        let request = PromptRequest::new(session.clone(), blocks);
        Ok(self.connection.send_request(request).block_task().await?.stop_reason)
    }

    pub(super) async fn say(&self, session: &SessionId, text: &str) -> Result<StopReason, Error> {
        self.prompt(session, vec![text_block(text)]).await
    }

    /// The updates so far, as JSON.
    pub(super) fn updates(&self) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.updates.iter().map(|it| serde_json::to_value(&it.update).unwrap()).collect()
    }

    /// The updates of one kind.
    pub(super) fn updates_of(&self, kind: &str) -> Vec<Value> {
        self.updates().into_iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The joined text of the chunks of one kind and session.
    pub(super) fn text(&self, session: &SessionId) -> String {
        let seen = self.seen.lock().unwrap();
        let of_session = seen.updates.iter().filter(|it| it.session_id == *session);
        let chunks = of_session.filter_map(|it| match &it.update {
            SessionUpdate::AgentMessageChunk(chunk) => Some(&chunk.content),
            _ => None,
        });
        let texts = chunks.map(|content| match content {
            ContentBlock::Text(text) => text.text.clone(),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    /// The permission requests so far, as JSON.
    pub(super) fn asked(&self) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.asked.iter().map(|asked| serde_json::to_value(asked).unwrap()).collect()
    }

    /// Whether the agent withdrew the first request that was not answered.
    pub(super) fn is_withdrawn(&self) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.unanswered.first().is_some_and(|responder| responder.cancellation().is_cancelled())
    }

    /// Answers the first open permission request: the user cancelled it.
    pub(super) fn cancel_request(&self) {
        let responder = self.seen.lock().unwrap().unanswered.remove(0);
        let cancelled = RequestPermissionOutcome::Cancelled;
        responder.respond(RequestPermissionResponse::new(cancelled)).unwrap();
    }

    /// Waits until this is true.
    pub(super) async fn wait_for(&self, what: &str, is_there: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if is_there(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{what} did not happen: {:#?}", self.updates());
    }
}

pub(super) fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

/// A running agent, killed at the end of the test.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Starts `agent acp` with the script and these arguments.
pub(super) fn start(test: &Test, args: &[&str]) -> Running {
    let mut all = vec!["acp", "--set", "learning.wait_ms=10000"];
    if !args.contains(&"--model") {
        all.extend(["--model", "script:../script"]);
    }
    all.extend(args);
    let mut command = test.command(&all);
    Running(command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
}

/// Runs an editor with this user against the agent; returns the agent's exit code.
pub(super) fn edit(
    test: &Test,
    args: &[&str],
    user: User,
    work: impl AsyncFnOnce(Editor),
) -> Option<i32> {
    let mut agent = start(test, args);
    let stdin = agent.0.stdin.take().unwrap();
    let stdout = agent.0.stdout.take().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(Ok(line)).is_err() {
                    return;
                }
            }
        });
        let incoming = stream::unfold(lines, async |mut lines| Some((lines.recv().await?, lines)));
        let outgoing = sink::unfold(stdin, async |mut stdin, line: String| {
            stdin.write_all(format!("{line}\n").as_bytes())?;
            Ok::<_, std::io::Error>(stdin)
        });
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (noted, asked) = (seen.clone(), seen.clone());
        let User { permits, answers, capabilities } = user;
        let connected = Client
            .v1()
            .name("test")
            .on_receive_notification(
                async move |update: SessionNotification, _| {
                    noted.lock().unwrap().updates.push(update);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest, responder, _| {
                    let outcome = permits(&request);
                    let mut seen = asked.lock().unwrap();
                    seen.asked.push(request);
                    match outcome {
                        Some(outcome) => responder.respond(RequestPermissionResponse::new(outcome)),
                        None => {
                            seen.unanswered.push(responder);
                            Ok(())
                        }
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: CreateElicitationRequest, responder, _| {
                    responder.respond(CreateElicitationResponse::new(answers(&request)))
                },
                on_receive_request!(),
            )
            .connect_with(
                Lines::new(outgoing, incoming),
                async |connection: ConnectionTo<Agent>| {
                    let request = InitializeRequest::new(ProtocolVersion::V1)
                        .client_capabilities(capabilities);
                    let initialized = connection.send_request(request).block_task().await?;
                    work(Editor { connection, initialized, seen }).await;
                    Ok(())
                },
            );
        tokio::time::timeout(Duration::from_mins(1), connected).await.unwrap().unwrap();
    });
    // The connection is over: it has closed the agent's standard input.
    drop(runtime);
    agent.0.wait().unwrap().code()
}
