//! Both stores of lessons pass the same tests: the file of a user, and the PostgreSQL database of a team.

use std::time::Instant;

use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::recall;
use agent_learning::store::{
    Batch, LearnOutcome, LessonState, PostgresStore, SqliteStore, Store, StoreError, TeamReport,
};
use agent_protocol::recall::LessonKind;

use crate::lessons::memory::{MISSING, NOW, batch, credit, found, lesson, missing_pytest, project};
use crate::support::postgres::Postgres;
use crate::support::say;

/// As a team gets it: without cases of its own.
fn fresh(lesson: Lesson) -> Lesson {
    Lesson { helped: 0, sources: Vec::new(), ..lesson }
}

fn rule(text: &str, at_ms: i64) -> Lesson {
    Lesson { last_occurred_ms: at_ms, ..fresh(lesson(project("p"), LessonKind::Rule, text)) }
}

fn texts(lessons: &[Lesson]) -> Vec<&str> {
    lessons.iter().map(|lesson| lesson.text.as_str()).collect()
}

/// Two users of one store.
fn check_store(one: &impl Store, other: &impl Store) {
    assert_eq!(one.lessons(&[]).unwrap(), []);
    assert_eq!(found(one, "anything at all"), [""; 0]);

    // Learning, and learning again.
    let pair = fresh(missing_pytest(project("p"), "python3 -m pytest"));
    let (old, new) = (rule("Run `make fmt`.", NOW - 9), rule("Run `make gen` first.", NOW + 9));
    let there = fresh(lesson(project("q"), LessonKind::Rule, "Run `make gen` elsewhere."));
    let all = batch(vec![old.clone(), pair.clone(), new.clone(), there.clone()]);
    assert_eq!(one.commit(&all).unwrap(), [LearnOutcome::New; 4]);
    let again = Lesson { last_occurred_ms: NOW + 5, ..pair.clone() };
    assert_eq!(other.commit(&batch(vec![again])).unwrap(), [LearnOutcome::Reinforced]);
    let known = one.find_lesson(&pair.id).unwrap().unwrap();
    assert_eq!((known.frequency, known.text.as_str()), (2, pair.text.as_str()));

    // Finding.
    let here = [project("p")];
    let latest = one.lessons(&here).unwrap();
    assert_eq!(texts(&latest), [new.text.as_str(), &pair.text, &old.text]);
    assert_eq!(one.lessons(&[]).unwrap().len(), 4);
    assert_eq!(one.lessons(&[project("p"), project("q")]).unwrap().len(), 4);
    assert_eq!(texts(&one.latest_lessons(&here, 2).unwrap()), [new.text.as_str(), &pair.text]);
    let key = pair.failure.as_ref().unwrap().key();
    assert_eq!(texts(&one.lessons_about(&here, &key).unwrap()), [pair.text.as_str()]);
    assert_eq!(one.lessons_about(&[project("q")], &key).unwrap(), []);
    assert_eq!(one.lessons_about(&here, "Bash\nruff").unwrap(), []);
    assert_eq!(found(one, "pytest command")[0], pair.text);
    let matching = one.matching_lessons(&here, "gen ", 9).unwrap();
    assert!(matching.len() == 1 && matching[0].1.id == new.id && matching[0].0 > 0.0);
    assert_eq!(one.find_lesson(&pair.id[..6]).unwrap().unwrap().id, pair.id);
    assert_eq!(one.find_lesson("zz").unwrap(), None);
    assert!(matches!(one.find_lesson(""), Err(StoreError::Ambiguous(_, 4))));
    let task = recall::lessons_for_task(one, &here, ("pytest", &[]), 400).unwrap();
    assert_eq!(task[0].text, pair.text);

    // Outcomes, and a lesson that hurts.
    one.commit(&credit(&new.id, 1, 0)).unwrap();
    one.commit(&credit("gone", 1, 0)).unwrap();
    let known = one.find_lesson(&new.id).unwrap().unwrap();
    assert_eq!((known.helped, known.hurt), (1, 0));
    other.commit(&credit(&pair.id, 0, 5)).unwrap();
    assert_eq!(one.lessons_about(&here, &key).unwrap(), []);
    assert_eq!(found(one, MISSING), [""; 0]);
    assert!(!texts(&one.latest_lessons(&here, 9).unwrap()).contains(&pair.text.as_str()));
    assert!(one.find_lesson(&pair.id).unwrap().is_some() && one.lessons(&here).unwrap().len() == 3);

    // Forgetting.
    assert!(one.forget_lesson(&new.id).unwrap() && !one.forget_lesson(&new.id).unwrap());
    assert_eq!(other.find_lesson(&new.id).unwrap(), None);
    assert_eq!(found(one, "gen"), [there.text.as_str()]);
}

#[test]
fn file_passes_the_tests_of_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let open = || SqliteStore::new(dir.path().join("memory.db"), |line| panic!("{line}"));
    check_store(&open(), &open());
}

