//! Checkpoints when the store is full or not writable, and when files change during an operation.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::support::{Done, Test, has, say, wait_for};

/// Part of the notice about a store that cannot cover every change.
const GAP: &str = "some changes of commands cannot be undone";

fn store(test: &Test) -> PathBuf {
    test.sessions().with_file_name("checkpoints")
}

/// Segment files of the store that hold contents.
fn segments(test: &Test) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store(test)).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| {
        path.extension().is_none() && path.display().to_string().contains("/segment-")
    };
    entries.filter(is_segment).collect()
}

/// A script that runs these commands, one call each.
fn commands(lines: &[&str]) -> String {
    let calls = lines.iter().map(|line| format!("call: Bash {}\n---\n", json!({"command": line})));
    calls.collect::<String>() + "text: done"
}

/// Content of this size, made of one character.
fn content(of: char, size: usize) -> String {
    std::iter::repeat_n(of, size).collect()
}

#[test]
fn full_store_evicts_old_contents_and_the_session_continues() {
    let full = "[checkpoints]\nmax_bytes = 30000\n";
    let test = Test::new().user_config(full).file("a.txt", content('1', 12_000));
    let script = commands(&["echo two > a.txt; touch other", "head -c 12000 /dev/zero > b.bin"]);
    let test = test.script(&script);
    test.run(&["first"]).expect_code(0);
    let old = segments(&test);
    assert!(!old.is_empty());
    // A day later: nothing stored by the first session is in use.
    for path in &old {
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(24)).unwrap();
    }
    test.write("b.bin", content('3', 15_000));
    test.write("a.txt", content('4', 12_000));
    let test = test.script(&commands(&["rm a.txt b.bin"]));
    let done = test.run(&["second"]).expect_code(0);
    assert!(!done.stderr.contains(GAP), "{}", done.stderr);
    assert!(old.iter().all(|path| !path.exists()), "{old:?} are dropped");
    let size: u64 = segments(&test).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(size <= 30_000, "{size}");
    // The second session can be undone; the first one has no contents left.
    let sessions = std::fs::read_dir(test.sessions()).unwrap();
    let mut ids: Vec<String> =
        sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    ids.sort();
    test.agent(&["session", "undo", &ids[1]]).expect_code(0);
    assert_eq!(test.read("a.txt"), content('4', 12_000));
    let done = test.agent(&["session", "undo", &ids[0], "--force"]).expect_code(1);
    assert!(
        done.stdout.contains("a.txt: left as it is: its content is not stored any more"),
        "{}",
        done.stdout
    );
    assert_eq!(test.read("a.txt"), content('4', 12_000));
}

#[test]
fn full_store_makes_destructive_commands_ask_and_undo_reports_gaps() {
    let full = "[checkpoints]\nmax_bytes = 1000\n";
    let test = Test::new().user_config(full).file("a.txt", content('1', 5_000));
    let test = test.file("b.txt", "small\n").script(&commands(&[
        "rm -rf a.txt",
        "echo x > b.txt",
        "echo 2 > a.txt; echo done",
    ]));
    let done = test.run(&["task"]).expect_code(0);
    assert_eq!(done.stderr.matches(GAP).count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("checkpoints.max_bytes"), "{}", done.stderr);
    let codes: Vec<_> = test
        .events_of("tool.finished")
        .iter()
        .map(|event| event["envelope"]["error"]["code"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(codes, [Some("APPROVAL_REQUIRED".to_owned()), None, None]);
    let done = test.agent(&["session", "undo"]).expect_code(1);
    assert!(done.stdout.contains("b.txt: restored"), "{}", done.stdout);
    assert!(
        done.stdout.contains("a.txt: left as it is: its old content is not kept"),
        "{}",
        done.stdout
    );
    assert_eq!((test.read("a.txt"), test.read("b.txt")), ("2\n".into(), "small\n".into()));
}

#[test]
fn unwritable_store_is_reported_once_and_the_session_continues() {
    let test = Test::new().file("a.txt", "one\n").file("b.txt", "one\n");
    let test = test.script(&commands(&["rm -rf a.txt", "echo two > b.txt", "echo three > b.txt"]));
    std::fs::create_dir_all(store(&test).parent().unwrap()).unwrap();
    std::fs::write(store(&test), "no directory").unwrap();
    check_unwritable(&test);
}

fn check_unwritable(test: &Test) {
    let done = test.run(&["task"]).expect_code(0);
    assert_eq!(done.stderr.matches(GAP).count(), 1, "{}", done.stderr);
    assert_eq!(test.read("a.txt"), "one\n", "a destructive command asks");
    assert_eq!(test.read("b.txt"), "three\n");
    let done = test.agent(&["session", "undo"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("b.txt: left as it is"), "{}", done.stdout);
    assert!(!done.stdout.contains("restored") && !done.stdout.contains("removed"), "{done:?}");
    assert_eq!(test.read("b.txt"), "three\n");
    for undone in test.events_of("turn.undone") {
        assert!(!undone.to_string().contains("restored"), "{undone}");
    }
}

#[test]
fn full_disk_is_reported_and_nothing_is_claimed_restored() {
    let name = "full_disk_is_reported_and_nothing_is_claimed_restored";
    if !has("unshare", name) {
        return;
    }
    // Only the store is on a small disk.
    let test = Test::new().file("a.txt", content('a', 3_000_000)).file("b.txt", "one\n");
    let script = commands(&["head -c 100 a.txt > c.txt", "rm -rf a.txt", "echo two > b.txt", "ls"]);
    let test = test.script(&script);
    std::fs::create_dir_all(store(&test)).unwrap();
    let line = "mount -t tmpfs -o size=1m agent \"$STORE\" || exit 99\n\
         \"$AGENT\" run --model script:../script task\n\
         echo \"exit $?\"\n\
         \"$AGENT\" session undo\n\
         echo \"exit $?\"\n";
    let like = test.command(&[]);
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", line]);
    command.current_dir(test.root()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("AGENT", env!("CARGO_BIN_EXE_agent")).env("STORE", store(&test));
    let done = Done::new(&command.output().unwrap());
    if !done.stdout.contains("exit ") {
        say(&format!("SKIPPED: {name}: no disk can be mounted here: {}", done.stderr));
        return;
    }
    assert!(done.stdout.contains("exit 0"), "{done:?}");
    assert_eq!(done.stderr.matches(GAP).count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("No space left on device"), "{}", done.stderr);
    assert_eq!(test.read("a.txt").len(), 3_000_000, "a destructive command asks");
    assert!(!done.stdout.contains("a.txt: restored"), "{}", done.stdout);
}

#[test]
fn files_written_by_other_processes_are_not_undone() {
    let test = Test::new().file("log", "").file("a.txt", "one\n");
    let script = commands(&["echo two > a.txt; sleep 0.3", "sleep 0.2; echo three > a.txt"]);
    let test = test.script(&script);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let log = test.root().join("log");
    let n_lines = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&log).unwrap();
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, b"a line\n").unwrap();
                n += 1;
                std::thread::sleep(Duration::from_micros(200));
            }
            n
        });
        wait_for(|| log.metadata().unwrap().len() > 0);
        test.run(&["task"]).expect_code(0);
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap()
    });
    let done = test.agent(&["session", "undo"]).expect_code(1);
    assert!(done.stdout.contains("a.txt: restored"), "{}", done.stdout);
    assert!(done.stdout.contains("log: left as it is"), "{}", done.stdout);
    assert_eq!(test.read("a.txt"), "one\n");
    assert_eq!(test.read("log"), "a line\n".repeat(n_lines));
}
