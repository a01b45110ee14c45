//! Other writers race with Edit on one file. Every round ends with the tool's change on top of what
//! it read, plus later changes, or with CONFLICT and the other writer's bytes intact.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::CWD;
use serde_json::json;

use crate::support::Test;
use crate::support::batch::{Batch, Project, text};

/// How another process changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum OtherWriter {
    /// As editors do: renames another file over it.
    Renames,
    /// As shells do: truncates, then writes.
    Overwrites,
    /// Overwrites bytes in place.
    Patches,
    Appends,
    /// Opens the file for each append.
    AppendsTwice,
    /// Waits between opening and writing.
    AppendsSlowly,
    Deletes,
    Recreates,
}

const OTHER_WRITERS: [OtherWriter; 8] = [
    OtherWriter::Renames,
    OtherWriter::Overwrites,
    OtherWriter::Patches,
    OtherWriter::Appends,
    OtherWriter::AppendsTwice,
    OtherWriter::AppendsSlowly,
    OtherWriter::Deletes,
    OtherWriter::Recreates,
];

impl OtherWriter {
    fn acts(self, target: &Path, spare: &Path) {
        let append = |text: &str| {
            let mut file = File::options().append(true).open(target).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        match self {
            Self::Renames => {
                fs::write(spare, "theirs\n").unwrap();
                fs::rename(spare, target).unwrap();
            }
            Self::Overwrites => fs::write(target, "theirs\n").unwrap(),
            Self::Patches => {
                let mut file = File::options().write(true).open(target).unwrap();
                file.write_all(b"T").unwrap();
            }
            Self::Appends => append("theirs\n"),
            Self::AppendsTwice => {
                append("theirs\n");
                append("theirs too\n");
            }
            Self::AppendsSlowly => {
                let mut file = File::options().append(true).open(target).unwrap();
                wait(Duration::from_millis(3));
                file.write_all(b"theirs\n").unwrap();
            }
            Self::Deletes => fs::remove_file(target).unwrap(),
            Self::Recreates => {
                fs::remove_file(target).unwrap();
                fs::write(target, "theirs\n").unwrap();
            }
        }
    }

    /// The content after the other process acted on `before`.
    fn result_of(self, before: &str) -> Option<String> {
        match self {
            Self::Renames | Self::Overwrites | Self::Recreates => Some("theirs\n".to_owned()),
            Self::Patches => Some(format!("T{}", &before[1..])),
            Self::Appends | Self::AppendsSlowly => Some(format!("{before}theirs\n")),
            Self::AppendsTwice => Some(format!("{before}theirs\ntheirs too\n")),
            Self::Deletes => None,
        }
    }
}

/// Number of rounds: `AGENT_RACE_ROUNDS`, or the default.
fn rounds() -> u64 {
    let asked = std::env::var("AGENT_RACE_ROUNDS").ok();
    asked.and_then(|rounds| rounds.parse().ok()).unwrap_or(2100)
}

/// Busy-waits with microsecond precision.
fn wait(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "slow"]
fn concurrent_changes_are_not_lost_in_memory() {
    race(Test::in_memory(), rounds());
}

#[test]
fn concurrent_changes_are_not_lost_on_disk() {
    race(Test::new(), rounds() / 10);
}

fn race(test: Test, rounds: u64) {
    let mut project = Project::of(test);
    let (target, spare) = (project.at("a"), project.test.home().join("spare"));
    let (to_stranger, orders) = mpsc::channel::<(OtherWriter, Duration)>();
    let (done, from_stranger) = mpsc::channel::<()>();
    let (their_target, their_spare) = (target.clone(), spare.clone());
    let stranger = std::thread::spawn(move || {
        for (stranger, delay) in orders {
            wait(delay);
            stranger.acts(&their_target, &their_spare);
            done.send(()).unwrap();
        }
    });
    // When the other process acts: adjusted towards the decisive moment, depending on who won.
    let mut aims = [Duration::from_millis(2); 2];
    let (mut won, mut lost) = (0, 0);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..rounds {
        let technique = OTHER_WRITERS[usize::try_from(round).unwrap() % OTHER_WRITERS.len()];
        // Occasionally large, which takes longer to write and to compare.
        let is_large = round % 7 == 0;
        let filler = "filler\n".repeat(if is_large { 5_000 } else { 3 });
        let aim = &mut aims[usize::from(is_large)];
        let base = format!("base {round}\n{filler}");
        let ours = format!("ours {round}\n{filler}");
        fs::write(&spare, &base).unwrap();
        fs::rename(&spare, &target).unwrap();
        project.batch.call("Read", &json!({"path": "a", "limit": 1}));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let jitter = Duration::from_micros(random % 200);
        to_stranger
            .send((technique, (*aim + jitter).saturating_sub(Duration::from_micros(100))))
            .unwrap();
        let old = format!("base {round}\n");
        let edit = json!({"path": "a", "old_string": old, "new_string": format!("ours {round}\n")});
        let envelope = project.call("Edit", &edit);
        from_stranger.recv().unwrap();

        let code = envelope["error"]["code"].as_str();
        assert!([None, Some("CONFLICT"), Some("NOT_FOUND")].contains(&code), "{envelope}");
        let below = if code.is_none() { &ours } else { &base };
        let now = fs::read_to_string(&target).ok();
        let expected = technique.result_of(below);
        assert!(
            now == expected,
            "round {round}, {technique:?}, {code:?}: {}",
            ends(now.as_deref())
        );
        let names = project.names(".");
        assert!(names.iter().all(|name| name == "a"), "round {round}, {technique:?}: {names:?}");
        let step = *aim / 32;
        if code.is_none() {
            won += 1;
            *aim -= step;
        } else {
            lost += 1;
            *aim += step;
        }
    }
    drop(to_stranger);
    stranger.join().unwrap();
    assert!(won > 0 && lost > 0, "won {won}, lost {lost}: there was no race");
}

/// The beginning and the end of a text.
fn ends(text: Option<&str>) -> String {
    text.map_or("no file".to_owned(), |text| {
        let (head, tail) = (text.len().min(20), text.len().saturating_sub(30));
        format!("{:?} … {:?}", &text[..head], &text[tail..])
    })
}

/// Two agents edit one file repeatedly while a third program appends to it.
#[test]
fn two_agents_and_another_writer_lose_no_changes() {
    let test = Test::new().file("a", "end\n");
    let target = test.root().join("a");
    let edits = rounds() / 20;
    let work = |name: &str| {
        let mut batch = Batch::start(&mut test.command(&["tool", "batch"]));
        let mut made = Vec::new();
        // On a busy machine all of them may be conflicts.
        for round in 0.. {
            if round >= edits && !made.is_empty() {
                break;
            }
            let read = batch.call("Read", &json!({"path": "a", "limit": 2000}));
            assert_ne!(read["status"], "error", "{read}");
            let line = format!("{name}{round}\n");
            let edit =
                json!({"path": "a", "old_string": "end\n", "new_string": format!("{line}end\n")});
            let envelope = batch.call("Edit", &edit);
            match envelope["error"]["code"].as_str() {
                None => made.push(line),
                Some("CONFLICT" | "NOT_READ") => {}
                Some(_) => panic!("{envelope}"),
            }
        }
        made
    };
    let done = std::thread::scope(|scope| {
        let agents = ["one-", "two-"].map(|name| scope.spawn(move || work(name)));
        let mut appended = Vec::new();
        while agents.iter().any(|agent| !agent.is_finished()) {
            let line = format!("three-{}\n", appended.len());
            let mut file = File::options().append(true).open(&target).unwrap();
            file.write_all(line.as_bytes()).unwrap();
            drop(file);
            appended.push(line);
            std::thread::sleep(Duration::from_millis(7));
        }
        let [one, two] = agents.map(|agent| agent.join().unwrap());
        [one, two, appended]
    });
    let now = fs::read_to_string(&target).unwrap();
    let mut lines: Vec<&str> = now.split_inclusive('\n').collect();
    let mut expected: Vec<&str> =
        done.iter().flatten().map(String::as_str).chain(["end\n"]).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert!(lines == expected, "what is there:\n{now}\nwhat was made: {done:?}");
    assert!(done.iter().all(|made| !made.is_empty()), "{done:?}");
    assert_eq!(fs::read_dir(test.root()).unwrap().count(), 1);
}

/// The program would continue to write to a file that no longer has a name.
#[test]
fn file_open_for_writing_is_not_replaced_without_a_session() {
    let mut project = Project::new(&[("a", "one\n")]);
    project.ok("Read", &json!({"path": "a"}));
    let mut file = File::options().append(true).open(project.at("a")).unwrap();
    let edit = json!({"path": "a", "old_string": "one", "new_string": "two"});
    let refused = project.fails("Edit", &edit, "CONFLICT");
    assert!(text(&refused, "/error/message").ends_with("a program has it open for writing"));
    file.write_all(b"theirs\n").unwrap();
    assert_eq!(
        (project.bytes("a"), project.names(".")),
        (b"one\ntheirs\n".to_vec(), vec!["a".to_owned()])
    );
    drop(file);
    project.ok("Read", &json!({"path": "a"}));
    project.ok("Edit", &edit);
    assert_eq!(project.bytes("a"), b"two\ntheirs\n");
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While `work` runs, repeatedly replaces this directory with a symlink that leads elsewhere, and
/// back: mostly faster than a call takes, and occasionally so slowly that a whole call sees the
/// same state.
fn while_swapped_with_a_symlink(folder: &Path, elsewhere: &Path, work: impl FnOnce()) {
    let link = folder.with_file_name("link");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::os::unix::fs::symlink(elsewhere, &link).unwrap();
                // Exchanged atomically, so that the name always exists.
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &link, CWD, folder, exchange).unwrap();
                wait(Duration::from_micros(50));
                rustix::fs::renameat_with(CWD, &link, CWD, folder, exchange).unwrap();
                fs::remove_file(&link).unwrap();
                wait(Duration::from_micros(150));
                if turn.is_multiple_of(16) {
                    std::thread::sleep(Duration::from_millis(4));
                }
            }
        });
        // Also if the test panics, as the thread would never end otherwise.
        let _end = Stop(&stop);
        work();
    });
}

