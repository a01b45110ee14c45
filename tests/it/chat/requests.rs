//! Requests that stall, fail or stream in the chat, and the answers that it shows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::{self, Chunk, Reply, Server};
use crate::support::{Pty, Test, wait_for};

const LONG: Duration = Duration::from_mins(1);

fn project(server: &Server, config: &str) -> Test {
    Test::new().user_config(&format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n{config}",
        server.url()
    ))
}

fn chat(test: &Test, args: &[&str]) -> Pty {
    let mut pty = Pty::start(test, args, 24, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("hello");
    pty
}

fn busy(delay_ms: &str) -> Reply {
    server::json(503, &json!({"error": "busy"})).header("retry-after-ms", delay_ms)
}

/// The beginning of a streamed answer, which then stalls.
fn beginning(delta: &serde_json::Value) -> Reply {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    server::sse_raw(&[&chunk.to_string()]).then(Chunk::Pause(LONG))
}

/// The number of seconds after this text on the screen.
fn seconds_after(screen: &str, text: &str) -> Option<u32> {
    let (_, rest) = screen.split_once(text)?;
    rest.split_once(" s")?.0.parse().ok()
}

#[test]
fn message_is_answered_once_with_open_todos_and_a_passed_check() {
    let todos = json!({"summary": "s", "todos": [{"content": "a thing", "status": "in_progress"}]});
    let script = format!("call: TodoWrite {todos}\n---\ntext: the only answer");
    for (args, says) in [(&["--check", "true"][..], true), (&[], false)] {
        let test = Test::new().script(&script);
        let mut pty = Pty::chat(&test, args);
        pty.wait_for("/help");
        pty.say("hello");
        pty.wait_for("Todos 0/1  s\n  ▸ a thing\n");
        pty.wait_for("/help");
        let all = pty.all();
        assert_eq!(all.matches("the only answer").count(), 1, "{all}");
        assert_eq!(all.contains("checks passed"), says, "{all}");
        assert!(!all.contains("verified"), "{all}");
        pty.say("/quit");
        pty.end();
        let requests = test.events_of("model.requested");
        assert_eq!(requests.iter().filter(|it| it["purpose"] == "main").count(), 2);
        assert!(!test.has_event("feedback"));
    }
}

#[test]
fn confirmation_of_a_verifier_is_not_a_passed_check() {
    let server = Server::with(|request, _| match request.json()["model"] == "v" {
        true => server::sse_text("{\"confirmed\": true}"),
        false if request.body.contains("tool_call_id") => server::sse_text("It is done."),
        false => server::sse_calls(&[("LS", json!({}))]),
    });
    let test = project(&server, "[verify]\nmodel = \"test/v\"\n");
    let pty = chat(&test, &[]);
    pty.wait_for("verifier: ");
    wait_for(|| test.has_event("turn.finished"));
    pty.wait_for("/help");
    assert_eq!(test.events_of("turn.finished")[0]["verified"], true);
    assert!(!pty.all().contains("checks passed"), "{}", pty.all());
}

#[test]
fn retry_counts_down_and_esc_stops_it() {
    let server = Server::with(|_, number| match number {
        0 => busy("50000"),
        _ => server::sse_text("here I am"),
    });
    let test = project(&server, "");
    let mut pty = chat(&test, &[]);
    // The reason is short; Ctrl-T has the server's message.
    pty.wait_for(" s · answered 503 · ");
    let first = seconds_after(&pty.screen(), "retry 1 in ").unwrap();
    assert!(first <= 50, "{}", pty.screen());
    pty.wait("fewer", |screen| seconds_after(screen, "retry 1 in ").is_some_and(|n| n < first));
    pty.wait_for("Esc stops");
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    pty.say("again");
    pty.wait_for("here I am");
}

/// What happened, what to do, the server's words in one line; then the todos and the totals. The address is in Ctrl-T.
#[test]
fn refused_key_is_said_plainly_and_before_the_todos() {
    let todos = json!({"summary": "s", "todos": [{"content": "a thing", "status": "in_progress"}]});
    let words = "Incorrect API key provided, see the page. ".repeat(500);
    let server = Server::with(move |_, number| match number {
        0 => server::sse_calls(&[("TodoWrite", todos.clone())]),
        _ => server::json(401, &json!({"error": {"message": words}})),
    });
    let test = project(&server, "api_key_env = \"MINE_KEY\"\n").env("MINE_KEY", "sk-something");
    let mut pty = chat(&test, &[]);
    pty.wait_for("Todos 0/1  s\n  ▸ a thing\n· ");
    pty.wait_for("/help");
    let all = pty.all();
    let title = "✗ the key was refused (401)\n  check the key from environment variable MINE_KEY\n  \"Incorrect API";
    let (_, error) = all.split_once(title).unwrap_or_else(|| panic!("{all}"));
    let (words, rest) = error.split_once('\n').unwrap();
    assert!(words.ends_with('…') && rest.starts_with("Todos 0/1"), "{all}");
    assert!(!all.contains("http://"), "{all}");
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("a/http://");
    pty.wait_for("/http://");
    pty.send("\r");
    pty.wait_for("in 1 place");
}

#[test]
fn chat_retries_more_often_than_a_run() {
    let server = Server::with(|_, number| match number {
        0..12 => busy("0"),
        _ => server::sse_text("here I am"),
    });
    let test = project(&server, "");
    let pty = chat(&test, &[]);
    pty.wait_for("here I am");
    // All of them are one line, without the address.
    let all = pty.all();
    assert_eq!(all.matches("· answered 503: 12 tries failed\n").count(), 1, "{all}");
    assert!(!all.contains("busy") && !all.contains("http://"), "{all}");

    let tries = |args: &[&str]| {
        let server = Server::with(|_, _| busy("0"));
        let test = project(&server, "");
        test.agent(&[&["run", "hello"], args].concat()).expect_code(75);
        server.finish().len()
    };
    assert_eq!(tries(&[]), 10);
    assert_eq!(tries(&["--set", "requests.max_tries=2"]), 2);
}

#[test]
fn request_settings_are_validated() {
    let error = |setting: &str, part: &str| {
        let test = Test::new().script("text: x");
        test.run(&["hello", "--set", setting]).expect_code(2).expect_one_line_of_stderr(part);
    };
    error("requests.max_tries=0", "requests.max_tries: must be at least 1");
    error("requests.idle_timeout=0s", "requests.idle_timeout: must be more than 0");
    error("requests.retry_for=soon", "requests.retry_for: \"soon\" is no");
    error("requests.retry=5m", "did you mean");
}

#[test]
fn time_limits_of_requests_are_configurable() {
    let server = Server::with(|_, number| match number {
        0 => Reply { body: vec![Chunk::Pause(LONG)], ..server::sse_raw(&[]) },
        1 => beginning(&json!({"content": "I beg"})),
        _ => server::sse_text("here I am"),
    });
    let test =
        project(&server, "[requests]\nfirst_data_timeout = \"200ms\"\nidle_timeout = \"300ms\"\n");
    test.agent(&["run", "hello"]).expect_code(0).expect_stdout("here I am\n");
    let errors = test.events_of("error");
    let messages: Vec<_> = errors.iter().map(|it| it["message"].as_str().unwrap()).collect();
    assert!(messages[0].contains("no data for 0.2 s"), "{messages:?}");
    assert!(messages[1].contains("no data for 0.3 s"), "{messages:?}");
}

#[test]
#[ignore = "slow"]
fn time_out_says_that_data_was_arriving_and_keeps_what_arrived() {
    let word = |n: u32| {
        let delta = json!({"content": format!("word {n}, ")});
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
    };
    let arriving = (1..2000).fold(server::sse_raw(&[&word(0)]), |reply, n| {
        let event = Chunk::Send(format!("data: {}\n\n", word(n)).into());
        reply.then(Chunk::Pause(Duration::from_millis(20))).then(event)
    });
    let server = Server::with(move |_, _| arriving.clone());
    let done = project(&server, "").agent(&["run", "hello", "--timeout", "5s"]);
    let done = done.expect_code(124).expect_stderr("the model's answer was still arriving");
    assert!(done.stderr.contains("Last model output: word 0, word 1"), "{}", done.stderr);
}

#[test]
fn server_that_falls_silent_in_its_answers_leaves_what_arrived() {
    let server = Server::with(|_, _| beginning(&json!({"content": "I beg"})));
    let test = project(&server, "[requests]\nidle_timeout = \"200ms\"\nmax_tries = 2\n");
    let done = test.agent(&["run", "hello"]).expect_code(75);
    let done = done.expect_stderr("no data for 0.2 s in mid-answer");
    assert!(done.stderr.contains("Last model output: I beg"), "{}", done.stderr);
}

#[test]
fn cost_names_the_tokens_of_a_model_without_a_price() {
    let server = Server::with(|_, _| server::sse_text("counted"));
    let test = project(&server, "[models.\"test/m\"]\nprice_in = 1000.0\nprice_out = 1000.0\n");
    let mut pty = chat(&test, &[]);
    pty.wait_for("counted");
    pty.wait_for("/help");
    pty.say("/cost");
    pty.wait_for("money   $0.0120\n");
    pty.say("/model test/other");
    pty.wait_for("test/other answers from now on");
    pty.say("again");
    pty.wait("the second answer", |_| test.n_events("turn.finished") == 2);
    pty.wait_for("/help");
    pty.say("/cost");
    pty.wait_for("$0.0120, without 12 tokens of models whose price is not known");
}

#[test]
fn tokens_and_cost_are_estimated_while_an_answer_streams() {
    let prices = "[models.\"test/m\"]\nprice_in = 1000.0\nprice_out = 1000.0\n";
    let text: String = (0..2000).map(|n| format!("word{n} ")).collect();
    for delta in [
        json!({"content": text}),
        json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function":
            {"name": "Write", "arguments": format!("{{\"content\": \"{text}")}}]}),
    ] {
        let server = Server::with(move |_, number| match number {
            0 => server::sse_text("counted"),
            _ => beginning(&delta),
        });
        let test = project(&server, prices);
        let mut pty = chat(&test, &[]);
        pty.wait_for("counted");
        // As the provider counted: 10 tokens in, 2 out.
        pty.wait(" 12 tokens", |screen| {
            screen.contains("· 12 tokens") && screen.contains("· $0.01")
        });
        pty.say("again");
        pty.wait("an estimate", |screen| {
            screen.contains("answering") && screen.contains("k tokens")
        });
        let screen = pty.screen();
        assert!(screen.contains("· ~") && screen.contains("· ~$"), "{screen}");
        pty.send("\x1b");
        pty.wait_for("stopped by you");
    }
}

