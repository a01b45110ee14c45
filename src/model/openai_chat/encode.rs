//! Encodes requests for Chat Completions servers.
//!
//! The keys have a fixed order with `messages` last, so that the next request of a conversation begins with
//! the bytes of this one: providers cache by prefix.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::model::endpoint::Endpoint;
use crate::model::wire::{Encoded, call_arguments, call_name};
use crate::protocol::Object;
use crate::protocol::message::{Message, Part, Role};
use crate::protocol::model::Request;
use crate::protocol::provider::{Effort, EffortField, InstructionsRole, ReasoningBack, TokenLimit};
use crate::protocol::tool::ToolSpec;

/// The request.
pub(in crate::model) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> Encoded {
    Encoded { path: super::PATH.to_owned(), body: body(request, endpoint) }
}

fn body(request: &Request<'_>, endpoint: &Endpoint) -> Vec<u8> {
    let dialect = endpoint.dialect;
    let limit = request.max_output_tokens;
    let is_completion_limit = dialect.token_limit == Some(TokenLimit::MaxCompletionTokens);
    let has_tools = !request.tools.is_empty();
    let stream = !(has_tools && dialect.stream_with_tools == Some(false));
    let has_stream_options = stream && dialect.stream_options != Some(false);
    let body = Body {
        model: &endpoint.model,
        stream,
        stream_options: has_stream_options.then_some(StreamOptions { include_usage: true }),
        max_tokens: limit.filter(|_| !is_completion_limit),
        max_completion_tokens: limit.filter(|_| is_completion_limit),
        temperature: request.temperature,
        effort: request
            .effort
            .map(|effort| sent_effort(effort, dialect.effort))
            .unwrap_or_default(),
        response_format: request
            .answer_schema
            .filter(|_| dialect.structured_outputs == Some(true))
            .map(|schema| {
                let schema = json!({"name": "answer", "schema": schema});
                json!({"type": "json_schema", "json_schema": schema})
            }),
        parallel_tool_calls: (has_tools && dialect.parallel_calls == Some(false)).then_some(false),
        tools: request
            .tools
            .iter()
            .map(|tool| sent_tool(tool, dialect.strict_schemas == Some(true)))
            .collect(),
        messages: messages(request, endpoint),
    };
    serde_json::to_vec(&body).expect("strings and numbers always serialise")
}

/// The fields for the effort.
fn sent_effort(effort: Effort, field: Option<EffortField>) -> Object {
    let (name, value) = match (field.unwrap_or(EffortField::ReasoningEffort), effort) {
        (EffortField::Unsupported, _) => return Object::new(),
        (EffortField::Thinking, Effort::None) => ("thinking", json!({"type": "disabled"})),
        (EffortField::EnableThinking, Effort::None) => ("enable_thinking", json!(false)),
        (EffortField::Reasoning, _) => ("reasoning", json!({"effort": effort})),
        (EffortField::ReasoningEffort | EffortField::Thinking | EffortField::EnableThinking, _) => {
            ("reasoning_effort", json!(effort))
        }
    };
    Object::from_iter([(name.to_owned(), value)])
}

fn sent_tool(tool: &ToolSpec, is_strict: bool) -> Value {
    let mut parameters = tool.parameters();
    if !is_strict {
        return json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": parameters,
        }});
    }
    make_strict(&mut parameters);
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "strict": true, "parameters": parameters,
    }})
}

/// Strict schemas require every property and allow no others: an optional one may be null.
fn make_strict(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if let Some(items) = schema.get_mut("items") {
        make_strict(items);
    }
    // Not supported, and the tool knows its defaults.
    schema.remove("default");
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties.iter_mut() {
        make_strict(property);
        if !required.contains(&json!(name)) {
            *property = json!({"anyOf": [property.take(), {"type": "null"}]});
        }
    }
    let names: Vec<&String> = properties.keys().collect();
    let names = json!(names);
    schema.insert("required".to_owned(), names);
    schema.insert("additionalProperties".to_owned(), json!(false));
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(flatten)]
    effort: Object,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    messages: Vec<Sent<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A message as sent.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    /// Never null: servers reject that together with calls.
    content: Content<'a>,
    /// Only in answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<SentCall<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts([TextPart<'a>; 1]),
}

