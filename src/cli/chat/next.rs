//! Commands that end the session of the chat, and what follows it.

use crate::app::{
    self, OpenError, Options, Recorded, Rewind, Session, StateDirs, UndoOptions, Which,
};
use agent_host::workspace::UndoReport;
use agent_protocol::event::{Body, Sink, Stamped};
use agent_record::{Log, LogError};
use agent_ui::tui::{CommandAction, Handle, News};

/// What follows the current session.
pub(super) enum Next {
    Quit,
    Open(Which),
    /// The same conversation in this session: it stays on the screen.
    Continue(Which),
    /// The session with this id, rewound to before that turn.
    Rewind(String, Back),
}

/// The arguments of a rewind.
#[derive(Clone, Copy)]
pub(super) struct Back {
    turn: u32,
    what: Rewind,
    force: bool,
}

impl Next {
    /// The news for the display at the end of the session.
    pub(super) fn news(&self) -> Option<News> {
        match self {
            Self::Open(_) => Some(News::NewSession),
            Self::Rewind(..) => Some(News::Reopened),
            Self::Quit | Self::Continue(_) => None,
        }
    }
}

/// The news about the commands that ended with the session.
pub(super) fn ended_with_session(running: &str) -> News {
    News::Note(true, format!("ended with the session: {running}, which ran in the background"))
}

/// What follows after a command that opens a session, or why it cannot be opened.
pub(super) fn next(
    session: &Session,
    options: &Options,
    action: CommandAction,
    arguments: &str,
) -> Result<Next, String> {
    Ok(match action {
        CommandAction::Resume => Next::Open(Which::Resume(resume(options, session, arguments)?)),
        CommandAction::Rewind => {
            if session.log_path.is_none() {
                return Err("this session is not recorded, so it cannot go back".to_owned());
            }
            let back = rewind_of(arguments).ok_or(
                "say to which turn, by its number: /rewind TURN goes back to before it, /rewind TURN files only \
                 with the files, /rewind TURN conversation only with the conversation; `force` at the end: also \
                 over changes that others made since",
            )?;
            let id = if back.force { session.id().to_owned() } else { reopenable(session)? };
            Next::Rewind(id, back)
        }
        CommandAction::Fork if !arguments.is_empty() => {
            let id = chosen(options, arguments)?;
            if id == session.id() {
                return Err("that is this session; /fork copies it".to_owned());
            }
            let path = options.recorded().log_path(&id);
            agent_record::load(&path).map_err(|error| error.to_string())?;
            Next::Open(Which::Fork(Some(id)))
        }
        CommandAction::Fork if !session.has_begun() => {
            return Err("there is nothing to copy yet: this session has no message".to_owned());
        }
        CommandAction::Fork => Next::Continue(Which::Fork(Some(reopenable(session)?))),
        CommandAction::AddDir => add_directory(session, options, arguments)?,
        _ => Next::Open(Which::New),
    })
}

fn resume(options: &Options, session: &Session, id: &str) -> Result<String, String> {
    if id.is_empty() {
        return Err("say which: /sessions lists them, Tab after /resume completes them".to_owned());
    }
    let id = chosen(options, id)?;
    if id == session.id() {
        return Err("that is this session".to_owned());
    }
    // The current session is left only for one that can be opened.
    let path = options.recorded().log_path(&id);
    match Log::reserve(&path).and_then(|_lock| agent_record::load(&path)) {
        Ok(_) => Ok(id),
        Err(LogError::InUse(id, holder)) => {
            let short = options.recorded().short(&id);
            Err(format!(
                "session {short} is in use by {holder}; /fork {short} continues with a copy"
            ))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn chosen(options: &Options, id: &str) -> Result<String, String> {
    options.recorded().choose(Some(id)).map_err(|error| error.to_string())
}

/// The id of the session, if it can be closed and opened again at once; or why not.
fn reopenable(session: &Session) -> Result<String, String> {
    if session.log_path.is_none() {
        return Err("this session is not recorded, so it cannot be opened again".to_owned());
    }
    if let Some(running) = session.running() {
        return Err(format!(
            "this would end {running} in the background; `/tasks stop` ends it, or wait for its end"
        ));
    }
    Ok(session.id().to_owned())
}

/// Adds a directory to the session, which is opened again with it.
fn add_directory(session: &Session, options: &Options, path: &str) -> Result<Next, String> {
    let id = reopenable(session).map_err(|reason| {
        format!("{reason}; `agent -c --add-dir {path}` starts with the directory")
    })?;
    let own = StateDirs::of(options.dirs.as_ref());
    let path = app::addable(path, &session.workspace().places(), &own)?;
    session.record_directory(path, options).map_err(|error| error.to_string())?;
    Ok(Next::Continue(Which::Resume(id)))
}

/// `TURN`, `TURN files`, `TURN conversation`, each also with `force`.
fn rewind_of(arguments: &str) -> Option<Back> {
    let mut words = arguments.split_whitespace();
    let turn = words.next()?.parse().ok()?;
    let mut back = Back { turn, what: Rewind::Both, force: false };
    for word in words {
        match word {
            "both" => back.what = Rewind::Both,
            "files" => back.what = Rewind::Files,
            "conversation" => back.what = Rewind::Conversation,
            "force" => back.force = true,
            _ => return None,
        }
    }
    Some(back)
}

/// Rewinds a session that is not in use to before a turn.
pub(super) fn rewind(
    options: &Options,
    id: &str,
    Back { turn, what, force }: Back,
) -> Result<News, String> {
    let storage = options.recorded();
    let own = StateDirs::of(options.dirs.as_ref());
    let place = (options.root.as_path(), options.add_dirs.as_slice(), &own);
    let recorded = Recorded::open(place, &storage, id, &options.config.config)
        .map_err(|error| error.to_string())?;
    let part = if what == Rewind::Files { " files" } else { "" };
    let forced = format!("/rewind {turn}{part} force");
    let undo = UndoOptions { force, ..UndoOptions::default() };
    let rewound = recorded.rewind(turn, what, undo).map_err(|error| match error {
        OpenError::NotConfirmed(why) => why.replace("--force", &forced),
        error => error.to_string(),
    })?;
    let files = rewound.files.iter().flat_map(|report| &report.files);
    let files: Vec<String> = files.map(|(path, how)| format!("{path} {how}")).collect();
    let files = if files.is_empty() { String::new() } else { format!(": {}", files.join(", ")) };
    let is_complete = rewound.files.as_ref().is_none_or(UndoReport::is_complete);
    Ok(if rewound.is_refused {
        let without = format!("; without the files: /rewind {turn} conversation");
        let without = if what == Rewind::Both { without.as_str() } else { "" };
        News::Note(false, format!("nothing is rewound{files}. With force: {forced}{without}"))
    } else if what == Rewind::Files && !is_complete {
        News::Note(false, format!("not every file is as before turn {turn}{files}"))
    } else if what == Rewind::Files {
        News::Note(true, format!("files are as before turn {turn}{files}"))
    } else if rewound.conversation {
        News::Rewound(format!("back to before turn {turn}{files}"))
    } else {
        let text = format!("the conversation is as it was, because a file is{files}");
        News::Note(false, text)
    })
}

/// Receives the events of a session whose earlier events are on the screen.
pub(super) struct Continued(pub(super) Handle);

impl Sink for Continued {
    fn take(&mut self, stamped: &Stamped) {
        if !matches!(stamped.event.body, Body::SessionResumed { .. }) {
            self.0.take(stamped);
        }
    }

    fn take_from_agent(&mut self, stamped: &Stamped) {
        self.0.take(stamped);
    }
}
