//! Sub-agents: Task calls, each with a model, tools and a context of its own.

mod inherited;
mod roles;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::server::{Server, sse_calls, sse_text};
use crate::support::{Pty, Test, running, signal, wait_for};

/// A Task call.
fn task(role: &str, prompt: &str) -> String {
    let input =
        json!({"description": format!("{prompt} now"), "prompt": prompt, "subagent_type": role});
    format!("call: Task {input}\n")
}

/// A turn of the sub-agent with this task.
fn of(prompt: &str, turn: &str) -> String {
    format!("---\nfor: agent\nwhen: ^{prompt}$\n{turn}\n")
}

/// The envelopes of the Task calls, in order.
fn results(test: &Test) -> Vec<Value> {
    let finished = test.events_of("tool.finished").into_iter();
    let of_main = finished.filter(|event| event["agent"] == "main" && event["tool"] == "Task");
    of_main.map(|event| event["envelope"].clone()).collect()
}

fn assert_gapless(test: &Test) {
    for (n, event) in test.events().iter().enumerate() {
        assert_eq!(event["seq"], json!(n + 1));
    }
}

#[test]
fn sub_agent_returns_only_its_final_answer() {
    let script = [
        task("explore", "find the word"),
        of("find the word", "call: Read {\"path\": \"a.txt\"}\ncall: Bash {\"command\": \"wc -l a.txt\"}"),
        of("find the word", "expect: one secret line\ntext: It is in a.txt:1.\ntext: Nothing else."),
        "---\nexpect: ^It is in a.txt:1.$\ncall: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \
         \"new_string\": \"two\"}\n---\nexpect: NOT_READ\ntext: done"
            .to_owned(),
    ];
    let test = Test::new().file("a.txt", "one secret line\n").script(&script.concat());
    let done = test.run(&["the task of the user"]).expect_code(0).expect_stdout("done\n");
    assert!(done.stderr.contains("    [explore 1] Read a.txt 1–1"), "{}", done.stderr);
    assert_gapless(&test);
    let result = &results(&test)[0];
    assert_eq!(result["data"]["report"], "It is in a.txt:1.\nNothing else.");
    assert_eq!(
        (&result["data"]["ending"], &result["stats"]["tool_calls"]),
        (&json!("completed"), &json!(2))
    );
    let events = test.events();
    let of_agent: Vec<&Value> = events.iter().filter(|event| event["agent"] != "main").collect();
    assert_eq!(of_agent[0]["type"], "agent.started");
    assert_eq!(of_agent[0]["role"], "explore");
    let call = &events.iter().find(|event| event["tool"] == "Task").unwrap()["call"];
    assert!(of_agent.iter().all(|event| event["agent"] == *call && event["turn"] == 1));
    assert_eq!(of_agent.last().unwrap()["type"], "agent.finished");
    // Neither context contains the other.
    let first = events.iter().filter(|event| event["texts"].is_object());
    for event in first {
        let texts = event["texts"].to_string();
        assert_eq!(event["agent"] == "main", texts.contains("TodoWrite"), "{texts}");
    }
    // The transcript shows the conversation, the page what the sub-agent did, too.
    assert!(!test.agent(&["session", "export"]).stdout.contains("Read a.txt"));
    assert!(test.agent(&["trace", "html", "-o", "-"]).stdout.contains("agent.finished"));
    // A replay takes its report from the record.
    let replayed = test.agent(&["trace", "replay"]).expect_code(0);
    assert!(replayed.stdout.contains("sub-agents do not work again"), "{}", replayed.stdout);
    let timeline = test.agent(&["trace", "show"]).stdout;
    assert!(timeline.contains("[explore 1]   ▸ Read a.txt"), "{timeline}");
}

/// The most sub-agents that worked at the same time.
fn most_at_once(test: &Test) -> usize {
    let mut working = BTreeSet::new();
    let mut most = 0;
    for event in test.events() {
        let agent = event["agent"].as_str().unwrap().to_owned();
        match event["type"].as_str().unwrap() {
            "agent.started" => assert!(working.insert(agent)),
            "agent.finished" => assert!(working.remove(&agent)),
            _ => {}
        }
        most = most.max(working.len());
    }
    assert!(working.is_empty());
    most
}

