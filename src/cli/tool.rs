//! `agent tool`: runs tools without a model, with the same checks.

use std::io::Read as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::options::{self, ToolOptions};
use crate::app::{
    self, Kept, McpServers, OpenError, StateDirs, Storage, SystemClock, Toolbox, Writable,
};
use crate::config::UserDirs;
use crate::protocol::Object;
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::envelope::{Envelope, ErrorCode, Sealed, ToolError};
use crate::protocol::event::{Body, Events, Place, SessionStarted, Sink};
use crate::protocol::message::ToolCall;
use crate::record::{Log, SummarySink};
use crate::tools;
use crate::ui;
use crate::workspace::Spill;

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools and their arguments
    List(ListArgs),
    /// Call one tool and print its envelope
    Call(CallArgs),
    /// Call many tools: JSON lines `{"id", "name", "input"}` in, `{"id", "envelope"}` out
    ///
    /// All calls share one state: a file that one call has read can be changed by the next.
    Batch(BatchArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// As JSON, with the schema of each tool's input
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The tool
    name: String,
    /// Its input, a JSON object
    input: String,
    /// Record it as a session, with checkpoints
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    options: ToolOptions,
}

#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    /// Record it as a session, with checkpoints
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    options: ToolOptions,
}

pub(super) fn tool(command: ToolCommand) -> u8 {
    match command {
        ToolCommand::List(args) => list(&args),
        ToolCommand::Call(args) => call(&args),
        ToolCommand::Batch(args) => batch(&args),
    }
}

fn list(args: &ListArgs) -> u8 {
    let tools = tools::all();
    let mut out = String::new();
    for tool in &tools {
        let spec = tool.spec();
        if args.json {
            let line = json!({"name": spec.name, "description": spec.description, "input_schema": spec.schema});
            out.push_str(&format!("{line}\n"));
        } else {
            let fields = spec.schema["properties"].as_object().into_iter().flat_map(|p| p.keys());
            let fields: Vec<&str> = fields.map(String::as_str).collect();
            let first = spec.description.lines().next().unwrap_or_default();
            out.push_str(&format!("{:<10} {}\n{:11}{first}\n", spec.name, fields.join(", "), ""));
        }
    }
    ui::answer(&if args.json { ui::Answer::Data(out) } else { out.into() });
    0
}

fn call(args: &CallArgs) -> u8 {
    match serde_json::from_str::<Value>(&args.input) {
        Ok(Value::Object(_)) => {}
        Ok(_) => {
            return usage(
                "the input is not a JSON object; write it like '{\"path\":\"README.md\"}'",
            );
        }
        Err(error) => return usage(&format!("the input is not valid JSON: {error}")),
    }
    let control = Control::default();
    let work = async {
        let tools = match open(&args.options, args.record, args.name == "Bash", &control) {
            Ok(tools) => tools,
            Err(error) => return refused(&error),
        };
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: args.name.clone(),
            arguments: args.input.clone(),
        };
        let envelope = tools.gate.registry.call(&call).await.envelope;
        // Standard output is masked like all other output.
        let answer = tools.gate.events.masker().json(&envelope);
        ui::answer(&ui::Answer::Data(answer + "\n"));
        tools.close().await;
        let code = u8::from(envelope.error().is_some());
        control.interrupted().map_or(code, |interrupt| interrupt.ending().exit_code())
    };
    super::block_on(work, &control)
}

#[derive(Deserialize)]
struct Line {
    id: Value,
    name: String,
    #[serde(default)]
    input: Object,
}

#[derive(Serialize)]
struct Answer {
    id: Value,
    envelope: Sealed,
}

fn batch(args: &BatchArgs) -> u8 {
    let control = Control::default();
    let work = async {
        let tools = match open(&args.options, args.record, true, &control) {
            Ok(tools) => tools,
            Err(error) => return refused(&error),
        };
        let mut code = 0;
        let mut bunches = lines_of_stdin();
        'all: while let Some(Some(bunch)) =
            control.cancel().run_until_cancelled(bunches.recv()).await
        {
            let lines = match bunch {
                Ok(lines) => lines,
                Err(error) => {
                    ui::tell(&format!("standard input: {error}"));
                    code = 2;
                    break;
                }
            };
            for line in lines.iter().filter(|line| !line.trim_ascii().is_empty()) {
                if control.cancel().is_cancelled() {
                    break 'all;
                }
                let answer = match serde_json::from_slice::<Line>(line) {
                    Ok(Line { id, name, input }) => {
                        let arguments = Value::Object(input).to_string();
                        let call = ToolCall { id: id.to_string(), name, arguments };
                        Answer { id, envelope: tools.gate.registry.call(&call).await.envelope }
                    }
                    Err(error) => {
                        code = 2;
                        Answer { id: Value::Null, envelope: no_call(&error) }
                    }
                };
                let answer = tools.gate.events.masker().json(&answer) + "\n";
                if !ui::answer(&ui::Answer::Data(answer)) {
                    break 'all;
                }
            }
        }
        tools.close().await;
        control.interrupted().map_or(code, |interrupt| interrupt.ending().exit_code())
    };
    super::block_on(work, &control)
}

