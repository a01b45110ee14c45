//! Redaction of values from the project's secret files in command output.

use std::fs;

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::{Server, sse_calls, sse_text};

fn project() -> Test {
    Test::new()
        .file(".gitignore", ".env\n")
        .file(".env", "DB_PASSWORD=hunter2hunter2\nNAME=ordinary-value\nSHORT_KEY=abc123\n")
        .file("deep/er/.env.local", "export API_TOKEN=\"tok-0123456789\"\n")
        .file(
            "server.key",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n",
        )
        .file("show.sh", "cat .env | tr = ' '\n. ./.env\necho \"got $DB_PASSWORD\" >&2\n")
        .file("a.txt", "hunter2hunter2\n")
}

fn call(test: &Test, tool: &str, input: &Value) -> Value {
    let done = test.agent(&["tool", "call", tool, &input.to_string()]);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

fn output(test: &Test, command: &str) -> (String, String) {
    let envelope = call(test, "Bash", &json!({"command": command}));
    assert_eq!(envelope["status"], "success", "{envelope}");
    let text = |name: &str| envelope["data"][name].as_str().unwrap().to_owned();
    (text("stdout"), text("stderr"))
}

#[test]
fn values_of_secret_files_are_redacted_in_command_output() {
    let test = project();
    let (stdout, _) = output(&test, "cat .env");
    assert_eq!(
        stdout,
        "DB_PASSWORD=[redacted:DB_PASSWORD]\nNAME=ordinary-value\nSHORT_KEY=abc123\n"
    );
    let (stdout, stderr) = output(&test, "bash show.sh");
    assert!(stdout.contains("DB_PASSWORD [redacted:DB_PASSWORD]"), "{stdout}");
    assert_eq!(stderr, "got [redacted:DB_PASSWORD]\n");
    let (stdout, _) = output(&test, "cat deep/er/.env.local a.txt");
    assert_eq!(stdout, "export API_TOKEN=\"[redacted:API_TOKEN]\"\n[redacted:DB_PASSWORD]\n");
    let (stdout, _) = output(&test, "sed -n 2p server.key");
    assert_eq!(stdout, "[redacted:private-key]\n");
}

#[test]
fn file_tools_do_not_redact() {
    let test = project();
    let envelope = call(&test, "Read", &json!({"path": "a.txt"}));
    assert!(envelope["data"]["content"].as_str().unwrap().contains("hunter2hunter2"), "{envelope}");
    let envelope = call(&test, "Read", &json!({"path": ".env"}));
    assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{envelope}");
}

#[test]
fn changed_and_new_secret_files_apply_from_the_next_command() {
    let script = concat!(
        "call: Bash {\"command\": \"echo a-new-secret first-secret\"}\n---\n",
        "call: Bash {\"command\": \"sleep 0.02; echo NEW_SECRET=a-new-secret > .env; mkdir -p sub; ",
        "echo A_TOKEN=first-secret > sub/.env; cat .env sub/.env\"}\n---\n",
        "call: Bash {\"command\": \"echo a-new-secret first-secret\"}\n---\ntext: ok"
    );
    let test = Test::new().file(".env", "OLD_KEY=an-old-secret\n").script(script);
    test.run(&["task", "--permission-mode", "auto-edit"]).expect_code(0);
    let outputs: Vec<String> = test
        .events_of("tool.finished")
        .iter()
        .map(|event| event["envelope"]["data"]["stdout"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        outputs,
        [
            "a-new-secret first-secret\n",
            "NEW_SECRET=[redacted:NEW_SECRET]\nA_TOKEN=[redacted:A_TOKEN]\n",
            "[redacted:NEW_SECRET] [redacted:A_TOKEN]\n"
        ]
    );
}

#[test]
fn stored_and_background_output_is_redacted() {
    let script = concat!(
        "call: Bash {\"command\": \"for i in $(seq 9000); do echo \\\"$i an-old-secret\\\"; done\"}\n---\n",
        "call: Bash {\"command\": \"echo an-old-secret; echo an-old-secret >&2\", \"background\": true}\n---\n",
        "call: Bash {\"background\": \"bg_1\", \"timeout_ms\": 5000}\n---\ntext: ok"
    );
    let test = Test::new().file(".env", "OLD_KEY=an-old-secret\n").script(script);
    test.run(&["task", "--permission-mode", "auto-edit"]).expect_code(0);
    let events = test.events();
    let shown = format!("{events:?}");
    assert!(shown.contains("[redacted:OLD_KEY]"), "{shown}");
    let finished = test.events_of("tool.finished");
    let full = finished[0]["envelope"]["data"]["full_output"].as_str().unwrap().to_owned();
    let kept = fs::read_to_string(test.root().join(full)).unwrap();
    assert!(kept.lines().count() == 9000 && !kept.contains("an-old-secret"));
    for event in &finished {
        let envelope = event["envelope"]["data"].to_string();
        assert!(!envelope.contains("an-old-secret"), "{envelope}");
    }
}

#[test]
fn api_keys_are_redacted_in_command_output_only() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwx0123456789";
    let server = Server::playing([
        sse_calls(&[
            ("Read", json!({"path": "config"})),
            ("Bash", json!({"command": "cat config; false"})),
        ]),
        sse_text("done"),
        sse_text("again"),
    ]);
    let config = format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config).file("config", format!("key = {key}\n"));
    test.agent(&["run", "read it"]).expect_code(0);
    test.agent(&["run", "-c", "and again"]).expect_code(0);
    let requests = server.finish();
    let results = |at: usize| -> Vec<Value> {
        let body = requests[at].json();
        let messages = body["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] == "tool").cloned().collect()
    };
    let (sent, resumed) = (results(1), results(2));
    assert!(sent[0].to_string().contains(key), "Edit needs the real text: {sent:?}");
    assert_eq!(sent[1], resumed[1]);
    assert!(sent[1].to_string().contains("[redacted:api-key]"), "{sent:?}");
    // The log contains no key, so neither does a resumed conversation.
    assert!(!format!("{resumed:?}{:?}", test.events()).contains(key));
}
