//! Redirects: a Bash line that is one simple command that reads a file is answered by Read, with the
//! output that bash would print.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Project, says, text};
use crate::support::server::{self, Server};

fn project() -> Project {
    let test = Test::new();
    let numbered: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    for (path, text) in [
        ("numbers.txt", numbered.as_str()),
        ("two words.txt", "one\ntwo"),
        ("src/a.rs", "fn main() {}\n// TODO: one\n"),
        ("src/deep/b.rs", "// todo: two\n"),
        ("src/notes.md", "TODO later\n"),
        ("README.md", "# Title\n"),
    ] {
        test.write(path, text);
    }
    test.write("binary", b"\x00\x01\x02TODO\n");
    test.write("wide.txt", format!("{}needle\n", "x".repeat(3000)));
    Project::of(test)
}

fn bash(project: &Project, line: &str) -> BTreeSet<String> {
    let mut command = Command::new("bash");
    let output = command.args(["-c", line]).current_dir(project.test.root()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The answer as a set of lines in bash's format.
fn printed(answer: &Value) -> BTreeSet<String> {
    let data = &answer["data"];
    assert_eq!(data["redirected_to"]["tool"], "Read", "{answer}");
    let unnumbered = |line: &str| line.split_once(" | ").map(|(_, text)| text.to_owned());
    data["content"].as_str().unwrap().lines().filter_map(unnumbered).collect()
}

#[test]
fn redirected_line_has_the_output_of_bash() {
    let mut project = project();
    for line in [
        "cat numbers.txt",
        "cat 'two words.txt'",
        "cat \"src/a.rs\"",
        "head numbers.txt",
        "head -n 3 numbers.txt",
        "head -5 numbers.txt",
        "tail numbers.txt",
        "tail -n 4 numbers.txt",
        "tail -n +38 numbers.txt",
        "sed -n 5,9p numbers.txt",
        "sed -n '38,$p' numbers.txt",
        "cat numbers.txt | head -n 2",
        "cat numbers.txt | sed -n '4p'",
    ] {
        let answer = project.call("Bash", &json!({"command": line}));
        assert!(answer["error"].is_null(), "{line}: {answer}");
        assert_eq!(printed(&answer), bash(&project, line), "{line}: {answer}");
        says(&answer, "/text", "Use Read tool instead of Bash");
    }
}

#[test]
fn other_lines_run_in_bash() {
    let mut project = project();
    for line in [
        "cat numbers.txt src/a.rs",
        "cat binary | wc -c",
        "cat numbers.txt | grep 7",
        "wc -l numbers.txt",
        "ls",
        "ls -A src",
        "head -c 3 numbers.txt",
        "grep -c line numbers.txt",
        "grep -rn TODO src",
        "grep -rn TODO src | head",
        "find . -type f -name '*.md'",
        "cat $HOME/none 2>&1 | head -n 1",
        "cd src && cat a.rs",
        // Read cuts long lines.
        "cat wide.txt",
    ] {
        let answer = project.call("Bash", &json!({"command": line}));
        assert_eq!(answer["data"]["redirected_to"], Value::Null, "{line}: {answer}");
        assert!(answer["data"]["stdout"].is_string(), "{line}: {answer}");
    }
    // Errors are those of bash.
    for (line, stderr) in [("cat none.txt", "No such file"), ("cat src", "Is a directory")] {
        let answer = project.fails("Bash", &json!({"command": line}), "COMMAND_FAILED");
        says(&answer, "/data/stderr", stderr);
    }
    // More lines than fit in one answer.
    let long: String = (0..5000).map(|n| format!("row {n}\n")).collect();
    project.test.write("long.txt", &long);
    let answer = project.call("Bash", &json!({"command": "cat long.txt"}));
    says(&answer, "/text", "Read lines 1-2000 of 5000 of long.txt; continue with start_line 2001.");
    assert_eq!((&answer["status"], answer["data"].get("full_output")), (&json!("partial"), None));
}

#[test]
fn permission_rules_apply_to_redirected_lines() {
    let test = Test::new().file(".env", "KEY=abcdefgh12345678\n").file("secret/a.txt", "hidden\n");
    let deny = ["tool", "batch", "--deny", "Read(secret/**)"];
    let mut batch = crate::support::batch::Batch::start(&mut test.command(&deny));
    for line in ["cat .env", "cat secret/a.txt"] {
        let answer = batch.call("Bash", &json!({"command": line}));
        assert_eq!(answer["data"]["redirected_to"], Value::Null, "{line}: {answer}");
        let said = answer.to_string();
        assert!(!said.contains("abcdefgh12345678") && !said.contains("hidden\\n"), "{said}");
    }
}

/// One line costs one call, and the file counts as read.
#[test]
fn redirected_line_counts_as_a_read_without_an_extra_call() {
    let server = Server::playing([
        server::sse_calls(&[("Bash", json!({"command": "cat a.txt", "shell": "zsh"}))]),
        server::sse_calls(&[(
            "Edit",
            json!({"path": "a.txt", "old_string": "one", "new_string": "two"}),
        )]),
        server::sse_text("done"),
    ]);
    let config = format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config).file("a.txt", "one\n");
    test.agent(&["run", "change it"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "two\n");
    let requests = server.finish();
    let read = requests[1].json();
    let messages = read["messages"].as_array().unwrap();
    let result = text(messages.last().unwrap(), "/content");
    assert!(
        result.contains("Use Read tool instead of Bash: {\"path\":\"a.txt\"}. Read all of a.txt")
            && result.contains("1 | one"),
        "{result}"
    );
    // The tool that answered and the ignored argument are each mentioned once.
    assert!(result.contains(" Ignored: shell.") && !result.contains("redirected_to"), "{result}");
    // The call keeps the name and arguments that the model used.
    let call = &messages[messages.len() - 2]["tool_calls"][0]["function"];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("Bash"), &json!("{\"command\":\"cat a.txt\",\"shell\":\"zsh\"}"))
    );
}

