//! Compares the results of a replay with the recorded ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::moment_key::CallKey;
use super::replay_state::ReplayResults;
use super::script::{CallResult, RecordedCheck, SessionResults, error_code};
use agent_host::workspace::{Diff, DiffSize};
use agent_protocol::control::Ending;
use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::mask::MASK;
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, render_for_model};
use agent_record::trace::normalise::{RunRoot, normalise};

#[derive(Clone, Debug, Serialize)]
pub(super) struct ComparisonRow {
    pub(super) turn: u32,
    pub(super) round: u32,
    /// Call id; empty for a check and for the end of a turn.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) call: String,
    pub(super) what: String,
    #[serde(flatten)]
    pub(super) result: Comparison,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub(super) enum Comparison {
    Equal,
    Different {
        difference: String,
    },
    /// The result need not be equal.
    NotReproducible {
        reason: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        difference: Option<String>,
    },
    NotReached,
}

/// The state of each changed file, in words.
pub(super) type FileStates = BTreeMap<String, String>;

pub(super) struct ComparisonContext<'a> {
    pub(super) recorded_roots: &'a [RunRoot],
    pub(super) replayed_roots: &'a [RunRoot],
    /// The excuse of any command: the network, files that no checkpoint covers.
    pub(super) command_excuse: Option<String>,
    pub(super) missing_paths: &'a [String],
    /// The files of a call: in the record and in the replay.
    pub(super) files: &'a dyn Fn(&CallKey) -> Option<[FileStates; 2]>,
}

/// Rows are in the order of the record.
pub(super) fn compare_results(
    recorded: &SessionResults,
    replayed: &ReplayResults,
    context: &ComparisonContext<'_>,
) -> Vec<ComparisonRow> {
    let mut rows = Vec::new();
    // A result that is not reproducible and differs changes what follows.
    let mut deviation = None;
    let mut add_row = |turn, round, call: &str, what, result| {
        let result = excuse_after(&mut deviation, result);
        rows.push(ComparisonRow { turn, round, call: call.to_owned(), what, result });
    };
    let results: HashMap<CallKey, &CallResult> =
        replayed.session.calls.iter().map(|result| (result.key(), result)).collect();
    let absent = |why: &str| match replayed.divergence {
        Some(_) => Comparison::NotReached,
        None => Comparison::Different { difference: why.to_owned() },
    };
    let turns = recorded.calls.iter().map(|call| call.turn);
    let turns = turns.chain(recorded.checks.iter().map(|check| check.turn));
    let turns = turns.chain(recorded.endings.iter().map(|(turn, _)| *turn));
    for turn in turns.collect::<BTreeSet<u32>>() {
        for call in recorded.calls.iter().filter(|call| call.turn == turn) {
            let result = match results.get(&call.key()) {
                Some(result) => context.compare_call(call, result, replayed),
                None => absent("the replay did not make this call"),
            };
            let what = call_line(&call.tool, &call.envelope.context.params_input);
            add_row(turn, call.round, &call.call, what, result);
        }
        let mut checks = replayed.session.checks.iter().filter(|check| check.turn == turn);
        for check in recorded.checks.iter().filter(|check| check.turn == turn) {
            let result = match checks.next() {
                Some(replayed) => context.compare_check(check, replayed),
                None => absent("the replay did not run this check"),
            };
            add_row(turn, 0, "", format!("check `{}`", check.command), result);
        }
        for (_, ending) in recorded.endings.iter().filter(|(of, _)| *of == turn) {
            // The replay does not have these reasons: money, time.
            let is_limit = matches!(ending, Ending::MaxBudget | Ending::Timeout);
            let result = match replayed.session.endings.iter().find(|(of, _)| *of == turn) {
                Some((_, replayed)) if replayed == ending || is_limit => Comparison::Equal,
                Some((_, replayed)) => {
                    absent(&format!("the turn ended: {} → {}", ending.as_str(), replayed.as_str()))
                }
                None => absent("the turn did not end"),
            };
            add_row(turn, 0, "", format!("end of turn {turn}: {}", ending.as_str()), result);
        }
    }
    let is_recorded = |call: CallKey| recorded.calls.iter().any(|it| it.key() == call);
    for extra in replayed.session.calls.iter().filter(|it| !is_recorded(it.key())) {
        let difference = "the record does not have this call".to_owned();
        let result = Comparison::Different { difference };
        let what = call_line(&extra.tool, &extra.envelope.context.params_input);
        add_row(extra.turn, extra.round, &extra.call, what, result);
    }
    rows
}

