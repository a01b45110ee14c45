//! A model that plays recorded answers of servers: see `wire_record`.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::endpoint::Endpoint;
use super::failure::{EndpointFacts, Failure};
use super::http::Attempt;
use super::retry::{Retries, retrying};
use super::transport::{Answer, refused};
use super::wire::{Ids, decoder};
use super::wire_record::{self, Exchange};
use agent_protocol::model::{Delta, Model, ModelError, ModelErrorKind, Purpose, Request};

/// Plays the answers of a record, in their order; the requests for each [`Purpose`] have an order of their
/// own, because background requests are concurrent.
pub struct Replay {
    id: String,
    recorded: Vec<Recorded>,
    retries: Retries,
    next_id: AtomicU64,
}

struct Recorded {
    file: String,
    exchange: Exchange,
    endpoint: Endpoint,
    is_used: AtomicBool,
}

impl Replay {
    /// Reads the record in this folder.
    pub fn read(folder: &str, retries: Retries) -> Result<Self, ModelError> {
        let exchanges = wire_record::read(Path::new(folder))
            .map_err(|message| ModelError::new(ModelErrorKind::Configuration, message))?;
        let recorded = exchanges.into_iter().map(|(file, exchange)| {
            // The address only appears in messages.
            let mut endpoint = Endpoint::new(exchange.model.clone(), "http://replay/v1");
            (endpoint.wire, endpoint.dialect) = (exchange.wire, exchange.dialect);
            Recorded { file, exchange, endpoint, is_used: AtomicBool::new(false) }
        });
        Ok(Self {
            id: format!("replay:{folder}"),
            recorded: recorded.collect(),
            retries,
            next_id: AtomicU64::new(1),
        })
    }

    /// The model that gave the first answer of the record.
    pub fn recorded_model(&self) -> &str {
        self.recorded.first().map_or(&self.id, |recorded| &recorded.exchange.model)
    }

    /// The next answer for this purpose.
    fn take(&self, purpose: Purpose) -> Option<&Recorded> {
        let mut suitable = self.recorded.iter().filter(|r| r.exchange.purpose == purpose);
        suitable.find(|recorded| !recorded.is_used.swap(true, Ordering::Relaxed))
    }
}

impl Model for Replay {
    fn id(&self) -> &str {
        &self.id
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        let mut attempts = 0;
        retrying(self.retries, move || {
            attempts += 1;
            let Some(recorded) = self.take(request.purpose) else {
                let message = format!(
                    "{}: the record has no further answer for the purpose `{}`",
                    self.id,
                    request.purpose.as_str()
                );
                // After a recorded failure, the recorded session had no further attempt either.
                let kind = match attempts {
                    1 => ModelErrorKind::Script,
                    _ => ModelErrorKind::Unavailable,
                };
                let failure = Failure::never(kind, message);
                return stream::once(async { Err(failure) }).boxed();
            };
            let Recorded { file, exchange, endpoint, .. } = recorded;
            let ids = Ids::new("call_", &self.next_id, request);
            let facts = EndpointFacts::of_record(file.clone(), endpoint.model.clone());
            let answer = answer(exchange, &facts);
            let open = async { answer }.boxed();
            Attempt::new(facts, decoder(endpoint, request, ids), open).stream().boxed()
        })
    }
}

/// The recorded answer, or the recorded refusal.
fn answer(exchange: &Exchange, facts: &EndpointFacts) -> Result<Answer, Failure> {
    let Exchange { status, headers, body, failure, .. } = exchange;
    let pieces: VecDeque<Vec<u8>> = body.iter().map(|piece| piece.content.bytes()).collect();
    match status {
        None => {
            let message = failure.as_deref().unwrap_or("no response");
            Err(if exchange.is_permanent {
                Failure::never(ModelErrorKind::Refused, message)
            } else {
                Failure::soon(message)
            })
        }
        Some(200..300) => Ok(Answer::recorded(facts.clone(), pieces, failure.clone())),
        Some(status) => {
            let headers: HeaderMap = headers
                .iter()
                .filter_map(|(name, value)| {
                    let name = HeaderName::try_from(name).ok()?;
                    Some((name, HeaderValue::try_from(value).ok()?))
                })
                .collect();
            let body: Vec<u8> = pieces.into_iter().flatten().collect();
            Err(refused(facts, *status, &headers, &String::from_utf8_lossy(&body)))
        }
    }
}
