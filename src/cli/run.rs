//! `agent run`: one task, then exit.

use std::io::{IsTerminal as _, Read, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::options::{self, InputFormat, RunArgs};
use super::session::format_session_list;
use super::user_message::{MAX_TEXT, too_long_error};
use super::{attempts, background, print_notices, sdk, worktree};
use crate::app::{
    self, OpenError, Options, Session, SessionChoice, StateDirs, Storage, WritableDirs,
};
use crate::compat;
use crate::config::{AGENT_DIR, UserDirs};
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::custom_command::{CustomCommand, MCP_PROMPT_PREFIX};
use agent_protocol::directives::UserInput;
use agent_protocol::disk::ResolvedPath;
use agent_protocol::event::{Sink, TurnFinished};
use agent_protocol::most_similar;
use agent_protocol::prompt::Prompts;
use agent_protocol::settings::parse_duration;
use agent_ui::{OutputFormat, StreamJsonOptions, Verbosity, tui};

pub(super) const DISTILLATION_TIMEOUT: Duration = Duration::from_secs(10);
const BEFORE_PIPED: &str = "\n\n<stdin>\n";
const AFTER_PIPED: &str = "\n</stdin>";
/// The run begins without standard input after this time without a byte of it.
const STDIN_SILENCE: Duration = Duration::from_secs(3);

pub(super) fn run(args: &RunArgs) -> u8 {
    if args.input_format == InputFormat::StreamJson {
        return sdk::run(args);
    }
    if args.background {
        return background::start(args);
    }
    let mut args = args.clone();
    args.worktree.take_task(&mut args.task);
    let args = &args;
    let begun = Instant::now();
    // A list of rules may have taken the task.
    let checked = session_choice(args).and_then(|_| args.tools.rules.unknown_tool_warnings());
    let timeout = args.timeout.as_deref().and_then(|text| parse_duration(text).ok());
    let input = checked.map_err(|error| error.to_string());
    let input = input.and_then(|_| TaskInput::read(&args.task, timeout.map(|timeout| timeout / 2)));
    let task = match input {
        Ok(task) => task,
        Err(reason) => {
            let name = args.worktree.worktree.as_deref().filter(|name| !name.is_empty());
            let of_worktree = name.filter(|_| args.task.is_empty());
            let of_worktree = of_worktree.map_or_else(String::new, |name| {
                format!(" (`{name}` is the name of the worktree)")
            });
            return super::report_error(&format!("{reason}{of_worktree}"));
        }
    };
    if args.in_background {
        return match &args.attempts.attempts {
            Some(models) => attempts::background::run(args, &task, models),
            None => sdk::run_in_background(args, task),
        };
    }
    let verbosity = match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Progress,
    };
    let format = args.output_format;
    let sink = agent_ui::sink_for_format(format, verbosity, args.further_lines());
    let control = SessionControl::default();
    let work = async {
        let done = Box::pin(run_task(args, (task, begun), &control, vec![sink])).await;
        // Every exit except wrong usage ends with a result.
        if let Err(error) = &done
            && error.exit_code() != 2
        {
            agent_ui::print_failure(format, &error.to_string(), error.exit_code());
        }
        done
    };
    super::block_on_result(work, &control)
}

pub(super) fn session_options(
    args: &RunArgs,
    default_mode: PermissionMode,
) -> Result<Options, OpenError> {
    let options = session_options_of(args, default_mode)?;
    print_notices(&options.config.warnings);
    Ok(options)
}