#[derive(Serialize)]
struct TextPart<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct SentCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: SentFunction<'a>,
}

#[derive(Serialize)]
struct SentFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

fn messages<'a>(request: &Request<'a>, endpoint: &Endpoint) -> Vec<Sent<'a>> {
    let mut sent = Vec::with_capacity(request.messages.len() + 2);
    if !request.system.is_empty() {
        let role = match endpoint.dialect.instructions {
            None | Some(InstructionsRole::System) => "system",
            Some(InstructionsRole::Developer) => "developer",
        };
        sent.push(plain(role, Cow::Borrowed(request.system)));
    }
    let has_result_parts = endpoint.dialect.result_parts == Some(true);
    for message in request.messages {
        match message.role {
            // Many chat templates allow a system message only at the beginning.
            Role::System | Role::User => sent.push(plain("user", words(message))),
            Role::Assistant => sent.extend(assistant(message, endpoint)),
            Role::Tool => sent.extend(results(message, has_result_parts)),
        }
    }
    sent
}

fn plain<'a>(role: &'static str, content: Cow<'a, str>) -> Sent<'a> {
    Sent {
        role,
        tool_call_id: None,
        content: Content::Text(content),
        reasoning_content: None,
        reasoning_details: Vec::new(),
        tool_calls: Vec::new(),
    }
}

/// An answer as it is sent back; an empty one is left out, because servers reject it.
fn assistant<'a>(message: &'a Message, endpoint: &Endpoint) -> Option<Sent<'a>> {
    let content = words(message);
    let mut sent = plain("assistant", Cow::Borrowed(""));
    let mut reasoning = String::new();
    for part in &message.parts {
        match part {
            Part::Call(call) => sent.tool_calls.push(SentCall {
                id: &call.id,
                r#type: "function",
                function: SentFunction { name: call_name(call), arguments: call_arguments(call) },
            }),
            Part::Carried(carried) if carried.model == endpoint.id => {
                reasoning.push_str(carried.data["reasoning_content"].as_str().unwrap_or_default());
                let details = carried.data["reasoning_details"].as_array();
                sent.reasoning_details.extend(details.into_iter().flatten());
            }
            Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Result(_) => {}
        }
    }
    if content.is_empty() && sent.tool_calls.is_empty() {
        return None;
    }
    sent.content = Content::Text(content);
    match endpoint.dialect.reasoning_back {
        // These servers reject a conversation in which an answer, also one of another model, lacks the field.
        Some(ReasoningBack::ReasoningContent) => {
            sent.reasoning_content = Some(reasoning);
            sent.reasoning_details.clear();
        }
        Some(ReasoningBack::ReasoningDetails) => {}
        None => sent.reasoning_details.clear(),
    }
    Some(sent)
}

