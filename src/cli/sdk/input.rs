//! The input from the program: one JSON object per line.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::program::Program;
use super::requests::send_answer;
use crate::cli::stdin::{self, MAX_LINE};
use crate::cli::user_message::{self, MAX_TEXT};
use agent_protocol::directives::UserInput;
use agent_protocol::shorten;

/// Bytes that may wait for the session: a program may write faster than the session works.
const MAX_WAITING: usize = MAX_LINE;
/// Further bytes that may be refused before lines are ignored.
const MAX_REFUSED: usize = 1 << 20;

pub(super) enum ProgramInput {
    Message(ProgramMessage),
    Refused { why: String, _share: InputShare },
    Request(ControlRequest),
}

/// Bytes of the lines that wait for the session.
#[derive(Clone, Default)]
struct InputBudget(Arc<AtomicUsize>);

/// The share of a line, until it is taken.
#[derive(Default)]
pub(super) struct InputShare(InputBudget, usize);

impl InputBudget {
    /// `None` if more than `limit` bytes would wait.
    fn reserve(&self, size: usize, limit: usize) -> Option<InputShare> {
        let share = InputShare(self.clone(), size);
        let before = self.0.fetch_add(size, Ordering::Relaxed);
        (before + size <= limit).then_some(share)
    }
}

impl Drop for InputShare {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(super) struct ProgramMessage {
    pub(super) input: UserInput,
    /// Set by the program.
    pub(super) uuid: Option<String>,
    /// The message waits until the running turn has ended.
    pub(super) is_deferred: bool,
    /// As sent.
    pub(super) content: Value,
    /// The message was sent to a turn that ended before its delivery.
    pub(super) is_redelivered: bool,
    pub(super) share: InputShare,
}

pub(super) struct ControlRequest {
    pub(super) id: String,
    pub(super) body: Value,
    _share: InputShare,
}

impl ControlRequest {
    pub(super) fn is_interrupt(&self) -> bool {
        self.body["subtype"] == "interrupt"
    }

