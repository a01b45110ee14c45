//! Results of real commands as the model sees them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tools::WebAccess;
use agent_host::exec::Exec;
use agent_host::workspace::{ImageStore, SpillFolder, Workspace};
use agent_protocol::tool::CommandRights;

fn cx(dir: &TempDir) -> ToolCx {
    ToolCx {
        call_id: String::new(),
        workspace: Arc::new(Workspace::open(dir.path(), &[]).unwrap()),
        exec: Arc::new(Exec::new(&[])),
        spill: Arc::new(SpillFolder::temporary(&[])),
        images: Arc::new(ImageStore::in_memory()),
        takes_images: true,
        cancel: CancellationToken::new(),
        web: Arc::new(WebAccess::none()),
        is_host_named: false,
        secrets: Arc::default(),
        rights: CommandRights::default(),
        hidden_files: agent_permission::HiddenFiles::default(),
        output_watcher: None,
        inquirer: None,
        resolved_path: None,
        expected_snapshot: None,
        draft: None,
    }
}

fn input(input: Value) -> Object {
    let Value::Object(input) = input else { panic!("an object") };
    input
}

async fn call(dir: &TempDir, arguments: Value) -> Result<Report, Failure> {
    call_with(&cx(dir), arguments).await
}

async fn call_with(cx: &ToolCx, arguments: Value) -> Result<Report, Failure> {
    let input = input(arguments);
    let resolved_path = tool().target(&input, cx)?.resolved_path;
    tool().run(input, &ToolCx { resolved_path, ..cx.clone() }).await
}

async fn line(line: &str) -> Result<Report, Failure> {
    call(&TempDir::new().unwrap(), json!({"command": line})).await
}

#[tokio::test]
async fn exit_code_0_is_a_success() {
    let report = line("echo a; echo b >&2").await.unwrap();
    assert!(!report.partial);
    let expected = json!({
        "stdout": "a\n", "stderr": "b\n", "exit_code": 0, "signal": null, "stages": [],
        "truncated": false,
    });
    assert_eq!(Value::Object(report.data), expected);
    assert_eq!(line("true").await.unwrap().text, "Exited 0, without output.");
}

#[tokio::test]
async fn exit_code_1_that_is_an_answer_is_a_success() {
    for (command, text) in [
        ("echo a | grep b", "Exited 1: no lines selected."),
        ("echo a > a; echo b > b; cmp a b", "Exited 1: the inputs differ."),
        ("[ -f a ] && echo there", "Exited 1: false."),
        ("test -f b; test -f a", "Exited 1: false."),
    ] {
        let report = line(command).await.unwrap();
        assert_eq!((report.text.as_str(), report.partial), (text, false), "{command}");
        assert_eq!(report.data["exit_code"], 1);
    }
    let partial = line("false | grep b").await.unwrap();
    assert!(partial.partial && partial.text.starts_with("Exited 1: no lines selected, but stage"));
    for failing in
        ["[ -d / ] && false", "grep a nofile", "grep a < /dev/null || exit 1", "test -f a; false"]
    {
        assert_eq!(line(failing).await.unwrap_err().code, ErrorCode::CommandFailed, "{failing}");
    }
}

#[tokio::test]
async fn failed_inner_stage_makes_the_result_partial() {
    let report = line("grep x nofile | cat").await.unwrap();
    assert!(report.partial);
    assert!(report.text.contains("stage 1/2 `grep x nofile` exited 2"), "{}", report.text);
    assert_eq!(report.data["stages"][0], json!({"command": "grep x nofile", "exit_code": 2}));
    assert!(!line("yes | head -1").await.unwrap().partial);
    assert!(line("nosuch | cat").await.unwrap().text.contains("`nosuch` exited 127 (not found)"));
    let unnamed = line("for x in 1; do false | cat; done").await.unwrap();
    assert!(unnamed.text.contains("stage 1/2 exited 1"), "{}", unnamed.text);
}

#[tokio::test]
async fn stages_of_every_pipeline_are_reported() {
    let report = line("grep x nofile | cat; true | false | true && echo a | cat").await.unwrap();
    assert!(report.partial);
    for part in ["stage 1/2 `grep x nofile` exited 2", "stage 2/3 `false` exited 1"] {
        assert!(report.text.contains(part), "{}", report.text);
    }
    let stage = |command: &str, exit_code: i32| json!({"command": command, "exit_code": exit_code});
    let expected = json!([
        [stage("grep x nofile", 2), stage("cat", 0)],
        [stage("true", 0), stage("false", 1), stage("true", 0)],
        [stage("echo a", 0), stage("cat", 0)],
    ]);
    assert_eq!(report.data["pipelines"], expected);
    assert_eq!(report.data["stages"], expected[2]);
    // Pipelines that did not run are omitted, and the last command may not be a pipeline.
    let report = line("true | false && echo a | cat; echo b").await.unwrap();
    assert_eq!(report.data["pipelines"], json!([[stage("true", 0), stage("false", 1)]]));
    assert_eq!(report.data["stages"], json!([]));
    assert!(
        report.partial && report.text.contains("stage 2/2 `false` exited 1"),
        "{}",
        report.text
    );
    let failure = line("nosuch | cat; exit 4").await.unwrap_err();
    assert!(failure.message.contains("exited 4: stage 1/2 `nosuch` exited 127"), "{failure:?}");
    assert_eq!(line("true | cat").await.unwrap().data.get("pipelines"), None);
}

