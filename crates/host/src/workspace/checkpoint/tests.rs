//! Checkpoints of real directories.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;
use crate::workspace::Workspace;

struct Project {
    dir: TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(project.dir.path().join("state/session")).unwrap();
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("root").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn workspace(&self, limits: CheckpointLimits) -> Workspace {
        let state = self.dir.path().join("state");
        let workspace = Workspace::open(&self.path(""), &[]).unwrap();
        workspace.with_checkpoints(CheckpointSettings {
            store: state.join("store"),
            session: state.join("session"),
            limits,
            read_blobs: Arc::new(|_, _| Err(std::io::Error::other("no git here"))),
        })
    }
}

const LIMITS: CheckpointLimits = CheckpointLimits {
    max_files: 1000,
    max_file_bytes: 1000,
    max_bytes: 100_000,
    expire_after: Duration::from_hours(1),
    is_build_output: |path| {
        path.ends_with("node_modules") || path.extension() == Some("o".as_ref())
    },
};

fn operation(workspace: &Workspace, work: impl FnOnce()) -> Vec<String> {
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    work();
    checkpoints.finish_operation(begun, false, &|_| false).unwrap().files
}

fn undo(workspace: &Workspace, what: UndoTarget, force: bool) -> Vec<(String, String)> {
    let report = workspace.undo(what, UndoOptions { force, ..UndoOptions::default() }).unwrap();
    report.files.into_iter().map(|(path, how)| (path, how.to_string())).collect()
}

#[test]
fn undo_restores_files_symlinks_modes_and_directories() {
    let project = Project::new(&[
        ("a", "1"),
        ("d/e/f", "2"),
        ("ignored/x", "3"),
        (".gitignore", "ignored\n"),
    ]);
    symlink("a", project.path("link")).unwrap();
    fs::create_dir(project.path("empty")).unwrap();
    fs::set_permissions(project.path("a"), fs::Permissions::from_mode(0o754)).unwrap();
    let workspace = project.workspace(LIMITS);
    let changed = operation(&workspace, || {
        fs::remove_dir_all(project.path("d")).unwrap();
        fs::remove_file(project.path("link")).unwrap();
        fs::remove_dir(project.path("empty")).unwrap();
        fs::remove_file(project.path("a")).unwrap();
        fs::create_dir(project.path("a")).unwrap();
        project.write("a/new", "4");
        project.write("ignored/x", "5");
    });
    assert_eq!(changed, ["a", "a/new", "d/e/f", "link"]);
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
    assert_eq!(fs::metadata(project.path("a")).unwrap().permissions().mode() & 0o777, 0o754);
    assert_eq!(fs::read_to_string(project.path("d/e/f")).unwrap(), "2");
    assert_eq!(fs::read_link(project.path("link")).unwrap(), Path::new("a"));
    assert!(project.path("empty").is_dir());
    assert_eq!(fs::read_to_string(project.path("ignored/x")).unwrap(), "3");
    // The undo itself can be undone.
    undo(&workspace, UndoTarget::Redo, false);
    assert_eq!(fs::read_to_string(project.path("a/new")).unwrap(), "4");
    assert!(!project.path("d").exists() && !project.path("empty").exists());
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("d/e/f")).unwrap(), "2");
}

