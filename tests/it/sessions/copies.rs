//! Sessions in copies of the project: `--worktree`, `--attempts`, `agent session fork --worktree`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::server::{Server, sse_calls, sse_text};
use crate::support::{Test, has, wait_for};

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
    let mut copies: Vec<PathBuf> = copies.map(|copy| copy.unwrap().path()).collect();
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

/// Processes that work in the project, or in a copy of it.
fn processes_in(test: &Test) -> Vec<u32> {
    let place = test.root().parent().unwrap().canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let is_in = std::fs::read_link(process.path().join("cwd")).ok()?.starts_with(&place);
        is_in.then_some(pid)
    });
    processes.collect()
}
