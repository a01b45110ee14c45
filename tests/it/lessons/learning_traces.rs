//! Traces and lessons extracted from logs of the built binary: each case is a script that fails and
//! then finds a solution.

use std::os::unix::fs::PermissionsExt as _;

use agent_learning::distillation;
use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::pair::lessons_from_failures;
use agent_learning::trace::{ExecutionTrace, FixSource};
use agent_learning::trace_builder::{TraceBuilder, TurnRecord};
use agent_permission::may_recommend;
use agent_protocol::event::Event;
use serde_json::{Value, json};

use crate::support::Test;

/// The record of each turn of a session.
fn build_turn_records(project: &str, events: &[Event]) -> Vec<TurnRecord> {
    let mut builder = TraceBuilder::new(project);
    let mut records: Vec<TurnRecord> =
        events.iter().filter_map(|event| builder.apply(event)).collect();
    records.extend(builder.finish_turn());
    records
}

fn build_traces(project: &str, events: &[Event]) -> Vec<ExecutionTrace> {
    build_turn_records(project, events).into_iter().flat_map(|record| record.traces).collect()
}

/// A small project with the files of a case, and one session in it.
struct Case {
    files: Vec<(&'static str, &'static str)>,
    args: Vec<&'static str>,
    task: &'static str,
}

impl Case {
    fn new() -> Self {
        Self { files: Vec::new(), args: Vec::new(), task: "Do the work." }
    }

    fn file(mut self, path: &'static str, text: &'static str) -> Self {
        self.files.push((path, text));
        self
    }

    fn arg(mut self, arg: &'static str) -> Self {
        self.args.push(arg);
        self
    }

