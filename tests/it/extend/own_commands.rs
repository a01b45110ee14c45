//! Commands of the user and the project: Markdown files whose text is sent.

use serde_json::json;

use crate::support::server::{Server, sse_text};
use crate::support::{Pty, Test};

/// What the model receives of `agent run LINE` in a project with this command.
#[track_caller]
fn check(file: &str, text: &str, line: &str, expected: &str) {
    let test = Test::new().script("text: done").file(file, text);
    test.run(&[line]).expect_code(0);
    let started = &test.events_of("turn.started")[0];
    let received = started.get("shown").unwrap_or(&started["input"]);
    assert_eq!(received, expected, "{file}");
}

/// The shapes of front matter and folders in public collections.
#[test]
fn commands_written_for_other_agents_run_unchanged() {
    check(".agent/commands/fix.md", "Fix $ARGUMENTS now.\n", "/fix a b", "Fix a b now.");
    // Folders, a title as name, lists with comments, keys of another agent.
    let text = "---\nname: Debt Analysis\ndescription: Finds debt: old code, and more.\nallowed_tools:\n  - \
        filesystem      # look\n  - sqlite\ntags:\n  - debt\nversion: 1.0.0\n---\n\n# Debt\n\n## Requirements\n$ARGUMENTS\n";
    let expected = "# Debt\n\n## Requirements\nin src";
    check(".claude/commands/tools/tech-debt.md", text, "/tools:tech-debt in src", expected);
    check(".claude/commands/tools/tech-debt.md", text, "/tech-debt in src", expected);
    // A hint in brackets that is not YAML, a model, and numbered arguments.
    let text = "---\ndescription: Review a pull request\nargument-hint: [number] [priority]\nmodel: \
        claude-x\nallowed-tools: Bash(gh pr view:*), Read\n---\nReview #$1 with priority $2.\n";
    check(
        ".claude/commands/pr.md",
        text,
        "/pr 12 'very high'",
        "Review #12 with priority very high.",
    );
    // A windows line end, a byte order mark and no arguments in the text.
    let text = "\u{feff}---\r\ndescription: x\r\n---\r\nTidy up.\r\n";
    check(".agents/commands/tidy.md", text, "/tidy src", "Tidy up.\n\nsrc");
    // A path is no command, and neither is a text about one.
    check("x", "", "/etc/hosts is wrong", "/etc/hosts is wrong");
    check("x", "", "/tmp is full", "/tmp is full");
    // A command that is defined is one, whatever the root of the file system contains.
    check(".agent/commands/tmp.md", "Clean up $ARGUMENTS.", "/tmp it", "Clean up it.");
}

#[test]
fn model_is_asked_to_run_commands_in_the_text() {
    let text = "---\nallowed-tools: Bash(git status:*)\n---\nStatus: !`git status`\n\nCommit.\n";
    let test = Test::new().script("text: done").file(".claude/commands/commit.md", text);
    test.run(&["/commit"]).expect_code(0);
    let shown = test.events_of("turn.started")[0]["shown"].as_str().unwrap().to_owned();
    let expected = include_str!("../../../prompts/commands/shell_lines.md").trim_end();
    assert_eq!(shown, format!("Status: !`git status`\n\nCommit.\n\n{expected}"));
    check(".agent/commands/a.md", "Say `hi!` and `ho`.", "/a", "Say `hi!` and `ho`.");
}

#[test]
fn files_that_a_command_mentions_are_read() {
    let text = "Look at @src/a.rs and ask me@example.com.\n";
    let test = Test::new().file(".agent/commands/look.md", text).file("src/a.rs", "fn a() {}\n");
    let server = Server::playing([sse_text("done")]);
    let url = server.url();
    test.agent(&["run", "/look", "--model", "openai/m", "--base-url", &url]).expect_code(0);
    let asked = server.finish()[0].json()["messages"].to_string();
    assert_eq!(asked.matches("@src/a.rs").count(), 2, "{asked}");
}

