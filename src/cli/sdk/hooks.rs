//! Hooks that live in the program: it names them in `initialize`, and is asked by their ids.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::program::Program;
use crate::app::{Callback, HookSet, OpenError};
use crate::config::Matcher;
use agent_protocol::hook::HookEvent;

/// The time limit of a hook without one.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// The request has ended by then.
const EXTRA_TIME: Duration = Duration::from_secs(5);
/// What a matcher wants to happen if its hook fails, besides nothing.
const BLOCKS: &str = "block";

/// The hooks of `initialize`; `None` if there are none.
pub(super) fn program_hooks(
    introduction: Option<&Value>,
    program: &Program,
) -> Result<Option<Arc<HookSet>>, OpenError> {
    let Some(events) = introduction.and_then(|it| it["hooks"].as_object()) else { return Ok(None) };
    let hooks = HookSet::default();
    for (name, matchers) in events {
        let Some(event) = HookEvent::from_name(name) else {
            agent_ui::print_notice(&format!(
                "hooks of {name} are never called: there is no such event here"
            ));
            continue;
        };
        for matcher in matchers.as_array().into_iter().flatten() {
            let text = matcher["matcher"].as_str().unwrap_or_default();
            let fits = Matcher::parse(text).map_err(OpenError::Usage)?;
            let timeout = matcher["timeout"].as_f64().filter(|seconds| *seconds > 0.0);
            let timeout = timeout.and_then(|it| Duration::try_from_secs_f64(it).ok());
            let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT);
            // (An unknown value is the stricter one.)
            let blocks = matcher["onFailure"].as_str().is_some_and(|it| it != "continue");
            for id in matcher["hookCallbackIds"].as_array().into_iter().flatten() {
                let id = id.as_str().unwrap_or_default().to_owned();
                let callback = program_callback(id.clone(), program.clone(), timeout, blocks);
                hooks.add(event, fits.clone(), timeout + EXTRA_TIME, (id, callback));
            }
        }
    }
    Ok(Some(Arc::new(hooks)))
}

/// Asks the program; `blocks`: a hook that fails blocks what it is asked about.
fn program_callback(id: String, program: Program, timeout: Duration, blocks: bool) -> Callback {
    Box::new(move |input| {
        let request = json!({
            "subtype": "hook_callback",
            "callback_id": id,
            "tool_use_id": input["tool_use_id"],
            "input": input,
        });
        let program = program.clone();
        async move {
            match ask_program(&program, &request, timeout).await {
                Err(why) if blocks => {
                    let reason = format!("a hook failed: {why}");
                    Ok(json!({"decision": BLOCKS, "reason": reason}))
                }
                answer => answer,
            }
        }
        .boxed()
    })
}

/// The answer of the program. A request that nobody waits for any more is withdrawn.
async fn ask_program(
    program: &Program,
    request: &Value,
    timeout: Duration,
) -> Result<Value, String> {
    struct WithdrawOnDrop<'a>(&'a Program, String);

    impl Drop for WithdrawOnDrop<'_> {
        fn drop(&mut self) {
            self.0.withdraw(&self.1);
        }
    }

    let (sender, answer) = oneshot::channel();
    let id = program.ask(request, timeout, move |answer| {
        // (Nobody waits any more after an interrupt.)
        _ = sender.send(answer);
    });
    let _open = WithdrawOnDrop(program, id);
    answer.await.unwrap_or_else(|_| Err("the program has closed its end".to_owned()))
}
