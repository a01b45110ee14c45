//! WebSearch by the provider of the model: the requests and recorded answers of three wire formats, costs, replays.

use serde_json::{Value, json};

use super::{code, content, text};
use crate::sessions::replay::Replay;
use crate::support::server::{Reply, Request, Server, sse_raw};
use crate::support::{Done, Test};
use crate::wires::{anthropic_messages, gemini, openai_responses};

const REDIRECT: &str = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AUZIYQ";

/// How a provider is reached, how it answers, and what the cost of its search is.
struct Provider {
    model: &'static str,
    wire: &'static str,
    calls: fn(&[(&str, Value)]) -> Reply,
    text: fn(&str) -> Reply,
    found: fn() -> Reply,
    /// Without the tokens.
    price: f64,
}

const PROVIDERS: [Provider; 3] = [
    Provider {
        model: "anthropic/claude-sonnet-5-5",
        wire: "anthropic-messages",
        calls: anthropic_messages::calls,
        text: anthropic_messages::text,
        found: found_by_anthropic,
        price: 0.01,
    },
    Provider {
        model: "openai/gpt-5.5",
        wire: "openai-responses",
        calls: openai_responses::calls,
        text: openai_responses::text,
        found: found_by_openai,
        price: 0.01,
    },
    Provider {
        model: "gemini/gemini-3.8-flash",
        wire: "gemini",
        calls: gemini::calls,
        text: gemini::text,
        found: found_by_gemini,
        price: 0.028,
    },
];

fn stream(events: &[Value]) -> Reply {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    sse_raw(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn found_by_anthropic() -> Reply {
    let result = |n: u32, host: &str| {
        json!({"type": "web_search_result", "title": format!("Title {n}"), "page_age": "May 2, 2026",
               "url": format!("https://{host}/{n}"), "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1"})
    };
    let mut results: Vec<Value> = (1..=12).map(|n| result(n, "docs.example")).collect();
    results.insert(0, result(99, "spam.example"));
    let citation = json!({"type": "web_search_result_location", "url": "https://docs.example/2",
        "title": "Title 2", "encrypted_index": "Eo8BCioIAhgBIiQ", "cited_text": "Version 2 is faster."});
    let block = |index: u32, block: &Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u32, delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index: u32| json!({"type": "content_block_stop", "index": index});
    stream(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
               "model": "m", "content": [], "stop_reason": null,
               "usage": {"input_tokens": 900, "output_tokens": 3, "server_tool_use": {"web_search_requests": 0}}}}),
        block(
            0,
            &json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        ),
        delta(
            0,
            &json!({"type": "input_json_delta", "partial_json": "{\"query\": \"what is new\"}"}),
        ),
        end(0),
        block(
            1,
            &json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": results}),
        ),
        end(1),
        block(2, &json!({"type": "text", "text": "", "citations": []})),
        delta(2, &json!({"type": "citations_delta", "citation": citation})),
        delta(2, &json!({"type": "text_delta", "text": "It became faster."})),
        end(2),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
               "usage": {"input_tokens": 1000, "output_tokens": 100, "server_tool_use": {"web_search_requests": 1}}}),
        json!({"type": "message_stop"}),
    ])
}

fn found_by_openai() -> Reply {
    let answer = "- Version 2 is faster. ([Title 2](https://docs.example/2?utm_source=openai))";
    let sources: Vec<Value> = std::iter::once("https://spam.example/99".to_owned())
        .chain((1..=12).map(|n| format!("https://docs.example/{n}")))
        .map(|url| json!({"type": "url", "url": url}))
        .collect();
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "what is new", "queries": ["what is new"], "sources": sources}});
    let citation = json!({"type": "url_citation", "url": "https://docs.example/2?utm_source=openai",
        "title": "Title 2", "start_index": 24, "end_index": 76});
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": answer, "annotations": [citation], "logprobs": []}]});
    stream(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "object": "response",
               "status": "in_progress", "error": null, "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "ws_1",
               "type": "web_search_call", "status": "in_progress", "action": {"type": "search"}}}),
        json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": search}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1,
               "content_index": 0, "delta": answer}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "object": "response",
               "status": "completed", "error": null, "incomplete_details": null, "output": [search, message],
               "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0},
                         "output_tokens": 100, "total_tokens": 1100}}}),
    ])
}