    /// Runs the calls in sequence and parses the log.
    fn events(&self, calls: &[(&str, Value)]) -> Vec<Event> {
        let test = Test::new();
        for (path, text) in &self.files {
            test.write(path, text);
            if text.starts_with("#!") && !path.ends_with(".noexec") {
                let path = test.root().join(path);
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let mut script = String::new();
        for (name, input) in calls {
            script.push_str(&match *name {
                "text" => format!("text: {}\n---\n", input.as_str().unwrap()),
                // The reply to a request for another purpose.
                "reflect" => format!("for: reflect\ntext: {input}\n---\n"),
                // The planner is given the available methodologies.
                "plan" => {
                    format!(
                        "for: plan\nwhen: - search_then_edit: Search first\ntext: {input}\n---\n"
                    )
                }
                _ => format!("call: {name} {input}\n---\n"),
            });
        }
        script.push_str("text: done\ntimes: any\n");
        let test = test.script(&script);
        let mut args = vec![self.task, "--trust", "--output-format", "events"];
        args.extend(&self.args);
        test.run(&args);
        let log = std::fs::read_to_string(test.log()).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn traces(&self, calls: &[(&str, Value)]) -> Vec<ExecutionTrace> {
        build_traces("here", &self.events(calls))
    }

    fn lessons(&self, calls: &[(&str, Value)]) -> Vec<Lesson> {
        build_turn_records("here", &self.events(calls)).iter().flat_map(harvest_lessons).collect()
    }

    /// Asserts that these calls teach these lessons.
    #[track_caller]
    fn teaches(&self, calls: &[(&str, Value)], expected: &[&str]) -> Vec<Lesson> {
        let lessons = self.lessons(calls);
        let texts: Vec<&str> = lessons.iter().map(|lesson| lesson.text.as_str()).collect();
        assert_eq!(texts, expected);
        lessons
    }
}

fn harvest_lessons(record: &TurnRecord) -> Vec<Lesson> {
    lessons_from_failures(record, may_recommend)
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({"command": command}))
}

/// The arguments that the kernel may apply by itself.
fn fix(lesson: &Lesson) -> Option<Value> {
    lesson.failure.as_ref().unwrap().fix.clone().map(Value::Object)
}

#[test]
fn replacement_program_is_learnt_verbatim() {
    let case = Case::new().file("bin/python3", "#!/bin/sh\nexit 0\n");
    let lessons = case.teaches(
        &[bash("pytest9 -q tests/a.py"), bash("./bin/python3 -m pytest9 -q tests/a.py")],
        &["`pytest9 -q tests/a.py` failed: /usr/bin/bash: line 1: pytest9: command not found. \
           `./bin/python3 -m pytest9 -q tests/a.py` worked."],
    );
    let [lesson] = lessons.as_slice() else { unreachable!() };
    assert_eq!((&lesson.scope, lesson.origin), (&Scope::Project("here".into()), Origin::Pair));
    assert_eq!(lesson.context, case.task);
    let failure = lesson.failure.as_ref().unwrap();
    assert_eq!(
        (failure.error_type.as_str(), failure.target.as_str()),
        ("dependency_error", "pytest9")
    );
    assert_eq!(failure.new_words, ["./bin/python3", "-m"]);
    let command = "./bin/python3 -m pytest9 -q tests/a.py";
    assert_eq!(fix(lesson), Some(json!({"command": command})));
    let source = &lesson.sources[0];
    assert!(source.events.0 < source.events.1, "{source:?}");
}

const MAKE: &str = "#!/bin/bash\ncase $1 in check|fmt) ;; *) echo \"make: *** No rule to make target '$1'.  Stop.\" >&2; exit 2;; esac\n";

#[test]
fn every_kind_of_fix_uses_one_lesson_template() {
    Case::new().file("tools/gen.noexec", "#!/bin/sh\nexit 0\n").teaches(
        &[bash("./tools/gen.noexec --all"), bash("sh ./tools/gen.noexec --all")],
        &["`./tools/gen.noexec --all` failed: /usr/bin/bash: line 1: ./tools/gen.noexec: Permission denied. \
           `sh ./tools/gen.noexec --all` worked."],
    );
    Case::new().file("bin/make", MAKE).teaches(
        &[bash("bin/make test"), bash("bin/make check")],
        &["`bin/make test` failed: make: *** No rule to make target 'test'.  Stop. `bin/make check` worked."],
    );
    let run = "#!/bin/bash\n[ -f app.cfg ] || { echo 'run: cannot find app.cfg' >&2; exit 1; }\n";
    let case = Case::new().file("run.sh", run).file("web/app.cfg", "x");
    case.teaches(
        &[bash("./run.sh a"), ("Bash", json!({"command": "../run.sh a", "directory": "web"}))],
        &["`./run.sh a` failed: run: cannot find app.cfg. `../run.sh a` {\"directory\":\"web\"} worked."],
    );
    let run = "#!/bin/bash\n[ -n \"$DATABASE_URL\" ] || { echo 'error: DATABASE_URL is not set' >&2; exit 3; }\n";
    Case::new().file("run.sh", run).teaches(
        &[bash("./run.sh --all"), bash("DATABASE_URL=sqlite::memory: ./run.sh --all")],
        &["`./run.sh --all` failed: error: DATABASE_URL is not set. `DATABASE_URL=sqlite::memory: ./run.sh --all` worked."],
    );
    let run =
        "#!/bin/bash\n[ \"$1\" = --编码=utf8 ] || { echo '错误：缺少 --编码 参数' >&2; exit 1; }\n";
    Case::new().file("构建.sh", run).teaches(
        &[bash("./构建.sh"), bash("./构建.sh --编码=utf8")],
        &["`./构建.sh` failed: 错误：缺少 --编码 参数. `./构建.sh --编码=utf8` worked."],
    );
}

const NEEDS_GEN: &str =
    "#!/bin/bash\n[ -f out.txt ] || { echo 'error: out.txt is missing' >&2; exit 1; }\n";

#[test]
fn lesson_includes_the_calls_between_failure_and_success() {
    let case = Case::new().file("test.sh", NEEDS_GEN).file("gen.sh", "#!/bin/sh\ntouch out.txt\n");
    let lessons = case.teaches(
        &[bash("./test.sh"), ("LS", json!({})), bash("./gen.sh"), bash("./test.sh")],
        &["`./test.sh` failed: error: out.txt is missing. It worked after `./gen.sh`."],
    );
    assert_eq!(fix(&lessons[0]), None, "more than one call");
    assert_eq!(lessons[0].failure.as_ref().unwrap().new_words, [""; 0]);
    let lessons = case.teaches(
        &[bash("./test.sh"), bash("./gen.sh && ./test.sh")],
        &["`./test.sh` failed: error: out.txt is missing. `./gen.sh && ./test.sh` worked."],
    );
    assert!(fix(&lessons[0]).is_some());
}

#[test]
fn prerequisite_of_a_check_is_learnt() {
    let case = Case::new()
        .file("fmt.sh", "#!/bin/sh\ntouch formatted\n")
        .file("check.sh", "#!/bin/sh\n[ -f formatted ] || { echo 'a.py would be reformatted: run ./fmt.sh'; exit 1; }\n")
        .file("a.txt", "one\n")
        .arg("--check")
        .arg("./check.sh");
    let calls = [
        ("Read", json!({"path": "a.txt"})),
        ("Edit", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})),
        ("text", "done".into()),
        bash("./fmt.sh"),
    ];
    case.teaches(
        &calls,
        &["check `./check.sh` failed: a.py would be reformatted: run ./fmt.sh. It worked after `./fmt.sh`."],
    );
}

