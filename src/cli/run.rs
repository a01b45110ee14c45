//! `agent run`: one task, then exit.

use std::io::{IsTerminal as _, Read, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::options::{self, InputFormat, RunArgs};
use super::sdk;
use super::session::format_session_list;
use super::user_message::{MAX_TEXT, too_long_error};
use crate::app::{
    self, OpenError, Options, Session, SessionChoice, StateDirs, Storage, WritableDirs,
};
use crate::compat;
use crate::config::{AGENT_DIR, UserDirs};
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::custom_command::{CustomCommand, MCP_PROMPT_PREFIX};
use agent_protocol::directives::UserInput;
use agent_protocol::disk::ResolvedPath;
use agent_protocol::event::Sink;
use agent_protocol::most_similar;
use agent_protocol::prompt::Prompts;
use agent_ui::{OutputFormat, StreamJsonOptions, Verbosity, tui};

const DISTILLATION_TIMEOUT: Duration = Duration::from_secs(10);
const BEFORE_PIPED: &str = "\n\n<stdin>\n";
const AFTER_PIPED: &str = "\n</stdin>";
/// Time until a silent pipe next to a task is reported, and until it is an error.
const STDIN_NOTICE_DELAY: Duration = Duration::from_secs(1);
const STDIN_TIMEOUT: Duration = Duration::from_secs(59);

pub(super) fn run(args: &RunArgs) -> u8 {
    if args.input_format == InputFormat::StreamJson {
        return sdk::run(args);
    }
    // A list of rules may have taken the task.
    let checked = session_choice(args).and_then(|_| args.tools.rules.unknown_tool_warnings());
    let input =
        checked.map_err(|error| error.to_string()).and_then(|_| TaskInput::read(&args.task));
    let task = match input {
        Ok(task) => task,
        Err(reason) => {
            agent_ui::print_notice(&reason);
            return 2;
        }
    };
    let control = SessionControl::default();
    super::block_on(
        async {
            let sink = agent_ui::sink_for_format(
                args.output_format,
                verbosity(args),
                args.further_lines(),
            );
            match Box::pin(run_task(args, task, &control, vec![sink])).await {
                Ok(code) => code,
                Err(error) => {
                    let code = error.exit_code();
                    // Every exit except wrong usage ends with a result.
                    if code != 2 {
                        agent_ui::print_failure(args.output_format, &error.to_string(), code);
                    }
                    agent_ui::print_notice(&error.to_string());
                    code
                }
            }
        },
        &control,
    )
}

pub(super) fn session_options(
    args: &RunArgs,
    default_mode: PermissionMode,
) -> Result<Options, OpenError> {
    let session = session_choice(args)?;
    args.compatible.check_supported()?;
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
    for warning in &config.warnings {
        agent_ui::print_notice(warning);
    }
    let options = Options::new(root, config, session, dirs);
    let options = args.tools.apply_to(options, &args.compatible)?;
    Ok(Options {
        storage,
        ephemeral: args.ephemeral,
        append_system_prompt: args
            .compatible
            .system_prompt_addition(args.append_system_prompt.as_ref())?,
        answer_schema: answer_schema(args)?,
        default_mode,
        ..options
    })
}

async fn run_task(
    args: &RunArgs,
    task: TaskInput,
    control: &SessionControl,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<u8, OpenError> {
    let mut options = session_options(args, PermissionMode::AutoEdit)?;
    args.compatible.warn_without_host()?;
    let (root, prompts) = (&options.root, &options.config.prompts);
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
    for notice in &session.notices {
        agent_ui::print_notice(notice);
    }
    let finished = session.run(task).await;
    let mut code = finished.ending.exit_code();
    if let (Some(path), Some(file)) = (&args.output_file, &mut output_file)
        && let Err(error) = file.write_all(finished.result.as_bytes())
    {
        agent_ui::print_notice(&format!(
            "{}: {error}; the answer was not written there",
            path.display()
        ));
        code = code.max(1);
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

fn answer_schema(args: &RunArgs) -> Result<Option<serde_json::Value>, OpenError> {
    let Some(given) = &args.json_schema else { return Ok(None) };
    match compat::read_json(given) {
        Ok((schema, _)) => Ok(Some(schema)),
        Err(why) => Err(OpenError::Usage(format!("--json-schema: {why}"))),
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

fn verbosity(args: &RunArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Progress,
    }
}

struct TaskInput {
    given: String,
    piped: String,
}

impl TaskInput {
    fn read(words: &[String]) -> Result<Self, String> {
        let given = words.join(" ");
        let (given, insists) = match given.trim() {
            "-" => ("", true),
            given => (given, false),
        };
        let piped = if insists || given.is_empty() {
            if std::io::stdin().is_terminal() && !insists {
                String::new()
            } else {
                read_all(&mut std::io::stdin())
                    .map_err(|error| format!("standard input: {error}"))?
            }
        } else if is_stdin_piped() {
            read_piped_input()?
        } else {
            String::new()
        };
        if given.is_empty() && piped.trim().is_empty() {
            return Err("the task is empty: write `agent run \"what to do\"`, or pipe it in".into());
        }
        Ok(Self { given: given.to_owned(), piped: piped.trim_end().to_owned() })
    }

    fn to_user_input(
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

/// A pipe without data is reported, and then an error: some programs leave a pipe open without
/// writing to it.
fn read_piped_input() -> Result<String, String> {
    enum PipeRead {
        FirstByte,
        All(std::io::Result<String>),
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut first = [0];
        let read = match std::io::stdin().read(&mut first) {
            Ok(0) => Ok(String::new()),
            Ok(_) => {
                _ = sender.send(PipeRead::FirstByte);
                read_all(&mut (&first[..]).chain(std::io::stdin()))
            }
            Err(error) => Err(error),
        };
        _ = sender.send(PipeRead::All(read));
    });
    let mut got = receiver.recv_timeout(STDIN_NOTICE_DELAY);
    if matches!(got, Err(RecvTimeoutError::Timeout)) {
        agent_ui::print_notice(
            "waiting for standard input, which is appended to the task (</dev/null if there is none)",
        );
        got = receiver.recv_timeout(STDIN_TIMEOUT);
    }
    let mut got = got.map_err(|_| {
        "standard input is a pipe that nobody writes to: start with </dev/null if there is none"
            .to_owned()
    })?;
    if matches!(got, PipeRead::FirstByte) {
        got = receiver.recv().map_err(|error| format!("standard input: {error}"))?;
    }
    match got {
        PipeRead::All(read) => read.map_err(|error| format!("standard input: {error}")),
        PipeRead::FirstByte => Ok(String::new()),
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