#[test]
fn after_a_partial_undo_the_turn_before_is_next() {
    let project = Project::new(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    checkpoints.begin_turn(1);
    operation(&workspace, || project.write("c", "2"));
    checkpoints.begin_turn(2);
    operation(&workspace, || {
        project.write("a", "2");
        project.write("b", "2");
    });
    project.write("b", "by the user");
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(done[0], ("a".to_owned(), "restored".to_owned()));
    assert!(done[1].1.starts_with("left as it is"), "{done:?}");
    assert_eq!(
        undo(&workspace, UndoTarget::Latest, false),
        [("c".to_owned(), "restored".to_owned())]
    );
    assert!(undo(&workspace, UndoTarget::Turn(2), false)[1].1.starts_with("left as it is"));
    assert_eq!(fs::read_to_string(project.path("b")).unwrap(), "by the user");
}

#[test]
fn what_was_undone_is_no_change_of_the_session() {
    let project = Project::new(&[("a", "1\n"), ("b", "1\n")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || project.write("a", "2\n"));
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(workspace.session_diff().as_deref(), Some(""));
    undo(&workspace, UndoTarget::Redo, false);
    assert!(workspace.session_diff().unwrap().contains("-1\n+2\n"));
}

#[test]
fn changes_between_operations_are_never_undone() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || project.write("a", "2"));
    project.write("b", "by the user");
    operation(&workspace, || project.write("a", "3"));
    assert_eq!(
        undo(&workspace, UndoTarget::Latest, false),
        [("a".to_owned(), "restored".to_owned())]
    );
    assert_eq!(fs::read_to_string(project.path("b")).unwrap(), "by the user");
    operation(&workspace, || project.write("a", "4"));
    project.write("a", "by the user");
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done[0].1.starts_with("left as it is: it was changed since"), "{done:?}");
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "by the user");
    undo(&workspace, UndoTarget::Latest, true);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn uncovered_file_is_reported() {
    let large = "x".repeat(2000);
    let project = Project::new(&[("large", &large), ("small", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::remove_file(project.path("large")).unwrap();
        fs::remove_file(project.path("small")).unwrap();
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done[0].1.contains("checkpoints.max_file_bytes"), "{done:?}");
    assert_eq!(done[1], ("small".to_owned(), "restored".to_owned()));
}

#[test]
fn uncovered_files_are_moved_back_removed_and_restored_again() {
    let large = "x".repeat(2000);
    let project = Project::new(&[("large", &large), ("small", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::rename(project.path("large"), project.path("moved")).unwrap();
        project.write("new", &"y".repeat(3000));
        project.write("small", &"z".repeat(4000));
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(!done.iter().any(|(_, how)| how.starts_with("left as it is")), "{done:?}");
    assert_eq!(fs::read_to_string(project.path("large")).unwrap(), large);
    assert_eq!(fs::read_to_string(project.path("small")).unwrap(), "1");
    assert!(!project.path("moved").exists() && !project.path("new").exists());
    undo(&workspace, UndoTarget::Redo, false);
    assert_eq!(fs::read_to_string(project.path("moved")).unwrap(), large);
    assert_eq!(fs::read_to_string(project.path("new")).unwrap(), "y".repeat(3000));
    assert_eq!(fs::read_to_string(project.path("small")).unwrap(), "z".repeat(4000));
    assert!(!project.path("large").exists());
}

#[test]
fn too_many_files_disable_checkpoints_of_commands() {
    let project = Project::new(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let workspace = project.workspace(CheckpointLimits { max_files: 2, ..LIMITS });
    assert!(
        workspace.checkpoints().unwrap().coverage_gap().unwrap().contains("checkpoints.max_files")
    );
    assert!(operation(&workspace, || project.write("a", "2")).is_empty());
    // File tools still have checkpoints.
    let checkpoints = workspace.checkpoints().unwrap();
    let begun =
        checkpoints.begin_operation("Edit", OperationScope::File(project.path("a")), &|_| false);
    project.write("a", "3");
    assert_eq!(checkpoints.finish_operation(begun, false, &|_| false).unwrap().files, ["a"]);
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "2");
}

#[test]
fn corrupt_or_deleted_store_is_reported_and_replaced() {
    let project = Project::new(&[("a", "before")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || project.write("a", "after"));
    drop(workspace);
    let store = project.dir.path().join("state/store");
    for entry in fs::read_dir(&store).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("segment-") && !name.ends_with("index") {
            let mut bytes = fs::read(entry.path()).unwrap();
            let at = bytes.windows(6).position(|it| it == b"before").unwrap();
            bytes[at] = b'B';
            fs::write(entry.path(), bytes).unwrap();
        }
    }
    let workspace = project.workspace(LIMITS);
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done[0].1.contains("damaged"), "{done:?}");
    drop(workspace);
    fs::remove_dir_all(&store).unwrap();
    let workspace = project.workspace(LIMITS);
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done[0].1.contains("not stored any more"), "{done:?}");
    // The next operation starts a new store.
    workspace.checkpoints().unwrap().begin_turn(7);
    operation(&workspace, || project.write("a", "again"));
    undo(&workspace, UndoTarget::Latest, true);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "after");
}

#[test]
fn refused_redo_does_not_advise_an_undo() {
    let project = Project::new(&[("a", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || project.write("a", "2"));
    undo(&workspace, UndoTarget::Latest, false);
    project.write("a", "by the user");
    let done = undo(&workspace, UndoTarget::Redo, false);
    assert_eq!(done, [("a".into(), "left as it is: it was changed since".into())]);
}

#[test]
fn full_store_reports_reduced_coverage() {
    let project = Project::new(&[("a", &"1".repeat(500)), ("b", &"2".repeat(500))]);
    let workspace = project.workspace(CheckpointLimits { max_bytes: 700, ..LIMITS });
    operation(&workspace, || {
        fs::remove_file(project.path("a")).unwrap();
        fs::remove_file(project.path("b")).unwrap();
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    let refused = done.iter().filter(|(_, how)| how.contains("checkpoints.max_bytes")).count();
    assert_eq!(refused, 1, "{done:?}");
}

#[test]
fn overlapping_operation_of_another_session_is_shared() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let (one, other) = (project.workspace(LIMITS), project.workspace(LIMITS));
    let begun =
        one.checkpoints().unwrap().begin_operation("Bash", OperationScope::Project, &|_| false);
    project.write("a", "2");
    operation(&other, || project.write("b", "2"));
    one.checkpoints().unwrap().finish_operation(begun, false, &|_| false).unwrap();
    let error = one.undo(UndoTarget::Latest, UndoOptions::default()).unwrap_err();
    assert!(matches!(error, UndoError::Shared { .. }), "{error}");
}

#[test]
fn confirmed_undo_of_a_shared_operation_keeps_later_changes() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    project.write("a", "2");
    project.write("b", "2");
    checkpoints.finish_operation(begun, true, &|_| false).unwrap();
    project.write("b", "by the user");
    let options = UndoOptions { confirmed: true, ..UndoOptions::default() };
    let report = workspace.undo(UndoTarget::Latest, options).unwrap();
    assert_eq!(report.files[0], ("a".to_owned(), UndoOutcome::Restored));
    assert!(!report.is_complete());
    assert_eq!(fs::read_to_string(project.path("b")).unwrap(), "by the user");
}

#[test]
fn special_files_and_non_utf8_names_are_tolerated() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = Project::new(&[("a", "1")]);
    let odd = project.path("").join(std::ffi::OsStr::from_bytes(b"n\xff"));
    fs::write(&odd, "odd").unwrap();
    let fifo = project.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::hard_link(project.path("a"), project.path("hard")).unwrap();
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::remove_file(&odd).unwrap();
        fs::remove_file(&fifo).unwrap();
        project.write("a", "2");
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(done[1].0, "fifo");
    assert!(done[1].1.contains("a FIFO"), "{done:?}");
    assert_eq!(fs::read(&odd).unwrap(), b"odd");
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
    assert_eq!(fs::read_to_string(project.path("hard")).unwrap(), "1");
}

#[test]
fn killed_command_is_recorded_by_the_next_process() {
    let project = Project::new(&[("a", "1")]);
    let workspace = project.workspace(LIMITS);
    let begun =
        workspace
            .checkpoints()
            .unwrap()
            .begin_operation("Bash", OperationScope::Project, &|_| false);
    project.write("a", "2");
    // A killed process leaves this state.
    std::mem::forget(begun);
    drop(workspace);
    let workspace = project.workspace(LIMITS);
    workspace.checkpoints().unwrap().recover_killed_operations();
    undo(&workspace, UndoTarget::Latest, true);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn file_that_stops_being_ignored_is_not_removed() {
    let project = Project::new(&[("a", "1"), ("data/db", "2"), (".gitignore", "data\n")]);
    std::thread::sleep(Duration::from_millis(300));
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::remove_file(project.path(".gitignore")).unwrap();
        project.write("a", "3");
    });
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("data/db")).unwrap(), "2");
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
    assert!(project.path(".gitignore").exists());
}

