//! MCP servers: their configuration, and the file `.mcp.json` that other agents use as well.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::edit::find_server;
use super::{line_of, parse_file};
use agent_protocol::disk::read_small_text_without_links;
use agent_protocol::settings::parse_duration;

/// Relative to a project's root.
pub const MCP_FILE: &str = ".mcp.json";

/// Tools of other programs, by the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// Limit of tokens that the tools of all servers take in a request. Beyond it, an index of them is sent, and the
    /// model looks up the tools that it needs.
    pub max_tool_tokens: u64,
    /// The servers by name.
    pub servers: BTreeMap<String, McpServer>,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { max_tool_tokens: 1200, servers: BTreeMap::new() }
    }
}

/// One MCP server: a program (`command`) or an address (`url`). `${NAME}` and `${NAME:-default}` in the values stand for
/// environment variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// Whether it is used.
    pub enabled: bool,
    /// The program. It runs as you, without the sandbox.
    #[schemars(example = &"uvx")]
    pub command: Option<String>,
    /// Its arguments.
    #[schemars(example = ["mcp-server-git"])]
    pub args: Vec<String>,
    /// Variables of its environment, which contains no keys.
    #[schemars(example = serde_json::json!({"LOG": "debug"}))]
    pub env: BTreeMap<String, String>,
    /// Names of variables with keys that it receives from your environment.
    #[schemars(example = ["GITHUB_TOKEN"])]
    pub pass_keys: Vec<String>,
    /// `project`: the program starts in the project. Otherwise it starts in an empty directory, unless the project is
    /// trusted, and learns about the project with `roots/list`.
    #[schemars(example = &"project")]
    pub cwd: Option<ServerDirectory>,
    /// The address of a server that speaks streamable HTTP.
    #[schemars(example = &"https://mcp.example.com/mcp")]
    pub url: Option<String>,
    /// Headers of each request to it.
    #[schemars(example = serde_json::json!({"Authorization": "Bearer ${MCP_TOKEN}"}))]
    pub headers: BTreeMap<String, String>,
    /// Time limit of its start, and of each call.
    pub timeout: String,
    /// The tools that are used; empty: all.
    #[schemars(example = ["log", "diff"])]
    pub enabled_tools: Vec<String>,
    /// Tools that are not used.
    #[schemars(example = ["push"])]
    pub disabled_tools: Vec<String>,
}

/// Where the program of a server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerDirectory {
    /// The root of the project.
    Project,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            enabled: true,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            pass_keys: Vec::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            timeout: "60s".into(),
            enabled_tools: Vec::new(),
            disabled_tools: Vec::new(),
        }
    }
}

impl McpServer {
    /// The error is the wrong key, and the reason.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => return Err(("url", "set command or url, not both".to_owned())),
            (None, None) => {
                let why = "set command (a program) or url (a streamable HTTP server)";
                return Err(("command", why.to_owned()));
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        parse_duration(&self.timeout).map(drop).map_err(|why| ("timeout", why))
    }

    /// Replaces the variables in its values; the error is the name of one that is not set.
    pub fn expand_variables(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let expand = |text: &String| expand_text(text, variable);
        let map = |map: &BTreeMap<String, String>| -> Result<BTreeMap<String, String>, String> {
            map.iter().map(|(name, value)| Ok((name.clone(), expand(value)?))).collect()
        };
        Ok(Self {
            command: self.command.as_ref().map(expand).transpose()?,
            args: self.args.iter().map(expand).collect::<Result<_, String>>()?,
            env: map(&self.env)?,
            url: self.url.as_ref().map(expand).transpose()?,
            headers: map(&self.headers)?,
            ..self.clone()
        })
    }
}

