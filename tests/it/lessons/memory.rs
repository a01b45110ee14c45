//! The memory: its database file, search, and `agent memory`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_learning::credit::Credit;
use agent_learning::lesson::{
    FailurePattern, Lesson, MIN_APPLY_CONFIDENCE, Origin, Scope, Source, failure_key,
};
use agent_learning::recall;
use agent_learning::review::{self, ReviewPeriod, review};
use agent_learning::store::{Batch, LearnOutcome, SqliteStore, Store, StoreError, index_terms};
use agent_learning::trace::ExecutionTrace;
use agent_protocol::Object;
use agent_protocol::envelope::ErrorCode;
use agent_protocol::recall::LessonKind;
use serde_json::{Value, json};

use crate::support::{Test, say, wait_for};

/// A time in 2026.
pub(super) const NOW: i64 = 1_795_000_000_000;
const DAY: i64 = 86_400_000;

pub(super) fn project(name: &str) -> Scope {
    Scope::Project(name.to_owned())
}

pub(crate) fn lesson(scope: Scope, kind: LessonKind, text: &str) -> Lesson {
    Lesson {
        sources: vec![Source { session: "session-1".to_owned(), events: (3, 9) }],
        helped: 1,
        ..Lesson::new(scope, kind, text.to_owned(), Origin::Pair, NOW)
    }
}

fn rule(text: &str) -> Lesson {
    lesson(project("p"), LessonKind::Rule, text)
}

pub(super) const MISSING: &str = "pytest: command not found";

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { panic!("{value}") };
    object
}

/// A lesson: `pytest` was missing, and `to` worked.
pub(super) fn missing_pytest(scope: Scope, to: &str) -> Lesson {
    let text = format!("`pytest` failed: {MISSING}. `{to}` worked.");
    let mut lesson = lesson(scope, LessonKind::FailurePattern, &text);
    lesson.failure = Some(FailurePattern {
        skill: "Bash pytest".to_owned(),
        condition: MISSING.to_owned(),
        error_type: "dependency_error".to_owned(),
        tool: "Bash".to_owned(),
        target: "pytest".to_owned(),
        code: ErrorCode::CommandFailed,
        signature: MISSING.to_owned(),
        input: object(json!({"command": "pytest"})),
        is_same_call: false,
        is_prepared: false,
        is_related_by_one_word: false,
        subjects: Vec::new(),
        new_words: to.split(' ').map(str::to_owned).collect(),
        fix: Some(object(json!({"command": to}))),
    });
    lesson
}

pub(super) fn batch(lessons: Vec<Lesson>) -> Batch {
    Batch { lessons, ..Batch::default() }
}

pub(super) fn credit(id: &str, helped: u32, hurt: u32) -> Batch {
    let credits = vec![Credit { id: id.to_owned(), helped, hurt }];
    Batch { credits, ..Batch::default() }
}

/// Texts of the lessons that share terms with this text, best first.
pub(super) fn found(store: &impl Store, text: &str) -> Vec<String> {
    let found = store.matching_lessons(&[], &index_terms(text), 5).unwrap();
    found.into_iter().map(|(_, lesson)| lesson.text).collect()
}

fn put(store: &SqliteStore, lesson: &Lesson) {
    store.commit(&batch(vec![lesson.clone()])).unwrap();
}

