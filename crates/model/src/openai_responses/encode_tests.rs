use super::*;
use agent_protocol::message::{ImageSource, OpaqueItem, ToolCall};
use agent_protocol::model::Purpose;
use agent_protocol::tool::ToolSpec;

fn request(messages: &[Message]) -> Request<'_> {
    Request::new(Purpose::Main, "be brief", messages)
}

fn encoded(request: &Request<'_>) -> String {
    let body = encode(request, &Endpoint::new("p/m", "http://h/v1")).body;
    String::from_utf8(body).expect("JSON is UTF-8")
}

fn items(messages: &[Message]) -> Value {
    serde_json::from_str::<Value>(&encoded(&request(messages))).expect("JSON")["input"].take()
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn call(name: &str, arguments: &str) -> Part {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    Part::Call(ToolCall { id: "call_1".to_owned(), name, arguments })
}

fn carried(model: &str, data: Value) -> Part {
    Part::Carried(OpaqueItem { model: model.to_owned(), after_bytes: 0, after_calls: 0, data })
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

fn result(text: &str, images: Vec<Image>) -> Part {
    let is_error = false;
    Part::Result(ToolResult { call: "call_1".into(), text: text.into(), is_error, images })
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, parts }
}

#[test]
fn a_whole_conversation() {
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object"}),
        is_foreign: false,
    }];
    let schema = json!({"type": "object"});
    let messages = [
        Message::text(Role::User, "fix it"),
        assistant(vec![
            carried("p/m", reasoning("rs_1")),
            text("I look"),
            carried("p/m", json!({"type": "message", "phase": "commentary"})),
            call("Read", "{\"path\": \"a\"}"),
        ]),
        Message { role: Role::Tool, parts: vec![result("one", vec![])] },
        Message::text(Role::System, "a summary"),
        Message { role: Role::User, parts: vec![text("")] },
    ];
    let request = Request {
        tools: &tools,
        max_output_tokens: Some(9),
        temperature: Some(0.5),
        answer_schema: Some(&schema),
        ..request(&messages)
    };
    assert_eq!(
        encoded(&request),
        concat!(
            r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
            r#""max_output_tokens":9,"temperature":0.5,"#,
            r#""text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object"}}},"#,
            r#""tools":[{"type":"function","name":"Read","description":"reads","#,
            r#""parameters":{"type":"object"},"strict":false}],"instructions":"be brief","input":["#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]},"#,
            r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},"#,
            r#"{"type":"message","role":"assistant","content":"I look","phase":"commentary"},"#,
            r#"{"type":"function_call","call_id":"call_1","name":"Read","arguments":"{\"path\": \"a\"}"},"#,
            r#"{"type":"function_call_output","call_id":"call_1","output":"one"},"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"a summary"}]}]}"#,
        )
    );
}

#[test]
fn encoded_request_is_a_prefix_of_the_next() {
    let mut messages = vec![Message::text(Role::User, "fix it")];
    let first = encoded(&request(&messages));
    messages.push(assistant(vec![carried("p/m", reasoning("rs_1")), call("Read", "{}")]));
    messages.push(Message { role: Role::Tool, parts: vec![result("text", vec![])] });
    let second = encoded(&request(&messages));
    assert!(second.starts_with(first.strip_suffix("]}").expect("the input is last")));
}

#[test]
fn reasoning_is_sent_only_before_the_item_that_it_led_to() {
    fn check(parts: Vec<Part>, expected: &[&str]) {
        let messages = [Message::text(Role::User, "x"), assistant(parts)];
        let items = items(&messages);
        let kinds = items.as_array().expect("items").iter().skip(1).map(|item| {
            item["id"].as_str().or(item["type"].as_str()).expect("an id or a type").to_owned()
        });
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
    }
    let thought = |id: &str| carried("p/m", reasoning(id));
    check(
        vec![thought("a"), thought("b"), call("Read", "{}"), thought("c"), call("Read", "{}")],
        &["a", "b", "function_call", "c", "function_call"],
    );
    check(vec![thought("a"), text("hi"), thought("b")], &["a", "message"]);
    check(vec![thought("a"), text("")], &[]);
    // That of another model cannot be decrypted.
    check(vec![carried("p/other", reasoning("a")), text("hi")], &["message"]);
}