/// A wire format, further settings, and the beginning of an answer whose call has these parts of arguments.
fn beginnings_of_a_call([start, rest]: [&str; 2]) -> [(&'static str, &'static str, Vec<Value>); 5] {
    let chat =
        |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let function = |function: Value| {
        let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
        chat(json!({"tool_calls": [call]}))
    };
    let item = json!({"type": "function_call", "id": "i", "call_id": "c", "name": "Write", "arguments": ""});
    let of_item = |part: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "i", "delta": part});
    let block = json!({"type": "tool_use", "id": "c", "name": "Write", "input": {}});
    let of_block = |part: &str| {
        let delta = json!({"type": "input_json_delta", "partial_json": part});
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    };
    let arguments: Value = serde_json::from_str(&format!("{start}{rest}\"}}")).unwrap();
    let part = json!({"functionCall": {"name": "Write", "args": arguments}});
    let held = format!("<tool_call>{{\"name\": \"Write\", \"arguments\": {start}");
    [
        (
            "openai-chat",
            "",
            vec![
                chat(json!({"content": "I write it."})),
                function(json!({"name": "Write", "arguments": start})),
                function(json!({"arguments": rest})),
            ],
        ),
        (
            "openai-responses",
            "",
            vec![
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                of_item(start),
                of_item(rest),
            ],
        ),
        (
            "anthropic-messages",
            "",
            vec![
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 10}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                of_block(start),
                of_block(rest),
            ],
        ),
        // The API sends whole calls.
        ("gemini", "", vec![json!({"candidates": [{"content": {"parts": [part]}}]})]),
        (
            "openai-chat",
            "[providers.test.dialect]\ntext_calls = \"accepted\"\n",
            vec![chat(json!({"content": held})), chat(json!({"content": rest}))],
        ),
    ]
}

