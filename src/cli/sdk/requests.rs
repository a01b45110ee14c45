//! Control requests of the program.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};

use super::input::ControlRequest;
use super::program::Program;
use super::program_sink::{SharedStatus, parse_mode};
use super::servers::ServerSenders;
use crate::app::{Options, Session, UndoOptions};
use crate::cli::chat;
use crate::config;
use agent_engine::mcp::{ServerState, Servers};
use agent_host::exec::Exec;
use agent_host::workspace::{UndoOutcome, UndoTarget};
use agent_protocol::control::SessionControl;
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::hook::json::claude_mode_name;

type Refusal = String;

/// Answers requests at any time, also while the session is busy.
pub(super) struct RequestHandler {
    pub(super) program: Program,
    pub(super) status: SharedStatus,
    /// The answer to `initialize`.
    pub(super) introduction: Value,
    senders: ServerSenders,
    control: SessionControl,
    servers: Option<Servers>,
    exec: Arc<Exec>,
    model: String,
    window: u64,
    task_stops: RefCell<FuturesUnordered<LocalBoxFuture<'static, StoppedTask>>>,
}

/// Id of the request, and the answer.
type StoppedTask = (String, Result<Value, Refusal>);

pub(super) enum DeferredRequest {
    /// `set_model`; `None`: the configured model.
    Model(Option<String>),
    /// `/compact`, with what the summary should keep.
    Compact(String),
    /// `rewind_files`: id of the message, and whether to change nothing.
    Rewind(String, bool),
    /// `undo`: the arguments of `/undo`.
    Undo(String),
}

impl RequestHandler {
    pub(super) fn new(
        session: &Session,
        introduction: Value,
        (program, status): (Program, SharedStatus),
        senders: ServerSenders,
    ) -> Self {
        Self {
            senders,
            program,
            status,
            introduction,
            control: session.control().clone(),
            servers: session.servers().cloned(),
            exec: session.exec().clone(),
            model: session.model().to_owned(),
            window: session.context_window().tokens,
            task_stops: RefCell::default(),
        }
    }

