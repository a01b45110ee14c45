//! Prepares a call: parses, validates and resolves it once, for permission, hooks, execution and its result.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments;
use super::repetition::{RepetitionKey, repetition_key};
use super::{RegisteredTool, Registry};
use crate::tools::{CallTarget, ChangeDraft, ToolCx};
use agent_host::workspace::{Snapshot, expand_home};
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::message::ToolCall;
use agent_protocol::tool::{BASH_KILL, BASH_OUTPUT, Effect};
use agent_protocol::{Object, most_similar};
use tokio_util::sync::CancellationToken;

/// What chat templates put before the name of a tool, and names of channels.
const NAMESPACES: [&str; 8] =
    ["functions", "function", "tools", "tool", "default_api", "analysis", "commentary", "final"];

/// A call that is judged, shown to the user and run as it is here. It is prepared again after `PreToolUse`
/// hooks, and if the user changes its arguments.
pub(super) struct PreparedCall<'a> {
    pub(super) entry: &'a RegisteredTool,
    pub(super) input: Object,
    pub(super) notes: String,
    pub(super) target: CallTarget,
    pub(super) key: RepetitionKey,
    /// The state at its last read of the file that is to be changed.
    pub(super) snapshot: Option<Snapshot>,
    /// The change that the user was asked about.
    pub(super) draft: Option<Arc<ChangeDraft>>,
}

pub(super) struct InvalidCall {
    pub(super) failure: Failure,
    /// The arguments, as far as they are valid JSON.
    pub(super) input: Object,
    pub(super) notes: String,
    /// The arguments fit the schema; what they name cannot be resolved.
    pub(super) is_validated: bool,
}

impl<'a> PreparedCall<'a> {
    fn new(entry: &'a RegisteredTool, input: Object, notes: String, target: CallTarget) -> Self {
        let canonical = entry.tool.canonical_input(&input);
        let key = repetition_key(&entry.tool.spec().name, canonical, &target.effect);
        Self { entry, input, notes, target, key, snapshot: None, draft: None }
    }
}

