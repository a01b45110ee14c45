//! Sessions in copies of the project: `--worktree`, `--attempts`, `agent session fork --worktree`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::server::{Server, sse_calls, sse_text};
use crate::support::{Done, Test, has, processes_in, say, signal, wait_for};

/// A repository with one commit of the files of the test.
fn committed(test: Test) -> Test {
    git(&test, "init -q -b main");
    git(&test, "add .");
    git(&test, "-c user.name=t -c user.email=t@t commit -qm first");
    test
}

fn git(test: &Test, line: &str) -> String {
    let output = std::process::Command::new("git")
        .args(line.split(' '))
        .current_dir(test.root())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The copies of the project that exist.
fn copies(test: &Test) -> Vec<PathBuf> {
    let places = std::fs::read_dir(test.home().join(".cache/agent/worktrees"));
    let copies = places.into_iter().flatten().flatten().map(|place| place.path());
    let copies = copies.flat_map(|place| std::fs::read_dir(place).unwrap());
    let copies = copies.map(|copy| copy.unwrap().path());
    let mut copies: Vec<PathBuf> = copies.filter(|copy| copy.is_dir()).collect();
    copies.sort();
    copies
}

fn read(folder: &Path, path: &str) -> String {
    std::fs::read_to_string(folder.join(path)).unwrap_or_default()
}

fn write_call(path: &str, content: &str) -> String {
    format!("call: Write {}\n---\ntext: done\n", json!({"path": path, "content": content}))
}

#[test]
fn worktree_session_leaves_the_project_alone_and_belongs_to_it() {
    if !has("git", "worktree_session_leaves_the_project_alone_and_belongs_to_it") {
        return;
    }
    let test = committed(Test::new().file("a.txt", "one\n").file(".gitignore", ".env\n"))
        .file("a.txt", "changed\n")
        .file(".env", "KEY=1\n")
        .user_config("[worktree]\ncopy = [\".env\"]\nsetup = \"echo made >setup.txt\"\n")
        .script(&write_call("new.txt", "new\n"));
    test.run(&["--worktree", "fix", "task"]).expect_code(0).expect_stderr("branch agent/fix");
    let [copy] = &copies(&test)[..] else { panic!("{:?}", copies(&test)) };
    assert!(copy.ends_with("fix"));
    assert_eq!(read(copy, "a.txt"), "one\n", "as committed");
    assert_eq!(read(copy, ".env"), "KEY=1\n");
    assert_eq!((read(copy, "new.txt"), read(copy, "setup.txt")), ("new\n".into(), "made\n".into()));
    assert!(!test.root().join("new.txt").exists());
    assert!(git(&test, "branch").contains("agent/fix"));
    // It is continued in its copy, and undone there.
    let list = test.agent(&["session", "list"]).expect_code(0);
    assert!(list.stdout.contains("task"), "{list:?}");
    let test = test.script(&write_call("again.txt", "again\n"));
    test.run(&["-c", "more"]).expect_code(0).expect_stderr("the session works in");
    assert_eq!(read(copy, "again.txt"), "again\n");
    test.agent(&["session", "undo", "--turn", "1"]).expect_code(0);
    assert!(!copy.join("new.txt").exists() && copy.join("again.txt").exists());
    // A fork of it can undo the same changes.
    let fork = test.agent(&["session", "fork"]).expect_code(0).stdout;
    test.agent(&["session", "undo", fork.trim()]).expect_code(0);
    assert!(!copy.join("again.txt").exists());
    test.agent(&["session", "undo", fork.trim(), "--redo"]).expect_code(0);
    assert_eq!(read(copy, "again.txt"), "again\n");
    // Without its copy it continues in the project.
    git(&test, &format!("worktree remove --force {}", copy.display()));
    test.agent(&["session", "undo"]).expect_code(1).expect_stderr("is gone");
    test.run(&["-c", "more"]).expect_code(0).expect_stderr("the session works in");
    assert!(test.root().join("again.txt").exists());
}

#[test]
fn worktree_without_changes_is_removed_and_uncommitted_changes_are_copied_on_request() {
    if !has("git", "worktree_without_changes_is_removed") {
        return;
    }
    let test = committed(Test::new().file("a.txt", "one\n").file("gone.txt", "x\n"))
        .file("a.txt", "changed\n")
        .file("untracked/b.txt", "b\n")
        .script("text: nothing to do");
    std::fs::remove_file(test.root().join("gone.txt")).unwrap();
    test.run(&["--worktree", "a task of words"]).expect_code(0).expect_stderr("removed, because");
    assert_eq!(copies(&test), Vec::<PathBuf>::new());
    assert!(!git(&test, "branch").contains("agent/"));
    // A branch that was there stays, whether the work began or not.
    git(&test, "branch agent/kept");
    for setup in ["false", "true"] {
        let set = format!("worktree.setup=\"{setup}\"");
        test.run(&["--worktree=kept", "--set", &set, "task"]);
        assert_eq!(copies(&test), Vec::<PathBuf>::new());
        assert!(git(&test, "branch").contains("agent/kept"));
    }
    // A change that a hurried status does not show.
    git(&test, "config status.showUntrackedFiles no");
    let test = test.script(&write_call("new.txt", "new\n"));
    test.run(&["--worktree=seen", "task"]).expect_code(0);
    assert_eq!(read(&copies(&test)[0], "new.txt"), "new\n");
    git(&test, &format!("worktree remove --force {}", copies(&test)[0].display()));
    let test = test.script("text: nothing to do");
    test.run(&["--worktree=w", "--with-changes", "task"]).expect_code(0);
    let [copy] = &copies(&test)[..] else { panic!("{:?}", copies(&test)) };
    assert_eq!(read(copy, "a.txt"), "changed\n");
    assert_eq!(read(copy, "untracked/b.txt"), "b\n");
    assert!(!copy.join("gone.txt").exists());
    // A directory became a file, another one a link.
    for path in ["one/x", "two/x"] {
        test.write(path, "x\n");
    }
    git(&test, "add .");
    git(&test, "-c user.name=t -c user.email=t@t commit -qm second");
    for path in ["one", "two"] {
        std::fs::remove_dir_all(test.root().join(path)).unwrap();
    }
    test.write("one", "file\n");
    std::os::unix::fs::symlink("untracked", test.root().join("two")).unwrap();
    test.write("untracked/x", "not followed\n");
    let test = test.script("text: nothing to do");
    test.run(&["--worktree=kinds", "--with-changes", "task"]).expect_code(0);
    let copy = copies(&test).into_iter().find(|copy| copy.ends_with("kinds")).unwrap();
    assert_eq!(read(&copy, "one"), "file\n");
    assert_eq!(std::fs::read_link(copy.join("two")).unwrap(), Path::new("untracked"));
    for name in ["../x", "-x", "a/b", "a..b", &"n".repeat(61)] {
        let done = test.run(&[&format!("--worktree={name}"), "task"]);
        done.expect_code(2).expect_stderr("a name has at most");
    }
}

#[test]
fn worktree_outside_of_git_or_without_a_commit_is_an_independent_copy() {
    let plain = Test::new().file("a.txt", "one\n").script(&write_call("new.txt", "new\n"));
    plain.run(&["--worktree", "w", "task"]).expect_code(0).expect_stderr("independent copy");
    let [copy] = &copies(&plain)[..] else { panic!("{:?}", copies(&plain)) };
    assert_eq!((read(copy, "a.txt"), read(copy, "new.txt")), ("one\n".into(), "new\n".into()));
    assert!(!plain.root().join("new.txt").exists());
    if !has("git", "worktree_outside_of_git_or_without_a_commit_is_an_independent_copy") {
        return;
    }
    let empty = Test::new().file("a.txt", "one\n").script(&write_call("new.txt", "new\n"));
    git(&empty, "init -q");
    empty.run(&["--worktree", "w", "task"]).expect_code(0).expect_stderr("independent copy");
    let [copy] = &copies(&empty)[..] else { panic!("{:?}", copies(&empty)) };
    assert_eq!((read(copy, "a.txt"), read(copy, "new.txt")), ("one\n".into(), "new\n".into()));
}

/// A project whose check wants `fixed.txt`; `../bad` and `../good` are scripts.
fn attempted(good: &str) -> Test {
    let test = committed(Test::new().file("a.txt", "one\n").file(".gitignore", "ignored.txt\n"))
        .file("a.txt", "uncommitted\n")
        .file("ignored.txt", "here\n");
    let beside = test.root().parent().unwrap().to_owned();
    std::fs::write(beside.join("bad"), write_call("other.txt", "x\n")).unwrap();
    std::fs::write(beside.join("good"), good).unwrap();
    test
}

const CHECK: &str = "grep -q uncommitted a.txt && grep -q fixed fixed.txt";
const MODELS: &str = "script:../bad,script:../good";

#[test]
fn attempt_that_passes_is_taken_over_as_one_change_that_can_be_undone() {
    if !has("git", "attempt_that_passes_is_taken_over_as_one_change_that_can_be_undone") {
        return;
    }
    let test = attempted(&write_call("fixed.txt", "fixed\n"));
    let args =
        ["run", "--attempts", MODELS, "--check", CHECK, "--set", "recovery.max_answer_retries=0"];
    let done = test.agent(&[&args[..], &["--output-format", "json", "task"]].concat());
    let done = done
        .expect_code(0)
        .expect_stderr("attempt 1 (script:../bad)")
        .expect_stderr("1 file of session");
    let result: serde_json::Value = serde_json::from_str(done.stdout.trim()).unwrap();
    assert_eq!(result["result"], "done");
    assert_eq!(test.read("fixed.txt"), "fixed\n");
    assert!(!test.root().join("other.txt").exists());
    assert_eq!(copies(&test), Vec::<PathBuf>::new());
    assert_eq!(git(&test, "for-each-ref --format=%(refname)"), "refs/heads/main\n");
    // The session that was taken over is the latest, and works in the project now.
    test.agent(&["session", "undo"]).expect_code(0);
    assert!(!test.root().join("fixed.txt").exists());
    assert_eq!(test.read("a.txt"), "uncommitted\n");
    test.agent(&["session", "undo", "--redo"]).expect_code(0);
    assert_eq!(test.read("fixed.txt"), "fixed\n");
    assert_eq!(std::fs::read_dir(test.sessions()).unwrap().count(), 2);
}

#[test]
fn attempts_that_do_not_pass_leave_the_project_unchanged_and_can_be_resumed() {
    if !has("git", "attempts_that_do_not_pass_leave_the_project_unchanged_and_can_be_resumed") {
        return;
    }
    let test = attempted(&write_call("wrong.txt", "x\n"));
    let args = ["run", "--attempts", MODELS, "--attempts-until", "all", "--check", CHECK, "task"];
    test.agent(&args)
        .expect_code(1)
        .expect_stderr("no attempt passes")
        .expect_stderr("attempt 1 (script:../bad): failed");
    assert_eq!(git(&test, "status --porcelain"), " M a.txt\n");
    assert_eq!(copies(&test).len(), 2);
    let test = test.script(&write_call("more.txt", "more\n"));
    test.run(&["-c", "more"]).expect_code(0);
    assert_eq!(copies(&test).iter().filter(|copy| copy.join("more.txt").exists()).count(), 1);
    // What cannot be meant begins nothing.
    for (args, why) in [
        (&["--attempts", "2"][..], "--attempts needs --check"),
        (&["--attempts", "2", "--check", "true"], "so it decides nothing"),
        (&["--attempts", "51", "--check", "false"], "from 1 to 50"),
        (&["--attempts", "a,,b", "--check", "false"], "write a number"),
    ] {
        let before = std::fs::read_dir(test.sessions()).unwrap().count();
        test.run(&[args, &["task"]].concat()).expect_code(2).expect_stderr(why);
        assert_eq!(std::fs::read_dir(test.sessions()).unwrap().count(), before);
    }
    assert_eq!(copies(&test).len(), 2, "the unchanged copy is removed");
}

#[test]
fn result_is_not_taken_over_where_the_project_changed_a_rule_forbids_it_or_the_check_fails_there() {
    if !has("git", "result_is_not_taken_over_where_the_project_changed") {
        return;
    }
    // The user changes the file while the attempt works.
    let test = committed(Test::new().file("a.txt", "one\n"));
    let changed = test.root().join("a.txt");
    let server = Server::with(move |request, _| {
        if request.body.contains("tool_call_id") {
            std::fs::write(&changed, "mine\n").unwrap();
            return sse_text("done");
        }
        sse_calls(&[("Bash", json!({"command": "echo fixed >a.txt", "description": "fix"}))])
    });
    let url = server.url();
    let args = ["run", "--base-url", &url, "--model", "openai/m", "--attempts", "1", "task"];
    let done =
        test.agent(&[&args[..], &["--check", "grep -q fixed a.txt", "--allow", "Bash"]].concat());
    done.expect_code(1).expect_stderr("CONFLICT: a.txt: it changed in the project meanwhile");
    assert_eq!(test.read("a.txt"), "mine\n");
    assert_eq!(read(&copies(&test)[0], "a.txt"), "fixed\n");

    let line = json!({"command": "mkdir -p m; echo fixed >fixed.txt; cp fixed.txt m/x", "description": "fix"});
    let test = attempted(&format!("call: Bash {line}\n---\ntext: done\n"));
    let args = ["run", "--model", "script:../good", "--attempts", "1", "--allow", "Bash", "task"];
    let denied = [&args[..], &["--check", CHECK, "--deny", "Edit(m/*)"]].concat();
    test.agent(&denied).expect_code(1).expect_stderr("CONFLICT: m/x: a rule forbids this");
    assert!(!test.root().join("fixed.txt").exists());

    // An ignored file is not in the copy.
    let check = format!("{CHECK} && [[ ! -e ignored.txt ]]");
    let failing = [&args[..], &["--check", &check]].concat();
    test.agent(&failing).expect_code(1).expect_stderr("in the project the check does not pass");
    assert!(!test.root().join("fixed.txt").exists() && !test.root().join("m").exists());
    assert_eq!(test.read("ignored.txt"), "here\n");
}

#[test]
fn fork_with_a_worktree_has_the_files_and_the_conversation_of_the_turn() {
    let test = Test::new().file("a.txt", "one\n").script(&write_call("first.txt", "1\n"));
    test.run(&["task one"]).expect_code(0);
    let test = test.script(&write_call("second.txt", "2\n"));
    test.run(&["-c", "task two"]).expect_code(0);
    let done = test.agent(&["session", "fork", "--turn", "1", "--worktree"]).expect_code(0);
    let [copy] = &copies(&test)[..] else { panic!("{:?}", copies(&test)) };
    assert_eq!((read(copy, "a.txt"), read(copy, "first.txt")), ("one\n".into(), "1\n".into()));
    assert!(!copy.join("second.txt").exists());
    let test = test.script(&write_call("third.txt", "3\n"));
    test.run(&["--resume", done.stdout.trim(), "task three"]).expect_code(0);
    assert_eq!(read(copy, "third.txt"), "3\n");
    assert!(!test.root().join("third.txt").exists() && test.root().join("second.txt").exists());
    test.agent(&["session", "undo", done.stdout.trim()]).expect_code(0);
    assert!(!copy.join("third.txt").exists() && copy.join("first.txt").exists());
}

#[test]
fn attempts_begin_with_the_files_and_the_conversation_of_a_turn() {
    let test = Test::new().file("a.txt", "one\n").script(&write_call("first.txt", "1\n"));
    test.run(&["task one"]).expect_code(0);
    let test = test.script(&write_call("second.txt", "2\n"));
    test.run(&["-c", "task two"]).expect_code(0);
    let beside = test.root().parent().unwrap().to_owned();
    std::fs::write(beside.join("bad"), write_call("other.txt", "x\n")).unwrap();
    std::fs::write(beside.join("good"), write_call("fixed.txt", "fixed\n")).unwrap();
    let forked = ["run", "-c", "--fork", "--turn", "1", "--attempts", MODELS];
    let check = ["--check", "[[ -e first.txt && -e fixed.txt ]]", "another way"];
    let n_sessions = || std::fs::read_dir(test.sessions()).unwrap().count();
    let wrong = [&["run", "-c", "--attempts", MODELS][..], &check].concat();
    test.agent(&wrong).expect_code(2).expect_stderr("add --fork");
    let no_turn = [&["run", "-c", "--fork", "--turn", "9", "--attempts", MODELS][..], &check];
    test.agent(&no_turn.concat()).expect_code(2).expect_stderr("has no turn 9");
    assert_eq!((n_sessions(), copies(&test).len()), (1, 0));
    // What came after the turn is not there: the check, which forbids it, passes only in a copy.
    let denied =
        ["--check", "[[ -e first.txt && -e fixed.txt && ! -e second.txt ]]", "another way"];
    let done = test.agent(&[&forked[..], &denied].concat());
    done.expect_code(1).expect_stderr("in the project the check does not pass");
    assert!(!test.root().join("fixed.txt").exists());
    let done = test.agent(&[&forked[..], &check].concat()).expect_code(0);
    assert!(done.stderr.contains("1 file of session"), "{done:?}");
    assert_eq!(test.read("fixed.txt"), "fixed\n");
    assert_eq!(test.read("second.txt"), "2\n");
    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    assert!(show.contains("task one") && !show.contains("task two"), "{show}");
    let taken = done.stderr.split("session undo ").nth(1).unwrap().split('`').next().unwrap();
    test.agent(&["session", "undo", taken]).expect_code(0);
    assert!(!test.root().join("fixed.txt").exists() && test.root().join("first.txt").exists());
}

/// Begins attempts, and waits until the check in the project runs, which does not end.
fn taking_over(test: &Test) -> std::process::Child {
    let check =
        format!("if [[ -e ignored.txt ]]; then touch ignored/at-check; sleep 1000; fi; {CHECK}");
    let args = ["run", "--model", "script:../good", "--attempts", "1", "--check", &check, "task"];
    let child = test.spawn(&args);
    wait_for(|| test.root().join("ignored/at-check").exists());
    assert_eq!(test.read("fixed.txt"), "fixed\n");
    child
}

#[test]
fn result_that_is_not_kept_is_taken_back_by_an_interrupt_the_next_start_or_an_undo() {
    if !has("git", "result_that_is_not_kept_is_taken_back") {
        return;
    }
    for how in ["interrupt", "start", "attempts", "undo", "change"] {
        let test = attempted(&write_call("fixed.txt", "fixed\n"));
        test.write(".gitignore", "ignored*\n");
        test.write("ignored/x", "");
        let mut child = taking_over(&test);
        if how == "interrupt" {
            signal(child.id(), "INT");
            assert_eq!(child.wait().unwrap().code(), Some(130));
            assert!(!test.root().join("fixed.txt").exists());
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(test.root().join("fixed.txt").exists());
        }
        let session = test.log().parent().unwrap().file_name().unwrap().to_owned();
        let session = session.to_str().unwrap();
        match how {
            "start" => {
                let done = test.agent(&["run", "--model", "script:../bad", "task"]).expect_code(0);
                assert!(done.stderr.contains("the project is as before"), "{done:?}");
            }
            "attempts" => {
                let args = ["run", "--model", "script:../bad", "--attempts", "1", "task"];
                let done = test.agent(&[&args[..], &["--check", "false"]].concat());
                done.expect_code(1).expect_stderr("the project is as before");
            }
            "undo" => {
                let undone = test.agent(&["session", "undo", session]).expect_code(0);
                assert!(undone.stderr.contains("the project is as before"), "{undone:?}");
            }
            // What the user changed since stays; the rest is not half of a result.
            "change" => {
                test.write("fixed.txt", "mine\n");
                let done = test.agent(&["run", "--model", "script:../bad", "task"]).expect_code(0);
                assert!(done.stderr.contains("fixed.txt: left as it is"), "{done:?}");
                assert_eq!(test.read("fixed.txt"), "mine\n");
                test.agent(&["session", "undo", session, "--force"]).expect_code(0);
            }
            _ => {}
        }
        assert!(!test.root().join("fixed.txt").exists(), "{how}");
        if how != "change" {
            let copies = copies(&test);
            let has_result = |copy: &PathBuf| read(copy, "fixed.txt") == "fixed\n";
            assert!(copies.iter().any(has_result), "{how}: {copies:?}");
            let more = ["run", "--model", "script:../bad", "--resume", session, "more"];
            test.agent(&more).expect_code(0).expect_stderr("the session works in");
        }
    }
}

#[test]
fn copies_of_a_killed_process_that_no_session_uses_are_removed_by_the_next_attempts() {
    if !has("git", "copies_of_a_killed_process_that_no_session_uses_are_removed") {
        return;
    }
    let test = attempted(&write_call("fixed.txt", "fixed\n"));
    let args = ["run", "--model", "script:../good", "--attempts", "1", "task", "--check"];
    let mut child = test.spawn(&[&args[..], &["touch at-check; sleep 1000"]].concat());
    wait_for(|| copies(&test).iter().any(|copy| copy.join("at-check").exists()));
    // A process that works keeps its copies.
    test.agent(&[&args[..], &["true"]].concat()).expect_code(2);
    assert!(copies(&test).iter().any(|copy| copy.join("at-check").exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    test.agent(&[&args[..], &["grep -q fixed fixed.txt"]].concat()).expect_code(0);
    test.agent(&[&args[..], &["true"]].concat()).expect_code(2);
    assert_eq!(copies(&test), Vec::<PathBuf>::new());
}

/// The limit is that of all attempts and their sub-agents together.
#[test]
fn requests_of_attempts_and_their_sub_agents_have_one_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::with(move |request, _| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let reply = if request.body.contains("tool_call_id") || request.body.contains("part of it")
        {
            sse_text("done")
        } else {
            let input =
                json!({"description": "part", "prompt": "part of it", "subagent_type": "explore"});
            sse_calls(&[("Task", input.clone()), ("Task", input.clone()), ("Task", input)])
        };
        now.fetch_sub(1, Ordering::SeqCst);
        reply
    });
    let test = Test::new().file("a.txt", "one\n");
    let url = server.url();
    let args = ["run", "--base-url", &url, "--model", "openai/m", "--attempts", "3"];
    let limits = ["--set", "agents.max_concurrent=2", "--set", "recovery.max_answer_retries=0"];
    let rest = ["--attempts-until", "all", "--check", "false", "task"];
    test.agent(&[&args[..], &limits, &rest].concat()).expect_code(1);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn lesson_that_several_attempts_learn_alike_is_learned_once() {
    let tool = "[ \"$1\" = right ] || { echo \"error: unknown mode $1\" >&2; exit 2; }\n";
    let test = Test::new().file("tool.sh", tool).script(
        "call: Bash {\"command\": \"bash tool.sh wrong\"}\n---\n\
         call: Bash {\"command\": \"bash tool.sh right\"}\n---\ntext: done\n",
    );
    let args =
        ["--attempts", "3", "--attempts-until", "all", "--check", "false", "--allow", "Bash"];
    let retries = ["--set", "recovery.max_answer_retries=0", "task"];
    test.run(&[&args[..], &retries].concat()).expect_code(1);
    let list = test.agent(&["memory", "list", "--json"]).expect_code(0).stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let counts: Vec<&serde_json::Value> =
        list.as_array().unwrap().iter().map(|lesson| &lesson["frequency"]).collect();
    assert_eq!(counts, [1], "{list}");
}

/// Kills `run --attempts` and sessions in the background; `AGENT_KILLS=200` is what docs/BENCHMARKS.md reports.
#[test]
#[ignore = "slow"]
fn a_kill_at_any_point_leaves_no_process_loses_no_event_and_no_result_in_part() {
    if !has("git", "a_kill_at_any_point_leaves_no_process_loses_no_event_and_no_result_in_part") {
        return;
    }
    let n_kills = std::env::var("AGENT_KILLS").map_or(20, |n| n.parse().unwrap());
    let line = "for i in 1 2 3 4 5 6 7 8 9; do echo fixed >f$i; done; rm b.txt; echo fixed >a.txt";
    let good = format!("call: Bash {}\n---\ntext: done\n", json!({"command": line}));
    let project = || {
        let test = Test::in_memory().file("a.txt", "one\n").file("b.txt", "two\n");
        let test = committed(test).script(&good);
        std::fs::write(test.root().parent().unwrap().join("good"), "text: looked").unwrap();
        test
    };
    let attempts = ["run", "--attempts", "2", "--check", "test -e f9", "task"];
    let background = ["run", "--background", "task"];
    let options = ["--model", "script:../script", "--allow", "Bash"];
    let (mut seed, mut n_taken, mut n_parts) = (0x2545_f491_4f6c_dd1d_u64, 0, 0);
    let whole = project();
    let begun = std::time::Instant::now();
    whole.agent(&[&attempts[..], &options].concat()).expect_code(0);
    let took = u64::try_from(begun.elapsed().as_micros()).unwrap();
    let result = files(&whole);
    for point in 0..n_kills {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (test, is_background) = (project(), point % 3 == 0);
        let before = files(&test);
        let args = if is_background { &background[..] } else { &attempts[..] };
        let mut child = test.spawn(&[args, &options].concat());
        std::thread::sleep(std::time::Duration::from_micros(seed % took));
        child.kill().unwrap();
        if is_background {
            // One that has just ended is no longer there.
            for pid in processes_in(&test) {
                let kill = format!("kill -9 {pid} 2>/dev/null");
                _ = std::process::Command::new("bash").args(["-c", &kill]).status();
            }
        }
        child.wait().unwrap();
        wait_for(|| processes_in(&test).is_empty());
        let logs: Vec<(String, Vec<u8>)> = std::fs::read_dir(test.sessions())
            .into_iter()
            .flatten()
            .map(|session| session.unwrap())
            .filter_map(|session| {
                let log = std::fs::read(session.path().join("events.jsonl")).ok()?;
                let n_whole = log.iter().rposition(|byte| *byte == b'\n')? + 1;
                Some((session.file_name().into_string().unwrap(), log[..n_whole].to_vec()))
            })
            .collect();
        // What was taken over, in whole or in part, can be taken back.
        if !is_background && files(&test) != before {
            n_taken += u32::from(files(&test) == result);
            n_parts += u32::from(files(&test) != result);
            // The next start takes back what is not known to be whole; a plain undo takes back all of it.
            if point % 2 == 1 {
                test.agent(&["run", "--model", "script:../good", "--ephemeral", "look"]);
                let now = files(&test);
                assert!(now == before || now == result, "point {point}: {now:?}");
            }
            let is_undone = |(id, _): &(String, Vec<u8>)| {
                files(&test) == before || {
                    test.agent(&["session", "undo", id]);
                    files(&test) == before
                }
            };
            assert!(logs.iter().any(is_undone), "point {point}: {:?}", files(&test));
        }
        std::fs::write(test.root().parent().unwrap().join("script"), "text: on").unwrap();
        for (id, log) in &logs {
            for (n, line) in log.split(|byte| *byte == b'\n').enumerate() {
                let event: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
                assert!(line.is_empty() || event["seq"] == n + 1, "point {point}: {event}");
            }
            test.run(&["--resume", id, "go on"]).expect_code(0);
            let after = std::fs::read(test.sessions().join(id).join("events.jsonl")).unwrap();
            assert!(after.starts_with(log), "point {point}: a written event was lost");
        }
    }
    crate::support::say(&format!(
        "{n_taken} of {n_kills} kills came after the whole result was in the project, {n_parts} in between"
    ));
}

/// The files of the project with their contents.
fn files(test: &Test) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(test.root()).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter_map(|it| Some((it.file_name(), std::fs::read(it.path()).ok()?)));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// The mount ends with its namespace.
#[test]
fn worktree_shares_ignored_files_where_the_file_system_can() {
    let name = "worktree_shares_ignored_files_where_the_file_system_can";
    if !["git", "mkfs.btrfs", "unshare"].iter().all(|program| has(program, name)) {
        return;
    }
    let test = Test::new();
    let script = r#"
        truncate -s 200M image && mkfs.btrfs -q image && mkdir disk && mount -o loop image disk || exit 99
        set -e
        mkdir disk/home disk/p; cd disk/p; export HOME=$PWD/../home XDG_RUNTIME_DIR=$PWD/../home
        git init -q; echo node_modules >.gitignore; git add .
        git -c user.name=t -c user.email=t@t commit -qm first
        mkdir -p node_modules/x; head -c 60M /dev/urandom >node_modules/x/big; ln -s big node_modules/x/link
        printf '%s\n---\ntext: done' 'call: Bash {"command": "cmp node_modules/x/big node_modules/x/link && touch new"}' >../script
        sync; before=$(df --output=used -m . | tail -1)
        "$0" run --yolo --worktree w --model script:../script task
        sync; echo "$(ls ../home/.cache/agent/worktrees/*/w) grew $(($(df --output=used -m . | tail -1) - before))"
    "#;
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "bash", "-c", script]);
    command.arg(test.command(&[]).get_program()).current_dir(test.root().parent().unwrap());
    let done = Done::new(&command.output().unwrap());
    if done.code == Some(99) || done.stderr.contains("unshare") {
        return say("SKIPPED: a file system that shares contents: it can not be mounted here");
    }
    let done = done.expect_code(0);
    assert!(done.stdout.contains("done\nnew\nnode_modules grew "), "{}", done.stdout);
    let grown = done.stdout.split_whitespace().last().unwrap();
    assert!(grown.parse::<u32>().unwrap() < 30, "{}", done.stdout);
}

