//! Hooks of a project run only in a folder that the user trusts as it is.

use serde_json::json;

use super::{ends, hook, notices};
use crate::support::{Done, Test};

const SETTINGS: &str = ".claude/settings.json";

fn settings(command: &str) -> String {
    json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}})
        .to_string()
}

fn run(test: &Test) -> (Done, bool) {
    let mark = test.root().join("../mark");
    _ = std::fs::remove_file(&mark);
    let done = test.run(&["go"]).expect_code(0);
    let has_run = mark.exists();
    (done, has_run)
}

#[test]
fn hooks_of_an_untrusted_folder_do_not_run_and_are_told_once() {
    let test = Test::new().script("text: done").file(SETTINGS, settings("touch ../mark"));
    let (done, has_run) = run(&test);
    assert!(!has_run);
    let expected = "agent: .claude/settings.json: its hooks are ignored because this folder is not trusted; \
                    read it, then run `agent trust`";
    assert_eq!(notices(&done), [expected]);
    // The same for the agent's own file.
    let test = Test::new()
        .script("text: done")
        .file(".agent/config.toml", hook("UserPromptSubmit", "", "touch ../mark"));
    let (done, has_run) = run(&test);
    assert!(!has_run);
    assert_eq!(notices(&done).len(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("ignored hooks because this folder is not trusted"));
}

#[test]
fn trust_covers_hooks_and_their_scripts_as_they_are() {
    let test = Test::new()
        .script("text: done")
        .file(SETTINGS, settings("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/mark.sh"))
        .file(".claude/hooks/mark.sh", "#!/bin/bash\ntouch ../mark\n");
    let script = test.root().join(".claude/hooks/mark.sh");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let trusted = test.agent(&["trust"]).expect_code(0).stdout;
    assert!(trusted.contains(".claude/settings.json.UserPromptSubmit = "), "{trusted}");
    assert!(trusted.contains(".claude/hooks.\"mark.sh\" = "), "{trusted}");
    let (done, has_run) = run(&test);
    assert!(has_run && notices(&done).is_empty(), "{}", done.stderr);
    std::fs::write(&script, "#!/bin/bash\ntouch ../mark ../more\n").unwrap();
    let (done, has_run) = run(&test);
    assert!(!has_run);
    assert!(done.stderr.contains(".claude/hooks (changed)"), "{}", done.stderr);
    test.agent(&["trust"]).expect_code(0);
    assert!(run(&test).1);
    test.write(SETTINGS, settings("touch ../mark"));
    let (done, has_run) = run(&test);
    assert!(!has_run);
    assert!(done.stderr.contains(".claude/settings.json (changed)"), "{}", done.stderr);
}

#[test]
fn hooks_of_the_user_run_in_any_folder() {
    let test = Test::new().script("text: done");
    std::fs::create_dir_all(test.home().join(".claude")).unwrap();
    std::fs::write(test.home().join(SETTINGS), settings("touch ../mark")).unwrap();
    assert!(run(&test).1);
    // The user's setting turns them off.
    let mut off: serde_json::Value = serde_json::from_str(&settings("touch ../mark")).unwrap();
    off["disableAllHooks"] = json!(true);
    std::fs::write(test.home().join(SETTINGS), off.to_string()).unwrap();
    assert!(!run(&test).1);
}

#[test]
fn project_turns_off_only_its_own_hooks() {
    let test = Test::new().script("text: done").file(SETTINGS, settings("touch ../ran"));
    std::fs::create_dir_all(test.home().join(".claude")).unwrap();
    std::fs::write(test.home().join(SETTINGS), settings("touch ../mark")).unwrap();
    test.agent(&["trust"]).expect_code(0);
    let project = test.root().join("../ran");
    let (done, has_run) = run(&test);
    assert!(has_run && project.exists() && notices(&done).is_empty(), "{}", done.stderr);
    std::fs::remove_file(&project).unwrap();
    // It needs no trust: it permits nothing.
    test.write(".claude/settings.local.json", "{\"disableAllHooks\": true}");
    let (done, has_run) = run(&test);
    assert!(has_run && !project.exists());
    let expected = "agent: .claude/settings.local.json: disableAllHooks turns off the hooks of the project's \
                    settings files, not yours";
    assert_eq!(notices(&done), [expected]);
}

#[test]
fn whole_hash_of_a_script_is_trusted() {
    let text = "exit 0\n";
    let test = Test::new().file(SETTINGS, settings("true")).file(".claude/hooks/a/mark.sh", text);
    let trusted = test.agent(&["trust"]).expect_code(0).stdout;
    let hash = blake3::hash(text.as_bytes()).to_hex();
    assert!(trusted.contains(&format!("\"a/mark.sh\" = \"{hash}\"")), "{trusted}");
}

/// No hook of a project runs with such a folder of scripts, whatever the user trusts.
#[track_caller]
fn check_unknown(make: impl Fn(&std::path::Path), expected: &str) {
    let test = Test::new()
        .script("text: done")
        .file(SETTINGS, settings("touch ../mark"))
        .file(".agent/config.toml", hook("UserPromptSubmit", "", "touch ../mark"));
    test.agent(&["trust"]).expect_code(0);
    assert!(run(&test).1);
    make(&test.root());
    test.agent(&["trust"]).expect_code(0);
    let expected = format!("agent: the hooks of this project are not used: {expected}");
    let once = test.run(&["--trust", "go"]).expect_code(0);
    assert_eq!(notices(&once), [expected.as_str()]);
    let (done, has_run) = run(&test);
    assert!(!has_run);
    assert_eq!(notices(&done), [expected]);
}

#[test]
fn scripts_that_trust_cannot_cover_turn_the_hooks_of_the_project_off() {
    use std::os::unix::fs::symlink;
    let in_hooks = |root: &std::path::Path| {
        let folder = root.join(".claude/hooks");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    let link = "it is a link, whose target commands could change; put the file itself there";
    check_unknown(
        |root| {
            std::fs::write(root.join("run.sh"), "exit 0\n").unwrap();
            symlink("../../run.sh", in_hooks(root).join("run.sh")).unwrap();
        },
        &format!(".claude/hooks/run.sh: {link}"),
    );
    check_unknown(
        |root| {
            std::fs::create_dir(root.join("tools")).unwrap();
            symlink("../tools", root.join(".agent/hooks")).unwrap();
        },
        &format!(".agent/hooks: {link}"),
    );
    check_unknown(
        |root| {
            let fifo = in_hooks(root).join("fifo");
            assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
        },
        ".claude/hooks/fifo: is not a regular file; remove it",
    );
    check_unknown(
        |root| {
            for number in 0..=200 {
                std::fs::write(in_hooks(root).join(format!("{number}.sh")), "").unwrap();
            }
        },
        ".claude/hooks: there are more than 200 files in it",
    );
    check_unknown(
        |root| {
            let file = std::fs::File::create(in_hooks(root).join("big")).unwrap();
            file.set_len(1 << 40).unwrap();
        },
        ".claude/hooks/big: the files of the folder are larger than 32 MiB",
    );
}

#[test]
fn script_that_changed_since_the_session_began_is_not_run() {
    let settings = |event: &str, command: &str| json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}});
    let test = Test::new()
        .file(SETTINGS, settings("PostToolUse", "bash .claude/hooks/mark.sh").to_string())
        .file(".claude/hooks/mark.sh", "touch ../mark\n")
        .user_config(&hook("PreToolUse", "", "echo 'touch ../more' >> .claude/hooks/mark.sh"))
        .script(
            "call: Bash {\"command\":\"echo 1\"}\n---\ncall: Bash {\"command\":\"echo 2\"}\n---\ntext: done",
        );
    let done = test.run(&["--trust", "go"]).expect_code(0);
    let expected = "agent: hook PostToolUse \"bash .claude/hooks/mark.sh\" is not run: .claude/hooks changed \
                    since the session began; review it, then start a new session";
    assert_eq!(notices(&done), [expected]);
    assert_eq!(ends(&test), ["passed", "failed", "passed", "failed"]);
    assert!(!test.root().join("../mark").exists() && !test.root().join("../more").exists());
}

