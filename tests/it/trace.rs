//! Records that are not understood completely.

mod faults;
mod page;
mod telemetry;

use serde_json::json;

use crate::support::{Done, Test};

/// Looks for a missing file, lets a command fail, repairs its cause, and runs it again.
const WORK: &str = r#"
call: Read {"path": "nosuch.txt"}
call: Bash {"command": "bash t.sh"}
usage: 1000 10
---
call: Read {"path": "t.sh"}
usage: 2000 20
---
call: Edit {"path": "t.sh", "old_string": "exit 3", "new_string": "exit 0"}
usage: 3000 30
---
call: Bash {"command": "bash t.sh"}
usage: 4000 40
---
text: It passes now.
usage: 5000 50
"#;

fn project(script: &str) -> Test {
    Test::new().file("t.sh", "echo runs\nexit 3\n").script(script)
}

/// Runs the script again on the same project; returns the session's id.
fn run(test: &Test, args: &[&str]) -> String {
    test.write("t.sh", "echo runs\nexit 3\n");
    let mut all = vec!["repair it", "--no-memory"];
    all.extend(args);
    test.run(&all).expect_code(0);
    id(test)
}

/// The id of the latest session.
fn id(test: &Test) -> String {
    let directory = test.log().parent().unwrap().to_owned();
    directory.file_name().unwrap().to_str().unwrap().to_owned()
}

fn trace(test: &Test, args: &[&str]) -> Done {
    test.agent(&[&["trace"], args].concat())
}

/// Views show what they understand of any record, and say in one line what they do not.
#[test]
fn record_of_a_newer_version_is_shown_as_far_as_it_is_understood() {
    let test = project(WORK);
    let new = run(&test, &[]);
    let log = test.log();
    let text = std::fs::read_to_string(&log).unwrap();
    let unknown = |kind: &str| format!("{{\"v\":3,\"seq\":900,\"type\":{}}}\n", json!(kind));
    let mut changed = text.replace("{\"v\":2,", "{\"v\":3,");
    changed.push_str(&unknown("plan.voted").repeat(2));
    changed.push_str(&unknown("\u{1b}[31mred\u{1b}]0;title\u{7}"));
    changed.push_str("no event at all\n\u{0}\u{1}\n");
    changed.push_str("{\"v\":3,\"seq\":901,\"type\":\"turn.fin");
    std::fs::write(&log, &changed).unwrap();
    let done = trace(&test, &["show", &new]).expect_code(0);
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(!done.stderr.contains('\u{1b}') && !done.stdout.contains('\u{1b}'), "{done:?}");
    for part in [
        "recorded by a newer version of agent (event format 3, this version reads 2)",
        "3 events not understood and left out",
        "plan.voted 2",
        "2 lines are no events",
        "the last line is torn",
    ] {
        assert!(done.stderr.contains(part), "{part}\n{done:?}");
    }
    // Whatever continues a session, or copies it, refuses.
    test.run(&["more", "--resume", &new]).expect_code(2);
    test.agent(&["session", "show", &new]).expect_code(2);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), changed, "nothing is changed");
}