#[test]
#[ignore = "slow"]
fn directory_replaced_by_a_symlink_is_not_followed() {
    let outside = Test::new().file("kept", "outside\n").file("told-nowhere", "outside\n");
    let mut project = Project::of(Test::in_memory());
    let folder = project.at("d");
    fs::create_dir(&folder).unwrap();
    let (mut inside, mut refused) = (0, 0);
    while_swapped_with_a_symlink(&folder, &outside.root(), || {
        for round in 0..rounds() / 10 {
            let path = format!("d/n{round}/a");
            // No two consecutive calls are equal.
            let limit = round % 200 + 1;
            for (tool, input) in [
                ("Write", json!({"path": path, "content": "x"})),
                ("Read", json!({"path": "d/kept", "limit": round + 1})),
                ("Read", json!({"path": "d/told-nowher", "limit": round + 1})),
                ("LS", json!({"path": "d", "limit": limit})),
                ("LS", json!({"path": "d", "limit": limit, "include_hidden": true})),
                ("Glob", json!({"path": "d", "pattern": "*", "limit": limit})),
                ("Glob", json!({"path": "d", "pattern": "TOLD*", "limit": limit})),
                ("Grep", json!({"path": "d", "pattern": "outsid", "limit": limit})),
            ] {
                let envelope = project.call(tool, &input);
                match envelope["error"]["code"].as_str() {
                    None => inside += 1,
                    // The last two: it was a symlink when it was opened, or only when it was looked at.
                    Some(
                        "ACCESS_DENIED" | "NOT_FOUND" | "NOT_A_DIRECTORY" | "INVALID_PARAM"
                        | "IS_DIRECTORY",
                    ) => refused += 1,
                    Some(_) => panic!("{envelope}"),
                }
                let text = envelope.to_string();
                assert!(!text.contains("outside\\n") && !text.contains("told-nowhere"), "{text}");
            }
        }
    });
    assert_eq!(fs::read_dir(outside.root()).unwrap().count(), 2, "something was made outside");
    assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused");
}

