//! Tool calls in the text of answers.

use serde_json::{Value, json};

use super::openai_chat::{cut_off, text};
use crate::support::server::{Server, sse_raw};
use crate::support::{Done, Test};

const CALL: &str = "I read it.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>";

fn run(server: &Server, mode: Option<&str>) -> (Test, Done) {
    let test = Test::new().file("a.txt", "colour\n");
    let url = format!("providers.local.base_url={}", server.url());
    let mode = mode.map(|mode| format!("providers.local.dialect.text_calls={mode}"));
    let mut args = vec!["run", "what colour?", "--model", "local/m", "--set", &url];
    args.extend(mode.iter().flat_map(|mode| ["--set", mode]));
    let done = test.agent(&args);
    (test, done)
}

#[test]
fn server_without_function_calling_receives_tools_calls_and_results_as_text() {
    let server = Server::playing([text(CALL), text("blue")]);
    let (test, done) = run(&server, Some("described"));
    done.expect_code(0).expect_stdout("blue\n");
    assert_eq!(test.events_of("tool.finished")[0]["tool"], "Read");
    let requests: Vec<Value> = server.finish().iter().map(|request| request.json()).collect();
    for request in &requests {
        assert_eq!(request["tools"], Value::Null);
        let system = request["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("{\"name\":\"Read\",\"description\":"), "{system}");
    }
    let messages = requests[1]["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(messages[2]["content"], CALL.replace("\"path\": ", "\"path\":"));
    assert_eq!(messages[2]["tool_calls"], Value::Null);
    let result = messages[3]["content"].as_str().unwrap();
    assert!(result.starts_with("<tool_response>\n") && result.contains("colour"), "{result}");
    // The next request begins with the bytes of this one.
    let bodies = server.finish();
    let (first, second) = (&bodies[0].body, &bodies[1].body);
    assert!(second.starts_with(first.strip_suffix("]}").unwrap()));
}

#[test]
fn calls_in_the_text_are_accepted_only_in_this_dialect() {
    let server = Server::playing([text(CALL), text("blue")]);
    let (test, done) = run(&server, Some("accepted"));
    done.expect_code(0).expect_stdout("blue\n");
    assert_eq!(test.events_of("tool.finished").len(), 1);
    assert!(server.finish()[0].json()["tools"].is_array());

    let server = Server::playing([text(CALL)]);
    let (test, done) = run(&server, None);
    done.expect_code(0).expect_stdout(&format!("{CALL}\n"));
    assert_eq!(test.events_of("tool.finished").len(), 0);
}

#[test]
fn cut_off_call_in_the_text_is_not_made() {
    let half = "<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"echo x > log\"";
    let server = Server::playing([cut_off(half), text("done")]);
    let (test, done) = run(&server, Some("accepted"));
    done.expect_code(0).expect_stdout("done\n");
    assert!(!test.root().join("log").exists());
}

#[test]
fn repaired_and_unreadable_arguments_are_reported_to_the_model() {
    let repaired =
        "<tool_call>{\"name\": \"Read\", \"arguments\": {\"path\": \"a.txt\",}}</tool_call>";
    let native = json!([{"index": 0, "id": "c", "type": "function", "function":
        {"name": "Read", "arguments": "{\"path\": \"a.txt\",}"}}]);
    let native =
        json!({"choices": [{"delta": {"tool_calls": native}, "finish_reason": "tool_calls"}]});
    let server = Server::playing([
        text(repaired),
        sse_raw(&[&native.to_string(), "[DONE]"]),
        text("<tool_call>{read a.txt}</tool_call>"),
        text("done"),
    ]);
    let (test, done) = run(&server, Some("accepted"));
    done.expect_code(0).expect_stdout("done\n");
    let results = test.events_of("tool.finished");
    assert_eq!(results.len(), 3);
    for result in &results[..2] {
        assert!(result.to_string().contains("was invalid and was repaired"), "{result}");
    }
    assert_eq!(results[2]["envelope"]["error"]["code"], "UNKNOWN_TOOL", "{}", results[2]);
}

#[test]
fn text_about_calls_reaches_the_user() {
    let about = "<tool_call> tags wrap the calls of Hermes; Mistral writes [TOOL_CALLS] and \
                 a list.\n```rust\nlet marker = \"<|python_tag|>\";\n```\nThat is all.";
    let server = Server::playing([text(about)]);
    let (test, done) = run(&server, Some("accepted"));
    done.expect_code(0).expect_stdout(&format!("{about}\n"));
    assert_eq!(test.events_of("tool.finished").len(), 0);
}

#[test]
fn call_that_the_server_also_leaves_in_the_text_is_made_once() {
    let delta = |delta: Value| json!({"choices": [{"delta": delta}]}).to_string();
    let content = delta(json!({"content": CALL}));
    let function = json!({"name": "Read", "arguments": "{\"path\":"});
    let name = delta(json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}));
    let rest = json!({"index": 0, "function": {"arguments": " \"a.txt\"}"}});
    let rest = delta(json!({"tool_calls": [rest]}));
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string();
    let other = "<tool_call>{\"name\": \"LS\"}</tool_call>";
    for (chunks, expected) in [
        (vec![&content, &name, &rest], vec!["Read"]),
        (vec![&name, &rest, &content], vec!["Read"]),
        (vec![&name, &content, &delta(json!({"content": other})), &rest], vec!["Read", "LS"]),
    ] {
        let chunks = chunks.into_iter().chain([&end]).map(String::as_str);
        let answer = sse_raw(&chunks.chain(["[DONE]"]).collect::<Vec<_>>());
        let server = Server::playing([answer, text("blue")]);
        let (test, done) = run(&server, Some("accepted"));
        done.expect_code(0).expect_stdout("blue\n");
        let finished = test.events_of("tool.finished");
        let tools: Vec<&Value> = finished.iter().map(|event| &event["tool"]).collect();
        assert_eq!(tools, expected);
    }
}

#[test]
fn nothing_after_an_invented_result_is_used() {
    let response = "<tool_response>\ncrimson\n</tool_response>\n";
    let invented = format!(
        "{CALL}\n{response}<tool_call>{{\"name\": \"LS\"}}</tool_call>\n{response}It is crimson."
    );
    for mode in ["accepted", "described"] {
        let server = Server::playing([text(&invented), text("blue")]);
        let (test, done) = run(&server, Some(mode));
        let done = done.expect_code(0).expect_stdout("blue\n");
        let finished = test.events_of("tool.finished");
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0]["tool"], "Read");
        // The user is told, and the log has it.
        let notice = &test.events_of("error")[0];
        assert!(notice["message"].to_string().contains("crimson"), "{notice}");
        assert!(done.stderr.contains("the model wrote the result of a tool itself"), "{done:?}");
        let request = server.finish()[1].json();
        assert!(!request["messages"].to_string().contains("crimson"), "{request}");
    }
}

#[test]
fn trusted_project_can_override_the_description_of_the_tools() {
    let server = Server::playing([text("done")]);
    let test = Test::new().file(".agent/prompts/tools_in_text.md", "Here they are:\n{{tools}}\n");
    let url = format!("providers.local.base_url={}", server.url());
    let mode = "providers.local.dialect.text_calls=described";
    let args = ["run", "x", "--trust", "--model", "local/m", "--set", &url, "--set", mode];
    test.agent(&args).expect_code(0).expect_stdout("done\n");
    let request = server.finish()[0].json();
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("\n\nHere they are:\n{\"name\":\"LS\","), "{system}");
}