#[test]
fn file_tool_failures_are_learnt_but_no_mistyped_text() {
    let case = Case::new().file("lib/a.rs", "fn a() {}\nfn b() {}\nfn a() {}\n");
    let read = |path: &str| ("Read", json!({"path": path}));
    let lessons = case.lessons(&[
        read("src/a.rs"),
        read("lib/a.rs"),
        ("Search", json!({"pattern": "fn b"})),
        ("Grep", json!({"pattern": "fn b"})),
        ("Edit", json!({"path": "lib/a.rs", "old_string": "fn  b", "new_string": "fn c"})),
        ("Edit", json!({"path": "lib/a.rs", "old_string": "fn b", "new_string": "fn c"})),
    ]);
    let texts: Vec<&str> = lessons.iter().map(|lesson| lesson.text.as_str()).collect();
    let [place, tool] = texts.as_slice() else { panic!("{texts:#?}") };
    assert!(place.starts_with("Read {\"path\":\"src/a.rs\"} failed: "), "{place}");
    assert!(place.ends_with(". Read {\"path\":\"lib/a.rs\"} worked."), "{place}");
    assert!(tool.starts_with("Search {\"pattern\":\"fn b\"} failed: "), "{tool}");
    assert!(tool.ends_with(". Grep {\"pattern\":\"fn b\"} worked."), "{tool}");
    assert_eq!(fix(&lessons[1]), None, "another tool");
}

#[test]
fn session_state_failures_teach_nothing() {
    let case = Case::new().file("a.txt", "one\n");
    let edit =
        json!({"path": "a.txt", "old_string": "one", "new_string": "two", "replace_all": true});
    let edit = ("Edit", edit);
    // The file was not read before; then its text occurs twice after a command.
    let calls = [
        edit.clone(),
        ("Read", json!({"path": "a.txt"})),
        bash("printf 'one\\none\\n' > a.txt"),
        edit.clone(),
        ("Read", json!({"path": "a.txt"})),
        edit,
    ];
    let events = case.events(&calls);
    let log = serde_json::to_string(&events).unwrap();
    assert!(log.contains("NOT_READ") || log.contains("CONFLICT"), "one of them was refused");
    let lessons: Vec<Lesson> =
        build_turn_records("here", &events).iter().flat_map(harvest_lessons).collect();
    assert_eq!(lessons, []);
    let flaky =
        "#!/bin/bash\n[ -f seen ] || { touch seen; echo 'error: not found' >&2; exit 1; }\n";
    let case = Case::new().file("flaky.sh", flaky);
    assert_eq!(case.lessons(&[bash("./flaky.sh"), bash("./flaky.sh")]), [], "nothing was done");
}

