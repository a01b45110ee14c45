//! Subcommands without tests of their own elsewhere.

use serde_json::Value;

use crate::support::Test;

#[test]
fn the_demo_repairs_its_project() {
    let test = Test::new();
    let done = test.agent(&["demo"]).expect_code(0);
    let first = done.stdout.lines().next().unwrap();
    assert!(first.contains("scripted") && first.contains("real"), "{first}");
    // As in the chat, not the trace.
    for part in [
        "› bash test.sh fails.",
        "✓ Grep \"largest|max\" in stats.sh",
        "✗ Edit stats.sh  File changed since last read",
        "     14 +     local max=$1",
        "✓ checks passed",
        "agent session undo -C",
    ] {
        assert!(done.stdout.contains(part), "{part}\n{}", done.stdout);
    }
    assert!(!done.stdout.contains("→ model"), "{}", done.stdout);
    let root = done.stdout.lines().find_map(|line| line.strip_prefix("$ cd ")).unwrap();
    let fixed = std::fs::read_to_string(format!("{root}/stats.sh")).unwrap();
    assert!(fixed.contains("# Somebody else was here"), "their change is kept");
    let tests =
        std::process::Command::new("bash").args(["test.sh"]).current_dir(root).output().unwrap();
    assert!(tests.status.success());
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn sessions_are_listed_shown_and_exported() {
    let test = Test::new().file("a.txt", "one\n").script(
        "call: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n\
         text: a.txt says two now",
    );
    test.run(&["change it"]).expect_code(0);
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert!(list.contains("completed") && list.contains("change it"), "{list}");
    let id = list.split_whitespace().next().unwrap().to_owned();
    let show = test.agent(&["session", "show", &id]).expect_code(0).stdout;
    assert!(show.contains("a.txt says two now") && show.contains("changed   a.txt"), "{show}");
    let md = test.agent(&["session", "export"]).expect_code(0).stdout;
    assert!(md.contains("## User\n\nchange it") && md.contains("+two"), "{md}");
    let trace = test.agent(&["trace", "show", &id]).expect_code(0).stdout;
    for part in ["▸ Read a.txt", "◂ Edit: success", "turn finished: completed (exit 0)"] {
        assert!(trace.contains(part), "{part}\n{trace}");
    }
    test.agent(&["session", "show", "nope"]).expect_code(2).expect_one_line_of_stderr("nope");
}

/// What was tried has its own lines; what to do next was advice for that moment.
#[test]
fn failed_turn_is_shown_without_advice() {
    let test = Test::new().script("times: any\ntext: I give up");
    test.run(&["try it", "--check", "false"]).expect_code(1);
    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    assert!(show.contains("\nfailed    not done (check_failed): "), "{show}");
    assert!(show.contains("\ntried     "), "{show}");
    for part in ["Next:", "continue with", "agent trace show", "Tried:"] {
        assert!(!show.contains(part), "{part}\n{show}");
    }
}

#[test]
fn config_show_names_the_source_of_each_value() {
    let test = Test::new()
        .user_config("model = \"ollama/q\"\n")
        .file(".agent/config.toml", "[limits]\nmax_turns = 7\n")
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let shown =
        test.agent(&["config", "show", "--set", "agents.max_turns=5"]).expect_code(0).stdout;
    let line = |key: &str| {
        let line = shown.lines().find(|line| line.starts_with(key));
        line.unwrap_or_else(|| panic!("{key}\n{shown}")).to_owned()
    };
    assert!(line("model = ").contains(".config/agent/config.toml:1"));
    assert!(line("limits.max_turns = 7").contains(".agent/config.toml:2"));
    assert!(line("providers.openai.base_url").contains("environment OPENAI_BASE_URL"));
    assert!(line("agents.max_turns = 5").contains("command line --set"));
    assert!(line("recovery.max_step_retries = 3").contains("default"));
    let schema = test.agent(&["config", "schema"]).expect_code(0).stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["limits"].is_object());
}

#[test]
fn checks_of_an_untrusted_project_do_not_run_until_it_is_trusted() {
    let config = "[checks]\ncommands = [\"touch checked\"]\n[permissions]\nallow = [\"Bash\"]\n";
    let test = Test::new().file(".agent/config.toml", config).script("text: ok");
    test.run(&["task"]).expect_code(2).expect_stderr("agent trust");
    let chat = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    assert!(chat.stdout.contains("ignored checks.commands"), "{}", chat.stdout);
    assert!(!test.root().join("checked").exists());
    test.run(&["task", "--check", "true"]).expect_code(0).expect_stderr("permissions.allow");
    test.agent(&["trust"]).expect_code(0);
    test.agent(&["trust"]).expect_code(0);
    test.run(&["task"]).expect_code(0);
    assert!(test.root().join("checked").exists());
}

#[test]
fn unknown_option_does_not_suggest_to_allow_everything() {
    let test = Test::new();
    let done = test.agent(&["run", "--foo", "x"]).expect_code(2).expect_stderr("'--foo'");
    assert!(!done.stderr.contains("yolo"), "{}", done.stderr);
    test.agent(&["run", "--modle", "x"]).expect_code(2).expect_stderr("'--model'");
}

