//! What the program sends: one JSON object per line.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::program::Program;
use crate::cli::stdin;
use crate::protocol::directives::UserInput;
use crate::protocol::shorten;
use crate::ui;

/// Limit of a line in bytes: a message may contain images.
const MAX_LINE: usize = 64 << 20;
/// Limit of the text of a message in bytes, as for a task on standard input.
const MAX_TEXT: usize = 10 << 20;

/// One line of the program.
pub(super) enum Input {
    /// A message of the user.
    Message(Message),
    /// A message that cannot be used, and why.
    Refused(String),
    /// A control request.
    Request(Request),
}

/// A message of the user.
#[derive(Default)]
pub(super) struct Message {
    pub(super) input: UserInput,
    /// The id that the program gave it.
    pub(super) uuid: Option<String>,
    /// It waits until the running turn has ended.
    pub(super) is_later: bool,
    /// As it was sent.
    pub(super) content: Value,
    /// It was sent to a turn that ended before it was delivered.
    pub(super) is_again: bool,
}

impl Message {
    /// A message that the last turn did not take.
    pub(super) fn again(input: UserInput) -> Self {
        Self { input, is_again: true, ..Self::default() }
    }
}

/// A control request.
pub(super) struct Request {
    pub(super) id: String,
    pub(super) request: Value,
}

impl Request {
    /// It ends the running turn.
    pub(super) fn is_interrupt(&self) -> bool {
        self.request["subtype"] == "interrupt"
    }
}

/// Reads standard input in a thread of its own, until its end. Answers to our requests go directly to `program`.
pub(super) fn read(program: Program) -> std::io::Result<UnboundedReceiver<Input>> {
    let (sender, receiver) = unbounded_channel();
    let read = move || {
        let mut batches = stdin::lines(MAX_LINE);
        while let Some(Ok(batch)) = batches.blocking_recv() {
            for line in batch {
                take(line, &program, &sender);
            }
        }
        program.close();
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
    Ok(receiver)
}

fn take(line: stdin::Input, program: &Program, sender: &UnboundedSender<Input>) {
    let stdin::Input::Line(line) = line else {
        let limit = MAX_LINE >> 20;
        let why = format!("a message of more than {limit} MB: put its content into files");
        _ = sender.send(Input::Refused(why));
        return;
    };
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let message: Value = match serde_json::from_slice(line) {
        Ok(message @ Value::Object(_)) => message,
        Ok(_) | Err(_) => {
            let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
            ui::tell(&format!("a line of input is no JSON object and is ignored: {shown:?}"));
            return;
        }
    };
    match message["type"].as_str() {
        Some("control_response") => program.answered(&message["response"]),
        Some("control_request") => {
            let id = message["request_id"].as_str().unwrap_or_default().to_owned();
            let request = Request { id, request: message["request"].clone() };
            _ = sender.send(Input::Request(request));
        }
        Some("user") => {
            _ = sender.send(match of_user(&message) {
                Ok(message) => Input::Message(message),
                Err(why) => Input::Refused(why),
            });
        }
        Some("keep_alive" | "control_cancel_request" | "update_environment_variables") => {}
        other => {
            let kind = shorten(other.unwrap_or("(none)"), 80);
            ui::tell(&format!("a message of type {kind} is ignored"));
        }
    }
}

/// A message of the user: its content is a text, or blocks of text and images.
fn of_user(message: &Value) -> Result<Message, String> {
    let content = &message["message"]["content"];
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    match content {
        Value::String(text) => texts.push(text.as_str()),
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("text") => texts.extend(block["text"].as_str()),
                    Some("image") => images.push(image(&block["source"])?),
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
        let limit = MAX_TEXT >> 20;
        return Err(format!(
            "a message whose text has more than {limit} MiB: put it into a file of the project and name that"
        ));
    }
    if text.trim().is_empty() && images.is_empty() {
        return Err("an empty message".to_owned());
    }
    let mut input = UserInput { images, ..UserInput::default() };
    // What the program composed is not searched for mentions and commands.
    if message["client_composed"] == true {
        input.push_pasted(&text);
    } else {
        input.text = text;
    }
    Ok(Message {
        input,
        uuid: message["uuid"].as_str().map(str::to_owned),
        is_later: message["priority"] == "later",
        content: content.clone(),
        is_again: false,
    })
}

fn image(source: &Value) -> Result<Vec<u8>, String> {
    let data = source["data"].as_str().filter(|_| source["type"] == "base64");
    let data = data.ok_or("a message with an image that is not sent as base64")?;
    let decoded = BASE64_STANDARD.decode(data);
    decoded.map_err(|_| "a message with an image that is no valid base64".to_owned())
}
