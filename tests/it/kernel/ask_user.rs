//! AskUser: questions of the model to the user.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Server, sse_calls, sse_text};
use crate::support::{Pty, Test};

fn database() -> Value {
    json!({"question": "Which database?", "header": "Storage", "options": [
        {"label": "SQLite", "description": "one file"}, {"label": "Postgres"}]})
}

/// A project whose model asks these questions, expects this of the result, and says "noted".
fn asking(questions: &Value, expected: &str) -> Test {
    let call = json!({ "questions": questions });
    Test::new().script(&format!("call: AskUser {call}\n---\nexpect: {expected}\ntext: noted"))
}

/// The chat at the first question.
fn asked(test: &Test, rows: u16, columns: u16) -> Pty {
    let args = ["--model", "script:../script"];
    let mut pty = Pty::start(test, &args, rows, columns, "xterm-256color");
    pty.wait_for("›");
    pty.say("please");
    pty
}

fn answers(test: &Test) -> Value {
    test.events_of("question.answered")[0]["answers"].clone()
}

#[test]
fn number_answers_a_question_with_options() {
    let test = asking(&json!([database()]), "Which database\\? → Postgres");
    let mut pty = asked(&test, 24, 80);
    pty.wait_until_it_accepts_keys("answer in your own words");
    let screen = pty.screen();
    for part in [
        "? Storage: Which database?",
        "▸ 1    SQLite  one file",
        "  2    Postgres",
        "  3    answer in your own words",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    pty.send("2");
    pty.wait_for("noted");
    assert!(pty.all().contains("Which database? → Postgres"), "{}", pty.all());
    assert_eq!(answers(&test), json!([{"question": "Which database?", "selected": ["Postgres"]}]));
    let finished = &test.events_of("tool.finished")[0]["envelope"];
    assert_eq!(finished["data"]["answers"], answers(&test));
    // The user's time is not the tool's.
    assert_eq!(finished["stats"]["time_ms"], 0);
    assert_eq!(test.events_of("question.asked")[0]["questions"], json!([database()]));
    // A resumed session shows it.
    pty.leave();
    let resumed = Pty::chat(&test, &["-c"]);
    resumed.wait_for("Which database? → Postgres");
}

#[test]
fn four_questions_follow_each_other_and_can_be_corrected() {
    let questions = json!([
        database(),
        {"question": "Which port?", "options": [{"label": "80"}, {"label": "8080"}]},
        {"question": "Which features?", "multi_select": true,
         "options": [{"label": "logs"}, {"label": "cache"}, {"label": "tests"}]},
        {"question": "Which name?"},
    ]);
    let expected = "→ SQLite[\\s\\S]*→ 8080[\\s\\S]*→ logs, tests[\\s\\S]*→ the big one";
    let test = asking(&questions, expected);
    let mut pty = asked(&test, 24, 80);
    pty.wait_until_it_accepts_keys("Which database? (1/4)");
    // A wrong answer is taken back.
    pty.send("2");
    pty.wait_until_it_accepts_keys("Which port? (2/4)");
    pty.send("\x1b[D");
    pty.wait_until_it_accepts_keys("Which database? (1/4)");
    pty.send("\r");
    pty.wait_until_it_accepts_keys("Which port? (2/4)");
    pty.send("\x1b[B\r");
    pty.wait_until_it_accepts_keys("Which features? (3/4)");
    pty.wait_for(" · Space marks · Enter answers · Esc stops · Left back");
    pty.send(" ");
    pty.wait_for("[x] logs");
    pty.send("2");
    pty.wait_for("[x] cache");
    pty.send("2");
    pty.wait_for("[ ] cache");
    pty.send("\x1b[B ");
    pty.wait_for("[x] tests");
    pty.send("\r");
    pty.wait_until_it_accepts_keys("Which name? (4/4)");
    pty.send("the big one");
    pty.wait_for("answer › the big one");
    pty.send("\r");
    pty.wait_for("noted");
    let answers = answers(&test);
    let of = |name: &str| -> Vec<Value> {
        answers.as_array().unwrap().iter().map(|answer| answer[name].clone()).collect()
    };
    assert_eq!(
        of("selected"),
        [json!(["SQLite"]), json!(["8080"]), json!(["logs", "tests"]), json!([])]
    );
    assert_eq!(of("text"), [Value::Null, Value::Null, Value::Null, json!("the big one")]);
}

#[test]
fn words_answer_any_question_also_beside_options() {
    let questions = json!([database(), {"question": "Which features?", "multi_select": true,
        "options": [{"label": "logs"}, {"label": "cache"}]}]);
    let test = asking(&questions, "→ 3 files, not a database\\n.*→ cache, and metrics");
    let mut pty = asked(&test, 24, 80);
    pty.wait_until_it_accepts_keys("(1/2)");
    pty.send("\x1b[A\r");
    pty.wait_for("answer ›");
    // Esc goes back to the options.
    pty.send("\x1b");
    pty.wait_until_it_accepts_keys("SQLite");
    pty.send("3 files, not a database");
    pty.wait_for("answer › 3 files, not a database");
    pty.send("\r");
    pty.wait_until_it_accepts_keys("(2/2)");
    pty.send("2");
    pty.wait_for("[x] cache");
    pty.send("and metrics");
    pty.wait_for("answer › and metrics");
    pty.send("\r");
    pty.wait_for("noted");
}

#[test]
fn keys_that_were_not_meant_for_it_are_no_answer() {
    let test = asking(&json!([database()]), "→ Postgres");
    let mut pty = asked(&test, 24, 80);
    pty.wait_for("answer in your own words");
    pty.send("1");
    pty.wait_for("the question had just appeared: press 1 again");
    // A paste is not an answer either: it becomes a message.
    pty.send("\x1b[200~1\x1b[201~");
    pty.wait_for("Tab answers it; your text is kept");
    assert!(test.events_of("question.answered").is_empty());
    pty.send("\x15");
    pty.wait_until_it_accepts_keys("answer in your own words");
    pty.send("2");
    pty.wait_for("noted");
}

#[test]
fn esc_at_a_question_of_the_model_stops_the_turn() {
    let test = asking(&json!([database()]), "");
    let mut pty = asked(&test, 24, 80);
    pty.wait_until_it_accepts_keys("answer in your own words");
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    assert!(test.events_of("question.answered").is_empty());
    let finished = &test.events_of("tool.finished")[0]["envelope"];
    assert_eq!(finished["error"]["code"], "CANCELLED");
    pty.say("go on");
    pty.wait_for("noted");
}

#[test]
fn question_is_answered_in_a_tiny_terminal_and_after_a_resize() {
    let questions = json!([{"question": "Which of the databases shall it be?", "options": [
        {"label": "SQLite"}, {"label": "Postgres"}, {"label": "MariaDB"}]}]);
    let test = asking(&questions, "→ MariaDB");
    let mut pty = asked(&test, 5, 20);
    pty.wait_until_it_accepts_keys("▸ 1    SQLite");
    assert!(pty.screen().starts_with("Which of the"), "{}", pty.screen());
    // The rest of it can be read in the viewer.
    pty.send("\x14");
    pty.wait_for("it be?");
    pty.wait_for("MariaDB");
    pty.send("q");
    pty.wait_until_it_accepts_keys("▸ 1    SQLite");
    pty.send("\x1b[B");
    pty.wait_for("▸ 2    Postgres");
    pty.resize(24, 100);
    pty.wait_for("? Which of the databases shall it be?");
    pty.wait_for("  3    MariaDB");
    pty.resize(5, 20);
    pty.wait_for("▸ 2    Postgres");
    pty.send("\x1b[B");
    pty.wait_for("▸ 3    MariaDB");
    pty.send("\r");
    pty.wait("the answer", |screen| screen.contains("noted") || screen.contains("\n›\n"));
    assert_eq!(answers(&test)[0]["selected"], json!(["MariaDB"]));
}

#[test]
fn long_question_shows_its_end_and_line_breaks() {
    let question = |n: usize| {
        let points: String = (1..=n).map(|n| format!("{n}. point\n")).collect();
        json!([{"question": format!("I found:\n{points}Shall I delete them?"),
            "options": [{"label": "Yes"}, {"label": "No"}]}])
    };
    for (rows, n, hidden) in [(24, 14, None), (40, 30, None), (24, 40, Some("26 more lines"))] {
        let test = asking(&question(n), "→ No");
        let mut pty = asked(&test, rows, 80);
        pty.wait_until_it_accepts_keys("▸ 1    Yes");
        let screen = pty.screen();
        for line in ["? I found:\n  1. point\n", "  Shall I delete them?\n"] {
            assert!(screen.contains(line), "{line}\n{screen}");
        }
        assert_eq!(screen.contains("more lines (Ctrl-T shows them)"), hidden.is_some(), "{screen}");
        assert!(hidden.is_none_or(|hidden| screen.contains(hidden)), "{screen}");
        pty.send("2");
        pty.wait_for("noted");
        let all = pty.all();
        assert!(all.contains(&format!("{n}. point\n")), "{all}");
    }
}

#[test]
fn plain_mode_takes_numbers_and_words() {
    let questions = json!([database(), {"question": "Which features?", "multi_select": true,
        "options": [{"label": "logs"}, {"label": "cache"}]}, {"question": "Which name?"}]);
    let test = asking(&questions, "→ Postgres\\n.*→ logs, cache\\n.*→ 1 word")
        .stdin("go\n7\n2\n1, 2\n1 word\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    for part in
        ["Storage: Which database? (1/3)", "  1: SQLite (one file)", "choose one of", "noted"]
    {
        assert!(done.stdout.contains(part), "{part}\n{}", done.stdout);
    }
}

#[test]
fn questions_are_not_offered_where_nobody_can_be_asked() {
    let test = asking(&json!([database()]), "no tool named .{1,3}AskUser");
    let done = test.run(&["please"]).expect_code(0);
    assert_eq!(done.stdout, "noted\n");
    let started = &test.events_of("session.started")[0];
    assert!(!started["tools"].to_string().contains("AskUser"), "{started}");
}

#[test]
fn names_of_other_agents_are_accepted() {
    let envelope = Test::new().call(
        "AskUser",
        &json!({"questions": [{"question": "Which?", "header": "H", "multiSelect": true,
            "options": [{"label": "a", "description": "b"}]}]}),
    );
    assert_eq!(envelope["error"]["code"], "ASK_USER_UNAVAILABLE", "{envelope}");
    assert_eq!(envelope["context"]["params_input"]["questions"][0]["multi_select"], true);
}

#[test]
fn invalid_questions_are_refused_with_an_explanation() {
    let options = |n: usize| vec![json!({"label": "a"}); n];
    let test = Test::new();
    for (questions, expected) in [
        (json!(vec![database(); 5]), "questions"),
        (json!([]), "questions"),
        (json!([{"question": " "}]), "question 1 has no text"),
        (json!([{"question": "a", "options": options(30)}]), "options"),
        (json!([{"options": options(2)}]), "question"),
        (json!([{"question": "a", "options": [{"description": "b"}]}]), "label"),
    ] {
        let envelope = test.call("AskUser", &json!({ "questions": questions }));
        assert_eq!(envelope["error"]["code"], "INVALID_PARAM", "{envelope}");
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

/// An answer is the user's word: no compaction summarises it.
#[test]
fn answers_survive_compactions() {
    let answers = AtomicUsize::new(0);
    let server = Server::with(move |request, _| {
        if request.json().get("tools").is_none() {
            return sse_text("### Objectives & Status\nwork\n### Key Insights & Decisions\nnone");
        }
        match answers.fetch_add(1, Ordering::SeqCst) {
            0 => sse_calls(&[("AskUser", json!({"questions": [{"question": "Which name?"}]}))]),
            n if n < 14 => sse_calls(&[("Read", json!({"path": format!("data/{n}.txt")}))]),
            _ => sse_text("all is read"),
        }
    });
    let config = format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n[models.\"test/m\"]\n\
         context_window = 16384\n",
        server.url()
    );
    let text = "a line of some length that is read again and again\n".repeat(120);
    let test = (0..14).fold(Test::new().user_config(&config), |test, n| {
        test.file(&format!("data/{n}.txt"), &text)
    });
    let test = test.stdin("go\nthe quick brown fox\n");
    let done = test.agent(&["--plain"]).expect_code(0);
    assert!(done.stdout.contains("all is read"), "{}", done.stdout);
    assert!(!test.events_of("context.compacted").is_empty());
    let last = server.finish().last().unwrap().json().to_string();
    assert_eq!(last.matches("Which name? → the quick brown fox").count(), 1, "{last}");
}
