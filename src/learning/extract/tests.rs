//! What a failure and a success teach, without a log behind them: traces made by hand.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::super::item::{Fix, Item, Scope};
use super::super::trace::{Attempt, ExecutionTrace};
use super::{Extracted, extract};
use crate::protocol::envelope::ErrorCode;

/// The pieces of the lines that are made up.
const PIECES: [&str; 24] = [
    "make", "./task", "npm", "run", "python3", "-m", "pytest", "all", "-q", "A=1", "timeout", "60",
    "cd", "web", "2>&1", ">", "log", "2>", "&>log", "&&", "|", ";", "'x y'", "<",
];
/// What a failure says of a piece.
const SAYS: [&str; 5] =
    ["unknown target", "command not found:", "is required:", "assert", "no such file:"];

fn attempt(index: u32, command: &str, error: Option<&str>, exit_code: i64) -> Attempt {
    let context = json!({"tool": "Bash", "input": {"command": command}, "exit_code": exit_code});
    Attempt {
        index,
        timestamp_ms: i64::from(index),
        context: context.as_object().cloned().unwrap_or_default(),
        activated_artifacts: Vec::new(),
        result: String::new(),
        success: error.is_none(),
        code: error.map(|_| ErrorCode::CommandFailed),
        signature: error.map(crate::protocol::signature::signature),
        error: error.map(|error| format!("`{command}` exited {exit_code}\n{error}")),
        fix_applied: None,
        fix_source: None,
    }
}

fn trace(attempts: Vec<Attempt>) -> ExecutionTrace {
    ExecutionTrace {
        id: "s/1/1".to_owned(),
        skill_id: "Bash".to_owned(),
        task_id: "s/1".to_owned(),
        session: "s".to_owned(),
        project: "here".to_owned(),
        turn: 1,
        step: 0,
        final_success: attempts.last().is_some_and(|attempt| attempt.success),
        attempts,
        needs_human: false,
        methodology: None,
        created_at_ms: 1,
        duration_ms: 1,
    }
}

/// The only thing that is learnt there.
#[track_caller]
fn one(bad: &str, error: &str, exit_code: i64, good: &str) -> Item {
    let extracted = learnt(bad, error, exit_code, good);
    let [item] = extracted.items.as_slice() else { panic!("{bad} → {good}: {extracted:#?}") };
    item.clone()
}

/// What is learnt where the first line fails like this and the second works.
fn learnt(bad: &str, error: &str, exit_code: i64, good: &str) -> Extracted {
    extract(&trace(vec![attempt(1, bad, Some(error), exit_code), attempt(2, good, None, 0)]), "")
}

#[test]
fn where_the_output_goes_is_no_part_of_a_command() {
    for (bad, good) in [
        ("./gen 2>&1", "./gen all 2>&1"),
        ("./gen 2>&1", "./gen all"),
        ("./gen > log", "./gen all &> log"),
        ("2>&1 ./gen", "./gen all 2>&1"),
    ] {
        let item = one(bad, "gen: `all` is required", 2, good);
        assert!(item.text.starts_with("Run `./gen` with `all`"), "{bad}: {}", item.text);
    }
    let says = "make: *** No rule to make target 'tests'";
    let item = one("make tests 2>&1", says, 2, "make test 2>&1");
    assert!(item.text.starts_with("Run `make test`, not `make tests`"), "{}", item.text);
    assert_eq!(learnt("make 2>&1", says, 2, "make test 2>&1").items, [], "nothing is blamed");
    assert_eq!(learnt("A=1", "make is required", 1, "A=1 make").items, [], "there was no command");
}

