#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::*;
use agent_protocol::mask::Masker;

fn project(files: &[(&str, &str)]) -> (TempDir, Workspace) {
    let dir = tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let workspace = Workspace::open(dir.path(), &[]).unwrap();
    (dir, workspace)
}

fn read(workspace: &Workspace, path: &str) -> Snapshot {
    let path = workspace.resolve(path).unwrap();
    workspace.read_page(&path, 1, 10, &|| false).unwrap();
    workspace.snapshot(&path).unwrap()
}

fn walked(workspace: &Workspace, base: &str, rules: WalkRules) -> Vec<String> {
    let met = Mutex::new(Vec::new());
    let walk = Walk { base: workspace.resolve(base).unwrap(), rules, depth: None };
    workspace.walk(&walk, || {
        Box::new(|entry| {
            if entry.kind() == FileKind::File {
                met.lock().push(entry.to_project_path().relative().to_owned());
            }
            true
        })
    });
    let mut met = met.into_inner();
    met.sort();
    met
}

#[test]
fn unreadable_or_missing_root_is_refused() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let code = |path: &str| Workspace::open(&dir.path().join(path), &[]).unwrap_err().code;
    assert_eq!(code("none"), ErrorCode::NotFound);
    assert_eq!(code("file"), ErrorCode::NotADirectory);
}

#[test]
fn symlinks_are_resolved_before_paths_are_checked() {
    let (dir, workspace) = project(&[("a/b", ""), ("c", "")]);
    symlink("a", dir.path().join("inside")).unwrap();
    symlink(dir.path().join("c"), dir.path().join("absolute")).unwrap();
    let check = |path: &str, expected: &str| {
        assert_eq!(workspace.resolve(path).unwrap().relative(), expected, "{path}");
    };
    check("inside/b", "a/b");
    check("inside/new/file", "a/new/file");
    check("absolute", "c");
    check("inside/../c", "c");
    check("./a//b", "a/b");
    check("none/../c", "c");
    check("", ".");
    check(&workspace.root().join("a").display().to_string(), "a");
    let root = workspace.root().file_name().unwrap().to_str().unwrap();
    check(&format!("../{root}/c"), "c");
}

#[test]
fn added_directory_is_writable_and_readable_one_is_not() {
    let (dir, _) = project(&[]);
    let (extra, readable) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(extra.path().join("a"), "x").unwrap();
    let workspace = Workspace::open(dir.path(), &[extra.path().to_owned()]).unwrap();
    let workspace = workspace.with_readable(readable.path());
    let added = workspace.resolve(extra.path().join("a").to_str().unwrap()).unwrap();
    assert_eq!(Path::new(added.relative()), added.absolute());
    workspace.check_writable(&added).unwrap();
    let other = workspace.resolve(readable.path().join("x").to_str().unwrap()).unwrap();
    assert_eq!(workspace.check_writable(&other).unwrap_err().code, ErrorCode::AccessDenied);
}

#[test]
fn ignore_files_above_the_project_are_not_used() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(".gitignore"), "*").unwrap();
    let root = dir.path().join("project");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for (path, text) in [
        (".gitignore", "*.log\n"),
        ("sub/a.log", ""),
        ("sub/b", ""),
        ("sub/deep/c.log", ""),
        ("sub/.ignore", "deep\n"),
    ] {
        fs::write(root.join(path), text).unwrap();
    }
    let workspace = Workspace::open(&root, &[]).unwrap();
    assert_eq!(walked(&workspace, ".", WalkRules::default()), ["sub/b"]);
    assert_eq!(walked(&workspace, "sub", WalkRules::default()), ["sub/b"]);
    assert_eq!(walked(&workspace, "sub/deep", WalkRules::default()), ["sub/deep/c.log"]);
}

#[test]
fn restored_snapshots_are_used_and_changes_listed() {
    let (dir, workspace) = project(&[("a", "one\n"), ("b", "two\n")]);
    let (a, b) = (read(&workspace, "a"), read(&workspace, "b"));
    let later = Workspace::open(dir.path(), &[]).unwrap();
    let path = later.resolve("a").unwrap();
    later.snapshots.lock().record(path.absolute(), a.clone(), None);
    assert_eq!(later.snapshot(&path), Some(a.clone()));
    assert_eq!((a.stat.size, a.hash.len()), (4, 64));
    assert_ne!(a.hash, b.hash);

    assert!(workspace.files_changed_since_read(true).is_empty());
    fs::write(dir.path().join("a"), "ONE\n").unwrap();
    fs::remove_file(dir.path().join("b")).unwrap();
    assert_eq!(workspace.files_changed_since_read(true), ["a", "b"]);
    let failure = later.replace(&path, &a, b"x").unwrap_err();
    assert_eq!(failure.code, ErrorCode::Conflict);
    // After a resume the old bytes are lost, so there is no diff.
    assert!(!failure.data.contains_key("diff_preview"));
    assert_eq!(later.snapshot(&path), None);
}

#[test]
fn failed_create_leaves_nothing_behind() {
    let (dir, workspace) = project(&[("a", "one\n")]);
    let long = format!("x/y/{}", "n".repeat(300));
    let failed = workspace.resolve(&long).and_then(|path| workspace.create(&path, b"x"));
    assert_eq!(failed.unwrap_err().code, ErrorCode::InvalidParam);
    let path = workspace.resolve("a").unwrap();
    assert_eq!(workspace.create(&path, b"x").unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "one\n");
}