/// The lines of standard input, batched as they arrive. They are read by a separate thread, since a blocking
/// read cannot be interrupted but the calls must be.
fn lines_of_stdin() -> mpsc::Receiver<std::io::Result<Vec<Vec<u8>>>> {
    // A capacity of one slows the writer down to our speed.
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut chunk = vec![0; 64 * 1024];
        // An incomplete line.
        let mut begun = Vec::new();
        loop {
            let read = match stdin.read(&mut chunk) {
                Ok(0) if begun.is_empty() => return,
                Ok(0) => Ok(vec![std::mem::take(&mut begun)]),
                Ok(n) => {
                    let mut lines = Vec::new();
                    for piece in chunk[..n].split_inclusive(|byte| *byte == b'\n') {
                        begun.extend_from_slice(piece);
                        if piece.ends_with(b"\n") {
                            lines.push(std::mem::take(&mut begun));
                        }
                    }
                    Ok(lines)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_over = read.is_err();
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// The registry, and the record of its calls.
struct Tools {
    gate: Toolbox,
    mcp: McpServers,
    /// For a recorded session.
    summary: Option<SummarySink>,
}

impl Tools {
    /// Ends remaining processes of commands, and the session.
    async fn close(self) {
        self.gate.exec.close().await;
        self.mcp.close().await;
        self.gate.registry.settle_background(true);
        if let Some(summary) = &self.summary {
            self.gate.events.emit(Body::SessionSummary(summary.summary()));
        }
    }
}

/// `runs_commands`: otherwise no sandbox is needed.
fn open(
    options: &ToolOptions,
    record: bool,
    runs_commands: bool,
    control: &Control,
) -> Result<Tools, OpenError> {
    let root = options::root(options.cwd.as_deref())?;
    let dirs = UserDirs::find();
    let config = options::load(&root, dirs.as_ref(), options, None)?;
    for warning in &config.warnings {
        ui::tell(warning);
    }
    let masker = app::masker(&config.config, &[])?;
    let own = StateDirs::of(dirs.as_ref());
    let mut workspace = app::open_workspace(&root, &options.add_dir, &own)?;
    let writable = Writable::of(&config.config, &workspace)?;
    let mut id = String::new();
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    let mut summary = None;
    let kept = if record {
        id = uuid::Uuid::now_v7().to_string();
        let storage = Storage::make(&root, dirs.as_ref());
        if let Some(notice) = &storage.notice {
            ui::tell(notice);
        }
        if storage.is_ephemeral {
            return Err(OpenError::Usage("--record: no state directory can be written".to_owned()));
        }
        let log = Log::create(&storage.log_path(&id))
            .map_err(|error| OpenError::Usage(error.to_string()))?;
        sinks.push(Box::new(log));
        sinks.push(Box::new(summary.insert(SummarySink::default()).clone()));
        workspace = app::with_checkpoints(workspace, &config.config, &storage, &id)?;
        Kept::beside(&storage.log_path(&id), &root, masker.clone())
    } else {
        // Spilled output is kept after the call, for the user.
        Kept::unrecorded(Spill::for_a_day(masker.clone(), writable.places()))
    };
    let workspace = Arc::new(workspace.with_readable(kept.spill.folder()));
    let events = Events::new(id, 0, Arc::new(SystemClock), masker, sinks);
    let mode = config.mode(PermissionMode::AutoEdit);
    let (sandbox, guarantees) = if runs_commands || record {
        app::open_sandbox(&config, &writable, &own)?
    } else {
        app::no_sandbox("this call runs no command")
    };
    let settings = app::settings(&config, &writable, mode, sandbox.is_some(), &workspace)?;
    let cwd = workspace.root().display().to_string();
    let inner = events.clone();
    let exec = app::exec(&config.config, &writable);
    let mcp = McpServers::of(&config, &writable, dirs.as_ref())?;
    for notice in &mcp.notices {
        ui::tell(notice);
    }
    // (Without a model there are no sub-agents.)
    let tools = tools::all().into_iter().chain(mcp.tools()).collect();
    let gate = app::open_toolbox(exec, settings, sandbox, (workspace, tools), kept, inner, control);
    if record {
        events.emit(Body::SessionStarted(SessionStarted {
            cwd,
            model: "none".to_owned(),
            permission_mode: mode,
            tools: gate.registry.specs().iter().map(|spec| spec.name.to_string()).collect(),
            mcp_servers: mcp.at_start(),
            sandbox: guarantees,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            place: String::new(),
            settings: Object::new(),
        }));
        events.at(Place { turn: 1, ..Place::default() });
        gate.registry.begin_turn(1);
    }
    mcp.announce(&events);
    Ok(Tools { gate, mcp, summary })
}

fn no_call(error: &serde_json::Error) -> Sealed {
    let message = format!("the line is not a call: {error}");
    let hint =
        "write {\"id\": 1, \"name\": \"Read\", \"input\": {\"path\": \"README.md\"}}".to_owned();
    let error = ToolError { code: ErrorCode::InvalidParam, message, hint: Some(hint) };
    Envelope::refusal(error, Object::new(), Object::new()).into()
}

fn usage(reason: &str) -> u8 {
    ui::tell(reason);
    2
}

fn refused(error: &OpenError) -> u8 {
    ui::tell(&error.to_string());
    error.exit_code()
}
