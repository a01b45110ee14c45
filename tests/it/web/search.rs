//! WebSearch: the services, their results, and that it exists only with one of them.

use serde_json::{Value, json};

use super::{code, content, text};
use crate::sessions::replay::Replay;
use crate::support::Test;
use crate::support::server::{self, Server};

fn configured(service: &str, server: &Server) -> Test {
    let address = server.url().trim_end_matches("/v1").to_owned();
    let config = format!("[web]\nsearch = \"{service}\"\naddress = \"{address}/api\"\n");
    Test::new().user_config(&config)
}

fn search(test: &Test, input: &Value) -> Value {
    let input = input.to_string();
    let done = test.agent(&["tool", "call", "WebSearch", &input, "--allow", "WebSearch"]);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

fn results(excerpt: &str) -> Value {
    let result = |n: u32, host: &str| {
        json!({"title": format!("Title {n}"), "url": format!("https://{host}/{n}"),
               excerpt: format!("What page {n}\nsays. {}", "More words. ".repeat(60))})
    };
    let mut all: Vec<Value> = (1..=14).map(|n| result(n, "docs.example")).collect();
    all.insert(1, result(99, "spam.example"));
    all.insert(2, json!({"title": "no page", "url": "javascript:alert(1)"}));
    all.into()
}

#[test]
fn each_service_is_asked_in_its_own_way() {
    for (service, excerpt, key, header, value) in [
        ("searxng", "content", "", "", ""),
        ("brave", "description", "BRAVE_API_KEY", "x-subscription-token", "k-123456"),
        ("tavily", "content", "TAVILY_API_KEY", "authorization", "Bearer k-123456"),
        ("exa", "text", "EXA_API_KEY", "x-api-key", "k-123456"),
    ] {
        let list = results(excerpt);
        let answer = match service {
            "brave" => json!({"web": {"results": list}}),
            _ => json!({"results": list}),
        };
        let server = Server::with(move |_, _| server::json(200, &answer));
        let test = configured(service, &server);
        let test = if key.is_empty() { test } else { test.env(key, "k-123456") };
        let input = json!({"query": "what is new", "allowed_domains": ["docs.example"]});
        let envelope = search(&test, &input);
        assert_eq!(text(&envelope), "10 results of a search for \"what is new\" in the web.");
        let shown = content(&envelope);
        assert!(
            shown.starts_with("1. Title 1\n   https://docs.example/1\n   What page 1 says. More"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 30, "{shown}");
        assert!(shown.len() < 4000 && !shown.contains("spam"), "{shown}");
        let request = &server.finish()[0];
        let fields = format!("{}{}", request.path, request.body);
        assert!(request.path.starts_with("/api/"), "{fields}");
        assert!(fields.contains("what is new") || fields.contains("what+is+new"), "{fields}");
        let is_listed = fields.contains("[\"docs.example\"]");
        assert!(is_listed || fields.contains("site%3Adocs.example"), "{fields}");
        if !header.is_empty() {
            assert_eq!(request.header(header), Some(value), "{service}");
        }
    }
}

#[test]
fn tool_exists_only_with_a_service_and_needs_approval() {
    let script = "call: WebSearch {\"query\": \"x\"}\n---\ntext: done";
    let codes = |test: &Test| -> Vec<String> {
        test.run(&["find it"]);
        let finished = test.events_of("tool.finished");
        finished.iter().map(|event| code(&event["envelope"]).to_owned()).collect()
    };
    assert_eq!(codes(&Test::new().script(script)), ["UNKNOWN_TOOL"]);
    let server = Server::playing([]);
    assert_eq!(codes(&configured("searxng", &server).script(script)), ["APPROVAL_REQUIRED"]);
    assert!(server.finish().is_empty());
    let wrong = Test::new().user_config("[web]\nsearch = \"askme\"\n").script(script);
    wrong.run(&["x"]).expect_code(2).expect_stderr("searxng, brave, tavily, exa");
    let homeless = Test::new().user_config("[web]\nsearch = \"searxng\"\n").script(script);
    homeless.run(&["x"]).expect_code(2).expect_stderr("searxng needs an address");
}

#[test]
fn failures_name_the_service() {
    let server = Server::with(|_, number| match number {
        0 => server::html(200),
        1 => server::json(200, &json!({"answer": 42})),
        _ => server::json(429, &json!({})),
    });
    let test = configured("searxng", &server);
    for part in ["no JSON", "no list of results", "429"] {
        let envelope = search(&test, &json!({"query": "x"}));
        assert_eq!(code(&envelope), "EXECUTION_ERROR", "{envelope}");
        assert!(
            text(&envelope).contains(part) && text(&envelope).contains("/api/search"),
            "{envelope}"
        );
    }
    let without_key = search(&configured("exa", &server), &json!({"query": "x"}));
    assert!(text(&without_key).contains("EXA_API_KEY"), "{without_key}");
    let secret = test.env("SERVICE_TOKEN", "q7Rt-zz81-Lm0p-Xw");
    let refused = search(&secret, &json!({"query": "what is q7Rt-zz81-Lm0p-Xw"}));
    assert_eq!(code(&refused), "ACCESS_DENIED");
    assert_eq!(server.finish().len(), 3);
}

#[test]
fn run_searches_and_a_replay_takes_the_results_from_the_record() {
    let server = Server::with(|_, _| server::json(200, &json!({"results": results("content")})));
    let script = "call: WebSearch {\"query\": \"x\"}\n---\nexpect: 10. Title\ntext: done";
    let test = configured("searxng", &server).script(script);
    test.run(&["find it", "--allow", "WebSearch"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(test.events_of("tool.started")[0]["effect"]["kind"], "web_search");
    Replay::of(&test).expect_equal_but(&["WebSearch x"]);
    assert_eq!(server.finish().len(), 1);
}
