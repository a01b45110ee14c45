//! Replays a recorded session: the recorded answers of the models run against the real tools in a scratch copy of
//! the project as it was, and every result is compared with the recorded one.
//!
//! Everything of the user and of the world comes from the record (`script`): messages, interrupts and approvals, and
//! changes of files from outside. Nothing outside of the scratch directory is written.

mod compare;
mod hooks;
mod key;
mod parts;
mod places;
mod play;
mod reading;
mod report;
mod scratch;
mod script;
mod stage;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use compare::{Circumstances, Compared, RecordedResults, compare};
use key::CallKey;
use places::Places;
use play::Play;
pub use report::Replayed;
use scratch::Scratch;
use script::{Act, CallResult, Script};
use stage::{Played, Stage};

use super::{OpenError, Storage, limits};
use crate::config::{self, UserDirs};
use agent_host::exec::git;
use agent_host::workspace::{History, OutsideChange, Settings};
use agent_protocol::Object;
use agent_protocol::control::{Control, Interrupt};
use agent_protocol::event::{Body, Event, Sandbox, SessionStarted};
use agent_record::trace::normal::Root;

/// Limit: ignored paths that are named.
const MAX_NAMED: usize = 20;

/// What to replay.
pub struct ReplayOptions {
    /// The project's sessions.
    pub storage: Storage,
    /// The session.
    pub id: String,
    /// The user's directories.
    pub dirs: Option<UserDirs>,
    /// The scratch copy is kept.
    pub keep: bool,
}

/// Replays a session.
pub async fn replay(options: ReplayOptions, control: &Control) -> Result<Replayed, OpenError> {
    let cancel = control.cancel();
    let work = Box::pin(replay_all(options));
    match cancel.run_until_cancelled(work).await {
        Some(done) => done,
        None => Err(OpenError::Interrupted(control.interrupted().unwrap_or(Interrupt::User))),
    }
}

async fn replay_all(options: ReplayOptions) -> Result<Replayed, OpenError> {
    let ReplayOptions { storage, id, dirs, keep } = options;
    let loaded = agent_record::load(&storage.log_path(&id));
    let mut loaded = loaded.map_err(|error| storage.log_error(error))?;
    // What sub-agents did is part of the result of their call.
    loaded.events.retain(|event| event.header.is_main());
    let mut script = Script::of(&loaded.events);
    let Some(begun) = loaded.events.iter().find_map(begun) else {
        return Err(nothing(&id, "its log has no beginning"));
    };
    if !script.acts.iter().any(|act| matches!(act, Act::Turn { .. })) {
        return Err(nothing(&id, "it has no turn"));
    }
    let root = PathBuf::from(&begun.cwd);
    let history = History::read(&root, settings(&storage, &id, &begun.settings)?);
    let scratch = Scratch::make(&root)?;
    let mut not_reproducible = scratch.place(&history, &root)?;
    let ignored = history.ignored_now();
    not_reproducible.extend(named(&ignored));
    let mut lacking: Vec<String> = ignored;
    lacking.extend(history.uncovered().into_iter().map(|(path, _)| path));
    not_reproducible.append(&mut scratch.missing(&mut lacking));

    let outside = history.outside();
    for change in add_changes(&mut script, &outside) {
        let changes = std::slice::from_ref(&outside[change]);
        history.make(changes, &scratch.root);
    }
    let history = Arc::new(history);
    let stage = stage(&mut script, &history, outside, &scratch, (&storage, &id, &root));
    let mut play = Play {
        stage: stage.clone(),
        history: history.clone(),
        scratch: &scratch,
        script: &script,
        id: &id,
        dirs,
        session: None,
        n_processes: 0,
        last_turn: 0,
        options: None,
        not_replayed: Vec::new(),
        guarantees: None,
    };
    Box::pin(play.all()).await?;
    not_reproducible.extend(script.not_replayed.iter().cloned());
    not_reproducible.append(&mut play.not_replayed);
    not_reproducible.extend(differing_sandbox(&begun.sandbox, play.guarantees.as_ref()));

    let played = stage.played();
    let rows = {
        let settings = settings(&scratch.storage, &id, &begun.settings)?;
        let replayed = History::read(&scratch.root, settings);
        let files = |(turn, call): &CallKey| {
            let recorded = history.states_after(*turn, call, &|text| stage.relocated(text))?;
            Some([recorded, replayed.states_after(*turn, call, &str::to_owned)?])
        };
        let session = |storage: &Storage| storage.session(&id).display().to_string();
        let roots = |root: &Path, storage: &Storage| {
            [Root::session(session(storage)), Root::project(root.display().to_string())]
        };
        let (recorded_roots, replayed_roots) =
            (roots(&root, &storage), roots(&scratch.root, &scratch.storage));
        let circumstances = Circumstances {
            recorded_roots: &recorded_roots,
            replayed_roots: &replayed_roots,
            of_commands: of_commands(begun, &lacking),
            lacking: &lacking,
            files: &files,
        };
        let Script { results, checks, endings, .. } = &script;
        let recorded = RecordedResults { calls: results, checks, endings };
        compare(&recorded, &played, &circumstances)
    };
    let Played { divergence, .. } = played;
    let is_excused =
        rows.iter().any(|row| matches!(row.result, Compared::NotReproducible(_, Some(_))));
    Ok(Replayed {
        session: id,
        rows,
        divergence,
        divergence_counts: !is_excused,
        not_reproducible,
        kept: keep.then(|| scratch.keep()),
    })
}

