//! L3: the conversation with the model. Calls and results are added together; it is append-only until a
//! compaction replaces its older part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::call_outcome::{CallAction, CallOutcome};
use super::rules;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Compaction, Event, EventBody, ShortenedText, WorkPosition};
use agent_protocol::message::{
    Image, Message, OpaqueItem, Part, Role, ToolCall, ToolResult, answer_parts,
};
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::prompt::{Prompt, Prompts, fill};
use agent_protocol::recall::RecallMoment;
use agent_protocol::view::{SAME_ANSWER_NOTE, call_line, describe_undone_files, render_for_model};

const UNDONE: Prompt = Prompt::named("feedback/undone.md");
const DIRECTORY_ADDED: Prompt = Prompt::named("feedback/directory_added.md");
const INTERRUPTED: Prompt = Prompt::named("feedback/interrupted.md");
const USER_COMMAND: Prompt = Prompt::named("feedback/user_command.md");
const KERNEL_CALL: Prompt = Prompt::named("recovery/kernel_call.md");
const FORGOTTEN: Prompt = Prompt::named("summary/forgotten.md");
const USER_MESSAGES: Prompt = Prompt::named("summary/user_messages.md");

/// The conversation.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(super) prompts: Arc<Prompts>,
    messages: Vec<Message>,
    /// Facts about the messages, in their order.
    metadata: Vec<MessageMetadata>,
    bytes: usize,
    /// Place of the next message.
    pub place: WorkPosition,
    /// The number of messages at the front that stand for older ones, such as a summary.
    front_length: usize,
    /// All summaries, including those that were replaced by one line.
    pub(super) summaries: Vec<String>,
    /// The number of summaries that were replaced by one line.
    forgotten: usize,
    /// Messages of archived turns, oldest first; they precede the summaries.
    pub(super) user_messages: Vec<UserMessage>,
    /// While events are replayed: an answer with calls that have no result yet.
    pending_exchange: Option<PendingExchange>,
    /// Call id and text to append: the call has no result yet.
    pending_texts: Vec<(String, String)>,
    /// By model: the hashes of images that are not sent to it.
    withheld_images: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct MessageMetadata {
    pub(super) place: WorkPosition,
    pub(super) kind: MessageKind,
    pub(super) bytes: usize,
    /// Digest of all messages up to this one.
    digest: Digest,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MessageKind {
    /// Replaces older messages.
    Front,
    UserMessage,
    ProgramMessage,
    /// A round begins.
    Answer,
    Results(Vec<CallOutcome>),
}

/// A user message of an archived turn.
#[derive(Clone, Debug)]
pub(super) struct UserMessage {
    pub(super) turn: u32,
    /// Verbatim, unless it was too long; empty if it is left out.
    pub(super) text: String,
}

type Digest = [u8; 32];

/// A state of the conversation, for comparison with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    messages: usize,
    digest: Digest,
}

#[derive(Clone, Debug)]
struct PendingExchange {
    text: String,
    calls: Vec<ToolCall>,
    carried: Vec<OpaqueItem>,
    envelopes: Vec<Option<Envelope>>,
}

impl History {
    /// An empty conversation with these prompts for the program's messages.
    pub fn new(prompts: Arc<Prompts>) -> Self {
        Self { prompts, ..Self::default() }
    }

    /// The messages, oldest first. Every call in them has exactly one result.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Size of all texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of images.
    pub fn n_images(&self) -> usize {
        self.messages.iter().flat_map(|message| &message.parts).flat_map(Part::images).count()
    }

    /// The hashes of images that are not sent to this model, because its server refused requests with them.
    pub fn withheld_images(&self, model: &str) -> Option<&BTreeSet<String>> {
        self.withheld_images.get(model)
    }

    /// The hashes of images that came after the last answer and are sent to this model.
    pub fn unanswered_images(&self, model: &str) -> Vec<String> {
        let is_answer = |note: &MessageMetadata| note.kind == MessageKind::Answer;
        let start = self.metadata.iter().rposition(is_answer).unwrap_or(0);
        let parts = self.messages[start..].iter().flat_map(|message| &message.parts);
        let hashes: BTreeSet<&String> =
            parts.flat_map(Part::images).map(|image| &image.hash).collect();
        let withheld = self.withheld_images(model);
        let is_sent = |hash: &&String| withheld.is_none_or(|withheld| !withheld.contains(*hash));
        hashes.into_iter().filter(is_sent).cloned().collect()
    }

