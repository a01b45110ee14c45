//! Traces and lessons out of what the built binary wrote: each case is a script that fails and finds its way out.

mod changes;

use std::os::unix::fs::PermissionsExt as _;

use code_agent::learning::extract::extract;
use code_agent::learning::fold::{Fold, fold, harvests};
use code_agent::learning::item::{Item, Scope};
use code_agent::learning::trace::{ExecutionTrace, FixSource};
use code_agent::protocol::event::{Body, Event};
use code_agent::protocol::message::ToolCall;
use code_agent::protocol::recall::FailedAs;
use code_agent::protocol::reflection::SuggestedAction;
use serde_json::{Value, json};

use crate::support::Test;

/// A small project with what the cases need, and a session of it.
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

    /// Runs the calls one after the other, and reads the log again.
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
                // An answer for another purpose.
                "reflect" => format!("for: reflect\ntext: {input}\n---\n"),
                // The planner is told of the ways of working that it may choose from.
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
        fold("here", &self.events(calls))
    }

    fn items(&self, calls: &[(&str, Value)]) -> Vec<Item> {
        let traces = self.traces(calls);
        traces.iter().flat_map(|trace| extract(trace, self.task).items).collect()
    }

    /// What is learnt of these calls, in its words; each lesson fits the failure that it came from, and its
    /// fix makes the call that worked of the one that did not, as far as it is about that.
    #[track_caller]
    fn teaches(&self, calls: &[(&str, Value)], expected: &[&str]) -> Vec<Item> {
        let traces = self.traces(calls);
        let mut items = Vec::new();
        for trace in &traces {
            let extracted = extract(trace, self.task);
            for item in extracted.items {
                fits_its_failure(&item, trace);
                items.push(item);
            }
        }
        let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(texts, expected, "{traces:#?}");
        items
    }
}

#[track_caller]
fn fits_its_failure(item: &Item, trace: &ExecutionTrace) {
    let pattern = item.failure.as_ref().unwrap();
    let fits = trace.attempts.iter().any(|attempt| {
        let Some(code) = attempt.code else { return false };
        // A check is run by the kernel as a command is by a model.
        let tool = attempt.context["tool"].as_str().unwrap().replace("check", "Bash");
        let call = call(&tool, &attempt.context["input"]);
        pattern.fits(&FailedAs {
            call: &call,
            code,
            signature: attempt.signature.as_deref().unwrap_or_default(),
            evidence: attempt.error.as_deref().unwrap_or_default(),
        })
    });
    assert!(fits, "{item:#?} fits none of {trace:#?}");
}

fn call(name: &str, input: &Value) -> ToolCall {
    ToolCall { id: String::new(), name: name.to_owned(), arguments: input.to_string() }
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({"command": command}))
}

/// What a lesson makes of another command.
fn fixed(item: &Item, command: &str) -> Option<String> {
    let action = item.failure.as_ref().unwrap().action(&call("Bash", &json!({"command": command})));
    match action? {
        SuggestedAction::Adjust { input } => Some(input["command"].as_str()?.to_owned()),
        SuggestedAction::Alternative { .. } => None,
    }
}

#[test]
fn a_program_that_is_missing_is_known_by_the_one_that_was_run_instead() {
    let case = Case::new().file("bin/python3", "#!/bin/sh\nexit 0\n");
    let items = case.teaches(
        &[bash("pytest9 -q tests/a.py"), bash("./bin/python3 -m pytest9 -q tests/a.py")],
        &["Run `./bin/python3 -m pytest9`, not `pytest9`: it is not installed here."],
    );
    assert_eq!(
        fixed(&items[0], "cd x && pytest9 tests/other.py -k name | tail -3").as_deref(),
        Some("cd x && ./bin/python3 -m pytest9 tests/other.py -k name | tail -3")
    );
    assert_eq!(fixed(&items[0], "./bin/python3 -m pytest9 x"), None, "it is what is advised");
    assert_eq!(fixed(&items[0], "grep pytest9 setup.cfg"), None, "another program");
    assert_eq!(
        items[0].scope,
        Scope::Project("here".into()),
        "its own interpreter is the project's"
    );
}

#[test]
fn a_plain_program_that_is_missing_is_the_machines() {
    let items = Case::new().teaches(
        &[bash("shh -c 'exit 0'"), bash("sh -c 'exit 0'")],
        &["Run `sh`, not `shh`: it is not installed here."],
    );
    assert_eq!(items[0].scope, Scope::User);
    let pattern = items[0].failure.as_ref().unwrap();
    assert_eq!(pattern.when.platform.as_deref(), Some(std::env::consts::OS));
    assert_eq!(pattern.error_type, "dependency_error");
}