fn found_by_gemini() -> Reply {
    let chunk =
        |n: u32, domain: &str| json!({"web": {"uri": format!("{REDIRECT}{n}"), "title": domain}});
    let mut chunks: Vec<Value> = (1..=12).map(|n| chunk(n, "docs.example")).collect();
    chunks.insert(0, chunk(99, "spam.example"));
    let metadata = json!({"webSearchQueries": ["what is new", "news"], "groundingChunks": chunks,
        "searchEntryPoint": {"renderedContent": "<style>.container{}</style>"},
        "groundingSupports": [{"groundingChunkIndices": [2],
            "segment": {"startIndex": 0, "endIndex": 20, "text": "Version 2 is faster."}}]});
    stream(&[
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Version 2 is faster."}]},
               "index": 0}], "usageMetadata": {"promptTokenCount": 1000}}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0,
               "finishReason": "STOP", "groundingMetadata": metadata}],
               "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}}),
    ])
}

fn is_search(request: &Request) -> bool {
    let body = request.json();
    let tool = &body["tools"][0];
    tool["type"] == "web_search_20250305"
        || tool["type"] == "web_search"
        || tool["googleSearch"].is_object()
}

const WORDS: &str = "what is new";

/// A run in which the model searches once and says `done`, with these options.
fn run(provider: &'static Provider, options: &[&str]) -> (Test, Done, Vec<Request>) {
    let server = Server::with(move |request, _| {
        let input = json!({"query": WORDS, "allowed_domains": ["docs.example"]});
        if is_search(request) {
            (provider.found)()
        } else if request.body.contains("10 results") || request.body.contains("APPROVAL") {
            (provider.text)("done")
        } else {
            (provider.calls)(&[("WebSearch", input)])
        }
    });
    let name = provider.model.split('/').next().unwrap();
    let url = match name {
        "gemini" => server.url().replace("/v1", "/v1beta"),
        _ => server.url(),
    };
    let config = format!(
        "[providers.{name}]\nwire = \"{}\"\nbase_url = \"{url}\"\napi_key_env = \"SOME_KEY\"\n[learning]\nenabled = false\n",
        provider.wire
    );
    let test = Test::new().user_config(&config).env("SOME_KEY", "k-123456");
    let args = ["run", "--model", provider.model, "find it", "--output-format", "json"];
    let done = test.agent(&[&args, options].concat());
    (test, done, server.finish())
}

