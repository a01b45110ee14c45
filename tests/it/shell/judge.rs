//! The command judge against the corpus in `tests/shell`, and its verdicts in the binary.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_engine::tools::WorkspaceFacts;
use agent_host::workspace::{CheckpointLimits, CheckpointSettings, Workspace};
use agent_permission::{CommandLine, Policy, is_build_output};
use agent_protocol::control::{PermissionMode, Ruling};
use agent_protocol::tool::Effect;
use serde_json::{Value, json};

use crate::support::{Test, has};

const HEADINGS: &[&str] = &["reads", "runs", "asks", "never", "sandbox"];

pub(crate) struct Case {
    place: String,
    pub(crate) verdict: String,
    pub(crate) command: String,
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
                let command = line.replace('⏎', "\n");
                cases.push(Case { place, verdict: verdict.clone(), command });
            }
        }
    }
    cases
}

/// The project that the corpus assumes.
fn project() -> (Test, Workspace) {
    let test = Test::new()
        .file("a.txt", "one\n")
        .file("notes.md", "two\n")
        .file("build.log", "three\n")
        .file(".gitignore", "*.log\n*.local\nlocal/\nbuild/\ntarget/\n.env\n")
        .file(".env", "KEY=1\n")
        .file(".env.example", "KEY=\n")
        .file("Cargo.toml", "")
        .file("src/main.rs", "fn main() {}\n")
        .file("src/lib.rs", "")
        .file("sub/x.txt", "x\n")
        // Too large for an ignored file in a checkpoint.
        .file("notes.local", "n\n".repeat(1 << 20))
        .file("local/data.db", "d\n".repeat(1 << 20))
        .file("name with space.txt", "")
        .file("build/x", "")
        .file("node_modules/.bin/tsc", "")
        .file("target/x", "");
    let root = test.root();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    let state = root.with_file_name("state-of-the-judge");
    fs::create_dir_all(state.join("session")).unwrap();
    let workspace = Workspace::open(&root, &[]).unwrap().with_checkpoints(CheckpointSettings {
        store: state.join("store"),
        session: state.join("session"),
        limits: CheckpointLimits { is_build_output, ..CheckpointLimits::default() },
        read_blobs: Arc::new(|_, _| Ok(std::collections::HashMap::new())),
    });
    (test, workspace)
}

fn effect_of(command: &str) -> Effect {
    Effect::Command {
        command: command.to_owned(),
        directory: ".".to_owned(),
        reads_only: CommandLine::parse(command).is_read_only(),
        programs: Vec::new(),
        unproven: Vec::new(),
        background: false,
    }
}

/// `reads`, `runs`, `asks` or `never`, and the rule.
fn verdict(command: &str, policy: &Policy, workspace: &Workspace) -> (&'static str, String) {
    match policy.rule_on("Bash", &effect_of(command), &WorkspaceFacts(workspace)) {
        Ruling::Allow(reason) if CommandLine::parse(command).is_read_only() => {
            ("reads", reason.rule)
        }
        Ruling::Allow(reason) => ("runs", reason.rule),
        Ruling::Ask(reason) => ("asks", reason.rule),
        Ruling::Refuse(_, reason) => ("never", reason.rule),
    }
}

