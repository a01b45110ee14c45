//! `--input-format stream-json`: a program drives the session through standard input and output, with the control
//! protocol of the Claude Agent SDK (`docs/INTEGRATION.md`).
//!
//! `--background`: the same over a socket, for a program that comes later, or none.
//!
//! A thread reads the input. Answers to our requests go directly to the requests; everything else
//! goes through one channel to this loop.

mod hooks;
mod inbox;
mod input;
pub(super) mod permission;
mod program;
mod program_sink;
mod requests;
mod servers;
mod socket;
mod state_reporter;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::background::leave_terminal;
use super::options::RunArgs;
use super::run::{self, TaskInput};
use super::stdout::{self, Output};
use super::{print_notices, report_error, usage_error, worktree};
use crate::app::{self, BackgroundRecord, OpenError, Options, ProjectCopies, Session, WorkCopy};
use crate::compat;
use agent_engine::mcp::ToolScope;
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::event::Sink;
use agent_ui::{OutputFormat, StreamJson};
use inbox::Inbox;
use input::{ControlRequest, InputReader, ProgramInput, ProgramMessage};
use program::Program;
use program_sink::{EventLines, ProgramSink, SharedStatus};
use requests::{DeferredRequest, RequestHandler, perform_deferred, send_answer};
use servers::ServerSenders;
use state_reporter::StateReporter;

/// How long the exit waits for distillation: the program waits for the exit.
const DISTILLATION_TIMEOUT: Duration = Duration::from_secs(1);

const STOP_TIMEOUT: Duration = Duration::from_secs(3);

const SERVER_START_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(args: &RunArgs) -> u8 {
    if args.output_format != OutputFormat::StreamJson {
        return report_error("--input-format stream-json needs --output-format stream-json");
    }
    if !args.task.is_empty() {
        return report_error(
            "--input-format stream-json takes messages on standard input, not a task",
        );
    }
    let control = SessionControl::default();
    control.accept_denials();
    let is_unattended = args.tools.is_unattended_with(&args.compatible);
    if args.permission_prompt_tool.is_some() && !is_unattended {
        control.enable_user_questions();
    }
    let threads = Output::open().and_then(|output| {
        let program = Program::new(Some(output.clone()));
        Ok((output, input::spawn_reader(program.clone())?, program))
    });
    let Some((output, input, program)) = stdout::report_thread_error(threads) else { return 2 };
    output.pace_models(&control);
    let work = async {
        let start = Start::Driven(&output);
        let code = Box::pin(serve_program(args, &control, (&program, input), start)).await;
        // A program may read slowly. It gets little time when everything ends.
        tokio::select! {
            () = output.wait_until_written() => {}
            () = async { control.cancellation_token().cancelled().await } => output.finish().await,
        }
        code
    };
    super::block_on(work, &control)
}

/// The process that `--background` starts: works on the task, then ends as soon as no program is attached.
pub(super) fn run_in_background(args: &RunArgs, task: TaskInput) -> u8 {
    // (It fails only if this process leads its group already.)
    _ = rustix::process::setsid();
    let control = SessionControl::default();
    if !args.tools.is_unattended_with(&args.compatible) {
        control.enable_user_questions();
    }
    let program = Program::new(None);
    let (reader, input) = InputReader::new(program.clone());
    let work = async {
        let start = Start::Background(task, reader);
        let code = Box::pin(serve_program(args, &control, (&program, input), start)).await;
        program.finish_output().await;
        code
    };
    super::block_on_with(work, &control, true)
}

enum Start<'a> {
    /// A program writes the first message, and reads this.
    Driven(&'a Output),
    Background(TaskInput, InputReader),
}