    /// Ends late requests and stops tasks. Never returns; cancel safe.
    pub(super) async fn run(&self) -> Infallible {
        loop {
            let stopped = poll_fn(|cx| match self.task_stops.borrow_mut().poll_next_unpin(cx) {
                Poll::Ready(Some(stopped)) => Poll::Ready(stopped),
                // The caller that adds a task polls this again.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            });
            tokio::select! {
                (id, answer) = stopped => self.answer(&id, answer),
                never = self.program.expire_requests() => match never {},
            }
        }
    }

    pub(super) async fn finish_stops(&self) {
        let mut stops = self.task_stops.take();
        while let Some((id, answer)) = stops.next().await {
            self.answer(&id, answer);
        }
    }

    /// `is_busy`: a turn runs. Returns a request that needs the idle session, to be answered later.
    pub(super) fn handle(
        &self,
        request: ControlRequest,
        is_busy: bool,
    ) -> Option<(String, DeferredRequest)> {
        let ControlRequest { id, body: request, .. } = request;
        let text = |name: &str| request[name].as_str().filter(|it| !it.is_empty());
        let answer = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => Ok(self.repeated_introduction(&request)),
            // There is nothing to interrupt.
            "interrupt" => Ok(json!({"still_queued": []})),
            "set_permission_mode" => self.set_mode(text("mode").unwrap_or_default()),
            "set_model" => {
                let name = text("model").filter(|name| *name != "default").map(str::to_owned);
                return Some((id, DeferredRequest::Model(name)));
            }
            "rewind_files" | "undo" if is_busy => {
                Err("a turn is running: wait until it has ended, or interrupt it".to_owned())
            }
            "undo" => {
                let arguments = text("arguments").unwrap_or_default().to_owned();
                return Some((id, DeferredRequest::Undo(arguments)));
            }
            "rewind_files" => match text("user_message_id") {
                Some(message) => {
                    let is_dry = request["dry_run"] == true;
                    return Some((id, DeferredRequest::Rewind(message.to_owned(), is_dry)));
                }
                None => Err("rewind_files needs a user_message_id".to_owned()),
            },
            "get_context_usage" => Ok(self.context_usage()),
            "mcp_status" => Ok(json!({ "mcpServers": self.server_status() })),
            "mcp_message" => {
                let server = text("server_name").unwrap_or_default();
                if self.senders.forward(server, request["message"].clone()) {
                    Ok(json!({}))
                } else {
                    Err(format!("the MCP server {server:?} is not connected"))
                }
            }
            "stop_task" => {
                let task = text("task_id").unwrap_or_default().to_owned();
                let exec = Arc::clone(&self.exec);
                // The processes of the task may take some time to end.
                self.task_stops.borrow_mut().push(Box::pin(async move {
                    let stopped = exec.kill_background(&task).await.map(|_| json!({}));
                    (id, stopped.ok_or_else(|| format!("there is no running task {task:?}")))
                }));
                return None;
            }
            other => Err(format!("unsupported control request: {other:?}")),
        };
        self.answer(&id, answer);
        None
    }

    pub(super) fn answer(&self, id: &str, answer: Result<Value, Refusal>) {
        send_answer(&self.program, id, answer);
    }

    fn repeated_introduction(&self, request: &Value) -> Value {
        let mut introduction = self.introduction.clone();
        if request["hooks"].is_object() {
            // The hooks of the first `initialize` remain active.
            introduction["hooks_applied"] = false.into();
        }
        introduction
    }

    fn set_mode(&self, name: &str) -> Result<Value, Refusal> {
        let mode = parse_mode(&self.control, name)?;
        self.control.request_mode(mode);
        Ok(json!({ "mode": claude_mode_name(mode) }))
    }

    fn server_status(&self) -> Vec<Value> {
        let reports = self.servers.iter().flat_map(Servers::states);
        let rows = reports.map(|server| {
            let tools = server.tools.unwrap_or_default().into_iter();
            let tools: Vec<Value> = tools.map(|name| json!({ "name": name })).collect();
            let mut row =
                json!({"name": server.name, "status": server.state.status(), "tools": tools});
            if let ServerState::Failed(why) = &server.state {
                row["error"] = (&**why).into();
            }
            row
        });
        rows.collect()
    }

    /// As the last request was sent.
    fn context_usage(&self) -> Value {
        let status = self.status.lock();
        let request = status.last_request.as_ref();
        let window = request.and_then(|it| it.window).unwrap_or(self.window);
        let tokens = |layer: &str| {
            request.and_then(|it| it.layers.get(layer)).map_or(0, |layer| layer.tokens)
        };
        let rows = [
            ("system_prompt", "System prompt", tokens("l1") + tokens("l2")),
            ("system_tools", "Tools", tokens("tools")),
            ("messages", "Messages", tokens("l3")),
        ];
        let used: u64 = rows.iter().map(|(_, _, tokens)| tokens).sum();
        let row = |(id, name, tokens): (&str, &str, u64), kind: &str| json!({"id": id, "name": name, "tokens": tokens, "color": "", "kind": kind});
        let mut categories: Vec<Value> = rows.into_iter().map(|it| row(it, "used")).collect();
        let free = ("free_space", "Free space", window.saturating_sub(used));
        categories.push(row(free, "free"));
        let usage = status.last_response.as_ref().and_then(|answer| answer.usage);
        let usage = usage.map(|usage| {
            json!({
                "input_tokens": usage.input_tokens
                    .saturating_sub(usage.cached_tokens)
                    .saturating_sub(usage.cache_write_tokens),
                "output_tokens": usage.output_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "cache_read_input_tokens": usage.cached_tokens,
            })
        });
        json!({
            "categories": categories,
            "totalTokens": used,
            "maxTokens": window,
            "rawMaxTokens": window,
            "percentage": (used * 100).checked_div(window).unwrap_or(0),
            "gridRows": [],
            "model": request.map_or(self.model.as_str(), |it| it.model.as_str()),
            "memoryFiles": [],
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": true,
            "apiUsage": usage,
        })
    }
}

pub(super) async fn perform_deferred(
    session: &mut Session,
    options: &Options,
    status: &SharedStatus,
    deferred: DeferredRequest,
) -> Result<Value, Refusal> {
    match deferred {
        DeferredRequest::Model(name) => {
            let name = name.as_deref().unwrap_or(&options.config.config.model);
            let cancel = session.control().cancellation_token();
            let changed = Box::pin(session.change_model(options, name, None));
            match cancel.run_until_cancelled(changed).await {
                Some(Ok(_)) => Ok(json!({})),
                Some(Err(error)) => Err(error.to_string()),
                None => Err("interrupted".to_owned()),
            }
        }
        DeferredRequest::Compact(focus) => {
            let focus = Some(focus.as_str()).filter(|focus| !focus.is_empty());
            session.compact(focus).await.map(Value::from)
        }
        DeferredRequest::Undo(arguments) => {
            let hint = chat::undo(session, &arguments)?;
            Ok(hint.map_or_else(|| json!({}), |hint| json!({"hint": hint})))
        }
        DeferredRequest::Rewind(message, is_dry) => {
            let turn =
                status.lock().message_turns.iter().find(|(id, _)| *id == message).map(|it| it.1);
            let turn = turn.ok_or_else(|| format!("there is no user message {message}"))?;
            rewind_files(session, turn, is_dry)
        }
    }
}

/// Restores the files, or none of them. `is_dry`: only says what would change.
fn rewind_files(session: &mut Session, turn: u32, is_dry: bool) -> Result<Value, Refusal> {
    let report = match session.undo_preview(UndoTarget::FromTurn(turn)) {
        Err(why) if is_dry => return Ok(json!({"canRewind": false, "error": why})),
        preview => preview?,
    };
    let can_rewind = report.is_complete();
    let report = if can_rewind && !is_dry {
        session.undo_files(UndoTarget::FromTurn(turn), UndoOptions::default())?
    } else {
        report
    };
    let (mut changed, mut refused) = (Vec::new(), Vec::new());
    for (path, how) in &report.files {
        match how {
            UndoOutcome::Refused(_) => refused.push(format!("{path}: {how}")),
            UndoOutcome::Restored | UndoOutcome::Removed => changed.push(path.clone()),
            UndoOutcome::Unchanged | UndoOutcome::Skipped(_) => {}
        }
    }
    if refused.is_empty() {
        return Ok(json!({"canRewind": true, "filesChanged": changed}));
    }
    let refused = refused.join("; ");
    if is_dry {
        return Ok(json!({"canRewind": false, "filesChanged": changed, "error": refused}));
    }
    // A file may change after the check.
    let done = if can_rewind { "not every file was restored" } else { "no file was restored" };
    Err(format!("{done}: {refused}"))
}

pub(super) fn initialize_response(
    session: &Session,
    options: &Options,
    commands: &[CustomCommand],
    has_hooks: bool,
) -> Value {
    let config = &options.config.config;
    let mut models = vec![session.model().to_owned()];
    let further = config.light_model.iter().chain(&config.fallback).chain(config.models.keys());
    for model in further {
        if !models.contains(model) {
            models.push(model.clone());
        }
    }
    let models = models
        .into_iter()
        .filter(|model| !config::is_file_model(model) || *model == session.model());
    let models: Vec<Value> = models
        .map(|model| json!({"value": model, "displayName": model, "description": model}))
        .collect();
    let commands = commands.iter().map(|command| {
        json!({
            "name": command.name,
            "description": command.description,
            "argumentHint": command.argument_hint,
        })
    });
    let mut introduction = json!({
        "commands": commands.collect::<Vec<_>>(),
        "agents": [],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": models,
        "account": {},
        "hook_on_failure_supported": true,
    });
    if has_hooks {
        introduction["hooks_applied"] = true.into();
    }
    introduction
}

pub(super) fn send_answer(program: &Program, id: &str, answer: Result<Value, Refusal>) {
    let response = match answer {
        Ok(response) => json!({"subtype": "success", "request_id": id, "response": response}),
        Err(error) => json!({"subtype": "error", "request_id": id, "error": error}),
    };
    program.send(&json!({"type": "control_response", "response": response}));
}
