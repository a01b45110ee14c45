//! A model that plays recorded answers of servers: see `wire_record`.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::endpoint::Endpoint;
use super::failure::{AttemptFailure, EndpointFacts};
use super::http_model::Attempt;
use super::retry::{RetrySettings, retry_stream};
use super::transport::{ResponseStream, refusal_failure};
use super::wire_format::{CallIds, new_decoder};
use super::wire_record::{self, Exchange};
use agent_protocol::model::{Delta, Model, ModelError, ModelErrorKind, Purpose, Request};

/// Plays recorded answers in their order, for each [`Purpose`] alone: background requests are concurrent.
pub struct ReplayModel {
    id: String,
    exchanges: Vec<RecordedExchange>,
    retries: RetrySettings,
    next_id: AtomicU64,
}

struct RecordedExchange {
    file: String,
    exchange: Exchange,
    endpoint: Endpoint,
    is_used: AtomicBool,
}

impl ReplayModel {
    /// Reads the record in this folder.
    pub fn open(folder: &str, retries: RetrySettings) -> Result<Self, ModelError> {
        let exchanges = wire_record::read_exchanges(Path::new(folder))
            .map_err(|message| ModelError::new(ModelErrorKind::Configuration, message))?;
        let recorded = exchanges.into_iter().map(|(file, exchange)| {
            // The address only appears in messages.
            let mut endpoint = Endpoint::new(exchange.model.clone(), "http://replay/v1");
            (endpoint.wire, endpoint.dialect) = (exchange.wire, exchange.dialect);
            RecordedExchange { file, exchange, endpoint, is_used: AtomicBool::new(false) }
        });
        Ok(Self {
            id: format!("replay:{folder}"),
            exchanges: recorded.collect(),
            retries,
            next_id: AtomicU64::new(1),
        })
    }

    /// The model that gave the first answer of the record.
    pub fn recorded_model(&self) -> &str {
        self.exchanges.first().map_or(&self.id, |recorded| &recorded.exchange.model)
    }

    fn take_exchange(&self, purpose: Purpose) -> Option<&RecordedExchange> {
        let mut suitable = self.exchanges.iter().filter(|r| r.exchange.purpose == purpose);
        suitable.find(|recorded| !recorded.is_used.swap(true, Ordering::Relaxed))
    }
}

impl Model for ReplayModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        let mut attempts = 0;
        retry_stream(self.retries, move || {
            attempts += 1;
            let Some(recorded) = self.take_exchange(request.purpose) else {
                let message = format!(
                    "{}: the record has no further answer for the purpose `{}`",
                    self.id,
                    request.purpose.as_str()
                );
                // The recorded session had no further attempt after a recorded failure, either.
                let kind = match attempts {
                    1 => ModelErrorKind::Script,
                    _ => ModelErrorKind::Unavailable,
                };
                let failure = AttemptFailure::permanent(kind, message);
                return stream::once(async { Err(failure) }).boxed();
            };
            let RecordedExchange { file, exchange, endpoint, .. } = recorded;
            let ids = CallIds::new("call_", &self.next_id, request);
            let facts = EndpointFacts::for_recording(file.clone(), endpoint.model.clone());
            let answer = recorded_answer(exchange, &facts);
            let open = async { answer }.boxed();
            Attempt::new(facts, new_decoder(endpoint, request, ids), open).stream().boxed()
        })
    }
}

fn recorded_answer(
    exchange: &Exchange,
    facts: &EndpointFacts,
) -> Result<ResponseStream, AttemptFailure> {
    let Exchange { status, headers, body, failure, .. } = exchange;
    let pieces: VecDeque<Vec<u8>> = body.iter().map(|piece| piece.content.bytes()).collect();
    match status {
        None => {
            let message = failure.as_deref().unwrap_or("no response");
            Err(if exchange.is_permanent {
                AttemptFailure::permanent(ModelErrorKind::Refused, message)
            } else {
                AttemptFailure::temporary(message)
            })
        }
        Some(200..300) => {
            Ok(ResponseStream::from_recording(facts.clone(), pieces, failure.clone()))
        }
        Some(status) => {
            let headers: HeaderMap = headers
                .iter()
                .filter_map(|(name, value)| {
                    let name = HeaderName::try_from(name).ok()?;
                    Some((name, HeaderValue::try_from(value).ok()?))
                })
                .collect();
            let body: Vec<u8> = pieces.into_iter().flatten().collect();
            Err(refusal_failure(facts, *status, &headers, &String::from_utf8_lossy(&body)))
        }
    }
}
