//! The verifier: another model is asked for evidence against the claims of an accepted answer.

use serde_json::{Value, json};

use crate::support::server::{self, Server};
use crate::support::{Done, Test, signal, wait_for};

const VERIFY: [&str; 2] = ["--set", "verify.model=script:../project/.verifier"];

/// A project whose main model follows `main`, and whose verifier follows `verifier`.
fn project(main: &str, verifier: &str) -> Test {
    Test::new().file("add.sh", "echo $(($1 - $2))\n").file(".verifier", verifier).script(main)
}

fn run(test: &Test, args: &[&str]) -> Done {
    let mut all = vec!["add two numbers"];
    all.extend(args);
    all.extend(VERIFY);
    test.run(&all)
}

fn verdict(objection: &str, quote: &str) -> String {
    let evidence = json!([{"where": "add.sh:1", "quote": quote}]);
    json!({"confirmed": false, "objection": objection, "evidence": evidence}).to_string()
}

fn purposes(test: &Test) -> Vec<String> {
    let requested = test.events_of("model.requested");
    requested.iter().map(|event| event["purpose"].as_str().unwrap().to_owned()).collect()
}

fn verification(test: &Test) -> Value {
    let mut found = test.events_of("verification");
    assert_eq!(found.len(), 1, "one look a turn");
    found.remove(0)
}

const READ: &str = "for: task\ncall: Read {\"path\": \"add.sh\"}\n---\nfor: task\n";