/// One message for each result.
fn results(message: &Message, has_parts: bool) -> impl Iterator<Item = Sent<'_>> {
    message.parts.iter().filter_map(move |part| match part {
        Part::Result(result) => {
            let mut sent = plain("tool", Cow::Borrowed(&result.text));
            sent.tool_call_id = Some(&result.call);
            if has_parts {
                sent.content = Content::Parts([TextPart { r#type: "text", text: &result.text }]);
            }
            Some(sent)
        }
        Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Call(_) => None,
    })
}

/// The texts of a message, as one.
fn words(message: &Message) -> Cow<'_, str> {
    let mut words = Cow::Borrowed("");
    for part in &message.parts {
        match part {
            Part::Text { text } if words.is_empty() => words = Cow::Borrowed(text),
            Part::Text { text } => words = Cow::Owned(format!("{words}\n\n{text}")),
            Part::Image(_) | Part::Carried(_) | Part::Call(_) | Part::Result(_) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{Carried, ToolCall, ToolResult};
    use crate::protocol::model::Purpose;
    use crate::protocol::provider::Dialect;

    fn request(messages: &[Message]) -> Request<'_> {
        Request::new(Purpose::Main, "be brief", messages)
    }

    fn call(name: &str, arguments: &str) -> Part {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        Part::Call(ToolCall { id: "call_1".to_owned(), name, arguments })
    }

    fn result(text: &str) -> Part {
        Part::Result(ToolResult {
            call: "call_1".into(),
            text: text.into(),
            is_error: false,
            images: vec![],
        })
    }

    fn encoded(request: &Request<'_>) -> String {
        encoded_for(request, &Endpoint::new("p/m", "http://h"))
    }

    fn encoded_for(request: &Request<'_>, endpoint: &Endpoint) -> String {
        String::from_utf8(body(request, endpoint)).expect("JSON is UTF-8")
    }

    #[test]
    fn a_whole_conversation() {
        let tools = [ToolSpec {
            name: "Read",
            description: "reads".into(),
            schema: json!({"type": "object"}),
        }];
        let messages = [
            Message::text(Role::User, "fix it"),
            Message { role: Role::Assistant, parts: vec![call("Read", "{\"path\": \"a\"}")] },
            Message { role: Role::Tool, parts: vec![result("one"), result("two")] },
            Message { role: Role::User, parts: vec![] },
        ];
        let request = Request {
            tools: &tools,
            max_output_tokens: Some(9),
            temperature: Some(0.5),
            ..request(&messages)
        };
        assert_eq!(
            encoded(&request),
            concat!(
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#,
                r#""max_tokens":9,"temperature":0.5,"tools":[{"type":"function","function":"#,
                r#"{"name":"Read","description":"reads","parameters":{"type":"object"}}}],"#,
                r#""messages":[{"role":"system","content":"be brief"},"#,
                r#"{"role":"user","content":"fix it"},"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","#,
                r#""function":{"name":"Read","arguments":"{\"path\": \"a\"}"}}]},"#,
                r#"{"role":"tool","tool_call_id":"call_1","content":"one"},"#,
                r#"{"role":"tool","tool_call_id":"call_1","content":"two"},"#,
                r#"{"role":"user","content":""}]}"#,
            )
        );
    }

    #[test]
    fn encoded_request_is_a_prefix_of_the_next() {
        let mut messages = vec![Message::text(Role::User, "fix it")];
        let first = encoded(&request(&messages));
        messages.push(Message { role: Role::Assistant, parts: vec![call("Read", "{}")] });
        messages.push(Message { role: Role::Tool, parts: vec![result("text")] });
        let second = encoded(&request(&messages));
        assert!(second.starts_with(first.strip_suffix("]}").expect("the messages are last")));
    }

    #[test]
    fn invalid_calls_are_repaired_when_encoded() {
        fn check(name: &str, arguments: &str, expected: &str) {
            let messages = [Message { role: Role::Assistant, parts: vec![call(name, arguments)] }];
            let encoded = encoded(&request(&messages));
            assert!(encoded.contains(expected), "{expected} is not in {encoded}");
        }
        check("Read", "", r#""arguments":"{}""#);
        check("Read", "{\"a\":", r#""arguments":"{\"malformed_arguments\":\"{\\\"a\\\":\"}""#);
        check("Read", "[1]", "malformed_arguments");
        check("functions.Read file", "{}", r#""name":"functions_Read_file""#);
        check("", "{}", r#""name":"unnamed""#);

        let silent = [Message { role: Role::Assistant, parts: vec![] }];
        assert!(!encoded(&request(&silent)).contains("assistant"));
    }

    #[test]
    fn dialect_is_applied() {
        let tools = [ToolSpec {
            name: "Read",
            description: "reads".into(),
            schema: json!({"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"}, "limit": {"type": "integer", "default": 5}}}),
        }];
        let schema = json!({"type": "object"});
        let messages = [Message { role: Role::Tool, parts: vec![result("one")] }];
        let request = Request {
            max_output_tokens: Some(9),
            tools: &tools,
            answer_schema: Some(&schema),
            ..request(&messages)
        };
        let mut endpoint = Endpoint::new("p/m", "http://h");
        assert!(!encoded_for(&request, &endpoint).contains("response_format"));
        endpoint.dialect = Dialect {
            token_limit: Some(TokenLimit::MaxCompletionTokens),
            instructions: Some(InstructionsRole::Developer),
            strict_schemas: Some(true),
            structured_outputs: Some(true),
            result_parts: Some(true),
            parallel_calls: Some(false),
            stream_with_tools: Some(false),
            ..Dialect::default()
        };
        assert_eq!(
            encoded_for(&request, &endpoint),
            concat!(
                r#"{"model":"m","stream":false,"max_completion_tokens":9,"#,
                r#""response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},"#,
                r#""parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"Read","#,
                r#""description":"reads","strict":true,"parameters":{"type":"object","#,
                r#""required":["path","limit"],"properties":{"path":{"type":"string"},"#,
                r#""limit":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"additionalProperties":false}}}],"#,
                r#""messages":[{"role":"developer","content":"be brief"},"#,
                r#"{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"one"}]}]}"#,
            )
        );
        // Without tools it is streamed.
        let plain = encoded_for(&Request { tools: &[], ..request }, &endpoint);
        assert!(plain.starts_with(r#"{"model":"m","stream":true,"stream_options""#), "{plain}");
        assert!(!plain.contains("parallel_tool_calls"), "{plain}");
        endpoint.dialect.stream_options = Some(false);
        assert!(!encoded_for(&Request { tools: &[], ..request }, &endpoint).contains("_options"));
    }

    #[test]
    fn effort_is_sent_in_the_field_of_the_dialect() {
        fn check(field: Option<EffortField>, effort: Effort, expected: &str) {
            let mut endpoint = Endpoint::new("p/m", "http://h");
            endpoint.dialect =
                Dialect { effort: field, stream_options: Some(false), ..Dialect::default() };
            let request = Request { effort: Some(effort), system: "", ..request(&[]) };
            let expected = format!(r#"{{"model":"m","stream":true{expected},"messages":[]}}"#);
            assert_eq!(encoded_for(&request, &endpoint), expected);
        }
        check(None, Effort::High, r#","reasoning_effort":"high""#);
        check(None, Effort::None, r#","reasoning_effort":"none""#);
        check(Some(EffortField::Reasoning), Effort::Xhigh, r#","reasoning":{"effort":"xhigh"}"#);
        check(Some(EffortField::Thinking), Effort::Max, r#","reasoning_effort":"max""#);
        check(Some(EffortField::Thinking), Effort::None, r#","thinking":{"type":"disabled"}"#);
        check(Some(EffortField::EnableThinking), Effort::None, r#","enable_thinking":false"#);
        check(Some(EffortField::Unsupported), Effort::High, "");
    }

    #[test]
    fn reasoning_goes_back_to_its_own_model_only() {
        let carried = |model: &str, data: Value| {
            Part::Carried(Carried { model: model.into(), after_bytes: 0, after_calls: 0, data })
        };
        let check = |back: Option<ReasoningBack>, parts: Vec<Part>, expected: &str| {
            let mut endpoint = Endpoint::new("p/m", "http://h");
            endpoint.dialect.reasoning_back = back;
            let messages = [Message { role: Role::Assistant, parts }];
            let encoded = encoded_for(&Request { system: "", ..request(&messages) }, &endpoint);
            let answer = encoded.split(r#""content":"hi""#).nth(1).expect("an answer");
            assert_eq!(answer.strip_suffix("}]}"), Some(expected), "{encoded}");
        };
        let text = || Part::Text { text: "hi".to_owned() };
        let content = || json!({"reasoning_content": "hm"});
        let details = || json!({"reasoning_details": [{"text": "hm"}]});
        let back = Some(ReasoningBack::ReasoningContent);
        let whole = r#","reasoning_content":"hm""#;
        check(back, vec![carried("p/m", content()), text()], whole);
        check(back, vec![carried("p/other", content()), text()], r#","reasoning_content":"""#);
        check(back, vec![text()], r#","reasoning_content":"""#);
        check(None, vec![carried("p/m", content()), text()], "");
        let back = Some(ReasoningBack::ReasoningDetails);
        let whole = r#","reasoning_details":[{"text":"hm"}]"#;
        check(back, vec![carried("p/m", details()), text()], whole);
        check(back, vec![carried("q/m", details()), text()], "");
        check(None, vec![carried("p/m", details()), text()], "");
    }
}