#[test]
fn undo_restores_a_directory_replaced_by_a_symlink_and_a_read_only_one() {
    let project = Project::new(&[("data/sub/a", "1"), ("locked/b", "2")]);
    fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::rename(project.path("data"), project.path("real")).unwrap();
        symlink("real", project.path("data")).unwrap();
        fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir_all(project.path("locked")).unwrap();
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done.iter().all(|(_, how)| !how.starts_with("left")), "{done:?}");
    assert_eq!(fs::read_to_string(project.path("data/sub/a")).unwrap(), "1");
    assert!(!project.path("data").is_symlink() && !project.path("real").exists());
    assert_eq!(fs::read_to_string(project.path("locked/b")).unwrap(), "2");
    assert_eq!(fs::metadata(project.path("locked")).unwrap().permissions().mode() & 0o777, 0o555);
    fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn partial_undo_can_be_redone() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        project.write("a", "2");
        project.write("b", "2");
    });
    project.write("b", "by the user");
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
    undo(&workspace, UndoTarget::Redo, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "2");
    assert_eq!(
        workspace.undo(UndoTarget::Redo, UndoOptions::default()).unwrap_err(),
        UndoError::Nothing
    );
}

#[test]
fn uncovered_files_of_a_deletion_are_known() {
    let large = "x".repeat(2000);
    let files = [("p/a", "1"), ("p/node_modules/m", "2"), ("q/.env", "3"), ("r/large", &*large)];
    let project = Project::new(&files);
    project.write(".gitignore", "node_modules\n.env\ncache\ndata\n");
    project.write("q/cache/x", &large);
    project.write("q/data/x", "4");
    project.write("t/.env", &large);
    project.write("s/.git/HEAD", "x");
    let workspace = project.workspace(LIMITS);
    let is_spare = |path: &Path| path.ends_with("node_modules");
    let is_uncovered =
        |path: &str| workspace.has_uncovered(&project.path(path), &is_spare, &|_, _| true);
    assert!(!is_uncovered("p") && !is_uncovered("p/a") && !is_uncovered("p/node_modules"));
    assert!(is_uncovered("q") && !is_uncovered("q/.env") && is_uncovered("q/cache"));
    assert!(!is_uncovered("q/data") && !is_uncovered("q/data/x"));
    assert!(is_uncovered("r") && is_uncovered("s") && is_uncovered("t/.env"));
}

