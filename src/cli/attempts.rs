//! `agent run --attempts`: several attempts at one task at once, of which the cheapest that passes is taken over.
//!
//! An attempt is a session of this process, not a process of its own: so one budget and one limit of sessions at work
//! hold for all, no option has to be passed on as text, and when this process dies, all attempts and their commands
//! do. What isolates them is that each has its own copy of the project, its own record, and a sandbox that lets its
//! commands write into that copy only.

pub(super) mod background;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::options::RunArgs;
use super::run::{self, TaskInput};
use super::usage_error;
use crate::app::{
    AttemptGroup, OpenError, Options, ProjectCopies, Session, SessionChoice, StateDirs, Storage,
    TakeOver, WorkCopy, find_failing_check, new_name, resolve_recorded_session,
};
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::event::{EventBody, EventStream, Sink, StampedEvent, TurnFinished};
use agent_protocol::{pluralize, shorten};
use agent_ui::Verbosity;

const MAX_ATTEMPTS: usize = 50;
const MAX_LINE: usize = 160;

#[derive(Clone, Debug, Default, Args)]
pub(super) struct AttemptOptions {
    /// Work in this number of independent copies at once, or in one per model; the cheapest result that passes --check
    /// is taken over into the project
    #[arg(
        long, value_name = "N|MODEL,…",
        conflicts_with_all = ["worktree", "ephemeral", "session_id", "output_file", "json_schema"]
    )]
    pub(super) attempts: Option<AttemptModels>,
    /// With --attempts: end when one passes, or when all are done
    #[arg(long, value_name = "WHEN", requires = "attempts")]
    attempts_until: Option<AttemptsUntil>,
    /// With --attempts and --fork: each begins with the conversation and the files as they were after this turn
    #[arg(long, value_name = "N", requires_all = ["attempts", "fork"])]
    turn: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AttemptsUntil {
    First,
    All,
}

/// The models of the attempts; `None`: the session's.
#[derive(Clone, Debug)]
pub(super) struct AttemptModels(Vec<Option<String>>);

impl FromStr for AttemptModels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let models: Vec<Option<String>> = match text.trim().parse::<usize>() {
            Ok(n) => vec![None; n.min(MAX_ATTEMPTS + 1)],
            Err(_) => text.split(',').map(|model| Some(model.trim().to_owned())).collect(),
        };
        if models.iter().flatten().any(String::is_empty) {
            return Err("write a number, or names of models with commas between them".to_owned());
        }
        if !(1..=MAX_ATTEMPTS).contains(&models.len()) {
            return Err(format!("from 1 to {MAX_ATTEMPTS} attempts are possible"));
        }
        Ok(Self(models))
    }
}

/// Adds the cost of all attempts, and interrupts them at the limit.
#[derive(Clone)]
struct SharedBudget {
    spent_usd: Arc<Mutex<f64>>,
    limit_usd: Option<f64>,
    attempts: Arc<Vec<SessionControl>>,
}

impl Sink for SharedBudget {
    fn receive(&mut self, stamped: &StampedEvent) {
        let EventBody::ModelResponded(answer) = &stamped.event.body else { return };
        let mut spent = self.spent_usd.lock();
        *spent += answer.cost_usd.unwrap_or_default();
        if self.limit_usd.is_some_and(|limit| *spent >= limit) {
            self.attempts.iter().for_each(|attempt| attempt.interrupt(Interrupt::Budget));
        }
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }
}

/// What became of an attempt.
struct Attempt {
    copy: WorkCopy,
    session: String,
    finished: TurnFinished,
    log: PathBuf,
    /// Changed lines.
    n_lines: usize,
}

impl Attempt {
    fn passes(&self) -> bool {
        is_good(&self.finished)
    }

    fn compare_with(&self, other: &Self) -> Ordering {
        // One whose cost is not known comes last.
        let cost = |it: &Self| it.finished.cost_usd.unwrap_or(f64::INFINITY);
        cost(self).total_cmp(&cost(other)).then(self.n_lines.cmp(&other.n_lines))
    }
}

fn is_good(finished: &TurnFinished) -> bool {
    finished.ending == Ending::Completed && finished.verified == Some(true)
}

struct Attempts {
    options: Options,
    /// The options of each attempt, in the project.
    each_options: Vec<Options>,
    /// The session that each attempt continues in a copy, up to a turn (`None`: all of it).
    forked: Option<(Storage, String, Option<u32>)>,
    task: UserInput,
    ends_with_first: bool,
    /// One attempt teaches what all could.
    has_taught: AtomicBool,
    copies: ProjectCopies,
    /// Names of copies begin with this.
    prefix: String,
    /// Held while copies with the prefix may be in use.
    _reserved: File,
    group: Arc<AttemptGroup>,
    /// Of all attempts together, if they work in the background.
    record: Option<EventStream>,
}

