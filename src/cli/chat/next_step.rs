//! Commands that end the session of the chat, and what follows it.

use crate::app::{
    self, OpenError, Options, RecordedSession, RewindScope, Session, SessionChoice, StateDirs,
    UndoOptions,
};
use agent_host::workspace::UndoReport;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_record::{Log, LogError};
use agent_ui::tui::{ChatHandle, ChatUpdate, CommandAction};

/// The message of a user who names none: the turn goes on in the background.
const CONTINUE: &str = "continue";

pub(super) enum NextStep {
    Quit,
    /// The session goes on with this message in the background.
    Detach(String),
    Open(SessionChoice),
    /// The conversation stays on the screen.
    Continue(SessionChoice),
    /// Session id; the session is rewound to before that turn.
    Rewind(String, RewindRequest),
}

#[derive(Clone, Copy)]
pub(super) struct RewindRequest {
    turn: u32,
    scope: RewindScope,
    force: bool,
}

impl NextStep {
    /// While nothing runs.
    /// On failure, why, and the message.
    pub(super) fn detach(session: &Session, message: String) -> Result<Self, (String, String)> {
        let why = match (reopenable_id(session), message.is_empty(), session.has_begun()) {
            (Err(why), ..) => why,
            (_, true, _) => {
                "nothing runs: `/detach TASK` works on a task in the background, `/quit` ends the chat".to_owned()
            }
            (_, false, false) => {
                "this session has no message yet: `agent run --background` begins one".to_owned()
            }
            (_, false, true) => return Ok(Self::Detach(message)),
        };
        Err((why, message))
    }

    /// After an interrupted turn. On failure, why, and the message.
    pub(super) fn continue_detached(
        message: String,
        undelivered: &[UserInput],
    ) -> Result<Self, (String, String)> {
        let has_more =
            |it: &UserInput| !it.pasted.is_empty() || it.prompt.is_some() || !it.images.is_empty();
        if undelivered.iter().any(has_more) {
            let why = "stopped, and not in the background: a message that waits has pasted text, an image or a command";
            return Err((why.to_owned(), message));
        }
        let first = if message.is_empty() { CONTINUE.to_owned() } else { message };
        let later = undelivered.iter().map(|message| message.text.clone());
        let messages: Vec<String> = std::iter::once(first).chain(later).collect();
        Ok(Self::Detach(messages.join("\n\n")))
    }

    pub(super) fn news(&self) -> Option<ChatUpdate> {
        match self {
            Self::Open(_) => Some(ChatUpdate::NewSession),
            Self::Rewind(..) => Some(ChatUpdate::SessionReopened),
            Self::Quit | Self::Detach(_) | Self::Continue(_) => None,
        }
    }
}

pub(super) fn ended_commands_news(running: &str) -> ChatUpdate {
    ChatUpdate::Note(
        true,
        format!("ended with the session: {running}, which ran in the background"),
    )
}

pub(super) fn next_step(
    session: &Session,
    options: &Options,
    action: CommandAction,
    arguments: &str,
) -> Result<NextStep, String> {
    Ok(match action {
        CommandAction::Resume => {
            NextStep::Open(SessionChoice::Resume(session_to_resume(options, session, arguments)?))
        }
        CommandAction::Rewind => {
            if session.log_path.is_none() {
                return Err("this session is not recorded, so it cannot go back".to_owned());
            }
            let back = parse_rewind(arguments).ok_or(
                "say to which turn, by its number: /rewind TURN goes back to before it, /rewind TURN files only \
                 with the files, /rewind TURN conversation only with the conversation; `force` at the end: also \
                 over changes that others made since",
            )?;
            let id = if back.force { session.id().to_owned() } else { reopenable_id(session)? };
            NextStep::Rewind(id, back)
        }
        CommandAction::Fork if !arguments.is_empty() => {
            let id = choose_session(options, arguments)?;
            if id == session.id() {
                return Err("that is this session; /fork copies it".to_owned());
            }
            let path = options.session_storage().log_path(&id);
            agent_record::load_session(&path).map_err(|error| error.to_string())?;
            NextStep::Open(SessionChoice::Fork(Some(id)))
        }
        CommandAction::Fork if !session.has_begun() => {
            return Err("there is nothing to copy yet: this session has no message".to_owned());
        }
        CommandAction::Fork => {
            NextStep::Continue(SessionChoice::Fork(Some(reopenable_id(session)?)))
        }
        CommandAction::AddDir => add_directory(session, options, arguments)?,
        CommandAction::Clear => NextStep::Open(SessionChoice::New),
        _ => return Err("this command does not open a session".to_owned()),
    })
}

