//! Background commands: start, read output, kill; undo of changes made by commands.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Test;
use crate::support::batch::Project;

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "background": true})
}

fn lives(pid: i64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

#[test]
fn output_is_read_incrementally_and_the_exit_is_reported() {
    let mut project = Project::new(&[("go", "")]);
    let command =
        "echo one; echo two >&2; until [ -s go ]; do sleep 0.02; done; echo three; exit 3";
    let started = project.ok("Bash", &bash(command));
    assert_eq!(started["data"], json!({"background_id": "bg_1"}));
    let wait = json!({"id": "bg_1", "wait_ms": 20_000});
    let first = project.ok("BashOutput", &wait);
    assert_eq!(
        (&first["data"]["stdout"], &first["data"]["running"]),
        (&json!("one\n"), &json!(true))
    );
    assert_eq!(first["data"]["stderr"], "two\n");
    let none = project.ok("BashOutput", &json!({"id": "bg_1"}));
    assert_eq!(none["data"]["stdout"], "", "what was read is not told again");
    project.test.write("go", "x");
    let mut rest = String::new();
    let begun = Instant::now();
    let last = loop {
        assert!(begun.elapsed() < Duration::from_mins(1), "it does not end: {rest:?}");
        let piece = project.ok("BashOutput", &wait);
        rest.push_str(piece["data"]["stdout"].as_str().unwrap());
        if piece["data"]["running"] == false {
            break piece;
        }
    };
    assert_eq!(rest, "three\n");
    assert_eq!(last["data"]["exit_code"], 3);
    assert!(last["text"].as_str().unwrap().contains("bg_1 exited 3"), "{last}");
    // All output is in one file.
    let whole = last["data"]["full_output"].as_str().unwrap();
    let whole = project.ok("Read", &json!({"path": whole}));
    for line in ["one", "two", "three"] {
        assert!(whole["data"]["content"].as_str().unwrap().contains(line), "{whole}");
    }
}

#[test]
fn earlier_tools_are_parameters_of_bash() {
    let test = Test::new().script(&format!(
        "call: Bash {}\n---\ncall: bash_output {{\"bash_id\": \"bg_1\", \"wait_ms\": 20000}}\n---\n\
         expect: The name of this tool is Bash, not bash_output\ncall: BashKill {{\"id\": \"bg_1\"}}\n---\n\
         expect: bg_1 was ended\ntext: done",
        bash("echo begun; sleep 300.6")
    ));
    test.run(&["go"]).expect_code(0).expect_stdout("done\n");
    let started = test.events_of("tool.started");
    assert!(started.iter().all(|event| event["tool"] == "Bash"), "{started:?}");
    let [read, kill] = [&started[1], &started[2]].map(|event| (&event["input"], &event["effect"]));
    assert_eq!(*read.0, json!({"background": "bg_1", "timeout_ms": 20000}));
    assert_eq!(*read.1, json!({"kind": "job", "id": "bg_1"}));
    assert_eq!(*kill.0, json!({"kill": "bg_1"}));
    assert_eq!(*kill.1, json!({"kind": "job", "id": "bg_1", "kills": true}));
}

#[test]
fn rule_about_the_end_of_background_commands_concerns_nothing_else() {
    let script = format!(
        "call: Bash {}\n---\ncall: Bash {{\"background\": \"bg_1\"}}\n---\n\
         call: Bash {{\"kill\": \"bg_1\"}}\n---\ntext: done",
        bash("sleep 300.9")
    );
    for deny in [["--deny", "BashKill"], ["--disallowedTools", "KillShell"]] {
        let test = Test::new().script(&script);
        test.run(&[&["go"][..], &deny].concat());
        let finished = test.events_of("tool.finished");
        let codes: Vec<_> = finished.iter().map(|it| &it["envelope"]["error"]["code"]).collect();
        assert_eq!(codes, [&json!(null), &json!(null), &json!("ACCESS_DENIED")], "{deny:?}");
    }
}

#[test]
fn command_and_id_exclude_each_other() {
    let mut project = Project::new(&[]);
    for input in [json!({}), json!({"background": true}), json!({"command": "ls", "kill": "bg_1"})]
    {
        project.fails("Bash", &input, "INVALID_PARAM");
    }
    // Some models fill in every parameter, and write all values as texts.
    let filled = json!({"command": "echo a", "background": "false", "kill": ""});
    assert_eq!(project.ok("Bash", &filled)["data"]["stdout"], "a\n");
    let started = json!({"command": "sleep 1000", "background": "true"});
    assert_eq!(project.ok("Bash", &started)["data"]["background_id"], "bg_1");
    let killed = json!({"command": "", "background": true, "kill": "bg_1"});
    assert_eq!(project.ok("Bash", &killed)["data"]["running"], false);
}

#[test]
fn kill_ends_all_processes_of_a_command() {
    let mut project = Project::new(&[]);
    project.ok("Bash", &bash("setsid sleep 1000 & echo $!; sleep 1000"));
    let first = project.ok("Bash", &json!({"background": "bg_1", "timeout_ms": 20_000}));
    assert_eq!(first["data"]["running"], true);
    let killed = project.ok("Bash", &json!({"kill": "bg_1"}));
    assert_eq!(killed["data"]["running"], false, "{killed}");
    let again = project.ok("Bash", &json!({"background": "bg_1"}));
    assert_eq!(again["data"]["running"], false, "its end can be asked for again");
    let unknown = project.fails("Bash", &json!({"kill": "bg_7"}), "NOT_FOUND");
    assert!(unknown["error"]["hint"].as_str().unwrap().contains("bg_1"), "{unknown}");
}

#[test]
fn processes_left_by_a_background_shell_are_reported_and_can_be_killed() {
    let mut project = Project::new(&[]);
    project.ok("Bash", &bash("sleep 1000 & echo started"));
    let wait = json!({"background": "bg_1", "timeout_ms": 20_000});
    let mut piece = project.ok("Bash", &wait);
    while piece["data"]["running"] == true {
        piece = project.ok("Bash", &wait);
    }
    let left = &piece["data"]["left_running"][0];
    assert!(left["name"].as_str().unwrap().contains("sleep 1000"), "{piece}");
    let pid = left["pid"].as_i64().unwrap();
    assert!(lives(pid));
    project.ok("Bash", &json!({"kill": "bg_1"}));
    let begun = Instant::now();
    while lives(pid) && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!lives(pid));
    let again = project.ok("Bash", &json!({"background": "bg_1"}));
    assert_eq!(again["data"].get("left_running"), None, "{again}");
}

