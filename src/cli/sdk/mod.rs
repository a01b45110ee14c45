//! `--input-format stream-json`: a program drives the session through standard input and output, with the control
//! protocol of the Claude Agent SDK (`docs/INTEGRATION.md`).
//!
//! A thread reads what the program sends. Answers to our requests go from there to whoever asked; everything else goes
//! through one channel to this loop.

mod face;
mod hooks;
mod inbox;
mod input;
mod permission;
mod program;
mod requests;
mod servers;
mod states;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::options::{self, RunArgs};
use super::run;
use super::stdout::Output;
use crate::app::{self, OpenError, Options, Session};
use crate::extend::roles;
use agent_engine::mcp::Scope;
use agent_protocol::control::{Control, Ending, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::event::Sink;
use agent_protocol::own_command::OwnCommand;
use agent_ui::{OutputFormat, StreamJson};
use face::{Face, Sent, SharedKnown, locked};
use inbox::Inbox;
use input::{Input, Message, Request};
use program::Program;
use requests::{Deferred, Desk, answer_to, carry_out};
use servers::Senders;
use states::States;

/// How long the exit waits for distillation: the program waits for the exit.
const DISTILLATION: Duration = Duration::from_secs(1);

/// How long the exit waits for tasks that the program stopped.
const STOPPING: Duration = Duration::from_secs(3);

/// How long a session waits for the MCP servers in the program.
const SETTLING: Duration = Duration::from_secs(10);

pub(super) fn sdk(args: &RunArgs) -> u8 {
    if args.output_format != OutputFormat::StreamJson {
        agent_ui::tell("--input-format stream-json needs --output-format stream-json");
        return 2;
    }
    if !args.task.is_empty() {
        agent_ui::tell("--input-format stream-json takes messages on standard input, not a task");
        return 2;
    }
    let control = Control::default();
    control.accept_denials();
    let is_unattended = args.compatible.is_unattended(&args.tools);
    if args.permission_prompt_tool.is_some() && !is_unattended {
        control.attend();
    }
    let threads = Output::open().and_then(|output| {
        let program = Program::new(output.clone());
        Ok((output, input::read(program.clone())?, program))
    });
    let (output, input, program) = match threads {
        Ok(threads) => threads,
        Err(error) => {
            agent_ui::tell(&format!("no thread could be started: {error}"));
            return 2;
        }
    };
    output.slows(&control);
    let work = async {
        let code = Box::pin(work(args, &control, (&program, input), &output)).await;
        // A program may read slowly. It gets little time when everything ends.
        tokio::select! {
            () = output.written() => {}
            () = async { control.cancel().cancelled().await } => output.finish().await,
        }
        code
    };
    super::block_on(work, &control)
}

async fn work(
    args: &RunArgs,
    control: &Control,
    (program, mut input): (&Program, UnboundedReceiver<Input>),
    output: &Output,
) -> u8 {
    // What the program says first decides how the session is opened.
    let Some(first) = next(&mut input, program, control).await else { return 0 };
    let introduces = match &first {
        Input::Request(Request { id, asked, .. }) if asked["subtype"] == "initialize" => {
            Some((id.clone(), asked.clone()))
        }
        _ => None,
    };
    let introduction = introduces.as_ref().map(|it| &it.1);
    let opened = Box::pin(open(args, introduction, (program, output), control));
    let opened = tokio::select! {
        opened = opened => Some(opened),
        () = async { control.cancel().cancelled().await } => None,
        () = program.gone().cancelled() => None,
    };
    let mut driven = match opened {
        Some(Ok(driven)) => driven,
        Some(Err(error)) => {
            if let Some((id, _)) = &introduces {
                answer_to(program, id, Err(error.to_string()));
            }
            program.send(&agent_ui::failed(&error.to_string(), error.exit_code()));
            agent_ui::tell(&error.to_string());
            return error.exit_code();
        }
        None => return control.interrupted().unwrap_or(Interrupt::User).ending().exit_code(),
    };
    match introduces {
        Some((id, _)) => driven.inbox.desk.answer(&id, Ok(driven.inbox.desk.introduction.clone())),
        None => driven.inbox.waiting.push_back(first),
    }
    let ending = driven.run(&mut input).await;
    Box::pin(driven.close()).await;
    ending.exit_code()
}

/// The next input; `None` at its end, or if the program or this one ends.
async fn next(
    input: &mut UnboundedReceiver<Input>,
    program: &Program,
    control: &Control,
) -> Option<Input> {
    tokio::select! {
        input = input.recv() => input,
        () = program.gone().cancelled() => None,
        () = async { control.cancel().cancelled().await } => None,
    }
}

/// A session that a program drives.
struct Driven {
    session: Session,
    options: Options,
    inbox: Inbox,
    states: States,
    last: Ending,
}

async fn open(
    args: &RunArgs,
    introduction: Option<&Value>,
    (program, output): (&Program, &Output),
    control: &Control,
) -> Result<Driven, OpenError> {
    let mut options = run::options_of(args, PermissionMode::Ask)?;
    introduced(&mut options, introduction)?;
    let config = &options.config.config;
    let patience = agent_protocol::settings::parse_duration(&config.limits.answer_timeout);
    let patience = patience.map_err(OpenError::Usage)?;
    let senders = Senders::default();
    let named = args.compatible.host_servers()?;
    let servers = servers::settings(introduction, &named, patience, program, &senders);
    let host_servers: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    options.host_servers = servers;
    options.hooks = hooks::of(introduction, program)?;
    let known = SharedKnown::default();
    let begun = options.config.config.permissions.mode.unwrap_or(options.default_mode);
    locked(&known).refuses_full = args.compatible.refuses_full(begun);
    let tools = Arc::new(OnceLock::new());
    let lines = StreamJson::for_program(Box::new(output.clone()), Arc::clone(&tools));
    let face = Face {
        lines: lines.with_further_lines(args.further_lines()),
        program: program.clone(),
        control: control.clone(),
        known: Arc::clone(&known),
        root: options.root.clone(),
        patience,
        repeats: args.replay_user_messages,
        asked: HashMap::new(),
    };
    let faces: Vec<Box<dyn Sink>> = vec![Box::new(face)];
    let opening = Box::pin(Session::open(options.clone(), control.clone(), faces));
    let session = tokio::select! {
        opened = opening => opened?,
        never = program.expire() => match never {},
    };
    // (A resumed one begins in the mode in which it ended.)
    locked(&known).refuses_full = args.compatible.refuses_full(session.mode());
    for notice in &session.notices {
        agent_ui::tell(notice);
    }
    let settling = settled(&session, &host_servers);
    tokio::select! {
        _ = tokio::time::timeout(SETTLING, settling) => {}
        never = program.expire() => match never {},
    }
    if let Some(servers) = session.servers() {
        let known = servers.tools(Scope::default());
        _ = tools.set(known.iter().map(|tool| tool.spec().name.to_string()).collect());
    }
    let prompts = &options.config.prompts;
    let (commands, _) = app::own_commands(&options.root, options.dirs.as_ref(), prompts, |_| false);
    let has_hooks = introduction.is_some_and(|it| it["hooks"].is_object());
    let introduction = requests::introduction(&session, &options, &commands, has_hooks);
    let desk = Desk::new(&session, introduction, (program.clone(), Arc::clone(&known)), senders);
    let states = States::wanted(session.id());
    Ok(Driven {
        inbox: Inbox {
            control: control.clone(),
            desk,
            commands,
            known,
            waiting: VecDeque::new(),
            deferred: VecDeque::new(),
        },
        session,
        options,
        states,
        last: Ending::Completed,
    })
}

/// What `initialize` says about the session.
fn introduced(options: &mut Options, introduction: Option<&Value>) -> Result<(), OpenError> {
    let Some(introduction) = introduction else { return Ok(()) };
    if introduction["jsonSchema"].is_object() {
        options.answer_schema = Some(introduction["jsonSchema"].clone());
    }
    if let Some(parts) = introduction["systemPrompt"].as_array() {
        let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
        let own = options::instructions(parts.join("\n\n"));
        let prompts = std::mem::take(&mut options.config.prompts);
        options.config.prompts = prompts.overridden(own).map_err(OpenError::Usage)?;
    }
    if introduction["agents"].is_object() {
        let roles = roles::roles_in_json(&introduction["agents"], "initialize");
        let (roles, unused) = roles.map_err(|why| OpenError::Usage(format!("agents: {why}")))?;
        options.roles.extend(roles);
        if !unused.is_empty() {
            agent_ui::tell(&format!("agents: without effect: {}", unused.join(", ")));
        }
    }
    let more = introduction["appendSystemPrompt"].as_str().filter(|it| !it.is_empty());
    let parts: Vec<&str> =
        options.append_system_prompt.as_deref().into_iter().chain(more).collect();
    options.append_system_prompt = (!parts.is_empty()).then(|| parts.join("\n\n"));
    Ok(())
}

/// Waits for the servers in the program: their tools are those of the first request.
async fn settled(session: &Session, names: &[String]) {
    for name in names {
        if let Some(servers) = session.servers() {
            servers.settled(Some(name)).await;
        }
    }
}

impl Driven {
    /// Works until the program sends nothing any more, or ends.
    async fn run(&mut self, input: &mut UnboundedReceiver<Input>) -> Ending {
        loop {
            while let Some((id, deferred)) = self.inbox.deferred.pop_front() {
                let done = self.carry_out(deferred, input).await;
                self.inbox.desk.answer(&id, done);
            }
            let next = match self.inbox.waiting.pop_front() {
                Some(next) => Some(next),
                None => self.idle(input).await,
            };
            match next {
                Some(Input::Message(message)) => match compaction(&message) {
                    Some(focus) => self.compact(focus.to_owned(), input).await,
                    None => self.turn(vec![message], input).await,
                },
                Some(Input::Refused { why, .. }) => {
                    let refused = agent_ui::refused(self.session.id(), &why);
                    self.inbox.desk.program.send(&locked(&self.inbox.known).with_cost(refused));
                }
                Some(Input::Request(request)) => {
                    let deferred = self.inbox.desk.take(request, false);
                    self.session.mode();
                    self.inbox.deferred.extend(deferred);
                }
                None => {
                    let by = self.session.control().interrupted();
                    return by.map_or(self.last, Interrupt::ending);
                }
            }
        }
    }

    async fn idle(&mut self, input: &mut UnboundedReceiver<Input>) -> Option<Input> {
        let program = self.inbox.desk.program.clone();
        let control = self.session.control().clone();
        tokio::select! {
            next = next(input, &program, &control) => next,
            never = self.session.idle() => match never {},
            never = self.inbox.desk.work() => match never {},
        }
    }

    /// Carries out a request that needs the idle session. An interrupt ends it.
    async fn carry_out(
        &mut self,
        deferred: Deferred,
        input: &mut UnboundedReceiver<Input>,
    ) -> Result<Value, String> {
        let control = self.session.control().clone();
        let known = SharedKnown::clone(&self.inbox.known);
        let carrying = carry_out(&mut self.session, &self.options, &known, deferred);
        let done = self.inbox.until_done(Box::pin(carrying), input, false).await;
        control.begin_turn();
        done
    }

    /// Replaces the older part of the conversation by a summary.
    async fn compact(&mut self, focus: String, input: &mut UnboundedReceiver<Input>) {
        let program = self.inbox.desk.program.clone();
        self.states.tell(&program, "running");
        let done = self.carry_out(Deferred::Compact(focus), input).await;
        let id = self.session.id();
        program.send(&locked(&self.inbox.known).with_cost(match done {
            Ok(Value::Bool(false)) => agent_ui::answered(id, "There is nothing to compact yet."),
            Ok(_) => agent_ui::answered(id, ""),
            Err(why) => agent_ui::refused(id, &why),
        }));
        self.states.tell(&program, "idle");
    }

    /// Works on these messages together, and on those that are sent meanwhile.
    async fn turn(&mut self, mut messages: Vec<Message>, input: &mut UnboundedReceiver<Input>) {
        let control = self.session.control().clone();
        let program = self.inbox.desk.program.clone();
        self.states.tell(&program, "running");
        loop {
            control.begin_turn();
            let inputs: Vec<UserInput> =
                messages.into_iter().map(|message| self.note(message)).collect();
            let message = UserInput::joined(inputs, "\n\n");
            let finished =
                self.inbox.until_done(Box::pin(self.session.run(message)), input, true).await;
            self.last = match finished.ending {
                // It is what the program wanted.
                Ending::Interrupted => Ending::Completed,
                ending => ending,
            };
            // An interrupt ends the turn that runs, not the messages behind it.
            let undelivered = control.take_messages();
            if control.interrupted() == Some(Interrupt::Terminate) || undelivered.is_empty() {
                break;
            }
            messages = undelivered.into_iter().map(Message::again).collect();
        }
        control.begin_turn();
        if !self.inbox.waiting.iter().any(|next| matches!(next, Input::Message(_))) {
            self.states.tell(&program, "idle");
        }
    }

    /// The message for the model; its id is remembered.
    fn note(&self, message: Message) -> UserInput {
        if message.is_again {
            message.input
        } else {
            noted(&self.inbox.known, &self.inbox.commands, message)
        }
    }

    async fn close(mut self) {
        // (A program that closed its input may still read the answers.)
        _ = tokio::time::timeout(STOPPING, self.inbox.desk.stopped()).await;
        self.session.finish_distillation(DISTILLATION).await;
        self.session.close().await;
    }
}

/// What follows the command `/compact`, if the message is that.
fn compaction(message: &Message) -> Option<&str> {
    let input = &message.input;
    let is_plain = input.pasted.is_empty() && input.images.is_empty() && !message.is_again;
    let rest = input.text.trim().strip_prefix("/compact").filter(|_| is_plain)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// The message for the model, with the text of the command that it names; its id is remembered.
fn noted(known: &SharedKnown, commands: &[OwnCommand], message: Message) -> UserInput {
    let Message { input, uuid, content, share, .. } = message;
    locked(known).sent.push_back(Sent { uuid, content, _share: share });
    let line = input.text.strip_prefix('/').filter(|_| input.pasted.is_empty());
    let Some(line) = line else { return input };
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match OwnCommand::find(commands, name) {
        Some(command) => UserInput { images: input.images, ..command.message(arguments.trim()) },
        None => input,
    }
}
