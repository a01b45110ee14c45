//! A request as text, for a server without function calling.

use serde_json::json;

use super::super::wire_format::{call_arguments, call_name};
use agent_protocol::message::{Message, Part, Role};
use agent_protocol::model::Request;
use agent_protocol::prompt::fill;

/// Calls and results become text. `tools_in_text` is the prompt with this name.
pub(in super::super) fn render_as_text(
    request: &Request<'_>,
    tools_in_text: &str,
) -> (String, Vec<Message>) {
    let tools = request.tools.iter().map(|tool| {
        let parameters = tool.parameters();
        json!({"name": tool.name, "description": tool.description, "parameters": parameters})
            .to_string()
    });
    let tools = tools.collect::<Vec<_>>().join("\n");
    let mut system = request.system.to_owned();
    if !tools.is_empty() {
        system = format!("{system}\n\n{}", fill(tools_in_text, &[("tools", &tools)]).trim_end());
    }
    (system, request.messages.iter().map(message_as_text).collect())
}

fn message_as_text(message: &Message) -> Message {
    let role = match message.role {
        Role::Tool => Role::User,
        role => role,
    };
    let mut parts: Vec<Part> = Vec::new();
    for part in &message.parts {
        let text = match part {
            Part::Text { text } => text.clone(),
            Part::Call(call) => {
                let arguments = call_arguments(call);
                let name = call_name(call);
                format!(
                    "<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>"
                )
            }
            Part::Result(result) => {
                format!("<tool_response>\n{}\n</tool_response>", result.text.trim_end())
            }
            Part::Image(_) | Part::Carried(_) => {
                parts.push(part.clone());
                continue;
            }
        };
        match parts.last_mut() {
            Some(Part::Text { text: before }) => {
                if !before.ends_with('\n') {
                    before.push('\n');
                }
                before.push_str(&text);
            }
            _ => parts.push(Part::Text { text }),
        }
        if let Part::Result(result) = part {
            parts.extend(result.images.iter().cloned().map(Part::Image));
        }
    }
    Message { role, parts }
}