#[test]
fn unknown_command_is_wrong_usage_with_a_suggestion() {
    let test = Test::new()
        .script("text: done")
        .file(".agent/commands/fix.md", "Fix.\n")
        .file(".claude/commands/init.md", "Mine.\n")
        .file(".claude/commands/torn.md", "---\nname: x\n");
    for (line, part) in [
        ("/fxi it", "there is no command /fxi: did you mean /fix?"),
        ("/something-else", ".agent/commands/something-else.md"),
        ("/init", "there is no command /init: it is a command of the chat"),
        ("/torn", "torn.md: the front matter has no end"),
    ] {
        let done = test.run(&[line]).expect_code(2);
        assert!(done.stderr.contains(part), "{line}: {}", done.stderr);
    }
    assert!(test.try_log().is_none());
}

#[test]
fn piped_input_is_added_to_a_command() {
    let test = Test::new()
        .script("text: done")
        .file(".agent/commands/fix.md", "Fix $ARGUMENTS.\n")
        .stdin("$ARGUMENTS\n");
    test.run(&["/fix", "it"]).expect_code(0);
    let started = test.events_of("turn.started");
    assert_eq!(started[0]["shown"], "Fix it.\n\n<stdin>\n$ARGUMENTS\n</stdin>");
    let test = Test::new()
        .script("text: done")
        .file(".agent/skills/why/SKILL.md", "# Why\n\nExplain.\n")
        .stdin("a log\n");
    test.run(&["/why"]).expect_code(0);
    let started = &test.events_of("turn.started")[0];
    let shown = started["shown"].as_str().unwrap();
    assert!(shown.ends_with("Explain.\n\n<stdin>\na log\n</stdin>"), "{shown}");
}

#[test]
fn commands_that_cannot_be_used_are_reported_once() {
    let test = Test::new()
        .script("text: heard")
        .file(".agent/commands/fix.md", "Fix it.\n")
        .file(".claude/commands/fix.md", "Fix it otherwise.\n")
        .file(".claude/commands/review.md", "Mine.\n")
        .file(".claude/commands/torn.md", "---\ndescription: [\n---\nText.\n")
        .file(".claude/commands/git/save.md", "---\nargument-hint: [what]\n---\nSave $1.\n");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for(".claude/commands/fix.md: not used, .agent/commands/fix.md defines /fix too");
    pty.wait_for(".claude/commands/torn.md: the front matter is not YAML");
    pty.wait_for("no command is made of \".claude/commands/review.md\"");
    pty.send("/git:sa");
    pty.wait_for("▸ /git:save  Save $1.  [what]");
    pty.send("\x15/save all\r");
    pty.wait_for("heard");
    let started = &test.events_of("turn.started")[0];
    assert_eq!(
        (&started["input"], &started["shown"]),
        (&json!("/git:save all"), &json!("Save all."))
    );
}

/// What the model received is in the viewer, also after a resume, and a message that comes back is the command again.
#[test]
fn conversation_shows_a_command_as_it_was_typed() {
    let test = Test::new()
        .script("text: heard\n---\ntext: heard again\n---\ntext: and the third")
        .file("a.rs", "fn a() {}\n")
        .file(".agent/commands/fix.md", "Repair @a.rs and\nthen $ARGUMENTS.\n");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("›");
    pty.say("/fix the tests");
    pty.wait_for("heard");
    let started = &test.events_of("turn.started")[0];
    assert_eq!(started["shown"], "Repair @a.rs and\nthen the tests.");
    assert_eq!(started["mentions"], json!(["@a.rs"]));
    let is_expanded = |pty: &Pty| pty.all().contains("then the tests.");
    assert!(pty.all().contains("› /fix the tests") && !is_expanded(&pty), "{}", pty.all());
    pty.say("/quit");
    pty.end();

    let mut pty = Pty::chat(&test, &["-c"]);
    pty.wait_for("› /fix the tests");
    assert!(!is_expanded(&pty), "{}", pty.all());
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("ga");
    pty.wait_for("the model received:");
    pty.wait_for("Repair @a.rs and");
    pty.wait_for("then the tests.");
    pty.send("q");
    pty.wait("the conversation", |screen| !screen.contains("q close"));
    pty.say("/rewind 1");
    pty.wait_for("back to before turn 1");
    pty.send("\r");
    pty.wait("the second answer", |_| test.events_of("turn.started").len() == 2);
    let started = &test.events_of("turn.started")[1];
    assert_eq!(started["shown"], "Repair @a.rs and\nthen the tests.");
}
