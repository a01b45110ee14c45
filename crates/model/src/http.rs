//! A model behind an HTTP server: combines encoder, transport, decoder and retries.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{self, BoxStream, Stream, TryStreamExt as _};
use tokio::time::{Instant, timeout};

use super::body::{Body, Foreign};
use super::endpoint::Endpoint;
use super::failure::{Again, EndpointFacts, Failure, Refusal};
use super::rejected::{Accepted, Rejected, Used};
use super::retry::retrying;
use super::transport::{Answer, Transport};
use super::wire::{Broken, Decode, Encoded, Ids, decoder, encode};
use agent_protocol::model::{Delta, Model, ModelError, Request, StopReason};
use agent_protocol::shorten;

/// How long the usage is waited for after the last text.
const AFTER_THE_LAST_WORD: Duration = Duration::from_secs(5);

/// How long the end of the body is waited for after `[DONE]`; reading it to its end allows the connection to
/// be reused.
const AFTER_DONE: Duration = Duration::from_millis(250);

/// How long a server may keep an answer alive without a part of it. (Some send nothing else while the model
/// reasons.)
const KEPT_ALIVE: Duration = Duration::from_mins(20);

pub(super) struct HttpModel {
    endpoint: Endpoint,
    /// What the server rejected.
    rejected: Mutex<Rejected>,
    transport: Transport,
    /// Prefix of generated call ids if the server sends none; different in each process, because a session
    /// may be resumed.
    id_prefix: String,
    next_id: AtomicU64,
}

impl HttpModel {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, ModelError> {
        let random = uuid::Uuid::now_v7().simple().to_string();
        Ok(Self {
            transport: Transport::new(endpoint.clone())?,
            endpoint,
            rejected: Mutex::default(),
            id_prefix: format!("call_{}_", &random[24..]),
            next_id: AtomicU64::new(1),
        })
    }

    fn rejected(&self) -> MutexGuard<'_, Rejected> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt failed. The next one leaves out what was rejected: if it had nothing of it, the reason is another
    /// one.
    fn failed(&self, mut failure: Failure, used: Used, request: &Request<'_>) -> Failure {
        let is_rejection =
            matches!(failure.again, Again::WithoutReasoning | Again::WithoutThinking);
        if is_rejection && !self.rejected().add(failure.again, used, request, &self.endpoint) {
            failure.again = Again::Never;
        }
        failure
    }
}

impl Model for HttpModel {
    fn id(&self) -> &str {
        &self.endpoint.id
    }

    fn connect(&self) -> BoxFuture<'_, ()> {
        self.transport.connect().boxed()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        let ids = Ids::new(&self.id_prefix, &self.next_id, request);
        retrying(self.endpoint.retries, move || {
            let Accepted { endpoint, messages, used } =
                self.rejected().leave_out(request, &self.endpoint);
            let messages = messages.as_deref().unwrap_or(request.messages);
            let Encoded { path, body } = encode(&Request { messages, ..*request }, &endpoint);
            let recorder = endpoint.recorder.as_ref();
            let recording =
                recorder.map(|recorder| recorder.begin(&endpoint, request.purpose, &path, &body));
            let facts = self.transport.endpoint_facts(&path);
            let open = async move { self.transport.post(&path, body, recording).await };
            let attempt =
                Attempt::new(facts, decoder(&self.endpoint, request, ids.clone()), open.boxed());
            attempt.stream().map_err(move |failure| self.failed(failure, used, request))
        })
    }
}

/// One attempt.
pub(super) struct Attempt<'a> {
    endpoint_facts: EndpointFacts,
    /// Sends the request.
    open: Option<BoxFuture<'a, Result<Answer, Failure>>>,
    /// `None` until the server accepted the request.
    answer: Option<Answer>,
    body: Body,
    decoder: Box<dyn Decode + 'a>,
    /// Deltas that were decoded and not taken yet.
    ready: VecDeque<Delta>,
    is_over: bool,
    /// When the last part of the answer arrived.
    last_data: Instant,
}

impl<'a> Attempt<'a> {
    /// `open` sends the request.
    pub(super) fn new(
        endpoint_facts: EndpointFacts,
        decoder: Box<dyn Decode + 'a>,
        open: BoxFuture<'a, Result<Answer, Failure>>,
    ) -> Self {
        Self {
            endpoint_facts,
            open: Some(open),
            answer: None,
            body: Body::new(),
            decoder,
            ready: VecDeque::new(),
            is_over: false,
            last_data: Instant::now(),
        }
    }