    pub(super) fn needs_idle(&self) -> bool {
        ["set_model", "rewind_files", "undo"].iter().any(|it| self.body["subtype"] == *it)
    }
}

/// Reads in a thread of its own. Answers to our requests go directly to `program`.
pub(super) fn spawn_reader(program: Program) -> io::Result<UnboundedReceiver<ProgramInput>> {
    let (reader, receiver) = InputReader::new(program);
    let read = move || {
        reader.read_lines(io::stdin());
        reader.program.close();
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
    Ok(receiver)
}

#[derive(Clone)]
pub(super) struct InputReader {
    pub(super) program: Program,
    sender: UnboundedSender<ProgramInput>,
    budget: InputBudget,
}

impl InputReader {
    pub(super) fn new(program: Program) -> (Self, UnboundedReceiver<ProgramInput>) {
        let (sender, receiver) = unbounded_channel();
        (Self { program, sender, budget: InputBudget::default() }, receiver)
    }

    /// Blocks until the end of the input.
    pub(super) fn read_lines(&self, input: impl Read) {
        for line in stdin::batches(input, MAX_LINE).flatten().flatten() {
            self.handle_line(line);
        }
    }

    fn handle_line(&self, line: stdin::InputLine) {
        let stdin::InputLine::Line(line) = line else {
            let limit = MAX_LINE >> 20;
            self.refuse(format!("a message of more than {limit} MB: put its content into files"));
            return;
        };
        let line = line.trim_ascii();
        let message: Value = match serde_json::from_slice(line) {
            Ok(message @ Value::Object(_)) => message,
            Ok(_) | Err(_) => {
                let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                agent_ui::print_notice(&format!(
                    "a line of input is no JSON object and is ignored: {shown:?}"
                ));
                return;
            }
        };
        match message["type"].as_str() {
            Some("control_response") => self.program.handle_response(&message["response"]),
            Some("control_request") => self.queue_request(&message, line.len()),
            Some("user") => match parse_user_message(&message) {
                Ok(message) => self.queue_message(message, line.len()),
                Err(why) => self.refuse(why),
            },
            Some("keep_alive" | "control_cancel_request" | "update_environment_variables") => {}
            other => {
                let kind = shorten(other.unwrap_or("(none)"), 80);
                agent_ui::print_notice(&format!("a message of type {kind} is ignored"));
            }
        }
    }

    fn queue_message(&self, message: ProgramMessage, size: usize) {
        match self.budget.reserve(size, MAX_WAITING) {
            Some(share) => {
                _ = self.sender.send(ProgramInput::Message(ProgramMessage { share, ..message }));
            }
            None => self.refuse(format!("a message while {}", overflow_message())),
        }
    }

    fn queue_request(&self, message: &Value, size: usize) {
        let id = message["request_id"].as_str().unwrap_or_default().to_owned();
        let request = &message["request"];
        // An interrupt is accepted even above the limit.
        let limit = if request["subtype"] == "interrupt" { usize::MAX } else { MAX_WAITING };
        match self.budget.reserve(size, limit) {
            Some(share) => {
                let request = ControlRequest { id, body: request.clone(), _share: share };
                _ = self.sender.send(ProgramInput::Request(request));
            }
            None => send_answer(&self.program, &id, Err(overflow_message())),
        }
    }

    fn refuse(&self, why: String) {
        let size = why.len() + size_of::<ProgramInput>();
        match self.budget.reserve(size, MAX_WAITING + MAX_REFUSED) {
            Some(share) => _ = self.sender.send(ProgramInput::Refused { why, _share: share }),
            None => agent_ui::print_notice(&format!("a line of input is ignored: {why}")),
        }
    }
}

fn overflow_message() -> String {
    format!("more than {} MB of input wait for the session", MAX_WAITING >> 20)
}

fn parse_user_message(given: &Value) -> Result<ProgramMessage, String> {
    let content = &given["message"]["content"];
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    match content {
        Value::String(text) => texts.push(text.as_str()),
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("text") => texts.extend(block["text"].as_str()),
                    Some("image") => images.push(decode_image(&block["source"])?),
                    other => {
                        let kind = shorten(other.unwrap_or("(none)"), 80);
                        return Err(format!(
                            "a message with a block of type {kind}: text and images are read"
                        ));
                    }
                }
            }
        }
        _ => return Err("a message without content".to_owned()),
    }
    let text = texts.join("\n");
    if text.len() > MAX_TEXT {
        return Err(user_message::too_long_error("a message"));
    }
    if text.trim().is_empty() && images.is_empty() {
        return Err("an empty message".to_owned());
    }
    let mut input = UserInput { images, ..UserInput::default() };
    // Text that the program composed is not searched for mentions and commands.
    if given["client_composed"] == true {
        input.push_pasted(&text);
    } else {
        input.text = text;
        // The chat that is attached to a session in the background tells which parts were pasted.
        let pasted = given["pasted"].as_array().into_iter().flatten();
        let pasted = pasted.filter_map(|it| serde_json::from_value(it.clone()).ok());
        let is_range = |it: &Range<usize>| input.text.get(it.clone()).is_some();
        input.pasted = pasted.filter(is_range).collect();
    }
    Ok(ProgramMessage {
        input,
        uuid: given["uuid"].as_str().map(str::to_owned),
        is_deferred: given["priority"] == "later",
        content: content.clone(),
        ..ProgramMessage::default()
    })
}

fn decode_image(source: &Value) -> Result<Vec<u8>, String> {
    let data = source["data"].as_str().filter(|_| source["type"] == "base64");
    let data = data.ok_or("a message with an image that is not sent as base64")?;
    user_message::decode_image(data)
        .ok_or_else(|| "a message with an image that is no valid base64".to_owned())
}
