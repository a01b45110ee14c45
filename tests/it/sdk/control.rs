//! Control requests of the program.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Program, user};
use crate::support::Test;
use crate::support::server::{Chunk, Server};

fn initialize() -> Value {
    json!({"subtype": "initialize", "hooks": null})
}

#[test]
fn initialize_is_answered_with_what_programs_read_of_the_session() {
    let test = Test::new()
        .script("text: hello")
        .file(".agent/commands/greet.md", "---\ndescription: Greets\n---\nGreet $ARGUMENTS");
    let mut program = Program::start(&test, &[]);
    let answer = program.ask(&initialize());
    assert_eq!(answer["subtype"], "success");
    let response = &answer["response"];
    let greet = json!({"name": "greet", "description": "Greets", "argumentHint": ""});
    assert_eq!(response["commands"], json!([greet]));
    assert_eq!(response["models"][0]["value"], "script:../script");
    assert_eq!(response["output_style"], "default");
    // A second one gets the same answer.
    assert_eq!(program.ask(&initialize())["response"], *response);
    // A command is a message.
    program.say("/greet the world");
    program.result();
    program.finish();
    assert_eq!(test.events_of("turn.started")[0]["shown"], "Greet the world");
}

#[test]
fn unknown_requests_get_errors_in_and_between_turns() {
    let test = Test::new().script("pause: 500ms\ntext: a");
    let mut program = Program::start(&test, &[]);
    assert_eq!(program.ask(&json!({"subtype": "mcp_reconnect"}))["subtype"], "error");
    let unknown = json!({"subtype": "make_coffee"});
    let is_refused = |answer: &Value| {
        assert_eq!(answer["subtype"], "error");
        assert!(answer["error"].as_str().unwrap().contains("make_coffee"), "{answer}");
    };
    is_refused(&program.ask(&unknown));
    program.say("go");
    program.until(|line| line["subtype"] == "init");
    is_refused(&program.ask(&unknown));
    program.result();
    is_refused(&program.ask(&unknown));
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn mode_is_set_at_any_time() {
    let test = Test::new().script(
        "call: Write {\"path\": \"a.txt\", \"content\": \"a\\n\"}\n---\ntext: a\n---\n\
         call: Write {\"path\": \"b.txt\", \"content\": \"b\\n\"}\n---\ntext: b",
    );
    let mut program = Program::start(&test, &[]);
    // Nobody can be asked.
    program.say("write a");
    let result = program.result().pop().unwrap();
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    let path = test.root().join("a.txt");
    assert_eq!(result["permission_denials"][0]["tool_input"]["file_path"], json!(path));
    let set = program.ask(&json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
    assert_eq!(set["response"]["mode"], "acceptEdits");
    program.say("write b");
    let lines = program.result();
    assert_eq!(lines[0]["permissionMode"], "acceptEdits");
    let wrong = program.ask(&json!({"subtype": "set_permission_mode", "mode": "yolo"}));
    assert_eq!(wrong["subtype"], "error");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
    assert!(!test.root().join("a.txt").exists());
    assert_eq!(test.read("b.txt"), "b\n");
}

#[test]
fn model_is_set_between_turns_and_back() {
    let test = Test::new().script("times: any\ntext: first model");
    std::fs::write(test.root().join("../other"), "times: any\ntext: other model").unwrap();
    let mut program = Program::start(&test, &[]);
    let said = |program: &mut Program| {
        program.say("who?");
        program.result().pop().unwrap()["result"].clone()
    };
    let set = |model: Value| json!({"subtype": "set_model", "model": model});
    assert_eq!(said(&mut program), "first model");
    let answer = program.ask(&set("script:../other".into()));
    assert_eq!(answer["subtype"], "success");
    assert_eq!(said(&mut program), "other model");
    assert_eq!(program.ask(&set("script:../none".into()))["subtype"], "error");
    assert_eq!(said(&mut program), "other model");
    assert_eq!(program.ask(&set(Value::Null))["subtype"], "success");
    assert_eq!(said(&mut program), "first model");
    program.finish();
}

#[test]
fn files_are_rewound_to_a_message() {
    let test = Test::new()
        .script(
            "text: nothing\n---\ncall: Write {\"path\": \"a.txt\", \"content\": \"changed\\n\"}\n---\ntext: a\n---\n\
             call: Bash {\"command\": \"echo b > b.txt\"}\n---\ntext: b",
        )
        .file("keep.txt", "kept\n");
    let args = ["--permission-mode", "full", "--replay-user-messages"];
    let mut program = Program::start(&test, &args);
    let mut ids = Vec::new();
    for text in ["nothing", "write a", "write b"] {
        program.say(text);
        let lines = program.result();
        let repeated = lines.iter().find(|line| line["isReplay"] == true).unwrap();
        ids.push(repeated["uuid"].as_str().unwrap().to_owned());
    }
    assert!(test.root().join("b.txt").exists());
    let rewind = |id: &str| json!({"subtype": "rewind_files", "user_message_id": id});
    assert_eq!(program.ask(&rewind("none"))["subtype"], "error");
    let mut dry = rewind(&ids[1]);
    dry["dry_run"] = true.into();
    let would = program.ask(&dry)["response"].take();
    assert_eq!(would, json!({"canRewind": true, "filesChanged": ["a.txt", "b.txt"]}));
    assert!(test.root().join("a.txt").exists() && test.root().join("b.txt").exists());
    test.write("a.txt", "mine\n");
    let would = program.ask(&dry)["response"].take();
    assert_eq!((&would["canRewind"], &would["filesChanged"]), (&json!(false), &json!(["b.txt"])));
    assert!(would["error"].as_str().unwrap().contains("a.txt"), "{would}");
    let refused = program.ask(&rewind(&ids[1]));
    assert_eq!(refused["subtype"], "error");
    assert!(refused["error"].as_str().unwrap().starts_with("no file was restored: a.txt"));
    assert!(test.root().join("b.txt").exists());
    test.write("a.txt", "changed\n");
    let answer = program.ask(&rewind(&ids[1]));
    assert_eq!(answer["response"]["canRewind"], true, "{answer}");
    assert_eq!(answer["response"]["filesChanged"], json!(["a.txt", "b.txt"]));
    assert!(!test.root().join("a.txt").exists() && !test.root().join("b.txt").exists());
    assert_eq!(test.read("keep.txt"), "kept\n");
    program.finish();
}

#[test]
fn usage_of_the_window_is_known() {
    let test = Test::new().script("usage: 1000 20\ntext: a");
    let mut program = Program::start(&test, &[]);
    let request = json!({"subtype": "get_context_usage"});
    let before = program.ask(&request);
    assert_eq!(before["response"]["totalTokens"], 0);
    program.say("go");
    program.result();
    let usage = program.ask(&request)["response"].take();
    let total = usage["totalTokens"].as_u64().unwrap();
    let used = usage["categories"].as_array().unwrap().iter().filter(|row| row["kind"] == "used");
    let used: u64 = used.map(|row| row["tokens"].as_u64().unwrap()).sum();
    assert!(total > 100 && total == used, "{usage}");
    assert_eq!(usage["apiUsage"]["input_tokens"], 1000);
    assert_eq!(usage["model"], "script:../script");
    program.finish();
}

#[test]
fn background_command_is_stopped() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"sleep 77.5\", \"background\": true}\n---\ntext: it runs\n---\ntext: over",
    );
    let mut program = Program::start(&test, &["--permission-mode", "full"]);
    program.say("start");
    let lines = program.result();
    let started = lines.iter().find(|line| line["type"] == "user").unwrap();
    let id = started["tool_use_result"]["background_id"].as_str().unwrap().to_owned();
    let stop = json!({"subtype": "stop_task", "task_id": id});
    assert_eq!(program.ask(&stop)["subtype"], "success");
    assert!(crate::support::running("sleep 77.5").is_empty());
    assert_eq!(
        program.ask(&json!({"subtype": "stop_task", "task_id": "none"}))["subtype"],
        "error"
    );
    program.finish();
}

