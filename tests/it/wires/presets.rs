//! Providers, dialects and efforts: what the built binary sends to servers in the format of each provider.

use agent_protocol::provider::WireFormat;
use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::{self, Reply, Server};
use crate::wires::{anthropic_messages, gemini, openai_responses};

/// A project with a key for every provider, whose provider `name` is this server.
fn project(name: &str, server: &Server) -> Test {
    let config = format!("[providers.{name}]\nbase_url = \"{}\"\n", server.url());
    Test::new().user_config(&config).file("a.txt", "one\n")
}

/// A stream with these deltas and this end.
fn stream(deltas: &[Value], finish_reason: &str) -> Reply {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}).to_string())
        .collect();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2}});
    chunks.extend([end.to_string(), "[DONE]".to_owned()]);
    server::sse_raw(&chunks.iter().map(String::as_str).collect::<Vec<_>>())
}

fn read_call() -> Value {
    json!({"tool_calls": [{"index": 0, "id": "c0", "type": "function",
        "function": {"name": "Read", "arguments": "{\"path\":\"a.txt\"}"}}]})
}

/// The body of the only request of a task with this model and these options.
fn sent(name: &str, options: &[&str]) -> Value {
    let server = Server::playing([server::sse_text("done")]);
    let test = project(name, &server);
    let model = format!("{name}/m");
    let mut args = vec!["run", "say done", "--model", &model, "--no-memory"];
    args.extend(options);
    test.agent(&args).expect_code(0).expect_stdout("done\n");
    server.finish()[0].json()
}

#[test]
fn every_provider_completes_a_turn_with_a_tool_call() {
    for preset in code_agent::config::presets() {
        let call = [("Read", json!({"path": "a.txt"}))];
        let said = "it says one";
        let server = Server::playing(match preset.wire {
            WireFormat::OpenaiChat => [server::sse_calls(&call), server::sse_text(said)],
            WireFormat::OpenaiResponses => {
                [openai_responses::calls(&call), openai_responses::text(said)]
            }
            WireFormat::AnthropicMessages => {
                [anthropic_messages::calls(&call), anthropic_messages::text(said)]
            }
            WireFormat::Gemini => [gemini::calls(&call), gemini::text(said)],
        });
        let test = project(&preset.name, &server);
        let wire = format!("providers.{}.wire={}", preset.name, preset.wire.as_str());
        let model = format!("{}/m", preset.name);
        let run = ["run", "read a.txt", "--model", &model, "--set", &wire, "--effort", "high"];
        test.agent(&run).expect_code(0).expect_stdout("it says one\n");
        let second = server.finish()[1].json();
        assert!(second.to_string().contains("1 | one"), "{}: {second}", preset.name);
        match preset.wire {
            WireFormat::OpenaiChat => {}
            WireFormat::OpenaiResponses => {
                assert_eq!(second["reasoning"], json!({"effort": "high"}));
            }
            WireFormat::AnthropicMessages => assert_eq!(second["output_config"]["effort"], "high"),
            WireFormat::Gemini => {
                let thinking = &second["generationConfig"]["thinkingConfig"];
                assert_eq!(thinking["thinkingLevel"], "high", "{second}");
            }
        }
    }
}

#[test]
fn effort_is_sent_as_each_provider_takes_it() {
    let high = |name: &str| sent(name, &["--effort", "high"]);
    assert_eq!(high("vllm")["reasoning_effort"], "high");
    assert_eq!(high("groq")["reasoning_effort"], "high");
    assert_eq!(high("openrouter")["reasoning"], json!({"effort": "high"}));
    assert_eq!(high("deepseek")["reasoning_effort"], "high");
    let none = |name: &str| sent(name, &["--set", "effort=none"]);
    for name in ["deepseek", "zhipu", "moonshot"] {
        let sent = none(name);
        assert_eq!(sent["thinking"], json!({"type": "disabled"}), "{name}: {sent}");
        assert_eq!(sent["reasoning_effort"], Value::Null, "{name}: {sent}");
    }
    assert_eq!(none("qwen")["enable_thinking"], false);
    assert_eq!(none("ollama")["reasoning_effort"], "none");
    let usual = sent("deepseek", &[]);
    assert!(usual["reasoning_effort"].is_null() && usual["thinking"].is_null(), "{usual}");
}