#[test]
fn doctor_reports_what_works() {
    let test = Test::new();
    let done = test.agent(&["doctor", "--offline", "--set", "model=ollama/q"]).expect_code(0);
    for part in ["✓ bash", "✓ model      ollama/q at http://127.0.0.1:11434/v1"] {
        assert!(done.stdout.contains(part), "{part}\n{}", done.stdout);
    }
    test.agent(&["doctor", "--set", "model=openai/x"]).expect_code(1);
    let own = ["doctor", "--offline", "--model", "mine", "--base-url", "http://127.0.0.1:9"];
    let done = test.agent(&own).expect_code(0);
    let model = "✓ model      openai/mine at http://127.0.0.1:9";
    assert!(done.stdout.contains(model), "{}", done.stdout);
}

#[test]
fn doctor_reports_known_model_facts() {
    let test = Test::new();
    let doctor = |set: &[&str]| {
        let mut args = vec!["doctor", "--offline"];
        for value in set {
            args.extend(["--set", value]);
        }
        test.agent(&args).expect_code(0).stdout
    };
    let known =
        doctor(&["model=openai/gpt-5.5", "providers.openai.base_url=http://127.0.0.1:9/v1"]);
    let facts = "✓ facts      window 272,000 tokens (known of the model) · 5 in, 30 out, 0.5 cached $ per million tokens";
    assert!(known.contains(facts), "{known}");
    let unknown = doctor(&["model=vllm/mine"]);
    assert!(
        unknown.contains("! facts      window 128,000 tokens (assumed) · price not known"),
        "{unknown}"
    );
    assert!(unknown.contains("models.\"vllm/mine\".context_window"), "{unknown}");
    let said = doctor(&["model=vllm/mine", "models.\"vllm/mine\".context_window=65536"]);
    assert!(
        said.contains("✓ facts      window 65,536 tokens (configured) · price not known"),
        "{said}"
    );
}

#[test]
fn completions_are_written() {
    let test = Test::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(test.agent(&["completions", shell]).expect_code(0).stdout.contains("agent"));
    }
}

#[test]
fn help_and_version_answer_on_standard_output() {
    let test = Test::new();
    let done = test.agent(&["--version"]).expect_code(0);
    assert_eq!(done.stdout, format!("agent {}\n", env!("CARGO_PKG_VERSION")));
    let help = test.agent(&["--help"]).expect_code(0).stdout;
    let help_of_run = test.agent(&["run", "--help"]).expect_code(0).stdout;
    insta::assert_snapshot!("help", help);
    insta::assert_snapshot!("help_of_run", help_of_run);
}

#[test]
fn schemas_are_up_to_date() {
    use agent_protocol::event::Event;
    use code_agent::config::Config;
    check_schema("docs/events.schema.json", &schemars::schema_for!(Event));
    check_schema("docs/config.schema.json", &schemars::schema_for!(Config));
    let shown = Test::new().agent(&["config", "schema"]).expect_code(0).stdout;
    assert_eq!(shown, include_str!("../../../docs/config.schema.json"));
}

fn check_schema(path: &str, schema: &schemars::Schema) {
    let now = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if now != written && std::env::var("UPDATE_SCHEMA").is_ok() {
        std::fs::write(&path, &now).unwrap();
        return;
    }
    assert!(now == written, "run `UPDATE_SCHEMA=1 cargo test schemas_are_up_to_date` twice");
}

#[test]
fn demo_does_not_touch_files_beside_its_directory() {
    let test = Test::new().file("my.script", "precious\n");
    test.agent(&["demo", "--dir", "my"]).expect_code(0);
    assert_eq!(test.read("my.script"), "precious\n");
    test.agent(&["demo", "--dir", "my"]).expect_code(2).expect_one_line_of_stderr("exists");
}

#[test]
fn config_show_redacts_secrets() {
    let config = "[providers.own]\nbase_url = \"http://me:hunter22@h/v1\"\n\
        headers = { Authorization = \"Basic bWU6aHVudGVyMjI=\", X-Team = \"blue\" }\n";
    let test = Test::new().user_config(config);
    let shown = test.agent(&["config", "show"]).expect_code(0).stdout;
    assert!(!shown.contains("hunter22") && !shown.contains("bWU6"), "{shown}");
    assert!(shown.contains("blue"), "{shown}");
}

#[test]
fn session_list_shows_the_ending_after_a_long_answer() {
    let long: String = (0..40_000).map(|n| format!("{n} ")).collect();
    let test = Test::new().script(&format!("text: {long}"));
    test.run(&["task"]).expect_code(0);
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert!(list.contains("completed"), "{list}");
}

#[test]
fn unwritable_standard_output_exits_with_74() {
    let test = Test::new().script("text: ok");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        crate::support::say("SKIPPED: there is no /dev/full here");
        return;
    };
    let mut command = test.command(&["run", "task", "--model", "script:../script"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could not be written"));
}