#[test]
fn changes_of_a_lesson_in_the_file_are_seen_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let open = || SqliteStore::new(dir.path().join("memory.db"), |line| panic!("{line}"));
    let (one, other) = (open(), open());
    let old = rule("Run `make fmt`.", NOW);
    one.commit(&batch(vec![old.clone()])).unwrap();
    let longer = "Run `make fmt` before a commit.";
    let change = |lesson: &mut Lesson| longer.clone_into(&mut lesson.text);
    assert_eq!(other.update_lesson(&old.id, change).unwrap().unwrap().text, longer);
    assert_eq!(one.find_lesson(&old.id).unwrap().unwrap().text, longer);
    assert_eq!(one.update_lesson("gone", |_| ()).unwrap(), None);
}

#[test]
#[ignore = "slow"]
fn postgres_passes_the_tests_of_a_store() {
    let Some(server) = Postgres::start("a store in PostgreSQL") else { return };
    let open = |machine| PostgresStore::connect(&server.url(), machine).unwrap();
    check_store(&open("one"), &open("two"));
}

#[test]
#[ignore = "slow"]
fn lessons_of_a_team_prove_themselves_by_votes_of_machines() {
    let Some(server) = Postgres::start("votes of machines") else { return };
    let open =
        |machine: usize| PostgresStore::connect(&server.url(), &machine.to_string()).unwrap();
    let team = Scope::team("example.com/team/app");
    let pair = missing_pytest(project("p"), "python3 -m pytest").to_shared(&team);
    let (first, second) = (open(1), open(2));
    let state = || {
        let lessons = first.team_lessons(&team).unwrap();
        let it = &lessons[0];
        assert_eq!(
            first.proven_lessons(&team).unwrap().len() == 1,
            it.state == LessonState::Proven
        );
        (it.state, it.lesson.frequency, it.lesson.helped, it.lesson.hurt)
    };
    let send = |store: &PostgresStore, report| store.send(&team, &report).unwrap();
    let outcome =
        |helped, hurt| TeamReport::Outcome(credit(&pair.id, helped, hurt).credits.remove(0));
    for _ in 0..3 {
        send(&first, TeamReport::Learned(Box::new(pair.clone())));
    }
    assert_eq!(state(), (LessonState::Candidate, 1, 0, 0), "one machine has one vote");
    send(&second, TeamReport::Learned(Box::new(pair.clone())));
    assert_eq!(state(), (LessonState::Proven, 2, 0, 0), "a second machine learnt it");
    send(&first, outcome(0, 1));
    assert_eq!(state(), (LessonState::Retired, 2, 0, 1), "it hurts more machines than it helps");
    send(&second, outcome(1, 0));
    send(&second, outcome(1, 0));
    assert_eq!(state(), (LessonState::Proven, 2, 1, 1));
    send(&first, TeamReport::Retired { id: pair.id.clone(), reason: "it is wrong".to_owned() });
    assert_eq!(state().0, LessonState::Retired);
    assert_eq!(first.team_lessons(&team).unwrap()[0].reason.as_deref(), Some("it is wrong"));
    send(&open(3), TeamReport::Learned(Box::new(pair.clone())));
    assert_eq!(state().0, LessonState::Retired, "nobody learns it again");

    // Fifty machines learn the same pair and others at once, each twice.
    std::thread::scope(|scope| {
        for machine in 10..60 {
            let (team, send) = (&team, &send);
            scope.spawn(move || {
                let store = open(machine);
                for text in ["Run `make gen` first.".to_owned(), format!("Run `make {machine}`.")] {
                    let lesson = lesson(project("p"), LessonKind::Rule, &text).to_shared(team);
                    let id = lesson.id.clone();
                    let learned = TeamReport::Learned(Box::new(lesson));
                    send(&store, learned.clone());
                    send(&store, learned);
                    send(&store, TeamReport::Outcome(credit(&id, 1, 0).credits.remove(0)));
                    let spent = |tokens| TeamReport::Spent {
                        day: "2026-01-02".to_owned(),
                        run: machine.to_string(),
                        tokens,
                        cost_usd: 0.5,
                    };
                    send(&store, spent(7));
                    send(&store, spent(5));
                }
            });
        }
    });
    let lessons = first.team_lessons(&team).unwrap();
    let common = lessons.iter().find(|it| it.lesson.text.contains("gen")).unwrap();
    assert_eq!((common.lesson.frequency, common.lesson.helped), (50, 50));
    assert_eq!(lessons.len(), 52);
    let spent = server.sql("SELECT sum(tokens) || ' ' || sum(cost_usd) FROM agent_team.spending");
    assert_eq!(spent, ["350 25"], "the most of each process counts");
}