#[test]
fn objection_with_evidence_rejects_the_answer_once() {
    let main = r#"
text: It adds two numbers.
---
when: a verifier objected
call: Read {"path": "add.sh"}
---
call: Edit {"path": "add.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"}
---
text: It adds now.
"#;
    let said = verdict("it subtracts", "echo $(($1 - $2))");
    let test = project(main, &format!("{READ}expect: 1 - \ntext: Here it is: {said}"));
    let done = run(&test, &["--output-format", "json", "--check", "bash add.sh 2 0 | grep 2"]);
    let result = done.expect_code(0).lines()[0].clone();
    assert_eq!((&result["result"], &result["verified"]), (&json!("It adds now."), &json!(true)));
    assert_eq!(test.read("add.sh"), "echo $(($1 + $2))\n");
    // The new answer is judged only by the checks.
    assert_eq!(purposes(&test), ["main", "task", "task", "main", "main", "main"]);
    let verification = verification(&test);
    assert_eq!(
        (&verification["confirmed"], &verification["objection"]),
        (&json!(false), &json!("it subtracts"))
    );
    assert_eq!(verification["calls"], json!(["Read add.sh"]));
    let evaluation = &test.events_of("evaluation")[0]["failure"];
    assert_eq!(evaluation["signal"], "check_failed");
    assert_eq!(evaluation["chain"], "verifier");
    let feedback = test.events_of("feedback")[0]["text"].as_str().unwrap().to_owned();
    assert!(feedback.contains("- add.sh:1: echo $(($1 - $2))"), "{feedback}");
    // Its cost is part of the turn's cost.
    let spent: u64 = test
        .events_of("model.responded")
        .iter()
        .map(|event| event["usage"]["input_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(test.events_of("turn.finished")[0]["usage"]["input_tokens"], spent);
    // Its request: the task, the claim and the output of the checks.
    let asked = test.events_of("model.requested")[1]["question"].as_str().unwrap().to_owned();
    for part in ["Task: add two numbers", "Claim: It adds two numbers.", "passed:\n2"] {
        assert!(asked.contains(part), "{asked}");
    }
}

#[test]
fn objection_without_evidence_is_dismissed() {
    for said in [
        verdict("it is slow", "while true"),
        verdict("", "echo $(($1 - $2))"),
        // A short quote occurs in any file.
        verdict("it subtracts", "echo"),
        json!({"confirmed": true}).to_string(),
    ] {
        let test = project("text: done", &format!("{READ}text: {said}"));
        run(&test, &[]).expect_code(0).expect_stdout("done\n");
        let verification = verification(&test);
        let is_dismissed = verification["no_effect_reason"].is_string();
        assert_eq!(
            (verification["confirmed"] == true, is_dismissed),
            (!is_dismissed, verification["confirmed"] == false)
        );
        assert_eq!(purposes(&test), ["main", "task", "task"]);
    }
}

#[test]
fn broken_verifier_is_reported_and_does_not_fail_the_turn() {
    let calls = "times: any\nfor: task\ncall: LS {}";
    for verifier in [
        "for: task\nfault: empty",
        "times: any\nfor: task\ntext: I like it",
        calls,
        "for: main\ntext: no",
    ] {
        let test = project("text: done", verifier);
        run(&test, &["--check", "true"]).expect_code(0).expect_stdout("done\n");
        let verification = verification(&test);
        assert!(
            verification["no_effect_reason"].is_string() && verification["confirmed"].is_null(),
            "{verification}"
        );
        assert!(purposes(&test).len() <= 7, "a handful of answers");
        assert_eq!(test.events_of("turn.finished")[0]["ending"], "completed");
    }
    // A server that rejects the request.
    let server = Server::with(|_, _| server::json(401, &json!({"error": {"message": "no"}})));
    let test = Test::new().script("text: done").user_config(&format!(
        "[providers.test]\nbase_url = \"{}\"\n[verify]\nmodel = \"test/m\"\n",
        server.url()
    ));
    test.run(&["task"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(verification(&test)["no_effect_reason"], "it did not answer");
    // An unknown provider is reported before any request.
    test.run(&["task", "--set", "verify.model=nowhere/m"]).expect_code(2);
    test.run(&["task", "--set", "verify.mdel=x"]).expect_code(2).expect_stderr("model");
}

#[test]
fn verifier_cannot_change_files_and_its_reads_do_not_count() {
    let edit = r#"{"path": "add.sh", "old_string": "-", "new_string": "+"}"#;
    let verifier = format!(
        "for: task\ncall: Write {{\"path\": \"new\", \"content\": \"x\"}}\ncall: Edit {edit}\ncall: Bash {{\"command\": \"touch new\"}}\n\
         call: TodoWrite {{\"summary\": \"s\", \"todos\": []}}\ncall: Read {{\"path\": \"add.sh\"}}\n---\nfor: task\ntext: {}",
        verdict("it subtracts", "echo $(($1 - $2))")
    );
    let main = format!("text: done\n---\ncall: Edit {edit}\n---\nexpect: NOT_READ\ntext: done");
    let test = project(&main, &verifier);
    run(&test, &["--yolo"]).expect_code(0);
    assert_eq!(test.read("add.sh"), "echo $(($1 - $2))\n");
    assert!(!test.root().join("new").exists());
    let calls = verification(&test)["calls"].to_string();
    assert_eq!(calls.matches("UNKNOWN_TOOL").count(), 4, "{calls}");
    // A session with a verification can be resumed.
    test.script("text: again").run(&["-c", "go on"]).expect_code(0).expect_stdout("again\n");
}

#[test]
fn read_rules_apply_to_the_verifier() {
    let verifier = "for: task\ncall: Read {\"path\": \"add.sh\"}\ncall: Read {\"path\": \".env\"}\n---\nfor: task\ntext: {\"confirmed\": true}";
    let refused = |args: &[&str]| {
        let test = project("text: done", verifier).file(".env", "KEY=1\n");
        let mut all = vec!["go"];
        all.extend(args);
        all.extend(VERIFY);
        test.run(&all).expect_code(0);
        verification(&test)["calls"].clone()
    };
    let env = "Read .env: ACCESS_DENIED";
    assert_eq!(refused(&[]), json!(["Read add.sh", env]));
    assert_eq!(refused(&["--deny", "Read(add.sh)"]), json!(["Read add.sh: ACCESS_DENIED", env]));
    // No approval is requested for the verifier.
    let asks = ["--set", "permissions.ask=[\"Read(add.sh)\"]"];
    assert_eq!(refused(&asks), json!(["Read add.sh: APPROVAL_REQUIRED", env]));
}

#[test]
fn check_output_is_accepted_as_evidence() {
    let said = verdict("no test ran", "0 tests ran");
    let test = project("text: done\n---\ntext: none is there", &format!("for: task\ntext: {said}"));
    run(&test, &["--check", "echo 0 tests ran"]).expect_code(0).expect_stdout("none is there\n");
    assert_eq!(purposes(&test), ["main", "task", "main"]);
}

#[test]
fn verifier_respects_turn_and_budget_limits() {
    let test = project("text: done", "for: task\ntext: {\"confirmed\": true}");
    // No model call would be left to act on an objection.
    run(&test, &["--max-turns", "1"]).expect_code(0);
    assert_eq!(purposes(&test), ["main"]);
    assert_eq!(verification(&test)["no_effect_reason"], "a limit of the turn is reached");
}

#[test]
fn budget_counts_the_models_whose_price_is_known() {
    let main =
        "usage: 400000 0\ntext: done\n---\nusage: 400000 0\ncall: LS {}\n---\ntext: never asked";
    let verifier = format!("for: task\nusage: 1000000 0\ntext: {}", verdict("none", "0 tests ran"));
    let test = project(main, &verifier);
    let prices =
        ["price_in", "price_out"].map(|price| format!("models.\"script:../script\".{price}=1.0"));
    let mut args = vec!["--check", "echo 0 tests ran", "--max-budget-usd", "0.5"];
    for price in &prices {
        args.extend(["--set", price]);
    }
    let verifier = "does not count script:../project/.verifier, whose price is not known";
    run(&test, &args).expect_code(124).expect_stderr(verifier);
    assert_eq!(purposes(&test), ["main", "task", "main"]);
}

#[test]
fn objection_without_remaining_retries_keeps_the_answer() {
    let verifier = format!("for: task\nusage: 1000000 0\ntext: {}", verdict("none", "0 tests ran"));
    let test = project("text: done", &verifier);
    let check = ["--check", "echo 0 tests ran"];
    let accepted = |more: &[&str]| {
        run(&test, &[&check, more].concat()).expect_code(0).expect_stdout("done\n");
        assert_eq!(test.events_of("turn.finished")[0]["ending"], "completed");
        let verification = verification(&test);
        assert_eq!(verification["objection"], "none", "it is told all the same");
        verification["no_effect_reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        accepted(&["--set", "recovery.max_answer_retries=0"]),
        "answers are not sent back: recovery.max_answer_retries is 0"
    );
    // The verification itself uses up the remaining budget.
    let prices = ["script:../script", "script:../project/.verifier"]
        .map(|id| ["price_in", "price_out"].map(|price| format!("models.\"{id}\".{price}=1.0")));
    let mut budget = vec!["--max-budget-usd", "0.5"];
    for price in prices.as_flattened() {
        budget.extend(["--set", price]);
    }
    assert_eq!(accepted(&budget), "a limit of the turn is reached");
}

#[test]
fn template_placeholders_in_verifier_input_are_not_expanded() {
    let test = project("text: It adds.", "for: task\ntext: {\"confirmed\": true}");
    let mut args = vec!["put {{claim}} there", "--check", "echo {{files}} {{claim}}"];
    args.extend(VERIFY);
    test.run(&args).expect_code(0);
    let asked = test.events_of("model.requested")[1]["question"].as_str().unwrap().to_owned();
    assert!(asked.contains("Task: put {{claim}} there"), "{asked}");
    assert!(asked.contains("passed:\n{{files}} {{claim}}"), "{asked}");
    assert_eq!(asked.matches("It adds.").count(), 1, "{asked}");
}

#[test]
fn interrupt_ends_the_verifier() {
    let test = project("text: done", "for: task\npause: 1m\ntext: {\"confirmed\": true}");
    let mut args = vec!["run", "--model", "script:../script", "task"];
    args.extend(VERIFY);
    let child = test.spawn(&args);
    let asked = || {
        test.try_log()
            .and_then(|log| std::fs::read_to_string(log).ok())
            .is_some_and(|log| log.contains("\"purpose\":\"task\""))
    };
    wait_for(asked);
    signal(child.id(), "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
}

#[test]
fn verifier_of_an_untrusted_project_is_ignored() {
    let test = Test::new()
        .script("text: done")
        .file(".verifier", "for: task\ntext: {\"confirmed\": true}")
        .file(".agent/config.toml", "[verify]\nmodel = \"script:.verifier\"\n");
    test.run(&["task"]).expect_code(0).expect_stderr("ignored verify");
    assert_eq!(purposes(&test), ["main"]);
}
