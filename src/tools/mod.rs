//! The second seam: the trait [`Tool`], and one file per tool.
//!
//! A tool sees its input and a small [`ToolCx`]; it knows nothing of the agent that called it. It
//! returns a [`Report`] or a [`Failure`]; only the registry makes an envelope of it.

mod bash;
mod change;
mod edit;
mod file_tool;
mod files;
mod glob;
mod grep;
mod ls;
mod multi_edit;
mod nearest;
mod path_facts;
mod pattern;
mod read;
mod secrets;
#[cfg(test)]
mod testing;
mod todo_write;
mod write;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::exec::Exec;
use crate::permission::Withheld;
use crate::protocol::Object;
use crate::protocol::envelope::{ErrorCode, Failure, Report};
use crate::protocol::tool::{Effect, Rights, ToolSpec};
use crate::workspace::{Place, Snapshot, Spill, Workspace};

pub use secrets::Secrets;

/// Something that the model can call.
pub trait Tool: Send + Sync {
    /// How it is described to the model.
    fn spec(&self) -> &ToolSpec;

    /// What a call with this input would touch. The input has passed the schema. Looks at the file
    /// system only to resolve paths.
    fn target(&self, input: &Object, cx: &ToolCx) -> Result<Target, Failure>;

    /// The input as it is meant, by which calls are told apart: what was left out is filled in, what makes
    /// no difference is left out.
    fn canonical(&self, input: &Object) -> Object {
        input.clone()
    }

    /// Does it. The input has passed the schema. Answers within 100 ms of a cancellation; what must
    /// not be half done is one blocking call.
    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>>;
}

/// What a call would touch.
#[derive(Debug)]
pub struct Target {
    /// The effect, as it is judged.
    pub effect: Effect,
    /// Where the path that the call names leads; `None` where it names none.
    pub place: Option<Place>,
}

impl From<Effect> for Target {
    fn from(effect: Effect) -> Self {
        Self { effect, place: None }
    }
}

/// Told what a command that runs wrote last.
pub type OutputWatcher = Arc<dyn Fn(&str) + Send + Sync>;

/// All that a tool can reach.
#[derive(Clone)]
pub struct ToolCx {
    /// The user's files.
    pub workspace: Arc<Workspace>,
    /// Processes.
    pub exec: Arc<Exec>,
    /// Where output goes that is too large to be shown.
    pub spill: Arc<Spill>,
    /// The secrets of the project, which command output does not show.
    pub secrets: Arc<Secrets>,
    /// How a command differs from the session's sandbox profile.
    pub rights: Rights,
    /// Which files are not to be shown by who meets them on the way.
    pub withheld: Withheld,
    /// Told what a command that runs wrote last.
    pub watcher: Option<OutputWatcher>,
    /// Where the call's path led when the call was judged: there it works, and nowhere else.
    pub place: Option<Place>,
    /// Cancelled when the call should stop.
    pub cancel: CancellationToken,
    /// The lock: what the file to be changed looked like when it was last read in this session.
    /// Injected by the registry; `None` where it was not read.
    pub seen: Option<Snapshot>,
}

impl ToolCx {
    /// The place that the call was judged by.
    fn place(&self) -> Result<&Place, Failure> {
        let unjudged = || Failure::new(ErrorCode::InternalError, "the call's path was not judged");
        self.place.as_ref().ok_or_else(unjudged)
    }
}

/// Every tool, in the order in which they are described to the model: reading, changing, running.
pub fn all() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(ls::tool()),
        Box::new(glob::tool()),
        Box::new(grep::tool()),
        Box::new(read::tool()),
        Box::new(write::tool()),
        Box::new(edit::tool()),
        Box::new(multi_edit::tool()),
        Box::new(bash::Bash::default()),
        Box::new(bash::background::Job::output()),
        Box::new(bash::background::Job::kill()),
        Box::new(todo_write::TodoWrite::default()),
    ]
}

/// Makes a [`ToolSpec`] of a tool's two prompt files.
pub(crate) fn spec(name: &'static str, description: &'static str, schema: &str) -> ToolSpec {
    // The file is part of the program, and a test parses each.
    let schema = serde_json::from_str(schema).unwrap_or(Value::Null);
    ToolSpec { name, description: description.trim_end().into(), schema }
}

/// The input as a type. The schema has been checked; what the type forbids beyond it is
/// `INVALID_PARAM` too.
pub(crate) fn parse<T: DeserializeOwned>(input: &Object) -> Result<T, Failure> {
    T::deserialize(input).map_err(|error| Failure::new(ErrorCode::InvalidParam, error.to_string()))
}

/// The input as its type says it, with the values that it did not give.
pub(crate) fn filled_in<T: DeserializeOwned + Serialize>(input: &Object) -> Object {
    match parse::<T>(input).map(serde_json::to_value) {
        Ok(Ok(Value::Object(object))) => object,
        Ok(Ok(_) | Err(_)) | Err(_) => input.clone(),
    }
}

/// Runs blocking work off the loop's thread. It is not aborted by a cancellation: long work looks at
/// its token itself. A panic inside is passed on to the registry.
pub(crate) async fn blocking<T: Send + 'static>(
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