#[test]
fn end_of_the_input_does_not_lose_the_answer_about_a_stopped_task() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"trap 'sleep 0.3; exit' TERM; while :; do sleep 0.1; done\", \"background\": true}\n---\ntext: it runs",
    );
    let mut program = Program::start(&test, &["--permission-mode", "full"]);
    program.say("start");
    let lines = program.result();
    let started = lines.iter().find(|line| line["type"] == "user").unwrap();
    let task = &started["tool_use_result"]["background_id"];
    let id = program.request(&json!({"subtype": "stop_task", "task_id": task}));
    let (lines, code) = program.finish();
    let answer = lines.iter().find(|line| line["response"]["request_id"] == id.as_str());
    assert_eq!(answer.unwrap()["response"]["subtype"], "success");
    assert_eq!(code, Some(0));
}

#[test]
fn background_command_is_stopped_while_a_turn_runs() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"sleep 77.25\", \"background\": true}\n---\n\
         call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: over",
    );
    let mut program = Program::start(&test, &["--permission-mode", "full"]);
    program.say("start");
    let lines = program.until(|line| line["tool_use_result"]["background_id"].is_string());
    let id = lines.last().unwrap()["tool_use_result"]["background_id"].clone();
    assert_eq!(program.ask(&json!({"subtype": "stop_task", "task_id": id}))["subtype"], "success");
    assert!(crate::support::running("sleep 77.25").is_empty());
    test.write("go", "");
    assert_eq!(program.result().pop().unwrap()["result"], "over");
    program.finish();
}