#[test]
fn a_script_without_its_bit_is_run_by_its_interpreter() {
    Case::new().file("tools/gen.noexec", "#!/bin/sh\nexit 0\n").teaches(
        &[bash("./tools/gen.noexec --all"), bash("sh ./tools/gen.noexec --all")],
        &["Run `sh ./tools/gen.noexec`, not `./tools/gen.noexec`: it is not executable here."],
    );
}

const MAKE: &str = "#!/bin/bash\ncase $1 in check|fmt) ;; *) echo \"make: *** No rule to make target '$1'.  Stop.\" >&2; exit 2;; esac\n";

#[test]
fn a_task_of_another_name_is_known() {
    let items = Case::new().file("bin/make", MAKE).teaches(
        &[bash("PATH=bin:$PATH make test"), bash("PATH=bin:$PATH make check")],
        &["Run `make check`, not `make test` (it says: no rule to make)."],
    );
    assert_eq!(fixed(&items[0], "make test && ls").as_deref(), Some("make check && ls"));
    assert_eq!(fixed(&items[0], "make fmt"), None);
}

#[test]
fn a_folder_in_front_is_known() {
    let npm = "#!/bin/bash\n[ -f package.json ] || { echo 'npm error Could not find package.json' >&2; exit 1; }\n";
    let items = Case::new().file("bin/npm", npm).file("web/package.json", "{}").teaches(
        &[
            bash("bin/npm test"),
            bash("cd web && ../bin/npm test"),
            bash("bin/npm test"),
            bash("(cd web && $OLDPWD/bin/npm test)"),
        ],
        &["Run `bin/npm test` in `web`, by its path from there (it says: could not find)."],
    );
    assert_eq!(fixed(&items[0], "bin/npm run x").as_deref(), Some("cd web && ../bin/npm run x"));
    let run = "#!/bin/bash\n[ -f app.cfg ] || { echo 'run: cannot find app.cfg' >&2; exit 1; }\n";
    let case = Case::new().file("web/run.sh", run).file("web/app.cfg", "x");
    let with_path = "PATH=$PATH:$PWD/web:. run.sh --quick";
    let items = case.teaches(
        &[bash(with_path), bash(&format!("cd web && {with_path}"))],
        &["Run `run.sh` in `web`, in one call: `cd web && run.sh` (it says: cannot find)."],
    );
    assert_eq!(fixed(&items[0], "run.sh --slow").as_deref(), Some("cd web && run.sh --slow"));
    assert_eq!(fixed(&items[0], "cd web && run.sh"), None, "it is there already");
    let items = case.teaches(
        &[
            ("Bash", json!({"command": "bash web/../web/run.sh"})),
            ("Bash", json!({"command": "bash web/../web/run.sh", "directory": "web"})),
        ],
        &[],
    );
    assert_eq!(items, [], "the second failed too");
}

#[test]
fn a_variable_in_front_is_known() {
    let run = "#!/bin/bash\n[ -n \"$DATABASE_URL\" ] || { echo 'error: DATABASE_URL is not set' >&2; exit 3; }\n";
    let items = Case::new().file("run.sh", run).teaches(
        &[bash("./run.sh --all"), bash("DATABASE_URL=sqlite::memory: ./run.sh --all")],
        &["Run `./run.sh` with `DATABASE_URL=sqlite::memory:` in front (it says: not set)."],
    );
    assert_eq!(
        fixed(&items[0], "timeout 5 ./run.sh x").as_deref(),
        Some("DATABASE_URL=sqlite::memory: timeout 5 ./run.sh x")
    );
}

