//! The tools in the binary: `agent tool list`, `call` and `batch`.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::Test;

fn code(envelope: &Value) -> &str {
    envelope["error"]["code"].as_str().unwrap_or("none")
}

#[test]
fn envelope_has_exactly_the_documented_fields() {
    let test = Test::new().file("a.txt", "one\ntwo\n");
    let envelope = test.call("Read", &json!({"path": "a.txt"}));
    let fields: Vec<&String> = envelope.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["status", "data", "text", "stats", "context"]);
    assert_eq!(envelope["status"], "success");
    assert_eq!(envelope["data"]["content"], "1 | one\n2 | two");
    assert_eq!(envelope["context"]["params_input"], json!({"path": "a.txt"}));
    assert_eq!(envelope["context"]["path_resolved"], "a.txt");
    assert!(envelope["stats"]["time_ms"].is_u64());

    let envelope = test.call("Read", &json!({"path": "b.txt"}));
    let fields: Vec<&String> = envelope.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["status", "error", "data", "text", "stats", "context"]);
    assert_eq!(code(&envelope), "NOT_FOUND");
    assert!(envelope["error"]["hint"].as_str().unwrap().contains("a.txt"));
}

#[test]
fn tool_call_exit_code_is_0_1_or_2() {
    let test = Test::new().file("a.txt", "one\n");
    test.agent(&["tool", "call", "Read", r#"{"path":"a.txt"}"#]).expect_code(0);
    test.agent(&["tool", "call", "Read", r#"{"path":"b.txt"}"#]).expect_code(1);
    test.agent(&["tool", "call", "Read", "path"]).expect_code(2).expect_stdout("");
    let unknown = test.call("Raed", &json!({}));
    assert_eq!(code(&unknown), "UNKNOWN_TOOL");
    assert!(!test.root().join(".agent").exists(), "a call without a session leaves nothing behind");
}

#[test]
fn tool_list_contains_every_tool_and_its_schema() {
    let test = Test::new();
    let names: Vec<Value> = test
        .agent(&["tool", "list"])
        .expect_code(0)
        .lines()
        .iter()
        .map(|line| line["name"].clone())
        .collect();
    let expected = [
        "LS",
        "Glob",
        "Grep",
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "Bash",
        "WebFetch",
        "TodoWrite",
        "AskUser",
    ];
    assert_eq!(names, expected);
}

#[test]
fn batch_answers_each_line_and_shares_read_state() {
    let test = Test::new().file("a.txt", "one\n").stdin(
        "{\"id\":\"x\",\"name\":\"Read\",\"input\":{\"path\":\"a.txt\"}}\n\
         no call\n\
         {\"id\":2,\"name\":\"Edit\",\"input\":{\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"two\"}}\n",
    );
    let done = test.agent(&["tool", "batch"]).expect_code(2);
    let lines = done.lines();
    assert_eq!(lines[0]["id"], "x");
    assert_eq!(lines[1]["id"], Value::Null);
    assert_eq!(code(&lines[1]["envelope"]), "INVALID_PARAM");
    assert_eq!(lines[2]["id"], 2);
    assert_eq!(lines[2]["envelope"]["status"], "success");
    assert_eq!(test.read("a.txt"), "two\n");
}

/// The envelopes in lines of JSON, byte for byte.
fn envelopes(lines: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Line {
        envelope: Option<Box<serde_json::value::RawValue>>,
    }
    let lines = lines.lines().map(|line| serde_json::from_str::<Line>(line).expect(line));
    lines.filter_map(|line| Some(line.envelope?.get().to_owned())).collect()
}

#[test]
fn log_and_standard_output_contain_the_same_envelopes() {
    let test = Test::new()
        .file("a.txt", "tab\tquote\" back\\slash\r\nändert \u{1}\u{7f} 🦀\n")
        .file("key.txt", "first\nAKIAIOSFODNN7EXAMPLE\n")
        .stdin(
            "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"a.txt\"}}\n\
             {\"id\":2,\"name\":\"Read\",\"input\":{\"path\":\"key.txt\"}}\n\
             {\"id\":3,\"name\":\"Read\",\"input\":{\"path\":\"b.txt\"}}\n\
             {\"id\":4,\"name\":\"Edit\",\"input\":{\"path\":\"a.txt\",\"old_string\":\"tab\",\"new_string\":\"AKIAIOSFODNN7EXAMPLF\"}}\n\
             {\"id\":\"AKIAIOSFODNN7EXAMPLE\",\"name\":\"Read\",\"input\":{\"path\":\"a.txt\",\"limit\":1}}\n",
        );
    let done = test.agent(&["tool", "batch", "--record"]).expect_code(0);
    let log = std::fs::read_to_string(test.log()).unwrap();
    let shown = envelopes(&done.stdout);
    assert_eq!(shown.len(), 5);
    assert_eq!(shown, envelopes(&log));
    assert!(!done.stdout.contains("AKIA") && !log.contains("AKIA"));
    assert_eq!(done.lines()[4]["id"], "[redacted:aws-key]");
}

#[test]
fn unread_file_cannot_be_changed() {
    let test = Test::new().file("a.txt", "one\n");
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
    let envelope = test.call("Edit", &edit);
    assert_eq!(code(&envelope), "NOT_READ");
    assert_eq!(envelope["error"]["message"], "File not read. You must read before editing.");
    let write = test.call("Write", &json!({"path": "a.txt", "content": "x\n"}));
    assert_eq!(code(&write), "NOT_READ");
    let edits = json!([{"old_string": "one", "new_string": "two"}]);
    let multi = test.call("MultiEdit", &json!({"path": "a.txt", "edits": edits}));
    assert_eq!(code(&multi), "NOT_READ");
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn lock_fields_are_injected_and_model_values_ignored() {
    let test = Test::new().file("a.txt", "one\n");
    let edit = json!({
        "path": "a.txt", "old_string": "one", "new_string": "two", "file_size_bytes": 999
    });
    let envelopes = test.batch(&[("Read", json!({"path": "a.txt"})), ("Edit", edit)]);
    assert_eq!(envelopes[1]["status"], "success");
    let input = &envelopes[1]["context"]["params_input"];
    assert_eq!(input["file_size_bytes"], 4);
    assert!(input["file_mtime_ms"].is_u64());
}

#[test]
fn an_edit_of_a_file_changed_on_disk_is_refused() {
    let test = Test::new().file("a.txt", "one\nmine\n");
    let read = || ("Read", json!({"path": "a.txt"}));
    let edit = || ("Edit", json!({"path": "a.txt", "old_string": "mine", "new_string": "yours"}));
    let change = || ("Bash", json!({"command": "true; sed -i s/one/1/ a.txt"}));
    let mut command = vec![read(), change(), edit(), edit(), read(), edit()];
    let envelopes = {
        let lines: String = command
            .drain(..)
            .enumerate()
            .map(|(id, (name, input))| {
                format!("{}\n", json!({"id": id, "name": name, "input": input}))
            })
            .collect();
        let test = Test::new().file("a.txt", "one\nmine\n").stdin(lines);
        let done = test.agent(&["tool", "batch", "--allow", "Bash"]).expect_code(0);
        assert_eq!(test.read("a.txt"), "1\nyours\n");
        done.lines().iter().map(|line| line["envelope"].clone()).collect::<Vec<_>>()
    };
    let conflict = &envelopes[2];
    assert_eq!(code(conflict), "CONFLICT");
    assert!(
        conflict["error"]["message"].as_str().unwrap().starts_with("File changed since last read")
    );
    assert!(conflict.to_string().contains("-one"), "the diff since the read: {conflict}");
    assert!(conflict.to_string().contains("+1"), "the diff since the read: {conflict}");
    assert_eq!(envelopes[3]["status"], "success", "the conflict showed the file");
    assert_eq!(code(&envelopes[5]), "NO_MATCH", "it was made already");
    drop(test);
}

#[test]
fn repeated_call_is_noted_then_refused() {
    let test = Test::new().file("a.txt", "one\n");
    let read = || ("Read", json!({"path": "a.txt"}));
    let other = ("Write", json!({"path": "b.txt", "content": "x\n"}));
    let envelopes = test.batch(&[read(), read(), read(), other, read()]);
    assert_eq!(envelopes[0]["status"], "success");
    assert!(envelopes[1]["text"].as_str().unwrap().contains("same call"));
    assert_eq!(code(&envelopes[2]), "REPEATED_CALL");
    assert_eq!(envelopes[4]["status"], "success", "something changed in between");
}

#[test]
fn equivalent_arguments_count_as_the_same_call() {
    let test = Test::new().file("src/a.txt", "one\n");
    let absolute = test.root().join("src/a.txt").display().to_string();
    let check = |calls: &[(&str, Value)]| {
        let envelopes = test.batch(calls);
        let last = envelopes.last().unwrap();
        assert_eq!(code(last), "REPEATED_CALL", "{calls:?}: {last}");
    };
    check(&[
        ("Read", json!({"path": "src/a.txt"})),
        ("Read", json!({"path": "./src/../src/a.txt", "limit": 500})),
        ("Read", json!({"path": absolute, "start_line": 1})),
    ]);
    check(&[
        ("Grep", json!({"pattern": "one", "file_pattern": "*.txt"})),
        ("Grep", json!({"pattern": "one", "path": ".", "include": "*.txt", "context": 0})),
        ("Grep", json!({"pattern": "one", "path": "src/..", "file_pattern": "*.txt"})),
    ]);
    let bash = |directory: &str, description: &str| {
        let input = json!({"command": "sort a.txt; true", "directory": directory, "description": description});
        ("Bash", input)
    };
    check(&[
        bash("src", "sorts"),
        bash("./src", "sorts it again"),
        bash("src/", "once more"),
        bash("src", "and again"),
        bash("src", "the fifth"),
    ]);
}

#[test]
fn oversized_output_is_truncated_and_stored_whole() {
    let text: String = (1..=3000).map(|n| format!("line {n}\n")).collect();
    let test = Test::new().file("big.txt", &text).script(
        "call: Bash {\"command\": \"cat big.txt; echo the end\"}\n---\n\
         expect: tool-output\ntext: {{last.text}}",
    );
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    let finished = &test.events_of("tool.finished")[0]["envelope"];
    assert_eq!(finished["status"], "partial");
    assert_eq!(finished["data"]["truncated"], true);
    let shown = finished["data"]["stdout"].as_str().unwrap();
    assert!(shown.starts_with("line 1\nline 2\n") && shown.ends_with("line 3000\nthe end\n"));
    assert!(shown.lines().count() < 100);
    let whole = finished["data"]["full_output"].as_str().unwrap();
    let sessions = test.sessions().canonicalize().unwrap();
    assert!(std::path::Path::new(whole).starts_with(sessions), "{whole}");
    assert_eq!(std::fs::read_to_string(whole).unwrap(), format!("{text}the end\n"));
}

#[test]
fn output_of_commands_reaches_the_model_without_escape_sequences() {
    let command = r"printf '\033[32mok\033[0m\n1%%\r100%%\n'; false; echo $TERM";
    let input = json!({"command": command});
    let test = Test::new().script(&format!("call: Bash {input}\n---\ntext: {{{{last.text}}}}"));
    let done = test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(done.stdout.contains("\nok\n100%\ndumb"), "{}", done.stdout);
    // The log keeps what the command printed.
    let envelope = &test.events_of("tool.finished")[0]["envelope"];
    assert_eq!(envelope["data"]["stdout"], "\u{1b}[32mok\u{1b}[0m\n1%\r100%\ndumb\n");
    let text = envelope["text"].as_str().unwrap();
    assert!(text.starts_with("Exited 0, but `false` exited 1."), "{text}");
}

#[test]
fn bash_reports_the_failed_pipeline_stage() {
    let test = Test::new();
    let call = |command: &str| {
        let input = json!({"command": command}).to_string();
        let done = test.agent(&["tool", "call", "Bash", &input, "--allow", "Bash"]);
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    };
    let envelope = call("cat nowhere | sort");
    assert_eq!(envelope["status"], "partial");
    assert_eq!(envelope["data"]["stages"][0]["exit_code"], 1);
    assert!(envelope["text"].as_str().unwrap().contains("stage 1/2"), "{envelope}");
    let envelope = call("false | cat; echo $(ls); ls nofile; true");
    let text = envelope["text"].as_str().unwrap();
    let failed = "Exited 0, but stage 1/2 `false` exited 1, `ls nofile` exited 2.";
    assert_eq!(text, failed, "{envelope}");
    let envelope = call("exit 3");
    assert_eq!(code(&envelope), "COMMAND_FAILED");
    assert_eq!(envelope["data"]["exit_code"], 3);
    let envelope = call("yes | head -1");
    assert_eq!(envelope["status"], "success", "{envelope}");
    let envelope = call("cat; echo end");
    assert_eq!(envelope["data"]["stdout"], "end\n", "no input: end of file at once");
}

#[test]
fn modes_and_rules_apply_to_tool_calls() {
    let test = Test::new().file("a.txt", "one\n");
    let call = |name: &str, input: Value, options: &[&str]| {
        let input = input.to_string();
        let mut args = vec!["tool", "call", name, &input];
        args.extend(options);
        let done = test.agent(&args);
        serde_json::from_str::<Value>(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    };
    let write = || json!({"path": "new.txt", "content": "x\n"});
    let read_only = ["--permission-mode", "read-only"];
    assert_eq!(code(&call("Write", write(), &read_only)), "ACCESS_DENIED");
    let ask = ["--permission-mode", "ask"];
    assert_eq!(code(&call("Write", write(), &ask)), "APPROVAL_REQUIRED");
    assert_eq!(code(&call("Write", write(), &["--deny", "Write(*.txt)"])), "ACCESS_DENIED");
    assert!(!test.root().join("new.txt").exists());
    let unsandboxed = ["--set", "sandbox.enabled=false"];
    let refused = call("Bash", json!({"command": "touch x"}), &unsandboxed);
    assert_eq!(code(&refused), "APPROVAL_REQUIRED");
    assert!(refused["error"]["message"].as_str().unwrap().contains("--allow 'Bash(touch x)'"));
    let echo = || json!({"command": "echo hi"});
    assert_eq!(call("Bash", echo(), &unsandboxed)["status"], "success", "it only reads");
    assert_eq!(call("Bash", echo(), &["--allow", "Bash(echo *)"])["status"], "success");
    assert_eq!(call("Bash", echo(), &["-y"])["status"], "success");
    let never = call("Bash", json!({"command": "rm -rf /"}), &["-y"]);
    assert_eq!(code(&never), "COMMAND_BLOCKED");
    for path in [".git/config", ".agent/config.toml"] {
        let denied = call("Write", json!({"path": path, "content": "x"}), &["-y"]);
        assert_eq!(code(&denied), "ACCESS_DENIED", "{path}");
    }
}

#[test]
fn paths_outside_the_project_are_denied() {
    let test = Test::new().file("a.txt", "one\n");
    std::os::unix::fs::symlink("/etc", test.root().join("link")).unwrap();
    for path in ["../home", "/etc/passwd", "link/passwd", "a/../../x"] {
        for (name, input) in [
            ("Read", json!({"path": path})),
            ("LS", json!({"path": path})),
            ("Grep", json!({"path": path, "pattern": "x"})),
            ("Glob", json!({"path": path, "pattern": "*"})),
            ("Write", json!({"path": path, "content": "x"})),
        ] {
            let envelope = test.call(name, &input);
            assert_eq!(code(&envelope), "ACCESS_DENIED", "{name} {path}");
        }
    }
}

#[test]
fn added_directory_is_accessible() {
    let test = Test::new();
    let other = test.home().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "two\n").unwrap();
    let path = other.canonicalize().unwrap().join("b.txt");
    let input = json!({"path": path}).to_string();
    test.agent(&["tool", "call", "Read", &input]).expect_code(1);
    let add = other.to_str().unwrap();
    test.agent(&["tool", "call", "Read", &input, "--add-dir", add]).expect_code(0);
}

#[test]
fn reads_of_one_answer_run_concurrently_with_results_in_order() {
    let reads: String = (0..8).map(|n| format!("call: Read {{\"path\": \"{n}.txt\"}}\n")).collect();
    let mut test = Test::new().script(&format!("{reads}---\ntext: ok"));
    for n in 0..8 {
        // Large enough that none finishes before the next one starts.
        test = test.file(&format!("{n}.txt"), format!("file {n}\n{}", "x".repeat(8 << 20)));
    }
    test.run(&["task"]).expect_code(0);
    let calls = test.events_of("model.responded")[0]["calls"].clone();
    let responded: Vec<&Value> = calls.as_array().unwrap().iter().map(|c| &c["id"]).collect();
    let events = test.events();
    let first_finished = events.iter().position(|e| e["type"] == "tool.finished").unwrap();
    let started = events[..first_finished].iter().filter(|e| e["type"] == "tool.started").count();
    assert!(started > 1, "they were started together");
    // The model sees results in call order, whatever order they finished in.
    let test = test.script("when: file 0[\\s\\S]*file 1[\\s\\S]*file 7\ntext: in order");
    test.run(&["next", "-c"]).expect_code(0).expect_stdout("in order\n");
    assert_eq!(responded.len(), 8);
}

#[test]
fn null_argument_means_absent() {
    let test = Test::new().file("a.txt", "one\n");
    let envelopes = test.batch(&[
        ("Read", json!({"path": "a.txt", "limit": null, "start_line": null})),
        ("LS", json!({"path": null})),
        ("Grep", json!({"pattern": "one", "context": null, "file_pattern": null})),
    ]);
    for envelope in &envelopes {
        assert_eq!(envelope["status"], "success", "{envelope}");
    }
}

#[test]
fn invalid_utf8_line_is_answered_and_the_batch_continues() {
    let mut lines = b"\xff\xfe{}\n".to_vec();
    lines.extend(b"{\"id\":1,\"name\":\"LS\",\"input\":{}}\n");
    let test = Test::new().stdin(lines);
    let done = test.agent(&["tool", "batch"]).expect_code(2);
    assert_eq!(code(&done.lines()[0]["envelope"]), "INVALID_PARAM");
    assert_eq!(done.lines()[1]["envelope"]["status"], "success");
}

#[test]
fn sigterm_ends_a_batch_waiting_for_input() {
    use std::io::{BufRead as _, Write as _};
    let test = Test::new();
    let mut child =
        test.command(&["tool", "batch"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"id\":1,\"name\":\"LS\",\"input\":{}}\n").unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    crate::support::signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn output_stored_without_a_session_is_kept_for_a_day() {
    let test = Test::new();
    let place = test.home().join("tmp");
    let test = test.env("TMPDIR", place.to_str().unwrap());
    let day = std::time::Duration::from_hours(24);
    for (name, age) in
        [("agent-tool-output-1", day * 2), ("agent-tool-output-2", day / 2), ("somebodys", day * 2)]
    {
        let folder = place.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.txt"), "a\n").unwrap();
        let time = std::time::SystemTime::now() - age;
        std::fs::File::open(&folder).unwrap().set_modified(time).unwrap();
    }
    let answer = test.call("Bash", &json!({"command": "seq 100000"}));
    let whole = answer["data"]["full_output"].as_str().unwrap();
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(std::fs::read_to_string(whole).unwrap(), expected);
    let own = std::path::Path::new(whole).parent().unwrap().file_name().unwrap().to_str().unwrap();
    let mut left: Vec<String> = std::fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let mut expected = ["agent-tool-output-2", own, "somebodys"];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[test]
fn message_of_the_user_starts_the_count_of_repeated_calls_again() {
    let look = "call: Glob {\"pattern\": \"*.txt\"}\n---\n";
    let script = format!("{look}{look}text: one file\n---\n{look}text: two files");
    let test = Test::new().file("a.txt", "x\n").script(&script);
    let mut chat = test.command(&["--plain", "--model", "script:../script"]);
    let mut chat = chat
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = chat.stdin.take().unwrap();
    writeln!(input, "which files?").unwrap();
    crate::support::wait_for(|| test.try_log().is_some() && test.has_event("turn.finished"));
    test.write("b.txt", "x\n");
    writeln!(input, "and now?").unwrap();
    drop(input);
    chat.wait().unwrap();
    let results = test.events_of("tool.finished");
    let codes: Vec<&Value> = results.iter().map(|result| &result["envelope"]["status"]).collect();
    assert_eq!(codes, ["success", "success", "success"], "{results:?}");
    assert!(results[2].to_string().contains("b.txt"), "{}", results[2]);
}

#[test]
fn message_over_a_quarter_of_the_window_is_cut_and_the_user_is_told() {
    let test = Test::new().script("text: ok");
    let config = ["--set", "models.\"script:../script\".context_window=8000"];
    let long = "word ".repeat(3000);
    let done = test.stdin(long).run(&[&["-"][..], &config].concat());
    done.expect_code(0).expect_stderr("it receives the beginning and the end");
}
