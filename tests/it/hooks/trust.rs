//! Hooks of a project run only in a folder that the user trusts as it is.

use serde_json::json;

use super::{hook, notices};
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
    // One setting turns off all hooks of such files, also one of a trusted project.
    test.write(".claude/settings.local.json", "{\"disableAllHooks\": true}");
    assert!(run(&test).1);
    test.agent(&["trust"]).expect_code(0);
    assert!(!run(&test).1);
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