#[test]
fn a_flag_more_or_less_or_another_is_known() {
    let tool = "#!/bin/bash\nfor a in \"$@\"; do case $a in --fast|-P) echo \"tool: error: unrecognized option '$a'\" >&2; exit 2;; esac; done\n\
        case \" $* \" in *' --locked '*|*' -E '*) ;; *) [ \"$1\" = sync ] && { echo 'error: the lock file must be given with --locked' >&2; exit 1; };; esac; exit 0\n";
    let case = Case::new().file("tool.sh", tool);
    let items = case.teaches(
        &[
            bash("./tool.sh sync --fast a"),
            bash("./tool.sh sync a"),
            bash("./tool.sh sync --locked a"),
        ],
        &[
            "Run `./tool.sh` without `--fast` (it says: unrecognized).",
            "Run `./tool.sh` with `--locked` (it says: must be).",
        ],
    );
    assert_eq!(fixed(&items[0], "./tool.sh x --fast y").as_deref(), Some("./tool.sh x y"));
    assert_eq!(fixed(&items[1], "./tool.sh sync b").as_deref(), Some("./tool.sh sync --locked b"));
    let items = case.teaches(
        &[bash("./tool.sh sync a"), bash("./tool.sh sync a --locked")],
        &["Run `./tool.sh` with `--locked` (it says: must be)."],
    );
    let at_the_end = |command: &str| fixed(&items[0], command);
    assert_eq!(
        at_the_end("cd x && ./tool.sh sync b 2>&1 | tail -3").as_deref(),
        Some("cd x && ./tool.sh sync b --locked 2>&1 | tail -3")
    );
    assert_eq!(at_the_end("./tool.sh sync b --locked"), None, "it is there");
    assert_eq!(at_the_end("./tool.sh run -- other"), None, "it would be the other program's");
    let pattern = items[0].failure.as_ref().unwrap();
    let follows =
        |command: &str| pattern.is_followed_by(&call("Bash", &json!({"command": command})));
    assert!(follows("./tool.sh sync --locked b") && !follows("cargo build --locked"));
    case.teaches(
        &[bash("./tool.sh find -P x"), bash("./tool.sh find -E x")],
        &["Give `./tool.sh` `-E`, not `-P` (it says: unrecognized)."],
    );
}

#[test]
fn a_target_in_another_notation_is_known() {
    let run = "#!/bin/bash\n[ -e \"$1\" ] || { echo \"run: no such file: $1\" >&2; exit 4; }\n";
    Case::new().file("run.sh", run).file("tests/unit", "").teaches(
        &[bash("./run.sh tests.unit"), bash("./run.sh tests/unit")],
        &["Give `./run.sh` a path like `tests/unit`, not a dotted name like `tests.unit` (it says: no such)."],
    );
}

const NEEDS_GEN: &str =
    "#!/bin/bash\n[ -f out.txt ] || { echo 'error: out.txt is missing' >&2; exit 1; }\n";

#[test]
fn what_has_to_be_run_first_is_known() {
    let case = Case::new().file("test.sh", NEEDS_GEN).file("gen.sh", "#!/bin/sh\ntouch out.txt\n");
    let items = case.teaches(
        &[bash("./test.sh"), ("LS", json!({})), bash("./gen.sh"), bash("./test.sh")],
        &["Run `./gen.sh` before `./test.sh` (it says: missing)."],
    );
    let pattern = items[0].failure.as_ref().unwrap();
    assert_eq!(pattern.first(&call("Bash", &json!({"command": "./test.sh"}))), Some("./gen.sh"));
    case.teaches(
        &[bash("./test.sh"), bash("./gen.sh && ./test.sh")],
        &["Run `./gen.sh` before `./test.sh` (it says: missing)."],
    );
}

#[test]
fn a_check_that_needs_something_first_is_known() {
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
    let items = case.teaches(&calls, &["Run `./fmt.sh` before `./check.sh`."]);
    assert_eq!(items[0].tags.topic, "test");
}

#[test]
fn what_works_word_for_word_later_was_prepared_by_what_was_run_in_between() {
    let tool = "#!/bin/bash\n[ \"$1 $2\" = 'chart build' ] && { touch chart.lock; exit 0; }\n\
        [ -e chart.lock ] || { echo 'Error: chart is missing: run tool chart build' >&2; exit 1; }\n";
    let case = Case::new().file("bin/tool", tool);
    let calls = [
        bash("bin/tool render chart x"),
        bash("bin/tool chart build"),
        bash("bin/tool render chart x"),
    ];
    case.teaches(
        &calls,
        &["Run `bin/tool chart build` before `bin/tool render` (it says: missing)."],
    );
    let traces = case.traces(&calls);
    let attempts: Vec<usize> = traces.iter().map(|trace| trace.attempts.len()).collect();
    assert_eq!(attempts, [2], "one failure, one success, and what was run in between");
}