#[test]
fn concurrent_replaces_are_serialised() {
    let (dir, workspace) = project(&[("a", "0")]);
    let count = |workspace: &Workspace| {
        let path = &workspace.resolve("a").unwrap();
        let mut n_done = 0;
        for _ in 0..100 {
            workspace.read_page(path, 1, 1, &|| false).unwrap();
            // A file that keeps changing while it is read has no snapshot.
            let Some(seen) = workspace.snapshot(path) else { continue };
            let Ok(content) = workspace.read_unchanged(path, Some(&seen), |_| false) else {
                continue;
            };
            let number: u32 = String::from_utf8(content.bytes).unwrap().parse().unwrap();
            let next = (number + 1).to_string();
            n_done += u32::from(workspace.replace(path, &seen, next.as_bytes()).is_ok());
        }
        n_done
    };
    let other = Workspace::open(dir.path(), &[]).unwrap();
    let done = std::thread::scope(|scope| {
        let handles = [&workspace, &other].map(|workspace| scope.spawn(|| count(workspace)));
        handles.map(|handle| handle.join().unwrap())
    });
    let text = fs::read_to_string(dir.path().join("a")).unwrap();
    assert_eq!(text, (done[0] + done[1]).to_string(), "{done:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn extended_attributes_are_kept() {
    let (dir, workspace) = project(&[("a", "one\n")]);
    let none = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(dir.path().join("a"), "user.note", b"kept", none).is_err() {
        return; // This file system has none.
    }
    let seen = read(&workspace, "a");
    workspace.replace(&workspace.resolve("a").unwrap(), &seen, b"two\n").unwrap();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(dir.path().join("a"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn spilled_output_is_redacted_and_has_a_relative_path() {
    let dir = tempdir().unwrap();
    let masker = Arc::new(Masker::new([], &[]).unwrap());
    let spill = SpillFolder::new(dir.path().join("state/tool-output"), dir.path(), masker);
    assert!(!dir.path().join("state").exists());
    let path = spill.write("Bash", "one\nAKIAIOSFODNN7EXAMPLE\n").unwrap();
    assert!(
        path.starts_with("state/tool-output/tool_") && path.ends_with("_001_Bash.txt"),
        "{path}"
    );
    let text = fs::read_to_string(dir.path().join(&path)).unwrap();
    assert_eq!(text, "one\n[redacted:aws-key]\n");
    let (mut file, path) = spill.create("Bash", Arc::default()).unwrap();
    let key =
        "-----BEGIN PRIVATE KEY-----\nMIIEabcdefghijkl\nmnopqrst\n-----END PRIVATE KEY-----\nx";
    // However the bytes are split.
    for byte in key.bytes() {
        file.write_all(&[byte]).unwrap();
    }
    drop(file);
    assert_eq!(fs::read_to_string(dir.path().join(path)).unwrap(), "[redacted:private-key]\nx");
}

#[test]
fn spilled_output_without_a_session_is_temporary() {
    let spill = SpillFolder::temporary(&[]);
    let path = spill.write("Read", "token ghp_abcdefghijklmnopqrstuvwxyz0123456789\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "token [redacted:github-token]\n");
    drop(spill);
    assert!(!Path::new(&path).exists());
}

proptest! {
    #[test]
    fn resolved_paths_stay_inside_the_root(parts in prop::collection::vec("(\\.\\.|\\.|a|link|up|x\\\\xe9|/)", 0..8)) {
        let (dir, workspace) = project(&[("a/a/a", "")]);
        symlink("/etc", dir.path().join("link")).unwrap();
        symlink("../..", dir.path().join("a/up")).unwrap();
        if let Ok(path) = workspace.resolve(&parts.join("/")) {
            prop_assert!(path.absolute().starts_with(workspace.root()));
        }
    }

    #[test]
    fn edit_and_inverse_restore_the_text(
        lines in prop::collection::vec(("[a-zä]{0,4}", "(\n|\r\n|\r)"), 0..12),
        start in 0usize..40, length in 0usize..10, new in "[x\n]{0,5}",
    ) {
        let raw: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end.as_str()]).collect();
        let bytes = |text: Text| text.to_bytes("a").unwrap();
        let text = Text::decode(raw.clone().into_bytes(), "a").unwrap();
        let plain = text.plain();
        let start = plain.floor_char_boundary(start.min(plain.len()));
        let end = plain.floor_char_boundary((start + length).min(plain.len()));
        // The line ends of the replaced text may change; outside of it no byte differs.
        let old = &plain[start..end];
        prop_assert_eq!(bytes(text.splice(&[(start..start, "")])), raw.as_bytes());
        let changed = text.splice(&[(start..end, new.as_str())]);
        let changed = Text::decode(bytes(changed), "a").unwrap();
        let expected = format!("{}{}{}", &plain[..start], new, &plain[end..]);
        if !raw.contains('\r') {
            prop_assert_eq!(changed.plain(), expected.as_str());
            let back = changed.splice(&[(start..start + new.len(), old)]);
            prop_assert_eq!(bytes(back), raw.as_bytes());
        }
    }
}