#[test]
fn small_ignored_directories_are_restored_and_large_ones_left() {
    let project = Project::new(&[(".gitignore", "data\nheap\nnode_modules\n"), ("a", "1")]);
    project.write("data/app.db", "1");
    project.write("data/old/x", "2");
    project.write("node_modules/m", "3");
    for n in 0..2500 {
        project.write(&format!("heap/{n}"), "x");
    }
    let workspace = project.workspace(CheckpointLimits { max_files: 9000, ..LIMITS });
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    fs::remove_dir_all(project.path("data/old")).unwrap();
    project.write("data/app.db", "4");
    project.write("data/tmp/new", "5");
    fs::remove_file(project.path("node_modules/m")).unwrap();
    // Now there is room for the other files, which are not new.
    for n in 0..600 {
        fs::remove_file(project.path(&format!("heap/{n}"))).unwrap();
    }
    project.write("heap/2400", "6");
    project.write("heap/new", "7");
    let changed = checkpoints.finish_operation(begun, false, &|_| false).unwrap();
    assert_eq!(changed.ignored, ["data/app.db", "data/old/x", "data/tmp/new"]);
    // A program changes its state meanwhile; this does not make the undo partial.
    project.write("data/tmp/new", "8");
    let report = workspace.undo(UndoTarget::Latest, UndoOptions::default()).unwrap();
    assert!(report.is_complete(), "{report:?}");
    let text = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    assert_eq!([text("data/app.db"), text("data/old/x"), text("data/tmp/new")], ["1", "2", "8"]);
    assert_eq!([text("heap/2400"), text("heap/new")], ["6", "7"]);
}

