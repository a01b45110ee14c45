//! Messages to an agent that is handling a failure: they take effect before its next action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::{self, Server};
use crate::support::{Pty, Test, wait_for};

/// A model that reads a missing file twice and then follows the user's message; its reflection
/// proposes this action once it is allowed to answer.
fn lost(action: Value, may_speak: Arc<AtomicBool>) -> Server {
    let asked = AtomicUsize::new(0);
    Server::with(move |request, _| {
        if request.json()["tools"].is_null() {
            let begun = Instant::now();
            while !may_speak.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let cause =
                json!({"category": "unknown", "text": "it is elsewhere", "confidence": 0.9});
            let said = json!({"failure_signal": "tool_error", "root_cause": cause,
                              "suggested_action": action, "patch_prompt": ""});
            return server::sse_text(&said.to_string());
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            n @ (0 | 1) => server::sse_calls(&[("Read", json!({"path": format!("lost{n}")}))]),
            _ if request.body.contains("leave it") => server::sse_text("I leave it."),
            _ => server::sse_text("I heard nothing."),
        }
    })
}

#[test]
fn message_during_an_answer_cancels_its_calls() {
    let may_answer = Arc::new(AtomicBool::new(false));
    let (gate, asked) = (Arc::clone(&may_answer), AtomicUsize::new(0));
    let server = Server::with(move |_, _| {
        if asked.fetch_add(1, Ordering::SeqCst) > 0 {
            return server::sse_text("I leave it.");
        }
        wait_for(|| gate.load(Ordering::SeqCst));
        server::sse_calls(&[("Write", json!({"path": "new.txt", "content": "x"}))])
    });
    let test = project(&server);
    let mut pty = chat(&test);
    wait_for(|| test.has_event("model.requested"));
    pty.say("better not");
    pty.wait_for("after this answer: better not");
    may_answer.store(true, Ordering::SeqCst);
    pty.wait_for("I leave it.");
    let finished = test.events_of("tool.finished");
    let message = finished[0]["envelope"]["error"]["message"].as_str().unwrap();
    assert_eq!(message, "cancelled: the user sent a message first");
    assert!(!test.root().join("new.txt").exists());
}

fn project(server: &Server) -> Test {
    Test::new().user_config(&format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n",
        server.url()
    ))
}

fn chat(test: &Test) -> Pty {
    let mut pty = Pty::start(test, &["--yolo"], 24, 80, "xterm-256color");
    pty.wait_for("/help");
    pty.say("find it");
    pty
}

/// The types of the events, starting with the first of this type.
fn story(test: &Test, from: &str) -> Vec<String> {
    let events = test.events();
    let types = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
    types.skip_while(|kind| kind != from).collect()
}

fn by_the_kernel(test: &Test) -> Vec<Value> {
    let mut finished = test.events_of("tool.finished");
    finished.retain(|event| event["by"] == "kernel");
    finished
}

#[test]
fn message_during_a_reflection_prevents_its_action() {
    let may_speak = Arc::new(AtomicBool::new(false));
    let action = json!({"kind": "alternative", "tool": "Bash", "input": {"command": "touch done"}});
    let server = lost(action, may_speak.clone());
    let test = project(&server);
    let mut pty = chat(&test);
    wait_for(|| server.finish().iter().any(|request| request.json()["tools"].is_null()));
    pty.say("no, leave it");
    pty.wait_for("queued: no, leave it");
    may_speak.store(true, Ordering::SeqCst);
    pty.wait_for("I leave it.");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    assert_eq!(by_the_kernel(&test), [Value::Null; 0]);
    assert!(!test.root().join("done").exists());
    // The reflection is charged and logged, but no decision is based on it.
    let story = story(&test, "reflection");
    assert_eq!(story[..3], ["reflection", "turn.steered", "model.requested"]);
    assert!(!story.contains(&"control.decided".to_owned()), "{story:?}");
    assert_eq!(test.events_of("turn.finished").len(), 1);
}

#[test]
fn message_during_a_kernel_call_is_sent_after_it() {
    let command = "touch started; until [ -e go ]; do sleep 0.02; done; echo found";
    let action = json!({"kind": "alternative", "tool": "Bash", "input": {"command": command}});
    let server = lost(action, Arc::new(AtomicBool::new(true)));
    let test = project(&server);
    let mut pty = chat(&test);
    wait_for(|| test.root().join("started").exists());
    pty.say("no, leave it");
    pty.wait_for("after this call: no, leave it");
    test.write("go", "");
    pty.wait_for("I leave it.");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    // A started call is completed and reported after the failed call.
    let made = by_the_kernel(&test);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(
        (&made[0]["tool"], &made[0]["envelope"]["status"]),
        (&json!("Bash"), &json!("success"))
    );
    let mut requests = server.finish().into_iter().map(|request| request.json());
    let last = requests.rfind(|request| !request["tools"].is_null()).unwrap();
    let said: Vec<&Value> = last["messages"].as_array().unwrap().iter().rev().take(2).collect();
    assert!(said[1]["content"].as_str().unwrap().contains("found"), "{last}");
    assert_eq!(said[0]["content"], "no, leave it");
    let decided = test.events_of("control.decided");
    assert_eq!(decided.last().unwrap()["detail"], "alternative", "{decided:?}");
}