#[test]
fn effort_and_temperature_of_a_model_outrank_the_global_ones() {
    let set = ["--set", "effort=low", "--set", "temperature=0.5"];
    let global = sent("vllm", &set);
    assert_eq!((&global["reasoning_effort"], &global["temperature"]), (&json!("low"), &json!(0.5)));
    let own = "models.\"vllm/m\".effort=max";
    let cooler = "models.\"vllm/m\".temperature=0";
    let model = sent("vllm", &[&set[..], &["--set", own, "--set", cooler]].concat());
    assert_eq!((&model["reasoning_effort"], &model["temperature"]), (&json!("max"), &json!(0.0)));
    let option = sent("vllm", &["--set", own, "--effort", "medium"]);
    assert_eq!(option["reasoning_effort"], "medium");

    let server = Server::playing([server::sse_text("done")]);
    let test = project("vllm", &server);
    test.agent(&["run", "x", "--model", "vllm/m", "--effort", "high"]).expect_code(0);
    assert_eq!(test.events_of("model.requested")[0]["effort"], "high");
    let wrong = test.agent(&["run", "x", "--model", "vllm/m", "--set", "effort=hihg"]);
    wrong.expect_code(2).expect_stderr("unknown variant `hihg`");
    let wrong = test.agent(&["run", "x", "--model", "vllm/m", "--set", "temperature=3"]);
    wrong.expect_code(2).expect_stderr("temperature: must be from 0 to 2");
}

#[test]
fn settings_that_a_server_does_not_take_are_reported_and_not_sent() {
    let server = Server::playing([server::sse_text("done")]);
    let test = project("lmstudio", &server);
    let done = test.agent(&["run", "x", "--model", "lmstudio/m", "--effort", "high"]);
    done.expect_code(0).expect_stderr(
        "lmstudio/m: effort high is not sent: lmstudio has no value for it with the wire format openai-chat",
    );
    assert!(server.finish()[0].json()["reasoning_effort"].is_null());

    let server = Server::playing([server::sse_text("done"), server::sse_text("done")]);
    let test = project("moonshot", &server);
    let run = ["run", "x", "--model", "moonshot/m", "--set", "temperature=0.2"];
    let done = test.agent(&run).expect_code(0);
    done.expect_stderr(
        "moonshot/m: temperature 0.2 is not sent: moonshot accepts only its default",
    );
    let own = ["--set", "providers.moonshot.dialect.temperature=true"];
    let done = test.agent(&[&run[..], &own].concat()).expect_code(0);
    assert!(!done.stderr.contains("not sent"), "{}", done.stderr);
    let requests = server.finish();
    assert!(requests[0].json()["temperature"].is_null());
    assert_eq!(requests[1].json()["temperature"], 0.2);
}

#[test]
fn effort_without_a_value_in_the_wire_format_is_reported() {
    let server = Server::playing([gemini::text("done")]);
    let test = project("gemini", &server);
    let done = test.agent(&["run", "x", "--model", "gemini/m", "--effort", "max"]).expect_code(0);
    done.expect_stderr("gemini/m: effort max is not sent: gemini has no value for it");
    let thinking = server.finish()[0].json()["generationConfig"]["thinkingConfig"].clone();
    assert!(thinking["thinkingLevel"].is_null(), "{thinking}");
}

#[test]
fn dialects_of_presets_are_applied() {
    let limit = |name: &str| {
        let limit = format!("models.\"{name}/m\".max_output_tokens=99");
        sent(name, &["--set", &limit])
    };
    let usual = limit("vllm");
    assert_eq!(usual["max_tokens"], 99);
    assert_eq!(usual["stream_options"], json!({"include_usage": true}));
    assert_eq!(limit("moonshot")["max_completion_tokens"], 99);
    assert!(limit("mistral")["stream_options"].is_null());
    assert!(limit("zhipu")["stream_options"].is_null());
    // At another address `openai` is any server.
    assert_eq!(limit("openai")["max_tokens"], 99);
    // Prefixes of LiteLLM.
    assert_eq!(limit("bedrock")["model"], "bedrock/m");
    assert_eq!(limit("vertex")["model"], "vertex_ai/m");
}

