//! `agent attach`: the chat on a session that runs in the background, over its socket.
//!
//! The events of the past come from the session's log, those of now and all answers through the socket. What needs the
//! session's own process is refused.

mod connection;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::chat::{self, ChatFiles};
use super::options::{self, ContinueOptions, RunArgs, ToolOptions};
use super::sdk::permission::decision_json;
use super::session::find_session_by_id;
use crate::app::{self, OpenError, SessionStatus, StateDirs, Storage};
use crate::config::UserDirs;
use agent_protocol::control::{Ending, ModeLimit, PermissionMode, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::hook::json::claude_mode_name;
use agent_protocol::provider::Effort;
use agent_protocol::question::UserAnswer;
use agent_ui::tui::{
    Chat, ChatHandle, ChatRequest, ChatUpdate, CommandAction, CommandTiming, DEFAULT_EFFORT,
    Settings, WorkOutcome,
};
use connection::Connection;

/// Begins the id of a request to change the model, before the model.
const SET_MODEL: &str = "model ";
/// As for every program that drives a session.
const NO_FULL_MODE: &str = "mode full is chosen when a session begins: `agent run --background -y`";

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    /// The session, or the beginning or end of its id
    id: String,
    /// Plain lines, for screen readers and simple terminals
    #[arg(long)]
    plain: bool,
}

pub(super) fn run(args: &AttachArgs) -> u8 {
    let found = find_session_by_id(&args.id)
        .and_then(|(storage, id)| Ok((SessionStatus::read(&storage, &id)?, storage)));
    match found {
        Err(error) => super::exit_code(Err(error)),
        Ok((status, storage)) if status.state.is_running() => {
            let control = SessionControl::default();
            // An interrupt is for the session, not for this program.
            control.enable_user_questions();
            let work = Box::pin(attach(args, &storage, &status, &control));
            super::block_on_result(work, &control)
        }
        Ok((status, storage)) => {
            let short = storage.short_id(&status.id);
            agent_ui::print_notice(&format!("session {short} has ended: this chat resumes it"));
            let resume = Some(status.id);
            let continued = ContinueOptions { resume, ..ContinueOptions::default() };
            chat::run(&RunArgs { continued, ..RunArgs::default() }, args.plain)
        }
    }
}

async fn attach(
    args: &AttachArgs,
    storage: &Storage,
    status: &SessionStatus,
    control: &SessionControl,
) -> Result<u8, OpenError> {
    let short = storage.short_id(&status.id);
    let display_mode = chat::display_mode(args.plain).map_err(OpenError::Usage)?;
    let connection = Connection::open(status, &short)?;
    let dirs = UserDirs::find();
    let root = storage.work_copy(&status.id).unwrap_or_else(|| status.project.clone());
    let config =
        options::load_config(&status.project, dirs.as_ref(), &ToolOptions::default(), None)?;
    let files = ChatFiles::new(&root, dirs.as_ref());
    let settings = chat::chat_settings(&RunArgs::default(), &config, &files)?;
    let limit = ModeLimit { mode: PermissionMode::AutoEdit, reason: NO_FULL_MODE.to_owned() };
    let settings = Settings { mode_limits: vec![limit], ..settings };
    let mut chat = chat::start_screen(settings, display_mode)?;
    let mut attached = AttachedChat {
        handle: chat.handle.clone(),
        connection,
        files,
        root,
        seq: 0,
        is_working: false,
        outcome: WorkOutcome::Succeeded,
        sent: VecDeque::new(),
        open_requests: HashMap::new(),
    };
    attached.show_past(&storage.log_path(&status.id))?;
    let left = attached.run(&mut chat, control).await;
    let shown = chat.end();
    let runs = agent_record::process_using(&storage.log_path(&status.id)).is_some();
    let end = if runs { "has closed the connection" } else { "has ended" };
    let left = left.unwrap_or_else(|| end.to_owned());
    agent_ui::print_text(&format!("Session {short} {left}: `agent attach {short}` comes back.\n"));
    Ok(chat::exit_code(control, shown))
}

struct AttachedChat {
    handle: ChatHandle,
    connection: Connection,
    files: ChatFiles,
    root: PathBuf,
    /// Of the last event that was shown.
    seq: u64,
    is_working: bool,
    outcome: WorkOutcome,
    /// Messages that no turn has taken yet.
    sent: VecDeque<UserInput>,
    /// Questions of the session: the id of the request, by call.
    open_requests: HashMap<String, Value>,
}

