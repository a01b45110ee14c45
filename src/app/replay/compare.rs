//! Compares the results of a replay with the recorded ones.

use std::collections::{BTreeMap, HashMap};

use super::key::CallKey;
use super::parts::is_of_job;
use super::script::{CallResult, Check, code_of};
use super::stage::Played;
use agent_host::workspace::{Diff, DiffSize};
use agent_protocol::control::Ending;
use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::mask::MASK;
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, view};
use agent_record::trace::normal::{Root, normalised};

/// One compared result.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) turn: u32,
    pub(super) round: u32,
    /// The call's id; empty for a check and for the end of a turn.
    pub(super) call: String,
    pub(super) what: String,
    pub(super) result: Compared,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Equal,
    Different(String),
    /// Why it need not be equal, and the difference if it is not.
    NotReproducible(String, Option<String>),
    /// The replay ended before.
    NotReached,
}

/// The state of each changed file, in words.
pub(super) type FileStates = BTreeMap<String, String>;

/// What a comparison needs to know besides the results.
pub(super) struct Circumstances<'a> {
    pub(super) recorded_roots: &'a [Root],
    pub(super) replayed_roots: &'a [Root],
    /// Why the result of any command may differ: the network, files that no checkpoint covers.
    pub(super) of_commands: Option<String>,
    /// Paths that the scratch copy lacks.
    pub(super) lacking: &'a [String],
    /// The states of the files that a call changed, in the record and in the replay.
    pub(super) files: &'a dyn Fn(&CallKey) -> Option<[FileStates; 2]>,
}

/// The recorded results.
pub(super) struct RecordedResults<'a> {
    pub(super) calls: &'a [CallResult],
    pub(super) checks: &'a [Check],
    pub(super) endings: &'a [(u32, Ending)],
}

/// Compares everything. Rows are in the order of the record.
pub(super) fn compare(
    recorded: &RecordedResults<'_>,
    played: &Played,
    circumstances: &Circumstances<'_>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let results: HashMap<CallKey, &CallResult> =
        played.results.iter().map(|result| (result.key(), result)).collect();
    let ended = played.divergence.is_some();
    // A result that is not reproducible and differs changes what follows.
    let mut derailed = None;
    let mut turns: Vec<u32> = recorded.calls.iter().map(|it| it.turn).collect();
    turns.extend(recorded.checks.iter().map(|it| it.turn));
    turns.extend(recorded.endings.iter().map(|(turn, _)| *turn));
    turns.sort_unstable();
    turns.dedup();
    for turn in turns {
        for call in recorded.calls.iter().filter(|it| it.turn == turn) {
            let result = match results.get(&call.key()) {
                Some(result) => circumstances.of_call(call, result, played),
                None if ended => Compared::NotReached,
                None => Compared::Different("the replay did not make this call".to_owned()),
            };
            let what = call_line(&call.tool, &call.envelope.context.params_input);
            let (round, call) = (call.round, call.call.clone());
            rows.push(Row { turn, round, call, what, result: after(&mut derailed, result) });
        }
        let replayed: Vec<&Check> = played.checks.iter().filter(|it| it.turn == turn).collect();
        for (n, check) in recorded.checks.iter().filter(|it| it.turn == turn).enumerate() {
            let result = match replayed.get(n) {
                Some(replayed) => circumstances.of_check(check, replayed),
                None if ended => Compared::NotReached,
                None => Compared::Different("the replay did not run this check".to_owned()),
            };
            let what = format!("check `{}`", check.command);
            let result = after(&mut derailed, result);
            rows.push(Row { turn, round: 0, call: String::new(), what, result });
        }
        for (_, ending) in recorded.endings.iter().filter(|(of, _)| *of == turn) {
            let replayed = played.endings.iter().find(|(of, _)| *of == turn);
            let result = match replayed {
                Some((_, replayed)) if replayed == ending || is_limit(*ending) => Compared::Equal,
                _ if ended => Compared::NotReached,
                Some((_, replayed)) => Compared::Different(format!(
                    "the turn ended: {} → {}",
                    ending.as_str(),
                    replayed.as_str()
                )),
                None => Compared::Different("the turn did not end".to_owned()),
            };
            let what = format!("end of turn {turn}: {}", ending.as_str());
            let result = after(&mut derailed, result);
            rows.push(Row { turn, round: 0, call: String::new(), what, result });
        }
    }
    let is_recorded = |call: CallKey| recorded.calls.iter().any(|it| it.key() == call);
    for extra in played.results.iter().filter(|it| !is_recorded(it.key())) {
        let result = Compared::Different("the record does not have this call".to_owned());
        rows.push(Row {
            turn: extra.turn,
            round: extra.round,
            call: extra.call.clone(),
            what: call_line(&extra.tool, &extra.envelope.context.params_input),
            result: after(&mut derailed, result),
        });
    }
    rows
}

