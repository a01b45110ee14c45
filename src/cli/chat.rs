//! `agent chat`: connects the chat's screen and a session.

mod background;
mod clipboard;
mod jobs;
mod next;
mod places;
mod rules;
mod start;
pub(super) mod tasks;
mod work;

use std::path::{Path, PathBuf};

use tokio::signal::unix::{SignalKind, signal};

use super::options;
use super::session;
use crate::app::{OpenError, Options, Session, Storage, UndoOptions, Which};
use crate::config::{Loaded, UserDirs};
use agent_host::workspace::Undo;
use agent_protocol::control::{Control, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::event::Sink;
use agent_ui::tui::{
    self, Arrangement, Chat, CommandAction, Ended, Handle, News, PagePlace, Request, Settings,
    Timing,
};
use jobs::{Jobs, Ran};
use next::{Continued, Next, ended_with_session, next, rewind};
use places::Places;
use rules::StoredRules;
pub(super) use start::ChatArgs;
use start::{settings, welcome};
use work::{Work, do_work, work_of};

pub(super) fn chat(args: &ChatArgs) -> u8 {
    let term = std::env::var("TERM").unwrap_or_default();
    let is_plain = args.plain || tui::is_here() && matches!(term.as_str(), "dumb");
    if !is_plain && !tui::is_here() {
        agent_ui::tell(
            "the chat needs a terminal: `agent run \"task\"` works on one task without, `agent --plain` \
             chats by plain lines, `agent --help` shows the rest",
        );
        return 2;
    }
    let control = Control::default();
    if !args.compatible.is_unattended(&args.tools) {
        control.attend();
    }
    super::block_on(
        async {
            let mut ended = Box::pin(work(args, is_plain, !is_plain, &control)).await;
            if matches!(ended, Err(OpenError::NoModel(_))) && args.resumed() == Some("") {
                // The session that is chosen may have a model.
                ended = Box::pin(work(args, is_plain, false, &control)).await;
            }
            match ended {
                Ok(code) => code,
                Err(OpenError::NoModel(_)) => {
                    agent_ui::print(&welcome());
                    2
                }
                Err(error) => {
                    agent_ui::tell(&error.to_string());
                    error.exit_code()
                }
            }
        },
        &control,
    )
}

/// Starts the chat's display for a session that takes no messages: on the screen of a terminal, else as lines.
pub(super) fn display(root: &Path, config: &Loaded) -> Result<Chat, OpenError> {
    let places = Places::new(root, None);
    let settings = settings(&ChatArgs::default(), config, &places)?;
    let has_screen = tui::is_here() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    let arrangement = if has_screen { Arrangement::Screen } else { Arrangement::Shown };
    tui::start(settings, arrangement).map_err(|error| not_started(&error))
}

fn not_started(error: &std::io::Error) -> OpenError {
    OpenError::Usage(format!("the screen: {error}"))
}

async fn work(
    args: &ChatArgs,
    is_plain: bool,
    may_offer: bool,
    control: &Control,
) -> Result<u8, OpenError> {
    args.compatible.check()?;
    args.compatible.no_host()?;
    let (args, offers_sessions) = &args.with_session(may_offer, control).await?;
    let (root, storage) = options::root_for(args.tools.cwd.as_deref(), args.resumed())?;
    let dirs = UserDirs::find();
    let mut config = options::load(&root, dirs.as_ref(), &args.tools, Some(&args.as_run()))?;
    if tui::is_here() {
        config.config.use_chat_defaults();
    }
    let places = Places::new(&root, dirs.as_ref());
    let settings =
        Settings { offers_sessions: *offers_sessions, ..settings(args, &config, &places)? };
    let arrangement = if is_plain { Arrangement::Plain } else { Arrangement::Screen };
    let mut options = session_options(args, (root, storage), config, dirs)?;
    let mut chat = tui::start(settings, arrangement).map_err(|error| not_started(&error))?;
    let mut is_first = true;
    // The session continues the conversation on the screen.
    let mut continues = false;
    // What the user learns when the next session is open, and the chat's mode; a resumed session keeps its own
    // mode.
    let mut begins_with: Vec<News> = Vec::new();
    let mut mode = None;
    let last = loop {
        let face: Box<dyn Sink> = if continues {
            Box::new(Continued(chat.handle.clone()))
        } else {
            Box::new(chat.handle.clone())
        };
        let faces = vec![face];
        let mut session = match Box::pin(open(&options, control, faces)).await {
            Ok(session) => session,
            Err(error)
                if is_first
                    || options.session == Which::New
                    || control.interrupted() == Some(Interrupt::Terminate) =>
            {
                // The screen is restored first, so that later output stays visible.
                _ = chat.end();
                return Err(error);
            }
            Err(error) => {
                control.begin_turn();
                // Without a copy the conversation continues in the session that was to be copied.
                options.session = match &options.session {
                    Which::Fork(Some(from)) => Which::Resume(from.clone()),
                    _ => Which::New,
                };
                if std::mem::replace(&mut continues, options.session != Which::New) && !continues {
                    chat.handle.tell(News::NewSession);
                }
                chat.handle.tell(News::Note(false, error.to_string()));
                continue;
            }
        };
        is_first = false;
        if let Which::Fork(from) = &options.session {
            let short = options.recorded().short_ids();
            let new = short.of(session.id());
            let back = from.as_ref().filter(|_| continues).map_or_else(String::new, |from| {
                format!("; /resume {} goes back to the other", short.of(from))
            });
            chat.handle.tell(News::Note(true, format!("this is session {new}, a copy{back}")));
        }
        continues = false;
        if let Some(mode) = mode.filter(|mode| *mode != session.mode()) {
            control.want_mode(mode);
            session.mode();
        }
        for news in begins_with.drain(..) {
            chat.handle.tell(news);
        }
        options.config.config.model.clone_from(&session.opened_model);
        let model = session.model().to_owned();
        watch_commands(&session, &chat.handle);
        let mut stored = Vec::new();
        let conversing = converse(&mut session, &options, &places, &mut chat, &mut stored);
        let next = Box::pin(conversing).await;
        options.config.rules.append(&mut stored);
        // (`-c` resumes no session without a message.)
        let is_resumable = session.log_path.is_some() && session.has_begun();
        let id = is_resumable.then(|| session.id().to_owned());
        mode = Some(session.mode());
        // The model that the user chose stays.
        if session.model() != model {
            session.model().clone_into(&mut options.config.config.model);
        }
        options.config.config.chosen_effort.clone_from(&session.chosen_effort);
        // A resumed session is displayed first.
        begins_with.extend(session.running().map(|running| ended_with_session(&running)));
        session.close().await;
        chat.handle.tell(News::Background(Vec::new()));
        if let Some(news) = next.news() {
            chat.handle.tell(news);
        }
        // In the same conversation, what the user chose since its last answer stays, too.
        options.keeps_model = !matches!(next, Next::Open(_));
        match next {
            Next::Quit => break id,
            Next::Continue(which) => {
                options.session = which;
                continues = true;
                control.begin_turn();
            }
            Next::Rewind(id, back) => {
                begins_with.push(match rewind(&options, &id, back) {
                    Ok(news) => news,
                    Err(why) => News::Note(false, why),
                });
                options.session = Which::Resume(id);
                control.begin_turn();
            }
            Next::Open(which) => {
                if which == Which::New {
                    options.storage = None;
                }
                mode = mode.filter(|_| which == Which::New);
                options.session = which;
                control.begin_turn();
            }
        }
    };
    for news in begins_with {
        chat.handle.tell(news);
    }
    let shown = chat.end();
    if let Some(id) = last.filter(|_| tui::is_here()) {
        let id = options.recorded().short(&id);
        agent_ui::print(&format!(
            "Session {id}: `agent -c` resumes it, later `agent --resume {id}`.\n"
        ));
    }
    Ok(exit_code(control, shown))
}

/// The options of the first session.
fn session_options(
    args: &ChatArgs,
    (root, storage): (PathBuf, Option<Storage>),
    config: Loaded,
    dirs: Option<UserDirs>,
) -> Result<Options, OpenError> {
    let of_session = args.tools.of_session(&args.compatible)?;
    Ok(Options {
        storage,
        ephemeral: args.ephemeral,
        append_system_prompt: args.compatible.addition(args.append_system_prompt.as_ref())?,
        default_mode: PermissionMode::Ask,
        ..of_session.applied_to(Options::new(root, config, args.which()?, dirs))
    })
}

/// Tells the addresses of servers that the session's commands start, and which commands run in the background.
fn watch_commands(session: &Session, handle: &Handle) {
    let (notes, news) = (handle.clone(), handle.clone());
    session.exec().forward_listeners(move |text| notes.tell(News::Note(true, text)));
    session.exec().watch_background(move |running| {
        let running = running.into_iter().map(|command| (command.id, command.line));
        news.tell(News::Background(running.collect()));
    });
}

/// The exit code of the chat, whose screen ended like this.
fn exit_code(control: &Control, shown: std::io::Result<()>) -> u8 {
    let ended = control.interrupted().filter(|by| *by == Interrupt::Terminate);
    match (ended, shown) {
        (Some(by), _) => by.ending().exit_code(),
        (None, Ok(())) => 0,
        (None, Err(error)) => {
            agent_ui::tell(&format!("the screen: {error}; the session is saved"));
            1
        }
    }
}

/// Opens a session with these options.
pub(super) async fn open(
    options: &Options,
    control: &Control,
    faces: Vec<Box<dyn Sink>>,
) -> Result<Session, OpenError> {
    let opening = Box::pin(Session::open(options.clone(), control.clone(), faces));
    // The user can cancel waiting for a server that does not respond.
    let cancel = control.cancel();
    match cancel.run_until_cancelled(opening).await {
        Some(opened) => opened,
        None => Err(OpenError::Interrupted(control.interrupted().unwrap_or(Interrupt::User))),
    }
}

/// Passes requests and news between the user and the session, until the session changes or the chat ends.
async fn converse(
    session: &mut Session,
    options: &Options,
    places: &Places,
    chat: &mut Chat,
    stored: &mut StoredRules,
) -> Next {
    let handle = chat.handle.clone();
    for notice in &session.notices {
        handle.tell(News::Note(false, notice.clone()));
    }
    handle.tell(News::Effort(session.effort()));
    let control = session.control().clone();
    let mut jobs = Jobs::new(session, options, places, handle.clone());
    let kinds = [SignalKind::window_change(), SignalKind::from_raw(libc::SIGCONT)];
    let [mut resized, mut continued] = kinds.map(|kind| signal(kind).ok());
    // Commands that the user ran while the model worked, to be shared with the next message.
    let mut ran: Vec<Ran> = Vec::new();
    let mut quits = false;
    let mut work: Option<Work> = None;
    loop {
        for done in ran.drain(..) {
            session.share(&done.command, &done.output, done.exit_code);
        }
        if quits {
            return Next::Quit;
        }
        let Some(what) = work.take() else {
            let cancel = control.cancel();
            tokio::select! {
                request = chat.requests.recv() => match request.unwrap_or(Request::Quit) {
                    Request::Submit(message) => {
                        handle.tell(News::Delivered(1));
                        work = Some(Work::Turn(message));
                    }
                    Request::Quit => quits = true,
                    Request::Interrupt => {
                        jobs.stop();
                        let ended = Ended::Interrupted;
                        handle.tell(News::Idle { ended, undelivered: Vec::new() });
                    }
                    Request::Mode(mode) => {
                        control.want_mode(mode);
                        session.mode();
                    }
                    Request::Connect => jobs.connect(session.connect()),
                    Request::Command(action, arguments) => match action.timing(&arguments) {
                        Timing::AtOnce => jobs.command(action, &arguments),
                        Timing::Idle => {
                            if let Some(news) = instruct(session, options, action, &arguments, stored) {
                                handle.tell(news);
                            }
                        }
                        Timing::Works(_) => work = Some(work_of(action, arguments)),
                        Timing::Opens => match next(session, options, action, &arguments) {
                            Ok(next) => return next,
                            Err(reason) => handle.tell(News::Note(false, reason)),
                        },
                    },
                    request => jobs.begin(request),
                },
                done = jobs.next() => ran.extend(done),
                () = cancel.cancelled() => {
                    // From outside: there is nothing to interrupt here.
                    quits = true;
                }
                () = signalled(&mut resized) => handle.resized(),
                () = signalled(&mut continued) => handle.continued(),
                never = session.idle() => match never {},
            }
            continue;
        };
        control.begin_turn();
        let is_done = {
            let working = do_work(session, options, &handle, what);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    is_done = &mut working => break is_done,
                    request = chat.requests.recv() => match request.unwrap_or(Request::Quit) {
                        Request::Submit(message) => control.steer(message),
                        Request::TakeBack => {
                            if let Some(message) = control.take_back() {
                                handle.tell(News::TakenBack(message));
                            }
                        }
                        Request::Interrupt => control.interrupt(Interrupt::User),
                        Request::Answer(call, approval) => control.answer(&call, approval),
                        Request::Tell(call, answers) => control.tell(&call, answers),
                        Request::Mode(mode) => control.want_mode(mode),
                        Request::Quit => {
                            control.interrupt(Interrupt::User);
                            quits = true;
                        }
                        request => jobs.begin(request),
                    },
                    done = jobs.next() => ran.extend(done),
                    () = signalled(&mut resized) => handle.resized(),
                    () = signalled(&mut continued) => handle.continued(),
                }
            }
        };
        handle.tell(News::Branch(places.branch()));
        session.model().clone_into(&mut jobs.model);
        let undelivered = control.take_messages();
        let interrupted = control.interrupted();
        quits |= interrupted == Some(Interrupt::Terminate);
        // An interrupt of this turn does not affect later ones.
        control.begin_turn();
        if interrupted.is_none() && !undelivered.is_empty() {
            handle.tell(News::Delivered(undelivered.len()));
            work = Some(Work::Turn(UserInput::joined(undelivered, "\n\n")));
            continue;
        }
        let ended = match (interrupted, is_done) {
            (Some(_), _) => Ended::Interrupted,
            (None, true) => Ended::Well,
            (None, false) => Ended::Failed,
        };
        handle.tell(News::Idle { ended, undelivered });
    }
}

