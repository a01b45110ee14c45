//! Tools as the model sees them ([`ToolSpec`]), and the effects of calls ([`Effect`]).

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;

pub const CHANGE_TOOLS: &[&str] = &["Write", "Edit", "MultiEdit"];

/// What a call of Bash does with a background command, in rules, hooks and requests to programs.
pub const BASH_OUTPUT: &str = "BashOutput";
pub const BASH_KILL: &str = "BashKill";

/// The name of what a call of Bash with this input does with a background command, and the command's id.
pub fn background_operation(input: &Object) -> Option<(&'static str, &str)> {
    let text = |name: &str| input.get(name)?.as_str().filter(|text| !text.is_empty());
    // Models also write `true` as a text.
    let output_of = text("background").filter(|id| !matches!(*id, "true" | "false"));
    text("kill").map(|id| (BASH_KILL, id)).or(output_of.map(|id| (BASH_OUTPUT, id)))
}

/// The name of a call in rules, hooks and requests to programs: the tool's, or [`BASH_OUTPUT`] or [`BASH_KILL`].
pub fn operation_name<'a>(tool: &'a str, input: &Object) -> &'a str {
    background_operation(input).filter(|_| tool == "Bash").map_or(tool, |(name, _)| name)
}

/// A tool as described to the model. The list of tools changes during a session only in a small window.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: Cow<'static, str>,
    /// From `prompts/tools/<name>.md`.
    pub description: Cow<'static, str>,
    /// JSON Schema of its input, from `prompts/tools/<name>.json`: an object that allows no
    /// additional properties. A property with `"x-unlisted": true` is accepted, but not listed to the model; in a
    /// small window only those with `"x-essential": true` are.
    pub schema: Value,
    /// The schema comes from an MCP server: it is passed on whole, and arguments keep their names.
    pub is_foreign: bool,
}

impl ToolSpec {
    /// The schema as the model receives it: ours without unlisted properties and without bounds, which would
    /// cost tokens in every request.
    pub fn parameters(&self) -> Value {
        let mut parameters = self.schema.clone();
        if !self.is_foreign {
            shorten_schema(&mut parameters);
        }
        parameters
    }

    /// The tool with a shorter description and only its essential parameters.
    #[must_use]
    pub fn shortened(&self, description: &str) -> Self {
        let mut schema = self.schema.clone();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.retain(|_, property| property["x-essential"] == true);
        }
        Self { description: description.to_owned().into(), schema, ..self.clone() }
    }
}

fn shorten_schema(schema: &mut Value) {
    const LEFT_OUT: [&str; 7] = [
        "additionalProperties",
        "minimum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "x-essential",
    ];
    let Value::Object(schema) = schema else { return };
    schema.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|_, property| property["x-unlisted"] != true);
        properties.values_mut().for_each(shorten_schema);
    }
    if let Some(items) = schema.get_mut("items") {
        shorten_schema(items);
    }
}

/// What a call with given arguments would touch. Paths are resolved, with `/`, and relative to the project
/// root; a path under an `--add-dir` is absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file or folder.
    Read {
        /// The path.
        path: String,
    },
    /// Creates or replaces one file.
    Write {
        /// The file.
        path: String,
    },
    /// Runs a command line, which may do anything that the sandbox permits.
    Command {
        /// The line, as bash gets it.
        command: String,
        /// The working directory.
        directory: String,
        /// All of its commands are known to only read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads_only: bool,
        /// Programs that it runs and that are not known to only read, each with its first operand (`cargo
        /// test`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        programs: Vec<String>,
        /// Those of them that may fail although it exits with 0: `make || true`, `make; echo done`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unproven: Vec<String>,
        /// It runs in the background until it is ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        background: bool,
    },
    /// Reads from a background command of this session, or terminates it.
    Job {
        /// Its id.
        id: String,
        /// It is terminated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kills: bool,
    },
    /// Changes only the plan.
    Plan,
    /// Asks the user a question.
    Ask,
    /// Loads the instructions of a skill.
    Skill {
        /// The skill's name.
        name: String,
    },
    /// Starts a sub-agent. Each of its calls has an effect of its own.
    Agent {
        /// The role.
        role: String,
        /// Its tools only read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads_only: bool,
    },
    /// Calls a tool of an MCP server, which may do anything: it runs outside the sandbox.
    Mcp {
        /// The server's name in the configuration.
        server: String,
        /// The tool's name on the server.
        tool: String,
        /// The server says that it only reads. It decides only what runs in parallel, and what
        /// sub-agents that only read have, because nobody checks it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads_only: bool,
    },
    /// Looks up the descriptions of tools.
    Lookup,
    /// Requests a page of the web.
    Fetch {
        /// The address.
        url: String,
        /// Its host, as rules name it.
        host: String,
    },
    /// Sends a query to a search service.
    WebSearch {
        /// The query.
        query: String,
    },
}

impl Effect {
    /// The file or folder of a file tool.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Write { path } => Some(path),
            _ => None,
        }
    }

    /// Whether the call may change files or have another effect outside the session.
    pub fn writes(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Command { .. } | Self::Mcp { .. } => true,
            Self::Agent { reads_only, .. } => !reads_only,
            Self::Read { .. }
            | Self::Job { .. }
            | Self::Plan
            | Self::Ask
            | Self::Skill { .. }
            | Self::Lookup
            | Self::Fetch { .. }
            | Self::WebSearch { .. } => false,
        }
    }

    /// Whether the call concerns only the session itself; the calls of a sub-agent have effects of their own.
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::Job { .. }
                | Self::Plan
                | Self::Ask
                | Self::Skill { .. }
                | Self::Agent { .. }
                | Self::Lookup
        )
    }

    /// Whether the call has no side effects: such calls may run in parallel.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Read { .. }
            | Self::Skill { .. }
            | Self::Lookup
            | Self::Fetch { .. }
            | Self::WebSearch { .. } => true,
            Self::Command { reads_only, .. }
            | Self::Agent { reads_only, .. }
            | Self::Mcp { reads_only, .. } => *reads_only,
            Self::Write { .. } | Self::Job { .. } | Self::Plan | Self::Ask => false,
        }
    }
}

/// How the sandbox of one command differs from the session's profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandRights {
    /// Only the private TMPDIR is writable.
    pub read_only: bool,
    pub network: bool,
    pub git_config: GitConfigAccess,
    pub unsandboxed: bool,
}

/// Whether a command may write git's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GitConfigAccess {
    /// It is read-only where the sandbox has mounts.
    #[default]
    Protected,
    /// It is writable, and what git itself does not write is reverted.
    Compared,
    /// The user permitted any change.
    Granted,
}

/// The name of an MCP server's tool for the model, as in Claude Code, before long names are cut.
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", sanitize_name(server), sanitize_name(tool))
}

/// Replaces characters that providers do not accept by `_`.
pub fn sanitize_name(name: &str) -> String {
    let valid = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    name.chars().map(|letter| if valid(letter) { letter } else { '_' }).collect()
}
