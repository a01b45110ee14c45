//! Replays a recorded session: the recorded answers of the models run against the real tools in a scratch copy of
//! the project as it was, and every result is compared with the recorded one.
//!
//! Everything of the user and of the world comes from the record (`script`): messages, interrupts and approvals, and
//! changes of files from outside. Nothing outside of the scratch directory is written.

mod blocked_actions;
mod compare;
mod driver;
mod moment_key;
mod parts;
mod path_mapping;
mod replay_directory;
mod replay_state;
mod report;
mod script;
mod script_reader;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use compare::{Comparison, ComparisonContext, RecordedResults, compare_results};
use driver::ReplayDriver;
use moment_key::CallKey;
use path_mapping::PathMapping;
use replay_directory::ReplayDirectory;
use replay_state::{ReplayResults, ReplayState};
pub use report::ReplayReport;
use script::{CallResult, Script, ScriptStep};

use super::{OpenError, Storage, checkpoint_limits};
use crate::config::{self, UserDirs};
use agent_host::exec::git;
use agent_host::workspace::{CheckpointSettings, FileHistory, OutsideChange};
use agent_protocol::Object;
use agent_protocol::control::{Interrupt, SessionControl};
use agent_protocol::event::{Event, EventBody, SandboxStatus, SessionStarted};
use agent_record::trace::normalise::RunRoot;

const MAX_NAMED: usize = 20;

/// The options of a replay.
pub struct ReplayOptions {
    pub storage: Storage,
    pub id: String,
    pub dirs: Option<UserDirs>,
    /// The scratch copy is not deleted.
    pub keep: bool,
}

/// Replays a session.
pub async fn replay(
    options: ReplayOptions,
    control: &SessionControl,
) -> Result<ReplayReport, OpenError> {
    let cancel = control.cancellation_token();
    let work = Box::pin(replay_session(options));
    match cancel.run_until_cancelled(work).await {
        Some(done) => done,
        None => Err(OpenError::Interrupted(control.interrupt_cause().unwrap_or(Interrupt::User))),
    }
}

async fn replay_session(options: ReplayOptions) -> Result<ReplayReport, OpenError> {
    let ReplayOptions { storage, id, dirs, keep } = options;
    let loaded = agent_record::load_session(&storage.log_path(&id));
    let mut loaded = loaded.map_err(|error| storage.log_error(error))?;
    // What sub-agents did is part of the result of their call.
    loaded.events.retain(|event| event.header.is_main());
    let mut script = Script::from_events(&loaded.events);
    let Some(started) = loaded.events.iter().find_map(session_start) else {
        return Err(nothing_to_replay(&id, "its log has no beginning"));
    };
    if !script.steps.iter().any(|act| matches!(act, ScriptStep::Turn { .. })) {
        return Err(nothing_to_replay(&id, "it has no turn"));
    }
    let root = PathBuf::from(&started.cwd);
    let history = FileHistory::read(&root, checkpoint_settings(&storage, &id, &started.settings)?);
    let scratch = ReplayDirectory::create(&root)?;
    let mut not_reproducible = scratch.restore_files(&history, &root)?;
    let ignored = history.current_ignored_paths();
    not_reproducible.extend(describe_ignored(&ignored));
    let mut missing: Vec<String> = ignored;
    missing.extend(history.uncovered_paths().into_iter().map(|(path, _)| path));
    not_reproducible.append(&mut scratch.describe_missing(&mut missing));

    let outside = history.outside_changes();
    for change in add_outside_changes(&mut script, &outside) {
        let changes = std::slice::from_ref(&outside[change]);
        history.apply_changes(changes, &scratch.root);
    }
    let history = Arc::new(history);
    let stage = build_state(&mut script, &history, outside, &scratch, (&storage, &id, &root));
    let mut play = ReplayDriver {
        state: stage.clone(),
        history: history.clone(),
        scratch: &scratch,
        script: &script,
        id: &id,
        dirs,
        session: None,
        n_processes: 0,
        last_turn: 0,
        config: None,
        not_replayed: Vec::new(),
        guarantees: None,
    };
    Box::pin(play.run()).await?;
    not_reproducible.extend(script.not_replayed.iter().cloned());
    not_reproducible.append(&mut play.not_replayed);
    not_reproducible.extend(sandbox_difference(&started.sandbox, play.guarantees.as_ref()));

    let played = stage.take_results();
    let rows = {
        let settings = checkpoint_settings(&scratch.storage, &id, &started.settings)?;
        let replayed = FileHistory::read(&scratch.root, settings);
        let files = |(turn, call): &CallKey| {
            let recorded = history.states_after(*turn, call, &|text| stage.relocate(text))?;
            Some([recorded, replayed.states_after(*turn, call, &str::to_owned)?])
        };
        let session = |storage: &Storage| storage.session_dir(&id).display().to_string();
        let roots = |root: &Path, storage: &Storage| {
            [RunRoot::session(session(storage)), RunRoot::project(root.display().to_string())]
        };
        let (recorded_roots, replayed_roots) =
            (roots(&root, &storage), roots(&scratch.root, &scratch.storage));
        let circumstances = ComparisonContext {
            recorded_roots: &recorded_roots,
            replayed_roots: &replayed_roots,
            command_excuse: command_excuse(started, &missing),
            missing_paths: &missing,
            files: &files,
        };
        let Script { results, checks, endings, .. } = &script;
        let recorded = RecordedResults { calls: results, checks, endings };
        compare_results(&recorded, &played, &circumstances)
    };
    let ReplayResults { divergence, .. } = played;
    let is_excused =
        rows.iter().any(|row| matches!(row.result, Comparison::NotReproducible(_, Some(_))));
    Ok(ReplayReport {
        session: id,
        rows,
        divergence,
        divergence_counts: !is_excused,
        not_reproducible,
        kept_directory: keep.then(|| scratch.keep()),
    })
}

