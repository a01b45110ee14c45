//! One run of a scenario through the built binary, and its results from the events.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::concurrent_changes;
use super::scenario::{File, Scenario};
use crate::support::Test;

/// Which parts of recovery are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Full,
    WithoutReflection,
    /// Feeds errors back to the model and does nothing else.
    Plain,
}

impl Setting {
    pub(super) const ALL: [Self; 3] = [Self::Full, Self::WithoutReflection, Self::Plain];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::WithoutReflection => "without reflection",
            Self::Plain => "plain loop",
        }
    }

    /// Arguments for `--set`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Full => &[],
            Self::WithoutReflection => &["recovery.enable_step_level_reflection=false"],
            Self::Plain => &[
                "recovery.enable_step_level_reflection=false",
                "recovery.max_step_retries=1000000",
                "recovery.max_consecutive_failures=1000000",
                "recovery.max_single_step_repairs=0",
                "recovery.max_task_replanning_attempts=0",
                "limits.max_turns=30",
            ],
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) setting: Setting,
    pub(super) code: i32,
    pub(super) reason: String,
    /// Decisions other than `continue`.
    pub(super) decisions: Vec<String>,
    pub(super) n_reflections: usize,
    /// Model requests for all purposes.
    pub(super) n_answers: usize,
    /// The run ended with a failure report.
    pub(super) has_report: bool,
    /// Mismatches between script and run: an error in the scenario.
    pub(super) script_errors: Vec<String>,
    /// The run as a trace.
    pub(super) trace: String,
}

/// Runs the scenario in this file, with all of recovery. Returns its project, with the session.
pub(crate) fn recorded(path: &Path) -> Test {
    run(&Scenario::read(path), Setting::Full).0
}

/// Runs a scenario in a new project. Returns the project, the exit code and standard error.
fn run(scenario: &Scenario, setting: Setting) -> (Test, i32, String) {
    let test = project(scenario);
    // The project belongs to the test, so its configuration is trusted.
    let mut args = vec!["run", &scenario.task, "--model", "script:../script", "--trust"];
    args.extend(["--output-format", "events", "--set", "limits.timeout=60s"]);
    // The suite measures the cost of a failure, not learning.
    args.extend(["--set", "learning.distil=\"never\""]);
    for key in setting.keys() {
        args.extend(["--set", key]);
    }
    args.extend(scenario.args.iter().map(String::as_str));
    let (code, stderr) = concurrent_changes::run_with_changes(&test, &args, &scenario.changes);
    (test, code, stderr)
}

/// Runs a scenario, and measures what it took.
pub(super) fn measure(scenario: &Scenario, setting: Setting) -> Measured {
    let (test, code, stderr) = run(scenario, setting);
    let Some(log) = test.try_log() else {
        panic!("{}: nothing was recorded: {stderr}", scenario.name);
    };
    let events = crate::support::events(&log);
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let finished = of("turn.finished").next_back().cloned().unwrap_or_default();
    let decided = of("control.decided").filter(|event| event["decision"] != "continue");
    let decisions =
        decided.map(|event| format!("{} {}", text(&event["decision"]), text(&event["detail"])));
    let purpose = |event: &Value| text(&event["purpose"]).to_owned();
    let requested: Vec<String> = of("model.requested").map(purpose).collect();
    let errors = of("error").map(|event| text(&event["message"]).to_owned());
    let is_scripts =
        |message: &String| message.contains("../script") && !message.contains("../script answered");
    Measured {
        setting,
        code,
        reason: text(&finished["ending"]).to_owned(),
        decisions: decisions.collect(),
        n_reflections: requested.iter().filter(|purpose| *purpose == "reflect").count(),
        n_answers: requested.len(),
        has_report: finished["errors"].as_array().is_some_and(|errors| !errors.is_empty())
            && !text(&finished["result"]).is_empty(),
        script_errors: errors.filter(is_scripts).collect(),
        trace: format!("{}{stderr}", test.agent(&["trace", "show"]).stdout),
    }
}

fn project(scenario: &Scenario) -> Test {
    let test = Test::in_memory().script(&scenario.script);
    prepare(&test, &scenario.name, &scenario.files, scenario.setup.as_deref());
    test
}

/// Writes a scenario's files to a project and runs its setup.
pub(crate) fn prepare(test: &Test, name: &str, files: &[File], setup: Option<&str>) {
    for file in files {
        test.write(&file.path, &file.text);
        if file.is_executable {
            let path = test.root().join(&file.path);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    if let Some(setup) = setup {
        let output = Command::new("bash")
            .args(["-ec", setup])
            .current_dir(test.root())
            .env("HOME", test.home())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: the setup failed: {stderr}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