async fn serve_program(
    args: &RunArgs,
    control: &SessionControl,
    (program, mut input): (&Program, UnboundedReceiver<ProgramInput>),
    start: Start<'_>,
) -> u8 {
    // The first input decides how the session is opened.
    let first = match &start {
        Start::Background(..) => None,
        Start::Driven(_) => match next_input(&mut input, program, control).await {
            None => return 0,
            first => first,
        },
    };
    let introduces = match &first {
        Some(ProgramInput::Request(ControlRequest { id, body, .. }))
            if body["subtype"] == "initialize" =>
        {
            Some((id.clone(), body.clone()))
        }
        _ => None,
    };
    let introduction = introduces.as_ref().map(|(_, body)| body);
    let mut worktree = None;
    // A worktree that is being made is completed before the process ends.
    let options = session_options(args, introduction, &start, control, &mut worktree).await;
    let opened = match options {
        Err(error) => Some(Err(error)),
        Ok(options) => {
            let opened = open_session(args, options, introduction, (program, &start), control);
            let opened = Box::pin(opened);
            tokio::select! {
                opened = opened => Some(opened),
                () = async { control.cancellation_token().cancelled().await } => None,
                () = program.lost().cancelled() => None,
            }
        }
    };
    if !matches!(opened, Some(Ok(_))) {
        worktree::finish(worktree.take());
    }
    let mut driven = match opened {
        Some(Ok(driven)) => driven,
        Some(Err(error)) => {
            if let Some((id, _)) = &introduces {
                send_answer(program, id, Err(error.to_string()));
            }
            program.send(&agent_ui::failed_result(&error.to_string(), error.exit_code()));
            return super::exit_code(Err(error));
        }
        None => return control.interrupt_cause().unwrap_or(Interrupt::User).ending().exit_code(),
    };
    match introduces {
        Some((id, _)) => {
            driven.inbox.handler.answer(&id, Ok(driven.inbox.handler.introduction.clone()));
        }
        None => driven.inbox.queued_input.extend(first),
    }
    let socket = match start {
        Start::Driven(_) => Ok(None),
        Start::Background(_, reader) => driven.open_socket(reader).map(Some),
    };
    let code = match &socket {
        Ok(_) => driven.run(&mut input).await.exit_code(),
        Err(why) => report_error(why),
    };
    if let Ok(Some(record)) = &socket {
        record.remove_socket();
    }
    Box::pin(driven.close()).await;
    worktree::finish(worktree);
    code
}

/// `None` at the end of the input, or if the program or this one ends.
async fn next_input(
    input: &mut UnboundedReceiver<ProgramInput>,
    program: &Program,
    control: &SessionControl,
) -> Option<ProgramInput> {
    tokio::select! {
        biased;
        input = input.recv() => input,
        () = program.lost().cancelled() => None,
        () = program.wait_until_alone() => None,
        () = async { control.cancellation_token().cancelled().await } => None,
    }
}

struct DrivenSession {
    session: Session,
    options: Options,
    inbox: Inbox,
    state_reporter: StateReporter,
    last_ending: Ending,
}

async fn session_options(
    args: &RunArgs,
    introduction: Option<&Value>,
    start: &Start<'_>,
    control: &SessionControl,
    worktree: &mut Option<(ProjectCopies, WorkCopy)>,
) -> Result<Options, OpenError> {
    let is_driven = matches!(start, Start::Driven(_));
    if is_driven && args.worktree.worktree.is_some() || args.attempts.attempts.is_some() {
        let why = "--worktree and --attempts need a task; a program names the directory of its session with -C";
        return Err(usage_error(why));
    }
    let default_mode = if is_driven { PermissionMode::Ask } else { PermissionMode::AutoEdit };
    let mut options = run::session_options(args, default_mode)?;
    apply_introduction(&mut options, introduction)?;
    *worktree = args.worktree.open(&mut options, &control.cancellation_token()).await?;
    Ok(options)
}

