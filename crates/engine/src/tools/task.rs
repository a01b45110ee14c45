//! Task: gives a task to a sub-agent, and returns its final answer.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{CallTarget, Tool, ToolCx, embedded_spec, json_object, parse_input};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::pluralize;
use agent_protocol::subagent::{
    ModelChoice, RoleFacts, SubagentResult, SubagentRunner, SubagentTask,
};
use agent_protocol::tool::{Effect, ToolSpec};

/// Gives a task to a sub-agent.
pub struct TaskTool {
    spec: ToolSpec,
    delegate: Arc<dyn SubagentRunner>,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default)]
    description: String,
    prompt: String,
    #[serde(rename = "subagent_type", default = "default_role")]
    role: String,
    model: Option<ModelChoice>,
}

fn default_role() -> String {
    "general".to_owned()
}

impl TaskTool {
    /// The tool, whose sub-agents this runs.
    pub fn new(delegate: Arc<dyn SubagentRunner>) -> Self {
        let mut spec = embedded_spec("Task", embedded::TASK);
        let roles = delegate.role_descriptions();
        if !roles.is_empty() {
            spec.description = format!("{}\n{roles}", spec.description).into();
        }
        Self { spec, delegate }
    }
}

impl Tool for TaskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        let Args { role, .. } = parse_input(input)?;
        let RoleFacts { name: role, reads_only } =
            self.delegate.find_role(&role).map_err(|known| {
                let message = format!("there is no sub-agent {role:?}");
                Failure::new(ErrorCode::InvalidParam, message)
                    .with_hint(format!("subagent_type is one of {}", known.join(", ")))
            })?;
        Ok(Effect::Agent { role, reads_only }.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let Args { description, prompt, role, model } = parse_input(&input)?;
            let order = SubagentTask { call: cx.call_id.clone(), description, prompt, role, model };
            let delegated = self.delegate.run_subagent(order).await;
            let delegated = delegated.map_err(|why| Failure::new(ErrorCode::Cancelled, why))?;
            delegation_result(&cx.call_id, delegated)
        })
    }
}

/// The final answer of a sub-agent; a failure with its report if it did not finish its task.
fn delegation_result(id: &str, delegated: SubagentResult) -> Result<Report, Failure> {
    let SubagentResult { turn: finished, calls } = delegated;
    let n_calls: u32 = calls.values().sum();
    let data = json_object(json!({
        "agent": id,
        "ending": finished.ending.as_str(),
        "report": finished.result,
        "files_changed": finished.files_changed,
    }));
    let stats = json_object(json!({
        "model_calls": finished.rounds,
        "tool_calls": n_calls,
        "tokens": finished.usage.total(),
        "cost_usd": finished.cost_usd,
    }));
    let by_tool: Vec<String> = calls.iter().map(|(tool, n)| format!("{tool} {n}")).collect();
    let by_tool = if by_tool.is_empty() { "none".to_owned() } else { by_tool.join(", ") };
    let model_calls = pluralize(finished.rounds.into(), "model call");
    if finished.ending.is_success() {
        let text = format!("The sub-agent's answer ({model_calls}; calls: {by_tool}):");
        return Ok(Report { data, text, stats, ..Report::default() });
    }
    let why = finished.errors.first().map_or("no reason is known", String::as_str);
    let ending = finished.ending.as_str().replace('_', " ");
    let message = format!("the sub-agent did not finish its task ({ending}): {why}");
    let mut failure = Failure::new(ErrorCode::SubagentFailed, message)
        .with_hint("use what it found; do the rest yourself, or give a smaller task");
    failure.append_note(&format!(" It made {model_calls}; calls: {by_tool}. Its report is below."));
    Err(Failure { data, stats, ..failure })
}
