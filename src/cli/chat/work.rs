//! Work that keeps the session of the chat busy.

use super::tasks;
use crate::app::{Options, Session};
use agent_protocol::directives::UserInput;
use agent_protocol::provider::Effort;
use agent_ui::tui::{self, CommandAction, DEFAULT_EFFORT, Handle, News};

/// Work that keeps a session busy until it is done or interrupted.
pub(super) enum Work {
    /// A message.
    Turn(UserInput),
    /// A compaction, with this focus if it is not empty.
    Compact(String),
    /// A change of the model, and its effort.
    Model(String),
    /// A message whose text for the model is a prompt: `/init`, `/review`.
    Task(CommandAction, String),
}

/// Does the work; false if it failed.
pub(super) async fn do_work(
    session: &mut Session,
    options: &Options,
    handle: &Handle,
    work: Work,
) -> bool {
    tui::panic_if_requested("session");
    match work {
        Work::Turn(message) => session.run(message).await.ending.is_success(),
        Work::Task(action, arguments) => {
            let cancel = session.control().cancel();
            let asking = tasks::message(session, options, action, &arguments);
            match cancel.run_until_cancelled(asking).await {
                None => false,
                Some(Ok(message)) => session.run(message).await.ending.is_success(),
                Some(Err(reason)) => {
                    handle.tell(News::Note(false, reason));
                    false
                }
            }
        }
        Work::Compact(focus) => {
            let focus = Some(focus.as_str()).filter(|focus| !focus.is_empty());
            let compacted = session.compact(focus).await;
            let news = match compacted {
                Ok(true) => return true,
                _ if session.control().interrupted().is_some() => {
                    News::Note(true, "stopped: the conversation is as it was".to_owned())
                }
                Ok(false) => {
                    let text = "there is nothing to compact yet";
                    handle.tell(News::Note(true, text.to_owned()));
                    return true;
                }
                Err(reason) => News::Note(false, reason),
            };
            handle.tell(news);
            false
        }
        Work::Model(arguments) => {
            let current = session.model().to_owned();
            let (model, effort) = match model_and_effort(&arguments, &current) {
                Ok(chosen) => chosen,
                Err(reason) => {
                    handle.tell(News::Note(false, reason));
                    return false;
                }
            };
            let cancel = session.control().cancel();
            let asking = Box::pin(session.answer_with(options, model, effort));
            let answered = cancel.run_until_cancelled(asking).await;
            let Some(answered) = answered else { return false };
            let is_done = answered.is_ok();
            handle.tell(match answered {
                Ok(warnings) => News::Model {
                    id: session.model().to_owned(),
                    effort: session.effort(),
                    window: session.context_window(),
                    warnings,
                },
                Err(error) => {
                    News::Note(false, format!("{error}; {} still answers", session.model()))
                }
            });
            is_done
        }
    }
}

/// The arguments of `/model`: `NAME`, `NAME EFFORT`, or `EFFORT` for the current model. `default` is the configured
/// effort.
fn model_and_effort<'a>(
    arguments: &'a str,
    current: &'a str,
) -> Result<(&'a str, Option<Effort>), String> {
    let (model, effort) = match arguments.split_once(char::is_whitespace) {
        Some((model, effort)) => (model, effort.trim()),
        None if arguments == DEFAULT_EFFORT || Effort::named(arguments).is_some() => {
            (current, arguments)
        }
        None => return Ok((arguments, None)),
    };
    match Effort::named(effort) {
        Some(effort) => Ok((model, Some(effort))),
        None if effort == DEFAULT_EFFORT => Ok((model, None)),
        None => Err(tui::no_effort(effort)),
    }
}

/// The work that a command asks for.
pub(super) fn work_of(action: CommandAction, arguments: String) -> Work {
    match action {
        CommandAction::Compact => Work::Compact(arguments),
        CommandAction::Model => Work::Model(arguments),
        _ => Work::Task(action, arguments),
    }
}