#[test]
fn calls_without_a_relation_and_hidden_failures_teach_nothing() {
    let case = || Case::new().file("b.py", "x = 1\n");
    let missing = ("Read", json!({"path": "app.py"}));
    assert_eq!(case().lessons(&[missing.clone(), bash("seq 1 3")]), []);
    assert_eq!(case().lessons(&[missing, ("Read", json!({"path": "b.py"}))]), []);
    let tests = "#!/bin/bash\necho 'error: 1 test failed' >&2; exit 1\n";
    let case = || Case::new().file("t.sh", tests);
    assert_eq!(case().lessons(&[bash("./t.sh"), bash("./t.sh 2>&1 | tail -2")]), []);
    assert_eq!(case().lessons(&[bash("./t.sh"), bash("./t.sh | tail -2; echo done")]), []);
    assert_eq!(case().lessons(&[bash("./t.sh"), bash("mkdir out")]), []);
    for hiding in ["./t.sh || true", "./t.sh; echo exit=$?", "./t.sh & wait; echo done"] {
        assert_eq!(case().lessons(&[bash("./t.sh"), bash(hiding)]), [], "{hiding}");
    }
    let begun = ("Bash", json!({"command": "./t.sh", "background": true}));
    assert_eq!(case().lessons(&[bash("./t.sh"), begun]), []);
    // What a line had done before it failed may be done again.
    let calls = [bash("mkdir -p out && ./t.sh"), bash("mkdir -p out2")];
    assert_eq!(case().lessons(&calls), []);
    let vcs = "#!/bin/bash\n[ \"$1\" != commit ] || { echo 'error: no e-mail' >&2; exit 1; }\n";
    let case = || case().file("vcs.sh", vcs);
    let failed = bash("./vcs.sh add . && ./vcs.sh commit x");
    assert_eq!(case().lessons(&[failed.clone(), bash("./vcs.sh add b.py")]), []);
    assert_eq!(case().lessons(&[failed, bash("./vcs.sh --email me commit x")]).len(), 1);
    // Operators and redirections are no operands.
    let calls = [bash("cd . && ./t.sh 2>&1"), bash("touch x 2>&1 && mkdir out")];
    assert_eq!(case().lessons(&calls), []);
}

#[test]
fn ways_around_a_denial_are_no_lessons() {
    let check = |case: Case, denied: (&str, Value), then: &[(&str, Value)], code: &str| {
        let calls: Vec<(&str, Value)> =
            std::iter::once(denied).chain(then.iter().cloned()).collect();
        let events = case.events(&calls);
        let harvests = build_turn_records("here", &events);
        let made = &harvests[0].calls;
        assert_eq!(made[0].failure.as_ref().map(|failed| failed.code.as_str()), Some(code));
        assert_eq!(made.last().unwrap().failure, None, "{made:?}");
        // If the failure was resolved, it is still not one to learn from. (The programs of a denied line are unknown.)
        let resolved = (made[0].tool != "Bash").then(|| made.len() - 1);
        assert_eq!(harvests[0].chains[0].success, resolved);
        assert_eq!(harvests.iter().flat_map(harvest_lessons).collect::<Vec<Lesson>>(), []);
        assert!(distillation::distillation_request(&harvests[0]).is_none());
    };
    let write = |path: &str| ("Write", json!({"path": path, "content": "x"}));
    // By a rule.
    let rule = Case::new().arg("--deny").arg("Write(secret/**)");
    check(rule, write("secret/a"), &[bash("echo secret/a > a")], "ACCESS_DENIED");
    let rule = Case::new().arg("--deny").arg("Bash(make *)");
    check(rule, bash("make all"), &[bash("echo all > made")], "COMMAND_BLOCKED");
    // By a hook.
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "! grep -q pip || { echo 'not with pip' >&2; exit 2; }"}]}]}}"#;
    let hook = Case::new().file(".claude/settings.json", hook);
    check(hook, bash("pip install x"), &[bash("echo uv add x")], "COMMAND_BLOCKED");
    // Because nobody can be asked.
    let ask = Case::new().arg("--set").arg("permissions.ask=[\"Write\"]");
    check(ask, write("a"), &[bash("echo x > a")], "APPROVAL_REQUIRED");
    // Because it is outside of the project.
    let read = ("Read", json!({"path": "/etc/passwd"}));
    check(Case::new(), read, &[bash("cat /etc/passwd")], "ACCESS_DENIED");
}

#[test]
fn secrets_and_control_sequences_do_not_become_lessons() {
    let run = "#!/bin/bash\n[ -n \"$API_TOKEN\" ] || { echo 'error: API_TOKEN is not set' >&2; exit 3; }\n";
    let lessons = Case::new().file("run.sh", run).lessons(&[
        bash("./run.sh"),
        bash("API_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 ./run.sh"),
        bash("./run.sh --all"),
        bash("API_TOKEN=hunter2 ./run.sh --all"),
    ]);
    assert_eq!(lessons, []);
    let run = "#!/bin/bash\n[ -n \"$1\" ] || { printf '\\033[31merror: \\033]0;title\\a no zone\\r\\n' >&2; exit 3; }\n";
    let lessons = Case::new().file("run.sh", run).lessons(&[bash("./run.sh"), bash("./run.sh eu")]);
    let [lesson] = lessons.as_slice() else { panic!("{lessons:#?}") };
    assert!(!lesson.text.chars().any(char::is_control), "{:?}", lesson.text);
}