#[test]
#[ignore = "slow"]
fn databases_of_other_versions_and_read_only_ones_are_named() {
    let Some(server) = Postgres::start("databases of other versions") else { return };
    let connect = || PostgresStore::connect(&server.url(), "1");
    let refused = |done: Result<(), StoreError>| done.expect_err("an error").to_string();
    assert!(!PostgresStore::prepare(&server.url()).unwrap(), "it is prepared already");

    server.sql("UPDATE agent_team.version SET version = 9, agent = '7.1.0'");
    for why in
        [refused(connect().map(drop)), refused(PostgresStore::prepare(&server.url()).map(drop))]
    {
        assert!(why.contains("has version 9") && why.contains("use agent 7.1.0"), "{why}");
    }
    server.sql("UPDATE agent_team.version SET version = 1");

    let team = Scope::team("example.com/team/app");
    let report = TeamReport::Learned(Box::new(rule("Run `make gen`.", NOW).to_shared(&team)));
    connect().unwrap().send(&team, &report).unwrap();
    server.sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let store = connect().unwrap();
    let why = refused(store.send(&team, &report));
    assert!(why.contains("may not be written"), "{why}");
    assert_eq!(store.team_lessons(&team).unwrap().len(), 1, "it can be read");
    server.sql("SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only");

    // A connection that ends in a transaction of others, and what no database can hold.
    let store = connect().unwrap();
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agent'",
    );
    assert!(matches!(store.send(&team, &report), Err(StoreError::Unreachable(_))));
    let nul = TeamReport::Learned(Box::new(rule("a \0 b", NOW).to_shared(&team)));
    let done = connect().unwrap().send(&team, &nul);
    assert!(matches!(done, Ok(()) | Err(StoreError::Rejected(_))), "{done:?}");

    server.sql("DROP SCHEMA agent_team CASCADE");
    let why = refused(connect().map(drop));
    assert!(why.contains("agent team init"), "{why}");
    let why =
        refused(PostgresStore::connect("postgres://localhost:1/x?sslmode=maybe", "1").map(drop));
    assert!(why.contains("sslmode"), "{why}");
}

/// Prints the time of a recall among 100,000 lessons.
#[test]
#[ignore = "slow"]
fn recall_among_100_000_lessons_is_measured() {
    const WORDS: [&str; 12] = [
        "make", "test", "cargo", "lint", "server", "schema", "docker", "npm", "python", "cache",
        "fixture", "release",
    ];
    let n: usize = std::env::var("AGENT_LESSONS").map_or(5_000, |n| n.parse().unwrap());
    let many = |scope: &Scope| -> Vec<Batch> {
        let lessons: Vec<Lesson> = (0..n)
            .map(|at| {
                let (one, other) = (WORDS[at % 12], WORDS[at / 12 % 12]);
                let text =
                    format!("Run `{one} {other} target{at}` after module{} failed.", at % 997);
                let lesson = lesson(scope.clone(), LessonKind::Pattern, &text).to_shared(scope);
                Lesson { last_occurred_ms: NOW + i64::try_from(at).unwrap(), ..lesson }
            })
            .collect();
        lessons.chunks(1000).map(|part| batch(part.to_vec())).collect()
    };
    let team = Scope::team("example.com/team/app");
    let dir = tempfile::tempdir().unwrap();
    let file = SqliteStore::new(dir.path().join("memory.db"), |line| panic!("{line}"));
    for part in many(&team) {
        file.commit(&part).unwrap();
    }
    measure("SQLite", n, &file, &team);
    let Some(server) = Postgres::start("recall among many lessons") else { return };
    let store = PostgresStore::connect(&server.url(), "1").unwrap();
    for part in many(&team) {
        store.commit(&part).unwrap();
    }
    server.sql("VACUUM ANALYZE");
    measure("PostgreSQL", n, &store, &team);
    let began = Instant::now();
    let n_proven = store.proven_lessons(&team).unwrap().len();
    say(&format!("PostgreSQL: {n_proven} proven lessons in {:?}", began.elapsed()));
}

fn measure(name: &str, n: usize, store: &impl Store, team: &Scope) {
    let tasks = ["make the docker test of module12 pass", "target777 fails in the cargo release"];
    let mut times = Vec::new();
    for round in 0..20 {
        let began = Instant::now();
        let scopes = [project("p"), team.clone()];
        let told = recall::lessons_for_task(store, &scopes, (tasks[round % 2], &[]), 400).unwrap();
        times.push(began.elapsed());
        assert!(!told.is_empty());
    }
    times.sort();
    say(&format!("{name}: recall among {n} lessons: median {:?}, most {:?}", times[10], times[19]));
}

#[test]
fn users_own_lessons_are_not_for_the_team() {
    let team = Scope::team("example.com/team/app");
    let lesson = Lesson { origin: Origin::User, ..rule("Run `make gen`.", NOW) };
    let rules = agent_learning::lesson_filter::SharingRules::default();
    let why = rules.objection(&lesson.to_shared(&team), |_, _| true);
    assert_eq!(why.as_deref(), Some("its user wrote it"));
}
