//! Which items are told to which tasks.

use super::super::item::{Condition, FailurePattern, Fix, Item, Origin, Scope};
use super::{Subject, Task};
use crate::protocol::Object;
use crate::protocol::recall::ItemKind;
use crate::protocol::reflection::Tags;

fn item(text: &str, topic: &str, failure: Option<FailurePattern>) -> Item {
    Item {
        id: "i".into(),
        scope: Scope::User,
        kind: if failure.is_some() { ItemKind::FailurePattern } else { ItemKind::Rule },
        text: text.into(),
        tags: Tags { topic: topic.into(), pattern: None },
        failure,
        because: None,
        evidence: Vec::new(),
        origin: Origin::Trace,
        frequency: 1,
        wins: 1,
        losses: 0,
        created_at_ms: 0,
        last_occurred_ms: 0,
    }
}

fn pattern(when: Condition, fix: Option<Fix>) -> Item {
    let failure = FailurePattern {
        skill: String::new(),
        condition: String::new(),
        error_type: String::new(),
        suggested_fix: None,
        when,
        fix,
    };
    item("do it so", "", Some(failure))
}

fn command(head: &str) -> Item {
    let when =
        Condition { tool: "Bash".into(), command_head: Some(head.into()), ..Condition::default() };
    pattern(when, None)
}

#[track_caller]
fn check(item: &Item, fitting: &[&str], others: &[&str]) {
    for task in fitting {
        assert!(Task::read(task).fits(item, &Subject::of(item)).is_some(), "{task}");
    }
    for task in others {
        assert_eq!(Task::read(task).fits(item, &Subject::of(item)), None, "{task}");
    }
}

#[test]
fn what_is_about_tests_is_told_where_tests_are_to_be_run_or_mended() {
    let fitting = [
        "Run the tests.",
        "The tests do not pass; fix them.",
        "tests/test_b.py fails. Find out why.",
        "make the suite green again",
        "fix the failing test in parser",
        "Add a regression test for parse().",
        "rename foo\npytest -q",
        "运行测试",
        "修复失败的测试",
    ];
    let others = [
        "Rename the variable test_path in config.txt.",
        "Write in the README where the tests live.",
        "Explain how the tests are run.",
        "List the test files.",
        "Fix the typo in the greeting. Don't run the tests, they take an hour.",
        "测试文件在哪里？说明一下",
    ];
    check(&command("pytest"), &fitting, &others);
    check(&item("Run the tests with -q.", "test", None), &fitting, &others);
}

#[test]
fn a_command_of_the_project_is_told_where_its_name_is_to_be_done() {
    let others = ["What does the seed file hold?", "rename seed to kernel in a.txt"];
    check(&command("make seed"), &["Seed the database.", "please run seed"], &others);
    check(
        &command("./tools/gen.sh"),
        &["Regenerate the client and commit it.", "run tools/gen.sh"],
        &["Describe the tools in the README."],
    );
    check(&command("python"), &["run hello.py", "Use python to fix it"], &["rename a in b.txt"]);
}

#[test]
fn a_path_is_told_where_it_is_named() {
    let moved = |from: &str| {
        let fix = Fix::ReplacePath { from: from.into(), to: "lib".into() };
        pattern(Condition { tool: "Read".into(), ..Condition::default() }, Some(fix))
    };
    check(
        &moved("src"),
        &["fix src/a.py", "Is the greeting still in English?"],
        &["fix lib/a.py", "see srcs/a.py", "Who is named in notes.txt?"],
    );
    check(&moved("src/util.py"), &["fix util.py", "fix src/util.py."], &["fix util.rs"]);
}

#[test]
fn what_a_tool_takes_is_told_where_the_tool_will_be_used() {
    let edit = Condition {
        tool: "Edit".into(),
        argument: Some("file_path".into()),
        ..Condition::default()
    };
    let fix = Fix::RenameArgument { from: "file_path".into(), to: "path".into() };
    check(&pattern(edit, Some(fix)), &["rename a to b in c.txt"], &["What is in c.txt?"]);
    let json =
        Condition { tool: "Edit".into(), file_kind: Some("json".into()), ..Condition::default() };
    let fix = Fix::SetArguments { input: Object::new() };
    check(&pattern(json, Some(fix)), &["Change a.json"], &["Change a.rs"]);
}

#[test]
fn a_rule_without_a_known_topic_needs_most_of_its_words() {
    let rule = item("Regenerate the fixtures after changing a mapper.", "mapper", None);
    check(
        &rule,
        &["I'm changing the user mapper: regenerate what has to be, fixtures too."],
        &["Change the mapper's name in the docs.", "list the fixtures"],
    );
}

#[test]
fn what_three_sessions_came_to_is_told_wherever_work_is_asked_for() {
    let mut item = command("bin/app");
    let tasks = ["Give each order a due date.", "分别给订单和发票加一个日期。"];
    let others =
        ["What stands in notes.txt?", "Explain the order of columns.", "不要运行任何东西。"];
    check(&item, &[], &tasks);
    item.evidence = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    check(&item, &tasks, &others);
}

#[test]
fn an_everyday_word_is_no_program() {
    check(
        &command("date"),
        &[],
        &["Rename the field `date`.", "Sort by date.", "Which date do I print?"],
    );
    check(&command("md5sum"), &["Run md5sum over the archive."], &["Is the sum right?"]);
}

#[test]
fn a_build_tool_is_told_of_where_anything_is_built() {
    let fitting = ["Build the release binary.", "Run the tests.", "Is the linter content?"];
    check(&command("bin/cargo *"), &fitting, &["Publish the crate.", "Write a poem."]);
}