    /// The current state of the conversation.
    pub fn mark(&self) -> HistoryMark {
        let digest = self.metadata.last().map_or_else(Digest::default, |note| note.digest);
        HistoryMark { messages: self.messages.len(), digest }
    }

    /// Whether the conversation was only appended to since `mark`.
    pub fn is_continuation_of(&self, mark: &HistoryMark) -> bool {
        mark.messages.checked_sub(1).is_none_or(|last| {
            self.metadata.get(last).is_some_and(|note| note.digest == mark.digest)
        })
    }

    /// Adds a message of the user. Images follow its text.
    pub fn add_user_message(&mut self, text: &str, images: &[Image]) {
        let mut message = Message::text(Role::User, text);
        message.parts.extend(images.iter().cloned().map(Part::Image));
        self.push(message, MessageKind::UserMessage);
    }

    /// Adds a message of the program on the user's behalf.
    pub fn add_program_message(&mut self, text: &str) {
        self.push(Message::text(Role::User, text), MessageKind::ProgramMessage);
    }

    /// Adds an answer of the model without calls.
    pub fn add_answer(&mut self, text: &str, carried: &[OpaqueItem]) {
        if !text.is_empty() {
            let parts = answer_parts(text, &[], carried);
            self.push(Message { role: Role::Assistant, parts }, MessageKind::Answer);
        }
    }

    /// Adds the received part of an answer that was interrupted, and marks it as such.
    pub fn add_interrupted_answer(&mut self, text: &str) {
        let values = [("text", text.trim_end())];
        self.add_answer(fill(self.prompts.text(INTERRUPTED), &values).trim_end(), &[]);
    }

    /// Adds an answer with its calls and results: `calls` and `envelopes` correspond in order.
    pub fn add_exchange(
        &mut self,
        text: &str,
        calls: &[ToolCall],
        carried: &[OpaqueItem],
        envelopes: &[&Envelope],
    ) {
        let parts = answer_parts(text, calls, carried);
        self.push(Message { role: Role::Assistant, parts }, MessageKind::Answer);
        let (mut results, mut outcomes) = (Vec::new(), Vec::new());
        for (call, envelope) in calls.iter().zip(envelopes) {
            let mut view = render_for_model(envelope);
            let mut outcome = CallOutcome::from_envelope(&call.name, envelope);
            let is_of_file = envelope.error().is_none() && envelope.context.path_resolved.is_some();
            if let Some(end) = view.find('\n')
                && is_of_file
                && self.has_result(&view)
            {
                view.truncate(end);
                outcome.action = CallAction::Other { path: envelope.context.path_resolved.clone() };
            }
            results.push(result_part(&call.id, envelope, view));
            outcomes.push(outcome);
        }
        let message = Message { role: Role::Tool, parts: results };
        self.push(message, MessageKind::Results(outcomes));
        for (call, text) in std::mem::take(&mut self.pending_texts) {
            if calls.iter().any(|answered| answered.id == call) {
                self.append_to_result(&call, &text, None);
            }
        }
    }

    /// An earlier result has the same text, except for the note of the repetition.
    fn has_result(&self, repeated: &str) -> bool {
        let Some(at) = repeated.find(SAME_ANSWER_NOTE) else { return false };
        let (head, tail) = (&repeated[..at], &repeated[at + SAME_ANSWER_NOTE.len()..]);
        let is_same = |part: &Part| match part {
            Part::Result(result) => {
                result.text.strip_prefix(head).is_some_and(|rest| rest.starts_with(tail))
            }
            _ => false,
        };
        self.messages.iter().rev().flat_map(|message| &message.parts).any(is_same)
    }

    /// Appends the result of a call that the kernel made to the result of the model's call. The latter was not sent
    /// to the model yet.
    pub fn append_kernel_result(&mut self, parent: &str, call: &str, envelope: &Envelope) {
        let label = self.prompts.text(KERNEL_CALL).replace("{{call}}", call);
        let tool = call.split(' ').next().unwrap_or_default();
        let text = format!("{}\n{}", label.trim_end(), render_for_model(envelope));
        self.append_to_result(parent, &text, Some(&CallOutcome::from_envelope(tool, envelope)));
    }