pub(super) async fn run_attempts(
    args: &RunArgs,
    task: &TaskInput,
    models: &AttemptModels,
    control: &SessionControl,
) -> Result<u8, OpenError> {
    let best = Box::pin(Attempts::prepare(args, task, models)?.run(control)).await?;
    print_result(&best, args);
    Ok(0)
}

impl Attempts {
    /// Starts nothing yet.
    fn prepare(
        args: &RunArgs,
        task: &TaskInput,
        models: &AttemptModels,
    ) -> Result<Self, OpenError> {
        let mut options = run::session_options(args, PermissionMode::AutoEdit)?;
        args.compatible.warn_without_host()?;
        let (root, prompts) = (&options.root, &options.config.prompts);
        let dirs = options.dirs.as_ref();
        let task =
            task.to_user_input(|given| run::expand_own_command(given, root, dirs, prompts))?;
        let config = &options.config.config;
        if config.checks.commands.is_empty() && config.verify.model.is_none() {
            return Err(usage_error(
                "--attempts needs --check COMMAND, or a verifier (verify.model), which decides whether a result is good",
            ));
        }
        if !config.checkpoints.enabled {
            return Err(usage_error("--attempts needs checkpoints: checkpoints.enabled is false"));
        }
        let permits = Semaphore::new(config.agents.max_concurrent.clamp(1, MAX_ATTEMPTS));
        let learned = Mutex::new(HashSet::new());
        let group = Arc::new(AttemptGroup { permits: Arc::new(permits), learned });
        options.attempt_group = Some(Arc::clone(&group));
        let options_with = |model: &Option<String>| match model {
            None => Ok(options.clone()),
            Some(model) => {
                let mut args = args.clone();
                args.model.model = Some(model.clone());
                let attempt_group = Some(Arc::clone(&group));
                let own = run::session_options_of(&args, options.default_mode)?;
                Ok::<_, OpenError>(Options { attempt_group, ..own })
            }
        };
        let own = StateDirs::new(options.dirs.as_ref());
        let forked = match resolve_recorded_session(&mut options.clone(), &own)?.0 {
            None => None,
            Some(id) if args.continued.fork => {
                Some((options.session_storage(), id, args.attempts.turn))
            }
            Some(_) => {
                return Err(usage_error("--attempts continues copies of a session: add --fork"));
            }
        };
        let copies = ProjectCopies::of(&options.root, &options.config, options.dirs.as_ref())?;
        let prefix = new_name("attempt");
        let reserved = copies.reserve(&prefix, &options.session_storage());
        let reserved = reserved
            .map_err(|error| usage_error(format!("{}: {error}", copies.place.display())))?;
        Ok(Self {
            copies,
            each_options: models.0.iter().map(options_with).collect::<Result<_, _>>()?,
            forked,
            task,
            has_taught: AtomicBool::new(false),
            ends_with_first: args.attempts.attempts_until != Some(AttemptsUntil::All),
            prefix,
            _reserved: reserved,
            group,
            record: None,
            options,
        })
    }

    /// Returns the attempt whose result is in the project.
    async fn run(&self, control: &SessionControl) -> Result<Attempt, OpenError> {
        let cancel = control.cancellation_token();
        self.check_unchanged_copy(&cancel).await?;
        let mut done = Box::pin(self.run_all(control)).await;
        let interrupted = || control.interrupt_cause().map(OpenError::Interrupted);
        if let Some(interrupted) = interrupted() {
            return Err(interrupted);
        }
        let passing = (0..done.len()).filter(|at| done[*at].passes());
        let best = passing.min_by(|one, other| done[*one].compare_with(&done[*other]));
        let taken = match best {
            Some(best) if done[best].n_lines == 0 && done[best].finished.files_changed.is_empty() => {
                Err("the attempt that passes changed no file that is recorded (ignored files are not taken over); the project is unchanged".to_owned())
            }
            Some(best) => {
                let taken = Box::pin(self.take_over(&done[best], &cancel)).await;
                taken.map(|n_files| (best, n_files))
            }
            None => Err("no attempt passes; the project is unchanged".to_owned()),
        };
        let (best, n_files) = taken.map_err(|why| {
            if let Some(interrupted) = interrupted() {
                agent_ui::print_notice(&why);
                return interrupted;
            }
            let place = self.copies.place.display();
            OpenError::Failed(format!(
                "{why}; `agent run --resume ID` continues an attempt in its copy, in {place}"
            ))
        })?;
        for attempt in &done {
            self.copies.remove(&attempt.copy);
        }
        let n_files = pluralize(n_files as u64, "file");
        let best = done.swap_remove(best);
        let short = self.options.session_storage().short_id(&best.session);
        agent_ui::print_notice(&format!(
            "{n_files} of session {short} taken over; `agent session undo {short}` takes this back"
        ));
        Ok(best)
    }