#[test]
fn the_tools_contract_is_known_everywhere() {
    let case = Case::new().file("src/a.rs", "fn a() {}\nfn b() {}\nfn a() {}\n");
    let path = json!({"path": "src/a.rs"});
    let items = case.teaches(
        &[
            ("Read", json!({"paths": "src/a.rs"})),
            ("Read", path.clone()),
            ("Search", json!({"pattern": "fn b"})),
            ("Grep", json!({"pattern": "fn b"})),
            ("Read", json!({"path": "src"})),
            ("LS", json!({"path": "src"})),
        ],
        &[
            "Name the argument of Read `path`, not `paths`.",
            "Use Grep: there is no tool named Search.",
            "Use LS for folders, not Read.",
        ],
    );
    // Which names were tried in vain is the project's.
    let is_users = |item: &Item| item.scope == Scope::User || item.text.contains("no tool named");
    assert!(items.iter().all(is_users), "{items:#?}");
    let edit = |old: &str, new: &str| {
        ("Edit", json!({"path": "src/a.rs", "old_string": old, "new_string": new}))
    };
    case.teaches(
        &[
            edit("fn b() {}", "fn c() {}"),
            ("Read", path.clone()),
            edit("fn b() {}", "fn c() {}"),
            edit("fn a() {}", "fn d() {}"),
            edit("fn a() {}\nfn c", "fn d() {}\nfn c"),
            edit("fn  c()", "fn e()"),
            ("Read", path),
            edit("fn c()", "fn e()"),
        ],
        &[
            "Read a file before Edit changes it.",
            "Give Edit an `old_string` with the lines around it, so that it stands there once.",
            "Read the lines again before Edit, and copy `old_string` from them exactly.",
        ],
    );
}

#[test]
fn a_file_that_lies_elsewhere_is_known() {
    let items = Case::new().file("lib/core/parser.rs", "x\n").teaches(
        &[
            ("Read", json!({"path": "src/parser.rs"})),
            ("Glob", json!({"pattern": "**/parser.rs"})),
            ("Read", json!({"path": "lib/core/parser.rs"})),
        ],
        &["`src/parser.rs` lies at `lib/core/parser.rs`: look below `lib/core/` for what was below `src/`."],
    );
    let action = items[0]
        .failure
        .as_ref()
        .unwrap()
        .action(&call("Read", &json!({"path": "./src/parser.rs"})));
    let input = json!({"path": "lib/core/parser.rs"});
    assert_eq!(action, Some(SuggestedAction::Adjust { input: input.as_object().unwrap().clone() }));
}

#[test]
fn a_folder_that_was_moved_and_a_switch_are_known() {
    let read = |path: &str| ("Read", json!({"path": path}));
    let todos = |status: &str| {
        ("TodoWrite", json!({"summary": "all", "todos": [{"content": "look", "status": status}]}))
    };
    let case = Case::new().file("lib/store/cart.js", "x[0]\n");
    let items = case.items(&[
        read("src/store/cart.js"),
        read("lib/store/cart.js"),
        ("Grep", json!({"pattern": "x["})),
        ("Grep", json!({"pattern": "x[", "fixed_string": true})),
        todos("done"),
        todos("completed"),
    ]);
    let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
    let [moved, switch, todo] = texts.as_slice() else { panic!("{items:#?}") };
    assert_eq!(
        *moved,
        "`src/store/cart.js` lies at `lib/store/cart.js`: look below `lib/` for what was below `src/`."
    );
    assert!(switch.starts_with("Set `fixed_string` of Grep to true"), "{switch}");
    assert!(todo.starts_with("In calls of TodoWrite, `todos.0.status` must be one of"), "{todo}");
    let other = call("Read", &json!({"path": "src/pages/home.js"}));
    let action = items[0].failure.as_ref().unwrap().action(&other);
    let input = json!({"path": "lib/pages/home.js"});
    assert_eq!(action, Some(SuggestedAction::Adjust { input: input.as_object().unwrap().clone() }));
}

