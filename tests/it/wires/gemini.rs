//! Gemini's `generateContent`.

use agent_model::Endpoint;
use agent_protocol::provider::WireFormat;
use serde_json::{Value, json};

use crate::support::server::{Reply, Request, Server, json as document, sse_raw};
use crate::support::{Done, Test};

/// A complete streamed text answer.
pub(crate) fn text(text: &str) -> Reply {
    stream(&json!([{ "text": text }]), "STOP")
}

/// A complete streamed answer with tool calls, of which the first has a signature.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    let parts = (0..).zip(calls).map(|(index, (name, arguments)): (u32, _)| {
        let mut part = json!({"functionCall": {"name": name, "args": arguments}});
        if index == 0 {
            part["thoughtSignature"] = json!("c2lnbmF0dXJl");
        }
        part
    });
    stream(&json!(parts.collect::<Vec<_>>()), "STOP")
}

/// An answer that reached the length limit.
pub(crate) fn cut_off(text: &str) -> Reply {
    stream(&json!([{ "text": text }]), "MAX_TOKENS")
}

/// An answer that a content filter withheld.
pub(crate) fn refused() -> Reply {
    sse_raw(&[&json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                      "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 10}})
    .to_string()])
}

/// A stream that begins as an answer and reports an error.
pub(crate) fn error_event(kind: &str) -> Reply {
    sse_raw(&[&chunk(&json!([{"text": "half"}])).to_string(), &error_body(kind).1.to_string()])
}

/// An HTTP error.
pub(crate) fn error(status: u16, kind: &str) -> Reply {
    let (_, mut body) = error_body(kind);
    body["error"]["code"] = json!(status);
    document(status, &json!([body]))
}

/// The usual status of an error, and its body.
fn error_body(kind: &str) -> (u16, Value) {
    let (code, status, message, details) = match kind {
        "overloaded" => (503, "UNAVAILABLE", "The model is overloaded.", json!([])),
        "rate" => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            json!([
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                    {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.1s"},
            ]),
        ),
        "overflow" => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            json!([]),
        ),
        "bad request" => {
            (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", json!([]))
        }
        kind => panic!("there is no error `{kind}`"),
    };
    let error = json!({"code": code, "message": message, "status": status, "details": details});
    (code, json!({ "error": error }))
}

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
           "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 1}})
}

fn stream(parts: &Value, finish_reason: &str) -> Reply {
    let mut end = chunk(&json!([{"text": ""}]));
    end["candidates"][0]["finishReason"] = json!(finish_reason);
    sse_raw(&[&chunk(parts).to_string(), &end.to_string()])
}

/// Runs the binary against the server, whose address is given without a version.
fn run(test: Test, server: &Server, args: &[&str]) -> (Test, Done) {
    let test = test.env("GEM_KEY", "AIza-secret");
    let provider = [
        format!("providers.local.base_url={}", server.url().replace("/v1", "/proxy")),
        "providers.local.wire=gemini".to_owned(),
        "providers.local.api_key_env=GEM_KEY".to_owned(),
    ];
    let mut all = vec!["run", "--model", "local/gem"];
    for set in &provider {
        all.extend(["--set", set]);
    }
    all.extend(args);
    let done = test.agent(&all);
    (test, done)
}

fn contents(request: &Request) -> Vec<Value> {
    request.json()["contents"].as_array().unwrap().clone()
}

#[test]
fn turn_with_calls_and_a_final_answer() {
    let server = Server::playing([
        calls(&[("Read", json!({"path": "a.txt"})), ("LS", json!({}))]),
        text("It says hello."),
        text("Bye."),
    ]);
    let test = Test::new().file("a.txt", "hello\n");
    let (test, done) = run(test, &server, &["what does a.txt say?"]);
    done.expect_code(0).expect_stdout("It says hello.\n");
    let (_, done) = run(test, &server, &["-c", "thanks"]);
    done.expect_code(0);

    let requests = server.finish();
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("POST", "/proxy/v1beta/models/gem:streamGenerateContent?alt=sse")
    );
    assert_eq!(requests[0].header("x-goog-api-key"), Some("AIza-secret"));
    assert_eq!(requests[0].header("authorization"), None);
    let first = requests[0].json();
    let names = first["tools"][0]["functionDeclarations"].as_array().unwrap().iter();
    assert!(names.map(|tool| &tool["name"]).any(|name| name == "Read"), "{first}");

    let second = contents(&requests[1]);
    let [.., called, results] = second.as_slice() else { panic!("{second:?}") };
    assert_eq!((&called["role"], &results["role"]), (&json!("model"), &json!("user")));
    let called = &called["parts"];
    assert_eq!(called[0]["functionCall"]["name"], "Read");
    assert_eq!(called[0]["functionCall"]["args"], json!({"path": "a.txt"}));
    assert_eq!(called[0]["thoughtSignature"], "c2lnbmF0dXJl");
    assert_eq!(called[1]["functionCall"]["name"], "LS");
    assert_eq!(called[1]["thoughtSignature"], Value::Null);
    let read = &results["parts"][0]["functionResponse"];
    assert_eq!((&read["name"], &read["id"]), (&json!("Read"), &called[0]["functionCall"]["id"]));
    assert!(read["response"]["output"].as_str().unwrap().contains("hello"), "{read}");
    assert_eq!(results["parts"][1]["functionResponse"]["name"], "LS");

    // A resumed session returns the signature too, and each request begins with the one before it.
    assert!(contents(&requests[2]).starts_with(&second[..second.len() - 1]));
    let shared = requests[0].body.strip_suffix("]}]}").unwrap();
    assert!(requests[1].body.starts_with(shared), "{}", requests[1].body);
}

