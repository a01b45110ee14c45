//! Changes by another process between the last check and the exchange.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::*;

/// `stranger` is another process that changes the file after the new one is written and before the exchange.
fn check(stranger: impl FnOnce(&Path), after: impl FnOnce(&Path, Result<(), Failure>)) {
    check_twice(stranger, |_| {}, after);
}

fn check_twice(
    stranger: impl FnOnce(&Path),
    second: impl FnOnce(&Path),
    after: impl FnOnce(&Path, Result<(), Failure>),
) {
    let dir = tempdir().unwrap();
    let target = dir.path().join("a");
    fs::write(&target, "one\n").unwrap();
    let workspace = Workspace::open(dir.path(), &[]).unwrap();
    let path = &workspace.resolve("a").unwrap();
    workspace.read_page(path, 1, 10, &|| false).unwrap();
    let seen = workspace.snapshot(path).unwrap();
    let target_folder = TargetFolder::open(path.absolute()).unwrap();
    let mut new = target_folder.write_temporary(b"ours\n", "", None).unwrap();
    stranger(&target);
    if !target_folder.exchange(&new).unwrap() {
        return; // This file system cannot.
    }
    second(&target);
    let result = workspace.verify_exchange(path, &seen, &target_folder, &mut new);
    drop(new);
    after(&target, result);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

fn is_conflict(result: Result<(), Failure>, diff: &str) {
    let failure = result.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Conflict);
    let shown = failure.data["diff_preview"].as_str().unwrap();
    assert!(shown.contains(diff), "{shown}");
}

#[test]
fn exchange_without_interference_succeeds() {
    check(
        |_| {},
        |target, result| {
            result.unwrap();
            assert_eq!(fs::read_to_string(target).unwrap(), "ours\n");
        },
    );
}

#[test]
fn file_renamed_over_the_target_is_restored() {
    check(
        |target| {
            let other = target.with_file_name("other");
            fs::write(&other, "theirs\n").unwrap();
            fs::rename(other, target).unwrap();
        },
        |target, result| {
            is_conflict(result, "-one\n+theirs\n");
            assert_eq!(fs::read_to_string(target).unwrap(), "theirs\n");
        },
    );
}

#[test]
fn bytes_written_to_the_target_are_restored() {
    check(
        |target| fs::write(target, "theirs\n").unwrap(),
        |target, result| {
            is_conflict(result, "-one\n+theirs\n");
            assert_eq!(fs::read_to_string(target).unwrap(), "theirs\n");
        },
    );
}

#[test]
fn directory_in_place_of_the_target_is_restored() {
    check(
        |target| {
            fs::remove_file(target).unwrap();
            fs::create_dir(target).unwrap();
        },
        |target, result| {
            result.unwrap_err();
            assert!(target.is_dir());
        },
    );
}

fn append(target: &Path, text: &str) {
    io::Write::write_all(
        &mut fs::File::options().append(true).open(target).unwrap(),
        text.as_bytes(),
    )
    .unwrap();
}

#[test]
fn appends_before_and_after_the_exchange_are_merged() {
    check_twice(
        |target| append(target, "theirs\n"),
        |target| append(target, "theirs too\n"),
        |target, result| {
            is_conflict(result, "+theirs\n");
            assert_eq!(fs::read_to_string(target).unwrap(), "one\ntheirs\ntheirs too\n");
        },
    );
}

#[test]
fn last_of_two_overwrites_is_kept() {
    check_twice(
        |target| fs::write(target, "1\n").unwrap(),
        |target| fs::write(target, "2\n").unwrap(),
        |target, result| {
            is_conflict(result, "-one\n+2\n");
            assert_eq!(fs::read_to_string(target).unwrap(), "2\n");
        },
    );
}

#[test]
fn last_of_two_replacements_is_kept() {
    let put = |target: &Path, text: &str| {
        let other = target.with_file_name("other");
        fs::write(&other, text).unwrap();
        fs::rename(other, target).unwrap();
    };
    check_twice(
        |target| put(target, "1\n"),
        |target| put(target, "2\n"),
        |target, result| {
            is_conflict(result, "-one\n+2\n");
            assert_eq!(fs::read_to_string(target).unwrap(), "2\n");
        },
    );
}