#[test]
fn message_during_verification_cancels_it_and_the_next_answer_is_verified() {
    let evidence = json!([{"where": "the check", "quote": "0 tests ran here"}]);
    let objection = json!({"confirmed": false, "objection": "no test ran", "evidence": evidence});
    let object = move || server::sse_text(&objection.to_string());
    let first_looks: [Box<dyn Fn() -> server::Reply + Send + Sync>; 2] =
        [Box::new(|| server::sse_calls(&[("LS", json!({}))])), Box::new(object)];
    for first_look in first_looks {
        let may_speak = Arc::new(AtomicBool::new(false));
        let (waits, looks) = (may_speak.clone(), AtomicUsize::new(0));
        let server = Server::with(move |request, _| {
            let is_main = request.json()["model"] == "m";
            match (is_main, request.body.contains("leave it")) {
                (true, false) => server::sse_text("All is tested."),
                (true, true) => server::sse_text("I leave it."),
                (false, _) if looks.fetch_add(1, Ordering::SeqCst) == 0 => {
                    let begun = Instant::now();
                    while !waits.load(Ordering::SeqCst) && begun.elapsed().as_secs() < 20 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    first_look()
                }
                (false, _) => server::sse_text("{\"confirmed\": true}"),
            }
        });
        let test = Test::new().user_config(&format!(
            "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n[verify]\nmodel = \"test/v\"\n\
             [checks]\ncommands = [\"echo 0 tests ran here\"]\n",
            server.url()
        ));
        let mut pty = chat(&test);
        wait_for(|| server.finish().iter().any(|request| request.json()["model"] == "v"));
        pty.say("no, leave it");
        pty.wait_for("queued: no, leave it");
        may_speak.store(true, Ordering::SeqCst);
        pty.wait_for("I leave it.");
        wait_for(|| test.has_event("turn.finished"));
        pty.say("/quit");
        assert_eq!(pty.end(), 0);
        let looks = test.events_of("verification");
        let came_to: Vec<_> =
            looks.iter().map(|look| (&look["no_effect_reason"], &look["confirmed"])).collect();
        assert_eq!(came_to.len(), 2, "{looks:?}");
        assert_eq!(came_to[0].0, "the user sent another message");
        assert_eq!(came_to[1], (&Value::Null, &json!(true)));
        assert_eq!(
            test.events_of("evaluation").iter().filter(|e| e["step_success"] == false).count(),
            0
        );
        assert_eq!(test.events_of("turn.finished").len(), 1);
    }
}

#[test]
fn check_that_needs_to_write_could_not_run_in_read_only_mode() {
    let command = "touch started; until [ -e go ]; do sleep 0.02; done; echo x > a.txt";
    let call = format!("call: Bash {}", json!({"command": command}));
    let test = Test::new().script(&format!("{call}\n---\ntext: a.txt is written"));
    let args = ["--yolo", "--model", "script:../script", "--check", "cp a.txt chk.txt"];
    let mut pty = Pty::start(&test, &args, 24, 80, "xterm-256color");
    pty.wait_for("/help");
    pty.say("write a.txt");
    wait_for(|| test.root().join("started").exists());
    pty.say("Don't change anything until I say so.");
    wait_for(|| pty.screen().contains(": Don't change anything"));
    test.write("go", "");
    wait_for(|| test.has_event("turn.finished"));
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    assert!(!test.root().join("chk.txt").exists());
    let finished = &test.events_of("turn.finished")[0];
    assert_eq!(finished["ending"], "completed_unverified", "{finished}");
    assert_eq!(finished["result"], "a.txt is written");
    let checks = test.events_of("check.finished");
    assert_eq!((checks.len(), &checks[0]["passed"]), (1, &json!(false)), "run once: {checks:?}");
    assert!(!test.has_event("feedback"));
}

#[test]
fn interrupted_answer_is_kept() {
    let script = "text: The cause is the parser\nfault: hang\n---\n\
                  when: (?s)The cause is the parser.*interrupted here.*go on\ntext: It goes on.";
    let test = Test::new().script(script);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("why?");
    pty.wait_for("The cause is the parser");
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    pty.say("go on");
    pty.wait_for("It goes on.");
    assert_eq!(pty.all().matches("The cause is the parser").count(), 1, "{}", pty.all());
    pty.say("/quit");
    pty.end();
    // It is part of a resumed conversation.
    let pty = Pty::chat(&test, &["-c"]);
    pty.wait_for("The cause is the parser");
}

/// A chat whose first call runs this command, with a message queued for after the turn.
fn with_follow_up(command: &str, rest: &str) -> (Test, Pty) {
    let script = format!("call: Bash {{\"command\": \"{command}\"}}\n---\n{rest}");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("do it");
    pty.wait_for("◦ Bash");
    pty.send("and then this\t");
    pty.wait_for("▸ after this turn: and then this");
    (test, pty)
}

#[test]
fn tab_sends_a_message_after_the_turn() {
    let (test, pty) = with_follow_up(
        "until [ -e go ]; do sleep 0.05; done",
        "call: Read {\"path\": \"a.txt\"}\n---\ntext: first done\n---\nwhen: and then this\ntext: second done",
    );
    test.write("go", "");
    pty.wait_for("first done");
    pty.wait_for("second done");
    assert_eq!(test.events_of("turn.started").len(), 2);
    assert!(!test.has_event("turn.steered"));
}

#[test]
fn esc_returns_a_message_for_after_the_turn() {
    let (_test, mut pty) = with_follow_up("sleep 60", "text: never");
    pty.send("\x1b");
    pty.wait_for("› and then this");
}