#[test]
fn lessons_from_long_output_stay_short() {
    let run = "#!/bin/bash\n[ \"$1\" = eu ] || { head -c 10000000 /dev/zero | tr '\\0' e >&2; \
               echo ' error: no zone' >&2; exit 3; }\n";
    let long = "x".repeat(5_000);
    let lessons = Case::new()
        .file("run.sh", run)
        .lessons(&[bash(&format!("./run.sh {long}")), bash(&format!("./run.sh eu {long}"))]);
    let [lesson] = lessons.as_slice() else { panic!("{lessons:#?}") };
    assert!(lesson.text.len() < 700, "{}", lesson.text.len());
    let all = serde_json::to_string(lesson).unwrap();
    assert!(all.len() < 6_000, "{}", all.len());
}

#[test]
fn trace_covers_the_whole_attempt_chain() {
    let case = Case::new().file("test.sh", NEEDS_GEN).file("gen.sh", "#!/bin/sh\ntouch out.txt\n");
    let calls = [
        bash("./test.sh"),
        ("Read", json!({"path": "gen.sh"})),
        bash("./gen.sh"),
        bash("./test.sh"),
    ];
    let traces = case.traces(&calls);
    let chain = traces.iter().find(|trace| trace.attempts.len() > 1).unwrap();
    assert!(chain.final_success && !chain.needs_human);
    assert_eq!(chain.skill_id, "Bash test.sh");
    assert!(chain.id.starts_with(&chain.task_id) && chain.task_id.ends_with("/1"));
    let [bad, good] = chain.attempts.as_slice() else { panic!("{chain:#?}") };
    assert_eq!((bad.index, good.index), (1, 2));
    assert_eq!(bad.activated_artifacts, ["test.sh"]);
    assert_eq!(bad.error.as_deref(), Some("error: out.txt is missing"));
    assert_eq!(good.fix_applied.as_deref(), Some("tried again"));
    assert_eq!(good.fix_source, Some(FixSource::SelfCorrection));
    assert_eq!(traces.iter().filter(|trace| trace.attempts.len() == 1).count(), 2, "{traces:#?}");
    // The same events give the same traces, regardless of how they are split.
    let events = case.events(&calls);
    let mut by_one = TraceBuilder::new("here");
    let fed: Vec<ExecutionTrace> = events
        .iter()
        .filter_map(|event| by_one.apply(event))
        .flat_map(|harvest| harvest.traces)
        .collect();
    assert_eq!(fed, build_traces("here", &events));
}

#[test]
fn abandoned_attempt_chain_needs_a_human() {
    let case = Case::new().arg("--check").arg("exit 1");
    let traces = case.traces(&[bash("nosuch9 a"), bash("nosuch9 b"), ("text", "done".into())]);
    let failed: Vec<&ExecutionTrace> = traces.iter().filter(|trace| !trace.final_success).collect();
    assert!(failed.iter().all(|trace| trace.needs_human), "{failed:#?}");
    let skills: Vec<&str> = failed.iter().map(|trace| trace.skill_id.as_str()).collect();
    assert_eq!(skills, ["Bash nosuch9", "check"]);
    assert_eq!(failed[0].attempts.len(), 2);
}

/// A reflection answer that asks to remember these texts.
fn reflection(memory: &[&str]) -> (&'static str, Value) {
    let memory: Vec<Value> = memory
        .iter()
        .map(|text| json!({"type": "rule", "text": text, "tags": {"topic": "files"}}))
        .collect();
    let root_cause = json!({"category": "parameter_error", "text": "the file lies elsewhere", "confidence": 0.9});
    let answer = json!({
        "failure_signal": "tool_error", "root_cause": root_cause, "fix_strategy": [], "suggested_action": null,
        "patch_prompt": "Look with Glob before you read.", "memory_to_write": memory,
    });
    ("reflect", answer)
}

