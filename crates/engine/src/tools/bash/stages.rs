//! The statuses of pipeline stages in the result of a command.

use serde_json::{Value, json};

use super::shorten_command;
use agent_permission::CommandLine;

/// The pipelines with several stages that ran, as far as they are known.
pub(super) struct Pipelines {
    /// In order; the last one is also returned separately.
    pipelines: Vec<Vec<Stage>>,
    /// The pipeline that ran last had several stages.
    ends_with_pipeline: bool,
}

struct Stage {
    /// The text in the command; `None` if it cannot be determined.
    command: Option<String>,
    exit_code: i32,
}

impl Pipelines {
    pub(super) fn from_statuses(line: &CommandLine, statuses: &[Vec<i32>]) -> Self {
        let Some(last) = statuses.last() else {
            return Self { pipelines: Vec::new(), ends_with_pipeline: false };
        };
        if let Some(ran) = line.pipeline_runs(statuses).filter(|_| statuses.len() > 1) {
            let ends_with_pipeline = ran.last().is_some_and(|last| last.stages.len() > 1);
            let stage = |(command, exit_code)| Stage { command: Some(command), exit_code };
            let pipelines = ran.into_iter().map(|ran| ran.stages.into_iter().map(stage).collect());
            let pipelines = pipelines.filter(|stages: &Vec<Stage>| stages.len() > 1).collect();
            return Self { pipelines, ends_with_pipeline };
        }
        let names = line.last_pipeline().filter(|names| names.len() == last.len());
        let mut names = names.unwrap_or_default().iter().cloned();
        let stages: Vec<Stage> = last
            .iter()
            .map(|exit_code| Stage { command: names.next(), exit_code: *exit_code })
            .collect();
        let ends_with_pipeline = stages.len() > 1;
        Self {
            pipelines: ends_with_pipeline.then_some(stages).into_iter().collect(),
            ends_with_pipeline,
        }
    }

    pub(super) fn last_stages(&self) -> Vec<Value> {
        let last = self.pipelines.last().filter(|_| self.ends_with_pipeline);
        last.into_iter().flatten().map(Stage::to_row).collect()
    }

    /// The stages of every pipeline, if there are others.
    pub(super) fn all_stages(&self) -> Option<Value> {
        let is_more = self.pipelines.len() > usize::from(self.ends_with_pipeline);
        let row = |stages: &Vec<Stage>| stages.iter().map(Stage::to_row).collect::<Vec<_>>();
        is_more.then(|| json!(self.pipelines.iter().map(row).collect::<Vec<_>>()))
    }

    /// `stage 1/3 `rg x` exited 2`, for each failed stage except the last.
    pub(super) fn failed_stages(&self) -> Option<String> {
        let failed: Vec<String> =
            self.pipelines.iter().flat_map(|stages| failed_stages_of(stages)).collect();
        (!failed.is_empty()).then(|| failed.join(", "))
    }
}

fn failed_stages_of(stages: &[Stage]) -> Vec<String> {
    let n_stages = stages.len();
    (1..n_stages)
        .zip(stages)
        .filter(|(_, stage)| stage.has_failed())
        .map(|(n, stage)| {
            let name =
                stage.command.as_deref().map(|command| format!(" `{}`", shorten_command(command)));
            let why = if stage.exit_code == 127 { " (not found)" } else { "" };
            let name = name.unwrap_or_default();
            format!("stage {n}/{n_stages}{name} exited {}{why}", stage.exit_code)
        })
        .collect()
}

impl Stage {
    fn to_row(&self) -> Value {
        match &self.command {
            Some(command) => json!({"command": command, "exit_code": self.exit_code}),
            None => json!({"exit_code": self.exit_code}),
        }
    }

    /// The stage failed. SIGPIPE only means that its reader needed no more output; and a search that finds
    /// nothing has not failed.
    fn has_failed(&self) -> bool {
        const FINDS_NOTHING: &[&str] = &["grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp"];
        let program = self.command.as_deref().and_then(|text| text.split_whitespace().next());
        let found_nothing =
            self.exit_code == 1 && program.is_some_and(|name| FINDS_NOTHING.contains(&name));
        !matches!(self.exit_code, 0 | 141) && !found_nothing
    }
}