    /// The result was not sent to the model yet.
    fn append_to_result(&mut self, parent: &str, text: &str, outcome: Option<&CallOutcome>) {
        let is_parent = |message: &Message| {
            let is_its = |part: &Part| matches!(part, Part::Result(own) if own.call == parent);
            message.parts.iter().any(is_its)
        };
        let Some(at) = self.messages.iter().rposition(is_parent) else {
            self.pending_texts.push((parent.to_owned(), text.to_owned()));
            return;
        };
        let now = self.place;
        let messages = self.messages.split_off(at);
        let notes = self.metadata.split_off(at);
        self.bytes -= notes.iter().map(|note| note.bytes).sum::<usize>();
        for (mut message, mut note) in messages.into_iter().zip(notes) {
            for part in &mut message.parts {
                if let Part::Result(result) = part
                    && result.call == parent
                {
                    result.text.push_str(&format!("\n\n{text}"));
                    // Outcomes of results come first, then those of the kernel's calls.
                    if let MessageKind::Results(outcomes) = &mut note.kind {
                        outcomes.extend(outcome.cloned());
                    }
                }
            }
            self.place = note.place;
            self.push(message, note.kind);
        }
        self.place = now;
    }

    /// Applies an event of a recorded session.
    pub fn apply(&mut self, event: &Event) {
        self.place = event.header.place;
        match &event.body {
            EventBody::TurnStarted(message) | EventBody::TurnSteered(message)
                if !message.blocked =>
            {
                self.add_user_message(message.model_text(), &message.images);
            }
            EventBody::UserCommand { command, output, exit_code } => {
                let how = exit_code
                    .map_or_else(|| "was ended".to_owned(), |code| format!("exited {code}"));
                let values = [("how", how.as_str()), ("command", command), ("output", output)];
                self.add_program_message(fill(self.prompts.text(USER_COMMAND), &values).trim_end());
            }
            EventBody::Feedback { text, .. } | EventBody::Reminder { text, .. } => {
                self.add_program_message(text);
            }
            EventBody::RulesFound { path, text } => {
                self.add_program_message(&rules::found_rules_message(&self.prompts, path, text));
            }
            EventBody::MemoryRecalled(recalled) if recalled.moment == RecallMoment::Reflection => {}
            EventBody::MemoryRecalled(recalled) => match &recalled.call {
                Some(call) => self.append_to_result(call, &recalled.text, None),
                None if recalled.in_rules => {}
                None => self.add_program_message(&recalled.text),
            },
            EventBody::TurnUndone { undone, files, is_redo, .. } => {
                let files = describe_undone_files(files, |path, how| format!("{path} ({how})"));
                let what = if *is_redo { "redone" } else { "undone" };
                let turn = undone.to_string();
                let values = [("what", what), ("turn", &turn), ("files", &files)];
                self.add_program_message(fill(self.prompts.text(UNDONE), &values).trim_end());
            }
            EventBody::DirectoryAdded { path } => {
                let text = fill(self.prompts.text(DIRECTORY_ADDED), &[("path", path)]);
                self.add_program_message(text.trim_end());
            }
            EventBody::ModelResponded(answer)
                if answer.purpose == Purpose::Main && !answer.discarded =>
            {
                if answer.stop == StopReason::Interrupted {
                    self.add_interrupted_answer(&answer.text);
                } else if answer.calls.is_empty() {
                    self.add_answer(&answer.text, &answer.carried);
                } else {
                    self.pending_exchange = Some(PendingExchange {
                        text: answer.text.clone(),
                        calls: answer.calls.clone(),
                        carried: answer.carried.clone(),
                        envelopes: vec![None; answer.calls.len()],
                    });
                }
            }
            EventBody::ToolFinished { parent_call: Some(parent), envelope, tool, .. } => {
                let call = call_line(tool, &envelope.context.params_input);
                self.append_kernel_result(parent, &call, envelope);
            }
            EventBody::ToolFinished { call, envelope, tool, .. } => {
                self.record_result(call, tool, envelope);
            }
            EventBody::ContextCompacted(compacted) => self.compact(compacted),
            EventBody::ImagesWithheld { model, images, .. } => {
                let withheld = self.withheld_images.entry(model.clone()).or_default();
                withheld.extend(images.iter().cloned());
            }
            _ => {}
        }
    }