/// Without printing the warnings.
pub(super) fn session_options_of(
    args: &RunArgs,
    default_mode: PermissionMode,
) -> Result<Options, OpenError> {
    let session = session_choice(args)?;
    args.compatible.foreign.report();
    let StreamJsonOptions { partial_messages, hook_events } = args.further_lines();
    let further = [(partial_messages, "partial-messages"), (hook_events, "hook-events")];
    if let Some((_, name)) = further.iter().find(|(is_set, _)| *is_set)
        && args.output_format != OutputFormat::StreamJson
    {
        let why = format!("--include-{name} needs --output-format stream-json");
        return Err(OpenError::Usage(why));
    }
    let (root, storage) =
        options::root_for_session(args.tools.cwd.as_deref(), args.continued.resume.as_deref())?;
    let dirs = UserDirs::find();
    let config = options::load_config(&root, dirs.as_ref(), &args.tools, Some(args))?;
    // Without a user the warning may stay unread, and the exit code would say that the checks
    // passed.
    if let (Some(why), true) = (&config.untrusted_checks, args.limits.check.is_empty()) {
        return Err(OpenError::Usage(format!(
            "{AGENT_DIR}/config.toml wants checks to be run, and {why}, or give --check yourself"
        )));
    }
    let place = (root, storage);
    let mut options = args.to_session_options(place, dirs, config, session, default_mode)?;
    let schema = args.json_schema.as_deref().map(compat::read_json).transpose();
    let schema = schema.map_err(|why| OpenError::Usage(format!("--json-schema: {why}")))?;
    options.answer_schema = schema.map(|(schema, _)| schema);
    Ok(options)
}

