//! Receipts: `agent session receipt` and `agent verify`, on the same and on another machine.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Done, Test, say};

const SCRIPT: &str = r#"
call: Read {"path": "t.sh"}
---
call: Edit {"path": "t.sh", "old_string": "exit 3", "new_string": "exit 0"}
---
text: It passes now.
"#;

fn repaired() -> Test {
    let test = Test::new().file("t.sh", "exit 3\n").script(SCRIPT);
    test.run(&["repair it", "--check", "bash t.sh"]).expect_code(0);
    test
}

/// Writes the receipt; returns its path.
fn receipt_of(test: &Test, args: &[&str]) -> PathBuf {
    let path = test.home().join("receipt.json");
    let path_name = path.to_str().unwrap();
    let all = [&["session", "receipt", "-o", path_name][..], args].concat();
    test.agent(&all).expect_code(0).expect_one_line_of_stderr("receipt.json.events.jsonl (the log");
    path
}

/// Another machine: another home, with a project like that of the test and with what was written beside the receipt.
fn elsewhere(test: &Test) -> Test {
    let other = Test::new().file("t.sh", fs::read(test.root().join("t.sh")).unwrap());
    for name in ["receipt.json", "receipt.json.events.jsonl"] {
        fs::copy(test.home().join(name), other.home().join(name)).unwrap();
    }
    other
}

fn verify(test: &Test, args: &[&str]) -> Done {
    let receipt = test.home().join("receipt.json");
    test.agent(&[&["verify", receipt.to_str().unwrap()][..], args].concat())
}