fn begun(event: &Event) -> Option<&SessionStarted> {
    match &event.body {
        Body::SessionStarted(started) => Some(started),
        _ => None,
    }
}

fn nothing(id: &str, why: &str) -> OpenError {
    OpenError::Usage(format!("session {id}: there is nothing to replay: {why}"))
}

/// The checkpoints of a session.
fn settings(storage: &Storage, id: &str, recorded: &Object) -> Result<Settings, OpenError> {
    let config = config::of_record(recorded).map_err(OpenError::Usage)?.config;
    Ok(Settings {
        store: storage.checkpoints(),
        session: storage.session(id),
        limits: limits(&config.checkpoints)?,
        read_blobs: Arc::new(git::blobs),
    })
}

fn named(ignored: &[String]) -> Vec<String> {
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

/// Adds the changes from outside at their moments; returns those from before the first.
fn add_changes(script: &mut Script, outside: &[OutsideChange]) -> Vec<usize> {
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

/// Why any command may have another result.
fn of_commands(begun: &SessionStarted, lacking: &[String]) -> Option<String> {
    if matches!(begun.sandbox.network.as_str(), "on" | "unenforced") {
        return Some("the command could use the network".to_owned());
    }
    let has_extra =
        begun.settings.get("sandbox").is_some_and(|it| it.get("extra_writable").is_some());
    if has_extra {
        return Some("the command could use sandbox.extra_writable".to_owned());
    }
    let first = lacking.first()?;
    Some(format!("the command may depend on files that no checkpoint covers ({first})"))
}

fn differing_sandbox(recorded: &Sandbox, now: Option<&Sandbox>) -> Option<String> {
    let now = now.filter(|now| now.backend != recorded.backend)?;
    let (old, new) = (&recorded.backend, &now.backend);
    Some(format!("the sandbox of commands was {old}, and is {new} in the replay"))
}

/// The stage with everything of the script that happens within turns.
fn stage(
    script: &mut Script,
    history: &Arc<History>,
    outside: Vec<OutsideChange>,
    scratch: &Scratch,
    (storage, id, root): (&Storage, &str, &Path),
) -> Stage {
    let (from, to) = (storage.session(id), scratch.storage.session(id));
    let text = |path: &Path| path.display().to_string();
    let places = Places {
        moved: vec![(text(&from), text(&to)), (text(root), text(&scratch.root))],
        outputs: to.join("tool-output"),
    };
    let failed = scratch.failed.clone();
    let note = move |made: Vec<(String, String)>| {
        failed.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
    };
    let (its_history, its_root, its_note) = (history.clone(), scratch.root.clone(), note.clone());
    let make_change = Box::new(move |number: usize| {
        its_note(its_history.make(std::slice::from_ref(&outside[number]), &its_root));
    });
    let (its_history, its_root) = (history.clone(), scratch.root.clone());
    let make_call = Box::new(move |(turn, call): &CallKey| {
        note(its_history.make(&its_history.of_call(*turn, call), &its_root));
    });
    Stage::new(script, places, (make_change, make_call))
}