fn session_to_resume(options: &Options, session: &Session, id: &str) -> Result<String, String> {
    if id.is_empty() {
        return Err("say which: /sessions lists them, Tab after /resume completes them".to_owned());
    }
    let id = choose_session(options, id)?;
    if id == session.id() {
        return Err("that is this session".to_owned());
    }
    // The current session is left only for one that can be opened.
    let path = options.session_storage().log_path(&id);
    match Log::reserve(&path).and_then(|_lock| agent_record::load_session(&path)) {
        Ok(_) => Ok(id),
        Err(LogError::InUse(id, holder)) => {
            let short = options.session_storage().short_id(&id);
            Err(format!(
                "session {short} is in use by {holder}; /fork {short} continues with a copy"
            ))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn choose_session(options: &Options, id: &str) -> Result<String, String> {
    options.session_storage().resolve_session_id(Some(id)).map_err(|error| error.to_string())
}

pub(super) fn reopenable_id(session: &Session) -> Result<String, String> {
    if session.log_path.is_none() {
        return Err("this session is not recorded, so it cannot be opened again".to_owned());
    }
    if let Some(running) = session.describe_running() {
        return Err(format!(
            "this would end {running} in the background; `/tasks stop ID` ends it, or wait for its end"
        ));
    }
    Ok(session.id().to_owned())
}

/// The session is opened again with the directory.
fn add_directory(session: &Session, options: &Options, path: &str) -> Result<NextStep, String> {
    let id = reopenable_id(session).map_err(|reason| {
        format!("{reason}; `agent -c --add-dir {path}` starts with the directory")
    })?;
    let own = StateDirs::new(options.dirs.as_ref());
    let path = app::resolve_added_dir(path, &session.workspace().roots(), &own)?;
    session.record_directory(path, options).map_err(|error| error.to_string())?;
    Ok(NextStep::Continue(SessionChoice::Resume(id)))
}

/// `TURN`, `TURN files`, `TURN conversation`, each also with `force`.
fn parse_rewind(arguments: &str) -> Option<RewindRequest> {
    let mut words = arguments.split_whitespace();
    let turn = words.next()?.parse().ok()?;
    let mut back = RewindRequest { turn, scope: RewindScope::Both, force: false };
    for word in words {
        match word {
            "both" => back.scope = RewindScope::Both,
            "files" => back.scope = RewindScope::Files,
            "conversation" => back.scope = RewindScope::Conversation,
            "force" => back.force = true,
            _ => return None,
        }
    }
    Some(back)
}

/// The session must not be in use.
pub(super) fn rewind_session(
    options: &Options,
    id: &str,
    RewindRequest { turn, scope, force }: RewindRequest,
) -> Result<ChatUpdate, String> {
    let storage = options.session_storage();
    let own = StateDirs::new(options.dirs.as_ref());
    let place = (options.root.as_path(), options.add_dirs.as_slice(), &own);
    let recorded = RecordedSession::open(place, &storage, id, &options.config.config)
        .map_err(|error| error.to_string())?;
    let part = if scope == RewindScope::Files { " files" } else { "" };
    let forced = format!("/rewind {turn}{part} force");
    let undo = UndoOptions { force, ..UndoOptions::default() };
    let rewound = recorded.rewind(turn, scope, undo).map_err(|error| match error {
        OpenError::NotConfirmed(why) => why.replace("--force", &forced),
        error => error.to_string(),
    })?;
    let files = rewound.files.iter().flat_map(|report| &report.files);
    let files: Vec<String> = files.map(|(path, how)| format!("{path} {how}")).collect();
    let files = if files.is_empty() { String::new() } else { format!(": {}", files.join(", ")) };
    let is_complete = rewound.files.as_ref().is_none_or(UndoReport::is_complete);
    Ok(if rewound.is_refused {
        let without = format!("; without the files: /rewind {turn} conversation");
        let without = if scope == RewindScope::Both { without.as_str() } else { "" };
        ChatUpdate::Note(false, format!("nothing is rewound{files}. With force: {forced}{without}"))
    } else if scope == RewindScope::Files && !is_complete {
        ChatUpdate::Note(false, format!("not every file is as before turn {turn}{files}"))
    } else if scope == RewindScope::Files {
        ChatUpdate::Note(true, format!("files are as before turn {turn}{files}"))
    } else if rewound.conversation {
        ChatUpdate::SessionRewound(format!("back to before turn {turn}{files}"))
    } else {
        let text = format!("the conversation is as it was, because a file is{files}");
        ChatUpdate::Note(false, text)
    })
}

/// For a session whose earlier events are on the screen.
pub(super) struct ContinuationSink(pub(super) ChatHandle);

impl Sink for ContinuationSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        if !matches!(stamped.event.body, EventBody::SessionResumed { .. }) {
            self.0.receive(stamped);
        }
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.0.receive(stamped);
    }
}
