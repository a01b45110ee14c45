//! `agent eval`: suites, variants, results, and reports.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::server::{Server, json, sse_calls, sse_text};
use crate::support::{Done, Test, running};

/// A prompt that lacks most rules of `prompts/system/decision.md`; that of docs/EVAL.md.
const TERSE: &str = "# Decisions\n\
    - Use Glob, Grep, Read, Write, Edit and MultiEdit for files; Bash to build, test, run and for git, or `sed` for the same change in many files.\n\
    - Change the least that solves the task, in the style of the code around it.\n";
const TERSE_VARIANT: &str = "terse:prompts.system/decision.md=terse.md";

/// Runs `agent eval` with the scripted model; the results are in `out`.
fn eval(test: &Test, args: &[&str]) -> Done {
    test.agent(&with_script(args))
}

fn with_script<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["eval", "--model", "script", "-o", "out"], args].concat()
}

fn report(test: &Test) -> Value {
    serde_json::from_str(&test.read("out/report.json")).unwrap()
}

/// The runs: task, variant, repetition, outcome.
fn outcomes(report: &Value) -> Vec<String> {
    let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_owned();
    let runs = report["runs"].as_array().unwrap().iter();
    runs.map(|run| {
        let [task, variant, outcome] = ["task", "variant", "outcome"].map(|key| text(run, key));
        format!("{task} {variant} {} {outcome}", run["repetition"])
    })
    .collect()
}