    /// The deltas of the answer; the last one is [`Delta::Done`] or an error.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Delta, Failure>> + Send + 'a {
        stream::unfold(self, |mut attempt| async { Some((attempt.next().await?, attempt)) })
    }

    /// The next delta, as in the stream.
    pub(super) async fn next(&mut self) -> Option<Result<Delta, Failure>> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(delta) = self.ready.pop_front() {
                self.is_over = matches!(delta, Delta::Done(_));
                return Some(Ok(delta));
            }
            if let Err(failure) = self.advance().await {
                self.is_over = true;
                return Some(Err(failure));
            }
        }
    }

    /// The answer came as a stream of events.
    pub(super) fn is_streamed(&self) -> bool {
        self.body.is_stream()
    }

    /// Processes one chunk, which may make something `ready`.
    async fn advance(&mut self) -> Result<(), Failure> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let Some(open) = self.open.take() else { return Ok(()) };
                let answer = open.await?;
                self.last_data = Instant::now();
                self.answer.insert(answer)
            }
        };
        let was_finished = self.decoder.is_finished();
        let chunk = match answer.chunk().await {
            Ok(chunk) => chunk,
            // The answer is complete, only the end of the stream is missing.
            Err(_) if was_finished => None,
            Err(failure) => return Err(failure),
        };
        let is_end = chunk.is_none();
        let n_ready = self.ready.len();
        let texts = match chunk {
            Some(chunk) => self
                .body
                .push(&chunk)
                .map_err(|foreign| on_foreign(&self.endpoint_facts, foreign))?,
            None => self.body.finish(),
        };
        for text in texts {
            match self.decoder.push(&text) {
                Ok(deltas) => self.ready.extend(deltas),
                // The answer was cut off after its last word.
                Err(Broken::Garbage(_)) if is_end && was_finished => {}
                Err(broken) => return Err(on_broken(&self.endpoint_facts, &broken)),
            }
        }
        if self.ready.len() > n_ready {
            self.last_data = Instant::now();
        } else if !is_end && self.last_data.elapsed() > KEPT_ALIVE {
            let seconds = KEPT_ALIVE.as_secs();
            return Err(Failure::soon(format!(
                "{}: only keep-alive messages for {seconds} s",
                self.endpoint_facts.url
            ))
            .because("no data"));
        }
        if self.decoder.is_done() {
            let drain = async { while let Ok(Some(_)) = answer.chunk().await {} };
            // If the end does not come, only the connection cannot be reused.
            let _ = timeout(AFTER_DONE, drain).await;
        } else if self.decoder.is_finished() {
            answer.hurry(AFTER_THE_LAST_WORD);
        }
        if is_end || self.decoder.is_done() {
            let stop = whole(&self.endpoint_facts, self.decoder.stop())?;
            self.ready.extend(self.decoder.end());
            self.ready.push_back(Delta::Done(self.decoder.stop().unwrap_or(stop)));
        }
        Ok(())
    }
}

/// The reason for the end of an answer, if it is one of a complete answer.
fn whole(endpoint_facts: &EndpointFacts, stop: Option<StopReason>) -> Result<StopReason, Failure> {
    let (url, model) = (&endpoint_facts.url, &endpoint_facts.model);
    match stop {
        Some(StopReason::Other(reason)) => {
            let reason = shorten(&reason, 120);
            Err(Failure::soon(format!(
                "{url}: {model} ended the answer with the reason `{reason}`, so it is not known to be \
                 complete; try again later"
            ))
            .because(format!("the answer ended with `{reason}`")))
        }
        Some(stop) => Ok(stop),
        None => Err(Failure::soon(format!("{url}: the answer ended before it was complete"))
            .because("the answer ended early")),
    }
}

fn on_foreign(endpoint_facts: &EndpointFacts, foreign: Foreign) -> Failure {
    match foreign {
        Foreign::Page => endpoint_facts.page(),
        Foreign::TooLong { limit } => Failure::soon(format!(
            "{}: a part of the answer is longer than {limit} bytes",
            endpoint_facts.url
        ))
        .because("the answer is not readable"),
    }
}

fn on_broken(endpoint_facts: &EndpointFacts, broken: &Broken) -> Failure {
    match broken {
        Broken::Garbage(text) => Failure::soon(format!(
            "{}: the answer is garbage: {}",
            endpoint_facts.url,
            endpoint_facts.without_key(&shorten(text, 200))
        ))
        .because("the answer is not readable"),
        Broken::Error(error) => {
            let body = error.to_string();
            endpoint_facts.refused(&Refusal { status: None, retry_after: None, body: &body })
        }
    }
}
