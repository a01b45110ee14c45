//! Compares the results of a replay with the recorded ones.

use std::collections::{BTreeMap, HashMap};

use super::moment_key::CallKey;
use super::parts::is_background_job;
use super::replay_state::ReplayResults;
use super::script::{CallResult, RecordedCheck, error_code};
use agent_host::workspace::{Diff, DiffSize};
use agent_protocol::control::Ending;
use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::mask::MASK;
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, render_for_model};
use agent_record::trace::normalise::{RunRoot, normalise};

#[derive(Clone, Debug)]
pub(super) struct ComparisonRow {
    pub(super) turn: u32,
    pub(super) round: u32,
    /// Call id; empty for a check and for the end of a turn.
    pub(super) call: String,
    pub(super) what: String,
    pub(super) result: Comparison,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Different(String),
    /// Why the result need not be equal, and the difference if it is not.
    NotReproducible(String, Option<String>),
    NotReached,
}

/// The state of each changed file, in words.
pub(super) type FileStates = BTreeMap<String, String>;

pub(super) struct ComparisonContext<'a> {
    pub(super) recorded_roots: &'a [RunRoot],
    pub(super) replayed_roots: &'a [RunRoot],
    /// For any command: the network, files that no checkpoint covers.
    pub(super) command_excuse: Option<String>,
    /// Missing in the scratch copy.
    pub(super) missing_paths: &'a [String],
    /// Of a call: in the record and in the replay.
    pub(super) files: &'a dyn Fn(&CallKey) -> Option<[FileStates; 2]>,
}

pub(super) struct RecordedResults<'a> {
    pub(super) calls: &'a [CallResult],
    pub(super) checks: &'a [RecordedCheck],
    pub(super) endings: &'a [(u32, Ending)],
}

/// Rows are in the order of the record.
pub(super) fn compare_results(
    recorded: &RecordedResults<'_>,
    played: &ReplayResults,
    circumstances: &ComparisonContext<'_>,
) -> Vec<ComparisonRow> {
    let mut rows = Vec::new();
    let results: HashMap<CallKey, &CallResult> =
        played.results.iter().map(|result| (result.key(), result)).collect();
    let ended = played.divergence.is_some();
    // A result that is not reproducible and differs changes what follows.
    let mut deviation = None;
    let mut turns: Vec<u32> = recorded.calls.iter().map(|it| it.turn).collect();
    turns.extend(recorded.checks.iter().map(|it| it.turn));
    turns.extend(recorded.endings.iter().map(|(turn, _)| *turn));
    turns.sort_unstable();
    turns.dedup();
    for turn in turns {
        for call in recorded.calls.iter().filter(|it| it.turn == turn) {
            let result = match results.get(&call.key()) {
                Some(result) => circumstances.compare_call(call, result, played),
                None if ended => Comparison::NotReached,
                None => Comparison::Different("the replay did not make this call".to_owned()),
            };
            let what = call_line(&call.tool, &call.envelope.context.params_input);
            let (round, call) = (call.round, call.call.clone());
            rows.push(ComparisonRow {
                turn,
                round,
                call,
                what,
                result: excuse_after(&mut deviation, result),
            });
        }
        let replayed: Vec<&RecordedCheck> =
            played.checks.iter().filter(|it| it.turn == turn).collect();
        for (n, check) in recorded.checks.iter().filter(|it| it.turn == turn).enumerate() {
            let result = match replayed.get(n) {
                Some(replayed) => circumstances.compare_check(check, replayed),
                None if ended => Comparison::NotReached,
                None => Comparison::Different("the replay did not run this check".to_owned()),
            };
            let what = format!("check `{}`", check.command);
            let result = excuse_after(&mut deviation, result);
            rows.push(ComparisonRow { turn, round: 0, call: String::new(), what, result });
        }
        for (_, ending) in recorded.endings.iter().filter(|(of, _)| *of == turn) {
            let replayed = played.endings.iter().find(|(of, _)| *of == turn);
            let result = match replayed {
                Some((_, replayed)) if replayed == ending || is_limit(*ending) => Comparison::Equal,
                _ if ended => Comparison::NotReached,
                Some((_, replayed)) => Comparison::Different(format!(
                    "the turn ended: {} → {}",
                    ending.as_str(),
                    replayed.as_str()
                )),
                None => Comparison::Different("the turn did not end".to_owned()),
            };
            let what = format!("end of turn {turn}: {}", ending.as_str());
            let result = excuse_after(&mut deviation, result);
            rows.push(ComparisonRow { turn, round: 0, call: String::new(), what, result });
        }
    }
    let is_recorded = |call: CallKey| recorded.calls.iter().any(|it| it.key() == call);
    for extra in played.results.iter().filter(|it| !is_recorded(it.key())) {
        let result = Comparison::Different("the record does not have this call".to_owned());
        rows.push(ComparisonRow {
            turn: extra.turn,
            round: extra.round,
            call: extra.call.clone(),
            what: call_line(&extra.tool, &extra.envelope.context.params_input),
            result: excuse_after(&mut deviation, result),
        });
    }
    rows
}

