//! Retries for any wire format: their number, delays, and time limits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::time::Instant;

use super::failure::{Again, Failure};
use agent_protocol::model::{Delta, ModelError, Retry};

/// The longest delay between two attempts, unless the server asks for another one: at most this, and at most
/// a quarter of the time limit.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A server may ask for a delay of this length, or of the time limit if that is longer.
const OBEYED: Duration = Duration::from_mins(1);

/// Retry settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of attempts.
    pub tries: u32,
    /// The delay after the first failure; it doubles with each further one.
    pub base: Duration,
    /// The last attempt begins at most this time after the first failure; delays that the server asked for do
    /// not count.
    pub within: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { tries: 10, base: Duration::from_millis(500), within: Duration::from_secs(30) }
    }
}

impl Retries {
    /// The delay before the next attempt, or the error if there is none.
    ///
    /// `attempt` failed, `spent` after the first failure; `jitter` is between 0 and 1.
    fn next(
        &self,
        attempt: u32,
        spent: Duration,
        failure: Failure,
        jitter: f64,
    ) -> Result<Duration, ModelError> {
        let mut error = failure.error;
        let delay = match failure.again {
            Again::Never => return Err(error),
            Again::After(delay) if delay > OBEYED.max(self.within) => {
                error.message.push_str(&format!(
                    "; the server asks to wait {} s, which is too long: try again after that",
                    delay.as_secs()
                ));
                return Err(error);
            }
            Again::After(delay) => delay,
            Again::WithoutReasoning | Again::WithoutThinking => Duration::ZERO,
            Again::Soon => {
                let doubled = self.base.saturating_mul(1 << (attempt - 1).min(16));
                let doubled = doubled.min(LONGEST_DELAY).min(self.within / 4);
                // Between 3/4 and 5/4, so that many clients do not retry at the same time. The last attempt is
                // at the end of the time, so that it outlasts a failure of nearly that length.
                doubled.mul_f64(0.75 + jitter / 2.0).min(self.within.saturating_sub(spent))
            }
        };
        let is_late = failure.again == Again::Soon && spent >= self.within;
        if attempt >= self.tries || is_late {
            if attempt > 1 {
                error.message.push_str(&format!(" ({attempt} tries)"));
            }
            return Err(error);
        }
        Ok(delay)
    }
}

/// A stream of attempts: each is a result of `start`; yields the items of all of them, and a [`Delta::Retry`]
/// before each but the first.
pub(super) fn retrying<'a, S>(
    retries: Retries,
    start: impl FnMut() -> S + Send + 'a,
) -> BoxStream<'a, Result<Delta, ModelError>>
where
    S: Stream<Item = Result<Delta, Failure>> + Send + 'a,
{
    let tries = Tries {
        retries,
        start,
        attempt: 0,
        first_failure: None,
        obeyed: Duration::ZERO,
        phase: Phase::Wait(None),
    };
    stream::unfold(tries, |mut tries| async { Some((tries.next().await?, tries)) }).boxed()
}

struct Tries<S, F> {
    retries: Retries,
    start: F,
    /// The number of the current attempt.
    attempt: u32,
    first_failure: Option<Instant>,
    /// Total delay that the server asked for.
    obeyed: Duration,
    phase: Phase<S>,
}

enum Phase<S> {
    Wait(Option<Duration>),
    Try(Pin<Box<S>>),
    Over,
}

impl<S, F> Tries<S, F>
where
    S: Stream<Item = Result<Delta, Failure>>,
    F: FnMut() -> S,
{
    async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
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
                    Some(Err(failure)) => return Some(self.failed(failure)),
                    None => self.phase = Phase::Over,
                },
                Phase::Over => return None,
            }
        }
    }

    fn failed(&mut self, failure: Failure) -> Result<Delta, ModelError> {
        let first_failure = *self.first_failure.get_or_insert_with(Instant::now);
        let spent = first_failure.elapsed().saturating_sub(self.obeyed);
        let ModelError { message, reason, .. } = failure.error.clone();
        let again = failure.again;
        match self.retries.next(self.attempt, spent, failure, jitter()) {
            Ok(delay) => {
                if again != Again::Soon {
                    self.obeyed += delay;
                }
                self.phase = Phase::Wait(Some(delay));
                Ok(Delta::Retry(Retry { attempt: self.attempt, delay, error: message, reason }))
            }
            Err(error) => {
                self.phase = Phase::Over;
                Err(error)
            }
        }
    }
}

/// A number between 0 and 1; the standard library seeds its hashers at random.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(random).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_protocol::model::ModelErrorKind;

    fn check(attempt: u32, spent: u64, again: Again, expected: Result<u64, &str>) {
        check_with(Retries::default(), attempt, spent, again, expected);
    }

    fn check_with(
        retries: Retries,
        attempt: u32,
        spent: u64,
        again: Again,
        expected: Result<u64, &str>,
    ) {
        let failure =
            Failure { error: ModelError::new(ModelErrorKind::Unavailable, "busy"), again };
        let next = retries.next(attempt, Duration::from_secs(spent), failure, 0.5);
        let next = next.map_err(|error| error.message);
        let expected = expected.map(Duration::from_millis).map_err(ToOwned::to_owned);
        assert_eq!(next, expected, "{attempt} {spent} {again:?}");
    }

    #[test]
    fn backoff_doubles_and_is_limited() {
        check(1, 0, Again::Soon, Ok(500));
        check(2, 1, Again::Soon, Ok(1000));
        check(4, 9, Again::Soon, Ok(4000));
        check(6, 15, Again::Soon, Ok(7500));
        check(7, 23, Again::Soon, Ok(7000));
        check(7, 30, Again::Soon, Err("busy (7 tries)"));
        check(10, 9, Again::Soon, Err("busy (10 tries)"));
        check(1, 0, Again::Never, Err("busy"));
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_minute() {
        let after = |seconds| Again::After(Duration::from_secs(seconds));
        check(1, 0, after(0), Ok(0));
        check(4, 29, after(60), Ok(60_000));
        check(10, 0, after(1), Err("busy (10 tries)"));
        let too_long =
            "busy; the server asks to wait 61 s, which is too long: try again after that";
        check(1, 0, after(61), Err(too_long));
    }

    #[test]
    fn retries_for_minutes_have_a_longest_delay() {
        let retries = Retries { tries: 20, within: Duration::from_mins(5), ..Retries::default() };
        check_with(retries, 6, 20, Again::Soon, Ok(16_000));
        check_with(retries, 15, 250, Again::Soon, Ok(30_000));
        check_with(retries, 15, 290, Again::Soon, Ok(10_000));
        check_with(retries, 15, 300, Again::Soon, Err("busy (15 tries)"));
        let after = |seconds| Again::After(Duration::from_secs(seconds));
        check_with(retries, 1, 0, after(300), Ok(300_000));
        check_with(retries, 20, 0, after(1), Err("busy (20 tries)"));
        let short = Retries { within: Duration::from_secs(3), ..retries };
        check_with(short, 1, 0, Again::Soon, Ok(500));
    }

    #[test]
    fn jitter_stays_between_its_bounds() {
        for _ in 0..1000 {
            assert!((0.0..=1.0).contains(&jitter()));
        }
    }
}
