//! Requests as they are sent.

use super::*;
use agent_protocol::message::{ImageSource, OpaqueItem};
use agent_protocol::model::Purpose;
use agent_protocol::provider::WireFormat;
use agent_protocol::tool::ToolSpec;

const BREAKPOINT: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn request(messages: &[Message]) -> Request<'_> {
    Request { l1_bytes: 8, ..Request::new(Purpose::Main, "be briefin a", messages) }
}

fn endpoint() -> Endpoint {
    let mut endpoint = Endpoint::new("anthropic/m", "https://api.anthropic.com");
    endpoint.wire = WireFormat::AnthropicMessages;
    endpoint
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult { call: id.into(), text: text.into(), is_error: false, images: vec![] }
}

fn carried(model: &str, data: Value) -> Part {
    Part::Carried(OpaqueItem { model: model.into(), after_bytes: 0, after_calls: 0, data })
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { role, parts }
}

fn encoded(request: &Request<'_>) -> String {
    String::from_utf8(encode(request, &endpoint()).body).expect("JSON is UTF-8")
}

fn sent(request: &Request<'_>) -> Value {
    serde_json::from_str(&encoded(request)).expect("JSON")
}

/// Without breakpoints.
fn sent_messages(request: &Request<'_>) -> Value {
    let encoded = encoded(request).replace(BREAKPOINT, "");
    serde_json::from_str::<Value>(&encoded).expect("JSON")["messages"].take()
}

#[test]
fn a_whole_conversation() {
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object", "properties": {}}),
        is_foreign: false,
    }];
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let messages = [
        Message::text(Role::User, "fix it"),
        message(
            Role::Assistant,
            vec![
                carried("anthropic/m", thinking.clone()),
                Part::Text { text: "I look.".into() },
                call("c1", "Read", "{\"path\": \"a\"}"),
                call("c2", "Read", ""),
            ],
        ),
        message(
            Role::Tool,
            vec![
                Part::Result(result("c1", "one")),
                Part::Result(ToolResult { is_error: true, ..result("c2", "no path") }),
            ],
        ),
        Message::text(Role::System, "a reminder"),
        message(Role::User, vec![]),
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
            r#"{"model":"m","stream":true,"max_tokens":9,"#,
            r#""tools":[{"name":"Read","description":"reads","#,
            r#""input_schema":{"type":"object","properties":{}}}],"#,
            r#""system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}},"#,
            r#"{"type":"text","text":"in a","cache_control":{"type":"ephemeral"}}],"#,
            r#""messages":[{"role":"user","content":[{"type":"text","text":"fix it","#,
            r#""cache_control":{"type":"ephemeral"}}]},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},"#,
            r#"{"type":"text","text":"I look."},"#,
            r#"{"type":"tool_use","id":"c1","name":"Read","input":{"path": "a"}},"#,
            r#"{"type":"tool_use","id":"c2","name":"Read","input":{}}]},"#,
            r#"{"role":"user","content":["#,
            r#"{"type":"tool_result","tool_use_id":"c1","content":"one"},"#,
            r#"{"type":"tool_result","tool_use_id":"c2","content":"no path","is_error":true},"#,
            r#"{"type":"text","text":"a reminder","cache_control":{"type":"ephemeral"}}]}]}"#,
        )
    );
}