#[test]
fn mistral_gets_an_answer_between_results_and_a_message_of_the_user() {
    let reply =
        |text: &str| server::json(200, &json!({"choices": [{"message": {"content": text}}]}));
    let calls = json!({"content": null, "tool_calls": read_call()["tool_calls"]});
    let server = Server::playing([
        server::json(200, &json!({"choices": [{"message": calls}]})),
        server::json(401, &json!({"message": "Unauthorized"})),
        reply("done"),
    ]);
    let url = format!("providers.mistral.base_url={}", server.url());
    let args = ["--model", "mistral/m", "--set", &url];
    let test = Test::new().env("MISTRAL_API_KEY", "k").file("a.txt", "one\n");
    test.agent(&[&["run", "read a.txt"], &args[..]].concat()).expect_code(69);
    test.agent(&[&["run", "-c", "again"], &args[..]].concat()).expect_code(0);
    let last = server.finish().pop().unwrap().json();
    let roles = last["messages"].as_array().unwrap().iter();
    let roles = roles.map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(last["messages"][4]["content"], "Done.");
    assert_eq!(last["messages"][3]["tool_call_id"].as_str().map(str::len), Some(9));
}

#[test]
fn user_can_set_every_field_of_a_dialect() {
    let message = json!({"content": null, "tool_calls": read_call()["tool_calls"]});
    let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    let server = Server::playing([
        server::json(200, &whole),
        server::json(200, &json!({"choices": [{"message": {"content": "done"}}]})),
    ]);
    let config = format!(
        "model = \"mine/m\"\n[providers.mine]\nbase_url = \"{}\"\nwire = \"openai-chat\"\n\
         [providers.mine.dialect]\ninstructions = \"developer\"\nstrict_schemas = true\n\
         result_parts = true\nparallel_calls = false\nstream_with_tools = false\n",
        server.url().trim_end_matches("/v1")
    );
    let test = Test::new().user_config(&config).file("a.txt", "one\n");
    test.agent(&["run", "read a.txt"]).expect_code(0).expect_stdout("done\n");
    let requests = server.finish();
    let [first, second] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(first.path, "/v1/chat/completions", "the version is added");
    let body = first.json();
    assert_eq!(
        (&body["stream"], &body["parallel_tool_calls"], &body["messages"][0]["role"]),
        (&json!(false), &json!(false), &json!("developer"))
    );
    let tools = body["tools"].as_array().unwrap();
    let read = tools.iter().find(|tool| tool["function"]["name"] == "Read").unwrap();
    assert_eq!(read["function"]["strict"], true);
    let parameters = &read["function"]["parameters"];
    assert_eq!(parameters["required"].as_array().map(Vec::len), Some(3), "{parameters}");
    assert_eq!(parameters["properties"]["limit"]["anyOf"][1]["type"], "null");
    let result = second.json()["messages"][3].clone();
    assert!(result["content"][0]["text"].as_str().unwrap().contains("one"), "{result}");
}

#[test]
fn null_stands_for_an_optional_argument_that_is_left_out() {
    let test = Test::new().file("a.txt", "one\n");
    let read = test.call("Read", &json!({"path": "a.txt", "start_line": null, "limit": null}));
    assert_eq!(read["status"], "success", "{read}");
    let wrong = test.call("Read", &json!({"path": null}));
    assert_eq!(wrong["status"], "error", "{wrong}");
}

#[test]
fn reasoning_is_returned_in_the_tool_loop_and_to_no_other_model() {
    let thoughtful = Server::playing([
        stream(
            &[
                json!({"role": "assistant", "reasoning_content": "I should "}),
                json!({"reasoning_content": "read it."}),
                read_call(),
            ],
            "tool_calls",
        ),
        stream(&[json!({"reasoning_content": "Done."}), json!({"content": "it says one"})], "stop"),
        server::sse_text("again"),
    ]);
    let other = Server::playing([
        server::sse_calls(&[("LS", json!({"path": "."}))]),
        server::sse_text("hello"),
    ]);
    let test = project("deepseek", &thoughtful);
    let ask = |prompt: &str, more: &[&str]| {
        test.agent(&[&["run", prompt][..], more].concat()).expect_code(0);
    };
    ask("read a.txt", &["--model", "deepseek/m"]);
    let url = other.url();
    ask("and now", &["-c", "--model", "vllm/m", "--base-url", &url]);
    ask("once more", &["-c", "--model", "deepseek/m"]);

    let answers = |body: &Value| -> Vec<Value> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] == "assistant").cloned().collect()
    };
    let requests = thoughtful.finish();
    let second = answers(&requests[1].json());
    assert_eq!(second[0]["reasoning_content"], "I should read it.");
    assert_eq!(second[0]["tool_calls"][0]["function"]["name"], "Read");
    // The other model gets none of it.
    let sent = answers(&other.finish()[0].json());
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|answer| answer["reasoning_content"].is_null()), "{sent:?}");
    // Back at the first model: its own reasoning, and the field for the answers of the other one.
    let last = answers(&requests[2].json());
    let back: Vec<&str> = last.iter().map(|it| it["reasoning_content"].as_str().unwrap()).collect();
    assert_eq!(back, ["I should read it.", "Done.", "", ""]);
}

