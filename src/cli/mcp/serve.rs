//! `agent mcp serve`: the guarded tools for another agent, over standard input and output.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, MetaObject,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as RpcTool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RunningService, ServerInitializeError, serve_server_with_ct};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use super::stdio;
use crate::app::OpenError;
use crate::cli::guarded_tools::{self, GuardedTools};
use crate::cli::options::ToolOptions;
use crate::cli::stdout::{self, Output};
use agent_protocol::control::SessionControl;
use agent_protocol::message::{ImageSource as _, ToolCall};
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::tool::ToolSpec;
use agent_protocol::view::render_for_model;

const INSTRUCTIONS: Prompt = Prompt::named("mcp/serve.md");
/// How long calls may run after the client has closed our input: clients wait about twice as long for our end.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Field of a result's `_meta`.
const ENVELOPE: &str = "agent/envelope";

#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
    /// Do not record the calls as a session: their changes cannot be undone
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    options: ToolOptions,
}

/// The tools for another agent; the first ones only read.
const SERVED_TOOLS: [&str; 8] =
    ["LS", "Glob", "Grep", "Read", "Write", "Edit", "MultiEdit", "Bash"];
const N_READING: usize = 4;

pub(super) fn serve(args: &ServeArgs) -> u8 {
    let Some(output) = stdout::report_thread_error(Output::open()) else { return 2 };
    let control = SessionControl::default();
    crate::cli::block_on_result(serve_connection(args, &control, output), &control)
}

async fn serve_connection(
    args: &ServeArgs,
    control: &SessionControl,
    output: Output,
) -> Result<u8, OpenError> {
    let is_served: fn(&str) -> bool = |name| SERVED_TOOLS.contains(&name);
    let guarded =
        guarded_tools::open(&args.options, Some(is_served), !args.ephemeral, true, control)?;
    if agent_ui::is_terminal() {
        agent_ui::print_notice(
            "this speaks MCP over standard input and output; another agent starts it, \
             for example: claude mcp add files -- agent mcp serve",
        );
    }
    let calls = control.cancellation_token().child_token();
    let session = Arc::new(McpToolServer::new(guarded, calls.clone()));
    let ended = CancellationToken::new();
    let stdio = stdio::transport(output.clone(), ended.clone());
    let cancel = control.cancellation_token().child_token();
    let code = match serve_server_with_ct(Arc::clone(&session), stdio, cancel.clone()).await {
        Ok(running) => {
            wait_for_end(running, (&ended, output.lost()), &calls, &cancel).await;
            0
        }
        // The client went away before it began, or the program ends.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => 0,
        Err(error) => {
            agent_ui::print_notice(&format!(
                "the MCP handshake failed: {error}; a client sends `initialize` first"
            ));
            1
        }
    };
    session.guarded.close().await;
    output.finish().await;
    Ok(control.interrupt_cause().map_or(code, |interrupt| interrupt.ending().exit_code()))
}

/// Interrupts calls that still run at the end.
async fn wait_for_end(
    running: RunningService<RoleServer, Arc<McpToolServer>>,
    (ended, lost): (&CancellationToken, &CancellationToken),
    calls: &CancellationToken,
    cancel: &CancellationToken,
) {
    let over = running.waiting();
    tokio::pin!(over);
    let is_lost = async {
        let closed = async {
            ended.cancelled().await;
            tokio::time::sleep(DRAIN_TIME).await;
        };
        tokio::select! {
            () = closed => {}
            () = lost.cancelled() => cancel.cancel(),
        }
    };
    tokio::select! {
        _ = &mut over => {}
        () = is_lost => {
            calls.cancel();
            _ = over.await;
        }
    }
}

struct McpToolServer {
    guarded: GuardedTools,
    info: ServerConfig,
    tools: Vec<RpcTool>,
    /// Calls that only read run in parallel; others run alone, in the order of arrival.
    call_lock: RwLock<()>,
    n_calls: AtomicU64,
    /// Cancelled when no call may run any more.
    cancel: CancellationToken,
}

impl McpToolServer {
    fn new(guarded: GuardedTools, cancel: CancellationToken) -> Self {
        let registry = &guarded.toolbox.registry;
        let root = registry.root().display().to_string();
        let instructions = fill(guarded.prompts.text(INSTRUCTIONS), &[("root", &root)]);
        let info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("code-agent", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions.trim_end());
        let tools = registry.specs().iter().filter_map(to_rpc_tool).collect();
        Self { guarded, info, tools, call_lock: RwLock::default(), n_calls: 0.into(), cancel }
    }

    async fn run_call(&self, call: &ToolCall, cancel: CancellationToken) -> CallToolResult {
        let registry = &self.guarded.toolbox.registry;
        let reads_only = registry.effect_of(call).is_ok_and(|effect| effect.is_read_only());
        let turn = async {
            if reads_only {
                (Some(self.call_lock.read().await), None)
            } else {
                (None, Some(self.call_lock.write().await))
            }
        };
        // If it is cancelled meanwhile, the registry says so.
        let _turn = cancel.run_until_cancelled(turn).await;
        // The other agent has its own context, and its user may have sent something: repetitions do
        // not matter.
        registry.reset_repetitions();
        let envelope = registry.run_cancellable_call(call, cancel).await.envelope;
        let mut content = vec![ContentBlock::text(render_for_model(&envelope))];
        for image in envelope.images() {
            if let Some(bytes) = registry.cx().images.content(&image) {
                content.push(ContentBlock::image(STANDARD.encode(bytes), image.media_type));
            }
        }
        let result = match envelope.error() {
            Some(_) => CallToolResult::error(content),
            None => CallToolResult::success(content),
        };
        // Not in `structuredContent`: where it is present, agents show their model that instead of the text.
        let mut meta = MetaObject::default();
        meta.0.insert(ENVELOPE.to_owned(), serde_json::to_value(&envelope).unwrap_or_default());
        result.with_meta(Some(meta))
    }
}

fn to_rpc_tool(spec: &ToolSpec) -> Option<RpcTool> {
    // Upper bounds of its effects, for the client.
    let reads_only = SERVED_TOOLS.iter().position(|tool| *tool == spec.name)? < N_READING;
    let Value::Object(schema) = spec.parameters() else { return None };
    let annotations = ToolAnnotations::new()
        .read_only(reads_only)
        .destructive(!reads_only)
        .open_world(spec.name == "Bash");
    let tool = RpcTool::new(spec.name.clone(), spec.description.clone(), Arc::new(schema));
    Some(tool.with_annotations(annotations))
}

impl ServerHandler for McpToolServer {
    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.guarded.begin_session().map_err(|why| ErrorData::internal_error(why, None))?;
        self.guarded.take_first_checkpoint();
        let id = format!("call_{}", self.n_calls.fetch_add(1, Ordering::Relaxed) + 1);
        let arguments = Value::Object(params.arguments.unwrap_or_default()).to_string();
        let call = ToolCall { id, name: params.name.into_owned(), arguments };
        let cancel = self.cancel.child_token();
        let work = self.run_call(&call, cancel.clone());
        tokio::pin!(work);
        tokio::select! {
            result = &mut work => return Ok(result.into()),
            // The call ends in an orderly way, although its result is not needed.
            () = context.ct.cancelled() => cancel.cancel(),
        }
        Ok(work.await.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if method == "tools/call" {
            let words = "tools/call: the parameters are `name`, a text, and `arguments`, an object";
            return Err(ErrorData::invalid_params(words, None));
        }
        let words = format!("{method}: there is no such method, or its parameters do not fit");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None))
    }
}
