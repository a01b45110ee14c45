//! Retries for any wire format: their number, delays, and time limits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::time::Instant;

use super::failure::{AttemptFailure, RetryAdvice};
use agent_protocol::model::{Delta, ModelError, RetryNotice};

/// Longest delay of our own, besides a quarter of the time limit.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A server may ask for a delay of this length, or of the time limit if that is longer.
const MAX_SERVER_DELAY: Duration = Duration::from_mins(1);

const MAX_TIME_FOR_REPLACEABLE: Duration = Duration::from_secs(5);

/// Retry settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    pub max_attempts: u32,
    /// The delay after the first failure; it doubles with each further one.
    pub base_delay: Duration,
    /// From the first failure to the last attempt.
    pub time_limit: Duration,
    /// Whether that includes delays that the server asks for.
    pub limits_server_delays: bool,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            base_delay: Duration::from_millis(500),
            time_limit: Duration::from_secs(30),
            limits_server_delays: false,
        }
    }
}

impl RetrySettings {
    /// For a request whose answer the program can replace.
    pub(super) fn shortened(self) -> Self {
        let time_limit = self.time_limit.min(MAX_TIME_FOR_REPLACEABLE);
        Self { time_limit, limits_server_delays: true, ..self }
    }

    /// `attempt` failed, `spent` after the first failure; `jitter` is between 0 and 1.
    fn next_delay(
        &self,
        attempt: u32,
        spent: Duration,
        failure: AttemptFailure,
        jitter: f64,
    ) -> Result<Duration, ModelError> {
        let mut error = failure.error;
        let delay = match failure.retry {
            RetryAdvice::Never => return Err(error),
            RetryAdvice::After(delay) if delay > MAX_SERVER_DELAY.max(self.time_limit) => {
                error.message.push_str(&format!(
                    "; the server asks to wait {} s, which is too long: try again after that",
                    delay.as_secs()
                ));
                return Err(error);
            }
            RetryAdvice::After(delay)
                if self.limits_server_delays && spent + delay > self.time_limit =>
            {
                return Err(error);
            }
            RetryAdvice::After(delay) => delay,
            RetryAdvice::Without(_) => Duration::ZERO,
            RetryAdvice::WithBackoff => {
                let doubled = self.base_delay.saturating_mul(1 << (attempt - 1).min(16));
                let doubled = doubled.min(MAX_DELAY).min(self.time_limit / 4);
                // Between 3/4 and 5/4, so that many clients do not retry at once; the last at the end of the time.
                doubled.mul_f64(0.75 + jitter / 2.0).min(self.time_limit.saturating_sub(spent))
            }
        };
        let is_late = failure.retry == RetryAdvice::WithBackoff && spent >= self.time_limit;
        if attempt >= self.max_attempts || is_late {
            if attempt > 1 {
                error.message.push_str(&format!(" ({attempt} tries)"));
            }
            return Err(error);
        }
        Ok(delay)
    }
}

/// The items of all attempts, with a [`Delta::Retry`] before each but the first.
pub(super) fn retry_stream<'a, S>(
    retries: RetrySettings,
    start: impl FnMut() -> S + Send + 'a,
) -> BoxStream<'a, Result<Delta, ModelError>>
where
    S: Stream<Item = Result<Delta, AttemptFailure>> + Send + 'a,
{
    let state = RetryState {
        retries,
        start,
        attempt: 0,
        first_failure: None,
        server_delay: Duration::ZERO,
        phase: Phase::Wait(None),
    };
    stream::unfold(state, |mut state| async { Some((state.next_item().await?, state)) }).boxed()
}

struct RetryState<S, F> {
    retries: RetrySettings,
    start: F,
    attempt: u32,
    first_failure: Option<Instant>,
    /// Total delay that the server asked for.
    server_delay: Duration,
    phase: Phase<S>,
}

enum Phase<S> {
    Wait(Option<Duration>),
    Try(Pin<Box<S>>),
    Over,
}

