//! The policy of the machine's administrator: what it requires is not overridden, what it sets as a default is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::support::server::{Server, json as answer, sse_text};
use crate::support::{Done, Pty, Test, say};

/// The directory is the administrator's in these tests: `AGENT_POLICY` adds a file of the user.
fn with_policy(text: &str) -> (Test, PathBuf) {
    let test = Test::new().file("a.txt", "one\n").script("text: ok");
    let path = test.home().join("policy.toml");
    fs::write(&path, text).unwrap();
    let name = path.to_str().unwrap().to_owned();
    (test.env("AGENT_POLICY", &name), path)
}

#[test]
fn requirement_is_overridden_by_no_other_layer() {
    let (test, path) =
        with_policy("[requirements]\nsandbox.enabled = true\nlimits.max_turns = 5\n");
    let path = path.display();
    let refused = |done: Done, by: &str, setting: &str, line: u32| {
        let text = format!("{by}: {setting}: the policy {path}:{line} requires ");
        done.expect_code(2).expect_stderr(&text);
    };
    let off = "sandbox.enabled = false";
    refused(test.run(&["x", "--set", "sandbox.enabled=false"]), "command line --set", off, 2);
    let many = "limits.max_turns = 6";
    refused(test.run(&["x", "--max-turns", "6"]), "command line --max-turns", many, 3);
    test.write(".agent/config.toml", "[sandbox]\nenabled = false\n");
    let by = format!("{}:2", test.root().join(".agent/config.toml").display());
    refused(test.run(&["x", "--trust"]), &by, off, 2);
    // What counts nowhere is no conflict.
    test.run(&["x"]).expect_code(0);
    fs::remove_dir_all(test.root().join(".agent")).unwrap();
    let test = test.user_config("sandbox.enabled = false\n");
    let by = format!("{}:1", test.home().join(".config/agent/config.toml").display());
    refused(test.run(&["x"]), &by, off, 2);
    // A limit may be lower.
    let test = test.user_config("limits.max_turns = 4\n");
    let shown = test.agent(&["config", "show"]).expect_code(0).stdout;
    assert!(shown.contains("limits.max_turns = 4 "), "{shown}");
    let test = test.user_config("");
    let shown = test.agent(&["config", "show"]).expect_code(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("limits.max_turns = 5")).unwrap();
    assert!(line.ends_with(&format!("# {path}:3")), "{line}");
}

#[test]
fn default_of_a_policy_gives_way_to_the_user() {
    let (test, path) = with_policy("[defaults]\nlimits.max_turns = 7\ncontext.keep_rounds = 9\n");
    let test = test.user_config("limits.max_turns = 8\n");
    let shown = test.agent(&["config", "show"]).expect_code(0).stdout;
    assert!(shown.contains("limits.max_turns = 8 "), "{shown}");
    let line = shown.lines().find(|line| line.starts_with("context.keep_rounds = 9")).unwrap();
    assert!(line.ends_with(&format!("# {}:3", path.display())), "{line}");
}

#[test]
fn mode_of_a_policy_is_the_most_permissive_one() {
    let (test, path) = with_policy("[requirements]\npermissions.mode = \"ask\"\n");
    let refusal = format!("the policy {}:2 ", path.display());
    test.run(&["x", "-y"]).expect_code(2).expect_stderr(&refusal);
    test.run(&["x", "--permission-mode", "auto-edit"]).expect_code(2).expect_stderr(&refusal);
    test.run(&["x", "--permission-mode", "plan"]).expect_code(0);
    let test = test.script("call: Write {\"path\": \"b.txt\", \"content\": \"b\"}\n---\ntext: ok");
    test.run(&["x"]).expect_code(77);
    assert!(!test.root().join("b.txt").exists());
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("ask · ");
    chat.say("/mode full");
    chat.wait_for("permits no mode above ask");
    chat.leave();
}

#[test]
fn rules_of_a_policy_outrank_those_of_the_user() {
    let policy = "[requirements]\npermissions.deny = [\"Read(a.txt)\"]\n\
                  permissions.ask = [\"Write(b.txt)\"]\n";
    let (test, _) = with_policy(policy);
    let test = test.script(
        "call: Read {\"path\": \"a.txt\"}\n\
         call: Write {\"path\": \"b.txt\", \"content\": \"b\"}\n---\ntext: ok",
    );
    test.run(&["x", "-y", "--allow", "Read(a.txt)", "--allow", "Write(b.txt)"]);
    let codes: Vec<_> = test.events_of("tool.finished");
    let codes: Vec<_> = codes.iter().map(|it| it["envelope"]["error"]["code"].clone()).collect();
    assert_eq!(codes, ["ACCESS_DENIED", "APPROVAL_REQUIRED"]);
}