#[test]
fn not_read_error_contains_the_file_and_the_edit_can_be_repeated() {
    let edit = "call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}";
    let script = format!("{edit}\n---\nwhen: 1 . one\n{edit}\n---\ntext: done");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    test.run(&["change it"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "two\n");
    let codes: Vec<Value> = test
        .events_of("tool.finished")
        .iter()
        .map(|e| e["envelope"]["error"]["code"].clone())
        .collect();
    assert_eq!(codes, [json!("NOT_READ"), Value::Null]);
}

#[test]
fn failed_change_does_not_reveal_unreadable_files() {
    let test = Test::new()
        .file(".env", "KEY=abcdefgh12345678\n")
        .file("secret/a.txt", "hidden\n")
        .file("asked/a.txt", "hidden\n");
    let test = test.user_config("[permissions]\nask = [\"Read(asked/**)\"]\n");
    let deny = ["tool", "batch", "--deny", "Read(secret/**)"];
    let mut batch = crate::support::batch::Batch::start(&mut test.command(&deny));
    for path in [".env", "secret/a.txt", "asked/a.txt"] {
        let edit = json!({"path": path, "old_string": "a", "new_string": "b"});
        let write = json!({"path": path, "content": "x"});
        let edits = json!({"path": path, "edits": [{"old_string": "a", "new_string": "b"}]});
        for (tool, input) in [("Edit", edit), ("Write", write), ("MultiEdit", edits)] {
            let answer = batch.call(tool, &input);
            assert_eq!(answer["error"]["code"], "NOT_READ", "{tool} {path}: {answer}");
            let said = answer.to_string();
            assert!(!said.contains("abcdefgh12345678") && !said.contains("hidden"), "{said}");
        }
    }
    // A file that the session wrote and then another process changed.
    batch.call("Write", &json!({"path": "sub/.env", "content": "A=1\n"}));
    test.write("sub/.env", "KEY=abcdefgh12345678\n");
    let edit = json!({"path": "sub/.env", "old_string": "A=1", "new_string": "A=2"});
    let answer = batch.call("Edit", &edit);
    assert_eq!(answer["error"]["code"], "CONFLICT", "{answer}");
    assert!(!answer.to_string().contains("abcdefgh12345678"), "{answer}");
    // It was not shown, so it does not count as read.
    let answer = batch.call("Edit", &edit);
    assert_eq!(answer["error"]["code"], "NOT_READ", "{answer}");
}

#[test]
fn write_requires_that_the_whole_file_was_shown() {
    let mut project = project();
    let long: String = (1..=800).map(|n| format!("row {n}\n")).collect();
    project.test.write("long.txt", &long);
    let write = |path: &str| json!({"path": path, "content": "new\n"});
    // Reading a part, or seeing it through a redirect, is not enough.
    project.ok("Read", &json!({"path": "numbers.txt", "limit": 3}));
    let answer = project.fails("Write", &write("numbers.txt"), "NOT_READ");
    says(&answer, "/data/content", "40 | line 40");
    project.ok("Write", &write("numbers.txt"));
    project.call("Bash", &json!({"command": "head -3 long.txt"}));
    let answer = project.fails("Write", &write("long.txt"), "NOT_READ");
    says(&answer, "/data/content", "4 | row 4\n");
    says(&answer, "/error/hint", "start_line 504");
    project.ok("Read", &json!({"path": "long.txt", "start_line": 504}));
    project.ok("Write", &write("long.txt"));
    // An edit only needs the part.
    project.test.write("long.txt", &long);
    project.ok("Read", &json!({"path": "long.txt", "limit": 3}));
    project.ok("Edit", &json!({"path": "long.txt", "old_string": "row 700\n", "new_string": ""}));
    project.fails("Write", &write("long.txt"), "NOT_READ");
}

#[test]
fn lines_cut_by_the_output_limit_do_not_count_as_shown() {
    let line = "a line of about sixty characters, so that there is much of it\n";
    let config = "[context]\ntool_output_max_bytes = 4096\n";
    let test = Test::new().user_config(config).file("a.txt", line.repeat(300)).script(concat!(
        "call: Read {\"path\": \"a.txt\", \"limit\": 2000}\n---\n",
        "call: Write {\"path\": \"a.txt\", \"content\": \"x\"}\n---\n",
        "call: Write {\"path\": \"a.txt\", \"content\": \"x\"}\n---\ntext: done"
    ));
    test.run(&["task"]).expect_code(0);
    let finished = test.events_of("tool.finished");
    let codes: Vec<&Value> = finished.iter().map(|e| &e["envelope"]["error"]["code"]).collect();
    assert_eq!(codes, [&Value::Null, &json!("NOT_READ"), &json!("NOT_READ")]);
    assert_eq!(test.read("a.txt"), line.repeat(300));
    // What follows the cut is named, with no gap before it; nothing is copied.
    let [read, write] = [0, 1].map(|n| &finished[n]["envelope"]);
    let end = read["data"]["end_line"].as_u64().unwrap();
    let content = read["data"]["content"].as_str().unwrap();
    assert!((50..65).contains(&end) && content.lines().count() as u64 == end, "{end}");
    let expected =
        format!("Read lines 1-{end} of 300 of a.txt; continue with start_line {}.", end + 1);
    assert_eq!(read["text"], expected);
    let last = write["data"]["content"].as_str().unwrap().lines().last().unwrap();
    let last: u64 = last.split_once(" | ").unwrap().0.parse().unwrap();
    let hint = format!("its lines {}-{last} are below", end + 1);
    let hint = (hint, format!("read on from start_line {}", last + 1));
    let shown = write["error"]["hint"].as_str().unwrap();
    assert!(shown.starts_with(&hint.0) && shown.contains(&hint.1), "{shown}");
    for envelope in [read, write] {
        assert_eq!(envelope["data"].get("full_output"), None, "{envelope}");
    }
}

#[test]
fn conflict_shows_only_what_changed() {
    let mut project = project();
    let rows: Vec<String> = (1..=3000).map(|n| format!("row {n}\n")).collect();
    project.test.write("long.txt", rows.concat());
    project.ok("Read", &json!({"path": "long.txt", "start_line": 2000, "limit": 3}));
    project.test.write("long.txt", rows.concat().replace("row 2001\n", "changed\n"));
    let edit = json!({"path": "long.txt", "old_string": "row 2001", "new_string": "x"});
    let answer = project.fails("Edit", &edit, "CONFLICT");
    says(&answer, "/data/diff_preview", "-row 2001\n+changed");
    assert_eq!(answer["data"].get("content"), None, "{answer}");
}

#[test]
fn lines_shown_earlier_still_count_if_a_later_read_is_cut() {
    let text = "a line of about sixty characters, so that there is much of it\n".repeat(100);
    let config = "[context]\ntool_output_max_bytes = 4096\n";
    let read = |from: u32, limit: u32| {
        let input = json!({"path": "a.txt", "start_line": from, "limit": limit});
        format!("call: Read {input}\n---\n")
    };
    let write = "call: Write {\"path\": \"a.txt\", \"content\": \"x\"}\n---\ntext: done";
    let script = read(1, 50) + &read(51, 50) + &read(1, 100) + write;
    let test = Test::new().user_config(config).file("a.txt", &text).script(&script);
    test.run(&["task"]).expect_code(0);
    let finished = test.events_of("tool.finished");
    assert_eq!(finished[2]["envelope"]["status"], "partial", "the third reading was cut");
    assert_eq!(test.read("a.txt"), "x");
}

#[test]
fn repeated_results_and_caches_cost_nothing() {
    let make = "mkdir -p src/__pycache__ c; touch c/CACHEDIR.TAG c/x src/__pycache__/a.pyc; \
                for n in $(seq 10 33); do echo $n > src/$n; done";
    let read = || server::sse_calls(&[("Read", json!({"path": "a.txt"}))]);
    let bash = server::sse_calls(&[("Bash", json!({"command": make}))]);
    let server = Server::playing([read(), read(), bash, server::sse_text("done")]);
    let config = format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config).file("a.txt", "one line\nanother\n");
    test.agent(&["run", "task", "--allow", "Bash"]).expect_code(0);
    let requests = server.finish();
    let last = requests[3].json();
    let messages = last["messages"].as_array().unwrap();
    let results: Vec<&str> =
        messages.iter().filter(|it| it["role"] == "tool").map(|it| text(it, "/content")).collect();
    let note = "Note: this is the same call with the same answer as before.";
    assert_eq!(results[1], format!("Read all of a.txt (2 lines). {note}"));
    let changed = "\"src/18\",\"src/19\",\"and 14 more in src\"]";
    assert!(results[2].contains(changed) && !results[2].contains("pyc"), "{}", results[2]);
}