    /// Applies a compaction.
    pub fn compact(&mut self, compacted: &Compaction) {
        for ShortenedText { message, text } in &compacted.shortened {
            let message = self.messages.get_mut(self.front_length + message);
            if let Some(longer) = message.and_then(leading_text_mut) {
                longer.clone_from(text);
            }
        }
        self.shorten_user_messages(&compacted.user_messages);
        let kept_from = (self.front_length + compacted.archived).min(self.messages.len());
        let running: Vec<usize> = running_turn_messages(
            &self.metadata[self.front_length..],
            kept_from - self.front_length,
        )
        .collect();
        let mut tasks: Vec<(Message, WorkPosition)> = Vec::new();
        for at in self.front_length..kept_from {
            let (message, note) = (&self.messages[at], &self.metadata[at]);
            if running.contains(&(at - self.front_length)) {
                tasks.push((message.clone(), note.place));
            } else if note.kind == MessageKind::UserMessage {
                let text = first_text(message).to_owned();
                self.user_messages.push(UserMessage { turn: note.place.turn, text });
            } else if let MessageKind::Results(outcomes) = &note.kind {
                // An answer to a question is a message of the user, too.
                let answers = outcomes.iter().filter_map(|outcome| outcome.user_answers.clone());
                let turn = note.place.turn;
                self.user_messages.extend(answers.map(|text| UserMessage { turn, text }));
            }
        }
        let messages = std::mem::take(&mut self.messages).split_off(kept_from);
        let notes = std::mem::take(&mut self.metadata).split_off(kept_from);
        self.bytes = 0;

        if !compacted.summary.is_empty() {
            self.summaries.push(compacted.summary.clone());
        }
        let now = self.place;
        let messages_in_front: Vec<String> = self
            .user_messages
            .iter()
            .filter(|message| !message.text.is_empty())
            .map(|message| format!("[turn {}]\n{}", message.turn, message.text))
            .collect();
        if !messages_in_front.is_empty() {
            let text = self.prompts.text(USER_MESSAGES).trim_end();
            let text = text.replace("{{messages}}", &messages_in_front.join("\n\n"));
            self.push(Message::text(Role::User, text), MessageKind::Front);
        }
        self.forgotten = compacted.forgotten;
        if compacted.forgotten > 0 {
            let line =
                self.prompts.text(FORGOTTEN).replace("{{n}}", &compacted.forgotten.to_string());
            self.push(Message::text(Role::System, line.trim_end()), MessageKind::Front);
        }
        for summary in self.summaries.clone().into_iter().skip(compacted.forgotten) {
            self.push(Message::text(Role::System, summary), MessageKind::Front);
        }
        self.front_length = self.messages.len();
        let is_left_out = |message: &Message, kind: &MessageKind| {
            *kind == MessageKind::UserMessage && first_text(message).is_empty()
        };
        for (message, place) in tasks {
            self.place = place;
            if !is_left_out(&message, &MessageKind::UserMessage) {
                self.push(message, MessageKind::UserMessage);
            }
        }
        for (mut message, note) in messages.into_iter().zip(notes) {
            if is_left_out(&message, &note.kind) {
                continue;
            }
            replace_results(&mut message, &compacted.cut);
            // Providers bind it to the conversation before it, which is replaced.
            message.parts.retain(|part| !matches!(part, Part::Carried(_)));
            self.place = note.place;
            self.push(message, note.kind);
        }
        self.place = now;
    }

    /// Numbers count the archived user messages first, then those of the conversation.
    fn shorten_user_messages(&mut self, shortened: &[ShortenedText]) {
        let archived = self.user_messages.iter_mut().map(|message| &mut message.text);
        let body = self.messages.iter_mut().zip(&self.metadata).skip(self.front_length);
        let tasks = body.filter(|(_, note)| note.kind == MessageKind::UserMessage);
        let tasks = tasks.filter_map(|(message, _)| leading_text_mut(message));
        for (at, text) in archived.chain(tasks).enumerate() {
            if let Some(shorter) = shortened.iter().find(|shorter| shorter.message == at) {
                text.clone_from(&shorter.text);
            }
        }
    }