#[test]
fn policy_limits_models_and_servers() {
    let server = Server::playing([sse_text("hello")]);
    let (test, path) = with_policy(
        "[allowed]\nmodels = [\"corp/*\"]\nhosts = [\"127.0.0.1\", \"*.corp.example\"]\n",
    );
    let policy = path.display();
    let test = test.env("OPENAI_API_KEY", "k").user_config(&format!(
        "[providers.corp]\nbase_url = \"{}\"\n[providers.corp2]\nbase_url = \"{0}\"\n",
        server.url()
    ));
    test.agent(&["run", "x", "-m", "corp2/m"])
        .expect_code(2)
        .expect_stderr(&format!("model corp2/m is not allowed: the policy {policy} allows corp/*"));
    // Not the first key that is found.
    test.agent(&["run", "x", "-m", "openai/gpt-5.5"]).expect_code(2).expect_stderr("not allowed");
    test.agent(&["run", "x", "-m", "corp/m", "--base-url", "http://elsewhere.example/v1"])
        .expect_code(2)
        .expect_stderr("host elsewhere.example is not allowed: ");
    test.agent(&["run", "x", "-m", "corp/m"]).expect_code(0).expect_stdout("hello\n");
}

#[test]
fn policy_that_others_can_change_or_that_is_wrong_stops_the_start() {
    let (test, path) = with_policy("[requirements]\nsandbox.enabled = true\n");
    let start = |text: &str| {
        let text = text.replace("PATH", &path.display().to_string());
        for args in [&["run", "x", "--model", "script:../script"][..], &["config", "show"]] {
            test.agent(args).expect_code(2).expect_stderr(&text);
        }
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    start("policy PATH: others can write it; run `chmod go-w` on it");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, "[requirements]\nsandbox.enable = true\n").unwrap();
    start("PATH:2: unknown key `enable`");
    fs::write(&path, "[requirement]\n").unwrap();
    start("PATH:1: unknown key `requirement`");
    fs::write(&path, "[requirements]\nlimits.max_turns = 0\n").unwrap();
    start("PATH:2: limits.max_turns: must be at least 1");
    fs::remove_file(&path).unwrap();
    start("policy PATH: it does not exist");
    fs::create_dir(&path).unwrap();
    start("policy PATH: ");
}

#[test]
fn required_sandbox_is_not_lost_to_a_folder_that_leaves_none() {
    let (test, path) = with_policy("[requirements]\nsandbox.enabled = true\n");
    let text = format!("the policy {}:2 requires it", path.display());
    test.run(&["x", "-y", "--add-dir", "/"]).expect_code(2).expect_stderr(&text);
}

#[test]
fn hosts_are_read_as_the_client_reads_them() {
    let (test, _) = with_policy("[allowed]\nhosts = [\"127.0.0.1\", \"*.corp.example\"]\n");
    let run = |url: &str| test.agent(&["run", "x", "-m", "m", "--base-url", url]);
    for url in [
        "http://127.0.0.2:8099\\@127.0.0.1/v1",
        "http:127.0.0.2:8099?x=http://a.corp.example/v1",
        "http:\\\\127.0.0.2:8099/x://127.0.0.1/v1",
        "http://127.0.0.2\\.corp.example/v1",
    ] {
        run(url).expect_code(2).expect_stderr("host 127.0.0.2 is not allowed");
    }
    // (There is no such server.)
    let done = run("http://A.CORP.example/v1");
    assert!(!done.stderr.contains("not allowed"), "{done:?}");
    let (test, path) = with_policy("[allowed]\nmodels = [\"corp/[\"]\n");
    let text = format!("policy {}: ", path.display());
    test.run(&["x"]).expect_code(2).expect_stderr(&text);
}

#[test]
fn allowed_models_leave_the_lists_of_models_alone() {
    let server = Server::with(|_, _| answer(200, &json!({"data": [{"id": "b"}, {"id": "a"}]})));
    let (test, _) = with_policy("[allowed]\nmodels = [\"corp/a\"]\n");
    let test = test.user_config(&format!("[providers.corp]\nbase_url = \"{}\"\n", server.url()));
    let listed = test.agent(&["models"]).expect_code(0).stdout;
    assert!(listed.contains("corp/a"), "{listed}");
}