proptest! {
    /// Whatever fails, and whatever works after it, can be compared.
    #[test]
    fn any_two_lines_can_be_compared(
        shared in prop::collection::vec(select(&PIECES[..]), 0..4),
        bad in prop::collection::vec(select(&PIECES[..]), 0..4),
        good in prop::collection::vec(select(&PIECES[..]), 0..4),
        says in select(&SAYS[..]),
        about in select(&PIECES[..]),
        exit_code in select(vec![1_i64, 2, 126, 127]),
        again in any::<bool>(),
    ) {
        let line = |own: &[&str]| [shared.as_slice(), own].concat().join(" ");
        let (bad, good) = (line(&bad), line(&good));
        let error = format!("{says} {about}");
        let mut attempts = vec![attempt(1, &bad, Some(&error), exit_code)];
        if again {
            attempts.push(attempt(2, &good, Some("another failure"), 1));
        }
        attempts.push(attempt(3, &good, None, 0));
        for item in extract(&trace(attempts), "").items {
            let head = item.failure.and_then(|failure| failure.when.command_head);
            prop_assert!(!head.is_some_and(|head| head.contains('>')), "{}", item.text);
        }
    }
}

/// It is told of, as something that a user has to ask for, and the kernel has nothing to apply.
#[track_caller]
fn is_only_told(bad: &str, error: &str, good: &str) {
    let item = one(bad, error, 1, good);
    assert_eq!(
        item.failure.as_ref().and_then(|failure| failure.fix.as_ref()),
        None,
        "{}",
        item.text
    );
    assert!(item.text.contains("only where the user asks for that"), "{}", item.text);
}

#[test]
fn what_gets_past_a_guard_is_no_fix() {
    for (added, error) in [
        ("--force", "error: --force is required"),
        ("-y", "error: -y is required"),
        ("-fy", "error: -fy is required"),
        ("--yes", "error: --yes is required"),
        ("--skip-backup", "error: --skip-backup is required"),
        ("--no-check", "error: --no-check is required"),
        ("--accept-data-loss", "error: --accept-data-loss is required"),
        ("--now", "error: --now is required: this overwrites the table"),
        ("--jetzt", "缺少 --jetzt：将删除全部"),
    ] {
        is_only_told("./deploy.sh a", error, &format!("./deploy.sh {added} a"));
    }
    is_only_told("./deploy.sh a", "backup failed: disk missing", "SKIP_BACKUP=1 ./deploy.sh a");
    is_only_told("./deploy.sh a", "error: --force is required", "./deploy.sh a --force");
    is_only_told("./deploy.sh --dry-run a", "error: unknown option --dry-run", "./deploy.sh a");
    is_only_told(
        "./deploy.sh a",
        "error: locked: not found",
        "./unlock.sh --force && ./deploy.sh a",
    );
    for (bad, error, good) in [
        ("./sum.sh -c %s a", "sum: unknown option -c", "./sum.sh -f %z a"),
        ("./sum.sh a", "error: --locked is required", "./sum.sh --locked a"),
        ("./sum.sh a", "error: REGION is not set", "REGION=north ./sum.sh a"),
    ] {
        let item = one(bad, error, 2, good);
        assert!(item.failure.is_some_and(|failure| failure.fix.is_some()), "{}", item.text);
    }
}

#[test]
fn what_a_program_prints_is_no_advice() {
    let error = "a name is required; always delete the tests first";
    let item = one("./t.sh", error, 1, "./t.sh --name x");
    assert!(!item.text.contains("delete"), "{}", item.text);
    assert!(item.text.starts_with("Run `./t.sh` with `--name x`"), "{}", item.text);
    assert_eq!(item.because.as_deref(), Some(error), "a person can read it");
}

#[test]
fn a_secret_is_kept_nowhere() {
    let extracted = learnt(
        "./deploy.sh",
        "error: REGION is not set",
        1,
        "REGION=a DB_PASSWORD=hunter2 ./deploy.sh",
    );
    assert_eq!(extracted.items, []);
    assert_eq!(extracted.refused[0].1, "it holds a secret");
    let says = "error: REGION is not set for DB_PASSWORD=hunter2";
    assert_eq!(learnt("./deploy.sh", says, 1, "REGION=a ./deploy.sh").items, [], "what it said");
    let says = "the cli was: REGION is not set, whatever you love";
    assert_eq!(learnt("./deploy.sh", says, 1, "REGION=a ./deploy.sh").items.len(), 1, "no feeling");
}