#[test]
fn ignored_file_beside_one_that_changed_since_is_left() {
    let project = Project::new(&[(".gitignore", "data\n"), ("a", "1")]);
    project.write("data/app.db", "1");
    project.write("data/other/x", "1");
    project.write("data/large/db", "1");
    project.write("data/large/db-wal", &"x".repeat(2000));
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        project.write("data/app.db", "2");
        project.write("data/other/x", "2");
        project.write("data/large/db", "2");
        project.write("data/large/db-wal", &"y".repeat(2000));
        project.write("a", "2");
    });
    // Another process writes a log of the database, which belongs to the operation's result.
    std::thread::sleep(Duration::from_millis(20));
    project.write("data/app.db-wal", "3");
    let report = workspace.undo(UndoTarget::Latest, UndoOptions::default()).unwrap();
    let text = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    assert_eq!([text("a"), text("data/other/x"), text("data/app.db")], ["1", "1", "2"]);
    assert!(report.files[1].1.to_string().contains("a file beside it was changed since"));
    assert_eq!(text("data/large/db"), "2");
}

#[test]
fn ignored_files_outside_ignored_directories_are_restored() {
    let project = Project::new(&[("a", "1"), (".env", "2"), ("d/local.db", "3"), ("d/x.o", "4")]);
    project.write(".gitignore", ".env\n*.db\n*.o\nnew\n");
    project.write("d/e/.gitignore", "*\n");
    project.write("d/e/f", "5");
    fs::set_permissions(project.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    fs::remove_file(project.path(".env")).unwrap();
    fs::remove_dir_all(project.path("d")).unwrap();
    project.write("new", "6");
    let changed = checkpoints.finish_operation(begun, false, &|_| false).unwrap();
    assert!(changed.files.is_empty(), "{changed:?}");
    assert_eq!(changed.ignored, [".env", "d/e/.gitignore", "d/e/f", "d/local.db", "new"]);
    let diff = workspace.session_diff().unwrap();
    assert_eq!(diff, "5 ignored files changed too; an undo restores them\n");
    undo(&workspace, UndoTarget::Latest, false);
    let text = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    assert_eq!([text(".env"), text("d/local.db"), text("d/e/f")], ["2", "3", "5"]);
    assert_eq!(fs::metadata(project.path(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!project.path("new").exists() && !project.path("d/x.o").exists());
}

#[test]
fn beyond_the_limit_an_undo_removes_no_ignored_file() {
    let project = Project::new(&[(".gitignore", "*.csv\n.env\n"), (".env", "1"), ("a", "1")]);
    for n in 0..2000 {
        project.write(&format!("data/{n}.csv"), "x");
    }
    let workspace = project.workspace(CheckpointLimits { max_files: 9000, ..LIMITS });
    let is_uncovered =
        |path: &str| workspace.has_uncovered(&project.path(path), &|_| false, &|_, _| true);
    assert!(!is_uncovered(".env") && is_uncovered("data/7.csv"));
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    // Now there is room for the other files.
    fs::remove_file(project.path("data/7.csv")).unwrap();
    project.write("data/8.csv", "2");
    project.write("a", "2");
    project.write(".env", "2");
    let changed = checkpoints.finish_operation(begun, false, &|_| false).unwrap();
    assert_eq!((changed.files, changed.ignored), (vec!["a".to_owned()], vec![".env".to_owned()]));
    undo(&workspace, UndoTarget::Latest, false);
    let text = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    assert_eq!([text(".env"), text("a"), text("data/8.csv")], ["1", "1", "2"]);
    assert!(!is_uncovered("data/8.csv"));
}

fn git(project: &Project, line: &str) {
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let mut bash = std::process::Command::new("bash");
    let line = format!("git -c user.email=a@b -c user.name=n {line}");
    let done = bash.args(["-c", &line]).current_dir(project.path("")).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

fn age(directory: &Path, hours: u64) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let file = fs::File::options().append(true).open(entry.path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
    }
}

#[test]
fn tracked_file_is_covered_even_if_ignored() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    git(&project, "init -q");
    git(&project, "add -A");
    let workspace = project.workspace(LIMITS);
    let changed = operation(&workspace, || project.write(".gitignore", "a\n"));
    assert_eq!(changed, [".gitignore"], "what is ignored from now on was not removed");
    let changed = operation(&workspace, || fs::remove_file(project.path("a")).unwrap());
    assert_eq!(changed, ["a"]);
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn undo_restores_a_file_changed_and_ignored_in_one_operation() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let workspace = project.workspace(LIMITS);
    let changed = operation(&workspace, || {
        project.write(".gitignore", "a\nb\n");
        project.write("a", "2");
    });
    assert_eq!(changed, [".gitignore", "a"]);
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
    assert!(!project.path(".gitignore").exists());
}

#[test]
fn undo_restores_tracked_files_in_a_directory_replaced_by_a_symlink() {
    let project = Project::new(&[("data/sub/a", "1")]);
    git(&project, "init -q");
    git(&project, "add -A");
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::rename(project.path("data"), project.path("real")).unwrap();
        symlink("real", project.path("data")).unwrap();
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done.iter().all(|(_, how)| !how.starts_with("left")), "{done:?}");
    assert_eq!(fs::read_to_string(project.path("data/sub/a")).unwrap(), "1");
    assert!(!project.path("data").is_symlink() && !project.path("real").exists());
}

#[test]
fn undo_and_redo_work_with_non_utf8_names() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = Project::new(&[("a", "1")]);
    let odd = project.path("").join(std::ffi::OsStr::from_bytes(b"n\xff"));
    fs::write(&odd, "1").unwrap();
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::write(&odd, "2").unwrap();
        project.write("z", "1");
    });
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read(&odd).unwrap(), b"1");
    let done = undo(&workspace, UndoTarget::Redo, false);
    assert!(done.iter().all(|(_, how)| !how.starts_with("left")), "{done:?}");
    assert_eq!(fs::read(&odd).unwrap(), b"2");
    assert!(project.path("z").exists());
}

