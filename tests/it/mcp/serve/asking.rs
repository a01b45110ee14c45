//! Questions to the client's user, and progress.

use serde_json::{Value, json};

use super::{Peer, code, text};
use crate::support::Test;

/// A client that can ask its user.
fn asking(test: &Test, options: &[&str]) -> Peer {
    let mut peer = Peer::start(test, options);
    peer.initialize_with(&json!({"elicitation": {}}));
    peer
}

impl Peer {
    /// Calls a tool; the question that comes first.
    #[track_caller]
    fn question(&mut self, tool: &str, input: &Value) -> Value {
        self.send_call(tool, input);
        let question = self.answer();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        question
    }

    fn reply(&mut self, question: &Value, result: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        self.line(answer.to_string().as_bytes());
    }

    /// Answers with one of the choices; the result of the call.
    #[track_caller]
    fn choose(&mut self, question: &Value, choice: &Value) -> Value {
        self.reply(question, &json!({"action": "accept", "content": {"answer": choice}}));
        self.answer()["result"].take()
    }
}

fn choices(question: &Value) -> &Vec<Value> {
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["required"], json!(["answer"]));
    schema["properties"]["answer"]["enum"].as_array().unwrap()
}

#[test]
fn client_that_can_ask_its_user_is_asked() {
    let test = Test::new();
    let mut peer = asking(&test, &["--permission-mode", "ask"]);
    let write = |path: &str| json!({"path": path, "content": "new\n"});
    let question = peer.question("Write", &write("d/a"));
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Write d/a\n") && message.contains("+new"), "{message}");
    let expected = [
        "Allow",
        "Allow Edit(d/a) for this session",
        "Allow Edit(d/**) for this session",
        "Allow, and switch to mode auto-edit",
        "Reject",
    ];
    assert_eq!(choices(&question), &expected);
    assert!(!test.root().join("d").exists());
    let result = peer.choose(&question, &choices(&question)[0]);
    assert_eq!((code(&result), test.read("d/a").as_str()), ("", "new\n"));

    let question = peer.question("Write", &write("d/b"));
    let result = peer.choose(&question, &choices(&question)[2]);
    assert_eq!((code(&result), test.read("d/b").as_str()), ("", "new\n"));
    // It is allowed from now on.
    assert_eq!(code(&peer.call("Write", &write("d/c"))), "");

    let question = peer.question("Write", &write("e"));
    let result = peer.choose(&question, &json!("Reject"));
    assert_eq!(code(&result), "APPROVAL_REJECTED");
    is_rejected(&mut peer, &json!({"action": "accept", "content": {"answer": "nonsense"}}));
    is_rejected(&mut peer, &json!({"action": "accept"}));
    is_rejected(&mut peer, &json!({"action": "decline"}));
    is_rejected(&mut peer, &json!({"action": "cancel"}));
    is_rejected(&mut peer, &json!({"nonsense": 1}));
    assert!(!test.root().join("e").exists());
}

#[test]
fn nobody_is_asked_in_a_mode_that_does_not_ask() {
    let test = Test::new();
    let mut peer = asking(&test, &["--permission-mode", "dontAsk"]);
    let result = peer.call("Write", &json!({"path": "a", "content": "new\n"}));
    assert_eq!(code(&result), "APPROVAL_REQUIRED");
    assert!(!test.root().join("a").exists());
}

#[track_caller]
fn is_rejected(peer: &mut Peer, reply: &Value) {
    let question = peer.question("Write", &json!({"path": "e", "content": "new\n"}));
    peer.reply(&question, reply);
    assert_eq!(code(&peer.answer()["result"]), "APPROVAL_REJECTED", "{reply}");
}

#[test]
fn question_of_a_cancelled_call_is_withdrawn() {
    let test = Test::new();
    let mut peer = asking(&test, &["--permission-mode", "ask"]);
    let question = peer.question("Write", &json!({"path": "a", "content": "new\n"}));
    peer.notify("notifications/cancelled", &json!({"requestId": peer.last_id}));
    let withdrawn = peer.answer();
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    // A late answer has no effect.
    peer.reply(&question, &json!({"action": "accept", "content": {"answer": "Allow"}}));
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
    // A client that closes our input while a question is open does not delay the end.
    peer.question("Write", &json!({"path": "a", "content": "new\n"}));
    assert_eq!(peer.close(), Some(0));
    assert!(!test.root().join("a").exists());
}

#[test]
fn long_command_reports_its_progress() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let wait = |file: &str| format!("until [ -e {file} ]; do sleep 0.05; done");
    let command = format!("echo one; {}; echo two; {}", wait("first"), wait("second"));
    let input = json!({"command": command});
    let params = json!({"name": "Bash", "arguments": input, "_meta": {"progressToken": "p"}});
    peer.send("tools/call", &params);
    let mut last = 0.0;
    let result = loop {
        let mut message = peer.answer();
        if message.get("result").is_some() {
            break message["result"].take();
        }
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], "p");
        let count = message["params"]["progress"].as_f64().unwrap();
        assert!(count > last, "{message}");
        last = count;
        // The command goes on when its last line was reported.
        match message["params"]["message"].as_str().unwrap() {
            "one" => test.write("first", ""),
            "two" => test.write("second", ""),
            "" => {}
            other => panic!("{other}"),
        }
    };
    assert!(last >= 2.0 && text(&result).ends_with("one\ntwo"), "{result}");
}