#[test]
fn messages_of_one_answer_stay_apart() {
    let phase = |phase: &str| carried("p/m", json!({"type": "message", "phase": phase}));
    let parts = vec![text("look"), phase("commentary"), text("\n\ndone"), phase("final_answer")];
    let message = |text: &str, phase: &str| json!({"type": "message", "role": "assistant", "phase": phase, "content": text});
    let expected = json!([message("look", "commentary"), message("done", "final_answer")]);
    assert_eq!(items(&[assistant(parts)]), expected);
    // The phase belongs to an answer without text, not to the message before.
    let question = Message::text(Role::User, "x");
    let items = items(&[question, assistant(vec![phase("commentary"), call("Read", "{}")])]);
    assert_eq!(items[0].get("phase"), None);
}

#[test]
fn images_are_sent_with_their_content() {
    struct SingleImage;
    impl ImageSource for SingleImage {
        fn content(&self, image: &Image) -> Option<Vec<u8>> {
            (image.hash == "known").then(|| b"png".to_vec())
        }
    }
    let image =
        |hash: &str| Image { hash: hash.to_owned(), media_type: "image/png".to_owned(), bytes: 3 };
    let messages = [
        Message { role: Role::User, parts: vec![text("see"), Part::Image(image("known"))] },
        Message { role: Role::Tool, parts: vec![result("", vec![image("known"), image("lost")])] },
    ];
    let request = Request { images: Some(&SingleImage), ..request(&messages) };
    let body = serde_json::from_str::<Value>(&encoded(&request)).expect("JSON");
    let picture = json!({"type": "input_image", "detail": "auto",
                         "image_url": "data:image/png;base64,cG5n"});
    let expected = json!([
        {"type": "message", "role": "user",
         "content": [{"type": "input_text", "text": "see"}, picture]},
        {"type": "function_call_output", "call_id": "call_1",
         "output": [picture, {"type": "input_text", "text": "[image lost]"}]},
    ]);
    assert_eq!(body["input"], expected);
}

#[test]
fn invalid_calls_are_repaired_when_encoded() {
    let items = items(&[assistant(vec![call("functions.Read file", "{\"a\":"), call("", "")])]);
    assert_eq!(items[0]["name"], "functions_Read_file");
    assert_eq!(items[0]["arguments"], r#"{"malformed_arguments":"{\"a\":"}"#);
    assert_eq!((&items[1]["name"], &items[1]["arguments"]), (&json!("unnamed"), &json!("{}")));
}

#[test]
fn reasoning_that_the_server_rejects_is_neither_requested_nor_sent() {
    let phase = json!({"type": "message", "phase": "final_answer"});
    let parts = vec![carried("p/m", reasoning("a")), text("hi"), carried("p/m", phase)];
    let messages = [assistant(parts)];
    let mut endpoint = Endpoint::new("p/m", "http://h/v1");
    endpoint.returns_reasoning = false;
    let body = encode(&request(&messages), &endpoint).body;
    let body = serde_json::from_slice::<Value>(&body).expect("JSON");
    assert_eq!(body.get("include"), None);
    assert_eq!(body["input"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["input"][0]["phase"], "final_answer");
}

#[test]
fn dialect_is_applied() {
    let schema = json!({"type": "object"});
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: schema.clone(),
        is_foreign: false,
    }];
    let request = Request { answer_schema: Some(&schema), tools: &tools, ..request(&[]) };
    let mut endpoint = Endpoint::new("p/m", "http://h/v1");
    let sent = |endpoint: &Endpoint| {
        let body = encode(&request, endpoint).body;
        let body = serde_json::from_slice::<Value>(&body).expect("JSON");
        (body.get("text").is_some(), body.get("parallel_tool_calls").cloned())
    };
    assert_eq!(sent(&endpoint), (true, None));
    endpoint.dialect.structured_outputs = Some(false);
    endpoint.dialect.parallel_calls = Some(false);
    assert_eq!(sent(&endpoint), (false, Some(json!(false))));
}