/// The agent looks whether the worktree is clean, outside the sandbox.
#[test]
fn end_of_a_worktree_runs_nothing_of_a_submodule() {
    if !has("git", "end_of_a_worktree_runs_nothing_of_a_submodule") {
        return;
    }
    let test = Test::new().file("a.txt", "one\n").user_config("[sandbox]\nenabled = false\n");
    let mark = test.home().join("marker");
    let line = format!(
        "git init -q e; cd e; git config user.name t; git config user.email t@t; echo '* filter=x' >.gitattributes; echo 1 >f; git add .; \
         git commit -qm f; git config filter.x.clean 'touch {0}; cat'; cd ..; \
         git update-index --add --cacheinfo 160000,$(git -C e rev-parse HEAD),e; git -c user.name=t -c user.email=t@t commit -qm e; sleep 1.1; touch e/f",
        mark.display()
    );
    let call = format!("call: Bash {}\n---\ntext: done", json!({"command": line}));
    let test = committed(test.script(&call));
    test.run(&["--yolo", "--worktree", "fix", "task"]).expect_code(0);
    assert_eq!(copies(&test).len(), 1, "the files of a submodule stay");
    assert!(!mark.exists());
}

/// Git says nothing of files in the folder of a submodule that is not checked out.
#[test]
fn worktree_with_files_in_the_folder_of_a_submodule_stays() {
    if !has("git", "worktree_with_files_in_the_folder_of_a_submodule_stays") {
        return;
    }
    let call = "call: Write {\"path\": \"sub/new.txt\", \"content\": \"x\"}\n---\ntext: done";
    let test = committed(Test::new().file("a.txt", "one\n").script(call));
    let commit = git(&test, "rev-parse HEAD");
    git(&test, &format!("update-index --add --cacheinfo 160000,{},sub", commit.trim()));
    git(&test, "-c user.name=t -c user.email=t@t commit -qm sub");
    test.run(&["--yolo", "--worktree", "fix", "task"]).expect_code(0);
    let [copy] = &copies(&test)[..] else { panic!("{:?}", copies(&test)) };
    assert_eq!(read(copy, "sub/new.txt"), "x");
}