#[test]
fn corpus_commands_have_the_expected_verdict() {
    let (_test, workspace) = project();
    let policy = Policy::new(PermissionMode::AutoEdit, true);
    let mut wrong = Vec::new();
    let cases = corpus();
    assert!(cases.len() >= 300, "{}", cases.len());
    for Case { place, verdict: expected, command } in &cases {
        let (said, rule) = verdict(command, &policy, &workspace);
        let fits = match expected.as_str() {
            "sandbox" => matches!(said, "runs" | "reads"),
            expected => said == expected,
        };
        if !fits {
            wrong.push(format!("{place}: `{command}` is {said} ({rule}), not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn blocked_commands_are_blocked_in_every_mode() {
    let (_test, workspace) = project();
    for case in corpus().iter().filter(|case| case.verdict == "never") {
        for mode in [PermissionMode::ReadOnly, PermissionMode::Ask, PermissionMode::Full] {
            let (said, rule) = verdict(&case.command, &Policy::new(mode, true), &workspace);
            assert_eq!((said, &*rule), ("never", "never"), "{mode:?} {}", case.command);
        }
    }
}

/// The table of `docs/PERMISSIONS.md`.
fn command_table_markdown() -> String {
    let table: toml::Table = toml::from_str(include_str!("../../../data/commands.toml")).unwrap();
    let rules = table["rule"].as_array().unwrap();
    let text = |rule: &toml::Value, key: &str| {
        rule.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    };
    let words = |rule: &toml::Value, key: &str, separator: &str| {
        let words = rule.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        words.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(separator)
    };
    let mut table = "| Command | Reason |\n|---|---|\n".to_owned();
    let mut section = |title: &str, is_listed: &dyn Fn(&toml::Value) -> bool| {
        table.push_str(&format!("| **{title}** | |\n"));
        for rule in rules.iter().filter(|rule| is_listed(rule)) {
            let mut programs = words(rule, "programs", ", ");
            for (before, part, after) in [
                (" ", words(rule, "words", " / "), ""),
                (" with ", words(rule, "with", " / "), ""),
                (" (`", text(rule, "example"), "`)"),
            ] {
                if !part.is_empty() {
                    programs.push_str(&format!("{before}{part}{after}"));
                }
            }
            let hint = Some(text(rule, "hint")).filter(|hint| !hint.is_empty());
            let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
            let cells = [programs, text(rule, "reason") + &hint];
            let [programs, reason] = cells.map(|cell| cell.replace('|', "\\|"));
            table.push_str(&format!("| {programs} | {reason} |\n"));
        }
    };
    for (title, right) in [
        ("Asks: network", "network"),
        ("Asks: runs outside the sandbox", "outside"),
        ("Asks: git configuration", "git_config"),
        ("Asks: cannot be undone", ""),
    ] {
        section(title, &|rule| text(rule, "class") == "asks" && text(rule, "right") == right);
    }
    section("Asks only where checkpoints are off", &|rule| {
        rule.get("destructive") == Some(&toml::Value::Boolean(true))
    });
    section("Never", &|rule| text(rule, "class") == "never");
    table
}

/// With `UPDATE_DOCS=1` the table is written instead of compared.
#[test]
fn permission_table_in_the_docs_is_up_to_date() {
    const BEGIN: &str = "<!-- generated from data/commands.toml -->\n";
    const END: &str = "<!-- end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/PERMISSIONS.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", command_table_markdown());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(text == expected, "docs/PERMISSIONS.md is out of date: run with UPDATE_DOCS=1");
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
fn approval_error_names_the_rule_that_allows_the_command() {
    let (test, _) = project();
    for (command, rule) in [
        ("git push origin main", "Bash(git push *)"),
        ("curl https://example.com/", "Bash(curl https://example.com/)"),
        ("rm -r local", "Bash(rm -r local)"),
        ("git config user.name x", "Bash(git config *)"),
        ("docker ps", "Bash(docker ps)"),
    ] {
        let envelope = call(&test, command, &[]);
        assert_eq!(envelope["error"]["code"], "APPROVAL_REQUIRED", "{command}: {envelope}");
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("--allow '{rule}'")), "{command}: {message}");
    }
    assert!(test.root().join("local/data.db").exists());
    let envelope = call(&test, "rm -r local", &["--allow", "Bash(rm *)"]);
    assert_eq!(envelope["status"], "success", "{envelope}");
    assert!(!test.root().join("local").exists());
}

#[test]
fn undoable_destructive_commands_need_no_approval() {
    let (test, _) = project();
    for command in [
        "rm -rf build",
        "mv a.txt b.txt && sed -i s/one/two/ b.txt",
        "find . -name '*.md' -delete",
        "cat b.txt",
        "ls",
    ] {
        let envelope = call(&test, command, &["--record"]);
        assert_eq!(envelope["status"], "success", "{command}: {envelope}");
    }
    assert_eq!(test.read("b.txt"), "two\n");
    assert!(!test.root().join("notes.md").exists() && !test.root().join("build").exists());
}

#[test]
fn deletion_of_what_neither_a_checkpoint_nor_git_has_needs_approval() {
    if !has("git", "deletion_of_what_neither_a_checkpoint_nor_git_has_needs_approval") {
        return;
    }
    let large = "x".repeat(2000);
    let test = Test::new()
        .user_config("[checkpoints]\nmax_file_bytes = 1000\n[permissions]\nmode = \"auto-edit\"\n")
        .file(".gitignore", "data/\nnode_modules/\n")
        .file("tracked.bin", &large)
        .file("a.tmp", "a\n");
    let git = |line: &str| {
        let line =
            format!("git init -q && git add -A && git -c user.email=a -c user.name=b {line}");
        let mut bash = std::process::Command::new("bash");
        assert!(bash.args(["-c", &line]).current_dir(test.root()).status().unwrap().success());
    };
    git("commit -qm first");
    let expect = |code: Value, commands: &[&str]| {
        for command in commands {
            let envelope = call(&test, command, &["--record"]);
            assert_eq!(envelope["error"]["code"], code, "{command}: {envelope}");
        }
    };
    test.write("data/app.db", &large);
    test.write("data/old/x.db", &large);
    test.write("node_modules/m.js", "m\n");
    // git has the large file, and no name is one in `data`.
    expect(
        Value::Null,
        &[
            "git checkout .",
            "git reset -q --hard",
            "git clean -fd",
            "find . -name '*.tmp' -delete",
            "find . -type d -empty -delete",
            "find . -name '*.js' -exec rm {} +",
            "rm -f */*.none",
        ],
    );
    test.write("sub/new.bin", &large);
    expect(
        "APPROVAL_REQUIRED".into(),
        &[
            "git clean -fd",
            "cd sub && git clean -f",
            "git clean -fd sub",
            "find . -name '*.bin' -delete",
            "find . \\( -name x -o -iname '*.DB' \\) -exec rm -f {} \\;",
            "find . -type f -mtime -1 -delete",
            "find . -type d -name data -exec rm -rf {} +",
            "rm -rf */",
            "rm -rf d*/old",
            "rm -f */*/*.db",
            "cd sub && rm -f ../d*/app.db",
            "rm -rf sub/* README d*/*",
        ],
    );
    expect(Value::Null, &["git checkout .", "git clean -fdn", "git restore ."]);
    test.write("tracked.bin", large.replace('x', "y"));
    expect(
        "APPROVAL_REQUIRED".into(),
        &[
            "git checkout .",
            "git checkout tracked.bin",
            "cd sub && git checkout HEAD ..",
            "git checkout *.bin",
            "git restore tracked.bin",
            "git restore -SW .",
            "git restore :/",
            "git reset --hard",
            "git checkout -f HEAD",
        ],
    );
    expect(
        Value::Null,
        &[
            "git reset -q",
            "git restore --staged .",
            "git checkout .gitignore",
            "git checkout -q -b other",
            "git stash -q",
        ],
    );
    assert!(test.root().join("data/app.db").exists() && test.root().join("sub/new.bin").exists());
}

#[test]
fn interactive_command_is_refused_with_an_alternative() {
    let (test, _) = project();
    let envelope = call(&test, "git rebase -i HEAD~2", &["-y"]);
    assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED");
    assert!(envelope["error"]["hint"].as_str().unwrap().contains("GIT_SEQUENCE_EDITOR"));
}

#[test]
fn deny_rules_apply_behind_wrappers() {
    let (test, _) = project();
    let options = ["--allow", "Bash", "--deny", "Bash(touch new*)"];
    for command in [
        "touch new.txt",
        "env sh -c 'touch new.txt'",
        "env X=1 timeout 5 touch new.txt",
        "flock a.txt touch new.txt",
        "echo new.txt | xargs -I{} sh -c 'touch new.txt'",
        "find . -name a.txt -exec touch new.txt ';'",
        "echo $(touch new.txt)",
    ] {
        let envelope = call(&test, command, &options);
        assert_eq!(envelope["error"]["code"], "COMMAND_BLOCKED", "{command}: {envelope}");
        assert!(!test.root().join("new.txt").exists(), "{command}");
    }
    let envelope = call(&test, "env sh -c 'touch old.txt'", &options);
    assert_eq!(envelope["status"], "success", "{envelope}");
}

#[test]
fn read_only_commands_run_concurrently() {
    let script = "call: Bash {\"command\": \"sleep 0.5; pwd\"}\n\
        call: Bash {\"command\": \"sleep 0.5; date\"}\n---\ntext: ok";
    let test = Test::new().script(script);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    let events = test.events();
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind).unwrap();
    let started = events[..at("tool.finished")].iter().filter(|e| e["type"] == "tool.started");
    assert_eq!(started.count(), 2);
    let decided = test.events_of("permission.decided");
    assert_eq!(decided.len(), 2, "commands that only read are decided, too");
    assert_eq!(
        (&decided[0]["ruling"], &decided[0]["rule"]),
        (&json!("allow"), &json!("--allow Bash"))
    );
}

#[test]
fn rule_precedence_depends_on_the_source() {
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

#[test]
fn invalid_rule_is_a_usage_error() {
    let test = Test::new();
    for rule in ["Edit(..)", "Edit(\"b.txt\")", "Edit(a.txt)Edit(b.txt)", "Read(//a)"] {
        let done = test.agent(&["tool", "call", "LS", "{}", "--deny", rule]);
        done.expect_code(2).expect_stderr("is not a rule");
    }
}

#[test]
fn path_rules_apply_to_every_file_tool() {
    let (test, _) = project();
    std::os::unix::fs::symlink("sub/x.txt", test.root().join("link")).unwrap();
    let read = ("Read", json!({"path": "sub/x.txt"}));
    let grep = ("Grep", json!({"pattern": "x", "path": "sub/x.txt"}));
    let write = |path: &str| ("Write", json!({"path": path, "content": "x"}));
    for (rule, calls) in [
        ("Edit(a.txt) Edit(notes.md)", vec![write("a.txt"), write("notes.md")]),
        ("Edit(.)", vec![write("new"), write("d/new")]),
        ("Edit(src)", vec![write("src/new.rs")]),
        ("Read(**)", vec![read.clone(), grep.clone()]),
        ("Read(./x/../sub//x.txt)", vec![read.clone(), grep.clone()]),
        ("Read(link)", vec![read.clone(), grep.clone()]),
    ] {
        for (tool, input) in calls {
            let input = input.to_string();
            let done = test.agent(&["tool", "call", tool, &input, "--disallowed-tools", rule]);
            let envelope: Value = serde_json::from_str(&done.stdout).unwrap();
            assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{rule} {input}: {envelope}");
        }
    }
}

#[test]
fn undo_restores_files_removed_moved_or_overwritten_by_commands() {
    let script = "call: Bash {\"command\": \"rm a.txt && mv b.txt sub/c.txt && echo 2 > d.txt && true\"}\n---\n\
        expect: Exited 0\ntext: ok";
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
fn undo_covers_moves_by_options_and_paths_in_variables() {
    let line = "mv -t sub b.txt && mv -b c.txt a.txt; x=d.txt; echo 2 > $x; rm -r *.md";
    let script =
        format!("call: Bash {}\n---\nexpect: Exited 0\ntext: ok", json!({"command": line}));
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
