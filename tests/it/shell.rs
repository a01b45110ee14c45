//! The judge against the corpus in `tests/shell`, and its verdicts at the boundary.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use code_agent::permission::{Line, Origin, Pattern, Places, Policy, Rule, Verb};
use code_agent::protocol::control::{PermissionMode, Ruling};
use code_agent::protocol::tool::Effect;
use code_agent::workspace::Workspace;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::support::Test;

const HEADINGS: &[&str] = &[
    "reads",
    "runs",
    "git",
    "undo",
    "use-tool",
    "blocked",
    "network",
    "destructive",
    "secret",
    "never",
    "sandbox",
    "denied",
    "spared",
];

pub(crate) struct Case {
    place: String,
    pub(crate) verdict: String,
    pub(crate) command: String,
    expected: Option<String>,
}

/// Every command of the corpus.
pub(crate) fn corpus() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let mut verdict = String::new();
        for (n, line) in (1..).zip(fs::read_to_string(&file).unwrap().lines()) {
            let place = format!("{name}:{n}");
            if let Some(heading) = line.strip_prefix("== ") {
                assert!(HEADINGS.contains(&heading), "{place}: there is no heading {heading}");
                heading.clone_into(&mut verdict);
            } else if !line.is_empty() && !line.starts_with('#') {
                let (command, expected) = match line.split_once(" =>") {
                    Some((command, expected)) => (command, Some(expected.trim().to_owned())),
                    None => (line, None),
                };
                let command = command.replace('⏎', "\n");
                cases.push(Case { place, verdict: verdict.clone(), command, expected });
            }
        }
    }
    cases
}

