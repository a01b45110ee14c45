//! Work that keeps the session of the chat busy.

use super::prompt_commands;
use crate::app::{Options, Session};
use agent_protocol::directives::UserInput;
use agent_protocol::provider::Effort;
use agent_ui::tui::{self, ChatHandle, ChatUpdate, CommandAction, DEFAULT_EFFORT};

pub(super) enum SessionWork {
    Turn(UserInput),
    /// The focus, which may be empty.
    Compact(String),
    ChangeModel(String),
    /// The text for the model is a prompt: `/init`, `/review`.
    PromptCommand(CommandAction, String),
}

/// `false` if the work failed.
pub(super) async fn run_session_work(
    session: &mut Session,
    options: &Options,
    handle: &ChatHandle,
    work: SessionWork,
) -> bool {
    tui::panic_if_requested("session");
    match work {
        SessionWork::Turn(message) => session.run(message).await.ending.is_success(),
        SessionWork::PromptCommand(action, arguments) => {
            let cancel = session.control().cancellation_token();
            let asking = prompt_commands::command_message(session, options, action, &arguments);
            match cancel.run_until_cancelled(asking).await {
                None => false,
                Some(Ok(message)) => session.run(message).await.ending.is_success(),
                Some(Err(reason)) => {
                    handle.send(ChatUpdate::Note(false, reason));
                    false
                }
            }
        }
        SessionWork::Compact(focus) => {
            let focus = Some(focus.as_str()).filter(|focus| !focus.is_empty());
            let compacted = session.compact(focus).await;
            let (is_done, is_good, text) = match compacted {
                Ok(true) => return true,
                _ if session.control().interrupt_cause().is_some() => {
                    (false, true, "stopped: the conversation is as it was".to_owned())
                }
                Ok(false) => (true, true, "there is nothing to compact yet".to_owned()),
                Err(reason) => (false, false, reason),
            };
            handle.send(ChatUpdate::Note(is_good, text));
            is_done
        }
        SessionWork::ChangeModel(arguments) => {
            let current = session.model().to_owned();
            let (model, effort) = match parse_model_and_effort(&arguments, &current) {
                Ok(chosen) => chosen,
                Err(reason) => {
                    handle.send(ChatUpdate::Note(false, reason));
                    return false;
                }
            };
            let cancel = session.control().cancellation_token();
            let asking = Box::pin(session.change_model(options, model, effort));
            let answered = cancel.run_until_cancelled(asking).await;
            let Some(answered) = answered else { return false };
            let is_done = answered.is_ok();
            handle.send(match answered {
                Ok(warnings) => ChatUpdate::ModelChanged {
                    id: session.model().to_owned(),
                    effort: session.effort(),
                    window: session.context_window(),
                    warnings,
                },
                Err(error) => {
                    ChatUpdate::Note(false, format!("{error}; {} still answers", session.model()))
                }
            });
            is_done
        }
    }
}

/// `NAME`, `NAME EFFORT`, or `EFFORT` for the current model. `default` is the configured effort.
fn parse_model_and_effort<'a>(
    arguments: &'a str,
    current: &'a str,
) -> Result<(&'a str, Option<Effort>), String> {
    let (model, effort) = match arguments.split_once(char::is_whitespace) {
        Some((model, effort)) => (model, effort.trim()),
        None if arguments == DEFAULT_EFFORT || Effort::from_name(arguments).is_some() => {
            (current, arguments)
        }
        None => return Ok((arguments, None)),
    };
    match Effort::from_name(effort) {
        Some(effort) => Ok((model, Some(effort))),
        None if effort == DEFAULT_EFFORT => Ok((model, None)),
        None => Err(tui::unknown_effort_message(effort)),
    }
}

pub(super) fn work_for_command(action: CommandAction, arguments: String) -> SessionWork {
    match action {
        CommandAction::Compact => SessionWork::Compact(arguments),
        CommandAction::Model => SessionWork::ChangeModel(arguments),
        _ => SessionWork::PromptCommand(action, arguments),
    }
}