impl<S, F> RetryState<S, F>
where
    S: Stream<Item = Result<Delta, AttemptFailure>>,
    F: FnMut() -> S,
{
    async fn next_item(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            match &mut self.phase {
                Phase::Wait(delay) => {
                    if let Some(delay) = delay {
                        tokio::time::sleep(*delay).await;
                    }
                    self.attempt += 1;
                    self.phase = Phase::Try(Box::pin((self.start)()));
                }
                Phase::Try(stream) => match stream.next().await {
                    Some(Ok(delta)) => return Some(Ok(delta)),
                    Some(Err(failure)) => return Some(self.schedule_retry(failure)),
                    None => self.phase = Phase::Over,
                },
                Phase::Over => return None,
            }
        }
    }

    fn schedule_retry(&mut self, failure: AttemptFailure) -> Result<Delta, ModelError> {
        let first_failure = *self.first_failure.get_or_insert_with(Instant::now);
        let spent = first_failure.elapsed().saturating_sub(self.server_delay);
        let ModelError { message, reason, .. } = failure.error.clone();
        let again = failure.retry;
        match self.retries.next_delay(self.attempt, spent, failure, jitter()) {
            Ok(delay) => {
                if again != RetryAdvice::WithBackoff && !self.retries.limits_server_delays {
                    self.server_delay += delay;
                }
                self.phase = Phase::Wait(Some(delay));
                Ok(Delta::Retry(RetryNotice {
                    attempt: self.attempt,
                    delay,
                    error: message,
                    reason,
                }))
            }
            Err(error) => {
                self.phase = Phase::Over;
                Err(error)
            }
        }
    }
}

/// Between 0 and 1; the standard library seeds its hashers at random.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(random).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_protocol::model::ModelErrorKind;

    fn check(attempt: u32, spent: u64, again: RetryAdvice, expected: Result<u64, &str>) {
        check_with(RetrySettings::default(), attempt, spent, again, expected);
    }

    fn check_with(
        retries: RetrySettings,
        attempt: u32,
        spent: u64,
        again: RetryAdvice,
        expected: Result<u64, &str>,
    ) {
        let failure = AttemptFailure {
            error: ModelError::new(ModelErrorKind::Unavailable, "busy"),
            retry: again,
        };
        let next = retries.next_delay(attempt, Duration::from_secs(spent), failure, 0.5);
        let next = next.map_err(|error| error.message);
        let expected = expected.map(Duration::from_millis).map_err(ToOwned::to_owned);
        assert_eq!(next, expected, "{attempt} {spent} {again:?}");
    }

    #[test]
    fn backoff_doubles_and_is_limited() {
        check(1, 0, RetryAdvice::WithBackoff, Ok(500));
        check(2, 1, RetryAdvice::WithBackoff, Ok(1000));
        check(4, 9, RetryAdvice::WithBackoff, Ok(4000));
        check(6, 15, RetryAdvice::WithBackoff, Ok(7500));
        check(7, 23, RetryAdvice::WithBackoff, Ok(7000));
        check(7, 30, RetryAdvice::WithBackoff, Err("busy (7 tries)"));
        check(10, 9, RetryAdvice::WithBackoff, Err("busy (10 tries)"));
        check(1, 0, RetryAdvice::Never, Err("busy"));
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_minute() {
        let after = |seconds| RetryAdvice::After(Duration::from_secs(seconds));
        check(1, 0, after(0), Ok(0));
        check(4, 29, after(60), Ok(60_000));
        check(10, 0, after(1), Err("busy (10 tries)"));
        let too_long =
            "busy; the server asks to wait 61 s, which is too long: try again after that";
        check(1, 0, after(61), Err(too_long));
    }

    #[test]
    fn retries_for_minutes_have_a_longest_delay() {
        let retries = RetrySettings {
            max_attempts: 20,
            time_limit: Duration::from_mins(5),
            ..RetrySettings::default()
        };
        check_with(retries, 6, 20, RetryAdvice::WithBackoff, Ok(16_000));
        check_with(retries, 15, 250, RetryAdvice::WithBackoff, Ok(30_000));
        check_with(retries, 15, 290, RetryAdvice::WithBackoff, Ok(10_000));
        check_with(retries, 15, 300, RetryAdvice::WithBackoff, Err("busy (15 tries)"));
        let after = |seconds| RetryAdvice::After(Duration::from_secs(seconds));
        check_with(retries, 1, 0, after(300), Ok(300_000));
        check_with(retries, 20, 0, after(1), Err("busy (20 tries)"));
        let summary = RetrySettings::default().shortened();
        check_with(summary, 1, 0, after(5), Ok(5000));
        check_with(summary, 2, 1, after(5), Err("busy"));
        check_with(summary, 4, 5, RetryAdvice::WithBackoff, Err("busy (4 tries)"));
        let short = RetrySettings { time_limit: Duration::from_secs(3), ..retries };
        check_with(short, 1, 0, RetryAdvice::WithBackoff, Ok(500));
    }

    #[test]
    fn jitter_stays_between_its_bounds() {
        for _ in 0..1000 {
            assert!((0.0..=1.0).contains(&jitter()));
        }
    }
}
