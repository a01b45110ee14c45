//! Resuming sessions, including after a crash at any point.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::{Chunk, Reply, Request, Server, sse_calls, sse_text};
use crate::support::{Done, Test, events, say, wait_for};

#[test]
fn resumed_session_has_its_history_and_plan() {
    let todos = json!({"summary": "s", "todos": [{"content": "a thing", "status": "cancelled"}]});
    let first = format!("call: TodoWrite {todos}\ncall: LS {{}}\n---\ntext: the first answer");
    let test = Test::new().file("a.txt", "x\n").script(&first);
    test.run(&["the first task"]).expect_code(0);
    let test = test.script("when: the first answer\ntext: the second answer");
    test.run(&["the second task", "-c"]).expect_code(0).expect_stdout("the second answer\n");

    let events = test.events();
    assert_eq!(test.events_of("session.resumed")[0]["uncertain"], json!([]));
    let turns: Vec<_> = test.events_of("turn.started").iter().map(|e| e["turn"].clone()).collect();
    assert_eq!(turns, [1, 2]);
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], json!(n + 1));
    }
    let id = events[0]["session"].as_str().unwrap().to_owned();
    let test = test.script("text: the third answer");
    test.run(&["third", "--resume", &id[..13]]).expect_code(0);
    assert_eq!(test.events_of("turn.started").len(), 3);
}

#[test]
fn incomplete_last_log_line_is_dropped_and_reported() {
    let test = Test::new().script("text: ok");
    test.run(&["task"]).expect_code(0);
    let log = test.log();
    let whole = events(&log).len();
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"{\"v\":2,\"seq\":99,\"ty").unwrap();
    test.run(&["more", "-c"]).expect_code(0);
    let resumed = &test.events_of("session.resumed")[0];
    assert_eq!(resumed["torn"], true);
    assert_eq!(resumed["seq"], json!(whole + 1));
}

#[test]
fn session_in_use_cannot_be_opened_twice() {
    let test = Test::new().script("fault: hang");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("model.requested"));
    test.run(&["more", "-c"]).expect_code(75).expect_one_line_of_stderr("in use");
    child.kill().unwrap();
    child.wait().unwrap();
    let test = test.script("text: ok");
    test.run(&["more", "-c"]).expect_code(0);
}

