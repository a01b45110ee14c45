//! What the other agent receives.

use agent_protocol::envelope::Envelope;
use agent_protocol::view::render_for_model;
use serde_json::{Value, json};

use super::{Peer, code, text};
use crate::support::Test;

/// The text is what our model would receive, and nothing that agents show instead of it is beside it.
#[track_caller]
fn is_the_models_view(result: &Value) {
    let envelope: Envelope =
        serde_json::from_value(result["_meta"]["agent/envelope"].clone()).unwrap();
    assert_eq!(text(result), render_for_model(&envelope));
    assert_eq!(result.get("structuredContent"), None);
}

#[test]
fn tools_are_listed_with_schemas_and_hints() {
    let test = Test::new();
    let mut peer = Peer::start(&test, &[]);
    let hello = peer.initialize();
    assert_eq!(hello["result"]["serverInfo"]["name"], "code-agent");
    let instructions = hello["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains(test.root().to_str().unwrap()), "{instructions}");
    let tools = peer.request("tools/list", &json!({}))["result"]["tools"].take();
    let hints = |hint: &str| -> Vec<&str> {
        let tools = tools.as_array().unwrap().iter();
        let with_hint = tools.filter(|tool| tool["annotations"][hint] == true);
        with_hint.map(|tool| tool["name"].as_str().unwrap()).collect()
    };
    assert_eq!(hints("readOnlyHint"), ["LS", "Glob", "Grep", "Read"]);
    assert_eq!(hints("destructiveHint"), ["Write", "Edit", "MultiEdit", "Bash"]);
    assert_eq!(hints("openWorldHint"), ["Bash"]);
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
    }
    assert_eq!(peer.close(), Some(0));
    // Without a call there is no session.
    assert_eq!(test.try_log(), None);
}

#[test]
fn other_agent_receives_conflicts_as_our_model_does() {
    let test = Test::new().file("a.rs", "one\ntwo\n");
    let mut peer = Peer::connect(&test, &[]);
    let read = peer.call("Read", &json!({"path": "a.rs"}));
    is_the_models_view(&read);
    assert_eq!((code(&read), text(&read)), ("", "Read all of a.rs (2 lines).\n1 | one\n2 | two"));
    test.write("a.rs", "one\nthree\n");
    let edit = json!({"path": "a.rs", "old_string": "one", "new_string": "four"});
    let refused = peer.call("Edit", &edit);
    is_the_models_view(&refused);
    assert_eq!(code(&refused), "CONFLICT");
    assert!(text(&refused).contains("three"), "{refused}");
    assert_eq!(test.read("a.rs"), "one\nthree\n");
    // The current text was shown: now the edit is one of it.
    assert_eq!(code(&peer.call("Edit", &edit)), "");
    assert_eq!(test.read("a.rs"), "four\nthree\n");
}

#[test]
fn change_of_a_file_that_was_not_read_shows_it() {
    let test = Test::new().file("a.rs", "one\n");
    let mut peer = Peer::connect(&test, &[]);
    // (With the names that models know from other agents.)
    let edit = json!({"file_path": "a.rs", "old_string": "one", "new_string": "two"});
    let refused = peer.call("Edit", &edit);
    is_the_models_view(&refused);
    assert_eq!(code(&refused), "NOT_READ");
    assert!(text(&refused).contains("1 | one"), "{refused}");
    assert_eq!(code(&peer.call("Edit", &edit)), "");
    assert_eq!(test.read("a.rs"), "two\n");
}

#[test]
fn each_connection_has_its_own_snapshots() {
    let test = Test::new().file("a.rs", "one\n");
    let (mut first, mut second) = (Peer::connect(&test, &[]), Peer::connect(&test, &[]));
    first.call("Read", &json!({"path": "a.rs"}));
    let edit = |new: &str| json!({"path": "a.rs", "old_string": "one", "new_string": new});
    assert_eq!(code(&second.call("Edit", &edit("two"))), "NOT_READ");
    assert_eq!(code(&first.call("Edit", &edit("one, three"))), "");
    assert_eq!(code(&second.call("Edit", &edit("two"))), "CONFLICT");
    assert_eq!(test.read("a.rs"), "one, three\n");
}

