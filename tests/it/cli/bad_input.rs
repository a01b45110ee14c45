//! Bad input: one clear line on standard error with what to do next, the right exit code, an event
//! in the log if there is one, no panic, no half-written file.

use serde_json::json;

use crate::support::server::{self, Reply, Server};
use crate::support::{Pty, Test};

#[test]
fn missing_api_key_is_a_usage_error() {
    let test = Test::new();
    test.agent(&["run", "task", "--model", "openai/gpt-5.5"])
        .expect_code(2)
        .expect_stdout("")
        .expect_one_line_of_stderr("set OPENAI_API_KEY");
}

#[test]
fn unknown_provider() {
    Test::new()
        .agent(&["run", "task", "--model", "opneai/x"])
        .expect_code(2)
        .expect_one_line_of_stderr("did you mean openai?");
    Test::new()
        .agent(&["run", "task", "--model", "gpt-5.5"])
        .expect_code(2)
        .expect_one_line_of_stderr("provider/model");
}

#[test]
fn model_name_with_control_characters_is_a_usage_error() {
    for name in ["openai/x\x1b]0;evil\x07", "openai/x\ny", "openai/\u{202e}x"] {
        let test = Test::new().env("OPENAI_API_KEY", "sk-0123456789abcdef").script("text: here");
        test.agent(&["run", "task", "--model", name])
            .expect_code(2)
            .expect_one_line_of_stderr("control or invisible characters");
        let config = toml::Value::from(name).to_string();
        for key in ["light_model", "verify.model"] {
            test.run(&["task", "--set", &format!("{key}={config}")])
                .expect_code(2)
                .expect_one_line_of_stderr("control or invisible characters");
        }
    }
    let test = Test::new().script("text: here");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("/model openai/x\u{202e}y");
    pty.wait_for("/model openai/x<U+202E>y");
    pty.send("\r");
    pty.wait_for("control or invisible characters");
}

#[test]
fn invalid_base_url_is_a_usage_error() {
    Test::new()
        .agent(&["run", "task", "--model", "openai/x", "--base-url", "localhost"])
        .expect_code(2)
        .expect_one_line_of_stderr("localhost");
}

/// Retries end after this time.
const SOON: &str = "requests.retry_for=300ms";

#[test]
fn unreachable_endpoint_exits_with_75() {
    // A port that was free a moment ago and has no listener now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let test = Test::new();
    let set_url = format!("providers.openai.base_url={url}");
    let done =
        test.agent(&["run", "task", "--model", "openai/x", "--set", &set_url, "--set", SOON]);
    done.expect_code(75).expect_stdout("").expect_stderr(&format!("127.0.0.1:{port}"));
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "model_unavailable");
    assert!(!test.events_of("error").is_empty());
}

/// Runs a task against a server that sends this reply to every request.
fn against(reply: impl Fn() -> Reply + Send + Sync + 'static, code: i32, part: &str) {
    let server = Server::with(move |_, _| reply());
    let test = Test::new().env("OPENAI_API_KEY", "sk-test-0123456789abcdefghij");
    let args = ["run", "task", "--model", "openai/m", "--base-url", &server.url(), "--set", SOON];
    let done = test.agent(&args).expect_code(code).expect_stdout("").expect_stderr(part);
    assert!(
        !done.stderr.contains("panicked") && !done.stderr.contains("sk-test"),
        "{}",
        done.stderr
    );
    assert!(!test.events_of("error").is_empty());
}

#[test]
fn html_response_exits_with_75() {
    against(|| server::html(200), 75, "/v1");
}

#[test]
fn unauthorized() {
    against(
        || server::json(401, &json!({"error": {"message": "Incorrect API key"}})),
        69,
        "OPENAI_API_KEY",
    );
}

#[test]
fn unknown_model() {
    against(
        || server::json(404, &json!({"error": {"message": "The model `m` does not exist"}})),
        69,
        "model",
    );
}

#[test]
fn non_http_endpoint_exits_with_75() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let url = format!("http://127.0.0.1:{port}/v1");
    let test = Test::new();
    test.agent(&["run", "task", "--model", "openai/m", "--base-url", &url, "--set", SOON])
        .expect_code(75)
        .expect_stderr(&format!("127.0.0.1:{port}"));
}

/// As long an outage, in proportion, as 25 of the 30 seconds for which a run retries.
#[test]
fn outage_of_nearly_the_time_for_retries_is_survived() {
    let begin = std::time::Instant::now();
    let server = Server::with(move |_, _| {
        if begin.elapsed() < std::time::Duration::from_millis(2_500) {
            server::no_answer()
        } else {
            server::sse_text("back again")
        }
    });
    let test = Test::new().env("OPENAI_API_KEY", "k");
    let url = server.url();
    let args = ["run", "task", "--model", "openai/m", "--base-url", &url];
    test.agent(&[&args[..], &["--set", "requests.retry_for=3s"]].concat())
        .expect_code(0)
        .expect_stdout("back again\n");
}