#[test]
fn undo_restores_a_large_file_changed_by_a_file_tool() {
    let large = "x".repeat(2000);
    let project = Project::new(&[("large", &large)]);
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    let begun =
        checkpoints
            .begin_operation("Edit", OperationScope::File(project.path("large")), &|_| false);
    project.write("large", &"y".repeat(3000));
    assert_eq!(checkpoints.finish_operation(begun, false, &|_| false).unwrap().files, ["large"]);
    // A command that leaves the large file unchanged does not affect the result.
    operation(&workspace, || project.write("small", "1"));
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("large")).unwrap(), large);
}

#[test]
fn file_tool_evicts_old_contents_from_a_full_store() {
    let project = Project::new(&[("a", &"1".repeat(500))]);
    let limits = CheckpointLimits { max_bytes: 1200, ..LIMITS };
    let workspace = project.workspace(limits);
    operation(&workspace, || project.write("a", &"2".repeat(500)));
    drop(workspace);
    let store = project.dir.path().join("state/store");
    fs::remove_file(store.join(MANIFEST_FILE)).unwrap();
    project.write("a", &"3".repeat(500));
    age(&store, 2);
    let workspace =
        project.workspace(CheckpointLimits { expire_after: Duration::from_hours(9), ..limits });
    let checkpoints = workspace.checkpoints().unwrap();
    checkpoints.begin_turn(1);
    let begun =
        checkpoints.begin_operation("Edit", OperationScope::File(project.path("a")), &|_| false);
    project.write("a", "4");
    checkpoints.finish_operation(begun, false, &|_| false).unwrap();
    undo(&workspace, UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "3".repeat(500));
}

