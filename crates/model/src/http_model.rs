//! A model behind an HTTP server: combines encoder, transport, decoder and retries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{self, BoxStream, Stream, TryStreamExt as _};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::body_splitter::{BodyError, BodySplitter};
use super::endpoint::Endpoint;
use super::failure::{AttemptFailure, EndpointFacts, Refusal, RetryAdvice};
use super::rejections::{AcceptedRequest, RejectableContent, Rejections};
use super::retry::retry_stream;
use super::transport::{ResponseStream, Transport};
use super::window;
use super::wire_format::{
    AnswerDecoder, CallIds, DecodeError, EncodedRequest, encode, new_decoder,
};
use agent_protocol::model::{
    ContextWindow, Delta, Model, ModelError, Purpose, Request, StopReason, WindowSource,
};
use agent_protocol::shorten;

/// Time limit for the usage after the last text.
const USAGE_WAIT: Duration = Duration::from_secs(5);

/// Time limit for the end of the body after `[DONE]`: a body read to its end allows to reuse the connection.
const BODY_END_WAIT: Duration = Duration::from_millis(250);

/// Time limit without a part of the answer: some servers send only keep-alive messages while the model reasons.
const MAX_KEEP_ALIVE: Duration = Duration::from_mins(20);

pub(super) struct HttpModel {
    endpoint: Endpoint,
    rejections: Mutex<Rejections>,
    transport: Transport,
    /// How often the server was asked for the window.
    n_asked: AtomicU64,
    /// Different in each process, because a session may be resumed.
    id_prefix: String,
    next_id: AtomicU64,
}

impl HttpModel {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, ModelError> {
        let random = uuid::Uuid::now_v7().simple().to_string();
        Ok(Self {
            transport: Transport::new(endpoint.clone())?,
            n_asked: AtomicU64::new(0),
            endpoint,
            rejections: Mutex::default(),
            id_prefix: format!("call_{}_", &random[24..]),
            next_id: AtomicU64::new(1),
        })
    }

    /// The next attempt leaves out what the server rejected; if nothing can be left out, there is none.
    fn record_rejection(
        &self,
        mut failure: AttemptFailure,
        used: &RejectableContent,
        request: &Request<'_>,
    ) -> AttemptFailure {
        if let Some(window) = failure.error.window {
            window::record_window(&self.endpoint.id, window, WindowSource::Error);
        }
        if let RetryAdvice::Without(omission) = failure.retry
            && !self.rejections.lock().record(omission, used, request, &self.endpoint)
        {
            failure.retry = RetryAdvice::Never;
        }
        failure
    }
}

impl Model for HttpModel {
    fn id(&self) -> &str {
        &self.endpoint.id
    }

    fn ask_window(&self) -> BoxFuture<'_, Option<ContextWindow>> {
        async {
            let Endpoint { id, model, window_questions, .. } = &self.endpoint;
            // A local server may load the model for the first request.
            let max_asked = 1 + u64::from(self.endpoint.is_local());
            if window_questions.is_empty() {
                return None;
            }
            if window::recall_window(id).is_none()
                && self.n_asked.fetch_add(1, Ordering::Relaxed) < max_asked
            {
                let models = [(id.clone(), model.clone())];
                window::ask(&self.transport, window_questions, &models).await;
            }
            window::recall_window(id)
        }
        .boxed()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        let ids = CallIds::new(&self.id_prefix, &self.next_id, request);
        let mut retries = self.endpoint.retries;
        if request.purpose == Purpose::Summary {
            retries = retries.shortened();
        }
        retry_stream(retries, move || {
            let AcceptedRequest { endpoint, messages, max_output_tokens, rejectable: used } =
                self.rejections.lock().filter_request(request, &self.endpoint);
            let messages = messages.as_deref().unwrap_or(request.messages);
            let accepted = Request { messages, max_output_tokens, ..*request };
            let EncodedRequest { path, body } = encode(&accepted, &endpoint);
            let facts = self.transport.endpoint_facts(&path);
            let open = async move { self.transport.post(&path, body).await };
            let attempt = Attempt::new(
                facts,
                new_decoder(&self.endpoint, request, ids.clone()),
                open.boxed(),
            );
            attempt.stream().map_err(move |failure| self.record_rejection(failure, &used, request))
        })
    }
}

