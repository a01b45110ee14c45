//! `agent session undo`: reverts the changes of a turn, also outside a git repository.

use std::time::SystemTime;

use serde_json::json;

use crate::support::{Test, has, say, wait_for};

/// A turn that changes `a.txt` twice and creates `new/b.txt`.
fn changed() -> Test {
    let edit = |old: &str, new: &str| {
        let input = json!({"path": "a.txt", "old_string": old, "new_string": new});
        format!("call: Edit {input}\n")
    };
    let write = json!({"path": "new/b.txt", "content": "b\n"});
    let script = format!(
        "call: Read {{\"path\": \"a.txt\"}}\n---\n{}---\n{}call: Write {write}\n---\ntext: done",
        edit("one", "two"),
        edit("two", "three"),
    );
    let test = Test::new().file("a.txt", "one\r\n").file("run.sh", "echo\n").script(&script);
    test.run(&["task"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "three\r\n");
    test
}

#[test]
fn recorded_tool_batch_can_be_undone() {
    let calls = "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"a.txt\"}}\n\
                 {\"id\":2,\"name\":\"Edit\",\"input\":{\"path\":\"a.txt\",\"old_string\":\"one\",\
                 \"new_string\":\"two\"}}\n";
    let test = Test::new().file("a.txt", "one\n").stdin(calls);
    test.agent(&["tool", "batch"]).expect_code(0);
    assert!(test.try_log().is_none(), "nothing is kept unasked");
    test.write("a.txt", "one\n");
    test.agent(&["tool", "batch", "--record"]).expect_code(0);
    assert_eq!(test.events_of("tool.finished").len(), 2);
    assert_eq!(test.events_of("session.summary")[0]["calls"]["Edit"], 1);
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn ignored_files_that_a_command_destroys_are_restored() {
    let lines = [
        "rm ign*",
        "rm -rf data ignored.txt",
        "find . -name '*.txt' -delete",
        ": > ignored.txt; cp a ignored2.txt",
        "sed -i s/secret/x/ ignored*.txt",
        "python3 -c 'import os; os.remove(\"ignored.txt\")' || rm ./ignored.txt",
    ];
    for line in lines {
        let input = json!({"command": line});
        let test = Test::new()
            .file(".gitignore", "ignored*\n*.db\nbuild\n")
            .file("a", "a\n")
            .file("ignored.txt", "secret\n")
            .file("ignored2.txt", "secret 2\n")
            .file("data/local.db", "rows\n")
            .file("build/out", "x\n")
            .script(&format!("call: Bash {input}\n---\ntext: done"));
        let run = test.run(&["task"]).expect_code(0);
        assert!(run.stderr.contains("ignored file"), "{line}\n{}", run.stderr);
        let finished = test.events_of("turn.finished");
        assert_eq!(finished[0]["files_changed"], json!([]), "{line}");
        assert!(finished[0]["ignored_files_changed"].as_u64() > Some(0), "{line}");
        test.agent(&["session", "undo"]).expect_code(0);
        for (path, text) in [
            ("ignored.txt", "secret\n"),
            ("ignored2.txt", "secret 2\n"),
            ("data/local.db", "rows\n"),
        ] {
            assert_eq!(test.read(path), text, "{line}: {path}");
        }
    }
}

#[test]
fn deletion_of_an_ignored_file_too_large_for_a_checkpoint_asks() {
    let test = Test::new().file(".gitignore", "*.db\n").file("small.db", "x");
    let test = test.file("large.db", "x".repeat(2 << 20)).script(
        "call: Bash {\"command\": \"rm small.db\"}\n---\n\
         call: Bash {\"command\": \"rm large.db\"}\n---\n\
         call: Bash {\"command\": \"rm ./la*\"}\n---\ntext: done",
    );
    test.run(&["task"]);
    assert!(!test.root().join("small.db").exists() && test.root().join("large.db").exists());
}

#[test]
fn file_open_for_writing_is_not_replaced() {
    let test = Test::new().file("a.txt", "one\n");
    let mut batch =
        crate::support::batch::Batch::start(&mut test.command(&["tool", "batch", "--record"]));
    let edit =
        |old: &str, new: &str| json!({"path": "a.txt", "old_string": old, "new_string": new});
    batch.call("Read", &json!({"path": "a.txt"}));
    assert_eq!(batch.call("Edit", &edit("one", "two"))["status"], "success");
    // Another process has it open for writing during the next edit: it would continue to write to
    // an unlinked file.
    let mut open = std::fs::File::options().append(true).open(test.root().join("a.txt")).unwrap();
    let refused = batch.call("Edit", &edit("two", "three"));
    assert_eq!(refused["error"]["code"], "CONFLICT", "{refused}");
    std::io::Write::write_all(&mut open, b"late\n").unwrap();
    assert_eq!(test.read("a.txt"), "two\nlate\n");
}

#[test]
fn undo_restores_changed_files_and_removes_created_ones() {
    let test = changed();
    let done = test.agent(&["session", "undo"]).expect_code(0);
    done.expect_stdout("turn 1\n  a.txt: restored\n  new/b.txt: removed\n");
    assert_eq!(test.read("a.txt"), "one\r\n");
    assert!(!test.root().join("new").exists(), "nor is the folder that was made for it");
    let undone = &test.events_of("turn.undone")[0];
    assert_eq!(undone["files"], json!({"a.txt": "restored", "new/b.txt": "removed"}));
    test.agent(&["session", "undo"]).expect_code(2).expect_one_line_of_stderr("no change to undo");
    test.agent(&["session", "undo", "--turn", "7"]).expect_code(2).expect_stderr("turn 7");
}

#[test]
fn undo_removes_only_empty_created_directories() {
    let write = |path: &str| json!({"path": path, "content": "x\n"});
    let test = Test::new().file("there/a", "x\n");
    let mut batch =
        crate::support::batch::Batch::start(&mut test.command(&["tool", "batch", "--record"]));
    for path in ["one/two/a", "one/two/three/b", "one/c", "there/d", "kept/by/e"] {
        assert_eq!(batch.call("Write", &write(path))["status"], "success");
    }
    drop(batch);
    std::fs::remove_file(test.root().join("there/a")).unwrap();
    test.write("kept/theirs", "x\n");
    let done = test.agent(&["session", "undo"]).expect_code(1);
    assert!(done.stdout.contains("kept: left as it is: it contains files"), "{}", done.stdout);
    let is_there = |path: &str| test.root().join(path).exists();
    assert!(!is_there("one") && !is_there("kept/by"));
    assert!(is_there("there"), "it was there before");
    assert_eq!(test.read("kept/theirs"), "x\n");
}

#[test]
fn undo_preserves_the_file_mode() {
    let script = "call: Read {\"path\": \"x.sh\"}\n---\n\
        call: Edit {\"path\": \"x.sh\", \"old_string\": \"1\", \"new_string\": \"2\"}\n---\ntext: ok";
    let test = Test::new().file("x.sh", "echo 1\n").script(script);
    let path = test.root().join("x.sh");
    let mode = || std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    test.run(&["task"]).expect_code(0);
    assert_eq!(mode() & 0o777, 0o750);
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!((mode() & 0o777, test.read("x.sh").as_str()), (0o750, "echo 1\n"));
}

#[test]
fn undo_skips_externally_changed_files_unless_forced() {
    let test = changed();
    test.write("a.txt", "somebody's\n");
    let done = test.agent(&["session", "undo"]).expect_code(1);
    assert!(done.stdout.contains("a.txt: left as it is: it was changed since"));
    assert!(done.stdout.contains("new/b.txt: removed"));
    assert_eq!(test.read("a.txt"), "somebody's\n");
    test.agent(&["session", "undo", "--force"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\r\n");
}

#[test]
fn undo_restores_a_deleted_file_only_if_forced() {
    let test = changed();
    std::fs::remove_file(test.root().join("a.txt")).unwrap();
    test.agent(&["session", "undo"]).expect_code(1);
    assert!(!test.root().join("a.txt").exists());
    test.agent(&["session", "undo", "--force"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\r\n");
}

#[test]
fn turns_are_undone_individually_latest_first() {
    let test = changed();
    let next = "call: Read {\"path\": \"a.txt\"}\n---\n\
        call: Edit {\"path\": \"a.txt\", \"old_string\": \"three\", \"new_string\": \"four\"}\n---\n\
        text: done";
    let test = test.script(next);
    test.run(&["next", "-c"]).expect_code(0);
    test.agent(&["session", "undo"]).expect_code(0).expect_stdout("turn 2\n  a.txt: restored\n");
    assert_eq!(test.read("a.txt"), "three\r\n");
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\r\n");
}

#[test]
fn model_is_informed_of_an_undo_on_resume() {
    let test = changed();
    test.agent(&["session", "undo"]).expect_code(0);
    let test = test.script("when: undone the file changes of turn 1\ntext: I know");
    test.run(&["next", "-c"]).expect_code(0).expect_stdout("I know\n");
}

#[test]
fn a_refused_change_leaves_nothing_to_undo() {
    let script = "call: Write {\"path\": \"a.txt\", \"content\": \"x\"}\n---\ntext: not read";
    let test = Test::new().file("a.txt", "one\n").script(script);
    test.run(&["task"]).expect_code(0);
    test.agent(&["session", "undo"]).expect_code(2).expect_one_line_of_stderr("no change to undo");
}

/// A turn that makes one edit of `a.txt`.
fn edit_script(old: &str, new: &str) -> String {
    let edit = json!({"path": "a.txt", "old_string": old, "new_string": new});
    format!("call: Read {{\"path\": \"a.txt\"}}\n---\ncall: Edit {edit}\n---\ntext: done")
}

#[test]
fn undo_accepts_a_session_and_a_turn() {
    let test = Test::new().file("a.txt", "1\n").script(&edit_script("1", "2"));
    test.run(&["task", "--session-id", "01890a5d-ac96-774b-bcce-b302099a8057"]).expect_code(0);
    let test = test.script(&edit_script("2", "3"));
    test.run(&["more", "-c"]).expect_code(0);
    // Another session, which changed nothing.
    let test = test.script("text: ok");
    test.run(&["other"]).expect_code(0);
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let offered = test.agent(&["session", "undo"]).expect_code(2).stderr;
    assert!(offered.contains("9a8057  task") && !offered.contains("other"), "{offered}");
    // A change by a later turn also counts as a later change.
    let done = test.agent(&["session", "undo", id, "--turn", "1"]).expect_code(1);
    assert!(done.stdout.contains("a.txt: left as it is: it was changed since"));
    test.agent(&["session", "undo", id, "--turn", "2"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "2\n");
    test.agent(&["session", "undo", id, "--turn", "1"])
        .expect_code(0)
        .expect_stdout("turn 1\n  a.txt: restored\n");
    assert_eq!(test.read("a.txt"), "1\n");
}

#[test]
fn undo_removes_a_file_created_and_changed_in_one_turn() {
    let script = format!(
        "call: Write {}\n---\ncall: Edit {}\n---\ncall: Write {}\n---\ntext: done",
        json!({"path": "new.txt", "content": "one\n"}),
        json!({"path": "new.txt", "old_string": "one", "new_string": "two"}),
        json!({"path": "other.txt", "content": "x"}),
    );
    let test = Test::new().script(&script);
    test.run(&["task"]).expect_code(0);
    std::fs::remove_file(test.root().join("other.txt")).unwrap();
    test.agent(&["session", "undo"])
        .expect_code(0)
        .expect_stdout("turn 1\n  new.txt: removed\n  other.txt: already as before\n");
    assert!(!test.root().join("new.txt").exists());
}

#[test]
fn undo_restores_exact_bytes() {
    for bytes in [
        &b"mixed\r\nline\nends\r"[..],
        b"\xFF\xFEo\0n\0e\0",
        b"caf\xE9 au lait",
        b"\xEF\xBB\xBFone\n",
        b"",
    ] {
        let write = json!({"path": "a.txt", "content": "two\n"});
        let script = format!(
            "call: Read {{\"path\": \"a.txt\"}}\n---\ncall: Write {write}\n---\ntext: done"
        );
        let test = Test::new().file("a.txt", bytes).script(&script);
        test.run(&["task"]).expect_code(0);
        let path = test.root().join("a.txt");
        assert_ne!(std::fs::read(&path).unwrap(), bytes);
        test.agent(&["session", "undo"]).expect_code(0);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn undo_restores_files_in_an_added_directory() {
    let outside = Test::new().file("a.txt", "one\n");
    let there = outside.root().display().to_string();
    let script = edit_script("one", "two").replace("\"a.txt\"", &format!("\"{there}/a.txt\""));
    let test = Test::new().script(&script);
    test.run(&["task", "--add-dir", &there]).expect_code(0);
    assert_eq!(outside.read("a.txt"), "two\n");
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(outside.read("a.txt"), "one\n");
}

/// A turn with one command.
fn command_script(command: &str) -> String {
    format!("call: Bash {}\n---\ntext: done", json!({"command": command}))
}

#[test]
fn command_changes_are_undone_and_redone() {
    let line = "rm a.txt; echo new > b.txt; chmod 700 run.sh; sed -i s/one/two/ c.txt";
    let test = Test::new().file("a.txt", "a\n").file("run.sh", "x\n").file("c.txt", "one\n");
    let test = test.script(&command_script(line));
    let done = test.run(&["task", "--allow", "Bash", "--output-format", "json"]).expect_code(0);
    let changed = &done.lines()[0]["files_changed"];
    assert_eq!(*changed, json!(["a.txt", "b.txt", "c.txt", "run.sh"]));
    test.agent(&["session", "undo"]).expect_code(0).expect_stdout(
        "turn 1\n  a.txt: restored\n  b.txt: removed\n  c.txt: restored\n  run.sh: restored\n",
    );
    assert_eq!((test.read("a.txt"), test.read("c.txt")), ("a\n".to_owned(), "one\n".to_owned()));
    test.agent(&["session", "undo", "--redo"]).expect_code(0);
    assert_eq!((test.read("b.txt"), test.read("c.txt")), ("new\n".to_owned(), "two\n".to_owned()));
    assert!(!test.root().join("a.txt").exists());
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "a\n");
}

#[test]
fn file_moved_from_an_uncovered_place_is_not_removed() {
    let test = Test::new().file(".gitignore", "node_modules\n").file("node_modules/m", "one\n");
    let test = test.file("node_modules/n", "two\n").file("old", "three\n");
    let data = std::fs::metadata(test.root().join("node_modules/m")).unwrap();
    if data.created().is_err() {
        return say("SKIPPED: the file system does not know when files were created");
    }
    std::thread::sleep(std::time::Duration::from_millis(60));
    let test = test
        .script(&command_script("mv node_modules/m kept; mv node_modules/n old; echo two > new"));
    test.run(&["task", "--yolo"]).expect_code(0);
    let undone = test.agent(&["session", "undo"]).expect_code(1);
    for path in ["kept", "old"] {
        let left =
            format!("{path}: left as it is: it was moved here from a place without checkpoints");
        assert!(undone.stdout.contains(&left), "{}", undone.stdout);
    }
    let both = || (test.read("kept"), test.read("old"));
    assert_eq!(both(), ("one\n".to_owned(), "two\n".to_owned()));
    assert!(!test.root().join("new").exists());
    test.agent(&["session", "undo", "--force"]).expect_code(0);
    assert!(test.read("old") == "three\n" && !test.root().join("kept").exists());
    test.agent(&["session", "undo", "--redo"]).expect_code(0);
    assert_eq!(both(), ("one\n".to_owned(), "two\n".to_owned()));
}

#[test]
fn file_that_a_command_makes_ignored_is_kept() {
    if !has("git", "file_that_a_command_makes_ignored_is_kept") {
        return;
    }
    let test = Test::new().file("docs/a.md", "one\n").file("notes/b.md", "two\n");
    let line = "git init -q && git add docs";
    let mut bash = std::process::Command::new("bash");
    assert!(bash.args(["-c", line]).current_dir(test.root()).status().unwrap().success());
    let test = test.script(&command_script("printf 'docs\\nnotes/\\n' >> .gitignore"));
    test.run(&["task", "--yolo"]).expect_code(0);
    let changed = &test.events_of("turn.finished")[0];
    assert_eq!(changed["files_changed"], serde_json::json!([".gitignore"]), "{changed}");
    test.agent(&["session", "undo"]).expect_code(0);
    assert!(test.read("docs/a.md") == "one\n" && test.read("notes/b.md") == "two\n");
}

#[test]
fn undo_keeps_the_stash_of_a_file_that_no_checkpoint_covers() {
    if !has("git", "undo_keeps_the_stash_of_a_file_that_no_checkpoint_covers") {
        return;
    }
    let config = "[checkpoints]\nmax_file_bytes = 1000\n";
    let test = Test::new().user_config(config).file("large", "x".repeat(2000)).file("a", "1\n");
    let git = |line: &str| {
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", line]).current_dir(test.root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    git(
        "git init -q && git config user.email a && git config user.name b && git add -A && git commit -qm 1",
    );
    test.write("large", "y".repeat(2000));
    test.write("a", "2\n");
    let test = test.script(&command_script("git stash -q"));
    test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
    let undone = test.agent(&["session", "undo", "--git"]).expect_code(1);
    assert!(undone.stdout.contains("git may have the only copy of a file"), "{}", undone.stdout);
    let git = |line: &str| {
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", line]).current_dir(test.root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git("git show stash@{0}:large"), "y".repeat(2000));
    assert_eq!(test.read("a"), "2\n");
    test.agent(&["session", "undo", "--turn", "1", "--git", "--force"]);
    assert_eq!(git("git stash list"), "");
}

#[test]
fn undo_restores_refs_only_if_requested() {
    if !has("git", "undo_restores_refs_only_if_requested") {
        return;
    }
    let test = Test::new().file("a.txt", "one\n");
    let git = |line: &str| {
        let identity = "git config user.email a@b && git config user.name n";
        let line = line.replace("IDENTITY", identity);
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", &line]).current_dir(test.root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    git("git init -q && IDENTITY && git add -A && git commit -qm first");
    let before = git("git rev-parse HEAD; git stash list; git status --porcelain");
    let line = "git commit -q --allow-empty -m second; echo two > a.txt; git stash -q";
    let test = test.script(&command_script(line));
    test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
    let now = || {
        let line = "git rev-parse HEAD; git stash list; git status --porcelain";
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", line]).current_dir(test.root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_ne!(now(), before);
    let done = test.agent(&["session", "undo"]).expect_code(0);
    assert!(
        done.stdout.contains("HEAD, the index and refs are left as they are"),
        "{}",
        done.stdout
    );
    assert_ne!(now(), before);
    test.agent(&["session", "undo", "--redo"]).expect_code(0);
    // `git status` refreshes the index.
    std::fs::File::open(test.root().join("a.txt"))
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
    now();
    test.agent(&["session", "undo", "--git"]).expect_code(0);
    assert_eq!(now(), before);
}

/// With its files in `.git`, git would continue the merge with the user's next commit.
#[test]
fn undo_with_git_ends_a_stopped_merge_and_rebase() {
    if !has("git", "undo_with_git_ends_a_stopped_merge_and_rebase") {
        return;
    }
    for line in ["git merge side", "git rebase side", "git cherry-pick side"] {
        let test = Test::new().file("a.txt", "one\n");
        let git = |line: &str| {
            let mut bash = std::process::Command::new("bash");
            let output = bash.args(["-c", line]).current_dir(test.root()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        git("git init -qb main; git config user.email a@b; git config user.name n; git add -A; \
             git commit -qm first; git checkout -qb side; echo two > a.txt; git commit -qam two; \
             git checkout -q main; echo three > a.txt; git commit -qam three");
        let state = "git rev-parse HEAD; git branch --show-current; git status; ls .git | grep -v ORIG_HEAD";
        let before = git(state);
        std::fs::write(test.root().join("../script"), command_script(line)).unwrap();
        test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
        assert_ne!(git(state), before, "{line}");
        test.agent(&["session", "undo", "--git"]).expect_code(0);
        assert_eq!(git(state), before, "{line}");
        test.agent(&["session", "undo", "--redo"]);
        assert_eq!(git("cat a.txt | head -1"), "<<<<<<< HEAD\n", "{line}");
    }
}

/// The rest of a partial undo is undone later, and nothing is done again.
#[test]
fn second_undo_of_refs_does_not_redo() {
    if !has("git", "second_undo_of_refs_does_not_redo") {
        return;
    }
    let test = Test::new().file("a.txt", "one\n");
    let git = |line: &str| {
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", line]).current_dir(test.root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    git(
        "git init -q; git config user.email a@b; git config user.name n; git add -A; git commit -qm first",
    );
    let head = git("git rev-parse HEAD");
    let script = command_script("echo two > a.txt; git commit -qam second");
    std::fs::write(test.root().join("../script"), script).unwrap();
    test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
    // The index is changed since.
    git("echo x > b.txt; git add b.txt");
    test.agent(&["session", "undo", "--git"]).expect_code(1);
    assert_eq!(git("git rev-parse HEAD"), head);
    test.agent(&["session", "undo", "--git", "--force"]).expect_code(0);
    assert_eq!(git("git rev-parse HEAD"), head);
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn unmodified_tracked_files_are_restored_from_git() {
    if !has("git", "unmodified_tracked_files_are_restored_from_git") {
        return;
    }
    let mut test = Test::new();
    for n in 0..40 {
        test = test.file(&format!("d{}/f{n}.txt", n % 4), format!("{n}\n").repeat(2000));
    }
    // Files with equal content.
    for n in 0..4 {
        test = test.file(&format!("d{n}/LICENSE"), "free\n").file(&format!("d{n}/empty"), "");
    }
    let line = "git init -q && git add -A && git -c user.email=a@b -c user.name=n commit -qm first";
    let done =
        std::process::Command::new("bash").args(["-c", line]).current_dir(test.root()).status();
    assert!(done.unwrap().success());
    let test = test.script(&command_script("rm -rf d0 d1 d2"));
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(!test.root().join("d0").exists());
    let store = test.sessions().with_file_name("checkpoints");
    let sizes =
        std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() < 40_000, "contents that git has are not stored");
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("d0/f0.txt"), "0\n".repeat(2000));
    assert_eq!(test.read("d2/f38.txt"), "38\n".repeat(2000));
    for n in 0..4 {
        assert_eq!(test.read(&format!("d{n}/LICENSE")), "free\n");
        assert_eq!(test.read(&format!("d{n}/empty")), "");
    }
}

#[test]
fn killed_command_is_undone_only_if_confirmed() {
    let script = command_script("echo two > a.txt; touch there; sleep 60");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    let mut child = test.spawn(&["run", "--model", "script:../script", "task", "--allow", "Bash"]);
    wait_for(|| test.root().join("there").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // Changes made after its end cannot be distinguished.
    let refused = test.agent(&["session", "undo"]).expect_code(1).expect_stderr("a.txt, there");
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let done = test.in_terminal(&["session", "undo"], "y\n").expect_code(0);
    assert!(done.stdout.contains("a.txt: restored"), "{}", done.stdout);
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn undo_restores_contents_from_a_repository_of_another_user() {
    let name = "undo_restores_contents_from_a_repository_of_another_user";
    if !has("git", name) {
        return;
    }
    if !crate::support::is_root() {
        crate::support::say(&format!("SKIPPED: {name}: the tests do not run as root"));
        return;
    }
    let mut test = Test::new();
    for n in 0..20 {
        test = test.file(&format!("d/f{n}.txt"), format!("{n}\n"));
    }
    let line = "git init -q && git add -A && git -c user.email=a@b -c user.name=n commit -qm first \
        && chown -R 65534:65534 .git";
    let done =
        std::process::Command::new("bash").args(["-c", line]).current_dir(test.root()).status();
    assert!(done.unwrap().success());
    let test = test.script(&command_script("rm -rf d"));
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert!(!test.root().join("d").exists());
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("d/f7.txt"), "7\n");
}
