//! Classifies the error of an envelope: its signal, category, and chain of failures.

use super::loop_detector::FailedCommand;
use super::state::RecoveryState;
use agent_protocol::control::{CauseCategory, FailureSignal, LastFailure};
use agent_protocol::envelope::{Envelope, ErrorClass, ErrorCode, ToolError};
use agent_protocol::message::ToolCall;
use agent_protocol::shorten;
use agent_protocol::signature::{self, is_missing_dependency, output_tail, shorten_with_hash};
use agent_protocol::tool::Effect;

/// Tool and target; of a command its programs, and the directory if it is not the root; only the tool if there is no
/// target.
pub(super) fn chain_key(call: &ToolCall, envelope: &Envelope, effect: Option<&Effect>) -> String {
    if let Some(Effect::Command { command, directory, programs, .. }) = effect {
        let mut names: Vec<&str> =
            programs.iter().filter_map(|program| program.split(' ').next()).collect();
        names.sort_unstable();
        names.dedup();
        let target = if names.is_empty() { command.clone() } else { names.join(" ") };
        let place = if directory == "." { String::new() } else { format!(" in {directory}") };
        return format!("{} {}{place}", call.name, shorten_with_hash(&target, 80));
    }
    let input = &envelope.context.params_input;
    let named = ["path", "pattern", "command"].iter().find_map(|name| input.get(*name)?.as_str());
    match envelope.context.path_resolved.as_deref().or(named) {
        Some(target) => format!("{} {}", call.name, shorten_with_hash(target, 80)),
        None => call.name.clone(),
    }
}

/// `None` if the error is only an observation.
pub(super) fn classify_failure(
    state: &mut RecoveryState,
    chain: String,
    call: &ToolCall,
    envelope: &Envelope,
) -> Option<LastFailure> {
    let error = envelope.error()?;
    let class = error.code.class(&call.name);
    let mut signature = signature::failure_signature(&call.name, envelope)?;
    let (signal, category) = match error.code {
        ErrorCode::Cancelled => return None,
        ErrorCode::UnknownTool | ErrorCode::InvalidParam => {
            (FailureSignal::ValidationFailed, CauseCategory::ParameterError)
        }
        ErrorCode::RepeatedCall => {
            // It is the same failure as the call that it repeats.
            if let Some(chain) = state.chains.get(&chain).filter(|chain| chain.is_open) {
                signature.clone_from(&chain.signature);
            }
            (FailureSignal::Loop, CauseCategory::ParameterError)
        }
        ErrorCode::ApprovalRejected => {
            (FailureSignal::UserRejected, CauseCategory::PermissionError)
        }
        ErrorCode::CommandFailed | ErrorCode::Timeout if class == ErrorClass::State => {
            let missing = is_missing_dependency(envelope, &output_tail(envelope));
            let now = FailedCommand {
                arguments: call.arguments.clone(),
                signature: signature.clone(),
                n_edits: state.n_edits,
            };
            let again = state.loop_detector.record_failed_command(chain.clone(), now);
            // A failing test run is an observation. If it fails in the same way after an edit, the edit did
            // not help; without an edit, the same run was pointless.
            match (missing, again) {
                (true, _) => (FailureSignal::ToolError, CauseCategory::DependencyError),
                (false, Some(before)) if before.n_edits < state.n_edits => {
                    (FailureSignal::ToolError, CauseCategory::Unknown)
                }
                (false, Some(before)) if before.arguments == call.arguments => {
                    (FailureSignal::Loop, CauseCategory::Unknown)
                }
                (false, Some(_) | None) => return None,
            }
        }
        ErrorCode::NotFound
        | ErrorCode::NoMatch
        | ErrorCode::MultipleMatches
        | ErrorCode::Conflict
        | ErrorCode::NotRead => (FailureSignal::ToolError, CauseCategory::ParameterError),
        _ => {
            let category = match class {
                ErrorClass::Tool => CauseCategory::ToolError,
                ErrorClass::Policy => CauseCategory::PermissionError,
                ErrorClass::Caller | ErrorClass::State => CauseCategory::Unknown,
            };
            (FailureSignal::ToolError, category)
        }
    };
    Some(LastFailure { signal, category, ..failure_from_error(chain, class, error, &signature) })
}

pub(super) fn failure_from_observation(
    chain: String,
    call: &ToolCall,
    envelope: &Envelope,
) -> Option<LastFailure> {
    let error = envelope.error()?;
    let class = error.code.class(&call.name);
    if class != ErrorClass::State || error.code == ErrorCode::Cancelled {
        return None;
    }
    let signature = signature::failure_signature(&call.name, envelope)?;
    Some(failure_from_error(chain, class, error, &signature))
}

fn failure_from_error(
    chain: String,
    class: ErrorClass,
    error: &ToolError,
    signature: &str,
) -> LastFailure {
    LastFailure {
        signal: FailureSignal::ToolError,
        code: Some(error.code),
        class: Some(class),
        category: CauseCategory::Unknown,
        message: shorten(&error.message, 300),
        signature: shorten_with_hash(signature, 300),
        chain,
        reflection: None,
        remedy: None,
    }
}
