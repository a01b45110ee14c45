//! A tool that works on files: typed input, one path, one piece of blocking work.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::cancelled;
use super::{Tool, ToolCx, blocking, filled_in, parse};
use crate::protocol::Object;
use crate::protocol::envelope::{Failure, Report};
use crate::protocol::tool::{Effect, ToolSpec};
use crate::workspace::Workspace;

/// What a call does to the file or folder that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Looks,
    Changes,
}

type Work<A> = dyn Fn(&A, &ToolCx) -> Result<Report, Failure> + Send + Sync;

/// A tool whose input is `A`.
pub(super) struct FileTool<A> {
    spec: ToolSpec,
    access: Access,
    path: fn(&A) -> &str,
    /// The work on this path is done in no time: it is not worth the way to another thread.
    is_quick: fn(&Workspace, &str) -> bool,
    work: Arc<Work<A>>,
}

impl<A> FileTool<A> {
    /// A tool that only looks. `path` says at what.
    pub(super) fn looking(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, access: Access::Looks, path, is_quick: |_, _| false, work: Arc::new(work) }
    }

    /// Where this is so the work is done at once.
    pub(super) fn at_once_where(mut self, is_quick: fn(&Workspace, &str) -> bool) -> Self {
        self.is_quick = is_quick;
        self
    }

    /// A tool that changes one file. `path` says which.
    pub(super) fn changing(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, access: Access::Changes, path, is_quick: |_, _| false, work: Arc::new(work) }
    }
}

impl<A: DeserializeOwned + Serialize + Send + 'static> Tool for FileTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self, input: &Object, cx: &ToolCx) -> Result<Effect, Failure> {
        let args: A = parse(input)?;
        let path = cx.workspace.resolve((self.path)(&args))?;
        match self.access {
            Access::Looks => Ok(Effect::Read { path: path.relative().to_owned() }),
            Access::Changes => {
                cx.workspace.check_writable(&path)?;
                Ok(Effect::Write { path: path.relative().to_owned() })
            }
        }
    }

    fn canonical(&self, input: &Object) -> Object {
        filled_in::<A>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        let (work, inner) = (Arc::clone(&self.work), cx.clone());
        Box::pin(async move {
            let args: A = parse(&input)?;
            if (self.is_quick)(&cx.workspace, (self.path)(&args)) {
                return work(&args, &inner);
            }
            let work = blocking(move || work(&args, &inner));
            match self.access {
                // Answered at once; the work looks at the token itself and ends soon after.
                Access::Looks => {
                    cx.cancel.run_until_cancelled(work).await.unwrap_or_else(|| Err(cancelled()))
                }
                // Half a change is none: it looks at the token itself, up to the last moment.
                Access::Changes => work.await,
            }
        })
    }
}