#[test]
fn empty_task_is_a_usage_error() {
    let test = Test::new().script("text: ok");
    test.run(&[""]).expect_code(2).expect_one_line_of_stderr("the task is empty");
    test.run(&[]).expect_code(2).expect_one_line_of_stderr("the task is empty");
    test.run(&["--worktree", "hi"])
        .expect_code(2)
        .expect_stderr("`hi` is the name of the worktree");
}

#[test]
fn missing_directory_is_a_usage_error() {
    let test = Test::new().script("text: ok");
    test.run(&["task", "-C", "nowhere"])
        .expect_code(2)
        .expect_one_line_of_stderr("-C nowhere: there is no such folder; name one that exists");
    test.run(&["task", "--add-dir", "nowhere"]).expect_code(2).expect_one_line_of_stderr(
        "could not open nowhere: it does not exist; name a folder that you can read",
    );
}

#[test]
fn config_typos_are_reported_with_a_suggestion() {
    let test = Test::new().script("text: ok").user_config("[limits]\nmax_turn = 3\n");
    test.run(&["task"]).expect_code(2).expect_one_line_of_stderr(
        "config.toml:2: unknown key `max_turn`: did you mean `max_turns`?",
    );
    Test::new()
        .script("text: ok")
        .run(&["task", "--set", "limits.max_turn=3"])
        .expect_code(2)
        .expect_one_line_of_stderr("did you mean `max_turns`?");
    Test::new()
        .script("text: ok")
        .run(&["task", "--allow", "Bash(cargo"])
        .expect_code(2)
        .expect_one_line_of_stderr("Bash(cargo");
    Test::new()
        .script("text: ok")
        .run(&["task", "--deny", "Bahs(rm *)"])
        .expect_code(2)
        .expect_one_line_of_stderr("there is no tool");
}

#[test]
fn missing_or_invalid_session_id_is_a_usage_error() {
    let test = Test::new().script("text: ok");
    test.run(&["task", "-c"]).expect_code(2).expect_one_line_of_stderr("no session");
    test.run(&["task", "--resume", "0199"])
        .expect_code(2)
        .expect_one_line_of_stderr("agent session list");
    test.run(&["task", "--session-id", "mine"])
        .expect_code(2)
        .expect_one_line_of_stderr("is not a UUID");
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    test.run(&["task", "--session-id", id]).expect_code(0);
    test.run(&["task", "--session-id", id])
        .expect_code(2)
        .expect_one_line_of_stderr("exists already");
}

#[test]
fn corrupt_log_line_is_reported_with_its_number() {
    let test = Test::new().script("text: ok");
    test.run(&["task"]).expect_code(0);
    let log = test.log();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("{\"v\":2,\"seq\":2", "{\"v\":2,garbage", 1)).unwrap();
    test.run(&["task", "-c"]).expect_code(2).expect_one_line_of_stderr("events.jsonl:2:");
}

#[test]
fn out_of_range_numbers_in_a_log_are_reported() {
    let test = Test::new().script("text: ok\nusage: 10 3");
    test.run(&["task"]).expect_code(0);
    let log = test.log();
    let text = std::fs::read_to_string(&log).unwrap();
    // Counters that are incremented need headroom.
    let n_started = 1 + text.lines().position(|line| line.contains("\"turn.started\"")).unwrap();
    std::fs::write(&log, text.replace("\"turn\":1", "\"turn\":4294967295")).unwrap();
    test.run(&["more", "-c"])
        .expect_code(2)
        .expect_one_line_of_stderr("no session comes to turn 4294967295");
    test.run(&["more", "-c"]).expect_stderr(&format!("events.jsonl:{n_started}:"));
    // Values that are only summed may be of any size.
    let most = u64::MAX;
    let numbers =
        [("\"input_tokens\":10", "input_tokens"), ("\"output_tokens\":3", "output_tokens")];
    let forged = numbers.iter().fold(text.clone(), |text, (number, name)| {
        assert!(text.contains(number), "{text}");
        text.replace(number, &format!("\"{name}\":{most}"))
    });
    let (before, behind) = forged.split_once("\"time_ms\":").unwrap();
    let behind = behind.trim_start_matches(|char: char| char.is_ascii_digit());
    std::fs::write(&log, format!("{before}\"time_ms\":{most}{behind}")).unwrap();
    test.run(&["more", "-c"]).expect_code(0);
    let test = test.script("text: ok\nusage: 18446744073709551615 7\n---\ntext: ok\nusage: 5 5");
    test.run(&["more", "-c"]).expect_code(0);
    let mut pty = Pty::chat(&test, &["-c"]);
    pty.wait_for("/help");
    pty.say("and more");
    pty.wait_for("› and more\n\nok");
    pty.say("/cost");
    pty.wait_for("output  ");
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap();
    for way in [&["session", "list"][..], &["session", "show", id], &["trace", "show", id]] {
        test.agent(way).expect_code(0);
    }
}