#[test]
fn recently_used_content_does_not_expire() {
    let limits = CheckpointLimits { expire_after: Duration::from_hours(10), ..LIMITS };
    let project = Project::new(&[("a", "1")]);
    operation(&project.workspace(limits), || project.write("b", "2"));
    let store = project.dir.path().join("state/store");
    age(&store, 9);
    let workspace = project.workspace(limits);
    workspace.checkpoints().unwrap().begin_turn(1);
    operation(&workspace, || fs::remove_file(project.path("a")).unwrap());
    drop(workspace);
    // Two hours later.
    for entry in fs::read_dir(&store).unwrap().flatten() {
        let file = fs::File::options().append(true).open(entry.path()).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - Duration::from_hours(2)).unwrap();
    }
    undo(&project.workspace(limits), UndoTarget::Latest, false);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn contents_are_stored_again_after_the_store_was_removed() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || project.write("b", "2"));
    fs::remove_dir_all(project.dir.path().join("state/store")).unwrap();
    operation(&workspace, || fs::remove_file(project.path("a")).unwrap());
    undo(&workspace, UndoTarget::Latest, true);
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn unstorable_content_is_a_gap_and_not_a_change() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let store = project.dir.path().join("state/store");
    fs::write(&store, "no directory").unwrap();
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    let gap = checkpoints.coverage_gap().unwrap();
    assert!(gap.contains("it could not be stored"), "{gap}");
    let begun = checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
    fs::remove_file(project.path("a")).unwrap();
    fs::remove_file(&store).unwrap();
    assert_eq!(
        checkpoints.finish_operation(begun, false, &|_| false).unwrap().files,
        ["a"],
        "b is as it was"
    );
    assert_eq!(checkpoints.coverage_gap(), None);
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done[0].1.contains("its old content is not kept: it could not be stored"), "{done:?}");
    fs::remove_dir_all(&store).unwrap();
    fs::write(&store, "no directory").unwrap();
    assert!(checkpoints.coverage_gap().unwrap().contains("cannot be written"));
}

#[test]
fn concurrent_operations_have_unique_ids() {
    let files: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
    let project = Project::new(&[]);
    for file in &files {
        project.write(file, "1");
    }
    let workspace = project.workspace(LIMITS);
    let checkpoints = workspace.checkpoints().unwrap();
    std::thread::scope(|scope| {
        for part in files.chunks(5) {
            let project = &project;
            scope.spawn(move || {
                for file in part {
                    let begun = checkpoints.begin_operation(
                        "Edit",
                        OperationScope::File(project.path(file)),
                        &|_| false,
                    );
                    project.write(file, "2");
                    checkpoints.finish_operation(begun, false, &|_| false).unwrap();
                }
            });
        }
    });
    let mut ids: Vec<u32> = checkpoints.journal.read().iter().map(|it| it.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<u32>>());
}

#[test]
fn simultaneously_started_sessions_detect_each_other() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..3000 {
        let barrier = std::sync::Barrier::new(2);
        let one = || {
            barrier.wait();
            let begun = OperationLock::begin(directory.path());
            barrier.wait();
            begun.end()
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(one);
            (one(), other.join().unwrap())
        });
        assert!(a && b);
    }
}