/// Replaces `${NAME}` and `${NAME:-default}`; the error is the name of a variable that is not set.
fn expand_text(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else { break };
        let (name, default) =
            inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        let value = variable(name).filter(|value| !value.is_empty() || default.is_none());
        expanded.push_str(before);
        expanded.push_str(&value.or(default.map(str::to_owned)).ok_or(name)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[derive(Debug, Default)]
pub(super) struct McpFile {
    /// As in a configuration file.
    pub(super) table: Table,
    /// By server.
    pub(super) lines: BTreeMap<String, usize>,
    pub(super) warnings: Vec<String>,
}

/// `None` if there is no file. Mistakes are warnings: the file was written for another program.
pub(super) fn read_mcp_file(path: &Path) -> Option<McpFile> {
    let mut file = McpFile::default();
    let shown = path.display().to_string();
    let (json, text) = match parse_file(&shown, read_small_text_without_links(path))? {
        Ok(parsed) => parsed,
        Err(why) => {
            file.warnings.push(format!("{why}; its servers are not used"));
            return Some(file);
        }
    };
    let mut servers = Table::new();
    for (name, server) in json["mcpServers"].as_object().into_iter().flatten() {
        let line = line_of(&text, name);
        match server_table(server) {
            Ok(table) => {
                file.lines.insert(format!("mcp.servers.{name}"), line);
                servers.insert(name.clone(), Value::Table(table));
            }
            Err(why) => {
                file.warnings.push(format!("{shown}:{line}: MCP server {name} is not used: {why}"));
            }
        }
    }
    if !servers.is_empty() {
        let servers = Table::from_iter([("servers".to_owned(), Value::Table(servers))]);
        file.table.insert("mcp".to_owned(), Value::Table(servers));
    }
    Some(file)
}

#[derive(Clone, Debug, Default)]
pub struct McpConfigServers {
    pub servers: BTreeMap<String, McpServer>,
    /// Servers in the program that started this one.
    pub host_servers: Vec<String>,
}

/// Parses servers of the command line in the JSON of a `.mcp.json`: a mistake is an error.
pub fn parse_servers(json: &Json) -> Result<McpConfigServers, String> {
    let Some(servers) = json["mcpServers"].as_object() else {
        return Err("there is no object \"mcpServers\" in it".to_owned());
    };
    let mut given = McpConfigServers::default();
    for (name, server) in servers {
        if server["type"] == "sdk" {
            given.host_servers.push(name.clone());
            continue;
        }
        let wrong = |why: String| format!("MCP server {name}: {why}");
        let server: Result<McpServer, _> = server_table(server).map_err(wrong)?.try_into();
        let server = server.map_err(|error| wrong(error.message().to_owned()))?;
        given.servers.insert(name.clone(), server);
    }
    Ok(given)
}

/// Unknown fields are for other programs.
fn server_table(server: &Json) -> Result<Table, String> {
    let kind = server["type"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "stdio" | "http" | "streamable-http" | "streamableHttp") {
        return Err(format!("the type {kind:?} is not supported; use stdio or http"));
    }
    let mut table = Table::new();
    for key in ["command", "url"] {
        if let Some(text) = server[key].as_str() {
            table.insert(key.to_owned(), text.into());
        }
    }
    if let Some(args) = server["args"].as_array() {
        table.insert("args".to_owned(), args.iter().map(json_text).collect::<Vec<_>>().into());
    }
    for key in ["env", "headers"] {
        if let Some(fields) = server[key].as_object() {
            let fields = fields.iter().map(|(name, value)| (name.clone(), json_text(value).into()));
            table.insert(key.to_owned(), Value::Table(fields.collect()));
        }
    }
    // In milliseconds. A number below a second is a mistake: some programs write seconds.
    let limits = 1000..=86_400_000;
    if let Some(timeout) = server["timeout"].as_u64().filter(|it| limits.contains(it)) {
        table.insert("timeout".to_owned(), format!("{timeout}ms").into());
    }
    if server["disabled"] == true {
        table.insert("enabled".to_owned(), false.into());
    }
    let parsed: Result<McpServer, _> = table.clone().try_into();
    let parsed = parsed.map_err(|error| error.message().trim_end().replace('\n', " "))?;
    parsed.check().map_err(|(_, why)| why)?;
    Ok(table)
}

fn json_text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Removes the servers of `merged` that `over` has: a server of a later layer takes nothing from
/// the earlier one.
pub(super) fn replace_servers(merged: &mut Table, over: &Table) {
    let servers = merged.get_mut("mcp").and_then(|mcp| mcp.get_mut("servers"));
    if let Some(servers) = servers.and_then(Value::as_table_mut) {
        servers.retain(|name, _| find_server(over, name).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_with_defaults() {
        let variable = |name: &str| match name {
            "A" => Some("x".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = expand_text(text, &variable);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("plain $A ${", Ok("plain $A ${"));
        check("-${A}-${A}", Ok("-x-x"));
        check("${B:-d}${A:-d}${EMPTY:-d}", Ok("dxd"));
        check("${EMPTY}", Ok(""));
        check("${B}", Err("B"));
        check("${B:-}", Ok(""));
    }
}
