//! Reads suite and variants, and checks everything about them before a run begins.

use std::path::{Path, PathBuf};

use super::EvalArgs;
use crate::app::{self, OpenError};
use crate::cli::options::{self, PROMPT_KEY_PREFIX, ToolOptions};
use crate::cli::usage_error;
use crate::config::{self, LoadedConfig, UserDirs};
use agent_model::ScriptedModel;
use agent_protocol::disk;
use agent_record::eval::results::EvaluatedVariant;
use agent_record::eval::suite::{self, Suite, Task, TaskProject};
use agent_record::eval::variants::{SettingChange, Variant};

const BASICS: &str = "basics";
const BASICS_SUITE: &str = include_str!("../../../evals/basics.toml");
/// Plays the scripts of the tasks.
pub(super) const SCRIPT: &str = "script";

pub(super) struct PreparedVariant {
    pub(super) variant: EvaluatedVariant,
    /// Follow the settings of all variants.
    pub(super) settings: Vec<String>,
}

pub(super) fn read_suite(path: &Path) -> Result<Suite, OpenError> {
    if path == Path::new(BASICS) {
        return suite::parse_suite(BASICS, BASICS, BASICS_SUITE).map_err(usage_error);
    }
    let shown = path.display();
    let text = disk::read_small_text(path).map_err(|error| {
        let hint = format!("name the file of a suite, or the bundled suite {BASICS}");
        usage_error(format!("{shown}: {error}; {hint}"))
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    suite::parse_suite(&shown.to_string(), &name, &text).map_err(usage_error)
}

pub(super) fn task_directories(
    path: &Path,
    suite: &Suite,
) -> Result<Vec<Option<PathBuf>>, OpenError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let directory_of = |task: &Task| {
        let TaskProject::Directory { path: directory } = &task.project else {
            return Ok(None);
        };
        let wrong = |why: &str| {
            let (suite, name) = (path.display(), &task.name);
            usage_error(format!(
                "{suite}:{}: task {name:?}: directory: {directory:?} {why}",
                task.line
            ))
        };
        let real = folder.join(directory).canonicalize();
        let real = real.map_err(|_| wrong("does not exist; it is relative to the suite"))?;
        if real.is_dir() { Ok(Some(real)) } else { Err(wrong("is not a directory")) }
    };
    suite.tasks.iter().map(directory_of).collect()
}

pub(super) async fn prepare_variants(
    args: &EvalArgs,
    suite: &Suite,
    variants: Vec<Variant>,
) -> Result<Vec<PreparedVariant>, OpenError> {
    let here = std::env::current_dir()
        .map_err(|error| usage_error(format!("the current folder: {error}")))?;
    let mut prepared: Vec<PreparedVariant> = Vec::new();
    for mut variant in variants {
        let name = variant.name.clone();
        let wrong = |error: OpenError| usage_error(format!("variant {name}: {error}"));
        let model = args.model.as_ref().map(|model| format!("model={model}"));
        let change = variant.change.as_ref().map(SettingChange::assignment);
        let settings: Vec<String> = model
            .into_iter()
            .chain(args.set.iter().cloned())
            .chain(change)
            .map(|setting| with_absolute_path(setting, &here))
            .collect();
        // The root has no project configuration.
        let loaded = load_config(Path::new("/"), settings.clone()).map_err(wrong)?;
        let configuration = serde_json::to_string(&loaded.config).unwrap_or_default();
        let prompts: Vec<_> = loaded.prompts.overrides().collect();
        let hash = blake3::hash(format!("{configuration}{prompts:?}").as_bytes());
        let configuration_hash = hash.to_hex().to_string();
        let is_equal =
            |other: &&PreparedVariant| other.variant.configuration_hash == configuration_hash;
        if let Some(equal) = prepared.iter().find(is_equal) {
            return Err(usage_error(format!(
                "the variants {} and {name} are equal: each has the same settings and prompts in effect",
                equal.variant.variant.name
            )));
        }
        check_model(&loaded, suite).await.map_err(wrong)?;
        // The results may be shown to others.
        let masker = app::build_masker(&loaded.config, &[])?;
        if let Some(change) = &mut variant.change {
            change.value = masker.mask(&change.value).into_owned();
        }
        prepared.push(PreparedVariant {
            settings,
            variant: EvaluatedVariant {
                model: loaded.config.model.clone(),
                configuration_hash,
                variant,
            },
        });
    }
    Ok(prepared)
}

/// As far as possible without a request to a server.
async fn check_model(loaded: &LoadedConfig, suite: &Suite) -> Result<(), OpenError> {
    let config = &loaded.config;
    if config.model == SCRIPT {
        for task in &suite.tasks {
            let Task { name, line, .. } = task;
            let wrong = |why: &dyn std::fmt::Display| {
                usage_error(format!("model {SCRIPT}: task {name:?} (line {line}): {why}"))
            };
            let script = task.script.as_ref().ok_or_else(|| wrong(&"it has no script"))?;
            ScriptedModel::parse(SCRIPT, script).map_err(|error| wrong(&error))?;
        }
        return Ok(());
    }
    if let Some(path) = config.model.strip_prefix("script:") {
        return app::read_script(path).map(drop);
    }
    if config::resolve_model(config, &|name| std::env::var(name).ok())?.is_some()
        || !app::usable_models(config).await?.0.is_empty()
    {
        return Ok(());
    }
    let why = app::no_model_error();
    Err(usage_error(format!("{why}; --model {SCRIPT} plays the scripts of the suite")))
}

/// `directory` must contain no project.
pub(super) fn load_config(
    directory: &Path,
    settings: Vec<String>,
) -> Result<LoadedConfig, OpenError> {
    let tools = ToolOptions { set: settings, ..ToolOptions::default() };
    options::load_config(directory, UserDirs::find().as_ref(), &tools, None)
}

/// Runs work in other directories, so files of settings need absolute paths.
fn with_absolute_path(setting: String, here: &Path) -> String {
    let Some((key, value)) = setting.split_once('=') else { return setting };
    if key.starts_with(PROMPT_KEY_PREFIX) {
        return format!("{key}={}", here.join(value).display());
    }
    let kind = value.split_once(':').filter(|_| key == "model" && config::is_file_model(value));
    match kind {
        Some((kind, path)) => format!("{key}={kind}:{}", here.join(path).display()),
        None => setting,
    }
}

pub(super) fn retain_tasks(
    names: &[String],
    suite: &mut Suite,
    directories: &mut Vec<Option<PathBuf>>,
) -> Result<(), OpenError> {
    let exists = |name: &&String| suite.tasks.iter().any(|task| task.name == **name);
    if let Some(unknown) = names.iter().find(|name| !exists(name)) {
        let task_names: Vec<&str> = suite.tasks.iter().map(|task| task.name.as_str()).collect();
        return Err(usage_error(format!(
            "--task {unknown:?}: the suite has no such task; it has: {}",
            task_names.join(", ")
        )));
    }
    let is_kept = |task: &Task| names.is_empty() || names.contains(&task.name);
    let mut keeps = suite.tasks.iter().map(is_kept);
    directories.retain(|_| keeps.next() == Some(true));
    suite.tasks.retain(is_kept);
    Ok(())
}
