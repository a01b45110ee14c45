//! The window of a model: what its server says of it, in answers, errors and counts.

use serde_json::{Value, json};

use super::gemini;
use crate::support::server::{self, Reply, Request, Server};
use crate::support::{Pty, Test};

/// A server that answers this question with this document, and requests with this reply.
fn answering(path: &'static str, document: Value, reply: Reply) -> Server {
    Server::asked(move |request, _| match request.path.as_str() {
        _ if request.path == path => server::json(200, &document),
        _ if request.method == "POST" => reply.clone(),
        _ => server::json(404, &json!({"error": "not found"})),
    })
}

/// The window and its source of a request for an answer.
fn window(test: &Test, n: usize) -> (Value, Value) {
    let requested = test.events_of("model.requested");
    let mut main = requested.into_iter().filter(|event| event["purpose"] == "main");
    let event = main.nth(n).unwrap();
    (event["window"].clone(), event["window_source"].clone())
}

fn run(provider: &str, config: &str, server: &Server) -> Test {
    let url = server.url();
    let config = format!("[providers.{provider}]\nbase_url = \"{url}\"\n{config}");
    let test = Test::new().user_config(&config);
    let model = format!("{provider}/m");
    test.agent(&["run", "x", "--model", &model, "--no-memory"]).expect_code(0);
    test
}

#[test]
fn servers_are_asked_for_the_window_that_is_in_effect() {
    let text = || server::sse_text("done");
    for (provider, path, document, tokens) in [
        ("p", "/props", json!({"default_generation_settings": {"n_ctx": 8192}}), 8192),
        ("p", "/api/ps", json!({"models": [{"name": "m:latest", "context_length": 4096}]}), 4096),
        (
            "p",
            "/api/v0/models",
            json!({"data": [{"id": "other", "loaded_context_length": 2048},
                {"id": "m", "loaded_context_length": 6144, "max_context_length": 131_072}]}),
            6144,
        ),
        ("p", "/v1/models", json!({"data": [{"id": "m", "max_model_len": 10_000}]}), 10_000),
        ("p", "/v1/models", json!({"data": [{"id": "m", "meta": {"n_ctx": 7168}}]}), 7168),
        (
            "p",
            "/model/info",
            json!({"data": [{"model_name": "m", "model_info": {"max_input_tokens": 9000}}]}),
            9000,
        ),
    ] {
        let server = answering(path, document, text());
        let test = run(provider, "", &server);
        assert_eq!(window(&test, 0), (json!(tokens), json!("server")), "{path}");
    }
    let document = json!({"inputTokenLimit": 20_000});
    let server = answering("/v1/models/m", document, gemini::text("done"));
    let test = run("p", "wire = \"gemini\"\n", &server);
    assert_eq!(window(&test, 0), (json!(20_000), json!("server")));
}

#[test]
fn window_without_a_usable_answer_is_assumed_and_a_configured_one_is_not_asked_for() {
    for document in [
        json!({"default_generation_settings": {"n_ctx": 0}}),
        json!({"default_generation_settings": {"n_ctx": "much"}}),
        json!({"error": "unexpected endpoint"}),
        json!([]),
    ] {
        let server = answering("/props", document, server::sse_text("done"));
        let test = run("p", "", &server);
        assert_eq!(window(&test, 0), (json!(128_000), json!("assumed")));
    }
    let document = json!({"default_generation_settings": {"n_ctx": 8192}});
    let server = answering("/props", document, server::sse_text("done"));
    let test = run("p", "[models.\"p/m\"]\ncontext_window = 50000\n", &server);
    assert_eq!(window(&test, 0), (json!(50_000), json!("configured")));
    assert!(server.finish().iter().all(|request| request.method == "POST"));
}

/// Not on this machine, as far as the agent knows: the server is its proxy.
fn hosted(model: &str) -> (Vec<Request>, Test) {
    let server = Server::asked(|request, _| match request.method.as_str() {
        "GET" if request.path.ends_with("/models") => {
            server::json(200, &json!({"data": [{"id": "m", "context_length": 64_000}]}))
        }
        "GET" => server::json(404, &json!({})),
        _ if request.body.contains("\"role\":\"tool\"") => server::sse_text("done"),
        _ => server::sse_calls(&[("Read", json!({"path": "a.txt"}))]),
    });
    let (provider, _) = model.split_once('/').unwrap();
    let config = format!(
        "[providers.{provider}]\nbase_url = \"http://model.example/v1\"\nproxy = \"{}\"\n",
        server.url().trim_end_matches("/v1")
    );
    let test = Test::new().user_config(&config).file("a.txt", "one\n");
    test.agent(&["run", "read it", "--model", model, "--no-memory"]).expect_code(0);
    (server.finish(), test)
}

