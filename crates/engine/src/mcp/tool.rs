//! The tools that the model calls: one for each tool of a server, and one for all servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use super::server::{Server, ToolInfo};
use super::tool_names::ToolNames;
use super::{MCP_TOOL_NAME, Servers, ToolScope, call, search};
use crate::tools::{CallTarget, Tool, ToolCx};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::most_similar;
use agent_protocol::tool::{Effect, ToolSpec, mcp_tool_name};

/// Time that a search gives servers to start.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A tool with the schema that the model received.
pub(super) struct ServerTool {
    servers: Servers,
    server: Arc<Server>,
    tool: String,
    reads_only: bool,
    spec: ToolSpec,
}

impl ServerTool {
    pub(super) fn new(servers: Servers, server: Arc<Server>, name: &str, tool: &ToolInfo) -> Self {
        let spec = ToolSpec {
            name: name.to_owned().into(),
            description: tool.description.clone().into(),
            schema: tool.schema.clone(),
            is_foreign: true,
        };
        Self { servers, server, tool: tool.name.clone(), reads_only: tool.reads_only, spec }
    }
}

impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, _: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        let (server, tool) = (self.server.name().to_owned(), self.tool.clone());
        Ok(Effect::Mcp { server, tool, reads_only: self.reads_only }.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        self.servers.start();
        call::call_tool(&self.server, &self.tool, input, Some(&self.spec.schema), cx).boxed()
    }
}

/// Searches and calls the tools of all servers in its scope.
pub(super) struct McpTool {
    pub(super) servers: Servers,
    pub(super) scope: ToolScope,
    pub(super) names: ToolNames,
    pub(super) spec: ToolSpec,
}

impl McpTool {
    /// The server and its tool that the arguments name; `None` for a search.
    fn find_tool<'a>(
        &'a self,
        input: &'a Object,
    ) -> Result<Option<(&'a Arc<Server>, &'a str)>, Failure> {
        let tool = input.get("tool").and_then(Value::as_str).filter(|tool| !tool.is_empty());
        let Some(tool) = tool else {
            if input.contains_key("search") {
                return Ok(None);
            }
            let why = "neither `tool` nor `search` is given";
            let hint = "`tool` calls a tool (server.tool), `search` finds tools by words";
            return Err(Failure::new(ErrorCode::InvalidParam, why).with_hint(hint));
        };
        self.servers.find_tool(tool).map(Some).ok_or_else(|| {
            let servers = self.servers.names();
            let server = tool.split('.').next().unwrap_or(tool);
            let hint = match most_similar(server, servers.iter().copied()) {
                Some(name) => format!("name it as server.tool; did you mean the server {name}?"),
                None => format!("name it as server.tool; the servers are {}", servers.join(", ")),
            };
            let message = format!("{tool:?} names no tool of an MCP server");
            Failure::new(ErrorCode::UnknownTool, message).with_hint(hint)
        })
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        let Some((server, tool)) = self.find_tool(input)? else {
            return Ok(Effect::Lookup.into());
        };
        let known = server.tools();
        let known = known.as_ref().and_then(|tools| tools.iter().find(|known| known.name == tool));
        let reads_only = known.is_some_and(|tool| tool.reads_only);
        let hashed = self.names.hashed_name(server.name(), tool);
        if !self.scope.allows(server.name(), tool, hashed, reads_only) {
            let message = format!("this agent may not use {}.{tool}", server.name());
            let hint = "do it in another way, or say in the final answer that it is missing";
            return Err(Failure::new(ErrorCode::AccessDenied, message).with_hint(hint));
        }
        let (server, tool) = (server.name().to_owned(), tool.to_owned());
        Ok(Effect::Mcp { server, tool, reads_only }.into())
    }

    fn hint_for_unknown_name(&self, name: &str) -> Option<String> {
        let servers = self.servers.servers();
        let tool = servers.iter().find_map(|server| {
            let tools = server.tools()?;
            let is_named = |tool: &&ToolInfo| {
                mcp_tool_name(server.name(), &tool.name) == name
                    || name == format!("{}.{}", server.name(), tool.name)
            };
            let tool = tools.iter().find(is_named)?;
            let hashed = self.names.hashed_name(server.name(), &tool.name);
            let has = self.scope.allows(server.name(), &tool.name, hashed, tool.reads_only);
            has.then(|| format!("{}.{}", server.name(), tool.name))
        });
        let of_server = || {
            let (server, _) = name.split_once('.')?;
            servers.iter().any(|it| it.name() == server).then(|| name.to_owned())
        };
        let tool = tool.or_else(of_server)?;
        Some(format!("call {MCP_TOOL_NAME} with {{\"tool\": {tool:?}, \"arguments\": …}}"))
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        self.servers.start();
        async move {
            match self.find_tool(&input)? {
                Some((server, tool)) => {
                    let arguments = input.get("arguments").and_then(Value::as_object);
                    let arguments = arguments.cloned().unwrap_or_default();
                    call::call_tool(server, tool, arguments, None, cx).await
                }
                None => {
                    let settled =
                        tokio::time::timeout(START_TIMEOUT, self.servers.wait_until_ready(None));
                    _ = cx.cancel.run_until_cancelled(settled).await;
                    let words = input.get("search").and_then(Value::as_str).unwrap_or_default();
                    Ok(search::search_tools(&self.servers, &self.scope, &self.names, words))
                }
            }
        }
        .boxed()
    }
}