/// A memory in its own directory, with the notices that it emitted.
struct Memory {
    dir: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Memory {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), told: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("agent/memory.db")
    }

    fn open(&self) -> SqliteStore {
        let told = self.told.clone();
        SqliteStore::new(self.path(), move |line| told.lock().unwrap().push(line))
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("agent")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn committed_lessons_are_visible_to_the_next_process() {
    let memory = Memory::new();
    let rule = rule("Run `make check` before a commit.");
    let learned = memory.open().commit(&batch(vec![rule.clone()])).unwrap();
    assert_eq!(learned, [LearnOutcome::New]);
    let store = memory.open();
    assert_eq!(store.lessons(&[project("p"), Scope::User]).unwrap(), std::slice::from_ref(&rule));
    assert_eq!(store.lessons(&[project("q")]).unwrap(), []);
    assert_eq!(store.find_lesson(&rule.id[..4]).unwrap(), Some(rule));
    assert_eq!(store.find_lesson("zz").unwrap(), None);
}

#[test]
fn reads_create_no_file_and_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let memory = Memory::new();
    let store = memory.open();
    assert_eq!(store.lessons(&[]).unwrap(), []);
    assert_eq!(found(&store, "anything"), [""; 0]);
    assert!(!store.forget_lesson("x").unwrap());
    assert_eq!(store.prune(NOW, 1).unwrap(), 0);
    assert!(!memory.path().exists() && !memory.path().parent().unwrap().exists());
    put(&store, &rule("Read before you write."));
    for name in memory.files() {
        let path = memory.path().with_file_name(&name);
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

#[test]
fn equal_lessons_are_counted_and_keep_the_latest_sources() {
    let memory = Memory::new();
    let store = memory.open();
    let first = missing_pytest(project("p"), "tox");
    assert_eq!(store.commit(&batch(vec![first.clone()])).unwrap(), [LearnOutcome::New]);
    for n in 2..=7 {
        let mut again = first.clone();
        again.sources = vec![Source { session: format!("session-{n}"), events: (n, n + 1) }];
        assert_eq!(store.commit(&batch(vec![again])).unwrap(), [LearnOutcome::Reinforced]);
    }
    let known = store.find_lesson(&first.id).unwrap().unwrap();
    assert_eq!((known.frequency, known.helped, known.text.as_str()), (7, 7, first.text.as_str()));
    let sessions: Vec<&str> = known.sources.iter().map(|it| it.session.as_str()).collect();
    assert_eq!(sessions, ["session-3", "session-4", "session-5", "session-6", "session-7"]);
    assert_eq!(store.lessons(&[]).unwrap().len(), 1);
}

#[test]
fn failure_lessons_come_from_the_project_and_user_scopes() {
    let memory = Memory::new();
    let store = memory.open();
    // A different fix for the same failure is a different lesson.
    let here =
        [missing_pytest(project("p"), "python3 -m pytest"), missing_pytest(project("p"), "tox")];
    let there = missing_pytest(project("q"), "tox");
    let users = missing_pytest(Scope::User, "uvx pytest");
    let all = [&here[..], &[there, users.clone()]].concat();
    assert_eq!(store.commit(&batch(all)).unwrap(), [LearnOutcome::New; 4]);
    let key = failure_key("Bash", "pytest", ErrorCode::CommandFailed, MISSING);
    let mut about: Vec<String> = store
        .lessons_about(&[project("p"), Scope::User], &key)
        .unwrap()
        .into_iter()
        .map(|it| it.id)
        .collect();
    about.sort();
    let mut expected = [&here[0].id, &here[1].id, &users.id].map(Clone::clone);
    expected.sort();
    assert_eq!(about, expected);
    assert_eq!(store.lessons_about(&[project("p")], "Bash\nruff").unwrap(), []);
    // Lessons from two projects do not become user lessons.
    assert_eq!(store.lessons(&[Scope::User]).unwrap(), [users]);
}

#[test]
fn relearning_does_not_overwrite_user_edits() {
    let memory = Memory::new();
    let store = memory.open();
    let learnt = missing_pytest(project("p"), "python3 -m pytest");
    put(&store, &learnt);
    let changed = store.update_lesson(&learnt.id, |lesson| {
        lesson.origin = Origin::User;
        "Ask before you run pytest.".clone_into(&mut lesson.text);
        lesson.failure.as_mut().unwrap().fix = None;
    });
    assert_eq!(changed.unwrap().unwrap().helped, 1);
    put(&store, &learnt);
    let known = store.find_lesson(&learnt.id).unwrap().unwrap();
    assert_eq!((known.failure.unwrap().fix, known.frequency), (None, 2));
    assert_eq!(known.text, "Ask before you run pytest.");
    assert_eq!(store.update_lesson("gone", |_| ()).unwrap(), None);
}

#[test]
fn uses_of_a_lesson_are_counted_by_outcome() {
    let memory = Memory::new();
    let store = memory.open();
    let first = rule("Read before you write.");
    put(&store, &first);
    store.commit(&credit(&first.id, 0, 0)).unwrap();
    store.commit(&credit(&first.id, 1, 0)).unwrap();
    store.commit(&credit(&first.id, 0, 1)).unwrap();
    store.commit(&credit("gone", 1, 0)).unwrap();
    let known = store.find_lesson(&first.id).unwrap().unwrap();
    assert_eq!((known.recalled, known.helped, known.hurt), (3, 2, 1));
}

#[test]
fn fixes_that_stop_helping_are_soon_no_longer_applied() {
    let memory = Memory::new();
    let store = memory.open();
    let known = rule("Run the tests with `--fast`.");
    put(&store, &known);
    let turn = |helped: u32, hurt: u32| {
        store.commit(&credit(&known.id, helped, hurt)).unwrap();
        store.find_lesson(&known.id).unwrap().unwrap().confidence()
    };
    let surest = (2..40).map(|_| turn(1, 0)).fold(0.0, f64::max);
    assert!(surest > 0.85, "{surest}");
    let n_applied =
        (40..80).map(|_| turn(0, 1)).take_while(|sure| *sure >= MIN_APPLY_CONFIDENCE).count();
    assert!(n_applied < 4, "{n_applied}");
}

#[test]
fn lessons_that_stopped_helping_are_no_longer_recalled() {
    let memory = Memory::new();
    let store = memory.open();
    let lost = missing_pytest(project("p"), "pip install --force");
    put(&store, &lost);
    let key = lost.failure.as_ref().unwrap().key();
    let n_seen = || {
        let task =
            recall::lessons_for_task(&store, &[project("p")], ("pip install", &[]), 400).unwrap();
        let about = store.lessons_about(&[project("p")], &key).unwrap();
        let latest = store.latest_lessons(&[project("p")], 9).unwrap();
        (task.len(), about.len(), latest.len(), found(&store, "pip install").len())
    };
    assert_eq!(n_seen(), (1, 1, 1, 1));
    store.commit(&credit(&lost.id, 0, 5)).unwrap();
    assert_eq!(n_seen(), (0, 0, 0, 0));
    assert_eq!(store.find_lesson(&lost.id).unwrap().unwrap().hurt, 5, "a review removes it");
    // Lessons written by the user are never hidden.
    let mut own = rule("Use `pip install` as I do.");
    (own.origin, own.hurt) = (Origin::User, 9);
    put(&store, &own);
    assert_eq!(found(&store, "pip install"), [own.text]);
}

#[test]
fn search_index_follows_edits_and_deletions() {
    let memory = Memory::new();
    let store = memory.open();
    let lesson = rule("Run `make lint` before a commit.");
    put(&store, &lesson);
    let new = "Start postgres before the tests.";
    store.update_lesson(&lesson.id, |lesson| new.clone_into(&mut lesson.text)).unwrap();
    let n = |text: &str| found(&store, text).len();
    assert_eq!((n("lint"), n("postgres")), (0, 1));
    assert!(store.forget_lesson(&lesson.id).unwrap());
    assert!(!store.forget_lesson(&lesson.id).unwrap());
    assert_eq!((n("lint"), n("postgres")), (0, 0));
}

#[test]
fn search_is_limited_to_its_scopes() {
    let memory = Memory::new();
    let store = memory.open();
    for scope in [project("p"), project("q"), Scope::User] {
        let text = format!("The database of {scope:?} has to be migrated first.");
        put(&store, &lesson(scope, LessonKind::Rule, &text));
    }
    let found = |scopes: &[Scope]| -> Vec<Scope> {
        let found = store.matching_lessons(scopes, &index_terms("migrated database"), 9).unwrap();
        let mut scopes: Vec<Scope> = found.into_iter().map(|(_, lesson)| lesson.scope).collect();
        scopes.sort();
        scopes
    };
    assert_eq!(found(&[]), [project("p"), project("q"), Scope::User]);
    assert_eq!(found(&[project("p"), Scope::User]), [project("p"), Scope::User]);
    assert_eq!(found(&[project("q")]), [project("q")]);
}

#[test]
fn search_input_is_treated_as_plain_text() {
    let memory = Memory::new();
    let store = memory.open();
    put(&store, &rule("Run `make check`, near NOT the end: \"text\" OR column."));
    put(&store, &rule("先复现问题，再修改代码"));
    let long = "word ".repeat(100_000);
    for text in
        ["", "\"", "* OR", "NEAR(", "text:", "a\0b", "-", "' --", "{}^~", "\u{1b}[31m", &long]
    {
        _ = found(&store, text);
    }
    assert_eq!(found(&store, "NOT OR \"text\"").len(), 1);
    assert_eq!(found(&store, "如何修改配置"), ["先复现问题，再修改代码"]);
}

/// The lessons recalled for a task in project `p`.
fn told(store: &SqliteStore, task: &str, max_tokens: u64) -> Vec<String> {
    let told = recall::lessons_for_task(store, &[project("p")], (task, &[]), max_tokens).unwrap();
    told.into_iter().map(|it| it.text).collect()
}

#[test]
fn small_project_recalls_all_its_lessons_and_only_matching_user_lessons() {
    let memory = Memory::new();
    let store = memory.open();
    for text in ["Run `make check` first.", "The docs are built with mdbook."] {
        put(&store, &rule(text));
    }
    put(&store, &lesson(project("q"), LessonKind::Rule, "Paint the fence of the garden."));
    put(&store, &lesson(Scope::User, LessonKind::Rule, "Paint with two layers."));
    let mut all = told(&store, "rename a variable", 400);
    all.sort();
    assert_eq!(all, ["Run `make check` first.", "The docs are built with mdbook."]);
    let fitting = told(&store, "paint the fence of the garden", 400);
    assert_eq!(fitting.len(), 3);
    assert!(fitting.contains(&"Paint with two layers.".to_owned()), "{fitting:?}");
}

#[test]
fn large_project_ranks_lessons_by_terms_success_and_age() {
    let memory = Memory::new();
    let store = memory.open();
    let many = (0..300).map(|n| {
        let mut other = rule(&format!("Handle case number{n} of module number{n} with care."));
        other.last_occurred_ms = NOW - DAY;
        other
    });
    store.commit(&batch(many.collect())).unwrap();
    let variant = |text: &str, helped: u32, hurt: u32, age: i64| {
        let mut lesson = rule(text);
        (lesson.helped, lesson.hurt, lesson.last_occurred_ms) = (helped, hurt, NOW - age * DAY);
        put(&store, &lesson);
    };
    variant("Start the database before the tests of alpha.", 5, 0, 0);
    variant("Start the database before the tests of gamma.", 1, 2, 0);
    variant("Start the database before the tests of delta.", 5, 0, 400);
    let told = told(&store, "run the tests against the database", 400);
    let at = |name: &str| told.iter().position(|text| text.contains(name)).unwrap();
    assert_eq!(at("alpha"), 0, "{told:?}");
    assert!(at("alpha") < at("gamma") && at("alpha") < at("delta"), "{told:?}");
    assert!(told[..3].iter().all(|text| text.contains("database")), "{told:?}");
    let bytes: usize = told.iter().map(String::len).sum();
    assert!(told.len() == 3 && bytes <= 3 * 400, "{bytes}");
    // Lessons written by the user for this project come first.
    let mut own = rule("Answer in German.");
    own.origin = Origin::User;
    put(&store, &own);
    assert_eq!(self::told(&store, "run the tests against the database", 400)[0], own.text);
}

#[test]
fn lessons_over_the_token_limit_are_omitted_and_not_truncated() {
    let memory = Memory::new();
    let store = memory.open();
    put(&store, &rule(&"A long lesson about the parser. ".repeat(20)));
    put(&store, &rule("Short one."));
    assert_eq!(told(&store, "the parser", 50), ["Short one."]);
    assert_eq!(told(&store, "the parser", 0), [""; 0]);
}

#[test]
fn corrupt_database_is_set_aside_and_readable_lessons_are_recovered() {
    let memory = Memory::new();
    let items: Vec<Lesson> = (0..400)
        .map(|n| rule(&format!("Rule number {n:04} of many about subject-{n:04}.")))
        .collect();
    memory.open().commit(&batch(items)).unwrap();
    let mut bytes = std::fs::read(memory.path()).unwrap();
    // Pages in the middle of the file are overwritten, as by a failing disk.
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xA5);
    std::fs::write(memory.path(), bytes).unwrap();
    let store = memory.open();
    let n_left = store.lessons(&[]).unwrap().len();
    put(&store, &rule("A rule of afterwards."));
    assert_eq!(store.lessons(&[]).unwrap().len(), n_left + 1);
    let files = memory.files();
    let aside =
        files.iter().find(|name| name.starts_with("memory.db.broken-2")).expect("set aside");
    assert!(memory.told().contains(aside.as_str()), "{}", memory.told());
    assert_eq!(memory.told().lines().count(), 1, "{}", memory.told());
}

#[test]
fn memory_works_after_corruption_at_any_offset() {
    const PAGE: usize = 4096;
    let memory = Memory::new();
    let items: Vec<Lesson> =
        (0..300).map(|n| rule(&format!("Rule {n} about subject-{n}."))).collect();
    memory.open().commit(&batch(items)).unwrap();
    let whole = std::fs::read(memory.path()).unwrap();
    let mut n_set_aside = 0;
    for at in (0..whole.len()).step_by(3 * PAGE) {
        for length in [PAGE, 16] {
            let memory = Memory::new();
            std::fs::create_dir_all(memory.path().parent().unwrap()).unwrap();
            let mut bytes = whole.clone();
            bytes[at..at + length].fill(0xA5);
            std::fs::write(memory.path(), bytes).unwrap();
            let store = memory.open();
            let new = rule("What comes afterwards.");
            let page = at / PAGE;
            store
                .commit(&batch(vec![new.clone()]))
                .unwrap_or_else(|error| panic!("page {page}: {error}"));
            store.lessons(&[]).unwrap_or_else(|error| panic!("page {page}: {error}"));
            let found = store.matching_lessons(&[], &index_terms("afterwards"), 5);
            let found = found.unwrap_or_else(|error| panic!("page {page}: {error}"));
            assert!(found.iter().any(|(_, lesson)| lesson.id == new.id), "page {page}");
            n_set_aside += usize::from(!memory.told().is_empty());
        }
    }
    assert!(n_set_aside > 10, "{n_set_aside}");
}

#[test]
fn non_database_file_is_set_aside() {
    for bytes in [&b"this was a database once, and now it is a text of some length"[..], &[0; 5000]]
    {
        let memory = Memory::new();
        std::fs::create_dir_all(memory.path().parent().unwrap()).unwrap();
        std::fs::write(memory.path(), bytes).unwrap();
        put(&memory.open(), &rule("A rule."));
        assert_eq!(memory.open().lessons(&[]).unwrap().len(), 1);
        let aside = memory.files().into_iter().find(|name| name.contains("broken")).unwrap();
        assert_eq!(std::fs::read(memory.path().with_file_name(aside)).unwrap(), bytes);
    }
}

#[test]
fn foreign_or_newer_database_is_left_unchanged() {
    let memory = Memory::new();
    let path = memory.path();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let check = |path: &Path, expected: &str| {
        let before = std::fs::read(path).unwrap();
        let store = SqliteStore::new(path.to_path_buf(), |line| panic!("{line}"));
        let written = store.commit(&batch(vec![rule("x")])).unwrap_err();
        for error in [written, store.lessons(&[]).unwrap_err()] {
            assert!(matches!(error, StoreError::Broken(_)));
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(std::fs::read(path).unwrap(), before);
    };
    let document = path.with_file_name("thesis.txt");
    std::fs::write(
        &document,
        "a text of years of work, which is no database whatever it is called",
    )
    .unwrap();
    check(&document, "is not a memory file of this program");
    put(&memory.open(), &rule("A rule."));
    for (version, expected) in [(99, "was written by a newer version"), (2, "by an older version")]
    {
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        drop(db);
        check(&path, expected);
    }
    let foreign = path.with_file_name("other.db");
    let db = rusqlite::Connection::open(&foreign).unwrap();
    db.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1;").unwrap();
    drop(db);
    check(&foreign, "is not a memory file of this program");
}

#[test]
#[ignore = "slow"]
fn long_lock_is_reported_as_locked() {
    let memory = Memory::new();
    let store = memory.open();
    put(&store, &rule("A rule."));
    let other = rusqlite::Connection::open(memory.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Reads continue while another process writes.
    assert_eq!(memory.open().lessons(&[]).unwrap().len(), 1);
    let error = store.commit(&batch(vec![rule("Another rule.")])).unwrap_err();
    assert!(matches!(error, StoreError::Locked), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    put(&store, &rule("Another rule."));
}

#[test]
fn pruning_removes_unhelpful_then_least_used_lessons() {
    let memory = Memory::new();
    let store = memory.open();
    for n in 0..6 {
        let mut item = rule(&format!("Rule {n} about subject-{n}."));
        item.frequency = n + 1;
        if n == 0 {
            item.origin = Origin::User;
        }
        if n == 5 {
            item.hurt = 9;
        }
        put(&store, &item);
    }
    assert_eq!(store.prune(NOW - DAY, 4).unwrap(), 2);
    let mut left: Vec<u32> =
        store.lessons(&[]).unwrap().into_iter().map(|item| item.frequency).collect();
    left.sort_unstable();
    // The user's lesson stays; unhelpful lessons are removed first, then the least used.
    assert_eq!(left, [1, 3, 4, 5]);
}

/// A trace of one project; each attempt has its error, or `None` if it succeeded.
fn traced(project: &str, n: u32, skill: &str, said: &[Option<(&str, &str)>]) -> ExecutionTrace {
    let attempts = said.iter().zip(1..).map(|(said, index)| {
        json!({
            "index": index, "timestamp_ms": 5, "context": {"tool": "Bash", "input": {"command": skill}},
            "activated_artifacts": [], "result": "", "success": said.is_none(),
            "error": said.map(|(_, error)| error), "code": said.map(|(code, _)| code),
            "signature": said.map(|(_, error)| error), "fix_applied": null, "fix_source": null,
        })
    });
    let well = said.last().is_some_and(Option::is_none);
    let id = format!("{project}-{skill}-{n}");
    serde_json::from_value(json!({
        "id": format!("{id}/1/1"), "skill_id": skill, "task_id": format!("{id}/1"), "session": id,
        "project": project, "turn": 1, "step": 0, "attempts": attempts.collect::<Vec<_>>(),
        "final_success": well, "needs_human": !well,
        "created_at_ms": 5 + i64::from(n), "duration_ms": 1,
    }))
    .unwrap()
}

#[test]
fn review_lists_important_findings_first() {
    let memory = Memory::new();
    let store = memory.open();
    let mut traces = Vec::new();
    for n in 0..40 {
        let (one, two) = ("example.com/acme/one", "example.com/acme/two");
        traces.push(traced(one, n, "Read", &[None]));
        let failed = ("COMMAND_FAILED", "ship: no zone specified");
        traces.push(traced(two, n, "Bash release", &[Some(failed), None]));
        if n < 4 {
            let told = ("COMMAND_FAILED", "/usr/bin/bash: line 1: md5: command not found");
            let held = ("REPEATED_CALL", "the same Bash call gave the same answer 4 times running");
            traces.push(traced(one, n, "Bash md5", &[Some(told), Some(held)]));
        }
    }
    store.commit(&Batch { traces, ..Batch::default() }).unwrap();
    let lesson = |project: &str, text: &str| {
        let scope = Scope::Project(format!("example.com/acme/{project}"));
        let mut lesson = super::memory::lesson(scope, LessonKind::FailurePattern, text);
        lesson.helped = 3;
        lesson
    };
    let items = [
        lesson("two", "Run `bin/ship` with `--zone eu` (it says: no zone)."),
        lesson("one", "Run `make check`, not `make test` (it says: no rule to make)."),
    ];
    let period = ReviewPeriod { from_ms: 0, to_ms: 100, project: None };
    let review = review(&store, &period, &items).unwrap();
    let page = review::render_markdown(&review);
    let mut rest = page.as_str();
    for part in [
        "# Review of all projects",
        "84 tasks in 84 sessions. Of 84 traces, 40 succeeded at the first attempt (48 %), 40 after a retry, 4 failed.",
        "One failure needs your attention.",
        "## Needs your attention",
        "| `/usr/bin/bash: line 1: md5: command not found` | Bash md5 | acme/one | 8 |",
        "and 3 more sessions",
        "## Suggestions",
        "+++ b/CODE_LAW.md\n# acme/one\n+- Run `make check`, not `make test` (it says: no rule to make).\n# acme/two\n\
         +- Run `bin/ship` with `--zone eu` (it says: no zone).\n",
        "Helped 3 times: ",
        "Failures without a lesson",
        "- `/usr/bin/bash: line 1: md5: command not found`: 4 times in 4 sessions, resolved in 0 of 4 cases.",
        "## Most frequent failures",
        "| 40 | 40 | Bash release | `ship: no zone specified` | 40 of 40 |",
        "## Kinds of calls",
        "| Bash release | 40 | 0 | 40 | 0 | 100 % |",
        "## Memory",
        "the most helpful first",
        "## How this was counted",
    ] {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("{part}\nis not in its place in\n{page}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!page.contains("the same Bash call"), "what was held back is no failure\n{page}");
}

pub(crate) fn store(test: &Test) -> SqliteStore {
    SqliteStore::new(test.home().join(".local/share/agent/memory.db"), |_| {})
}

/// Adds a lesson with `agent memory add` and returns its id.
fn add(test: &Test, args: &[&str]) -> String {
    let done = test.agent(&[&["memory", "add"], args].concat()).expect_code(0);
    done.stdout.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn memory_commands_add_search_show_edit_and_forget() {
    let test = Test::new();
    let done = test.agent(&["memory", "list"]).expect_code(0).expect_stdout("");
    done.expect_one_line_of_stderr("no lessons yet");
    assert!(!test.home().join(".local/share/agent").exists());
    let id = add(&test, &["Run", "`make check`", "before a commit."]);
    let own = add(&test, &["--user", "--kind", "pattern", "先复现问题，再修改代码"]);
    let list = test.agent(&["memory", "list"]).expect_code(0).stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.contains("rule     project") && list.contains("pattern  user"), "{list}");
    let found = test.agent(&["memory", "search", "复现"]).expect_code(0).stdout;
    assert!(found.contains(&own) && !found.contains(&id), "{found}");
    let show = test.agent(&["memory", "show", &id[..5]]).expect_code(0).stdout;
    for part in ["says      Run `make check` before a commit.", "from      you", "recalled  0×"] {
        assert!(show.contains(part), "{part}\n{show}");
    }
    test.agent(&["memory", "edit", &id, "--text", "Run `make all` before a push."]).expect_code(0);
    let list = test.agent(&["memory", "list", "--project", "--json"]).expect_code(0).stdout;
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["id"], id.as_str());
    assert_eq!(list[0]["text"], "Run `make all` before a push.");
    test.agent(&["memory", "forget", &id])
        .expect_code(2)
        .expect_one_line_of_stderr("confirm with --yes");
    let done = test.in_terminal(&["memory", "forget", &id], "n\n");
    assert!(done.stdout.contains("nothing is forgotten"), "{}", done.stdout);
    test.agent(&["memory", "forget", "--yes", &id[..6]])
        .expect_code(0)
        .expect_stdout(&format!("forgot {id}\n"));
    let list = test.agent(&["memory", "list"]).expect_code(0).stdout;
    assert!(list.lines().count() == 1 && list.contains(&own), "{list}");
}

#[test]
fn memory_edit_opens_the_users_editor() {
    let test =
        Test::new().file("editor", "#!/bin/sh\nprintf 'Run the linter\\nfirst.\\n' > \"$1\"\n");
    let editor = format!("sh {}", test.root().join("editor").display());
    let test = test.env("EDITOR", &editor);
    let id = add(&test, &["Run the tests first."]);
    test.agent(&["memory", "edit", &id])
        .expect_code(0)
        .expect_stdout(&format!("{id}  Run the linter first.\n"));
}

#[test]
fn rejected_memory_input_is_explained() {
    let test = Test::new();
    let check = |args: &[&str], part: &str| {
        let done = test.agent(&[&["memory"], args].concat());
        done.expect_code(2).expect_one_line_of_stderr(part);
    };
    check(&["add", "run `DB_PASSWORD=hunter2 ./deploy.sh`"], "looks like a secret");
    check(&["add", "use ghp_abcdefghijklmnopqrstuvwxyz0123456789"], "looks like a secret");
    check(&["add", "  "], "the text is empty");
    check(&["show", "abc"], "no lesson \"abc\" in ");
    check(&["forget", "--yes", "abc"], "`agent memory list --all`");
}

#[test]
fn ambiguous_id_prefix_is_refused() {
    let test = Test::new();
    let mut first: Vec<String> = Vec::new();
    // At least two of 17 items have ids with the same first digit.
    for n in 0..17 {
        let id = add(&test, &[&format!("Rule about subject-{n}.")]);
        if let Some(twin) = first.iter().find(|twin| twin[..1] == id[..1]) {
            assert_ne!(twin, &id);
            test.agent(&["memory", "show", &id[..1]])
                .expect_code(2)
                .expect_one_line_of_stderr("is the beginning of 2 ids; write more of it");
            return;
        }
        first.push(id);
    }
    panic!("17 items with 17 first digits");
}

#[test]
fn editing_the_text_removes_the_fix() {
    let test = Test::new();
    let lesson = missing_pytest(Scope::User, "python3 -m pytest");
    put(&store(&test), &lesson);
    let fix = || store(&test).find_lesson(&lesson.id).unwrap().unwrap().failure.unwrap().fix;
    let before = fix();
    test.agent(&["memory", "edit", &lesson.id, "--project"]).expect_code(0);
    assert_eq!(fix(), before, "the words are the same");
    let text = "Never run pytest; ask me first.";
    test.agent(&["memory", "edit", &lesson.id, "--text", text]).expect_code(0);
    assert_eq!(fix(), None);
    let show = test.agent(&["memory", "show", &lesson.id]).expect_code(0).stdout;
    assert!(show.contains(text) && show.contains("from      you"), "{show}");
}

#[test]
fn counts_gained_during_an_edit_are_kept() {
    let test = Test::new();
    let there = test.root().display().to_string();
    let editor = format!(
        "#!/bin/sh\ncd '{there}'; touch opened\nwhile [ ! -e go ]; do sleep 0.02; done\n\
         printf 'Run the linter first.\\n' > \"$1\"\n"
    );
    let test = test.file("editor", editor).env("EDITOR", &format!("sh {there}/editor"));
    let id = add(&test, &["Run the tests first."]);
    let store = store(&test);
    let child = test.spawn(&["memory", "edit", &id]);
    let opened = test.root().join("opened");
    wait_for(|| opened.exists());
    store.commit(&credit(&id, 1, 0)).unwrap();
    test.write("go", "");
    assert!(child.wait_with_output().unwrap().status.success());
    let item = store.find_lesson(&id).unwrap().unwrap();
    assert_eq!((item.text.as_str(), item.helped), ("Run the linter first.", 1));
}

#[test]
fn forget_all_of_a_project_keeps_user_lessons() {
    let test = Test::new();
    add(&test, &["Run `make check` before a commit."]);
    add(&test, &["--user", "Answer in French."]);
    test.agent(&["memory", "forget", "--all", "--project", "--yes"])
        .expect_code(0)
        .expect_stdout("forgot 1 items and 0 traces\n");
    let list = test.agent(&["memory", "list", "--all"]).expect_code(0).stdout;
    assert!(list.lines().count() == 1 && list.contains("French"), "{list}");
    test.agent(&["memory", "forget", "--all", "--yes"]).expect_code(0);
    let bytes = std::fs::read(test.home().join(".local/share/agent/memory.db")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("Answer in French"), "what is forgotten is overwritten");
}

#[test]
fn doctor_shows_the_database_path() {
    let test = Test::new();
    let doctor = || test.agent(&["doctor", "--offline"]).stdout;
    let line = |text: &str| {
        let line = text.lines().find(|line| line.contains(" memory "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(line(&doctor()).contains("made when something is learnt"));
    add(&test, &["Run `make check` before a commit."]);
    assert!(line(&doctor()).contains("memory.db: 1 items, 0 traces"), "{}", doctor());
    let file = test.home().join(".local/share/agent/memory.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xA5);
    std::fs::write(&file, bytes).unwrap();
    let said = doctor();
    assert!(line(&said).starts_with('✗') && line(&said).contains("damaged"), "{said}");
}

#[test]
fn database_path_is_configurable() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own/mine.db");
    let test = Test::new().user_config(&format!("[learning]\ndatabase = \"{}\"\n", file.display()));
    add(&test, &["Run `make check` before a commit."]);
    assert!(file.exists());
    let test = Test::new().user_config("[learning]\ndatabase = \"mine.db\"\n");
    test.agent(&["memory", "list"])
        .expect_code(2)
        .expect_one_line_of_stderr("learning.database: \"mine.db\" is not an absolute path");
}

#[test]
fn database_inside_the_project_is_refused() {
    let test = Test::new().script("text: done");
    let file = test.root().join("work/mine.db");
    let test = test.user_config(&format!("[learning]\ndatabase = \"{}\"\n", file.display()));
    let said = test.run(&["say hello"]).expect_code(2);
    assert!(said.stderr.contains("name a file outside of it"), "{}", said.stderr);
    assert!(!file.exists());
}

/// Variable that turns this test's process into a writer for [`acknowledged_commits_survive_kills`].
const WRITER: &str = "AGENT_MEMORY_WRITER";

/// Commits until killed and prints what was acknowledged; does nothing unless requested.
#[test]
fn writer() {
    let Ok(path) = std::env::var(WRITER) else { return };
    let store = SqliteStore::new(PathBuf::from(path), |line| panic!("{line}"));
    let own = std::process::id();
    for n in 1_u64.. {
        let text = format!("Rule {n} of writer{own} about subject-{own}-{n}.");
        match store.commit(&batch(vec![rule(&text)])) {
            // Small writes to a pipe are atomic.
            Ok(_) => say(&format!("ack {own} {n}")),
            Err(error) => say(&format!("failed {error}")),
        }
    }
}

/// Eight processes write to one memory and are killed at random. `AGENT_MEMORY_ROUNDS` sets the
/// number of rounds, about a second each.
#[test]
#[ignore = "slow"]
fn acknowledged_commits_survive_kills() {
    let writer = concat!(module_path!(), "::writer").trim_start_matches("it::");
    let n_rounds =
        std::env::var("AGENT_MEMORY_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_u32);
    let memory = Memory::new();
    put(&memory.open(), &rule("The first."));
    let mut acknowledged: Vec<(u32, u64)> = Vec::new();
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..n_rounds {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let mut command = std::process::Command::new(std::env::current_exe().unwrap());
                command.args([writer, "--exact", "--nocapture"]);
                command.env(WRITER, memory.path()).stdout(std::process::Stdio::null());
                command.stderr(std::process::Stdio::piped());
                let mut child = command.spawn().unwrap();
                let stderr = child.stderr.take().unwrap();
                let reader =
                    std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
                let life = std::time::Duration::from_millis(300 + random() % 900);
                let killer = std::thread::spawn(move || {
                    std::thread::sleep(life);
                    child.kill().unwrap();
                    child.wait().unwrap();
                });
                (reader, killer)
            })
            .collect();
        for (reader, killer) in writers {
            killer.join().unwrap();
            for line in reader.join().unwrap().lines() {
                let words: Vec<&str> = line.split(' ').collect();
                match words.as_slice() {
                    ["ack", own, n] => {
                        acknowledged.push((own.parse().unwrap(), n.parse().unwrap()));
                    }
                    _ => panic!("{line}"),
                }
            }
        }
    }
    assert!(acknowledged.len() > 8 * n_rounds as usize, "{}", acknowledged.len());
    let store = memory.open();
    let texts: std::collections::HashSet<String> =
        store.lessons(&[]).unwrap().into_iter().map(|item| item.text).collect();
    for (own, n) in &acknowledged {
        let text = format!("Rule {n} of writer{own} about subject-{own}-{n}.");
        assert!(texts.contains(&text), "lost: {text}");
    }
    let health = store.check_health().unwrap().unwrap();
    assert_eq!((health.damage, memory.told()), (Vec::<String>::new(), String::new()));
    // The index matches the items: each is found by its unique word.
    for (own, n) in acknowledged.iter().rev().take(50) {
        let found = found(&store, &format!("writer{own} subject-{own}-{n}"));
        assert!(found.iter().any(|text| text.contains(&format!("-{own}-{n}."))), "{found:?}");
    }
    if n_rounds > 2 {
        say(&format!(
            "memory: {} commits of {} processes, none lost",
            acknowledged.len(),
            8 * n_rounds
        ));
    }
}
