//! Detects repeated calls, by the call, its result, and what happened in between.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use foldhash::fast::FixedState;
use serde_json::Value;

use super::output_limits::append_note;
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::tool::Effect;
use agent_protocol::view::SAME_ANSWER_NOTE;

/// Limit: calls that are remembered; the map is emptied when it is full.
const CAPACITY: usize = 4096;

/// How often each call gave the same result without anything in between that could have changed it.
#[derive(Debug, Default)]
pub(super) struct RepetitionTracker {
    /// Counts events that may have changed the result of any call.
    pub(super) epoch: u64,
    calls: HashMap<RepetitionKey, RepetitionRecord>,
}

/// A call in its canonical form, as a hash: the arguments may be long.
pub(super) type RepetitionKey = blake3::Hash;

#[derive(Debug)]
struct RepetitionRecord {
    result: u64,
    times: u32,
    epoch: u64,
}

impl RepetitionTracker {
    pub(super) fn repeat_count(&self, key: RepetitionKey) -> u32 {
        self.calls.get(&key).filter(|seen| seen.epoch == self.epoch).map_or(0, |seen| seen.times)
    }

    /// Records a call that started in `epoch`. Its own effect does not count as "in between": a repeated
    /// command may change files itself. The second time, the model receives a note.
    pub(super) fn record_outcome(
        &mut self,
        key: RepetitionKey,
        outcome: &mut Result<Report, Failure>,
        epoch: u64,
    ) {
        let result = outcome_digest(outcome);
        if self.calls.len() >= CAPACITY && !self.calls.contains_key(&key) {
            self.calls.clear();
        }
        let now = self.epoch;
        let seen = self.calls.entry(key).or_insert(RepetitionRecord { result, times: 0, epoch });
        let again = seen.result == result && seen.epoch == epoch;
        *seen =
            RepetitionRecord { result, times: if again { seen.times + 1 } else { 1 }, epoch: now };
        if seen.times == 2 {
            append_note(outcome, SAME_ANSWER_NOTE);
        }
    }
}

pub(super) fn repetition_key(tool: &str, mut input: Object, effect: &Effect) -> RepetitionKey {
    let (field, path) = match effect {
        Effect::Read { path } | Effect::Write { path } => ("path", Some(path)),
        Effect::Command { directory, .. } => ("directory", Some(directory)),
        _ => ("", None),
    };
    if let (Some(path), true) = (path, input.contains_key(field)) {
        input.insert(field.to_owned(), path.as_str().into());
    }
    let mut input = Value::Object(input);
    input.sort_all_objects();
    blake3::hash(format!("{tool} {input}").as_bytes())
}

/// A hash of the result: status, data and error, without times.
fn outcome_digest(outcome: &Result<Report, Failure>) -> u64 {
    // Results are long, and collisions do no harm: a fast hash is sufficient.
    let mut hasher = FixedState::default().build_hasher();
    let data = match outcome {
        Ok(report) => {
            (0u8, report.partial).hash(&mut hasher);
            &report.data
        }
        Err(failure) => {
            (1u8, failure.code, &failure.message).hash(&mut hasher);
            &failure.data
        }
    };
    for (name, value) in data {
        // The path of the complete output is different each time.
        if name != "full_output" {
            name.hash(&mut hasher);
            value.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut data = Object::new();
        data.insert("content".into(), text.into());
        Report { data, ..Report::default() }
    }

    fn ran(repetition: &mut RepetitionTracker, key: &str, text: &str) -> String {
        let mut outcome = Ok(report(text));
        let epoch = repetition.epoch;
        repetition.record_outcome(blake3::hash(key.as_bytes()), &mut outcome, epoch);
        outcome.expect("a report").text
    }

    #[test]
    fn second_identical_result_is_noted_and_counted() {
        let mut repetition = RepetitionTracker::default();
        assert_eq!(ran(&mut repetition, "a", "x"), "");
        assert!(ran(&mut repetition, "a", "x").contains("same call"));
        assert_eq!(repetition.repeat_count(blake3::hash(b"a")), 2);
    }

    #[test]
    fn different_result_or_intervening_change_is_not_a_repetition() {
        let mut repetition = RepetitionTracker::default();
        ran(&mut repetition, "a", "x");
        ran(&mut repetition, "a", "y");
        assert_eq!(repetition.repeat_count(blake3::hash(b"a")), 1, "a poll whose result changes");
        repetition.epoch += 1;
        assert_eq!(repetition.repeat_count(blake3::hash(b"a")), 0);
        ran(&mut repetition, "a", "y");
        assert_eq!(repetition.repeat_count(blake3::hash(b"a")), 1);
    }

    #[test]
    fn effect_of_the_call_itself_is_not_an_intervening_change() {
        let mut repetition = RepetitionTracker::default();
        for times in 1..=3 {
            let epoch = repetition.epoch;
            repetition.epoch += 1;
            repetition.record_outcome(blake3::hash(b"Bash"), &mut Ok(report("x")), epoch);
            assert_eq!(repetition.repeat_count(blake3::hash(b"Bash")), times);
        }
    }

    #[test]
    fn field_order_does_not_affect_the_key() {
        let one = serde_json::from_str(r#"{"a":1,"b":[{"d":2,"c":3}]}"#).expect("JSON");
        let other = serde_json::from_str(r#"{"b":[{"c":3,"d":2}],"a":1}"#).expect("JSON");
        assert_eq!(
            repetition_key("T", one, &Effect::Plan),
            repetition_key("T", other, &Effect::Plan)
        );
    }
}