fn change(test: &Test, name: &str, from: &str, to: &str) {
    let path = test.home().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn receipt_verifies_on_another_machine() {
    let test = repaired();
    let path = receipt_of(&test, &[]);
    let receipt: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(receipt["tasks"], serde_json::json!(["repair it"]));
    assert_eq!(receipt["ending"], "completed");
    assert_eq!(receipt["files"][0]["path"], "t.sh");
    assert_eq!(receipt["files"][0]["after"], blake3::hash(b"exit 0\n").to_string());
    let check = &receipt["checks"][0];
    assert_eq!(
        (&check["command"], &check["exit_code"], &check["after_last_change"]),
        (&"bash t.sh".into(), &0.into(), &true.into())
    );
    for machine in [&test, &elsewhere(&test)] {
        let done = verify(machine, &["--rerun"]).expect_code(0);
        let names = ["log", "checks", "files", "signature", "rerun"];
        for (line, name) in done.stdout.lines().zip(names) {
            assert!(line.starts_with(&format!("✓ {name}")), "{}", done.stdout);
        }
        assert!(done.stdout.contains("who wrote the receipt is not known"), "{}", done.stdout);
    }
    // Without the copy of the log, the session of this machine counts.
    fs::remove_file(test.home().join("receipt.json.events.jsonl")).unwrap();
    verify(&test, &[]).expect_code(0);
    let other = elsewhere_without_log(&test);
    verify(&other, &[]).expect_code(2).expect_stderr("is not on this machine: copy it beside");
}

fn elsewhere_without_log(test: &Test) -> Test {
    let other = Test::new();
    fs::copy(test.home().join("receipt.json"), other.home().join("receipt.json")).unwrap();
    other
}

#[test]
fn changed_log_is_found_with_its_line() {
    let test = repaired();
    receipt_of(&test, &[]);
    let log = "receipt.json.events.jsonl";
    let original = fs::read_to_string(test.home().join(log)).unwrap();
    let lines: Vec<&str> = original.lines().collect();
    let swapped = [&lines[..3], &[lines[4], lines[3]], &lines[5..]].concat().join("\n") + "\n";
    let cut = lines[..6].join("\n") + "\n";
    let removed = [&lines[..3], &lines[4..]].concat().join("\n") + "\n";
    let edited = original.replacen("repair it", "repair It", 1);
    for (text, says) in [
        (edited, "line 2 of the log is not the recorded one: it was changed"),
        (cut, "line 7 of the log is not the recorded one: it ends before"),
        (swapped, "line 4 of the log is not the recorded one: the order is another"),
        (removed, "line 4 of the log is not the recorded one: "),
    ] {
        fs::write(test.home().join(log), text).unwrap();
        let done = verify(&test, &[]).expect_code(1);
        assert!(done.stdout.contains(says), "{says}\n{}", done.stdout);
    }
    // Later events are no change.
    fs::write(test.home().join(log), original.clone() + lines[lines.len() - 1] + "\n").unwrap();
    verify(&test, &[]).expect_code(0);
    fs::write(test.home().join(log), original).unwrap();
    change(&test, "receipt.json", "repair it", "delete it");
    let done = verify(&test, &[]).expect_code(1);
    assert!(
        done.stdout.contains("the receipt's field `tasks` is not what the log says"),
        "{done:?}"
    );
    fs::write(test.home().join("receipt.json"), "{}").unwrap();
    verify(&test, &[]).expect_code(2).expect_stderr("is no receipt of this version");
}

#[test]
fn other_files_and_checks_before_the_last_change_are_said() {
    let test = repaired();
    receipt_of(&test, &[]);
    test.write("t.sh", "exit 1\n");
    let done = verify(&test, &["--rerun"]).expect_code(1);
    assert!(done.stdout.contains("✗ files     1 of 1 in "), "{}", done.stdout);
    assert!(!done.stdout.contains("rerun"), "{}", done.stdout);
    // A later turn without checks.
    let test =
        repaired().script("call: Write {\"path\": \"b.txt\", \"content\": \"b\"}\n---\ntext: ok");
    test.run(&["more", "-c"]).expect_code(0);
    receipt_of(&test, &[]);
    let done = verify(&test, &[]).expect_code(1);
    let says = "✗ checks    `bash t.sh` passed before the last change, and did not run again";
    assert!(done.stdout.contains(says), "{}", done.stdout);
}

#[test]
fn undone_change_foreign_fields_and_paths_are_seen() {
    let test = repaired();
    test.agent(&["session", "undo", "--force"]).expect_code(0);
    receipt_of(&test, &[]);
    let done = verify(&test, &[]).expect_code(1);
    assert!(done.stdout.contains("✗ checks    `bash t.sh` passed before the last"), "{done:?}");
    let test = repaired();
    receipt_of(&test, &[]);
    for (from, to, code) in [
        ("\"passed\": true", "\"note\": \"reviewed\", \"passed\": true", 2),
        ("\"path\": \"t.sh\"", "\"path\": \"../project/t.sh\"", 1),
        ("\"path\": \"t.sh\"", "\"path\": \"\"", 1),
    ] {
        let before = fs::read_to_string(test.home().join("receipt.json")).unwrap();
        change(&test, "receipt.json", from, to);
        verify(&test, &[]).expect_code(code);
        fs::write(test.home().join("receipt.json"), before).unwrap();
    }
    verify(&test, &[]).expect_code(0);
    fs::remove_file(test.root().join("t.sh")).unwrap();
    std::os::unix::fs::symlink("../project/other", test.root().join("t.sh")).unwrap();
    verify(&test, &[]).expect_code(1);
    // Without checkpoints it is not known what was changed.
    let test = Test::new().file("t.sh", "exit 3\n").script(SCRIPT);
    test.run(&["repair it", "--set", "checkpoints.enabled=false"]).expect_code(0);
    test.agent(&["session", "receipt"]).expect_code(2).expect_stderr("was not recorded");
}

#[test]
fn signature_says_who_wrote_the_receipt() {
    let test = repaired();
    let key = test.home().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&key)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return say("SKIPPED: signatures of receipts: there is no ssh-keygen here");
    }
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    let key_name = key.to_str().unwrap();
    receipt_of(&test, &["--sign", key_name]);
    let signers = test.home().join("signers");
    fs::write(&signers, format!("ci@example.org {public}")).unwrap();
    let known = ["--allowed-signers", signers.to_str().unwrap()];
    let done = verify(&test, &known).expect_code(0);
    assert!(done.stdout.contains("signature for ci@example.org"), "{}", done.stdout);
    let done = verify(&test, &[]).expect_code(0);
    assert!(done.stdout.contains("whose key that is was not checked"), "{}", done.stdout);
    fs::write(&signers, "someone@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n").unwrap();
    let done = verify(&test, &known).expect_code(1);
    assert!(done.stdout.contains("✗ signature"), "{}", done.stdout);
    // The key of the configuration; the signature is for this receipt.
    let test = test.user_config(&format!("record.signing_key = \"{key_name}\"\n"));
    receipt_of(&test, &[]);
    fs::write(&signers, format!("ci@example.org {public}")).unwrap();
    verify(&test, &known).expect_code(0);
    change(&test, "receipt.json", "\"commit\": null", "\"commit\": \"0123\"");
    let done = verify(&test, &known).expect_code(1);
    assert!(done.stdout.contains("✗ signature"), "{}", done.stdout);
}
