//! One call of a tool on its server: time limit, cancellation, and what went wrong.

use std::time::Duration;

use futures_util::FutureExt as _;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ErrorCode as RpcCode};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::Value;
use tokio::time::timeout;

use super::result::report_answer;
use super::search::describe_tool;
use super::server::{Server, ServerConnection, ServerState, ToolInfo};
use super::{MCP_TOOL_NAME, http};
use crate::tools::ToolCx;
use agent_host::exec::seconds;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::most_similar;
use agent_protocol::schema::Schema;
use agent_protocol::{Object, one_line, shorten};

const LOSS_REASON_TIMEOUT: Duration = Duration::from_millis(500);
/// Limit of a server's error message.
const MAX_MESSAGE_BYTES: usize = 1000;

/// `schema` is the one that the model received and that the arguments fit; without it they are checked here.
pub(super) async fn call_tool(
    server: &Server,
    tool: &str,
    arguments: Object,
    schema: Option<&Value>,
    cx: &ToolCx,
) -> Result<Report, Failure> {
    let limit = server.settings.timeout;
    let name = format!("{}.{tool}", server.name());
    let calling = async {
        let connected = wait_for_connection(server).await?;
        let known = connected.tools.iter().find(|known| known.name == tool);
        let arguments = match (schema, known) {
            (None, None) => return Err(unknown_tool_failure(server, &connected, tool)),
            (None, Some(known)) => check_arguments(server, known, arguments)?,
            (Some(_), _) => arguments,
        };
        let changed = known.filter(|known| schema.is_some_and(|schema| known.schema != *schema));
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = CallToolRequest::new(params).into();
        let options = PeerRequestOptions::no_options();
        let sent = connected.peer.send_cancellable_request(request, options).await;
        let mut handle = match sent {
            Ok(handle) => PendingCall(Some(handle)),
            Err(error) => return Err(failure_from_error(server, &connected, error, changed).await),
        };
        match handle.wait_for_answer().await {
            Ok(answer) => {
                server.record_reachability(Ok(()));
                report_answer(&name, answer, cx)
                    .map_err(|failure| with_changed_tool(failure, server, changed))
            }
            Err(error) => Err(failure_from_error(server, &connected, error, changed).await),
        }
    };
    match cx.cancel.run_until_cancelled(timeout(limit, calling)).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => {
            let message = format!("{name} did not answer within {}", seconds(limit));
            let hint = format!(
                "use another tool, or say in the final answer that mcp.servers.{}.timeout can be raised",
                server.name()
            );
            Err(Failure::new(ErrorCode::McpTimeout, message).with_hint(hint))
        }
        None => {
            let message = format!("{name} was cancelled; it may have had its effect");
            Err(Failure::new(ErrorCode::Cancelled, message))
        }
    }
}

/// The server is notified if the call is dropped before its answer.
struct PendingCall(Option<RequestHandle<RoleClient>>);

impl PendingCall {
    async fn wait_for_answer(&mut self) -> Result<rmcp::model::ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // Polling it once passes the notice on to the thread of the servers; only its delivery is not waited for.
            _ = handle.cancel(Some("the call was cancelled".to_owned())).now_or_never();
        }
    }
}

pub(super) async fn wait_for_connection(server: &Server) -> Result<ServerConnection, Failure> {
    let why = match server.wait_until_settled().await {
        ServerState::Connected(connected) => return Ok(connected),
        ServerState::Failed(why) => why,
        ServerState::Idle | ServerState::Connecting => "it was ended".into(),
    };
    Err(unavailable_failure(server, &why))
}

fn unavailable_failure(server: &Server, why: &str) -> Failure {
    let message = format!("the MCP server {} is not available: {why}", server.name());
    Failure::new(ErrorCode::McpUnavailable, message)
        .with_hint("continue without it, or say in the final answer what the user has to do")
}

fn unknown_tool_failure(server: &Server, connected: &ServerConnection, tool: &str) -> Failure {
    let names = connected.tools.iter().map(|tool| tool.name.as_str());
    let hint = match most_similar(tool, names) {
        Some(name) => format!("did you mean {}.{name}?", server.name()),
        None => format!("find its tools with {MCP_TOOL_NAME} and `search`"),
    };
    let message = format!("the MCP server {} has no tool {tool:?}", server.name());
    Failure::new(ErrorCode::UnknownTool, message).with_hint(hint)
}

/// Arguments are not checked if the tool's schema is not understood.
fn check_arguments(server: &Server, tool: &ToolInfo, arguments: Object) -> Result<Object, Failure> {
    let Ok(schema) = Schema::new(&tool.schema) else { return Ok(arguments) };
    let arguments = Value::Object(arguments);
    let problems = schema.mismatches(&arguments, |mismatch| {
        let at = mismatch.pointer.trim_start_matches('/').replace('/', ".");
        if at.is_empty() { mismatch.reason.clone() } else { format!("`{at}`: {}", mismatch.reason) }
    });
    match arguments {
        Value::Object(arguments) if problems.is_empty() => Ok(arguments),
        _ => Err(Failure::new(ErrorCode::InvalidParam, problems.join("; "))
            .with_hint("send `arguments` that fit the schema below")
            .with_data("content", describe_tool(server.name(), tool))),
    }
}

/// If the tool differs from the one that the model received, the failure describes the current one.
fn with_changed_tool(mut failure: Failure, server: &Server, changed: Option<&ToolInfo>) -> Failure {
    if let Some(tool) = changed {
        failure = failure.with_data("tool_now", describe_tool(server.name(), tool));
        failure.hint =
            Some(format!("the tool has changed: call it with {MCP_TOOL_NAME}, as described below"));
    }
    failure
}

/// `: why`, if that is known.
pub(super) async fn loss_reason(server: &Server, connected: &ServerConnection) -> String {
    match timeout(LOSS_REASON_TIMEOUT, server.wait_until_lost(connected)).await {
        Ok(ServerState::Failed(why)) => format!(": {why}"),
        Ok(_) | Err(_) => String::new(),
    }
}

async fn failure_from_error(
    server: &Server,
    connected: &ServerConnection,
    error: ServiceError,
    changed: Option<&ToolInfo>,
) -> Failure {
    match error {
        ServiceError::McpError(error) => {
            server.record_reachability(Ok(()));
            let message = shorten(&one_line(&error.message), MAX_MESSAGE_BYTES);
            let mut failure = Failure::new(ErrorCode::McpFailed, message);
            if error.code == RpcCode::INVALID_PARAMS {
                failure = failure.with_hint("check the arguments against the schema");
            }
            with_changed_tool(failure, server, changed)
        }
        ServiceError::TransportClosed => {
            let why = loss_reason(server, connected).await;
            let message = format!(
                "the MCP server {} ended during the call, which may have had its effect{why}",
                server.name()
            );
            Failure::new(ErrorCode::McpUnavailable, message)
                .with_hint("check what happened before you repeat the call")
        }
        error => match http::refusal_message(&error) {
            Some(why) => {
                server.record_reachability(Err(&why));
                unavailable_failure(server, &why)
            }
            None => {
                let why = one_line(&shorten(&http::root_cause(&error), MAX_MESSAGE_BYTES));
                if matches!(error, ServiceError::TransportSend(_)) {
                    server.record_reachability(Err(&why));
                }
                let message = format!(
                    "the MCP server {} gave no usable answer to the call, which may have had its effect: {why}",
                    server.name()
                );
                Failure::new(ErrorCode::McpUnavailable, message)
                    .with_hint("check what happened before you repeat the call")
            }
        },
    }
}
