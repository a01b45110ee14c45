//! `agent chat`: connects the chat's screen and a session.

mod background;
mod chat_files;
mod clipboard;
mod jobs;
mod next_step;
pub(super) mod prompt_commands;
mod rules;
mod session_work;
mod start;

use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};

use super::options::{self, RunArgs};
use super::worktree;
use crate::app::{self, OpenError, Options, Session, SessionChoice, UndoOptions};
use crate::config::{LoadedConfig, UserDirs};
use agent_host::workspace::UndoTarget;
use agent_protocol::control::{Interrupt, PermissionMode, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::event::Sink;
use agent_ui::tui::{
    self, Chat, ChatHandle, ChatRequest, ChatUpdate, CommandAction, CommandTiming, DisplayMode,
    Settings, WorkOutcome,
};
pub(super) use chat_files::ChatFiles;
pub(super) use jobs::project_files;
use jobs::{FinishedUserCommand, Jobs};
use next_step::{
    ContinuationSink, NextStep, ended_commands_news, next_step, reopenable_id, rewind_session,
};
use rules::StoredRules;
use session_work::{SessionWork, run_session_work, work_for_command};
use start::welcome_text;
pub(super) use start::{ChatArgs, chat_settings};

pub(super) fn run(args: &RunArgs, is_plain: bool) -> u8 {
    let display_mode = match display_mode(is_plain) {
        Ok(display_mode) => display_mode,
        Err(why) => return super::report_error(&why),
    };
    let control = SessionControl::default();
    if !args.tools.is_unattended_with(&args.compatible) {
        control.enable_user_questions();
    }
    let work = async {
        let mut ended =
            Box::pin(run_chat(args, display_mode, display_mode == DisplayMode::Screen, &control))
                .await;
        if matches!(ended, Err(OpenError::NoModel(_))) && args.resume_id() == Some("") {
            // The chosen session may have a model.
            ended = Box::pin(run_chat(args, display_mode, false, &control)).await;
        }
        if matches!(ended, Err(OpenError::NoModel(_))) {
            agent_ui::print_text(&welcome_text());
            return Ok(2);
        }
        ended
    };
    super::block_on_result(work, &control)
}

/// The error says that there is no terminal.
pub(super) fn display_mode(is_plain: bool) -> Result<DisplayMode, String> {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match (is_plain || tui::is_interactive() && is_dumb, tui::is_interactive()) {
        (true, _) => Ok(DisplayMode::Plain),
        (false, true) => Ok(DisplayMode::Screen),
        (false, false) => Err(
            "the chat needs a terminal: `agent run \"task\"` works on one task without, `agent --plain` \
             chats by plain lines, `agent --help` shows the rest"
                .to_owned(),
        ),
    }
}

pub(super) fn start_screen(settings: Settings, mode: DisplayMode) -> Result<Chat, OpenError> {
    tui::start(settings, mode).map_err(|error| OpenError::Usage(format!("the screen: {error}")))
}

/// For a session that takes no messages: on the screen of a terminal, else as lines.
pub(super) fn start_display(root: &Path, config: &LoadedConfig) -> Result<Chat, OpenError> {
    let places = ChatFiles::new(root, None);
    let settings = chat_settings(&RunArgs::default(), config, &places)?;
    let has_screen =
        tui::is_interactive() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    let display_mode = if has_screen { DisplayMode::Screen } else { DisplayMode::PlainOutput };
    start_screen(settings, display_mode)
}

fn chat_options(args: &RunArgs) -> Result<Options, OpenError> {
    let (root, storage) = options::root_for_session(args.tools.cwd.as_deref(), args.resume_id())?;
    let dirs = UserDirs::find();
    let mut config = options::load_config(&root, dirs.as_ref(), &args.tools, Some(args))?;
    if tui::is_interactive() {
        config.config.use_chat_defaults();
    }
    let session = args.continued.session_choice(SessionChoice::New)?;
    args.to_session_options((root, storage), dirs, config, session, PermissionMode::Ask)
}

async fn run_chat(
    args: &RunArgs,
    display_mode: DisplayMode,
    may_offer: bool,
    control: &SessionControl,
) -> Result<u8, OpenError> {
    args.compatible.foreign.report();
    args.compatible.warn_without_host()?;
    let (args, offers_sessions) = &args.choose_session(may_offer, control).await?;
    let mut options = chat_options(args)?;
    let mut worktree = args.worktree.open(&mut options, &control.cancellation_token()).await?;
    let places = ChatFiles::new(&options.root, options.dirs.as_ref());
    let settings = chat_settings(args, &options.config, &places);
    let settings = settings.map(|it| Settings { offers_sessions: *offers_sessions, ..it });
    let started = settings.and_then(|settings| start_screen(settings, display_mode));
    let mut chat = started.inspect_err(|_| worktree::finish(worktree.take()))?;
    let mut is_first = true;
    // The session continues the conversation on the screen.
    let mut continues = false;
    // Updates for the start of the next session, and the chat's mode; a resumed session keeps its
    // mode.
    let mut begins_with: Vec<ChatUpdate> = Vec::new();
    let mut mode = None;
    let (last, detached) = loop {
        let sink: Box<dyn Sink> = if continues {
            Box::new(ContinuationSink(chat.handle.clone()))
        } else {
            Box::new(chat.handle.clone())
        };
        let mut session = match Box::pin(open_session(&options, control, vec![sink])).await {
            Ok(session) => session,
            Err(error)
                if is_first
                    || options.session == SessionChoice::New
                    || control.interrupt_cause() == Some(Interrupt::Terminate) =>
            {
                // The screen is restored first, so that later output stays visible.
                _ = chat.end();
                worktree::finish(worktree);
                return Err(error);
            }
            Err(error) => {
                control.begin_turn();
                // Without a copy the conversation continues in the session that was to be copied.
                options.session = match &options.session {
                    SessionChoice::Fork(Some(from)) => SessionChoice::Resume(from.clone()),
                    _ => SessionChoice::New,
                };
                if std::mem::replace(&mut continues, options.session != SessionChoice::New)
                    && !continues
                {
                    chat.handle.send(ChatUpdate::NewSession);
                }
                chat.handle.send(ChatUpdate::Note(false, error.to_string()));
                continue;
            }
        };
        is_first = false;
        if let SessionChoice::Fork(from) = &options.session {
            let short = options.session_storage().short_ids();
            let new = short.shorten(session.id());
            let back = from.as_ref().filter(|_| continues).map_or_else(String::new, |from| {
                format!("; /resume {} goes back to the other", short.shorten(from))
            });
            chat.handle
                .send(ChatUpdate::Note(true, format!("this is session {new}, a copy{back}")));
        }
        continues = false;
        if let Some(mode) = mode.filter(|mode| *mode != session.apply_requested_mode()) {
            control.request_mode(mode);
            session.apply_requested_mode();
        }
        for news in begins_with.drain(..) {
            chat.handle.send(news);
        }
        options.config.config.model.clone_from(&session.opened_model);
        let model = session.model().to_owned();
        watch_commands(&session, &chat.handle);
        let mut stored = Vec::new();
        let conversing = run_session_loop(&mut session, &options, &places, &mut chat, &mut stored);
        let next = Box::pin(conversing).await;
        options.config.rules.append(&mut stored);
        // `-c` resumes no session without a message.
        let is_resumable = session.log_path.is_some() && session.has_begun();
        let id = is_resumable.then(|| session.id().to_owned());
        mode = Some(session.apply_requested_mode());
        // The model that the user chose stays.
        if session.model() != model {
            session.model().clone_into(&mut options.config.config.model);
        }
        options.config.config.chosen_effort.clone_from(&session.chosen_effort);
        // A resumed session is displayed first.
        begins_with.extend(session.describe_running().map(|running| ended_commands_news(&running)));
        session.close().await;
        chat.handle.send(ChatUpdate::BackgroundCommands(Vec::new()));
        if let Some(news) = next.news() {
            chat.handle.send(news);
        }
        // In the same conversation, what the user chose since its last answer stays, too.
        options.keeps_model = !matches!(next, NextStep::Open(_));
        match next {
            NextStep::Quit => break (id, None),
            NextStep::Detach(message) => break (id, Some(message)),
            NextStep::Continue(which) => {
                options.session = which;
                continues = true;
                control.begin_turn();
            }
            NextStep::Rewind(id, back) => {
                begins_with.push(match rewind_session(&options, &id, back) {
                    Ok(news) => news,
                    Err(why) => ChatUpdate::Note(false, why),
                });
                options.session = SessionChoice::Resume(id);
                control.begin_turn();
            }
            NextStep::Open(which) => {
                if which == SessionChoice::New {
                    options.storage = None;
                }
                mode = mode.filter(|_| which == SessionChoice::New);
                options.session = which;
                control.begin_turn();
            }
        }
    };
    for news in begins_with {
        chat.handle.send(news);
    }
    let shown = chat.end();
    // A session that goes on needs its copy.
    worktree::finish(worktree.filter(|_| detached.is_none()));
    match (last, detached) {
        (Some(id), Some(message)) => {
            return Ok(continue_in_background(args, &options, &id, message));
        }
        (Some(id), None) if tui::is_interactive() => print_resume_hint(&options, &id),
        _ => {}
    }
    Ok(exit_code(control, shown))
}

fn continue_in_background(args: &RunArgs, options: &Options, id: &str, message: String) -> u8 {
    let arguments = args.continuation(id, &options.config.config.model, message);
    super::background::launch(&arguments, false, true)
}

fn print_resume_hint(options: &Options, id: &str) {
    let id = options.session_storage().short_id(id);
    agent_ui::print_text(&format!(
        "Session {id}: `agent -c` resumes it, later `agent --resume {id}`.\n"
    ));
}

/// Reports the addresses of servers that the session's commands start, and the background commands.
fn watch_commands(session: &Session, handle: &ChatHandle) {
    let (notes, news) = (handle.clone(), handle.clone());
    session.exec().forward_listeners(move |text| notes.send(ChatUpdate::Note(true, text)));
    session.exec().watch_background(move |running| {
        let running = running.into_iter().map(|command| (command.id, command.line));
        news.send(ChatUpdate::BackgroundCommands(running.collect()));
    });
}

pub(super) fn exit_code(control: &SessionControl, shown: std::io::Result<()>) -> u8 {
    let ended = control.interrupt_cause().filter(|by| *by == Interrupt::Terminate);
    match (ended, shown) {
        (Some(by), _) => by.ending().exit_code(),
        (None, Ok(())) => 0,
        (None, Err(error)) => {
            agent_ui::print_notice(&format!("the screen: {error}; the session is saved"));
            1
        }
    }
}

pub(super) async fn open_session(
    options: &Options,
    control: &SessionControl,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Session, OpenError> {
    let opening = Box::pin(Session::open(options.clone(), control.clone(), sinks));
    // The user can cancel waiting for a server that does not respond.
    let cancel = control.cancellation_token();
    match cancel.run_until_cancelled(opening).await {
        Some(opened) => opened,
        None => Err(OpenError::Interrupted(control.interrupt_cause().unwrap_or(Interrupt::User))),
    }
}

async fn run_session_loop(
    session: &mut Session,
    options: &Options,
    places: &ChatFiles,
    chat: &mut Chat,
    stored: &mut StoredRules,
) -> NextStep {
    let handle = chat.handle.clone();
    for notice in &session.notices {
        handle.send(ChatUpdate::Note(false, notice.clone()));
    }
    handle.send(ChatUpdate::EffortChanged(session.effort()));
    let control = session.control().clone();
    let mut jobs = Jobs::new(session, options, places, handle.clone());
    let kinds = [SignalKind::window_change(), SignalKind::from_raw(libc::SIGCONT)];
    let [mut resized, mut continued] = kinds.map(|kind| signal(kind).ok());
    // Commands that the user ran while the model worked, to be shared with the next message.
    let mut ran: Vec<FinishedUserCommand> = Vec::new();
    let mut quits = false;
    let mut detaches: Option<String> = None;
    let mut work: Option<SessionWork> = None;
    loop {
        for done in ran.drain(..) {
            session.share_command(&done.command, &done.output, done.exit_code);
        }
        if quits {
            return NextStep::Quit;
        }
        let Some(next_work) = work.take() else {
            let cancel = control.cancellation_token();
            tokio::select! {
                request = chat.requests.recv() => match request.unwrap_or(ChatRequest::Quit) {
                    ChatRequest::Submit(message) => {
                        handle.send(ChatUpdate::MessagesDelivered(1));
                        work = Some(SessionWork::Turn(message));
                    }
                    ChatRequest::Quit => quits = true,
                    ChatRequest::Interrupt => {
                        std::mem::take(&mut jobs.cancel).cancel();
                        let ended = WorkOutcome::Interrupted;
                        handle.send(ChatUpdate::SessionIdle { outcome: ended, undelivered: Vec::new() });
                    }
                    ChatRequest::SetMode(mode) => {
                        control.request_mode(mode);
                        session.apply_requested_mode();
                    }
                    ChatRequest::RunCommand(CommandAction::Detach, message) => match NextStep::detach(session, message) {
                        Ok(next) => return next,
                        Err((reason, message)) => refuse_detach(&handle, reason, &message),
                    },
                    ChatRequest::RunCommand(action, arguments) => match action.timing(&arguments) {
                        CommandTiming::Immediate => jobs.run_chat_command(action, &arguments),
                        CommandTiming::Idle => {
                            if let Some(news) = run_idle_command(session, options, action, &arguments, stored) {
                                handle.send(news);
                            }
                        }
                        CommandTiming::StartsWork(_) => work = Some(work_for_command(action, arguments)),
                        CommandTiming::OpensSession => match next_step(session, options, action, &arguments) {
                            Ok(next) => return next,
                            Err(reason) => handle.send(ChatUpdate::Note(false, reason)),
                        },
                    },
                    request => jobs.start(request),
                },
                done = jobs.next_finished() => ran.extend(done),
                () = cancel.cancelled() => {
                    // A signal from outside: nothing runs here that it could interrupt.
                    quits = true;
                }
                () = wait_for_signal(&mut resized) => handle.notify_resized(),
                () = wait_for_signal(&mut continued) => handle.notify_resumed(),
                never = session.run_idle_work() => match never {},
            }
            continue;
        };
        control.begin_turn();
        let may_detach = reopenable_id(session);
        let is_done = {
            let working = run_session_work(session, options, &handle, next_work);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    is_done = &mut working => break is_done,
                    request = chat.requests.recv() => match request.unwrap_or(ChatRequest::Quit) {
                        ChatRequest::Submit(message) => control.queue_message(message),
                        ChatRequest::WithdrawMessage => {
                            if let Some(message) = control.withdraw_last_message() {
                                handle.send(ChatUpdate::MessageWithdrawn(message));
                            }
                        }
                        ChatRequest::Interrupt => control.interrupt(Interrupt::User),
                        ChatRequest::AnswerPermission(call, approval) => control.answer_approval(&call, approval),
                        ChatRequest::AnswerQuestions(call, answers) => control.answer_questions(&call, answers),
                        ChatRequest::SetMode(mode) => control.request_mode(mode),
                        ChatRequest::Quit => {
                            control.interrupt(Interrupt::User);
                            quits = true;
                        }
                        ChatRequest::RunCommand(CommandAction::Detach, message) => match &may_detach {
                            Ok(_) => {
                                detaches = Some(message);
                                control.interrupt(Interrupt::User);
                            }
                            Err(reason) => refuse_detach(&handle, reason.clone(), &message),
                        },
                        request => jobs.start(request),
                    },
                    done = jobs.next_finished() => ran.extend(done),
                    () = wait_for_signal(&mut resized) => handle.notify_resized(),
                    () = wait_for_signal(&mut continued) => handle.notify_resumed(),
                }
            }
        };
        handle.send(ChatUpdate::BranchChanged(places.branch()));
        session.model().clone_into(&mut jobs.model);
        let undelivered = control.drain_user_messages();
        let interrupted = control.interrupt_cause();
        quits |= interrupted == Some(Interrupt::Terminate);
        if let Some(message) = detaches.take().filter(|_| !quits) {
            match NextStep::continue_detached(message, &undelivered) {
                Ok(next) => return next,
                Err((why, message)) => refuse_detach(&handle, why, &message),
            }
        }
        // An interrupt of this turn does not affect later ones.
        control.begin_turn();
        if interrupted.is_none() && !undelivered.is_empty() {
            handle.send(ChatUpdate::MessagesDelivered(undelivered.len()));
            work = Some(SessionWork::Turn(UserInput::join(undelivered, "\n\n")));
            continue;
        }
        let finished = if is_done { WorkOutcome::Succeeded } else { WorkOutcome::Failed };
        let outcome = interrupted.map_or(finished, |_| WorkOutcome::Interrupted);
        handle.send(ChatUpdate::SessionIdle { outcome, undelivered });
    }
}