async fn run_task(
    args: &RunArgs,
    task: (TaskInput, Instant),
    control: &SessionControl,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<u8, OpenError> {
    if let Some(models) = &args.attempts.attempts {
        return Box::pin(attempts::run_attempts(args, &task.0, models, control)).await;
    }
    let mut options = session_options(args, PermissionMode::AutoEdit)?;
    args.compatible.warn_without_host()?;
    let worktree = args.worktree.open(&mut options, &control.cancellation_token()).await?;
    let done = Box::pin(run_session(args, options, task, (control, sinks))).await;
    worktree::finish(worktree);
    done
}

async fn run_session(
    args: &RunArgs,
    mut options: Options,
    (mut task, begun): (TaskInput, Instant),
    (control, sinks): (&SessionControl, Vec<Box<dyn Sink>>),
) -> Result<u8, OpenError> {
    let (root, prompts) = (&options.root, &options.config.prompts);
    let rest = task.rest.take();
    let task = task
        .to_user_input(|given| expand_own_command(given, root, options.dirs.as_ref(), prompts))?;
    // Opened first, so that an error is reported before the task runs.
    let mut output_file = match &args.output_file {
        Some(path) => {
            let own = StateDirs::new(options.dirs.as_ref());
            app::resolve_recorded_session(&mut options, &own)?;
            let workspace = app::open_workspace(&options.root, &options.add_dirs, &own)?;
            let writable = WritableDirs::from_workspace(&options.config.config, &workspace)?;
            // A command of an earlier run may have created a link or a FIFO in these places.
            let opened = std::env::current_dir().and_then(|here| {
                ResolvedPath::resolve(&here.join(path), writable.places()).open_for_write()
            });
            Some(opened.map_err(|error| {
                OpenError::Usage(format!("--output-last-message {}: {error}", path.display()))
            })?)
        }
        None => None,
    };
    let mut session = Session::open(options, control.clone(), sinks).await?;
    // A pipe or a terminal has no length.
    _ = output_file.as_ref().map(|file| file.set_len(0));
    print_notices(&session.notices);
    session.deduct_time(begun.elapsed());
    let finished = run_with_input(&mut session, task, rest, control).await;
    let mut code = finished.ending.exit_code();
    if let (Some(path), Some(file)) = (&args.output_file, &mut output_file)
        && let Err(error) = file.write_all(finished.result.as_bytes())
    {
        let path = path.display();
        agent_ui::print_notice(&format!("{path}: {error}; the answer was not written there"));
        code = code.max(1);
    }
    let distilling = session.finish_distillation(DISTILLATION_TIMEOUT);
    if tokio::time::timeout(Duration::from_secs(1), distilling).await.is_err() && !args.quiet {
        agent_ui::print_notice("waiting for lessons of this run, at most 10 s");
    }
    session.finish_distillation(DISTILLATION_TIMEOUT).await;
    if let Some(running) = session.describe_running() {
        agent_ui::print_notice(&format!(
            "ended with the run: {running}, which ran in the background"
        ));
    }
    session.close().await;
    Ok(code)
}

/// What arrives on standard input while the task runs is a message of the user.
async fn run_with_input(
    session: &mut Session,
    task: UserInput,
    mut rest: Option<PipedInput>,
    control: &SessionControl,
) -> TurnFinished {
    let run = session.run(task);
    tokio::pin!(run);
    loop {
        tokio::select! {
            biased;
            finished = &mut run => {
                let is_unused = control.has_queued_messages();
                if rest.is_some() || is_unused {
                    let how = if is_unused { "arrived too late" } else { "did not end" };
                    agent_ui::print_notice(&format!("standard input {how}, so it was not used"));
                }
                return finished;
            }
            read = wait_for_input(&mut rest) => {
                rest = None;
                match read {
                    Ok(text) if text.trim().is_empty() => {}
                    Ok(text) => {
                        let mut input = UserInput::from(BEFORE_PIPED.trim_start());
                        input.push_pasted(text.trim_end());
                        input.text.push_str(AFTER_PIPED);
                        control.queue_message(input);
                    }
                    Err(why) => agent_ui::print_notice(&why),
                }
            }
        }
    }
}

async fn wait_for_input(rest: &mut Option<PipedInput>) -> Result<String, String> {
    match rest {
        Some(PipedInput { whole, .. }) => stdin_text(whole.await.ok()),
        None => std::future::pending().await,
    }
}

fn session_choice(args: &RunArgs) -> Result<SessionChoice, OpenError> {
    if args.continued.resume.as_deref() == Some("") {
        return Err(missing_session_id(args));
    }
    let new = args.session_id.clone().map_or(SessionChoice::New, SessionChoice::NewWithId);
    args.continued.session_choice(new)
}

fn missing_session_id(args: &RunArgs) -> OpenError {
    let mut why =
        "--resume needs the id of a session, or its beginning or end; -c takes the latest"
            .to_owned();
    if std::io::stderr().is_terminal()
        && let Ok(root) = options::project_root(args.tools.cwd.as_deref())
    {
        let storage = Storage::find(&root, UserDirs::find().as_ref());
        why.push_str(&format!("\n{}", format_session_list(&storage)));
    }
    OpenError::Usage(why)
}

pub(super) struct TaskInput {
    given: String,
    piped: String,
    /// Standard input whose end did not come yet.
    rest: Option<PipedInput>,
}

impl TaskInput {
    fn read(words: &[String], limit: Option<Duration>) -> Result<Self, String> {
        let mut rest = None;
        let given = words.join(" ");
        let (given, insists) = match given.trim() {
            "-" => ("", true),
            given => (given, false),
        };
        let piped = if insists || given.is_empty() && !std::io::stdin().is_terminal() {
            read_all(&mut std::io::stdin()).map_err(|error| format!("standard input: {error}"))?
        } else if is_stdin_piped() {
            let mut input = PipedInput::read();
            let read = input.wait(limit).transpose()?;
            if read.is_none() {
                agent_ui::print_notice(
                    "standard input does not end: the task begins without it (</dev/null if there is none)",
                );
                rest = Some(input);
            }
            read.unwrap_or_default()
        } else {
            String::new()
        };
        if given.is_empty() && piped.trim().is_empty() {
            return Err("the task is empty: write `agent run \"what to do\"`, or pipe it in".into());
        }
        Ok(Self { given: given.to_owned(), piped: piped.trim_end().to_owned(), rest })
    }

    pub(super) fn to_user_input(
        &self,
        command: impl Fn(&str) -> Result<UserInput, OpenError>,
    ) -> Result<UserInput, OpenError> {
        if self.given.is_empty() {
            return Ok(self.piped.as_str().into());
        }
        let mut input = command(&self.given)?;
        if !self.piped.trim().is_empty() {
            input.text.push_str(BEFORE_PIPED);
            input.push_pasted(&self.piped);
            input.text.push_str(AFTER_PIPED);
            if let Some(prompt) = &mut input.prompt {
                prompt.push_str(&format!("{BEFORE_PIPED}{}{AFTER_PIPED}", self.piped));
            }
        }
        Ok(input)
    }
}

/// A task may begin with a command or a skill: `/name arguments`.
pub(super) fn expand_own_command(
    task: &str,
    root: &Path,
    dirs: Option<&UserDirs>,
    prompts: &Prompts,
) -> Result<UserInput, OpenError> {
    let Some(line) = task.strip_prefix('/') else { return Ok(task.into()) };
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if name.is_empty() || name.contains('/') {
        return Ok(task.into());
    }
    let is_of_chat = |name: &str| tui::find_built_in(name).is_some();
    let (commands, notices) = app::own_commands(root, dirs, prompts, is_of_chat);
    if let Some(command) = CustomCommand::find(&commands, name) {
        return Ok(command.expand_to_message(arguments.trim()));
    }
    // The session asks the server for the text of the prompt. A path is no command.
    if name.starts_with(MCP_PROMPT_PREFIX) || Path::new("/").join(name).exists() {
        return Ok(task.into());
    }
    let hint = if is_of_chat(name) {
        "it is a command of the chat".to_owned()
    } else {
        let names = commands.iter().map(|command| command.name.as_str());
        let hint = match most_similar(name, names) {
            Some(known) => format!("did you mean /{known}?"),
            None => format!("it would be in {AGENT_DIR}/commands/{name}.md"),
        };
        let about = |notice: &&String| notice.contains(name);
        notices.iter().find(about).map_or(hint, Clone::clone)
    };
    Err(OpenError::Usage(format!("there is no command /{name}: {hint}")))
}

/// A pipe, a socket or a file with content; not a terminal or `/dev/null`.
fn is_stdin_piped() -> bool {
    std::fs::metadata("/dev/stdin")
        .map(|metadata| metadata.file_type())
        .is_ok_and(|kind| kind.is_fifo() || kind.is_socket() || kind.is_file())
}

/// Standard input, read by a thread: some programs leave a pipe open without writing to it.
struct PipedInput {
    /// A message for each piece that was read.
    pieces: mpsc::Receiver<()>,
    whole: oneshot::Receiver<std::io::Result<String>>,
}

impl PipedInput {
    fn read() -> Self {
        let (progress, pieces) = mpsc::channel();
        let (sender, whole) = oneshot::channel();
        std::thread::spawn(move || {
            _ = sender.send(read_all(&mut ObservedInput(std::io::stdin(), progress)));
        });
        Self { pieces, whole }
    }

    /// `None` if no byte came for a while before the end, or the end did not come within the limit.
    fn wait(&mut self, limit: Option<Duration>) -> Option<Result<String, String>> {
        let begun = Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            let silence = left.map_or(STDIN_SILENCE, |left| STDIN_SILENCE.min(left));
            if self.pieces.recv_timeout(silence) == Err(RecvTimeoutError::Timeout) {
                return None;
            }
            match self.whole.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {}
                read => return Some(stdin_text(read.ok())),
            }
        }
    }
}

fn stdin_text(read: Option<std::io::Result<String>>) -> Result<String, String> {
    let read = read.unwrap_or_else(|| Err(std::io::Error::other("it cannot be read")));
    read.map_err(|error| format!("standard input: {error}"))
}

struct ObservedInput(std::io::Stdin, mpsc::Sender<()>);

impl Read for ObservedInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        _ = self.1.send(());
        Ok(read)
    }
}

fn read_all(from: &mut dyn Read) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_TEXT {
        return Err(std::io::Error::other(too_long_error("it")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
