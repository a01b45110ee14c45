use super::*;
use agent_protocol::message::{ImageSource, OpaqueItem, ToolCall, ToolResult};
use agent_protocol::model::Purpose;
use agent_protocol::provider::Dialect;

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
    String::from_utf8(encode(request, endpoint).body).expect("JSON is UTF-8")
}

#[test]
fn a_whole_conversation() {
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object"}),
        is_foreign: false,
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
fn messages_of_the_user_in_a_row_are_joined() {
    let result = || Message { role: Role::Tool, parts: vec![result("text")] };
    let user = |text: &str| Message::text(Role::User, text);
    let mut messages = vec![user("fix it"), Message::text(Role::System, "a summary")];
    let first = encoded(&request(&messages));
    assert!(first.ends_with(r#"{"role":"user","content":"fix it\n\na summary"}]}"#), "{first}");
    // The next request differs from the end of the joined text on, not before.
    messages.push(user("and this"));
    let second = encoded(&request(&messages));
    assert!(second.starts_with(first.strip_suffix(r#""}]}"#).expect("a text is last")));
    assert!(second.ends_with(r#"fix it\n\na summary\n\nand this"}]}"#), "{second}");

    messages.push(Message { role: Role::User, parts: vec![Part::Image(image("kept"))] });
    messages.push(Message { role: Role::User, parts: vec![] });
    let third = encoded(&with_images(&messages));
    let parts = r#""content":[{"type":"text","text":"fix it\n\na summary\n\nand this"},{"type":"image_url","#;
    assert!(third.contains(parts) && third.matches(r#""role":"user""#).count() == 1, "{third}");

    // After results, some servers demand an answer first.
    let messages = [
        user("fix it"),
        Message { role: Role::Assistant, parts: vec![call("Read", "{}")] },
        result(),
        user("one"),
        user("two"),
    ];
    let usual = encoded(&request(&messages));
    let end = r#""content":"text"},{"role":"user","content":"one\n\ntwo"}]}"#;
    assert!(usual.ends_with(end), "{usual}");
    let mut endpoint = Endpoint::new("p/m", "http://h");
    endpoint.dialect.user_after_tool = Some(false);
    let strict = encoded_for(&request(&messages), &endpoint);
    let end = r#""content":"text"},{"role":"assistant","content":"Done."},{"role":"user","content":"one\n\ntwo"}]}"#;
    assert!(strict.ends_with(end), "{strict}");
}

struct Stored;

impl ImageSource for Stored {
    fn content(&self, image: &Image) -> Option<Vec<u8>> {
        (image.hash == "kept").then(|| b"abc".to_vec())
    }
}

fn with_images(messages: &[Message]) -> Request<'_> {
    Request { images: Some(&Stored), ..request(messages) }
}

fn image(hash: &str) -> Image {
    Image { hash: hash.to_owned(), media_type: "image/png".to_owned(), bytes: 3 }
}

#[test]
fn images_are_sent_as_addresses_and_those_of_results_follow_all_results() {
    let mut messages = vec![Message {
        role: Role::User,
        parts: vec![
            Part::Text { text: "look".to_owned() },
            Part::Image(image("kept")),
            Part::Image(image("gone")),
        ],
    }];
    let first = encoded(&with_images(&messages));
    let picture = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}"#;
    let parts = format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"look"}},{picture},{{"type":"text","text":"[image lost]"}}]}}]}}"#
    );
    assert!(first.ends_with(&parts), "{first}");

    let mut shown = result("read");
    if let Part::Result(result) = &mut shown {
        result.images = vec![image("kept")];
    }
    let calls = vec![call("Read", "{}"), call("LS", "{}")];
    messages.push(Message { role: Role::Assistant, parts: calls });
    messages.push(Message { role: Role::Tool, parts: vec![shown, result("listed")] });
    let second = encoded(&with_images(&messages));
    let end = format!(
        concat!(
            r#"{{"role":"tool","tool_call_id":"call_1","content":"read"}},"#,
            r#"{{"role":"tool","tool_call_id":"call_1","content":"listed"}},"#,
            r#"{{"role":"user","content":[{{"type":"text","text":"[image of call_1]"}},{}]}}]}}"#,
        ),
        picture
    );
    assert!(second.ends_with(&end), "{second}");
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
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer", "default": 5}}}),
        is_foreign: false,
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
        Part::Carried(OpaqueItem { model: model.into(), after_bytes: 0, after_calls: 0, data })
    };
    let check = |back: Option<ReasoningField>, parts: Vec<Part>, expected: &str| {
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
    let back = Some(ReasoningField::ReasoningContent);
    let whole = r#","reasoning_content":"hm""#;
    check(back, vec![carried("p/m", content()), text()], whole);
    check(back, vec![carried("p/other", content()), text()], r#","reasoning_content":"""#);
    check(back, vec![text()], r#","reasoning_content":"""#);
    check(None, vec![carried("p/m", content()), text()], "");
    let back = Some(ReasoningField::ReasoningDetails);
    let whole = r#","reasoning_details":[{"text":"hm"}]"#;
    check(back, vec![carried("p/m", details()), text()], whole);
    check(back, vec![carried("q/m", details()), text()], "");
    check(None, vec![carried("p/m", details()), text()], "");
}