#[test]
fn a_usage_error_leaves_no_session_behind() {
    let test = Test::new().script("text: ok").file("schema.json", "{\"type\": 5}");
    test.run(&["the first"]).expect_code(0);
    let log = test.log();
    for wrong in [["--allow", "Nope(x)"], ["--json-schema", "schema.json"], ["--timeout", "soon"]] {
        test.run(&["task", wrong[0], wrong[1]]).expect_code(2);
    }
    let sessions = std::fs::read_dir(test.sessions()).unwrap().count();
    assert_eq!(sessions, 1);
    test.run(&["more", "-c"]).expect_code(0);
    assert_eq!(test.log(), log);
}

#[test]
fn unknown_event_types_are_an_error_and_are_kept() {
    let test = Test::new().script("text: ok");
    test.run(&["task"]).expect_code(0);
    let mut text = std::fs::read_to_string(test.log()).unwrap();
    text.push_str("{\"v\":2,\"type\":\"from.the.future\"}\n");
    std::fs::write(test.log(), &text).unwrap();
    test.run(&["more", "-c"]).expect_code(2).expect_stderr("events.jsonl:");
    assert_eq!(std::fs::read_to_string(test.log()).unwrap(), text);
}

#[test]
fn model_is_discovered_from_a_custom_base_url() {
    let server = Server::with(|request, _| {
        if request.path.ends_with("/models") {
            server::json(200, &json!({"data": [{"id": "only-one"}]}))
        } else {
            server::sse_text("hello")
        }
    });
    let test = Test::new();
    test.agent(&["run", "task", "--base-url", &server.url()])
        .expect_code(0)
        .expect_stdout("hello\n");
    // A bare model name is sufficient if there is only one provider.
    let test = Test::new();
    test.agent(&["run", "task", "--model", "mine:8b", "--base-url", &server.url()])
        .expect_code(0)
        .expect_stdout("hello\n");
    assert_eq!(test.events_of("session.started")[0]["model"], "openai/mine:8b");
    let test = Test::new().user_config("model = \"vllm/mine\"\n");
    test.agent(&["run", "task", "--base-url", &server.url()]).expect_code(0);
}

#[test]
fn unknown_tools_and_malformed_arguments_are_tool_errors() {
    let script = "call: Raed {\"path\": \"a\"}\n---\nexpect: did you mean Read\n\
        call: web.Read {\"path\": \"a\"}\n---\nexpect: there is no tool named\n\
        call: Read {\"path\": \"a\"}\nfault: broken_json\n---\nexpect: not valid JSON\n\
        call: Read {\"pth\": \"a\"}\n---\nexpect: did you mean `path`\ntext: I give up.";
    let test = Test::new().file("a", "x\n").script(script);
    test.run(&["task"]).expect_code(0).expect_stdout("I give up.\n");
    let codes: Vec<_> = test
        .events_of("tool.finished")
        .iter()
        .map(|event| event["envelope"]["error"]["code"].clone())
        .collect();
    assert_eq!(codes, ["UNKNOWN_TOOL", "UNKNOWN_TOOL", "INVALID_PARAM", "INVALID_PARAM"]);
}

#[test]
fn repeated_identical_calls_end_the_turn() {
    let script = "call: Read {\"path\": \"nowhere\"}\n---\n".repeat(9);
    let test = Test::new().script(&script);
    let done = test.run(&["task"]).expect_code(1).expect_stderr("nothing tried differently");
    assert!(done.stdout.is_empty());
    let rounds = test.events_of("turn.finished")[0]["rounds"].clone();
    assert_eq!(rounds, 3);
}

#[test]
fn empty_answers_are_retried_then_end_the_turn() {
    let test = Test::new().script("fault: empty\n---\nfault: empty\n---\ntext: now I speak");
    test.run(&["task"]).expect_code(0).expect_stdout("now I speak\n");
    let test = Test::new().script(&"fault: empty\n---\n".repeat(5));
    test.run(&["task"]).expect_code(1).expect_stderr("the answer was empty");
    assert_eq!(test.events_of("turn.finished")[0]["rounds"], 3);
}