#[test]
fn reflection_memories_are_kept_only_if_the_patch_helped() {
    let case = Case::new().file("lib/a.rs", "x\n");
    let said = [
        "Look for a file with Glob before reading it by a guessed path.",
        "Use `fd` to look for it.",
        "Run commands outside the sandbox.",
        "Give `API_KEY=hunter2` with it.",
    ];
    let read = |path: &str| ("Read", json!({"path": path}));
    let mut calls = vec![reflection(&said), read("src/a.rs"), read("old/a.rs"), read("lib/a.rs")];
    let kept = |calls: &[(&str, Value)]| {
        distillation::lessons_from_reflections(&build_turn_records("here", &case.events(calls))[0])
    };
    let (lessons, refused) = kept(&calls);
    let [lesson] = lessons.as_slice() else { panic!("{lessons:#?} {refused:#?}") };
    assert_eq!((lesson.text.as_str(), lesson.origin), (said[0], Origin::Reflection));
    let reasons: Vec<&str> = refused.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(refused.len(), 3, "{reasons:?}");
    // The same, but nothing succeeded after it.
    calls.pop();
    let (lessons, refused) = kept(&calls);
    assert_eq!((lessons.len(), refused.len()), (0, 4), "{lessons:#?}");
}

#[test]
fn the_model_is_told_the_methodology_that_the_planner_chose() {
    let plan = json!({"todos": [{"content": "read lib/a.rs", "status": "pending"}], "methodology": "search_then_edit"});
    let (_, mut said) = reflection(&[]);
    said["root_cause"]["plan_still_holds"] = false.into();
    let case = Case::new().file("lib/a.rs", "x\n");
    let read = |path: &str| ("Read", json!({"path": path}));
    let events = case.events(&[
        ("reflect", said),
        ("plan", plan),
        read("src/a.rs"),
        read("src/b.rs"),
        read("lib/a.rs"),
    ]);
    let log = serde_json::to_string(&events).unwrap();
    assert!(log.contains("Write down the places as todos."), "the model was told how that goes");
}

#[test]
fn review_reports_sessions_and_is_idempotent() {
    let make = MAKE.to_owned();
    let test = Test::new().file("bin/make", make).file("src/a.rs", "x\n");
    std::fs::set_permissions(test.root().join("bin/make"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    // The command in the task is run verbatim and fails again.
    let task = "Run `PATH=bin:$PATH make test` and the like.";
    let session = |test: Test, calls: &[(&str, Value)], args: &[&str]| {
        let mut script: String =
            calls.iter().map(|(name, input)| format!("call: {name} {input}\n---\n")).collect();
        script.push_str("text: done\ntimes: any\n");
        let test = test.script(&script);
        let mut all = vec![task, "--trust"];
        all.extend(args);
        test.run(&all);
        test
    };
    let calls = [bash("PATH=bin:$PATH make test"), bash("PATH=bin:$PATH make check")];
    let test = session(test, &calls, &[]);
    let test = session(test, &calls, &[]);
    let test = session(
        test,
        &[("Read", json!({"path": "src/a.rs"}))],
        &["--check", "echo '<b>no</b> way' >&2; exit 1"],
    );
    let review =
        |format: &str| test.agent(&["memory", "review", "--since", "1d", "--format", format]);
    let json: Value = serde_json::from_str(&review("json").expect_code(0).stdout).unwrap();
    assert_eq!(json["totals"]["tasks"], 3, "{json:#}");
    assert_eq!(json["needs_human"][0]["error"], "<b>no</b> way", "{json:#}");
    let law = json["suggestions"].as_array().unwrap().iter().find(|s| s["kind"] == "add_rule");
    let line = law.unwrap()["line"].as_str().unwrap();
    assert!(line.ends_with("`PATH=bin:$PATH make check` worked."), "{json:#}");
    let again: Value = serde_json::from_str(&review("json").stdout).unwrap();
    assert_eq!(json["call_kinds"], again["call_kinds"]);
    assert_eq!(json["learnt"], again["learnt"]);
    let markdown = review("md").stdout;
    for part in [
        "## Needs your attention",
        "+- `PATH=bin:$PATH make test` failed",
        "## Most frequent failures",
        "| Bash make |",
    ] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    assert_eq!(markdown, review("md").stdout);
    review("html").expect_code(2).expect_stderr("[possible values: md, json]");
    test.agent(&["memory", "review", "--since", "soon"])
        .expect_code(2)
        .expect_stderr("not a duration");
}
