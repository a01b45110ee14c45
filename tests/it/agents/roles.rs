//! Roles of sub-agents in files.

use serde_json::Value;

use super::{of, task};
use crate::support::Test;

/// The description of Task in the first request.
fn described(test: &Test) -> String {
    let requested = &test.events_of("model.requested")[0];
    let tools = requested["layers"]["tools"]["hash"].as_str().unwrap();
    requested["texts"][tools].as_str().unwrap().to_owned()
}

#[test]
fn role_adds_its_text_and_limits_the_tools() {
    let script = [
        task("reviewer", "review it"),
        "---\nfor: agent\nwhen: You look for mistakes\ncall: Write {\"path\": \"x\", \"content\": \"\"}\n\
         call: Read {\"path\": \"a.txt\"}\n"
            .to_owned(),
        of("review it", "expect: no tool named .{1,3}Write\nexpect: one\ntext: reviewed"),
        "---\nexpect: reviewed\ntext: done".to_owned(),
    ];
    let role = "---\nname: reviewer\ndescription: Reviews a change. Use it when: a change is done\n\
        tools: Read, Grep, Task, WebFetch, TodoWrite\nmodel: sonnet\ncolor: red\n---\nYou look for mistakes.\n";
    let test = Test::new()
        .file("a.txt", "one\n")
        .file(".claude/agents/reviewer.md", role)
        .script(&script.concat());
    let done = test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    assert!(
        described(&test).contains("`reviewer`: Reviews a change. Use it when: a change is done")
    );
    let notices: Vec<&str> =
        done.stderr.lines().filter(|line| line.contains("reviewer is without")).collect();
    assert_eq!(notices.len(), 1, "{}", done.stderr);
    assert!(notices[0].contains("without Task: "), "{}", notices[0]);
    assert_eq!(test.events_of("agent.started")[0]["role"], "reviewer");
    let started: Vec<Value> = test.events_of("tool.started");
    assert_eq!(started[0]["effect"]["reads_only"], true);
}

#[test]
fn broken_roles_are_one_notice_each() {
    let good = "---\ndescription: Good.\n---\nBe good.\n";
    let test = Test::new()
        .file(".agent/agents/torn.md", "---\nname: torn\ndescription: x\n")
        .file(".agent/agents/list.md", "---\n- a\n---\nx\n")
        .file(".agent/agents/explore.md", good)
        .file(".agent/agents/good.md", good)
        .file(".claude/agents/good.md", "---\nname: good\ndescription: Other.\n---\n")
        .file(".claude/agents/model.md", "---\ndescription: M.\nmodel: script:../other\n---\n")
        .script("text: done");
    std::os::unix::fs::symlink("/etc/passwd", test.root().join(".agent/agents/link.md")).unwrap();
    let done = test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    for part in [
        "torn.md: the front matter has no end",
        "list.md: the front matter is not a list",
        "explore.md: the role explore is built in",
        "link.md: it is a link that leaves its folder",
        ".claude/agents/good.md: not used",
        "the role model uses the session's model, not script:../other",
    ] {
        assert_eq!(done.stderr.matches(part).count(), 1, "{part}\n{}", done.stderr);
    }
    let described = described(&test);
    assert!(described.contains("`good`: Good.") && !described.contains("torn"), "{described}");
}

#[test]
fn long_descriptions_leave_the_names_of_further_roles() {
    let mut test = Test::new();
    for n in 10..40 {
        let role = format!("---\ndescription: {}\n---\nx\n", "long ".repeat(60));
        test = test.file(&format!(".agent/agents/role{n}.md"), role);
    }
    let test = test.script("text: done");
    let done = test.run(&["task"]).expect_code(0);
    assert_eq!(done.stderr.matches("receives only the names of").count(), 1, "{}", done.stderr);
    let described = described(&test);
    let roles = &described[described.find("`role10`").unwrap()..];
    let roles = &roles[..roles.find("\n{\"type\"").unwrap()];
    assert!(roles.len() < 2500 && roles.contains("`role30`"), "{roles}");
}

#[test]
fn users_roles_are_found_in_both_folders() {
    let test = Test::new();
    for (folder, name) in [(".config/agent/agents", "mine"), (".claude/agents", "theirs")] {
        let folder = test.home().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let role = format!("---\ndescription: It is {name}.\n---\n");
        std::fs::write(folder.join(format!("{name}.md")), role).unwrap();
    }
    let test = test.script("text: done");
    test.run(&["task"]).expect_code(0);
    let described = described(&test);
    assert!(described.contains("It is mine.") && described.contains("It is theirs."));
}