/// A difference after a result that is not reproducible, and that differs, may follow from it.
fn after(derailed: &mut Option<String>, result: Compared) -> Compared {
    match (result, &derailed) {
        (Compared::Different(how), Some(why)) => Compared::NotReproducible(
            format!("it comes after a result that is not reproducible ({why})"),
            Some(how),
        ),
        (Compared::NotReproducible(why, Some(how)), None) => {
            *derailed = Some(why.clone());
            Compared::NotReproducible(why, Some(how))
        }
        (other, _) => other,
    }
}

/// The turn ended for a reason that the replay does not have: money, time.
fn is_limit(ending: Ending) -> bool {
    matches!(ending, Ending::MaxBudget | Ending::Timeout)
}

impl Circumstances<'_> {
    fn of_call(&self, recorded: &CallResult, replayed: &CallResult, played: &Played) -> Compared {
        let difference = self.difference(recorded, replayed);
        if let Some(why) = played.skipped.get(&recorded.key()) {
            // Its recorded result was used.
            return Compared::NotReproducible(why.clone(), None);
        }
        let Some(difference) = difference else { return Compared::Equal };
        match self.excuse(recorded, replayed, &difference) {
            Some(why) => Compared::NotReproducible(why, Some(difference)),
            None => Compared::Different(difference),
        }
    }

    /// Why a result need not be equal.
    fn excuse(
        &self,
        recorded: &CallResult,
        replayed: &CallResult,
        difference: &str,
    ) -> Option<String> {
        let is_cancelled = |it: &CallResult| code_of(&it.envelope) == Some(ErrorCode::Cancelled);
        if is_cancelled(recorded) {
            return Some("it was interrupted".to_owned());
        }
        if is_of_job(recorded.effect.as_ref()) {
            return Some("the output of a background command depends on time".to_owned());
        }
        if code_of(&replayed.envelope) == Some(ErrorCode::Timeout) {
            return Some("it ran into its time limit in the replay".to_owned());
        }
        let is_masked = |it: &CallResult| view(&it.envelope).contains(MASK);
        if is_masked(recorded) || is_masked(replayed) {
            return Some("the record does not hold a secret in it".to_owned());
        }
        if matches!(recorded.effect, Some(Effect::Command { .. })) {
            return self.of_commands.clone();
        }
        let path = recorded.envelope.context.path_resolved.as_deref().unwrap_or_default();
        let is_lacking = |lacking: &&String| {
            let folder = lacking.trim_end_matches('/');
            path == folder
                || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
                || difference.contains(folder)
        };
        let lacking = self.lacking.iter().find(is_lacking)?;
        Some(format!("no checkpoint covers {lacking}"))
    }

    fn difference(&self, recorded: &CallResult, replayed: &CallResult) -> Option<String> {
        let (old, new) = (&recorded.envelope, &replayed.envelope);
        let mut lines = Vec::new();
        let mut differ = |what: &str, old: String, new: String| {
            if old != new {
                lines.push(format!("{what}: {old} → {new}"));
            }
        };
        differ("status", old.status().to_owned(), new.status().to_owned());
        let code =
            |envelope: &Envelope| code_of(envelope).map_or("none", ErrorCode::as_str).to_owned();
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
        let (old, new) = (self.text(old, true), self.text(new, false));
        if old != new {
            let diff =
                Diff::after_lines(0, &old, &new, ("recorded", "replayed"), DiffSize::Preview);
            lines.push(diff.text.trim_end().to_owned());
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// What the model receives.
    fn text(&self, envelope: &Envelope, is_recorded: bool) -> String {
        let roots = if is_recorded { self.recorded_roots } else { self.replayed_roots };
        normalised(&view(envelope), roots)
    }

    fn of_check(&self, recorded: &Check, replayed: &Check) -> Compared {
        let mut lines = Vec::new();
        let mut differ = |what: &str, old: String, new: String| {
            if old != new {
                lines.push(format!("{what}: {old} → {new}"));
            }
        };
        let passed = |check: &Check| if check.passed { "passed" } else { "failed" }.to_owned();
        differ("result", passed(recorded), passed(replayed));
        let exit = |check: &Check| check.exit_code.map_or("none".to_owned(), |it| it.to_string());
        differ("exit code", exit(recorded), exit(replayed));
        let old = normalised(&recorded.tail, self.recorded_roots);
        let new = normalised(&replayed.tail, self.replayed_roots);
        if old != new {
            let diff =
                Diff::after_lines(0, &old, &new, ("recorded", "replayed"), DiffSize::Preview);
            lines.push(diff.text.trim_end().to_owned());
        }
        match (lines.is_empty(), &self.of_commands) {
            (true, _) => Compared::Equal,
            (false, Some(why)) => Compared::NotReproducible(why.clone(), Some(lines.join("\n"))),
            (false, None) => Compared::Different(lines.join("\n")),
        }
    }
}