/// The server of the other model does not answer.
#[test]
fn change_of_the_model_is_interrupted() {
    let silent = Server::with(|_, _| {
        crate::support::server::json(200, &json!({})).then(Chunk::Pause(Duration::from_mins(2)))
    });
    let config = format!("[providers.silent]\nbase_url = \"{}\"\n", silent.url());
    let test = Test::new().script("text: still here").user_config(&config);
    let mut program = Program::start(&test, &[]);
    program.ask(&initialize());
    let set = json!({"subtype": "set_model", "model": "silent/m"});
    let id = program.request(&set);
    assert_eq!(program.ask(&json!({"subtype": "interrupt"}))["subtype"], "success");
    assert_eq!(program.answer_to(&id)["error"], "interrupted");
    program.say("who?");
    assert_eq!(program.result().pop().unwrap()["result"], "still here");
    program.finish();
}

#[test]
fn requests_of_a_turn_are_answered_while_it_runs() {
    let test = Test::new().script("times: any\npause: 700ms\ntext: a");
    let mut program = Program::start(&test, &[]);
    program.say("go");
    program.until(|line| line["subtype"] == "init");
    for subtype in ["mcp_status", "get_context_usage", "initialize"] {
        assert_eq!(program.ask(&json!({ "subtype": subtype }))["subtype"], "success", "{subtype}");
    }
    let rewind = json!({"subtype": "rewind_files", "user_message_id": "x"});
    assert_eq!(program.ask(&rewind)["subtype"], "error");
    // This one waits for the end of the turn.
    let id = program.request(&json!({"subtype": "set_model", "model": null}));
    let lines = program.until(|line| line["type"] == "control_response");
    assert!(lines.iter().any(|line| line["type"] == "result"), "{lines:?}");
    assert_eq!(lines.last().unwrap()["response"]["request_id"], id.as_str());
    program.send(&user("next"));
    assert_eq!(program.result().pop().unwrap()["result"], "a");
    program.finish();
}
