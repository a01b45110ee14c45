//! The statuses of pipelines and their stages in the result of a command.

use serde_json::{Value, json};

use super::shorten_command;
use agent_permission::{CommandLine, PipelineRun};

/// The pipelines that ran, in order, as far as they are known.
pub(super) struct Pipelines(Vec<PipelineRun>);

impl Pipelines {
    pub(super) fn from_statuses(line: &CommandLine, statuses: &[Vec<i32>]) -> Self {
        let Some(last) = statuses.last() else { return Self(Vec::new()) };
        if let Some(ran) = line.pipeline_runs(statuses).filter(|_| statuses.len() > 1) {
            return Self(ran);
        }
        let names = line.last_pipeline().filter(|names| names.len() == last.len());
        let name = |n: usize| names?.get(n).cloned();
        let stages = last.iter().enumerate().map(|(n, code)| (name(n), *code)).collect();
        // The status of the line is that of the last stage.
        Self(vec![PipelineRun { stages, is_handled: true }])
    }

    pub(super) fn last_stages(&self) -> Value {
        self.0.last().filter(|last| has_several(last)).map_or_else(|| json!([]), stage_rows)
    }

    /// The stages of every pipeline with several, if the last one is not the only one.
    pub(super) fn all_stages(&self) -> Option<Value> {
        let (_, others) = self.0.split_last()?;
        others.iter().find(|one| has_several(one))?;
        Some(self.0.iter().filter(|one| has_several(one)).map(stage_rows).collect())
    }

    /// `stage 1/3 `rg x` exited 2, `make` exited 1`: each part that failed.
    pub(super) fn failures(&self) -> Option<String> {
        let failed: Vec<String> = self.0.iter().flat_map(describe_failures).collect();
        (!failed.is_empty()).then(|| failed.join(", "))
    }
}

fn has_several(pipeline: &PipelineRun) -> bool {
    pipeline.stages.len() > 1
}

fn stage_rows(pipeline: &PipelineRun) -> Value {
    let row = |(command, exit_code): &(Option<String>, i32)| match command {
        Some(command) => json!({"command": command, "exit_code": exit_code}),
        None => json!({"exit_code": exit_code}),
    };
    pipeline.stages.iter().map(row).collect()
}

fn describe_failures(pipeline: &PipelineRun) -> impl Iterator<Item = String> {
    let n_stages = pipeline.stages.len();
    let n_named = n_stages.saturating_sub(usize::from(pipeline.is_handled));
    let stages = (1..=n_named).zip(&pipeline.stages);
    let failed = stages.filter(|(_, (command, code))| has_failed(command.as_deref(), *code));
    failed.map(move |(n, (command, code))| {
        let name = command.as_deref().map(|name| format!("`{}` ", shorten_command(name)));
        let place = if n_stages > 1 { format!("stage {n}/{n_stages} ") } else { String::new() };
        let why = if *code == 127 { " (not found)" } else { "" };
        format!("{place}{}exited {code}{why}", name.unwrap_or_default())
    })
}

/// SIGPIPE only means that the reader needed no more output; and a search that finds nothing has not failed.
fn has_failed(command: Option<&str>, exit_code: i32) -> bool {
    let is_answer = || exit_code == 1 && command.and_then(CommandLine::stage_answer).is_some();
    !matches!(exit_code, 0 | 141) && !is_answer()
}