#[test]
fn in_mode_full_a_hook_can_be_written_but_is_not_run() {
    let test = Test::new()
        .file(SETTINGS, settings("bash .claude/hooks/mark.sh"))
        .file(".claude/hooks/mark.sh", "exit 0\n")
        .script(
            r#"call: Read {"path":".claude/hooks/mark.sh"}
---
call: Write {"path":".claude/hooks/mark.sh","content":"touch ../mark"}
---
text: done"#,
        );
    test.agent(&["trust"]).expect_code(0);
    test.run(&["--permission-mode", "full", "go"]).expect_code(0);
    assert_eq!(test.read(".claude/hooks/mark.sh"), "touch ../mark");
    // The folder has to be trusted again first.
    std::fs::write(test.root().join("../script"), "text: done").unwrap();
    let (done, has_run) = run(&test);
    assert!(!has_run);
    assert!(notices(&done)[0].contains(".claude/hooks (changed)"), "{}", done.stderr);
}

/// A hook that denies calls cannot be turned off unnoticed.
#[test]
fn calls_whose_hook_changed_need_approval() {
    let guard = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "bash .claude/hooks/guard.sh"}]}]}}"#;
    let test = Test::new().file(SETTINGS, guard).file(".claude/hooks/guard.sh", "exit 2\n").script(
        r#"call: Write {"path":".claude/hooks/README.md","content":"x"}
---
call: Bash {"command":"cat a.txt; touch made"}
call: Write {"path":"b.txt","content":"x"}
---
text: done"#,
    );
    test.agent(&["trust"]).expect_code(0);
    test.run(&["--permission-mode", "full", "go"]);
    let results = test.events_of("tool.finished");
    let code = |n: usize| results[n]["envelope"]["error"]["code"].clone();
    assert_eq!(code(1), "APPROVAL_REQUIRED");
    assert!(results[1].to_string().contains(".claude/hooks changed since the session began"));
    assert_eq!(code(2), serde_json::Value::Null, "no hook matches it");
    assert!(!test.root().join("made").exists());
}

#[test]
fn commands_cannot_change_hooks() {
    let test = Test::new()
        .file(SETTINGS, settings("true"))
        .file(".claude/hooks/mark.sh", "exit 0\n")
        .script(
            "call: Bash {\"command\":\"echo x >> .claude/hooks/mark.sh; echo x > .claude/settings.json\"}\n\
             ---\ncall: Write {\"path\":\".claude/hooks/new.sh\",\"content\":\"x\"}\n---\ntext: done",
        );
    test.run(&["--trust", "go"]);
    let sandbox = &test.events_of("session.started")[0]["sandbox"]["backend"];
    if sandbox == "namespaces+landlock+seccomp" {
        assert_eq!(test.read(".claude/hooks/mark.sh"), "exit 0\n");
        assert_eq!(test.read(SETTINGS), settings("true"));
    }
    let envelope = &test.events_of("tool.finished")[1]["envelope"];
    assert_eq!(envelope["error"]["code"], "APPROVAL_REQUIRED");
}