/// The text of the command is given back.
fn refuse_detach(handle: &ChatHandle, why: String, message: &str) {
    handle.send(ChatUpdate::Note(false, why));
    if !message.is_empty() {
        let line = format!("/detach {message}");
        handle.send(ChatUpdate::MessageWithdrawn(line.as_str().into()));
    }
}

fn run_idle_command(
    session: &mut Session,
    options: &Options,
    command: CommandAction,
    arguments: &str,
    stored: &mut StoredRules,
) -> Option<ChatUpdate> {
    match command {
        CommandAction::Permissions => {
            rules::run_permissions_command(session, options, arguments, stored)
        }
        CommandAction::Undo | CommandAction::Redo => {
            let undone = if command == CommandAction::Undo {
                undo(session, arguments)
            } else {
                let force = arguments == "force";
                session.undo(UndoTarget::Redo, UndoOptions { confirmed: force, force, git: true })
            };
            match undone {
                Ok(hint) => hint.map(|hint| ChatUpdate::Note(true, hint)),
                Err(reason) => Some(ChatUpdate::Note(false, reason)),
            }
        }
        CommandAction::Model => {
            let model = session.model();
            let effort = session.effort();
            let effort = effort.map_or_else(String::new, |it| format!(", effort {}", it.as_str()));
            let facts = app::model_facts(&options.config.config, model).describe_briefly();
            let text = format!(
                "the model is {model}{effort} ({facts}); `/model provider/model [effort]` changes it"
            );
            Some(ChatUpdate::Note(true, text))
        }
        CommandAction::Rename => {
            let renamed = session.rename(arguments, &options.session_storage());
            renamed.err().map(|reason| ChatUpdate::Note(false, reason))
        }
        _ => None,
    }
}

pub(super) async fn wait_for_signal(signal: &mut Option<tokio::signal::unix::Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

pub(super) fn undo(session: &mut Session, arguments: &str) -> Result<Option<String>, String> {
    let mut options = UndoOptions::default();
    let mut target = UndoTarget::Latest;
    for word in arguments.split_whitespace() {
        match word {
            "force" => options.force = true,
            "git" => options.git = true,
            turn => {
                let wrong =
                    |_| format!("/undo [TURN] [force] [git]: {turn:?} is not the number of a turn");
                target = UndoTarget::Turn(turn.parse().map_err(wrong)?);
            }
        }
    }
    session.undo(target, options)
}
