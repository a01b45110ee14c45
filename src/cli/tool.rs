//! `agent tool`: runs tools without a model, with the same checks.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::guarded::{self, Guarded, Recording, Tools};
use super::options::ToolOptions;
use super::stdin::{self, Input};
use crate::app::OpenError;
use agent_engine::tools;
use agent_protocol::Object;
use agent_protocol::control::Control;
use agent_protocol::envelope::{Envelope, ErrorCode, Sealed, ToolError};
use agent_protocol::message::ToolCall;

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
    agent_ui::answer(&if args.json { agent_ui::Answer::Data(out) } else { out.into() });
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
        agent_ui::answer(&agent_ui::Answer::Data(answer + "\n"));
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
        let mut bunches = stdin::lines(usize::MAX);
        'all: while let Some(Some(bunch)) =
            control.cancel().run_until_cancelled(bunches.recv()).await
        {
            let lines = match bunch {
                Ok(lines) => lines,
                Err(error) => {
                    agent_ui::tell(&format!("standard input: {error}"));
                    code = 2;
                    break;
                }
            };
            for line in &lines {
                let Input::Line(line) = line else { continue };
                if line.trim_ascii().is_empty() {
                    continue;
                }
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
                if !agent_ui::answer(&agent_ui::Answer::Data(answer)) {
                    break 'all;
                }
            }
        }
        tools.close().await;
        control.interrupted().map_or(code, |interrupt| interrupt.ending().exit_code())
    };
    super::block_on(work, &control)
}

fn open(
    options: &ToolOptions,
    record: bool,
    runs_commands: bool,
    control: &Control,
) -> Result<Guarded, OpenError> {
    let recording = if record { Recording::Yes } else { Recording::No };
    let guarded = guarded::open(options, Tools::All, recording, runs_commands, control)?;
    guarded.begin().map_err(OpenError::Usage)?;
    Ok(guarded)
}

fn no_call(error: &serde_json::Error) -> Sealed {
    let message = format!("the line is not a call: {error}");
    let hint =
        "write {\"id\": 1, \"name\": \"Read\", \"input\": {\"path\": \"README.md\"}}".to_owned();
    let error = ToolError { code: ErrorCode::InvalidParam, message, hint: Some(hint) };
    Envelope::refusal(error, Object::new(), Object::new()).into()
}

fn usage(reason: &str) -> u8 {
    agent_ui::tell(reason);
    2
}

fn refused(error: &OpenError) -> u8 {
    agent_ui::tell(&error.to_string());
    error.exit_code()
}