#[test]
fn interrupted_calls_are_reported_as_uncertain() {
    let script = "call: Bash {\"command\": \"touch begun; sleep 321\"}\ncall: LS {}";
    let test = Test::new().script(script);
    let mut child = test.spawn(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();

    let test = test.script("when: outcome is unknown\ntext: I look first");
    let done = test.run(&["go on", "-c"]).expect_code(0).expect_stdout("I look first\n");
    let told: Vec<&str> = done.stderr.lines().take(3).collect();
    let expected = [
        "↺ resumed in turn 1, during which the program ended",
        "  ! Bash touch begun; sleep 321: the session log stops during this call: its outcome is unknown",
        "  ! LS: the session log stops before the result of this call; it changed nothing",
    ];
    assert_eq!(told, expected);
    let uncertain = &test.events_of("session.resumed")[0]["uncertain"];
    assert_eq!(uncertain.as_array().unwrap().len(), 1);
    assert!(uncertain[0].as_str().unwrap().contains("Bash"));
    let synthetic: Vec<Value> = test
        .events_of("tool.finished")
        .into_iter()
        .filter(|event| event["synthetic"] == true)
        .collect();
    assert_eq!(synthetic.len(), 2);
    assert_eq!(synthetic[0]["envelope"]["data"]["uncertain"], true);
    assert_eq!(synthetic[1]["envelope"]["data"].get("uncertain"), None);
}

/// The user sees which files, and no text for the model.
#[test]
fn notice_about_changed_files_is_shown_without_tags() {
    let test = Test::new()
        .file("a.txt", "one\n")
        .script("call: Read {\"path\": \"a.txt\"}\n---\ntext: read");
    test.run(&["read it"]).expect_code(0);
    test.write("a.txt", "another text\n");
    let test = test.script("when: <system-reminder>\ntext: ok").stdin("go on\n");
    let shown = test.agent(&["--plain", "-c", "--model", "script:../script"]).expect_code(0).stdout;
    assert!(shown.contains("· changed since the model saw them: a.txt\n"), "{shown}");
    for page in [
        shown,
        test.agent(&["session", "export"]).expect_code(0).stdout,
        test.agent(&["trace", "show"]).expect_code(0).stdout,
    ] {
        assert!(!page.contains("system-reminder"), "{page}");
    }
}

/// Only a part of an answer arrived: it is in the log, and on resume the user and the model see it.
#[test]
fn partial_answer_survives_sigkill() {
    let part = |text: &str| {
        let delta = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        Chunk::Send(format!("data: {delta}\n\n").into_bytes())
    };
    let server = Server::with(move |request, number| match number {
        0 => Reply {
            body: vec![
                part("I found the "),
                Chunk::Pause(Duration::from_millis(2200)),
                part("cause in a.rs."),
                Chunk::Pause(Duration::from_mins(1)),
            ],
            ..sse_text("")
        },
        _ => {
            let heard = request.body.contains("I found the cause in a.rs.");
            sse_text(if heard { "and I go on" } else { "who are you?" })
        }
    });
    let test = Test::new();
    let url = server.url();
    let mut child = test.spawn(&["run", "task", "--model", "test/m", "--base-url", &url]);
    wait_for(|| test.has_event("model.partial"));
    let running = test.agent(&["trace", "show"]).expect_code(0).stdout;
    assert!(running.ends_with("recorded so far:\nI found the cause in a.rs.\n"), "{running}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!test.has_event("model.responded"));

    let test = test.stdin("go on\n");
    let args = ["--plain", "-c", "--model", "test/m", "--base-url", &url];
    let shown = test.agent(&args).expect_code(0).stdout;
    assert_eq!(shown.matches("I found the cause in a.rs.").count(), 1, "{shown}");
    assert!(shown.contains("and I go on"), "{shown}");
    assert_eq!(test.events_of("model.responded")[0]["stop"], "interrupted");
    // The next resume does not add it again.
    let done = test
        .agent(&[
            "run",
            "more",
            "-c",
            "--output-format",
            "stream-json",
            "--model",
            "test/m",
            "--base-url",
            &url,
        ])
        .expect_code(0);
    assert!(!done.stdout.contains("I found the cause"), "{}", done.stdout);
    assert_eq!(test.events_of("model.responded").len(), 3);
}

/// Each call is shown once, with what is known about it, also when the session is resumed again.
#[test]
fn chat_says_once_what_is_unknown_after_a_crash() {
    let script = "call: Bash {\"command\": \"touch begun; sleep 322\"}\ncall: LS {}";
    let test = Test::new().script(script);
    let mut child = test.spawn(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();

    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    assert!(show.contains("what Bash touch begun; sleep 322 changed: the program ended"), "{show}");
    let test = test.script("text: ok").stdin("go on\n");
    for resumed in ["in turn 1, during which the program ended", "after turn 2"] {
        let done = test.agent(&["--plain", "-c", "--model", "script:../script"]).expect_code(0);
        let shown = done.stdout;
        let about = "! Bash touch begun; sleep 322  interrupted\n  \
            the session log stops during this call: its outcome is unknown\n✗ LS .  not run\n";
        assert!(shown.contains(about), "{shown}");
        assert_eq!(shown.matches("unknown").count(), 1, "{shown}");
        assert!(shown.contains(&format!("resumed   {resumed}\n")), "{shown}");
    }
}

/// The replies of a model that repairs a small project in ten calls, chosen by the number of
/// earlier answers.
fn repair(request: &Request) -> Reply {
    let answers = request.json()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    let read = || ("Read", json!({"path": "lib.sh"}));
    let test = || ("Bash", json!({"command": "bash test.sh"}));
    match answers % 10 {
        0 => sse_calls(&[("LS", json!({}))]),
        1 => sse_calls(&[("Glob", json!({"pattern": "*.sh"}))]),
        2 => sse_calls(&[("Grep", json!({"pattern": "echo"})), read()]),
        3 | 7 => sse_calls(&[test()]),
        4 => sse_calls(&[read()]),
        5 => {
            let edit = json!({"path": "lib.sh", "old_string": "echo 41", "new_string": "echo 42"});
            sse_calls(&[("Edit", edit)])
        }
        6 => sse_calls(&[("Read", json!({"path": "test.sh"}))]),
        8 => sse_calls(&[("Bash", json!({"command": "bash -n lib.sh"}))]),
        _ => sse_text("lib.sh now says 42; the test passes."),
    }
}

fn project() -> Test {
    Test::new().file("lib.sh", "answer() { echo 41; }\n").file(
        "test.sh",
        ". ./lib.sh\nsleep 0.02\n[ \"$(answer)\" = 42 ] || { echo 'FAIL: answer'; exit 1; }\n",
    )
}

fn args(url: &str) -> Vec<String> {
    let allow = ["--allow", "Bash(bash test.sh)", "--allow", "Bash(bash -n *)"];
    let mut args = vec!["run", "--model", "openai/m", "--base-url", url];
    args.extend(allow);
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn run(test: &Test, url: &str, more: &[&str]) -> Done {
    let args = args(url);
    let mut all: Vec<&str> = args.iter().map(String::as_str).collect();
    all.extend(more);
    test.agent(&all)
}

#[test]
fn failing_test_is_repaired_over_http_in_ten_model_calls() {
    let server = Server::with(|request, _| repair(request));
    let test = project();
    run(&test, &server.url(), &["repair it", "--check", "bash test.sh"])
        .expect_code(0)
        .expect_stdout("lib.sh now says 42; the test passes.\n");
    assert_eq!(test.read("lib.sh"), "answer() { echo 42; }\n");
    let finished = &test.events_of("turn.finished")[0];
    assert_eq!(finished["rounds"], 10);
    assert_eq!(finished["verified"], true);
    let requests = server.finish();
    assert_eq!(requests.len(), 10);
    assert!(requests.iter().all(|request| request.connection == requests[0].connection));
}

/// Killed at a random point and resumed, repeatedly: no torn file, no written event lost, every
/// uncertain action named, and the task completes.
#[test]
#[ignore = "slow"]
fn session_resumes_after_sigkill_at_any_point() {
    const POINTS: u64 = 50;
    let slow = |request: &Request, _: usize| {
        std::thread::sleep(Duration::from_millis(4));
        repair(request)
    };
    let server = Server::with(slow);
    let url = server.url();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut uncertain_seen = 0;
    // The points are spread over the duration of a whole run on this machine.
    let whole = project();
    let started = std::time::Instant::now();
    run(&whole, &url, &["repair it"]).expect_code(0);
    let took = u64::try_from(started.elapsed().as_micros()).unwrap();
    for point in 0..POINTS {
        // xorshift: the points differ, but are the same in every run of the tests.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let delay = Duration::from_micros(seed % took);
        let test = project();
        let mut all = args(&url);
        all.push("repair it".to_owned());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut child = test.spawn(&all);
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();

        let lib = test.read("lib.sh");
        assert!(
            lib.ends_with("41; }\n") || lib.ends_with("42; }\n"),
            "point {point}: torn: {lib:?}"
        );
        // The directory of a session exists shortly before its log.
        let before = test.try_log().map(|log| std::fs::read(log).unwrap()).unwrap_or_default();
        if before.is_empty() {
            // Killed before the first event: there is no session to resume.
            continue;
        }
        let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 {
            continue;
        }
        run(&test, &url, &["go on", "-c"]).expect_code(0);
        let after = std::fs::read(test.log()).unwrap();
        assert!(after.starts_with(&before[..whole]), "point {point}: a written event was lost");
        let events = events(&test.log());
        check_pairs(&events, point);
        let started: Vec<&Value> = unanswered_before(&events);
        let resumed = events.iter().find(|event| event["type"] == "session.resumed").unwrap();
        let named = resumed["uncertain"].as_array().unwrap();
        assert_eq!(named.len(), started.len(), "point {point}");
        uncertain_seen += named.len();
        let leftovers: Vec<_> = std::fs::read_dir(test.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| ![".git", "lib.sh", "test.sh"].contains(&name.as_str()))
            .collect();
        assert!(leftovers.is_empty(), "point {point}: {leftovers:?}");
    }
    assert!(uncertain_seen > 0, "no kill met a command or a write: the test has seen nothing");
    say(&format!("{uncertain_seen} uncertain actions in {POINTS} kills"));
}

/// Each call has exactly one result.
fn check_pairs(events: &[Value], point: u64) {
    let mut open = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "model.responded" => {
                let calls = event["calls"].as_array().cloned().unwrap_or_default();
                open.extend(calls.iter().map(|call| call["id"].clone()));
            }
            "tool.finished" => {
                let at = open.iter().position(|id| *id == event["call"]);
                open.remove(at.unwrap_or_else(|| panic!("point {point}: answered twice")));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "point {point}: {open:?} have no answer");
}

/// Writes and commands that were started but not answered before the resume.
fn unanswered_before(events: &[Value]) -> Vec<&Value> {
    let resumed = events.iter().position(|event| event["type"] == "session.resumed").unwrap();
    let (before, _) = events.split_at(resumed);
    before
        .iter()
        .filter(|event| {
            event["type"] == "tool.started"
                && matches!(event["effect"]["kind"].as_str(), Some("write" | "command"))
                && !before
                    .iter()
                    .any(|e| e["type"] == "tool.finished" && e["call"] == event["call"])
        })
        .collect()
}

#[test]
fn files_changed_between_runs_are_reported_and_must_be_reread() {
    let edit = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
    let write = json!({"path": "new.txt", "content": "mine\n"});
    let reads = "call: Read {\"path\": \"a.txt\"}\ncall: Read {\"path\": \"b.txt\"}\n\
        call: Read {\"path\": \"gone.txt\"}\n";
    let script = format!("{reads}---\ncall: Write {write}\n---\ntext: seen");
    let test = Test::new()
        .file("a.txt", "one\n")
        .file("b.txt", "b\n")
        .file("gone.txt", "gone\n")
        .script(&script);
    test.run(&["look"]).expect_code(0);
    test.write("a.txt", "one more\n");
    std::fs::remove_file(test.root().join("gone.txt")).unwrap();
    let script = format!(
        "when: no longer as you saw them: a.txt, gone.txt \\(gone\\)\\.\n\
         call: Edit {edit}\n---\nexpect: NOT_READ\ncall: Read {{\"path\": \"a.txt\"}}\n---\n\
         call: Edit {edit}\n---\nexpect: Edited\ntext: a.txt is done"
    );
    let test = test.script(&script);
    test.run(&["change it", "-c"]).expect_code(0).expect_stdout("a.txt is done\n");
    assert_eq!(test.read("a.txt"), "two more\n");
    // Files written by the session itself are not reported.
    let told = |test: &Test| -> Vec<String> {
        let feedback = test.events_of("feedback").into_iter();
        feedback.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(told(&test).len(), 1);
    let test = test.script("text: ok");
    test.run(&["go on", "-c"]).expect_code(0);
    assert_eq!(told(&test).len(), 2, "{:?}", told(&test));
    assert!(told(&test)[1].contains("saw them: gone.txt (gone)."), "a.txt was read since");
    test.run(&["go on", "-c"]).expect_code(0);
    assert_eq!(told(&test).len(), 2, "the same is not said again");
    // A later change is reported again, with the same text.
    test.write("gone.txt", "back\n");
    test.run(&["go on", "-c"]).expect_code(0);
    test.write("gone.txt", "back again\n");
    test.run(&["go on", "-c"]).expect_code(0);
    assert_eq!(told(&test).len(), 4, "{:?}", told(&test));
    assert_eq!(told(&test)[2], told(&test)[3]);
}

#[test]
fn resumed_session_keeps_its_mode_unless_another_is_given() {
    let test = Test::new().script("text: ok");
    let resumes_in = |more: &[&str], mode: &str| {
        test.run(&[&["more", "-c"], more].concat()).expect_code(0);
        let resumed = test.events_of("session.resumed");
        assert_eq!(resumed.last().unwrap()["now"]["permission_mode"], mode, "{more:?}");
    };
    test.run(&["look", "--permission-mode", "read-only"]).expect_code(0);
    resumes_in(&[], "read-only");
    resumes_in(&["--permission-mode", "auto-edit"], "auto-edit");
    resumes_in(&[], "auto-edit");
    resumes_in(&["--yolo"], "full");
    // Mode `full` has to be given by the user each time; the configuration of a trusted project
    // does not count.
    resumes_in(&["--trust"], "auto-edit");
    resumes_in(&["--permission-mode", "ask"], "ask");
    resumes_in(&["--permission-mode", "auto-edit"], "auto-edit");
    // A log in an untrusted project does not widen permissions.
    resumes_in(&[], "auto-edit");
    resumes_in(&["--set", "permissions.mode=ask"], "ask");
    resumes_in(&["--trust"], "ask");
}

/// Each branch change is reported once, compared with the last message about it.
#[test]
fn each_branch_switch_is_reported_once() {
    let test = Test::new()
        .file("repository/HEAD", "ref: refs/heads/main\n")
        .file("work/.git", "gitdir: ../repository\n")
        .file("work/sub/a.txt", "one\n")
        .script("text: ok");
    let run = |branch: &str, more: &[&str]| {
        test.write("repository/HEAD", format!("ref: refs/heads/{branch}\n"));
        let script = test.root().join("../script").display().to_string();
        let model = format!("script:{script}");
        let args =
            ["run", "go on", "--model", &model, "-C", "work/sub", "--output-format", "events"];
        let events = test.agent(&[&args[..], more].concat()).expect_code(0).lines();
        let texts = events.iter().filter_map(|event| match event["type"].as_str() {
            Some("session.started") => event["place"].as_str(),
            Some("feedback") => event["text"].as_str(),
            _ => None,
        });
        texts.map(str::to_owned).collect::<Vec<String>>().join("\n")
    };
    assert!(run("main", &[]).contains("Git branch: main"));
    assert!(run("dev", &["-c"]).contains("Git branch: dev"));
    assert!(run("main", &["-c"]).contains("Git branch: main"));
    assert_eq!(run("main", &["-c"]), "");
}

/// The date in the prompt is the local one. The zones of a pair are a day or more apart.
#[test]
fn date_is_that_of_the_time_zone() {
    let date = |zone: &str| {
        let test = Test::new().script("text: ok").env("TZ", zone);
        test.run(&["hi"]).expect_code(0);
        let place = test.events_of("session.started")[0]["place"].clone();
        let place = place.as_str().unwrap();
        place.lines().find_map(|line| line.strip_prefix("Date: ")).unwrap().to_owned()
    };
    assert!(date("<east>-14") > date("<west>12"));
    if !std::path::Path::new("/usr/share/zoneinfo/Pacific/Kiritimati").exists() {
        say("SKIPPED: the names of time zones need the package tzdata");
        return;
    }
    assert!(date("Pacific/Kiritimati") > date("Pacific/Pago_Pago"));
    assert!(date(":Pacific/Kiritimati") > date("/usr/share/zoneinfo/Pacific/Pago_Pago"));
}

#[test]
fn log_of_another_format_is_an_error_with_a_next_step() {
    let test = Test::new().script("text: ok");
    test.run(&["task"]).expect_code(0);
    let (path, log) = (test.log(), std::fs::read_to_string(test.log()).unwrap());
    for (format, version) in [("1", "an older version"), ("9", "a newer version")] {
        let other = log.replace("{\"v\":2,", &format!("{{\"v\":{format},"));
        assert_ne!(other, log);
        std::fs::write(&path, &other).unwrap();
        for done in [test.run(&["more", "-c"]), test.agent(&["session", "export"])] {
            let error = done.expect_code(2).expect_one_line_of_stderr(version).stderr;
            assert!(error.contains(&format!("event format {format}")), "{error}");
            assert!(error.contains("begin a new session"), "{error}");
        }
        let list = test.agent(&["session", "list"]).expect_code(0);
        assert!(list.stdout.is_empty() && list.stderr.contains(version), "{list:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other, "the log is kept");
    }
    std::fs::write(&path, log.replace("{\"v\":2,", "{\"v\":\"x\",")).unwrap();
    test.run(&["more", "-c"]).expect_code(2).expect_one_line_of_stderr("events.jsonl:1");
}

/// Everything a reader of the event stream has seen is in the log, byte for byte, whenever the
/// program is killed. `AGENT_KILL_ROUNDS` sets the number of kills.
#[test]
fn emitted_events_survive_sigkill() {
    use std::io::{BufRead as _, BufReader};
    let rounds: u64 =
        std::env::var("AGENT_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let script: String = (0..40)
        .map(|n| {
            let write = json!({"path": format!("{n}.txt"), "content": "x".repeat(2000)});
            format!(
                "text: step {n}\ncall: Write {write}\ncall: Read {{\"path\": \"a.txt\"}}\n---\n"
            )
        })
        .collect();
    let script = format!("{script}text: done");
    let args = ["run", "task", "--model", "script:../script", "--output-format", "events"];
    let args = [&args[..], &["--set", "sandbox.enabled=false"]].concat();
    let test = Test::in_memory().file("a.txt", "one\n").script(&script);
    let whole = test.agent(&args).expect_code(0).lines().len() as u64;
    let (mut seed, mut said_in_all) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for round in 0..rounds {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let enough = seed % whole;
        let test = Test::in_memory().file("a.txt", "one\n").script(&script);
        let mut child = test.spawn(&args);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said: Vec<String> = Vec::new();
        while (said.len() as u64) < enough
            && let Some(Ok(line)) = lines.next()
        {
            said.push(line);
        }
        child.kill().unwrap();
        // Buffered lines count too; only a line without an end does not.
        said.extend(lines.map_while(Result::ok));
        child.wait().unwrap();
        if said.last().is_some_and(|last| serde_json::from_str::<Value>(last).is_err()) {
            said.pop();
        }
        let is_stored = |line: &String| {
            ["delta", "progress"]
                .iter()
                .all(|kind| !line.contains(&format!("\"type\":\"model.{kind}\"")))
        };
        said.retain(is_stored);
        said_in_all += said.len();
        if said.is_empty() {
            continue;
        }
        let log = std::fs::read_to_string(test.log()).unwrap();
        let kept: Vec<&str> = log.lines().collect();
        assert!(kept.len() >= said.len(), "round {round}: {} of {}", kept.len(), said.len());
        for (n, line) in said.iter().enumerate() {
            assert_eq!(kept[n], line, "round {round}, line {n}");
        }
    }
    assert!(said_in_all > 0, "every kill came too early: the test has seen nothing");
    say(&format!("{said_in_all} events were said in {rounds} kills"));
}