async fn open_session(
    args: &RunArgs,
    mut options: Options,
    introduction: Option<&Value>,
    (program, start): (&Program, &Start<'_>),
    control: &SessionControl,
) -> Result<DrivenSession, OpenError> {
    let queued_input = match start {
        Start::Driven(_) => VecDeque::new(),
        Start::Background(task, _) => {
            args.compatible.warn_without_host()?;
            let (root, dirs) = (&options.root, options.dirs.as_ref());
            let prompts = &options.config.prompts;
            let expand = |given: &str| run::expand_own_command(given, root, dirs, prompts);
            let input = task.to_user_input(expand)?;
            let notify = options.config.config.notify.hooks();
            options.config.hooks.extend(notify);
            [ProgramInput::Message(ProgramMessage { input, ..ProgramMessage::default() })].into()
        }
    };
    let config = &options.config.config;
    let answer_timeout = match start {
        Start::Driven(_) => &config.limits.answer_timeout,
        Start::Background(..) => &config.limits.background_answer_timeout,
    };
    let answer_timeout = agent_protocol::settings::parse_duration(answer_timeout);
    let answer_timeout = answer_timeout.map_err(OpenError::Usage)?;
    let senders = ServerSenders::default();
    let named = args.compatible.host_servers()?;
    let servers = servers::server_settings(introduction, &named, answer_timeout, program, &senders);
    let host_servers: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    options.host_servers = servers;
    options.hooks = hooks::program_hooks(introduction, program)?;
    let status = SharedStatus::default();
    let initial_mode = options.config.config.permissions.mode.unwrap_or(options.default_mode);
    if let Some(limit) = args.compatible.mode_limit(initial_mode) {
        control.limit_mode(limit);
    }
    let tools = Arc::new(OnceLock::new());
    let lines: Box<dyn Sink> = match start {
        Start::Driven(output) => {
            let lines = StreamJson::for_program(Box::new((*output).clone()), Arc::clone(&tools));
            Box::new(lines.with_options(args.further_lines()))
        }
        Start::Background(..) => Box::new(EventLines(program.clone())),
    };
    let is_background = matches!(start, Start::Background(..));
    let sink = ProgramSink {
        lines,
        program: program.clone(),
        control: control.clone(),
        status: Arc::clone(&status),
        root: options.root.clone(),
        answer_timeout,
        repeats_messages: args.replay_user_messages,
        open_requests: HashMap::new(),
    };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink)];
    let opening = Box::pin(Session::open(options.clone(), control.clone(), sinks));
    let session = tokio::select! {
        opened = opening => opened?,
        never = program.expire_requests() => match never {},
    };
    print_notices(&session.notices);
    if let Some(servers) = session.servers() {
        // The first request to the model needs the tools of the program's servers.
        let settling = async {
            for name in &host_servers {
                servers.wait_until_ready(Some(name)).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(SERVER_START_TIMEOUT, settling) => {}
            never = program.expire_requests() => match never {},
        }
        let available = servers.tools(ToolScope::default());
        _ = tools.set(available.iter().map(|tool| tool.spec().name.to_string()).collect());
    }
    let prompts = &options.config.prompts;
    let (commands, _) = app::own_commands(&options.root, options.dirs.as_ref(), prompts, |_| false);
    let has_hooks = introduction.is_some_and(|it| it["hooks"].is_object());
    let introduction = requests::initialize_response(&session, &options, &commands, has_hooks);
    let handler = RequestHandler::new(
        &session,
        introduction,
        (program.clone(), Arc::clone(&status)),
        senders,
    );
    let state_reporter = if is_background {
        StateReporter::always(session.id())
    } else {
        StateReporter::from_env(session.id())
    };
    Ok(DrivenSession {
        inbox: Inbox {
            control: control.clone(),
            handler,
            commands,
            status,
            queued_input,
            deferred: VecDeque::new(),
        },
        state_reporter,
        session,
        options,
        last_ending: Ending::Completed,
    })
}

fn apply_introduction(
    options: &mut Options,
    introduction: Option<&Value>,
) -> Result<(), OpenError> {
    let Some(introduction) = introduction else { return Ok(()) };
    if introduction["jsonSchema"].is_object() {
        options.answer_schema = Some(introduction["jsonSchema"].clone());
    }
    if let Some(parts) = introduction["systemPrompt"].as_array() {
        let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
        let own = compat::system_prompt_overrides(parts.join("\n\n"));
        let prompts = std::mem::take(&mut options.config.prompts);
        options.config.prompts = prompts.with_overrides(own).map_err(OpenError::Usage)?;
    }
    if introduction["agents"].is_object() {
        let roles = compat::parse_roles(&introduction["agents"], "agents", "initialize")?;
        options.roles.extend(roles);
    }
    let more = introduction["appendSystemPrompt"].as_str().filter(|it| !it.is_empty());
    let parts: Vec<&str> =
        options.append_system_prompt.as_deref().into_iter().chain(more).collect();
    options.append_system_prompt = (!parts.is_empty()).then(|| parts.join("\n\n"));
    Ok(())
}

impl DrivenSession {
    /// Prints the session's id, and leaves the terminal.
    fn open_socket(&self, reader: InputReader) -> Result<BackgroundRecord, String> {
        let log = self.session.log_path.as_ref().ok_or("this session cannot be recorded, and so not be found: set XDG_STATE_HOME to a directory that can be written")?;
        let directory = log.parent().unwrap_or(log);
        let opened = || {
            let (listener, record) =
                BackgroundRecord::create(directory, self.options.dirs.as_ref())?;
            socket::listen(listener, record.clone(), reader)?;
            leave_terminal(directory, self.session.id())?;
            io::Result::Ok(record)
        };
        opened().map_err(|error| format!("the socket of the session: {error}"))
    }