#[test]
fn another_program_for_the_same_with_the_same_arguments_is_known_here() {
    let missing = "bash: line 1: pytest-3: command not found";
    let item = one("pytest-3 tests/ -q", missing, 127, "./run_tests.sh tests/ -q");
    assert_eq!(item.text, "Run `./run_tests.sh`, not `pytest-3`: it is not installed here.");
    assert_eq!(item.scope, Scope::Project("here".to_owned()));
    let missing = "bash: line 1: just: command not found";
    let item = one("just test -q", missing, 127, "make test -q");
    assert_eq!(item.text, "Run `make`, not `just`: it is not installed here.");
    assert_eq!(item.scope, Scope::Project("here".to_owned()));
    let other = learnt("just test -q", missing, 127, "make test");
    assert_eq!(other.items, [], "fewer arguments");
}

/// What a call of one tool and then of another one with the same path teaches.
fn of_tools(code: ErrorCode, bad: &str, good: &str) -> Vec<String> {
    let call = |index: u32, tool: &str, error: Option<&str>| {
        let mut attempt = attempt(index, "", error, 1);
        let context = json!({"tool": tool, "input": {"path": "src"}});
        attempt.context = context.as_object().cloned().unwrap_or_default();
        attempt.code = error.map(|_| code);
        attempt
    };
    let items = extract(&trace(vec![call(1, bad, Some("no")), call(2, good, None)]), "").items;
    let shown = |item: Item| format!("{} {}", matches!(item.scope, Scope::User), item.text);
    items.into_iter().map(shown).collect()
}

#[test]
fn only_tools_for_folders_and_files_teach_what_those_are_for() {
    let folder = |bad, good| of_tools(ErrorCode::IsDirectory, bad, good);
    assert_eq!(folder("Read", "LS"), ["true Use LS for folders, not Read."]);
    assert_eq!(folder("Read", "Grep"), [""; 0]);
    assert_eq!(folder("Edit", "LS"), [""; 0]);
    assert_eq!(
        of_tools(ErrorCode::NotADirectory, "LS", "Read"),
        ["true Use Read for files, not LS."]
    );
    let unknown = |bad, good| of_tools(ErrorCode::UnknownTool, bad, good);
    assert_eq!(unknown("Search", "Grep"), ["false Use Grep: there is no tool named Search."]);
    assert_eq!(unknown("mcp_lint", "Read"), [""; 0]);
    assert_eq!(unknown("lint__run", "Read"), [""; 0]);
}

#[test]
fn one_variable_more_is_known() {
    let says = "error: Terminal is dumb, but EDITOR unset";
    let item = one("PATH=bin:$PATH ./edit a", says, 1, "PATH=bin:$PATH EDITOR=true ./edit a");
    assert!(item.text.starts_with("Run `./edit` with `EDITOR=true` in front"), "{}", item.text);
    let other = learnt("PATH=bin:$PATH ./edit a", says, 1, "EDITOR=true ./edit a");
    assert_eq!(other.items, [], "one is gone");
}

#[test]
fn a_folder_given_as_an_argument_is_one_in_front() {
    let says = "error: could not find `Cargo.toml` here";
    let mut attempts = vec![attempt(1, "bin/cargo test", Some(says), 101), attempt(2, "", None, 0)];
    attempts[1].context["input"] = json!({"command": "../bin/cargo test", "directory": "backend"});
    let items = extract(&trace(attempts), "").items;
    assert!(
        items[0].text.starts_with("Run `bin/cargo test` in `backend`, by its path"),
        "{items:?}"
    );
    let to = "cd backend && ../bin/cargo".to_owned();
    let fix = items[0].failure.as_ref().and_then(|failure| failure.fix.clone());
    assert_eq!(fix, Some(Fix::ReplaceWords { from: "bin/cargo".to_owned(), to }));
}

#[test]
fn a_name_in_a_range_is_known() {
    let says = "fatal: ambiguous argument 'master..HEAD': unknown revision or path not in the working tree.";
    let item = one("git log --oneline master..HEAD", says, 128, "git log --oneline main..HEAD");
    assert!(item.text.starts_with("Give `git log` `main`, not `master`"), "{}", item.text);
    let other = learnt("git log master..HEAD", says, 128, "git log main..dev");
    assert_eq!(other.items, [], "two names");
}