impl AttachedChat {
    /// A turn that runs is shown as if it ran now, so that its questions can be answered.
    fn show_past(&mut self, log: &Path) -> Result<(), OpenError> {
        let record = agent_record::read_partially(log);
        let events = record.map_err(|error| OpenError::Usage(error.to_string()))?.events;
        self.seq = events.last().map_or(0, |event| event.header.seq);
        self.is_working = agent_record::progress(&events).is_turn_open;
        let live = agent_record::live_events_of_all_agents(&events);
        let is_begin = |event: &&Event| matches!(event.body, EventBody::TurnStarted { .. });
        let begin = live.iter().rposition(is_begin).filter(|_| self.is_working);
        let (past, now) = live.split_at(begin.unwrap_or(live.len()));
        let shown_later = now.first().map_or(u64::MAX, |event| event.header.seq);
        let earlier = events.iter().filter(|event| event.header.seq < shown_later);
        let spending = agent_record::summary(earlier).spending;
        let past = past.iter().copied().cloned().collect();
        self.handle.send(ChatUpdate::RecordedEvents(past, spending));
        for event in now {
            self.handle.send(ChatUpdate::Event(Box::new((*event).clone())));
        }
        Ok(())
    }

    /// Returns what the session does when it is left; `None`: the connection has ended.
    async fn run(mut self, chat: &mut Chat, control: &SessionControl) -> Option<String> {
        let cancel = control.cancellation_token();
        let kinds = [SignalKind::window_change(), SignalKind::from_raw(libc::SIGCONT)];
        let [mut resized, mut continued] = kinds.map(|kind| signal(kind).ok());
        loop {
            tokio::select! {
                line = self.connection.next_line() => match line {
                    Some(line) if line["type"] == "detached" => {
                        return Some(line["reason"].as_str().unwrap_or_default().to_owned());
                    }
                    Some(line) => self.show_line(line),
                    None => return None,
                },
                request = chat.requests.recv() => match request.unwrap_or(ChatRequest::Quit) {
                    ChatRequest::Quit | ChatRequest::RunCommand(CommandAction::Detach, _) => {
                        return Some(self.future().to_owned());
                    }
                    request => self.pass_on(request),
                },
                () = cancel.cancelled() => return Some(self.future().to_owned()),
                () = chat::wait_for_signal(&mut resized) => self.handle.notify_resized(),
                () = chat::wait_for_signal(&mut continued) => self.handle.notify_resumed(),
            }
        }
    }

