//! The bytes of requests.

use serde_json::json;

use super::*;
use agent_protocol::message::{ImageSource, answer_parts};
use agent_protocol::model::Purpose;
use agent_protocol::provider::{Effort, WireFormat};
use agent_protocol::tool::ToolSpec;

const MODEL: &str = "google/gemini-3-pro";
const THOUGHTS: &str = r#""thinkingConfig":{"includeThoughts":true}"#;

fn endpoint() -> Endpoint {
    Endpoint { wire: WireFormat::Gemini, thinking: Some(true), ..Endpoint::new(MODEL, "http://h") }
}

fn request(messages: &[Message]) -> Request<'_> {
    Request::new(Purpose::Main, "be brief", messages)
}

fn encoded(request: &Request<'_>) -> String {
    String::from_utf8(encode(request, &endpoint()).body).expect("JSON is UTF-8")
}

fn sent(messages: &[Message]) -> Value {
    serde_json::from_str::<Value>(&encoded(&request(messages))).expect("JSON")["contents"].take()
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn result(call: &str, text: &str) -> ToolResult {
    ToolResult { call: call.into(), text: text.into(), is_error: false, images: vec![] }
}

fn calls(calls: &[ToolCall]) -> Message {
    answer("", calls, &[])
}

fn answer(text: &str, calls: &[ToolCall], carried: &[OpaqueItem]) -> Message {
    Message { role: Role::Assistant, parts: answer_parts(text, calls, carried) }
}

fn results(results: &[ToolResult]) -> Message {
    Message { role: Role::Tool, parts: results.iter().cloned().map(Part::Result).collect() }
}

fn carried(after_bytes: usize, after_calls: usize, data: Value) -> OpaqueItem {
    OpaqueItem { model: MODEL.to_owned(), after_bytes, after_calls, data }
}

#[test]
fn a_whole_conversation() {
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({"type": "object"}),
        is_foreign: false,
    }];
    let failed = ToolResult { is_error: true, ..result("c2", "no file") };
    let messages = [
        Message::text(Role::User, "fix it"),
        answer(
            "I read.",
            &[call("c1", "Read", "{\"path\": \"a\"}"), call("c2", "Read", "")],
            &[carried(7, 1, json!({"thoughtSignature": "s"}))],
        ),
        results(&[result("c1", "one"), failed]),
        Message::text(Role::User, "go on"),
    ];
    let request = Request {
        tools: &tools,
        max_output_tokens: Some(9),
        temperature: Some(0.5),
        ..request(&messages)
    };
    assert_eq!(
        encoded(&request),
        [
            r#"{"systemInstruction":{"parts":[{"text":"be brief"}]},"#,
            r#""tools":[{"functionDeclarations":[{"name":"Read","description":"reads","#,
            r#""parametersJsonSchema":{"type":"object"}}]}],"#,
            r#""generationConfig":{"maxOutputTokens":9,"temperature":0.5,"#,
            THOUGHTS,
            r#"},"contents":[{"role":"user","parts":[{"text":"fix it"}]},"#,
            r#"{"role":"model","parts":[{"text":"I read."},"#,
            r#"{"functionCall":{"id":"c1","name":"Read","args":{"path":"a"}},"thoughtSignature":"s"},"#,
            r#"{"functionCall":{"id":"c2","name":"Read","args":{}}}]},"#,
            r#"{"role":"user","parts":["#,
            r#"{"functionResponse":{"id":"c1","name":"Read","response":{"output":"one"}}},"#,
            r#"{"functionResponse":{"id":"c2","name":"Read","response":{"error":"no file"}}}]},"#,
            r#"{"role":"user","parts":[{"text":"go on"}]}]}"#,
        ]
        .concat()
    );
    let path = encode(&request, &endpoint()).path;
    assert_eq!(path, "models/gemini-3-pro:streamGenerateContent?alt=sse");
    let tuned = Endpoint { model: "tunedModels/mine".to_owned(), ..endpoint() };
    let path = encode(&request, &tuned).path;
    assert_eq!(path, "tunedModels/mine:streamGenerateContent?alt=sse");
}