#[test]
fn call_that_is_being_written_is_visible_on_all_wires() {
    let lines = |n: usize| "x = \\\"a\\\"\\n".repeat(n);
    let start = format!("{{\"path\": \"shop/new.py\", \"content\": \"{}", lines(40));
    for (wire, more, events) in beginnings_of_a_call([&start, &lines(44)]) {
        let server = Server::with(move |_, _| {
            let events: Vec<String> = events.iter().map(Value::to_string).collect();
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            server::sse_raw(&events).then(Chunk::Pause(LONG))
        });
        let url = server.url();
        let test = Test::new().user_config(&format!(
            "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\nwire = \"{wire}\"\n{more}",
            url.trim_end_matches("/v1")
        ));
        let mut pty = chat(&test, &[]);
        pty.wait_for("84 lines so far");
        // A read may end within a frame.
        pty.wait_for("answering · ");
        let screen = pty.screen();
        let is_named = screen.contains("◦ Write shop/new.py  84 lines so far");
        assert!(is_named || !more.is_empty(), "{wire}\n{screen}");
        assert_eq!(screen.contains("I write it.\n\n◦"), wire == "openai-chat" && more.is_empty());
        pty.send("\x1b");
        pty.wait_for("stopped by you");
        assert!(!pty.screen().contains("so far"), "{wire}\n{}", pty.screen());
        assert!(!test.has_event("model.progress"), "it is not recorded");
    }
}