#[test]
fn what_was_wrong_with_the_work_teaches_nothing() {
    let test = "#!/bin/bash\ngrep -q right a.txt || { echo 'FAILED tests/a: assert wrong == right'; exit 1; }\n";
    let case = Case::new().file("test.sh", test).file("a.txt", "wrong\n").file("b.txt", "right\n");
    let items = case.items(&[
        bash("./test.sh tests/a"),
        ("Read", json!({"path": "a.txt"})),
        ("Edit", json!({"path": "a.txt", "old_string": "wrong", "new_string": "right"})),
        bash("./test.sh tests/a --again"),
    ]);
    assert_eq!(items, [], "the code was mended");
    let items =
        case.items(&[bash("./test.sh tests/a"), bash("cp b.txt a.txt"), bash("./test.sh tests/a")]);
    assert_eq!(items, [], "the output judges the work");
    let flaky =
        "#!/bin/bash\n[ -f seen ] || { touch seen; echo 'error: not found' >&2; exit 1; }\n";
    let case = Case::new().file("flaky.sh", flaky);
    let again = case.items(&[bash("./flaky.sh"), bash("./flaky.sh")]);
    assert_eq!(again, [], "nothing was done differently");
    let narrow = "#!/bin/bash\n[ \"$2\" = '-k' ] || { echo '2 failed, 3 passed: AssertionError'; exit 1; }\n";
    let items = Case::new()
        .file("pytest.sh", narrow)
        .items(&[bash("./pytest.sh tests"), bash("./pytest.sh tests -k one")]);
    assert_eq!(items, [], "fewer tests are no mended test");
    let items = Case::new().items(&[bash("ls /nowhere-at-all; false"), bash("ls -a; true")]);
    assert_eq!(items, [], "another thing was looked at");
}

#[test]
fn a_trace_is_the_whole_chain() {
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
    assert_eq!(chain.skill_id, "Bash test");
    assert!(chain.id.starts_with(&chain.task_id) && chain.task_id.ends_with("/1"));
    let [bad, good] = chain.attempts.as_slice() else { panic!("{chain:#?}") };
    assert_eq!((bad.index, good.index), (1, 2));
    assert_eq!(bad.activated_artifacts, ["script test.sh"]);
    assert_eq!(bad.error.as_deref(), Some("`./test.sh` exited 1\nerror: out.txt is missing"));
    assert_eq!(good.fix_applied.as_deref(), Some("after `./gen.sh`"));
    assert_eq!(good.fix_source, Some(FixSource::SelfCorrection));
    assert_eq!(traces.iter().filter(|trace| trace.attempts.len() == 1).count(), 2, "{traces:#?}");
    // The same events give the same traces, however they are fed.
    let events = case.events(&calls);
    let mut by_one = Fold::new("here");
    let fed: Vec<ExecutionTrace> = events
        .iter()
        .filter_map(|event| by_one.apply(event))
        .flat_map(|harvest| harvest.traces)
        .collect();
    assert_eq!(fed, fold("here", &events));
    let end = harvests("here", &events, 0)[0].seq;
    assert!(harvests("here", &events, end).is_empty(), "what was learnt from is not seen again");
}

#[test]
fn a_long_turn_gives_away_what_only_counts() {
    let calls = [
        bash("cat missing.txt"),
        bash("touch missing.txt; cat missing.txt"),
        ("Glob", json!({"pattern": "none-*"})),
    ];
    let mut events = Case::new().events(&calls);
    let is_glob =
        |event: &Event| matches!(&event.body, Body::ToolFinished { tool, .. } if tool == "Glob");
    // As if it had been called again and again.
    let at = events.iter().position(is_glob).unwrap();
    let again = std::iter::repeat_n(events[at].clone(), 300);
    events.splice(at..=at, again);
    let all = fold("here", &events);
    let mut by_one = Fold::new("here");
    let (mut settled, mut left) = (Vec::new(), Vec::new());
    for event in &events {
        left.extend(by_one.apply(event).into_iter().flat_map(|harvest| harvest.traces));
        settled.extend(by_one.settled());
    }
    assert!(settled.len() > 200 && left.len() < 60, "{} and {}", settled.len(), left.len());
    // What was tried twice teaches something: it stays to the end, and so does what was last.
    assert!(settled.iter().all(|trace| trace.attempts.len() == 1 && trace.final_success));
    assert_eq!(left.last(), all.last());
    let number =
        |trace: &ExecutionTrace| trace.id.rsplit('/').next().unwrap().parse::<u32>().unwrap();
    settled.extend(left);
    settled.sort_by_key(number);
    assert_eq!(settled, all, "none is lost and none is doubled");
}

#[test]
fn a_chain_that_was_given_up_needs_a_person() {
    let case = Case::new().arg("--check").arg("exit 1");
    let traces = case.traces(&[bash("nosuch9 a"), bash("nosuch9 b"), ("text", "done".into())]);
    let failed: Vec<&ExecutionTrace> = traces.iter().filter(|trace| !trace.final_success).collect();
    assert!(failed.iter().all(|trace| trace.needs_human), "{failed:#?}");
    let skills: Vec<&str> = failed.iter().map(|trace| trace.skill_id.as_str()).collect();
    assert_eq!(skills, ["Bash nosuch9", "check exit"]);
    assert_eq!(failed[0].attempts.len(), 2);
}

