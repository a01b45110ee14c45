//! `agent tool`: runs tools without a model, with the same checks.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::guarded_tools::{self, GuardedTools};
use super::options::ToolOptions;
use super::stdin::{InputLine, LineReader};
use super::{print_answer, report_error, usage_error};
use crate::app::OpenError;
use agent_engine::tools;
use agent_protocol::Object;
use agent_protocol::control::SessionControl;
use agent_protocol::envelope::{Envelope, ErrorCode, SealedEnvelope, ToolError};
use agent_protocol::message::ToolCall;
use agent_ui::CommandOutput;

#[derive(Debug, Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools, one JSON object per line, with the schema of each tool's input
    List,
    /// Call one tool and print its envelope
    Call(CallArgs),
    /// Call many tools: JSON lines `{"id", "name", "input"}` in, `{"id", "envelope"}` out
    ///
    /// All calls share one state: a file that one call has read can be changed by the next.
    Batch(RecordingOptions),
}

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The tool
    name: String,
    /// Its input, a JSON object
    input: String,
    #[command(flatten)]
    options: RecordingOptions,
}

#[derive(Debug, Args)]
pub(super) struct RecordingOptions {
    /// Record it as a session, with checkpoints
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    options: ToolOptions,
}

pub(super) fn run(command: ToolCommand) -> u8 {
    match command {
        ToolCommand::List => list_tools(),
        ToolCommand::Call(args) => call_tool(&args),
        ToolCommand::Batch(options) => run_batch(&options),
    }
}

fn list_tools() -> u8 {
    let mut out = String::new();
    for tool in tools::all_tools() {
        let spec = tool.spec();
        let line = json!({"name": spec.name, "description": spec.description, "input_schema": spec.schema});
        out.push_str(&format!("{line}\n"));
    }
    print_answer(Ok(CommandOutput::Data(out)))
}

fn call_tool(args: &CallArgs) -> u8 {
    match serde_json::from_str::<Value>(&args.input) {
        Ok(Value::Object(_)) => {}
        Ok(_) => {
            return report_error(
                "the input is not a JSON object; write it like '{\"path\":\"README.md\"}'",
            );
        }
        Err(error) => return report_error(&format!("the input is not valid JSON: {error}")),
    }
    let control = SessionControl::default();
    let work = async {
        let tools = open_tools(&args.options, args.name == "Bash", &control)?;
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: args.name.clone(),
            arguments: args.input.clone(),
        };
        let envelope = tools.toolbox.registry.run_call(&call).await.envelope;
        // Standard output is masked like all other output.
        let answer = tools.toolbox.events.masker().to_masked_json(&envelope);
        agent_ui::print_output(&CommandOutput::Data(answer + "\n"));
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

fn run_batch(options: &RecordingOptions) -> u8 {
    let control = SessionControl::default();
    let work = async {
        let tools = open_tools(options, true, &control)?;
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
            if !agent_ui::print_output(&CommandOutput::Data(answer)) {
                break;
            }
        }
        tools.close().await;
        Ok(control.interrupt_cause().map_or(code, |interrupt| interrupt.ending().exit_code()))
    };
    super::block_on_result(work, &control)
}

fn open_tools(
    RecordingOptions { record, options }: &RecordingOptions,
    runs_commands: bool,
    control: &SessionControl,
) -> Result<GuardedTools, OpenError> {
    let guarded = guarded_tools::open(options, None, *record, runs_commands, control)?;
    if *record && !guarded.is_recorded() {
        return Err(usage_error("--record: no state directory can be written"));
    }
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