#[test]
fn encoded_request_is_a_prefix_of_the_next() {
    let steps = [
        Message::text(Role::User, "fix it"),
        answer(
            "Right.",
            &[call("c1", "Read", "{}")],
            &[
                carried(6, 0, json!({"thoughtSignature": "s1", "textBytes": 1})),
                carried(6, 1, json!({"thoughtSignature": "s2"})),
            ],
        ),
        results(&[result("c1", "text")]),
        Message::text(Role::User, "remember"),
        calls(&[call("c2", "Read", "{}")]),
        results(&[result("c2", "text")]),
    ];
    let end = "]}]}";
    for n in 1..steps.len() {
        let (first, next) = (encoded(&request(&steps[..n])), encoded(&request(&steps[..=n])));
        assert!(
            next.starts_with(first.strip_suffix(end).expect("the contents are last")),
            "{next}"
        );
    }
}

#[test]
fn signatures_return_to_their_parts() {
    let thought = json!({"text": "hm", "thought": true, "thoughtSignature": "s0"});
    let items = [
        carried(0, 0, thought.clone()),
        carried(6, 0, json!({"thoughtSignature": "s1", "textBytes": 2})),
        carried(7, 0, json!({"thoughtSignature": "s2", "textBytes": 0})),
        carried(7, 1, json!({"thoughtSignature": "s3"})),
    ];
    let message = answer("Goodé!", &[call("c1", "Read", "{}"), call("c2", "LS", "{}")], &items);
    let read = json!({"id": "c1", "name": "Read", "args": {}});
    let list = json!({"id": "c2", "name": "LS", "args": {}});
    assert_eq!(
        sent(&[message])[0]["parts"],
        json!([
            thought,
            {"text": "Good"},
            {"text": "é", "thoughtSignature": "s1"},
            {"text": "!"},
            {"text": "", "thoughtSignature": "s2"},
            {"functionCall": read, "thoughtSignature": "s3"},
            {"functionCall": list},
        ])
    );
    // A record may contain anything.
    let odd = [
        carried(0, 0, json!({"thoughtSignature": "s1", "textBytes": 99})),
        carried(2, 0, json!({"thoughtSignature": "s2", "textBytes": 99})),
        carried(2, 0, json!({"thoughtSignature": "s3"})),
    ];
    assert_eq!(
        sent(&[answer("hi", &[], &odd)])[0]["parts"],
        json!([{"text": "", "thoughtSignature": "s1"}, {"text": "hi", "thoughtSignature": "s2"}])
    );
}

#[test]
fn first_call_of_another_model_gets_the_documented_signature() {
    let mut item = carried(0, 1, json!({"thoughtSignature": "s"}));
    item.model = "other/model".to_owned();
    let message = answer("", &[call("c1", "Read", "{}"), call("c2", "LS", "{}")], &[item]);
    let sent = sent(&[message]);
    let signatures = sent[0]["parts"].as_array().expect("parts").iter();
    let signatures = signatures.map(|part| part["thoughtSignature"].as_str()).collect::<Vec<_>>();
    assert_eq!(signatures, [Some("skip_thought_signature_validator"), None]);
}

#[test]
fn messages_of_one_role_are_merged_and_empty_ones_left_out() {
    let contents = sent(&[
        Message::text(Role::System, "summary"),
        Message::text(Role::User, "fix it"),
        Message::text(Role::Assistant, ""),
        Message { role: Role::User, parts: vec![] },
        Message::text(Role::User, "now"),
    ]);
    let parts = json!([{"text": "summary"}, {"text": "fix it"}, {"text": "now"}]);
    assert_eq!(contents, json!([{"role": "user", "parts": parts}]));
}

#[test]
fn invalid_calls_are_repaired_when_encoded() {
    fn check(name: &str, arguments: &str, sent_name: &str, args: &Value) {
        let messages = [calls(&[call("c", name, arguments)]), results(&[result("c", "x")])];
        let contents = sent(&messages);
        let function = &contents[0]["parts"][0]["functionCall"];
        assert_eq!((&function["name"], &function["args"]), (&json!(sent_name), args));
        assert_eq!(contents[1]["parts"][0]["functionResponse"]["name"], sent_name);
    }
    check("Read", "{\"a\":", "Read", &json!({"malformed_arguments": "{\"a\":"}));
    check("Read", "[1]", "Read", &json!({"malformed_arguments": "[1]"}));
    check("functions.Read file", " ", "functions_Read_file", &json!({}));
    check("", "{}", "unnamed", &json!({}));
    check("9-9", "{}", "_9-9", &json!({}));
    check(&"9".repeat(64), "{}", &format!("_{}", "9".repeat(63)), &json!({}));
    let orphan = sent(&[results(&[result("c", "x")])]);
    assert_eq!(orphan[0]["parts"][0]["functionResponse"]["name"], "unnamed");
}