#[test]
fn killed_command_is_distinguished_from_another_sessions_save() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let (one, other) = (project.workspace(LIMITS), project.workspace(LIMITS));
    // The other session has the earlier state of the project, and saves it when it ends.
    drop(other.checkpoints().unwrap().take_manifest());
    operation(&one, || project.write("a", "2"));
    std::thread::sleep(Duration::from_millis(300));
    operation(&one, || ());
    operation(&one, || ());
    drop(other);
    let begun =
        one.checkpoints().unwrap().begin_operation("Bash", OperationScope::Project, &|_| false);
    project.write("b", "2");
    std::mem::forget(begun);
    std::mem::forget(one);
    let workspace = project.workspace(LIMITS);
    workspace.checkpoints().unwrap().recover_killed_operations();
    let operations = workspace.checkpoints().unwrap().journal.read();
    let killed: Vec<String> =
        operations.last().unwrap().changes.iter().map(|it| display_name(&it.path)).collect();
    assert_eq!(killed, ["b"]);
}

#[test]
fn ignored_files_are_not_attributed_to_a_killed_command() {
    let project = Project::new(&[("a", "1"), ("data/db", "2"), (".gitignore", "data\n")]);
    std::thread::sleep(Duration::from_millis(300));
    let workspace = project.workspace(LIMITS);
    std::mem::forget(workspace.checkpoints().unwrap().begin_operation(
        "Bash",
        OperationScope::Project,
        &|_| false,
    ));
    project.write("a", "2");
    drop(workspace);
    fs::remove_file(project.path(".gitignore")).unwrap();
    let workspace = project.workspace(LIMITS);
    workspace.checkpoints().unwrap().recover_killed_operations();
    undo(&workspace, UndoTarget::Latest, true);
    assert_eq!(fs::read_to_string(project.path("data/db")).unwrap(), "2");
    assert_eq!(fs::read_to_string(project.path("a")).unwrap(), "1");
}

#[test]
fn undo_restores_all_mode_bits_and_write_protected_files() {
    let project = Project::new(&[("a", "1"), ("b", "1")]);
    let mode = |path: &str| project.path(path).metadata().unwrap().permissions().mode() & 0o7777;
    let set = |path: &str, mode| {
        fs::set_permissions(project.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("a", 0o4755);
    set("b", 0o444);
    let workspace = project.workspace(LIMITS);
    operation(&workspace, || {
        fs::remove_file(project.path("a")).unwrap();
        fs::remove_file(project.path("b")).unwrap();
        project.write("b", "2");
        set("b", 0o444);
    });
    let done = undo(&workspace, UndoTarget::Latest, false);
    assert!(done.iter().all(|(_, how)| how == "restored"), "{done:?}");
    assert_eq!((mode("a"), mode("b")), (0o4755, 0o444));
    assert_eq!(fs::read_to_string(project.path("b")).unwrap(), "1");
}

#[test]
fn file_changed_during_a_read_is_never_stored_mixed() {
    const SIZE: usize = 4 << 20;
    let project = Project::new(&[("big", "")]);
    fs::write(project.path("big"), vec![b'a'; SIZE]).unwrap();
    let limits =
        CheckpointLimits { max_file_bytes: 1 << 30, max_bytes: 1 << 30, max_files: 9, ..LIMITS };
    let workspace = project.workspace(limits);
    let checkpoints = workspace.checkpoints().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let writer = || {
        use std::os::unix::fs::FileExt as _;
        let file = fs::File::options().write(true).open(project.path("big")).unwrap();
        for byte in (b'a'..=b'z').cycle() {
            for part in 0..64 {
                file.write_all_at(&vec![byte; SIZE / 64], (part * SIZE / 64) as u64).unwrap();
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        }
    };
    let contents = || {
        let manifest = checkpoints.take_manifest().unwrap();
        checkpoints.read_contents(manifest.files.iter().map(|it| &it.state))
    };
    let kept: Vec<Vec<u8>> = std::thread::scope(|scope| {
        scope.spawn(writer);
        let kept = (0..30).flat_map(|_| contents().into_values().flatten()).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        kept
    });
    for bytes in kept {
        // The writer proceeds from front to back: at any time there are at most two letters.
        let n_letters = 1 + bytes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(n_letters <= 2, "{n_letters} letters");
    }
}