fn session_start(event: &Event) -> Option<&SessionStarted> {
    match &event.body {
        EventBody::SessionStarted(started) => Some(started),
        _ => None,
    }
}

fn nothing_to_replay(id: &str, why: &str) -> OpenError {
    OpenError::Usage(format!("session {id}: there is nothing to replay: {why}"))
}

fn checkpoint_settings(
    storage: &Storage,
    id: &str,
    recorded: &Object,
) -> Result<CheckpointSettings, OpenError> {
    let config = config::config_from_record(recorded).map_err(OpenError::Usage)?.config;
    Ok(CheckpointSettings {
        store: storage.checkpoints_dir(),
        session: storage.session_dir(id),
        limits: checkpoint_limits(&config.checkpoints)?,
        read_blobs: Arc::new(git::read_blobs),
    })
}

fn describe_ignored(ignored: &[String]) -> Vec<String> {
    if ignored.is_empty() {
        return Vec::new();
    }
    let more = match ignored.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = ignored.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    vec![format!("ignored files, which no checkpoint covers: {first}{more}")]
}

/// Each at its moment; returns the changes from before the first moment.
fn add_outside_changes(script: &mut Script, outside: &[OutsideChange]) -> Vec<usize> {
    let mut before = Vec::new();
    for (number, change) in outside.iter().enumerate() {
        let saw_before = |result: &CallResult| {
            let is_read = result.envelope.context.path_resolved.as_ref() == Some(&change.path);
            let mtime = result.envelope.stats.get("file_mtime_ms");
            let mtime = mtime.and_then(serde_json::Value::as_i64);
            (is_read && mtime.is_some() && mtime != change.mtime_ms)
                || (!change.after_call.is_empty() && result.call == change.after_call)
        };
        let times = (change.at_ms, change.noticed_ms);
        if !script.add_change(number, times, saw_before) {
            before.push(number);
        }
    }
    before
}

fn command_excuse(started: &SessionStarted, missing: &[String]) -> Option<String> {
    if matches!(started.sandbox.network.as_str(), "on" | "unenforced") {
        return Some("the command could use the network".to_owned());
    }
    let has_extra =
        started.settings.get("sandbox").is_some_and(|it| it.get("extra_writable").is_some());
    if has_extra {
        return Some("the command could use sandbox.extra_writable".to_owned());
    }
    let first = missing.first()?;
    Some(format!("the command may depend on files that no checkpoint covers ({first})"))
}

fn sandbox_difference(recorded: &SandboxStatus, now: Option<&SandboxStatus>) -> Option<String> {
    let now = now.filter(|now| now.backend != recorded.backend)?;
    let (old, new) = (&recorded.backend, &now.backend);
    Some(format!("the sandbox of commands was {old}, and is {new} in the replay"))
}

fn build_state(
    script: &mut Script,
    history: &Arc<FileHistory>,
    outside: Vec<OutsideChange>,
    scratch: &ReplayDirectory,
    (storage, id, root): (&Storage, &str, &Path),
) -> ReplayState {
    let (from, to) = (storage.session_dir(id), scratch.storage.session_dir(id));
    let text = |path: &Path| path.display().to_string();
    let places = PathMapping {
        directories: vec![(text(&from), text(&to)), (text(root), text(&scratch.root))],
        outputs: to.join("tool-output"),
    };
    let failed = scratch.failed.clone();
    let note = move |made: Vec<(String, String)>| {
        failed.lock().extend(made);
    };
    let (its_history, its_root, its_note) = (history.clone(), scratch.root.clone(), note.clone());
    let make_change = Box::new(move |number: usize| {
        its_note(its_history.apply_changes(std::slice::from_ref(&outside[number]), &its_root));
    });
    let (its_history, its_root) = (history.clone(), scratch.root.clone());
    let make_call = Box::new(move |(turn, call): &CallKey| {
        note(its_history.apply_changes(&its_history.changes_of_call(*turn, call), &its_root));
    });
    ReplayState::new(script, places, (make_change, make_call))
}