#[test]
fn commands_run_in_the_sandbox() {
    let test = Test::new();
    let outside = test.home().join("outside");
    let mut peer = Peer::connect(&test, &[]);
    let inside = peer.call("Bash", &json!({"command": "echo hi | tee made"}));
    assert_eq!(
        (code(&inside), text(&inside)),
        ("", "Exited 0. {\"files_changed\":[\"made\"]}\nhi")
    );
    let command = format!("touch {}", outside.display());
    assert_eq!(code(&peer.call("Bash", &json!({"command": command}))), "COMMAND_FAILED");
    assert!(test.root().join("made").exists() && !outside.exists());
}

#[test]
fn missing_permission_names_the_option_that_gives_it() {
    let test = Test::new().file("a.rs", "one\n").file("keep/b.rs", "one\n");
    let mut peer = Peer::connect(&test, &["--deny", "Edit(keep/)"]);
    let push = json!({"command": "git push"});
    let refused = peer.call("Bash", &push);
    is_the_models_view(&refused);
    assert_eq!(code(&refused), "APPROVAL_REQUIRED");
    assert!(text(&refused).contains("--allow 'Bash(git push)'"), "{refused}");
    let write = |path: &str| json!({"path": path, "content": "two\n"});
    assert_eq!(code(&peer.call("Write", &write("keep/c.rs"))), "ACCESS_DENIED");
    let mut peer = Peer::connect(&test, &["--allow", "Bash(git push)"]);
    assert_eq!(code(&peer.call("Bash", &push)), "COMMAND_FAILED");
    let mut peer = Peer::connect(&test, &["--permission-mode", "read-only"]);
    assert_eq!(code(&peer.call("Write", &write("c.rs"))), "ACCESS_DENIED");
    let mut peer = Peer::connect(&test, &["--permission-mode", "ask"]);
    let refused = peer.call("Write", &write("c.rs"));
    assert_eq!(code(&refused), "APPROVAL_REQUIRED");
    assert!(text(&refused).contains("--allow 'Write(./c.rs)'"), "{refused}");
    assert!(!test.root().join("c.rs").exists());
}

#[test]
fn repeated_call_is_answered_each_time() {
    let test = Test::new().file("a.rs", "one\n");
    let mut peer = Peer::connect(&test, &[]);
    let read = json!({"path": "a.rs"});
    let first = peer.call("Read", &read);
    for _ in 0..6 {
        assert_eq!(text(&peer.call("Read", &read)), text(&first));
    }
}

#[test]
fn changing_calls_take_turns_in_their_order() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let command = |word: &str| json!({"command": format!("echo {word} begins >> log; sleep 0.2; echo {word} ends >> log")});
    let ids: Vec<u64> = ["a", "b", "c"].map(|word| peer.send_call("Bash", &command(word))).to_vec();
    let read = peer.send_call("Read", &json!({"path": "log"}));
    for id in ids {
        assert_eq!(peer.answer()["id"], id);
    }
    let answer = peer.answer();
    assert_eq!(answer["id"], read);
    let expected = ["a", "b", "c"].map(|word| format!("{word} begins\n{word} ends\n")).concat();
    assert_eq!(test.read("log"), expected);
    assert!(text(&answer["result"]).ends_with("6 | c ends"), "{answer}");
}

#[test]
fn image_is_a_part_of_the_result() {
    let picture = include_bytes!("../../../../docs/images/trace.png");
    let test = Test::new().file("a.png", picture);
    let mut peer = Peer::connect(&test, &["--ephemeral"]);
    let read = peer.call("Read", &json!({"path": "a.png"}));
    is_the_models_view(&read);
    let image = &read["content"][1];
    assert_eq!((&image["type"], &image["mimeType"]), (&json!("image"), &json!("image/png")));
    assert_eq!(image["data"].as_str().unwrap().len(), picture.len().div_ceil(3) * 4);
}
