//! Tools that read one path: typed input, and blocking work on another thread.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    CallTarget, Tool, ToolCx, cancelled_failure, fill_defaults, parse_input, run_blocking,
};
use agent_host::workspace::ProjectPath;
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

type BlockingWork<A> = dyn Fn(&A, &ToolCx, &ProjectPath) -> Result<Report, Failure> + Send + Sync;

pub(super) struct FileTool<A> {
    spec: ToolSpec,
    path: fn(&A) -> &str,
    work: Arc<BlockingWork<A>>,
}

impl<A> FileTool<A> {
    pub(super) fn new(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx, &ProjectPath) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, path, work: Arc::new(work) }
    }
}

impl<A: DeserializeOwned + Serialize + Send + 'static> Tool for FileTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let args: A = parse_input(input)?;
        let resolved_path = cx.workspace.resolve((self.path)(&args))?;
        let path = resolved_path.relative().to_owned();
        let effect = Effect::Read { path };
        Ok(CallTarget { effect, resolved_path: Some(resolved_path) })
    }

    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<A>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let args: A = parse_input(&input)?;
            let (work, inner) = (Arc::clone(&self.work), cx.clone());
            let work = run_blocking(move || work(&args, &inner, inner.resolved_path()?));
            // Cancelled immediately; the work checks the token itself and ends soon after.
            cx.cancel.run_until_cancelled(work).await.unwrap_or_else(|| Err(cancelled_failure()))
        })
    }
}