/// Runs a command that needs the idle session; returns the text to show, if any.
fn instruct(
    session: &mut Session,
    options: &Options,
    command: CommandAction,
    arguments: &str,
    stored: &mut StoredRules,
) -> Option<News> {
    let failure = match command {
        CommandAction::Pins => {
            let (title, text) = ("Pins".to_owned(), pins(session));
            return Some(News::Page { title, text, place: PagePlace::Conversation });
        }
        CommandAction::Permissions => {
            return rules::permissions(session, options, arguments, stored);
        }
        CommandAction::Undo | CommandAction::Redo => {
            let undone = if command == CommandAction::Undo {
                undo(session, arguments)
            } else {
                let force = arguments == "force";
                session.undo(Undo::Redo, UndoOptions { confirmed: force, force, git: true })
            };
            return undone.err().map(|reason| News::Note(false, reason));
        }
        CommandAction::Model => {
            let model = session.model();
            let effort = session.effort();
            let effort = effort.map_or_else(String::new, |it| format!(", effort {}", it.as_str()));
            let text = format!(
                "the model is {model}{effort}; `/model provider/model [effort]` changes it"
            );
            return Some(News::Note(true, text));
        }
        CommandAction::Rename => {
            let renamed = session.rename(arguments, &options.recorded());
            return renamed.err().map(|reason| News::Note(false, reason));
        }
        CommandAction::Pin => {
            let is_new = session.pin(arguments).is_some();
            (!is_new).then_some("Say what to pin: a sentence that is not pinned yet.")
        }
        CommandAction::Unpin => {
            let is_removed = arguments.parse().is_ok_and(|id| session.unpin(id));
            (!is_removed).then_some("There is no such pin. /pins lists them with their numbers.")
        }
        _ => None,
    };
    failure.map(|text| News::Note(false, text.to_owned()))
}

