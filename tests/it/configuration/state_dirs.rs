//! Location of a project's state: outside of the project, below `XDG_STATE_HOME`, the home, or
//! `TMPDIR`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_protocol::disk;
use serde_json::json;

use crate::support::{Done, Test, events, has, is_root, say, sessions_in};

const NO_MEMORY: &str = "--no-memory";

fn new_folder(path: &Path) -> PathBuf {
    fs::create_dir_all(path).unwrap();
    path.canonicalize().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Creates a directory beside the project.
fn beside(test: &Test, name: &str) -> PathBuf {
    new_folder(&test.home().with_file_name(name))
}

/// Runs the binary in this directory.
fn agent_in(test: &Test, folder: &Path, args: &[&str]) -> Done {
    Done::new(&test.command(args).current_dir(folder).output().unwrap())
}

/// Runs `agent run` with the script in this directory.
fn run_in(test: &Test, folder: &Path, args: &[&str]) -> Done {
    let script = test.home().with_file_name("script");
    let model = format!("script:{}", script.display());
    agent_in(test, folder, &[&["run", "--model", &model], args].concat())
}

fn write_call(path: &str) -> String {
    format!("call: Write {}\n---\ntext: done", json!({"path": path, "content": "x\n"}))
}

/// The session id in this log.
fn id_of(log: &Path) -> String {
    events(log)[0]["session"].as_str().unwrap().to_owned()
}

/// The log of the only session there.
fn only_log(sessions: &Path) -> PathBuf {
    let found: Vec<_> = fs::read_dir(sessions).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].join("events.jsonl")
}

fn n_turns(log: &Path) -> usize {
    events(log).iter().filter(|event| event["type"] == "turn.started").count()
}

fn user_of(folder: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(folder).unwrap())
}

/// The state directory below TMPDIR.
fn temporary_state(test: &Test, tmpdir: &Path) -> PathBuf {
    tmpdir.join(format!("agent-{}", user_of(&test.home())))
}

/// Makes the home's state directory impossible to create, even for root, and sets TMPDIR.
fn without_state_home(test: Test, tmpdir: &Path) -> Test {
    fs::write(test.home().join(".local"), "a file\n").unwrap();
    test.env("TMPDIR", tmpdir.to_str().unwrap())
}