    /// A check that passes without any work cannot tell a good result.
    async fn check_unchanged_copy(&self, cancel: &CancellationToken) -> Result<(), OpenError> {
        if self.options.config.config.checks.commands.is_empty() {
            return Ok(());
        }
        let (copy, session) = self.copy_project("unchanged", cancel).await?;
        let failure = self.find_failure(&copy.root, cancel).await;
        self.copies.remove(&copy);
        self.delete(&session);
        failure?.map(drop).ok_or_else(|| {
            usage_error(
                "the check passes already in an unchanged copy of the project, so it decides nothing: no attempt was \
                 started",
            )
        })
    }

    /// A copy, and the session of an attempt in it.
    async fn copy_project(
        &self,
        name: &str,
        cancel: &CancellationToken,
    ) -> Result<(WorkCopy, SessionChoice), OpenError> {
        let Some((storage, id, turn)) = self.forked.clone() else {
            let files = self.copies.copy_files(format!("{}-{name}", self.prefix)).await;
            return Ok((self.copies.prepare(files, cancel).await?, SessionChoice::New));
        };
        let (copies, name) = (self.copies.clone(), format!("{}-{name}", self.prefix));
        let fork = move || copies.fork_session(&storage, &id, turn, &name);
        let forking = tokio::task::spawn_blocking(fork);
        let (id, copy) = forking.await.map_err(|error| OpenError::Failed(error.to_string()))??;
        let session = SessionChoice::Resume(id);
        let prepared = self.copies.prepare((copy, Ok(())), cancel).await;
        let copy = prepared.inspect_err(|_| self.delete(&session))?;
        Ok((copy, session))
    }

    fn delete(&self, session: &SessionChoice) {
        if let (SessionChoice::Resume(id), Some((storage, ..))) = (session, &self.forked) {
            _ = storage.delete(id);
        }
    }

    async fn find_failure(
        &self,
        directory: &Path,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, OpenError> {
        let Options { config, dirs, .. } = &self.options;
        let commands = &config.config.checks.commands;
        find_failing_check((config, dirs.as_ref()), directory, commands, cancel).await
    }

    /// The attempts that worked.
    async fn run_all(&self, control: &SessionControl) -> Vec<Attempt> {
        let config = &self.options.config.config;
        let controls: Vec<SessionControl> =
            self.each_options.iter().map(|_| SessionControl::default()).collect();
        let budget = SharedBudget {
            spent_usd: Arc::default(),
            limit_usd: config.limits.max_budget_usd,
            attempts: Arc::new(controls.clone()),
        };
        let mut running: FuturesUnordered<_> = (0..controls.len())
            .map(|at| Box::pin(self.run_one(at, &controls[at], budget.clone())))
            .collect();
        let cancel = control.cancellation_token();
        let (mut done, mut is_stopped) = (Vec::new(), false);
        loop {
            let stops = tokio::select! {
                biased;
                () = cancel.cancelled(), if !is_stopped => true,
                attempt = running.next() => {
                    let Some((at, attempt)) = attempt else { return done };
                    let model = &self.each_options[at].config.config.model;
                    let how = match &attempt {
                        Ok(attempt) => self.describe(attempt),
                        Err(why) => why.clone(),
                    };
                    agent_ui::print_notice(&format!("attempt {} ({model}): {how}", at + 1));
                    done.extend(attempt);
                    self.ends_with_first && done.iter().any(Attempt::passes)
                }
            };
            if stops && !std::mem::replace(&mut is_stopped, true) {
                for control in &controls {
                    control.interrupt(Interrupt::Terminate);
                }
            }
        }
    }

    async fn run_one(
        &self,
        at: usize,
        control: &SessionControl,
        budget: SharedBudget,
    ) -> (usize, Result<Attempt, String>) {
        let _permit = self.group.permits.acquire().await;
        if let Some(interrupt) = control.interrupt_cause() {
            return (at, Err(format!("not begun: {}", interrupt.ending().as_str())));
        }
        (at, self.work(at, control, budget).await.map_err(|error| error.to_string()))
    }

    async fn work(
        &self,
        at: usize,
        control: &SessionControl,
        budget: SharedBudget,
    ) -> Result<Attempt, OpenError> {
        let others = budget.attempts.clone();
        let name = (at + 1).to_string();
        let (copy, session) = self.copy_project(&name, &control.cancellation_token()).await?;
        let mut options = Options { session: session.clone(), ..self.each_options[at].clone() };
        options.enter_copy(&copy);
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(budget)];
        let opened = Box::pin(Session::open(options, control.clone(), sinks)).await;
        let opened = opened.inspect_err(|_| {
            self.copies.remove(&copy);
            self.delete(&session);
        });
        let mut session = opened?;
        let Some(log) = session.log_path.clone() else {
            self.copies.remove(&copy);
            return Err(usage_error("--attempts needs sessions that are recorded"));
        };
        let record = self.record.as_ref().map(|record| record.for_subagent(&name));
        if let Some(record) = &record {
            record.emit(EventBody::AgentStarted {
                role: "attempt".to_owned(),
                description: format!("session {}", session.id()),
                prompt: self.task.text.clone(),
                model: session.model().to_owned(),
            });
        }
        let finished = Box::pin(session.run(self.task.clone())).await;
        if let Some(record) = &record {
            record.emit(EventBody::AgentFinished(finished.clone()));
        }
        if is_good(&finished) && !self.has_taught.swap(true, atomic::Ordering::Relaxed) {
            let others = others.iter().enumerate().filter(|(n, _)| *n != at);
            // They need not go on.
            for (_, other) in others.filter(|_| self.ends_with_first) {
                other.interrupt(Interrupt::Terminate);
            }
            session.finish_distillation(run::DISTILLATION_TIMEOUT).await;
        }
        let (id, workspace) = (session.id().to_owned(), session.workspace().clone());
        session.close().await;
        let diff = workspace.session_diff().unwrap_or_default();
        let is_change = |line: &&str| {
            line.starts_with(['+', '-']) && !line.starts_with("+++ ") && !line.starts_with("--- ")
        };
        let n_lines = diff.lines().filter(is_change).count();
        Ok(Attempt { copy, session: id, finished, log, n_lines })
    }

