//! Detects repetition after a round: in successful work (two or three calls alternating with the same results, an edit
//! undone and redone, a plan rewritten repeatedly), and in failures (a command or a round failing like the last one).
//!
//! The registry's detector is another one: it refuses an equal call before it runs, also where there is no kernel, by
//! resolved paths and defaults. This one compares the arguments as the model wrote them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use agent_protocol::envelope::Envelope;
use agent_protocol::message::ToolCall;
use agent_protocol::tool::Effect;

/// Enough for a loop of three calls, three times.
const MAX_REMEMBERED: usize = 9;
const LOOP_REPETITIONS: usize = 3;
const MAX_LOOP_LENGTH: usize = 3;

/// File, removed text and inserted text.
type Edit = (String, String, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct LoopDetector {
    /// Hashes of calls with their results.
    calls: VecDeque<u64>,
    edits: VecDeque<Edit>,
    consecutive_plan_updates: usize,
    /// The last failure of each chain of commands.
    failed_commands: BTreeMap<String, FailedCommand>,
    /// The calls and failures of the last round; empty if a call succeeded.
    last_failing_round: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCommand {
    pub(crate) arguments: String,
    pub(crate) signature: String,
    /// Edits before the failure.
    pub(crate) n_edits: u32,
}

impl LoopDetector {
    /// Returns a description of the loop that the call closes, if any.
    pub(crate) fn record_call(
        &mut self,
        call: &ToolCall,
        envelope: &Envelope,
        effect: Option<&Effect>,
    ) -> Option<String> {
        // Failures have chains of their own, and polling a job is legitimate.
        if envelope.error().is_some() || matches!(effect, Some(Effect::Job { .. })) {
            return None;
        }
        let plans = effect == Some(&Effect::Plan);
        self.consecutive_plan_updates = if plans { self.consecutive_plan_updates + 1 } else { 0 };
        if self.consecutive_plan_updates > LOOP_REPETITIONS {
            return Some("the plan is written again and again, and nothing is done".to_owned());
        }
        if envelope.data.get("applied") == Some(&Value::Bool(true)) {
            // Something changed: reads after this are not repetitions.
            self.calls.clear();
            return self.record_edit(call, envelope);
        }
        let mut hasher = DefaultHasher::new();
        (&call.name, &call.arguments, envelope.status()).hash(&mut hasher);
        for (name, value) in envelope.data.iter().filter(|(name, _)| *name != "full_output") {
            (name, value.to_string()).hash(&mut hasher);
        }
        push_bounded(&mut self.calls, hasher.finish());
        // Identical calls in a row are handled by the registry.
        (2..=MAX_LOOP_LENGTH).find(|length| self.is_loop(*length)).map(|length| {
            self.calls.clear();
            format!("the same {length} calls alternate with the same answers")
        })
    }

    /// Returns the failure before it, if that was the same.
    pub(crate) fn record_failed_command(
        &mut self,
        chain: String,
        failed: FailedCommand,
    ) -> Option<FailedCommand> {
        let signature = failed.signature.clone();
        let before = self.failed_commands.insert(chain, failed);
        before.filter(|before| before.signature == signature)
    }

    pub(crate) fn record_failing_round(&mut self, round: String) -> bool {
        std::mem::replace(&mut self.last_failing_round, round) == self.last_failing_round
    }

    fn is_loop(&self, length: usize) -> bool {
        let last: Vec<u64> =
            self.calls.iter().rev().take(length * LOOP_REPETITIONS).copied().collect();
        let kinds: BTreeSet<&u64> = last.iter().take(length).collect();
        last.len() == length * LOOP_REPETITIONS
            && kinds.len() == length
            && last.chunks(length).all(|round| round == &last[..length])
    }

    fn record_edit(&mut self, call: &ToolCall, envelope: &Envelope) -> Option<String> {
        if call.name != "Edit" {
            return None;
        }
        let input = &envelope.context.params_input;
        let text =
            |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = envelope.context.path_resolved.clone().unwrap_or_else(|| text("path"));
        let (old, new) = (text("old_string"), text("new_string"));
        let edit = (path.clone(), old.clone(), new.clone());
        let undone = (path.clone(), new, old);
        // Indexes from the end: the edit was undone after it was made.
        let last = |edit: &Edit| self.edits.iter().rev().position(|other| other == edit);
        let closes = last(&undone).zip(last(&edit)).is_some_and(|(undone, made)| undone < made);
        push_bounded(&mut self.edits, edit);
        closes.then(|| format!("an edit of {path} was made, undone and made again"))
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == MAX_REMEMBERED {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn see(
        loop_detector: &mut LoopDetector,
        name: &str,
        input: &Value,
        data: &Value,
    ) -> Option<String> {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: input.to_string() };
        let envelope = json!({
            "status": "success", "data": data, "text": "", "stats": {},
            "context": {"cwd": ".", "params_input": input, "path_resolved": "a.rs"}
        });
        let envelope = serde_json::from_value(envelope).expect("an envelope");
        let effect = match name {
            "TodoWrite" => Some(Effect::Plan),
            "Bash" if input["background"].is_string() => {
                Some(Effect::Job { id: "1".into(), kills: false })
            }
            _ => None,
        };
        loop_detector.record_call(&call, &envelope, effect.as_ref())
    }

    fn calls(names: &str) -> Option<String> {
        let mut loop_detector = LoopDetector::default();
        let seen = names.chars().map(|name| {
            see(&mut loop_detector, "Grep", &json!({"pattern": name.to_string()}), &json!({"n": 1}))
        });
        seen.last().flatten()
    }

    #[test]
    fn two_or_three_alternating_calls_are_a_loop() {
        assert!(calls("abababab").is_none(), "told once, when it closes");
        assert!(calls("ababab").is_some());
        assert!(calls("xyabcabcabc").is_some());
        assert!(calls("ababac").is_none());
        assert!(calls("aaaaaa").is_none());
        assert!(calls("abcdabcd").is_none());
    }

    #[test]
    fn repeated_plan_updates_are_a_loop_until_another_call() {
        let mut loop_detector = LoopDetector::default();
        let mut write =
            |n: u32| see(&mut loop_detector, "TodoWrite", &json!({"n": n}), &json!({"n": n}));
        assert!((0..3).all(|n| write(n).is_none()));
        assert!(write(3).is_some() && write(4).is_some());
        assert_eq!(see(&mut loop_detector, "Read", &json!({}), &json!({})), None);
        assert_eq!(see(&mut loop_detector, "TodoWrite", &json!({"n": 5}), &json!({"n": 5})), None);
    }

    #[test]
    fn polling_two_jobs_is_not_a_loop() {
        let mut loop_detector = LoopDetector::default();
        for n in 0..9 {
            let input = json!({"background": format!("bg_{}", n % 2)});
            assert_eq!(see(&mut loop_detector, "Bash", &input, &json!({"new": ""})), None);
        }
    }

    #[test]
    fn changing_results_are_not_a_loop() {
        let mut loop_detector = LoopDetector::default();
        for n in 0..9 {
            let name = if n % 2 == 0 { "a" } else { "b" };
            let seen = see(&mut loop_detector, "Grep", &json!({"pattern": name}), &json!({"n": n}));
            assert_eq!(seen, None);
        }
    }

    #[test]
    fn alternately_reverted_edits_are_a_loop() {
        let mut loop_detector = LoopDetector::default();
        let mut edit = |old: &str, new: &str| {
            let input = json!({"path": "a.rs", "old_string": old, "new_string": new});
            see(&mut loop_detector, "Edit", &input, &json!({"applied": true}))
        };
        assert_eq!(edit("a", "b"), None);
        assert_eq!(edit("b", "a"), None);
        assert_eq!(edit("x", "y"), None);
        assert!(edit("a", "b").is_some());
    }
}
