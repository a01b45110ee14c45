//! Hooks that fail: each is one notice, and the session continues.

use serde_json::json;

use super::{ends, envelopes, hook, notices, with};
use crate::support::{Test, running};

/// Two calls, so that a notice that comes with each of them is seen twice.
const TWICE: &str = "call: Bash {\"command\":\"echo one\"}\n---\ncall: Bash {\"command\":\"echo two\"}\n\
    ---\ntext: done";

/// A hook with this command fails with this notice, and has no effect.
#[track_caller]
fn check(command: &str, expected: &str) {
    let test = with(&[hook("PreToolUse", "Bash", command).replace("20s", "500ms")], TWICE);
    let done = test.run(&["go"]).expect_code(0).expect_stdout("done\n");
    let notices = notices(&done);
    assert_eq!(notices.len(), 1, "{}", done.stderr);
    assert!(notices[0].contains(expected), "{}", notices[0]);
    assert!(notices[0].starts_with("agent: hook PreToolUse "), "{}", notices[0]);
    assert_eq!(ends(&test), ["failed", "failed"]);
    assert!(envelopes(&test).iter().all(|envelope| envelope["status"] == "success"));
}

#[test]
fn hook_that_hangs_is_ended_with_all_of_its_processes() {
    check("sleep 4711.25 & sleep 4711.25", "failed and has no effect: it did not end within 0.5 s");
    assert_eq!(running("sleep 4711.25"), [""; 0]);
}

#[test]
fn hook_that_crashes_is_reported() {
    check("kill -SEGV $$", "it was ended by signal 11");
    check("echo 'no database' >&2; exit 7", "it exited with 7: no database");
    check("no-such-program --check", "no-such-program: command not found");
    // Its output differs each time.
    check("date +%N >&2; exit 7", "it exited with 7: ");
}

#[test]
fn answer_that_is_not_valid_is_reported() {
    check("echo '{\"decision\": \"block\"'", "its output is not valid JSON: EOF");
    check("echo '{\"decision\": \"perhaps\"}'", "its answer: unknown variant `perhaps`");
    check("echo '{\"continue\": \"no\"}'", "its answer: invalid type");
}