pub(super) struct Attempt<'a> {
    endpoint_facts: EndpointFacts,
    open: Option<BoxFuture<'a, Result<ResponseStream, AttemptFailure>>>,
    /// `None` until the server accepts the request.
    answer: Option<ResponseStream>,
    body: BodySplitter,
    decoder: Box<dyn AnswerDecoder + 'a>,
    ready: VecDeque<Delta>,
    is_over: bool,
    last_data: Instant,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        endpoint_facts: EndpointFacts,
        decoder: Box<dyn AnswerDecoder + 'a>,
        open: BoxFuture<'a, Result<ResponseStream, AttemptFailure>>,
    ) -> Self {
        Self {
            endpoint_facts,
            open: Some(open),
            answer: None,
            body: BodySplitter::Unknown,
            decoder,
            ready: VecDeque::new(),
            is_over: false,
            last_data: Instant::now(),
        }
    }

    /// The last delta is [`Delta::Done`] or an error.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Delta, AttemptFailure>> + Send + 'a {
        stream::unfold(self, |mut attempt| async { Some((attempt.next_delta().await?, attempt)) })
    }

    pub(super) async fn next_delta(&mut self) -> Option<Result<Delta, AttemptFailure>> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(delta) = self.ready.pop_front() {
                self.is_over = matches!(delta, Delta::Done(_));
                return Some(Ok(delta));
            }
            if let Err(failure) = self.process_chunk().await {
                self.is_over = true;
                return Some(Err(failure));
            }
        }
    }

    pub(super) fn is_streamed(&self) -> bool {
        matches!(self.body, BodySplitter::Events(_))
    }

    async fn process_chunk(&mut self) -> Result<(), AttemptFailure> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let Some(open) = self.open.take() else { return Ok(()) };
                let answer = open.await?;
                self.last_data = Instant::now();
                self.answer.insert(answer)
            }
        };
        let was_finished = self.decoder.is_answer_complete();
        let chunk = match answer.read_chunk().await {
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
                .map_err(|foreign| body_failure(&self.endpoint_facts, foreign))?,
            None => self.body.finish(),
        };
        for text in texts {
            match self.decoder.push(&text) {
                Ok(deltas) => self.ready.extend(deltas),
                // The answer was cut off after its last word.
                Err(DecodeError::Malformed(_)) if is_end && was_finished => {}
                Err(broken) => return Err(decode_failure(&self.endpoint_facts, &broken)),
            }
        }
        if self.ready.len() > n_ready {
            self.last_data = Instant::now();
        } else if !is_end && self.last_data.elapsed() > MAX_KEEP_ALIVE {
            let seconds = MAX_KEEP_ALIVE.as_secs();
            let url = &self.endpoint_facts.url;
            let message = format!("{url}: only keep-alive messages for {seconds} s");
            return Err(AttemptFailure::temporary(message).with_reason("no data"));
        }
        if self.decoder.is_stream_over() {
            let drain = async { while let Ok(Some(_)) = answer.read_chunk().await {} };
            // If the end does not come, only the connection cannot be reused.
            let _ = timeout(BODY_END_WAIT, drain).await;
        } else if self.decoder.is_answer_complete() {
            answer.shorten_limits(USAGE_WAIT);
        }
        if is_end || self.decoder.is_stream_over() {
            let stop = require_complete(&self.endpoint_facts, self.decoder.stop_reason())?;
            self.ready.extend(self.decoder.finish());
            self.ready.push_back(Delta::Done(self.decoder.stop_reason().unwrap_or(stop)));
        }
        Ok(())
    }
}

/// Fails unless the reason is that of a complete answer.
fn require_complete(
    endpoint_facts: &EndpointFacts,
    stop: Option<StopReason>,
) -> Result<StopReason, AttemptFailure> {
    let (url, model) = (&endpoint_facts.url, &endpoint_facts.model);
    match stop {
        Some(StopReason::Other(reason)) => {
            let reason = shorten(&reason, 120);
            let message = format!(
                "{url}: {model} ended the answer with the reason `{reason}`, so it is not known to be \
                 complete; try again later"
            );
            let reason = format!("the answer ended with `{reason}`");
            Err(AttemptFailure::temporary(message).with_reason(reason))
        }
        Some(stop) => Ok(stop),
        None => {
            let message = format!("{url}: the answer ended before it was complete");
            Err(AttemptFailure::temporary(message).with_reason("the answer ended early"))
        }
    }
}

fn body_failure(endpoint_facts: &EndpointFacts, foreign: BodyError) -> AttemptFailure {
    let url = &endpoint_facts.url;
    match foreign {
        BodyError::HtmlPage => endpoint_facts.html_page_failure(),
        BodyError::TooLong { limit } => {
            let message = format!("{url}: a part of the answer is longer than {limit} bytes");
            AttemptFailure::temporary(message).with_reason("the answer is not readable")
        }
    }
}

fn decode_failure(endpoint_facts: &EndpointFacts, broken: &DecodeError) -> AttemptFailure {
    match broken {
        DecodeError::Malformed(text) => {
            let quote = endpoint_facts.redact_key(&shorten(text, 200));
            let message = format!("{}: the answer is garbage: {quote}", endpoint_facts.url);
            AttemptFailure::temporary(message).with_reason("the answer is not readable")
        }
        DecodeError::ServerError(error) => {
            let body = &error.to_string();
            endpoint_facts.classify_refusal(&Refusal { status: None, retry_after: None, body })
        }
    }
}
