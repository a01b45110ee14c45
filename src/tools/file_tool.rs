//! A tool that works on files: typed input, one path, one piece of blocking work.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::cancelled;
use super::{Target, Tool, ToolCx, blocking, filled_in, parse};
use crate::protocol::Object;
use crate::protocol::envelope::{Failure, Report};
use crate::protocol::tool::{Effect, ToolSpec};
use crate::workspace::Place;

/// What a call does to the file or folder that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Looks,
    Changes,
}

/// What has an answer to a call that names this place.
type AtOnce<A> = fn(&A, &ToolCx, &Place) -> Option<Result<Report, Failure>>;
type Work<A> = dyn Fn(&A, &ToolCx, &Place) -> Result<Report, Failure> + Send + Sync;

/// A tool whose input is `A`.
pub(super) struct FileTool<A> {
    spec: ToolSpec,
    access: Access,
    path: fn(&A) -> &str,
    /// Does the work where that takes no time: then it is not worth the way to another thread.
    at_once: AtOnce<A>,
    work: Arc<Work<A>>,
}

impl<A> FileTool<A> {
    /// A tool that only looks. `path` says at what.
    pub(super) fn looking(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx, &Place) -> Result<Report, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, access: Access::Looks, path, at_once: |_, _, _| None, work: Arc::new(work) }
    }

    /// Where this has an answer, that is it.
    pub(super) fn at_once(mut self, at_once: AtOnce<A>) -> Self {
        self.at_once = at_once;
        self
    }

    /// A tool that changes one file. `path` says which.
    pub(super) fn changing(
        spec: ToolSpec,
        path: fn(&A) -> &str,
        work: impl Fn(&A, &ToolCx, &Place) -> Result<Report, Failure> + Send + Sync + 'static,
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
        let place = cx.workspace.locate((self.path)(&args))?;
        let path = place.path().relative().to_owned();
        let effect = match self.access {
            Access::Looks => Effect::Read { path },
            Access::Changes => {
                cx.workspace.check_writable(place.path())?;
                Effect::Write { path }
            }
        };
        Ok(Target { effect, place: Some(place) })
    }

    fn canonical(&self, input: &Object) -> Object {
        filled_in::<A>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let args: A = parse(&input)?;
            if let Some(answer) = (self.at_once)(&args, cx, cx.place()?) {
                return answer;
            }
            let (work, inner) = (Arc::clone(&self.work), cx.clone());
            let work = blocking(move || work(&args, &inner, inner.place()?));
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