/// The files at their usual places, in a mount namespace where the user is root.
#[test]
fn policy_of_the_machine_and_managed_settings_of_claude_code_count() {
    let (test, path) = with_policy("");
    fs::remove_file(path).unwrap();
    let etc = test.home().with_file_name("etc");
    for (file, text) in [
        (
            "agent/config.toml",
            "[requirements]\nsandbox.network = \"off\"\n\
             [telemetry]\nOTEL_SERVICE_NAME = \"ours\"\n",
        ),
        (
            "claude-code/managed-settings.json",
            r#"{"model": "a/b", "permissions": {"deny": ["Write(b.txt)", "mcp__github"],
               "disableBypassPermissionsMode": "disable"}, "cleanupPeriodDays": 3}"#,
        ),
    ] {
        let path = etc.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let run = |program: &OsStr, args: &[&OsStr]| {
        let line = "for d in passwd group ssl hosts; do [ ! -e /etc/$d ] || cp -r /etc/$d \"$0\"; done; \
                    mount --bind \"$0\" /etc && cd \"$PWD\" && exec \"$@\"; exit 99";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", line]).arg(&etc);
        command.arg(program).args(args);
        command.current_dir(test.root()).env("HOME", test.home()).env_remove("AGENT_POLICY");
        command.output().ok().map(|output| Done::new(&output)).filter(|done| done.code != Some(99))
    };
    let agent = |args: &[&str]| {
        let agent = test.command(args);
        run(agent.get_program(), &agent.get_args().collect::<Vec<_>>())
    };
    let agent_with = |script: &str| {
        let agent = test.command(&[]);
        run("sh".as_ref(), &["-c".as_ref(), script.as_ref(), agent.get_program()])
    };
    let Some(shown) = agent(&["config", "show"]).filter(|done| !done.stderr.contains("unshare"))
    else {
        return say("SKIPPED: the policy of the machine: no mount namespace is permitted here");
    };
    let shown = shown.expect_code(0).stdout;
    for line in [
        "model = \"a/b\"  ~# /etc/claude-code/managed-settings.json",
        "permissions.deny = [\"Write(b.txt)\", ~# /etc/claude-code/managed-settings.json",
        "sandbox.network = \"off\" ~# /etc/agent/config.toml:2",
    ] {
        let (setting, origin) = line.split_once('~').unwrap();
        let found = shown.lines().find(|it| it.starts_with(setting.trim_end())).unwrap();
        assert!(found.ends_with(origin), "{found}");
    }
    // A policy of the user gives way.
    let own = test.home().join("own.toml");
    fs::write(&own, "[requirements]\nsandbox.network = \"on\"\n").unwrap();
    let script = format!("AGENT_POLICY={} exec \"$0\" config show", own.display());
    let shown = agent_with(&script).unwrap().expect_code(0).stdout;
    assert!(shown.contains("sandbox.network = \"off\""), "{shown}");
    let full = agent(&["run", "x", "-y", "--model", "script:../script"]).unwrap();
    full.expect_code(2).expect_stderr("the policy /etc/claude-code/managed-settings.json requires");
}

#[test]
fn telemetry_of_a_policy_goes_where_it_says() {
    let server = Server::with(|_, _| answer(200, &json!({})));
    let address = server.url();
    let address = address.trim_end_matches("/v1");
    let (test, path) =
        with_policy(&format!("[telemetry]\nOTEL_EXPORTER_OTLP_ENDPOINT = \"{address}\"\n"));
    let elsewhere = "http://127.0.0.1:1";
    let test = test
        .env("OTEL_SDK_DISABLED", "true")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", elsewhere)
        .env("OTEL_TRACES_EXPORTER", "none");
    test.run(&["x"]).expect_code(0);
    let paths: Vec<String> = server.finish().into_iter().map(|it| it.path).collect();
    assert!(paths.contains(&"/v1/traces".to_owned()), "{paths:?}");
    let test = test.env("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere);
    let text = format!("environment OTEL_EXPORTER_OTLP_ENDPOINT: the policy {}:2", path.display());
    test.run(&["x"]).expect_code(2).expect_stderr(&text);
}
