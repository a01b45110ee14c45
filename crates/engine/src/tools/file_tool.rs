//! Tools that work on one path: typed input, and blocking work on another thread.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::cancelled;
use super::{Target, Tool, ToolCx, blocking, filled_in, parse};
use agent_host::workspace::CheckedPath;
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

/// How a call accesses the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Looks,
    Changes,
}

/// Returns a result without blocking work, if that is possible.
type AtOnce<A> = fn(&A, &ToolCx, &CheckedPath) -> Option<Result<Report, Failure>>;
type Work<A> = dyn Fn(&A, &ToolCx, &CheckedPath) -> Result<Report, Failure> + Send + Sync;

/// A tool whose input is `A`.
pub(super) struct FileTool<A> {
    spec: ToolSpec,
    access: Access,
    path: fn(&A) -> &str,
    /// Fast path for work that takes less time than switching threads.
    at_once: AtOnce<A>,
    work: Arc<Work<A>>,
}

impl<A> FileTool<A> {
    /// A tool that reads the path which `path` returns.
    pub(super) fn looking(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx, &CheckedPath) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, access: Access::Looks, path, at_once: |_, _, _| None, work: Arc::new(work) }
    }

    /// Adds a fast path.
    pub(super) fn at_once(mut self, at_once: AtOnce<A>) -> Self {
        self.at_once = at_once;
        self
    }

    /// A tool that changes the file which `path` returns.
    pub(super) fn changing(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx, &CheckedPath) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, access: Access::Changes, path, at_once: |_, _, _| None, work: Arc::new(work) }
    }
}

impl<A: DeserializeOwned + Serialize + Send + 'static> Tool for FileTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<Target, Failure> {
        let args: A = parse(input)?;
        let checked_path = cx.workspace.locate((self.path)(&args))?;
        let path = checked_path.path().relative().to_owned();
        let effect = match self.access {
            Access::Looks => Effect::Read { path },
            Access::Changes => {
                cx.workspace.check_writable(checked_path.path())?;
                Effect::Write { path }
            }
        };
        Ok(Target { effect, checked_path: Some(checked_path) })
    }

    fn canonical(&self, input: &Object) -> Object {
        filled_in::<A>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let args: A = parse(&input)?;
            if let Some(answer) = (self.at_once)(&args, cx, cx.checked_path()?) {
                return answer;
            }
            let (work, inner) = (Arc::clone(&self.work), cx.clone());
            let work = blocking(move || work(&args, &inner, inner.checked_path()?));
            match self.access {
                // Cancelled immediately; the work checks the token itself and ends soon after.
                Access::Looks => {
                    cx.cancel.run_until_cancelled(work).await.unwrap_or_else(|| Err(cancelled()))
                }
                // A change is not interrupted halfway: the work checks the token itself, up to the last
                // moment.
                Access::Changes => work.await,
            }
        })
    }
}