#[test]
fn background_commands_end_when_the_session_ends_or_is_killed() {
    for is_killed in [false, true] {
        // Without the sandbox, as a PID inside it differs from the PID seen here.
        let test = Test::new();
        let mut command =
            test.command(&["tool", "batch", "--yolo", "--set", "sandbox.enabled=false"]);
        let mut batch = crate::support::batch::Batch::start(&mut command);
        let started = batch.call("Bash", &bash("sleep 1000 & echo $!; wait"));
        assert_eq!(started["status"], "success", "{started}");
        let piece = batch.call("Bash", &json!({"background": "bg_1", "timeout_ms": 20_000}));
        let pid: i64 = piece["data"]["stdout"].as_str().unwrap().trim().parse().unwrap();
        assert!(lives(pid));
        if is_killed {
            // Without the sandbox only the shell itself is guaranteed to end with a killed agent.
            drop(batch);
        } else {
            batch.end();
        }
        let begun = Instant::now();
        while lives(pid) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!lives(pid));
    }
}

#[test]
fn run_names_the_background_command_that_ends_with_it() {
    let call = bash("sleep 300.5");
    let test = Test::new().script(&format!("call: Bash {call}\n---\ntext: It runs."));
    let run = test.run(&["start it"]).expect_code(0);
    let text = "ended with the run: bg_1 (`sleep 300.5`), which ran in the background";
    assert!(run.stderr.contains(text), "{}", run.stderr);
}

#[test]
fn number_of_background_commands_is_limited() {
    let mut project = Project::new(&[]);
    for _ in 0..16 {
        project.ok("Bash", &bash("sleep 1000"));
    }
    let refused = project.fails("Bash", &bash("sleep 1000"), "EXECUTION_ERROR");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("kill: ID"), "{refused}");
    project.ok("Bash", &json!({"kill": "bg_3"}));
    project.ok("Bash", &bash("sleep 1000"));
}

#[test]
fn live_output_is_not_stored_in_the_log() {
    let command = "for n in 1 2 3 4; do echo line $n; sleep 0.3; done";
    let script = format!("call: Bash {{\"command\": \"{command}\"}}\n---\ntext: done");
    let test = Test::new().script(&script);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(!test.has_event("tool.output"));
    let seqs: Vec<u64> = test.events().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.iter().zip(1..).all(|(seq, n)| *seq == n), "{seqs:?}");
}

#[test]
fn undo_restores_files_that_a_command_deleted_or_overwrote() {
    let script = "call: Bash {\"command\": \"rm a.txt && mv b.txt c.txt && git rm -q d.txt; ls\"}\n---\ntext: done";
    let test =
        Test::new().file("a.txt", "a\n").file("b.txt", "b\n").file("c.txt", "c\n").script(script);
    test.run(&["-v", "clean up"]).expect_code(0);
    assert!(!test.root().join("a.txt").exists());
    assert_eq!(test.read("c.txt"), "b\n");
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!([test.read("a.txt"), test.read("b.txt"), test.read("c.txt")], ["a\n", "b\n", "c\n"]);
}