#[test]
fn session_leaves_only_its_changes_in_the_project() {
    if !has("git", "session_leaves_only_its_changes_in_the_project") {
        return;
    }
    let test = Test::new().script(&format!(
        "call: Bash {}\n---\n{}",
        json!({"command": "seq 100000; true"}),
        write_call("new.txt")
    ));
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        let output = git.args(args).current_dir(test.root()).env("HOME", test.home()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert_eq!(git(&["status", "--ignored", "--porcelain"]), "?? new.txt\n");
    assert!(!test.root().join(".agent").exists());
    let session = test.log().parent().unwrap().to_owned();
    for kept in ["events.jsonl", "tool-output", "operations.jsonl"] {
        assert!(session.join(kept).exists(), "{kept}");
    }
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(git(&["status", "--ignored", "--porcelain"]), "");
}

#[test]
fn a_session_of_another_project_continues_in_its_own_directory() {
    let test = Test::new().script("text: the first answer");
    test.run(&["task"]).expect_code(0);
    let (log, root) = (test.log(), test.root());
    let other = beside(&test, "other");
    let test = test.script(&write_call("here.txt"));
    let id = id_of(&log);
    let done = run_in(&test, &other, &["more", "--resume", &id[..20]]).expect_code(0);
    done.expect_stderr(&format!("working in {}", root.display()));
    assert!(root.join("here.txt").exists() && !other.join("here.txt").exists());
    assert_eq!(n_turns(&log), 2);
    // In its own directory there is no notice.
    let test = test.script("text: ok");
    let done = run_in(&test, &root, &["more", "--resume", &id]).expect_code(0);
    assert!(!done.stderr.contains("working in"), "{}", done.stderr);
    // With -C it continues in that directory.
    let test = test.script(&write_call("there.txt"));
    let there = other.to_str().unwrap();
    run_in(&test, &root, &["more", "--resume", &id, "-C", there]).expect_code(0);
    assert!(other.join("there.txt").exists() && !root.join("there.txt").exists());
    assert_eq!(n_turns(&log), 4);
    assert_eq!(fs::read_dir(test.sessions()).unwrap().count(), 1);
    assert!(!sessions_in(&test.home().join(".local/state/agent"), &other).exists());
}

#[test]
fn session_with_a_missing_directory_requires_dash_c() {
    let test = Test::new().script("text: ok");
    let (own, root) = (beside(&test, "own"), test.root());
    run_in(&test, &own, &["task"]).expect_code(0);
    let log = only_log(&sessions_in(&test.home().join(".local/state/agent"), &own));
    let id = id_of(&log);
    let renamed = own.with_file_name("renamed");
    fs::rename(&own, &renamed).unwrap();
    let done = run_in(&test, &root, &["more", "--resume", &id]).expect_code(2);
    let done = done.expect_one_line_of_stderr("-C DIR");
    done.expect_stderr(own.to_str().unwrap());
    agent_in(&test, &root, &["session", "undo", &id]).expect_code(2).expect_stderr("-C DIR");
    // Showing it requires no directory.
    agent_in(&test, &root, &["session", "show", &id]).expect_code(0);
    assert_eq!(n_turns(&log), 1);
    let renamed = renamed.to_str().unwrap();
    run_in(&test, &root, &["more", "--resume", &id, "-C", renamed]).expect_code(0);
    assert_eq!(n_turns(&log), 2);
}

#[test]
fn session_commands_work_from_another_project() {
    let test = Test::new().script(&write_call("new.txt"));
    test.run(&["the task"]).expect_code(0);
    let (id, root) = (id_of(&test.log()), test.root());
    let other = beside(&test, "other");
    let agent = |args: &[&str]| agent_in(&test, &other, args);
    assert_eq!(agent(&["session", "list"]).expect_code(0).stdout, "");
    for args in
        [&["session", "show", &id[..]][..], &["session", "export", &id], &["trace", "show", &id]]
    {
        let done = agent(args).expect_code(0);
        assert!(done.stdout.contains("the task") && done.stderr.is_empty(), "{args:?}: {done:?}");
    }
    let copy = agent(&["session", "fork", &id]).expect_code(0).stdout;
    assert!(test.sessions().join(copy.trim()).is_dir());
    agent(&["session", "undo", &id]).expect_code(0).expect_stderr(root.to_str().unwrap());
    assert!(!root.join("new.txt").exists());
    agent(&["session", "rm", &id, "--yes"]).expect_code(0);
    assert!(!test.sessions().join(&id).exists() && test.sessions().join(copy.trim()).is_dir());
    agent(&["session", "show", &id]).expect_code(2).expect_one_line_of_stderr("no session");
}

#[test]
fn id_prefix_that_matches_several_projects_is_refused() {
    let test = Test::new().script("text: ok");
    for name in ["one", "two"] {
        run_in(&test, &beside(&test, name), &["task"]).expect_code(0);
    }
    for args in [["session", "show", "0"], ["session", "rm", "0"]] {
        let done = test.agent(&args).expect_code(2).expect_one_line_of_stderr("several projects");
        // The candidates with their projects.
        for name in ["/one", "/two"] {
            assert!(done.stderr.contains(name), "{}", done.stderr);
        }
    }
    let one = beside(&test, "one");
    test.agent(&["session", "show", "0", "-C", one.to_str().unwrap()]).expect_code(0);
}

#[test]
fn state_is_stored_below_xdg_state_home() {
    let test = Test::new().script("text: ok");
    let state = beside(&test, "state");
    let test = test.env("XDG_STATE_HOME", state.to_str().unwrap());
    test.run(&["task"]).expect_code(0).expect_stdout("ok\n");
    only_log(&sessions_in(&state.join("agent"), &test.root()));
    assert!(!test.home().join(".local/state/agent").exists());
    assert!(test.agent(&["session", "list"]).stdout.contains("task"));
    test.run(&["more", "-c"]).expect_code(0);
    // Relative paths are ignored.
    let test = test.env("XDG_STATE_HOME", "state");
    test.run(&["task"]).expect_code(0);
    only_log(&test.sessions());
    assert!(!test.root().join("state").exists());
}

#[test]
fn unset_home_falls_back_to_the_passwd_entry() {
    let this = "unset_home_falls_back_to_the_passwd_entry";
    if !is_root() {
        return say(&format!("SKIPPED: {this}: this would write to the real home"));
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut entries = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entries.find(|entry| entry.get(2) == Some(&"65534"));
    let home = entry.and_then(|entry| entry.get(5).copied());
    let Some(home) = home.filter(|home| !Path::new(home).exists()) else {
        return say(&format!("SKIPPED: {this}: there is no user whose home does not exist"));
    };
    let test = Test::new().script("text: ok");
    let tmpdir = beside(&test, "tmp");
    let Some(test) = test.unprivileged(this) else { return };
    let run = |args: &[&str]| {
        let mut command = test.command(args);
        Done::new(&command.env_remove("HOME").env("TMPDIR", &tmpdir).output().unwrap())
    };
    let task = ["run", "--model", "script:../script", NO_MEMORY, "task"];
    let done = run(&task).expect_code(0);
    // The home cannot be created: the error shows that it was tried.
    let done = done.expect_stderr(&format!("{home}/.local/state/agent"));
    let state = temporary_state(&test, &tmpdir);
    done.expect_stderr(state.to_str().unwrap());
    only_log(&sessions_in(&state, &test.root()));
}

#[test]
fn unusable_home_falls_back_to_a_private_temporary_directory() {
    let test = Test::new().script("text: ok");
    let tmpdir = beside(&test, "tmp");
    let state = temporary_state(&test, &tmpdir);
    let test = without_state_home(test, &tmpdir);
    let done = test.run(&["task", NO_MEMORY, "--quiet"]).expect_code(0).expect_stdout("ok\n");
    let done = done.expect_one_line_of_stderr("sessions are kept in");
    done.expect_stderr(state.to_str().unwrap());
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    let log = only_log(&sessions_in(&state, &test.root()));
    assert!(test.agent(&["session", "list"]).expect_code(0).stdout.contains("task"));
    test.run(&["more", "-c", NO_MEMORY]).expect_code(0);
    assert_eq!(n_turns(&log), 2);
    // It is still found when the home is usable again.
    fs::remove_file(test.home().join(".local")).unwrap();
    test.run(&["more", "--resume", &id_of(&log)[..20]]).expect_code(0);
    assert_eq!(n_turns(&log), 3);
}

#[test]
fn unwritable_xdg_state_home_falls_back_to_the_default() {
    let test = Test::new().script("text: ok");
    let file = test.home().join("file");
    fs::write(&file, "").unwrap();
    let test = test.env("XDG_STATE_HOME", file.to_str().unwrap());
    let done = test.run(&["task", NO_MEMORY]).expect_code(0);
    done.expect_stderr("sessions are kept in");
    only_log(&test.sessions());
}

#[test]
fn temporary_directory_writable_by_others_is_not_used() {
    let kinds = [("group", 0o770, false), ("all", 0o777, false), ("another user's", 0o700, true)];
    for (kind, mode, is_others) in kinds {
        if is_others && !is_root() {
            say("SKIPPED: a temporary directory of another user: only root can make one");
            continue;
        }
        let test = Test::new().script(&write_call("new.txt"));
        let tmpdir = beside(&test, "tmp");
        let state = new_folder(&temporary_state(&test, &tmpdir));
        let planted =
            sessions_in(&state, &test.root()).join("01890a5d-ac96-774b-bcce-b302099a8057");
        fs::create_dir_all(&planted).unwrap();
        let turn = json!({"v": 2, "seq": 1, "ts": "2026-11-20T12:00:00.000Z", "turn": 1, "round": 0,
            "session": "01890a5d-ac96-774b-bcce-b302099a8057", "agent": "main", "step": 0,
            "type": "turn.started", "input": "planted"});
        fs::write(planted.join("events.jsonl"), format!("{turn}\n")).unwrap();
        set_mode(&state, mode);
        if is_others {
            chown(&state, Some(12_345), Some(12_345)).unwrap();
        }
        let test = without_state_home(test, &tmpdir);
        let done = test.run(&["task", NO_MEMORY, "--quiet"]).expect_code(0);
        // The session runs nevertheless.
        let done = done.expect_one_line_of_stderr("this session is not recorded");
        done.expect_stderr("cannot be undone");
        assert_eq!(test.read("new.txt"), "x\n", "{kind}");
        assert_eq!(fs::read_dir(planted.parent().unwrap()).unwrap().count(), 1, "{kind}");
        assert_eq!(test.agent(&["session", "list"]).stdout, "", "{kind}");
        test.run(&["more", "-c"]).expect_code(2).expect_stderr("no session of this project");
        test.agent(&["tool", "call", "--record", "LS", "{}"]).expect_code(2);
    }
}

#[test]
fn session_runs_in_an_unwritable_project() {
    let test = Test::new().file("a.txt", "one\n");
    let test = test.script("call: Read {\"path\": \"a.txt\"}\n---\ntext: ok");
    let Some(test) = test.unprivileged("session_runs_in_an_unwritable_project") else {
        return;
    };
    set_mode(&test.root(), 0o555);
    let done = test.run(&["task", "--quiet"]);
    let listed = test.agent(&["session", "list"]).stdout;
    set_mode(&test.root(), 0o755);
    let done = done.expect_code(0).expect_stdout("ok\n");
    assert_eq!(done.stderr, "");
    assert!(listed.contains("task"), "{listed}");
    assert_eq!(test.events_of("tool.finished")[0]["envelope"]["status"], "success");
}

#[test]
fn session_runs_on_a_read_only_file_system() {
    let test = Test::new().file("a.txt", "one\n");
    let test = test.script("call: Read {\"path\": \"a.txt\"}\n---\ntext: ok");
    let line = "mount --bind . . && mount -o remount,bind,ro . . 2>/dev/null && cd \"$PWD\" && \
                ! touch x 2>/dev/null && exec \"$@\"; echo unavailable; exit 99";
    let agent = test.command(&[
        "run",
        "--model",
        "script:../script",
        "--set",
        "sandbox.enabled=false",
        "--quiet",
        "task",
    ]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", line, "sh"]);
    command.arg(agent.get_program()).args(agent.get_args()).current_dir(test.root());
    let output = command.env("HOME", test.home()).stdin(Stdio::null()).output();
    let Ok(done) = output.map(|output| Done::new(&output)) else {
        return say("SKIPPED: a project on a read-only file system: there is no unshare here");
    };
    if done.code != Some(0) && (done.code == Some(99) || done.stderr.contains("unshare")) {
        return say("SKIPPED: a project on a read-only file system: it can not be mounted here");
    }
    let done = done.expect_code(0).expect_stdout("ok\n");
    assert_eq!(done.stderr, "");
    assert_eq!(test.events_of("tool.finished")[0]["envelope"]["status"], "success");
}

#[test]
fn concurrently_started_sessions_are_all_recorded() {
    let test = Test::new().script("pause: 500ms\ntext: ok");
    let children: Vec<_> = (0..4)
        .map(|n| test.spawn(&["run", &format!("task {n}"), "--model", "script:../script"]))
        .collect();
    for child in children {
        let done = Done::new(&child.wait_with_output().unwrap()).expect_code(0);
        let stderr = done.expect_stdout("ok\n").stderr;
        assert!(!stderr.contains("sessions are kept"), "{stderr}");
    }
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert_eq!(list.lines().count(), 4, "{list}");
    for n in 0..4 {
        assert!(list.contains(&format!("task {n}")), "{list}");
    }
    let path = fs::read_to_string(test.sessions().with_file_name("path")).unwrap();
    assert_eq!(Path::new(&path), test.root());
}

#[test]
fn deleting_a_session_removes_all_its_files() {
    let script = format!(
        "call: Bash {}\n---\n{}",
        json!({"command": "seq 100000; true"}),
        write_call("new.txt")
    );
    let test = Test::new().script(&script);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    let id = id_of(&test.log());
    let test = test.script("text: ok");
    test.run(&["another"]).expect_code(0);
    test.agent(&["session", "rm", &id, "--yes"]).expect_code(0);
    let mut folders = vec![test.home()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert!(!path.to_string_lossy().contains(&id), "{}", path.display());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    only_log(&test.sessions());
}

#[test]
fn undo_works_with_state_on_another_file_system() {
    let test = Test::in_memory()
        .file("a.txt", "one\n")
        .script(&format!("call: Read {{\"path\": \"a.txt\"}}\n---\n{}", write_call("a.txt")));
    let state = tempfile::tempdir().unwrap();
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
    if device(state.path()) == device(&test.root()) {
        return say("SKIPPED: state on another file system: there is only one here");
    }
    let test = test.env("XDG_STATE_HOME", state.path().to_str().unwrap());
    test.run(&["task"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "x\n");
    test.agent(&["session", "undo"]).expect_code(0).expect_stdout("turn 1\n  a.txt: restored\n");
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn state_file_may_be_replaced_by_several_at_once_and_is_never_missing() {
    let test = Test::new();
    let path = test.home().join("file");
    disk::replace_file(&path, b"0").unwrap();
    std::thread::scope(|scope| {
        for text in ["1", "2", "3", "4"] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..200 {
                    disk::replace_file(path, text.as_bytes()).unwrap();
                    assert_eq!(disk::read_file(path).unwrap().len(), 1);
                }
            });
        }
    });
    let names = fs::read_dir(test.home()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".file")));
}