    async fn run(&mut self, input: &mut UnboundedReceiver<ProgramInput>) -> Ending {
        loop {
            while let Some((id, deferred)) = self.inbox.deferred.pop_front() {
                let done = self.run_deferred(deferred, input).await;
                self.inbox.handler.answer(&id, done);
            }
            let next = match self.inbox.queued_input.pop_front() {
                Some(next) => Some(next),
                None => self.wait_for_input(input).await,
            };
            match next {
                Some(ProgramInput::Message(message)) => match compact_focus(&message) {
                    Some(focus) => self.compact(focus.to_owned(), input).await,
                    None => self.run_turn(vec![message], input).await,
                },
                Some(ProgramInput::Refused { why, .. }) => {
                    let refused = agent_ui::refused_result(self.session.id(), &why);
                    self.inbox.handler.program.send(&self.inbox.status.lock().with_cost(refused));
                }
                Some(ProgramInput::Request(request)) => {
                    let deferred = self.inbox.handler.handle(request, false);
                    self.session.apply_requested_mode();
                    self.inbox.deferred.extend(deferred);
                }
                None => {
                    let by = self.session.control().interrupt_cause();
                    return by.map_or(self.last_ending, Interrupt::ending);
                }
            }
        }
    }

    async fn wait_for_input(
        &mut self,
        input: &mut UnboundedReceiver<ProgramInput>,
    ) -> Option<ProgramInput> {
        let program = self.inbox.handler.program.clone();
        let control = self.session.control().clone();
        tokio::select! {
            next = next_input(input, &program, &control) => next,
            never = self.session.run_idle_work() => match never {},
            never = self.inbox.handler.run() => match never {},
        }
    }

    /// The request needs the idle session. An interrupt ends it.
    async fn run_deferred(
        &mut self,
        deferred: DeferredRequest,
        input: &mut UnboundedReceiver<ProgramInput>,
    ) -> Result<Value, String> {
        let control = self.session.control().clone();
        let status = SharedStatus::clone(&self.inbox.status);
        let carrying = perform_deferred(&mut self.session, &self.options, &status, deferred);
        let done = self.inbox.run_until_done(Box::pin(carrying), input, false).await;
        control.begin_turn();
        done
    }

    async fn compact(&mut self, focus: String, input: &mut UnboundedReceiver<ProgramInput>) {
        let program = self.inbox.handler.program.clone();
        self.state_reporter.report(&program, "running");
        let done = self.run_deferred(DeferredRequest::Compact(focus), input).await;
        let id = self.session.id();
        program.send(&self.inbox.status.lock().with_cost(match done {
            Ok(Value::Bool(false)) => {
                agent_ui::command_result(id, "There is nothing to compact yet.")
            }
            Ok(_) => agent_ui::command_result(id, ""),
            Err(why) => agent_ui::refused_result(id, &why),
        }));
        self.state_reporter.report(&program, "idle");
    }

    /// Includes messages that are sent meanwhile.
    async fn run_turn(
        &mut self,
        mut messages: Vec<ProgramMessage>,
        input: &mut UnboundedReceiver<ProgramInput>,
    ) {
        let control = self.session.control().clone();
        let program = self.inbox.handler.program.clone();
        self.state_reporter.report(&program, "running");
        loop {
            control.begin_turn();
            let inputs = messages.into_iter().map(|message| self.inbox.register_message(message));
            let message = UserInput::join(inputs.collect(), "\n\n");
            let finished =
                self.inbox.run_until_done(Box::pin(self.session.run(message)), input, true).await;
            self.last_ending = match finished.ending {
                // The program requested the interrupt.
                Ending::Interrupted => Ending::Completed,
                ending => ending,
            };
            // An interrupt ends the turn that runs, not the messages behind it.
            let undelivered = control.drain_user_messages();
            if control.interrupt_cause() == Some(Interrupt::Terminate) || undelivered.is_empty() {
                break;
            }
            messages = undelivered
                .into_iter()
                .map(|input| ProgramMessage {
                    input,
                    is_redelivered: true,
                    ..ProgramMessage::default()
                })
                .collect();
        }
        control.begin_turn();
        if !self.inbox.queued_input.iter().any(|next| matches!(next, ProgramInput::Message(_))) {
            self.state_reporter.report(&program, "idle");
        }
    }

    async fn close(mut self) {
        // A program that closed its input may still read the answers.
        _ = tokio::time::timeout(STOP_TIMEOUT, self.inbox.handler.finish_stops()).await;
        self.session.finish_distillation(DISTILLATION_TIMEOUT).await;
        self.session.close().await;
    }
}

fn compact_focus(message: &ProgramMessage) -> Option<&str> {
    let input = &message.input;
    let is_plain = input.pasted.is_empty() && input.images.is_empty() && !message.is_redelivered;
    let rest = input.text.trim().strip_prefix("/compact").filter(|_| is_plain)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}