#[test]
fn megabytes_of_output_do_no_harm() {
    check(
        "printf '{'; head -c 3000000 /dev/zero | tr '\\0' x",
        "its output is longer than 1024 KiB",
    );
    // As a text it is cut.
    let flood = "head -c 3000000 /dev/zero | tr '\\0' y; head -c 3000000 /dev/zero >&2";
    let test = with(&[hook("UserPromptSubmit", "", flood)], "text: done");
    let done = test.run(&["go"]).expect_code(0);
    assert_eq!(notices(&done).len(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("its output is too long and was cut"), "{}", done.stderr);
    let text = test.events_of("feedback")[0]["text"].as_str().unwrap().len();
    assert!((9_000..11_000).contains(&text), "{text}");
}

#[test]
fn hook_that_reads_nothing_and_leaves_processes_is_no_problem() {
    let command = "exec <&-; (sleep 4712.25; echo late) & echo early";
    let test = with(&[hook("PreToolUse", "Bash", command)], TWICE);
    test.write("big", "x".repeat(300_000));
    test.run(&["go"]).expect_code(0);
    assert_eq!(ends(&test), ["passed", "passed"]);
    assert_eq!(running("sleep 4712.25"), [""; 0]);
}

#[test]
fn hooks_get_no_keys_and_are_outside_the_sandbox() {
    let test = with(
        &[hook("PreToolUse", "Bash", "env > ../environment; touch ~/outside")],
        "call: Bash {\"command\":\"echo one\"}\n---\ntext: done",
    );
    let test = test.env("OPENAI_API_KEY", "sk-proj-0123456789abcdef0123");
    test.run(&["go"]).expect_code(0);
    let environment = std::fs::read_to_string(test.root().join("../environment")).unwrap();
    assert!(!environment.contains("sk-proj"), "{environment}");
    let root = test.root().display().to_string();
    for name in ["CLAUDE_PROJECT_DIR", "AGENT_PROJECT_DIR"] {
        assert!(environment.contains(&format!("{name}={root}\n")), "{environment}");
    }
    assert!(test.home().join("outside").exists());
}

#[test]
fn secrets_that_hooks_print_are_masked() {
    let print = hook("UserPromptSubmit", "", "cat ../key");
    let test = with(&[print], "text: done").env("MY_API_KEY", "abcdefgh-12345678-secret");
    std::fs::write(test.root().join("../key"), "abcdefgh-12345678-secret").unwrap();
    test.run(&["go"]).expect_code(0);
    let log = std::fs::read_to_string(test.log()).unwrap();
    assert!(!log.contains("abcdefgh-12345678"), "{log}");
}

#[test]
fn secrets_at_the_end_of_what_is_shown_are_masked() {
    let key = "abcdefgh-12345678-secret";
    let check = |command: &str| {
        let test = with(&[hook("UserPromptSubmit", "", command)], "text: done");
        let test = test.env("MY_API_KEY", key);
        std::fs::write(test.root().join("../key"), key).unwrap();
        let done = test.run(&["go"]);
        assert_eq!(test.events_of("hook.finished").len(), 1);
        let log = std::fs::read_to_string(test.log()).unwrap();
        for text in [log, done.stderr] {
            assert!(!text.contains("abcdefgh"), "{text}");
        }
    };
    // Cut after its first part: as the reason of a failure and of a block, as a context, as a message.
    let to_the_limit = |limit: usize| format!("head -c {limit} /dev/zero | tr '\\0' x; cat ../key");
    for (status, limit) in [(7, 370), (2, 385)] {
        check(&format!("{{ {}; }} >&2; exit {status}", to_the_limit(limit)));
    }
    check(&to_the_limit(385));
    check(&to_the_limit(9_985));
    check(&format!("echo '{{\"systemMessage\": \"'$({})'\"}}'", to_the_limit(9_985)));
    // And in its command.
    check(&format!("true {}{key}", "x".repeat(380)));
}

#[test]
fn wrong_configuration_is_an_error_with_its_line() {
    let check = |config: &str, expected: &str| {
        let done = Test::new().user_config(config).script("text: done").run(&["go"]).expect_code(2);
        assert!(done.stderr.contains(expected), "{}", done.stderr);
    };
    check(
        &hook("PreTolUse", "", "true"),
        "config.toml:1: unknown key `hooks.PreTolUse`: did you mean `PreToolUse`?",
    );
    check(&hook("Stop", "", " "), "config.toml:1: hooks.Stop: set command");
    check(&hook("PreToolUse", "Bash(", "true"), "the matcher \"Bash(\" is no regular expression");
    check("[[hooks.Stop]]\ncommand = \"true\"\ntimeout = \"soon\"\n", "\"soon\" is no");
    check("[[hooks]]\nevent = \"Stop\"\n", "expected tables by event: [[hooks.PreToolUse]]");
    check("[[hooks.Stop]]\ncomand = \"true\"\n", "did you mean `command`?");
}

#[test]
fn broken_settings_of_another_agent_are_one_notice() {
    let check = |text: &str, expected: &str| {
        let test = Test::new().script("text: done");
        std::fs::create_dir_all(test.home().join(".claude")).unwrap();
        std::fs::write(test.home().join(".claude/settings.json"), text).unwrap();
        let done = test.run(&["go"]).expect_code(0).expect_stdout("done\n");
        let notices = notices(&done);
        assert_eq!(notices.len(), usize::from(!expected.is_empty()), "{}", done.stderr);
        assert!(!test.root().join("../ran").exists());
        assert!(done.stderr.contains(expected), "{}", done.stderr);
    };
    let with = |event: &str, matcher: &str, hook: serde_json::Value| {
        json!({"hooks": {event: [{"matcher": matcher, "hooks": [hook]}]}}).to_string()
    };
    check("{\n \"hooks\": {,}}", "settings.json:2: ");
    check("[]", "");
    check("{\"hooks\": [1]}", "");
    check(
        &with("PreToolUse", "", json!({"type": "prompt", "prompt": "is it safe?"})),
        "hooks that are not used: PreToolUse (the type \"prompt\" is not supported)",
    );
    check(&with("Stop", "", json!({"type": "command"})), "Stop (it has no command)");
    // What Claude Code has and we have not: all of it is one notice.
    let hooks = [
        json!({"type": "prompt", "prompt": "is it safe?"}),
        json!({"type": "prompt", "prompt": "is it good?"}),
        json!({"type": "agent", "prompt": "is it safe?"}),
        json!({"type": "http", "url": "http://127.0.0.1:1/"}),
        json!({"type": "mcp_tool", "server": "s", "tool": "t"}),
        json!({"type": "command", "command": "touch ../ran", "async": true}),
        json!({"type": "command", "command": "touch", "args": ["../ran"]}),
        json!({"type": "command", "command": "touch ../ran", "shell": "powershell"}),
        json!({"type": "command", "command": "touch ../ran", "if": "Bash(git *)"}),
    ];
    check(
        &json!({"hooks": {"Stop": [{"hooks": hooks}]}}).to_string(),
        "hooks that are not used: Stop (the type \"prompt\" is not supported), Stop (the type \"agent\" is not \
         supported), Stop (the type \"http\" is not supported), Stop (the type \"mcp_tool\" is not supported), \
         Stop (`async` is not supported), Stop (`args` is not supported; write the whole line in `command`), \
         Stop (the shell \"powershell\" is not supported), Stop (`if` is not supported; use a matcher)",
    );
    check(
        &with("Stop", "", json!({"type": "command", "command": "true", "timeout": "x"})),
        "Stop (its timeout is not a number of seconds)",
    );
    check(
        &with("PreToolUse", "Bash(", json!({"type": "command", "command": "true"})),
        "PreToolUse (the matcher \"Bash(\" is no regular expression",
    );
    check(
        &with("TeammateIdle", "", json!({"type": "command", "command": "true"})),
        "TeammateIdle (there is no such event here)",
    );
}