#[tokio::test]
async fn failed_parts_of_a_list_are_named() {
    for (command, text) in [
        ("false; echo a", "Exited 0, but `false` exited 1."),
        ("ls nowhere && echo a; echo b", "Exited 0, but `ls nowhere` exited 2."),
        ("nosuch\nfalse\ntrue", "Exited 0, but `nosuch` exited 127 (not found), `false` exited 1."),
        ("false; exit 0", "Exited 0, but `false` exited 1."),
        (
            "false | cat; wc $(ls -d .) 2>&1 | cat; true",
            "Exited 0, but stage 1/2 `false` exited 1, stage 1/2 `wc $(ls -d .) 2>&1` exited 1.",
        ),
        (
            "grep -q x $(echo nowhere /dev/null) 2>/dev/null; grep -q x $(echo /dev/null); true",
            "Exited 0, but `grep -q x $(echo nowhere /dev/null) 2>/dev/null` exited 2.",
        ),
        ("false || true", "Exited 0, without output."),
        ("false && true || true; true", "Exited 0, without output."),
        ("test -f nowhere; grep -q x nowhere 2>/dev/null || true", "Exited 0, without output."),
    ] {
        assert_eq!(line(command).await.unwrap().text, text, "{command}");
    }
    let failure = line("false; true && ls nowhere").await.unwrap_err();
    let parts = "exited 2: `false` exited 1, `ls nowhere` exited 2";
    assert!(failure.message.ends_with(parts), "{}", failure.message);
}

#[tokio::test]
async fn failed_command_keeps_its_output() {
    let failure = line("echo a; echo b >&2; exit 3").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::CommandFailed);
    assert_eq!(failure.message, "`echo a; echo b >&2; exit 3` exited 3");
    assert_eq!((&failure.data["stdout"], &failure.data["stderr"]), (&json!("a\n"), &json!("b\n")));
    let crash = line("bash -c 'kill -SEGV $$'").await.unwrap_err();
    assert!(crash.message.ends_with("exited 139 (SIGSEGV)"), "{}", crash.message);
    assert_eq!(crash.data["signal"], "SIGSEGV");
    let missing = line("nosuch-program x").await.unwrap_err();
    assert!(missing.hint.unwrap().starts_with("nosuch-program is not in PATH"));
    let several = line("grep x nofile | cat\n# then\nfalse").await.unwrap_err();
    assert!(several.message.contains("stage 1/2 `grep x nofile` exited 2"), "{several:?}");
    let failed = line("set -o pipefail; false | cat").await.unwrap_err();
    assert!(failed.message.ends_with("exited 1: stage 1/2 `false` exited 1"));
}

#[tokio::test]
async fn command_is_killed_at_its_timeout() {
    let dir = TempDir::new().unwrap();
    let arguments = json!({"command": "echo a; sleep 1000", "timeout_ms": 300});
    let failure = call(&dir, arguments).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Timeout);
    assert_eq!(failure.data["stdout"], "a\n");
    assert!(failure.message.contains("did not end within 0.3"), "{}", failure.message);
    assert!(failure.hint.unwrap().contains("timeout_ms"));

    let cx = cx(&dir);
    cx.cancel.cancel();
    let failure = call_with(&cx, json!({"command": "true"})).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Cancelled);
}

#[tokio::test]
async fn directory_argument_must_be_inside_the_project() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let run = |directory: &'static str| {
        call(&dir, json!({"command": "basename $PWD", "directory": directory}))
    };
    assert_eq!(run("sub").await.unwrap().data["stdout"], "sub\n");
    assert_eq!(run("nowhere").await.unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(run("file").await.unwrap_err().code, ErrorCode::NotADirectory);
    assert_eq!(run("/").await.unwrap_err().code, ErrorCode::AccessDenied);
    let effect = |arguments| {
        let target = tool().target(&input(arguments), &cx(&dir));
        target.map(|target| target.effect)
    };
    let expected = Effect::Command {
        command: "ls".into(),
        directory: "sub".into(),
        reads_only: true,
        programs: vec!["ls".into()],
        unproven: Vec::new(),
        background: false,
    };
    assert_eq!(effect(json!({"command": "ls", "directory": "sub"})), Ok(expected));
    let empty = effect(json!({"command": " \n"})).unwrap_err();
    assert_eq!(empty.code, ErrorCode::InvalidParam);
}

#[tokio::test]
async fn left_processes_and_truncation_are_noted() {
    let dir = TempDir::new().unwrap();
    let cx = cx(&dir);
    let arguments = json!({"command": "sleep 1000 >/dev/null 2>&1 & seq 100000"});
    let report = call_with(&cx, arguments).await.unwrap();
    assert!(report.text.contains(" (`sleep 1000`)."), "{}", report.text);
    assert!(report.text.contains("Output too large, cut: all of it is in "));
    assert_eq!(report.data["left_running"][0]["name"], "sleep 1000");
    assert_eq!(report.data["truncated"], true);
    assert!(report.data["full_output"].is_string());
    cx.exec.shutdown();
}

#[test]
fn tool_schema_rejects_additional_properties() {
    let tool = tool();
    assert_eq!(tool.spec().schema["additionalProperties"], false);
    assert_eq!(
        tool.spec().schema["properties"]["timeout_ms"]["default"],
        u64::try_from(DEFAULT_TIMEOUT.as_millis()).unwrap()
    );
}