/// A difference after a result that is not reproducible, and that differs, may follow from it.
fn excuse_after(deviation: &mut Option<String>, result: Comparison) -> Comparison {
    match (result, &deviation) {
        (Comparison::Different(how), Some(why)) => Comparison::NotReproducible(
            format!("it comes after a result that is not reproducible ({why})"),
            Some(how),
        ),
        (Comparison::NotReproducible(why, Some(how)), None) => {
            *deviation = Some(why.clone());
            Comparison::NotReproducible(why, Some(how))
        }
        (other, _) => other,
    }
}

/// A reason that the replay does not have: money, time.
fn is_limit(ending: Ending) -> bool {
    matches!(ending, Ending::MaxBudget | Ending::Timeout)
}

impl ComparisonContext<'_> {
    fn compare_call(
        &self,
        recorded: &CallResult,
        replayed: &CallResult,
        played: &ReplayResults,
    ) -> Comparison {
        let difference = self.find_difference(recorded, replayed);
        if let Some(why) = played.skipped.get(&recorded.key()) {
            // Its recorded result was used.
            return Comparison::NotReproducible(why.clone(), None);
        }
        let Some(difference) = difference else { return Comparison::Equal };
        match self.excuse(recorded, replayed, &difference) {
            Some(why) => Comparison::NotReproducible(why, Some(difference)),
            None => Comparison::Different(difference),
        }
    }

    fn excuse(
        &self,
        recorded: &CallResult,
        replayed: &CallResult,
        difference: &str,
    ) -> Option<String> {
        let is_cancelled = |it: &CallResult| error_code(&it.envelope) == Some(ErrorCode::Cancelled);
        if is_cancelled(recorded) {
            return Some("it was interrupted".to_owned());
        }
        if is_background_job(recorded.effect.as_ref()) {
            return Some("the output of a background command depends on time".to_owned());
        }
        if error_code(&replayed.envelope) == Some(ErrorCode::Timeout) {
            return Some("it ran into its time limit in the replay".to_owned());
        }
        let is_masked = |it: &CallResult| render_for_model(&it.envelope).contains(MASK);
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
        let mut lines = Vec::new();
        let mut differ = |what: &str, old: String, new: String| {
            if old != new {
                lines.push(format!("{what}: {old} → {new}"));
            }
        };
        differ("status", old.status().to_owned(), new.status().to_owned());
        let code =
            |envelope: &Envelope| error_code(envelope).map_or("none", ErrorCode::as_str).to_owned();
        differ("error code", code(old), code(new));
        let exit = |envelope: &Envelope| envelope.data.get("exit_code").map(ToString::to_string);
        differ("exit code", exit(old).unwrap_or_default(), exit(new).unwrap_or_default());
        if let Some([old, new]) = (self.files)(&recorded.key()) {
            for path in old.keys().chain(new.keys().filter(|path| !old.contains_key(*path))) {
                let state = |states: &FileStates| {
                    states.get(path).cloned().unwrap_or_else(|| "unchanged".to_owned())
                };
                differ(path, state(&old), state(&new));
            }
        }
        let (old, new) = (self.normalised_text(old, true), self.normalised_text(new, false));
        if old != new {
            let diff =
                Diff::after_lines(0, &old, &new, ("recorded", "replayed"), DiffSize::Preview);
            lines.push(diff.text.trim_end().to_owned());
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn normalised_text(&self, envelope: &Envelope, is_recorded: bool) -> String {
        let roots = if is_recorded { self.recorded_roots } else { self.replayed_roots };
        normalise(&render_for_model(envelope), roots)
    }

    fn compare_check(&self, recorded: &RecordedCheck, replayed: &RecordedCheck) -> Comparison {
        let mut lines = Vec::new();
        let mut differ = |what: &str, old: String, new: String| {
            if old != new {
                lines.push(format!("{what}: {old} → {new}"));
            }
        };
        let passed =
            |check: &RecordedCheck| if check.passed { "passed" } else { "failed" }.to_owned();
        differ("result", passed(recorded), passed(replayed));
        let exit =
            |check: &RecordedCheck| check.exit_code.map_or("none".to_owned(), |it| it.to_string());
        differ("exit code", exit(recorded), exit(replayed));
        let old = normalise(&recorded.tail, self.recorded_roots);
        let new = normalise(&replayed.tail, self.replayed_roots);
        if old != new {
            let diff =
                Diff::after_lines(0, &old, &new, ("recorded", "replayed"), DiffSize::Preview);
            lines.push(diff.text.trim_end().to_owned());
        }
        match (lines.is_empty(), &self.command_excuse) {
            (true, _) => Comparison::Equal,
            (false, Some(why)) => Comparison::NotReproducible(why.clone(), Some(lines.join("\n"))),
            (false, None) => Comparison::Different(lines.join("\n")),
        }
    }
}