async fn signalled(signal: &mut Option<tokio::signal::unix::Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

/// The pins, one per line.
fn pins(session: &Session) -> String {
    let pins = session.pins().iter().map(|pin| format!("{:>3}  {}\n", pin.id, pin.text));
    let pins: String = pins.collect();
    if pins.is_empty() { "there are no pins; /pin TEXT adds one\n".to_owned() } else { pins }
}

fn undo(session: &mut Session, arguments: &str) -> Result<(), String> {
    let mut options = UndoOptions::default();
    let mut what = Undo::Latest;
    for word in arguments.split_whitespace() {
        match word {
            "force" => options.force = true,
            "git" => options.git = true,
            turn => {
                let wrong =
                    |_| format!("/undo [TURN] [force] [git]: {turn:?} is not the number of a turn");
                what = Undo::Turn(turn.parse().map_err(wrong)?);
            }
        }
    }
    session.undo(what, options)
}

/// A session's timeline.
fn trace(session_log: Option<&PathBuf>) -> Result<String, String> {
    let path = session_log.ok_or("this session is not recorded")?;
    let loaded = agent_record::load(path).map_err(|error| error.to_string())?;
    Ok(agent_record::timeline(&loaded.events))
}

/// The sessions of the project: short id and description, the latest first.
fn sessions(options: &Options) -> Vec<(String, String)> {
    session::sessions_in_brief(&options.recorded())
}
