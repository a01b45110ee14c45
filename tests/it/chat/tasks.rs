//! `/init` and `/review`.

use crate::support::{Pty, Test, has};

fn chat(test: &Test, args: &[&str]) -> Pty {
    let args = [&["--model", "script:../script"], args].concat();
    let pty = Pty::start(test, &args, 40, 100, "xterm-256color");
    pty.wait_for("/help");
    pty
}

fn git(test: &Test, args: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    let output = git.args(args).current_dir(test.root()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn init_command_writes_a_rules_file_with_approval() {
    let test = Test::new().script(
        "when: Write the rules file `AGENTS.md`\n\
         call: Write {\"path\": \"AGENTS.md\", \"content\": \"Run make.\\n\"}\n---\ntext: written",
    );
    let mut pty = chat(&test, &[]);
    pty.say("/init");
    pty.wait_for_question();
    assert!(!test.root().join("AGENTS.md").exists());
    pty.send("y");
    pty.wait_for("written");
    assert_eq!(test.read("AGENTS.md"), "Run make.\n");
    assert!(pty.screen().contains("› /init\n"), "{}", pty.screen());
    let started = &test.events_of("turn.started")[0];
    assert_eq!(started["input"], "/init");
    assert!(started["shown"].as_str().unwrap().starts_with("Write the rules file"), "{started}");
}

#[test]
fn init_command_updates_the_file_that_the_project_uses() {
    for (file, other) in [("CLAUDE.md", "README.md"), ("CODE_LAW.md", "AGENTS.md")] {
        let test = Test::new().file(file, "Use tabs.\n").file(other, "x\n").script(&format!(
            "when: Update the rules file `{file}`[^$]*The user adds: in French\ntext: understood"
        ));
        let mut pty = chat(&test, &[]);
        pty.say("/init in French");
        pty.wait_for("understood");
    }
}

#[test]
fn review_command_names_the_merge_base_and_fails_without_one() {
    if !has("git", "review_command_names_the_merge_base_and_fails_without_one") {
        return;
    }
    let test = Test::new().file("a.txt", "one\n").script("text: heard\n---\ntext: heard again");
    let mut pty = chat(&test, &[]);
    pty.say("/review");
    pty.wait_for("/review needs a git repository");
    git(&test, &["init", "-q"]);
    pty.say("/review main");
    pty.wait_for("there is no branch or commit \"main\"");
    git(&test, &["add", "."]);
    git(&test, &["commit", "-q", "-m", "first"]);
    let base = git(&test, &["rev-parse", "HEAD"]);
    git(&test, &["checkout", "-q", "-b", "work"]);
    git(&test, &["commit", "-q", "--allow-empty", "-m", "second"]);
    pty.say("/review --output=x");
    pty.wait_for("there is no branch or commit \"--output=x\"");
    assert!(!test.has_event("turn.started"), "nothing was sent");
    pty.say("/review main");
    pty.wait_for("heard");
    pty.wait_for("/help");
    pty.say("/review");
    pty.wait_for("heard again");
    let turns = test.events_of("turn.started");
    let shown = |n: usize| turns[n]["shown"].as_str().unwrap();
    assert_eq!(
        (turns[0]["input"].as_str(), turns[1]["input"].as_str()),
        (Some("/review main"), Some("/review"))
    );
    assert!(shown(0).contains(&format!("`git diff {base}`")), "{}", shown(0));
    assert!(shown(1).contains("`git diff HEAD`"), "{}", shown(1));
    assert!(!test.root().join("x").exists());
    // A resumed session has the prompt in its conversation, and the command on the screen.
    drop(pty);
    test.script("when: git diff HEAD[^$]*what was it\ntext: a review").run_chat(&["-c"]);
}

impl Test {
    fn run_chat(&self, args: &[&str]) {
        let mut pty = chat(self, args);
        pty.wait_for("› /review main");
        pty.say("what was it?");
        pty.wait_for("a review");
    }
}