#[test]
fn three_sub_agents_work_at_once() {
    let names = ["one", "two", "three"];
    let calls: String = names.iter().map(|name| task("general", name)).collect();
    let turns: String =
        names.iter().map(|name| of(name, &format!("pause: 1s\ntext: answer {name}"))).collect();
    let script = format!("{calls}{turns}---\nexpect: answer one\nexpect: answer three\ntext: done");
    let test = Test::new().script(&script);
    test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(most_at_once(&test), 3);
    let reports: Vec<Value> =
        results(&test).iter().map(|result| result["data"]["report"].clone()).collect();
    assert_eq!(reports, ["answer one", "answer two", "answer three"], "in the order of the calls");
}

#[test]
fn ten_sub_agents_wait_for_their_place() {
    let calls: String = (0..10).map(|n| task("explore", &format!("number {n}"))).collect();
    let script =
        format!("{calls}---\nfor: agent\ntimes: any\npause: 100ms\ntext: found\n---\ntext: done");
    let test = Test::new().script(&script);
    test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(most_at_once(&test), 3, "agents.max_concurrent");
    assert!(results(&test).iter().all(|result| result["status"] == "success"));
    assert_eq!(results(&test).len(), 10);
}

#[test]
fn sub_agent_starts_no_sub_agents_and_has_no_plan() {
    let script = [
        task("general", "delegate it"),
        of("delegate it", "call: Task {\"prompt\": \"more\"}\ncall: TodoWrite {\"todos\": []}"),
        of(
            "delegate it",
            "expect: no tool named .{1,3}Task\nexpect: no tool named .{1,3}TodoWrite\ntext: I did it",
        ),
        "---\nexpect: I did it\ntext: done".to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(test.events_of("agent.started").len(), 1);
}

#[test]
fn sub_agent_that_fails_is_an_error_with_its_report() {
    let script = [
        task("general", "change it"),
        of("change it", "call: Write {\"path\": \"new.txt\", \"content\": \"x\\n\"}"),
        of("change it", "fault: unauthorized"),
        "---\nexpect: SUBAGENT_FAILED\nexpect: new.txt\nexpect: the key is not valid\ntext: it failed".to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    let args = ["task", "--output-format", "json"];
    let done = test.run(&args).expect_code(0);
    let result = &results(&test)[0];
    assert_eq!(result["error"]["code"], "SUBAGENT_FAILED");
    assert_eq!(result["data"]["ending"], "model_refused");
    assert_eq!(result["data"]["files_changed"], json!(["new.txt"]));
    assert!(result["text"].as_str().unwrap().contains("calls: Write 1"), "{result}");
    assert_eq!(done.lines()[0]["files_changed"], json!(["new.txt"]), "they are the turn's");
    let wrong = Test::new().script(
        "call: Task {\"prompt\": \"x\", \"subagent_type\": \"spy\"}\n---\n\
        expect: one of general, explore, plan, summary\ntext: ok",
    );
    wrong.run(&["task"]).expect_code(0);
}

#[test]
fn file_that_a_sub_agent_changed_is_edited_without_another_read() {
    let edit = |old: &str, new: &str| {
        format!("call: Edit {}", json!({"path": "a.txt", "old_string": old, "new_string": new}))
    };
    let read = "call: Read {\"path\": \"a.txt\"}";
    let script = [
        format!("{read}\n---\n"),
        task("general", "change it"),
        of("change it", read),
        of("change it", &edit("one", "1")),
        of("change it", "text: changed"),
        format!("---\n{}\n---\nexpect: by another agent's Edit\ntext: done", edit("two", "2")),
    ];
    let test = Test::new().file("a.txt", "one\ntwo\n").script(&script.concat());
    test.run(&["task"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "1\n2\n");
}

#[test]
fn limits_end_a_sub_agent() {
    for (limit, turn, ending, why) in [
        ("agents.max_turns=2", "call: LS {}", "max_turns", "limit of 2 model calls"),
        ("agents.max_tokens=100", "call: LS {}", "max_budget", "agents.max_tokens"),
        ("agents.timeout=300ms", "call: LS {}\nfault: hang", "timeout", "time limit"),
    ] {
        let end = "---\nexpect: SUBAGENT_FAILED\ntext: done";
        let script =
            format!("{}---\nfor: agent\ntimes: any\n{turn}\n{end}", task("explore", "look"));
        let test = Test::new().script(&script);
        test.run(&["task", "--set", limit]).expect_code(0).expect_stdout("done\n");
        let result = &results(&test)[0];
        assert_eq!(result["data"]["ending"], ending, "{result}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn interrupt_ends_all_sub_agents() {
    let id = format!("321.{}7", std::process::id());
    let sleep = format!("call: Bash {{\"command\": \"touch started; sleep {id}\"}}");
    let calls: String = ["one", "two", "three", "four"].map(|name| task("general", name)).concat();
    let turns = [of("one", &sleep), of("two", "fault: hang"), of("three", "fault: hang")];
    let test = Test::new().script(&format!("{calls}{}---\ntext: never", turns.concat()));
    let mut child = test.spawn(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("started").exists());
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for(|| running(&id).is_empty());
    let ended = test.events_of("agent.finished");
    assert_eq!(ended.len(), 3, "the fourth waited for its place");
    assert!(ended.iter().all(|event| event["ending"] == "interrupted"));
    let codes: Vec<Value> =
        results(&test).iter().map(|result| result["error"]["code"].clone()).collect();
    assert_eq!(codes, ["SUBAGENT_FAILED", "SUBAGENT_FAILED", "SUBAGENT_FAILED", "CANCELLED"]);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
}

#[test]
fn writers_take_turns_and_one_undo_covers_both() {
    let names = ["one", "two"];
    let write = |name: &str| {
        format!(
            "call: Bash {{\"command\": \"sleep 0.3; echo {name} > {name}.txt\"}}\n\
            call: Write {{\"path\": \"{name}.md\", \"content\": \"{name}\\n\"}}"
        )
    };
    let calls: String = names.map(|name| task("general", name)).concat();
    let turns: String =
        names.map(|name| of(name, &write(name)) + &of(name, "text: written")).concat();
    let test = Test::new().script(&format!("{calls}{turns}---\ntext: done"));
    test.run(&["task"]).expect_code(0);
    let mut writes: Vec<String> = Vec::new();
    for event in test.events() {
        if event["agent"] == "main" {
            continue;
        }
        match event["type"].as_str().unwrap() {
            "tool.started" => writes.push(event["call"].to_string()),
            "tool.finished" => {
                assert_eq!(writes, [event["call"].to_string()], "one operation at a time");
                writes.clear();
            }
            _ => {}
        }
    }
    assert_eq!(most_at_once(&test), 2);
    let changed = &test.events_of("turn.finished")[0]["files_changed"];
    assert_eq!(changed.as_array().unwrap().len(), 4, "{changed}");
    test.agent(&["session", "undo"]).expect_code(0);
    for file in ["one.txt", "one.md", "two.txt", "two.md"] {
        assert!(!test.root().join(file).exists(), "{file}");
    }
}

#[test]
fn cost_of_sub_agents_is_the_turns_and_limited_by_its_budget() {
    let usage = "usage: 1000000 0\n";
    let calls = task("explore", "one") + &task("explore", "two");
    let script = format!(
        "{usage}{calls}---\nfor: agent\ntimes: any\n{usage}call: LS {{}}\n---\n{usage}text: done"
    );
    let test = Test::new().script(&script);
    let id = "models.\"script:../script\"";
    let (price_in, price_out) = (format!("{id}.price_in=1.0"), format!("{id}.price_out=1.0"));
    let args = ["task", "--set", &price_in, "--set", &price_out, "--max-budget-usd", "5.5"];
    test.run(
        &[&args[..], &["--set", "agents.max_concurrent=1", "--set", "agents.max_tokens=99000000"]]
            .concat(),
    )
    .expect_code(124);
    let finished = &test.events_of("turn.finished")[0];
    assert_eq!(finished["ending"], "max_budget");
    // One request of the main agent and five of the first sub-agent; the second may not begin.
    assert_eq!(finished["cost_usd"], 6.0);
    assert_eq!(finished["usage"]["input_tokens"], 6_000_000);
    assert_eq!(test.events_of("session.summary")[0]["cost_usd"], 6.0);
    let ends: Vec<Value> =
        test.events_of("agent.finished").iter().map(|event| event["cost_usd"].clone()).collect();
    assert_eq!(ends, [json!(5.0), json!(0.0)]);
    assert_eq!(finished["rounds"], 1);
}

#[test]
fn session_resumes_after_sigkill_while_sub_agents_work() {
    let id = format!("321.{}8", std::process::id());
    let calls = task("general", "write") + &task("explore", "look");
    let turns = of("write", &format!("call: Bash {{\"command\": \"touch begun; sleep {id}\"}}"))
        + &of("look", "fault: hang");
    let test = Test::new().script(&format!("{calls}{turns}"));
    let mut child = test.spawn(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("begun").exists() && test.n_events("agent.started") == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| running(&id).is_empty());
    let script = "expect: outcome is unknown\nexpect: it changed nothing\ntext: I look first";
    let test = test.script(script);
    test.run(&["go on", "-c"]).expect_code(0).expect_stdout("I look first\n");
    assert_gapless(&test);
    let synthetic = test.events_of("tool.finished");
    assert_eq!(synthetic.iter().filter(|event| event["synthetic"] == true).count(), 2);
    assert_eq!(test.events_of("session.resumed")[0]["uncertain"].as_array().unwrap().len(), 1);
    // What a sub-agent did is no part of the conversation of any later turn.
    let test = test.script("when: I look first\ntext: third");
    test.run(&["third", "-c"]).expect_code(0).expect_stdout("third\n");
}

#[test]
fn sub_agent_without_permission_is_reported() {
    let write = "call: Write {\"path\": \"new.txt\", \"content\": \"x\\n\"}";
    let script = [
        task("general", "change it"),
        of("change it", write),
        of("change it", "expect: APPROVAL_REQUIRED\ntext: I may not"),
        "---\nexpect: SUBAGENT_FAILED\ntext: it may not".to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    let args = ["task", "--permission-mode", "ask", "--output-format", "json"];
    let done = test.run(&args).expect_code(77);
    let denials = &done.lines()[0]["permission_denials"];
    assert_eq!(denials[0]["tool_input"]["path"], "new.txt", "{denials}");
    let deny = ["task", "--deny", "Task(general)"];
    let test = Test::new()
        .script(&format!("{}---\nexpect: ACCESS_DENIED\ntext: no", task("general", "x")));
    test.run(&deny).expect_code(77);
    assert!(test.events_of("agent.started").is_empty());
}

#[test]
fn explore_changes_nothing_even_with_commands() {
    let command = "call: Bash {\"command\": \"echo x > new.txt\"}\ncall: Bash {\"command\": \"git --version\"}";
    let script = [
        task("explore", "look"),
        of("look", command),
        of("look", "expect: git version\ntext: I could not write"),
        "---\nexpect: I could not write\ntext: done".to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    test.run(&["task", "--permission-mode", "full"]).expect_code(0).expect_stdout("done\n");
    assert!(!test.root().join("new.txt").exists());
}

#[test]
fn question_of_a_sub_agent_is_answered_in_the_chat() {
    let write = |name: &str| format!("call: Write {{\"path\": \"{name}\", \"content\": \"x\\n\"}}");
    let script = [
        task("general", "change it"),
        of("change it", &write("a.txt")),
        of("change it", &write("b.txt")),
        of("change it", "text: I wrote both"),
        "---\nexpect: I wrote both\ncall: Write {\"path\": \"c.txt\", \"content\": \"x\\n\"}\n---\ntext: all written"
            .to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait_for_question();
    let screen = pty.screen();
    for part in ["the sub-agent general (", "Allow Write a.txt?"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    pty.send("y");
    pty.wait_for("Allow Write b.txt?");
    pty.wait_for_question();
    // The mode applies to the whole session.
    pty.send("6");
    pty.wait_for("all written");
    for file in ["a.txt", "b.txt", "c.txt"] {
        assert!(test.root().join(file).exists(), "{file}");
    }
    let changed = &test.events_of("mode.changed")[0];
    assert_eq!((&changed["agent"], &changed["mode"]), (&json!("main"), &json!("auto-edit")));
}

#[test]
fn sub_agents_are_rows_until_they_are_done() {
    let call = |n: u32| {
        let input = json!({"description": format!("check part {n}"), "prompt": format!("part {n}"), "subagent_type": "general"});
        format!("call: Task {input}\n")
    };
    let wait = "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}";
    let script = [
        format!("{}{}{}", call(1), call(2), call(3)),
        of("part 1", wait),
        of("part 1", "text: first"),
        of("part 2", wait),
        of("part 2", "text: second"),
        of("part 3", "call: LS {}\ncall: Glob {\"pattern\": \"*\"}"),
        of("part 3", "text: third"),
        "---\nexpect: third\ntext: all checked".to_owned(),
    ];
    let test = Test::new().script(&script.concat());
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait("three rows", |screen| {
        let running = |n: u32| format!("\n  ◦ check part {n}  Bash until [ -e go ]; do ");
        screen.contains("◦ 3 agents ")
            && screen.contains(&running(1))
            && screen.contains(&running(2))
            && screen.contains("\n  ✓ check part 3 ")
            && screen.contains("  2 calls")
    });
    test.write("go", "");
    pty.wait_for("all checked");
    let screen = pty.screen();
    assert!(!screen.contains("◦ 3 agents"), "{screen}");
    for (n, calls) in [(1, "1 call"), (3, "2 calls")] {
        let line = format!("✓ Task general: check part {n}  {calls}");
        assert!(screen.contains(&line), "{line}\n{screen}");
    }
}

#[test]
fn sub_agents_request_at_the_same_time_from_one_server() {
    let look = json!({"prompt": "look", "subagent_type": "explore"});
    let calls: Vec<(&str, Value)> = vec![("Task", look); 3];
    let found = || sse_text("found it");
    let server = Server::playing([sse_calls(&calls), found(), found(), found(), sse_text("done")]);
    let test = Test::new();
    let url = server.url();
    let args = ["run", "x", "--model", "openai/m", "--base-url", &url];
    test.agent(&args).expect_code(0).expect_stdout("done\n");
    let requests = server.finish();
    assert_eq!(requests.len(), 5);
    for request in &requests[1..4] {
        let messages = request.json()["messages"].clone();
        assert!(messages[0]["content"].as_str().unwrap().contains("You search the project"));
        assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
    }
    let last = requests[4].json().to_string();
    assert_eq!(last.matches("found it").count(), 3, "{last}");
    assert_eq!(most_at_once(&test), 3);
}

#[test]
fn stream_json_names_the_call_of_a_sub_agent() {
    let script = [
        task("explore", "look"),
        of("look", "call: LS {}"),
        of("look", "text: seen"),
        "---\ntext: done".to_owned(),
    ];
    let test = Test::new().file("a.txt", "x\n").script(&script.concat());
    let done = test.run(&["task", "--output-format", "stream-json"]).expect_code(0);
    let lines = done.lines();
    let told: Vec<(&str, bool)> = lines
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), line["parent_tool_use_id"].is_string()))
        .collect();
    let expected = [
        ("system", false),
        ("assistant", false),
        ("user", true),
        ("assistant", true),
        ("user", true),
        ("assistant", true),
        ("user", false),
        ("assistant", false),
        ("result", false),
    ];
    assert_eq!(told, expected, "{}", done.stdout);
    let call = &lines[1]["message"]["content"][0]["id"];
    assert_eq!(lines[2]["parent_tool_use_id"], *call);
    assert_eq!(lines[2]["message"]["content"][0]["text"], "look");
}
