//! Hooks that run in the program: `initialize` contains them, and requests name them by their ids.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::program::Program;
use crate::app::{Callback, HookSet, OpenError};
use crate::config::Matcher;
use agent_protocol::hook::HookEvent;

/// For a hook without a limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// The request ends before the limit of the hook, which is longer by this.
const EXTRA_TIME: Duration = Duration::from_secs(5);

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
            // An unknown value is the stricter one.
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

/// `blocks`: a failed hook blocks the call.
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
                    Ok(json!({"decision": "block", "reason": reason}))
                }
                answer => answer,
            }
        }
        .boxed()
    })
}

/// Withdraws the request when the answer is no longer needed.
async fn ask_program(
    program: &Program,
    request: &Value,
    timeout: Duration,
) -> Result<Value, String> {
    struct RequestWithdrawal<'a>(&'a Program, String);

    impl Drop for RequestWithdrawal<'_> {
        fn drop(&mut self) {
            self.0.withdraw(&self.1);
        }
    }

    let (sender, answer) = oneshot::channel();
    let id = program.ask(request, timeout, move |answer| {
        // After an interrupt there is no receiver.
        _ = sender.send(answer);
    });
    let _open = RequestWithdrawal(program, id);
    answer.await.unwrap_or_else(|_| Err("the program has closed its end".to_owned()))
}