impl Registry {
    pub(super) fn prepare(&self, call: &ToolCall) -> Result<PreparedCall<'_>, InvalidCall> {
        let parsed = self.find_tool(&call.name).and_then(|entry| parse_input(entry, call));
        let (entry, input, notes) = parsed.map_err(|failure| InvalidCall {
            failure,
            input: arguments::envelope_input(call),
            notes: String::new(),
            is_validated: false,
        })?;
        match entry.tool.target(&input, &self.cx) {
            Ok(target) => Ok(PreparedCall::new(entry, input, notes, target)),
            Err(failure) => Err(InvalidCall { failure, input, notes, is_validated: true }),
        }
    }

    pub(super) fn prepare_replacement(
        &self,
        tool: &str,
        input: Object,
    ) -> Result<PreparedCall<'_>, Failure> {
        let entry = self.find_tool(tool)?;
        entry.validator.check_input(&entry.tool.spec().schema, &input)?;
        let target = entry.tool.target(&input, &self.cx)?;
        Ok(PreparedCall::new(entry, input, String::new(), target))
    }

    /// The tool exists and takes these arguments.
    pub fn check_call(&self, call: &ToolCall) -> Result<(), Failure> {
        match self.prepare(call) {
            Err(InvalidCall { failure, is_validated: false, .. }) => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The effect of this call, or why it cannot be made.
    pub fn effect_of(&self, call: &ToolCall) -> Result<Effect, Failure> {
        let prepared = self.prepare(call).map_err(|invalid| invalid.failure)?;
        Ok(prepared.target.effect)
    }

    /// Loads the state at the last read of the file that the call changes, which the change must still find. Waits if the
    /// hash of a large file is still being computed.
    pub(super) async fn load_expected_snapshot(&self, prepared: &mut PreparedCall<'_>) {
        if let (Effect::Write { .. }, Some(resolved_path)) =
            (&prepared.target.effect, &prepared.target.resolved_path)
        {
            let (workspace, path) = (self.cx.workspace.clone(), resolved_path.clone());
            let snapshot = tokio::task::spawn_blocking(move || workspace.snapshot(&path)).await;
            prepared.snapshot = snapshot.ok().flatten();
        }
    }

    pub(super) fn call_cx(
        &self,
        call_id: &str,
        prepared: &PreparedCall<'_>,
        cancel: CancellationToken,
    ) -> ToolCx {
        ToolCx {
            cancel,
            call_id: call_id.to_owned(),
            resolved_path: prepared.target.resolved_path.clone(),
            expected_snapshot: prepared.snapshot.clone(),
            draft: prepared.draft.clone(),
            hidden_files: self.hidden_files(),
            takes_images: self.state().takes_images,
            ..self.cx.clone()
        }
    }

    /// The calls under the names of the tools that they mean: case, signs, a channel after the name (`Bash<|channel|>x`)
    /// and a namespace of chat templates before it (`functions.Bash`) make no difference. A name that fits two tools, or
    /// that names an MCP server, stays as it is.
    pub fn correct_names(&self, calls: &[ToolCall]) -> Vec<ToolCall> {
        let correct = |call: &ToolCall| {
            let name = self.find_meant_tool(&call.name).unwrap_or(&call.name).to_owned();
            let call = ToolCall { name, ..call.clone() };
            arguments::as_bash_call(&call).unwrap_or(call)
        };
        calls.iter().map(correct).collect()
    }

    fn find_meant_tool(&self, name: &str) -> Option<&str> {
        let plain = |name: &str| name.replace(|c: char| !c.is_alphanumeric(), "").to_lowercase();
        let without_channel = name.split("<|").next()?;
        let without_namespace = match without_channel.split_once(['.', ':', '/']) {
            Some((namespace, rest)) if NAMESPACES.contains(&namespace) => rest,
            _ => without_channel,
        };
        let is_of_server = |name: &str| {
            self.entries.iter().any(|entry| entry.tool.hint_for_unknown_name(name).is_some())
        };
        for written in [name, without_channel, without_namespace] {
            let names = self.specs.iter().map(|spec| &*spec.name);
            let names = names.chain([BASH_OUTPUT, BASH_KILL]);
            let fitting = names.filter(|own| plain(own) == plain(written));
            match fitting.collect::<Vec<_>>()[..] {
                [] if !is_of_server(written) => {}
                [one] => return Some(one),
                _ => return None,
            }
        }
        None
    }

    pub(super) fn find_tool(&self, name: &str) -> Result<&RegisteredTool, Failure> {
        self.entries.iter().find(|entry| entry.tool.spec().name == name).ok_or_else(|| {
            let names = self.specs.iter().map(|spec| &*spec.name);
            let hint = self.entries.iter().find_map(|entry| entry.tool.hint_for_unknown_name(name));
            let hint = hint.unwrap_or_else(|| match most_similar(name, names.clone()) {
                Some(similar) => format!("did you mean {similar}?"),
                None => format!("the tools are {}", names.collect::<Vec<_>>().join(", ")),
            });
            Failure::new(ErrorCode::UnknownTool, format!("there is no tool named {name:?}"))
                .with_hint(hint)
        })
    }
}

fn parse_input<'a>(
    entry: &'a RegisteredTool,
    call: &ToolCall,
) -> Result<(&'a RegisteredTool, Object, String), Failure> {
    let spec = entry.tool.spec();
    let schema = &spec.schema;
    if spec.is_foreign {
        let (input, correction) = arguments::parse_json_object(&call.arguments)?;
        let input = entry.validator.check_foreign(schema, input)?;
        return Ok((entry, input, arguments::describe_notes(&[], correction)));
    }
    let (mut input, correction) = arguments::parse_arguments(call)?;
    let mut ignored = Vec::new();
    arguments::rename_aliases(schema, &mut input, "", &mut ignored)?;
    let notes = arguments::describe_notes(&ignored, correction);
    // Tools, hooks and events see one path.
    for name in ["path", "directory"] {
        if let Some(serde_json::Value::String(path)) = input.get_mut(name)
            && let Cow::Owned(full) = expand_home(path)
        {
            *path = full;
        }
    }
    entry.validator.check_input(schema, &input).map_err(|mut failure| {
        if !notes.is_empty() {
            failure.append_note(&notes);
        }
        failure
    })?;
    Ok((entry, input, notes))
}
