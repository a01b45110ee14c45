//! The examples of `docs/INTEGRATION.md` that need nothing but the binary.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::support::{Done, Test};

const PAGE: &str = include_str!("../../../docs/INTEGRATION.md");

/// The code block of this language in a section.
#[track_caller]
fn block(section: &str, language: &str) -> &'static str {
    let section = PAGE.split("\n## ").find(|text| text.starts_with(section)).unwrap();
    let begin = format!("\n```{language}\n");
    let block = section.split(&begin).nth(1).and_then(|rest| rest.split("\n```").next());
    block.unwrap_or_else(|| panic!("no {language} in {section}"))
}

/// A git repository with the script of the page, and `agent` in PATH.
fn repository(script: &str) -> Test {
    let test = Test::new()
        .file("ci/agent.sh", block("A CI job", "sh"))
        .file("ci/check.sh", "grep -q two notes.md\n")
        .file("notes.md", "one\n")
        .script(script);
    std::fs::create_dir(test.home().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_agent"), test.home().join("bin/agent")).unwrap();
    let setup = "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm first";
    let done = Command::new("bash").args(["-c", setup]).current_dir(test.root()).status().unwrap();
    assert!(done.success());
    test
}

/// Runs the job; returns what it printed, and `result.json`.
fn job(test: &Test) -> (Done, Value) {
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["ci/agent.sh", "write two"])
        .current_dir(test.root())
        .env_clear()
        .env("PATH", format!("{}:{path}", test.home().join("bin").display()))
        .env("HOME", test.home())
        .env("AGENT_MODEL", format!("script:{}", test.root().join("../script").display()))
        .output()
        .unwrap();
    (Done::new(&output), serde_json::from_str(&test.read("result.json")).unwrap())
}

#[test]
fn documented_ci_job_succeeds() {
    let script = "call: Read {\"path\":\"notes.md\"}\n---\n\
                  call: Edit {\"path\":\"notes.md\",\"old_string\":\"one\",\"new_string\":\"two\"}\n---\n\
                  call: Write {\"path\":\"new.md\",\"content\":\"new\\n\"}\n---\ntext: It is written.";
    let test = repository(script);
    let (done, result) = job(&test);
    done.expect_code(0).expect_stdout("done, and the check passed\n");
    assert_eq!(result["files_changed"], json!(["notes.md", "new.md"]));
    let patch = test.read("change.patch");
    assert!(patch.contains("-one\n+two\n") && patch.contains("+new\n"), "{patch}");
    assert!(!patch.contains("terminal_reason"), "{patch}");
    assert!(test.read("session.md").contains("It is written."));
    // Each field of the table is there.
    let table =
        PAGE.split("| field of `result.json`").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().skip(2).map(|row| row.split('|').nth(1).unwrap());
    let fields: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(fields.len(), 11);
    for field in fields {
        assert!(result.get(field).is_some(), "{field}: {result}");
    }
}

#[test]
fn documented_ci_job_says_why_it_failed() {
    let (done, result) = job(&repository(&["text: I cannot."; 20].join("\n---\n")));
    done.expect_code(1).expect_stdout("not done: terminal_reason in result.json says why\n");
    assert_eq!(result["terminal_reason"], "check_failed");
    let (done, result) =
        job(&repository("call: Bash {\"command\":\"curl example.com\"}\n---\ntext: I cannot."));
    assert_eq!(result["terminal_reason"], "permission_denied");
    let why = "not allowed: permission_denials in result.json names what --allow has to permit\n";
    done.expect_code(77).expect_stdout(why);
    let (done, _) = job(&repository("fault: overloaded"));
    done.expect_code(75).expect_stdout("the model is not available now: run the job again\n");
}

#[test]
fn documented_workflow_runs_the_documented_script() {
    let workflow: Value = serde_saphyr::from_str(block("A CI job", "yaml")).unwrap();
    let steps = workflow["jobs"]["agent"]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["run"] == "bash ci/agent.sh \"$TASK\""), "{workflow}");
}

#[test]
fn documented_settings_of_other_agents_start_the_server() {
    let of_claude: Value = serde_json::from_str(block("Another agent (MCP)", "json")).unwrap();
    let of_codex: toml::Table = block("Another agent (MCP)", "toml").parse().unwrap();
    let of_codex = Value::deserialize(toml::Value::Table(of_codex)).unwrap();
    for server in [&of_claude["mcpServers"]["files"], &of_codex["mcp_servers"]["files"]] {
        assert_eq!(server["command"], "agent");
        let words = server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words: Vec<&str> = words.collect();
        assert_eq!(words[..2], ["mcp", "serve"]);
        let test = Test::new();
        let mut peer = crate::mcp::serve::Peer::connect(&test, &words[2..]);
        let tools = peer.request("tools/list", &json!({}))["result"]["tools"].take();
        let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        let names: Vec<&str> = names.collect();
        let section = PAGE.split("`agent mcp serve` gives").nth(1).unwrap();
        let list = section.split("the tools ").nth(1).unwrap().split(" for the").next().unwrap();
        assert_eq!(names.join(", "), list.replace(" and ", ", "));
    }
}
