//! Retention: `[record] keep_days`.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::{Test, wait_for};

/// Sessions of 2 and 40 days ago.
const NEW: &str = "01890a5d-ac96-774b-bcce-b302099a0002";
const OLD: &str = "01890a5d-ac96-774b-bcce-b302099a0040";
/// One of 50 days ago, with a file beside the log.
const OLDEST: &str = "01890a5d-ac96-774b-bcce-b302099a0050";

fn log_of(id: &str) -> String {
    format!(
        "{{\"v\":2,\"seq\":1,\"ts\":\"2026-01-01T00:00:00.000Z\",\"session\":\"{id}\",\"agent\":\"main\",\
         \"turn\":1,\"round\":0,\"step\":0,\"type\":\"turn.started\",\"input\":\"task {id}\"}}\n"
    )
}

/// Writes a session that was last used so many days ago.
fn used(test: &Test, id: &str, days: u32) {
    let log = test.record(id, &log_of(id));
    let spilled = log.with_file_name("tool-output").join("1.txt");
    std::fs::create_dir_all(spilled.parent().unwrap()).unwrap();
    std::fs::write(spilled, "x".repeat(100_000)).unwrap();
    since(&log, days);
}

fn since(path: &Path, days: u32) {
    let date = format!("{days} days ago");
    let touched = Command::new("touch").args(["-h", "-d", &date]).arg(path).status().unwrap();
    assert!(touched.success());
}

fn with_three_sessions(config: &str) -> Test {
    let test = Test::new().script("text: done").user_config(config);
    for (id, days) in [(NEW, 2), (OLD, 40), (OLDEST, 50)] {
        used(&test, id, days);
    }
    test
}

/// The recorded sessions that are left, except the one that just ran.
fn left(test: &Test) -> Vec<String> {
    let entries = std::fs::read_dir(test.sessions()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<String> = names.filter(|name| name.contains("b302099a")).collect();
    left.sort();
    left
}

#[test]
fn sessions_are_kept_by_default() {
    let test = with_three_sessions("");
    test.run(&["task"]).expect_code(0);
    assert_eq!(left(&test), [NEW, OLD, OLDEST]);
}

#[test]
fn sessions_beyond_the_age_are_deleted_with_their_files() {
    let test = with_three_sessions("[record]\nkeep_days = 45\n");
    test.run(&["task"]).expect_code(0);
    assert_eq!(left(&test), [NEW, OLD]);
    assert_eq!(test.events_of("turn.finished").len(), 1, "the session itself stays");
}

#[test]
fn resumed_session_is_never_deleted() {
    let test = with_three_sessions("[record]\nkeep_days = 1\n");
    test.run(&["more", "--resume", OLDEST]).expect_code(0);
    assert_eq!(left(&test), [OLDEST]);
}

#[test]
fn running_session_is_never_deleted() {
    let test = Test::new().script("fault: hang");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("model.requested"));
    let running = test.log();
    since(&running, 100);
    let test = test.script("text: done").user_config("[record]\nkeep_days = 1\n");
    used(&test, OLD, 40);
    test.run(&["task"]).expect_code(0);
    assert_eq!(left(&test), [""; 0]);
    assert!(running.exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn links_and_unreadable_entries_are_left_alone() {
    let Some(test) = with_three_sessions("[record]\nkeep_days = 30\n")
        .unprivileged("links_and_unreadable_entries_are_left_alone")
    else {
        return;
    };
    let sessions = test.sessions();
    // A link in place of a session, and one in place of a log, to files that must survive.
    let elsewhere = test.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("events.jsonl"), log_of(OLD)).unwrap();
    since(&elsewhere.join("events.jsonl"), 90);
    let linked = sessions.join(OLD.replace("0040", "0041"));
    symlink(&elsewhere, &linked).unwrap();
    let folder = sessions.join(OLD.replace("0040", "0042"));
    std::fs::create_dir(&folder).unwrap();
    symlink(elsewhere.join("events.jsonl"), folder.join("events.jsonl")).unwrap();
    // A link in a session that is deleted is not followed.
    symlink(&elsewhere, sessions.join(OLD).join("images")).unwrap();
    symlink(&elsewhere, sessions.join("removed-link")).unwrap();
    // Neither folders that are no sessions, nor one that cannot be opened.
    std::fs::create_dir(sessions.join("mine-b302099a")).unwrap();
    let closed = sessions.join(OLDEST);
    let permit = |mode| {
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(0o000);
    test.run(&["task"]).expect_code(0);
    permit(0o700);
    assert!(elsewhere.join("events.jsonl").exists());
    assert!(linked.is_symlink() && folder.join("events.jsonl").is_symlink());
    assert_eq!(left(&test).len(), 5, "{:?}", left(&test));
    assert!(!sessions.join(OLD).exists() && closed.join("events.jsonl").exists());
}

#[test]
fn rest_of_a_cut_off_deletion_is_deleted_later() {
    let test = with_three_sessions("[record]\nkeep_days = 365\n");
    let rest = test.sessions().join(format!("removed-{OLD}"));
    std::fs::rename(test.sessions().join(OLD), &rest).unwrap();
    let list = test.agent(&["session", "list"]).expect_code(0);
    assert_eq!((list.stdout.lines().count(), list.stderr.as_str()), (2, ""));
    test.run(&["task"]).expect_code(0);
    assert_eq!(left(&test), [NEW, OLDEST]);
}

#[test]
fn wrong_limit_is_an_error() {
    let test = with_three_sessions("[record]\nkeep_days = 0\n");
    test.run(&["task"]).expect_code(2).expect_stderr("record.keep_days");
}