#[test]
fn end_of_a_turn_shows_its_own_time_and_what_was_written() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"touch x\"}\nusage: 2000 40\n---\ntext: done\nusage: 2100 30",
    );
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("hello");
    pty.wait_for_question();
    std::thread::sleep(Duration::from_millis(1100));
    pty.send("y");
    pty.wait_for(" waiting for you) · 70 tokens out");
    pty.wait_for("2.1k tokens (");
    let turn = test.events_of("turn.finished").remove(0);
    let [all, waiting] = ["time_ms", "waiting_ms"].map(|name| turn[name].as_u64().unwrap());
    assert!(1000 < waiting && waiting <= all, "{turn}");
    pty.say("/quit");
    pty.end();
    let pty = Pty::chat(&test, &["-c"]);
    pty.wait_for(" waiting for you) · 70 tokens out");
}

/// The colour of this text in its first line.
fn colour_of(pty: &Pty, text: &str) -> vt100::Color {
    pty.with_screen(|screen| {
        let rows: Vec<String> = screen.rows(0, screen.size().1).collect();
        let row = rows.iter().position(|row| row.contains(text)).unwrap();
        let column = rows[row][..rows[row].find(text).unwrap()].chars().count();
        let cell = screen.cell(row.try_into().unwrap(), column.try_into().unwrap());
        cell.unwrap().fgcolor()
    })
}

#[test]
fn crowded_context_is_yellow_and_red_before_it_is_compacted() {
    let colours = [(4990, "(50 %) · "), (7190, "(72 %) · "), (7690, "(77 %), compacts soon · ")].map(
        |(tokens, text)| {
            let text_chunk = json!({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]});
            let usage = json!({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 10}});
            let server = Server::with(move |_, _| {
                server::sse_raw(&[&text_chunk.to_string(), &usage.to_string(), "[DONE]"])
            });
            let test = project(&server, "[models.\"test/m\"]\ncontext_window = 10000\n");
            let mut pty = chat(&test, &[]);
            pty.wait_for(text);
            let colour = colour_of(&pty, "k tokens (");
            let ask = colour_of(&pty, "ask · ");
            pty.send("\x1b[Z");
            pty.wait_for("auto-edit · ");
            (colour, ask, colour_of(&pty, "auto-edit · "))
        },
    );
    let [(quiet, ask, yellow), (crowded, ..), (at_limit, ..)] = colours;
    assert_eq!((quiet, crowded), (ask, yellow));
    assert!(at_limit != quiet && at_limit != crowded && quiet != crowded, "{colours:?}");
}

#[test]
#[ignore = "slow"]
fn silence_of_the_model_is_shown() {
    // Before the first data, in the middle of an answer, and in a call, of which no text is shown.
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                      "function": {"name": "LS", "arguments": "{"}}]});
    for (reply, doing) in [
        (Reply { body: vec![Chunk::Pause(LONG)], ..server::sse_raw(&[]) }, "waiting for the model"),
        (beginning(&json!({"content": "I begin"})), "answering"),
        (beginning(&call), "answering"),
    ] {
        let server = Server::with(move |_, _| reply.clone());
        let test = project(&server, "");
        let mut pty = chat(&test, &[]);
        pty.patience = LONG;
        pty.wait_for("no data for");
        let text = format!("{doing} · no data for ");
        let first = seconds_after(&pty.screen(), &text).unwrap();
        assert!(first >= 10, "{}", pty.screen());
        pty.wait("more", |screen| seconds_after(screen, &text).is_some_and(|n| n > first));
        pty.wait_for("Esc stops");
        pty.send("\x1b");
        pty.wait_for("stopped by you");
        assert!(!pty.screen().contains("no data"), "{}", pty.screen());
    }
}