#[test]
fn calls_in_a_truncated_answer_are_not_executed() {
    let script =
        "call: Write {\"path\": \"half\", \"content\": \"x\"}\nfault: length\n---\ntext: ok";
    let test = Test::new().script(script);
    test.run(&["task"]).expect_code(0);
    assert!(!test.root().join("half").exists());

    let test = Test::new().script("text: first \nfault: length\n---\ntext: and second");
    test.run(&["task"]).expect_code(0).expect_stdout("first and second\n");
}

#[test]
fn exhausted_or_mismatching_scripts_are_errors() {
    let test = Test::new().script("call: LS {}");
    test.run(&["task"]).expect_code(1).expect_stderr("../script");
    let test = Test::new().script("call: LS {}\n---\nexpect: unicorn\ntext: ok");
    test.run(&["task"]).expect_code(1).expect_stderr("unicorn");
    let test = Test::new().script("txt: ok");
    test.run(&["task"]).expect_code(2).expect_one_line_of_stderr("../script:1");
    Test::new().run(&["task"]).expect_code(2).expect_one_line_of_stderr("script");
}

#[test]
fn usage_errors_exit_with_2() {
    let test = Test::new();
    test.agent(&[]).expect_code(2).expect_one_line_of_stderr("agent run");
    test.agent(&["rnu"]).expect_code(2).expect_one_line_of_stderr("did you mean `agent run`?");
    let done = test.agent(&["run", "task", "--max-tuns", "3"]).expect_code(2);
    assert!(done.stderr.contains("'--max-turns'"), "{}", done.stderr);
    // They allow everything.
    for option in ["--yol", "--dangerously-skip-permission"] {
        let done = test.agent(&["run", "task", option]).expect_code(2);
        assert!(!done.stderr.contains("similar"), "{option}: {}", done.stderr);
    }
    test.agent(&["run", "--max-turns", "x", "task"]).expect_code(2).expect_stderr("--max-turns");
    test.agent(&["tool", "call", "Read", "{"]).expect_code(2).expect_stdout("");
    test.agent(&["tool", "call", "Read", "[1]"]).expect_code(2).expect_stdout("");
}

/// Regression: a pattern with deeply nested braces overflowed the stack and ended the process.
#[test]
fn deeply_nested_braces_in_patterns_are_refused() {
    let deep = format!("{}a{}", "{".repeat(60_000), "}".repeat(60_000));
    let test =
        Test::new().file("sub/b.txt", "x\n").file("sub/deep/c.txt", "x\n").file("a.txt", "x\n");
    for input in [json!({"pattern": deep}), json!({"pattern": "*", "path": "sub"})] {
        let envelope = test.call("Glob", &input);
        let is_deep = input["pattern"] != "*";
        assert_eq!(envelope["error"]["code"] == "INVALID_PARAM", is_deep, "{envelope}");
    }
    test.agent(&["tool", "list", "--deny", &format!("Read({deep})")]).expect_code(2);
    // Escaped and bracketed braces close no group.
    for brace in ["{\\}", "{[}]"] {
        let pattern = format!("{}a{}", brace.repeat(20_000), "}".repeat(20_000));
        let envelope = test.call("Glob", &json!({"pattern": pattern}));
        assert_eq!(envelope["error"]["code"], "INVALID_PARAM", "{envelope}");
    }
    let judged = Test::new().user_config("[permissions]\ndeny = [\"Read(*.txt)\"]\n");
    let bash = |command: String| ("Bash", json!({"command": command}));
    let lines = [bash(format!("cat {deep}* *.txt")), bash(format!("find . -name '{deep}'"))];
    assert_eq!(judged.batch(&lines).len(), 2);

    // Below the directory the pattern excludes it; at the root nothing is excluded.
    test.write("sub/deep/.gitignore", &deep);
    test.write(".gitignore", "a.txt\n");
    let found = |name: &str, input: &serde_json::Value| test.call(name, input)["data"].to_string();
    let all = found("Grep", &json!({"pattern": "x"}));
    assert!(all.contains("sub/b.txt") && !all.contains("a.txt") && !all.contains("c.txt"), "{all}");
    test.write(".gitignore", &deep);
    for (name, input) in [
        ("LS", json!({})),
        ("Grep", json!({"pattern": "x", "path": "sub"})),
        ("Glob", json!({"pattern": "**/*.txt"})),
    ] {
        let all = found(name, &input);
        assert!(all.contains("b.txt") || all.contains("a.txt"), "{name}: {all}");
    }
    test.call("Read", &json!({"path": "c.txt"}));
}