    /// Size of the last results, in bytes.
    pub fn last_results_bytes(&self) -> usize {
        let is_results = |note: &&MessageMetadata| matches!(note.kind, MessageKind::Results(_));
        self.metadata.iter().rev().find(is_results).map_or(0, |note| note.bytes)
    }

    /// Number of rounds after the summaries.
    pub fn n_rounds(&self) -> usize {
        self.metadata.iter().filter(|note| note.kind == MessageKind::Answer).count()
    }

    /// The number of summaries that one line replaces.
    pub fn n_forgotten_summaries(&self) -> usize {
        self.forgotten
    }

    /// The messages after the summaries, with their metadata.
    pub(super) fn body(&self) -> (&[Message], &[MessageMetadata]) {
        (&self.messages[self.front_length..], &self.metadata[self.front_length..])
    }

    fn record_result(&mut self, call: &str, tool: &str, envelope: &Envelope) {
        let Some(waiting) = &mut self.pending_exchange else { return };
        let mut slots = waiting.calls.iter_mut().zip(&mut waiting.envelopes);
        if let Some((own, slot)) = slots.find(|(own, slot)| own.id == call && slot.is_none()) {
            // A call of BashOutput or BashKill ran as one of Bash, with other parameters.
            let input = &envelope.context.params_input;
            if own.name != tool && tool == "Bash" && !input.contains_key("command") {
                own.arguments = serde_json::Value::Object(input.clone()).to_string();
            }
            // The model may have written another name.
            tool.clone_into(&mut own.name);
            *slot = Some(envelope.clone());
        }
        if waiting.envelopes.iter().all(Option::is_some)
            && let Some(waiting) = self.pending_exchange.take()
        {
            let envelopes: Vec<&Envelope> = waiting.envelopes.iter().flatten().collect();
            let PendingExchange { text, calls, carried, .. } = &waiting;
            self.add_exchange(text, calls, carried, &envelopes);
        }
    }

    fn push(&mut self, message: Message, kind: MessageKind) {
        let bytes = message.parts.iter().map(Part::bytes).sum::<usize>();
        let digest = digest_message(self.mark().digest, &message);
        self.bytes += bytes;
        self.messages.push(message);
        self.metadata.push(MessageMetadata { place: self.place, kind, bytes, digest });
    }
}

pub(crate) fn result_part(call: &str, envelope: &Envelope, text: String) -> Part {
    let (is_error, images) = (envelope.error().is_some(), envelope.images());
    Part::Result(ToolResult { call: call.to_owned(), text, is_error, images })
}

pub(super) fn first_text(message: &Message) -> &str {
    let text = message.parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    text.unwrap_or_default()
}

fn leading_text_mut(message: &mut Message) -> Option<&mut String> {
    match message.parts.first_mut()? {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

/// Indexes of the running turn's user messages before `kept_from`: a compaction keeps them.
pub(super) fn running_turn_messages(
    notes: &[MessageMetadata],
    kept_from: usize,
) -> impl Iterator<Item = usize> + '_ {
    let is_task = |note: &MessageMetadata| note.kind == MessageKind::UserMessage;
    let turn = notes.iter().rev().find(|note| is_task(note)).map(|note| note.place.turn);
    (0..kept_from).filter(move |at| is_task(&notes[*at]) && Some(notes[*at].place.turn) == turn)
}

fn replace_results(message: &mut Message, cut: &BTreeMap<String, String>) {
    for part in &mut message.parts {
        if let Part::Result(result) = part
            && let Some(text) = cut.get(&result.call)
        {
            result.text.clone_from(text);
            result.images.clear();
        }
    }
}

fn digest_message(before: Digest, message: &Message) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before);
    hasher.update(&[message.role as u8]);
    let mut add = |texts: [&str; 3]| {
        for text in texts {
            hasher.update(&text.len().to_le_bytes());
            hasher.update(text.as_bytes());
        }
    };
    for part in &message.parts {
        match part {
            Part::Text { text } => add(["text", text, ""]),
            Part::Image(image) => add(["image", &image.hash, &image.media_type]),
            Part::Carried(item) => add(["carried", &item.model, &item.data.to_string()]),
            Part::Call(call) => add([&call.id, &call.name, &call.arguments]),
            Part::Result(result) => {
                add(["result", &result.call, &result.text]);
                result.images.iter().for_each(|image| add(["image", &image.hash, ""]));
            }
        }
    }
    hasher.finalize().into()
}
