//! `agent run --background --attempts`: the process that works on all attempts, and their record: a session without a model,
//! in which each attempt is an agent.

use std::sync::Arc;

use super::{AttemptModels, Attempts};
use crate::app::{self, BackgroundRecord, OpenError, Storage, SystemClock};
use crate::cli::background::leave_terminal;
use crate::cli::options::RunArgs;
use crate::cli::run::TaskInput;
use crate::cli::{block_on_with, exit_code, usage_error};
use agent_protocol::Object;
use agent_protocol::control::{Ending, SessionControl};
use agent_protocol::event::{
    EventBody, EventStream, SessionStarted, TurnFinished, UserMessage, WorkPosition,
};
use agent_record::{Log, SummarySink};

pub(in crate::cli) fn run(args: &RunArgs, task: &TaskInput, models: &AttemptModels) -> u8 {
    // (It fails only if this process leads its group already.)
    _ = rustix::process::setsid();
    let control = SessionControl::default();
    let work = Box::pin(run_recorded(args, task, models, &control));
    block_on_with(async { exit_code(work.await) }, &control, true)
}

async fn run_recorded(
    args: &RunArgs,
    task: &TaskInput,
    models: &AttemptModels,
    control: &SessionControl,
) -> Result<u8, OpenError> {
    let mut attempts = Attempts::prepare(args, task, models)?;
    let summary = SummarySink::default();
    let record = begin_record(&attempts, &summary)?;
    attempts.record = Some(record.clone());
    let done = Box::pin(attempts.run(control)).await;
    let (ending, result) = match &done {
        Ok(best) => (Ending::Completed, best.finished.result.clone()),
        Err(OpenError::Interrupted(by)) => (by.ending(), String::new()),
        Err(error) => (Ending::Failed, error.to_string()),
    };
    let errors = if ending == Ending::Failed { vec![result.clone()] } else { Vec::new() };
    let finished = TurnFinished { ending, result, errors, ..TurnFinished::default() };
    record.emit(EventBody::TurnFinished(finished));
    record.emit(EventBody::SessionSummary(summary.summary()));
    done.map(|_| 0)
}

/// Prints the id, and leaves the terminal.
fn begin_record(attempts: &Attempts, summary: &SummarySink) -> Result<EventStream, OpenError> {
    let options = &attempts.options;
    let storage = Storage::open_or_create(&options.root, options.dirs.as_ref());
    if storage.is_ephemeral {
        return Err(usage_error(storage.notice.unwrap_or_default()));
    }
    let id = uuid::Uuid::now_v7().to_string();
    let masker = app::build_masker(&options.config.config, &[])?;
    let log =
        Log::create(&storage.log_path(&id)).map_err(|error| usage_error(error.to_string()))?;
    let directory = storage.session_dir(&id);
    let failed = |error: std::io::Error| usage_error(format!("{}: {error}", directory.display()));
    BackgroundRecord::create_for_attempts(&directory).map_err(failed)?;
    let sinks = vec![Box::new(log) as _, Box::new(summary.clone()) as _];
    let record = EventStream::new(id.clone(), 0, Arc::new(SystemClock), masker, sinks);
    let models = attempts.each_options.iter().map(|each| each.config.config.model.as_str());
    record.emit(EventBody::SessionStarted(SessionStarted {
        cwd: options.root.display().to_string(),
        model: models.collect::<Vec<_>>().join(","),
        permission_mode: options.config.mode_or(options.default_mode),
        tools: Vec::new(),
        mcp_servers: Vec::new(),
        sandbox: app::no_sandbox("each attempt has its own").1,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        place: String::new(),
        settings: Object::new(),
    }));
    record.set_position(WorkPosition { turn: 1, ..WorkPosition::default() });
    record.emit(EventBody::TurnStarted(UserMessage::new(&attempts.task, None, Vec::new())));
    // Who has the id finds the record.
    leave_terminal(&directory, &id).map_err(failed)?;
    Ok(record)
}