/// A task, in TOML.
fn task(name: &str, checks: &str, script: &str) -> String {
    format!(
        "[[tasks]]\nname = \"{name}\"\nprompt = \"do it\"\nchecks = [{checks}]\ntimeout = \"2m\"\n\
         script = '''\n{script}'''\n\n"
    )
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn bundled_suite_shows_the_difference_of_two_prompts() {
    let test = Test::new().file("terse.md", TERSE);
    let done = eval(&test, &["basics", "--variant", "base", "--variant", TERSE_VARIANT]);
    let done = done.expect_code(0);
    let report = report(&test);
    let rows = &report["rows"];
    assert!(rows[0]["runs"].as_u64().unwrap() >= 10, "{rows}");
    assert_eq!(rows[0]["successes"], rows[0]["runs"], "{}", done.stderr);
    assert_eq!(rows[1]["runs"], rows[0]["runs"]);
    let comparison = &report["comparisons"][0];
    assert_eq!(comparison["verdict"], "worse", "{comparison}");
    assert_eq!(
        (&comparison["better"], &comparison["worse"]),
        (&0.into(), &7.into()),
        "{comparison}"
    );
    assert!(done.stdout.contains("terse succeeds less often than base"), "{}", done.stdout);

    // Each run has its own state, and its trace can be opened.
    let session = report["runs"][0]["session"].as_str().unwrap();
    let log = test.root().join("out").join(report["runs"][0]["log"].as_str().unwrap());
    assert!(log.exists(), "{}", log.display());
    let state = test.root().join("out/state");
    let mut show = test.command(&["trace", "show", session]);
    let show = Done::new(&show.env("XDG_STATE_HOME", state).output().unwrap());
    assert!(show.expect_code(0).stdout.contains("Edit max.sh"));
    assert!(!test.home().join(".local").exists(), "nothing in the user's state");
    assert!(!test.home().join(".cache").exists(), "nothing in the user's caches");

    let page = test.read("out/report.md");
    for part in ["write-script", "terse", "46 %", "McNemar", "agent trace html 0"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn parallel_runs_give_the_same_results() {
    let test = Test::new().file("terse.md", TERSE);
    let args =
        ["basics", "--variant", "base", "--variant", TERSE_VARIANT, "--task", "fix-bug", "--task"];
    let args = [&args[..], &["stale-read", "-n", "2"]].concat();
    eval(&test, &args).expect_code(0);
    let sequential = outcomes(&report(&test));
    assert_eq!(sequential.len(), 8, "{sequential:?}");
    std::fs::rename(test.root().join("out"), test.root().join("first")).unwrap();
    eval(&test, &[&args[..], &["--jobs", "4"]].concat()).expect_code(0);
    assert_eq!(outcomes(&report(&test)), sequential);
}

#[test]
fn killed_evaluation_ends_its_agent_and_keeps_the_results() {
    let wait = "call: Bash {\"command\": \"sleep 3071\"}\n---\ntext: done\n";
    let suite = task("quick", "'true'", "text: done\n") + &task("slow", "'true'", wait);
    let test = Test::new().file("s.toml", &suite);
    // (A killed process leaves its copy there.)
    let temporary = test.home().with_file_name("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let args = with_script(&["s.toml"]);
    let mut child = test.command(&args).env("TMPDIR", &temporary).spawn().unwrap();
    let results = test.root().join("out/results.jsonl");
    let lines = || std::fs::read_to_string(&results).unwrap_or_default().lines().count();
    let begun = Instant::now();
    while lines() < 2 || running("sleep 3071").is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(1), "the second run did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The agent and its command end with it.
    let begun = Instant::now();
    let of_it = || {
        let processes = running(&temporary.display().to_string());
        processes.into_iter().chain(running("sleep 3071")).collect::<Vec<_>>()
    };
    while !of_it().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", of_it());
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = std::fs::read_to_string(&results).unwrap();
    let run: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&run["task"], &run["outcome"]), (&"quick".into(), &"success".into()));
    let again = test.agent(&args).expect_code(2);
    assert!(again.stderr.contains("name a new directory"), "{}", again.stderr);
}

#[test]
fn interrupt_ends_an_evaluation_cleanly() {
    let slow = "call: Bash {\"command\": \"sleep 3072\"}\n---\ntext: done\n";
    let suite = task("quick", "'true'", "text: done\n") + &task("slow", "'true'", slow);
    let test = Test::new().file("s.toml", &suite);
    let child = test.spawn(&with_script(&["s.toml"]));
    let begun = Instant::now();
    while running("sleep 3072").is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(1), "the second run did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = Done::new(&child.wait_with_output().unwrap()).expect_code(130);
    assert!(running("sleep 3072").is_empty());
    assert!(done.stderr.contains("1 of 2 runs have no result"), "{}", done.stderr);
    assert_eq!(outcomes(&report(&test)), ["quick base 1 success"]);
}

#[test]
fn hanging_check_is_a_failure_with_a_reason() {
    let check = "'sleep 3073 & sleep 3073'\ncheck_timeout = \"1s\"".replace('\n', "]\n") + "#";
    let suite = task("hangs", &check, "text: done\n");
    let test = Test::new().file("s.toml", &suite);
    eval(&test, &["s.toml"]).expect_code(0);
    let run = &report(&test)["runs"][0];
    assert_eq!(run["outcome"], "failure");
    assert_eq!(run["reason"], "check `sleep 3073 & sleep 3073` did not end within 1 s");
    assert!(running("sleep 3073").is_empty());
}

#[test]
fn run_that_cannot_be_carried_out_is_no_result() {
    let suite = task("one", "'true'", "text: done\n")
        .replace("[[tasks]]", "[[tasks]]\nsetup = ['[[ -e $GO ]]']");
    let test = Test::new().file("s.toml", &suite);
    let done = eval(&test, &["s.toml"]).expect_code(1);
    assert!(done.stderr.contains("not carried out: setup"), "{}", done.stderr);
    assert_eq!(outcomes(&report(&test)), ["one base 1 error"]);
    assert_eq!(report(&test)["rows"][0]["rate"], Value::Null);
}

#[test]
fn model_of_a_server_is_evaluated_with_its_key_and_cost() {
    // It writes the file if the prompt of the variant tells it to.
    let server = Server::with(|request, _| {
        let (is_told, is_done) =
            (request.body.contains("Speak Latin"), request.body.contains("role\":\"tool\""));
        if is_told && !is_done {
            let input = serde_json::json!({"path": "a.txt", "content": "salve\n"});
            sse_calls(&[("Write", input)])
        } else {
            sse_text("done")
        }
    });
    let test = Test::new()
        .file("latin.md", "# Decisions\n- Speak Latin.\n")
        .file("s.toml", task("a", "'[[ $(cat a.txt) == salve ]]'", "text: done\n"))
        .env("OPENAI_API_KEY", "sk-test-1234567890");
    let url = format!("providers.openai.base_url={}", server.url());
    let price = "models.\"openai/m\".price_in=1000.0";
    let args = ["eval", "s.toml", "-o", "out", "-m", "openai/m", "--set", &url, "--set", price];
    let variants = ["--variant", "base", "--variant", "latin:prompts.system/decision.md=latin.md"];
    let price_out = ["--set", "models.\"openai/m\".price_out=1000.0"];
    test.agent(&[&args[..], &price_out, &variants].concat()).expect_code(0);
    let report = report(&test);
    assert_eq!(outcomes(&report), ["a base 1 failure", "a latin 1 success"]);
    assert_eq!(report["runs"][0]["model"], "openai/m");
    assert!(report["rows"][1]["cost_usd"].as_f64().unwrap() > 0.0, "{}", report["rows"]);
    let requests = server.finish();
    let key = Some("Bearer sk-test-1234567890");
    assert!(requests.iter().all(|request| request.header("authorization") == key));
}

#[test]
fn evaluation_without_a_usable_model_stops() {
    let refusal = serde_json::json!({"error": {"message": "wrong key"}});
    let server = Server::with(move |_, _| json(401, &refusal));
    let all: String =
        ["a", "b", "c", "d"].iter().map(|name| task(name, "'true'", "text: done\n")).collect();
    let test = Test::new().file("s.toml", all).env("OPENAI_API_KEY", "sk-test-1234567890");
    let url = format!("providers.openai.base_url={}", server.url());
    let args = ["eval", "s.toml", "-o", "out", "-m", "openai/m", "--set", &url];
    let done = test.agent(&args).expect_code(1);
    assert!(done.stderr.contains("stopped: 3 runs in a row"), "{}", done.stderr);
    assert!(done.stderr.contains("4 of 4 runs have no result"), "{}", done.stderr);
    assert_eq!(outcomes(&report(&test)).len(), 3);
    assert_eq!(report(&test)["rows"][0]["errors"], 3);
    server.finish();
}

#[test]
fn equal_repetitions_of_a_task_count_once() {
    let told = "when: Speak Latin\ntext: done\n---\ncall: Write {\"path\": \"a\", \"content\": \"\"}\n---\ntext: done\n";
    let suite = task("one", "'[[ -e a ]]'", told) + &task("two", "'true'", "text: done\n");
    let test = Test::new().file("s.toml", &suite).file("latin.md", "# Decisions\n- Speak Latin.\n");
    let variants = ["--variant", "base", "--variant", "latin:prompts.system/decision.md=latin.md"];
    eval(&test, &[&["s.toml", "-n", "6", "-j", "2"], &variants[..]].concat()).expect_code(0);
    let comparison = &report(&test)["comparisons"][0];
    assert_eq!((&comparison["pairs"], &comparison["worse"]), (&12.into(), &1.into()));
    assert_eq!(comparison["verdict"], "undecided", "{comparison}");
}

#[test]
fn limits_and_failed_checks_are_failures() {
    let loops = "times: any\ncall: LS {\"path\": \".\"}\n";
    let suite = task("loops", "'true'", loops).replace("timeout", "max_turns = 2\ntimeout")
        + &task("wrong", "'false', 'touch later'", "text: done\n");
    let test = Test::new().file("s.toml", &suite);
    eval(&test, &["s.toml"]).expect_code(0);
    let report = report(&test);
    let reason = |at: usize| report["runs"][at]["reason"].as_str().unwrap().to_owned();
    assert!(reason(0).starts_with("max_turns: "), "{}", reason(0));
    assert_eq!(reason(1), "check `false` exited 1");
    assert_eq!(report["runs"][1]["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn each_run_has_a_fresh_copy_of_the_directory() {
    let script = "call: Bash {\"command\": \"cat run.sh && ./run.sh >> log.txt && ls -A\"}\n---\ntext: done\n";
    let check = "'[[ $(cat log.txt link) == $(printf \"x\\nx\") ]]'";
    let suite = task("copy", check, script).replace("timeout", "directory = \"p\"\ntimeout");
    let test = Test::new().file("suites/s.toml", &suite).file("suites/p/run.sh", "echo x\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(test.root().join("suites/p/run.sh"), mode).unwrap();
    std::os::unix::fs::symlink("log.txt", test.root().join("suites/p/link")).unwrap();
    eval(&test, &["suites/s.toml", "-n", "3", "-j", "2"]).expect_code(0);
    let all: Vec<String> = (1..=3).map(|n| format!("copy base {n} success")).collect();
    assert_eq!(outcomes(&report(&test)), all);
    assert_eq!(names_in(&test.root().join("suites/p")).len(), 2, "the original is unchanged");
}

/// A usage error before anything runs: nothing is created.
#[track_caller]
fn check_usage_error(suite: &str, args: &[&str], expected: &str) {
    let test = Test::new().file("s.toml", suite).file("terse.md", TERSE);
    let done = eval(&test, args).expect_code(2);
    assert!(done.stderr.contains(expected), "{}\nexpected {expected}", done.stderr);
    assert!(!test.root().join("out").exists());
}

#[test]
fn wrong_suites_and_variants_are_errors_before_anything_runs() {
    let good = task("a", "'true'", "text: done\n");
    let missing = good.replace("timeout", "directory = \"nowhere\"\ntimeout");
    let check = |args: &[&str], expected: &str| {
        check_usage_error(&good, &[&["s.toml"], args].concat(), expected);
    };
    check_usage_error(
        &missing,
        &["s.toml"],
        "s.toml:2: task \"a\": directory: \"nowhere\" does not",
    );
    check_usage_error("[[tasks]]\nnmae = \"a\"\n", &["s.toml"], "s.toml:2: unknown key `nmae`");
    check_usage_error(&good, &["no.toml"], "no.toml: ");
    check_usage_error(
        "[[tasks]]\nname = \"a\"\nprompt = \"x\"\nchecks = [\"true\"]\n",
        &["s.toml"],
        "model script: task \"a\" (line 2): it has no script",
    );
    check_usage_error(
        &task("a", "'true'", "cal: Read\n"),
        &["s.toml"],
        "task \"a\" (line 2): script:1",
    );
    let base = ["--variant", "base", "--variant"];
    let with = |variant| [&base[..], &[variant]].concat();
    check(&with("b"), "the variants base and b are equal");
    check(&with("b:limits.max_turns=100"), "the variants base and b are equal");
    check(&with("b:limits.max_turn=3"), "unknown key `max_turn`: did you mean `max_turns`?");
    check(&with("b:prompts.system/decison.md=terse.md"), "did you mean system/decision.md?");
    check(&with("b:prompts.system/decision.md=no.md"), "no.md: ");
    check(
        &[&with("b:limits.max_turns=3")[..], &["--variant", "b:effort=low"]].concat(),
        "a variant changes one setting",
    );
    check(&["--task", "b"], "the suite has no such task; it has: a");
}

#[test]
fn directory_with_other_files_is_not_used() {
    let test = Test::new().file("s.toml", task("a", "'true'", "text: done\n"));
    test.write("out/mine.txt", "x");
    let done = eval(&test, &["s.toml"]).expect_code(2);
    assert!(done.stderr.contains("-o out: holds other files"), "{}", done.stderr);
    assert_eq!(names_in(&test.root().join("out")), ["mine.txt"]);
}

#[test]
fn without_a_model_nothing_begins() {
    let test = Test::new();
    let done = test.agent(&["eval", "basics", "-o", "out"]).expect_code(2);
    assert!(done.stderr.contains("--model script plays the scripts"), "{}", done.stderr);
    assert!(!test.root().join("out").exists());
}

#[test]
fn names_and_output_are_never_markup() {
    let name = "<script>alert(1)</script><img src=x onerror=alert(2)> | [a](javascript:b)";
    let check = "'echo \"<b>bold</b>\"; false'";
    let test = Test::new().file("s.toml", task(name, check, "text: done\n"));
    eval(&test, &["s.toml"]).expect_code(0);
    let md = test.read("out/report.md");
    for markup in ["<script>alert", "<img", "<b>"] {
        assert!(!md.contains(markup), "{markup}\n{md}");
    }
    assert!(md.contains("\\| \\[a\\](javascript:b)"), "{md}");
}

#[test]
fn prompt_of_the_command_line_replaces_one_for_a_run() {
    let test = Test::new()
        .file("own.md", "# Decisions\n- Speak Latin.\n")
        .script("when: Speak Latin\ntext: salve\n---\ntext: hello");
    let set = "prompts.system/decision.md=own.md";
    let done = test.run(&["--set", set, "greet"]).expect_code(0);
    assert_eq!(done.stdout, "salve\n");
    let done = test.run(&["greet"]).expect_code(0);
    assert_eq!(done.stdout, "hello\n");
}

#[test]
fn documented_suite_is_valid() {
    let page = include_str!("../../../docs/EVAL.md");
    let suite = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let test = Test::new().file("s.toml", suite);
    eval(&test, &["s.toml"]).expect_code(0);
    let report = report(&test);
    assert_eq!(report["rows"][0]["successes"], report["rows"][0]["runs"], "{report}");
    assert!(page.contains(TERSE), "the prompt of the page is the one of the tests");
}
