//! The circuit breaker: after several consecutive failures of class `tool` the tool's calls are refused for a
//! while, then one trial call decides. Mistakes of the model do not count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use agent_protocol::envelope::ErrorClass;

/// Number of consecutive failures of class `tool` that open the circuit.
const THRESHOLD: u32 = 3;
/// How long it stays open.
const COOLDOWN: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, Default)]
struct Circuit {
    failures: u32,
    opened_at: Option<Instant>,
    is_trial_running: bool,
}

#[derive(Default)]
pub(super) struct CircuitBreaker {
    circuits: HashMap<String, Circuit>,
}

impl CircuitBreaker {
    /// Registers a call; one `record_outcome` or `release_call` follows. The error: for how many seconds none is admitted.
    pub(super) fn admit_call(&mut self, tool: &str, now: Instant) -> Result<(), u64> {
        let Some(circuit) = self.circuits.get_mut(tool) else { return Ok(()) };
        let Some(opened) = circuit.opened_at else { return Ok(()) };
        let left = COOLDOWN.saturating_sub(now.duration_since(opened));
        if left.is_zero() && !circuit.is_trial_running {
            circuit.is_trial_running = true;
            return Ok(());
        }
        Err(left.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
    }

    /// A registered call was refused before the tool ran.
    pub(super) fn release_call(&mut self, tool: &str) {
        if let Some(circuit) = self.circuits.get_mut(tool) {
            circuit.is_trial_running = false;
        }
    }

    /// The tool ran; `class` is that of its failure, if it failed.
    pub(super) fn record_outcome(&mut self, tool: &str, class: Option<ErrorClass>, now: Instant) {
        if class != Some(ErrorClass::Tool) {
            // The tool works, whatever the result is.
            self.circuits.remove(tool);
            return;
        }
        let circuit = self.circuits.entry(tool.to_owned()).or_default();
        circuit.failures += 1;
        circuit.is_trial_running = false;
        if circuit.failures >= THRESHOLD {
            circuit.opened_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ILL: Option<ErrorClass> = Some(ErrorClass::Tool);

    fn opened(at: Instant) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..3 {
            assert_eq!(breaker.admit_call("Grep", at), Ok(()));
            breaker.record_outcome("Grep", ILL, at);
        }
        breaker
    }

    #[test]
    fn three_tool_failures_open_the_breaker_for_300_seconds() {
        let start = Instant::now();
        let mut breaker = opened(start);
        assert_eq!(breaker.admit_call("Grep", start), Err(300));
        let later = start + Duration::from_secs(299);
        assert_eq!(breaker.admit_call("Grep", later), Err(1));
        assert_eq!(breaker.admit_call("Read", start), Ok(()));
    }

    #[test]
    fn one_trial_call_closes_or_reopens_the_breaker() {
        let start = Instant::now();
        let later = start + Duration::from_mins(5);
        let mut breaker = opened(start);
        assert_eq!(breaker.admit_call("Grep", later), Ok(()));
        assert!(breaker.admit_call("Grep", later).is_err(), "only one trial");
        breaker.record_outcome("Grep", ILL, later);
        assert_eq!(breaker.admit_call("Grep", later), Err(300));

        let again = later + Duration::from_mins(5);
        assert_eq!(breaker.admit_call("Grep", again), Ok(()));
        breaker.record_outcome("Grep", None, again);
        assert_eq!(breaker.admit_call("Grep", again), Ok(()));
        assert_eq!(breaker.admit_call("Grep", again), Ok(()));
    }

    #[test]
    fn caller_errors_do_not_open_the_breaker() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::default();
        for class in [ErrorClass::Caller, ErrorClass::State, ErrorClass::Policy] {
            for _ in 0..5 {
                breaker.record_outcome("Edit", Some(class), now);
            }
        }
        assert_eq!(breaker.admit_call("Edit", now), Ok(()));
    }

    #[test]
    fn success_resets_the_breaker_count() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::default();
        for class in [ILL, ILL, None, ILL, ILL] {
            breaker.record_outcome("Grep", class, now);
        }
        assert_eq!(breaker.admit_call("Grep", now), Ok(()));
    }

    #[test]
    fn trial_refused_before_running_remains_available() {
        let start = Instant::now();
        let later = start + Duration::from_mins(5);
        let mut breaker = opened(start);
        assert_eq!(breaker.admit_call("Grep", later), Ok(()));
        breaker.release_call("Grep");
        assert_eq!(breaker.admit_call("Grep", later), Ok(()));
    }
}
