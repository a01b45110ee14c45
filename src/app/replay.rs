//! Replays a recorded session: the recorded answers of the models run against the real tools in a scratch copy of
//! the project as it was, and every result is compared with the recorded one.
//!
//! Everything of the user and of the world comes from the record (`script`): messages, interrupts and approvals, and
//! changes of files from outside. Nothing outside of the scratch directory is written.

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

use compare::{Comparison, ComparisonContext, compare_results};
use driver::ReplayDriver;
use moment_key::CallKey;
use path_mapping::PathMapping;
use replay_directory::ReplayDirectory;
use replay_state::{RecordedChanges, ReplayState};
pub use report::ReplayReport;
use script::{Script, ScriptStep};

use super::checkpoints::checkpoint_settings;
use super::{OpenError, Storage};
use crate::config::{self, UserDirs};
use agent_host::workspace::FileHistory;
use agent_protocol::control::{Interrupt, SessionControl};
use agent_protocol::event::{EventBody, SessionStarted};
use agent_record::trace::normalise::RunRoot;

const MAX_NAMED: usize = 20;

pub struct ReplayOptions {
    pub storage: Storage,
    pub id: String,
    pub dirs: Option<UserDirs>,
}

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
    let ReplayOptions { storage, id, dirs } = options;
    let loaded = agent_record::load_session(&storage.log_path(&id));
    let mut loaded = loaded.map_err(|error| storage.log_error(error))?;
    // What sub-agents did is part of the result of their call.
    loaded.events.retain(|event| event.header.is_main());
    let mut script = Script::from_events(&loaded.events);
    let nothing_to_replay =
        |why: &str| OpenError::Usage(format!("session {id}: there is nothing to replay: {why}"));
    let started = loaded.events.iter().find_map(|event| match &event.body {
        EventBody::SessionStarted(started) => Some(started),
        _ => None,
    });
    let started = started.ok_or_else(|| nothing_to_replay("its log has no beginning"))?;
    if !script.steps.iter().any(|step| matches!(step, ScriptStep::Turn { .. })) {
        return Err(nothing_to_replay("it has no turn"));
    }
    let root = PathBuf::from(&started.cwd);
    let config = config::config_from_record(&started.settings).map_err(OpenError::Usage)?.config;
    let settings = checkpoint_settings(&config, std::slice::from_ref(&root), &storage, &id)?;
    let history = FileHistory::read(&root, settings);
    let scratch = ReplayDirectory::create(&root)?;
    let ignored = history.current_ignored_paths();
    let mut not_reproducible = describe_ignored(&ignored);
    let mut missing = ignored;
    missing.extend(history.uncovered_paths().into_iter().map(|(path, _)| path));
    not_reproducible.append(&mut scratch.restore_files(&history, &root, &mut missing)?);

    let outside = history.outside_changes();
    for (number, change) in outside.iter().enumerate() {
        if !script.add_change(number, change) {
            history.apply_changes(std::slice::from_ref(change), &scratch.root);
        }
    }
    let history = Arc::new(history);
    let [recorded_session, replayed_session] =
        [&storage, &scratch.storage].map(|storage| storage.session_dir(&id));
    let text = |path: &Path| path.display().to_string();
    let path_mapping = PathMapping {
        directories: vec![
            (text(&recorded_session), text(&replayed_session)),
            (text(&root), text(&scratch.root)),
        ],
        outputs: replayed_session.join("tool-output"),
    };
    let changes = RecordedChanges { history: history.clone(), outside, root: scratch.root.clone() };
    let state = ReplayState::new(&script, path_mapping, changes);
    let mut driver = ReplayDriver {
        state: state.clone(),
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
    };
    Box::pin(driver.run()).await?;
    not_reproducible.extend(script.not_replayed.iter().cloned());
    not_reproducible.append(&mut driver.not_replayed);

    let results = std::mem::take(&mut state.lock().results);
    let rows = {
        let settings = checkpoint_settings(
            &config,
            std::slice::from_ref(&scratch.root),
            &scratch.storage,
            &id,
        )?;
        let replayed = FileHistory::read(&scratch.root, settings);
        let files = |(turn, call): &CallKey| {
            let recorded = history.states_after(*turn, call, &|text| state.relocate(text))?;
            Some([recorded, replayed.states_after(*turn, call, &str::to_owned)?])
        };
        let roots = |session: &Path, root: &Path| {
            [RunRoot::session(text(session)), RunRoot::project(text(root))]
        };
        let context = ComparisonContext {
            recorded_roots: &roots(&recorded_session, &root),
            replayed_roots: &roots(&replayed_session, &scratch.root),
            command_excuse: command_excuse(started, &missing),
            missing_paths: &missing,
            files: &files,
        };
        compare_results(&script.results, &results, &context)
    };
    let is_excused = rows
        .iter()
        .any(|row| matches!(row.result, Comparison::NotReproducible { difference: Some(_), .. }));
    Ok(ReplayReport {
        session: id,
        rows,
        divergence: results.divergence,
        divergence_counts: !is_excused,
        not_reproducible,
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

fn command_excuse(started: &SessionStarted, missing: &[String]) -> Option<String> {
    if matches!(started.sandbox.network.as_str(), "on" | "unenforced") {
        return Some("the command could use the network".to_owned());
    }
    if started.settings.get("sandbox").is_some_and(|it| it.get("extra_writable").is_some()) {
        return Some("the command could use sandbox.extra_writable".to_owned());
    }
    let first = missing.first()?;
    Some(format!("the command may depend on files that no checkpoint covers ({first})"))
}