#[test]
fn images_of_results_follow_all_results() {
    struct FixedImage;
    impl ImageSource for FixedImage {
        fn content(&self, image: &Image) -> Option<Vec<u8>> {
            (image.hash == "1").then(|| b"png".to_vec())
        }
    }
    let image = |hash: &str| Image { hash: hash.into(), media_type: "image/png".into(), bytes: 3 };
    let question = Part::Text { text: "what is it?".into() };
    let messages = [
        Message { role: Role::User, parts: vec![question, Part::Image(image("1"))] },
        calls(&[call("c1", "Read", "{}"), call("c2", "Read", "{}")]),
        results(&[
            ToolResult { images: vec![image("1"), image("2")], ..result("c1", "image") },
            result("c2", "text"),
        ]),
        Message::text(Role::User, "so?"),
    ];
    let request = Request { images: Some(&FixedImage), ..request(&messages) };
    let contents = &serde_json::from_str::<Value>(&encoded(&request)).expect("JSON")["contents"];
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "cG5n"}});
    assert_eq!(contents[0]["parts"], json!([{"text": "what is it?"}, inline]));
    let response = |id: &str, text: &str| json!({"functionResponse": {"id": id, "name": "Read", "response": {"output": text}}});
    assert_eq!(contents[2]["parts"], json!([response("c1", "image"), response("c2", "text")]));
    let shown =
        json!({"role": "user", "parts": [inline, {"text": "[image lost]"}, {"text": "so?"}]});
    assert_eq!(contents[3], shown);
}

#[test]
fn answer_schema_is_sent_without_what_servers_reject() {
    let schema = json!({
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Next", "description": "what follows"}},
        "$defs": {"Next": {"type": "string", "description": "a step"}},
    });
    let request = Request { answer_schema: Some(&schema), system: "", ..request(&[]) };
    assert_eq!(
        encoded(&request),
        [
            r#"{"generationConfig":{"responseMimeType":"application/json","#,
            r##""responseJsonSchema":{"type":"object","properties":{"next":{"$ref":"#/$defs/Next"}},"##,
            r#""$defs":{"Next":{"type":"string","description":"a step"}}},"#,
            THOUGHTS,
            r#"},"contents":[]}"#,
        ]
        .concat()
    );
    let tools = [ToolSpec {
        name: "Read".into(),
        description: "reads".into(),
        schema: json!({}),
        is_foreign: false,
    }];
    assert!(!encoded(&Request { tools: &tools, ..request }).contains("responseJsonSchema"));
}

#[test]
fn settings_of_the_thinking_are_sent_to_models_that_take_them_or_with_an_effort() {
    for (thinking, effort, expected) in [
        (None, None, None),
        (Some(true), None, Some(json!({"includeThoughts": true}))),
        (None, Some(Effort::Low), Some(json!({"includeThoughts": true, "thinkingLevel": "low"}))),
        (Some(false), Some(Effort::Low), None),
    ] {
        let endpoint = Endpoint { thinking, ..endpoint() };
        let request = Request { effort, ..request(&[]) };
        let body =
            serde_json::from_slice::<Value>(&encode(&request, &endpoint).body).expect("JSON");
        assert_eq!(body["generationConfig"].get("thinkingConfig").cloned(), expected);
    }
}

#[test]
fn schema_of_the_answer_is_left_out_if_the_server_enforces_none() {
    let schema = json!({"type": "object"});
    let request = Request { answer_schema: Some(&schema), ..request(&[]) };
    let mut endpoint = endpoint();
    let is_sent = |endpoint: &Endpoint| {
        String::from_utf8(encode(&request, endpoint).body)
            .expect("UTF-8")
            .contains("responseJsonSchema")
    };
    assert!(is_sent(&endpoint));
    endpoint.dialect.structured_outputs = Some(false);
    assert!(!is_sent(&endpoint));
}
