//! `agent run`: one task, then exit.

use std::io::{IsTerminal as _, Read, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::message::{MAX_TEXT, too_long};
use super::options::{self, InputFormat, RunArgs};
use super::sdk;
use super::session::list_of_sessions;
use crate::app::{self, OpenError, Options, Session, StateDirs, Storage, Which, Writable};
use crate::config::{AGENT_DIR, UserDirs};
use agent_protocol::control::{Control, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::disk::ResolvedPath;
use agent_protocol::event::Sink;
use agent_protocol::nearest;
use agent_protocol::own_command::{OF_SERVER, OwnCommand};
use agent_protocol::prompt::Prompts;
use agent_ui::{FurtherLines, OutputFormat, Verbosity, tui};

/// How long the exit waits for distillation.
const DISTILLATION: Duration = Duration::from_secs(10);
/// Around piped text that is added to a task.
const BEFORE_PIPED: &str = "\n\n<stdin>\n";
const AFTER_PIPED: &str = "\n</stdin>";
/// Time until a silent pipe next to a task is reported, and until it is an error.
const TELL_AFTER: Duration = Duration::from_secs(1);
const GIVE_UP_AFTER: Duration = Duration::from_secs(59);

pub(super) fn run(args: &RunArgs) -> u8 {
    if args.input_format == InputFormat::StreamJson {
        return sdk::sdk(args);
    }
    // (A list of rules may have taken the task.)
    let checked = which(args).and_then(|_| args.tools.check_rules());
    let asked = checked.map_err(|error| error.to_string()).and_then(|()| Task::read(&args.task));
    let task = match asked {
        Ok(task) => task,
        Err(reason) => {
            agent_ui::tell(&reason);
            return 2;
        }
    };
    let control = Control::default();
    super::block_on(
        async {
            let face = agent_ui::face(args.output_format, verbosity(args), args.further_lines());
            match Box::pin(work(args, task, &control, vec![face])).await {
                Ok(code) => code,
                Err(error) => {
                    let code = error.exit_code();
                    // Every exit except wrong usage ends with a result.
                    if code != 2 {
                        agent_ui::failure(args.output_format, &error.to_string(), code);
                    }
                    agent_ui::tell(&error.to_string());
                    code
                }
            }
        },
        &control,
    )
}

/// The options of a session; `default_mode`: see [`Options`].
pub(super) fn options_of(
    args: &RunArgs,
    default_mode: PermissionMode,
) -> Result<Options, OpenError> {
    let session = which(args)?;
    args.compatible.check()?;
    let FurtherLines { partial_messages, hook_events } = args.further_lines();
    let further = [(partial_messages, "partial-messages"), (hook_events, "hook-events")];
    if let Some((_, name)) = further.iter().find(|(is_wanted, _)| *is_wanted)
        && args.output_format != OutputFormat::StreamJson
    {
        let why = format!("--include-{name} needs --output-format stream-json");
        return Err(OpenError::Usage(why));
    }
    let (root, storage) = options::root_for(args.tools.cwd.as_deref(), args.resume.as_deref())?;
    let dirs = UserDirs::find();
    let config = options::load(&root, dirs.as_ref(), &args.tools, Some(args))?;
    // Nobody may be there to read a warning, and the exit code would say that the checks passed.
    if let (Some(why), true) = (&config.untrusted_checks, args.check.is_empty()) {
        return Err(OpenError::Usage(format!(
            "{AGENT_DIR}/config.toml wants checks to be run, and {why}, or give --check yourself"
        )));
    }
    for warning in &config.warnings {
        agent_ui::tell(warning);
    }
    let of_session = args.tools.of_session(&args.compatible)?;
    Ok(Options {
        storage,
        ephemeral: args.ephemeral,
        append_system_prompt: args.compatible.addition(args.append_system_prompt.as_ref())?,
        answer_schema: answer_schema(args)?,
        default_mode,
        ..of_session.applied_to(Options::new(root, config, session, dirs))
    })
}

async fn work(
    args: &RunArgs,
    task: Task,
    control: &Control,
    faces: Vec<Box<dyn Sink>>,
) -> Result<u8, OpenError> {
    let mut options = options_of(args, PermissionMode::AutoEdit)?;
    args.compatible.no_host()?;
    let (root, prompts) = (&options.root, &options.config.prompts);
    let task = task.input(|given| own_command(given, root, options.dirs.as_ref(), prompts))?;
    // Opened first, so that an error is reported before the task runs.
    let mut output_file = match &args.output_file {
        Some(path) => {
            let own = StateDirs::of(options.dirs.as_ref());
            app::recall(&mut options, &own)?;
            let workspace = app::open_workspace(&options.root, &options.add_dirs, &own)?;
            let writable = Writable::of(&options.config.config, &workspace)?;
            // A command of an earlier run may have created a link or a FIFO in these places.
            let opened = std::env::current_dir().and_then(|here| {
                ResolvedPath::of(&here.join(path), writable.places()).open_to_write()
            });
            Some(opened.map_err(|error| {
                OpenError::Usage(format!("--output-last-message {}: {error}", path.display()))
            })?)
        }
        None => None,
    };
    let mut session = Session::open(options, control.clone(), faces).await?;
    // (A pipe or a terminal has no length.)
    _ = output_file.as_ref().map(|file| file.set_len(0));
    for notice in &session.notices {
        agent_ui::tell(notice);
    }
    let finished = session.run(task).await;
    let mut code = finished.ending.exit_code();
    if let (Some(path), Some(file)) = (&args.output_file, &mut output_file)
        && let Err(error) = file.write_all(finished.result.as_bytes())
    {
        agent_ui::tell(&format!("{}: {error}; the answer was not written there", path.display()));
        code = code.max(1);
    }
    session.finish_distillation(DISTILLATION).await;
    if let Some(running) = session.running() {
        agent_ui::tell(&format!("ended with the run: {running}, which ran in the background"));
    }
    session.close().await;
    Ok(code)
}

fn answer_schema(args: &RunArgs) -> Result<Option<serde_json::Value>, OpenError> {
    let Some(given) = &args.json_schema else { return Ok(None) };
    match options::json_of(given) {
        Ok((schema, _)) => Ok(Some(schema)),
        Err(why) => Err(OpenError::Usage(format!("--json-schema: {why}"))),
    }
}

fn which(args: &RunArgs) -> Result<Which, OpenError> {
    let which = match (args.continue_latest, &args.resume, &args.session_id) {
        (true, ..) if args.fork => Which::Fork(None),
        (true, ..) => Which::Latest,
        (_, Some(id), _) if id.is_empty() => return Err(which_session(args)),
        (_, Some(id), _) if args.fork => Which::Fork(Some(id.clone())),
        (_, Some(id), _) => Which::Resume(id.clone()),
        _ if args.fork => return Err(OpenError::Usage(options::ABOUT_FORK.to_owned())),
        (_, _, Some(id)) => Which::NewWithId(id.clone()),
        _ => Which::New,
    };
    Ok(which)
}

/// `--resume` without an id: lists the sessions.
fn which_session(args: &RunArgs) -> OpenError {
    let mut why =
        "--resume needs the id of a session, or its beginning or end; -c takes the latest"
            .to_owned();
    if std::io::stderr().is_terminal()
        && let Ok(root) = options::root(args.tools.cwd.as_deref())
    {
        let storage = Storage::find(&root, UserDirs::find().as_ref());
        why.push_str(&format!("\n{}", list_of_sessions(&storage)));
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

/// A task from the command line, from standard input, or both.
struct Task {
    given: String,
    piped: String,
}

impl Task {
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
        } else if stdin_is_piped() {
            piped_beside_a_task()?
        } else {
            String::new()
        };
        if given.is_empty() && piped.trim().is_empty() {
            return Err("the task is empty: write `agent run \"what to do\"`, or pipe it in".into());
        }
        Ok(Self { given: given.to_owned(), piped: piped.trim_end().to_owned() })
    }

    /// The message, with the text of the command that it names.
    fn input(
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

/// The message for a task that may begin with a command or a skill: `/name arguments`.
pub(super) fn own_command(
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
    let of_chat = |name: &str| tui::built_in(name).is_some();
    let (commands, notices) = app::own_commands(root, dirs, prompts, of_chat);
    if let Some(command) = OwnCommand::find(&commands, name) {
        return Ok(command.message(arguments.trim()));
    }
    // The session asks the server for its text. A path is no command.
    if name.starts_with(OF_SERVER) || Path::new("/").join(name).exists() {
        return Ok(task.into());
    }
    let hint = if of_chat(name) {
        "it is a command of the chat".to_owned()
    } else {
        let names = commands.iter().map(|command| command.name.as_str());
        let hint = match nearest(name, names) {
            Some(known) => format!("did you mean /{known}?"),
            None => format!("it would be in {AGENT_DIR}/commands/{name}.md"),
        };
        let about = |notice: &&String| notice.contains(name);
        notices.iter().find(about).map_or(hint, Clone::clone)
    };
    Err(OpenError::Usage(format!("there is no command /{name}: {hint}")))
}

/// Standard input is a pipe, a socket or a file with content to read. A terminal or `/dev/null` is not.
fn stdin_is_piped() -> bool {
    std::fs::metadata("/dev/stdin")
        .map(|metadata| metadata.file_type())
        .is_ok_and(|kind| kind.is_fifo() || kind.is_socket() || kind.is_file())
}

/// Reads a pipe that is given in addition to a task. A pipe without data is reported, and then an error: some
/// programs leave a pipe open without writing to it.
fn piped_beside_a_task() -> Result<String, String> {
    enum Got {
        FirstByte,
        All(std::io::Result<String>),
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut first = [0];
        let read = match std::io::stdin().read(&mut first) {
            Ok(0) => Ok(String::new()),
            Ok(_) => {
                _ = sender.send(Got::FirstByte);
                read_all(&mut (&first[..]).chain(std::io::stdin()))
            }
            Err(error) => Err(error),
        };
        _ = sender.send(Got::All(read));
    });
    let mut got = receiver.recv_timeout(TELL_AFTER);
    if matches!(got, Err(RecvTimeoutError::Timeout)) {
        agent_ui::tell(
            "waiting for standard input, which is appended to the task (</dev/null if there is none)",
        );
        got = receiver.recv_timeout(GIVE_UP_AFTER);
    }
    let mut got = got.map_err(|_| {
        "standard input is a pipe that nobody writes to: start with </dev/null if there is none"
            .to_owned()
    })?;
    if matches!(got, Got::FirstByte) {
        got = receiver.recv().map_err(|error| format!("standard input: {error}"))?;
    }
    match got {
        Got::All(read) => read.map_err(|error| format!("standard input: {error}")),
        Got::FirstByte => Ok(String::new()),
    }
}

fn read_all(from: &mut dyn Read) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_TEXT {
        return Err(std::io::Error::other(too_long("it")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