    /// Brings the changes into the project, where the checks have to pass too. Returns the number of files.
    async fn take_over(&self, best: &Attempt, cancel: &CancellationToken) -> Result<usize, String> {
        let copy = best.copy.root.display();
        let taken = TakeOver::begin(&self.options, &best.session, &best.copy.root)
            .map_err(|error| format!("{error}; the result is in {copy}"))?;
        let failure = self.find_failure(&self.options.root, cancel).await;
        let why = match failure {
            _ if cancel.is_cancelled() => {
                "interrupted while the check ran in the project".to_owned()
            }
            Ok(None) => return Ok(taken.keep(&self.options.config.prompts)),
            Ok(Some(why)) => format!("in the project the check does not pass: {why}"),
            Err(error) => error.to_string(),
        };
        let why = format!("{why}; the result is in {copy}");
        match taken.revert() {
            Ok(()) => Err(format!("{why}; the change is undone")),
            Err(error) => Err(format!("{why}; the change is not undone completely: {error}")),
        }
    }

    fn describe(&self, attempt: &Attempt) -> String {
        let Attempt { finished, session, n_lines, .. } = attempt;
        let how = match finished.ending {
            _ if attempt.passes() => "passes",
            Ending::Terminated => "stopped",
            ending => ending.as_str(),
        };
        let cost = finished.spending().formatted_cost();
        let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
        let why = finished.errors.last().filter(|_| how != "stopped");
        let why = why.and_then(|why| why.trim().lines().next_back());
        let why = why.map_or_else(String::new, |why| format!(": {}", shorten(why, MAX_LINE)));
        format!(
            "{how}, {}, {} tokens{cost}, {}, session {}{why}",
            pluralize(finished.calls, "call"),
            finished.usage.total(),
            pluralize(*n_lines as u64, "changed line"),
            self.options.session_storage().short_id(session),
        )
    }
}

/// The output of the session that was taken over, as if it were the only one.
fn print_result(best: &Attempt, args: &RunArgs) {
    let loaded = agent_record::load_session(&best.log);
    let mut sink =
        agent_ui::sink_for_format(args.output_format, Verbosity::Quiet, args.further_lines());
    for event in loaded.map(|loaded| loaded.events).unwrap_or_default() {
        let line = serde_json::to_string(&event).unwrap_or_default();
        let stamped = StampedEvent { event, line };
        if stamped.event.header.is_main() {
            sink.receive(&stamped);
        } else {
            sink.receive_from_subagent(&stamped);
        }
    }
}