#[test]
fn encoded_request_is_a_prefix_of_the_next_except_for_the_breakpoint() {
    let mut messages = vec![Message::text(Role::User, "fix it")];
    let mut previous = encoded(&request(&messages));
    let steps = [
        vec![
            message(Role::Assistant, vec![call("c1", "Read", "{}")]),
            message(Role::Tool, vec![Part::Result(result("c1", "one"))]),
        ],
        // Joined with the message before.
        vec![Message::text(Role::User, "stop")],
        vec![Message::text(Role::Assistant, "done"), Message::text(Role::User, "go on")],
    ];
    for step in steps {
        messages.extend(step);
        let next = encoded(&request(&messages));
        let (system, _) = previous.split_once(r#""messages""#).expect("the messages are last");
        assert!(next.starts_with(system), "{next}");
        let without = |text: &str| text.replace(BREAKPOINT, "");
        let start = without(&previous);
        assert!(without(&next).starts_with(start.strip_suffix("]}]}").expect("they are last")));
        assert!(next.matches(BREAKPOINT).count() <= 4, "{next}");
        previous = next;
    }
}

#[test]
fn breakpoints_are_at_the_layers_and_at_the_ends_of_this_and_the_previous_request() {
    let calls = (0..12).map(|n| call(&format!("c{n}"), "Read", "{}")).collect();
    let results = (0..12).map(|n| Part::Result(result(&format!("c{n}"), "one"))).collect();
    let messages = [
        Message::text(Role::User, "fix it"),
        message(Role::Assistant, calls),
        message(Role::Tool, results),
    ];
    let body = sent(&request(&messages));
    let marked = |value: &Value| value["cache_control"] == json!({"type": "ephemeral"});
    assert!(marked(&body["system"][0]) && marked(&body["system"][1]));
    assert!(marked(&body["messages"][0]["content"][0]));
    assert!(marked(&body["messages"][2]["content"][11]));
    assert_eq!(encoded(&request(&messages)).matches(BREAKPOINT).count(), 4);

    let tools = [ToolSpec {
        name: "LS".into(),
        description: "lists".into(),
        schema: json!({}),
        is_foreign: false,
    }];
    let no_system = Request { system: "", tools: &tools, ..request(&messages[..1]) };
    assert!(marked(&sent(&no_system)["tools"][0]));
    // A request outside the conversation is not repeated.
    let aside = Request { purpose: Purpose::Reflect, ..request(&messages[..1]) };
    assert!(!encoded(&aside).contains("cache_control"));
}

#[test]
fn thinking_is_returned_to_its_model_only_and_never_last() {
    let data = json!({"type": "redacted_thinking", "data": "x"});
    let text = || Part::Text { text: "a".into() };
    let answer = |parts| [Message::text(Role::User, "q"), message(Role::Assistant, parts)];
    let content = |parts| sent_messages(&request(&answer(parts)))[1]["content"].take();
    let a = json!({"type": "text", "text": "a"});
    assert_eq!(
        content(vec![text(), carried("anthropic/m", data.clone()), text()]),
        json!([a, data, a])
    );
    assert_eq!(content(vec![carried("anthropic/other", data.clone()), text()]), json!([a]));
    assert_eq!(content(vec![text(), carried("anthropic/m", data.clone())]), json!([a]));
    assert_eq!(content(vec![carried("anthropic/m", json!("no object")), text()]), json!([a]));
    let only = answer(vec![carried("anthropic/m", data)]);
    assert_eq!(sent_messages(&request(&only)).as_array().map(Vec::len), Some(1));
}

#[test]
fn invalid_calls_and_blank_texts_are_repaired_when_encoded() {
    fn check(id: &str, name: &str, arguments: &str, expected: &Value) {
        let messages = [
            message(
                Role::Assistant,
                vec![Part::Text { text: " \n".into() }, call(id, name, arguments)],
            ),
            message(
                Role::Tool,
                vec![Part::Result(ToolResult { is_error: true, ..result(id, "") })],
            ),
        ];
        let sent = sent_messages(&request(&messages));
        assert_eq!(sent[0]["content"], json!([expected]));
        let result = json!([{"type": "tool_result", "tool_use_id": expected["id"], "content": ""}]);
        assert_eq!(sent[1]["content"], result);
    }
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    check("c", "Read", "", &call("c", "Read", json!({})));
    check("c", "Read", "{\"a\":", &call("c", "Read", json!({"malformed_arguments": "{\"a\":"})));
    check("c", "a b", "{}", &call("c", "a_b", json!({})));
    let replaced = call_id("functions.Read:0", CALL_ID_FORMAT);
    check("functions.Read:0", "", "{}", &call(&replaced, "unnamed", json!({})));
}

struct OneImage;

impl ImageSource for OneImage {
    fn content(&self, image: &Image) -> Option<Vec<u8>> {
        (image.hash == "known").then(|| b"PNG".to_vec())
    }
}

#[test]
fn images_are_sent_with_their_content() {
    let image = |hash: &str| Image { hash: hash.into(), media_type: "image/png".into(), bytes: 3 };
    let messages = [
        message(Role::User, vec![Part::Text { text: "see".into() }, Part::Image(image("known"))]),
        message(Role::Assistant, vec![call("c", "Read", "{}")]),
        message(
            Role::Tool,
            vec![Part::Result(ToolResult {
                images: vec![image("known"), image("unknown")],
                ..result("c", "an image")
            })],
        ),
    ];
    let request = Request { images: Some(&OneImage), ..request(&messages) };
    let sent = sent_messages(&request);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "UE5H"});
    assert_eq!(sent[0]["content"][1], json!({"type": "image", "source": source}));
    assert_eq!(
        sent[2]["content"][0]["content"],
        json!([
            {"type": "text", "text": "an image"},
            {"type": "image", "source": source},
            {"type": "text", "text": "[image lost]"},
        ])
    );
}

#[test]
fn limit_and_format_of_the_answer() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let plain = request(&[]);
    let with_schema = Request { answer_schema: Some(&schema), ..plain };
    let mut endpoint = endpoint();
    let sent = |request: &Request<'_>, endpoint: &Endpoint| {
        serde_json::from_slice::<Value>(&encode(request, endpoint).body).expect("JSON")
    };
    assert_eq!(sent(&plain, &endpoint)["max_tokens"], 32_000);
    endpoint.dialect.structured_outputs = Some(true);
    assert_eq!(sent(&plain, &endpoint).get("output_config"), None);

    let format = &sent(&with_schema, &endpoint)["output_config"]["format"];
    let expected = json!({"type": "object", "properties": {"a": {"type": "string"}},
                          "additionalProperties": false});
    assert_eq!(format, &json!({"type": "json_schema", "schema": expected}));
    let free = json!({"type": "object"});
    let with_free = Request { answer_schema: Some(&free), ..plain };
    assert_eq!(sent(&with_free, &endpoint).get("output_config"), None);
    endpoint.dialect.structured_outputs = None;
    assert_eq!(sent(&with_schema, &endpoint).get("output_config"), None);
}

#[test]
fn dialect_and_thinking_are_applied() {
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object"}),
        is_foreign: false,
    }];
    let sent = |endpoint: &Endpoint, purpose: Purpose| {
        let request = Request { purpose, tools: &tools, ..request(&[]) };
        let body = serde_json::from_slice::<Value>(&encode(&request, endpoint).body).expect("JSON");
        (body.get("tool_choice").cloned(), body.get("thinking").cloned())
    };
    let mut endpoint = Endpoint::new("p/m", "http://h");
    endpoint.wire = WireFormat::AnthropicMessages;
    assert_eq!(sent(&endpoint, Purpose::Main), (None, None));
    endpoint.dialect.parallel_calls = Some(false);
    endpoint.thinking = Some(true);
    let serial = Some(json!({"type": "auto", "disable_parallel_tool_use": true}));
    let thinking = Some(json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(sent(&endpoint, Purpose::Main), (serial.clone(), thinking));
    assert_eq!(sent(&endpoint, Purpose::Summary), (serial, None));
}