#[test]
fn hosted_server_is_asked_after_the_first_answer_and_not_about_a_known_model() {
    let (requests, test) = hosted("p/m");
    assert_eq!(requests[0].method, "POST");
    assert_eq!(window(&test, 0), (json!(128_000), json!("assumed")));
    assert_eq!(window(&test, 1), (json!(64_000), json!("server")));
    let (requests, test) = hosted("openai/gpt-5.5");
    assert!(requests.iter().all(|request| request.method == "POST"));
    assert_eq!(window(&test, 1), (json!(272_000), json!("known")));
}

#[test]
fn window_of_an_overflow_error_outranks_the_answer_also_after_clear() {
    let too_long = "This model's maximum context length is 20000 tokens. Shorten the messages.";
    let server = Server::asked(move |request, _| match request.path.as_str() {
        "/props" => server::json(200, &json!({"default_generation_settings": {"n_ctx": 50_000}})),
        _ if request.method == "GET" => server::json(404, &json!({})),
        _ if request.body.contains("once more") => server::sse_text("after the error"),
        _ => server::json(
            400,
            &json!({"error": {"message": too_long, "code": "context_length_exceeded"}}),
        ),
    });
    let config = format!("model = \"p/m\"\n[providers.p]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config);
    let mut pty = Pty::start(&test, &[], 24, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("hello");
    pty.wait("the end of the turn", |_| test.has_event("turn.finished"));
    assert_eq!(window(&test, 0), (json!(50_000), json!("server")));
    pty.wait_for("/help");
    pty.say("/clear");
    pty.wait_for("session   a new one");
    pty.wait_for("/help");
    pty.say("once more");
    pty.wait_for("after the error");
    pty.wait_for("/help");
    assert_eq!(window(&test, 0), (json!(20_000), json!("error")));
    pty.say("/context");
    pty.wait_for("of 20,000 tokens (an error of the server)");
}

#[test]
fn request_that_the_server_cut_off_without_a_word_is_named() {
    let chunks = [
        json!({"choices": [{"index": 0, "delta": {"content": "what first message?"}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4096, "completion_tokens": 5}}),
    ];
    let [text, end] = chunks.map(|chunk| chunk.to_string());
    let server = Server::playing([server::sse_raw(&[&text, &end, "[DONE]"])]);
    let config = format!("[providers.p]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config);
    let message = "remember all of this text ".repeat(2500);
    test.agent(&["run", &message, "--model", "p/m", "--no-memory"])
        .expect_code(0)
        .expect_stderr("the server of p/m counted 4,096 tokens in a request of about ");
}

#[test]
fn list_of_models_says_where_the_window_comes_from() {
    let list = json!({"data": [{"id": "large", "max_model_len": 8192}, {"id": "small"}]});
    let server = answering("/v1/models", list, server::sse_text("unused"));
    let config = format!("[providers.ollama]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config);
    let done = test.agent(&["models"]).expect_code(0);
    let line = |id: &str| done.stdout.lines().find(|line| line.contains(id)).unwrap();
    assert!(line("ollama/large").contains("window 8,192 tokens (the server)"), "{}", done.stdout);
    assert!(line("ollama/small").contains("window 32,768 tokens (assumed)"), "{}", done.stdout);
    let json = test.agent(&["models", "--json"]).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let mut models = json["models"].as_array().unwrap().iter();
    let large = models.find(|model| model["id"] == "ollama/large").unwrap();
    assert_eq!(
        (&large["context_window"], &large["context_window_source"]),
        (&json!(8192), &json!("server"))
    );
    let doctor = test.agent(&["doctor", "--model", "ollama/large"]);
    assert!(doctor.stdout.contains("✓ facts      window 8,192 tokens (the server)"), "{doctor:?}");
}