#[test]
fn provider_searches_in_a_request_of_its_own_that_is_paid_for() {
    for provider in &PROVIDERS {
        let (test, done, requests) = run(provider, &["--allow", "WebSearch"]);
        let place = format!("{}: {done:?}", provider.model);
        assert_eq!(done.code, Some(0), "{place}");
        let envelope = &test.events_of("tool.finished")[0]["envelope"];
        assert_eq!(
            text(envelope),
            "10 results of a search for \"what is new\" in the web.",
            "{place}"
        );
        let shown = content(envelope);
        // A page that the answer cites comes first.
        let (title, url) = match provider.wire {
            "gemini" => ("docs.example", format!("{REDIRECT}2")),
            _ => ("Title 2", "https://docs.example/2".to_owned()),
        };
        let first = shown.split("2. ").next().unwrap();
        assert!(first.starts_with(&format!("1. {title}\n   {url}\n   ")), "{shown}");
        assert!(shown.contains("Version 2 is faster."), "{shown}");
        assert!(shown.contains("\n10. ") && !shown.contains("\n11. "), "{shown}");
        assert!(!shown.contains("spam") && !shown.contains("99"), "{shown}");
        // One request in three; it contains the query, and nothing of the conversation.
        assert_eq!(
            requests.iter().map(is_search).collect::<Vec<_>>(),
            [false, true, false],
            "{place}"
        );
        let sent = requests[1].json();
        assert!(
            !requests[1].body.contains("find it") && requests[1].body.contains(WORDS),
            "{sent}"
        );
        match provider.wire {
            "anthropic-messages" => assert_eq!(
                sent["tools"],
                json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 1,
                        "allowed_domains": ["docs.example"]}])
            ),
            "openai-responses" => {
                let filters = json!({"allowed_domains": ["docs.example"]});
                assert_eq!(sent["tools"], json!([{"type": "web_search", "filters": filters}]));
                assert_eq!(sent["include"], json!(["web_search_call.action.sources"]));
                assert_eq!(sent["max_tool_calls"], 1);
            }
            _ => {
                assert_eq!(sent["tools"], json!([{"googleSearch": {}}]));
                assert!(requests[1].body.contains("what is new site:docs.example"), "{sent}");
            }
        }
        let answers = test.events_of("model.responded");
        let paid = answers.iter().find(|answer| answer["purpose"] == "search").unwrap();
        let of_tokens = |answer: &Value| {
            let usage = &answer["usage"];
            (usage["input_tokens"].as_f64().unwrap(), usage["output_tokens"].as_f64().unwrap())
        };
        assert_eq!(of_tokens(paid), (1000.0, 100.0), "{paid}");
        let (input, output) = match provider.wire {
            "anthropic-messages" => (2.0, 10.0),
            "openai-responses" => (5.0, 30.0),
            _ => (0.75, 3.75),
        };
        let expected = provider.price + (1000.0 * input + 100.0 * output) / 1e6;
        let cost = paid["cost_usd"].as_f64().unwrap();
        assert!((cost - expected).abs() < 1e-9, "{cost}, not {expected}");
        let all: f64 = answers.iter().map(|answer| answer["cost_usd"].as_f64().unwrap()).sum();
        let result: Value = serde_json::from_str(&done.stdout).unwrap();
        assert!((result["total_cost_usd"].as_f64().unwrap() - all).abs() < 1e-9, "{result}");
        Replay::of(&test).expect_equal_but(&["WebSearch what is new"]);
    }
}

#[test]
fn search_by_the_provider_needs_approval_and_a_model_that_is_known_to_have_one() {
    let (test, _, requests) = run(&PROVIDERS[0], &[]);
    assert_eq!(code(&test.events_of("tool.finished")[0]["envelope"]), "APPROVAL_REQUIRED");
    assert!(!requests.iter().any(is_search));
    let offers = |model: &str, options: &str| {
        let server = Server::with(|_, _| anthropic_messages::text("done"));
        let config = format!(
            "{options}\n[providers.anthropic]\nbase_url = \"{}\"\napi_key_env = \"SOME_KEY\"\n",
            server.url()
        );
        let test = Test::new().user_config(&config).env("SOME_KEY", "k-123456");
        test.agent(&["run", "--model", model, "x"]).expect_code(0);
        server.finish()[0].body.contains("\"WebSearch\"")
    };
    assert!(offers("anthropic/claude-haiku-4-5", ""));
    assert!(!offers("anthropic/claude-unknown", ""));
    assert!(offers(
        "anthropic/claude-unknown",
        "[models.\"anthropic/claude-unknown\"]\nprice_search = 10.0"
    ));
}

#[test]
fn failed_search_says_why() {
    static PROVIDER: Provider = Provider { found: failed, ..PROVIDERS[0] };
    fn failed() -> Reply {
        let error = json!({"type": "web_search_tool_result_error", "error_code": "unavailable"});
        stream(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block":
                   {"type": "web_search_tool_result", "tool_use_id": "s", "content": error}}),
        ])
    }
    let (test, ..) = run(&PROVIDER, &["--allow", "WebSearch", "--max-turns", "2"]);
    let envelope = &test.events_of("tool.finished")[0]["envelope"];
    assert_eq!(code(envelope), "EXECUTION_ERROR");
    assert!(text(envelope).contains("the search failed: unavailable"), "{envelope}");
}
