//! `agent tool`: the tools without a model, through the same gate.

use std::io::BufRead as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::options::{self, ToolOptions};
use crate::app::{self, Gate, OpenError, SystemClock};
use crate::config::UserDirs;
use crate::protocol::Object;
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::envelope::{Envelope, ErrorCode, ToolError};
use crate::protocol::event::Events;
use crate::protocol::message::ToolCall;
use crate::tools;
use crate::ui;
use crate::workspace::Spill;

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools and what they take
    List(ListArgs),
    /// Call one tool and print its envelope
    Call(CallArgs),
    /// Call many tools: JSON lines `{"id", "name", "input"}` in, `{"id", "envelope"}` out
    ///
    /// Everything goes through one gate: what one call has read, the next may change.
    Batch(ToolOptions),
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
    #[command(flatten)]
    options: ToolOptions,
}

pub(super) fn tool(command: ToolCommand) -> u8 {
    match command {
        ToolCommand::List(args) => list(&args),
        ToolCommand::Call(args) => call(&args),
        ToolCommand::Batch(options) => batch(&options),
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
    ui::print(&out);
    0
}

fn call(args: &CallArgs) -> u8 {
    match serde_json::from_str::<Value>(&args.input) {
        Ok(Value::Object(_)) => {}
        Ok(_) => {
            return usage("the input is no JSON object; write it like '{\"path\":\"README.md\"}'");
        }
        Err(error) => return usage(&format!("the input is not valid JSON: {error}")),
    }
    let control = Control::default();
    let work = async {
        let gate = match open(&args.options, &control) {
            Ok(gate) => gate,
            Err(error) => return refused(&error),
        };
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: args.name.clone(),
            arguments: args.input.clone(),
        };
        let envelope = gate.registry.call(&call).await.envelope;
        let mut answer = json!(envelope);
        // Standard output is a way out of the program like any other.
        gate.events.masker().mask_value(&mut answer);
        ui::print(&format!("{answer}\n"));
        gate.exec.shutdown();
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

fn batch(options: &ToolOptions) -> u8 {
    let control = Control::default();
    let work = async {
        let gate = match open(options, &control) {
            Ok(gate) => gate,
            Err(error) => return refused(&error),
        };
        let mut code = 0;
        let mut lines = lines_of_stdin();
        while let Some(Some(line)) = control.cancel().run_until_cancelled(lines.recv()).await {
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    ui::tell(&format!("standard input: {error}"));
                    code = 2;
                    break;
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut answer = match serde_json::from_slice::<Line>(&line) {
                Ok(Line { id, name, input }) => {
                    let arguments = Value::Object(input).to_string();
                    let call = ToolCall { id: id.to_string(), name, arguments };
                    json!({"id": id, "envelope": gate.registry.call(&call).await.envelope})
                }
                Err(error) => {
                    code = 2;
                    json!({"id": null, "envelope": no_call(&error)})
                }
            };
            gate.events.masker().mask_value(&mut answer);
            if !ui::print(&format!("{answer}\n")) {
                break;
            }
        }
        gate.exec.shutdown();
        control.interrupted().map_or(code, |interrupt| interrupt.ending().exit_code())
    };
    super::block_on(work, &control)
}

/// The lines of standard input, read on a thread of their own: a read that waits can not be
/// interrupted, and the calls must be.
fn lines_of_stdin() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    // One ahead is enough: who writes the lines is kept at our pace.
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = match stdin.read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(line),
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

fn open(options: &ToolOptions, control: &Control) -> Result<Gate, OpenError> {
    let root = options::root(options.cwd.as_deref())?;
    let dirs = UserDirs::find();
    let config = options::load(&root, dirs.as_ref(), options, None)?;
    for warning in &config.warnings {
        ui::tell(warning);
    }
    let masker = app::masker(&config.config, None)?;
    // Output too large to be shown is kept after the call: the person may want it.
    let name = format!("agent-tool-output-{}", std::process::id());
    let spill = Spill::new(std::env::temp_dir().join(name), &root, masker.clone());
    let workspace = app::open_workspace(&root, &options.add_dir)?;
    let (sandbox, _) = app::open_sandbox(&config.config, &workspace, dirs.as_ref())?;
    let workspace = Arc::new(workspace.with_readable(spill.folder()));
    let clock = Arc::new(SystemClock);
    let events = Events::new(String::new(), 0, clock, masker, Vec::new());
    let settings =
        app::settings(&config, config.mode(PermissionMode::AutoEdit), sandbox.is_some())?;
    Ok(app::open_gate(&config.config, settings, sandbox, workspace, spill, events, control))
}

fn no_call(error: &serde_json::Error) -> Envelope {
    let message = format!("the line is no call: {error}");
    let hint =
        "write {\"id\": 1, \"name\": \"Read\", \"input\": {\"path\": \"README.md\"}}".to_owned();
    let error = ToolError { code: ErrorCode::InvalidParam, message, hint: Some(hint) };
    Envelope::refusal(error, Object::new(), Object::new())
}

fn usage(reason: &str) -> u8 {
    ui::tell(reason);
    2
}

fn refused(error: &OpenError) -> u8 {
    ui::tell(&error.to_string());
    error.exit_code()
}