#[test]
fn undo_store_contains_only_files_of_the_project() {
    let (outside, test) = (Test::new(), Test::in_memory());
    // Only the first change of a file is stored per turn, so use a different file each time.
    let names: Vec<String> = (0..rounds() / 10).map(|round| format!("d/{round}")).collect();
    for name in &names {
        outside.write(name, "the outside's\n");
        test.write(name, "one\n");
    }
    let mut batch = Batch::start(&mut test.command(&["tool", "batch", "--record"]));
    while_swapped_with_a_symlink(&test.root().join("d"), &outside.root().join("d"), || {
        for name in &names {
            batch.call("Read", &json!({"path": name}));
            batch.call("Write", &json!({"path": name, "content": "two\n"}));
        }
    });
    // How many of these were stored depends on timing; this one always is.
    test.write("d/last", "one\n");
    batch.call("Read", &json!({"path": "d/last"}));
    let last = batch.call("Write", &json!({"path": "d/last", "content": "two\n"}));
    drop(batch);
    assert_eq!(last["status"], "success", "{last}");
    for name in &names {
        assert_eq!(outside.read(name), "the outside's\n");
    }
    let mut folders = vec![test.home().join(".local/state")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let kept = fs::read(&path).unwrap();
                let kept = String::from_utf8_lossy(&kept);
                assert!(!kept.contains("the outside's"), "{}: {kept}", path.display());
            }
        }
    }
}
