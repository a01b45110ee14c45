//! `/permissions add`, `/memory add` and `ui.statusline`.

use crate::support::{Pty, Test};

fn chat(test: &Test, args: &[&str]) -> Pty {
    let args = [&["--model", "script:../script"], args].concat();
    let pty = Pty::start(test, &args, 40, 110, "xterm-256color");
    pty.wait_for("/help");
    pty
}

#[test]
fn added_rule_applies_at_once_and_after_resume() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"touch one two\"}\n---\ntext: made\n---\n\
         call: Bash {\"command\": \"touch three\"}\n---\ntext: made it too",
    );
    let mut pty = chat(&test, &[]);
    for (rule, why) in [
        ("Bash(touch *)", "begin the rule with allow, ask or deny"),
        ("allow Bash(touch", "the `)` is missing"),
        ("allow Bsh(touch *)", "there is no tool \"Bsh\"; the tools are"),
    ] {
        pty.say(&format!("/permissions add {rule}"));
        pty.wait_for(why);
    }
    // Further words may follow, as in the configuration.
    pty.say("/permissions add allow Bash(touch one)");
    pty.wait_for("rule 1: allow Bash(touch one)");
    pty.say("make them");
    pty.wait_for("made");
    let all = pty.all();
    assert_eq!(all.lines().filter(|line| line.starts_with("· rule 1")).count(), 1, "{all}");
    assert!(!all.contains("applies to this session"), "{all}");
    assert!(test.root().join("two").exists());
    pty.wait_for("/help");
    pty.say("/quit");
    pty.end();
    let test = test.script("call: Bash {\"command\": \"touch one three\"}\n---\ntext: all three");
    let mut pty = chat(&test, &["-c"]);
    pty.say("/permissions");
    pty.wait_for("allow Bash(touch one)  · /permissions add");
    pty.say("again");
    pty.wait_for("all three");
    assert!(test.root().join("three").exists());
    pty.say("/permissions remove 1");
    pty.wait_for("rule 1 removed");
}

#[test]
fn rule_is_added_to_the_configuration_of_user_and_project() {
    let test = Test::new()
        .user_config("# mine\n[permissions]\nask = [\n  \"Read\", # all\n]\n")
        .file(".agent/config.toml", "[permissions]\ndeny = [\"Edit(docs/)\"]\n")
        .script("text: x");
    test.agent(&["trust"]).expect_code(0);
    let mut pty = chat(&test, &[]);
    pty.say("/permissions add ask Bash(git push *) user");
    pty.wait_for("the rule is stored in ");
    pty.say("/permissions add allow Write(src/**) project");
    pty.wait_for("the folder is still trusted");
    pty.say("/permissions remove 1");
    pty.wait_for("still has this rule");
    pty.say("/quit");
    pty.end();
    let own = std::fs::read_to_string(test.home().join(".config/agent/config.toml")).unwrap();
    assert_eq!(own, "# mine\n[permissions]\nask = [\n  \"Read\", \"Bash(git push *)\", # all\n]\n");
    let shown = test.agent(&["config", "show"]).expect_code(0).stdout;
    for rule in ["Bash(git push *)", "Write(src/**)", "Edit(docs/)"] {
        assert!(shown.contains(rule), "{shown}");
    }
    // Without trust the rule of the project waits for it.
    let test = Test::new().script("text: x");
    let mut pty = chat(&test, &[]);
    pty.say("/permissions add allow Write(src/**) project");
    pty.wait_for("; later sessions apply it once you run");
    assert_eq!(test.read(".agent/config.toml"), "permissions.allow = [\"Write(src/**)\"]\n");
}

#[test]
fn stored_rule_applies_to_the_next_session_of_the_chat() {
    let test = Test::new()
        .script("call: Write {\"path\": \"kept/a\", \"content\": \"x\"}\n---\ntext: tried");
    let mut pty = chat(&test, &["--yolo"]);
    pty.say("/permissions add deny Edit(kept/**) user");
    pty.wait_for("the rule is stored in ");
    pty.say("/clear");
    pty.say("write it");
    pty.wait_for("tried");
    assert!(!test.root().join("kept/a").exists());
}

#[test]
fn lesson_of_the_user_is_stored_for_the_project() {
    let test = Test::new().script("text: x");
    let mut pty = chat(&test, &[]);
    pty.say("/memory add");
    pty.wait_for("the text is empty");
    pty.say("/memory add Run \"make it\" && don't; $HOME `x`.");
    pty.wait_for("lesson ");
    pty.wait_for("don't; $HOME `x`.");
    pty.say("/memory add The key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD.");
    pty.wait_for("looks like a secret");
    pty.say("/memory list");
    pty.wait_for("Memory");
    pty.say("/quit");
    pty.end();
    let list = test.agent(&["memory", "list", "--project"]).expect_code(0).stdout;
    assert!(list.contains("Run \"make it\" && don't; $HOME `x`."), "{list}");
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn status_line_shows_the_chosen_items() {
    let test = Test::new().script("text: x").user_config("ui.statusline = [\"model\", \"mode\"]\n");
    let pty = chat(&test, &[]);
    pty.wait_for("  script:../script · ask");
    let wrong = Test::new().script("text: x").user_config("ui.statusline = [\"clock\"]\n");
    let done = wrong.agent(&["--plain", "--model", "script:../script"]);
    done.expect_code(2).expect_stderr(
        "ui.statusline: the status line has no item \"clock\": mode, background, context, cost, model, branch",
    );
}

#[test]
fn mode_that_settings_disable_cannot_be_chosen() {
    let disabled = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    let test = Test::new().script("text: unused");
    let mut pty = chat(&test, &["--settings", disabled]);
    pty.say("/mode full");
    pty.wait_for("disableBypassPermissionsMode");
    pty.say("/mode auto-edit");
    pty.wait_for("auto-edit ·");
}