#[test]
fn calls_of_another_model_get_the_documented_signature() {
    let server = Server::playing([text("It says hello.")]);
    let test = Test::new()
        .file("a.txt", "hello\n")
        .script("call: Read {\"path\":\"a.txt\"}\n---\ntext: read");
    test.run(&["read a.txt"]).expect_code(0);
    let (_, done) = run(test, &server, &["-c", "what does it say?"]);
    done.expect_code(0);
    let contents = contents(&server.finish()[0]);
    let called = contents.iter().flat_map(|content| content["parts"].as_array().unwrap());
    let called = called.filter(|part| part["functionCall"].is_object()).collect::<Vec<_>>();
    assert_eq!(called.len(), 1);
    assert_eq!(called[0]["thoughtSignature"], "skip_thought_signature_validator");
}

#[test]
fn failed_attempts_are_retried() {
    let malformed = stream(&json!([{"text": "half"}]), "MALFORMED_FUNCTION_CALL");
    let unfinished = sse_raw(&[&chunk(
        &json!([{"functionCall": {"name": "Write", "args": {"path": "b.txt", "content": "b"}}}]),
    )
    .to_string()]);
    for reply in [
        error_event("overloaded"),
        error_event("rate"),
        error(503, "overloaded"),
        error(429, "rate"),
        malformed,
        unfinished,
    ] {
        let server = Server::playing([reply, text("fine")]);
        let (test, done) = run(Test::new(), &server, &["hello"]);
        done.expect_code(0).expect_stdout("fine\n");
        assert_eq!(server.finish().len(), 2);
        assert!(!test.root().join("b.txt").exists(), "a call of an incomplete answer was executed");
    }
}

#[test]
fn permanent_errors_end_the_run() {
    for (reply, part) in [
        (error(400, "bad request"), "Request contains an invalid argument."),
        (error_event("bad request"), "Request contains an invalid argument."),
        (error(400, "overflow"), "the request is longer than gem accepts"),
        (error(403, "bad request"), "access is not allowed"),
    ] {
        let server = Server::with(move |_, _| reply.clone());
        let (_, done) = run(Test::new(), &server, &["hello"]);
        done.expect_code(69).expect_stderr(part);
    }
}

#[test]
fn refused_and_cut_off_answers_are_not_final() {
    let server = Server::playing([refused(), cut_off("one "), text("two")]);
    let (_, done) = run(Test::new(), &server, &["count"]);
    done.expect_code(0).expect_stdout("one two\n");
    let requests = server.finish();
    let contents = contents(&requests[2]);
    let half = &contents[contents.len() - 2];
    assert_eq!(half["parts"], json!([{"text": "one "}]));
}

#[test]
fn refusal_ends_the_run() {
    let server = Server::with(|_, _| refused());
    let (_, done) = run(Test::new(), &server, &["hello"]);
    done.expect_code(1).expect_stderr("withheld");
}

#[test]
fn answer_may_be_one_document() {
    let document = document(
        200,
        &json!([
            chunk(&json!([{"text": "fi"}])),
            {"candidates": [{"content": {"parts": [{"text": "ne", "thoughtSignature": "czE="}]},
                             "finishReason": "STOP"}]},
        ]),
    );
    let server = Server::playing([document, text("ok")]);
    let (test, done) = run(Test::new(), &server, &["hello"]);
    done.expect_code(0).expect_stdout("fine\n");
    let (_, done) = run(test, &server, &["-c", "thanks"]);
    done.expect_code(0);
    let contents = contents(&server.finish()[1]);
    let answer = contents.iter().find(|content| content["role"] == "model").unwrap();
    assert_eq!(
        answer["parts"],
        json!([{"text": "fi"}, {"text": "ne", "thoughtSignature": "czE="}])
    );
}

#[tokio::test]
async fn models_are_listed_without_their_prefix() {
    let server = Server::with(|request, _| match request.path.as_str() {
        "/v1/models?pageSize=1000" => document(
            200,
            &json!({"models": [
                {"name": "models/gemini-3-pro", "displayName": "Gemini 3 Pro",
                 "supportedGenerationMethods": ["generateContent", "countTokens"]},
                {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
                {"name": "tunedModels/mine"},
            ]}),
        ),
        _ => document(404, &json!({})),
    });
    let endpoint = Endpoint { wire: WireFormat::Gemini, ..Endpoint::new("google/m", server.url()) };
    let models =
        agent_model::list_models(&endpoint, std::time::Duration::from_secs(20)).await.unwrap();
    assert_eq!(models, ["gemini-3-pro", "tunedModels/mine"]);
}

#[test]
fn what_a_model_rejects_of_its_thinking_is_left_out() {
    let rejected = |message: &str| {
        let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
        document(400, &json!([{ "error": error }]))
    };
    let server = Server::playing([
        rejected("Thinking level is not supported for this model."),
        calls(&[("Read", json!({"path": "a.txt"}))]),
        rejected("Unable to submit request because Thought signature is not valid."),
        text("fine"),
    ]);
    let test = Test::new().file("a.txt", "one\n");
    let (_, done) = run(test, &server, &["x", "--effort", "high"]);
    done.expect_code(0).expect_stdout("fine\n");
    let sent = server.finish().into_iter().map(|request| {
        (request.body.contains("thinkingLevel"), request.body.contains("c2lnbmF0dXJl"))
    });
    let expected = [(true, false), (false, false), (false, true), (false, false)];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}
