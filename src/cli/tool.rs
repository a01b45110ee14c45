//! `agent tool`: runs tools without a model, with the same checks.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::guarded_tools::{self, GuardedTools, RecordingMode, ToolSelection};
use super::options::ToolOptions;
use super::stdin::{InputLine, LineReader};
use super::{print_answer, text_or_data};
use crate::app::OpenError;
use agent_engine::tools;
use agent_protocol::Object;
use agent_protocol::control::SessionControl;
use agent_protocol::envelope::{Envelope, ErrorCode, SealedEnvelope, ToolError};
use agent_protocol::message::ToolCall;

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools and their arguments
    List(ToolListArgs),
    /// Call one tool and print its envelope
    Call(CallArgs),
    /// Call many tools: JSON lines `{"id", "name", "input"}` in, `{"id", "envelope"}` out
    ///
    /// All calls share one state: a file that one call has read can be changed by the next.
    Batch(BatchArgs),
}

#[derive(Debug, Args)]
pub(super) struct ToolListArgs {
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

pub(super) fn run(command: ToolCommand) -> u8 {
    match command {
        ToolCommand::List(args) => list_tools(&args),
        ToolCommand::Call(args) => call_tool(&args),
        ToolCommand::Batch(args) => run_batch(&args),
    }
}

fn list_tools(args: &ToolListArgs) -> u8 {
    let tools = tools::all_tools();
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
    print_answer(Ok(text_or_data(out, args.json)))
}

fn call_tool(args: &CallArgs) -> u8 {
    match serde_json::from_str::<Value>(&args.input) {
        Ok(Value::Object(_)) => {}
        Ok(_) => {
            agent_ui::print_notice(
                "the input is not a JSON object; write it like '{\"path\":\"README.md\"}'",
            );
            return 2;
        }
        Err(error) => {
            agent_ui::print_notice(&format!("the input is not valid JSON: {error}"));
            return 2;
        }
    }
    let control = SessionControl::default();
    let work = async {
        let tools = open_tools(&args.options, args.record, args.name == "Bash", &control)?;
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: args.name.clone(),
            arguments: args.input.clone(),
        };
        let envelope = tools.toolbox.registry.run_call(&call).await.envelope;
        // Standard output is masked like all other output.
        let answer = tools.toolbox.events.masker().to_masked_json(&envelope);
        agent_ui::print_output(&agent_ui::CommandOutput::Data(answer + "\n"));
        tools.close().await;
        let code = u8::from(envelope.error().is_some());
        Ok(control.interrupt_cause().map_or(code, |interrupt| interrupt.ending().exit_code()))
    };
    super::block_on_result(work, &control)
}

#[derive(Deserialize)]
struct BatchCall {
    id: Value,
    name: String,
    #[serde(default)]
    input: Object,
}

#[derive(Serialize)]
struct BatchAnswer {
    id: Value,
    envelope: SealedEnvelope,
}

fn run_batch(args: &BatchArgs) -> u8 {
    let control = SessionControl::default();
    let work = async {
        let tools = open_tools(&args.options, args.record, true, &control)?;
        let mut code = 0;
        let mut lines = LineReader::spawn(usize::MAX);
        let cancel = control.cancellation_token();
        while let Some(Some(line)) = cancel.run_until_cancelled(lines.next()).await {
            let line = match line {
                Ok(InputLine::Line(line)) => line,
                Ok(InputLine::TooLong) => continue,
                Err(error) => {
                    agent_ui::print_notice(&format!("standard input: {error}"));
                    code = 2;
                    break;
                }
            };
            let answer = match serde_json::from_slice::<BatchCall>(&line) {
                Ok(BatchCall { id, name, input }) => {
                    let arguments = Value::Object(input).to_string();
                    let call = ToolCall { id: id.to_string(), name, arguments };
                    let envelope = tools.toolbox.registry.run_call(&call).await.envelope;
                    BatchAnswer { id, envelope }
                }
                Err(error) => {
                    code = 2;
                    BatchAnswer { id: Value::Null, envelope: invalid_call(&error) }
                }
            };
            let answer = tools.toolbox.events.masker().to_masked_json(&answer) + "\n";
            if !agent_ui::print_output(&agent_ui::CommandOutput::Data(answer)) {
                break;
            }
        }
        tools.close().await;
        Ok(control.interrupt_cause().map_or(code, |interrupt| interrupt.ending().exit_code()))
    };
    super::block_on_result(work, &control)
}

fn open_tools(
    options: &ToolOptions,
    record: bool,
    runs_commands: bool,
    control: &SessionControl,
) -> Result<GuardedTools, OpenError> {
    let recording = if record { RecordingMode::Required } else { RecordingMode::Off };
    let guarded =
        guarded_tools::open(options, ToolSelection::All, recording, runs_commands, control)?;
    guarded.begin_session().map_err(OpenError::Usage)?;
    Ok(guarded)
}

fn invalid_call(error: &serde_json::Error) -> SealedEnvelope {
    let message = format!("the line is not a call: {error}");
    let hint =
        "write {\"id\": 1, \"name\": \"Read\", \"input\": {\"path\": \"README.md\"}}".to_owned();
    let error = ToolError { code: ErrorCode::InvalidParam, message, hint: Some(hint) };
    Envelope::refusal(error, Object::new(), Object::new()).into()
}