#[test]
fn reasoning_items_of_openrouter_are_returned_unchanged() {
    let item =
        |text: &str| json!([{"type": "reasoning.text", "index": 0, "format": "f", "text": text}]);
    let signature = json!([{"type": "reasoning.text", "index": 0, "signature": "s1"}]);
    let server = Server::playing([
        stream(
            &[
                json!({"reasoning": "I ", "reasoning_details": item("I ")}),
                json!({"reasoning": "look", "reasoning_details": item("look")}),
                json!({"reasoning_details": signature}),
                read_call(),
            ],
            "tool_calls",
        ),
        server::sse_text("done"),
    ]);
    let test = project("openrouter", &server);
    test.agent(&["run", "read it", "--model", "openrouter/a/m"]).expect_code(0);
    let second = server.finish()[1].json();
    assert_eq!(second["model"], "a/m");
    let expected = json!([{"type": "reasoning.text", "index": 0, "format": "f", "text": "I look", "signature": "s1"}]);
    assert_eq!(second["messages"][2]["reasoning_details"], expected);
}

#[test]
fn models_lists_what_can_be_used_now() {
    let list = json!({"data": [{"id": "qwen3-coder"}, {"id": "tiny"}]});
    let server = Server::with(move |_, _| server::json(200, &list));
    let config = format!(
        "[providers.ollama]\nbase_url = \"{}\"\n[models.\"ollama/tiny\"]\ncontext_window = 4096\n",
        server.url()
    );
    let test = Test::new().user_config(&config).env("DEEPSEEK_API_KEY", "k");
    let done = test.agent(&["models"]).expect_code(0);
    let line =
        |id: &str| done.stdout.lines().find(|line| line.split_whitespace().any(|it| it == id));
    let default = line("deepseek/deepseek-flash").unwrap();
    assert!(default.starts_with("* ") && default.ends_with("DEEPSEEK_API_KEY"), "{default}");
    assert!(default.contains("window 1,000,000 tokens (known of the model) · 0.3 in"), "{default}");
    assert!(
        line("ollama/tiny").unwrap().contains("window 4,096 tokens (configured)"),
        "{}",
        done.stdout
    );
    assert!(line("ollama/qwen3-coder").unwrap().contains(&server.url()), "{}", done.stdout);
    assert!(line("openai/gpt-5.5").is_none(), "{}", done.stdout);

    let json = test.agent(&["models", "--json"]).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let models = json["models"].as_array().unwrap();
    let tiny = models.iter().find(|model| model["id"] == "ollama/tiny").unwrap();
    assert_eq!(tiny["context_window"], 4096);
    assert_eq!(models.iter().filter(|model| model["chosen"] == true).count(), 1);

    let without = test.agent(&["models", "--set", "model=openai/gpt-5.5"]).expect_code(0);
    without.expect_stderr("no key for openai/gpt-5.5: set OPENAI_API_KEY");
}