/// The project that the corpus speaks of.
fn project() -> (Test, Workspace) {
    let test = Test::new()
        .file("a.txt", "one\n")
        .file("notes.md", "two\n")
        .file("build.log", "three\n")
        .file(".env", "KEY=1\n")
        .file(".env.example", "KEY=\n")
        .file("Cargo.toml", "")
        .file("src/main.rs", "fn main() {}\n")
        .file("src/lib.rs", "")
        .file("sub/x.txt", "x\n")
        .file("hidden/keys.txt", "k\n")
        .file("conf/.env.production", "TOKEN=1\n")
        .file("o/keys.txt", "o\n")
        .file("name with space.txt", "")
        .file("build/x", "")
        .file("node_modules/.bin/tsc", "")
        .file("target/x", "");
    let root = test.root();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    std::os::unix::fs::symlink("/tmp", root.join("out")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", root.join("hooks")).unwrap();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    let workspace = Workspace::open(&root, &[]).unwrap();
    (test, workspace)
}

/// What is said of a command, and what besides.
fn verdict(command: &str, policy: &Policy, workspace: &Workspace) -> (String, String) {
    let line = Line::read(command);
    let reads_only = line.is_read_only();
    let effect = Effect::Command {
        command: command.to_owned(),
        directory: ".".to_owned(),
        reads_only,
        background: false,
    };
    match policy.rule_on("Bash", &effect, workspace) {
        Ruling::Allow(_) => {
            let removed = line.removes(".", workspace).join(" ");
            let word = match (reads_only, !line.git_works_in(".", workspace).writes.is_empty()) {
                (true, _) => "reads",
                (_, true) => "git",
                _ => "runs",
            };
            (word.to_owned(), removed)
        }
        Ruling::Instead(_, reason) if reason.rule == "use tool" => {
            ("use-tool".to_owned(), reason.hint.unwrap_or_default())
        }
        Ruling::Instead(..) => ("blocked".to_owned(), String::new()),
        Ruling::Refuse(_, reason) if reason.rule == "secrets" => {
            ("secret".to_owned(), String::new())
        }
        Ruling::Ask(reason) | Ruling::Refuse(_, reason) => (reason.rule, String::new()),
    }
}

#[test]
fn every_command_of_the_corpus_gets_its_verdict() {
    let (_test, workspace) = project();
    let mut wrong = Vec::new();
    let plain = Policy::new(PermissionMode::AutoEdit, true);
    let rule = |verb, text| (verb, Origin::CommandLine, [Rule::parse(text).unwrap()]);
    let (deny, allow) = (rule(Verb::Deny, "Edit(hidden/**)"), rule(Verb::Allow, "Bash"));
    let guarding = plain.clone().with(deny.0, deny.1, deny.2).with(allow.0, allow.1, allow.2);
    let cases = corpus();
    assert!(cases.len() >= 300, "{}", cases.len());
    for Case { place, verdict: expected, command, expected: besides } in &cases {
        let policy = match expected.as_str() {
            "denied" | "spared" => &guarding,
            _ => &plain,
        };
        let (said, what) = verdict(command, policy, &workspace);
        // Both say that it runs, and that nothing more is known of it.
        let word = match (expected.as_str(), said.as_str()) {
            ("sandbox", "runs") => "sandbox",
            ("undo", "runs" | "git") => "undo",
            ("spared", "runs" | "git" | "reads") => "spared",
            ("denied", "--deny Edit(hidden/**)") => "denied",
            (_, word) => word,
        };
        let fits = match (expected.as_str(), besides) {
            ("undo", Some(files)) => {
                let mut files: Vec<&str> = files.split(' ').collect();
                let mut found: Vec<&str> = what.split(' ').collect();
                files.sort_unstable();
                found.sort_unstable();
                files == found
            }
            (_, Some(expected)) => what == *expected,
            (_, None) => true,
        };
        if word != expected || !fits {
            wrong.push(format!(
                "{place}: `{command}` is {said} ({what}), not {expected} {besides:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_is_never_run_is_not_run_in_any_mode() {
    let (_test, workspace) = project();
    for case in corpus().iter().filter(|case| case.verdict == "never") {
        for mode in [PermissionMode::ReadOnly, PermissionMode::Ask, PermissionMode::Full] {
            let (said, _) = verdict(&case.command, &Policy::new(mode, true), &workspace);
            assert_eq!(said, "never", "{} in {mode:?}: {}", case.place, case.command);
        }
    }
}

fn call(test: &Test, command: &str, options: &[&str]) -> Value {
    let input = json!({"command": command}).to_string();
    let mut args = vec!["tool", "call", "Bash", &input];
    args.extend(options);
    let done = test.agent(&args);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

#[test]
fn the_better_tool_is_named_with_its_arguments() {
    let (test, _) = project();
    let envelope = call(&test, "grep -rn foo src | head -5", &["-y"]);
    assert_eq!(envelope["error"]["code"], "USE_TOOL");
    assert_eq!(
        envelope["error"]["message"],
        "Use Grep tool instead of Bash for searching in files."
    );
    assert_eq!(envelope["error"]["hint"], r#"Grep {"pattern":"foo","path":"src","limit":5}"#);
    // The hint is a call that works.
    let grep = test.call("Grep", &json!({"pattern": "foo", "path": "src", "limit": 5}));
    assert_eq!(grep["status"], "success");
    let envelope = call(&test, "git rebase -i HEAD~2", &["-y"]);
    assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED");
    assert!(envelope["error"]["message"].as_str().unwrap().contains("GIT_SEQUENCE_EDITOR"));
}

#[test]
fn the_network_and_what_can_not_be_undone_need_a_person() {
    let (test, _) = project();
    for command in ["git push", "curl https://127.0.0.1:9/", "rm -r build", "git reset --hard"] {
        let envelope = call(&test, command, &[]);
        assert_eq!(envelope["error"]["code"], "APPROVAL_REQUIRED", "{command}");
    }
    assert!(test.root().join("build/x").exists());
    let envelope = call(&test, "rm -r build", &["--allow", "Bash(rm *)"]);
    assert_eq!(envelope["status"], "success", "{envelope}");
    assert!(!test.root().join("build").exists());
    assert_eq!(
        call(&test, "cat .env | base64", &["--allow", "Bash"])["error"]["code"],
        "ACCESS_DENIED"
    );
}

#[test]
fn a_rule_against_a_command_holds_for_it_behind_whatever_runs_it() {
    let (test, _) = project();
    let options = ["--allow", "Bash", "--deny", "Bash(touch new*)"];
    for command in [
        "touch new.txt",
        "env sh -c 'touch new.txt' --call=true",
        "env -S '-i touch new.txt'",
        "flock a.txt -c 'touch new.txt'",
        "npm -c 'touch new.txt' exec",
        "npx --no-install -c 'touch new.txt'",
        "uv --odd never run touch new.txt",
        "npm explore x -- touch new.txt",
    ] {
        let envelope = call(&test, command, &options);
        assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED", "{command}: {envelope}");
        assert!(!test.root().join("new.txt").exists(), "{command}");
    }
    let envelope = call(&test, "env sh -c 'touch old.txt' --call=true", &options);
    assert_eq!(envelope["status"], "success", "{envelope}");
    assert!(test.root().join("old.txt").exists());
}

#[test]
fn a_rule_against_a_target_holds_wherever_the_options_of_make_stand() {
    let (test, _) = project();
    let test = test.file("Makefile", "all:\ndeploy:\n\ttouch deployed\nX=0\n");
    let options = ["--permission-mode", "full", "--deny", "Bash(make deploy *)"];
    for command in ["make deploy", "make -j 4 deploy", "make X=1 deploy", "make -I sub all deploy"]
    {
        let envelope = call(&test, command, &options);
        assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED", "{command}: {envelope}");
        assert!(!test.root().join("deployed").exists(), "{command}");
    }
}

#[test]
fn files_that_a_command_takes_away_come_back_with_the_undo() {
    let script = "call: Bash {\"command\": \"rm a.txt && mv b.txt sub/c.txt && echo 2 > d.txt && true\"}\n---\n\
        expect: success\ntext: ok";
    let test = Test::new()
        .file("a.txt", "one\n")
        .file("b.txt", "two\n")
        .file("d.txt", "1\n")
        .file("sub/x", "")
        .script(script);
    let path = test.root().join("a.txt");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(!path.exists() && test.root().join("sub/c.txt").exists());
    let done = test.agent(&["session", "undo"]).expect_code(0);
    done.expect_stdout(
        "turn 1\n  a.txt: restored\n  b.txt: restored\n  d.txt: restored\n  sub/c.txt: removed\n",
    );
    assert_eq!(
        [test.read("a.txt"), test.read("b.txt"), test.read("d.txt")],
        ["one\n", "two\n", "1\n"]
    );
    assert!(!test.root().join("sub/c.txt").exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o750);
}

#[test]
fn what_is_moved_by_options_or_named_by_variables_comes_back_too() {
    let line = "mv -t sub b.txt && mv -b c.txt a.txt; x=d.txt; echo 2 > $x; rm -r *.md";
    let script = format!("call: Bash {}\n---\nexpect: success\ntext: ok", json!({"command": line}));
    let files = ["a.txt", "b.txt", "c.txt", "d.txt", "e.md"];
    let test = Test::new().file("sub/x", "").script(&script);
    let test = files.iter().fold(test, |test, name| test.file(name, name));
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert_eq!(test.read("d.txt"), "2\n");
    assert!(files[1..3].iter().chain(&files[4..]).all(|name| !test.root().join(name).exists()));
    test.agent(&["session", "undo"]).expect_code(0).expect_stdout(
        "turn 1\n  a.txt: restored\n  a.txt~: removed\n  b.txt: restored\n  c.txt: restored\n  d.txt: restored\n  \
         e.md: restored\n  sub/b.txt: removed\n",
    );
    for name in files {
        assert_eq!(test.read(name), name);
    }
}

#[test]
fn a_pipeline_runs_and_the_tool_is_named() {
    let (test, _) = project();
    let envelope = call(&test, "grep -n main src/main.rs | sort | uniq", &["--allow", "Bash"]);
    assert_eq!(envelope["status"], "success");
    let text = envelope["text"].as_str().unwrap();
    assert!(text.contains(r#"Grep {"pattern":"main","path":"src/main.rs"}"#), "{text}");
}

#[test]
fn commands_that_only_read_run_together() {
    let script = "call: Bash {\"command\": \"sleep 0.5; pwd\"}\n\
        call: Bash {\"command\": \"sleep 0.5; date\"}\n---\ntext: ok";
    let test = Test::new().script(script);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    let events = test.events();
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind).unwrap();
    let started = events[..at("tool.finished")].iter().filter(|e| e["type"] == "tool.started");
    assert_eq!(started.count(), 2);
    let decided = test.events_of("permission.decided");
    assert_eq!(decided.len(), 2, "a command is ruled on, also where it only reads");
    assert_eq!(
        (&decided[0]["ruling"], &decided[0]["rule"]),
        (&json!("allow"), &json!("--allow Bash"))
    );
}

#[test]
fn a_better_way_is_no_denial() {
    let script = "call: Bash {\"command\": \"cat a.txt\"}\n---\nexpect: USE_TOOL\n\
        call: Read {\"path\": \"a.txt\"}\n---\ntext: one";
    let test = Test::new().file("a.txt", "one\n").script(script);
    test.run(&["what is in a.txt?"]).expect_code(0).expect_stdout("one\n");
    let decided = &test.events_of("permission.decided")[0];
    assert_eq!((&decided["ruling"], &decided["rule"]), (&json!("instead"), &json!("use tool")));
    assert_eq!(decided["denied_effect"], Value::Null);
}

#[test]
fn rules_count_by_where_they_stand() {
    let script = "call: Bash {\"command\": \"make all\"}\n---\ntext: ok";
    let decided = |test: &Test, options: &[&str]| {
        let mut args = vec!["task", "--permission-mode", "ask"];
        args.extend(options);
        test.run(&args);
        let event = test.events_of("permission.decided").pop().unwrap();
        format!("{}: {}", event["ruling"].as_str().unwrap(), event["rule"].as_str().unwrap())
    };
    let allow = "[permissions]\nallow = [\"Bash(make *)\"]\n";
    let test = Test::new().file(".agent/config.toml", allow).script(script);
    assert_eq!(decided(&test, &[]), "ask: mode ask", "the folder is not trusted");
    test.agent(&["trust"]).expect_code(0);
    assert_eq!(decided(&test, &[]), "allow: allow Bash(make *) (project configuration)");
    assert_eq!(decided(&test, &["--deny", "Bash(make)"]), "refuse: --deny Bash(make)");
    let ask = "[permissions]\nask = [\"Bash(make)\"]\n";
    let test = test.user_config(ask);
    assert_eq!(decided(&test, &[]), "ask: ask Bash(make) (user configuration)");
    assert_eq!(decided(&test, &["--allow", "Bash(make)"]), "allow: --allow Bash(make)");
    let deny = "[permissions]\ndeny = [\"Bash(make)\"]\n";
    let test = Test::new().file(".agent/config.toml", deny).script(script);
    let ruling = decided(&test, &["--allow", "Bash"]);
    assert_eq!(ruling, "refuse: deny Bash(make) (project configuration)", "trusted or not");
}

/// The options that a text names: `--allow 'Read(.env)'`.
fn options_in(text: &str) -> Vec<&str> {
    text.split("--allow '").skip(1).filter_map(|rest| rest.split('\'').next()).collect()
}

#[test]
fn what_a_refusal_says_would_allow_it_allows_it() {
    let (_test, workspace) = project();
    let cases = corpus();
    let secret = cases.iter().filter(|case| case.verdict == "secret");
    let more =
        ["cat ./.env | sort", "cd src && cat ../.env | sort", "cat .env sub/../id_rsa | sort"];
    let commands: Vec<&str> = secret.map(|case| case.command.as_str()).chain(more).collect();
    assert!(commands.len() > 50, "{}", commands.len());
    let places = Places {
        project: workspace.root().display().to_string(),
        home: std::env::home_dir().map(|home| home.display().to_string()),
    };
    for command in commands {
        let effect = Effect::Command {
            command: command.to_owned(),
            directory: ".".to_owned(),
            reads_only: false,
            background: false,
        };
        let policy = Policy::new(PermissionMode::AutoEdit, true).at(places.clone());
        let Ruling::Refuse(_, refused) = policy.rule_on("Bash", &effect, &workspace) else {
            panic!("{command} is refused")
        };
        let rules: Vec<Rule> =
            options_in(&refused.text).into_iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        assert!(!rules.is_empty(), "{command}: {}", refused.text);
        let policy = policy.with(Verb::Allow, Origin::CommandLine, rules);
        let ruling = policy.rule_on("Bash", &effect, &workspace);
        let is_refused = matches!(&ruling, Ruling::Refuse(_, reason) if reason.rule == "secrets");
        assert!(!is_refused, "{command}: {}\n{ruling:?}", refused.text);
    }
}

#[test]
fn a_file_is_the_same_by_each_of_its_names() {
    let (test, _) = project();
    let test = test.file("web/.env", "KEY=2\n").file("web/new.txt", "3\n");
    for command in
        ["cat ./.env | sort", "cat ./web/.env | sort", "cd web && cat .env ../.env | wc -l"]
    {
        let envelope = call(&test, command, &[]);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{command}");
        let text = envelope["error"]["message"].as_str().unwrap().to_owned();
        let options = options_in(&text).into_iter().flat_map(|rule| ["--allow", rule]);
        let envelope = call(&test, command, &options.collect::<Vec<_>>());
        assert_eq!(envelope["status"], "success", "{command}: {text}: {envelope}");
    }
    let denied = ["--deny", "Read(./new.txt)"];
    let envelope = call(&test, "cd web && cat new.txt | sort", &denied);
    assert_eq!(envelope["status"], "success", "{envelope}");
    let envelope = call(&test, "cd web && cat ../new.txt | sort", &denied);
    assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{envelope}");
}

#[test]
fn a_sandbox_with_a_loopback_of_its_own_asks_nobody_about_this_machine() {
    let (_test, workspace) = project();
    let policy = || Policy::new(PermissionMode::AutoEdit, true);
    let own = policy().with_own(true, true);
    let effect = |command: &str| Effect::Command {
        command: command.to_owned(),
        directory: ".".to_owned(),
        reads_only: false,
        background: false,
    };
    let asks = |policy: &Policy, command: &str| {
        matches!(policy.rule_on("Bash", &effect(command), &workspace), Ruling::Ask(_))
    };
    for command in [
        "curl 127.0.0.1:8123",
        "curl -s http://localhost:8123/a?b=c -o out.json",
        "curl -X POST -d x=1 http://127.0.0.1:8123/",
        "curl -fsS 'http://[::1]:8123/'",
        "wget -qO- http://localhost:8123",
        "nc -z localhost 8123",
        "echo hi | nc 127.0.0.1 8123",
        ": < /dev/tcp/127.0.0.1/8123",
        "make serve & curl localhost:8123/health",
    ] {
        assert!(
            !asks(&own, command) && !own.needs_network(&effect(command), &workspace),
            "{command}"
        );
        assert!(asks(&policy(), command), "{command}");
    }
    for command in [
        "curl localhost.example.com",
        "curl localhost:8123 https://example.com",
        "curl localhost:8123 example.com",
        "curl -x http://proxy:1 localhost:8123",
        "curl http://localhost@example.com/",
        "curl \"$url\"",
        "nc example.com 80",
        "ssh localhost true",
        ": < /dev/tcp/example.com/80",
        "curl localhost:8123; git fetch",
    ] {
        assert!(
            asks(&own, command) && own.needs_network(&effect(command), &workspace),
            "{command}"
        );
    }
    // Without a sandbox there is nothing of its own.
    let bare = Policy::new(PermissionMode::Full, false).with_own(true, true);
    assert!(bare.needs_network(&effect("curl localhost:8123"), &workspace));
    let options = [Rule::parse("Bash").unwrap()];
    let bare =
        Policy::new(PermissionMode::AutoEdit, false).with(Verb::Allow, Origin::UserFile, options);
    assert!(asks(&bare, "rm -rf /tmp/x"));
}

#[test]
fn a_yes_gives_the_network_where_the_question_was_about_it() {
    let (_test, workspace) = project();
    let policy = Policy::new(PermissionMode::AutoEdit, true);
    for Case { place, verdict, command, .. } in corpus() {
        let expected = match verdict.as_str() {
            "network" => true,
            "reads" | "runs" | "git" | "undo" => false,
            _ => continue,
        };
        let effect = Effect::Command {
            command,
            directory: ".".into(),
            reads_only: false,
            background: false,
        };
        assert_eq!(policy.needs_network(&effect, &workspace), expected, "{place}");
    }
}

#[test]
fn nothing_is_the_sandboxs_own_in_tmp_where_the_project_lies_there() {
    let (test, _) = project();
    let root = test.root().canonicalize().unwrap();
    let is_temporary = ["/tmp", "/var/tmp"].iter().any(|own| root.starts_with(own));
    let expected = if is_temporary { json!("APPROVAL_REQUIRED") } else { Value::Null };
    let envelope = call(&test, "rm -rf /tmp/nothing-here", &[]);
    assert_eq!(envelope["error"]["code"], expected, "{envelope}");
}

#[test]
fn what_a_patch_names_is_asked_about_where_a_rule_guards_files() {
    let (test, _) = project();
    for command in ["git apply x.patch", "git am x.patch", "patch -p1 < x.patch"] {
        let envelope = call(&test, command, &["--allow", "Bash", "--deny", "Edit(a.txt)"]);
        assert_eq!(envelope["error"]["code"], "APPROVAL_REQUIRED", "{command}: {envelope}");
    }
}

#[test]
fn a_file_that_a_rule_keeps_from_being_read_is_not_read_under_another_name() {
    let (test, _) = project();
    for command in [
        "env -C sub cat x.txt | cat",
        "env --chdir=sub cat x.txt | cat",
        "sed 'r sub/x.txt' a.txt",
        "git mv sub/x.txt y.txt",
        "git checkout-index --prefix=y/ sub/x.txt",
        "git checkout-index -a --prefix=y/",
        "grep -r . *",
        "grep -r . */",
        "grep -r . s*b",
        "find s*b -type f | xargs cat",
        "find . -type d -name 's*' -exec grep -r . {} +",
        "cd s*b; cat *",
        "d=sub; cd $d; cat *",
        "git -C s*b grep .",
        "git grep . -- 's*'",
        "git grep . -- ':(glob)s*/*'",
        "git grep . -- ':!src'",
        "cd src && git grep . -- '../s*'",
        "cd src && git grep . -- ':/s*'",
        "git grep . -- ':(icase)SUB'",
    ] {
        let envelope = call(&test, command, &["--allow", "Bash", "--deny", "Read(sub/x.txt)"]);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{command}: {envelope}");
    }
}

/// The project lies in the home, and in no folder that is hidden.
fn in_home() -> Test {
    let (test, _) = project();
    let root = test.root();
    std::os::unix::fs::symlink(".env", root.join("lnk")).unwrap();
    let home = root.parent().unwrap().to_str().unwrap().to_owned();
    test.file("s/k", "K\n").env("HOME", &home)
}

#[test]
fn a_place_is_the_same_by_each_way_to_write_it() {
    let test = in_home();
    let shows = [
        "cat ~/project/.e* | sort",
        "cat ~/project/.env | sort",
        "cat $HOME/project/lnk | sort",
        "cat ~/project/ln* | sort",
        "cat ln? | sort",
        "grep -r KEY ~/project | sort",
        "grep -r KEY ~ | sort",
        "grep -r KEY .. | sort",
        "find ~/project -name '.e*' -exec cat {} +",
        "find ~/project -maxdepth 1 -name '.e*' -exec cat {} +",
        "for f in ~/project/.e*; do cat $f; done",
        "for f in $HOME/project/.e*; do cat \"$f\"; done",
        "cd && cat project/.e* | sort",
        "cd ~ && cat project/ln* | sort",
        "rg --hidden KEY ~/project | sort",
        "cat ~+/.e* | sort",
        "cat ~+/lnk | sort",
        "cat /proc/self/cwd/.e* | sort",
        "cat /proc/self/cwd/lnk | sort",
        "cat /proc/$$/cwd/.e* | sort",
        "cat /proc/self/root$PWD/.e* | sort",
        "cat ../*/.e* | sort",
        "cat ~/*/.e* | sort",
        "cat ~/pro*/lnk | sort",
    ];
    for command in shows {
        let envelope = call(&test, command, &[]);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{command}: {envelope}");
    }
    let ways = [
        "cat ~/project/s/k | tr z z",
        "cat ~/project/s/* | tr z z",
        "cat ../*/s/k | tr z z",
        "cat ~/*/s/k | tr z z",
        "cat /proc/self/cwd/s/k | tr z z",
        "cat /proc/self/cwd/s/* | tr z z",
        "cat /proc/$$/cwd/s/k | tr z z",
        "cat /proc/self/root$PWD/s/k | tr z z",
        "cat ~+/s/k | tr z z",
        "cat $PWD/s/? | tr z z",
        "grep -r K ~/project/s | tr z z",
    ];
    for command in ways {
        let envelope = call(&test, command, &["--deny", "Read(s/k)"]);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{command}: {envelope}");
    }
    let changes = [
        "cp a.txt ~/project/src/lib.rs",
        "cp a.txt ~/project/src",
        "echo x > $HOME/project/src/lib.rs",
        "echo x | tee /proc/self/cwd/src/lib.rs",
        "cp a.txt ../*/src/lib.rs",
        "mv a.txt ~/pro*/src/lib.rs",
        "cp -r o ~/project/src",
    ];
    for command in changes {
        let envelope = call(&test, command, &["--deny", "Edit(src/**)", "--allow", "Bash"]);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{command}: {envelope}");
    }
    let free = ["cat ~/project/a.txt | sort", "ls ~/project | sort", "cat ~/project/*.txt | sort"];
    for command in free {
        let envelope = call(&test, command, &["--deny", "Read(s/k)"]);
        assert_eq!(envelope["status"], "success", "{command}: {envelope}");
    }
}

#[test]
fn what_is_overwritten_by_another_way_to_it_comes_back() {
    let line = "cp c.txt ~/project/a.txt; echo 2 | tee $HOME/project/b.txt; echo 3 > lnk; \
                rm ~/project/d.*; cp c.txt /proc/self/cwd/e.txt; echo 4 > ../*/f.txt";
    let script = format!("call: Bash {}\n---\nexpect: success\ntext: ok", json!({"command": line}));
    let test = in_home().script(&script);
    let root = test.root();
    fs::remove_file(root.join("lnk")).unwrap();
    std::os::unix::fs::symlink("g.txt", root.join("lnk")).unwrap();
    let files = ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt", "g.txt"];
    let test = files.iter().fold(test, |test, name| test.file(name, name));
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(!root.join("d.txt").exists() && test.read("e.txt") == "c.txt");
    test.agent(&["session", "undo"]).expect_code(0);
    for name in files {
        assert_eq!(test.read(name), name);
    }
}

/// A call of a tool with these options.
fn made(test: &Test, name: &str, input: &Value, options: &[&str]) -> Value {
    let input = input.to_string();
    let mut args = vec!["tool", "call", name, &input];
    args.extend(options);
    let done = test.agent(&args);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

#[test]
fn a_rule_holds_as_it_is_written() {
    let test = in_home().file("b.txt", "b\n");
    let root = test.root();
    std::os::unix::fs::symlink("s/k", root.join("kl")).unwrap();
    std::os::unix::fs::symlink("project", root.parent().unwrap().join("way")).unwrap();
    let home = root.parent().unwrap().with_extension("home");
    std::os::unix::fs::symlink(root.parent().unwrap(), &home).unwrap();
    let home = home.to_str().unwrap().to_owned();
    let test = test.env("HOME", &home);
    let by_way = format!("Read({}/way/s/k)", root.parent().unwrap().display());
    let read = ("Read", json!({"path": "s/k"}));
    let cat = ("Bash", json!({"command": "cat s/k | tr z z"}));
    let write = |path: &str| ("Write", json!({"path": path, "content": "x"}));
    let echo = |path: &str| ("Bash", json!({"command": format!("true > {path}")}));
    let grep = ("Grep", json!({"pattern": "K", "path": "s/k"}));
    for (rule, calls) in [
        ("Edit(a.txt) Edit(b.txt)", vec![write("a.txt"), write("b.txt"), echo("b.txt")]),
        ("Edit(a.txt),Edit(b.txt)", vec![write("a.txt"), write("b.txt")]),
        ("Edit(.)", vec![write("new"), echo("a.txt")]),
        ("Edit(*)", vec![write("new"), echo("a.txt")]),
        ("Edit(**)", vec![write("d/new"), echo("a.txt")]),
        ("Read(**)", vec![read.clone(), cat.clone(), grep.clone()]),
        ("Read(*)", vec![read.clone(), cat.clone(), grep.clone()]),
        ("Read(s//k)", vec![read.clone(), cat.clone()]),
        ("Read(./x/../s/k)", vec![read.clone(), cat.clone()]),
        ("Read(kl)", vec![read.clone(), cat.clone()]),
        ("Read(~/project/s/**)", vec![read.clone(), cat.clone(), grep.clone()]),
        (&by_way, vec![read.clone(), cat.clone(), grep.clone()]),
    ] {
        for (tool, input) in calls {
            let envelope = made(&test, tool, &input, &["--disallowed-tools", rule]);
            assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{rule} {input}: {envelope}");
        }
    }
    let envelope =
        made(&test, "Grep", &json!({"pattern": "K|x"}), &["--deny", "Grep(s/**) Grep(sub/**)"]);
    assert_eq!(
        envelope["data"]["stats"]["withheld"].as_u64().or(envelope["stats"]["withheld"].as_u64()),
        Some(2),
        "{envelope}"
    );
    for (command, rule) in [
        ("true 2> /dev/null", "Edit(**)"),
        ("echo x", "Edit(.)"),
        ("echo x | cat", "Read(*)"),
        ("git --version", "Read(*)"),
    ] {
        let envelope = call(&test, command, &["--deny", rule, "--allow", "Bash"]);
        assert_eq!(envelope["status"], "success", "{command}: {envelope}");
    }
    for rule in ["Edit(..)", "Edit(\"b.txt\")", "Edit(a.txt)Edit(b.txt)", "Read(//a)"] {
        let done = test.agent(&["tool", "call", "LS", "{}", "--deny", rule]);
        done.expect_code(2).expect_stderr("is no rule");
    }
    fs::remove_file(home).unwrap();
}

#[test]
fn a_rule_of_several_words_is_not_passed_by_words_that_are_not_known() {
    let (test, _) = project();
    let rules = ["--deny", "Bash(git push *)", "--deny", "Bash(rm *)", "--allow", "Bash"];
    for command in [
        "x=push; git $x o HEAD",
        "git $(echo push) o HEAD",
        "g=git; $g push o",
        "f(){ git \"$@\"; }; f push o",
        "echo push o HEAD | xargs git",
        "echo push | xargs -I% git % o",
        "git -c alias.p=push p o",
        "for c in push; do git $c o; done",
        "hash -p /usr/bin/git g; g push o",
        "/usr/lib/git-core/git-push o",
        "git send-pack o HEAD",
        "git -C sub $x",
    ] {
        let envelope = call(&test, command, &rules);
        assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED", "{command}: {envelope}");
        let text = envelope["error"]["message"].as_str().unwrap();
        assert!(text.contains("a rule forbids this"), "{command}: {text}");
    }
    for command in [
        "x=1; echo $x | cat",
        "echo \"$HOME\" | cat",
        "x=--oneline; true || git log $x",
        "true || git log $x",
        "true || git commit -m \"$(cat a.txt)\"",
        "x=status; true || git $x",
        "true || ls | xargs git add",
        "true || git -c user.name=a commit -m \"$m\"",
    ] {
        let envelope = call(&test, command, &rules);
        assert_eq!(envelope["status"], "success", "{command}: {envelope}");
    }
}

#[test]
fn a_rule_against_a_program_holds_where_an_option_names_it() {
    let (_test, workspace) = project();
    let rule = |verb, text| (verb, Origin::CommandLine, [Rule::parse(text).unwrap()]);
    let policy = Policy::new(PermissionMode::AutoEdit, true);
    let (deny, allow) = (rule(Verb::Deny, "Bash(zap *)"), rule(Verb::Allow, "Bash"));
    let policy = policy.with(deny.0, deny.1, deny.2).with(allow.0, allow.1, allow.2);
    for command in [
        "z[a-b]p now",
        "z[[:alpha:]]p now",
        "echo; z[x[:lower:]]p now",
        "git grep -Ozap hi",
        "git grep -nOzap hi",
        "git grep --open-files-in-pager=zap hi",
        "git difftool -y -x zap",
        "git difftool -y -xzap HEAD",
        "git difftool --extcmd=zap",
        "git bisect run zap now",
        "git rebase -x 'zap now' HEAD~2",
        "git filter-branch --tree-filter 'zap now' HEAD",
        "git submodule foreach 'zap now'",
        "git -c diff.external=zap log -p --ext-diff",
        "git -c pager.log=zap -p log",
        "git -c core.pager='zap now' -p log",
        "git -c alias.x='!zap now' x",
        "git -c core.fsmonitor=zap status",
        "git -c credential.helper='!zap now' fetch",
        "git ls-remote --upload-pack=zap .",
        "git ls-remote 'ext::zap now'",
        "GIT_PAGER=zap git -p log",
        "GIT_EXTERNAL_DIFF=zap git diff",
        "export GIT_EDITOR=zap; git commit",
        "PS4='$(zap now)' bash -xc true",
        "tar cf a.tar -I zap a.txt",
        "tar xf a.tar --to-command=zap",
        "sort --compress-program=zap a.txt",
        "split --filter='zap now' a.txt",
        "rg --pre zap x",
        "npm --script-shell=zap run x",
        "rsync -e 'zap now' src/ host:/x",
    ] {
        let (said, _) = verdict(command, &policy, &workspace);
        assert_eq!(said, "--deny Bash(zap *)", "{command}");
    }
    for command in [
        "git grep -n zap",
        "git grep -e -Ozap",
        "git difftool -y -x diff",
        "git -c user.name=zap commit -m x",
        "git log --grep=zap",
        "GIT_PAGER=cat git log",
        "tar cf a.tar zap",
        "rg --pre cat zap",
        "echo zap now",
    ] {
        let (said, _) = verdict(command, &policy, &workspace);
        assert_ne!(said, "--deny Bash(zap *)", "{command}");
    }
}

const NAMES: &[&str] =
    &[".env", ".Env", "env", "e", "a]", "a-c", "[e]", "!", "\\e", "^", "b", "A", "]", "-", "a.txt"];

/// Patterns of pieces that mean something, and what bash says of each name.
#[test]
fn a_pattern_stands_for_no_less_than_in_bash() {
    let pieces = [
        "[",
        "]",
        "[!",
        "[^",
        "-",
        "a-c",
        "[:alpha:]",
        "[:^x:]",
        "[=e=]",
        "[.e.]",
        "[.-.]",
        "\\",
        "e",
        ".",
        "*",
        "?",
        "nv",
        "[:upper:]",
        "z-a",
        "[:digit:]",
        "[.space.]",
    ];
    let patterns = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..8);
    let patterns = prop::collection::vec(patterns.prop_map(|parts| parts.concat()), 600);
    let mut runner = TestRunner::new(Config {
        cases: 2,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    });
    let tried = runner.run(&patterns, |patterns| {
        let mut script = String::from("export LC_ALL=C.UTF-8\n");
        for pattern in &patterns {
            for name in NAMES {
                let quoted = pattern.replace('\'', "'\\''");
                let _ = writeln!(script, "p='{quoted}'; [[ '{name}' == $p ]] && echo 1 || echo 0");
            }
        }
        let mut bash = Command::new("bash")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let mut input = bash.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
        let output = bash.wait_with_output().expect("an answer");
        writer.join().expect("a thread").expect("it reads");
        let answers = String::from_utf8(output.stdout).expect("text");
        let mut answers = answers.lines();
        for pattern in &patterns {
            let own = Pattern::new(pattern, false);
            for name in NAMES {
                let fits = answers.next() == Some("1");
                prop_assert!(!fits || own.is_match(name), "{pattern} on {name}");
                prop_assert!(
                    fits || !own.is_exact || !own.is_match(name),
                    "{pattern} on {name}, not exact"
                );
            }
        }
        prop_assert!(answers.next().is_none());
        Ok(())
    });
    // (Not with the patterns that it was among.)
    assert!(
        tried.is_ok(),
        "{}",
        tried.unwrap_err().to_string().split("minimal").next().unwrap_or_default()
    );
}
