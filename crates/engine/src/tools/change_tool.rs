//! Tools that change one file: the change is drafted, shown if the user is asked about it, and made.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change::{ChangeDraft, with_current_text};
use super::{CallTarget, Tool, ToolCx, fill_defaults, parse_input, run_blocking};
use agent_host::workspace::CheckedPath;
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};

/// The input of a tool that changes one file.
pub(super) trait ChangeArgs: DeserializeOwned + Serialize + Send + 'static {
    fn path(&self) -> &str;

    fn is_dry_run(&self) -> bool;

    /// The passages to be replaced; none if the whole file is.
    fn passages(&self) -> Vec<&str>;

    fn draft(&self, cx: &ToolCx, path: &CheckedPath) -> Result<ChangeDraft, Failure>;

    /// The draft; a failure of the lock contains the current text.
    fn draft_or_current_text(&self, cx: &ToolCx) -> Result<ChangeDraft, Failure> {
        let path = cx.checked_path()?;
        self.draft(cx, path)
            .map_err(|failure| with_current_text(failure, cx, path, &self.passages()))
    }
}

/// A tool whose input is `A`.
pub(super) struct ChangeTool<A> {
    spec: ToolSpec,
    input: PhantomData<fn(A)>,
}

impl<A> ChangeTool<A> {
    pub(super) fn new(spec: ToolSpec) -> Self {
        Self { spec, input: PhantomData }
    }
}

impl<A: ChangeArgs> Tool for ChangeTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let args: A = parse_input(input)?;
        let checked_path = cx.workspace.locate_writable(args.path())?;
        let effect = Effect::Write { path: checked_path.path().relative().to_owned() };
        Ok(CallTarget { effect, checked_path: Some(checked_path) })
    }

    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<A>(input)
    }

    fn draft<'a>(
        &'a self,
        input: &'a Object,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<Option<ChangeDraft>, Failure>> {
        Box::pin(async move {
            let args: A = parse_input(input)?;
            let cx = cx.clone();
            run_blocking(move || args.draft_or_current_text(&cx)).await.map(Some)
        })
    }

    /// A change is not interrupted halfway: the work checks the token itself, up to the last moment.
    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let args: A = parse_input(&input)?;
            let cx = cx.clone();
            run_blocking(move || {
                let draft = match &cx.draft {
                    Some(draft) => Arc::clone(draft),
                    None => Arc::new(args.draft_or_current_text(&cx)?),
                };
                if args.is_dry_run() {
                    return Ok(draft.report(None));
                }
                let path = cx.checked_path()?;
                draft
                    .apply(&cx)
                    .map_err(|failure| with_current_text(failure, &cx, path, &args.passages()))
            })
            .await
        })
    }
}
