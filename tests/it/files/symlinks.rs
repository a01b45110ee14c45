//! Symlinks, FIFOs and devices in place of files that the agent itself reads and writes; and
//! sensitive files in a home that file tools do not access.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::batch::Batch;
use crate::support::{Done, Test};

const OUTSIDE: &str = "the user's own\n";
/// Far longer than reading a regular file takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Runs the binary to completion; fails if it does not end in time.
fn end_of(test: &Test, args: &[&str]) -> Done {
    let mut child = test.spawn(args);
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs: {args:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Done::new(&child.wait_with_output().unwrap())
}

fn call_in_time(test: &Test, name: &str, input: &Value) -> Value {
    let done = end_of(test, &["tool", "call", name, &input.to_string()]);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

#[test]
fn fifo_or_device_as_dot_git_does_not_block_commands() {
    let test = Test::new();
    fifo(&test.root().join("sub/.git"));
    fs::create_dir(test.root().join("other")).unwrap();
    symlink("/dev/zero", test.root().join("other/.git")).unwrap();
    let done = call_in_time(&test, "Bash", &json!({"command": "echo there"}));
    assert_eq!(done["data"]["stdout"], "there\n", "{done}");
}

#[test]
fn fifo_as_ignore_file_does_not_block_searches() {
    for name in [".gitignore", ".ignore", ".git/info/exclude", "sub/.gitignore", "git/commondir"] {
        let test = Test::new().file("a.txt", "needle\n").file("sub/b.txt", "x\n");
        fifo(&test.root().join(name));
        if name.starts_with("git/") {
            let git = test.root().join("git");
            test.write(".git", format!("gitdir: {}\n", git.display()));
        }
        for (tool, input) in [
            ("Glob", json!({"pattern": "*.txt"})),
            ("Grep", json!({"pattern": "needle"})),
            ("LS", json!({"path": "."})),
        ] {
            let envelope = call_in_time(&test, tool, &input);
            assert!(envelope["data"].to_string().contains("a.txt"), "{name}: {envelope}");
        }
    }
}

#[test]
fn fifo_as_config_file_is_refused() {
    let test = Test::new().script("text: ok");
    fifo(&test.root().join(".agent/config.toml"));
    let done = end_of(&test, &["run", "--model", "script:../script", "task"]);
    done.expect_code(2).expect_stderr("is not a regular file");
}

#[test]
fn file_tools_deny_credentials_and_startup_files_of_a_home() {
    let at_home = Test::new();
    let home = at_home.root();
    let beside = Test::new();
    let closed = [
        ".ssh/config",
        ".aws/config",
        ".config/agent/config.toml",
        ".local/state/agent/trusted",
        ".local/share/agent/x",
    ];
    for path in closed {
        at_home.write(path, "# needle\n");
    }
    at_home.write(".bashrc", "# needle\n");
    at_home.write("notes.txt", "needle\n");
    let at_home = at_home.env("HOME", home.to_str().unwrap());
    let beside = beside.env("HOME", home.to_str().unwrap());
    for (test, option) in [(&at_home, None), (&beside, Some(home.to_str().unwrap()))] {
        let mut args = vec!["tool", "batch"];
        args.extend(option.iter().flat_map(|folder| ["--add-dir", folder]));
        let mut batch = Batch::start(&mut test.command(&args));
        let at = |path: &str| home.join(path).display().to_string();
        for path in closed {
            let read = batch.call("Read", &json!({"path": at(path)}));
            assert_eq!(read["error"]["code"], "ACCESS_DENIED", "{path}: {read}");
            assert!(read["error"]["hint"].as_str().unwrap().contains("--add-dir"), "{read}");
        }
        for path in [
            ".ssh/authorized_keys",
            ".config/agent/AGENTS.md",
            ".zshrc",
            ".config/autostart/x.desktop",
        ] {
            let written = batch.call("Write", &json!({"path": at(path), "content": "x"}));
            assert_eq!(written["error"]["code"], "ACCESS_DENIED", "{path}: {written}");
            assert!(!home.join(path).exists());
        }
        assert_eq!(batch.call("Read", &json!({"path": at(".bashrc")}))["status"], "success");
        let edit = json!({"path": at(".bashrc"), "old_string": "needle", "new_string": "x"});
        let edited = batch.call("Edit", &edit);
        assert_eq!(edited["error"]["code"], "ACCESS_DENIED", "{edited}");
        let search = json!({"pattern": "needle", "path": at("."), "include_hidden": true, "include_ignored": true});
        let found = batch.call("Grep", &search).to_string();
        assert!(found.contains("notes.txt") && found.contains(".bashrc"), "{found}");
        assert!(!closed.iter().any(|path| found.contains(path)), "{found}");
        let written = batch.call("Write", &json!({"path": at("new.txt"), "content": "x"}));
        assert_eq!(written["status"], "success", "{written}");
        fs::remove_file(home.join("new.txt")).unwrap();
    }
    // An explicitly named directory is allowed.
    let folder = home.join(".aws");
    let mut batch = Batch::start(&mut beside.command(&[
        "tool",
        "batch",
        "--add-dir",
        folder.to_str().unwrap(),
    ]));
    let read = batch.call("Read", &json!({"path": folder.join("config")}));
    assert_eq!(read["status"], "success", "{read}");
}

#[test]
fn output_file_is_not_written_through_project_symlinks() {
    let test = Test::new().script("text: the answer");
    let target = test.home().join("target");
    fs::write(&target, OUTSIDE).unwrap();
    symlink(&target, test.root().join("answer.md")).unwrap();
    test.run(&["-o", "answer.md", "task"]).expect_code(2).expect_stderr("is a link");
    assert_eq!(fs::read_to_string(&target).unwrap(), OUTSIDE);
    symlink(test.home(), test.root().join("folder")).unwrap();
    test.run(&["-o", "folder/new.md", "task"]).expect_code(2).expect_stderr("is a link");
    assert!(!test.home().join("new.md").exists());
    test.run(&["-o", "new.md", "task"]).expect_code(0);
    test.run(&["-o", "new.md", "task"]).expect_code(0);
    assert_eq!(test.read("new.md").trim(), "the answer");
    // However the project is reached.
    let (way, root) = (test.home().join("way"), test.root());
    symlink(&root, &way).unwrap();
    let by_link = way.join("answer.md");
    let by_dots = root.join("../project/answer.md");
    for path in [&by_link, &by_dots] {
        let done = test.run(&["-o", path.to_str().unwrap(), "task"]);
        done.expect_code(2).expect_stderr("is a link");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), OUTSIDE);
    fifo(&root.join("fifo.md"));
    let done = end_of(&test, &["run", "-o", "fifo.md", "task", "--model", "script:../script"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    // An explicitly named path outside may be a symlink.
    let link = test.home().join("link");
    symlink(&target, &link).unwrap();
    test.run(&["-o", link.to_str().unwrap(), "task"]).expect_code(0);
    assert_eq!(fs::read_to_string(&target).unwrap().trim(), "the answer");
}

/// The path between two of the user's symlinks passes through the project: a symlink that a command
/// creates there is not followed.
#[test]
fn symlink_chain_through_the_project_is_not_followed() {
    let test = Test::new().script("text: ok");
    let elsewhere = test.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let by_way = test.home().join("out");
    symlink(test.root().join("build"), &by_way).unwrap();
    symlink(&elsewhere, test.root().join("build")).unwrap();
    let by_way = by_way.to_str().unwrap();
    let output = format!("{by_way}/last.txt");
    test.run(&["task", "-o", &output]).expect_code(2).expect_stderr("is a link");
    let test = test.env("TMPDIR", by_way);
    let kept = call_in_time(&test, "Bash", &json!({"command": "seq 100000"}));
    assert!(kept["data"]["full_output"].is_string(), "{kept}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn symlinked_project_config_is_not_trusted() {
    let config =
        "[sandbox]\nenabled = false\n[permissions]\nmode = \"full\"\ndeny = [\"Read(own)\"]\n";
    let test = Test::new().script("text: ok").file("cfg/config.toml", config).file("own", "own\n");
    fs::create_dir_all(test.root().join(".agent")).unwrap();
    symlink("../cfg/config.toml", test.root().join(".agent/config.toml")).unwrap();
    let done = test.run(&["--trust", "task"]).expect_code(0);
    let done = done.expect_stderr("ignored permissions.mode, sandbox because commands could write");
    assert!(!done.stderr.contains("agent trust"), "{done:?}");
    // Its restrictions still apply.
    let read = test.call("Read", &json!({"path": "own"}));
    assert_eq!(read["error"]["code"], "ACCESS_DENIED", "{read}");
}

/// A Python environment in the project is in the user's PATH.
#[test]
fn bash_is_not_taken_from_the_project() {
    let test = Test::new();
    let (bin, ran) = (test.root().join(".venv/bin"), test.home().join("ran"));
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("bash"), format!("#!/bin/sh\n: > {}\n", ran.display())).unwrap();
    fs::set_permissions(bin.join("bash"), Permissions::from_mode(0o755)).unwrap();
    symlink(&bin, test.home().join("bin")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let home = test.home();
    let path = format!("{}:{}/bin:{path}", bin.display(), home.display());
    let test = test.env("PATH", &path);
    for more in [&[][..], &["--set", "sandbox.enabled=false", "--permission-mode", "full"]] {
        let input = json!({"command": "echo $0"}).to_string();
        let done = test.agent(&[&["tool", "call", "Bash", &input], more].concat());
        let envelope: Value = serde_json::from_str(&done.stdout).unwrap();
        let stdout = envelope["data"]["stdout"].as_str().unwrap_or_else(|| panic!("{envelope}"));
        assert!(stdout.ends_with("/bash\n") && !stdout.contains("venv"), "{envelope}");
    }
    assert!(!ran.exists());
}

#[test]
fn project_replaced_by_a_symlink_in_an_added_directory_is_refused() {
    let test = Test::new().script("text: ok");
    let (above, elsewhere) = (test.home().join("above"), test.home().join("elsewhere"));
    fs::create_dir_all(above.join("project")).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let project = above.join("project");
    let (above, project) = (above.to_str().unwrap(), project.to_str().unwrap());
    let args = ["task", "-C", project, "--add-dir", above];
    test.run(&args).expect_code(0);
    fs::rename(project, test.home().join("away")).unwrap();
    symlink(&elsewhere, project).unwrap();
    test.run(&args).expect_code(2).expect_stderr("is a link that commands can change");
    test.run(&["task", "-C", project]).expect_code(0);
}

#[test]
fn project_directory_behind_a_project_symlink_is_refused() {
    let test = Test::new().script("text: ok").file("sub/a", "");
    let (root, elsewhere) = (test.root(), test.home().join("elsewhere"));
    fs::create_dir(root.join(".git")).unwrap();
    fs::create_dir_all(elsewhere.join("deep")).unwrap();
    symlink(&elsewhere, root.join("led")).unwrap();
    symlink("sub", root.join("inside")).unwrap();
    // Through a symlink of the user, and to a protected path.
    symlink(root.join("led"), test.home().join("short")).unwrap();
    let short = test.home().join("short/deep").display().to_string();
    fs::create_dir(root.join(".git/hooks")).unwrap();
    symlink("../.git/hooks", root.join("sub/hooks")).unwrap();
    let said = "is a link in";
    for folder in ["led", "led/deep", "./sub/../led", &short, "sub/hooks"] {
        test.run(&["task", "-C", folder]).expect_code(2).expect_stderr(said);
    }
    let from = |folder: &str| {
        let mut command = test.command(&["run", "--model", "script:/dev/null", "task"]);
        let way = root.join(folder);
        let done = command.current_dir(&way).env("PWD", &way).output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    assert!(from("led/deep").contains(said), "{}", from("led/deep"));
    // With nested projects, both contain paths in the outer one.
    fs::create_dir_all(root.join("app/.agent")).unwrap();
    symlink("../sub", root.join("app/lib")).unwrap();
    test.run(&["task", "-C", "app/lib"]).expect_code(0);
    // Accepted: its real name, and symlinks to the project itself.
    assert!(!from("inside").contains(said), "{}", from("inside"));
    let own = elsewhere.join("deep").display().to_string();
    for folder in ["inside", "sub/../sub", &own] {
        test.run(&["task", "-C", folder]).expect_code(0);
    }
    let way = test.home().join("way");
    symlink(&root, &way).unwrap();
    test.run(&["task", "-C", way.to_str().unwrap()]).expect_code(0);
}

#[test]
fn dash_c_works_if_the_current_directory_was_removed() {
    let test = Test::new().script("text: ok");
    let line = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run --model script:\"$1\"/../script -C \"$1\" task";
    let command = test.command(&[]);
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", line]).arg(command.get_program()).arg(test.root()).current_dir(test.root());
    bash.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = bash.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn output_file_is_kept_if_no_session_starts() {
    let test = Test::new().script("text: ok").file("out.txt", "of before, and longer\n");
    test.run(&["task", "-o", "out.txt", "--set", "sandbox.extra_writable=[\"nope\"]"])
        .expect_code(2);
    assert_eq!(test.read("out.txt"), "of before, and longer\n");
    test.run(&["task", "-o", "out.txt"]).expect_code(0);
    assert_eq!(test.read("out.txt"), "ok");
}

/// If the project is `/`, there is no bash outside of it.
#[test]
fn commands_run_if_the_project_is_the_root_directory() {
    let test = Test::new();
    let input = json!({"command": "echo ran"}).to_string();
    let args = ["tool", "call", "Bash", &input, "-C", "/", "--permission-mode", "full"];
    let done = test.agent(&args).expect_code(0);
    assert!(done.stdout.contains("\"stdout\":\"ran\\n\""), "{done:?}");
}

#[test]
fn log_cannot_grant_full_mode() {
    let test = Test::new().script("text: ok");
    test.run(&["--trust", "task"]).expect_code(0);
    let log = test.log();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("\"auto-edit\""), "{text}");
    fs::write(&log, text.replace("\"auto-edit\"", "\"full\"")).unwrap();
    let script = "call: Bash {\"command\":\"git push --force\"}\n---\ntext: ok";
    let test = test.script(script);
    test.run(&["--trust", "-c", "more"]);
    let decided = test.events_of("permission.decided");
    assert_eq!(decided.last().unwrap()["ruling"], "ask", "{decided:?}");
}
