//! The tools: the trait [`Tool`], and one file per tool.
//!
//! A tool receives its input and a small [`ToolCx`]; it does not know the agent that called it. It returns a
//! [`Report`] or a [`Failure`]; only the registry creates an envelope from it.

mod ask_user;
mod bash;
mod change;
mod current_text;
mod file_tool;
mod files;
mod glob;
mod glob_pattern;
mod grep;
mod ls;
mod nearest_passage;
mod path_facts;
mod read;
mod secrets;
mod skill;
mod task;
mod todo_write;
#[cfg(test)]
mod tool_tests;
mod web_fetch;
mod web_search;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use agent_host::exec::Exec;
use agent_host::workspace::{ImageStore, ProjectPath, Snapshot, SpillFolder, Workspace};
use agent_permission::HiddenFiles;
use agent_protocol::Object;
use agent_protocol::embedded::ToolText;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::question::Inquirer;
use agent_protocol::tool::{CommandRights, Effect, ToolSpec};

pub(crate) use bash::shorten_command;
pub use change::ChangeDraft;
pub use path_facts::WorkspaceFacts;
pub(crate) use read::describe_lines;
pub use secrets::Secrets;
pub use skill::SkillTool;
pub use task::TaskTool;
pub use web_fetch::WebAccess;
pub use web_search::WebSearchTool;

/// A tool that the model can call.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// The effect of a call with this input, which matches the schema. Accesses the file system only to
    /// resolve paths.
    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure>;

    /// The canonical input, by which calls are compared: defaults are filled in, fields without effect are
    /// removed.
    fn canonical_input(&self, input: &Object) -> Object {
        input.clone()
    }

    /// The hint for a call of an unknown tool that this tool can make, if it can.
    fn hint_for_unknown_name(&self, _: &str) -> Option<String> {
        None
    }

    /// The change of a file that the call would make, for a question to the user.
    fn draft<'a>(
        &'a self,
        _: &'a Object,
        _: &'a ToolCx,
    ) -> BoxFuture<'a, Result<Option<ChangeDraft>, Failure>> {
        Box::pin(async { Ok(None) })
    }

    /// Runs the call. The input matches the schema. Returns within 100 ms after a cancellation; an operation
    /// that must not be interrupted halfway is one blocking call.
    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>>;
}

/// The target of a call.
#[derive(Debug)]
pub struct CallTarget {
    /// The effect, for the permission check.
    pub effect: Effect,
    /// The resolved path; `None` if the call names none.
    pub resolved_path: Option<ProjectPath>,
}

impl From<Effect> for CallTarget {
    fn from(effect: Effect) -> Self {
        Self { effect, resolved_path: None }
    }
}

/// Receives the latest output of a running command.
pub type OutputWatcher = Arc<dyn Fn(&str) + Send + Sync>;

/// The resources available to a tool.
#[derive(Clone)]
pub struct ToolCx {
    /// The user's files.
    pub workspace: Arc<Workspace>,
    /// Processes.
    pub exec: Arc<Exec>,
    /// Storage for output that is too large to be shown.
    pub spill: Arc<SpillFolder>,
    /// Storage for images.
    pub images: Arc<ImageStore>,
    /// The model accepts images.
    pub takes_images: bool,
    /// The web.
    pub web: Arc<WebAccess>,
    /// A rule names the host of the page that the call requests.
    pub is_host_named: bool,
    /// The secrets of the project, which command output does not show.
    pub secrets: Arc<Secrets>,
    /// How a command differs from the session's sandbox profile.
    pub rights: CommandRights,
    /// Files that must not be shown in searches.
    pub hidden_files: HiddenFiles,
    /// Receives the latest output of a running command.
    pub output_watcher: Option<OutputWatcher>,
    /// Asks the user on behalf of the call; `None` if no user can be asked.
    pub inquirer: Option<Inquirer>,
    /// The path that the permission check used: the tool works on this path only.
    pub resolved_path: Option<ProjectPath>,
    /// The id of the call.
    pub call_id: String,
    /// Cancelled when the call should stop.
    pub cancel: CancellationToken,
    /// The lock: the snapshot of the file to be changed, from its last read in this session. Injected by the
    /// registry; `None` if it was not read.
    pub expected_snapshot: Option<Snapshot>,
    /// The change that the user was asked about, to be made as it was shown.
    pub draft: Option<Arc<ChangeDraft>>,
}

impl ToolCx {
    fn resolved_path(&self) -> Result<&ProjectPath, Failure> {
        let unjudged = || Failure::new(ErrorCode::InternalError, "the call's path was not judged");
        self.resolved_path.as_ref().ok_or_else(unjudged)
    }
}

/// The names of all tools, in the order of [`all_tools`]: for code that needs no descriptions, whose schemas take long to
/// parse.
pub const TOOL_NAMES: [&str; 11] = [
    "LS",
    "Glob",
    "Grep",
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "Bash",
    "WebFetch",
    "TodoWrite",
    "AskUser",
];

/// All tools, in the order in which they are described to the model: reading, changing, running.
pub fn all_tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(ls::tool()),
        Box::new(glob::tool()),
        Box::new(grep::tool()),
        Box::new(read::tool()),
        Box::new(change::write_tool()),
        Box::new(change::edit_tool()),
        Box::new(change::multi_edit_tool()),
        Box::new(bash::tool()),
        Box::new(web_fetch::tool()),
        Box::new(todo_write::tool()),
        Box::new(ask_user::tool()),
    ]
}

fn project_root() -> String {
    ".".to_owned()
}

/// An internal tool, whose calls all have the same effect.
struct InternalTool {
    spec: ToolSpec,
    effect: Effect,
    run: for<'a> fn(Object, &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>>,
}

impl Tool for InternalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, _: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        Ok(self.effect.clone().into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        (self.run)(input, cx)
    }
}

/// A [`ToolSpec`] from the two prompt files of a tool.
pub(crate) fn embedded_spec(name: &'static str, text: ToolText) -> ToolSpec {
    // The file is embedded, and a test parses each.
    let schema = serde_json::from_str(text.schema).unwrap_or(Value::Null);
    let description = text.description.trim_end().into();
    ToolSpec { name: name.into(), description, schema, is_foreign: false }
}

/// The input as a type. It matches the schema; further restrictions of the type give `INVALID_PARAM` too.
pub(crate) fn parse_input<T: DeserializeOwned>(input: &Object) -> Result<T, Failure> {
    T::deserialize(input).map_err(|error| Failure::new(ErrorCode::InvalidParam, error.to_string()))
}

pub(crate) fn fill_defaults<T: DeserializeOwned + Serialize>(input: &Object) -> Object {
    match parse_input::<T>(input).map(serde_json::to_value) {
        Ok(Ok(Value::Object(object))) => object,
        Ok(Ok(_) | Err(_)) | Err(_) => input.clone(),
    }
}

/// The default of a limit is not told from a limit that was not given.
#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn is_default<const DEFAULT: usize>(limit: &Option<usize>) -> bool {
    limit.is_none_or(|limit| limit == DEFAULT)
}

fn cancelled_failure() -> Failure {
    Failure::new(ErrorCode::Cancelled, "interrupted before it was done")
}

/// The object that `json!({…})` makes.
fn json_object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => Object::from_iter([("value".to_owned(), other)]),
    }
}

/// Runs blocking work on another thread. Cancellation does not abort it: long work checks its token itself. A
/// panic is passed on to the registry.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Failure::new(ErrorCode::Cancelled, "the program is ending")),
        },
    }
}