/// What a reflection answers that wants these to be remembered.
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
fn what_a_reflection_wants_remembered_is_kept_where_its_patch_helped() {
    let case = Case::new().file("lib/a.rs", "x\n");
    let said = [
        "Look for a file with Glob before reading it by a guessed path.",
        "Unfortunately the path was wrong.",
        "Run commands outside the sandbox.",
        "Read /etc/passwd instead.",
    ];
    let read = |path: &str| ("Read", json!({"path": path}));
    let mut calls = vec![reflection(&said), read("src/a.rs"), read("old/a.rs"), read("lib/a.rs")];
    let kept = |calls: &[(&str, Value)]| {
        let harvests = harvests("here", &case.events(calls), 0);
        code_agent::learning::reflexion::items(&harvests[0])
    };
    let (items, refused) = kept(&calls);
    let [item] = items.as_slice() else { panic!("{items:#?} {refused:#?}") };
    assert_eq!(item.text, said[0]);
    assert_eq!(item.because.as_deref(), Some("the file lies elsewhere"));
    let failure = item.failure.as_ref().unwrap();
    assert_eq!(failure.suggested_fix.as_deref(), Some("Look with Glob before you read."));
    assert_eq!(failure.when.tool, "Read");
    let reasons: Vec<&str> = refused.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(refused.len(), 3, "{reasons:?}");
    // The same, and nothing was made good after it.
    calls.pop();
    let (items, refused) = kept(&calls);
    assert_eq!((items.len(), refused.len()), (0, 4), "{items:#?}");
}

#[test]
fn the_way_of_working_that_a_planner_chose_is_in_the_traces() {
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
    let traces = fold("here", &events);
    assert_eq!(
        traces.last().unwrap().methodology.as_deref(),
        Some("search_then_edit"),
        "{traces:#?}"
    );
}

#[test]
fn chinese_words_and_secrets_are_treated_as_they_should_be() {
    let run =
        "#!/bin/bash\n[ \"$1\" = --编码=utf8 ] || { echo '错误：缺少 --编码 参数' >&2; exit 1; }\n";
    Case::new().file("构建.sh", run).teaches(
        &[bash("./构建.sh"), bash("./构建.sh --编码=utf8")],
        &["Run `./构建.sh` with `--编码=utf8` (it says: 缺少)."],
    );
    let run = "#!/bin/bash\n[ -n \"$API_TOKEN\" ] || { echo 'error: API_TOKEN is not set' >&2; exit 3; }\n";
    let items = Case::new().file("run.sh", run).items(&[
        bash("./run.sh"),
        bash("API_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 ./run.sh"),
    ]);
    assert_eq!(items, [], "a secret is no lesson");
    let items = Case::new()
        .file(
            "run.sh",
            "#!/bin/bash\n[ -f \"$1\" ] || { echo \"run: no such file: $1\" >&2; exit 4; }\n",
        )
        .items(&[bash("./run.sh passwd"), bash("./run.sh /etc/passwd")]);
    assert_eq!(items, [], "a place outside the project is no lesson");
}

#[test]
fn a_review_tells_of_the_sessions_and_running_it_twice_changes_nothing_more() {
    let make = MAKE.to_owned();
    let test = Test::new().file("bin/make", make).file("src/a.rs", "x\n");
    std::fs::set_permissions(test.root().join("bin/make"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    // What the user wrote is run as it is, and fails again.
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
    let law = json["suggestions"].as_array().unwrap().iter().find(|s| s["kind"] == "law");
    let line = "- Run `make check`, not `make test`.";
    assert_eq!(law.unwrap()["line"], line, "{json:#}");
    let again: Value = serde_json::from_str(&review("json").stdout).unwrap();
    assert_eq!(again["methods"][0]["weight"], again["methods"][0]["weight_before"], "{again:#}");
    assert_eq!(json["learnt"], again["learnt"]);
    let markdown = review("md").stdout;
    for part in
        ["## Needs a person first", "+- Run `make check`", "## What fails most", "| Bash test |"]
    {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    assert_eq!(markdown, review("md").stdout);
    let html = review("html").stdout;
    assert!(html.contains("&lt;b&gt;no&lt;/b&gt;") && !html.contains("<b>"), "{html}");
    assert!(
        html.contains("default-src 'none'")
            && !html.contains("http://")
            && !html.contains("<script")
    );
    test.agent(&["memory", "review", "--since", "soon"])
        .expect_code(2)
        .expect_stderr("no length of time");
}