    /// Without a turn the session ends as soon as no program is attached.
    fn future(&self) -> &'static str {
        if self.is_working { "goes on" } else { "ends, because nothing runs" }
    }

    fn show_line(&mut self, line: Value) {
        match line["type"].as_str().unwrap_or_default() {
            "control_request" => {
                let call = line["request"]["tool_use_id"].as_str().unwrap_or_default();
                self.open_requests.insert(call.to_owned(), line["request_id"].clone());
            }
            "control_response" => {
                let response = &line["response"];
                if let Some(why) = response["error"].as_str() {
                    self.refuse(why);
                }
                if let Some(hint) = response["response"]["hint"].as_str() {
                    self.handle.send(ChatUpdate::Note(true, hint.to_owned()));
                }
                let id = response["request_id"].as_str().unwrap_or_default();
                if let Some(model) = id.strip_prefix(SET_MODEL) {
                    if response["subtype"] == "success" {
                        let now = format!("the model is {model} now");
                        self.handle.send(ChatUpdate::Note(true, now));
                    }
                    self.show_idle();
                }
            }
            "system" if line["state"] == "running" => self.is_working = true,
            "system" if line["state"] == "idle" => self.show_idle(),
            "result" if line["is_error"] == true => {
                self.refuse(line["result"].as_str().unwrap_or("the session refused it"));
            }
            _ => {
                if let Ok(event) = serde_json::from_value::<Event>(line) {
                    self.show_event(event);
                }
            }
        }
    }

    fn show_event(&mut self, event: Event) {
        let seq = event.header.seq;
        // The log was read after the socket was opened.
        if seq < self.seq || seq == self.seq && event.body.is_stored() {
            return;
        }
        self.seq = seq;
        match &event.body {
            _ if !event.header.is_main() => {}
            EventBody::TurnStarted { .. } => {
                self.handle.send(ChatUpdate::MessagesDelivered(self.sent.drain(..).len()));
            }
            EventBody::TurnSteered { .. } => _ = self.sent.pop_front(),
            EventBody::TurnFinished(finished) => {
                self.outcome = match finished.ending {
                    Ending::Completed => WorkOutcome::Succeeded,
                    Ending::Interrupted => WorkOutcome::Interrupted,
                    _ => WorkOutcome::Failed,
                };
            }
            _ => {}
        }
        self.handle.send(ChatUpdate::Event(Box::new(event)));
    }

    /// An interrupt returns the messages that no turn has taken.
    fn show_idle(&mut self) {
        self.is_working = false;
        let outcome = std::mem::replace(&mut self.outcome, WorkOutcome::Succeeded);
        let is_interrupted = outcome == WorkOutcome::Interrupted;
        let undelivered = if is_interrupted { self.sent.drain(..).collect() } else { Vec::new() };
        self.handle.send(ChatUpdate::SessionIdle { outcome, undelivered });
    }

    fn refuse(&self, why: &str) {
        self.handle.send(ChatUpdate::Note(false, why.to_owned()));
    }

    fn pass_on(&mut self, request: ChatRequest) {
        match request {
            ChatRequest::Submit(message) => {
                self.send_message(&message.text, &message.pasted);
                self.is_working = true;
                self.sent.push_back(message);
            }
            ChatRequest::Interrupt if !self.is_working => {
                self.outcome = WorkOutcome::Interrupted;
                self.show_idle();
            }
            ChatRequest::Interrupt => {
                self.request(&json!({"subtype": "interrupt", "cancel_queued": true}));
            }
            ChatRequest::AnswerPermission(call, decision) => {
                self.answer(&call, &decision_json(&decision));
            }
            ChatRequest::AnswerQuestions(call, answers) => {
                let answers: Map<String, Value> = answers.into_iter().map(answer_json).collect();
                let input = json!({ "answers": answers });
                self.answer(&call, &json!({"behavior": "allow", "updatedInput": input}));
            }
            ChatRequest::SetMode(mode) => {
                let mode = claude_mode_name(mode);
                self.request(&json!({"subtype": "set_permission_mode", "mode": mode}));
            }
            ChatRequest::RunCommand(CommandAction::Compact, focus) => {
                self.is_working = true;
                self.send_message(&format!("/compact {focus}"), &[]);
            }
            ChatRequest::RunCommand(CommandAction::Model, model) if is_model_name(&model) => {
                let body = json!({"subtype": "set_model", "model": model});
                self.request_with_id(&format!("{SET_MODEL}{model}"), &body);
            }
            ChatRequest::RunCommand(CommandAction::Undo, arguments) => {
                self.request(&json!({"subtype": "undo", "arguments": arguments}));
            }
            ChatRequest::RunCommand(action, arguments) => {
                let name = action.command().name;
                self.refuse(&format!(
                    "/{name} needs the session's own chat: `agent stop`, then `agent --resume`"
                ));
                if matches!(action.timing(&arguments), CommandTiming::StartsWork(_)) {
                    self.show_idle();
                }
            }
            ChatRequest::AddToHistory(message) => self.files.append_history(&message),
            ChatRequest::ListFiles => {
                let (root, handle) = (self.root.clone(), self.handle.clone());
                std::thread::spawn(move || {
                    let workspace = app::open_workspace(&root, &[], &StateDirs::find());
                    let files = workspace.map(|it| chat::project_files(&it, Vec::new()));
                    handle.send(ChatUpdate::Files(files.unwrap_or_else(|_| [].into())));
                });
            }
            ChatRequest::RunShell(id, command) => {
                let output = "not run: use another terminal".to_owned();
                let (n_omitted, exit_code) = (0, None);
                let done = ChatUpdate::ShellFinished { id, command, output, n_omitted, exit_code };
                self.handle.send(done);
            }
            ChatRequest::OpenEditor(_) => {
                let why = "an attached chat opens no editor".to_owned();
                self.handle.send(ChatUpdate::EditorClosed(Err(why)));
            }
            ChatRequest::WithdrawMessage => {
                self.refuse("the session has the message already; Esc stops it and returns it");
            }
            ChatRequest::PasteImage => {
                self.refuse("an attached chat pastes no image: name its file with @");
            }
            ChatRequest::ListOwnCommands | ChatRequest::ListModels | ChatRequest::Quit => {}
        }
    }

    fn send_message(&mut self, text: &str, pasted: &[std::ops::Range<usize>]) {
        let message = json!({"role": "user", "content": text});
        self.connection.send(&json!({"type": "user", "message": message, "pasted": pasted}));
    }

    fn request(&mut self, body: &Value) {
        self.request_with_id(&uuid::Uuid::now_v7().to_string(), body);
    }

    fn request_with_id(&mut self, id: &str, body: &Value) {
        let line = json!({"type": "control_request", "request_id": id, "request": body});
        self.connection.send(&line);
    }

    fn answer(&mut self, call: &str, answer: &Value) {
        // It was answered or withdrawn meanwhile.
        let Some(id) = self.open_requests.remove(call) else { return };
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        self.connection.send(&json!({"type": "control_response", "response": response}));
    }
}

/// Without an effort, which the control protocol does not have.
fn is_model_name(text: &str) -> bool {
    let is_effort = text == DEFAULT_EFFORT || Effort::from_name(text).is_some();
    !text.is_empty() && !text.contains(char::is_whitespace) && !is_effort
}

fn answer_json(answer: UserAnswer) -> (String, Value) {
    let text = answer.text.map(Value::from);
    (answer.question, text.unwrap_or_else(|| answer.selected.into()))
}