/// A difference after a result that is not reproducible, and that differs, may follow from it.
fn excuse_after(deviation: &mut Option<String>, result: Comparison) -> Comparison {
    match (result, &deviation) {
        (Comparison::Different { difference }, Some(why)) => Comparison::NotReproducible {
            reason: format!("it comes after a result that is not reproducible ({why})"),
            difference: Some(difference),
        },
        (other, None) => {
            if let Comparison::NotReproducible { reason, difference: Some(_) } = &other {
                *deviation = Some(reason.clone());
            }
            other
        }
        (other, Some(_)) => other,
    }
}

/// One difference per line; a different text as its diff.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn add(&mut self, what: &str, old: &str, new: &str) {
        if old != new {
            self.0.push(format!("{what}: {old} → {new}"));
        }
    }

    fn add_text(&mut self, old: &str, new: &str) {
        if old != new {
            let diff = Diff::after_lines(0, old, new, ("recorded", "replayed"), DiffSize::Preview);
            self.0.push(diff.text.trim_end().to_owned());
        }
    }

    fn into_text(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("\n"))
    }
}

impl ComparisonContext<'_> {
    fn compare_call(
        &self,
        recorded: &CallResult,
        replayed: &CallResult,
        results: &ReplayResults,
    ) -> Comparison {
        if let Some(why) = results.skipped.get(&recorded.key()) {
            // The recorded result was used.
            return Comparison::NotReproducible { reason: why.clone(), difference: None };
        }
        let Some(difference) = self.find_difference(recorded, replayed) else {
            return Comparison::Equal;
        };
        match self.excuse(recorded, replayed, &difference) {
            Some(reason) => Comparison::NotReproducible { reason, difference: Some(difference) },
            None => Comparison::Different { difference },
        }
    }

    fn excuse(
        &self,
        recorded: &CallResult,
        replayed: &CallResult,
        difference: &str,
    ) -> Option<String> {
        if error_code(&recorded.envelope) == Some(ErrorCode::Cancelled) {
            return Some("it was interrupted".to_owned());
        }
        if matches!(recorded.effect, Some(Effect::Job { .. })) {
            return Some("the output of a background command depends on time".to_owned());
        }
        if error_code(&replayed.envelope) == Some(ErrorCode::Timeout) {
            return Some("it ran into its time limit in the replay".to_owned());
        }
        let is_masked = |call: &CallResult| render_for_model(&call.envelope).contains(MASK);
        if is_masked(recorded) || is_masked(replayed) {
            return Some("the record does not hold a secret in it".to_owned());
        }
        if matches!(recorded.effect, Some(Effect::Command { .. })) {
            return self.command_excuse.clone();
        }
        let path = recorded.envelope.context.path_resolved.as_deref().unwrap_or_default();
        let is_missing = |missing: &&String| {
            let folder = missing.trim_end_matches('/');
            path == folder
                || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
                || difference.contains(folder)
        };
        let missing = self.missing_paths.iter().find(is_missing)?;
        Some(format!("no checkpoint covers {missing}"))
    }

    fn find_difference(&self, recorded: &CallResult, replayed: &CallResult) -> Option<String> {
        let (old, new) = (&recorded.envelope, &replayed.envelope);
        let mut found = Differences::default();
        found.add("status", old.status(), new.status());
        let code = |envelope: &Envelope| error_code(envelope).map_or("none", ErrorCode::as_str);
        found.add("error code", code(old), code(new));
        let exit = |envelope: &Envelope| {
            envelope.data.get("exit_code").map(ToString::to_string).unwrap_or_default()
        };
        found.add("exit code", &exit(old), &exit(new));
        if let Some([old, new]) = (self.files)(&recorded.key()) {
            for path in old.keys().chain(new.keys().filter(|path| !old.contains_key(*path))) {
                let [old, new] = [&old, &new].map(|it| it.get(path).map_or("unchanged", |it| it));
                found.add(path, old, new);
            }
        }
        let text = |envelope: &Envelope, roots| normalise(&render_for_model(envelope), roots);
        found.add_text(&text(old, self.recorded_roots), &text(new, self.replayed_roots));
        found.into_text()
    }

    fn compare_check(&self, recorded: &RecordedCheck, replayed: &RecordedCheck) -> Comparison {
        let mut found = Differences::default();
        let passed = |check: &RecordedCheck| if check.passed { "passed" } else { "failed" };
        found.add("result", passed(recorded), passed(replayed));
        let exit =
            |check: &RecordedCheck| check.exit_code.map_or("none".to_owned(), |it| it.to_string());
        found.add("exit code", &exit(recorded), &exit(replayed));
        found.add_text(
            &normalise(&recorded.tail, self.recorded_roots),
            &normalise(&replayed.tail, self.replayed_roots),
        );
        match (found.into_text(), &self.command_excuse) {
            (None, _) => Comparison::Equal,
            (difference, Some(why)) => {
                Comparison::NotReproducible { reason: why.clone(), difference }
            }
            (Some(difference), None) => Comparison::Different { difference },
        }
    }
}