#[test]
fn models_of_a_proxy_are_listed_by_the_names_to_use() {
    let list = json!({"data": [{"id": "gpt-5.5"}, {"id": "bedrock/m"}]});
    let server = Server::with(move |request, _| match request.method.as_str() {
        "GET" => server::json(200, &list),
        _ => server::sse_text("done"),
    });
    let test = project("bedrock", &server);
    let done = test.agent(&["models"]).expect_code(0);
    let ids =
        done.stdout.lines().filter_map(|line| line.split_whitespace().find(|it| it.contains('/')));
    let ids: Vec<&str> = ids.filter(|id| id.starts_with("bedrock/")).collect();
    assert_eq!(ids, ["bedrock/m"], "{}", done.stdout);
    test.agent(&["run", "x", "--no-memory"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(server.finish().last().unwrap().json()["model"], "bedrock/m");
}

#[test]
fn server_of_the_user_has_only_the_models_that_it_lists() {
    let list = json!({"data": [{"id": "mine"}]});
    let server = Server::with(move |_, _| server::json(200, &list));
    let test = project("openai", &server).env("OPENAI_API_KEY", "k");
    let done = test.agent(&["models", "--set", "model=openai/mine"]).expect_code(0);
    assert!(done.stdout.contains("* openai/mine "), "{}", done.stdout);
    assert!(!done.stdout.contains("openai/gpt"), "{}", done.stdout);
}

#[test]
fn models_names_configured_servers_without_a_list() {
    let unreadable = Server::with(|_, _| server::json(200, &json!({"models": "none"})));
    let config = format!(
        "[providers.odd]\nbase_url = \"{}\"\n[providers.gone]\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         [models.\"gone/m\"]\n",
        unreadable.url()
    );
    let test = Test::new().user_config(&config).env("DEEPSEEK_API_KEY", "k");
    let done = test.agent(&["models"]).expect_code(0);
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.stderr);
    for (line, name) in lines.iter().zip(["gone", "odd"]) {
        let begin = format!("agent: {name}: its models are not known: ");
        assert!(line.starts_with(&begin), "{line}");
    }
    assert!(!done.stdout.contains("gone/m"), "{}", done.stdout);
}

#[test]
fn auto_takes_the_first_provider_with_a_key() {
    let server = Server::playing([server::sse_text("done")]);
    let test = project("moonshot", &server).env("KIMI_API_KEY", "k1").env("GROQ_API_KEY", "k2");
    test.agent(&["run", "x"]).expect_code(0).expect_stdout("done\n");
    let requests = server.finish();
    assert_eq!(requests[0].json()["model"], "kimi-k3.1-pro");
    assert_eq!(requests[0].header("authorization"), Some("Bearer k1"));
}

#[test]
fn doctor_tries_a_server_with_small_requests() {
    let list = json!({"data": [{"id": "m"}]});
    let answering = |reply: Reply| {
        let list = list.clone();
        let server = Server::with(move |request, _| match request.method.as_str() {
            "GET" => server::json(200, &list),
            _ => reply.clone(),
        });
        let test = project("vllm", &server);
        let done = test.agent(&["doctor", "--set", "model=vllm/m"]);
        assert!(server.finish().len() <= 3);
        done
    };
    let works = answering(server::sse_calls(&[("Ready", json!({}))])).expect_code(0);
    let said = "✓ server     lists 1 models, with this one; streams; calls tools (tried with 2 small requests)";
    assert!(works.stdout.contains(said), "{}", works.stdout);
    let calls = "{\"name\": \"Ready\", \"arguments\": {}}";
    for text in [calls.to_owned(), format!("[TOOL_CALLS][{calls}]")] {
        let works = answering(server::sse_text(&text)).expect_code(0);
        assert!(works.stdout.contains(said), "{}", works.stdout);
    }
    let message = json!({"choices": [{"message": {"content": "Ready."}, "finish_reason": "stop"}]});
    let plain = answering(server::json(200, &message)).expect_code(0);
    let said = "! server     lists 1 models, with this one; does not stream; did not call a tool";
    assert!(plain.stdout.contains(said), "{}", plain.stdout);
    let refused = answering(server::json(401, &json!({"error": {"message": "wrong key"}})));
    assert!(refused.expect_code(1).stdout.contains("wrong key"));
}

#[test]
fn doctor_tests_the_server_that_auto_finds_and_names_what_helps_without_tools() {
    let doctor = |with_tools: Reply, tokens: u64| {
        let server = Server::with(move |request, _| match request.method.as_str() {
            "GET" => server::json(200, &json!({"data": [{"id": "m"}]})),
            _ if request.json().get("tools").is_some() => with_tools.clone(),
            _ => counted(tokens),
        });
        project("local", &server).agent(&["doctor"])
    };
    let advice = "set providers.local.dialect.text_calls = \"described\"";
    let dropped = doctor(counted(40), 40).expect_code(0).stdout;
    assert!(dropped.contains("✓ model      local/m at http://127.0.0.1:"), "{dropped}");
    let why = format!(
        "! server     lists 1 models, with this one; streams; did not call a tool (tried with 3 small requests); \
         it drops the tools: it counts 40 tokens with and without one; {advice}"
    );
    assert!(dropped.contains(&why), "{dropped}");
    let unwilling = doctor(counted(90), 40).expect_code(0).stdout;
    assert!(unwilling.contains(&format!("; if it never does, {advice}")), "{unwilling}");
    let message = "registry.ollama.ai/library/m does not support tools";
    let refusal = server::json(400, &json!({"error": {"message": message}}));
    let refused = doctor(refusal, 40).expect_code(1).stdout;
    assert!(refused.contains(message), "{refused}");
    assert!(refused.contains(&format!("; without tools it answers: {advice}")), "{refused}");
}

/// A text, for a request of this many tokens.
fn counted(tokens: u64) -> Reply {
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Ready."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 2}});
    server::sse_raw(&[&chunk.to_string(), "[DONE]"])
}
