//! Prepares a message of the user: fetches the prompts and resources of MCP servers that it names, and shortens what
//! is too long.

use std::pin::pin;

use futures_util::future::{BoxFuture, Either, select};

use super::Kernel;
use crate::context::{self, LargeText, Mentions};
use agent_protocol::control::Ending;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{EventBody, TurnFinished, UserMessage};

/// A quarter of the window, as for all user messages after a compaction.
const MESSAGE_WINDOW_DIVISOR: u64 = 4;
/// Limit of all attachments of a message, as of a result of Read.
const MAX_ATTACHED_BYTES: usize = 50 * 1024;

const CUT_MESSAGE: &str = "this message is too long for the model's window: it receives the beginning and the end, and \
     can read the rest from a file";

/// Fetches the prompts and resources of MCP servers that a message names.
pub type MessageExpander =
    Box<dyn Fn(UserInput) -> BoxFuture<'static, ExpandedMessage> + Send + Sync>;

/// A message with the prompts and resources that it names.
#[derive(Clone, Debug, Default)]
pub struct ExpandedMessage {
    pub input: UserInput,
    pub attachments: Vec<Attachment>,
    /// A sentence for the user about each part that the model does not receive.
    pub unread: Vec<String>,
    /// Why the command in the message cannot be carried out.
    pub refusal: Option<String>,
}

/// The text of a resource.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// `server:address`.
    pub name: String,
    pub text: String,
}

impl Kernel {
    /// The message is refused if the user interrupts before everything was fetched.
    pub(super) async fn expand_message(&self, message: &UserInput) -> ExpandedMessage {
        let input = message.clone();
        let Some(expand) = &self.parts.message_expander else {
            return ExpandedMessage { input, ..ExpandedMessage::default() };
        };
        let cancel = self.parts.control.cancellation_token();
        // A message that names nothing is ready at once, also after an interrupt.
        match select(expand(message.clone()), pin!(cancel.cancelled())).await {
            Either::Left((expanded, _)) => expanded,
            Either::Right(_) => {
                let why = "interrupted while the resources that the message names were fetched"
                    .to_owned();
                ExpandedMessage { input, refusal: Some(why), ..ExpandedMessage::default() }
            }
        }
    }

    /// No model receives the message: it is no part of the conversation.
    pub(super) fn refuse_message(
        &mut self,
        message: &UserInput,
        why: &str,
        ending: Ending,
    ) -> TurnFinished {
        self.turn += 1;
        self.set_place(0);
        self.parts.registry.begin_turn(self.turn);
        let blocked = UserMessage::blocked(message.text.clone());
        self.parts.events.emit(EventBody::TurnStarted(blocked));
        let mut turn = self.new_turn(&message.text, Mentions::default());
        turn.errors.push(why.to_owned());
        self.finish_turn(turn, ending)
    }

    /// The text for the model, if it differs from the message. The user is notified if it is cut.
    pub(super) fn model_text(&self, expanded: &mut ExpandedMessage) -> Option<String> {
        let message = &expanded.input;
        let cut = self.spill_and_shorten("task", message.model_text(), self.message_byte_limit());
        if cut.is_some() {
            expanded.unread.push(CUT_MESSAGE.to_owned());
        }
        let shown = cut.or_else(|| message.prompt.clone());
        let n_attached = expanded.attachments.len();
        if n_attached == 0 {
            return shown;
        }
        let room = self.message_byte_limit().min(MAX_ATTACHED_BYTES) / n_attached;
        let mut shown = shown.unwrap_or_else(|| message.model_text().to_owned());
        for Attachment { name, text } in &expanded.attachments {
            let cut = self.spill_and_shorten("resource", text, room);
            let text = cut.as_deref().unwrap_or(text);
            shown.push_str(&format!("\n\n<resource name=\"{name}\">\n{text}\n</resource>"));
        }
        Some(shown)
    }

    fn message_byte_limit(&self) -> usize {
        self.budget.bytes(self.budget.window() / MESSAGE_WINDOW_DIVISOR)
    }

    /// `None` if the text is not too long.
    fn spill_and_shorten(&self, tool: &str, text: &str, room: usize) -> Option<String> {
        let large = LargeText { call: "", tool, text, room };
        if text.len() > room { self.shorten_large_text(&large) } else { None }
    }

    /// The beginning and end of a text, with the path of the whole; `None` if the whole cannot be stored.
    pub(super) fn shorten_large_text(&self, large: &LargeText<'_>) -> Option<String> {
        let path = self.parts.registry.cx().spill.write(large.tool, large.text).ok()?;
        Some(context::shorten_large_text(&self.parts.prompts, large, &path))
    }
}
